# SPDX-License-Identifier: Apache-2.0
"""Boxes that die: it is said, whether it may be asked again as well, and nothing that was cut short reads as complete."""

import json
import os
import pathlib
import re
import secrets
import signal
import threading

import pytest
from container_helpers import at_once, eventually
from ws_helpers import Closed, connect

NONE = "__DISABLE_SESSION__"


def guest_of(box):
    """The pid, seen from outside, of a sandbox's PID 1."""
    word = f"1000.{secrets.randbelow(10**9)}"
    made = box.api.start(box.box, {"argv": ["sleep", word]})

    def find():
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if word.encode() in path.read_bytes().split(b"\0"):
                    return int(path.parts[2])
            except OSError:
                pass
        return None

    pid = eventually(find)
    guest = int(re.search(r"PPid:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
    box.api.ok("DELETE", f"/sandbox/{box.box}/processes/{made}")
    return guest


def kill_when_begun(box, guest):
    eventually(lambda: "begun" in box.run("ls /workspace"))
    os.kill(guest, signal.SIGKILL)


@pytest.mark.parametrize("session", [NONE, "s"])
def test_a_killed_box(box, session):
    box.ok("/api/execute", {"command": "echo kept > /workspace/file", "sessionId": session})
    guest = guest_of(box)
    reply, _ = at_once(
        lambda: box("POST", "/api/execute", {"command": "touch begun; sleep 1000", "sessionId": session}),
        lambda: kill_when_begun(box, guest),
    )
    told = {"operation": "command.execute", "phase": "running", "admitted": True, "retryable": False}
    box.check(reply, 409, "OPERATION_INTERRUPTED", reason="runtime_replaced", **told)
    assert "Retry-After" not in reply.headers
    assert box.ok("/api/execute", {"command": "cat /workspace/file", "sessionId": session})["stdout"].strip() == "kept"


@pytest.mark.parametrize("session", [NONE, "s"])
def test_a_stream_from_a_killed_box(box, session):
    guest = guest_of(box)
    with box.stream("/api/execute/stream", {"command": "echo x; sleep 1000", "sessionId": session}) as stream:
        stream.until(type="stdout")
        os.kill(guest, signal.SIGKILL)
        events = list(stream)
    assert [e["type"] for e in events] == ["error"] and events[0]["error"] == events[0]["data"]


def test_processes_of_a_killed_box(box):
    guest = guest_of(box)
    box.ok("/api/process/start", {"command": "echo x; sleep 1000", "processId": "p"})
    stream = box.api.stream("GET", f"{box.base}/api/process/p/stream")
    events = (e.data for e in stream)
    assert next(events)["type"] == "process_info" and next(events)["type"] == "stdout"
    watch = box.stream("/api/port-watch", {"port": 8000, "processId": "p", "interval": 100})
    assert next(iter(watch))["type"] == "watching"
    os.kill(guest, signal.SIGKILL)
    assert [e["type"] for e in events] == ["error"]
    assert list(watch)[-1]["type"] in ("process_exited", "error")
    assert box.ok("/api/process/p", method="GET")["process"]["status"] == "error"
    assert box.ok("/api/process/p/logs", method="GET")["stdout"] == "x\n"
    box.fail("/api/process/p", None, 404, "COMMAND_NOT_FOUND", method="DELETE")


def test_a_terminal_of_a_killed_box(box):
    guest = guest_of(box)
    ws = connect(box.api, box.base + "/ws/pty?sessionId=s")
    ws.send(2, b"echo $((40+2))\r")
    shown = b""
    while b"42" not in shown:
        shown += ws.recv()[1]
    os.kill(guest, signal.SIGKILL)
    with pytest.raises(Closed):
        while True:
            ws.recv()
    assert box.ok("/api/ping", method="GET")


def test_destroyed_while_it_works(box):
    replies = {}

    def ask(name, body):
        replies[name] = box("POST", "/api/execute", body)

    threads = [threading.Thread(target=ask, args=(n, {"command": f"touch begun-{n}; sleep 1000", "sessionId": s})) for n, s in (("a", NONE), ("b", "s"))]
    for thread in threads:
        thread.start()
    eventually(lambda: {"begun-a", "begun-b"} <= set(box.run("ls /workspace").split()))
    box.api.ok("DELETE", f"/sandbox/{box.box}")
    for thread in threads:
        thread.join()
    for reply in replies.values():
        box.check(reply, 409, "OPERATION_INTERRUPTED", reason="sandbox_lifetime_changed", admitted=True, retryable=False)


def test_a_command_that_waited_when_its_box_was_killed(box):
    """It never began: so it may be asked again."""
    box.ok("/api/execute", {"command": "true", "sessionId": "s"})
    guest = guest_of(box)
    connections = [box.api.connect() for _ in range(2)]
    for connection, command in zip(connections, ("touch begun; sleep 1000", "touch never")):
        headers, text = box.api.head(None, {"command": command, "sessionId": "s"})
        connection.request("POST", box.base + "/api/execute", body=text, headers=headers)
        eventually(lambda: "begun" in box.run("ls /workspace"))  # and what was sent has come, too
    os.kill(guest, signal.SIGKILL)
    answers = [json.loads(connection.getresponse().read()) for connection in connections]
    assert [a["code"] for a in answers] == ["OPERATION_INTERRUPTED", "CONTAINER_UNAVAILABLE"], answers
    assert [a["context"]["retryable"] for a in answers] == [False, True]
    assert "never" not in box.run("ls /workspace")


def test_put_to_sleep_while_it_works(box):
    with box.stream("/api/execute/stream", {"command": "echo x; sleep 1000", "sessionId": "s"}) as stream:
        stream.until(type="stdout")
        box.api.ok("POST", f"/sandbox/{box.box}/sleep")
        assert list(stream)[-1]["type"] == "error"
    assert box.ok("/api/execute", {"command": "echo awake", "sessionId": "s"})["stdout"] == "awake"
