# SPDX-License-Identifier: Apache-2.0
"""Connections that are taken from the server, and given back."""

import pytest
from edge_helpers import HEALTH, OK_BODY, Closed, request, wait_until

BIG = 40 * 1024 * 1024  # more than the server would read by itself


def put(target, body, headers=()):
    return request(target, "PUT", headers=headers, body=body)


@pytest.mark.parametrize("kind", ["connect", "connect_unix"])
@pytest.mark.parametrize("target", ["/take", "/take/later?ms=40"])
@pytest.mark.parametrize("size", [0, 1, 1000, 100_000, BIG])
def test_a_body_of_any_size_is_read_by_who_takes_it(server, kind, target, size):
    fds = server.stats()["fds"]
    with getattr(server, kind)() as c:
        for _ in range(3):  # given back each time
            assert c.send(put(target, b"x" * size)).reply().body == b"1 %d %d 0\n" % (size, size)
            assert c.ask(HEALTH).body == OK_BODY
    assert wait_until(lambda: server.stats()["fds"] == fds)


def test_heads_in_pieces(server):
    whole = put("/take", b"y" * 3000)
    for step in (1, 7, 50, 130, 2000):
        with server.connect() as c:
            for at in range(0, len(whole), step):
                c.send(whole[at : at + step])
            assert c.reply().body == b"1 3000 3000 0\n"
            assert c.ask(HEALTH).body == OK_BODY


def test_by_its_host(server):
    with server.connect() as c:
        assert c.ask(request("/plain-take", host="Host: raw.host")).body == b"1 0 0 0\n"
        assert c.ask(request("/plain-take")).body == b"0 0 0 0\n"
        assert c.ask(request("/plain-take", "POST", body=b"read")).body == b"0 0 0 0\n"


def test_a_client_that_waits_to_be_told(server):
    with server.connect() as c:
        head = put("/take", b"")[:-2].replace(b"Content-Length: 0", b"Content-Length: 5")
        c.send(head + b"Expect: 100-continue\r\n\r\n")
        assert c.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        assert c.send(b"hello").reply().body == b"1 5 5 0\n"
        assert c.ask(HEALTH).body == OK_BODY


def test_what_is_not_taken_is_answered_and_closed(server):
    with server.connect() as c:
        c.send(put("/take/no", b"z" * 10)[:-10])
        reply = c.reply()
        assert reply.status == 403 and reply.headers["connection"] == "close"
        with pytest.raises(Closed):
            c.more()
    with server.connect() as c:  # hears why although it goes on sending
        c.send(put("/take/no", b"z" * 1_000_000))
        assert c.reply().status == 403


def test_a_request_behind_it_cannot_be_taken_along(server):
    with server.connect() as c:
        c.send(request("/plain-take") + HEALTH)
        assert c.reply().status == 409
        assert c.reply().body == OK_BODY


def test_closed_when_asked(server):
    with server.connect() as c:
        assert c.ask(put("/take?close=1", b"a")).status == 200
        with pytest.raises(Closed):
            c.more()
    with server.connect() as c:
        assert c.ask(put("/take", b"a", headers=["Connection: close"])).status == 200
        with pytest.raises(Closed):
            c.more()


def test_clients_that_leave(server):
    fds = server.stats()["fds"]
    for _ in range(50):
        c = server.connect()
        c.send(put("/take/later?ms=5", b"b" * 100)[:-50])
        c.close()
    assert wait_until(lambda: server.stats()["active"] == 1)
    assert wait_until(lambda: server.stats()["fds"] == fds)


def test_many_at_once(server):
    clients = [server.connect() for _ in range(200)]
    for _ in range(5):
        for c in clients:
            c.send(put("/take/later?ms=1", b"c" * 500))
        for c in clients:
            assert c.reply().body == b"1 500 500 0\n"
    for c in clients:
        c.close()
