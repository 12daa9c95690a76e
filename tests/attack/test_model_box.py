# SPDX-License-Identifier: Apache-2.0
"""A box against the key that it uses without having it, against its budget, and against whoever else asks: odd requests on
the socket and by name, and an upstream that is on the box's side."""

import base64
import itertools
import json
import os
import pathlib
import re
import shlex
import socket
import tempfile
import threading

import pytest
from attack_helpers import Client, Server, at_once, daemon_pid, eventually, restarts
from model_helpers import HEADERS, SOCKET, Asker, a_request, error_of, events, question, spent

KEY = "sk-ant-planted-4f1d9c0e77aa"
numbers = itertools.count(1)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def with_length(body, extra=b""):
    return OK + extra + b"Content-Length: %d\r\n\r\n" % len(body) + body


def message(usage):
    return b'{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],"usage":%s}' % usage


def values(head, *names):
    """What stands in these fields of a head."""
    fields = [line.partition(":") for line in head.splitlines()[1:]]
    return [value.strip() for name, _, value in fields if name.lower() in names]


class Upstream:
    """Remembers each request as it came, and answers what a test has told it to, in raw bytes."""

    def __init__(self):
        self.seen, self.answer, self.connections = [], lambda head, body: with_length(message(b"{}")), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            self.connections += 1
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        file = connection.makefile("rb")
        try:
            while head := self.read_head(file):
                body = self.read_body(file, head)
                self.seen.append((head, body))
                answer = self.answer(head, body)
                for part in [answer] if isinstance(answer, bytes) else answer:
                    connection.sendall(part)
        except OSError:
            pass
        finally:
            connection.close()

    @staticmethod
    def read_head(file):
        lines = []
        while (line := file.readline()) not in (b"", b"\r\n"):
            lines.append(line)
        return b"".join(lines).decode("latin-1")

    @staticmethod
    def read_body(file, head):
        length = re.search(r"(?im)^content-length: (\d+)", head)
        if length:
            return file.read(int(length[1]))
        body = b""
        if re.search(r"(?im)^transfer-encoding: chunked", head):
            while size := int(file.readline(), 16):
                body += file.read(size)
                file.readline()
            file.readline()
        return body

    def lines(self):
        return [head.splitlines()[0] for head, _ in self.seen]


@pytest.fixture(scope="module")
def upstream():
    return Upstream()


@pytest.fixture(scope="module")
def api(upstream, top):
    data = tempfile.mkdtemp(prefix="model-", dir=top)
    server = Server(data, "--anthropic-base-url", upstream.url, env={"ANTHROPIC_API_KEY": KEY})
    client = Client(server)
    yield client
    assert restarts(client) == 0
    assert server.stop() == 0
    assert server.faults() == []
    assert KEY not in server.log()


@pytest.fixture
def box(api, upstream):
    name = f"model-{next(numbers)}"
    api.ok("PUT", f"/sandbox/{name}", {"secrets": ["anthropic"]})
    upstream.seen.clear()
    upstream.answer = lambda head, body: with_length(message(b'{"input_tokens":1,"output_tokens":1}'))
    yield Asker(api, name)
    api("DELETE", f"/sandbox/{name}")


RAW = r"""
import base64, json, socket, sys
spec = json.loads(sys.stdin.read())
if spec["way"] == "unix":
    s = socket.socket(socket.AF_UNIX); s.connect("/run/cay/anthropic.sock")
else:
    s = socket.create_connection(("127.0.0.1", 3128) if spec["way"] == "proxy" else ("anthropic.cay", 80))
s.settimeout(20)
got = b""
try:
    s.sendall(base64.b64decode(spec["bytes"]))
    s.shutdown(socket.SHUT_WR) if spec["shut"] else None
    while piece := s.recv(65536):
        got += piece
        if spec["until"] and got.count(b"HTTP/1.1 ") >= spec["until"] and got.endswith(b"}"):
            break
except OSError as e:
    got += b"\n" + type(e).__name__.encode()
sys.stdout.write(got.decode("latin-1"))
"""


def say(box, raw, way="unix", until=0, shut=False):
    spec = json.dumps({"bytes": base64.b64encode(raw).decode(), "way": way, "until": until, "shut": shut})
    done = box.api.exec(box.box, {"command": shlex.join(["python3", "-c", RAW]), "stdin": spec, "timeout": 60000})
    assert done["exitCode"] == 0, done
    return done["stdout"]


def post(body=b"{}", path=b"/v1/messages", extra=b"", host=b"localhost"):
    return b"POST %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s" % (path, host, extra, len(body), body)


# --- what goes on


ALLOWED = re.compile(r"(POST /v1/messages(/count_tokens)?|(GET|HEAD) /v1/models(/[A-Za-z0-9._:@-]+)?)(\?\S*)? HTTP/1\.1")
SMUGGLED = b"GET /v1/files HTTP/1.1\r\nHost: x\r\n\r\n"
TRICKS = {
    "in a body": post(SMUGGLED),
    "behind a request": post() + SMUGGLED,
    "behind a length that is too short": post(b"") + SMUGGLED,
    "two lengths": post(SMUGGLED, extra=b"Content-Length: 0\r\n"),
    "a length and chunks": post(b"0\r\n\r\n" + SMUGGLED, extra=b"Transfer-Encoding: chunked\r\n"),
    "odd chunks": post(b"0\r\n\r\n" + SMUGGLED, extra=b"Transfer-Encoding: xchunked\r\n"),
    "chunks twice": b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunks, and more": b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "a trailer": b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Api-Key: a\r\n\r\n" + SMUGGLED,
    "a bare line feed": b"POST /v1/messages HTTP/1.1\nHost: x\nContent-Length: 0\n\n" + SMUGGLED,
    "a line in a path": post(path=b"/v1/messages HTTP/1.1\r\nX: /v1/files"),
    "a tab": post(path=b"/v1/messages\t/../files"),
    "a fragment": post(path=b"/v1/messages#/../files"),
    "a backslash": post(path=b"/v1/models\\..\\files"),
    "a NUL": post(path=b"/v1/messages\0"),
    "another host by a URL": b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "connect": b"CONNECT api.anthropic.com:443 HTTP/1.1\r\nHost: api.anthropic.com:443\r\n\r\n",
    "an upgrade": b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "trace": b"TRACE /v1/messages HTTP/1.1\r\nHost: x\r\n\r\n",
    "a folded header": b"GET /v1/models HTTP/1.1\r\nHost: x\r\nA: b\r\n X-Api-Key: c\r\n\r\n",
    "a space before the colon": b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Api-Key : mine\r\n\r\n",
    "no version": b"GET /v1/files\r\n\r\n",
    "the second version": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.mark.parametrize("way", ["unix", "proxy"])
@pytest.mark.parametrize("trick", TRICKS)
def test_nothing_else_goes_on(box, upstream, trick, way):
    raw = TRICKS[trick]
    if way == "proxy":
        raw = re.sub(rb"(?m)^([A-Z]+) /", rb"\1 http://anthropic.cay/", raw, count=1)
    heard = say(box, raw, way, shut=trick != "in a body", until=0 if trick != "in a body" else 1)
    assert "authentication" not in heard
    for line in upstream.lines():
        assert ALLOWED.fullmatch(line), (trick, upstream.lines())
    for head, _ in upstream.seen:
        assert values(head, "x-api-key", "authorization") == [KEY]
        assert values(head, "host") == [upstream.url.removeprefix("http://")]


@pytest.mark.parametrize("host", [b"api.anthropic.com", b"127.0.0.1:1", b"evil.example:80", b"[::1]", b"a b", b"", b"x@y"])
def test_the_host_of_the_socket_is_nobody_s_choice(box, upstream, host):
    say(box, post(host=host), until=1, shut=True)
    for head, _ in upstream.seen:
        assert values(head, "host") == [upstream.url.removeprefix("http://")]


@pytest.mark.parametrize("name", ["x-api-key", "X-API-KEY", "Authorization", "authorization", "Proxy-Authorization", "Cookie",
                                  "Anthropic-Workspace-Id"])
def test_what_a_box_says_about_who_it_is_is_dropped(box, upstream, name):
    box.raw({"body": "{}", "headers": {name: "of-the-box"}}, {"body": "{}", "headers": {name: "of-the-box"}}, unix=True)
    assert len(upstream.seen) == 2
    for head, _ in upstream.seen:
        assert "of-the-box" not in head
        assert values(head, "x-api-key", "authorization") == [KEY]


def test_connection_makes_no_header_of_ours_vanish(box, upstream):
    say(box, post(extra=b"Connection: x-api-key, host, content-length\r\n"), until=1, shut=True)
    for head, _ in upstream.seen:
        assert KEY in head and "content-length" in head.lower()


# --- what comes back


@pytest.mark.parametrize("where", ["body", "split chunks", "header", "event", "error"])
def test_a_key_that_comes_back_is_cut_out(box, upstream, api, where):
    half = len(KEY) // 2
    answers = {
        "body": with_length(b'{"error":"bad key %s"}' % KEY.encode()),
        "split chunks": OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (
            half, KEY[:half].encode(), len(KEY) - half, KEY[half:].encode()),
        "header": with_length(b"{}", b"X-Echo: %s\r\n" % KEY.encode()),
        "event": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: ping\ndata: {\"a\":\"%s\"}\n\n" % KEY.encode(),
        "error": b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s" % (len(KEY), KEY.encode()),
    }
    upstream.answer = lambda head, body: answers[where]
    for way in ("unix", "proxy"):
        raw = post() if way == "unix" else post(path=b"http://anthropic.cay/v1/messages")
        heard = say(box, raw, way)
        assert KEY not in heard and KEY[half:] not in heard
    assert eventually(lambda: [e for e in events(api, box.box, "egress") if "credential" in json.dumps(e)])


ABSURD = [
    b'{"input_tokens":-1000000,"output_tokens":-5}', b'{"input_tokens":9223372036854775807,"output_tokens":9223372036854775807}',
    b'{"input_tokens":99999999999999999999999,"output_tokens":1e308}', b'{"input_tokens":"12","output_tokens":[1]}',
    b'{"input_tokens":1.5,"output_tokens":null}', b'null', b'[]', b'"x"', b'{"cache_creation":{"ephemeral_1h_input_tokens":-4}}',
    b'{"server_tool_use":{"web_search_requests":1e18}}', b"{" * 100000, b'{"a":' * 5000 + b"1" + b"}" * 5000,
    b'{"input_tokens":1,"input_tokens":-5,"output_tokens":2}',
]


@pytest.mark.parametrize("i", range(len(ABSURD)))
@pytest.mark.parametrize("stream", [False, True])
def test_absurd_usage(box, upstream, api, i, stream):
    usage = ABSURD[i]
    body = message(usage)
    if stream:
        start = b'event: message_start\ndata: {"type":"message_start","message":%s}\n\n' % body
        body = start + b'event: message_delta\ndata: {"type":"message_delta","delta":{},"usage":%s}\n\n' % usage
        answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    else:
        answer = with_length(body)
    upstream.answer = lambda head, body: answer
    for _ in range(3):
        assert box.raw({"body": "{}", "headers": HEADERS}, unix=True)[0]["status"] == 200
    now = spent(api, box.box)
    assert 0 <= now["tokens"] < 10**10 and 0 <= now["usd"] < 10**6


def test_more_than_an_answer_is_nobody_s(box, upstream):
    """What an upstream says behind its answer is not taken for the answer to the next question."""
    upstream.answer = lambda head, body: with_length(b'{"n":1}') + with_length(b'{"evil":"for the next"}')
    replies = box.raw(*[{"body": "{}", "headers": HEADERS}] * 4, unix=True)
    assert [r["body"] for r in replies] == ['{"n":1}'] * 4


def test_no_box_gets_another_s_connection(api, box, upstream):
    other = f"model-{next(numbers)}"
    api.ok("PUT", f"/sandbox/{other}", {"secrets": ["anthropic"]})
    upstream.answer = lambda head, body: with_length(body)
    for i in range(5):
        for asker in (box, Asker(api, other)):
            mine = json.dumps({"of": asker.box, "i": i})
            assert asker.raw({"body": mine, "headers": HEADERS}, unix=True)[0]["body"] == mine
    jobs = [lambda a=a, i=i: a.raw(*[{"body": f'{{"of":"{a.box}-{i}"}}', "headers": HEADERS}] * 20, unix=i % 2 == 0)
            for a in (box, Asker(api, other)) for i in range(3)]
    for job, replies in zip(jobs, at_once(*jobs)):
        assert len({r["body"] for r in replies}) == 1 and len(replies) == 20, job
    api.ok("DELETE", f"/sandbox/{other}")


def memory_of(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))[1])


@pytest.mark.parametrize("kind", ["json", "stream", "one line"])
def test_a_huge_answer_costs_no_memory(box, upstream, api, kind):
    size, piece = 48 << 20, 1 << 16
    line = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}\n\n'
    head = {"json": OK, "stream": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n",
            "one line": b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"}[kind]
    part = {"json": b"x" * piece, "stream": line % (b"x" * piece), "one line": b"y" * piece}[kind]
    first = {"json": b'{"content":"', "stream": b"", "one line": b"data: {"}[kind]

    def answer(_head, _body):
        yield head + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        if first:
            yield b"%x\r\n%s\r\n" % (len(first), first)
        for _ in range(size // piece):
            yield b"%x\r\n%s\r\n" % (len(part), part)
        yield b"0\r\n\r\n"

    upstream.answer = answer
    pid = daemon_pid(api.server)
    before = memory_of(pid)
    reply = box.raw({"body": "{}", "headers": HEADERS}, unix=True)[0]
    assert reply["body"] >= size and not reply["cut"]
    assert memory_of(pid) - before < 24 << 10


# --- the socket itself


def fds_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


PASS_FDS = f"""
import array, os, socket
for i in range(50):
    s = socket.socket(socket.AF_UNIX); s.connect("{SOCKET}")
    fds = [os.open("/etc/passwd", os.O_RDONLY) for _ in range(20)]
    s.sendmsg([b"GET /v1/models HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"],
              [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
    for fd in fds: os.close(fd)
    s.recv(1000)
    s.close()
print("done")
"""


def test_descriptors_that_are_sent_along_reach_nobody(box, api):
    pid = daemon_pid(api.server)
    box.raw({"body": "{}", "headers": HEADERS}, unix=True)
    before = fds_of(pid)
    assert api.exec(box.box, {"command": shlex.join(["python3", "-c", PASS_FDS]), "timeout": 60000})["stdout"] == "done\n"
    eventually(lambda: fds_of(pid) <= before + 4)


def test_many_who_say_nothing_stop_their_own_box_alone(box, api):
    script = f"""
import socket, time
l = []
for i in range(400):
    s = socket.socket(socket.AF_UNIX); s.connect("{SOCKET}"); l.append(s)
print(len(l), flush=True)
time.sleep(300)
"""
    process = api.start(box.box, {"command": shlex.join(["python3", "-u", "-c", script])})
    eventually(lambda: "400" in api("GET", f"/sandbox/{box.box}/processes/{process}/logs").body.decode())
    other = f"model-{next(numbers)}"
    api.ok("PUT", f"/sandbox/{other}", {"secrets": ["anthropic"]})
    assert Asker(api, other).raw({"body": "{}", "headers": HEADERS}, unix=True)[0]["status"] == 200
    api.ok("DELETE", f"/sandbox/{other}")
    api.ok("POST", f"/sandbox/{box.box}/processes/{process}/signal", {"signal": "SIGKILL"})
    api.ended(box.box, process)
    assert box.raw({"body": "{}", "headers": HEADERS}, unix=True)[0]["status"] == 200


@pytest.mark.parametrize("harm", [
    f"rm {SOCKET}", "rm -rf /run/cay", "rm -rf /run/cay; ln -s /etc /run/cay", f"rm {SOCKET}; mkdir {SOCKET}",
    "rm -rf /run/cay; echo x > /run/cay",
    f"rm {SOCKET}; python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.bind('{SOCKET}')\"",
])
def test_a_box_harms_itself_alone(box, api, harm):
    api.exec(box.box, harm)
    assert box.ask("by name")["status"] == 200
    api.ok("POST", f"/sandbox/{box.box}/sleep")
    assert box.ask("by name")["status"] == 200
    assert api.ok("GET", "/health")["status"] == "healthy"
    api.exec(box.box, "rm -rf /run/cay")
    api.ok("POST", f"/sandbox/{box.box}/sleep")
    assert box.ask("by socket", unix=True)["status"] == 200


# --- the budget


def stream_of(tokens, pieces):
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    yield b'event: message_start\ndata: {"type":"message_start","message":%s}\n\n' % message(b'{"input_tokens":%d,"output_tokens":1}' % tokens)
    for _ in range(pieces):
        yield (b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
               b'"text":"%s"}}\n\n' % (b"word " * 40))


def test_who_never_waits_for_the_end_stays_within_the_budget(box, upstream, api):
    """Hanging up before the usage is told, or before anything is, does not make it free."""
    api.ok("PATCH", f"/sandbox/{box.box}", {"budget": {"tokens": 20000}})
    gate = threading.Event()

    def answer(_head, _body):
        gate.wait(30)
        return stream_of(100, 5)

    upstream.answer = answer
    body = question("x" * 20000).encode()
    hang_up = shlex.join(["python3", "-c", f"""
import socket, sys
body = sys.stdin.buffer.read()
for i in range(20):
    s = socket.socket(socket.AF_UNIX); s.connect("{SOCKET}"); s.settimeout(1)
    s.sendall(b"POST /v1/messages HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    try: print(s.recv(100)[:12].decode())
    except TimeoutError: print("none")
    s.close()
"""])
    done = api.exec(box.box, {"command": hang_up, "stdin": body.decode(), "timeout": 120000})
    gate.set()
    assert "HTTP/1.1 402" in done["stdout"], done
    assert done["stdout"].count("none") <= 5
    assert len(upstream.seen) <= 5


def test_many_streams_at_once_pass_it_by_little(box, upstream, api):
    api.ok("PATCH", f"/sandbox/{box.box}", {"budget": {"tokens": 3000}})
    upstream.answer = lambda head, body: stream_of(100, 5000)
    at_once(*[lambda: box.raw(a_request("go"), unix=True) for _ in range(8)])
    # What was read at once before anybody looked: a lane's worth of each.
    assert 3000 < spent(api, box.box)["tokens"] < 3000 + 8 * 64 * 1024 // 4
    error_of(box.ask("more"), 402, "billing_error")
    assert len(events(api, box.box, "budget_exceeded")) == 1
