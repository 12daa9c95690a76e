# SPDX-License-Identifier: Apache-2.0
"""A session's terminal, as the container protocol has it."""

import json

import pytest
from ws_helpers import BINARY, TEXT, Closed, WebSocket, connect


class Pty:
    def __init__(self, box, **query):
        self.ws = connect(box.api, box.base + "/ws/pty", **query)
        assert isinstance(self.ws, WebSocket), self.ws
        self.frames = []
        self.shown = b""

    def step(self):
        opcode, data = self.ws.recv()
        self.frames.append((opcode, data))
        if opcode == BINARY:
            self.shown += data
        return opcode, data

    def ready(self):
        while not self.told("ready"):
            self.step()
        return self

    def told(self, kind):
        return [json.loads(d) for o, d in self.frames if o == TEXT and json.loads(d)["type"] == kind]

    def until(self, text):
        while text not in self.shown:
            self.step()

    def type(self, text):
        self.ws.send(BINARY, text)


def test_refused(shared):
    shared.check(connect(shared.api, shared.base + "/ws/pty"), 400, "VALIDATION_FAILED")
    shared.check(connect(shared.api, shared.base + "/ws/pty?sessionId=a%20b"), 400, "VALIDATION_FAILED")
    shared.check(connect(shared.api, shared.base + "/ws/pty?sessionId=s&cols=0"), 400, "VALIDATION_FAILED")
    shared.check(connect(shared.api, shared.base + "/ws/pty?sessionId=s&cols=x"), 400, "VALIDATION_FAILED")
    shared.check(connect(shared.api, shared.base + "/ws/pty?sessionId=s&shell=-x"), 400, "VALIDATION_FAILED")
    shared.check(shared("GET", "/ws/pty?sessionId=s"), 426, "UPGRADE_REQUIRED")
    shared.check(connect(shared.api, shared.base + "/ws/pty?sessionId=s", token=False), 401, "UNAUTHORIZED")


def end_of(pty):
    with pytest.raises(Closed):
        while True:
            pty.step()
    return pty.told("exit")


def test_it_ends_with_its_session(shared):
    pty = Pty(shared, sessionId="brief").ready()
    pty.type(b"old=there; echo $((40+2))\r")
    pty.until(b"42")
    shared.ok("/api/session/delete", {"sessionId": "brief"})
    assert end_of(pty)
    pty = Pty(shared, sessionId="brief").ready()
    pty.type(b"echo 4${old}2\r")
    pty.until(b"42")  # another shell


def test_its_process_can_be_killed_and_not_with_all(shared):
    pty = Pty(shared, sessionId="killed").ready()
    (process,) = [t["process"] for t in shared.api.ok("GET", f"/sandbox/{shared.box}/terminals")["terminals"] if t["id"] == "killed"]
    shared.ok("/api/process/kill-all", method="DELETE")
    pty.type(b"echo $((40+2))\r")
    pty.until(b"42")
    assert shared.ok(f"/api/process/{process}?signal=SIGKILL", method="DELETE")["processId"] == process
    assert end_of(pty)
    shared.fail(f"/api/process/{process}", None, 404, "COMMAND_NOT_FOUND", method="DELETE")


def test_ready_then_what_is_typed(shared):
    pty = Pty(shared, sessionId="typed", cols=100, rows=30).ready()
    pty.type(b"stty size; echo $TERM; echo $((40+2))\r")
    pty.until(b"42")
    assert b"30 100" in pty.shown and b"xterm-256color" in pty.shown
    pty.ws.send(TEXT, json.dumps({"type": "resize", "cols": 111, "rows": 33}).encode())
    pty.type(b"stty size\r")
    pty.until(b"33 111")
    assert "typed" in shared.ok("/api/session/list", method="GET")["data"]


def test_replay_comes_first(shared):
    first = Pty(shared, sessionId="shared-one").ready()
    first.type(b"echo $((1000+1))\r")
    first.until(b"1001")
    second = Pty(shared, sessionId="shared-one").ready()
    assert second.frames[0][0] == BINARY and b"1001" in second.frames[0][1] and second.frames[1][0] == TEXT
    second.type(b"echo $((2000+2))\r")  # both see it
    first.until(b"2002")
    second.until(b"2002")


def test_what_its_session_has(shared):
    shared.ok("/api/execute", {"command": "mkdir -p /workspace/deep; cd /workspace/deep; export FROM_SESSION=inherited", "sessionId": "with-state"})
    pty = Pty(shared, sessionId="with-state").ready()
    pty.type(b"echo $FROM_SESSION; pwd; echo $((3000+3))\r")
    pty.until(b"3003")
    assert b"inherited" in pty.shown and b"/workspace/deep" in pty.shown


def test_its_end_is_told(shared):
    pty = Pty(shared, sessionId="ends").ready()
    pty.type(b"exit 7\r")
    with pytest.raises(Closed):
        while True:
            pty.step()
    assert pty.told("exit")[0]["code"] == 7
    again = Pty(shared, sessionId="ends").ready()  # another one
    again.type(b"echo $((4000+4))\r")
    again.until(b"4004")


def test_not_among_the_processes(shared):
    pty = Pty(shared, sessionId="hidden").ready()
    pty.type(b"echo $((5000+5))\r")
    pty.until(b"5005")
    assert shared.ok("/api/process/list", method="GET")["processes"] == []
    assert shared.ok("/api/process/kill-all", method="DELETE")["cleanedCount"] == 0
    pty.type(b"echo $((6000+6))\r")
    pty.until(b"6006")
