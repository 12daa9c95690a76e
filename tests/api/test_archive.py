# SPDX-License-Identifier: Apache-2.0
"""Trees in and out as tar archives. What is in a hostile archive is tried with the hand itself (tests/unit); here it is
what HTTP makes of it."""

import io
import os
import socket
import tarfile

import pytest
from api_helpers import PATIENCE, eventually
from test_files import Files, blob


@pytest.fixture
def files(api, box):
    return Files(api, box)


def make(*entries):
    """An archive of (name, bytes) and TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                info.mode = 0o640
                tar.addfile(info, io.BytesIO(entry[1]))
    return out.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def put(files, archive, path="/t", query="", headers=None):
    return files.api("PUT", f"/sandbox/{files.box}/archive?path={path}{query}", archive, headers)


def get(files, path):
    reply = files.api("GET", f"/sandbox/{files.box}/archive?path={path}")
    assert reply.status == 200, reply
    assert reply.headers["Content-Type"] == "application/x-tar"
    return tarfile.open(fileobj=io.BytesIO(reply.body))


@pytest.mark.parametrize("n", [10, 100_000, 200_000, 5_000_000])
def test_there_and_back(files, n):
    data = blob(n)
    info = tarfile.TarInfo("d")
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    reply = put(files, make(info, ("d/f", data), link("d/s", "f"), ("e", b"")))
    assert reply.status == 200, reply
    assert reply.json["entries"] == 4 and reply.json["path"] == "/t"
    assert files.read("/t/d/f") == data
    assert files.stat("/t/d/f")["mode"] == "0640"
    with get(files, "/t") as tar:
        names = {m.name.removeprefix("./").rstrip("/"): m for m in tar.getmembers()}
        assert {"d", "d/f", "d/s", "e"} <= set(names)
        assert tar.extractfile(names["d/f"]).read() == data
        assert names["d/s"].linkname == "f" and names["d/f"].mode == 0o640


def test_chunked_and_large(files):
    archive = make(*[(f"f{i}", blob(100_000, bytes([i]))) for i in range(50)])
    pieces = (archive[i : i + 65_536] for i in range(0, len(archive), 65_536))
    reply = put(files, pieces)
    assert reply.status == 200 and reply.json["entries"] == 50
    with get(files, "/t") as tar:
        assert sum(m.isfile() for m in tar.getmembers()) == 50


def test_owners(files):
    info = tarfile.TarInfo("f")
    info.uid, info.gid = 1000, 1001
    assert put(files, make(info)).status == 200
    assert files.stat("/t/f")["uid"] == 0
    assert put(files, make(info), path="/u", query="&owner=1").status == 200
    stat = files.stat("/u/f")
    assert (stat["uid"], stat["gid"]) == (1000, 1001)


def test_a_whole_system(files):
    """Everything that there is to read in the box, without a word that is not tar."""
    with get(files, "/etc") as tar:
        assert any(m.name.endswith("hostname") for m in tar.getmembers())


def test_refused(files):
    for archive, word in [
        (b"this is no archive at all" * 100, "tar"),
        (make(("../x", b"pwned")), ".."),
        (make(("a/../../x", b"pwned")), ".."),
        (make(link("l", "/"), ("l/etc/pwned", b"x")), "l"),
    ]:
        reply = put(files, archive)
        assert 400 <= reply.status < 500, reply
        assert word in reply.json["error"], reply
    assert files.get("/x").status == 404 and files.get("/etc/pwned").status == 404
    files.write("/file", b"")
    reply = put(files, make(("f", b"")), path="/file")
    assert 400 <= reply.status < 500, reply


def test_a_bad_entry_of_a_large_one(files):
    """The answer comes while the client still sends, and is heard."""
    archive = make(("../bad", b""), ("f", blob(20_000_000)))
    try:
        reply = put(files, archive)
    except (BrokenPipeError, ConnectionResetError):
        return  # it was told, but its library does not read while it writes
    assert 400 <= reply.status < 500, reply


def test_not_all_of_it(api, files):
    archive = make(("f", blob(2_000_000)))
    reply = put(files, archive[: 1_000_000])
    reply.error(400, "INVALID_REQUEST")
    sock = socket.create_connection(("127.0.0.1", api.server.port), PATIENCE)
    head = f"PUT /sandbox/{files.box}/archive?path=/t HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n"
    sock.sendall(f"{head}Content-Length: {len(archive)}\r\n\r\n".encode() + archive[:500_000])
    sock.close()
    eventually(lambda: files.get("/etc/hostname").status == 200)


def test_wrong_questions(files):
    box = files.box
    files.api("GET", f"/sandbox/{box}/archive").error(400, "INVALID_REQUEST", "path")
    files.api("GET", f"/sandbox/{box}/archive?path=x").error(400, "INVALID_REQUEST", "path")
    files.api("GET", f"/sandbox/{box}/archive?path=/nope").error(404, "NOT_FOUND")
    assert files.api("HEAD", f"/sandbox/{box}/archive?path=/etc").status == 400
    put(files, b"", headers={"Content-Encoding": "gzip"}).error(415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_failure_shows(api, files):
    """The hand is killed in the middle: the answer has no end."""
    files.sh("truncate -s 0 /big; head -c 64m /dev/urandom > /big")
    sock = socket.create_connection(("127.0.0.1", api.server.port), PATIENCE)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    sock.sendall(f"GET /sandbox/{files.box}/archive?path=/big HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n\r\n".encode())
    got = sock.recv(4096)
    assert got.startswith(b"HTTP/1.1 200") and b"chunked" in got
    files.sh("for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n -gt 1 ] && [ $n != $$ ] && kill -9 $n; done 2>/dev/null; true")
    tail = b""
    try:
        while piece := sock.recv(1 << 20):
            tail = (tail + piece)[-64:]
    except ConnectionResetError:
        pass
    assert not tail.endswith(b"0\r\n\r\n")


def test_http_1_0(api, files):
    """It knows no chunks: the end of the connection is the end."""
    files.write("/t/f", b"x" * 1000)
    sock = socket.create_connection(("127.0.0.1", api.server.port), PATIENCE)
    sock.sendall(f"GET /sandbox/{files.box}/archive?path=/t HTTP/1.0\r\nAuthorization: Bearer {api.token}\r\n\r\n".encode())
    answer = b""
    while piece := sock.recv(65536):
        answer += piece
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert "f" in [os.path.basename(n) for n in tarfile.open(fileobj=io.BytesIO(body)).getnames()]


def test_a_client_that_leaves(api, files):
    files.sh("head -c 100m /dev/urandom > /big")
    for _ in range(80):  # more than the hand has room for at once
        sock = socket.create_connection(("127.0.0.1", api.server.port), PATIENCE)
        sock.sendall(f"GET /sandbox/{files.box}/archive?path=/big HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n\r\n".encode())
        sock.recv(100)
        sock.close()
    eventually(lambda: files.api("GET", f"/sandbox/{files.box}/archive?path=/etc").status == 200)
