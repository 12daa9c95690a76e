# SPDX-License-Identifier: Apache-2.0
"""A daemon that is killed while tasks are at work: the next one goes on with them. Nothing is done twice."""

import os
import random
import tempfile
import threading
import time

import git_server
import pytest
from agents_helpers import Server, StandIn, end, eventually
from api_helpers import kill_daemon
from git_server import HOST, GitServer
from task_helpers import ASK, OK, Tasks, write_agents


class Gate(git_server.Handler):
    """Answers when the gate is open."""

    def answer(self):
        self.server.waiting.set()
        self.server.gate.wait(60)
        super().answer()

    do_GET = do_POST = answer


@pytest.fixture(scope="module")
def remote():
    with tempfile.TemporaryDirectory(prefix="cay-git-") as root:
        server = GitServer(root)
        server.http.RequestHandlerClass = Gate
        server.http.gate, server.http.waiting = threading.Event(), threading.Event()
        server.http.gate.set()
        server.repo("open/hello.git", {"README.md": "hello\n"})
        yield server
        server.http.gate.set()
        server.close()


@pytest.fixture(scope="module")
def tasks():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    with tempfile.TemporaryDirectory(prefix="cay-task-") as top, StandIn() as model:
        os.chmod(top, 0o711)
        os.mkdir(f"{top}/data")
        agents = write_agents(f"{top}/agents")
        os.chmod(agents, 0o755)
        server = Server(f"{top}/data", "--agents", agents, "--egress-private", "127.0.0.0/8", "--drain", "1s", env=model.env())
        yield Tasks(server)
        end(server)


def kill(tasks):
    kill_daemon(tasks.server, tasks.api)


def done_once(tasks, request):
    done = tasks.wait(request)
    assert done["success"] and done["metadata"].get("resumed"), done
    return done


def test_its_agent_goes_on(tasks, remote):
    script = "echo early; echo x >> x; sleep 3; echo late; echo x >> x\n" + OK
    request, box = tasks.begin(script, repo=f"{remote.url}/open/hello.git")
    kill(tasks)
    assert tasks.api("GET", f"/execute/{request}").status == 202
    with tasks.api.stream("GET", f"/execute/{request}") as stream:
        events = stream.until("done")
    assert events[0].name == "start" and events[0].data["resumed"]
    done = events[-1].data
    assert done["success"] and done["metadata"]["sandbox_id"] == box
    assert "early" in done["logs"] and "late" in done["logs"] and done["diff"].count("+x\n") == 2
    assert done["metadata"]["repo"].endswith("hello.git") and done["metadata"]["branch"] == "main"
    eventually(lambda: tasks.is_gone(box))


def test_killed_again_and_again(tasks):
    begun = [tasks.begin(f"echo {n} >> x; sleep 4; echo {n} >> y\n" + OK)[0] for n in range(5)]
    for _ in range(3):
        kill(tasks)
        time.sleep(random.random() / 2)
    for n, request in enumerate(begun):
        done = done_once(tasks, request)
        assert tasks.names(done) == {"x": "added", "y": "added"} and done["diff"].count(f"+{n}\n") == 2, done


def test_before_its_agent_it_begins_anew(tasks, remote):
    remote.http.gate.clear()
    remote.http.waiting.clear()
    with tasks.stream("echo x > x\n" + OK, repo=f"{remote.url}/open/hello.git") as stream:
        events = stream.until("sandbox")
    request, first = events[0].data["request_id"], events[-1].data["sandboxId"]
    assert remote.http.waiting.wait(60)
    kill(tasks)
    remote.http.gate.set()
    done = done_once(tasks, request)
    assert tasks.names(done) == {"x": "added"} and done["metadata"]["sandbox_id"] != first
    eventually(lambda: tasks.is_gone(first))


def test_in_a_sandbox_of_ones_own(tasks, remote):
    tasks.api.ok("PUT", "/sandbox/own", {"network": {"allow": [f"{HOST}:*"]}})
    request, _ = tasks.begin("sleep 2; echo x > x\n" + OK, sandbox_id="own")
    kill(tasks)
    assert tasks.names(done_once(tasks, request)) == {"x": "added"}
    remote.http.gate.clear()
    remote.http.waiting.clear()
    with tasks.stream(OK, repo=f"{remote.url}/open/hello.git", sandbox_id="own") as stream:
        request = stream.until("sandbox")[0].data["request_id"]
    assert remote.http.waiting.wait(60)
    kill(tasks)
    remote.http.gate.set()
    reply = eventually(lambda: (r := tasks.api("GET", f"/execute/{request}")).status != 202 and r)
    assert reply.status == 410 and reply.json["error_code"] == "RESULT_LOST", reply
    tasks.api.ok("DELETE", "/sandbox/own")


def test_its_deadline_holds(tasks):
    request, _ = tasks.begin("sleep 1000\n", before="echo x > x\n", timeout=6000)
    kill(tasks)
    done = tasks.wait(request)
    assert done["error_code"] == "EXECUTION_TIMEOUT" and tasks.names(done) == {"x": "added"}
    assert done["metadata"]["execution_time_ms"] >= 5900


def test_it_can_be_cancelled(tasks):
    request, box = tasks.begin("sleep 1000\n")
    kill(tasks)
    assert tasks.api("DELETE", f"/execute/{request}").json["state"] == "cancelling"
    assert tasks.wait(request)["error_code"] == "CANCELLED"
    eventually(lambda: tasks.is_gone(box))


def test_what_it_cost(tasks):
    script = "sleep 0.1; echo begun; " + ASK + "sleep 3; " + ASK
    with tasks.stream(script, agent="asker") as stream:
        request = stream.until("log")[0].data["request_id"]
    kill(tasks)
    done = done_once(tasks, request)
    spent = tasks.api.ok("GET", f"/usage?sandbox={done['metadata']['sandbox_id']}")["total"]
    assert done["metadata"]["total_cost_usd"] == spent["cost_usd"] > 0


def test_the_same_key_never_runs_it_twice(tasks):
    headers = {"Idempotency-Key": "once"}
    body = tasks.body("echo x >> x; sleep 2\n" + OK)
    with tasks.api.stream("POST", "/execute", body, headers) as stream:
        request = stream.until("sandbox")[0].data["request_id"]
    kill(tasks)
    again = tasks.api("POST", "/execute", body, headers)
    assert again.status in (200, 409), again
    assert done_once(tasks, request)["diff"].count("+x\n") == 1
    listed = tasks.api.ok("GET", "/execute?limit=10&kind=task")["results"]
    assert [r["question"] for r in listed].count(body["task"]) == 1


def test_a_server_that_is_stopped_ends_its_tasks(tasks):
    request, box = tasks.begin("sleep 1000\n")
    assert tasks.server.stop() == 0
    tasks.server.start()
    reply = tasks.api("GET", f"/execute/{request}")
    assert reply.status == 200 and reply.json["error_code"] == "CANCELLED", reply
    eventually(lambda: tasks.is_gone(box))


def test_nothing_is_left(tasks):
    eventually(lambda: tasks.api.ok("GET", "/sandbox")["sandboxes"] == [])
