# SPDX-License-Identifier: Apache-2.0
"""`cay ask` under a real terminal: what is seen while it waits, and what never reaches the screen."""

import os
import re
import threading

import pytest
from ask_helpers import CODE, DONE, GENERATED, OUT, START, USUAL, Questions, Terminal, chunk, encode, result
from cli_helpers import PATIENCE
from code_helpers import PNG
from standin import answer


@pytest.fixture
def questions():
    server = Questions()
    yield server
    server.close()


def screen(text):
    """What is left to be seen: lines that were drawn over are gone, and so are colours."""
    text = re.sub(r"\x1b\[\d*m", "", text)
    return re.sub(r"[^\n]*\r(\x1b\[K)?", "", text.replace("\x1b[K", "")) if "\r" in text else text


def stepwise(*events):
    """An answer that waits for `go` before each event: set it to have the next one."""
    go = threading.Semaphore(0)

    def play(request, number):
        if request.method == "DELETE":
            yield answer(b'{"success": true}')
            return
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        for event in encode(events):
            assert go.acquire(timeout=PATIENCE)
            yield chunk(event)
        yield b"0\r\n\r\n"

    return play, go


def test_what_is_seen(questions):
    """Waiting, the code as it is written, its output as it comes."""
    questions.execute, go = stepwise(*USUAL)
    with Terminal(questions, "q") as t:
        t.until("the model thinks 0.1s")
        go.release()
        t.until("claude-sonnet-5-5 writes python")
        t.until("the model thinks 0.")
        go.release()
        t.until("\r\x1b[K\x1b[2mpri\x1b[0m")  # the line is gone, the first letters are there
        go.release()
        t.until("nt(2)")
        go.release(2)
        t.until("the code runs 0.1s")
        go.release()
        t.until("\r\x1b[K2\r\n")
        go.release(2)
        code, shown = t.end()
    assert code == 0
    assert screen(shown).splitlines()[1:] == [
        "print(2)",
        "2",
        "-- 1.30s: model 1.20s, sandbox 0.03s, 812 + 203 tokens, $0.0042; sandbox sb-1, go on with: cay ask -c ...",
    ]


@pytest.mark.parametrize("env, seen", [({"LANG": "C"}, "| the"), ({"LANG": "de_DE.UTF-8"}, "⠋ the"), ({"LC_ALL": "C"}, "| the")])
def test_signs_that_the_terminal_has(questions, env, seen):
    questions.execute, go = stepwise(*USUAL)
    with Terminal(questions, "q", **env) as t:
        t.until(seen)
        go.release(len(USUAL))
        assert t.end()[0] == 0


def test_without_colour(questions):
    with Terminal(questions, "q", NO_COLOR="1", TERM="dumb") as t:
        code, shown = t.end()
    assert code == 0 and "\x1b" not in shown and "| print(2)\n2\n" in shown


EVIL = "\x1b[2J\x1b]0;x\x07\x9b1m\u202e\x00\x08e"


def test_nothing_moves_the_cursor(questions):
    questions.files = {}
    more = result(
        success=False, error=EVIL, error_code="CODE_FAILED" + EVIL, sandboxId=EVIL, files=[{"path": "/workspace/" + EVIL, "size": 1}]
    )
    questions.play_events(
        ("start", {"request_id": "r-1", "language": EVIL, "model": EVIL}),
        ("code", {"text": f"# {EVIL}\r\n# {EVIL}"}),
        ("restart", {"reason": EVIL}),
        ("generated", {"code": f"# {EVIL}\tx", "cached": True, "attempt": 1}),
        ("stdout", {"text": EVIL + "\rover\r"}),
        ("stdout", {"text": "\nlines\r\n"}),
        ("stderr", {"text": EVIL}),
        ("result", {"text": EVIL}),
        ("display", {"markdown": EVIL}),
        ("result", {"json": {EVIL.replace("\0", ""): EVIL}}),
        ("error", {"name": EVIL, "message": EVIL, "traceback": [EVIL]}),
        ("repair", {"attempt": 1, "error": EVIL}),
        ("done", more),
    )  # fmt: skip
    with Terminal(questions, "q") as t:
        code, shown = t.end()
    assert code == 1
    left = re.sub(r"\x1b\[(0|2|31)?m|\r\x1b\[K|\r[⠋-⠿]? [a-z ]+ \d+\.\ds\x1b\[K", "", shown)
    assert not [c for c in left if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or c == "\u202e"], left
    assert "\\x1b[2J" in left and "over\nlines\n" in left


def test_a_picture_in_place(questions):
    questions.play_events(START, GENERATED, ("result", {"text": "<Figure>", "png": PNG}), DONE)
    with Terminal(questions, "q", TERM="xterm-kitty") as t:
        code, shown = t.end()
    assert code == 0 and "\x1b_Ga=T,f=100,q=2,m=0;" + PNG + "\x1b\\" in shown and "cay: wrote cay-2" in shown


def test_written_anew_and_mended(questions):
    failed = ("error", {"name": "E", "message": "m", "traceback": []})
    questions.play_events(
        START, *CODE, ("restart", {"reason": "overloaded"}), *CODE, GENERATED, ("stdout", {"text": "half"}), failed,
        ("repair", {"attempt": 1, "error": "E: m"}), ("code", {"text": "x = 2"}),
        ("generated", {"code": "y = 2", "cached": False, "attempt": 2}), OUT, ("done", result(cached=True)),
    )  # fmt: skip
    with Terminal(questions, "q") as t:
        code, shown = t.end()
    assert code == 0
    assert screen(shown).splitlines()[1:-1] == [
        "print(2)", "-- that is void: overloaded; it is written anew", "print(2)", "half", "E: m",
        "-- that failed; the model tries again", "x = 2", "-- what runs:", "y = 2", "2",
    ]  # fmt: skip


def test_interrupt(questions):
    cancelled = ("done", result(success=False, error="x", error_code="CANCELLED"))
    play, go = stepwise(START, *CODE, cancelled)
    questions.execute = play
    go.release(2)
    with Terminal(questions, "q") as t:
        t.until("pri")
        t.type("\x03")
        questions.wait_for("DELETE /execute/r-1")
        go.release(2)
        code, shown = t.end()
    assert code == 130 and "cay: cancelled\n" in shown


def test_interrupt_before_there_is_anything(questions):
    """It is not known yet what is to be cancelled: as soon as it is, it is."""
    cancelled = ("done", result(success=False, error="x", error_code="CANCELLED", sandboxId=None))
    questions.execute, go = stepwise(START, cancelled)
    with Terminal(questions, "q") as t:
        t.until("the model thinks")
        t.type("\x03")
        t.until("cancelling")
        go.release()
        questions.wait_for("DELETE /execute/r-1")
        go.release()
        assert t.end()[0] == 130


# -- questions to the person


@pytest.mark.parametrize("keys, given", [("\r", True), ("y\r", True), ("n\r", False), ("\x04", False), ("\x03", False)])
def test_whether_a_key_is_given(questions, keys, given):
    secrets = []
    whole = questions.reply

    def reply(request, number):
        if request.method == "PUT":
            secrets.append(request.target)
        if request.target == "/execute" and not secrets:
            return [answer(b'{"error": "no key", "error_code": "MISSING_API_KEY"}', "503 Service Unavailable")]
        return whole(request, number)

    questions.answer = reply
    with Terminal(questions, "q", ANTHROPIC_API_KEY="key-of-nobody") as t:
        t.until("Store the one from ANTHROPIC_API_KEY there, as the secret 'anthropic' for https://api.anthropic.com? [Y/n] ")
        t.type(keys)
        code, shown = t.end()
    assert (code, secrets) == ((0, ["/secrets/anthropic"]) if given else (125, [])), shown
    assert "key-of-nobody" not in shown


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is asked")
@pytest.mark.parametrize("keys", ["n\r", "\x04", "\x03"])
def test_whether_a_server_is_started(questions, tmp_path, keys):
    questions.cli.data = str(tmp_path)
    with Terminal(questions, "q") as t:
        t.until(f"No server is running at {tmp_path}/cay.sock. Start one? [Y/n] ")
        t.type(keys)
        code, shown = t.end()
    assert code == 125 and "cay serve" in shown
    assert os.listdir(tmp_path) == []
