# SPDX-License-Identifier: Apache-2.0
"""Workspaces in the store: what a sync puts there, what comes back, and what happens when it cannot."""

import contextlib
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import urllib.parse

import pytest
from api_helpers import ADMIN, Client, Server, eventually

numbers = itertools.count(1)

FILES = """
import os
os.chdir('/workspace')
os.makedirs('a/b/c'); os.makedirs('empty/er')
open('plain.txt', 'w').write('one\\n')
open('a/b/c/deep', 'wb').write(bytes(range(256)) * 5000)
open('run.sh', 'w').write('#!/bin/sh\\necho hi\\n'); os.chmod('run.sh', 0o755)
os.symlink('../plain.txt', 'a/link')
open('none', 'w').close()
for name in (b'caf\\xc3\\xa9', b'new\\nline', b'per%cent', b'%41', b'bad\\xff\\xfe', b'sp ace', b'tab\\tx', b"q'\\"\\\\"):
    open(name, 'wb').write(b'odd ' + name)
os.utime('plain.txt', ns=(10**18, 1234567890123456789))
os.chmod('a', 0o700)
"""

# Everything below a directory: what it is, its mode, time, owner and content.
SEEN = """
import hashlib, os, sys
def see(path):
    st = os.lstat(path)
    if os.path.islink(path): what = os.readlink(path)
    elif os.path.isdir(path): what = 'dir'
    else: what = hashlib.sha256(open(path, 'rb').read()).hexdigest()
    time = 0 if what == 'dir' else st.st_mtime_ns
    print(repr((path, oct(st.st_mode), time, st.st_uid, st.st_gid, what)))
for top, dirs, files in os.walk(b'/workspace'):
    dirs.sort()
    for name in sorted(dirs) + sorted(files): see(os.path.join(top, name))
"""


@pytest.fixture
def name(api):
    name = f"synced-{next(numbers)}"
    yield name
    api("DELETE", f"/sandbox/{name}")


@pytest.fixture
def made(api, name):
    api.ok("PUT", f"/sandbox/{name}", {})
    return name


def python(api, box, code):
    done = api.exec(box, {"argv": ["/usr/bin/python3", "-c", code]})
    assert done["exitCode"] == 0, done
    return done["stdout"]


def sync(api, box, body=None):
    return api.ok("POST", f"/sandbox/{box}/sync", body if body is not None else {})


def where(server, box, tenant="admin"):
    return server.data / "store" / tenant / "workspaces" / box


def on_disk(server, box, tenant="admin"):
    top = where(server, box, tenant)
    found = {}
    for dir_, _, files in os.walk(os.fsencode(top)):
        for file in files:
            path = os.path.join(dir_, file)
            with open(path, "rb") as f:
                found[os.path.relpath(path, os.fsencode(top)).decode()] = f.read()
    return found


def listed(api, box, query=""):
    return [f["path"] for f in api.ok("GET", f"/sandbox/{box}/stored{query}")["files"]]


def stored(box, path):
    return f"/sandbox/{box}/stored/{urllib.parse.quote(path)}"


def again(api, box, body=None):
    """The sandbox goes, and another of its id gets what is stored."""
    api.ok("DELETE", f"/sandbox/{box}")
    return api.ok("PUT", f"/sandbox/{box}", {"restore": True, **(body or {})})


# -- syncing


def test_first_sync_and_one_without_changes(server, api, made):
    python(api, made, FILES)
    done = sync(api, made)
    found = on_disk(server, made)
    assert done["files"] == done["put"] == len(found) == 12, (done, sorted(found))
    assert done["bytes"] == done["putBytes"] == sum(map(len, found.values()))
    assert found["a/b/c/deep"] == bytes(range(256)) * 5000
    assert found["per%25cent"] == b"odd per%cent" and found["%2541"] == b"odd %41"
    assert found["new%0Aline"] == b"odd new\nline" and found["bad%FF%FE"] == b"odd bad\xff\xfe"
    assert found["café"].startswith(b"odd caf")
    assert listed(api, made) == sorted(found, key=str.encode)
    before = {p: p.stat().st_mtime_ns for p in where(server, made).rglob("*") if p.is_file()}
    done = sync(api, made)
    assert (done["put"], done["putBytes"], done["deleted"], done["files"]) == (0, 0, 0, 12), done
    assert before == {p: p.stat().st_mtime_ns for p in where(server, made).rglob("*") if p.is_file()}
    state = api.ok("GET", f"/sandbox/{made}/sync")
    assert state["state"] == "done" and state["files"] == 12 and state["syncedAt"] is not None
    assert api.ok("GET", f"/sandbox/{made}")["workspaceSyncedAt"] == state["syncedAt"]


CHANGES = {
    "write": "open('f', 'w').write('one more')",
    "append": "open('f', 'a').write('and')",
    "same size": "open('f', 'r+').write('A')",
    "mapped": "f = open('f', 'r+b'); import mmap; mmap.mmap(f.fileno(), 0)[0:2] = b'mm'",
    "truncate": "os.truncate('f', 3)",
    "new": "open('g', 'w').write('g')",
    "rename": "os.rename('g', 'h')",
    "hard link": "os.link('h', 'i')",
    "through the link": "open('i', 'a').write('!')",
    "remove": "os.unlink('h')",
    "direct": "fd = os.open('i', os.O_RDWR | os.O_TRUNC); os.write(fd, b'd' * 5000); os.fsync(fd)",
}


def test_every_change_is_seen(server, api, made):
    """A disk that has not changed since is not looked through: so whatever changes it must be noticed."""
    python(api, made, "open('f', 'w').write('one')")
    sync(api, made)
    for what, code in CHANGES.items():
        python(api, made, f"import os; os.chdir('/workspace'); {code}")
        done = sync(api, made)
        assert done["put"] + done["deleted"] > 0, (what, done)
        inside = python(api, made, "import os, json; print(json.dumps({n: open(n).read() for n in os.listdir('.')}))")
        assert on_disk(server, made) == {n: text.encode() for n, text in json.loads(inside).items()}, what
        again_ = sync(api, made)
        assert (again_["put"], again_["deleted"], again_["files"]) == (0, 0, done["files"]), (what, again_)
    api.ok("PUT", stored(made, "i"), b"from outside")
    assert sync(api, made)["put"] == 1  # the disk is as it was, the store is not
    assert sync(api, made, {"exclude": ["f"]})["deleted"] == 1  # and neither are the options
    python(api, made, "import os; os.chmod('i', 0o751); os.setxattr('i', 'user.a', b'b')")
    sync(api, made)
    again(api, made)
    assert python(api, made, "import os; print(oct(os.stat('i').st_mode & 0o777))") == "0o751\n"


def test_it_needs_no_box_and_takes_none(api, made):
    python(api, made, "open('/workspace/x', 'w').write('x')")
    api.ok("POST", f"/sandbox/{made}/sleep")
    assert sync(api, made)["put"] == 1
    assert api.ok("GET", f"/sandbox/{made}")["status"] == "sleeping"
    assert api("GET", stored(made, "x")).body == b"x"
    assert api.ok("GET", f"/sandbox/{made}")["status"] == "sleeping"


def test_changes_deletions_and_renames(server, api, made):
    api.exec(made, "cd /workspace && mkdir d && echo 1 >one && echo 2 >two && echo 3 >d/three && echo 4 >four")
    sync(api, made)
    api.exec(made, "cd /workspace && echo uno >one && rm two && mv d/three d/drei && rmdir d 2>/dev/null; touch four")
    done = sync(api, made)
    assert (done["put"], done["deleted"]) == (2, 2), done
    assert on_disk(server, made) == {"one": b"uno\n", "d/drei": b"3\n", "four": b"4\n"}
    api.exec(made, "rm -rf /workspace/*")
    assert sync(api, made)["deleted"] == 3
    assert on_disk(server, made) == {}


def test_a_file_becomes_a_directory_and_back(server, api, made):
    api.exec(made, "cd /workspace && echo f >x && mkdir y && echo g >y/z && mkdir -p p/q && echo h >p/q/r")
    sync(api, made)
    api.exec(made, "cd /workspace && rm x && mkdir -p x/x && echo in >x/x/in && rm -r y p && echo y >y && echo p >p")
    sync(api, made)
    assert on_disk(server, made) == {"x/x/in": b"in\n", "y": b"y\n", "p": b"p\n"}
    again(api, made)
    assert api.exec(made, "cd /workspace && cat x/x/in y p")["stdout"] == "in\ny\np\n"


def test_names_as_long_as_a_key_may_be(server, api):
    name = "l" * 120
    api.ok("PUT", f"/sandbox/{name}", {})
    api.exec(name, "echo 0 >/workspace/short")
    sync(api, name)
    room = 1024 - len(f"admin/workspaces/{name}/")
    paths = ["/".join(["p" * 200] * 4 + [c * (n - 804)]) for c, n in (("a", room - 2), ("b", room - 1), ("c", room))]
    python(api, name, f"import os; os.chdir('/workspace')\nfor p in {paths!r}: os.makedirs(os.path.dirname(p), exist_ok=True); open(p, 'w').write('x')")
    assert sync(api, name)["put"] == 3
    assert set(on_disk(server, name)) == {"short", *paths}
    api.ok("DELETE", f"/sandbox/{name}")


def test_include_exclude_gitignore_are_remembered(server, api, made):
    api.exec(
        made,
        "cd /workspace && mkdir -p src node_modules/m build && echo a >src/a.py && echo b >src/b.txt"
        " && echo m >node_modules/m/i.js && echo o >build/o && echo log >x.log && echo '*.log' >.gitignore",
    )
    sync(api, made, {"exclude": ["node_modules", "/build"], "gitignore": True})
    assert set(on_disk(server, made)) == {"src/a.py", "src/b.txt", ".gitignore"}
    api.exec(made, "cd /workspace && echo n >node_modules/n && echo c >src/c.py")
    assert sync(api, made)["put"] == 1
    assert api.ok("GET", f"/sandbox/{made}/sync")["options"] == {"exclude": ["node_modules", "/build"], "gitignore": True}
    sync(api, made, {"include": ["*.py"]})
    assert set(on_disk(server, made)) == {"src/a.py", "src/c.py"}
    sync(api, made, {"exclude": []})
    assert "node_modules/n" in on_disk(server, made)


def test_two_thousand_files_with_progress(server, api, made):
    python(
        api,
        made,
        "import os\nfor i in range(2000):\n os.makedirs(f'/workspace/d{i % 40}', exist_ok=True)\n"
        " open(f'/workspace/d{i % 40}/f{i}', 'w').write(str(i) * 50)",
    )
    with api.stream("POST", f"/sandbox/{made}/sync", {}) as stream:
        events = stream.until("done")
    assert events[-1].data["files"] == events[-1].data["put"] == 2000
    assert {e.name for e in events[:-1]} <= {"progress"}
    assert [e.data["put"] for e in events[:-1]] == sorted(e.data["put"] for e in events[:-1])
    with api.stream("POST", f"/sandbox/{made}/sync", {"stream": True}, {"Accept": "*/*"}) as stream:
        assert stream.until("done")[-1].data["put"] == 0
    pages, after = [], ""
    while after is not None:
        page = api.ok("GET", f"/sandbox/{made}/stored?limit=700&after={urllib.parse.quote(after)}")
        pages += [f["path"] for f in page["files"]]
        after = page["next"]
    assert len(pages) == len(set(pages)) == 2000 and pages == sorted(pages)
    assert len(listed(api, made, "?prefix=d7/")) == 50
    before = python(api, made, SEEN)
    again(api, made)
    assert python(api, made, SEEN) == before


# -- restoring


def test_everything_comes_back(api, made):
    python(api, made, FILES)
    before = python(api, made, SEEN)
    sync(api, made)
    again(api, made)
    assert python(api, made, SEEN) == before
    assert sync(api, made)["put"] == 0


def test_files_of_other_ages(api, made):
    """Beyond what nanoseconds reach, too; then only the content tells whether a file has changed."""
    python(
        api,
        made,
        "import os; os.chdir('/workspace')\n"
        "for i, t in enumerate((-2**63, -9223372038, -9223372037, -1, 9223372036, 9223372037, 18446744074, 2**63 - 1)):\n"
        " open(str(i), 'w').write(str(i)); os.mkdir(f'd{i}')\n"
        " for name in (str(i), f'd{i}'): os.utime(name, (t, t))\n"
        "os.utime('2', ns=(0, -2**63))",
    )
    assert sync(api, made)["put"] == 8
    python(api, made, "import os; os.chdir('/workspace'); open('7', 'w').write('9'); os.utime('7', (2**63 - 2,) * 2)")
    assert sync(api, made)["put"] == 1
    again(api, made)
    assert api.exec(made, "cd /workspace && cat ?; echo; ls -d d* | wc -l; stat -c %Y 0 2 3 7")["stdout"].split() == [
        *("01234569", "8", "-9223372037", "-9223372037", "-1", "9223372036"),
    ]
    assert sync(api, made)["put"] == 0


def test_nothing_stored_is_nothing_restored(api, name):
    api.ok("PUT", f"/sandbox/{name}", {"restore": True})
    assert api.exec(name, "ls -A /workspace")["stdout"] == ""
    assert api.ok("GET", f"/sandbox/{name}/sync")["state"] == "never"


def test_restore_is_for_new_ones(api, made):
    api.exec(made, "echo stored >/workspace/x")
    sync(api, made)
    api.exec(made, "echo newer >/workspace/x")
    assert api.ok("PUT", f"/sandbox/{made}", {"restore": True})["created"] is False
    assert api.exec(made, "cat /workspace/x")["stdout"] == "newer\n"
    api("PATCH", f"/sandbox/{made}", {"restore": True}).error(400, "INVALID_REQUEST", "restore")


def test_on_every_sleep(server, api, name):
    api.ok("PUT", f"/sandbox/{name}", {"sync": True})
    for text in ("first", "second"):
        api.exec(name, f"echo {text} >/workspace/x")
        api.ok("POST", f"/sandbox/{name}/sleep")
        eventually(lambda want=text.encode() + b"\n": on_disk(server, name).get("x") == want)
    eventually(lambda: api.ok("GET", f"/sandbox/{name}/sync")["state"] == "done")
    assert again(api, name, {"sync": True})["sync"] is True
    assert api.exec(name, "cat /workspace/x")["stdout"] == "second\n"
    assert api.ok("PATCH", f"/sandbox/{name}", {"sync": False})["sync"] is False


def test_ephemeral_ones_cannot(api, name):
    for field in ("sync", "restore"):
        body = {"ephemeral": True, field: True}
        api("PUT", f"/sandbox/{name}", body).error(400, "INVALID_REQUEST", field)
    api.ok("PUT", f"/sandbox/{name}", {"ephemeral": True})
    api("POST", f"/sandbox/{name}/sync", {}).error(501, "NOT_IMPLEMENTED")


# -- stored files


def test_put_get_delete_and_what_follows_from_them(server, api, made):
    api.exec(made, "cd /workspace && echo mine >a && echo keep >b && chmod 755 b && ln -s a l")
    sync(api, made)
    done = api.ok("PUT", stored(made, "a"), b"yours\n")
    assert done == {"success": True, "path": "a", "size": 6, "sha256": hashlib.sha256(b"yours\n").hexdigest()}
    api.ok("PUT", stored(made, "new/dir/n"), b"new")
    api.ok("DELETE", stored(made, "b"))
    api("DELETE", stored(made, "b")).error(404, "NOT_FOUND")
    api("GET", stored(made, "b")).error(404, "NOT_FOUND")
    # A restore takes what is there,
    again(api, made)
    assert api.exec(made, "cd /workspace && cat a new/dir/n && ls -A && readlink l")["stdout"] == "yours\nnewa\nl\nnew\na\n"
    # and a sync of a workspace that has other files puts these.
    api.exec(made, "cd /workspace && echo mine again >a && echo keep >b")
    done = sync(api, made)
    assert (done["put"], done["deleted"]) == (3, 0), done
    api.ok("PUT", stored(made, "a"), b"yours\n")
    assert sync(api, made)["put"] == 1
    assert on_disk(server, made) == {"a": b"mine again\n", "b": b"keep\n", "new/dir/n": b"new"}


def test_of_a_sandbox_that_never_was(server, api, name):
    assert listed(api, name) == []
    api.ok("PUT", stored(name, "dir/é 100%\n"), b"x" * 10)
    assert listed(api, name) == ["dir/é 100%25%0A"]
    for path in ("dir/é 100%\n", "dir/é 100%25%0A"):
        assert api("GET", stored(name, path)).body == b"x" * 10
    api("GET", f"/sandbox/{name}/sync").error(404, "NOT_FOUND")
    api.ok("PUT", f"/sandbox/{name}", {"restore": True})
    assert api.exec(name, "ls -b /workspace/dir && stat -c %a /workspace/dir/*")["stdout"] == "é\\ 100%\\n\n644\n"


def test_one_written_while_a_sync_runs_stays(server, api, made):
    """Though the sync found that its file is gone from the workspace."""
    python(api, made, "open('/workspace/y', 'w').write('before')")
    sync(api, made)
    python(api, made, "import os; os.unlink('/workspace/y')\nfor i in range(2000): open(f'/workspace/x{i}', 'w').write('x')")
    with api.stream("POST", f"/sandbox/{made}/sync", {}) as stream:
        eventually(lambda: "x0" in on_disk(server, made))
        api.ok("PUT", stored(made, "y"), b"from outside")
        stream.until("done")
    assert on_disk(server, made)["y"] == b"from outside"
    sync(api, made)
    assert on_disk(server, made)["y"] == b"from outside"


def lines(server, box):
    """Of the index: path by path."""
    text = (server.data / "store" / "admin" / "indexes" / box).read_text()
    return {line.split("\t")[7]: line for line in text.splitlines()[1:]}


def test_a_sync_while_one_is_written(server, api, made):
    """It says nothing of what may be another's any moment; the next one does, though the disk is as it was."""
    python(api, made, "for n in 'ab': open('/workspace/' + n, 'w').write(n)")
    sync(api, made)
    assert set(lines(server, made)) == {"a", "b"}
    connection, data = api.connect(), b"outside" * 100000
    headers, _ = api.head({}, None)
    connection.putrequest("PUT", stored(made, "a"))
    for key, value in {**headers, "Content-Length": str(len(data))}.items():
        connection.putheader(key, value)
    connection.endheaders()
    connection.send(data[:400000])
    eventually(lambda: set(lines(server, made)) == {"b"})
    for _ in range(2):
        sync(api, made)
        assert set(lines(server, made)) == {"b"}  # or a server killed now would find its own index wrong
    connection.send(data[400000:])
    assert connection.getresponse().status == 200
    connection.close()
    assert on_disk(server, made) == {"a": data, "b": b"b"} and set(lines(server, made)) == {"b"}
    assert sync(api, made)["put"] == 1
    assert on_disk(server, made) == {"a": b"a", "b": b"b"} and set(lines(server, made)) == {"a", "b"}
    again(api, made)
    assert api.exec(made, "cd /workspace && cat a b")["stdout"] == "ab"


def test_large_files_and_ranges(api, name):
    data = os.urandom(1 << 20) * 9 + b"end"
    sha = hashlib.sha256(data).hexdigest()
    assert api.ok("PUT", stored(name, "big.bin"), data)["sha256"] == sha
    whole = api("GET", stored(name, "big.bin"))
    assert whole.status == 200 and whole.body == data and whole.headers["ETag"] == f'"{sha}"'
    assert int(whole.headers["Content-Length"]) == len(data)
    head = api("HEAD", stored(name, "big.bin"))
    assert head.status == 200 and head.body == b"" and int(head.headers["Content-Length"]) == len(data)
    for header, part in (
        ("bytes=0-0", data[:1]),
        ("bytes=5000000-6999999", data[5000000:7000000]),
        ("bytes=-3", b"end"),
        (f"bytes={len(data) - 1}-", b"d"),
    ):
        reply = api("GET", stored(name, "big.bin"), headers={"Range": header})
        assert reply.status == 206 and reply.body == part, header
    api("GET", stored(name, "big.bin"), headers={"Range": f"bytes={len(data)}-"}).error(416, "RANGE_NOT_SATISFIABLE")
    assert api("GET", stored(name, "big.bin"), headers={"If-None-Match": f'"{sha}"'}).status == 304
    api("GET", stored(name, "big.bin"), headers={"If-Match": '"x"'}).error(412, "PRECONDITION_FAILED")
    api.ok("PUT", stored(name, "small"), b"0123456789")
    reply = api("GET", stored(name, "small"), headers={"Range": "bytes=2-4"})
    assert (reply.status, reply.body, reply.headers["Content-Range"]) == (206, b"234", "bytes 2-4/10")
    api.ok("PUT", stored(name, "empty"), b"")
    assert api("GET", stored(name, "empty")).body == b""


def test_a_body_that_does_not_end_is_not_stored(api, name):
    for length in ("3000000", None):
        connection = api.connect()
        headers, _ = api.head({}, None)
        connection.putrequest("PUT", stored(name, "cut"))
        for key, value in headers.items():
            connection.putheader(key, value)
        if length is not None:
            connection.putheader("Content-Length", length)
        else:
            connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        connection.send(b"x" * 1000000 if length else b"f4240\r\n" + b"x" * 1000000 + b"\r\n")
        connection.close()
    api.ok("PUT", stored(name, "other"), b"o" * 400000)
    assert listed(api, name) == ["other"]


@contextlib.contextmanager
def traced(pid, out, *calls):
    """What all threads of a process ask the kernel for, in their order, into a list."""
    found = []
    command = ["strace", "-f", "-qq", "-y", "-e", f"trace={','.join(calls)}", "-o", str(out), "-p", str(pid)]
    with subprocess.Popen(command) as process:
        tasks = pathlib.Path(f"/proc/{pid}/task")
        try:
            eventually(lambda: all("TracerPid:\t0\n" not in (t / "status").read_text() for t in tasks.iterdir()))
            yield found
        finally:
            process.terminate()
    found += [line for line in out.read_text().splitlines() if "resumed" not in line]


def test_deletions_survive_a_power_cut(server, api, made, tmp_path):
    """The index that does not name it is on the disk before the file goes, and that before it is told of."""
    python(api, made, "for n in 'ab': open('/workspace/' + n, 'w').write(n)")
    sync(api, made)
    with traced(server.daemon_pid(), tmp_path / "trace", "syncfs", "renameat", "unlinkat") as calls:
        api.ok("DELETE", stored(made, "a"))
    seen = [name for line in calls for name in (f'"{made}"', '"a"', "syncfs") if name in line and "REMOVEDIR" not in line]
    assert seen == [f'"{made}"', "syncfs", '"a"', "syncfs"], calls


def test_other_tenants_see_nothing(server, api, tenant, name):
    api.ok("PUT", stored(name, "secret"), b"s")
    assert listed(tenant, name) == []
    tenant("GET", stored(name, "secret")).error(404, "NOT_FOUND")
    tenant("DELETE", stored(name, "secret")).error(404, "NOT_FOUND")
    tenant.ok("PUT", stored(name, "secret"), b"other")
    assert api("GET", stored(name, "secret")).body == b"s"
    assert on_disk(server, name, tenant.name) == {"secret": b"other"}
    tenant.ok("PUT", f"/sandbox/{name}", {"restore": True})
    assert tenant.exec(name, "cat /workspace/*")["stdout"] == "other"
    tenant.ok("DELETE", f"/sandbox/{name}")


def test_keys_lead_nowhere_else(server, api, tenant, name):
    api.ok("PUT", stored(name, "x"), b"x")
    before = sorted(str(p) for p in (server.data / "store").rglob("*") if name in str(p))
    for path in ("../x", "a/../../x", "%2e%2e/x", "a/%2e%2e/x", "..%2fx", "a//b", "./x", "a/.", "%2e", "a%00b", "/etc/passwd", "a/"):
        for method, body in (("GET", None), ("PUT", b"y"), ("DELETE", None)):
            reply = tenant(method, f"/sandbox/{name}/stored/{path}", body)
            assert reply.status in (400, 404, 405), (method, path, reply)
    for path in ("a\\..\\b", "%252e%252e/x", "a%2f..%2fb"):  # ordinary names, once decoded; or refused
        reply = tenant("PUT", f"/sandbox/{name}/stored/{path}", b"y")
        assert reply.status in (200, 400), reply
    for query in ("prefix=../", "prefix=a/../../", "after=../../x", "prefix=%2e%2e%2f", "prefix=/etc", "prefix=a//"):
        assert tenant("GET", f"/sandbox/{name}/stored?{query}").status == 400, query
    for id_ in ("..", "%2e%2e", "a%2fb", "-x", "x~"):
        assert tenant("GET", f"/sandbox/{id_}/stored/x").status in (400, 404), id_
    api("PUT", stored(name, "p" * 300), b"").error(400, "INVALID_REQUEST")
    api("PUT", stored(name, "/".join(["p" * 100] * 12)), b"").error(400, "INVALID_REQUEST")
    mine = [p for p in before if "/admin/" in p]
    assert mine == sorted(str(p) for p in (server.data / "store").rglob("*") if name in str(p) and "/admin/" in str(p))


# -- what goes wrong


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    with open(path, "r+b") as file:
        file.write(data)


@pytest.mark.parametrize("how", ["flipped", "cut", "gone", "swapped", "index"])
def test_damaged_objects_are_never_restored(server, api, made, how):
    python(api, made, "for n in 'ab': open('/workspace/' + n, 'w').write(n * 500000)")
    sync(api, made)
    top = where(server, made)
    if how == "flipped":
        damage(top / "a")
    elif how == "cut":
        os.truncate(top / "a", 1000)
    elif how == "gone":
        (top / "a").unlink()
    elif how == "swapped":
        (top / "a").rename(top / "t")
        (top / "b").rename(top / "a")
        (top / "t").rename(top / "b")
    else:
        damage(server.data / "store" / "admin" / "indexes" / made)
    api.ok("DELETE", f"/sandbox/{made}")
    reply = api("PUT", f"/sandbox/{made}", {"restore": True})
    assert reply.status >= 500, reply
    assert "restore" in reply.json["error"]
    api("GET", f"/sandbox/{made}").error(404, "NOT_FOUND")
    if how in ("flipped", "cut"):
        with pytest.raises(Exception):  # a body that is not as long as it says
            assert api("GET", stored(made, "a")).status >= 500
            raise ValueError
    api.ok("PUT", f"/sandbox/{made}", {})
    python(api, made, "for n in 'ab': open('/workspace/' + n, 'w').write(n * 500000)")
    if how == "index":  # all of it is put again
        assert sync(api, made)["put"] == 2
        again(api, made)


def test_a_store_that_cannot_be_written_to(server, api, made):
    api.exec(made, "cd /workspace && echo 1 >one && echo 2 >two")
    sync(api, made)
    store = server.data / "store"
    hidden = store.with_name("hidden")
    before = on_disk(server, made)
    api.exec(made, "cd /workspace && rm one && echo 3 >three")
    uid = os.stat(where(server, made)).st_uid
    dirs = [store, *(p for p in store.rglob("*") if p.is_dir())]
    for dir_ in dirs:
        os.chown(dir_, 0, 0)
        os.chmod(dir_, 0o755)
    try:
        reply = api("POST", f"/sandbox/{made}/sync", {})
        assert reply.status == 503, reply
        state = api.ok("GET", f"/sandbox/{made}/sync")
        assert state["state"] == "failed" and state["error"] and state["retryAt"], state
        assert api.exec(made, "cat /workspace/three")["stdout"] == "3\n"
        with api.stream("POST", f"/sandbox/{made}/sync", {}) as stream:
            assert stream.until("error")[-1].data["error_code"]
        assert on_disk(server, made) == before
    finally:
        for dir_ in dirs:
            os.chown(dir_, uid, uid)
            os.chmod(dir_, 0o700)
        assert not hidden.exists()
    done = sync(api, made)
    assert (done["put"], done["deleted"]) == (1, 1)
    assert on_disk(server, made) == {"two": b"2\n", "three": b"3\n"}


@contextlib.contextmanager
def unwritable(server, box):
    """Its own objects: others can be stored."""
    top = where(server, box)
    owner = os.stat(top)
    os.chown(top, 0, 0)
    os.chmod(top, 0o755)
    yield
    os.chmod(top, 0o700)
    os.chown(top, owner.st_uid, owner.st_gid)


def test_nothing_is_archived_that_is_to_be_synced(server, api, made):
    api.exec(made, "echo 1 >/workspace/one")
    sync(api, made)
    with unwritable(server, made):
        api.exec(made, "echo 2 >/workspace/two")
        api("POST", f"/sandbox/{made}/sync", {}).error(503, "STORE_UNAVAILABLE")
        api.ok("PATCH", f"/sandbox/{made}", {"archiveAfter": 1})
        api.ok("POST", f"/sandbox/{made}/sleep")
        time.sleep(6)
        assert api.ok("GET", f"/sandbox/{made}/sync")["retryAt"] is not None
        assert api.ok("GET", f"/sandbox/{made}")["archived"] is False
    sync(api, made)
    eventually(lambda: api.ok("GET", f"/sandbox/{made}")["archived"])


def test_one_that_is_archived_is_synced_when_it_is_back(api, made):
    api.exec(made, "echo 1 >/workspace/one")
    api.ok("POST", f"/sandbox/{made}/archive")
    api("POST", f"/sandbox/{made}/sync", {}).error(409, "CONFLICT", "archived")
    assert api.ok("GET", f"/sandbox/{made}/sync")["retryAt"] is not None
    api.exec(made, "true")
    sync(api, made)
    assert "retryAt" not in api.ok("GET", f"/sandbox/{made}/sync")


def test_a_server_killed_in_the_middle(make_server):
    server = make_server()
    api = Client(server, ADMIN)
    api.ok("PUT", "/sandbox/k", {})
    python(api, "k", "for i in range(3000): open(f'/workspace/f{i}', 'w').write(str(i) * 500)")
    before = python(api, "k", SEEN)
    pid = server.daemon_pid()
    with contextlib.suppress(OSError, http.client.HTTPException):  # it is gone
        with api.stream("POST", "/sandbox/k/sync", {}) as stream:
            eventually(lambda: len(on_disk(server, "k")) > 100)
            os.kill(pid, signal.SIGKILL)
            for event in stream:
                assert event.name == "progress", "it was done before it was killed"

    def is_done():
        try:
            return server.daemon_pid() != pid and api.ok("GET", "/sandbox/k/sync")["state"] == "done"
        except (OSError, AssertionError, http.client.HTTPException):
            return False

    eventually(is_done)  # the next daemon goes on with it
    assert len(on_disk(server, "k")) == 3000
    again(api, "k")
    assert python(api, "k", SEEN) == before
    assert sync(api, "k")["put"] == 0


def cut_off(server, api, box, between):
    """As a sync leaves it that was ended before it could write its index: the objects are newer, and marked as such."""
    indexes = server.data / "store" / "admin" / "indexes"
    old, kept = indexes / box, indexes.with_name(f"kept-{box}")
    api.ok("PUT", stored(f"{box}-none", "none"), b"")
    shutil.copy2(old, kept)
    between()
    shutil.copy2(kept, old)
    shutil.copy2(where(server, f"{box}-none") / "none", indexes / f"{box}~")
    os.chown(indexes / f"{box}~", os.stat(old).st_uid, os.stat(old).st_gid)
    kept.unlink()


def test_what_a_sync_that_was_cut_off_has_left(server, api, made):
    """Its objects are not what the index says: a file that is as it was then is put all the same."""
    write = "import os; os.chdir('/workspace')\nfor n in {}: open(n, 'w').write({!r}); os.utime(n, ns=(1, 10**18))"
    python(api, made, write.format("['x', 'y', 'same']", "A"))
    sync(api, made)

    def halfway():
        python(api, made, write.format("['x']", "BB") + "\nos.unlink('y')")
        assert sync(api, made)["put"] == 1
        assert on_disk(server, made) == {"x": b"BB", "same": b"A"}

    cut_off(server, api, made, halfway)
    python(api, made, write.format("['x', 'y']", "A") + "\nos.unlink('same')")
    sync(api, made)
    assert on_disk(server, made) == {"x": b"A", "y": b"A"}
    done = sync(api, made)
    assert (done["put"], done["deleted"], done["files"]) == (0, 0, 2), done
    again(api, made)
    assert api.exec(made, "cd /workspace && ls && cat x y")["stdout"] == "x\ny\nAA"


# A database that does not take what is written down of a restore: at its beginning, or for some seconds at its end.
REFUSALS = {
    "beginning": "BEFORE INSERT ON syncs WHEN NEW.state = 4 AND (SELECT state FROM syncs WHERE sandbox = NEW.sandbox) = 4",
    "end": "BEFORE DELETE ON syncs WHEN CAST(strftime('%s', 'now') AS INTEGER) < {}",
}


@pytest.fixture
def refused(top):
    """A server that may complain of being refused."""
    server = Server(tempfile.mkdtemp(prefix="own-", dir=top))
    yield server
    assert server.stop() == 0
    assert [line for line in server.faults() if "refused" not in line] == []


@pytest.mark.parametrize("when", REFUSALS)
def test_a_restore_that_nobody_could_write_down(refused, when):
    """It fails; and the sandbox of that id that somebody makes then is not taken for what is left of it."""
    server, api = refused, Client(refused, ADMIN)
    api.ok("PUT", stored("r", "x"), b"x")
    assert server.stop() == 0
    with contextlib.closing(sqlite3.connect(server.data / "daemon" / "cay.db")) as db:
        condition = REFUSALS[when].format(int(time.time()) + 12)
        db.execute(f"CREATE TRIGGER refuses {condition} BEGIN SELECT RAISE(ABORT, 'refused'); END")
    server.start()
    began = time.time()
    assert api("PUT", "/sandbox/r", {"restore": True}).status >= 500
    assert when == "beginning" or time.time() < began + 8, "too slow: it may not have been refused"
    api("GET", "/sandbox/r").error(404, "NOT_FOUND")
    api.ok("PUT", "/sandbox/r", {})
    api.exec("r", "echo mine >/workspace/y")
    if when == "end":
        time.sleep(max(0, began + 16 - time.time()))
    assert server.stop() == 0
    server.start()
    assert api.exec("r", "cat /workspace/y")["stdout"] == "mine\n"


def test_files_with_holes_do_not_fill_the_store(server, api, made):
    api.exec(made, "cd /workspace && echo x >x && truncate -s 1P huge")
    api("POST", f"/sandbox/{made}/sync", {}).error(403, "QUOTA_EXCEEDED", "sparse")
    assert on_disk(server, made) == {}
    assert sync(api, made, {"exclude": ["huge"]})["put"] == 1
