# SPDX-License-Identifier: Apache-2.0
"""Questions against a model that is hostile, code that is, and clients that are. Nothing of it may stall or fill the daemon,
reach another tenant, or tell the key."""

import itertools
import json
import os
import pathlib
import re
import subprocess
import threading
import time

import pytest
from attack_helpers import CAY, PATIENCE, Client, Server, at_once, at_rest, daemon_pid, eventually, memory, raw_connect, restarts
from api_helpers import kill_daemon
from hostile_model import (KEY, PLAIN, STREAM, HostileModel, close_block, delta, end, event, open_block, piece, says, start,
                           status)

MB = 1 << 20
# Freed memory is used again soon, so that the daemon's size says something.
ASAN = {"ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=4"}
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def upstream():
    return HostileModel()


@pytest.fixture(scope="module")
def asked(top, upstream):
    """A server that asks the hostile model. Nothing here ends its daemon, or makes it find a fault in itself."""
    os.mkdir(f"{top}/asked")
    server = Server(f"{top}/asked", env={**upstream.env(), **ASAN})
    client = Client(server)
    server.killed = 0
    yield client
    seen = restarts(client)
    assert server.stop() == 0
    assert server.faults() == []
    assert seen == server.killed, server.log()[-4000:]
    assert KEY not in server.log()


def tenant_of(admin, **more):
    made = admin.ok("POST", "/tokens", {"name": f"asker-{next(numbers)}", **more})
    client = Client(admin.server, made["token"])
    client.id, client.name = made["id"], made["tenant"]
    return client


class Question:
    """A question that nobody has asked before, and what the hostile model answers to it."""

    def __init__(self, upstream, answer=None):
        self.name = f"q{os.getpid()}-{next(numbers)}."
        self.text = f"Do something <<{self.name}>>" if answer is not None else f"Do something {self.name}"
        self.upstream = upstream
        if answer is not None:
            upstream.answers[self.name] = answer

    def ask(self, client, **more):
        return client("POST", "/execute", {"question": self.text, **more})

    def stream(self, client, **more):
        return client.stream("POST", "/execute", {"question": self.text, **more})

    def sent(self):
        return self.upstream.asked(self.name)


@pytest.fixture
def question(upstream):
    return lambda answer=None: Question(upstream, answer)


class Pulse:
    """Asks for the daemon's health all the while: how long it took at worst, and the most memory that the daemon had."""

    def __init__(self, client):
        self.client, self.worst, self.stop = client, 0, False
        self.pid = daemon_pid(client.server)
        self.thread = threading.Thread(target=self.beat)

    def beat(self):
        while not self.stop:
            at = time.monotonic()
            try:
                assert self.client("GET", "/health").status == 200
            except OSError:
                pass  # it took too long, then
            self.worst = max(self.worst, time.monotonic() - at)
            time.sleep(0.05)

    @property
    def peak(self):
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", text)[1])

    def __enter__(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # the peak begins anew
        self.before = memory(self.pid)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop = True
        self.thread.join(PATIENCE * 2)
        self.grown = self.peak - self.before


def boxes_of(client):
    return {box["id"] for box in client.ok("GET", "/sandbox?limit=1000")["sandboxes"]}


def results_of(client):
    """All of a tenant."""
    found, before = [], ""
    while True:
        reply = client.ok("GET", f"/execute?limit=500{before}")
        found += reply["results"]
        if reply["next"] is None:
            return found
        before = f"&before={reply['next']}"


def running(client):
    return [r["request_id"] for r in results_of(client) if r["state"] == "running"]


# -- a hostile model: what is no message


def forever(*parts):
    def answer(_connection):
        yield STREAM
        yield start()
        while True:
            yield from parts

    return answer


def endless_body(line):
    def answer(_connection):
        yield f"HTTP/1.1 {line}\r\nContent-Type: application/json\r\n\r\n".encode()
        while True:
            yield b"[" * 65536

    return answer


def interim_flood(_connection):
    while True:
        yield b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 64


def thinking_forever(_connection):
    yield STREAM + start() + open_block(type="thinking", thinking="")
    while True:
        yield piece(type="thinking_delta", thinking="a" * 16000)


def large_body(_connection):
    yield PLAIN + b'{"type": "message", "content": "'
    for _ in range(100):
        yield b"a" * MB
    yield b'"}'


def odd_index(index):
    return STREAM + start() + event({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}})


def raw_piece(text):
    return STREAM + start() + open_block() + event(
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}' % text)


NO_MESSAGE = {
    "one endless line": forever(b"a" * 65536),
    "an endless event": forever(b"data: " + b"a" * 65536 + b"\n"),
    "endless comments": forever(b": nothing\n" * 5000),
    "endless events": forever(event({"type": "new", "x": "y" * 5000}) * 10),
    "endless thinking": thinking_forever,
    "a large plain body": large_body,
    "an endless plain body": endless_body("200 OK"),
    "an endless error": endless_body("400 Bad Request"),
    "an endless failure": endless_body("500 Internal Server Error"),
    "deep JSON": STREAM + event(b'{"type":"ping","x":' + b"[" * MB),
    "deep plain JSON": PLAIN + b"[" * MB,
    "deep closed JSON": STREAM + event(b'{"type":"ping","x":' + b"[" * MB + b"]" * MB + b"}"),
    "interim answers": interim_flood,
    "a huge head": b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * (2 * MB) + b"\r\n\r\n",
    "many heads": b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 200000 + b"\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "a bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\nffffffffffffffffff\r\na",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nabc",
    "no HTTP": b"\x00\x01\x02\x03 hello\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\nxyz",
    "an odd status": b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
    "a redirect to a file": status("302 Found", b"", "Location: file:///etc/passwd"),
    "a redirect to metadata": status("307 Temporary Redirect", b"", "Location: http://169.254.169.254/latest/meta-data/"),
    "compressed": status("200 OK", b"\x1f\x8b\x08" + b"\x00" * 1000, "Content-Encoding: gzip"),
    "a negative index": odd_index(-1),
    "a huge index": odd_index(2**63),
    "an index beyond": odd_index(7),
    "a block twice": STREAM + start() + open_block() + open_block(),
    "a block of no kind": STREAM + start() + event({"type": "content_block_start", "index": 0, "content_block": [1]}),
    "a piece of no block": STREAM + start() + delta("a", 3),
    "a piece of an ended block": STREAM + start() + open_block() + close_block() + delta("a"),
    "a piece of a wrong kind": STREAM + start() + open_block() + piece(type="text_delta", text={"a": 1}) + close_block() + end(),
    "two messages": STREAM + start() + start(),
    "no message": STREAM + event({"type": "message_stop"}),
    "a message that is a list": STREAM + event({"type": "message_start", "message": []}),
    "bytes that are no text": raw_piece(b"\xff\xfe"),
    "half a character": raw_piece(rb"\ud800"),
    "a NUL": STREAM + start() + b'data: {"type":"ping",\x00}\n\n',
}


def test_answers_that_are_none(asked, question):
    """All of them at once: each is an error of the API's, nobody else waits for them, and they have no memory to fill."""
    questions = {name: question(answer) for name, answer in NO_MESSAGE.items()}
    with Pulse(asked) as pulse:
        replies = dict(zip(questions, at_once(*[lambda q=q: q.ask(asked) for q in questions.values()])))
    for name, reply in replies.items():
        expected = (400, "INVALID_REQUEST") if name == "an endless error" else (502, "API_ERROR")
        assert (reply.status, reply.json.get("error_code")) == expected, (name, reply)
    assert pulse.worst < 10, pulse.worst
    assert pulse.grown < 1024 * MB, pulse.grown / MB
    eventually(lambda: boxes_of(asked) == set())


def test_text_without_end_is_not_waited_for(asked, question):
    q = question(lambda _: itertools.chain([STREAM, start(), open_block()], itertools.repeat(delta("# a\n" * 4000))))
    answer = q.ask(asked).json
    assert answer["success"] is False and answer["error_code"] == "MAX_TOKENS" and answer["sandboxId"] is None
    eventually(lambda: boxes_of(asked) == set())


# -- a hostile model: what it says of itself


def test_names_of_any_length(asked, question):
    """Names are stored for long: what cannot be one is not taken."""
    client = tenant_of(asked)
    names = ["m" * 10000, "m" * MB, "a\nb", "../../etc", "a'; DROP TABLE spend; --", "\u202eabc", "ü" * 100, ""]
    for name in names:
        reply = question(says("print(2)\n", model=name, id="i" * MB)).ask(client)
        assert reply.status == 200 and reply.json["output"] == "2\n" and reply.json["model"] == "claude-sonnet-5-5"
    used = client.ok("GET", "/usage?by=model")["usage"]
    assert {row["key"] for row in used} == {"claude-sonnet-5-5"} and used[0]["requests"] == len(names), str(used)[:2000]
    big = question(STREAM + start() + open_block() + delta("print(3)\n") + close_block() + end("s" * MB))
    assert big.ask(client).status == 200


HUGE = 2**63 - 1
COUNTS = ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]


@pytest.mark.parametrize("n", [HUGE, -HUGE, 10**400, 1e300, "9", None, [1]], ids=lambda n: str(n)[:12])
def test_numbers_that_are_lies(asked, question, n):
    """No sum wraps, neither of an answer, nor of a sandbox, a tenant or the server."""
    client = tenant_of(asked)
    client.ok("PUT", "/sandbox/lied", {"budget": {"usd": 1, "tokens": 1000}})
    usage = {**{name: n for name in COUNTS}, "cache_creation": {"ephemeral_1h_input_tokens": n},
             "server_tool_use": {"web_search_requests": n, "web_fetch_requests": n}}
    body = b"".join([STREAM, start(usage=usage), open_block(), delta("1/0\n"), close_block(), end(usage=usage)])
    for box in ({}, {"sandboxId": "lied"}):
        answer = question(body).ask(client, **box).json
        assert answer["error_code"] == "CODE_FAILED" and answer["metrics"]["cost_usd"] >= 0, answer
        assert min(answer["metrics"]["input_tokens"], answer["metrics"]["output_tokens"]) >= 0
    spent = client.ok("GET", "/sandbox/lied")["budget"]["spent"]
    total = client.ok("GET", "/usage")["total"]
    assert min(spent["usd"], spent["tokens"], *[v for v in total.values() if isinstance(v, (int, float))]) >= 0
    if n == HUGE:  # not passed by being enormous
        question(body).ask(client, sandboxId="lied").error(402, "BUDGET_EXCEEDED")
    assert min(r["cost_usd"] for r in results_of(client)) >= 0
    client("DELETE", "/sandbox/lied")


def test_usage_of_very_many_names(asked, question):
    """Each of them was looked for among all others."""
    many = {f"k{n}": 1 for n in range(9000)}
    told = event({"type": "message_delta", "delta": {}, "usage": {f"j{n}": 1 for n in range(90000)}})
    q = question(STREAM + start(usage={**many, "input_tokens": 7}) + open_block() + delta("print(4)\n") + close_block() + told * 4 + end())
    with Pulse(asked) as pulse:
        reply = q.ask(asked)
    assert reply.status == 200 and reply.json["metrics"]["input_tokens"] == 7
    assert pulse.worst < 10, pulse.worst


def test_very_many_values(asked, question):
    """Some megabytes that would be a gigabyte once they are read."""
    cited = {"type": "citations_delta", "citation": [0] * 390000}
    q = question(STREAM + start() + open_block() + piece(**cited) * 24 + delta("print(5)\n") + close_block() + end())
    with Pulse(asked) as pulse:
        q.ask(asked).error(502, "API_ERROR")
    assert pulse.worst < 10, pulse.worst


@pytest.mark.long
def test_many_large_answers_at_once(asked, question):
    """What arrives of all answers together is bounded: some are given up, and small ones are not among them."""
    count = 10
    all_there = threading.Barrier(count + 1)

    def large(_connection):
        try:
            yield STREAM + start() + b'data: {"type": "ping", "x": "'
            for _ in range(22):
                yield b"a" * MB
        finally:  # sent, or cut off
            all_there.wait(PATIENCE)
        yield b'"}\n\n' + open_block() + delta("print(6)\n") + close_block() + end()

    def small():
        reply = question().ask(asked)
        all_there.wait(PATIENCE)
        return reply

    questions = [question(large) for _ in range(count)]
    with Pulse(asked) as pulse:
        replies = at_once(*[lambda q=q: q.ask(asked) for q in questions], small)
    assert replies[-1].json["output"] == "1\n"
    statuses = [reply.status for reply in replies]
    assert set(statuses) == {200, 502} and statuses.count(502) >= 2, statuses
    assert pulse.grown < 1024 * MB, pulse.grown / MB


@pytest.mark.parametrize("cut", [0, 960, 1000, 1015, 1023, 1100])
def test_the_key_in_errors(asked, question, cut):
    """Also when it was cut in two, and as a type, in a head, and in the midst of a stream."""
    said = ("x" * (cut - 20) if cut else "") + f" invalid key {KEY} {KEY}"
    error = {"type": "error", "error": {"type": ("a" * (cut % 60) + KEY), "message": said}}
    body = json.dumps(error).encode()
    answers = [
        status("401 Unauthorized", body, f"request-id: {KEY}"),
        status(f"400 {KEY}", body),
        status("403 Forbidden", said.encode()),
        STREAM + start() + event({"type": "error", "error": {"type": "authentication_error", "message": said}}),
        status("400 Bad", json.dumps({"type": "error", "error": {"type": KEY[:50] + "!", "message": "m"}}).encode()),
    ]
    client = tenant_of(asked)
    for answer in answers:
        reply = question(answer).ask(client)
        assert reply.status in (400, 401, 502), reply
        assert KEY[:12] not in str(reply.headers) + reply.body.decode(), reply
        assert KEY[:12].encode() not in client("GET", f"/execute/{reply.json['request_id']}").body
    assert KEY[:20] not in asked.server.log()


# -- code that is hostile


def test_code_of_any_size(asked, question):
    small = question(says("#" + "a" * 900000 + "\nprint(7)\n")).ask(asked).json
    assert small["output"] == "7\n" and len(small["code"]) > 900000
    large = question(says("#" + "a" * 10 * MB + "\nprint(8)\n")).ask(asked).json
    assert large["error_code"] == "MAX_TOKENS" and large["code"] == ""
    assert question(says("print(9)\x00\n")).ask(asked).json["error_code"] in ("NO_CODE", "CODE_FAILED")
    controls = question(says("x = '" + "\x01" * 900000 + "'\n1/0\n")).ask(asked, retries=0)
    assert controls.status == 200 and controls.json["error_code"] == "CODE_FAILED", controls


OUTPUTS = {
    "much": r"import os; [os.write(1, b'a' * 1000000) for _ in range(100)]; None",
    "controls": r"import os; [(os.write(1, b'\x01' * 1000000), os.write(2, b'\xff' * 1000000)) for _ in range(5)]; None",
    "displays": r"[display(n) for n in range(10000)]; None",
    "a large error": r"raise ValueError('\x01' * 4000000)",
    "a large value": r"'\x02' * 4000000",
    "all of it": r"import os; [os.write(1, b'\x01' * 300000), os.write(2, b'a' * 300000)]; {str(n): '\x01\x7f' * 9 for n in range(40000)}",
    "deep": "x = []\nfor _ in range(100000): x = [x]\nx",
}


def test_output_of_any_size(asked, question):
    answers = at_once(*[lambda c=c: question(says(c + "\n")).ask(asked, retries=0) for c in OUTPUTS.values()])
    for name, reply in zip(OUTPUTS, answers):
        assert reply.status == 200 and reply.json["sandboxId"], (name, reply)
        assert len(reply.body) <= 8 * MB + 1
        with asked.stream("GET", f"/execute/{reply.json['request_id']}") as stored:
            assert stored.until("done")[-1].data == reply.json, name


def test_a_large_answer_after_its_events_are_gone(asked, question):
    """It is sent as it is read, however long it is."""
    code = "import os; [os.write(1, b'a' * 100000) for _ in range(15)]; [display('x' * 10000) for _ in range(400)]; None\n"
    answer = question(says(code)).ask(asked, retries=0)
    assert answer.json["success"] and len(answer.body) > 5 * MB
    kill_daemon(asked.server, asked)
    asked.server.killed += 1
    assert asked("GET", f"/execute/{answer.json['request_id']}").json == answer.json
    with asked.stream("GET", f"/execute/{answer.json['request_id']}") as events:
        assert events.until("done")[-1].data == answer.json


LIES = r"""
import os, json
def shout(value):
    for fd in range(3, 64):
        try:
            if os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:"):
                os.set_blocking(fd, False)
                os.write(fd, value)
        except OSError:
            pass
for n in range(100):
    shout(os.urandom(4096) + b"\n" + json.dumps({"type": "end", "success": True}).encode() + b"\0" * 64)
"""

FILES = r"""
import os
os.chdir("/workspace")
for n in range(20000): open(f"f{n}", "w").close()
for name in ["new\nline", "tab\t", "esc\x1b[2J", "quote\"", "back\\slash", " ", "a" * 255]: open(name, "w").write("x")
os.close(os.open(b"bytes\xff\xfe", os.O_CREAT | os.O_WRONLY))
os.symlink("/etc/passwd", "link"); os.symlink("/", "root"); os.symlink("loop", "loop"); os.symlink("/proc/1/root", "__pycache__")
os.mkfifo("fifo")
for n in range(300):
    os.mkdir("d"); os.chdir("d")
open("bottom", "w").close()
print("made")
"""

ODD = r"""
import os, subprocess
os.chdir("/workspace")
subprocess.run("find . -mindepth 1 -delete", shell=True)
open("new\nline", "w"); open("esc\x1b[2J", "w")
os.close(os.open(b"b\xff", os.O_CREAT)); os.mkfifo("fifo"); os.symlink("/etc/passwd", "link"); os.symlink("/etc", "dir")
os.mkdir("__pycache__"); open("__pycache__/x", "w"); open("my__pycache__", "w"); open("__pycache__s", "w")
"""


def test_kernels_that_lie(asked, question):
    reply = question(says(LIES)).ask(asked, retries=0)
    assert reply.status in (200, 409, 503), reply
    assert question().ask(asked).json["output"] == "1\n"


def test_files_of_any_name_and_number(asked, question):
    first = question(says(FILES)).ask(asked, retries=0).json
    assert first["output"] == "made\n", first
    assert len(first["files"]) == 1000 and first["filesTruncated"] is True
    assert all(f["path"].startswith("/workspace/") and "/../" not in f["path"] for f in first["files"])
    box = first["sandboxId"]
    second = question(says(ODD)).ask(asked, sandboxId=box, retries=0).json
    paths = {f["path"] for f in second["files"]}
    assert {"/workspace/new\nline", "/workspace/esc\x1b[2J", "/workspace/my__pycache__", "/workspace/__pycache__s"} <= paths, paths
    assert len(paths) == 5, paths
    asked("DELETE", f"/sandbox/{box}")


# -- what is done to a sandbox while there is a question in it

SLOW_LIST = "import os\nfor n in range(4000): open(f'/workspace/s{n}', 'w').close()\nprint('up', flush=True)\n"
PHASES = {  # what is said before it is let go on, and after; the event by which it has begun
    "waiting": (STREAM + start() + open_block() + delta("print('a', flush=True)\n"), close_block() + end(), "code"),
    "running": (says("print('up', flush=True)\nimport time\ntime.sleep(60)\n"), b"", "stdout"),
    "listing": (says(SLOW_LIST), b"", "stdout"),
}


def in_phase(phase, question, release):
    def answer(_connection):
        before, after, _ = PHASES[phase]
        yield before
        if after:
            release.wait(PATIENCE)
            yield after

    return question(answer)


def destroy(client, box, _id):
    assert client("DELETE", f"/sandbox/{box}").status in (200, 202, 204)
    client.ok("PUT", f"/sandbox/{box}", {})


def put_to_sleep(client, box, _id):
    client("POST", f"/sandbox/{box}/sleep", {})


def patch(client, box, id_):
    client("PATCH", f"/sandbox/{box}", {"pids": 77, "memory": "128m"})
    cancel(client, box, id_)


def cancel(client, _box, id_):
    assert client("DELETE", f"/execute/{id_}").status in (200, 202)


@pytest.mark.parametrize("what", [destroy, put_to_sleep, patch, cancel])
@pytest.mark.parametrize("phase", list(PHASES))
def test_upheaval_in_each_phase(asked, question, phase, what):
    client, release = tenant_of(asked), threading.Event()
    client.ok("PUT", "/sandbox/same", {})
    with in_phase(phase, question, release).stream(client, sandboxId="same", retries=0, timeout=3000 if phase == "running" else 30000) as events:
        id_ = events.until(PHASES[phase][2])[0].data["request_id"]
        what(client, "same", id_)
        release.set()
        done = events.until("done")[-1].data
    assert done["request_id"] == id_
    if what == cancel and phase != "listing":
        assert done["error_code"] == "CANCELLED", done
    reply = client("GET", f"/execute/{id_}")
    assert reply.status == 404 or reply.json == done, reply
    if what == destroy:  # another one of that name, which is not told what was done in the one before
        after = question()
        assert after.ask(client, sandboxId="same").json["output"] == "1\n"
        assert len(after.sent()[0]["messages"]) == 1, after.sent()
    assert running(client) == []
    client("DELETE", "/sandbox/same")
    eventually(lambda: boxes_of(client) == set())


@pytest.mark.parametrize("phase", list(PHASES))
def test_a_client_that_leaves(asked, question, phase):
    client, release = tenant_of(asked), threading.Event()
    with in_phase(phase, question, release).stream(client, retries=0, timeout=2000 if phase == "running" else 30000) as events:
        id_ = events.until(PHASES[phase][2])[0].data["request_id"]
    release.set()
    reply = eventually(lambda: (r := client("GET", f"/execute/{id_}")).status != 202 and r)
    assert reply.status == 200 and reply.json["sandboxId"], reply
    assert client("DELETE", f"/sandbox/{reply.json['sandboxId']}").status in (200, 202, 204)
    assert boxes_of(client) == set()


# -- clients


def test_runs_of_others(asked, question):
    alice, mallory = tenant_of(asked), tenant_of(asked)
    for client in (alice, mallory):
        client.ok("PUT", "/sandbox/same", {})
    key = {"Idempotency-Key": f"key-{next(numbers)}"}
    ours = question(says("print('ours-7781')\n"))
    body = {"question": ours.text, "sandboxId": "same"}
    answer = alice.ok("POST", "/execute", body, key)
    id_ = answer["request_id"]
    for name in (id_, id_.upper(), f"{id_}%00", f"{id_}:0", "%2e%2e", "x" * 5000, "%ff", "a%20b"):
        for method in ("GET", "DELETE"):
            assert mallory(method, f"/execute/{name}").status in (400, 404, 414), (method, name)
    assert mallory("GET", f"/execute/{id_}", None, {"Accept": "text/event-stream"}).status == 404
    last = {"Accept": "text/event-stream", "Last-Event-ID": f"{id_}:0"}
    mallory("POST", "/execute", {"question": "x"}, last).error(404, "NOT_FOUND")
    mallory("POST", "/execute/sdk", {"prompt": "x"}, last).error(404, "NOT_FOUND")
    # The same words, key, sandbox and name of a request: all of it her own.
    theirs = mallory.ok("POST", "/execute", body, {**key, "X-Request-Id": id_})
    assert theirs["cached"] is False and theirs["request_id"] != id_
    assert [len(sent["messages"]) for sent in ours.sent()] == [1, 1]
    assert [r["request_id"] for r in results_of(mallory)] == [theirs["request_id"]]
    assert alice.ok("GET", f"/execute/{id_}") == answer
    assert mallory.ok("GET", "/usage?by=request")["usage"][0]["key"] == theirs["request_id"]
    mallory("GET", f"/usage?tenant={alice.name}").error(403, "FORBIDDEN")
    for client in (alice, mallory):
        client("DELETE", "/sandbox/same")


def test_every_place_of_a_stream(asked, question):
    q = question(says("for n in range(20): print(n, flush=True)\n"))
    with q.stream(asked) as events:
        all_ = events.until("done")
    id_ = all_[0].data["request_id"]
    for n, one in enumerate(all_):
        with asked.stream("GET", f"/execute/{id_}", None, {"Last-Event-ID": one.id}) as events:
            assert [e.id for e in events] == [e.id for e in all_[n + 1:]]
    for bad in (f"{len(all_)}", "99999999999", "-1", "", "1x", "18446744073709551615", "0:0"):
        reply = asked("GET", f"/execute/{id_}", None, {"Accept": "text/event-stream", "Last-Event-ID": f"{id_}:{bad}"})
        assert reply.status == 400, (bad, reply)


def test_streams_that_nobody_reads(asked, question):
    """They hold no memory of the daemon's but a little each, and others are served."""
    first = question(says("import os\nfor _ in range(64): os.write(1, b'a' * 100000)\n")).ask(asked).json
    head = f"GET /execute/{first['request_id']} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {asked.token}\r\n"
    sockets = []
    with Pulse(asked) as pulse:
        for n in range(600):
            s = raw_connect(asked.server)
            s.sendall((head + ("Accept: text/event-stream\r\n" if n % 2 else "") + "\r\n").encode())
            sockets.append(s)
        assert question().ask(asked).json["output"] == "1\n"
    for s in sockets:
        s.close()
    assert pulse.worst < 10, pulse.worst
    assert pulse.grown < 900 * MB, pulse.grown / MB
    assert question().ask(asked).json["output"] == "1\n"


def test_more_questions_than_there_is_room_for(asked, question):
    """One tenant cannot take all of it."""
    client, other, release = tenant_of(asked), tenant_of(asked), threading.Event()

    def wait(_connection):
        release.wait(PATIENCE * 2)
        yield says("print(1)\n")

    body = json.dumps({"question": question(wait).text, "cache": False})
    head = f"POST /execute HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.token}\r\nContent-Length: {len(body)}\r\n\r\n"
    before = len(at_rest(asked.server)[1])
    sockets = [raw_connect(asked.server) for _ in range(1000)]
    try:
        for s in sockets:
            s.sendall((head + body).encode())
        full = eventually(lambda: (r := client("POST", "/execute", {"question": "one more"})).status == 503 and r)
        assert full.json["error_code"] == "UNAVAILABLE" and int(full.headers["Retry-After"]) > 0
        assert question().ask(other).json["output"] == "1\n"
    finally:
        for s in sockets:
            s.close()
    ids = running(client)
    assert 700 < len(ids) < 800
    at_once(*[lambda part=ids[n::4]: [client("DELETE", f"/execute/{id_}") for id_ in part] for n in range(4)])
    release.set()
    assert running(client) == []
    assert question().ask(client).json["output"] == "1\n"
    eventually(lambda: len(at_rest(asked.server)[1]) < before + 80)  # connections to the model are kept, 64 of them


def test_what_was_cancelled_has_its_price(asked, question):
    client, release = tenant_of(asked), threading.Event()

    def answer(_connection):
        yield STREAM + start(usage={"input_tokens": 1000, "output_tokens": 1}) + open_block() + delta("print(1) #" + "a" * 4000)
        release.wait(PATIENCE)

    client.ok("PUT", "/sandbox/cheap", {"budget": {"tokens": 1500}})
    with question(answer).stream(client, sandboxId="cheap") as events:
        id_ = events.until("code")[0].data["request_id"]
        assert client("DELETE", f"/execute/{id_}").status == 202
    release.set()
    question().ask(client, sandboxId="cheap").error(402, "BUDGET_EXCEEDED")
    total = client.ok("GET", "/usage")["total"]
    assert total["input_tokens"] == 1000 and 900 < total["output_tokens"] < 1100, total
    client("DELETE", "/sandbox/cheap")


def test_a_token_that_is_revoked_while_streaming(asked, question):
    client, release = tenant_of(asked), threading.Event()
    with in_phase("waiting", question, release).stream(client) as events:
        events.until("code")
        asked.ok("DELETE", f"/tokens/{client.id}")
        assert [e.name for e in events if e.name == "done"] == []
    release.set()
    assert client("GET", "/execute").status == 401


# -- a conversation with tools


def uses(*blocks, stop_reason="tool_use"):
    """A message that asks for these tools: (name, input as JSON)."""
    parts = [STREAM, start()]
    for n, (id_, name, text) in enumerate(blocks):
        parts += [open_block(n, type="tool_use", id=id_, name=name, input={}),
                  piece(n, type="input_json_delta", partial_json=text), close_block(n)]
    return b"".join([*parts, end(stop_reason)])


TOOLS = ["Bash", "Read", "Write", "Edit", "RunCode", "TodoWrite"]
ODD_USES = {
    "one that was not offered": [("t1", "Agent", "{}")],
    "no JSON": [("t1", "Bash", '{"command": "touch /workspace/harm')],
    "wrong kinds": [(f"t{n}", name, '{"command": [1], "file_path": {}, "content": 7, "code": null, "todos": "x", "old_string": -1}')
                    for n, name in enumerate(TOOLS)],
    "deep": [("t1", "TodoWrite", '{"todos": ' + "[" * 5000 + "]" * 5000 + "}")],
    "a huge name": [("t1", "B" * MB, "{}")],
    "a huge id": [("i" * MB, "Bash", '{"command": "true"}')],
    "the same id": [("t1", "TodoWrite", '{"todos": []}')] * 8,
    "a pipe": [("t1", "Bash", '{"command": "mkfifo /workspace/p; ln -s /proc/self/mem /workspace/m; ln -s /dev/zero /workspace/z"}')]
              + [(f"r{n}", "Read", json.dumps({"file_path": path})) for n, path in enumerate(
                  ["p", "m", "z", "/dev/zero", "/proc/self/mem", "/workspace", "../../../../etc/shadow", "\0", "/" + "a" * 5000])]
              + [("e1", "Edit", '{"file_path": "p", "old_string": "a", "new_string": "b"}'), ("w1", "Write", '{"file_path": "p", "content": "x"}')],
    "much output": [("t1", "Bash", '{"command": "head -c 50000000 /dev/zero; head -c 50000000 /dev/urandom"}')],
    "negative numbers": [("t1", "Bash", '{"command": "true", "timeout": -9223372036854775808}'),
                         ("t2", "Read", '{"file_path": "/etc/passwd", "offset": -1, "limit": 9223372036854775807}'),
                         ("t3", "Read", '{"file_path": "/etc/passwd", "offset": 9223372036854775807, "limit": 9223372036854775807}')],
}


def test_tools_that_are_asked_for_in_odd_ways(asked, question):
    """Whatever is asked for, the model is told something, and the conversation comes to its end."""
    client = tenant_of(asked)

    def talk(blocks):
        turns = []

        def answer(_connection):
            turns.append(1)
            return [uses(*blocks) if len(turns) == 1 else says("enough")]

        q = question(answer)
        return q, client("POST", "/execute/sdk", {"prompt": q.text, "options": {"allowed_tools": TOOLS, "timeout": 50000}})

    with Pulse(asked) as pulse:
        done = dict(zip(ODD_USES, at_once(*[lambda b=b: talk(b) for b in ODD_USES.values()])))
    for name, (q, reply) in done.items():
        assert reply.status == 200 and reply.json["result"] == "enough", (name, reply)
        told = q.sent()[1]["messages"][-1]["content"]
        assert len(told) == len(ODD_USES[name]) and all(part["type"] == "tool_result" for part in told), (name, told)
    assert pulse.worst < 10, pulse.worst
    many = question(uses(*[(f"t{n}", "TodoWrite", "{}") for n in range(65)]))
    client("POST", "/execute/sdk", {"prompt": many.text}).error(502, "API_ERROR")
    hidden = question(lambda _: [uses(("t1", "Bash", '{"command": "touch /workspace/harm"}'))])
    reply = client.ok("POST", "/execute/sdk", {"prompt": hidden.text, "options": {"allowed_tools": ["TodoWrite"], "max_turns": 3}})
    assert reply["error_code"] == "MAX_TURNS" and reply["metadata"]["sandbox_id"] is None, reply
    for box in boxes_of(client):
        client("DELETE", f"/sandbox/{box}")


# -- where a tenant's own model is


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0177.0.0.1", "0x7f.1", "127.1",
                                  "0.0.0.0", "0", "169.254.169.254", "[fe80::1]", "10.0.0.1", "127.0.0.1.", "[::]", "localhost."])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_private_addresses_are_not_asked(asked, upstream, question, host, scheme):
    client = tenant_of(asked)
    q = question(says("print('reached')\n"))
    secret = {"value": "sk-own-123456789", "upstream": f"{scheme}://{host}:{upstream.port}", "header": "x-api-key"}
    made = client("PUT", "/secrets/anthropic", secret)
    assert made.status in (200, 201, 400), made
    if made.status != 400:
        q.ask(client).error(502, "API_ERROR")
        assert q.sent() == []


# -- starting with nonsense


@pytest.mark.parametrize("url", ["example.com", "ftp://example.com", "file:///etc/passwd", "http://", "https://a b", "https://user:pa55@example.com",
                                 "https://example.com?x=1", "https://example.com/#a", "https://example.com:99999", "https://exa\nmple.com", "http://[::1"])
def test_base_urls_that_are_none(top, url):
    env = {**os.environ, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "CAY_TOKEN": "cay_test_" + "a" * 32}
    data = f"{top}/never-{next(numbers)}"
    os.mkdir(data)
    command = [CAY, "serve", "--listen", "127.0.0.1:0", "--data", data]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode != 0 and "anthropic-base-url" in done.stderr, done
    assert "pa55" not in done.stderr and KEY not in done.stderr


# -- the daemon ends


def test_a_daemon_that_is_killed_in_each_phase(asked, question):
    client, release, streams = tenant_of(asked), threading.Event(), {}
    for phase in PHASES:
        events = in_phase(phase, question, release).stream(client, retries=0)
        streams[events.until(PHASES[phase][2])[0].data["request_id"]] = events
    kill_daemon(asked.server, asked)
    asked.server.killed += 1
    release.set()
    for id_, events in streams.items():
        events.close()
        reply = client("GET", f"/execute/{id_}")
        assert reply.status == 410 and reply.json["error_code"] == "RESULT_LOST" or reply.status == 200, reply
        assert client("DELETE", f"/execute/{id_}").status == 200
        client("GET", f"/execute/{id_}").error(404, "NOT_FOUND")
    for box in boxes_of(client):  # it would go by itself
        assert client.ok("GET", f"/sandbox/{box}")["destroyAfter"] == 3600
        client("DELETE", f"/sandbox/{box}")
    assert question().ask(client).json["output"] == "1\n"


def test_stopping_while_questions_are_open(top, upstream, question):
    os.mkdir(f"{top}/stopped")
    server = Server(f"{top}/stopped", "--drain", "1s", env=upstream.env())
    client, release = Client(server), threading.Event()
    streams = [in_phase(phase, question, release).stream(client, retries=0) for phase in PHASES]
    for phase, events in zip(PHASES, streams):
        events.until(PHASES[phase][2])
    assert server.stop() == 0
    release.set()
    server.start()
    states = {r["state"] for r in results_of(client)}
    assert states <= {"done", "lost"}, states
    assert server.stop() == 0
    assert server.faults() == []


def test_questions_that_wait_for_boxes(top, upstream, question):
    """They wait, and do nothing meanwhile; and the server can be stopped."""
    os.mkdir(f"{top}/full")
    server = Server(f"{top}/full", "--boxes", "2", "--pool", "0", "--drain", "1s", env=upstream.env())
    client = Client(server)
    q = question(says("print('up', flush=True)\nimport time\ntime.sleep(60)\n"))
    streams = [q.stream(client, retries=0, cache=False) for _ in range(12)]
    for events in streams:
        events.until("generated")
    time.sleep(2)
    assert server.log().count('msg="sandbox created"') < 12 + 60
    assert server.stop() == 0
    assert server.faults() == []
