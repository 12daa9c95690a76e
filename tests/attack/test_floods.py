# SPDX-License-Identifier: Apache-2.0
"""Too much of everything. These run against the release build: the sanitizer's own memory would hide the daemon's."""

import http.client
import json
import os
import resource
import socket
import time

import api_helpers
import pytest
from attack_helpers import ADMIN, PATIENCE, TOP, Client, Server, ask, at_rest, daemon_pid, is_error, memory
from attack_helpers import raw, raw_connect, read_reply, restarts

MIB = 2**20


@pytest.fixture(scope="module")
def plain(top):
    program = os.environ.get("CAY", str(TOP / "build" / "cay"))
    saved, api_helpers.CAY = api_helpers.CAY, program
    try:
        os.mkdir(f"{top}/plain")
        server = Server(f"{top}/plain", "--log-level", "info")
    finally:
        api_helpers.CAY = saved
    client = Client(server)
    client.ok("PUT", "/sandbox/b", {})
    yield server
    assert restarts(client) == 0
    assert server.stop() == 0
    assert server.faults() == []


@pytest.fixture
def calm(plain):
    """In the end it answers at once, and has no more descriptors and hardly more memory than before."""
    pid = daemon_pid(plain)
    client = Client(plain)
    client.exec("b", "true")
    before, weight = at_rest(plain), memory(pid)
    yield plain
    assert client.exec("b", "echo fine")["stdout"] == "fine\n"
    assert daemon_pid(plain) == pid
    assert at_rest(plain, before) == before
    assert memory(pid) - weight < 12 * MIB


def head_of(line, *lines):
    return ("\r\n".join([f"{line} HTTP/1.1", "Host: x", f"Authorization: Bearer {ADMIN}", *lines]) + "\r\n\r\n").encode()


# -- heads


def test_huge_heads(calm):
    for data in (
        head_of("GET /sandbox", "X: " + "x" * 10**6),
        head_of("GET /sandbox", "x" * 10**6 + ": x"),
        head_of("GET /sandbox", *["X: y"] * 10**5),
        head_of("GET /sandbox", *[f"X-{i}: y" for i in range(10**5)]),
        head_of("GET /sandbox", "Cookie: " + ";".join(f"a{i}=b" for i in range(10**4))),
        head_of("GET /" + "x" * 10**6),
        head_of("GET /sandbox?" + "a=b&" * 10**5),
        head_of("GET /" + "%41" * 10**5),
        head_of("GET " + "/a" * 10**5),
        b"X" * 10**6,
        b"GET " + b"x" * 10**7,
        b"\r\n" * 10**6,
        b"\0" * 10**6,
        os.urandom(10**6),
    ):
        try:
            reply = raw(calm, data)
        except ConnectionResetError:
            continue  # it went on sending for too long to be told
        if reply.status is not None:
            is_error(reply, 400, 404, 414, 431, 501, 505)


def test_a_head_without_an_end(calm):
    """Line after line: it is refused where it becomes too much, not when it ends."""
    with raw_connect(calm) as s:
        s.sendall(b"GET /sandbox HTTP/1.1\r\nHost: x\r\n")
        sent = 0
        try:
            for i in range(10**5):
                s.sendall(b"X-Header: 0123456789012345678901234567890123456789\r\n" * 16)
                sent += 16
                if sent > 2000:
                    break
        except OSError:
            pass
        s.settimeout(PATIENCE)
        try:
            data = s.recv(65536)
        except ConnectionResetError:
            data = b""
        assert data == b"" or data.startswith(b"HTTP/1.1 431 "), data[:200]


def test_a_gigabyte_that_is_only_told(calm):
    """Two hundred such clients at a time, who then say nothing more."""
    sockets = []
    for length in (10**9, 10**18, 31 * MIB):
        for _ in range(70):
            s = raw_connect(calm)
            s.sendall(head_of("POST /sandbox/b/exec", f"Content-Length: {length}") + b'{"command": "')
            sockets.append(s)
    assert Client(calm).ok("GET", "/health")["ok"]
    assert memory(daemon_pid(calm)) < 64 * MIB
    for s in sockets:
        s.close()


def test_chunks_without_an_end(calm):
    """A body whose length is not told is cut off where it becomes too long."""
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with raw_connect(calm) as s:
        s.sendall(head_of("POST /sandbox/b/exec", "Transfer-Encoding: chunked"))
        try:
            for _ in range(48 * 16):  # 48 MiB; a refused client may go on for a moment
                s.sendall(chunk)
            is_error(read_reply(s), 413)
        except OSError:
            pass  # it was not listened to for longer


# -- connections


def test_a_thousand_half_open_connections(calm):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    sockets = []
    try:
        for i in range(1000):
            s = raw_connect(calm)
            kind = i % 5
            if kind == 1:
                s.sendall(b"G")
            elif kind == 2:
                s.sendall(b"GET /sandbox HTTP/1.1\r\nHost: x\r\nX")
            elif kind == 3:
                s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                s.shutdown(socket.SHUT_WR)
            elif kind == 4:
                s.sendall(head_of("POST /sandbox/b/exec", "Content-Length: 100") + b"{")
            sockets.append(s)
        client = Client(calm)
        assert client.exec("b", "echo in spite of it")["stdout"] == "in spite of it\n"
        assert client.ok("GET", "/health")["ok"]
    finally:
        for s in sockets:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_clients_that_do_not_read(calm):
    """A process that writes much faster than its readers read, and answers that nobody takes."""
    client = Client(calm)
    pid = daemon_pid(calm)
    client.start("b", {"command": "yes 0123456789012345678901234567890123456789 | head -c 200000000", "id": "loud"})
    sockets = []
    logs = "GET /sandbox/b/processes/loud/logs"
    loud = json.dumps({"command": "head -c 15000000 /dev/zero | tr '\\0' x"})
    for _ in range(6):
        for data in (
            head_of(logs, "Accept: text/event-stream"),
            head_of(f"{logs}?follow=1"),
            head_of("GET /sandbox/b/events", "Accept: text/event-stream"),
        ):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", calm.port))
            s.sendall(data)
            sockets.append(s)
    for _ in range(50):  # pipelined: one answer at a time is made, however many are asked for
        sockets[2].sendall(head_of("GET /openapi.json"))
    assert client.ended("b", "loud")["success"]
    assert memory(pid) < 64 * MIB, memory(pid) // MIB
    s = raw_connect(calm)
    s.sendall(head_of("POST /sandbox/b/exec", f"Content-Length: {len(loud)}") + loud.encode())
    sockets.append(s)
    time.sleep(0.5)
    assert memory(pid) < 96 * MIB, memory(pid) // MIB
    for s in sockets:
        s.close()
    client.ok("DELETE", "/sandbox/b/processes/loud")


@pytest.mark.long
def test_thousands_of_requests_leave_nothing(calm):
    """The first hundred are for what is made once; the next thousands cost nothing that stays."""
    pid = daemon_pid(calm)
    connection = http.client.HTTPConnection("127.0.0.1", calm.port, timeout=PATIENCE)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do(method, path, body=None, *statuses, **headers):
        text = None if body is None else json.dumps(body)
        headers = {"Authorization": f"Bearer {ADMIN}", **headers}
        connection.request(method, path, text, headers)
        response = connection.getresponse()
        answer = response.read()
        assert response.status in statuses, (method, path, answer)

    def round_of_all(i):
        do("GET", "/health", None, 200)
        do("GET", "/sandbox", None, 200)
        do("GET", "/sandbox/b", None, 200)
        do("GET", "/sandbox/b/events", None, 200)
        do("POST", "/sandbox/b/exec", {"argv": ["true"], "env": {"A": "b" * 100}}, 200)
        do("POST", "/sandbox/b/exec", {"nonsense": 1}, 400)
        do("GET", "/sandbox/nobody", None, 404)
        do("GET", "/nowhere", None, 404)
        do("GET", "/sandbox", None, 401, Authorization=f"Bearer wrong{i}")
        do("PATCH", "/sandbox/b", {"labels": {"i": str(i)}}, 200)
        do("POST", "/tokens", {"name": "t", "tenant": "t"}, 201)
        do("PUT", "/sandbox/b", {}, 200, 409)
        if i % 10 == 0:
            do("PUT", f"/sandbox/x{i}", {}, 201, 503)
            do("POST", f"/sandbox/x{i}/sessions", {"id": "s"}, 201, 404)
            do("POST", f"/sandbox/x{i}/exec", {"session": "s", "command": "true"}, 200, 404)
            do("POST", f"/sandbox/x{i}/processes", {"argv": ["true"]}, 201, 404)
            do("DELETE", f"/sandbox/x{i}", None, 200, 404)

    for i in range(60):
        round_of_all(i)
    weight = memory(pid)
    rounds = 250
    for i in range(60, 60 + rounds):
        round_of_all(i)
    connection.close()
    grown = memory(pid) - weight
    assert grown < 2 * MIB, f"{grown / rounds / 12:.0f} bytes a request"


def test_tokens_that_are_guessed(calm):
    """Ten thousand wrong ones are ten thousand refusals; none is kept."""
    weight = memory(daemon_pid(calm))
    lines = b"".join(f"GET /sandbox HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer cay_{i:043d}\r\n\r\n".encode() for i in range(2000))
    with raw_connect(calm) as s:
        s.sendall(lines)
        seen = b""
        while seen.count(b"HTTP/1.1 401") < 2000:
            got = s.recv(MIB)
            assert got, seen[-500:]
            seen += got
    assert memory(daemon_pid(calm)) - weight < 4 * MIB
    assert ask(calm, "GET /sandbox", ADMIN).status == 200
