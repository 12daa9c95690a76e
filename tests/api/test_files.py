# SPDX-License-Identifier: Apache-2.0
"""Files over HTTP: bytes in and out, conditions, ranges, listings, and what is done to files by POST."""

import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import signal
import socket
import time

import pytest
from api_helpers import PATIENCE, Client, at_once, eventually

BIG = 40 * 1024 * 1024  # far more than any buffer on the way
SIZES = [0, 1, 32 * 1024, 32 * 1024 + 1, 48 * 1024, 48 * 1024 + 1, 256 * 1024, 256 * 1024 + 1, 3_000_001]


def blob(n, seed=b"x"):
    """n bytes that repeat nowhere."""
    return hashlib.shake_256(seed).digest(n)


@pytest.fixture
def files(api, box):
    return Files(api, box)


class Files:
    def __init__(self, api, box):
        self.api, self.box = api, box

    def url(self, path, query=""):
        return f"/sandbox/{self.box}/files{path}{query}"

    def put(self, path, data, query="", headers=None):
        return self.api("PUT", self.url(path, query), data, headers)

    def get(self, path, query="", headers=None):
        return self.api("GET", self.url(path, query), None, headers)

    def write(self, path, data, query=""):
        reply = self.put(path, data, query)
        assert reply.status in (200, 201), reply
        return reply.json

    def read(self, path):
        reply = self.get(path)
        assert reply.status == 200, reply
        return reply.body

    def stat(self, path):
        return self.api.ok("GET", self.url(path, "?stat"))

    def do(self, what, body):
        return self.api("POST", f"/sandbox/{self.box}/files:{what}", body)

    def done(self, what, body):
        reply = self.do(what, body)
        assert reply.status == 200 and reply.json["success"] is True, reply
        return reply.json

    def sh(self, command):
        result = self.api.exec(self.box, command)
        assert result["success"], result
        return result["stdout"]

    def names(self, path, query="?list"):
        return [e["name"] for e in self.api.ok("GET", self.url(path, query))["entries"]]


# -- bytes


@pytest.mark.parametrize("n", SIZES)
def test_in_and_out(files, n):
    data = blob(n)
    reply = files.put("/w/f", data)
    assert reply.status == 201
    assert reply.json == {"success": True, "path": "/w/f", "size": n, "etag": reply.headers["ETag"], "created": True}
    again = files.put("/w/f", data)
    assert again.status == 200 and again.json["created"] is False
    got = files.get("/w/f")
    assert got.body == data
    assert got.headers["Content-Length"] == str(n)
    assert got.headers["ETag"] == again.headers["ETag"]
    head = files.api("HEAD", files.url("/w/f"))
    assert head.status == 200 and head.body == b""
    for name in ("Content-Length", "ETag", "Last-Modified", "Content-Type", "Accept-Ranges"):
        assert head.headers[name] == got.headers[name]
    assert files.sh("sha256sum < /w/f").split()[0] == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("n", SIZES)
def test_chunked(files, n):
    data = blob(n)
    pieces = [data[i : i + 70_001] for i in range(0, n, 70_001)]
    reply = files.put("/f", iter(pieces))  # http.client sends chunks
    assert reply.status == 201 and reply.json["size"] == n
    assert files.read("/f") == data


def test_headers_of_a_strangers_file(files):
    files.write("/x.html", b"<script>alert(1)</script>")
    files.write("/big.html", b"<script>" + blob(100_000))
    for path in ("/x.html", "/big.html"):
        reply = files.get(path)
        assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Content-Security-Policy"] == "sandbox"
        assert "Content-Disposition" not in reply.headers
    files.write("/x.unknown", b"x")
    assert files.get("/x.unknown").headers["Content-Type"] == "application/octet-stream"


def test_odd_names(files):
    for name in ("a b", "ä", "a+b", "a%b", "a?b", "a#b", "a&b=c", "'\"", "\\..\\x", "...", "-n", "\t", "日本"):
        quoted = "".join(f"%{b:02x}" for b in name.encode())
        files.write(f"/odd/{quoted}", name.encode())
        assert files.read(f"/odd/{quoted}") == name.encode()
        assert files.stat(f"/odd/{quoted}")["name"] == name


def test_deep(files):
    path = "/deep" + "/d" * 200
    files.write(path, b"x")
    assert files.read(path) == b"x"
    assert files.stat(path)["path"] == path


def test_keep_alive(api, files):
    """One connection for all of it: small and large, up and down, and errors among them."""
    data = blob(BIG // 8)
    connection = api.connect()
    headers, _ = api.head({}, None)

    def ask(method, path, body=None, more=None):
        connection.request(method, files.url(path), body=body, headers={**headers, **(more or {})})
        reply = connection.getresponse()
        return reply.status, reply.read()

    connection.connect()
    first = connection.sock
    for _ in range(3):
        assert ask("PUT", "/big", data)[0] in (200, 201)
        assert ask("GET", "/big") == (200, data)
        assert ask("HEAD", "/big") == (200, b"")
        assert ask("GET", "/nope")[0] == 404
        assert ask("PUT", "/small", b"x")[0] in (200, 201)
        assert ask("GET", "/big", more={"Range": "bytes=5-9"}) == (206, data[5:10])
        assert ask("GET", "/small") == (200, b"x")
        assert connection.sock is first
    connection.close()


def test_expect_continue(api, files):
    data = blob(1_000_000)
    sock = socket.create_connection(("127.0.0.1", api.server.port), PATIENCE)
    head = f"PUT {files.url('/f')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n"
    sock.sendall(f"{head}Content-Length: {len(data)}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert sock.recv(100).startswith(b"HTTP/1.1 100 ")
    sock.sendall(data)
    assert sock.recv(100).startswith(b"HTTP/1.1 201 ")
    sock.close()
    assert files.read("/f") == data


def test_large_and_cold(files):
    data = blob(BIG)
    files.write("/big", data)
    assert hashlib.sha256(files.read("/big")).digest() == hashlib.sha256(data).digest()


def test_many_at_once(files):
    data = [blob(2_000_000, bytes([i])) for i in range(16)]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert set(pool.map(lambda i: files.put(f"/m/{i}", data[i]).status, range(16))) == {201}
        assert list(pool.map(lambda i: files.read(f"/m/{i}"), range(16))) == data


def test_never_waits_behind_an_exec(api, files):
    process = api.start(files.box, {"command": "while :; do :; done"})
    files.write("/f", b"x")
    assert files.read("/f") == b"x"
    api("DELETE", f"/sandbox/{files.box}/processes/{process}")


def test_wakes(api, files):
    files.write("/f", b"kept")
    api.ok("POST", f"/sandbox/{files.box}/sleep")
    assert files.read("/f") == b"kept"
    assert api.ok("GET", f"/sandbox/{files.box}")["status"] == "running"


# -- ranges and conditions


@pytest.mark.parametrize("n", [1000, 100_000, 3_000_000])
def test_ranges(files, n):
    data = blob(n)
    files.write("/f", data)

    def part(spec, **more):
        return files.get("/f", headers={"Range": spec, **more})

    for spec, want in {
        "bytes=0-0": data[:1],
        "bytes=10-19": data[10:20],
        f"bytes={n - 5}-": data[-5:],
        "bytes=-7": data[-7:],
        f"bytes=-{n * 2}": data,
        f"bytes=5-{n * 2}": data[5:],
    }.items():
        reply = part(spec)
        assert reply.status == 206 and reply.body == want, spec
        first = data.index(want)
        assert reply.headers["Content-Range"] == f"bytes {first}-{first + len(want) - 1}/{n}"
    for spec in ("bytes=0-1,5-6", "lines=1-2", "bytes=9-3", "bytes=x-"):
        reply = part(spec)
        assert reply.status == 200 and reply.body == data and "Content-Range" not in reply.headers
    for spec in (f"bytes={n}-", "bytes=-0", "bytes=99999999999999999999-"):
        reply = part(spec)
        reply.error(416, "RANGE_NOT_SATISFIABLE")
        assert reply.headers["Content-Range"] == f"bytes */{n}"
    etag = files.get("/f").headers["ETag"]
    assert part("bytes=1-2", **{"If-Range": etag}).status == 206
    assert part("bytes=1-2", **{"If-Range": '"other"'}).body == data
    assert part("bytes=1-2", **{"If-Range": "Sat, 29 Oct 2094 19:43:31 GMT"}).status == 200


@pytest.mark.parametrize("n", [10, 100_000])
def test_conditional_get(files, n):
    files.write("/f", blob(n))
    etag = files.get("/f").headers["ETag"]
    reply = files.get("/f", headers={"If-None-Match": etag})
    assert (reply.status, reply.body, reply.headers["ETag"]) == (304, b"", etag)
    assert files.get("/f", headers={"If-None-Match": f'"a", W/{etag}'}).status == 304
    assert files.get("/f", headers={"If-None-Match": '"a"'}).status == 200
    assert files.get("/f", headers={"If-Match": etag}).status == 200
    files.get("/f", headers={"If-Match": '"a"'}).error(412, "PRECONDITION_FAILED")
    files.write("/f", blob(n, b"y"))
    assert files.get("/f", headers={"If-None-Match": etag}).status == 200
    assert files.get("/f").headers["ETag"] != etag


def test_the_tag_changes_with_the_content(files):
    seen = set()
    for i in range(20):
        files.sh(f"printf {i % 10} > /f")  # same length, at once
        seen.add(files.stat("/f")["etag"])
    assert len(seen) == 20


@pytest.mark.parametrize("n", [10, 100_000, 1_000_000])
def test_conditional_put(files, n):
    data = blob(n)
    files.put("/f", data, headers={"If-Match": "*"}).error(412, "PRECONDITION_FAILED")
    files.put("/f", data, headers={"If-Match": '"a"'}).error(412, "PRECONDITION_FAILED")
    assert files.put("/f", data, headers={"If-None-Match": "*"}).status == 201
    files.put("/f", b"z" * n, headers={"If-None-Match": "*"}).error(412, "PRECONDITION_FAILED")
    etag = files.get("/f").headers["ETag"]
    assert files.put("/f", b"1" * n, headers={"If-Match": etag}).status == 200
    files.put("/f", b"2" * n, headers={"If-Match": etag}).error(412, "PRECONDITION_FAILED")
    assert files.read("/f") == b"1" * n
    for name, value in {"If-None-Match": '"a"', "If-Match": '"a", "b"'}.items():
        files.put("/f", b"3", headers={name: value}).error(400, "INVALID_REQUEST", name)


def test_if_match_lets_one_of_many_win(files):
    for size in (10, 400_000):
        files.write("/f", b"0")
        etag = files.get("/f").headers["ETag"]
        jobs = [lambda i=i: files.put("/f", bytes([65 + i]) * size, headers={"If-Match": etag}).status for i in range(8)]
        assert sorted(at_once(*jobs)) == [200] + [412] * 7


# -- putting


def test_modes(files):
    files.write("/a", b"")
    assert files.stat("/a")["mode"] == "0644"
    files.write("/b", b"", "?mode=0750")
    assert files.stat("/b")["mode"] == "0750"
    files.sh("chmod 0601 /a; chown 1000:1001 /a")
    for data in (b"small", blob(100_000), blob(400_000)):
        files.write("/a", data)
        stat = files.stat("/a")
        assert (stat["mode"], stat["uid"], stat["gid"]) == ("0601", 1000, 1001)  # kept
    for mode in ("4755", "2755", "1777", "01777", "8", "rwx", "", "-1"):
        files.put("/c", b"", f"?mode={mode}").error(400, "INVALID_REQUEST", "mode")
    assert files.get("/c").status == 404


def test_parents(files):
    files.put("/p/q/r", b"", "?parents=0").error(404, "NOT_FOUND")
    files.write("/p/q/r", b"x")
    files.put("/p/q/r/s", b"").error(400, "NOT_DIRECTORY")
    files.put("/p/q", b"x").error(400, "IS_DIRECTORY")
    files.put("/p/q", blob(400_000)).error(400, "IS_DIRECTORY")
    assert files.read("/p/q/r") == b"x"


def test_what_is_not_taken(files):
    for encoding in ("gzip", "br", "identity, gzip"):
        for data in (b"x", blob(400_000)):
            files.put("/f", data, headers={"Content-Encoding": encoding}).error(415, "UNSUPPORTED_MEDIA_TYPE")
    assert files.put("/f", b"x", headers={"Content-Encoding": "identity"}).status == 201
    files.put("/f", b"x", headers={"Content-Range": "bytes 0-0/1"}).error(400, "INVALID_REQUEST")
    files.put("/f", b"x", "?color=red").error(400, "INVALID_REQUEST", "color")


def raw_put(api, files, path, length, sent):
    sock = socket.create_connection(("127.0.0.1", api.server.port), PATIENCE)
    head = f"PUT {files.url(path)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n"
    sock.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + sent)
    return sock


def test_a_client_that_leaves_changes_nothing(api, files):
    files.write("/f", b"before")
    for length in (1000, 300_000, 5_000_000):
        for _ in range(3):
            sock = raw_put(api, files, "/f", length, b"x" * (length // 2))
            time.sleep(0.05)
            sock.close()
    eventually(lambda: files.read("/f") == b"before")
    assert files.sh("ls -A / | grep -c cay- || true").strip() == "0"
    for _ in range(300):  # no draft stays behind: there is room for 256
        raw_put(api, files, "/g", 400_000, b"x").close()
    eventually(lambda: files.put("/f", blob(400_000)).status == 200)


def test_bad_chunks(api, files):
    sock = socket.create_connection(("127.0.0.1", api.server.port), PATIENCE)
    head = f"PUT {files.url('/f')} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n"
    sock.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n".encode())
    answer = sock.recv(4096)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"INVALID_REQUEST" in answer
    assert files.get("/f").status == 404


def test_a_full_disk(api):
    name = "full"
    api.ok("PUT", f"/sandbox/{name}", {"disk": "64m"})
    files = Files(api, name)
    files.write("/f", b"before")
    reply = files.put("/f", blob(100_000_000))
    reply.error(507, "NO_SPACE")
    assert files.read("/f") == b"before"
    files.sh("head -c 200m /dev/zero > /fill; rm /fill")
    assert files.put("/f", blob(1_000_000)).status == 200
    api("DELETE", f"/sandbox/{name}")


def test_shrinks_while_it_is_sent(api, files):
    files.sh("truncate -s 400m /f")
    sock = ask_raw(api, files, "/f")
    n = 0
    files.sh("truncate -s 1000 /f")
    while piece := sock.recv(1 << 20):
        n += len(piece)
    assert n < 400 << 20  # it ended, and is not filled up


# -- listing


def test_list(files):
    files.sh("mkdir -p /l/d/e; echo hi > /l/f; ln -s ../x /l/s; mkfifo /l/p; touch /l/.hidden /l/d/e/g; chmod 640 /l/f")
    listing = files.api.ok("GET", files.url("/l", "?list"))
    assert listing["success"] is True and listing["path"] == "/l" and "next" not in listing
    entries = {e["name"]: e for e in listing["entries"]}
    assert list(entries) == sorted(entries) == ["d", "f", "p", "s"]
    assert {n: e["type"] for n, e in entries.items()} == {"d": "directory", "f": "file", "p": "other", "s": "symlink"}
    assert entries["f"]["size"] == 3 and entries["f"]["mode"] == "0640" and entries["f"]["path"] == "/l/f"
    assert entries["s"]["target"] == "../x" and "target" not in entries["f"]
    assert entries["f"]["uid"] == 0 and entries["f"]["mtime"].endswith("Z")
    assert ".hidden" in files.names("/l", "?list&hidden=1")
    deep = [e["path"] for e in files.api.ok("GET", files.url("/l", "?list&recursive=1&hidden=1"))["entries"]]
    assert set(deep) == {"/l/.hidden", "/l/d", "/l/d/e", "/l/d/e/g", "/l/f", "/l/p", "/l/s"}
    assert "etc" in files.names("", "?list")
    assert files.api("HEAD", files.url("/l", "?list")).body == b""


def test_pages(files):
    files.sh("mkdir -p /l; cd /l; for i in $(seq 257); do mkdir -p d$((i % 7)); touch d$((i % 7))/f$i; done")
    whole = [e["path"] for e in files.api.ok("GET", files.url("/l", "?list&recursive=1"))["entries"]]
    assert len(whole) == len(set(whole)) == 257 + 7
    for limit in (1, 10, 100, 263, 264):
        paths, after = [], ""
        while True:
            page = files.api.ok("GET", files.url("/l", f"?list&recursive=1&limit={limit}{after}"))
            paths += [e["path"] for e in page["entries"]]
            assert len(page["entries"]) <= limit
            if "next" not in page:
                break
            after = "&after=" + page["next"].replace("/", "%2F")
        assert paths == whole
    for limit in (0, 10001, "x"):
        files.get("/l", f"?list&limit={limit}").error(400, "INVALID_REQUEST", "limit")


def test_names_that_are_no_text(files):
    files.sh("mkdir /n; touch $'/n/a\\xff' $'/n/b\\nc' /n/z")
    page = files.api.ok("GET", files.url("/n", "?list&limit=1"))
    (entry,) = page["entries"]
    assert base64.b64decode(entry["nameBase64"]) == b"a\xff" and entry["name"] == "a\ufffd"
    assert base64.b64decode(entry["pathBase64"]) == b"/n/a\xff"
    rest = files.api.ok("GET", files.url("/n", f"?list&after={page['next']}"))
    assert [e["name"] for e in rest["entries"]] == ["b\nc", "z"]


def test_stat(files):
    files.sh("mkdir /d; echo hi > /d/f; ln -s f /d/s")
    stat = files.stat("/d/f")
    assert (stat["type"], stat["size"], stat["path"]) == ("file", 3, "/d/f")
    assert stat["etag"] == files.get("/d/f").headers["ETag"]
    assert files.stat("/d")["type"] == "directory"
    link = files.stat("/d/s")
    assert link["type"] == "symlink" and link["target"] == "f"
    assert files.get("/d/s").body == b"hi\n"
    files.get("/d/nope", "?stat").error(404, "NOT_FOUND", "/d/nope")


def test_wrong_questions(files):
    files.sh("mkdir /d; touch /f")
    files.get("/d").error(400, "IS_DIRECTORY", "?list")
    files.get("").error(400, "IS_DIRECTORY", "?list")
    files.get("/f", "?list").error(400, "NOT_DIRECTORY")
    files.get("/nope", "?list").error(404, "NOT_FOUND")
    files.get("/f/x").error(400, "NOT_DIRECTORY")
    files.get("/f", "?recursive=1").error(400, "INVALID_REQUEST")
    files.get("/f", "?list&stat").error(400, "INVALID_REQUEST")
    files.api("POST", files.url("/f"), b"x").error(405, "METHOD_NOT_ALLOWED")


# -- deeds


def test_delete(files):
    files.sh("mkdir -p /d/e; touch /d/e/f /f; ln -s /d /s; mkdir /empty")
    for path in ("/f", "/s", "/empty"):
        assert files.api("DELETE", files.url(path)).status == 200
    assert files.stat("/d/e/f")["type"] == "file"  # through the link nothing went
    files.api("DELETE", files.url("/d")).error(409, "CONFLICT")
    assert files.api("DELETE", files.url("/d", "?recursive=1")).status == 200
    files.api("DELETE", files.url("/d")).error(404, "NOT_FOUND")
    files.api("DELETE", files.url("/d", "?recursive=1")).error(404, "NOT_FOUND")
    files.sh("mkdir -p /t/a; touch /t/a/b")
    assert files.done("delete", {"path": "/t", "recursive": True})["entries"] == 3
    files.do("delete", {"path": "/t"}).error(404, "NOT_FOUND")
    assert files.api("DELETE", files.url("/etc/hostname"), headers={"If-Match": '"a"'}).status == 400


def test_mkdir(files):
    files.do("mkdir", {"path": "/a/b"}).error(404, "NOT_FOUND")
    files.done("mkdir", {"path": "/a/b", "parents": True, "mode": "0700"})
    assert files.stat("/a/b")["mode"] == "0700"
    files.do("mkdir", {"path": "/a/b"}).error(409, "FILE_EXISTS")
    files.done("mkdir", {"path": "/a/b", "parents": True})
    files.do("mkdir", {"path": "/a", "mode": "4755"}).error(400, "INVALID_REQUEST", "mode")


def test_move_and_copy(files):
    files.sh("mkdir -p /s/t; echo 1 > /s/t/f; ln -s t/f /s/l; echo old > /old; chmod 640 /s/t/f")
    copied = files.done("copy", {"from": "/s", "to": "/c"})
    assert copied["entries"] == 4 and copied["bytes"] == 2
    assert files.read("/c/t/f") == b"1\n" and files.stat("/c/l")["target"] == "t/f"
    assert files.stat("/c/t/f")["mode"] == "0640"
    files.do("copy", {"from": "/s/t/f", "to": "/old"}).error(409, "FILE_EXISTS", "/old")
    files.done("copy", {"from": "/s/t/f", "to": "/old", "replace": True})
    assert files.read("/old") == b"1\n"
    files.done("move", {"from": "/c", "to": "/m"})
    assert files.get("/c/t/f").status == 404 and files.read("/m/t/f") == b"1\n"
    files.do("move", {"from": "/m/t/f", "to": "/old"}).error(409, "FILE_EXISTS", "/old")
    files.done("move", {"from": "/m/t/f", "to": "/old", "replace": True})
    files.do("move", {"from": "/nope", "to": "/x"}).error(404, "NOT_FOUND", "/nope")
    files.do("move", {"from": "/s", "to": "/s/t/inside"}).error(400, "INVALID_REQUEST")
    files.done("move", {"from": "/s", "to": "/dev/shm/s"})  # another file system
    assert files.read("/dev/shm/s/t/f") == b"1\n" and files.get("/s", "?list").status == 404


def test_chmod_and_chown(files):
    files.write("/f", b"")
    files.done("chmod", {"path": "/f", "mode": "0600"})
    files.done("chown", {"path": "/f", "user": "1000:1001"})
    stat = files.stat("/f")
    assert (stat["mode"], stat["uid"], stat["gid"]) == ("0600", 1000, 1001)
    files.done("chown", {"path": "/f", "user": "root"})
    assert files.stat("/f")["uid"] == 0
    for mode in ("4755", "06000", "9"):
        files.do("chmod", {"path": "/f", "mode": mode}).error(400, "INVALID_REQUEST", "mode")
    files.do("chmod", {"path": "/f"}).error(400, "INVALID_REQUEST", "mode")
    files.do("chown", {"path": "/f", "user": "nobody-like-that"}).error(400, "INVALID_REQUEST", "user")


def test_batch(files):
    big = blob(200_000)
    reply = files.done(
        "batch",
        {
            "operations": [
                {"op": "mkdir", "path": "/b"},
                {"op": "write", "path": "/b/1", "content": "eins ä\u0000", "mode": "0600"},
                {"op": "write", "path": "/b/2", "content": base64.b64encode(big).decode(), "encoding": "base64"},
                {"op": "copy", "from": "/b/1", "to": "/b/3"},
                {"op": "move", "from": "/b/3", "to": "/b/4"},
                {"op": "chmod", "path": "/b/4", "mode": "0640"},
                {"op": "read", "path": "/b/4"},
                {"op": "read", "path": "/b/2"},
                {"op": "read", "path": "/b/1", "encoding": "base64"},
                {"op": "stat", "path": "/b/4"},
                {"op": "delete", "path": "/b", "recursive": True},
            ]
        },
    )
    results = reply["results"]
    assert [r["op"] for r in results] == "mkdir write write copy move chmod read read read stat delete".split()
    assert all(r["success"] for r in results)
    assert results[6]["content"] == "eins ä\u0000" and results[6]["encoding"] == "utf-8"
    assert base64.b64decode(results[7]["content"]) == big and results[7]["encoding"] == "base64"
    assert base64.b64decode(results[8]["content"]) == "eins ä\u0000".encode()
    assert results[9]["mode"] == "0640"
    assert files.get("/b", "?list").status == 404


def test_batch_stops(files):
    operations = [
        {"op": "write", "path": "/b/1", "content": "1"},
        {"op": "read", "path": "/nope"},
        {"op": "write", "path": "/b/2", "content": "2"},
    ]
    reply = files.do("batch", {"operations": operations})
    assert reply.status == 200 and reply.json["success"] is False
    assert [r["success"] for r in reply.json["results"]] == [True, False]
    assert reply.json["results"][1]["error_code"] == "NOT_FOUND"
    assert files.get("/b/2").status == 404
    reply = files.do("batch", {"operations": operations, "continueOnError": True})
    assert [r["success"] for r in reply.json["results"]] == [True, False, True]
    assert files.read("/b/2") == b"2"


def test_batch_is_looked_at_first(files):
    good = {"op": "write", "path": "/b/1", "content": "1"}
    for bad, word in [
        ({"op": "frobnicate", "path": "/x"}, "op"),
        ({"op": "write", "path": "/x"}, "content"),
        ({"op": "write", "path": "x", "content": ""}, "path"),
        ({"op": "write", "path": "/x", "content": "!", "encoding": "base64"}, "base64"),
        ({"op": "write", "path": "/x", "content": "", "encoding": "latin1"}, "encoding"),
        ({"op": "write", "path": "/x", "content": "", "mode": "4755"}, "mode"),
        ({"op": "read", "path": "/x", "recursive": True}, "recursive"),
        ({"op": "move", "from": "/x"}, "to"),
        ({"op": "read", "path": "/x", "colour": 1}, "colour"),
        ({"path": "/x"}, "op"),
        ("read", "object"),
    ]:
        error = files.do("batch", {"operations": [good, bad]}).error(400, "INVALID_REQUEST", word)
        assert "entry 1" in error["error"]
        assert files.get("/b/1").status == 404
    files.do("batch", {"operations": []}).error(400, "INVALID_REQUEST", "operations")
    files.do("batch", {"operations": [good] * 257}).error(400, "INVALID_REQUEST", "operations")


def test_batch_reads_have_a_limit(files):
    files.sh("truncate -s 1048576 /one; truncate -s 1048577 /more")
    results = files.do("batch", {"operations": [{"op": "read", "path": "/one"}, {"op": "read", "path": "/more"}]}).json["results"]
    assert len(results[0]["content"]) == 1048576
    assert results[1]["error_code"] == "PAYLOAD_TOO_LARGE"
    operations = [{"op": "read", "path": "/one"}] * 256
    reply = files.do("batch", {"operations": operations})
    assert reply.status == 200 and len(reply.body) < 70_000_000
    assert reply.json["success"] is False and not reply.json["results"][-1]["success"]


def test_search(files):
    files.sh(
        "mkdir -p /s/d /s/.h; printf 'eins\\nzwei Nadel\\n' > /s/a.txt; printf 'nadel nadel\\n' > /s/d/b.py;"
        "printf 'Nadel' > /s/.h/c; printf 'x\\0Nadel\\n' > /s/bin"
    )

    def found(**how):
        return files.done("search", {"path": "/s", **how})

    reply = found(text="Nadel", name="*.txt")
    assert reply["matches"] == [{"path": "/s/a.txt", "line": 2, "column": 6, "text": "zwei Nadel"}]
    assert reply["truncated"] is False
    assert {m["path"] for m in found(text="nadel", ignoreCase=True)["matches"]} >= {"/s/a.txt", "/s/d/b.py"}
    assert "/s/.h/c" not in {m["path"] for m in found(text="Nadel")["matches"]}
    assert "/s/.h/c" in {m["path"] for m in found(text="Nadel", hidden=True)["matches"]}
    assert [m["path"] for m in found(name="*.py")["matches"]] == ["/s/d/b.py"]
    reply = found(text="nadel", limit=1)
    assert len(reply["matches"]) == 1
    assert found(text="Nadel", maxFileSize=5)["matches"] == []
    files.do("search", {"path": "/nope", "text": "x"}).error(404, "NOT_FOUND")
    files.do("search", {"path": "/s"}).error(400, "INVALID_REQUEST")
    files.do("search", {"path": "/s", "text": ""}).error(400, "INVALID_REQUEST", "text")


def test_replace(files):
    files.sh("mkdir -p /r; printf 'a b a\\n' > /r/1; printf 'a' > /r/2.md; printf 'none' > /r/3; chmod 600 /r/1")
    before = files.stat("/r/3")["etag"]
    reply = files.done("replace", {"path": "/r", "text": "a", "with": "xyz"})
    assert reply["replacements"] == 3
    assert {f["path"]: f["replacements"] for f in reply["files"]} == {"/r/1": 2, "/r/2.md": 1}
    assert files.read("/r/1") == b"xyz b xyz\n" and files.read("/r/2.md") == b"xyz"
    assert files.stat("/r/1")["mode"] == "0600" and files.stat("/r/3")["etag"] == before
    files.done("replace", {"path": "/r", "text": "xyz", "with": "", "name": "*.md"})
    assert files.read("/r/2.md") == b"" and files.read("/r/1") == b"xyz b xyz\n"
    files.do("replace", {"path": "/r", "text": "a"}).error(400, "INVALID_REQUEST", "with")


def test_other_tenants(files, tenant):
    files.write("/f", b"secret")
    for method, path, body in [
        ("GET", "/files/f", None),
        ("PUT", "/files/f", b"x"),
        ("PUT", "/files/f", blob(400_000)),
        ("DELETE", "/files/f", None),
        ("POST", "/files:delete", {"path": "/f"}),
        ("GET", "/archive?path=/", None),
        ("PUT", "/archive?path=/", b"x"),
        ("GET", "/watch?path=/", None),
    ]:
        tenant(method, f"/sandbox/{files.box}{path}", body).error(404, "NOT_FOUND")
    assert files.read("/f") == b"secret"


def test_a_revoked_token_ends_transfers(api, tenant, server):
    tenant.ok("PUT", "/sandbox/r", {})
    files = Files(tenant, "r")
    files.sh("truncate -s 2g /f")
    sock = ask_raw(tenant, files, "/f")
    api("DELETE", f"/tokens/{tenant.id}")
    drain_to_the_end(sock)


def ask_raw(client, files, path):
    """GET on a socket, of which the beginning of the answer is read."""
    sock = socket.create_connection(("127.0.0.1", client.server.port), PATIENCE)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    sock.sendall(f"GET {files.url(path)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.token}\r\n\r\n".encode())
    assert sock.recv(12) == b"HTTP/1.1 200"
    return sock


def drain_to_the_end(sock):
    n = 0
    while piece := recv(sock):
        n += len(piece)
    assert n < 2 << 30


def recv(sock):
    try:
        return sock.recv(1 << 20)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("end", ["sleep", "destroy"])
def test_transfers_end_with_the_box(api, files, end):
    files.sh("truncate -s 2g /f")
    down = ask_raw(api, files, "/f")
    up = raw_put(api, files, "/g", 1 << 30, b"x" * 1_000_000)
    time.sleep(0.1)
    if end == "sleep":
        api.ok("POST", f"/sandbox/{files.box}/sleep")
    else:
        api.ok("DELETE", f"/sandbox/{files.box}")
    drain_to_the_end(down)
    while recv(up):
        pass


def test_busy_while_it_moves(make_server):
    """A slow download keeps its sandbox awake; one that is over does not."""
    client = Client(make_server())
    client.ok("PUT", "/sandbox/s", {"sleepAfter": 1})
    files = Files(client, "s")
    files.sh("truncate -s 64m /f")
    sock = ask_raw(client, files, "/f")
    time.sleep(4)
    assert client.ok("GET", "/sandbox/s")["status"] == "running"
    n = 0
    while n < 64 << 20:
        n += len(sock.recv(1 << 20))
    eventually(lambda: client.ok("GET", "/sandbox/s")["status"] == "sleeping")
    sock.close()


def test_openapi_has_them(api):
    paths = api.ok("GET", "/openapi.json")["paths"]
    assert any("files" in p for p in paths)
    body = json.dumps(paths)
    for name in ("readFile", "writeFile", "batchFiles", "getArchive", "watchFiles"):
        assert name in body


def test_a_server_that_stops_in_the_middle(make_server):
    """Transfers in every direction that move nothing: the end is clean all the same (make_server looks)."""
    client = Client(make_server("--drain", "1s"))
    client.ok("PUT", "/sandbox/s", {})
    files = Files(client, "s")
    files.sh("truncate -s 1g /f; mkdir /w")
    head = f"HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.token}\r\n"
    socks = []
    for request in (
        f"GET /sandbox/s/files/f {head}\r\n",
        f"PUT /sandbox/s/files/g {head}Content-Length: 100000000\r\n\r\nxxx",
        f"PUT /sandbox/s/files/h {head}Transfer-Encoding: chunked\r\n\r\n3\r\nxxx",
        f"GET /sandbox/s/archive?path=/f {head}\r\n",
        f"PUT /sandbox/s/archive?path=/t {head}Content-Length: 100000000\r\n\r\nxxx",
        f"GET /sandbox/s/watch?path=/w {head}\r\n",
    ):
        socks.append(socket.create_connection(("127.0.0.1", client.server.port), PATIENCE))
        socks[-1].sendall(request.encode())
    for sock in (socks[0], socks[3], socks[5]):
        assert sock.recv(12) == b"HTTP/1.1 200"
    assert client.server.stop() == 0
    for sock in socks:
        while recv(sock):
            pass


def test_a_killed_daemon_changes_nothing(make_server):
    client = Client(make_server())
    client.ok("PUT", "/sandbox/s", {})
    files = Files(client, "s")
    files.write("/f", b"before")
    socks = [raw_put(client, files, "/f", 10_000_000, b"x" * 5_000_000) for _ in range(3)]
    os.kill(client.server.daemon_pid(), signal.SIGKILL)
    for sock in socks:
        while recv(sock):
            pass

    def answers():
        try:
            return files.read("/f") == b"before"
        except OSError:
            return False

    eventually(answers)
    assert files.sh("ls -A / | grep cay- || true") == ""
    files.write("/f", blob(1_000_000))


def test_an_upload_takes_no_memory(make_server, monkeypatch):
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1:quarantine_size_mb=1")  # what is freed is free
    client = Client(make_server())
    client.ok("PUT", "/sandbox/s", {})
    files = Files(client, "s")
    pieces = [blob(1 << 20)] * 256

    def memory():
        text = pathlib.Path(f"/proc/{client.server.daemon_pid()}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0]) * 1024

    files.write("/f", iter(pieces[:32]))  # whatever is made once is there
    files.read("/f")
    before = memory()
    assert files.put("/f", iter(pieces)).json["size"] == 256 << 20
    assert files.get("/f", headers={"Range": "bytes=-10"}).body == pieces[0][-10:]
    assert hashlib.sha256(files.read("/f")).digest() == hashlib.sha256(pieces[0] * 256).digest()
    assert memory() - before < 4 << 20
