# SPDX-License-Identifier: Apache-2.0
"""Answers of unknown length: events, floods, readers that are slow, gone, or half closed."""

import time

from edge_helpers import HEALTH, OK_BODY, Closed, request, wait_until
from test_limits import limit

QUEUE, HARD = limit("STREAM_QUEUE_MAX"), limit("STREAM_HARD_MAX")


def closed(server, n):
    return wait_until(lambda: server.stats()["closed"] >= n)


def test_the_head_comes_before_the_first_event(server):
    with server.connect() as c:
        start = time.monotonic()
        status, headers = c.send(request("/events")).head()
        assert status == 200 and headers["content-type"] == "text/event-stream"
        assert headers["cache-control"] == "no-store" and headers["x-accel-buffering"] == "no"
        assert time.monotonic() - start < 10


def test_events_come_as_they_are_sent(server):
    with server.connect() as c:
        c.send(request("/events")).head()
        for text in (b"one", b'{"a":1}', b"two\nlines", b"a\r\nb\rc\n", b""):
            server.ask(request("/send", "POST", body=text))
            lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            want = b"id: 1\nevent: note\n" + b"".join(b"data: " + x + b"\n" for x in lines) + b"\n"
            assert c.chunk() == want
        server.ask(request("/release"))
        assert c.chunk() == b""
        assert c.ask(HEALTH).body == OK_BODY


def test_resuming_needs_no_other_traffic(server):
    """A resumed request does not stir the library's epoll: without a run of it, it would hang until
    somebody else came, or a timer, once a second."""
    start = time.monotonic()
    with server.connect() as c:
        for _ in range(100):
            assert c.ask(request("/later?ms=5")).body == b"later\n"
    assert time.monotonic() - start < 50


def test_a_flood_comes_whole(server):
    with server.connect() as c:
        for size in (0, 1, 1000, QUEUE - 1, QUEUE, QUEUE + 1, 5_000_000):
            assert c.ask(request(f"/flood?bytes={size}")).body == b"x" * size
        assert c.ask(HEALTH).body == OK_BODY


def test_a_slow_reader_costs_bounded_memory(server):
    with server.connect(receive_buffer=4096) as c:
        c.send(request("/flood?bytes=100000000"))
        time.sleep(0.3)
        stats = server.stats()
        assert stats["queued_max"] <= QUEUE + 32 * 1024
        got = 0
        for _ in range(200):
            got += len(c.sock.recv(4096))
        assert got > 0
        c.reset()
    assert wait_until(lambda: server.stats()["active"] == 1)


def test_a_writer_that_does_not_wait_loses_the_stream(server):
    before = server.stats()
    with server.connect(receive_buffer=4096) as c:
        c.send(request(f"/rude?bytes={HARD * 4}"))
        assert closed(server, before["closed"] + 1)
        body = c.everything()
        assert not body.endswith(b"0\r\n\r\n")  # cut, and looks cut
    assert server.stats()["active"] == 1


def test_many_streams_at_once(server):
    streams = [server.connect() for _ in range(100)]
    for c in streams:
        c.send(request("/events")).head()
    for i in range(5):
        server.ask(request("/send", "POST", body=b"%d" % i))
    for c in streams:
        got = b""
        while b"data: 4\n\n" not in got:
            got += c.chunk()
        assert [f"data: {i}\n".encode() in got for i in range(5)] == [True] * 5
        c.close()
    assert wait_until(lambda: server.stats()["active"] == 1)


def test_a_quiet_event_stream_whose_reader_closes_is_noticed(server):
    """Nobody writes, so no write fails: a comment is written when the other side's FIN comes."""
    before = server.stats()["closed"]
    for connect in (server.connect, server.connect_unix):
        c = connect()
        c.send(request("/events")).head()
        c.close()
    assert closed(server, before + 2)
    assert server.stats()["active"] == 1


def test_an_event_stream_that_is_reset_is_noticed(server):
    before = server.stats()["closed"]
    c = server.connect()
    c.send(request("/events")).head()
    time.sleep(0.2)  # watched by now
    c.reset()
    assert closed(server, before + 1)


def test_a_half_closed_reader_still_gets_its_events(server):
    before = server.stats()["closed"]
    for connect in (server.connect, server.connect_unix):
        with connect() as c:
            c.send(request("/events")).half_close().head()
            time.sleep(0.2)
            server.ask(request("/send", "POST", body=b"for you"))
            got = b""
            while b"data: for you\n\n" not in got:
                got += c.chunk()
            server.ask(request("/release"))
            while c.chunk():
                pass
            assert c.everything() == b""
    assert server.stats()["closed"] == before


def test_a_half_closed_reader_gets_a_whole_flood(server):
    with server.connect() as c:
        assert c.send(request("/flood?bytes=3000000")).half_close().reply().body == b"x" * 3_000_000


def test_readers_that_leave_in_the_middle(server):
    before = server.stats()
    for i in range(50):
        c = server.connect(receive_buffer=4096)
        c.send(request("/flood?bytes=10000000"))
        c.sock.recv(1000)
        if i % 2:
            c.reset()
        else:
            c.close()
    assert closed(server, before["closed"] + 50)
    assert wait_until(lambda: server.stats()["fds"] <= before["fds"])


def test_the_end_of_a_stream_and_of_the_client_at_once(server):
    """Whoever is first: the holder is told once or not at all."""
    for _ in range(50):
        c = server.connect()
        c.send(request("/events"))
        c.head()
        other = server.connect()
        other.send(request("/release"))
        c.close()
        other.reply()
        other.close()
    server.ask(request("/release"))
    assert wait_until(lambda: server.stats()["active"] == 1)


def test_a_stream_is_cut_when_the_server_stops(make_server):
    server = make_server()
    with server.connect() as c, server.connect() as flood:
        c.send(request("/events")).head()
        flood.send(request("/flood?bytes=100000000")).head()
        assert server.stop() == 0
        try:
            assert not c.everything().endswith(b"0\r\n\r\n")
        except Closed:
            pass
