# SPDX-License-Identifier: Apache-2.0
"""Questions against a model that is hostile, code that is, and clients that are. Nothing of it may stall or fill the daemon,
reach another tenant, or tell the key."""

import http.client
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest
from attack_helpers import CAY, PATIENCE, Client, Server, at_once, at_rest, daemon_pid, eventually, raw_connect, restarts
from hostile_model import (KEY, PLAIN, STREAM, HostileModel, close_block, delta, end, event, open_block, piece, says, start,
                           status)

MB = 1 << 20
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def upstream():
    return HostileModel()


@pytest.fixture(scope="module")
def asked(top, upstream):
    """A server that asks the hostile model. Nothing here ends its daemon, or makes it find a fault in itself."""
    os.mkdir(f"{top}/asked")
    server = Server(f"{top}/asked", env=upstream.env())
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
        self.name = f"q{os.getpid()}-{next(numbers)}"
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
            assert self.client("GET", "/health").status == 200
            self.worst = max(self.worst, time.monotonic() - at)
            time.sleep(0.05)

    @property
    def peak(self):
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", text)[1])

    def __enter__(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # the peak begins anew
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop = True
        self.thread.join(PATIENCE)


def boxes_of(client):
    return {box["id"] for box in client.ok("GET", "/sandbox?limit=1000")["sandboxes"]}


def results_of(client):
    return client.ok("GET", "/execute?limit=500")["results"]


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


def odd_index(index):
    return STREAM + start() + event({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}})


NO_MESSAGE = {
    "one endless line": forever(b"a" * 65536),
    "an endless event": forever(b"data: " + b"a" * 65536 + b"\n"),
    "endless pings": forever(event({"type": "ping"}) * 2000),
    "endless comments": forever(b": nothing\n" * 5000),
    "endless unknown events": forever(event({"type": "new", "x": ["y"] * 1000}) * 10),
    "endless usage": forever(event({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}}) * 500),
    "endless text": lambda _: itertools.chain([STREAM, start(), open_block()], itertools.repeat(delta("# a\n" * 4000))),
    "endless thinking": lambda _: itertools.chain(
        [STREAM, start(), open_block(type="thinking", thinking="")],
        itertools.repeat(piece(type="thinking_delta", thinking="a" * 16000))),
    "a large plain body": lambda _: itertools.chain([PLAIN, b'{"type": "message", "content": "'], [b"a" * MB] * 100, [b'"}']),
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
    "bytes that are no text": STREAM + start() + open_block() + event(b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff\xfe"}}'),
    "half a character": STREAM + start() + open_block() + event(rb'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ud800"}}'),
    "a NUL": STREAM + start() + b"data: {\"type\":\"ping\",\x00}\n\n",
}


def test_answers_that_are_none(asked, question):
    """All of them at once, one after the other for each: each is an error of the API's, in bounded time and memory."""
    questions = {name: question(answer) for name, answer in NO_MESSAGE.items()}
    with Pulse(asked) as pulse:
        replies = dict(zip(questions, at_once(*[lambda q=q: q.ask(asked) for q in questions.values()])))
    for name, reply in replies.items():
        expected = (400, "INVALID_REQUEST") if name == "an endless error" else (502, "API_ERROR")
        assert (reply.status, reply.json.get("error_code")) == expected, (name, reply)
    print("worst", pulse.worst, "peak", pulse.peak / MB)
