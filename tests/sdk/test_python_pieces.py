# SPDX-License-Identifier: Apache-2.0
"""Parts of the Python SDK without a server: what comes in pieces is cut at every place; types; words in several ways."""

import asyncio
import inspect
import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta

import pytest
from python_helpers import SDK, TOP, cay, with_close

from cay import _http, _net, _settings, _sse, _ws  # isort: skip
from cay._blocking import run  # isort: skip


class Scripted(_net.Conn):
    """A connection on which these pieces come."""

    def __init__(self, pieces):
        self.pieces = list(pieces)
        self.sent = b""
        self.closed = False

    async def send(self, data):
        self.sent += data

    async def recv(self, timeout=None):
        return self.pieces.pop(0) if self.pieces else b""

    def is_stale(self):
        return False

    def close(self):
        self.closed = True


class Halting(Scripted):
    """Before each piece it takes too long, once."""

    halted = False

    async def recv(self, timeout=None):
        self.halted = not self.halted
        if self.halted:
            raise TimeoutError
        return await super().recv(timeout)


class ScriptedNet(_net.Net):
    def __init__(self):
        super().__init__(_net.Address.of("http://127.0.0.1:1"))
        self.kept = _net.Pool()

    def pool(self):
        return self.kept


def splits(data):
    """Whole, byte by byte, and in two at every place."""
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for at in range(1, len(data)):
        yield [data[:at], data[at:]]


def read_answer(pieces):
    net = ScriptedNet()
    exchange = _http.Exchange(net, Scripted(pieces))

    async def work():
        await exchange.head()
        return await exchange.read()

    return exchange, run(work()), net


ANSWERS = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  b \r\n\r\nhello", 200, b"hello", True),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b"", True),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}", 404, b"{}", True),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\nT: v\r\n\r\n", 200, b"abcde", True),
    (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    (b"HTTP/1.1 200 OK\r\n\r\nto the end", 200, b"to the end", False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
]


@pytest.mark.parametrize("data, status, body, kept", ANSWERS)
def test_answers_at_every_split(data, status, body, kept):
    for pieces in splits(data):
        exchange, got, net = read_answer(pieces)
        assert (exchange.status, got) == (status, body)
        assert (net.kept.take() is not None) == kept


def test_a_wait_that_was_too_long_loses_nothing():
    """Wherever it was: whoever asks again gets the rest."""
    data, _, body, _ = ANSWERS[4]
    for pieces in splits(data):
        exchange, got = _http.Exchange(ScriptedNet(), Halting(pieces)), []

        def insist(work):
            while True:
                try:
                    return run(work())
                except _http.Broken as broken:
                    assert isinstance(broken.__cause__, TimeoutError), pieces

        insist(exchange.head)
        while piece := insist(exchange.piece):
            got.append(piece)
        assert b"".join(got) == body


@pytest.mark.parametrize("data", [data for data, _, _, kept in ANSWERS if kept])
def test_answers_that_are_cut_short(data):
    """At whatever place: it is never taken for an answer."""
    for at in range(len(data)):
        with pytest.raises(_http.Broken):
            read_answer([data[:at]] if at else [])


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"x" * 70000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * 70000,
    ],
)
def test_answers_that_are_none(data):
    with pytest.raises(_http.Broken):
        read_answer([data])


def test_more_than_was_announced_is_not_kept():
    _, body, net = read_answer([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 smuggled"])
    assert body == b"x" and net.kept.take() is None


EVENTS = "id: p.1\nevent: stdout\ndata: {\"a\": 1}\n\n: comment\n\ndata: é\ndata: two\r\n\r\nevent: none\n\nevent: end\ndata:x\n\n"


def test_events_at_every_split():
    wanted = [("p.1", "stdout", '{"a": 1}'), (None, "message", "é\ntwo"), (None, "end", "x")]
    for pieces in splits(EVENTS.encode()):
        reader = _sse.EventReader()
        assert [tuple(event) for piece in pieces for event in reader.feed(piece)] == wanted


def server_frame(first, data):
    n = len(data)
    length = bytes([n]) if n < 126 else bytes([126]) + n.to_bytes(2, "big") if n < 65536 else bytes([127]) + n.to_bytes(8, "big")
    return bytes([first]) + length + data


def test_frames_at_every_split():
    data = server_frame(0x01, b"one ") + server_frame(0x89, b"ping") + server_frame(0x80, b"two") + server_frame(0x82, b"b" * 200)
    data += server_frame(0x88, b"\x03\xe8bye")
    wanted = [(_ws.PING, b"ping"), (_ws.TEXT, b"one two"), (_ws.BINARY, b"b" * 200), (_ws.CLOSE, b"\x03\xe8bye")]
    for pieces in splits(data):
        reader, got = _ws.FrameReader(), []
        for piece in pieces:
            reader.feed(piece)
            while (message := reader.next()) is not None:
                got.append(tuple(message))
        assert got == wanted


def test_frames_that_are_none():
    for data in (b"\xc1\x00", b"\x81\x80abcd", b"\x80\x00", server_frame(0x01, b"a") + server_frame(0x81, b"b")):
        reader = _ws.FrameReader(data)
        with pytest.raises(_ws.ProtocolError):
            while reader.next() is not None:
                pass


@pytest.mark.parametrize("n", [0, 1, 125, 126, 65535, 65536])
def test_frames_that_are_sent(n):
    data = bytes(i % 251 for i in range(n))
    frame = _ws.frame(_ws.BINARY, data)
    assert frame[0] == 0x82 and frame[1] & 0x80
    start = {True: 2}.get(n < 126, 4 if n < 65536 else 10)
    mask, body = frame[start : start + 4], frame[start + 4 :]
    assert bytes(b ^ mask[i % 4] for i, b in enumerate(body)) == data
    assert _ws.accept_of("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # of the standard


def test_addresses():
    for url, host, prefix in [
        ("http://127.0.0.1:8787/", "127.0.0.1:8787", ""),
        ("https://cay.example.com", "cay.example.com", ""),
        ("https://example.com:8443/cay/", "example.com:8443", "/cay"),
        ("http://[::1]:80", "[::1]", ""),
        ("unix:///var/lib/cay/cay.sock", "cay", ""),
    ]:
        address = _net.Address.of(url)
        assert (address.host_header, address.prefix) == (host, prefix)
    assert _net.Address.of("unix:///a%20b").unix == "/a b"


def test_paths_and_times():
    for given, wanted in [("a", "/workspace/a"), ("/a//b/./../c/", "/a/c"), ("//x", "/x"), ("..", "/"), ("/", "/"), (".", "/workspace")]:
        assert _settings.absolute(given) == wanted
    assert _settings.milliseconds(1.5) == 1500 and _settings.milliseconds("2m") == "2m" and _settings.milliseconds(None) is None
    assert _settings.milliseconds(timedelta(seconds=2)) == 2000 and _settings.milliseconds(0) == 1
    assert _settings.in_seconds("500ms") == 0.5 and _settings.in_seconds("2m") == 120 and _settings.in_seconds(3) == 3
    for wrong in ("soon", "5"):
        with pytest.raises(ValueError):
            _settings.in_seconds(wrong)
    with pytest.raises(ValueError):
        _settings.milliseconds(-1)


def test_a_coroutine_where_there_is_no_loop():
    async def wait():
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="cay.aio"):
        run(wait())


def public(cls):
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("name", ["Sandbox", "Session", "Process", "Terminal"])
def test_both_ways_have_the_same_methods(name):
    one, other = getattr(cay, name), getattr(cay.aio, name)
    instance_only = {"id", "info", "session", "process", "offset", "exit", "start"}
    assert public(one) - instance_only == public(other) - instance_only
    for method in public(one) & public(other) - {"get_session"}:
        mine, theirs = getattr(one, method), getattr(other, method)
        if not inspect.isfunction(mine):
            continue
        assert list(inspect.signature(mine).parameters) == list(inspect.signature(theirs).parameters), method


def test_all_codes_of_the_server_have_an_error():
    """Each error_code of docs/ERRORS.md becomes an error of a class of its own kind."""
    text = (SDK.parent.parent / "docs" / "ERRORS.md").read_text()
    rows = [line.split("|")[1:3] for line in text.split("## Over HTTP")[1].split("## Tasks")[0].splitlines() if line.startswith("| ")]
    codes = [(status.strip().split(",")[0], code.strip().strip("`")) for status, code in rows if "`" in code]
    assert len(codes) > 40
    for status, code in codes:
        error = cay.errors.error_of(int(status), {}, {"error": "x", "error_code": code}, "", "/sandbox/a/exec")
        assert type(error) is not cay.CayError or status in ("405", "410", "415", "416", "417", "421", "426"), (status, code)
        assert error.code == code and error.status == int(status)


PROGRAM = """
import cay
from typing import List

box = cay.get_sandbox("demo", memory="1g", sleep_after=60)
done: cay.ExecResult = box.exec("ls", session=box.create_session(), timeout=5)
text: str = box.read_file("a")
end = cay.TerminalExit()
killed_by: str = end.signal or ""
data: bytes = box.read_file("a", encoding=None)
processes: List[cay.Process] = box.list_processes()
for event in box.exec_stream("ls"):
    if event.type == "stdout":
        piece: str = event.data
    elif event.type == "complete":
        code: int = event.exit_code


async def main() -> None:
    async with cay.aio.get_sandbox() as box:
        done: cay.ExecResult = await box.exec("ls")
        async for event in box.run_code_stream("1"):
            if event.type == "result":
                print(event.result.png)
"""
WRONG = [
    'box.exec("ls", tmeout=1)',
    "box.exec(1)",
    "number: int = box.read_file('a')",
    'cay.get_sandbox("demo", memry="1g")',
    'box.exec("ls").exitCode',
]


@pytest.mark.skipif(shutil.which("mypy") is None, reason="mypy is not there")
def test_types(tmp_path):
    """The SDK is typed throughout, and so is what programs see of it, the examples too; what is wrong is found."""
    good_ones = tmp_path / "good"
    good_ones.mkdir()
    (good_ones / "program.py").write_text(PROGRAM)
    for i, program in enumerate((TOP / "examples" / "python").glob("*/*.py")):  # most have the same name
        shutil.copy(program, good_ones / f"example_{i}.py")
    assert len(list(good_ones.iterdir())) > 15
    (tmp_path / "wrong.py").write_text("import cay\nbox = cay.get_sandbox()\n" + "\n".join(WRONG) + "\n")
    common = ["mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    env = {**os.environ, "MYPYPATH": str(SDK)}
    good = subprocess.run([*common, str(SDK / "cay"), "good"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert good.returncode == 0, good.stdout
    wrong = subprocess.run([*common, "wrong.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    lines = {int(line.split(":")[1]) for line in wrong.stdout.splitlines() if ": error:" in line}
    assert lines == set(range(3, 3 + len(WRONG))), wrong.stdout


def test_nothing_but_the_standard_library():
    """In a Python that has nothing else, and without its site packages."""
    program = "import cay, sys, json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SDK), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-S", "-c", program], env=env, capture_output=True, text=True, check=True)
    known = set(sys.stdlib_module_names) | {"cay", "__main__"}
    assert set(json.loads(done.stdout)) <= known


def test_what_the_proxy_does_to_a_request():
    assert with_close(b"GET / HTTP/1.1\r\nA: b\r\n\r\n") == b"GET / HTTP/1.1\r\nConnection: close\r\nA: b\r\n\r\n"
