# SPDX-License-Identifier: Apache-2.0
"""Clients that ask a model, or have a sandbox ask it, while the daemon is killed. The model is a stand-in (tests/standin),
which remembers what it was asked and what it said that it cost: so answers, rows and sums can be compared with it."""

import contextlib
import base64
import http.client
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
import urllib.parse

import leaks
from crash_helpers import PATIENCE, Broken, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "standin"))
from standin_helper import StandIn  # noqa: E402  pylint: disable=wrong-import-position,unused-import

USAGE = re.compile(r"([a-z]+\d*-\d+-\d+)\. \[\[usage: in=(\d+) out=(\d+)\]\]")
numbers = itertools.count(1)

# In a box: asks so often, by TCP or by the socket, and says which answers it got whole: id of the request, and tokens.
ASK = r"""
import http.client, json, socket, sys
way, text, times, stream = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "stream"
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect("/run/cay/anthropic.sock")
ask = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": [{"role": "user", "content": text}], "stream": stream}
for _ in range(times):
    c = Unix("localhost") if way == "unix" else http.client.HTTPConnection("anthropic.cay", timeout=60)
    try:
        c.request("POST", "/v1/messages", json.dumps(ask), {"Content-Type": "application/json", "anthropic-version": "2023-06-01"})
        a = c.getresponse()
        body = a.read().decode()
        whole = '"message_stop"' in body if stream else json.loads(body)["type"] == "message"
        if a.status == 200 and whole:
            with open("/workspace/got", "a") as f:
                f.write(a.headers["request-id"] + "\n")
    except (OSError, ValueError, http.client.HTTPException):
        pass
    c.close()
"""


def use(name, **values):
    """The marker that makes the model use a tool."""
    return f"[[tool-b64: {base64.b64encode(f'{name} {json.dumps(values)}'.encode()).decode()}]]"


def read_events(response, found):
    """Events as they come, into `found`: (id, name, data)."""
    event = {}
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            event[name] = event.get(name, "") + value
        elif event:
            found.append((event.get("id"), event.get("event"), event.get("data", "")))
            event = {}


class Asked:
    """One thing that was asked, and what is known of it."""

    def __init__(self, path, word, body):
        self.path, self.word, self.body = path, word, body
        self.answer = None  # the whole of it, if it came
        self.events = []
        self.key = None
        self.may_be_removed = False


class Runner(threading.Thread):
    """Asks one thing after the other, and writes down what came of it."""

    def __init__(self, server, name, seed):
        super().__init__(daemon=True)
        self.server, self.name, self.chance = server, name, random.Random(seed)
        self.client = server.client()
        self.asked = []
        self.over, self.failure, self.done = threading.Event(), None, 0
        self.box = f"box-{name}"

    def run(self):
        try:
            made = self.client.again("PUT", f"/sandbox/{self.box}", {"budget": {"tokens": 10**9}, "sleepAfter": "1h"})
            assert made.status in (200, 201), made
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
        kinds = [self.wait] * 5 + [self.send_again] * 3 + [self.stream] * 4 + [self.leave] * 2 + [self.cancel]
        self.chance.choice(kinds)(self.new())

    # -- what is asked

    def new(self):
        word = f"{self.name}-{os.getpid()}-{next(numbers)}"
        slow = self.chance.choice(["", "", "[[slow: 5]]", "[[delay: 40]]"])
        make = self.chance.choice([self.question, self.question, self.step_in_box, self.talk, self.talk_with_tool])
        asked = make(word, f"{word}. {self.usage()} {slow}")
        self.asked.append(asked)
        return asked

    def usage(self):
        return f"[[usage: in={self.chance.randrange(1, 900)} out={self.chance.randrange(1, 90)}]]"

    def question(self, word, text):
        wait = self.chance.choice(["", "import time; time.sleep(0.05)\n"])
        code = self.chance.choice([f"{wait}print('{word}')", "1 / 0", f"{wait}print('x' * 30000)"])
        return Asked("/execute", word, {"question": f"{text} [[code: {code}]]"})

    def step_in_box(self, word, text):
        asked = self.question(word, text)
        asked.body["sandboxId"] = self.box
        return asked

    def talk(self, word, text):
        return Asked("/execute/sdk", word, {"prompt": f"{text} [[text: {word}]]"})

    def talk_with_tool(self, word, text):
        options = {"allowed_tools": ["Bash", "RunCode"]}
        if self.chance.random() < 0.5:
            options["sandbox_id"] = self.box
        tool = self.chance.choice([use("Bash", command=f"echo {word}"), use("RunCode", code=f"print('{word}')")])
        return Asked("/execute/sdk", word, {"prompt": f"{text} {tool}", "options": options})

    # -- how

    def wait(self, asked):
        try:
            asked.answer = self.client.call("POST", asked.path, asked.body)
        except Broken:
            return
        assert asked.answer.status == 200, (asked.body, asked.answer)
        made = asked.answer.json.get("sandboxId")
        if made is not None and made != self.box and self.chance.random() < 0.7:
            assert self.client.again("DELETE", f"/sandbox/{made}").status in (200, 404)

    def send_again(self, asked):
        """Until it is answered: asked once, or it is said that nobody knows."""
        asked.key = f"key-{asked.word}"
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.client.again("POST", asked.path, asked.body, Idempotency_Key=asked.key)
            running = answer.status == 409 and answer.json["error_code"] == "REQUEST_IN_PROGRESS"
            if not running or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        if answer.status == 200:
            asked.answer = answer
        else:
            assert answer.status == 409 and answer.json["error_code"] == "OUTCOME_UNKNOWN", answer

    def stream(self, asked):
        client = self.server.client()
        try:
            response = client.begin("POST", asked.path, asked.body, Accept="text/event-stream")
            assert response.status == 200, response.read()
            read_events(response, asked.events)
        except (Broken, OSError, http.client.HTTPException):
            pass
        client.close()
        if asked.events and asked.events[-1][1] != "done":
            self.resume(asked)

    def resume(self, asked):
        """A stream that was cut off: it goes on, or it is said why it cannot."""
        last = asked.events[-1][0]
        run = last.partition(":")[0]
        how = self.chance.choice([("GET", f"/execute/{run}", None), ("POST", asked.path, asked.body)])
        answer = self.client.again(*how, Accept="text/event-stream", Last_Event_ID=last)
        if answer.status == 200:
            rest = []
            read_events(iter(answer.raw.splitlines(keepends=True)), rest)
            assert rest and rest[-1][1] == "done", (how, last, answer)
            asked.events += rest
        else:
            assert answer.status == 410 and answer.json["error_code"] == "RESULT_LOST", (how, last, answer)

    def leave(self, asked):
        client = self.server.client()
        try:
            client.connect()
            headers = {"Authorization": f"Bearer {self.server.token}"}
            client.connection.request("POST", asked.path, json.dumps(asked.body), headers)
            time.sleep(self.chance.random() * 0.1)
        except OSError:
            pass
        client.close()

    def cancel(self, asked):
        self.leave(asked)
        for row in self.client.again("GET", "/execute?limit=20").json["results"]:
            if asked.word in row["question"]:
                asked.may_be_removed = True
                assert self.client.again("DELETE", f"/execute/{row['request_id']}").status in (200, 202, 404)


class BoxRunner(Runner):
    """A sandbox that asks the model itself, all the time; the daemon's end breaks some of it off."""

    def run(self):
        try:
            settings = {"secrets": ["anthropic"], "budget": {"tokens": 10**9}, "keepAlive": True}
            assert self.client.again("PUT", f"/sandbox/{self.box}", settings).status in (200, 201)
            script = self.client.again("PUT", f"/sandbox/{self.box}/files/workspace/ask.py", ASK.encode())
            assert script.status in (200, 201), script
            while not self.over.is_set():
                self.step()
                self.done += 1
        except Exception:  # pylint: disable=broad-except
            self.failure = traceback.format_exc()

    def step(self):
        word = f"{self.name}-{os.getpid()}-{next(numbers)}"
        slow = self.chance.choice(["", "[[slow: 5]]"])
        text = f"{word}. {self.usage()} [[text: hello]] {slow}"
        argv = ["python3", "ask.py", self.chance.choice(["unix", "tcp"]), text, "5", self.chance.choice(["stream", "whole"])]
        try:
            self.client.call("POST", f"/sandbox/{self.box}/exec", {"argv": argv, "timeout": 60000})
        except Broken:
            pass

    def got(self):
        """Ids of the requests that were answered. What still runs in the box ends first."""
        running = "while pgrep -f '[a]sk.py' >/dev/null; do sleep 0.05; done; cat /workspace/got 2>/dev/null; true"
        answer = self.client.again("POST", f"/sandbox/{self.box}/exec", {"command": running, "timeout": 60000})
        assert answer.status == 200 and answer.json["success"], answer
        return answer.json["stdout"].split()


# -- whether it is all true


def kept_connections(pid, model):
    """How many the daemon has to the model: it keeps some for the next call."""
    port = f":{int(model.url.rpartition(':')[2]):04X}"
    lines = pathlib.Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()[1:]
    inodes = {words[9] for words in map(str.split, lines) if words[2].endswith(port)}
    found = []
    for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found.append(os.readlink(path))
    return len([name for name in found if name.startswith("socket:") and name[8:-1] in inodes])


def held(server, model):
    """As leaks.held, without those."""
    found = leaks.held(server)
    for _ in range(kept_connections(server.daemon(), model)):
        found["descriptors of the daemon"].remove("socket")
    return found


def spent_rows(server):
    """By request: (calls, input, output), as the rows of single calls tell it."""
    with sqlite3.connect(f"file:{server.data}/daemon/cay.db?mode=ro", uri=True) as db:
        sql = "SELECT request, count(*), sum(input), sum(output) FROM spend GROUP BY request"
        found = {request: tuple(rest) for request, *rest in db.execute(sql)}
    db.close()
    return found


def results_of(client):
    """All rows of the list, by id."""
    found, before = {}, ""
    while True:
        page = client.again("GET", f"/execute?limit=500{before}").json
        found |= {row["request_id"]: row for row in page["results"]}
        if page["next"] is None:
            return found
        before = "&" + urllib.parse.urlencode({"before": page["next"]})


class Ledger:
    """What the stand-in was asked and had told, against what the server says."""

    def __init__(self, server, model, runners=()):
        self.client = server.client()
        assert wait_until(lambda: not self.open_runs()), self.open_runs()
        # What still asks in a box, although whoever started it was cut off, comes to its end before the books are opened.
        self.got = {runner.name: runner.got() for runner in runners if isinstance(runner, BoxRunner)}
        self.results = results_of(self.client)
        self.spent = spent_rows(server)
        self.told = {}  # by a word of the text: (usage of a call, how many there were, how many came to their end)
        self.by_id = {}
        for request in model.requests():
            found = USAGE.findall(json.dumps(request["body"]).replace("\\n", " "))
            if request["path"] != "/v1/messages" or not found:
                continue
            word, tokens_in, tokens_out = found[-1]  # those before were asked before, in the same sandbox
            usage = (int(tokens_in), int(tokens_out))
            self.by_id[request["id"]] = usage
            _, calls, whole = self.told.get(word, (usage, 0, 0))
            self.told[word] = (usage, calls + 1, whole + (request["state"] == "done"))

    def open_runs(self):
        return [row for row in results_of(self.client).values() if row["state"] == "running"]

    def check(self, runners):
        for runner in runners:
            for asked in runner.asked:
                self.check_asked(asked)
            self.check_box(runner)
            runner.client.close()
        self.check_sums()
        self.client.close()

    def rows_of(self, asked):
        return [row for row in self.results.values() if row["question"].startswith(f"{asked.word}.")]

    def check_asked(self, asked):
        rows = self.rows_of(asked)
        assert len(rows) <= 1, f"asked once, run {len(rows)} times: {rows}"
        if asked.answer is not None:
            self.check_stored(asked.answer.json["request_id"], asked.answer.raw.rstrip(b"\n"))
        if asked.events and asked.events[-1][1] == "done":
            self.check_stored(asked.events[0][0].partition(":")[0], asked.events[-1][2].encode())
        if rows:
            self.check_row(asked, rows[0])

    def check_stored(self, run, body):
        answer = self.client.again("GET", f"/execute/{run}")
        assert answer.raw.rstrip(b"\n") == body, (run, body, answer)

    def check_row(self, asked, row):
        run = row["request_id"]
        assert row["state"] in ("done", "lost"), row
        answer = self.client.again("GET", f"/execute/{run}")
        if row["state"] == "lost":
            assert answer.status == 410 and answer.json["error_code"] == "RESULT_LOST", answer
            assert asked.answer is None and not (asked.events and asked.events[-1][1] == "done"), row
        else:
            assert answer.status == 200 and answer.json["request_id"] == run, answer
        self.check_spent(asked, row)

    def check_spent(self, asked, row):
        usage, most, least = self.told.get(asked.word, ((0, 0), 0, 0))
        calls, *tokens = self.spent.get(row["request_id"], (0, 0, 0))
        assert calls <= most, (row, calls, most)
        if row["state"] == "done" and row["error_code"] != "CANCELLED":
            # A call whose daemon has died meanwhile may not have come to its end for the stand-in.
            assert calls >= least, (row, calls, least)
            assert tokens == [calls * usage[0], calls * usage[1]], (row, calls, usage)
            assert [row["input_tokens"], row["output_tokens"]] == tokens, row

    def check_box(self, runner):
        shown = self.client.again("GET", f"/sandbox/{runner.box}").json
        total = self.client.again("GET", f"/usage?by=source&sandbox={runner.box}").json["total"]
        assert shown["budget"]["spent"]["tokens"] == total["input_tokens"] + total["output_tokens"], (shown, total)
        got = self.got.get(runner.name, [])
        assert len(got) == len(set(got)), got
        for request in got:
            assert self.spent.get(request) == (1, *self.by_id[request]), (request, self.spent.get(request))

    def check_sums(self):
        """Sums of hours, and of single calls, are the same."""
        total = self.client.again("GET", "/usage?by=source").json["total"]
        rows = self.spent.values()
        wanted = tuple(sum(row[i] for row in rows) for i in range(3))
        assert (total["requests"], total["input_tokens"], total["output_tokens"]) == wanted, (total, wanted)


def remove_all(client):
    """All sandboxes. What a question made goes by itself one day."""
    while found := client.again("GET", "/sandbox").json["sandboxes"]:
        for sandbox in found:
            if "cay.request" in sandbox["labels"]:
                assert sandbox["destroyAfter"] == 3600, sandbox
            assert client.again("DELETE", f"/sandbox/{sandbox['id']}").status in (200, 404)
