# SPDX-License-Identifier: Apache-2.0
"""Files as the container protocol has them: read, written, listed, moved, and what is refused in its words."""

import base64
import json

import pytest

ROUTES = {
    "/api/read": {"path"},
    "/api/read/stream": {"path"},
    "/api/write": {"path", "content"},
    "/api/delete": {"path"},
    "/api/rename": {"oldPath", "newPath"},
    "/api/move": {"sourcePath", "destinationPath"},
    "/api/mkdir": {"path"},
    "/api/list-files": {"path"},
    "/api/exists": {"path"},
}


# -- what every one of them refuses


@pytest.mark.parametrize("route", ROUTES)
def test_missing_and_mistyped_fields_are_named(shared, route):
    whole = {name: "/workspace/x" for name in ROUTES[route]}
    for name in ROUTES[route]:
        error = shared.invalid(route, {k: v for k, v in whole.items() if k != name}, name)
        assert error["context"]["validationErrors"][0]["code"] == "required"
        shared.invalid(route, {**whole, name: 7}, name)
        shared.invalid(route, {**whole, name: None}, name)
    shared.invalid(route, {**whole, "sessionId": 3}, "sessionId")
    for name in ROUTES[route] - {"content"}:
        shared.invalid(route, {**whole, name: ""}, name)
        shared.invalid(route, {**whole, name: "/" + "x" * 4097}, name)
        shared.invalid(route, {**whole, name: "a\0b"}, name)
    shared.invalid(route, "[]", "body")
    shared.invalid(route, "{", "body")


def test_what_is_not_known_is_passed_over(shared):
    shared.ok("/api/exists", {"path": "/workspace", "sessionId": "s", "origin": "user", "more": [1]})


# -- writing and reading


def test_text_and_bytes_round_trip(shared):
    text = 'quotes " \\ tabs \t, \u0001, é€😀 and\nlines\n'
    assert shared.ok("/api/write", {"path": "/workspace/a.txt", "content": text})["path"] == "/workspace/a.txt"
    read = shared.read("/workspace/a.txt")
    assert read["content"] == text and read["encoding"] == "utf-8" and read["isBinary"] is False
    assert read["mimeType"] == "text/plain" and read["size"] == len(text.encode()) and read["path"] == "/workspace/a.txt"
    data = bytes(range(256)) * 5
    shared.write("/workspace/a.bin", base64.b64encode(data).decode(), encoding="base64")
    read = shared.read("/workspace/a.bin")
    assert base64.b64decode(read["content"]) == data and read["encoding"] == "base64" and read["isBinary"] is True
    assert read["size"] == len(data)
    assert shared.read("/workspace/a.txt", encoding="base64")["content"] == base64.b64encode(text.encode()).decode()
    assert shared.read("/workspace/a.txt", encoding="utf8")["content"] == text
    assert shared.run("sha256sum < /workspace/a.bin") == shared.run("printf %s " + base64.b64encode(data).decode() + " | base64 -d | sha256sum")


@pytest.mark.parametrize(
    ("name", "content", "mime", "encoding"),
    [
        ("plain", b"just words", "text/plain", "utf-8"),
        ("empty", b"", "inode/x-empty", "utf-8"),
        ("data", b"a\0b", "application/octet-stream", "base64"),
        ("latin", "é".encode("latin-1"), "application/octet-stream", "base64"),
        ("picture", b"\x89PNG\r\n\x1a\n....", "image/png", "base64"),
        ("x.json", b'{"a": 1}', "application/json", "utf-8"),
        ("x.svg", b"<svg/>", "image/svg+xml", "utf-8"),
        ("x.py", b"print(1)", "text/plain", "utf-8"),
        ("x.PNG", b"not really", "image/png", "base64"),
        ("x.unknown", "wörter".encode(), "text/plain", "utf-8"),
        ("long", b"x" * 70000 + "é".encode(), "text/plain", "utf-8"),
    ],
)
def test_what_a_file_is_when_nobody_says(shared, name, content, mime, encoding):
    shared.write(f"/workspace/kinds/{name}", base64.b64encode(content).decode(), encoding="base64")
    read = shared.read(f"/workspace/kinds/{name}")
    assert (read["mimeType"], read["encoding"], read["isBinary"]) == (mime, encoding, encoding == "base64")
    assert read["content"] == (base64.b64encode(content).decode() if encoding == "base64" else content.decode())


def test_directories_above_a_file_are_made_and_modes_kept(shared):
    shared.write("/workspace/deep/er/x.sh", "#!/bin/sh\necho 1\n")
    shared.run("chmod 751 /workspace/deep/er/x.sh")
    shared.write("/workspace/deep/er/x.sh", "#!/bin/sh\necho 2\n")
    assert shared.run("stat -c %a /workspace/deep/er/x.sh; /workspace/deep/er/x.sh") == "751\n2\n"


def test_bad_content_is_refused_and_nothing_is_written(shared):
    for content in ("a", "####", "ab=c"):
        shared.invalid("/api/write", {"path": "/workspace/no", "content": content, "encoding": "base64"}, "content")
    shared.invalid("/api/write", {"path": "/workspace/no", "content": "x", "encoding": "latin1"}, "encoding")
    shared.invalid("/api/read", {"path": "/workspace/no", "encoding": "none"}, "encoding")
    assert shared.ok("/api/exists", {"path": "/workspace/no"})["exists"] is False


def test_large_files_come_whole(shared):
    """Beyond what comes in one message of the hand: told slice by slice, characters cut in two put together."""
    text = "aé€😀\n" * 40000
    shared.write("/workspace/large.txt", text)
    assert shared.read("/workspace/large.txt")["content"] == text
    shared.run("head -c 3000001 /dev/urandom > /workspace/large.bin")
    read = shared.read("/workspace/large.bin")
    data = base64.b64decode(read["content"], validate=True)
    assert len(data) == read["size"] == 3000001
    shared.write("/workspace/copy.bin", read["content"], encoding="base64")
    shared.run("cmp /workspace/large.bin /workspace/copy.bin")


def test_too_large_for_a_string(shared):
    shared.run("truncate -s 256M /workspace/huge; truncate -s +1 /workspace/huge")
    error = shared.fail(
        "/api/read",
        {"path": "huge"},
        413,
        "FILE_TOO_LARGE",
        path="huge",
        operation="file.read",
        maxSize=256 << 20,
        actualSize=(256 << 20) + 1,
    )
    assert "stream" in error["message"]
    shared.run("rm /workspace/huge")


def test_a_text_as_a_stream(shared):
    text = "aé€😀\n" * 40000
    shared.write("/workspace/large.txt", text)
    with shared.stream("/api/read/stream", {"path": "/workspace/large.txt"}) as events:
        events = list(events)
    size = len(text.encode())
    assert {k: events[0][k] for k in ("type", "mimeType", "size", "isBinary", "encoding")} == {
        "type": "metadata",
        "mimeType": "text/plain",
        "size": size,
        "isBinary": False,
        "encoding": "utf-8",
    }
    assert {e["type"] for e in events[1:-1]} == {"chunk"} and len(events) == 2 + -(-size // 65535)
    assert "".join(e["data"] for e in events[1:-1]) == text
    assert events[-1]["type"] == "complete" and events[-1]["bytesRead"] == size


def test_bytes_as_a_stream(shared):
    shared.run("head -c 200000 /dev/urandom > /workspace/b; sha256sum < /workspace/b > /workspace/b.sum; printf x > /workspace/one")
    with shared.stream("/api/read/stream", {"path": "b"}) as events:
        events = list(events)
    chunks = [base64.b64decode(e["data"], validate=True) for e in events[1:-1]]
    assert [len(c) for c in chunks] == [65535, 65535, 65535, 200000 - 3 * 65535]
    assert events[0]["isBinary"] and events[0]["encoding"] == "base64" and events[-1]["bytesRead"] == 200000
    shared.write("/workspace/b2", base64.b64encode(b"".join(chunks)).decode(), encoding="base64")
    shared.run("cmp /workspace/b /workspace/b2")
    with shared.stream("/api/read/stream", {"path": "one"}) as events:
        assert [e["type"] for e in events] == ["metadata", "chunk", "complete"]
    shared.run(": > /workspace/none")
    with shared.stream("/api/read/stream", {"path": "none"}) as events:
        assert [e["type"] for e in events] == ["metadata", "complete"]


def test_what_cannot_be_streamed_is_an_event(shared):
    for path in ("/workspace/nothing-here", "/workspace", "/dev/null"):
        with shared.stream("/api/read/stream", {"path": path}) as events:
            events = list(events)
        assert [e["type"] for e in events] == ["error"] and events[0]["error"], events


def test_a_file_cut_short_is_never_complete(box):
    """It shrinks while it is read by one who does not take it: the object is not ended, the stream says so."""
    for route, kind in (("/api/read/stream", "stream"), ("/api/read", "object")):
        box.run("head -c 60000000 /dev/zero > /workspace/z.bin")
        connection = box.api.connect()
        headers, body = box.api.head(None, {"path": "z.bin"})
        connection.request("POST", box.base + route, body=body, headers=headers)
        response = connection.getresponse()
        first = response.read(1000)
        box.run("truncate -s 1000 /workspace/z.bin")
        if kind == "stream":
            rest = (first + response.read()).decode()
            last = json.loads(rest.rstrip().rpartition("data: ")[2])
            assert last["type"] == "error" and '"complete"' not in rest[-2000:]
        else:
            with pytest.raises(Exception) as cut:
                response.read()
            assert "IncompleteRead" in str(cut.type) or "Connection" in str(cut.type), cut
        connection.close()


def test_a_reader_who_leaves(box):
    box.run("head -c 60000000 /dev/zero > /workspace/z.bin")
    for route in ("/api/read/stream", "/api/read"):
        connection = box.api.connect()
        headers, body = box.api.head(None, {"path": "z.bin"})
        connection.request("POST", box.base + route, body=body, headers=headers)
        connection.getresponse().read(1000)
        connection.close()
    assert box.read("z.bin")["size"] == 60000000


# -- what is refused


def test_each_failure_has_its_code(shared):
    shared.write("/workspace/f", "x")
    shared.ok("/api/mkdir", {"path": "/workspace/d", "recursive": True})
    shared.fail("/api/read", {"path": "/workspace/gone"}, 404, "FILE_NOT_FOUND", path="/workspace/gone", operation="file.read")
    shared.fail("/api/read", {"path": "/workspace/d"}, 400, "IS_DIRECTORY", path="/workspace/d")
    shared.fail("/api/read", {"path": "/workspace/f/x"}, 400, "NOT_DIRECTORY")
    shared.fail("/api/read", {"path": "/dev/null"}, 500, "FILESYSTEM_ERROR")
    shared.fail("/api/read", {"path": "/workspace/" + "n" * 300}, 400, "NAME_TOO_LONG")
    shared.fail("/api/write", {"path": "/workspace/d", "content": ""}, 400, "IS_DIRECTORY", operation="file.write")
    shared.fail("/api/write", {"path": "/proc/version", "content": ""}, 403, "PERMISSION_DENIED", path="/proc/version")
    shared.fail("/api/delete", {"path": "/workspace/gone"}, 404, "FILE_NOT_FOUND", operation="file.delete")
    shared.fail("/api/delete", {"path": "/workspace/d"}, 400, "IS_DIRECTORY", path="/workspace/d")
    shared.fail("/api/mkdir", {"path": "/workspace/d"}, 409, "FILE_EXISTS", operation="directory.create")
    shared.fail("/api/mkdir", {"path": "/workspace/f", "recursive": True}, 409, "FILE_EXISTS")
    shared.fail("/api/mkdir", {"path": "/workspace/no/such"}, 404, "FILE_NOT_FOUND")
    shared.fail("/api/list-files", {"path": "/workspace/f"}, 400, "NOT_DIRECTORY", operation="directory.list")
    shared.fail("/api/list-files", {"path": "/workspace/gone"}, 404, "FILE_NOT_FOUND")
    shared.fail("/api/rename", {"oldPath": "/workspace/gone", "newPath": "/workspace/x"}, 404, "FILE_NOT_FOUND", operation="file.rename")
    shared.fail("/api/move", {"sourcePath": "/workspace/f", "destinationPath": "/workspace/no/x"}, 404, "FILE_NOT_FOUND")
    assert shared.ok("/api/exists", {"path": "/workspace/f"})["exists"]


def test_a_full_disk(box):
    box.api.ok("PATCH", f"/sandbox/{box.box}", {"disk": "64m"})
    box.run("head -c 100m /dev/zero > /workspace/all 2>/dev/null; true")
    error = box.fail("/api/write", {"path": "/workspace/more", "content": "x" * 2000000}, 500, "NO_SPACE", operation="file.write")
    assert error["context"]["path"] == "/workspace/more"
    assert not box.ok("/api/exists", {"path": "/workspace/more"})["exists"]


def test_a_link_is_removed_and_not_what_it_leads_to(shared):
    shared.run("mkdir -p /workspace/ld; touch /workspace/ld/x; ln -sfn ld /workspace/link; ln -sfn nowhere /workspace/dangling")
    assert shared.ok("/api/exists", {"path": "/workspace/link"})["exists"]
    assert not shared.ok("/api/exists", {"path": "/workspace/dangling"})["exists"]
    shared.ok("/api/delete", {"path": "/workspace/link"})
    shared.ok("/api/delete", {"path": "/workspace/dangling"})
    assert shared.run("ls /workspace/ld; test -L /workspace/link || echo gone") == "x\ngone\n"


# -- the rest


def test_rename_and_move_as_mv_does(shared):
    shared.run("mkdir -p /workspace/mv/d; cd /workspace/mv; echo 1 > a; echo 2 > b")
    moved = shared.ok("/api/rename", {"oldPath": "/workspace/mv/a", "newPath": "/workspace/mv/b"})
    assert moved["path"] == "/workspace/mv/a" and moved["newPath"] == "/workspace/mv/b"
    shared.ok("/api/move", {"sourcePath": "/workspace/mv/b", "destinationPath": "/workspace/mv/d"})
    assert shared.run("cd /workspace/mv; ls; cat d/b") == "d\n1\n"
    shared.ok("/api/move", {"sourcePath": "/workspace/mv/d", "destinationPath": "/tmp/mv-d"})  # perhaps another file system
    assert shared.run("cat /tmp/mv-d/b; ls /workspace/mv") == "1\n"


def test_mkdir(shared):
    made = shared.ok("/api/mkdir", {"path": "/workspace/m", "recursive": False})
    assert made["path"] == "/workspace/m" and made["recursive"] is False
    assert shared.ok("/api/mkdir", {"path": "/workspace/m/a/b", "recursive": True})["recursive"] is True
    shared.ok("/api/mkdir", {"path": "/workspace/m/a/b", "recursive": True})
    shared.invalid("/api/mkdir", {"path": "/workspace/m", "recursive": "yes"}, "recursive")


def test_lists(box):
    box.run(
        "mkdir -p /workspace/l/sub/.hid; cd /workspace/l; printf 12345 > b.txt; chmod 640 b.txt; touch .dot sub/in sub/.hid/deep;"
        "ln -s b.txt link; mkfifo pipe; chmod 000 pipe; touch -d 2020-02-03T04:05:06Z b.txt; chmod 755 sub"
    )
    answer = box.ok("/api/list-files", {"path": "l", "options": {}})
    assert answer["path"] == "l" and answer["count"] == len(answer["files"]) == 4
    by_name = {f["name"]: f for f in answer["files"]}
    assert {n: f["type"] for n, f in by_name.items()} == {"b.txt": "file", "sub": "directory", "link": "symlink", "pipe": "other"}
    assert by_name["b.txt"] == {
        "name": "b.txt",
        "absolutePath": "/workspace/l/b.txt",
        "relativePath": "b.txt",
        "type": "file",
        "size": 5,
        "modifiedAt": "2020-02-03T04:05:06.000Z",
        "mode": "rw-r-----",
        "permissions": {"readable": True, "writable": True, "executable": False},
    }
    assert by_name["sub"]["mode"] == "rwxr-xr-x" and by_name["sub"]["permissions"]["executable"] is True
    assert by_name["pipe"]["mode"] == "---------" and not any(by_name["pipe"]["permissions"].values())

    def paths(**options):
        return [f["relativePath"] for f in box.ok("/api/list-files", {"path": "/workspace/l/", "options": options})["files"]]

    assert paths(recursive=True) == ["b.txt", "link", "pipe", "sub", "sub/in"]
    assert paths(includeHidden=True) == [".dot", "b.txt", "link", "pipe", "sub"]
    assert paths(recursive=True, includeHidden=True) == [".dot", "b.txt", "link", "pipe", "sub", "sub/.hid", "sub/.hid/deep", "sub/in"]
    box.invalid("/api/list-files", {"path": "l", "options": {"recursive": 1}}, "options.recursive")
    box.invalid("/api/list-files", {"path": "l", "options": []}, "options")
    assert box.ok("/api/list-files", {"path": "l"})["count"] == 4


def test_many_in_one_list(box):
    box.run("mkdir /workspace/many; cd /workspace/many; seq -f 'file-%06g' 20000 | xargs touch")
    answer = box.ok("/api/list-files", {"path": "many"})
    assert answer["count"] == 20000 and answer["files"][-1]["name"] == "file-020000"


# -- where a relative path leads


def test_relative_paths_follow_the_session(api, box):
    for session, cwd in (("default", "/workspace/in/default"), ("other", "/tmp")):
        api.exec(box.box, f"mkdir -p {cwd}")
        api.ok("POST", f"/sandbox/{box.box}/sessions", {"id": session})
        api.exec(box.box, {"command": f"cd {cwd}", "session": session})
    box.write("here", "1")
    box.write("../up/./x//y", "2")
    box.write("here", "3", sessionId="other")
    box.write("here", "4", sessionId="__DISABLE_SESSION__")
    box.write("here2", "5", sessionId="never-seen")
    assert box.run("cat /workspace/in/default/here /workspace/in/up/x/y /tmp/here /workspace/here /workspace/here2") == "12345"
    assert box.read("here")["content"] == "1" and box.read("here", sessionId="other")["content"] == "3"
    box.write("../../../../../../../tmp/../tmp/far", "6")
    assert box.read("/tmp/far")["content"] == "6"
    assert box.ok("/api/list-files", {"path": "."})["files"][0]["absolutePath"] == "/workspace/in/default/here"


def test_files_do_not_wait_for_a_command(api, box):
    api.ok("POST", f"/sandbox/{box.box}/sessions", {"id": "default"})
    api.exec(box.box, {"command": "mkdir -p /workspace/w; cd /workspace/w; mkfifo hold", "session": "default"})
    connection = api.connect()
    headers, body = api.head(None, {"command": "cat hold", "session": "default"})
    connection.request("POST", f"/sandbox/{box.box}/exec", body=body, headers=headers)
    box.write("meanwhile", "x")
    assert box.read("meanwhile")["content"] == "x"
    assert [f["name"] for f in box.ok("/api/list-files", {"path": "."})["files"]] == ["hold", "meanwhile"]
    box.run("echo done > /workspace/w/hold")  # only now does the command end
    assert b"done" in connection.getresponse().read()
    connection.close()


def test_a_sandbox_is_made_on_first_sight(new):
    assert new.ok("/api/exists", {"path": "/workspace"})["exists"] is True


STOPPED = """
import glob, os, signal
for stat in (open(p).read().split() for p in glob.glob("/proc/[0-9]*/stat")):
    if stat[1] == "(cay)" and stat[3] == "1":
        os.kill(int(stat[0]), signal.SIGSTOP)
"""


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/api/read", {"path": "x"}),
        ("/api/read/stream", {"path": "x"}),
        ("/api/write", {"path": "x", "content": "y"}),
        ("/api/mkdir", {"path": "y", "recursive": False}),
        ("/api/delete", {"path": "x"}),  # gone while it was looked at
        ("/api/list-files", {"path": "."}),
        ("/api/watch/check", {"path": "."}),
    ],
)
def test_a_box_that_goes_away(box, route, body):
    """What works on its files stands still, and then the box is gone."""
    box.write("x", "1")
    assert box.api.exec(box.box, {"argv": ["python3", "-c", STOPPED]})["success"]
    connection = box.api.connect()
    headers, text = box.api.head(None, body)
    connection.request("POST", box.base + route, body=text, headers=headers)
    box.api.ok("POST", f"/sandbox/{box.box}/sleep")
    response = connection.getresponse()
    error = json.loads(response.read())
    if route == "/api/mkdir":  # done again it would fail, whatever became of this one
        assert response.status == 409 and error["code"] == "OPERATION_INTERRUPTED", error
        context = {"operation": "directory.create", "phase": "running", "admitted": "unknown", "retryable": False}
        assert error["context"] == {"reason": "runtime_replaced", **context}
    else:
        assert response.status == 503 and error["code"] == "CONTAINER_UNAVAILABLE", error
        assert error["context"]["retryable"] is True and error["context"]["reason"], error
    connection.close()
    assert box.read("x")["content"] == "1"
