# SPDX-License-Identifier: Apache-2.0
"""GET /v1/sandbox/{id}/pty: a terminal as a WebSocket."""

import pytest
from api_helpers import Reply, eventually
from bridge_helpers import numbers, refused
from ws_helpers import BINARY, TEXT, Closed, Terminal, WebSocket, connect


class Pty(Terminal):
    """Up to "ready", as their clients wait for it."""

    def __init__(self, client, box, headers=None, **query):
        super().__init__(client, "../v1/sandbox/" + box, "pty", headers, **query)


@pytest.fixture(autouse=True)
def paths(monkeypatch):
    """Terminal knows the native path: it is taken out of the way."""

    def there(client, path, **more):
        return connect(client, path.removeprefix("/sandbox/.."), **more)

    monkeypatch.setattr("ws_helpers.connect", there)


def terminals(api, box):
    return [found["id"] for found in api.ok("GET", f"/sandbox/{box}/terminals")["terminals"]]


def test_a_shell(api, box):
    with Pty(api, box, cols=100, rows=30) as pty:
        assert pty.ready["type"] == "ready" and pty.replay == b""
        pty.type("tput cols; stty size; pwd; echo $TERM\n")
        pty.until("30 100")
        pty.until("/workspace")
        pty.until("xterm-256color")
        pty.resize(90, 20)
        pty.type("stty size\n")
        pty.until("20 90")


def test_its_end_is_told(api, shared):
    with Pty(api, shared) as pty:
        pty.type("exit 5\n")
        with pytest.raises(Closed) as closed:
            while True:
                pty.step()
        assert closed.value.code == 1000
        assert pty.told[-1]["type"] == "exit" and pty.told[-1]["code"] == 5


def test_without_a_session_it_is_its_own(api, box):
    """Two do not see each other, and end with their connections."""
    with Pty(api, box) as one, Pty(api, box) as two:
        one.type("echo $((40 + 1)); v=one\n")
        one.until("41\r\n")
        two.type("echo $((50 + 1))-$v-\n")
        two.until("51--\r\n")
        assert b"51" not in one.shown and b"41" not in two.shown and two.replay == b""
        assert len(terminals(api, box)) == 2
    eventually(lambda: terminals(api, box) == [])
    assert {process["status"] for process in api.ok("GET", f"/sandbox/{box}/processes")["processes"]} == {"ended"}


@pytest.mark.parametrize("way", ["query", "header"])
def test_with_a_session_it_is_shared(api, shared, way):
    name = f"pty{next(numbers)}"
    how = {"session": name} if way == "query" else {"headers": {"Session-Id": name}}
    assert api.run(shared, ["export", "FROM=session"], name).code == 0
    assert api.run(shared, ["cd", "/usr"], name).code == 0
    with Pty(api, shared, **how) as one:
        one.type("echo $FROM-$((6 * 7)); pwd\n")
        one.until("session-42")
        one.until("/usr")
        with Pty(api, shared, **how) as two:
            assert b"session-42" in two.replay
            two.type("echo $((7 * 8))\n")
            one.until("56\r\n")
            two.until("56\r\n")
    assert name in terminals(api, shared)
    with Pty(api, shared, **how) as again:
        assert b"56\r\n" in again.replay
    api.ok("DELETE", f"/v1/sandbox/{shared}/session/{name}")
    eventually(lambda: name not in terminals(api, shared))


def test_another_shell(api, shared):
    with Pty(api, shared, shell="sh") as pty:
        pty.type("echo $0\n")
        pty.until("sh\r\n")


def test_a_sandbox_is_made(api, box):
    with Pty(api, box) as pty:
        pty.type("echo $((1 + 1))\n")
        pty.until("2\r\n")
    assert api.state(box) == "running"


def test_order_of_what_comes(api, shared):
    """The bytes from before in one binary message, then "ready"."""
    name = f"order{next(numbers)}"
    with Pty(api, shared, session=name) as pty:
        pty.type("echo $((3 * 3))\n")
        pty.until("9\r\n")
    ws = connect(api, f"/v1/sandbox/{shared}/pty", session=name)
    assert isinstance(ws, WebSocket)
    with ws:
        opcode, data = ws.recv()
        assert opcode == BINARY and b"9\r\n" in data
        opcode, data = ws.recv()
        assert opcode == TEXT and b'"type":"ready"' in data


def test_refused(api):
    path = "/v1/sandbox/never-made/pty"
    refused(api("GET", path), 400, "invalid_request", "WebSocket")
    for query in [{"cols": "0"}, {"rows": "x"}, {"cols": "99999"}, {"session": "a b"}, {"shell": "-x"}, {"shell": "a/b"}]:
        reply = connect(api, path, **query)
        assert isinstance(reply, Reply)
        refused(reply, 400, "invalid_request")
    refused(connect(api, path, headers={"Session-Id": "../x"}), 400, "invalid_request")
    refused(connect(api, path, token=False), 401, "unauthorized")
    # Their client puts its key there where its WebSocket takes no headers.
    refused(connect(api, path, token=False, authorization=f"Bearer {api.token}"), 401, "unauthorized")
    assert api.state("never-made") is None


def test_a_program_that_is_not_there(api, shared):
    reply = connect(api, f"/v1/sandbox/{shared}/pty", shell="no-such-shell")
    assert isinstance(reply, Reply) and reply.status == 400, reply
    assert reply.json["code"] in ("invalid_request", "exec_transport_error")
