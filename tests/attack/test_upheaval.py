# SPDX-License-Identifier: Apache-2.0
"""Things that go away while somebody uses them: sandboxes, guests, disks, clients."""

import glob
import http.client
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import threading

import pytest
from attack_helpers import PATIENCE, Client, at_rest, daemon_pid, eventually, is_error, raw_connect


@pytest.fixture
def client(new_tenant):
    client = new_tenant()
    client.ok("PUT", "/sandbox/b", {"disk": "32m"})
    yield client
    client("DELETE", "/sandbox/b")


def pids_of(word):
    """Processes on the machine, in boxes too, with this word among their arguments."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if word.encode() in pathlib.Path(path).read_bytes().split(b"\0"):
                found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


def guest_of(client, box="b"):
    """The pid, seen from outside, of a sandbox's PID 1."""
    word = f"1000.{secrets.randbelow(10**9)}"
    made = client.start(box, {"argv": ["sleep", word]})
    pid = eventually(lambda: pids_of(word))[0]
    guest = int(re.search(r"PPid:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
    client.ok("DELETE", f"/sandbox/{box}/processes/{made}")
    return guest


class Ask(threading.Thread):
    """A request on a thread of its own; what came back, to its end."""

    def __init__(self, client, method, path, body=None, **headers):
        super().__init__(daemon=True)
        self.status, self.body, self.error = None, b"", None
        self.args = (client, method, path, body, headers)
        self.start()

    def run(self):
        client, method, path, body, headers = self.args
        head, body = client.head({k.replace("_", "-"): v for k, v in headers.items()}, body)
        connection = client.connect()
        try:
            connection.request(method, path, body, head)
            response = connection.getresponse()
            self.status = response.status
            self.body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.error = error
        finally:
            connection.close()

    def end(self):
        self.join(PATIENCE)
        assert not self.is_alive(), f"{self.args[1:]} hangs"
        assert self.error is None, (self.args[1:], self.error)
        return self


SSE = {"Accept": "text/event-stream"}


def all_sorts_of_waiting(client):
    box = "/sandbox/b"
    client.ok("POST", f"{box}/sessions", {"id": "s"})
    client.start("b", {"command": "echo on; exec sleep 1000", "id": "p"})
    logs = f"{box}/processes/p/logs"
    session = Ask(client, "POST", f"{box}/exec", {"session": "s", "command": "echo x > /tmp/session; sleep 1000"})
    eventually(lambda: client.exec("b", "ls /tmp/session")["success"])
    return {
        "exec": Ask(client, "POST", f"{box}/exec", {"command": "echo x > /tmp/exec; sleep 1000"}),
        "keyed": Ask(client, "POST", f"{box}/exec", {"argv": ["sleep", "1000"]}, Idempotency_Key="k"),
        "stream": Ask(client, "POST", f"{box}/exec", {"command": "echo x; sleep 1000"}, **SSE),
        "session": session,
        "queued": Ask(client, "POST", f"{box}/exec", {"session": "s", "command": "sleep 1000"}),
        "wait exit": Ask(client, "POST", f"{box}/processes/p/wait", {"exit": True}),
        "wait log": Ask(client, "POST", f"{box}/processes/p/wait", {"log": "never"}),
        "wait port": Ask(client, "POST", f"{box}/processes/p/wait", {"port": 9}),
        "logs": Ask(client, "GET", logs, **SSE),
        "raw logs": Ask(client, "GET", f"{logs}?follow=1"),
        "events": Ask(client, "GET", f"{box}/events", **SSE),
    }


def are_under_way(client):
    look = {"command": "ls /tmp/exec && pgrep -c sleep | grep -qx 5"}
    return client.exec("b", look)["success"]


@pytest.mark.parametrize("end", ["destroy", "sleep", "kill"])
def test_everything_open_ends_with_its_sandbox(server, client, end):
    """With an answer that says so, at once, and nothing is left behind."""
    client.ok("DELETE", "/sandbox/b")
    before = at_rest(server)
    client.ok("PUT", "/sandbox/b", {})
    opened = all_sorts_of_waiting(client)
    eventually(lambda: are_under_way(client))
    guest = guest_of(client)
    if end == "destroy":
        client.ok("DELETE", "/sandbox/b")
    elif end == "sleep":
        client.ok("POST", "/sandbox/b/sleep")
    else:
        os.kill(guest, signal.SIGKILL)
    if end != "destroy":  # it is there still: this one goes on until it is not
        assert opened["events"].is_alive()
        eventually(lambda: client.ok("GET", "/sandbox/b")["status"] == "sleeping")
        assert client.exec("b", "ls /workspace")["success"]
        client.ok("DELETE", "/sandbox/b")
    for name, ask in opened.items():
        ask.end()
        if ask.status == 200 and name in ("exec", "keyed", "session"):
            result = json.loads(ask.body)
            reasons = ("box_lost", "killed", "signal", "exit") if end == "sleep" else ("box_lost", "killed", "signal")
            assert not result["success"] and result["reason"] in reasons, (name, ask.body)
        elif ask.status == 200 and name.startswith("wait"):
            assert not json.loads(ask.body)["timedOut"], (name, ask.body)
            assert name == "wait exit" or json.loads(ask.body)["matched"] is None, (name, ask.body)
        elif ask.status == 200:
            assert name in ("stream", "logs", "raw logs", "events", "queued"), (name, ask.body)
        else:
            assert ask.status in (404, 409, 410, 503), (name, ask.status, ask.body)
            assert {"error", "error_code", "request_id"} <= set(json.loads(ask.body)), (name, ask.body)
    assert b"event: destroyed" in opened["events"].body
    assert opened["raw logs"].body == b"on\n"
    assert not os.path.exists(f"/proc/{guest}")
    assert at_rest(server, before) == before


def test_a_killed_guest(client):
    """Its box is lost, which is said; its disk is not."""
    assert client.exec("b", "echo kept > /workspace/file")["success"]
    client.start("b", {"argv": ["sleep", "1000"], "id": "p"})
    guest = guest_of(client)
    running = Ask(client, "POST", "/sandbox/b/exec", {"command": "echo begun; exec sleep 1000"})
    eventually(lambda: client.exec("b", "pgrep -c sleep")["stdout"] == "2\n")
    os.kill(guest, signal.SIGKILL)
    result = json.loads(running.end().body)
    assert (result["reason"], result["exitCode"], result["success"]) == ("box_lost", 125, False)
    process = eventually(lambda: (p := client.ok("GET", "/sandbox/b/processes/p")["process"])["status"] != "running" and p)
    assert process["reason"] == "box_lost"
    assert client.exec("b", "cat /workspace/file")["stdout"] == "kept\n"
    events = [e["type"] for e in client.ok("GET", "/sandbox/b/events")["events"]]
    assert any("lost" in e for e in events), events


def test_a_guest_that_does_not_answer(server, client):
    """Stopped from outside, as one that was taken over might play dead. Its sandbox can be ended all the same."""
    guest = guest_of(client)
    daemon = daemon_pid(server)
    os.kill(guest, signal.SIGSTOP)
    try:
        asks = [
            Ask(client, "POST", "/sandbox/b/exec", {"argv": ["true"], "timeout": 300}),
            Ask(client, "POST", "/sandbox/b/processes", {"argv": ["true"]}),
        ]
        assert client.ok("GET", "/sandbox/b")["id"] == "b"  # others are not held up
        ended = Ask(client, "DELETE", "/sandbox/b").end()
        assert ended.status == 200, ended.body
        for ask in asks:
            ask.end()
            assert ask.status in (200, 404, 409, 410, 503), ask.body
    finally:
        try:
            os.kill(guest, signal.SIGCONT)
        except ProcessLookupError:
            pass
    eventually(lambda: not os.path.exists(f"/proc/{guest}"))
    assert daemon_pid(server) == daemon


def test_a_client_that_goes_takes_its_program_along(server, client):
    client.ok("POST", "/sandbox/b/sessions", {"id": "s"})
    client.exec("b", {"session": "s", "command": "true"})
    before = at_rest(server)
    for more in ({}, {"session": "s"}):
        word = f"1000.{secrets.randbelow(10**9)}"
        body = json.dumps({"command": f"sleep {word}; echo never > /workspace/never", **more}).encode()
        with raw_connect(server) as s:
            head = f"POST /sandbox/b/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.token}\r\n"
            s.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            eventually(lambda: pids_of(word))
        eventually(lambda: not pids_of(word))
    assert client.exec("b", {"session": "s", "command": "ls /workspace; echo here"})["stdout"] == "here\n"
    assert at_rest(server, before) == before


def test_a_client_that_goes_before_its_body_has_come(server, client):
    for cut in (b"", b"{", b'{"command": "touch /workspace/never"'):
        with raw_connect(server) as s:
            head = f"POST /sandbox/b/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.token}\r\n"
            s.sendall(f"{head}Content-Length: 37\r\n\r\n".encode() + cut)
    assert client.exec("b", "ls /workspace")["stdout"] == ""


def test_a_full_disk_in_the_box(client):
    result = client.exec("b", "head -c 64m /dev/zero > /workspace/big; echo $?")
    assert result["limitsHit"] == ["disk"] and result["stdout"] == "1\n", result
    assert "No space left" in result["stderr"] or "quota" in result["stderr"]
    # What Cay itself does in it goes on: sessions, processes, logs, sleep.
    client.ok("POST", "/sandbox/b/sessions", {"id": "s"})
    assert client.exec("b", {"session": "s", "command": "cd /tmp; export A=1; echo ok"})["stdout"] == "ok\n"
    client.start("b", {"command": "echo logged", "id": "p"})
    assert client.ended("b", "p")["success"]
    assert client("GET", "/sandbox/b/processes/p/logs").body == b"logged\n"
    client.ok("POST", "/sandbox/b/sleep")
    assert client.exec("b", {"session": "s", "command": "pwd"})["stdout"] == "/tmp\n"
    assert client.exec("b", "rm /workspace/big; echo fits > /workspace/small; cat /workspace/small")["stdout"] == "fits\n"


def test_a_disk_that_shrinks_below_what_is_on_it(client):
    """Nothing more fits, also after sleep, and whoever deletes something has room again."""
    assert client.exec("b", "head -c 20m /dev/urandom > /workspace/big")["success"]
    assert client.ok("PATCH", "/sandbox/b", {"disk": "4m"})["limits"]["disk"] == 4 * 2**20
    client.ok("POST", "/sandbox/b/sleep")
    assert "disk" in client.exec("b", "head -c 1m /dev/urandom > /workspace/more")["limitsHit"]
    assert client.exec("b", "rm /workspace/big; sync; head -c 1m /dev/urandom > /workspace/more")["success"]
    assert "disk" in client.exec("b", "head -c 5m /dev/urandom > /workspace/big")["limitsHit"]


def test_storms_in_a_box(client):
    """Processes without end, memory without end, output without end: felt inside, told outside."""
    client.ok("PATCH", "/sandbox/b", {"pids": 32, "memory": "64m"})
    bomb = client.exec("b", {"command": "f() { f | f & }; f; sleep 0.2; for i in $(seq 99); do sleep 9 & done; wait", "timeout": "1s"})
    assert "pids" in bomb["limitsHit"], bomb
    eater = client.exec("b", {"command": "x=$(head -c 200m /dev/zero | tr '\\0' x); echo ${#x}", "timeout": "20s"})
    assert eater["reason"] == "oom" or "memory" in eater["limitsHit"], {**eater, "stdout": ""}
    loud = client.exec("b", {"command": "yes", "timeout": "1s"})
    assert loud["truncated"] and "output" in loud["limitsHit"] and len(loud["stdout"]) == 16 * 2**20
    assert client.exec("b", "echo fine")["stdout"] == "fine\n"


# -- the machine's own disk


@pytest.fixture
def small_disk(top):
    path = f"{top}/small"
    os.mkdir(path)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=711", "tmpfs", path], check=True)
    os.mkdir(f"{path}/data")
    yield path
    subprocess.run(["umount", path], check=True)


def fill(path):
    with open(path, "wb", buffering=0) as f:
        try:
            while True:
                f.write(b"x" * 4096)
        except OSError:
            pass
    return path


def test_a_full_disk_under_the_server(small_disk, make_server):
    """Whatever needs a row is refused with an error of ours; what needs none goes on; all of it once there is room."""
    server = make_server("--volume", "0", "--pool", "2", "--process-log", "1m", data=f"{small_disk}/data")
    admin = Client(server)
    admin.ok("PUT", "/sandbox/b", {"ephemeral": True, "disk": "8m"})
    admin.start("b", {"command": "while :; do head -c 100000 /dev/zero | tr '\\0' x; sleep 0.01; done", "id": "loud"})
    admin.ok("POST", "/sandbox/b/processes/loud/wait", {"log": "x", "timeout": "60s"})
    daemon = daemon_pid(server)
    filler = fill(f"{small_disk}/filler")
    seen, made = set(), {"b"}
    for i in range(20):
        for method, path, body in (
            ("PUT", f"/sandbox/n{i}", {"ephemeral": True, "labels": {"a": "x" * 200}}),
            ("POST", "/sandbox/b/exec", {"argv": ["echo", "hi"]}),
            ("POST", "/sandbox/b/processes", {"argv": ["true"]}),
            ("POST", "/tokens", {"name": f"t{i}"}),
            ("PATCH", "/sandbox/b", {"labels": {"x": "y" * 200}}),
            ("GET", "/sandbox/b", None),
            ("GET", "/health", None),
            ("GET", "/sandbox/b/processes/loud/logs", None),
        ):
            reply = admin(method, path, body)
            if method == "GET":
                assert reply.status == 200, (path, reply)
            elif reply.status >= 400:
                is_error(reply, 503)
                seen.add((method, path.rstrip("0123456789")))
            elif method == "PUT":
                made.add(path.rsplit("/", 1)[1])
    assert ("PUT", "/sandbox/n") in seen and ("POST", "/tokens") in seen, seen
    os.unlink(filler)
    # What was refused is not half there.
    assert {b["id"] for b in admin.ok("GET", "/sandbox")["sandboxes"]} == made
    eventually(lambda: admin("PUT", "/sandbox/after", {"ephemeral": True}).status in (200, 201))
    assert admin.exec("after", "echo fine")["stdout"] == "fine\n"
    assert admin.exec("b", "echo fine")["stdout"] == "fine\n"
    assert daemon_pid(server) == daemon
    admin.ok("DELETE", "/sandbox/b")
    # A full disk may be a fault that it tells of, and is the only one.
    log = server.log()
    told = [line for line in server.faults() if re.search(r"full|space|disk I/O", line)]
    assert set(told) == set(server.faults()), server.faults()
    server.log_path.write_text(log.replace("level=error", "level=told"))
