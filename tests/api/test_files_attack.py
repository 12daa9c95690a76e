# SPDX-License-Identifier: Apache-2.0
"""Attempts 29 to 32 on files: paths that lead elsewhere, links, what is no plain file, uploads onto the wrong thing.

A canary lies on the host where a path that escaped would end. Whatever is asked, its text never comes back and it stays
as it is."""

import http.client
import os
import pathlib
import secrets
import socket
import time

import pytest
from api_helpers import FULL, PATIENCE, at_once, eventually
from test_files import Files, blob

ROUNDS = 20_000 if FULL else 1000


@pytest.fixture(scope="module")
def canary(tmp_path_factory):
    """A file of the host whose path exists in no box, and a guard that it is as it was."""
    top = pathlib.Path("/var/tmp") / f"cay-canary-{secrets.token_hex(8)}"
    top.mkdir(mode=0o777)
    path = top / "canary"
    text = secrets.token_hex(32)
    path.write_text(text)
    path.chmod(0o666)
    before = path.stat()
    yield path
    after = path.stat()
    assert path.read_text() == text
    assert (after.st_mode, after.st_uid, after.st_ino, after.st_nlink) == (before.st_mode, before.st_uid, before.st_ino, 1)
    assert os.listdir(top) == ["canary"]
    path.unlink()
    top.rmdir()


@pytest.fixture
def files(api, box, canary):
    return Files(api, box)


def raw(api, method, target, body=b""):
    """A request whose target is sent as it is: status and body."""
    sock = socket.create_connection(("127.0.0.1", api.server.port), PATIENCE)
    head = f"{method} ".encode() + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    head += f"Authorization: Bearer {api.token}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    answer = b""
    try:
        sock.sendall(head + body)
        while piece := sock.recv(65536):
            answer += piece
    except ConnectionError:
        pass
    sock.close()
    assert answer.startswith(b"HTTP/1.1 "), answer[:100]
    return int(answer[9:12]), answer


# -- 29


def escapes(path):
    """Ways to write that path above the root."""
    up = ["..", "%2e%2e", "%2E.", ".%2e", "%252e%252e", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae", "..%00", "..;", "....", "..%5c..", "..\\.."]
    for dots in up:
        for n in (1, 3, 12):
            yield "/".join([dots] * n) + path
            yield "tmp/" + "/".join([dots] * n) + path
            yield "%2f".join([dots] * n) + path.replace("/", "%2f")
    yield "/" + path  # an empty segment
    yield "." + path
    yield "%2e" + path
    yield path[1:] + "%00.txt"
    yield path[1:] + "/"
    yield path[1:] + "/."
    yield "proc/1/root" + path
    yield "proc/self/root" + path
    yield "proc/self/cwd/../../../../.." + path


def test_29_traversal(api, files, canary):
    text = canary.read_bytes()
    for path in escapes(str(canary)):
        target = f"/sandbox/{files.box}/files/{path}".encode()
        for method, body in (("GET", b""), ("PUT", b"pwned"), ("PUT", b"pwned" * 60_000), ("DELETE", b"")):
            status, answer = raw(api, method, target, body)
            assert status < 500, (method, path, answer[:300])
            assert text not in answer, (method, path)
            if method == "GET":
                assert status in (400, 403, 404), (path, answer[:300])


def test_29_traversal_in_bodies(api, files, canary):
    text = canary.read_text()
    for path in escapes(str(canary)):
        for path in (path, "/" + path):
            for what, body in [
                ("delete", {"path": path}),
                ("mkdir", {"path": path}),
                ("chmod", {"path": path, "mode": "0777"}),
                ("move", {"from": path, "to": "/x"}),
                ("copy", {"from": path, "to": "/x"}),
                ("copy", {"from": "/etc/hostname", "to": path}),
                ("search", {"path": path, "text": "a"}),
                ("batch", {"operations": [{"op": "read", "path": path}]}),
            ]:
                reply = files.do(what, body)
                assert reply.status < 500 and text not in reply.body.decode(), (what, path, reply)
            reply = files.api("GET", f"/sandbox/{files.box}/archive?path={path.replace('%', '%25')}")
            assert reply.status < 500 and text.encode() not in reply.body, (path, reply)


def test_29_canonical_or_refused(files):
    for path in ("/a/../b", "/a/./b", "/a//b", "/a/", "a", "", "/..", "/.", "/a/" + "x" * 256, "/" + "x/" * 3000 + "x"):
        files.do("mkdir", {"path": path}).error(400, "INVALID_REQUEST", "path")
        files.do("batch", {"operations": [{"op": "stat", "path": path}]}).error(400, "INVALID_REQUEST", "path")
    files.do("mkdir", {"path": "/a\u0000b"}).error(400, "INVALID_REQUEST", "path")
    assert files.names("", "?list&hidden=1") == files.names("", "?list&hidden=1")


def test_29_long(api, files):
    for n in (255, 256, 1000, 3900):
        status, answer = raw(api, "GET", f"/sandbox/{files.box}/files/{'a' * n}".encode())
        assert status == (404 if n == 255 else 400), answer[:300]
    status, _ = raw(api, "GET", f"/sandbox/{files.box}/files/{'a' * 5000}".encode())
    assert status == 414
    status, _ = raw(api, "GET", f"/sandbox/{files.box}/files/{'a/' * 1900}a".encode())
    assert status == 404
    status, _ = raw(api, "GET", f"/sandbox/{files.box}/files/{'a/' * 100_000}a".encode())
    assert status in (414, 431)


# -- 30


def test_30_links_lead_into_the_box(api, files, canary):
    files.sh(f"echo mine > /etc/shadow; ln -s /etc/shadow /s; ln -s {canary} /c; ln -s / /r; ln -s ../../../../../../..{canary} /u; ln -s /s /ss")
    assert files.read("/s") == files.read("/ss") == b"mine\n"
    assert files.read("/r/etc/shadow") == b"mine\n"
    host = pathlib.Path("/etc/shadow").read_bytes()
    for path in ("/c", "/u", f"/r{canary}"):
        files.get(path).error(404, "NOT_FOUND")
    for path in ("/c", "/u"):
        reply = files.put(path, b"pwned")  # makes the box's own, where the link leads
        assert reply.status in (200, 201, 404), reply
        files.do("chmod", {"path": path, "mode": "0000"})
        files.do("chown", {"path": path, "user": "1000"})
        files.done("copy", {"from": path, "to": path + "-copy"})
        files.done("move", {"from": path, "to": path + "-moved"})
        assert files.api("DELETE", files.url(path + "-moved")).status == 200
    files.sh("ln -sfn /etc/shadow /s2")
    assert files.api("DELETE", files.url("/s2")).status == 200
    assert files.read("/etc/shadow") == b"mine\n"  # the link went, not what it leads to
    assert pathlib.Path("/etc/shadow").read_bytes() == host


def test_30_loops(files):
    files.sh("ln -s /b /a; ln -s /a /b; mkdir /d; ln -s /d /d/d; ln -s . /dot")
    for path in ("/a", "/b", "/a/x"):
        files.get(path).error(400, "INVALID_REQUEST")
        files.put(path, b"x").error(400, "INVALID_REQUEST")
    names = [e["path"] for e in files.api.ok("GET", files.url("/d", "?list&recursive=1"))["entries"]]
    assert names == ["/d/d"]
    files.done("copy", {"from": "/d", "to": "/e"})
    files.done("delete", {"path": "/d", "recursive": True})


def test_30_swapped_all_the_time(api, files, canary):
    """A directory becomes a link to where the canary is, and back, while everything is asked of it."""
    text = canary.read_bytes()
    files.sh(f"mkdir -p {canary.parent} /w/real; echo box > {canary}; echo real > /w/real/canary; ln -s {canary.parent} /w/link; mkdir /w/d; echo d > /w/d/canary")
    swap = "import os\nwhile 1:\n  for a, b in (('/w/d','/w/t'),('/w/link','/w/d'),('/w/d','/w/link'),('/w/t','/w/d')):\n    os.rename(a, b)"
    swapper = api.start(files.box, {"argv": ["python3", "-c", swap]})

    def read():
        for _ in range(ROUNDS):
            assert text not in files.get("/w/d/canary").body

    def write():
        for i in range(ROUNDS // 2):
            assert files.put("/w/d/canary", b"%d" % i).status < 500

    def others():
        for i in range(ROUNDS // 4):
            for what, body in [
                ("chmod", {"path": "/w/d/canary", "mode": "0600"}),
                ("copy", {"from": "/w/d", "to": f"/w/c{i}"}),
                ("move", {"from": "/w/d/canary", "to": "/w/m", "replace": True}),
                ("move", {"from": "/w/m", "to": "/w/d/canary", "replace": True}),
                ("delete", {"path": f"/w/c{i}", "recursive": True}),
                ("search", {"path": "/w", "text": "a"}),
            ]:
                reply = files.do(what, body)
                assert reply.status < 500 and text not in reply.body, reply

    at_once(read, write, others)
    api("DELETE", f"/sandbox/{files.box}/processes/{swapper}")


# -- 31


def test_31_what_is_no_plain_file(api, files):
    files.sh(
        "mkfifo /fifo; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/sock\")';"
        "ln -s /fifo /link; ln -s /proc/self/mem /mem; ln -s /dev/zero /zero"
    )
    start = time.monotonic()
    for path in ("/fifo", "/sock", "/link", "/dev/zero", "/dev/null", "/zero", "/dev/tty", "/proc/kmsg", "/mem"):
        for method in ("GET", "HEAD", "PUT"):
            reply = api(method, files.url(path), b"x" if method == "PUT" else None)
            assert 400 <= reply.status < 500, (method, path, reply)
        reply = files.do("batch", {"operations": [{"op": "read", "path": path}]})
        assert reply.status == 200 and reply.json["success"] is False
    assert time.monotonic() - start < PATIENCE
    assert api.exec(files.box, "test -p /fifo && test -S /sock && test -c /dev/null")["success"]


def test_31_made_up_by_the_kernel(api, files):
    """They have no size, no end, or block: none of them is served as what it claims to be, none hangs."""
    for path in ("/proc/self/status", "/proc/1/environ", "/proc/self/mem", "/proc/kcore", "/proc/self/fd/0", "/proc/self/pagemap", "/proc/cpuinfo", "/sys/kernel/notes"):
        for method in ("GET", "HEAD"):
            reply = api(method, files.url(path))
            assert 400 <= reply.status < 500, (method, path, reply)
    for fd in range(40):  # the hand's own
        assert files.get(f"/proc/self/fd/{fd}").status in (400, 403, 404)


def test_31_sparse(api, files):
    files.sh("truncate -s 1T /sparse; printf end >> /sparse")
    size = (1 << 40) + 3
    head = api("HEAD", files.url("/sparse"))
    assert head.status == 200 and head.headers["Content-Length"] == str(size)
    reply = files.get("/sparse", headers={"Range": "bytes=-4"})
    assert reply.status == 206 and reply.body == b"\0end"
    reply = files.get("/sparse", headers={"Range": f"bytes={1 << 39}-{(1 << 39) + 99}"})
    assert reply.body == b"\0" * 100
    connection = api.connect()
    headers, _ = api.head({}, None)
    connection.request("GET", files.url("/sparse"), headers=headers)
    response = connection.getresponse()
    assert len(response.read(1 << 20)) == 1 << 20
    response.close()
    connection.close()
    assert files.read("/etc/hostname")
    assert files.do("batch", {"operations": [{"op": "read", "path": "/sparse"}]}).json["results"][0]["error_code"] == "PAYLOAD_TOO_LARGE"


# -- 32


def test_32_setuid_stays_out(files):
    files.sh("cp /bin/true /suid; chmod 6755 /suid")
    files.write("/suid", b"#!/bin/sh\n")  # new content is not trusted as the old was
    assert files.stat("/suid")["mode"] in ("0755",)
    for mode in ("4755", "2755", "1755", "7777"):
        assert files.put("/x", b"", f"?mode={mode}").status == 400
        assert files.do("chmod", {"path": "/suid", "mode": mode}).status == 400


def test_32_links_are_not_written_through_elsewhere(api, files):
    """A hard link: the other name keeps what it had."""
    files.sh("echo one > /a; ln /a /b")
    files.write("/a", b"two")
    assert files.read("/b") == b"one\n"


def test_32_read_only_parts(api, files):
    for path in ("/proc/sys/kernel/hostname", "/dev/new", "/usr/bin/true", "/sys/x"):
        reply = files.put(path, b"x")
        assert 400 <= reply.status < 500 or (path == "/dev/new" and reply.status == 201), (path, reply)


# -- the hand, which is the box's


def test_a_box_that_kills_its_helper(api, files):
    """Everything in the box that may be killed is, all the time: calls fail at most, and work again after it."""
    files.write("/f", blob(100_000))
    killer = api.start(files.box, {"command": "while :; do for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n -gt 1 ] && [ $n != $$ ] && kill -9 $n; done; done 2>/dev/null"})

    def calls(name):
        for i in range(40):
            for reply in (
                files.get("/f"),
                files.put("/g", b"x"),
                files.put("/h", blob(400_000)),
                files.get("", "?list&recursive=1&limit=50"),
                files.do("copy", {"from": "/etc", "to": f"/{name}{i}"}),
            ):
                assert reply.status in (200, 201, 503), reply

    at_once(lambda: calls("x"), lambda: calls("y"))
    api("DELETE", f"/sandbox/{files.box}/processes/{killer}")
    eventually(lambda: files.get("/f").status == 200)
    assert files.read("/f") == blob(100_000)


def test_a_helper_that_is_stopped(api, files):
    """It does not answer, but nothing else waits; when it goes on, so do the calls."""
    files.write("/f", b"x")
    files.sh("for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n -gt 1 ] && [ $n != $$ ] && kill -STOP $n; done 2>/dev/null; true")
    connection = http.client.HTTPConnection("127.0.0.1", api.server.port, timeout=1)
    headers, _ = api.head({}, None)
    connection.request("GET", files.url("/f"), headers=headers)
    try:
        connection.getresponse()
    except TimeoutError:
        pass
    connection.close()
    assert api.exec(files.box, "echo still")["stdout"] == "still\n"
    files.sh("for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n -gt 1 ] && kill -CONT $n; done 2>/dev/null; true")
    assert files.read("/f") == b"x"
