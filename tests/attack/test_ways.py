# SPDX-License-Identifier: Apache-2.0
"""Ways in and out, used by somebody who wants to break them: what a stranger, a tenant or a program in a box can make the
server hold, and whom that hurts."""

import os
import resource
import socket
import stat
import tempfile
import time

import api_helpers
import pytest
from attack_helpers import ADMIN, PATIENCE, Client, Server, ask, at_once, daemon_pid, eventually, raw_connect
from attack_helpers import read_reply

MIB = 2**20


def head(line, *lines):
    return ("\r\n".join([f"{line} HTTP/1.1", "Host: x", *lines]) + "\r\n\r\n").encode()


@pytest.fixture
def box(admin):
    name = f"ways-{time.monotonic_ns()}"
    admin.ok("PUT", f"/sandbox/{name}", {})
    yield name
    admin("DELETE", f"/sandbox/{name}")


# -- bodies


@pytest.mark.parametrize("framing", [f"Content-Length: {32 * MIB}", "Content-Length: 16385", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("token", [[], ["Authorization: Bearer cay_nobody"], ["Authorization: Basic YTpi"]])
def test_a_stranger_sends_no_large_body(server, framing, token):
    """The answer does not wait for it: it would be kept in memory for whoever asks."""
    with raw_connect(server) as s:
        s.sendall(head("POST /sandbox", framing, *token))
        reply = read_reply(s)
        assert reply.status == 401, reply
        assert reply.headers["Connection"] == "close"
        assert s.recv(1) == b""


def test_large_bodies_have_a_limit_together(server, admin, box):
    """128 MiB of one token (test_clients.py has what is left for others), which somebody must really have sent; then
    the next are told to come again."""
    mine = f"Authorization: Bearer {ADMIN}"
    open_ones = [raw_connect(server) for _ in range(40)]
    try:
        for s in open_ones:  # saying so takes nothing
            s.sendall(head("POST /sandbox", f"Content-Length: {32 * MIB}", mine))
        assert admin("POST", f"/sandbox/{box}/exec", {"command": "wc -c", "stdin": "x" * MIB}).status == 200
        for s in open_ones[:4]:
            s.sendall(b" " * (32 * MIB - 1))

        def is_full():
            with raw_connect(server) as s:
                s.sendall(head("POST /sandbox", f"Content-Length: {MIB}", mine))
                s.settimeout(2)
                try:
                    return read_reply(s).status == 503
                except TimeoutError:
                    return False

        eventually(is_full)
        assert admin.exec(box, "echo fine")["stdout"] == "fine\n"  # small ones are not held up
    finally:
        for s in open_ones:
            s.close()
    eventually(lambda: admin("POST", f"/sandbox/{box}/exec", {"command": "wc -c", "stdin": "x" * MIB}).status == 200)


# -- the hand


@pytest.mark.long
def test_a_stopped_hand_is_given_up(admin, box):
    """User code is root in its box and may stop it: its sandbox gets another one, and nobody waits for ever."""
    assert admin("PUT", f"/sandbox/{box}/files/tmp/x", "hello").status == 201
    admin.exec(box, "kill -STOP $(pgrep -x cay | tail -n 1)")
    begun = time.monotonic()
    admin("GET", f"/sandbox/{box}/files/tmp/x").error(503, "UNAVAILABLE", "does not answer")
    assert time.monotonic() - begun < PATIENCE
    reply = admin("GET", f"/sandbox/{box}/files/tmp/x")
    assert (reply.status, reply.body) == (200, b"hello")


def test_too_many_watches_say_so(server, admin, box):
    line = f"GET /sandbox/{box}/watch?path=/tmp"
    watches = []
    try:
        for _ in range(64):
            watches.append(raw_connect(server))
            watches[-1].sendall(head(line, f"Authorization: Bearer {ADMIN}"))
            assert b" 200 " in watches[-1].recv(4096)
        ask(server, line, ADMIN).error(503, "UNAVAILABLE", "too many file operations")
        assert admin("PUT", f"/sandbox/{box}/files/tmp/x", "hello").status == 201
    finally:
        for s in watches:
            s.close()


# -- descriptors

ACCEPTS = "import socket; l = socket.create_server(('127.0.0.1', 3000), backlog=4096); a = []\nwhile True: a.append(l.accept())"


@pytest.fixture
def tight(top):
    """A server with few descriptors."""
    wrapper = os.path.join(top, "tight-cay")
    with open(wrapper, "w") as f:
        f.write(f'#!/bin/sh\nulimit -n 4200\nexec {api_helpers.CAY} "$@"\n')
    os.chmod(wrapper, stat.S_IRWXU)
    saved, api_helpers.CAY = api_helpers.CAY, wrapper
    try:
        server = Server(tempfile.mkdtemp(prefix="tight-", dir=top))
    finally:
        api_helpers.CAY = saved
    yield server
    assert server.stop() == 0
    assert server.faults() == []  # a box that was ended would be one


@pytest.mark.long
def test_a_flood_of_connections_ends_no_box(tight):
    """Where descriptors run out, messages of boxes would lose theirs, and boxes be ended for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    client, hosts, held = Client(tight), [], []
    for name in ("a", "b", "c"):
        client.ok("PUT", f"/sandbox/{name}", {})
        client.start(name, {"argv": ["python3", "-c", ACCEPTS]})
        hosts.append(client.ok("POST", f"/sandbox/{name}/ports", {"port": 3000})["url"].split("/")[2])

    def flood(host):
        for _ in range(1000):
            try:
                s = socket.create_connection(("127.0.0.1", tight.port), PATIENCE)
                held.append(s)
                s.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            except OSError:
                pass  # refused, as it should be

    try:
        at_once(*[lambda host=host: flood(host) for host in hosts])
        pid = daemon_pid(tight)
        eventually(lambda: len(os.listdir(f"/proc/{pid}/fd")) > 3500)
        time.sleep(1)  # those that wait to be accepted
        local = Client(tight, unix=True)
        for name in ("a", "b", "c"):
            assert local.exec(name, "echo fine")["stdout"] == "fine\n"
            assert local.ok("GET", f"/sandbox/{name}")["boxes"] == 1
    finally:
        for s in held:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    eventually(lambda: client("GET", "/health").status == 200)
