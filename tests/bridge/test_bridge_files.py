# SPDX-License-Identifier: Apache-2.0
"""GET and PUT of /v1/sandbox/{id}/file/{path}: bytes, of any number."""

import hashlib
import random
import socket
import urllib.parse

import pytest
from api_helpers import ADMIN, PATIENCE, eventually
from bridge_helpers import numbers, refused

MANY = 64 * 1024 * 1024


def many_bytes():
    return random.Random(4).randbytes(1024 * 1024) * (MANY // (1024 * 1024))


@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 48 * 1024 + 1, 256 * 1024, 256 * 1024 + 1, 3_000_000])
def test_there_and_back(api, shared, size):
    data = random.Random(size).randbytes(size)
    api.put(shared, f"workspace/sizes/{size}", data)
    assert api.get(shared, f"workspace/sizes/{size}") == data
    assert api.sh(shared, f"stat -c %s sizes/{size}").out == f"{size}\n".encode()


def test_more_than_theirs_takes(api, box):
    data = many_bytes()
    api.put(box, "workspace/many", data)
    assert api.sh(box, "sha256sum < many").out.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert api.get(box, "workspace/many") == data


def test_in_chunks(api, shared):
    pieces = [b"a" * 70_000, b"", b"b" * 300_000, b"c"]
    reply = api("PUT", f"/v1/sandbox/{shared}/file/workspace/chunks", (piece for piece in pieces if piece))
    assert reply.status == 200, reply
    assert api.get(shared, "workspace/chunks") == b"".join(pieces)


def test_a_part_of_it(api, shared):
    api.put(shared, "workspace/part", b"0123456789")
    reply = api("GET", f"/v1/sandbox/{shared}/file/workspace/part", headers={"Range": "bytes=3-5"})
    assert (reply.status, reply.body) == (206, b"345")
    assert api("HEAD", f"/v1/sandbox/{shared}/file/workspace/part").headers["Content-Length"] == "10"


@pytest.mark.parametrize("name", ["a b", "é中😀", "#?&%+", "a'b\"c", ".hidden", "x" * 255, "data: {", "...", "a\nb"])
def test_names(api, shared, name):
    path = "workspace/names/" + urllib.parse.quote(name, safe="")
    api.put(shared, path, name.encode())
    assert api.get(shared, path) == name.encode()
    assert name.encode() in api.sh(shared, "ls -1A --zero names").out.split(b"\0")


def test_a_file_is_replaced_whole(api, shared):
    api.put(shared, "workspace/whole", b"x" * 500_000)
    assert api.sh(shared, "chmod 0755 whole").code == 0
    api.put(shared, "workspace/whole", b"short")
    assert api.get(shared, "workspace/whole") == b"short"
    assert api.sh(shared, "stat -c %a whole").out == b"755\n"


def test_with_a_session(api, shared):
    """It makes no difference, and none is made."""
    name = f"f{next(numbers)}"
    headers = {"Session-Id": name}
    assert api("PUT", f"/v1/sandbox/{shared}/file/workspace/s", b"s", headers).json == {"ok": True}
    assert api("GET", f"/v1/sandbox/{shared}/file/workspace/s", headers=headers).body == b"s"
    assert api("GET", f"/sandbox/{shared}/sessions/{name}").status == 404


def test_a_write_is_a_first_use(api, box):
    assert api.state(box) is None
    api.put(box, "workspace/first", b"1")
    assert api.state(box) == "running"


def test_a_large_write_is_a_first_use(api, box):
    api.put(box, "workspace/first", b"1" * 400_000)
    assert api.state(box) == "running"


def test_files_outlive_sleep(api, box):
    api.put(box, "workspace/kept", b"kept")
    api.ok("POST", f"/sandbox/{box}/sleep")
    assert api.get(box, "workspace/kept") == b"kept"


# -- what goes wrong


@pytest.mark.parametrize(
    "path, status, code",
    [
        ("workspace/nothing", 404, "workspace_read_not_found"),
        ("workspace/no/such/dir", 404, "workspace_read_not_found"),
        ("workspace", 400, "exec_transport_error"),
        ("workspace/file/below", 400, "exec_transport_error"),
        ("workspace/loop", 400, "exec_transport_error"),
    ],
)
def test_reads_that_fail(api, shared, path, status, code):
    assert api.sh(shared, "echo > file; ln -sf loop loop").code == 0
    refused(api("GET", f"/v1/sandbox/{shared}/file/{path}"), status, code)


@pytest.mark.parametrize("path, status", [("workspace", 400), ("workspace/file/below", 400), ("workspace/dir", 400)])
@pytest.mark.parametrize("size", [1, 400_000])
def test_writes_that_fail(api, shared, path, status, size):
    assert api.sh(shared, "echo > file; mkdir -p dir").code == 0
    refused(api("PUT", f"/v1/sandbox/{shared}/file/{path}", b"x" * size), status, "workspace_archive_write_error")


def test_a_full_disk(api, box):
    api.ok("PUT", f"/sandbox/{box}", {"disk": "64m"})
    refused(api("PUT", f"/v1/sandbox/{box}/file/workspace/large", bytes(100 * 1024 * 1024)), 507, "workspace_archive_write_error")
    assert api("GET", f"/v1/sandbox/{box}/file/workspace/large").status == 404
    api.put(box, "workspace/small", b"x")


@pytest.mark.parametrize("path", ["etc/passwd", "workspacex/a", "tmp/workspace/a", "a"])
@pytest.mark.parametrize("method, body", [("GET", None), ("PUT", b"x"), ("PUT", b"x" * 400_000)], ids=["get", "put", "put-large"])
def test_outside(api, method, body, path):
    refused(api(method, f"/v1/sandbox/never-made/file/{path}", body), 403, "invalid_request", "/workspace")
    assert api.state("never-made") is None


@pytest.mark.parametrize("rest", ["", "/", "//a", "/../etc/passwd", "/./a", "/%2e%2e/x", "/a%2fb", "/%00", "/%", "/%ff"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_paths_that_are_none(api, method, rest):
    path = f"workspace{rest}" if rest else ""
    refused(api(method, f"/v1/sandbox/never-made/file/{path}", b"x" if method == "PUT" else None), 400, "invalid_request")
    assert api.state("never-made") is None


def test_a_name_that_is_too_long(api, shared):
    refused(api("PUT", f"/v1/sandbox/{shared}/file/workspace/{'x' * 256}", b"x"), 400, "invalid_request")


def test_links_lead_no_further_than_the_box(api, shared):
    assert api.sh(shared, "echo inside > /etc/cay-inside; ln -sf /etc/cay-inside out; ln -sfn / root").code == 0
    assert api.get(shared, "workspace/out") == b"inside\n"
    assert api.get(shared, "workspace/root/etc/cay-inside") == b"inside\n"


def test_compressed_bodies_are_told_so(api):
    reply = api("PUT", "/v1/sandbox/never-made/file/workspace/x", b"x", {"Content-Encoding": "gzip"})
    refused(reply, 415, "invalid_request", "Content-Encoding")
    assert api.state("never-made") is None


# -- cut short


def begin_upload(server, path, sent, length, method="PUT"):
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\nContent-Length: {length}\r\n\r\n"
    sock.sendall(head.encode() + bytes(sent))
    return sock


def test_an_upload_that_is_cut_changes_nothing(server, api, box):
    api.put(box, "workspace/cut", b"before")
    sock = begin_upload(server, f"/v1/sandbox/{box}/file/workspace/cut", 2_000_000, 4_000_000)
    sock.close()
    assert api.get(box, "workspace/cut") == b"before"
    eventually(lambda: api.sh(box, "ls -A /workspace").out == b"cut\n")


def test_a_download_that_is_cut_is_not_whole(server, api, box):
    api.put(box, "workspace/large", bytes(MANY))
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    sock.sendall(f"GET /v1/sandbox/{box}/file/workspace/large HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode())
    first = sock.recv(65536)
    assert first.startswith(b"HTTP/1.1 200") and f"Content-Length: {MANY}".encode() in first
    assert api("DELETE", f"/v1/sandbox/{box}").status == 204
    total = len(first)
    try:
        while piece := sock.recv(1 << 20):
            total += len(piece)
    except ConnectionResetError:
        pass
    assert total < MANY
