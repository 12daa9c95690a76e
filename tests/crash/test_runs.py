# SPDX-License-Identifier: Apache-2.0
"""Questions, conversations and sandboxes that ask a model when the daemon or the keeper is killed, the server ends or is
replaced, its disk is full. What was answered is stored, and counted once; of what was not it is said that it is lost; nothing is
left behind. The model is a stand-in (tests/standin)."""

import os
import random
import signal
import socket
import subprocess
import threading
import time

import leaks
import pytest
from crash_helpers import FULL, PATIENCE, Broken, Prober, wait_until
from runs import (BoxRunner, Ledger, Runner, StandIn, held, kept_connections, read_events, remove_all, results_of, spent_rows,
                  use)
from test_crash import kill_at_random
from test_upgrade import NEXT, installed, replace, upgrade  # noqa: F401  pylint: disable=unused-import
from test_ways import settled

ROUNDS = 150 if FULL else 8
BOTH_ROUNDS = 12 if FULL else 2
STOP_ROUNDS = 30 if FULL else 3
COUNT_ROUNDS = 10 if FULL else 3
HANG = "[[text: never]] [[hang]]"
SLEEP = "[[code: import time; time.sleep(1000)]]"


@pytest.fixture(name="model")
def model_fixture():
    with StandIn() as standin:
        yield standin


@pytest.fixture
def asking(server, model):
    """One that has a model to ask, instead of the one that was started."""
    server.stop()
    server.env = model.env()
    server.keepers_killed = 0
    yield server.start()
    server.stop()
    assert not faults(server), faults(server)


def faults(server):
    """What a daemon says of a full disk, or of a keeper that was killed, is none."""
    expected = ["free space in the data directory", "the keeper is gone"]
    if server.keepers_killed:  # whoever waits for a keeper that is gone is not told, and its memory goes with the daemon
        expected += ["LeakSanitizer", "byte(s) leaked"]
    return [line for line in server.faults() if not any(words in line for words in expected)]


def start_again(server, *flags, **env):
    server.stop()
    server.flags += flags
    server.env |= env
    return server.start()


def warm_up(server):
    client = server.client()
    runner = BoxRunner(server, "warm", 1)
    runner.start()
    assert wait_until(lambda: runner.done > 1 or runner.failure)
    runner.end()
    client.good("POST", "/execute", {"question": "[[code: print(1)]]"})
    client.good("POST", "/execute/sdk", {"prompt": use("Bash", command="true"), "options": {"allowed_tools": ["Bash"]}})
    remove_all(client)
    server.wait_for_another(server.kill_daemon())
    client.again("POST", "/execute", {"question": "[[code: print(1)]]"})
    remove_all(client)
    settled(server)


def no_more_than(server, model, before):
    client = server.client()
    remove_all(client)
    client.close()
    settled(server)
    rest = lambda: leaks.difference(before, held(server, model))
    assert wait_until(lambda: not rest(), 20, 0.1), rest()


class Waiting(threading.Thread):
    """Asks beside us: the answer, or None when it was cut off."""

    def __init__(self, server, body, path="/execute", stream=False, **headers):
        super().__init__(daemon=True)
        self.client, self.path, self.body, self.headers = server.client(), path, body, headers
        self.is_stream, self.events, self.answer = stream, [], None
        self.start()

    def run(self):
        try:
            if self.is_stream:
                read_events(self.client.begin("POST", self.path, self.body, Accept="text/event-stream"), self.events)
            else:
                self.answer = self.client.call("POST", self.path, self.body, **self.headers)
        except (Broken, OSError):
            pass

    def leave(self):
        """As a client that is killed."""
        assert wait_until(lambda: self.client.connection is not None and self.client.connection.sock is not None)
        self.client.connection.sock.shutdown(socket.SHUT_RDWR)
        self.join(PATIENCE)


def open_runs(client):
    return [row for row in results_of(client).values() if row["state"] == "running"]


def id_of(client, word):
    return wait_until(lambda: [k for k, row in results_of(client).items() if word in row["question"]])[0]


# -- kill -9


def test_daemon_is_killed_at_random_moments(asking, model):
    server, chance = asking, random.Random(os.getpid())
    warm_up(server)
    model.clear()
    before = held(server, model)
    runners = [Runner(server, f"r{i}", chance.random()) for i in range(3)] + [BoxRunner(server, "b", chance.random())]
    spent = server.client().good("GET", "/usage?by=source")["total"]
    with Prober(server) as prober:
        for runner in runners:
            runner.start()
        for _ in range(ROUNDS):
            kill_at_random(server, chance)
            failures = [runner.failure for runner in runners if runner.failure]
            assert not failures, failures[0]
        for runner in runners:
            runner.end()
    assert prober.count > 0 and not server.refused
    assert all(runner.done > 3 for runner in runners), [runner.done for runner in runners]
    assert spent["requests"] > 0
    ledger = Ledger(server, model, runners)
    ledger.check(runners)
    states = [row["state"] for row in ledger.results.values()]
    assert "done" in states and "lost" in states, states
    no_more_than(server, model, before)


def test_a_killed_daemon_loses_what_it_worked_on(asking, model):
    """One of each kind at a known place: what is said of it afterwards, in each way of asking."""
    server, client = asking, asking.client()
    kinds = {
        "hangs": Waiting(server, {"question": f"hangs {HANG}"}),
        "runs": Waiting(server, {"question": f"runs {SLEEP}"}),
        "talks": Waiting(server, {"prompt": f"talks {HANG}"}, "/execute/sdk"),
        "keyed": Waiting(server, {"question": f"keyed {HANG}"}, Idempotency_Key="k1"),
        "streams": Waiting(server, {"question": f"streams {SLEEP}"}, stream=True),
    }
    ids = {word: id_of(client, word) for word in kinds}
    assert wait_until(lambda: [e for e in kinds["streams"].events if e[1] == "sandbox"])
    asked = len(model.requests())
    server.wait_for_another(server.kill_daemon())
    for word, waiting in kinds.items():
        waiting.join(PATIENCE)
        assert waiting.answer is None
        for path, headers in ((f"/execute/{ids[word]}", {}), (f"/execute/{ids[word]}", {"Accept": "text/event-stream"})):
            answer = client.again("GET", path, **headers)
            assert answer.status == 410 and answer.json["error_code"] == "RESULT_LOST", (word, answer)
    # Going on with a stream, by the same request.
    last = kinds["streams"].events[-1][0]
    headers = {"Accept": "text/event-stream", "Last_Event_ID": last}
    for method, path in (("POST", "/execute"), ("GET", f"/execute/{ids['streams']}")):
        answer = client.again(method, path, kinds["streams"].body if method == "POST" else None, **headers)
        assert answer.status == 410 and answer.json["error_code"] == "RESULT_LOST", (method, answer)
    answer = client.again("POST", "/execute", kinds["keyed"].body, Idempotency_Key="k1")
    assert answer.status == 409 and answer.json["error_code"] == "OUTCOME_UNKNOWN", answer
    assert len(model.requests()) == asked, "the model was asked again"
    assert {row["state"] for row in results_of(client).values()} == {"lost"}
    # They can be removed, and the sandboxes are there.
    assert client.again("DELETE", f"/execute/{ids['hangs']}").status == 200
    assert client.again("GET", f"/execute/{ids['hangs']}").status == 404
    labels = [s["labels"].get("cay.request") for s in client.good("GET", "/sandbox")["sandboxes"]]
    assert {ids["runs"], ids["streams"]} <= set(labels), labels
    remove_all(client)


# In a box: says that it has the whole message, for which it does not wait for the end of HTTP.
WHOLE = r"""
import http.client, json, socket, sys
c = http.client.HTTPConnection("anthropic.cay", timeout=60)
if sys.argv[1] == "unix":
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect("/run/cay/anthropic.sock")
ask = {"model": "claude-sonnet-5-5", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": sys.argv[2]}]}
c.request("POST", "/v1/messages", json.dumps(ask), {"Content-Type": "application/json", "anthropic-version": "2023-06-01"})
a = c.getresponse()
lines = iter(a)
for line in lines:
    if line.startswith(b"data: ") and json.loads(line[6:])["type"] == "message_stop" and next(lines) == b"\n":
        print(a.headers["request-id"], flush=True)
"""


def test_a_whole_answer_has_its_price(asking, model):
    """Whoever has the last event has all of it: its price is written down by then, once, although HTTP has not come to its end."""
    server, client = asking, asking.client()
    model.clear()
    client.good("PUT", "/sandbox/b", {"secrets": ["anthropic"], "budget": {"tokens": 10**9}, "keepAlive": True})
    client.call("PUT", "/sandbox/b/files/workspace/whole.py", WHOLE.encode())
    ways = ("unix", "tcp")
    for way in ways:
        text = f"{way} [[text: hello]] [[usage: in=20 out=7]] [[hang: end]]"
        client.good("POST", "/sandbox/b/processes", {"id": way, "argv": ["python3", "whole.py", way, text]})
    said = lambda way: client.again("GET", f"/sandbox/b/processes/{way}/logs?stream=stdout").raw.decode().split()
    assert wait_until(lambda: all(map(said, ways))), [said(way) for way in ways]
    assert [request["state"] for request in model.requests()] == ["open", "open"]
    server.wait_for_another(server.kill_daemon())
    assert spent_rows(server) == {said(way)[0]: (1, 20, 7) for way in ways}
    assert client.again("GET", "/sandbox/b").json["budget"]["spent"]["tokens"] == 54
    assert client.again("GET", "/usage?sandbox=b").json["total"]["requests"] == 2
    remove_all(client)


def test_a_stream_with_a_key_is_had_again(asking):
    """Also when the run is not in memory any more: its answer, and not that nobody knows."""
    server, client = asking, asking.client()
    body = {"question": "again [[code: print(5)]]"}
    ask = lambda: client.again("POST", "/execute", body, Accept="text/event-stream", Idempotency_Key="k2")
    first, second = [], []
    read_events(iter(ask().raw.splitlines(keepends=True)), first)
    assert first[-1][1] == "done"
    server.wait_for_another(server.kill_daemon())
    answer = ask()
    assert answer.status == 200, answer
    read_events(iter(answer.raw.splitlines(keepends=True)), second)
    assert [e[1] for e in second] == ["done"] and second[0][2] == first[-1][2]
    # And going on behind an event of it.
    answer = client.again("POST", "/execute", body, Accept="text/event-stream", Last_Event_ID=first[0][0])
    assert answer.status == 200 and first[-1][2].encode() in answer.raw, answer
    answer = client.again("POST", "/execute", body, Accept="text/event-stream", Last_Event_ID="nobody:0")
    assert answer.status == 404, answer
    remove_all(client)


def test_keeper_is_killed(asking, model):
    """The boxes go with it, and so does what ran in them; answers are there."""
    server, chance = asking, random.Random(os.getpid())
    warm_up(server)
    model.clear()
    before = held(server, model)
    for i in range(BOTH_ROUNDS):
        runners = [Runner(server, f"k{i}", chance.random()), Runner(server, f"l{i}", chance.random())]
        for runner in runners:
            runner.start()
        assert wait_until(lambda: all(runner.done > 2 or runner.failure for runner in runners))
        time.sleep(chance.random())
        for runner in runners:
            runner.over.set()
        lose_keeper(server, both=i % 2 == 0)
        server.start()
        for runner in runners:
            runner.join(PATIENCE * 2)
            assert not runner.is_alive()
            assert runner.failure is None or "refused" in runner.failure or "SANDBOX_LOST" in runner.failure, runner.failure
        ledger = Ledger(server, model)
        for runner in runners:
            for asked in runner.asked:
                ledger.check_asked(asked)
        ledger.check_sums()
        remove_all(server.client())
        model.clear()
        server.client().close()
    now = {k: v for k, v in held(server, model).items() if k.startswith("descriptors of the")}
    no_more_than(server, model, {**before, **now})


def lose_keeper(server, both):
    server.keepers_killed += 1
    ours = leaks.tree(server.process.pid)
    if both:
        server.kill_both()
    else:
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(PATIENCE)
    assert wait_until(lambda: not [pid for pid in ours if leaks.name_of(pid)])


# -- an end that was asked for


def open_everything(server, client):
    """Runs that would go on for ever, each in another place."""
    client.good("PUT", "/sandbox/b", {"secrets": ["anthropic"], "budget": {"tokens": 10**9}})
    curl = "curl -sN http://anthropic.cay/v1/messages -H 'anthropic-version: 2023-06-01' --json @ask.json"
    ask = '{"model":"claude-sonnet-5-5","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"[[big: 90000]] [[slow: 50]]"}]}'
    client.call("PUT", "/sandbox/b/files/workspace/ask.json", ask.encode())
    client.good("POST", "/sandbox/b/processes", {"command": curl})
    tool = use("Bash", command="sleep 1000")
    kinds = {
        "hangs": Waiting(server, {"question": f"hangs {HANG}"}),
        "writes": Waiting(server, {"question": "writes [[code: print(1)]] [[hang: 5]]"}, stream=True),
        "runs": Waiting(server, {"question": f"runs {SLEEP}"}),
        "keyed": Waiting(server, {"question": f"keyed {SLEEP}"}, Idempotency_Key="k1"),
        "left": Waiting(server, {"question": f"left {SLEEP}"}),
        "gone": Waiting(server, {"question": f"gone {HANG}"}, Idempotency_Key="k2"),
        "talks": Waiting(server, {"prompt": f"talks {HANG}"}, "/execute/sdk"),
        "tools": Waiting(server, {"prompt": f"tools {tool}", "options": {"allowed_tools": ["Bash"]}}, "/execute/sdk", stream=True),
    }
    assert wait_until(lambda: len(open_runs(client)) == len(kinds)), open_runs(client)
    assert wait_until(lambda: len(client.good("GET", "/sandbox")["sandboxes"]) == 6)
    kinds["left"].leave()
    kinds["gone"].leave()
    return kinds


def test_a_stop_cancels_what_runs(asking):
    """Whoever waits is told, and so is whoever asks afterwards: the same."""
    server = start_again(asking, "--drain", "500ms")
    client = server.client()
    kinds = open_everything(server, client)
    ids = {word: id_of(client, word) for word in kinds}
    server.stop()
    assert not server.faults(), server.faults()
    for word, waiting in kinds.items():
        waiting.join(PATIENCE)
        if waiting.is_stream:
            assert waiting.events[-1][1] == "done" and '"CANCELLED"' in waiting.events[-1][2], (word, waiting.events[-1])
        elif word not in ("left", "gone"):
            assert waiting.answer is not None and waiting.answer.json["error_code"] == "CANCELLED", (word, waiting.answer)
    server.start()
    client.close()
    for word, run in ids.items():
        answer = client.again("GET", f"/execute/{run}")
        assert answer.status == 200 and answer.json["error_code"] == "CANCELLED", (word, answer)
        if kinds[word].answer is not None:
            assert answer.raw == kinds[word].answer.raw
    for word, key in (("keyed", "k1"), ("gone", "k2")):
        answer = client.again("POST", "/execute", kinds[word].body, Idempotency_Key=key)
        assert answer.status == 200 and answer.json["request_id"] == ids[word], answer
    assert client.good("GET", "/sandbox/b")["budget"]["spent"]["tokens"] > 0  # what the box was told until then
    remove_all(client)


def test_a_stop_waits_for_what_ends_soon(asking):
    """Also when nobody waits for it."""
    server = start_again(asking, "--drain", "50s")
    client = server.client()
    waiting = Waiting(server, {"question": "soon [[code: import time; time.sleep(2); print('ready')]]"})
    run = id_of(client, "soon")
    waiting.leave()
    server.stop()
    server.start()
    client.close()
    answer = client.again("GET", f"/execute/{run}")
    assert answer.status == 200 and answer.json["output"] == "ready\n", answer
    remove_all(client)


def test_a_stop_while_answers_are_stored(asking):
    """At any moment: each answer that somebody got is there."""
    server, chance = start_again(asking, "--drain", "1ms"), random.Random(os.getpid())
    for i in range(STOP_ROUNDS):
        runners = [Waiting(server, {"question": f"{i}-{n} [[code: print({n})]]"}, stream=n % 2 == 0) for n in range(12)]
        talks = [Waiting(server, {"prompt": f"{i}-{n} [[text: {n}]]"}, "/execute/sdk", Idempotency_Key=f"{i}-{n}") for n in range(12)]
        time.sleep(chance.random() * 0.6)
        server.stop()
        assert not server.faults(), server.faults()
        server.start()
        client = server.client()
        for waiting in runners + talks:
            waiting.join(PATIENCE)
            if waiting.answer is not None and waiting.answer.status == 200:
                run = waiting.answer.json["request_id"]
                assert client.good("GET", f"/execute/{run}") == waiting.answer.json
        assert not open_runs(client)
        remove_all(client)


def fill_machine(client):
    """Whether there was no box for one more, three times: the pool gives its own away, and may take one back."""
    refused = 0
    for _ in range(12):
        name = f"full{time.monotonic_ns()}"
        client.call("PUT", f"/sandbox/{name}", {"keepAlive": True})
        refused += client.call("POST", f"/sandbox/{name}/wake").status != 200
    return refused >= 3


def test_a_stop_while_sandboxes_are_waited_for(asking):
    """The machine is full: questions wait for a box, and are told that there will be none."""
    server = start_again(asking, "--boxes", "8", "--pool", "1", "--pool-blank", "0", "--drain", "500ms")
    client = server.client()
    assert wait_until(lambda: fill_machine(client), every=0.2), client.good("GET", "/health")
    waiting = [Waiting(server, {"question": f"w{i} [[code: print(1)]]"}) for i in range(3)]
    tool = use("Bash", command="true")
    waiting += [Waiting(server, {"prompt": f"t{i} {tool}", "options": {"allowed_tools": ["Bash"]}}, "/execute/sdk") for i in range(2)]
    assert wait_until(lambda: len(open_runs(client)) == 5), results_of(client)
    time.sleep(0.5)
    assert len(open_runs(client)) == 5, results_of(client)
    server.stop()
    assert not server.faults(), server.faults()
    for one in waiting:
        one.join(PATIENCE)
        assert one.answer is not None and one.answer.json["error_code"] == "CANCELLED", one.answer
    server.start()
    client.close()
    assert not open_runs(client)
    assert [s["id"] for s in client.good("GET", "/sandbox")["sandboxes"] if not s["id"].startswith("full")] == []
    remove_all(client)


def test_a_stop_while_a_token_is_renewed(asking):
    """By a server that does not answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/oauth/token"
        env = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "stale-1", "ANTHROPIC_REFRESH_TOKEN": "refresh-1"}
        server = start_again(asking, "--drain", "500ms", **env, ANTHROPIC_TOKEN_URL=url, ANTHROPIC_CLIENT_ID="cay")
        waiting = [Waiting(server, {"question": f"q{i} [[code: print(1)]]"}) for i in range(2)]
        waiting.append(Waiting(server, {"prompt": "t [[text: hello]]"}, "/execute/sdk"))
        assert wait_until(lambda: len(open_runs(server.client())) == 3)
        time.sleep(0.3)
        server.stop()
        assert not server.faults(), server.faults()
        for one in waiting:
            one.join(PATIENCE)
            assert one.answer is not None and one.answer.json["error_code"] == "CANCELLED", one.answer
        server.start()


# -- upgrades


def ask_in_box(client, sandbox, word, unix):
    way = "--unix-socket /run/cay/anthropic.sock http://localhost" if unix else "http://anthropic.cay"
    body = f'{{"model":"claude-sonnet-5-5","max_tokens":9,"messages":[{{"role":"user","content":"[[text: {word}]]"}}]}}'
    return client.exec(sandbox, f"curl -sS {way}/v1/messages -H 'anthropic-version: 2023-06-01' --json '{body}'")


def test_an_upgrade(installed, model):  # noqa: F811
    """The daemon is replaced at once: what it worked on is lost, and it is said so. Boxes go on, also those that questions made,
    and those of the program before ask the model by the same ways."""
    server = installed
    if not os.access(NEXT, os.X_OK):
        pytest.fail(f"{NEXT} is not built")
    server = start_again(server, **model.env())
    client = server.client()
    client.good("PUT", "/sandbox/a", {"secrets": ["anthropic"], "budget": {"tokens": 10**9}, "keepAlive": True})
    assert "first" in ask_in_box(client, "a", "first", True) and "first" in ask_in_box(client, "a", "first", False)
    done = client.good("POST", "/execute", {"question": "before [[code: x = 4; print(x)]]"})
    for program in (NEXT, NEXT):
        running = Waiting(server, {"question": f"during {SLEEP}", "cache": False})
        run = id_of(client, "during")
        assert wait_until(lambda: len(client.good("GET", "/sandbox")["sandboxes"]) == 3)
        replace(server, program)
        said = upgrade(server)
        assert said.returncode == 0, (said.stderr, server.log())
        client.close()
        running.join(PATIENCE)
        assert running.answer is None
        answer = client.again("GET", f"/execute/{run}")
        assert answer.status == 410 and answer.json["error_code"] == "RESULT_LOST", answer
        assert client.again("DELETE", f"/execute/{run}").status == 200
        for sandbox in client.good("GET", "/sandbox")["sandboxes"]:
            assert sandbox["status"] == "running", sandbox
            if sandbox["labels"].get("cay.request") == run:
                client.good("DELETE", f"/sandbox/{sandbox['id']}")
        assert client.good("GET", f"/execute/{done['request_id']}") == done
        on = client.good("POST", "/execute", {"question": "on [[code: print(x + 1)]]", "sandboxId": done["sandboxId"], "cache": False})
        assert on["output"] == "5\n", on  # its variables are there
        for unix in (True, False):
            assert "later" in ask_in_box(client, "a", "later", unix)
    total = client.good("GET", "/usage?sandbox=a")["total"]
    assert total["requests"] == 6, total
    spent = client.good("GET", "/sandbox/a")["budget"]["spent"]["tokens"]
    assert spent == total["input_tokens"] + total["output_tokens"]
    remove_all(client)
    settled(server)
    server.stop()
    assert not server.faults(), server.faults()


# -- nothing is left


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) * 1024


def at_once(jobs, n=10):
    """All of them, so many at a time."""
    jobs = iter(jobs)
    lock, failures = threading.Lock(), []

    def work():
        while True:
            with lock:
                job = next(jobs, None)
            if job is None:
                return
            try:
                job()
            except Exception as error:  # pylint: disable=broad-except
                failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE * 4)
    assert not failures, failures[0]


def many(server, share):
    """Questions, talks, cancelled ones, left ones, broken streams; `share` of 200, 50, 50, 50, 50."""
    numbers = iter(range(10**6))

    def answered(path, body):
        client = server.client()
        answer = client.call("POST", path, body)
        assert answer.status == 200 and answer.json["success"], answer
        client.close()

    def question():
        answered("/execute", {"question": f"{next(numbers)} [[code: print(1)]]", "cache": False})

    def talk():
        tool = use("Bash", command="echo 1")
        answered("/execute/sdk", {"prompt": f"{next(numbers)} {tool}", "options": {"allowed_tools": ["Bash"]}})

    def left(stream=False, text=HANG):
        word = f"left{next(numbers)}x{time.monotonic_ns()}"
        waiting = Waiting(server, {"question": f"{word} {text}"}, stream=stream)
        client = server.client()
        run = id_of(client, word)
        waiting.leave()
        client.close()
        return run

    def cancelled():
        client = server.client()
        assert client.call("DELETE", f"/execute/{left(text=SLEEP)}").status == 202
        client.close()

    def left_alone():
        left(text="[[delay: 100]] [[code: print(1)]]")

    def broken():
        left(stream=True, text="[[code: print(1)]] [[slow: 20]] [[break: 6 times=1]]")

    kinds = [question] * 4 + [talk, cancelled, left_alone, broken]
    at_once([kind for kind in kinds for _ in range(int(50 * share))])


def test_nothing_is_left(asking, model):
    server, client = asking, asking.client()
    warm_up(server)
    many(server, 0.2)
    at_rest(server, client)
    before, sizes = held(server, model), []
    for _ in range(COUNT_ROUNDS):
        many(server, 1 if FULL else 0.5)
        at_rest(server, client)
        sizes.append(rss(server.daemon()))
        rest = lambda: leaks.difference(before, held(server, model))
        assert wait_until(lambda: not rest(), 20, 0.1), rest()
        assert kept_connections(server.daemon(), model) <= 64
    # The newest runs are kept in memory, and the allocator keeps some: but it does not go on. (A sanitizer keeps all.)
    with open(f"/proc/{server.daemon()}/maps", encoding="utf-8") as maps:
        if "libasan" not in maps.read():
            assert sizes[-1] - sizes[0] < (16 << 20), sizes


def at_rest(server, client):
    assert wait_until(lambda: not open_runs(client), every=0.1), open_runs(client)
    stats = client.good("GET", "/stats")
    assert stats["questions"]["running"] == 0 if "questions" in stats else True, stats
    remove_all(client)
    settled(server)


# -- a disk that is full


@pytest.fixture
def small(asking):
    yield from on_little_room(asking)


def on_little_room(asking):
    """The database lies where there is little room."""
    asking.stop()
    place = str(asking.data / "daemon")
    keep = str(asking.data / "daemon.kept")
    os.rename(place, keep)
    os.mkdir(place)
    held = os.stat(keep)
    options = f"size=24m,mode=0{held.st_mode & 0o777:o},uid={held.st_uid},gid={held.st_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    try:
        subprocess.run(["cp", "-a", f"{keep}/.", place], check=True)
        yield asking.start()
        asking.stop()
    finally:
        asking.stop()
        subprocess.run(["umount", place], check=True)


def fill(server):
    """All of it but a little."""
    path = server.data / "daemon" / "filler"
    with open(path, "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            pass
    return path


def test_a_full_disk(small):
    """What cannot be stored is not answered, and says so; nothing stays "running"."""
    server, client = small, small.client()
    fine = client.good("POST", "/execute", {"question": "fine [[code: print(1)]]"})
    waiting = Waiting(server, {"question": "large [[code: import time; time.sleep(2); print('x' * 1500000)]]", "cache": False})
    stream = Waiting(server, {"question": "stream [[code: import time; time.sleep(2); print('y' * 1500000)]]", "cache": False}, stream=True)
    runs = {word: id_of(client, word) for word in ("large", "stream")}
    filler = fill(server)
    for one in (waiting, stream):
        one.join(PATIENCE)
    assert waiting.answer.status == 507 and waiting.answer.json["error_code"] == "NO_SPACE", waiting.answer
    assert stream.events[-1][1] == "done" and '"NO_SPACE"' in stream.events[-1][2][:1000], stream.events[-1]
    refused = client.call("POST", "/execute", {"question": "more [[code: print(2)]]", "cache": False})
    assert refused.status in (200, 503, 507), refused
    for run in runs.values():
        answer = client.again("GET", f"/execute/{run}")
        assert answer.status == 507, answer
    assert not open_runs(client), open_runs(client)
    assert client.good("GET", f"/execute/{fine['request_id']}") == fine
    filler.unlink()
    assert client.good("POST", "/execute", {"question": "after [[code: print(3)]]"})["output"] == "3\n"
    server.wait_for_another(server.kill_daemon())
    for run in runs.values():
        answer = client.again("GET", f"/execute/{run}")
        assert (answer.status, answer.json["error_code"]) in ((507, "NO_SPACE"), (410, "RESULT_LOST")), answer
    assert client.good("GET", f"/execute/{fine['request_id']}") == fine
    remove_all(client)
