# SPDX-License-Identifier: Apache-2.0
"""How answers are framed and where connections break, played back by a stand-in for a server."""

import base64
import json
import os
import subprocess
import tempfile

import pytest
from cli_helpers import CAY, FULL, Cli, clean_env, refused
from standin import StandIn, answer, chunked

SANDBOX = {"id": "a", "status": "running", "image": "host", "limits": {"memory": 1 << 30}}
LIST = json.dumps({"success": True, "sandboxes": [SANDBOX], "next": None}).encode()


@pytest.mark.parametrize("make", [answer, lambda body: chunked(body[:7], body[7:], content_type="application/json")])
def test_an_answer_in_two_writes_at_every_place(standin, make):
    text = make(LIST)
    for cut in range(1, len(text), 1 if FULL else 7):
        standin.play(text[:cut], text[cut:])
        assert standin.cli.ok("ls", "-q") == "a\n"


def test_an_answer_byte_by_byte(standin):
    text = chunked(LIST, content_type="application/json")
    standin.play(*(bytes([b]) for b in text))
    assert standin.cli.ok("ls", "-q") == "a\n"


def test_an_answer_that_ends_with_its_connection(standin):
    standin.play(b"HTTP/1.1 200 OK\r\n\r\n" + LIST)
    assert standin.cli.ok("ls", "-q") == "a\n"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 100000,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20000,
    ],
    ids=lambda text: text[:40].decode(),
)
def test_what_is_no_answer(standin, text):
    standin.play(text)
    refused(standin.cli.run("info", "a"), 125)


def test_an_answer_that_is_no_json(standin):
    standin.play(answer(b"hello"))
    refused(standin.cli.run("info", "a", "--json"), 125, "JSON")
    standin.play(answer(b"<html>", status="502 Bad Gateway", content_type="text/html"))
    refused(standin.cli.run("info", "a"), 125, "502")


def test_errors_say_what_the_server_said(standin):
    body = {"error": "no such thing", "error_code": "NOT_FOUND", "request_id": "req-9"}
    standin.play(answer(json.dumps(body).encode(), status="404 Not Found"))
    assert refused(standin.cli.run("info", "a"), 125) == "cay: no such thing\n"
    text = standin.cli.run("info", "a", "-v").stderr.decode()
    assert "NOT_FOUND" in text and "req-9" in text and "404" in text
    standin.play(answer(b'{"error":"who are you"}', status="401 Unauthorized"))
    refused(standin.cli.run("info", "a"), 125, "who are you", "CAY_TOKEN", "--token-file")


def test_nothing_from_a_server_moves_the_cursor(standin):
    """Neither on standard output nor on standard error, in a table, as JSON or in an error."""
    evil = "\x1b[2J\x07\x9b1m\u202egnp\r\n"
    body = {"sandboxes": [dict(SANDBOX, id=evil, status=evil, image=evil)], "next": None}
    outputs = []
    standin.play(answer(json.dumps(body, ensure_ascii=False).encode()))
    for flags in ([], ["-q"], ["--json"]):
        outputs.append(standin.cli.run("ls", *flags))
    assert json.loads(outputs[-1].stdout)[0]["id"] == evil
    standin.play(answer(json.dumps({"id": evil, evil: evil}, ensure_ascii=False).encode()))
    outputs.append(standin.cli.run("info", "a"))
    outputs.append(standin.cli.run("info", "a", "--json"))
    body = {"error": evil, "error_code": evil, "request_id": evil}
    standin.play(answer(json.dumps(body, ensure_ascii=False).encode(), status="400 Bad"))
    outputs.append(standin.cli.run("info", "a", "-v"))
    event = {"type": evil, "timestamp": evil, "data": {evil: evil}}
    data = json.dumps(event, ensure_ascii=False)
    standin.play(chunked(f"id: 1\ndata: {data}\n\n".encode()))
    outputs.append(standin.cli.run("events", "a"))
    for done in outputs:
        text = (done.stdout + done.stderr).decode()
        assert not [c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160], text
        assert "\u202e" not in text


def test_pages_follow_each_other(standin):
    def page(request, _):
        after = request.target.split("after=")[1] if "after=" in request.target else ""
        names = [n for n in "abcdefg" if n > after][:3]
        following = names[-1] if names[-1] < "g" else None
        body = {"sandboxes": [dict(SANDBOX, id=n) for n in names], "next": following}
        return [answer(json.dumps(body).encode())]

    standin.answer = page
    assert standin.cli.ok("ls", "-q").split() == list("abcdefg")
    assert [box["id"] for box in standin.cli.json("ls")] == list("abcdefg")
    standin.play(answer(json.dumps({"sandboxes": [SANDBOX], "next": "a"}).encode()))
    assert standin.cli.run("ls").returncode == 125  # a list that goes round


def test_what_is_sent(standin):
    standin.play(answer(b"{}"))
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("secret\n")
        file.flush()
        standin.cli.ok("info", "a/b c", "--token-file", file.name)
    request = standin.requests[-1]
    assert (request.method, request.target) == ("GET", "/sandbox/a%2Fb%20c")
    assert request.headers["authorization"] == "Bearer secret"
    standin.cli.ok("info", "a", env={"CAY_TOKEN": "elsewhere"})
    assert "authorization" not in standin.requests[-1].headers  # a socket asks for none
    standin.cli.run("create", "x", "-m", "64m", "-c", "0.5", "-e", "A=1", "-e", "A=2", "-l", "k=v=w",
                    "--sleep-after", "30s", "--keep-alive", "--destroy-after", "7d", "--budget-usd", "$1.25", "--budget-tokens", "5000")
    assert json.loads(standin.requests[-1].body) == {
        "id": "x", "memory": 64 << 20, "cpus": 0.5, "env": {"A": "2"}, "labels": {"k": "v=w"},
        "sleepAfter": "30s", "keepAlive": True, "destroyAfter": "7d", "budget": {"usd": 1.25, "tokens": 5000},
    }  # fmt: skip
    for flag, value in (("--budget-usd", "0"), ("--budget-usd", "1."), ("--budget-usd", "-1"), ("--budget-usd", "1e3"),
                        ("--budget-usd", "much"), ("--budget-tokens", "0"), ("--destroy-after", "soon")):
        assert standin.cli.run("create", "x", flag, value).returncode == 2, value


# -- streams

OUTPUT = b"one\ntwo \xff\x00\x80 three\n" + "ä中😀\n".encode() * 5


class Stream:
    """A process's output as the server tells it: pieces with ids, from wherever a client wants."""

    def __init__(self, output):
        self.events = ['event: start\ndata: {"processId":"p"}']
        for at in range(0, len(output), 5):
            piece = output[at : at + 5]
            data = {"offset": at, "data": base64.b64encode(piece).decode(), "encoding": "base64"}
            self.events.append(f"event: stdout\ndata: {json.dumps(data)}")
        self.events.append('event: exit\ndata: {"exitCode":3,"reason":"exit","processId":"p"}')

    def after(self, last):
        first = 0 if last is None else int(last.split(".")[1]) + 1
        chunks = [f"id: p.{i}.0\n{self.events[i]}\n\n".encode() for i in range(first, len(self.events))]
        return chunked(*chunks)


def exec_through_breaks(standin, cut, breaks=1, reset=False):
    """What comes out when the stream ends after `cut` bytes, `breaks` times."""
    stream = Stream(OUTPUT)
    keys = set()

    def play(request, number):
        if request.method == "DELETE":
            return [answer(b"{}")]
        keys.add(request.headers["idempotency-key"])
        text = stream.after(request.headers.get("last-event-id"))
        if number < breaks and cut < len(text):
            return [text[:cut], StandIn.RESET] if reset else [text[:cut]]
        return [text]

    standin.requests.clear()
    standin.answer = play
    done = standin.cli.run("exec", "a", "--", "x")
    assert len(keys) == 1  # so that the server knows it as the same
    return done


def test_a_stream_that_breaks_at_every_place(standin):
    length = len(Stream(OUTPUT).after(None))
    for cut in range(0, length, 3 if FULL else 41):
        done = exec_through_breaks(standin, cut, reset=cut % 2 == 0)
        assert (done.returncode, done.stdout, done.stderr) == (3, OUTPUT, b""), cut


def test_a_stream_that_breaks_again_and_again(standin):
    done = exec_through_breaks(standin, 500, breaks=5)
    assert (done.returncode, done.stdout, done.stderr) == (3, OUTPUT, b"")
    assert len(standin.requests) > 4


def test_a_stream_that_ends_without_an_end(standin):
    """All is well framed, but the process's end was not told: it is asked for again."""
    stream = Stream(OUTPUT)

    def play(request, number):
        if request.method == "DELETE":
            return [answer(b"{}")]
        if number == 0:
            return [chunked(f"id: p.0.0\n{stream.events[0]}\n\n".encode())]
        return [stream.after(request.headers.get("last-event-id"))]

    standin.answer = play
    done = standin.cli.run("exec", "a", "--", "x")
    assert (done.returncode, done.stdout) == (3, OUTPUT)


def test_a_stream_of_another_kind_is_an_error(standin):
    for event in ("not json", '{"data":1}', '{"data":"a","encoding":"rot13"}', '{"data":"?","encoding":"base64"}'):
        standin.play(chunked(f"id: 1\nevent: stdout\ndata: {event}\n\n".encode()))
        refused(standin.cli.run("exec", "a", "--", "x"), 125)
        assert len(standin.requests) == 1  # asking again would not help


def test_logs_go_on_after_a_break(standin):
    stream = Stream(OUTPUT)

    def play(request, number):
        text = stream.after(request.headers.get("last-event-id"))
        return [text[: len(text) // 2]] if number == 0 else [text]

    standin.answer = play
    done = standin.cli.run("logs", "a", "p", "--follow")
    assert (done.returncode, done.stdout, done.stderr) == (0, OUTPUT, b"")
    assert [r.headers.get("last-event-id") is None for r in standin.requests] == [True, False]


def test_gaps_are_told(standin):
    events = b'event: gap\ndata: {"stream":"stdout","from":10,"to":110}\n\n'
    events += b'event: stdout\ndata: {"offset":110,"data":"tail"}\n\n'
    standin.play(chunked(events))
    done = standin.cli.run("logs", "a", "p")
    assert done.stdout == b"tail" and b"100 bytes of stdout" in done.stderr


@pytest.mark.skipif(not FULL, reason="takes half a minute (make test-full)")
def test_a_server_that_stays_away_is_given_up(standin):
    standin.play(chunked(b'id: p.0.0\nevent: start\ndata: {"processId":"p"}\n\n', end=False))
    refused(standin.cli.run("exec", "a", "--", "x", timeout=120), 125)


def test_a_reader_that_goes_ends_us_quietly(standin):
    piece = b'event: stdout\ndata: {"data":"' + b"x" * 1000 + b'"}\n\n'
    standin.play(chunked(*[piece] * 1000))
    read, write = os.pipe()
    os.close(read)
    done = standin.cli.run("logs", "a", "p", stdout=write)
    os.close(write)
    assert done.returncode == -13 and done.stderr == b""


# -- nobody there


def test_no_server():
    with tempfile.TemporaryDirectory() as path:
        text = refused(Cli(path).run("ls"), 125, path, "cay serve")
        assert text.startswith("cay: no server at ")


def test_no_server_at_a_url():
    def run(url, **env):
        return subprocess.run(
            [CAY, "ls", "--url", url], capture_output=True, env=clean_env(**env), check=False, timeout=60
        )

    refused(run("http://127.0.0.1:1"), 125, "no server at 127.0.0.1:1", "cay serve")
    refused(run("https://127.0.0.1:1"), 2, "https")
    refused(run("nonsense"), 2, "http://")
    refused(run("http://a:b@c"), 2, "CAY_TOKEN")


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "x"], ["info"], ["info", "a", "b"], ["info", ""], ["kill", "a"], ["rm"], ["rm", "--all"],
        ["rm", "--all", "--yes", "a"], ["exec"], ["exec", "a"], ["exec", "a", "-c", "x", "y"],
        ["exec", "a", "--id", "p", "--", "x"], ["exec", "a", "-t", "soon", "--", "x"],
        ["exec", "a", "-w", "here", "--", "x"], ["exec", "a", "-e", "=x", "--", "x"],
        ["create", "--memory", "much"], ["create", "--label", "x"], ["create", "a", "b"],
        ["logs", "a", "p", "--offset", "-1"], ["logs", "a", "p", "--stdout", "--stderr", "--offset", "1"],
        ["token", "create"], ["token", "frobnicate"], ["token", "create", "x", "--rate", "y"],
        ["completion"], ["completion", "fish"], ["completion", "bash", "bash"], ["ls", "--frob"],
    ],
)  # fmt: skip
def test_command_lines_that_make_no_sense(words):
    done = subprocess.run([CAY, *words], capture_output=True, env=clean_env(), check=False, timeout=60)
    refused(done, 2)
