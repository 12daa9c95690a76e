# SPDX-License-Identifier: Apache-2.0
"""Tasks at known places, and many of them at any place, while the server is killed. Their agent is a shell: what it does is
what its task says. Each asks the model with words of its own, so that the stand-in knows how often it was at work."""

import contextlib
import itertools
import json
import os
import pathlib
import random
import re
import sqlite3
import sys
import threading
import time
import traceback

import leaks
from crash_helpers import PATIENCE, Broken, wait_until
from runs import held, read_events, results_of

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "api"), str(TESTS / "agents")]
import git_server  # noqa: E402  pylint: disable=wrong-import-position
from agents_helpers import IMAGE, IMAGE_DATA, give_image  # noqa: E402, F401  pylint: disable=wrong-import-position,unused-import
from task_helpers import AGENTS, OK  # noqa: E402  pylint: disable=wrong-import-position

numbers = itertools.count(1)
RUN = re.compile(r"run=[-0-9a-f]{36}\.")
SAY = """echo '{"type": "say", "text": "it begins"}'\n"""
OURS = {
    "asking": AGENTS["shell"].replace("components claude", "components claude\nneeds   model\nmemory  128m"),
    # Begins to read late, and tells how much it was given.
    "late": "program /bin/sh\narg -c\nword sleep 1; cat >got; wc -c <got; tail -c 5 got\ninput {task}\noutput text\n",
    "nap": AGENTS["shell"],  # one that a server may not have any more
}


def write_agents(folder):
    os.makedirs(folder, mode=0o755)
    for name, text in {**AGENTS, **OURS}.items():
        (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
    return str(folder)


def ask(word):
    """Asks the model, again where that broke, and writes down that it did. Each run has a name of its own."""
    says = f"{word}. run=$run. [[usage: in=7 out=3]] [[text: hi]]"
    body = f'{{"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": [{{"role": "user", "content": "{says}"}}]}}'.replace('"', '\\"')
    curl = "curl -sSf -o /dev/null --max-time 30 --unix-socket /run/cay/anthropic.sock http://localhost/v1/messages"
    return (
        "read -r run </proc/sys/kernel/random/uuid; n=0\n"
        f"""until {curl} -H 'anthropic-version: 2023-06-01' --json "{body}" || [ $n = 100 ]; do n=$((n+1)); sleep 0.05; done\n"""
        f"echo {word} >>asked\n"
    )


def runs_of(model, word):
    """(by how many runs it was asked, how often, how often to the end)."""
    asked = [r for r in model.requests(f"{word}.") if r["path"] == "/v1/messages"]
    return len({RUN.search(json.dumps(r["body"])).group() for r in asked}), len(asked), len([r for r in asked if r["state"] == "done"])


class Gate(git_server.Handler):
    """Answers when the gate is open."""

    def answer(self):
        self.server.waiting.release()
        self.server.gate.wait(PATIENCE)
        with contextlib.suppress(OSError):
            super().answer()

    do_GET = do_POST = answer


class Remote(git_server.GitServer):
    """A git server that hangs while its gate is shut."""

    def __init__(self, root):
        super().__init__(root)
        self.http.RequestHandlerClass = Gate
        self.http.gate, self.http.waiting = threading.Event(), threading.Semaphore(0)
        self.http.gate.set()
        self.repo("open/hello.git", {"README.md": "hello\n"})

    @property
    def hello(self):
        return f"{self.url}/open/hello.git"

    def shut(self):
        while self.http.waiting.acquire(blocking=False):
            pass
        self.http.gate.clear()

    def open(self):
        self.http.gate.set()

    def wait_for(self, n):
        """Until so many hang here."""
        for _ in range(n):
            assert self.http.waiting.acquire(timeout=PATIENCE)


class Begun:
    """A task that was begun with a stream, which is read beside us."""

    def __init__(self, server, script, agent="shell", repo=None, key=None, **options):
        self.server, self.client = server, server.client()
        self.body = {"task": script, "options": {"agent": agent, **options}}
        if repo is not None:
            self.body["repo"] = repo
        self.headers = {"Idempotency_Key": key} if key is not None else {}
        self.events, self.status, self.other = [], None, None
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        assert wait_until(lambda: self.events or self.status not in (None, 200)), self.status

    def read(self):
        with contextlib.suppress(Broken, OSError, ValueError):
            response = self.client.begin("POST", "/execute", self.body, Accept="text/event-stream", **self.headers)
            self.status = response.status
            read_events(response, self.events)

    @property
    def id(self):
        return self.events[0][0].partition(":")[0]

    def has(self, name):
        return [e for e in self.events if e[1] == name]

    def until(self, name):
        assert wait_until(lambda: self.has(name) or not self.thread.is_alive()), self.events
        assert self.has(name), self.events
        return self

    def box(self):
        """Its sandbox, from what the server lists."""
        for sandbox in self.client_now().again("GET", "/sandbox").json["sandboxes"]:
            if sandbox["labels"].get("cay.request") == self.id:
                return sandbox["id"]
        return None

    def client_now(self):
        """Another one: that of the stream is at work."""
        if self.other is None:
            self.other = self.server.client()
        return self.other

    def close(self):
        self.leave()
        self.client.close()
        if self.other is not None:
            self.other.close()

    def answer(self):
        """Once it has one: the whole answer."""
        found = wait_until(self.look, every=0.05)
        assert found, (self.id, self.server.log())
        return found

    def look(self):
        answer = self.client_now().again("GET", f"/execute/{self.id}")
        return answer if answer.status != 202 else None

    def good(self):
        answer = self.answer()
        assert answer.status == 200 and answer.json["success"], answer
        self.close()
        return answer.json

    def bad(self, *codes):
        answer = self.answer()
        assert answer.json["error_code"] in codes and not answer.json.get("success"), (codes, answer)
        self.close()
        return answer.json

    def cancel(self):
        return self.client_now().again("DELETE", f"/execute/{self.id}")

    def again(self):
        """The same request, with its key, as one that waits."""
        return self.client_now().again("POST", "/execute", self.body, Accept="text/event-stream", **self.headers)

    def leave(self):
        if self.client.connection is not None and self.client.connection.sock is not None:
            with contextlib.suppress(OSError):
                self.client.connection.sock.shutdown(2)
        self.thread.join(PATIENCE)


def last_event(answer):
    found = []
    read_events(iter(answer.raw.splitlines(keepends=True)), found)
    return found[-1]


# -- many of them


class Tasker(threading.Thread):
    """One task after the other, of any kind, until it is told to end. A server that is killed meanwhile is no excuse."""

    def __init__(self, server, remote, name, seed):
        super().__init__(daemon=True)
        self.server, self.remote, self.name, self.chance = server, remote, name, random.Random(seed)
        self.client = server.client()
        self.box = f"own-{name}"
        self.over, self.failure, self.done = threading.Event(), None, 0
        self.tasks = []  # (word, id or None, what was done to it)

    def run(self):
        try:
            settings = {"secrets": ["anthropic"], "budget": {"tokens": 10**9}, "keepAlive": True, "network": {"allow": [f"{git_server.HOST}:*"]}}
            assert self.client.again("PUT", f"/sandbox/{self.box}", settings).status in (200, 201)
            while not self.over.is_set():
                self.step()
                self.done += 1
        except Exception:  # pylint: disable=broad-except
            self.failure = traceback.format_exc()

    def end(self):
        self.over.set()
        self.join(PATIENCE * 3)
        assert not self.is_alive(), f"{self.name} hangs"
        assert self.failure is None, self.failure
        self.client.close()

    def step(self):
        word = f"{self.name}-{os.getpid()}-{next(numbers)}"
        body, kind = self.body(word)
        how = self.chance.choice([self.send_again, self.send_again, self.leave, self.leave, self.cancel])
        request, was = how(body, word)
        self.tasks.append((word, request, kind, was))
        if request is not None and was != "cancelled":
            self.check(word, request, kind)

    def body(self, word):
        nap = self.chance.choice(["", "sleep 0.2\n", "sleep 0.6\n"])
        options, body = {"agent": "asking"}, {}
        kind = self.chance.choice(["fresh", "fresh", "repo", "repo", "own", "components"])
        if kind == "repo":
            body["repo"] = self.remote.hello
        elif kind == "own":
            options["sandbox_id"] = self.box
        elif kind == "components":
            options["components"] = {"agents": [{"name": "a", "content": "a\n" * 100}]}
        script = f"{nap}echo {word} >>{word}\n{ask(word)}{nap}{OK}"
        return {"task": script, "options": options, **body}, kind

    # -- how

    def find(self, word):
        for row in self.client.again("GET", "/execute?limit=100&kind=task").json["results"]:
            if f"echo {word} " in row["question"]:
                return row["request_id"]
        return None

    def send_again(self, body, word):
        """Until it is answered."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.client.again("POST", "/execute", body, Idempotency_Key=f"key-{word}")
            running = answer.status == 409 and answer.json["error_code"] == "REQUEST_IN_PROGRESS"
            if not running or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        if answer.status == 409:  # killed between the key and the task's row: nothing, or a task that goes on
            assert answer.json["error_code"] == "OUTCOME_UNKNOWN", answer
            return self.find(word), "unknown"
        assert answer.status in (200, 410), answer
        return answer.json.get("request_id") or self.find(word), "answered"

    def leave(self, body, word):
        client = self.server.client()
        with contextlib.suppress(OSError, Broken):
            client.connect()
            headers = {"Authorization": f"Bearer {self.server.token}"}
            client.connection.request("POST", "/execute", json.dumps(body), headers)
            time.sleep(self.chance.random() * 0.3)
        client.close()
        return self.find(word), "left"

    def cancel(self, body, word):
        request, _ = self.leave(body, word)
        if request is not None:
            time.sleep(self.chance.random() * 0.5)
            assert self.client.again("DELETE", f"/execute/{request}").status in (200, 202, 404)
        return request, "cancelled"

    # -- what came of it

    def answer(self, request):
        found = wait_until(lambda: (a := self.client.again("GET", f"/execute/{request}")).status != 202 and a, every=0.05)
        assert found, request
        return found

    def check(self, word, request, kind):
        answer = self.answer(request)
        if answer.status == 410:
            assert kind == "own", (kind, answer)
            return
        done = answer.json
        assert answer.status == 200 and done["success"], (kind, answer)
        wanted = {word, "asked"} if kind != "own" else {word}
        assert wanted <= {f["path"] for f in done["files"]}, (kind, done)
        assert done["diff"].count(f"+{word}\n") == 2, (kind, done)  # by itself, and that it asked


def rows_of_tasks(server):
    with contextlib.closing(sqlite3.connect(f"file:{server.data}/daemon/cay.db?mode=ro", uri=True)) as db:
        return db.execute("SELECT id, state, asked IS NOT NULL, work IS NOT NULL FROM results WHERE kind = 'task'").fetchall()


def spent_of(server):
    """By request: calls and tokens, as rows of single calls tell it."""
    with contextlib.closing(sqlite3.connect(f"file:{server.data}/daemon/cay.db?mode=ro", uri=True)) as db:
        sql = "SELECT request, count(*), sum(input), sum(output) FROM spend GROUP BY request"
        return {request: tuple(rest) for request, *rest in db.execute(sql)}


def own_secrets(server):
    """How many belong to a sandbox."""
    with contextlib.closing(sqlite3.connect(f"file:{server.data}/daemon/cay.db?mode=ro", uri=True)) as db:
        return db.execute("SELECT count(*) FROM secrets WHERE name LIKE '@%'").fetchone()[0]


def check_all(server, model, taskers):
    """No task was run twice, each that is not lost has an answer, and what it cost is what it asked."""
    client = server.client()
    results = results_of(client)
    spent = spent_of(server)
    for tasker in taskers:
        for word, request, kind, was in tasker.tasks:
            runs, asked, _ = runs_of(model, word)
            assert runs <= 1, (word, kind, was, runs)
            rows = [row for row in results.values() if f"echo {word} " in row["question"]]
            assert len(rows) <= 1, rows
            if request is None or not rows:
                continue
            assert rows[0]["state"] in ("done", "lost"), rows
            calls, tokens_in, tokens_out = spent.get(request, (0, 0, 0))
            assert calls <= asked and (tokens_in, tokens_out) == (7 * calls, 3 * calls), (word, calls, asked)
            if rows[0]["state"] == "done" and rows[0]["success"]:
                told = (rows[0]["input_tokens"], rows[0]["output_tokens"])
                assert told == (tokens_in, tokens_out), (kind, was, told, tokens_in, calls, asked, rows)
    client.close()


def nothing_of_tasks(server):
    """Nothing that a next server would go on with."""
    return not [row for row in rows_of_tasks(server) if row[1] == 1 or row[2] or row[3]]


def difference(server, model, before):
    return leaks.difference(before, held(server, model))
