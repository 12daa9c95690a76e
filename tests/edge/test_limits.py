# SPDX-License-Identifier: Apache-2.0
"""What a stranger may send, and for how long. Each limit is hit, and what lies just below it passes."""

import re
import socket
import time

import pytest
from edge_helpers import FULL, HEALTH, OK_BODY, TOP, request, wait_until
from test_framing import CHUNKED, HIDDEN, POST, is_refused

LIMITS = (TOP / "src" / "edge" / "limits.h").read_text(encoding="utf-8")


def limit(name):
    product = re.search(rf"EDGE_{name} = ([0-9 *]+),", LIMITS)[1]
    value = 1
    for factor in product.split("*"):
        value *= int(factor)
    return value


TARGET, HEADERS, HEADER_BYTES = limit("TARGET_MAX"), limit("HEADERS_MAX"), limit("HEADER_BYTES_MAX")


def test_a_target_at_its_limit(server):
    target = "/describe/" + "a" * (TARGET - 10)
    with server.connect() as c:
        assert c.ask(request(target)).json()["target"] == target
        is_refused(c.ask(request(target + "a") + HIDDEN), 414)
        assert c.everything() == b""


def test_a_target_without_end(server):
    with server.connect() as c:
        c.send(b"GET /" + b"a" * 100_000)
        is_refused(c.reply(), 414)


def test_many_headers(server):
    lines = [f"X-{i}: a" for i in range(HEADERS - 1)]
    with server.connect() as c:
        assert c.ask(request(headers=lines)).body == OK_BODY
        is_refused(c.ask(request(headers=[*lines, "Y: a"]) + HIDDEN), 431)
        assert c.everything() == b""


def test_a_hundred_thousand_headers(server):
    with server.connect() as c:
        try:
            c.send(request(headers=["X: a"] * 100_000))
        except OSError:
            pass
        is_refused(c.reply(), 431)


def test_long_headers(server):
    frame = len("/health HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n")
    with server.connect() as c:
        value = "v" * (HEADER_BYTES - frame)
        assert c.ask(request(headers=["X: " + value])).body == OK_BODY
        is_refused(c.ask(request(headers=["X: v" + value]) + HIDDEN), 431)
        assert c.everything() == b""


@pytest.mark.parametrize("line", [b"X: " + b"v" * 1_000_000, b"X" * 1_000_000, b"X: " + b" " * 1_000_000])
def test_a_huge_header(server, line):
    with server.connect() as c:
        try:
            c.send(b"GET /health HTTP/1.1\r\nHost: a\r\n" + line + b"\r\n\r\n")
        except OSError:
            pass
        is_refused(c.reply(), 431)


def test_cookies_count_more(server):
    """Each takes memory of the connection, of which there is little."""
    with server.connect() as c:
        assert c.ask(request(headers=["Cookie: a=1; b=2"])).body == OK_BODY
        is_refused(c.ask(request(headers=["Cookie: " + "a;" * 500])), 431)


def test_everything_at_its_limit_is_still_answered(server):
    """The memory of a connection suffices for the largest head there may be, and for its answer."""
    args = "&".join(f"{chr(97 + i)}=1" for i in range(limit("QUERY_MAX")))
    target = "/describe/" + "a" * (TARGET - 11 - len(args)) + "?" + args
    lines = [f"X-{i}: a" for i in range(HEADERS - 2)]
    left = HEADER_BYTES - len(request(target, headers=lines)) - len("Y: \r\n") + len("GET ")
    head = request(target, headers=[*lines, "Y: " + "v" * left])
    with server.connect() as c:
        for _ in range(3):
            assert c.ask(head).json()["target"] == target
    with server.connect() as c:
        c.send(head * 5)
        for _ in range(5):
            assert c.reply().json()["target"] == target


def test_too_many_parameters(server):
    args = "&".join(f"a{i}" for i in range(limit("QUERY_MAX")))
    with server.connect() as c:
        assert c.ask(request("/describe?" + args)).status == 200
        is_refused(c.ask(request("/describe?" + args + "&b")), 400)


def test_a_gigabyte_that_is_declared_is_refused_at_once(server):
    before = server.stats()["resident"]
    with server.connect() as c:
        c.send(POST + b"Content-Length: 1073741824\r\n\r\n")
        is_refused(c.reply(), 413)
        assert c.everything() == b""
    assert server.stats()["resident"] - before < 16 << 20


def test_a_client_that_sends_a_gigabyte_anyway_hears_why(server):
    """It sends first and reads later, as most do: the answer must not be lost to a reset."""
    with server.connect() as c:
        c.send(POST + b"Content-Length: 1073741824\r\n\r\n")
        c.send(b"x" * (4 << 20))
        is_refused(c.reply(), 413)


def test_a_body_at_its_limit(server):
    body = b"y" * limit("BODY_MAX")
    with server.connect() as c:
        reply = c.ask(request("/echo", "POST", body=body))
        assert reply.status == 200 and reply.body == body
        is_refused(c.ask(POST + b"Content-Length: %d\r\n\r\n" % (len(body) + 1)), 413)


def test_memory_of_large_bodies_is_given_back(server):
    def peak():
        with server.connect() as c:
            c.send(CHUNKED + b"1000000\r\n" + b"z" * (1 << 24) + b"\r\n")
            c.reset()
        return server.stats()["resident"]

    first = max(peak() for _ in range(3))
    assert max(peak() for _ in range(10)) < first + (64 << 20)


# --- slow ones, on a server whose patience is short

IDLE = 2


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    from edge_helpers import Server

    server = Server(tmp_path_factory.mktemp("hasty"), idle=IDLE)
    yield server
    assert server.stop() == 0


def dribble(c, data, pause=0.3, rounds=200):
    """Sends byte by byte until the other side has had enough. How long that took."""
    start = time.monotonic()
    for i in range(rounds):
        try:
            c.send(data[i % len(data) : i % len(data) + 1])
            c.sock.settimeout(pause)
            if not c.sock.recv(4096):
                return time.monotonic() - start
        except socket.timeout:
            continue
        except OSError:
            return time.monotonic() - start
    raise AssertionError("it goes on for ever")


def test_slow_headers_are_ended(hasty):
    with hasty.connect() as c:
        c.send(b"GET /health HTTP/1.1\r\nHost: a\r\nX: ")
        assert dribble(c, b"v") >= IDLE


def test_a_slow_body_is_ended(hasty):
    with hasty.connect() as c:
        c.send(POST + b"Content-Length: 1000\r\n\r\n")
        assert dribble(c, b"b") >= IDLE


def test_slow_chunks_are_ended(hasty):
    with hasty.connect() as c:
        c.send(CHUNKED)
        assert dribble(c, b"1\r\na\r\n") >= IDLE


def test_an_idle_connection_is_ended(hasty):
    with hasty.connect() as silent, hasty.connect() as used:
        assert used.ask(HEALTH).body == OK_BODY
        assert silent.everything() == b"" and used.everything() == b""


def test_a_body_that_is_slow_but_comes_is_not_ended(hasty):
    """Longer than the limit for silence, and faster than the slowest rate."""
    body = b"c" * (limit("RATE_MIN") * 12)
    with hasty.connect() as c:
        c.send(POST + b"Content-Length: %d\r\n\r\n" % len(body))
        for i in range(0, len(body), len(body) // 8):
            c.send(body[i : i + len(body) // 8])
            time.sleep(0.5)
        assert c.reply().body == body


def test_pending_requests_and_quiet_streams_are_not_ended(hasty):
    with hasty.connect() as pending, hasty.connect() as quiet:
        quiet.send(request("/events")).head()
        start = time.monotonic()
        assert pending.ask(request(f"/later?ms={IDLE * 2000}")).body == b"later\n"
        assert time.monotonic() - start >= IDLE * 2
        hasty.ask(request("/send", "POST", body=b"still there"))
        assert b"data: still there\n\n" in quiet.chunk()


def test_slow_ones_do_not_hold_up_others(hasty):
    slow = [hasty.connect().send(b"GET /health HTTP/1.1\r\nHo") for _ in range(200)]
    assert hasty.ask().body == OK_BODY
    for c in slow:
        assert c.everything() == b""
        c.close()


def test_idle_connections_do_not_hurt_others(server):
    n = 8000 if FULL else 2000
    idle = [server.connect() for _ in range(n)]
    for c in idle[::4]:
        assert c.ask(HEALTH).body == OK_BODY
    times = []
    with server.connect() as c:
        for _ in range(200):
            start = time.monotonic()
            assert c.ask(HEALTH).body == OK_BODY
            times.append(time.monotonic() - start)
    assert sorted(times)[100] < 0.1
    for c in idle:
        c.close()
    assert wait_until(lambda: server.stats()["fds"] < 100)


@pytest.mark.parametrize("used", [True, False])
def test_the_oldest_idle_connections_make_room(make_server, used):
    """More than there may be, all of them idle: the newest are served."""
    server = make_server(files=256)
    clients = []
    for _ in range(400):
        c = server.connect()
        if used:
            assert c.ask(HEALTH).body == OK_BODY
        clients.append(c)
    assert server.ask().body == OK_BODY
    assert clients[-1].ask(HEALTH).body == OK_BODY
    assert clients[0].everything() == b""
    for c in clients:
        c.close()


def test_more_requests_than_connections_wait_for_their_turn(make_server):
    """None of them is idle, so nobody is turned out; nobody is refused either, nor is time burnt."""
    server = make_server(files=64)
    clients = [server.connect().send(request("/later?ms=700")) for _ in range(100)]
    for c in clients:
        assert c.reply().body == b"later\n"
        c.close()
    assert server.cpu() < 5
    assert server.ask().body == OK_BODY


def test_waiting_burns_no_processor(make_server):
    server = make_server()
    clients = []
    for data in (b"", b"GET /", HEALTH, request("/hold"), request("/events"), CHUNKED, CHUNKED + b"5",
                 CHUNKED + b"5\r\nhe", request("/echo", "POST", body=b"1234")[:-1]):
        clients.append(server.connect().send(data))
    clients.append(server.connect(receive_buffer=4096).send(request("/flood?bytes=100000000")))
    assert wait_until(lambda: server.stats()["active"] == 4)
    clients += [server.connect_unix().send(request("/hold"))]
    time.sleep(0.5)
    before = server.cpu()
    time.sleep(3)
    assert server.cpu() - before < 0.5
    for c in clients:
        c.close()
