# SPDX-License-Identifier: Apache-2.0
"""Clients that leave, and servers that do."""

import signal
import socket
import time

import pytest
from edge_helpers import HEALTH, OK_BODY, request, wait_until

SETTLED = 0.2  # seconds after which a pending request's client is watched


def gone(server, before, n=1):
    return wait_until(lambda: server.stats()["closed"] == before + n)


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("when", [0, SETTLED])
@pytest.mark.parametrize("kind", ["connect", "connect_unix"])
def test_a_client_that_leaves_while_its_request_waits_is_noticed(server, how, when, kind):
    before = server.stats()["closed"]
    c = getattr(server, kind)()
    c.send(request("/hold"))
    assert wait_until(lambda: server.stats()["active"] == 2)
    time.sleep(when)
    getattr(c, how)()
    assert gone(server, before)
    assert server.stats()["active"] == 1


def test_many_that_leave_at_once(server):
    before = server.stats()["closed"]
    clients = [server.connect() for _ in range(300)]
    for c in clients:
        c.send(request("/hold"))
    assert wait_until(lambda: server.stats()["active"] == 301)
    for c in clients:
        c.close()
    assert gone(server, before, 300)


def test_a_client_that_waits_gets_its_answer(server):
    before = server.stats()["closed"]
    with server.connect() as c:
        c.send(request("/hold"))
        time.sleep(SETTLED)
        server.ask(request("/release"))
        assert c.reply().body == b"released\n"
        for _ in range(3):  # watched from now on
            assert c.ask(request("/later?ms=60")).body == b"later\n"
        assert c.ask(HEALTH).body == OK_BODY
    assert server.stats()["closed"] == before


def test_a_half_closed_client_gets_an_answer_that_comes_at_once(server):
    for kind in (server.connect, server.connect_unix):
        with kind() as c:
            assert c.send(HEALTH).half_close().reply().body == OK_BODY
            assert c.everything() == b""


def test_a_half_closed_client_gets_an_answer_that_comes_soon(server):
    """While it is not watched. After that a FIN cannot be told from a client that has left."""
    with server.connect() as c:
        c.send(request("/later?ms=1")).half_close()
        assert c.reply().body == b"later\n"


def test_a_half_closed_client_on_a_unix_socket_gets_any_answer(server):
    before = server.stats()["closed"]
    with server.connect_unix() as c:
        c.send(request("/later?ms=400")).half_close()
        assert c.reply().body == b"later\n"
    assert server.stats()["closed"] == before


def test_a_half_closed_client_whose_request_waits_long_counts_as_gone(server):
    before = server.stats()["closed"]
    with server.connect() as c:
        c.send(request("/hold")).half_close()
        assert gone(server, before)
        assert c.everything() == b""


def test_a_refused_client_is_not_watched_any_more(server):
    """Its socket lives on for a while, so that it hears why; its connection does not."""
    for _ in range(5):
        with server.connect() as c:
            assert c.ask(request("/later?ms=100")).body == b"later\n"
            assert c.ask(b"\0").status == 400
            time.sleep(0.05)
            c.send(b"more")
            c.half_close()
            time.sleep(0.05)
    assert server.ask().body == OK_BODY


def test_a_client_that_leaves_with_half_a_request(server):
    before = server.stats()["fds"]
    for data in (b"GET", b"GET /hold HTTP/1.1\r\nHost", request("/echo", "POST", body=b"12345")[:-2]):
        server.connect().send(data).close()
        server.connect().send(data).reset()
    assert wait_until(lambda: server.stats()["fds"] <= before)


def test_nothing_is_lost_by_clients_that_abort(server):
    """In every phase of a request: descriptors, contexts, requests; the sanitizers look for memory
    when the server ends."""
    before = server.stats()
    phases = (
        b"",
        b"GET /hea",
        HEALTH,
        request("/echo", "POST", body=b"x" * 20000)[:-1],
        request("/hold"),
        request("/later?ms=2"),
        request("/events"),
        request("/flood?bytes=1000000"),
        HEALTH + request("/hold") + HEALTH,
        b"\0",
    )
    for i in range(2000):
        c = server.connect()
        c.send(phases[i % len(phases)])
        if i % 3 == 0:
            c.sock.setblocking(False)
            try:
                c.sock.recv(100)
            except OSError:
                pass
        if i % 7 < 3:
            c.reset()
        else:
            c.close()
    server.ask(request("/release"))

    def settled():
        now = server.stats()
        return now["fds"] <= before["fds"] and now["active"] == 1 and now["contexts"] == 1

    assert wait_until(settled), server.stats()


# --- servers that leave


def connects(address):
    with socket.create_connection(address, 10) as sock:
        return sock.fileno() >= 0


def test_the_listening_socket_survives_a_stop(make_server):
    """Another process has it too. No connection is refused while nobody accepts, and the next server
    answers those that waited."""
    server = make_server()
    assert server.ask().body == OK_BODY
    server.signal(signal.SIGUSR2)  # stops, the program stays
    assert wait_until(lambda: stopped(server))
    waiting = server.connect().send(HEALTH)
    assert connects(server.address)
    heir = make_server(listener=server.tcp)
    assert waiting.reply().body == OK_BODY
    assert heir.ask().body == OK_BODY
    waiting.close()


def stopped(server):
    """Nobody accepts: what is sent stays unanswered."""
    with server.connect() as c:
        c.send(HEALTH)
        c.sock.settimeout(0.2)
        try:
            return not c.sock.recv(1)
        except socket.timeout:
            return True
        except OSError:
            return False


def test_two_servers_on_one_socket(make_server):
    one = make_server()
    two = make_server(listener=one.tcp)
    for _ in range(50):
        assert one.ask().body == OK_BODY
    assert two.stop() == 0
    for _ in range(50):
        assert one.ask().body == OK_BODY


def test_a_drain_lets_what_runs_finish(make_server):
    server = make_server()
    with server.connect() as idle, server.connect() as busy, server.connect() as stream:
        assert idle.ask(HEALTH).body == OK_BODY
        stream.send(request("/events")).head()
        busy.send(request("/later?ms=1000"))
        assert wait_until(lambda: server.stats()["active"] == 3)
        server.signal(signal.SIGUSR1)
        assert idle.everything() == b""
        reply = busy.reply()
        assert reply.body == b"later\n" and reply.headers["connection"] == "close"
        assert busy.everything() == b""
        waiting = server.connect().send(HEALTH)  # in the backlog, for the next one
        heir = make_server(listener=server.tcp)
        assert waiting.reply().body == OK_BODY
        waiting.close()
        assert heir.ask().body == OK_BODY


def test_a_stop_with_everything_under_way(make_server):
    server = make_server()
    clients = []
    for data in (b"", b"GET /", HEALTH, request("/hold"), request("/later?ms=100000"), request("/events"),
                 request("/flood?bytes=100000000"), request("/echo", "POST", body=b"1234")[:-1]):
        clients += [server.connect().send(data) for _ in range(5)]
    clients += [server.connect_unix().send(request("/hold")) for _ in range(5)]
    assert wait_until(lambda: server.stats()["active"] == 26)
    assert server.stop() == 0
    for c in clients:
        c.everything()
        c.close()
