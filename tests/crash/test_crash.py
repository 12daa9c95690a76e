# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the daemon at random moments: the keeper starts another, and nothing of what runs notices. kill -9
of both: a restart cleans up, keeps every disk, and says what was lost."""

import hashlib
import http.client
import os
import random
import signal
import threading
import time

import pytest
from crash_helpers import FULL, PATIENCE, Broken, Prober, children, processes_with, wait_until
from load import Worker

ROUNDS = 300 if FULL else 8
BOTH_ROUNDS = 20 if FULL else 2

COUNTER = """
import os, sys, time
n = 0
while not os.path.exists("/workspace/stop"):
    sys.stdout.write("%d\\n" % n); sys.stdout.flush()
    if n % 10 == 0:
        sys.stderr.write("e%d\\n" % n); sys.stderr.flush()
    n += 1
    time.sleep(0.001)
sys.exit(7)
"""


class Follower(threading.Thread):
    """Reads a log as it grows, and goes on by offset wherever it was cut off."""

    def __init__(self, server, path, stream):
        super().__init__(daemon=True)
        self.client, self.path, self.stream = server.client(), path, stream
        self.found, self.cuts, self.ended = bytearray(), 0, False

    def run(self):
        while not self.ended:
            try:
                self.follow()
            except (Broken, OSError, http.client.HTTPException):
                self.cuts += 1
                self.client.close()

    def follow(self):
        path = f"{self.path}/logs?stream={self.stream}&follow=1&offset={len(self.found)}"
        response = self.client.begin("GET", path, Accept="application/octet-stream")
        if response.status != 200:
            time.sleep(0.02)
            self.client.close()
            return
        while True:
            piece = response.read1(65536)
            if not piece:
                break
            self.found += piece
        # It has ended, or a daemon that was stopped in order has ended the stream.
        process = self.client.again("GET", self.path).json["process"]
        self.ended = process["status"] == "ended" and process["logs"][self.stream]["size"] <= len(self.found)


class Steady:
    """A sandbox with a process and a session that must not notice anything."""

    def __init__(self, server):
        self.server, self.client = server, server.client()
        self.client.good("PUT", "/sandbox/steady", {"keepAlive": True})
        body = {"id": "counter", "argv": ["python3", "-c", COUNTER]}
        self.process = self.client.good("POST", "/sandbox/steady/processes", body)["process"]
        self.client.good("POST", "/sandbox/steady/sessions", {"id": "s"})
        self.client.exec("steady", "x=41; cd /tmp; f() { echo f$((x + $1)); }; export Y=why", session="s")
        self.box = self.client.good("GET", "/sandbox/steady")["box"]
        self.followers = [Follower(server, "/sandbox/steady/processes/counter", s) for s in ("stdout", "stderr")]
        for follower in self.followers:
            follower.start()

    def check(self):
        sandbox = self.client.again("GET", "/sandbox/steady").json
        assert (sandbox["status"], sandbox["box"]) == ("running", self.box), sandbox
        process = self.client.again("GET", "/sandbox/steady/processes/counter").json["process"]
        assert process["status"] == "running" and process["pid"] == self.process["pid"], process
        answer = self.client.again(
            "POST", "/sandbox/steady/exec", {"command": 'f 1; pwd; echo "$Y"', "session": "s"}
        )
        assert answer.status == 200 and answer.json["stdout"] == "f42\n/tmp\nwhy\n", answer

    def end(self):
        """The process ends of itself: every byte must have come."""
        self.client.again("POST", "/sandbox/steady/exec", {"command": "touch /workspace/stop"})
        for follower in self.followers:
            follower.join(PATIENCE)
            assert not follower.is_alive(), (follower.stream, len(follower.found), follower.cuts)
        process = self.client.again("GET", "/sandbox/steady/processes/counter").json["process"]
        assert (process["reason"], process["exitCode"]) == ("exit", 7), process
        assert all(follower.cuts > 0 for follower in self.followers), "nobody was cut off"
        out, err = (bytes(follower.found) for follower in self.followers)
        count = out.count(b"\n")
        assert out == "".join(f"{n}\n" for n in range(count)).encode()
        assert err == "".join(f"e{n}\n" for n in range(0, count, 10)).encode()
        assert process["logs"]["stdout"]["size"] == len(out), process
        self.client.again("DELETE", "/sandbox/steady")


def kill_at_random(server, chance):
    """Once, or again while the next one is still coming up."""
    time.sleep(chance.random() * 0.4)
    killed = server.kill_daemon()
    for _ in range(chance.choice([0, 0, 0, 1])):
        assert wait_until(lambda: server.daemon() not in (None, killed)), server.log()
        time.sleep(chance.random() * 0.05)
        killed = server.kill_daemon()
    server.wait_for_another(killed)


def test_daemon_is_killed_at_random_moments(server):
    chance = random.Random(os.getpid())
    workers = [Worker(server, f"w{i}", chance.random()) for i in range(3)]
    with Prober(server) as prober:
        steady = Steady(server)
        for worker in workers:
            worker.start()
        for _ in range(ROUNDS):
            kill_at_random(server, chance)
            steady.check()
            failures = [worker.failure for worker in workers if worker.failure]
            assert not failures, failures[0]
        for worker in workers:
            worker.end()
        steady.end()
    assert prober.count > 0 and not server.refused
    assert server.health()["restarts"] >= ROUNDS
    assert all(worker.done > ROUNDS for worker in workers), [worker.done for worker in workers]
    # Rows, boxes, disks, logs: nothing of it is left.
    client = server.client()
    assert client.good("GET", "/sandbox")["sandboxes"] == []
    assert wait_until(lambda: server.health()["load"]["running"] == 0), server.health()
    assert wait_until(lambda: not server.disks()), server.disks()
    assert wait_until(lambda: not server.log_files()), server.log_files()
    assert wait_until(lambda: server.health()["pool"]["ready"] == server.POOL), server.health()


def test_a_process_ends_while_there_is_no_daemon(server):
    """Its output is in the pipe, its end with the guest: the next daemon finds both."""
    client = server.client()
    client.good("PUT", "/sandbox/a", {"keepAlive": True})
    script = "echo before; while [ ! -e /tmp/go ]; do sleep 0.01; done; echo after; echo err >&2; exit 9"
    for i in range(5):
        name = f"p{i}"
        client.exec("a", "rm -f /tmp/go")
        client.good("POST", "/sandbox/a/processes", {"id": name, "command": script})
        client.good("POST", "/sandbox/a/processes", {"id": f"touch{i}", "command": "sleep 0.05; touch /tmp/go"})
        killed = server.kill_daemon()
        server.wait_for_another(killed)
        ended = lambda: client.again("GET", f"/sandbox/a/processes/{name}").json["process"]["status"] == "ended"
        assert wait_until(ended)
        process = client.again("GET", f"/sandbox/a/processes/{name}").json["process"]
        assert (process["reason"], process["exitCode"]) == ("exit", 9), process
        logs = [
            client.again("GET", f"/sandbox/a/processes/{name}/logs?stream={stream}", Accept="*/*").raw
            for stream in ("stdout", "stderr")
        ]
        assert logs == [b"before\nafter\n", b"err\n"]


def test_a_command_of_a_session_survives_or_is_said_to_be_lost(server):
    """A command that runs in a session when the daemon is killed: the session answers afterwards, with what
    it was."""
    client = server.client()
    client.good("PUT", "/sandbox/a", {"keepAlive": True})
    client.good("POST", "/sandbox/a/sessions", {"id": "s"})
    client.exec("a", "x=1", session="s")
    for i in range(3):
        other = server.client()
        asked = threading.Thread(target=lambda c=other: ask_and_be_cut_off(c), daemon=True)
        asked.start()
        time.sleep(0.1)
        server.wait_for_another(server.kill_daemon())
        asked.join(PATIENCE)
        answer = client.again("POST", "/sandbox/a/exec", {"command": "echo $x", "session": "s"})
        assert answer.status == 200 and answer.json["stdout"] == "1\n", (i, answer)


def ask_and_be_cut_off(client):
    try:
        client.call("POST", "/sandbox/a/exec", {"command": "sleep 0.5; echo late", "session": "s"})
    except Broken:
        pass


# -- the keeper too


def fill(client, name):
    """A sandbox with files whose sum is known, a process, and a session; the sum."""
    client.good("PUT", f"/sandbox/{name}", {"keepAlive": True})
    client.exec(name, "head -c 3000000 /dev/urandom > /workspace/big; mkdir -p /root/d; echo x > /root/d/f")
    client.good("POST", f"/sandbox/{name}/processes", {"id": "p", "command": f"echo up; sleep 1000; : {MARK}"})
    client.good("POST", f"/sandbox/{name}/sessions", {"id": "s"})
    client.exec(name, "cd /root/d; export Z=1", session="s")
    return client.exec(name, "sha256sum /workspace/big /root/d/f")


MARK = "crash-" + hashlib.sha256(str(os.getpid()).encode()).hexdigest()[:16]


@pytest.mark.parametrize("victims", ["both", "keeper"])
def test_keeper_is_killed(server, victims):
    client = server.client()
    sums = {}
    for i in range(BOTH_ROUNDS):
        name = f"k{i}"
        sums[name] = fill(client, name)
        client.good("PUT", "/sandbox/sleeper")
        client.good("POST", "/sandbox/sleeper/sleep")
        assert wait_until(lambda: client.again("GET", f"/sandbox/{name}/processes/p/logs?stream=stdout").raw == b"up\n")
        if victims == "both":
            server.kill_both()
        else:  # the daemon has nobody to work with, and ends
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait()
        assert wait_until(lambda: not processes_with(MARK)), "processes outlive their keeper"
        server.start()
        client.close()
        check_what_was_lost(client, name)
        for each, wanted in sums.items():
            assert client.exec(each, "sha256sum /workspace/big /root/d/f") == wanted
        assert client.exec(name, "pwd", session="s")  # a new shell, where the row says
    for name in [*sums, "sleeper"]:
        client.good("DELETE", f"/sandbox/{name}")
    assert wait_until(lambda: not server.disks()), server.disks()
    assert wait_until(lambda: not server.log_files()), server.log_files()


def check_what_was_lost(client, name):
    sandbox = client.good("GET", f"/sandbox/{name}")
    assert (sandbox["status"], sandbox["box"]) == ("sleeping", None), sandbox
    assert "lost" in client.events(name)
    process = client.good("GET", f"/sandbox/{name}/processes/p")["process"]
    assert (process["status"], process["reason"]) == ("ended", "box_lost"), process
    assert client.call("GET", f"/sandbox/{name}/processes/p/logs?stream=stdout").raw == b"up\n"
    assert client.good("GET", "/sandbox/sleeper")["status"] == "sleeping"
    assert "lost" not in client.events("sleeper")


def test_keeper_is_killed_at_random_moments(server):
    """Under load: after each restart, what was answered is there."""
    chance = random.Random(os.getpid())
    for i in range(BOTH_ROUNDS):
        worker = KeeperWorker(server, f"r{i}", chance.random())
        worker.start()
        time.sleep(0.2 + chance.random())
        server.kill_both()
        worker.over.set()
        worker.client.close()
        server.start()
        worker.join(PATIENCE * 3)
        assert not worker.is_alive() and worker.failure is None, worker.failure
    assert wait_until(lambda: not server.disks()), server.disks()
    assert wait_until(lambda: not server.log_files()), server.log_files()


class KeeperWorker(Worker):
    """While there is no keeper, a connect may be refused."""

    def step(self):
        try:
            super().step()
        except ConnectionRefusedError:
            self.exists = None
            time.sleep(0.02)

    def finish(self):
        assert wait_until(lambda: children(self.server.process.pid) and self.server.is_serving())
        super().finish()

    def check_process(self, name, number, sure):
        try:
            super().check_process(name, number, sure)
        except AssertionError:
            process = self.client.again("GET", self.path(f"/processes/{name}")).json["process"]
            assert process["reason"] == "box_lost", process  # its box went with the keeper


def test_what_an_exec_left_running_does_not_stand_in_the_way(server):
    """A guest does not tell a new daemon of it, and it still has its number."""
    client = server.client()
    client.good("PUT", "/sandbox/left", {})
    for _ in range(8):
        client.exec("left", "sleep 1000 > /dev/null 2>&1 &")
    server.wait_for_another(server.kill_daemon())
    client.close()
    for i in range(16):
        assert client.exec("left", f"echo {i}") == f"{i}\n"
    assert client.exec("left", "pgrep -c sleep") == "8\n"
    client.good("DELETE", "/sandbox/left")
