# SPDX-License-Identifier: Apache-2.0
"""Tasks by agents when the daemon or the keeper is killed, the server ends or is replaced, the sandbox goes, the disk or the
machine is full, in each phase. A task that was at work goes on, is never run twice, and is counted once; or it is said that it is
lost. Nothing is left behind. The model is a stand-in (tests/standin)."""

import contextlib
import os
import random
import signal
import tempfile
import threading
import time

import leaks
import pytest
from crash_helpers import FULL, PATIENCE, Broken, Prober, name_of, processes_with, wait_until
from runs import StandIn, held, remove_all, use
from tasks import IMAGE, IMAGE_DATA, OK, SAY, Begun, Remote, Tasker, ask, check_all, difference, give_image, last_event, nothing_of_tasks, numbers, own_secrets, rows_of_tasks, write_agents
from test_crash import kill_at_random
from test_runs import faults, fill, fill_machine, lose_keeper, on_little_room, open_runs, start_again
from test_upgrade import installed, replace, upgrade  # noqa: F401  pylint: disable=unused-import
from test_ways import guest_of, settled

ROUNDS = 60 if FULL else 6
AT_ONCE = 50
FOREVER = SAY + "sleep 1000\n"


@pytest.fixture(name="model", scope="module")
def model_fixture():
    with StandIn() as standin:
        yield standin


@pytest.fixture(name="remote", scope="module")
def remote_fixture():
    with tempfile.TemporaryDirectory(prefix="cay-git-") as root:
        remote = Remote(root)
        yield remote
        remote.open()
        remote.close()


def prepare(server, model):
    """What a server needs that has tasks."""
    server.stop()
    agents = server.data / "agents"
    if not agents.exists():
        write_agents(agents)
    server.env = model.env()
    server.keepers_killed = 0
    server.flags += ["--agents", str(agents), "--egress-private", "127.0.0.0/8"]
    return server.start()


@pytest.fixture(name="working")
def working_fixture(server, model, remote):
    """One that does tasks, instead of the one that was started."""
    remote.open()
    model.clear()
    yield prepare(server, model)
    remote.open()
    if server.process.poll() is None:
        assert wait_until(lambda: nothing_of_tasks(server)), rows_of_tasks(server)
    server.stop()
    assert not faults(server), faults(server)


def warm_up(server, remote):
    for more in ({}, {"repo": remote.hello}):
        Begun(server, OK, **more).good()
    Begun(server, ask("warm") + OK, agent="asking").good()
    server.wait_for_another(server.kill_daemon())
    Begun(server, OK, repo=remote.hello).good()
    client = server.client()
    remove_all(client)
    client.close()
    settled(server)


def nothing_more(server, model, before):
    """All sandboxes of tasks are gone by themselves."""
    client = server.client()
    boxes = lambda: [s for s in client.again("GET", "/sandbox").json["sandboxes"] if "cay.request" in s["labels"]]
    assert wait_until(lambda: not boxes(), 20, 0.1), boxes()
    remove_all(client)
    client.close()
    settled(server)
    assert wait_until(lambda: not difference(server, model, before), 20, 0.1), difference(server, model, before)


def boxes_of_tasks(server):
    client = server.client()
    found = [s["id"] for s in client.again("GET", "/sandbox").json["sandboxes"] if "cay.request" in s["labels"]]
    client.close()
    return found


# -- kill -9


def test_daemon_is_killed_at_random_moments(working, model, remote):
    server, chance = working, random.Random(os.getpid())
    warm_up(server, remote)
    before = held(server, model)
    taskers = [Tasker(server, remote, f"t{i}", chance.random()) for i in range(4)]
    with Prober(server) as prober:
        for tasker in taskers:
            tasker.start()
        for _ in range(ROUNDS):
            kill_at_random(server, chance)
            time.sleep(chance.random())
            failures = [tasker.failure for tasker in taskers if tasker.failure]
            assert not failures, failures[0]
        for tasker in taskers:
            tasker.end()
    assert prober.count > 0 and not server.refused
    assert wait_until(lambda: not open_runs(server.client()), every=0.1), open_runs(server.client())
    check_all(server, model, taskers)
    nothing_more(server, model, before)


def in_each_phase(server, remote):
    """One task at each place where it can be held: (name, task). The gate is shut then."""
    server.client().again("PUT", "/sandbox/own", {"keepAlive": True, "network": {"allow": ["127.0.0.2:*"]}})
    agent = Begun(server, SAY + "echo x >>x; sleep 4; echo y >>y\n" + OK, key=f"agent-{next(numbers)}").until("message")
    own = Begun(server, SAY + "echo x >>x; sleep 4; echo y >>y\n" + OK, sandbox_id="own", key=f"own-{next(numbers)}").until("message")
    remote.shut()
    clone = Begun(server, "echo x >>x; echo y >>y\n" + OK, repo=remote.hello, key=f"clone-{next(numbers)}")
    remote.wait_for(1)
    return {"agent": agent, "own": own, "clone": clone}


def check_each_phase(tasks):
    for name, task in tasks.items():
        done = task.good()
        assert done["metadata"]["resumed"] and {f["path"] for f in done["files"]} == {"x", "y"}, (name, done)
        assert done["diff"].count("+x\n") == done["diff"].count("+y\n") == 1, done
        again = task.again()
        assert again.status == 200 and last_event(again)[2].encode() == task.answer().raw.rstrip(b"\n"), again


def test_a_killed_daemon_goes_on_in_each_phase(working, remote):
    tasks = in_each_phase(working, remote)
    working.wait_for_another(working.kill_daemon())
    remote.open()
    check_each_phase(tasks)
    assert wait_until(lambda: not boxes_of_tasks(working)), boxes_of_tasks(working)
    remove_all(working.client())


def test_an_upgrade(installed, model, remote):  # noqa: F811
    server = prepare(installed, model)
    tasks = in_each_phase(server, remote)
    replace(server)
    said = upgrade(server)
    assert said.returncode == 0, (said.stderr, server.log())
    remote.open()
    check_each_phase(tasks)
    assert wait_until(lambda: not boxes_of_tasks(server)), boxes_of_tasks(server)
    remove_all(server.client())
    server.stop()
    assert not faults(server), faults(server)


def test_a_long_task_is_read_whole(working):
    """More than a pipe holds: what the agent has not taken when the daemon dies it would never get."""
    text = "x" * 1000000 + "\nlast"
    task = Begun(working, text, agent="late").until("sandbox")
    assert wait_until(lambda: processes_with("wc -c <got"))
    working.wait_for_another(working.kill_daemon())
    done = task.good()
    assert done["result"].split() == [str(len(text) + 1), "last"], done
    assert wait_until(lambda: not boxes_of_tasks(working)), boxes_of_tasks(working)


def test_one_that_ended_while_nobody_looked(working):
    """Also when its time is over since: it was not when it ended."""
    flood = "i=0; while [ $i -lt 30000 ]; do echo '{\"type\": \"say\", \"text\": \"'$i'\"}'; i=$((i+1)); done\n"
    task = Begun(working, flood + "sleep 1\n" + OK, timeout=6000)
    assert wait_until(lambda: len(task.events) >= 30000)
    keeper, killed = working.process.pid, working.kill_daemon()
    os.kill(keeper, signal.SIGSTOP)
    try:
        time.sleep(6)
    finally:
        os.kill(keeper, signal.SIGCONT)
    working.wait_for_another(killed)
    done = task.answer().json
    assert done["success"], {**done, "logs": ""}
    assert done["logs"].count("\n") >= 30000 and done["result"] == "done", done["error"]


def test_keeper_is_killed(working, remote):
    """The boxes go with it. What had not begun begins anew; of what ran it is said that it is lost."""
    server = working
    for both in (True, False):
        tasks = in_each_phase(server, remote)
        lose_keeper(server, both)
        remote.open()
        server.start()
        assert tasks["clone"].good()["metadata"]["resumed"]
        for name in ("agent", "own"):
            assert "it begins" in tasks[name].bad("SANDBOX_LOST")["logs"]
        assert wait_until(lambda: not boxes_of_tasks(server)), boxes_of_tasks(server)
        remove_all(server.client())


def test_an_agent_that_is_known_no_more(working):
    """Its file is gone when the next daemon comes: the task is lost, and nothing of it stays."""
    server = working
    task = Begun(server, FOREVER, agent="nap", timeout=60000).until("message")
    (server.data / "agents" / "nap").unlink()
    server.wait_for_another(server.kill_daemon())
    answer = task.answer()
    assert answer.status == 410 and answer.json["error_code"] == "RESULT_LOST", answer
    assert wait_until(lambda: not boxes_of_tasks(server), 20), boxes_of_tasks(server)


# -- an end that was asked for


def test_a_stop_cancels_what_runs(working, remote):
    """Whoever asks afterwards is told; a sandbox of a task's own is gone, others are there."""
    server = start_again(working, "--drain", "500ms")
    tasks = in_each_phase(server, remote)
    tasks["kept"] = Begun(server, FOREVER, keep=True).until("message")
    tasks["left"] = Begun(server, FOREVER).until("message")
    tasks["left"].leave()
    ids = {name: task.id for name, task in tasks.items()}
    server.stop()
    assert not faults(server), faults(server)
    remote.open()
    for name, task in tasks.items():
        task.thread.join(PATIENCE)
        assert name == "left" or (task.events[-1][1] == "done" and '"CANCELLED"' in task.events[-1][2]), (name, task.events[-1])
    server.start()
    kept = tasks["kept"].bad("CANCELLED")["metadata"]["sandbox_id"]
    for name, task in tasks.items():
        assert task.bad("CANCELLED")["request_id"] == ids[name]
    client = server.client()
    assert {s["id"] for s in client.good("GET", "/sandbox")["sandboxes"]} == {"own", kept}
    for name in ("own", kept):
        client.good("DELETE", f"/sandbox/{name}")


def test_a_stop_waits_for_what_ends_soon(working):
    server = start_again(working, "--drain", "50s")
    task = Begun(server, SAY + "sleep 2\necho x >x\n" + OK).until("message")
    task.leave()
    server.stop()
    server.start()
    done = task.good()
    assert "resumed" not in done["metadata"] and done["diff"].count("+x\n") == 1, done


def test_a_full_machine(working):
    """Tasks wait for boxes: a cancelled one at once, one that a stop finds is cancelled, one that a killed daemon had waits on."""
    server = start_again(working, "--boxes", "8", "--pool", "1", "--pool-blank", "0", "--drain", "500ms")
    client = server.client()
    assert wait_until(lambda: fill_machine(client), every=0.2), client.good("GET", "/health")
    tasks = [Begun(server, "echo x >x\n" + OK, key=f"full-{i}") for i in range(4)]
    assert tasks[0].cancel().status == 202
    assert tasks[0].bad("CANCELLED")["metadata"]["sandbox_id"] is None
    server.wait_for_another(server.kill_daemon())
    assert tasks[1].cancel().status == 202
    tasks[1].bad("CANCELLED")
    full = [s["id"] for s in client.again("GET", "/sandbox").json["sandboxes"] if s["id"].startswith("full")]
    for name in full[:4]:
        assert client.again("DELETE", f"/sandbox/{name}").status == 200
    assert tasks[2].good()["metadata"]["resumed"]
    assert tasks[3].good()["diff"].count("+x\n") == 1
    assert wait_until(lambda: fill_machine(client), every=0.2), client.good("GET", "/health")
    waiting = [Begun(server, OK) for _ in range(3)]
    server.stop()
    assert not faults(server), faults(server)
    server.start()
    for task in waiting:
        task.bad("CANCELLED")
    assert not boxes_of_tasks(server)
    remove_all(server.client())


# -- whatever else may go


def test_its_sandbox_goes(working, remote):
    """By whoever may: destroyed, put to sleep, its box killed, while it is cloned and while the agent runs."""
    server, client = working, working.client()
    ways = {
        "destroyed": lambda box: client.good("DELETE", f"/sandbox/{box}"),
        "asleep": lambda box: client.call("POST", f"/sandbox/{box}/sleep"),  # it is destroyed meanwhile
        "killed": lambda box: kill_box(server, client, box),
    }
    for name, way in ways.items():
        task = Begun(server, "echo x >x\n" + FOREVER).until("message")
        way(task.box())
        done = task.bad("SANDBOX_LOST")
        assert "it begins" in done["logs"] or name == "destroyed", (name, done)
    for name, way in ways.items():
        remote.shut()
        task = Begun(server, OK, repo=remote.hello)
        remote.wait_for(1)
        way(task.box())
        remote.open()
        answer = task.answer()
        assert answer.json["error_code"] in ("SANDBOX_LOST", "UNAVAILABLE", "NOT_FOUND", "GIT_FAILED"), (name, answer)
    assert wait_until(lambda: not boxes_of_tasks(server)), boxes_of_tasks(server)


def kill_box(server, client, box):
    os.kill(guest_of(server, client, box), signal.SIGKILL)


def test_its_agent_is_killed(working):
    server, client = working, working.client()
    for how in ("signal", "delete", "outside"):
        task = Begun(server, "echo x >x\n" + FOREVER).until("message")
        path = f"/sandbox/{task.box()}/processes/agent"
        if how == "signal":
            client.good("POST", f"{path}/signal", {"signal": "SIGKILL"})
        elif how == "delete":
            client.good("DELETE", path)
        else:
            shells = lambda: [pid for pid in leaks.tree(server.process.pid) if name_of(pid) == "sh"]
            assert wait_until(lambda: len(shells()) == 1), shells()  # those before are gone
            os.kill(shells()[0], signal.SIGKILL)
        task.bad("AGENT_FAILED", "SANDBOX_LOST")
    assert wait_until(lambda: not boxes_of_tasks(server)), boxes_of_tasks(server)


def test_cancelled_in_each_phase(working, model, remote):
    """By DELETE: whatever it was at is ended, and nothing of it stays, also in a sandbox that stays."""
    server, client = working, working.client()
    before = None
    for _ in range(2):  # the first makes what is made once
        tasks = in_each_phase(server, remote)
        tasks["own clone"] = Begun(server, OK, repo=remote.hello, sandbox_id="own")
        remote.wait_for(1)
        for task in tasks.values():
            assert task.cancel().status == 202
            assert task.bad("CANCELLED")["metadata"]["reason"] == "cancelled"
        remote.open()
        running = lambda: client.exec("own", "ps -eo args | grep -E '[g]it|[s]leep' || true")
        assert wait_until(lambda: not running(), every=0.1), running()
        client.good("DELETE", "/sandbox/own")
        client.close()
        if before is None:
            settled(server)
            before = held(server, model)
    nothing_more(server, model, before)


def test_many_at_once(working, model):
    """Some are cancelled, some left, some asked for twice; all are answered, and nothing is left."""
    server, chance = working, random.Random(os.getpid())
    Begun(server, OK).good()
    settled(server)
    before = held(server, model)
    tasks, lock = [], threading.Lock()

    def begin(i):
        nap = chance.choice(["", "sleep 0.1\n", "sleep 0.5\n"])
        task = Begun(server, f"{nap}echo {i} >x\n{OK}", agent="shell", key=f"many-{i}", memory="64m")
        with lock:
            tasks.append((i, task))
        if i % 3 == 0:
            time.sleep(chance.random())
            assert task.cancel().status in (200, 202)
        elif i % 3 == 1:
            task.leave()

    threads = [threading.Thread(target=begin, args=(i,)) for i in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(tasks) == AT_ONCE
    for i, task in tasks:
        answer = task.answer()
        if i % 3 == 0:  # it may have been done before, and then its answer was removed
            assert answer.status == 404 or answer.json["error_code"] in (None, "CANCELLED"), answer
        else:
            assert answer.status == 200 and answer.json["success"] and f"+{i}\n" in answer.json["diff"], answer
        task.close()
    nothing_more(server, model, before)


@pytest.mark.skipif(not FULL, reason="a task waits half a minute for a box; with CAY_TEST_FULL=1")
def test_a_key_is_free_where_nothing_was_run(working):
    """The machine was full: who asks again is not told so for ever."""
    server = start_again(working, "--boxes", "8", "--pool", "1", "--pool-blank", "0")
    client = server.client()
    assert wait_until(lambda: fill_machine(client), every=0.2), client.good("GET", "/health")
    task = Begun(server, OK, key="again", timeout=50000)
    refused = task.answer()
    assert refused.status == 503, refused
    remove_all(client)
    again = task.again()
    assert again.status == 200 and '"success":true' in last_event(again)[2], again


# -- a disk that is full


@pytest.fixture(name="small")
def small_fixture(working):
    yield from on_little_room(working)


def test_a_full_disk(small):
    """What cannot be stored is not answered, and says so; it is not begun anew by the next daemon either."""
    server = small
    task = Begun(server, SAY + "sleep 3; head -c 6000000 /dev/urandom | base64 >x\n" + OK).until("message")
    waits = Begun(server, SAY + "sleep 1000\n").until("message")
    filler = fill(server)
    answer = task.answer()
    assert answer.status == 507 and answer.json["error_code"] == "NO_SPACE", answer
    assert waits.cancel().status == 202
    first = waits.answer()
    refused = server.client().call("POST", "/execute", {"task": OK, "options": {"agent": "shell"}})
    assert refused.status in (200, 503, 507), refused
    filler.unlink()
    server.wait_for_another(server.kill_daemon())
    for one, was in ((task, answer), (waits, first)):  # what was not stored is looked at once more
        now = one.answer()
        assert now.status in (200, 410, 507) and now.json["request_id"] == was.json["request_id"], (was, now)
    assert wait_until(lambda: not boxes_of_tasks(server)), boxes_of_tasks(server)
    Begun(server, OK).good()


# -- the real ones


@pytest.fixture(name="real")
def real_fixture(server, model):
    """One that has the image of agents."""
    server.stop()
    if not (IMAGE_DATA / "images" / IMAGE).exists():
        pytest.fail("there is no image of agents: scripts/agents-image makes it")
    give_image(server.data)
    model.clear()
    yield prepare(server, model)
    server.stop()
    assert not faults(server), faults(server)


def test_claude_goes_on(real, model):
    """The daemon is killed in the midst of an answer of the model: Claude Code asks again, and the task is done once."""
    server = real
    write = use("Write", file_path="/workspace/made.txt", content="made\n")
    text = f"goes-on [[text: I write.]] {write} [[slow: 150]] [[then: text: It is written.]]"
    task = Begun(server, text, agent="claude")
    assert wait_until(lambda: model.messages("goes-on"))
    server.wait_for_another(server.kill_daemon())
    done = task.good()
    assert done["metadata"]["resumed"] and done["result"] == "It is written." and done["diff"].count("+made\n") == 1, done
    total = server.client().good("GET", f"/usage?sandbox={done['metadata']['sandbox_id']}")["total"]
    assert done["metadata"]["total_cost_usd"] == total["cost_usd"] > 0
    assert wait_until(lambda: not boxes_of_tasks(server)), boxes_of_tasks(server)


def test_opencode_goes_on(real, model):
    """While it starts, in the midst of a message, with a stream open: the next daemon finds it, or starts it again."""
    server, client = real, real.client()
    settings = {"image": IMAGE, "memory": "2g", "secrets": ["anthropic"], "keepAlive": True}
    own = {"apiKey": "sk-ant-own", "baseURL": f"{model.url}/v1"}
    client.good("PUT", "/sandbox/oc", {**settings, "config": {"provider": {"anthropic": {"options": own}}}})
    assert own_secrets(server) == 1
    first = Asking(server, "/sandbox/oc/message", {"message": "early [[text: hello]]"})
    assert wait_until(lambda: [p for p in processes_with("opencode") if p in leaks.tree(server.process.pid)])
    server.wait_for_another(server.kill_daemon())
    first.join(PATIENCE)
    said = client.again("POST", "/sandbox/oc/message", {"message": "second [[text: hello]]"}).json
    assert said["success"] and said["response"] == "hello", said
    stream = Asking(server, "/sandbox/oc/opencode/event", None, "GET")
    second = Asking(server, "/sandbox/oc/message", {"message": "midst [[text: hello]] [[slow: 300]]"}, Idempotency_Key="midst")
    assert wait_until(lambda: model.messages("midst"))
    server.wait_for_another(server.kill_daemon())
    for one in (stream, second):
        one.join(PATIENCE)
        assert not one.is_alive() and (one.answer is None or one is stream)
    again = client.again("POST", "/sandbox/oc/message", {"message": "midst [[text: hello]] [[slow: 300]]"}, Idempotency_Key="midst")
    assert again.status == 409 and again.json["error_code"] == "OUTCOME_UNKNOWN", again
    body = {"message": "third [[text: still here]]", "sessionId": said["sessionId"]}
    assert client.again("POST", "/sandbox/oc/message", body).json["response"] == "still here"
    serves = [p for p in client.good("GET", "/sandbox/oc/processes")["processes"] if p["id"] == "opencode"]
    assert len(serves) == 1, serves
    client.good("DELETE", "/sandbox/oc")
    assert own_secrets(server) == 0
    assert wait_until(lambda: not [p for p in processes_with("opencode") if p in leaks.tree(server.process.pid)])


class Asking(threading.Thread):
    """Asks beside us; `answer` is None where it was cut off."""

    def __init__(self, server, path, body, method="POST", **headers):
        super().__init__(daemon=True)
        self.client, self.request, self.headers = server.client(), (method, path, body), headers
        self.answer = None
        self.start()

    def run(self):
        with contextlib.suppress(Broken, OSError):
            self.answer = self.client.call(*self.request, **self.headers)
