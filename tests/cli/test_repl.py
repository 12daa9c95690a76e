# SPDX-License-Identifier: Apache-2.0
"""`cay repl`: with lines from a pipe, and under a real terminal."""

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time

import pytest
from cli_helpers import PATIENCE, Cli, refused
from code_helpers import PNG, START, Cells, end, event
from pty_helpers import Pty
from standin import chunked


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


def echo(cells):
    """Each cell gives its own code back."""

    def play(request, number):
        del request
        code = cells.cells[number]["code"]
        return [chunked(START, event("result", {"text": f"<<{code}>>"}), end(executionCount=number + 1))]

    cells.cell = play


def codes(cells):
    return [c["code"] for c in cells.cells]


# -- without a terminal


def run(cells, text, *args):
    return cells.cli.run("repl", *args, input=text.encode(), cwd=cells.work)


def test_lines(cells):
    echo(cells)
    done = run(cells, "x = 1\n\nx\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"<<x = 1>>\n<<x>>\n", b"")
    assert cells.asked()[0] == "POST /sandbox" and cells.asked()[-1] == "DELETE /sandbox/made-1"
    assert all(c["language"] == "python" and c["timeout"] > 86400000 for c in cells.cells)


@pytest.mark.parametrize(
    "language, text, expected",
    [
        ("python", "def f(a,\n      b):\n    return 1\n\nf()\n", ["def f(a,\n      b):\n    return 1", "f()"]),
        ("python", "def f():\n  return 1\nf()\n", ["def f():\n  return 1", "f()"]),
        ("python", "if x:\n  1\nelse:\n  2\ny\n", ["if x:\n  1\nelse:\n  2", "y"]),
        ("python", "@d\ndef f(): pass\nf()\n", ["@d\ndef f(): pass", "f()"]),
        ("python", 's = """a\n\nb"""\ns', ['s = """a\n\nb"""', "s"]),
        ("javascript", "f(`a\n${b({\n})}`)\n1", ["f(`a\n${b({\n})}`)", "1"]),
        ("bash", "for i in 1 2; do\necho $i\ndone\ncat <<E\nx\nE\n: x\n", ["for i in 1 2; do\necho $i\ndone", "cat <<E\nx\nE", ": x"]),
    ],
)
def test_cells_of_several_lines(cells, language, text, expected):
    assert run(cells, text, "-l", language).returncode == 0
    assert codes(cells) == expected


def test_the_last_cell_counts_without_a_terminal(cells):
    failed = [chunked(START, event("error", {"name": "E", "message": "m", "traceback": []}), end("error", executionCount=None))]
    fine = [chunked(START, end(executionCount=None))]
    cells.cell = lambda request, number: [failed, fine][number % 2]
    assert run(cells, "1\n2\n").returncode == 0
    done = run(cells, "1\n2\n3\n")
    assert (done.returncode, done.stderr) == (1, b"E: m\nE: m\n")


def test_own_commands(cells):
    echo(cells)
    with open(os.path.join(cells.work, "in.py"), "w", encoding="utf-8") as f:
        f.write("a\nb\n")
    done = run(cells, "1\n:load in.py\n:save out.py\n:save out.py\n:restart\n:interrupt\n:lang js\n2\n:lang\n:what\n:help\n:sandbox\n:quit\n3\n")
    assert done.stdout == b"<<1>>\n<<a\nb\n>>\n<<2>>\n"
    err = done.stderr.decode()
    assert "out.py" in err and "File exists" in err and "no such command" in err and "javascript" in err and "made-1" in err
    with open(os.path.join(cells.work, "out.py"), encoding="utf-8") as f:
        assert f.read() == "1\n\na\nb\n"
    assert [c["language"] for c in cells.cells] == ["python", "python", "javascript"]
    assert "POST /sandbox/made-1/contexts/x-1/restart" in cells.asked()
    assert "POST /sandbox/made-1/contexts/x-1/interrupt" in cells.asked()


@pytest.mark.parametrize(
    "args, words",
    [
        (["-l", "c"], ["cay code -l c"]),
        (["-l", "klingon"], ["klingon", "python"]),
        (["--context", "x"], ["--sandbox"]),
        (["-s", "a", "-k"], ["--keep"]),
        (["--json"], ["cay code"]),
        (["word"], ["no words"]),
    ],
)
def test_usage(cells, args, words):
    refused(run(cells, "1\n", *args), 2, *words)
    assert cells.requests == []


def test_a_signal_while_it_waits_for_lines(cells):
    process = cells.cli.start("repl", stdin=subprocess.PIPE)
    process.stdin.write(b"1\n")
    process.stdin.flush()
    while not cells.cells:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 143
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()
    assert cells.asked()[-1] == "DELETE /sandbox/made-1"


def test_state_that_is_lost_is_told(cells):
    cells.cell = lambda request, number: [chunked(START, end(executionCount=[1, 2, 1][number]))]
    done = run(cells, "1\n2\n3\n")
    assert done.stderr.decode().count("what was defined is gone") == 1


# -- with one


class Terminal(Pty):
    def __init__(self, cells, *args, **env):
        env = {"TERM": "xterm", "HOME": cells.work, "XDG_STATE_HOME": "", **env}
        super().__init__(cells.cli.command("repl", *args), cwd=cells.work, **env)

    def __enter__(self):
        self.greeting = self.until(">>> ")
        return self

    def cell(self, keys, shown):
        """Types, and waits until the cell has given this back."""
        self.type(keys)
        self.until(f"<<{shown}>>".replace("\n", "\r\n"))
        self.until(">>> ")


def test_editing(cells):
    echo(cells)
    with Terminal(cells) as t:
        t.cell("1 + 1\r", "1 + 1")
        t.cell("ac\x1b[Db\x01x\x05y\r", "xabcy")
        t.cell("one two\x17three\r", "one three")
        t.cell("gone\x15kept\r", "kept")
        t.cell("äöü\x7f\x1b[D\x1b[3~é\r", "äé")
        t.cell("\x1b[A\x1b[A!\r", "kept!")
        t.cell("\x1b[A\x1b[A\x1b[B\x1b[B own\r", " own")
        t.cell("\x12thr\r", "one three")
        t.cell("if x:\r    1\r\r", "if x:\n    1")
        t.cell("\x1b[200~def f():\n    a\n\n    b\n\x1b[201~\r\r", "def f():\n    a\n\n    b")
        t.cell("(\r1)\r", "(\n1)")
        t.type("wasted\x03")
        t.until("^C\r\n")
        t.cell("after\r", "after")
        t.type("\x04")
        assert t.end() == 0
    assert cells.asked()[-1] == "DELETE /sandbox/made-1"


def test_what_is_said_first(cells):
    for args, words in (([], "goes when you leave"), (["--keep"], "which is kept")):
        with Terminal(cells, *args) as t:
            assert "python in sandbox made-1" in t.greeting and words in t.greeting
            t.type(":quit\r")
            assert t.end() == 0
    assert cells.asked().count("DELETE /sandbox/made-1") == 1


def test_history_stays(cells):
    echo(cells)
    with Terminal(cells) as t:
        t.cell("first\r", "first")
        t.cell("if x:\r  y\\n\r\r", "if x:\n  y\\n")
        t.cell(" secret\r", " secret")
        t.type("\x04")
        t.end()
    path = os.path.join(cells.work, ".local/state/cay/history")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with open(path, encoding="utf-8") as f:
        assert f.read() == "first\nif x:\\n  y\\\\n\n"
    with Terminal(cells) as t:
        t.cell("\x1b[A\r\r", "if x:\n  y\\n")
        t.cell("\x12fir\r", "first")
        t.type("\x04")
        t.end()


def test_interrupt(cells):
    go = threading.Event()
    old = cells.reply

    def reply(request, number):
        if request.target.endswith("/interrupt"):
            go.set()
        return old(request, number)

    def play(request, number):
        del request
        if number == 2:
            go.clear()
        yield chunked(START, event("stdout", {"text": f"begun{number}\n"}), end=False)
        assert number == 1 or go.wait(PATIENCE)
        tail = end("interrupted" if number == 0 else "done", executionCount=number + 1)
        yield b"%x\r\n%s\r\n0\r\n\r\n" % (len(tail), tail)

    cells.answer = reply
    cells.cell = play
    with Terminal(cells) as t:
        t.type("1\r")
        t.until("begun0")
        t.type("\x03")
        t.until(">>> ")
        t.type("2\r")
        t.until("begun1")
        t.until(">>> ")
        t.type("3\r")
        t.until("begun2")
        cells.answer = cells.reply  # it does not heed
        for _ in range(2):
            seen = len(cells.requests)
            t.type("\x03")
            while len(cells.requests) == seen:
                time.sleep(0.01)
        t.until("no longer waiting")
        go.set()
        t.until(">>> ")
        t.type("\x04")
        assert t.end() == 0


def test_rows_on_the_screen(cells):
    """Long lines, resizing, Ctrl-L, and a paste higher than the screen do no harm to the text."""
    echo(cells)
    long = "x" * 200
    with Terminal(cells) as t:
        t.type(long)
        t.until("x" * 40)
        t.resize(33, 10)
        t.type("\x0cé\r")
        t.until(f"<<{long}é>>")
        t.until(">>> ")
        rows = "(" + "\n".join(f"{i}," for i in range(60)) + ")"
        t.type(f"\x1b[200~{rows}\x1b[201~\r")
        t.until("58,\r\n59,)>>")
        t.until(">>> ")
        t.type("\x04")
        assert t.end() == 0
    assert codes(cells) == [long + "é", rows]


@pytest.mark.parametrize(
    "env, shown",
    [
        ({"TERM": "xterm-kitty"}, "\x1b_Ga=T,f=100,q=2,m=0;" + PNG + "\x1b\\"),
        ({"TERM_PROGRAM": "iTerm.app"}, "\x1b]1337;File=inline=1:" + PNG + "\x07"),
        ({"TERM": "xterm-kitty", "TMUX": "x"}, None),
        ({"KITTY_WINDOW_ID": ""}, None),
    ],
)
def test_pictures_in_place(cells, env, shown):
    cells.play_cell(event("result", {"text": "<Figure>", "png": PNG}), end())
    env = {k: v for k, v in env.items() if v}
    with Terminal(cells, **env) as t:
        t.type("1\r")
        seen = t.until("cay: wrote ./cay-c-1-1.png")
        assert (shown in seen) if shown else ("\x1b_G" not in seen and "1337" not in seen)
        t.until(">>> ")  # before, the terminal itself would take the key
        t.type("\x04")
        t.end()


def test_a_terminal_that_cannot_edit(cells):
    echo(cells)
    with Terminal(cells, TERM="dumb") as t:
        t.type("if x:\n")
        t.until("... ")
        t.type("  1\n\n")
        t.until("<<if x:\r\n  1>>")
        assert not re.search(r"\x1b", t.until(">>> "))
        t.type("\x04")
        assert t.end() == 0


def test_hang_up(cells):
    with Terminal(cells) as t:
        t.process.send_signal(signal.SIGHUP)
        assert t.process.wait(PATIENCE) in (0, 129)
    assert cells.asked()[-1] == "DELETE /sandbox/made-1"


# -- against the real daemon


@pytest.mark.parametrize(
    "language, text, out",
    [
        ("python", "x = 6\ndef f():\n  return x * 7\nf()\n", b"42\n"),
        ("javascript", "const x = {\na: 6}\nx.a * 7\n", b"42\n"),
        ("bash", "f() {\n  echo $((x * 7))\n}\nx=6\nf\n", b"42\n"),
    ],
)
def test_real_conversations(cli, language, text, out):
    done = cli.run("repl", "-l", language, input=text.encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, out, b"")


def test_real_terminal(cli, tmp_path):
    cli.work = str(tmp_path)
    cli.cli = cli
    with Terminal(cli) as t:
        t.type("x = 5\r")
        t.until(">>> ")
        t.type("while True: print('on') or __import__('time').sleep(0.1)\r")
        t.until("on\r\non\r\n")
        t.type("\x03")
        t.until("KeyboardInterrupt")
        t.until(">>> ")
        t.type("x + 1\r")
        t.until("6\r\n")
        t.until(">>> ")
        t.type(":restart\r")
        t.until("started anew")
        t.until(">>> ")
        t.type("x\r")
        t.until("NameError")
        t.until(">>> ")
        t.type("\x04")
        assert t.end() == 0
    assert cli.ok("ls", "-q") == ""


@pytest.mark.parametrize("word", ["exit", "exit()", "quit()", "quit ;", ".exit"])
def test_a_farewell_is_heard(cells, word):
    echo(cells)
    assert run(cells, f"1\n{word}\n2\n").returncode == 0
    assert codes(cells) == ["1"]
