# SPDX-License-Identifier: Apache-2.0
"""`cay ask`: what it asks for, and what it makes of the events that come back."""

import json
import os
import re
import signal
import stat
import subprocess
import threading

import pytest
from ask_helpers import CODE, DONE, GENERATED, NO_KEYS, OUT, SANDBOX, START, USUAL, Questions, chunk, encode, result, stream
from cli_helpers import CAY_SAN, FULL, PATIENCE, clean_env, refused
from code_helpers import PNG
from standin import StandIn, answer, chunked


@pytest.fixture
def questions():
    server = Questions()
    yield server
    server.close()


def text(done):
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def saved(questions):
    """What lies in the directories that were made: path -> bytes."""
    found = {}
    for top, _, names in os.walk(questions.work):
        for name in names:
            path = os.path.relpath(os.path.join(top, name), questions.work)
            if not path.startswith(".local"):
                with open(os.path.join(questions.work, path), "rb") as f:
                    found[re.sub(r"^cay-\d{8}-\d{6}(-\d+)?/", "DIR/", path)] = f.read()
    return found


# -- what is asked, what is shown


def test_a_question(questions):
    code, out, err = text(questions.ask("what", "is", "1+1?"))
    assert (code, out) == (0, "2\n")
    assert questions.asked() == ["POST /execute"]  # and nothing before it, or after
    assert questions.body() == {"question": "what is 1+1?"}
    assert questions.asked_for[0].headers["accept"] == "text/event-stream"
    lines = err.splitlines()
    assert "claude-sonnet-5-5" in lines[0] and questions.cli.data in lines[0]
    assert lines[1] == "| print(2)"
    assert lines[2] == (
        "-- 1.30s: model 1.20s, sandbox 0.03s, 812 + 203 tokens, $0.0042; sandbox sb-1, go on with: cay ask -c ..."
    )
    assert len(lines) == 3 and "\x1b" not in err
    assert saved(questions) == {}  # nothing was written, so nothing was made


def test_all_that_can_be_said(questions):
    flags = ["-l", "js", "-m", "opus", "-s", "a b", "--context", "x", "-t", "2s", "--retries", "0", "--max-tokens", "99", "--no-cache"]
    assert questions.ask(*flags, "q").returncode == 0
    assert questions.body() == {
        "question": "q", "language": "javascript", "model": "opus", "sandboxId": "a b", "context": "x", "timeout": 2000,
        "retries": 0, "maxTokens": 99, "cache": False,
    }  # fmt: skip


@pytest.mark.parametrize("args", [["-"], []])
def test_from_standard_input(questions, args):
    assert questions.ask(*args, input="ä\n\"b\"\n".encode()).returncode == 0
    assert questions.body() == {"question": 'ä\n"b"\n'}


def test_quiet(questions):
    assert text(questions.ask("-q", "q")) == (0, "2\n", "")


def test_json(questions):
    questions.files["/workspace/a.txt"] = b"a"
    more = result(files=[{"path": "/workspace/a.txt", "size": 1}], output="\x1b[2J\u202e")
    questions.play_events(*USUAL[:-1], ("result", {"text": "<Figure>", "png": PNG}), ("done", more))
    code, out, err = text(questions.ask("--json", "q"))
    assert (code, err) == (0, "") and json.loads(out) == more
    assert "\x1b" not in out and "\u202e" not in out
    assert saved(questions) == {}
    assert text(questions.ask("--json", "-o", "here", "q"))[0] == 0
    assert saved(questions) == {"here/a.txt": b"a"}


def test_results_and_pictures(questions):
    questions.play_events(START, GENERATED, ("result", {"text": "42"}), ("display", {"text": "<Figure>", "png": PNG}), DONE)
    code, out, err = text(questions.ask("q"))
    assert (code, out) == (0, "42\n<Figure>\n")
    (path,) = saved(questions)
    assert path == "DIR/cay-1.png" and "cay: wrote cay-2" in err
    code, out, err = text(questions.ask("--no-files", "q"))
    assert (code, out) == (0, "42\n<Figure>\n") and "not kept" in err and len(saved(questions)) == 1


def test_no_directory_without_need(questions):
    """A page beside its text is not kept, so the place that was made for it goes again."""
    questions.play_events(START, GENERATED, ("result", {"text": "1 2", "html": "<b>"}), DONE)
    assert questions.ask("q").stdout == b"1 2\n"
    assert [n for n in os.listdir(questions.work) if n.startswith("cay-")] == []


def test_code_from_before(questions):
    questions.play_events(START, ("generated", {"code": "print(2)", "cached": True, "attempt": 1}), OUT, ("done", result(cached=True)))
    code, _, err = text(questions.ask("q"))
    assert code == 0 and "before" in err and "| print(2)" in err and "cache" in err


FAILED = ("error", {"name": "NameError", "message": "no x", "traceback": ["Traceback:", "  line 1"]})
REPAIR = ("repair", {"attempt": 1, "error": "NameError: no x"})


def test_a_repair(questions):
    events = [START, GENERATED, ("stdout", {"text": "half"}), FAILED, REPAIR, GENERATED, OUT, ("done", result(attempts=2))]
    questions.play_events(*events)
    code, out, err = text(questions.ask("q"))
    assert (code, out) == (0, "2\n")  # that of the attempt that counts
    assert "Traceback:\n  line 1\nNameError: no x\n-- that failed; the model tries again\n" in err


def test_output_is_not_held_where_nothing_follows(questions):
    """Without another attempt it comes at once."""
    go = threading.Event()

    def play(request, number):
        yield chunked(*encode(USUAL[:-1]), end=False)
        assert go.wait(PATIENCE)
        yield chunk(encode([*USUAL])[-1]) + b"0\r\n\r\n"

    questions.execute = play
    with questions.cli.start("ask", "--retries", "0", "q", cwd=questions.work) as process:
        assert process.stdout.read(2) == b"2\n"
        go.set()
        assert process.wait(PATIENCE) == 0


def test_a_failure(questions):
    more = result(success=False, error="NameError: no x", error_code="CODE_FAILED")
    questions.play_events(START, GENERATED, ("stdout", {"text": "half"}), FAILED, ("done", more))
    code, out, err = text(questions.ask("q"))
    assert (code, out) == (1, "half\n")
    assert err.count("NameError: no x") == 1


@pytest.mark.parametrize(
    "error_code, expected",
    [("NO_CODE", 1), ("MODEL_REFUSED", 1), ("MAX_TOKENS", 1), ("EXECUTION_TIMEOUT", 124), ("CANCELLED", 130), ("SANDBOX_LOST", 125)],
)
def test_no_result(questions, error_code, expected):
    questions.play_events(START, ("done", result(success=False, error="it \x1b[2J says why", error_code=error_code, sandboxId=None)))
    code, out, err = text(questions.ask("q"))
    assert (code, out) == (expected, "")
    assert "cay: cancelled" in err if error_code == "CANCELLED" else "cay: it \\x1b[2J says why" in err
    assert "go on" not in err


def test_errors_of_the_server(questions):
    body = {"error": "the key is not taken", "error_code": "AUTH_ERROR", "request_id": "r-1"}
    questions.execute = lambda request, number: [answer(json.dumps(body).encode(), "401 Unauthorized")]
    refused(questions.ask("q"), 125, "the key is not taken")
    questions.play_events(START, ("done", {**body, "status": 401}))
    code, out, err = text(questions.ask("-v", "q"))
    assert (code, out) == (125, "") and "cay: the key is not taken" in err and "AUTH_ERROR" in err
    assert "cay secret set anthropic" in err and "CAY_TOKEN" not in err  # the model's key, not ours
    assert text(questions.ask("--json", "q"))[:2] == (125, "")


@pytest.mark.parametrize("event", [("done", []), ("done", 1), ("stdout", {"data": 1})])
def test_events_that_make_no_sense(questions, event):
    questions.play_events(START, event)
    assert questions.ask("-q", "q").returncode == 125
    assert len(questions.asked_for) == 1


def test_it_is_written_anew(questions):
    questions.play_events(START, *CODE, ("restart", {"reason": "overloaded"}), *CODE, GENERATED, OUT, DONE)
    assert text(questions.ask("q"))[1] == "2\n"


@pytest.mark.parametrize(
    "args, words",
    [
        (["-l", "cobol", "q"], ["cobol", "python"]),
        (["--retries", "9", "q"], ["--retries"]),
        (["--max-tokens", "0", "q"], ["--max-tokens"]),
        (["-c", "-s", "x", "q"], ["which"]),
        (["--context", "x", "q"], ["--sandbox"]),
        (["--no-files", "-o", "x", "q"], ["--no-files"]),
        (["--key", "a", "--key-file", "b", "q"], ["which"]),
        (["-s", "", "q"], ["sandbox"]),
    ],
)
def test_usage(questions, args, words):
    refused(questions.ask(*args), 2, *words)
    assert questions.asked() == []


@pytest.mark.parametrize("prompt", [b"", b" \n", b"\xff", b"a\0b", b"x" * (100 * 1024 + 1)])
def test_what_is_no_question(questions, prompt):
    refused(questions.ask("-", input=prompt), 125)
    assert questions.asked() == []


def test_help_teaches(questions):
    done = questions.ask("--help")
    assert done.returncode == 0
    for word in ("Examples:", "cay ask -c", "--json", "ANTHROPIC_API_KEY", ".env", "Exit codes", "Ctrl-C"):
        assert word in done.stdout.decode()


# -- going on


def test_going_on(questions):
    refused(questions.ask("-c", "q"), 125, "nothing was asked")
    assert questions.ask("q").returncode == 0
    path = os.path.join(questions.work, ".local/state/cay/ask")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert questions.ask("-c", "q").returncode == 0
    assert questions.body(1) == {"question": "q", "sandboxId": "sb-1"}
    questions.play_events(START, ("done", result(sandboxId="sb-2")))
    assert questions.ask("--sandbox", "last", "q").returncode == 0
    questions.ask("-c", "q")
    assert questions.body(3)["sandboxId"] == "sb-2"
    other = os.path.join(questions.work, "other")
    os.mkdir(other)
    refused(questions.ask("-c", "q", cwd=other), 125, "nothing was asked")
    with open(path, encoding="utf-8") as f:
        assert f.read().count("\n") == 1


def test_nowhere_to_keep_it(questions):
    code, _, err = text(questions.ask("q", env={"HOME": ""}))
    assert code == 0 and "sandbox sb-1\n" in err and "go on" not in err


def test_a_state_file_of_somebody_else(questions, tmp_path):
    os.makedirs(os.path.join(questions.work, ".local/state/cay"))
    victim = tmp_path / "victim"
    victim.write_text("keep")
    os.symlink(victim, os.path.join(questions.work, ".local/state/cay/ask"))
    assert text(questions.ask("-q", "q")) == (0, "2\n", "")
    assert victim.read_text() == "keep"


# -- files


def play_files(questions, *paths):
    questions.play_events(START, OUT, ("done", result(files=[{"path": p, "size": 1} for p in paths])))


def test_files(questions):
    questions.files = {"/workspace/a%20b.txt": b"one", "/workspace/x/y/z.bin": bytes(range(256)) * 1000, "/tmp/t": b""}
    play_files(questions, "/workspace/a b.txt", "/workspace/x/y/z.bin", "/tmp/t", "/workspace/gone")
    code, out, err = text(questions.ask("q"))
    assert (code, out) == (0, "2\n")
    assert saved(questions) == {"DIR/a b.txt": b"one", "DIR/x/y/z.bin": bytes(range(256)) * 1000, "DIR/tmp/t": b""}
    assert re.search(r"cay: saved cay-\d{8}-\d{6}/x/y/z.bin \(250 KiB\)", err)
    assert "not saved: gone" in err and "no such file" in err
    questions.requests.clear()
    assert questions.ask("--no-files", "q").returncode == 0
    assert questions.asked() == ["POST /execute"]


@pytest.mark.parametrize(
    "path",
    ["/workspace/../../etc/x", "/workspace/..", "..", "x", "", "/", "/workspace/", "/workspace/a//b", "/workspace/./a",
     "/workspace/a/", "/workspace/a\0b", "/workspace/" + "n" * 256, "/workspace/" + "a/" * 600 + "b", None, 7, ["/workspace/a"]],
    ids=repr,
)  # fmt: skip
def test_names_that_are_refused(questions, path):
    play_files(questions, path)
    code, out, err = text(questions.ask("q"))
    assert (code, out) == (0, "2\n") and "not saved" in err
    assert saved(questions) == {} and not [r for r in questions.requests if "/files" in r.target]


def test_names_are_shown_plain(questions):
    name = "/workspace/a\x1b[2J\u202e\nb"
    questions.files = {"/workspace/a%1B%5B2J%E2%80%AE%0Ab": b"1"}
    play_files(questions, name)
    err = questions.ask("q").stderr.decode()
    assert "a\\x1b[2J\\u202e\\x0ab" in err and "\x1b" not in err and "\u202e" not in err


def test_nothing_is_written_over_and_no_link_followed(questions, tmp_path):
    out = os.path.join(questions.work, "out")
    os.mkdir(out)
    (tmp_path / "keep").write_text("keep")
    os.symlink(tmp_path, os.path.join(out, "dir"))
    os.symlink(tmp_path / "new", os.path.join(out, "link"))
    with open(os.path.join(out, "there"), "w", encoding="utf-8") as f:
        f.write("mine")
    questions.files = {f"/workspace/{n}": b"evil" for n in ("dir/keep", "dir/new", "link", "there", "fine")}
    play_files(questions, *questions.files)
    err = questions.ask("-o", "out", "q").stderr.decode()
    assert err.count("not saved") == 4
    assert sorted(os.listdir(tmp_path)) == ["keep"] and (tmp_path / "keep").read_text() == "keep"
    with open(os.path.join(out, "there"), encoding="utf-8") as f:
        assert f.read() == "mine"
    with open(os.path.join(out, "fine"), encoding="utf-8") as f:
        assert f.read() == "evil"


def test_half_a_file_is_none(questions):
    questions.files = {"/workspace/ok": b"ok"}
    play_files(questions, "/workspace/half", "/workspace/ok")
    whole = questions.reply
    broken = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    questions.answer = lambda request, number: [broken] if request.target.endswith("half") else whole(request, number)
    assert "not saved: half" in questions.ask("q").stderr.decode()
    assert saved(questions) == {"DIR/ok": b"ok"}


def test_many_files(questions):
    paths = [f"/workspace/{n}" for n in range(1010)]
    questions.files = {p: b"" for p in paths}
    play_files(questions, *paths)
    err = questions.ask("q").stderr.decode()
    assert err.count("cay: saved") == 20 and "and 980 more" in err and "more than 1000" in err
    assert len(saved(questions)) == 1000


# -- connections that break


def break_at(questions, cut, breaks=1, reset=False, events=USUAL):
    keys = set()

    def play(request, number):
        whole = stream(events, request)
        if request.method == "POST":
            keys.add(request.headers["idempotency-key"])
        else:
            assert request.target == "/execute/r-1" and "last-event-id" in request.headers
        if number < breaks and cut < len(whole):
            return [whole[:cut], StandIn.RESET] if reset else [whole[:cut]]
        return [whole]

    questions.asked_for.clear()
    questions.execute = play
    done = questions.ask("-q", "q")
    assert len(keys) == 1
    return done


def test_a_stream_that_breaks_at_every_place(questions):
    for cut in range(0, len(stream(USUAL)), 3 if FULL else 61):
        assert text(break_at(questions, cut, reset=cut % 2 == 0)) == (0, "2\n", ""), cut


def test_a_stream_that_breaks_again_and_again(questions):
    assert text(break_at(questions, 300, breaks=4)) == (0, "2\n", "")
    assert [r.method for r in questions.asked_for][-1] == "GET"


def test_a_stream_that_is_gone(questions):
    """The events are kept for a while only; the answer stays."""

    def play(request, number):
        if request.method == "POST":
            return [stream(USUAL[:3], end=False)]
        if request.headers["accept"] == "text/event-stream":
            return [answer(b'{"error": "gone", "error_code": "NOT_FOUND"}', "404 Not Found")]
        return [answer(json.dumps(result()).encode())]

    questions.execute = play
    assert text(questions.ask("-q", "q")) == (0, "2\n", "")
    questions.asked_for.clear()
    assert json.loads(questions.ask("--json", "q").stdout) == result()


def test_an_answer_that_is_lost(questions):
    def play(request, number):
        if request.method == "POST":
            return [stream(USUAL[:3], end=False)]
        status = "404 Not Found" if request.headers["accept"] == "text/event-stream" else "410 Gone"
        return [answer(b'{"error": "lost in a crash", "error_code": "GONE"}', status)]

    questions.execute = play
    code, out, err = text(questions.ask("-q", "q"))
    assert (code, out) == (125, "") and "lost in a crash" in err


# -- signals


def slow(questions, before, after):
    """Plays the first events, waits for a DELETE, and plays the others."""
    go = threading.Event()

    def play(request, number):
        if request.method == "DELETE":
            go.set()
            yield answer(b'{"success": true}')
            return
        yield chunked(*encode(before), end=False)
        assert go.wait(PATIENCE)
        yield b"".join(chunk(e) for e in encode([*before, *after], len(before))) + b"0\r\n\r\n"

    questions.execute = play


CANCELLED = ("done", result(success=False, error="it was cancelled", error_code="CANCELLED"))


def test_interrupt(questions):
    slow(questions, [START, GENERATED, OUT], [CANCELLED])
    with questions.cli.start("ask", "--retries", "0", "q", cwd=questions.work) as process:
        assert process.stdout.read(2) == b"2\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert b"cay: cancelled" in process.stderr.read()
    assert questions.asked()[:2] == ["POST /execute", "DELETE /execute/r-1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_end_it_at_once(questions, number):
    slow(questions, [START, GENERATED, OUT], [CANCELLED])
    with questions.cli.start("ask", "--retries", "0", "q", cwd=questions.work) as process:
        assert process.stdout.read(2) == b"2\n"
        process.send_signal(number)
        assert process.wait(PATIENCE) == 128 + number
    questions.wait_for("DELETE /execute/r-1")


def test_a_second_interrupt_gives_up(questions):
    go = threading.Event()

    def play(request, number):
        if request.method == "DELETE":
            yield answer(b'{"success": true}')
            return
        yield chunked(*encode([START, OUT]), end=False)
        go.wait(PATIENCE)

    questions.execute = play
    with questions.cli.start("ask", "--retries", "0", "q", cwd=questions.work) as process:
        assert process.stdout.read(2) == b"2\n"
        process.send_signal(signal.SIGINT)
        questions.wait_for("DELETE /execute/r-1")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    go.set()


def test_a_reader_that_goes(questions):
    many = [("stdout", {"text": "x" * 1000 + "\n"})] * 200
    slow(questions, [START, *many], [CANCELLED])
    with questions.cli.start("ask", "--retries", "0", "q", cwd=questions.work) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(PATIENCE) == 141
    questions.wait_for("DELETE /execute/r-1")


# -- the key

MISSING = answer(b'{"error": "no key", "error_code": "MISSING_API_KEY", "request_id": "r"}', "503 Service Unavailable")


@pytest.fixture
def keyless(questions):
    """A server that has no key until it gets one."""
    questions.secrets = []
    whole = questions.reply

    def reply(request, number):
        if request.target == "/secrets/anthropic" and request.method == "PUT":
            questions.secrets.append(json.loads(request.body))
            return [answer(b'{"success": true}')]
        if request.target == "/execute" and not questions.secrets:
            return [MISSING]
        return whole(request, number)

    questions.answer = reply
    return questions


def secret(value, upstream="https://api.anthropic.com", bearer=False):
    how = {"header": "Authorization", "format": "Bearer {}"} if bearer else {"header": "x-api-key", "format": "{}"}
    return {"value": value, "upstream": upstream, **how}


def write(questions, name, data):
    path = os.path.join(questions.work, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(data)
    return path


def test_no_key_anywhere(keyless):
    refused(keyless.ask("-y", "q"), 125, "ANTHROPIC_API_KEY", ".env", "--key-file")
    assert keyless.asked() == ["POST /execute"]  # once: waiting would not help


def test_a_key_is_not_given_unasked(keyless):
    refused(keyless.ask("q", env={"ANTHROPIC_API_KEY": "sk-1"}), 125, "-y", "ANTHROPIC_API_KEY")
    assert keyless.secrets == []


@pytest.mark.parametrize(
    "env, expected",
    [
        ({"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_AUTH_TOKEN": "t"}, secret("sk-1")),
        ({"ANTHROPIC_AUTH_TOKEN": "tok-1"}, secret("tok-1", bearer=True)),
        ({"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_BASE_URL": "https://m.example"}, secret("sk-1", "https://m.example")),
    ],
)
def test_a_key_of_the_environment(keyless, env, expected):
    write(keyless, ".env", "ANTHROPIC_API_KEY=other\n")
    code, out, err = text(keyless.ask("-y", "q", env=env))
    assert (code, out) == (0, "2\n") and keyless.secrets == [expected]
    assert "cay: stored the key from ANTHROPIC" in err and expected["upstream"] in err
    assert expected["value"] not in err
    assert keyless.asked() == ["POST /execute", "PUT /secrets/anthropic", "POST /execute"]


def test_a_key_in_a_file(keyless):
    write(keyless, "key", "sk-file\n")
    assert text(keyless.ask("-y", "--key-file", "key", "q", env={"ANTHROPIC_API_KEY": "sk-1"}))[0] == 0
    assert keyless.secrets == [secret("sk-file")]
    keyless.secrets.clear()
    refused(keyless.ask("-y", "--key-file", "nowhere", "q"), 125, "nowhere")


def test_a_key_on_the_command_line(keyless):
    code, _, err = text(keyless.ask("-y", "--key", "sk-flag", "q"))
    assert code == 0 and keyless.secrets == [secret("sk-flag")] and "seen by others" in err
    code, _, err = text(keyless.ask("-y", "--key", "sk-flag", "q"))
    assert code == 0 and len(keyless.secrets) == 1 and "not used" in err


@pytest.mark.parametrize(
    "env_file, expected",
    [
        ("ANTHROPIC_API_KEY=sk-2", secret("sk-2")),
        ("\ufeff# a comment\n\nexport  ANTHROPIC_API_KEY = 'sk-2' # yes\r\n", secret("sk-2")),
        ('ANTHROPIC_API_KEY="sk-\\"2"\nANTHROPIC_BASE_URL=https://m.example # here\n', secret('sk-"2', "https://m.example")),
        ("ANTHROPIC_API_KEY=old\nX=$(touch ran)\nANTHROPIC_API_KEY=new#er\n", secret("new#er")),
        ("ANTHROPIC_API_KEY=\nANTHROPIC_AUTH_TOKEN=t\n", secret("t", bearer=True)),
        ("MY_ANTHROPIC_API_KEY=x\nANTHROPIC_API_KEY_2=y\n", None),
        ("ANTHROPIC_API_KEY='sk-2\n", None),
        ("ANTHROPIC_API_KEY=sk 2\n", None),
        ("ANTHROPIC_API_KEY=$(cat key)\n", None),
        ("ANTHROPIC_API_KEY=sk\0\n", None),
        ("X=" + "x" * 70000 + "\nANTHROPIC_API_KEY=sk\n", None),
    ],
)
def test_a_key_in_an_env_file(keyless, env_file, expected):
    write(keyless, ".env", env_file)
    done = keyless.ask("-y", "q")
    assert keyless.secrets == ([expected] if expected else []), done
    assert done.returncode == (0 if expected else 125)
    assert not os.path.exists(os.path.join(keyless.work, "ran"))


@pytest.mark.skipif(os.geteuid() != 0, reason="makes files of others")
def test_an_env_file_of_somebody_else(keyless, tmp_path):
    path = write(keyless, ".env", "ANTHROPIC_API_KEY=sk-2\n")
    os.chown(path, 12345, 12345)
    code, _, err = text(keyless.ask("-y", "q"))
    assert code == 125 and ".env is not read" in err and keyless.secrets == []
    assert keyless.ask("-y", "q", env={"SUDO_UID": "12345"}).returncode == 0  # they have called us
    keyless.secrets.clear()
    os.chown(path, 0, 0)
    os.chmod(path, 0o666)
    assert keyless.ask("-y", "q").returncode == 125
    os.unlink(path)
    target = tmp_path / "env"
    target.write_text("ANTHROPIC_API_KEY=sk-2\n")
    os.symlink(target, path)
    os.lchown(path, 12345, 12345)
    assert keyless.ask("-y", "q").returncode == 125 and keyless.secrets == []
    os.lchown(path, 0, 0)
    assert keyless.ask("-y", "q").returncode == 0 and keyless.secrets == [secret("sk-2")]


def test_a_server_that_does_not_take_it(keyless):
    whole = keyless.answer

    def reply(request, number):
        if request.method == "PUT":
            return [answer(b'{"error": "may not", "error_code": "FORBIDDEN"}', "403 Forbidden")]
        return whole(request, number)

    keyless.answer = reply
    refused(keyless.ask("-y", "q", env={"ANTHROPIC_API_KEY": "sk-1"}), 125, "may not", "give the key")


# -- no server


def test_nobody_there_and_nobody_to_ask(questions, tmp_path):
    questions.cli.data = str(tmp_path)
    refused(questions.ask("q"), 125, f"no server at {tmp_path}", "-y")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_only_root_starts_one(questions, tmp_path):
    os.chmod(questions.directory, 0o755)
    env = clean_env(**NO_KEYS, HOME="/", CAY_DATA="/nowhere/at/all")
    done = subprocess.run(
        [questions.cli.program, "ask", "-y", "q"], capture_output=True, stdin=subprocess.DEVNULL, env=env, check=False,
        timeout=PATIENCE, user=12345, group=12345, extra_groups=[], cwd="/",
    )  # fmt: skip
    refused(done, 125, "sudo cay serve", "CAY_URL")


def test_a_server_that_was_named_is_not_started(questions, tmp_path):
    for url in (f"unix:{tmp_path}/x.sock", "http://127.0.0.1:1"):
        done = questions.cli.run("ask", "-y", "--url", url, "q", cwd=questions.work)
        refused(done, 125, "no server at")


# -- the whole of it with sanitizers, where there is such a program


@pytest.mark.skipif(not os.path.exists(CAY_SAN), reason="no program with sanitizers")
def test_with_sanitizers(keyless):
    keyless.cli.program = CAY_SAN
    keyless.files = {"/workspace/a/b": b"1"}
    events = [START, *CODE, GENERATED, FAILED, REPAIR, GENERATED, SANDBOX, OUT, ("result", {"text": "x", "png": PNG})]
    events.append(("done", result(files=[{"path": "/workspace/a/b", "size": 1}, {"path": "../b", "size": 1}])))
    keyless.play_events(*events)
    write(keyless, ".env", "export ANTHROPIC_API_KEY='sk-2' #\n")
    code, out, err = text(keyless.ask("-y", "q"))
    assert (code, out) == (0, "2\nx\n") and "Sanitizer" not in err, err
    assert text(keyless.ask("-c", "q"))[0] == 0
