# SPDX-License-Identifier: Apache-2.0
"""`cay code`: what it asks for, and what it makes of the events that come back."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading

import pytest
from cli_helpers import CAY, PATIENCE, Cli, clean_env, refused
from code_helpers import PNG, START, Cells, end, event
from standin import answer, chunked


@pytest.fixture
def cells():
    path = tempfile.mkdtemp(prefix="cay-cells-")
    server = Cells(path)
    server.cli = Cli(path)
    server.work = os.path.join(path, "work")
    os.mkdir(server.work)
    yield server
    server.close()
    shutil.rmtree(path)


def run(cells, *args, **kwargs):
    return cells.cli.run("code", *args, cwd=cells.work, **kwargs)


def text(done):
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_sandbox_of_its_own_that_goes(cells):
    cells.play_cell(event("stdout", {"text": "hi\n"}), event("result", {"type": "result", "text": "3"}), end())
    assert text(run(cells, "-c", "print('hi'); 1+2")) == (0, "hi\n3\n", "")
    assert cells.asked() == ["POST /sandbox", "POST /sandbox/made-1/code", "DELETE /sandbox/made-1"]
    assert json.loads(cells.requests[0].body)["languages"] == ["python"]
    assert cells.cells == [{"code": "print('hi'); 1+2", "language": "python"}]


def test_keep(cells):
    assert text(run(cells, "-k", "-i", "data", "-c", "1")) == (0, "", "cay: in sandbox made-1\n")
    assert cells.asked() == ["POST /sandbox", "POST /sandbox/made-1/code"]
    assert json.loads(cells.requests[0].body)["image"] == "data"


def test_in_a_sandbox_that_is_there(cells):
    assert run(cells, "-s", "a b", "--context", "x", "-t", "2s", "-e", "A=1", "-c", "1").returncode == 0
    assert cells.asked() == ["POST /sandbox/a%20b/code"]
    assert cells.cells == [{"code": "1", "context": "x", "timeout": 2000, "env": {"A": "1"}}]


@pytest.mark.parametrize(
    "name, language",
    [("a.py", "python"), ("a.mjs", "javascript"), ("a.ts", "typescript"), ("x.y.sh", "bash"), ("a.R", "r"), ("a.cc", "cpp")],
)
def test_language_by_ending(cells, name, language):
    path = os.path.join(cells.work, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write("ä = 1\n")
    assert run(cells, name).returncode == 0
    assert cells.cells == [{"code": "ä = 1\n", "language": language}]


def test_standard_input(cells):
    assert run(cells, "-l", "js", "-", input=b"1\n2\n").returncode == 0
    assert cells.cells == [{"code": "1\n2\n", "language": "js"}]


@pytest.mark.parametrize(
    "args, words",
    [
        ([], ["no code"]),
        (["-c", "1", "x.py"], ["which"]),
        (["x.py", "y.py"], ["one FILE"]),
        (["noending"], ["-l NAME"]),
        (["--context", "x", "-c", "1"], ["--sandbox"]),
        (["-s", "a", "--keep", "-c", "1"], ["--keep"]),
        (["-s", "a", "--context", "x", "-l", "python", "-c", "1"], ["--language"]),
        (["-t", "soon", "-c", "1"], ["soon"]),
    ],
)
def test_usage(cells, args, words):
    refused(run(cells, *args), 2, *words)
    assert cells.requests == []


def test_what_is_no_code(cells):
    refused(run(cells, "none.py"), 125, "none.py")
    for data, words in ((b"\xff\xfe", "UTF-8"), (b"a\0b", "UTF-8"), (b"x" * ((4 << 20) + 1), "4 MiB")):
        refused(run(cells, "-", input=data), 125, words)
    assert cells.requests == []


@pytest.mark.parametrize(
    "reason, code",
    [("error", 1), ("timeout", 124), ("interrupted", 130), ("oom", 137), ("killed", 137), ("exit", 1), ("box_lost", 125)],
)
def test_exit_codes(cells, reason, code):
    cells.play_cell(end(reason, message="in words \x1b[31m" if reason == "exit" else None))
    done = run(cells, "-c", "1")
    assert (done.returncode, done.stdout) == (code, b"")
    if reason == "exit":
        assert done.stderr == b"cay: in words \\x1b[31m\n"
    assert cells.asked()[-1] == "DELETE /sandbox/made-1"
    cells.cell = lambda request, number: [answer(json.dumps({"success": False, "reason": reason}).encode())]
    done = run(cells, "--json", "-c", "1")
    assert (done.returncode, json.loads(done.stdout)["reason"]) == (code, reason)


def test_errors_go_to_standard_error(cells):
    lines = ["Traceback (most recent call last):\n", '  File "<cell 1>", line 2\n', "\tcode\x1b]0;x\x07\n", "ValueError: no\n"]
    error = {"name": "ValueError", "message": "no", "traceback": lines, "lineNumber": 2}
    cells.play_cell(event("stdout", {"text": "half"}), event("error", error), end("error"))
    code, out, err = text(run(cells, "-c", "1"))
    assert (code, out) == (1, "half\n")
    assert err == 'Traceback (most recent call last):\n  File "<cell 1>", line 2\n\tcode\\x1b]0;x\\x07\nValueError: no\n'
    cells.play_cell(event("error", {"name": "E", "message": "m", "traceback": []}), end("error"))
    assert text(run(cells, "-c", "1")) == (1, "", "E: m\n")


@pytest.mark.parametrize(
    "shown, out",
    [
        ({"text": "  a\n0 1", "html": "<table>"}, "  a\n0 1\n"),
        ({"text": "{'a': 1}", "json": {"a": 1}}, "{'a': 1}\n"),
        ({"json": {"a": [1, {}], "b": "\u202e"}}, '{\n  "a": [\n    1,\n    {}\n  ],\n  "b": "\\u202e"\n}\n'),
        ({"text": "<IPython.core.display.Markdown object>", "markdown": "# x"}, "# x\n"),
        ({"text": "<object at 0x7f>"}, "<object at 0x7f>\n"),
        ({"latex": "$x$"}, "$x$\n"),
        ({"data": {"application/x": "1"}}, ""),
        ({"text": 7, "png": 8, "json": None}, "null\n"),
        ({}, ""),
    ],
)
def test_results_as_text(cells, shown, out):
    cells.play_cell(event("display", {"type": "display", **shown}), end())
    assert text(run(cells, "-c", "1")) == (0, out, "")
    assert os.listdir(cells.work) == []


def test_pictures_are_files(cells):
    figure = {"text": "<Figure size 1x1 with 1 Axes>", "png": PNG, "svg": "<svg/>"}
    cells.play_cell(event("result", figure), event("result", figure), event("display", {"svg": "<svg/>"}), end())
    with open(os.path.join(cells.work, "cay-c-1-1.png"), "w", encoding="utf-8") as f:
        f.write("mine")
    code, out, err = text(run(cells, "-c", "1"))
    assert (code, out) == (0, "<Figure size 1x1 with 1 Axes>\n" * 2)
    assert [line.split()[2] for line in err.splitlines()] == ["./cay-c-1-2.png", "./cay-c-1-3.png", "./cay-c-1-4.svg"]
    for name, data in (("2.png", base64.b64decode(PNG)), ("1.png", b"mine"), ("4.svg", b"<svg/>")):
        with open(os.path.join(cells.work, "cay-c-1-" + name), "rb") as f:
            assert f.read() == data
    assert run(cells, "-o", "/no/such", "-c", "1").returncode == 0  # the rest of it is worth having


def test_a_picture_that_is_none_and_a_hostile_name(cells):
    start = event("start", {"id": "../../etc/x\x1b", "context": "x-1", "language": "python"})
    bad = [{"png": "AAAA"}, {"png": "!"}, {"jpeg": PNG}, {"png": PNG}]
    cells.cell = lambda request, number: [chunked(start, *[event("result", b) for b in bad], end())]
    code, out, err = text(run(cells, "-c", "1"))
    assert (code, out) == (0, "")
    assert err.count("picture that is no") == 3 and "\x1b" not in err
    assert os.listdir(cells.work) == ["cay-etcx-1.png"]


def test_a_stream_that_breaks_goes_on(cells):
    first = [chunked(START, event("stdout", {"text": "a"}, 1), end=False), cells.RESET]
    rest = [chunked(event("stdout", {"text": "b\n"}, 2), end())]
    cells.cell = lambda request, number: [first, rest][number]
    assert text(run(cells, "-c", "1")) == (0, "ab\n", "")
    posts = [r for r in cells.requests if r.target.endswith("/code")]
    assert "last-event-id" not in posts[0].headers and posts[1].headers["last-event-id"] == "c-1:1"
    assert posts[0].headers["idempotency-key"] == posts[1].headers["idempotency-key"]


def test_what_the_server_refuses(cells):
    error = {"error": "python3 is missing: add package \x1b[1mpython3", "error_code": "LANGUAGE_MISSING"}
    cells.cell = lambda request, number: [answer(json.dumps(error).encode(), "501 Not Implemented")]
    refused(run(cells, "-c", "1"), 125, "add package \\x1b[1mpython3")
    assert cells.asked()[-1] == "DELETE /sandbox/made-1"
    cells.cell = lambda request, number: [chunked(START, b"event: result\ndata: {\n\n")]
    refused(run(cells, "-c", "1"), 125, "no JSON")
    assert cells.asked()[-1] == "DELETE /sandbox/made-1"


def hold(cells, *after):
    """A cell that has begun and waits; it goes on when somebody interrupts it."""
    cells.go = threading.Event()
    old = cells.reply

    def reply(request, number):
        if request.target.endswith("/interrupt"):
            cells.go.set()
        return old(request, number)

    def play(request, number):
        del request, number
        yield chunked(START, event("stdout", {"text": "begun\n"}), end=False)
        assert cells.go.wait(PATIENCE)
        for piece in after:
            yield b"%x\r\n%s\r\n" % (len(piece), piece)
        yield b"0\r\n\r\n"

    cells.answer = reply
    cells.cell = play


def begin(cells, *args):
    process = cells.cli.start("code", *args, cwd=cells.work)
    assert process.stdout.readline() == b"begun\n"
    return process


def test_interrupt(cells):
    error = {"name": "KeyboardInterrupt", "message": "", "traceback": ["KeyboardInterrupt\n"]}
    hold(cells, event("error", error), end("interrupted"))
    process = begin(cells, "-c", "1")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, b"", b"KeyboardInterrupt\n")
    assert cells.asked()[2:] == ["POST /sandbox/made-1/contexts/x-1/interrupt", "DELETE /sandbox/made-1"]


@pytest.mark.parametrize("signals", [[signal.SIGINT, signal.SIGINT], [signal.SIGTERM]])
def test_giving_up(cells, signals):
    hold(cells)
    cells.answer = cells.reply  # nothing comes of the interrupt
    process = begin(cells, "-c", "1")
    for number in signals:
        before = len(cells.requests)
        process.send_signal(number)
        while len(cells.requests) == before and process.poll() is None:
            pass
    out, _ = process.communicate(timeout=PATIENCE)
    cells.go.set()
    assert (process.returncode, out) == (128 + signals[-1], b"")
    assert cells.asked()[-1] == "DELETE /sandbox/made-1"


def test_nobody_reads_any_more(cells):
    cells.play_cell(*[event("stdout", {"text": "x" * 60000 + "\n"}) for _ in range(40)], end())
    command = cells.cli.command("code", "-c", "1")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_env())
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(PATIENCE) == 128 + signal.SIGPIPE
    assert process.stderr.read() == b""
    process.stderr.close()
    assert cells.asked()[-1] == "DELETE /sandbox/made-1"  # it does not stay behind


def test_help_and_completion():
    done = subprocess.run([CAY, "code", "--help"], capture_output=True, check=True)
    assert b"--language" in done.stdout and b"--context" in done.stdout


# -- against the real daemon


@pytest.fixture
def work(tmp_path, cli):
    """`cay code` in a directory of its own."""
    return lambda *args, **kwargs: cli.run("code", *args, cwd=tmp_path, **kwargs)


def test_real_cells_leave_nothing_behind(cli, work):
    before = cli.ok("ls", "-q")
    assert text(work("-c", "import sys; print('out'); print('err', file=sys.stderr); 6 * 7")) == (0, "out\n42\n", "err\n")
    code, out, err = text(work("-c", "def f():\n    return 1 / 0\nf()"))
    assert (code, out) == (1, "") and err.endswith("ZeroDivisionError: division by zero\n") and "line 2" in err
    assert work("-t", "300ms", "-c", "while True: pass").returncode == 124
    assert work("-c", "import os; os._exit(3)").returncode == 1
    assert text(work("-l", "bash", "-e", "A=1 2", "-c", 'echo "$A"')) == (0, "1 2\n", "")
    assert cli.ok("ls", "-q") == before


def test_real_state_stays_in_a_sandbox(work, sandbox):
    assert text(work("-s", sandbox, "-c", "x = {'a': [6]}")) == (0, "", "")
    assert text(work("-s", sandbox, "-c", "x")) == (0, "{'a': [6]}\n", "")
    assert json.loads(work("-s", sandbox, "--json", "-c", "x").stdout)["results"][0]["json"] == {"a": [6]}


def test_real_interrupt(cli, sandbox):
    process = cli.start("code", "-s", sandbox, "-c", "x = 5\nprint('begun', flush=True)\nwhile True: pass")
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and b"KeyboardInterrupt" in err
    assert cli.ok("code", "-s", sandbox, "-c", "x") == "5\n"


def test_real_output_comes_as_it_is_written(cli, sandbox):
    code = "import os, time\nprint('first', flush=True)\nwhile not os.path.exists('gate'): time.sleep(0.02)\nprint('last')"
    process = cli.start("code", "-s", sandbox, "-c", code)
    assert process.stdout.readline() == b"first\n"
    cli.ok("exec", sandbox, "--", "touch", "gate")
    assert process.communicate(timeout=PATIENCE) == (b"last\n", b"")
    assert process.returncode == 0


def test_real_picture(work, tmp_path):
    code = "import matplotlib.pyplot as p\np.plot([1, 2])"
    done = work("-c", f"try:\n    import matplotlib\nexcept ImportError:\n    print('none')\nelse:\n    exec({code!r})")
    if done.stdout == b"none\n":
        pytest.skip("the machine has no matplotlib")
    assert done.returncode == 0, done.stderr
    (name,) = os.listdir(tmp_path)
    assert name.endswith("-1.png") and f"wrote ./{name}".encode() in done.stderr
    assert (tmp_path / name).read_bytes().startswith(b"\x89PNG\r\n")
