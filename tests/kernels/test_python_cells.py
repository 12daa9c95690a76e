# SPDX-License-Identifier: Apache-2.0
"""Cells of the Python kernel: state, results, errors, output."""

import os
import time

import pytest
from python_kernel import PATIENCE, Answer, Kernel


@pytest.fixture(scope="module")
def shared():
    with Kernel() as kernel:
        yield kernel


@pytest.fixture
def kernel():
    with Kernel() as one:
        yield one


def text(answer):
    return answer.result["text"]


def test_ready_and_open():
    with Kernel(is_opened=False) as kernel:
        kind, cell, payload = kernel.ready
        assert (kind, cell, payload["language"]) == ("ready", 0, "python")
        assert payload["version"].startswith("3.")
        kind, _, payload = kernel.open("/nowhere/at/all")
        assert kind == "failed" and "/nowhere/at/all" in payload["message"]
        assert kernel.open("/usr")[0] == "opened"
        assert text(kernel.run("import os; os.getcwd()")) == "'/usr'"


def test_environment_is_replaced_wholly():
    with Kernel(env={"ONE": "1", "PATH": "/usr/bin:/bin", "TZ": "Asia/Tokyo", "BYTES": "a\udcff"}) as kernel:
        assert text(kernel.run("import os; sorted(os.environ)")) == "['BYTES', 'ONE', 'PATH', 'TZ']"
        assert text(kernel.run("import time; time.tzname[0]")) == "'JST'"
        assert kernel.run("!echo $ONE").stdout == "1\n"
        assert text(kernel.run("os.environb[b'BYTES']")) == "b'a\\xff'"


def test_end_of_control_in_ends_the_kernel(kernel, tmp_path):
    path = tmp_path / "left"
    kernel.run(f"import atexit; atexit.register(lambda: open({str(path)!r}, 'w').write('x'))")
    os.close(kernel.to)
    kernel.to = None
    assert kernel.wait() == 0
    assert path.read_text() == "x"


def test_path_of_modules(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here" / "mine.py").write_text("x = 'here'")
    (tmp_path / "there" / "yours.py").write_text("x = 'there'")
    base = tmp_path / "base"
    with Kernel(is_opened=False) as kernel:
        version = ".".join(kernel.ready[2]["version"].split(".")[:2])
    user = base / "lib" / f"python{version}" / "site-packages"
    user.mkdir(parents=True)
    (user / "users.py").write_text("x = 'user'")
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "there"), "PYTHONUSERBASE": str(base), "HOME": "/root"}
    with Kernel(env=env, cwd=str(tmp_path / "here")) as kernel:
        code = "import mine, yours, users, sys; mine.x, yours.x, users.x, sys.path[0]"
        assert text(kernel.run(code)) == "('here', 'there', 'user', '')"


def test_env_of_one_cell(shared):
    assert text(shared.run("import os; os.environ['ONCE']", env={"ONCE": "x=1"})) == "'x=1'"
    assert text(shared.run("os.environ.get('ONCE', 'gone')")) == "'gone'"
    shared.run("os.environ['KEPT'] = 'mine'")
    assert text(shared.run("os.environ['KEPT']", env={"KEPT": "theirs"})) == "'theirs'"
    assert text(shared.run("os.environ['KEPT']")) == "'mine'"


def test_count_and_underscores(kernel):
    assert kernel.run("40 + 2").count == 1
    assert kernel.run("_ * 2").result == {"text": "84"}
    assert text(kernel.run("(_, __, _1, _2, Out[2], In[1])")) == "(84, 42, 42, 84, 84, '40 + 2')"
    answer = kernel.run("None")
    assert answer.results == [] and answer.count == 4
    kernel.run("_ = 'mine'")
    kernel.run("5")
    assert text(kernel.run("_")) == "'mine'"


@pytest.mark.parametrize(
    "code, shown",
    [
        ("1 + 1", "2"),
        ("1 + 1;", None),
        ("1 + 1; # quietly", None),
        ("(1 +\n 1)", "2"),
        ("x = 1", None),
        ("'a;'", "'a;'"),
        ("x = 1; x", "1"),
        ("# nothing", None),
        ("", None),
        ("if 1:\n    2", None),
        ("'\\ud800'", "'\\ud800'"),
        ("'é;' # é;", "'é;'"),
        ("'é' ;", None),
    ],
)
def test_last_expression(shared, code, shown):
    answer = shared.run(code)
    assert answer.error is None
    assert [one["text"] for one in answer.results] == ([] if shown is None else [shown])


def test_state_lives_in_a_real_main(shared):
    shared.run("import pickle, dataclasses, inspect, sys\n@dataclasses.dataclass\nclass Point:\n    x: int = 1\n")
    assert text(shared.run("pickle.loads(pickle.dumps(Point(3)))")) == "Point(x=3)"
    assert text(shared.run("sys.modules['__main__'].Point is Point, __name__")) == "(True, '__main__')"
    shared.run("def add(a, b):\n    return a + b  # here\n\nclass Named:\n    def f(self): pass\n")
    assert "# here" in text(shared.run("inspect.getsource(add)"))
    assert "def f" in text(shared.run("inspect.getsource(Named)"))
    assert text(shared.run("'x: int' in inspect.getsource(Point)")) == "True"


def test_multiprocessing(shared):
    shared.run("import multiprocessing as mp\ndef square(x): return x * x")
    answer = shared.run("with mp.get_context('fork').Pool(2) as pool:\n    out = pool.map(square, range(5))\nout")
    assert text(answer) == "[0, 1, 4, 9, 16]", answer.stderr


def test_future_imports_last(kernel):
    kernel.run("from __future__ import annotations")
    assert kernel.run("def f(x: Nowhere): pass").error is None


def test_error(shared):
    answer = shared.run("def f(x):\n    return 1 / x\n\nprint('before')\nf(0)\nprint('after')")
    assert answer.stdout == "before\n"
    error = answer.error
    assert (error["name"], error["message"], error["lineNumber"]) == ("ZeroDivisionError", "division by zero", 2)
    whole = "\n".join(error["traceback"])
    assert whole.startswith("Traceback (most recent call last):") and whole.endswith("ZeroDivisionError: division by zero")
    assert "f(0)" in whole and "return 1 / x" in whole and "<cay>" not in whole


def test_line_of_error_is_of_this_cell(shared):
    shared.run("\n\n\n\n\n\ndef far():\n    raise KeyError('k')")
    error = shared.run("x = 1\nfar()").error
    assert (error["name"], error["message"], error["lineNumber"]) == ("KeyError", "'k'", 2)
    assert "raise KeyError('k')" in "\n".join(error["traceback"])
    error = shared.run("import json\n\njson.loads('{')").error
    assert (error["name"], error["lineNumber"]) == ("JSONDecodeError", 3)


@pytest.mark.parametrize(
    "code, name, line",
    [
        ("x = 1\ny = (", "SyntaxError", 2),
        ("x = 1\n\nif x:\npass", "IndentationError", 4),
        ("x = 1\n  y = 2", "IndentationError", 2),
        ("a = 1\nb = $", "SyntaxError", 2),
        ("return 1", "SyntaxError", 1),
        ("def f():\n\treturn 1\n        return 2", "TabError", 3),
    ],
)
def test_syntax_errors(shared, code, name, line):
    error = shared.run(code).error
    assert (error["name"], error["lineNumber"]) == (name, line)
    assert "<cay>" not in "\n".join(error["traceback"])


def test_chained_and_grouped_errors(shared):
    error = shared.run("try:\n    1/0\nexcept Exception as e:\n    raise ValueError('next') from e").error
    whole = "\n".join(error["traceback"])
    assert "direct cause" in whole and "ZeroDivisionError" in whole and error["lineNumber"] == 4
    error = shared.run("class Odd(Exception):\n    def __str__(self): raise RuntimeError\nraise Odd()").error
    assert error["name"] == "Odd" and error["message"]


@pytest.mark.parametrize("code", ["exit()", "quit()", "import sys; sys.exit()", "raise SystemExit"])
def test_exit_is_an_error(shared, code):
    assert shared.run(code).error["name"] == "SystemExit"
    assert text(shared.run("'alive'")) == "'alive'"


def test_os_exit_ends_the_kernel(kernel):
    kernel.begin("import os; print('last words'); os._exit(7)")
    with pytest.raises(EOFError):
        kernel.end()
    assert kernel.wait() == 7


@pytest.mark.parametrize(
    "code", ["input('name? ')", "import sys; sys.stdin.read()", "sys.stdin.readline()", "for l in sys.stdin: pass",
             "import getpass; getpass.getpass()", "list(open(0)) and 1 or input()"]
)
def test_nobody_to_ask(shared, code):
    error = shared.run(code).error
    assert error["name"] == "EOFError" and "nobody to ask" in error["message"]


def test_warnings_show_the_line(shared):
    answer = shared.run("import warnings\nwarnings.warn('careful')")
    assert "UserWarning: careful" in answer.stderr and "warnings.warn('careful')" in answer.stderr
    assert "UserWarning: careful" in shared.run("import warnings\nwarnings.warn('careful')").stderr


def test_order_of_output_and_displays(shared):
    answer = shared.run("import sys\nfor i in range(20):\n    print(i)\n    display(i)")
    shown = [(kind, what.strip()) for kind, what in answer.order]
    assert shown == [pair for i in range(20) for pair in (("out", str(i)), ("display", str(i)))]


def test_output_is_live(kernel):
    """A line comes while the cell still runs, and so does a piece of one."""
    kernel.begin("import time\nprint('first')\ntime.sleep(0.05)\nprint('piece', end='')\ntime.sleep(600)")
    answer, deadline = Answer(), time.monotonic() + PATIENCE
    while answer.stdout != "first\npiece":
        assert time.monotonic() < deadline
        kernel._drain(answer)
        time.sleep(0.002)
    kernel.interrupt()
    assert kernel.end().error["name"] == "KeyboardInterrupt"


def test_much_output_is_whole(shared):
    answer = shared.run("for i in range(130_000): print(i, 'x' * 70)")
    lines = answer.stdout.splitlines()
    assert len(lines) == 130_000 and all(line.startswith(f"{i} x") for i, line in enumerate(lines))


def test_output_of_threads_and_programs(shared):
    answer = shared.run(
        "import threading, os, subprocess, sys\n"
        "def say(n):\n    for i in range(200): print(f'{n}-{i}\\n', end='')\n"
        "ts = [threading.Thread(target=say, args=(n,)) for n in range(4)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "print('a'); os.system('echo b'); print('c'); subprocess.run(['echo', 'd'])\n"
        "sys.stdout.buffer.write(b'\\xff\\n'); os.write(1, b'e\\n');"
    )
    lines = answer.out.splitlines()
    assert lines[-6:] == [b"a", b"b", b"c", b"d", b"\xff", b"e"]
    assert sorted(lines[:-6]) == sorted(b"%d-%d" % (n, i) for n in range(4) for i in range(200))


def test_odd_text(shared):
    assert shared.run("print('\\udcff', end='')").out == b"\xff"
    assert shared.run("print('\\ud800', end='')").out == b"\\ud800"
    assert shared.run("import sys\nprint('\\N{SNOWMAN}', end='', file=sys.stderr)").stderr == "☃"
    answer = shared.run("class Odd:\n    def __repr__(self): return 'a\\ud800b\\0c'\nOdd()")
    assert text(answer) == "a?b\ufffdc"
    error = shared.run("sys.stdout.write(b'x')").error
    assert error["name"] == "TypeError"


def test_c_level_output(shared):
    answer = shared.run("import ctypes\nctypes.CDLL(None).printf(b'from c\\n');")
    assert answer.stdout == "from c\n"


@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(1000)",
        "import asyncio; await asyncio.sleep(1000)",
        "import asyncio\nasync def f():\n    while True: await asyncio.sleep(0)\nawait f()",
        "class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
        "!sleep 1000",
        "import threading; threading.Event().wait()",
        "import asyncio; asyncio.run(asyncio.sleep(1000))",
    ],
)
def test_interrupt(shared, code):
    shared.begin(code)
    timers = [shared.interrupt_after(0.3 * n) for n in range(1, 4)]
    answer = shared.end()
    assert answer.error["name"] == "KeyboardInterrupt"
    for timer in timers:
        timer.join()
    assert text(shared.run("'alive'")) == "'alive'"


def test_interrupt_is_nothing_between_cells(shared):
    for _ in range(5):
        shared.interrupt()
    assert text(shared.run("'alive'")) == "'alive'"
    shared.run("import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)")
    shared.interrupt()
    assert text(shared.run("'alive'")) == "'alive'"
    shared.run("x = [0]\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt:\n    x[0] = 1")
    assert text(shared.run("x")) == "[1]"


def test_recursion(shared):
    error = shared.run("def f(n): return f(n + 1)\nf(0)").error
    assert error["name"] == "RecursionError" and len(error["traceback"]) < 300
    error = shared.run("def g(n): return h(n)\ndef h(n): return g(n)\ng(0)").error
    assert error["name"] == "RecursionError" and len(error["traceback"]) < 500
    assert shared.run("import sys; sys.setrecursionlimit(120)").error is None
    assert shared.run("1/0").error["name"] == "ZeroDivisionError"
    shared.run("sys.setrecursionlimit(1000)")
    assert shared.run("x = []\nfor _ in range(100000): x = [x]\nx").count


def test_awaiting(kernel):
    kernel.run("import asyncio\nasync def answer():\n    await asyncio.sleep(0.01)\n    return 42")
    assert text(kernel.run("await answer()")) == "42"
    assert kernel.run("async with asyncio.Lock() as l:\n    print('in')").stdout == "in\n"
    code = "async def numbers():\n    for i in range(3): yield i\nasync for i in numbers():\n    print(i)\n[i async for i in numbers()]"
    answer = kernel.run(code)
    assert answer.stdout == "0\n1\n2\n" and text(answer) == "[0, 1, 2]"
    error = kernel.run("x = 1\nawait asyncio.wait_for(asyncio.sleep(100), 0.01)").error
    assert error["name"] == "TimeoutError" and error["lineNumber"] == 2
    error = kernel.run("async def fail():\n    1/0\nawait fail()").error
    assert error["traceback"][1].startswith('  File "<cell ') and "asyncio" not in "\n".join(error["traceback"])


def test_tasks_go_on(kernel):
    kernel.run("import asyncio\nsaid = []\nasync def tick():\n    while True:\n        said.append(1)\n        await asyncio.sleep(0.001)")
    assert kernel.run("task = asyncio.create_task(tick())").error is None
    assert kernel.run("await asyncio.sleep(0.05); before = len(said)").error is None
    for _ in range(1000):
        time.sleep(0.01)
        if text(kernel.run("len(said) > before + 3")) == "True":
            break
    else:
        raise AssertionError("the task stands still between cells")
    kernel.begin("await asyncio.sleep(1000)")
    kernel.interrupt_after(0.2)
    assert kernel.end().error["name"] == "KeyboardInterrupt"
    assert text(kernel.run("task.done()")) == "False"
    assert text(kernel.run("asyncio.run(asyncio.sleep(0, 'own loop'))")) == "'own loop'"
    assert text(kernel.run("task.cancel()")) == "True"
    assert text(kernel.run("loop = asyncio.get_event_loop(); loop is task.get_loop()")) == "True"
