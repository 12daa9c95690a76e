# SPDX-License-Identifier: Apache-2.0
"""Cells that mean harm, or do it without meaning to. The kernel goes on and keeps to the protocol."""

import json
import subprocess
import time

import pytest
from python_kernel import PYTHON, Kernel, bundle


@pytest.fixture
def kernel():
    with Kernel() as one:
        yield one


def text(answer):
    return answer.result["text"]


def is_well(kernel):
    assert text(kernel.run("6 * 7")) == "42"
    assert kernel.run("1 / 0").error["name"] == "ZeroDivisionError"
    return True


@pytest.mark.parametrize(
    "code",
    [
        "import builtins\nfor n in ('print', 'open', 'len', 'repr', 'type', 'isinstance', 'str', 'compile', 'eval', 'exec', 'int', 'list'):\n    setattr(builtins, n, None)",
        "import builtins\ndef bad(*a, **k): raise RuntimeError\nbuiltins.__import__ = bad",
        "import json\njson.dumps = json.loads = None",
        "import os\nos.write = os.read = os.getpid = None",
        "import sys\nsys.stdout = sys.stderr = sys.__stdout__ = None",
        "import io, sys\nsys.stdout = io.StringIO(); sys.stdout.close()",
        "import sys\nsys.stdout.close(); sys.stderr.close()",
        "import sys\nfor n in [n for n in sys.modules if n.startswith('cay')]: del sys.modules[n]",
        "import sys\nsys.modules.clear()",
        "import sys\nsys.meta_path.clear(); sys.path.clear()",
        "import sys\nsys.path_hooks.clear(); sys.path_importer_cache.clear()",
        "import traceback, linecache\ntraceback.TracebackException = linecache.getline = linecache.cache = None",
        "import sys\ndef tr(*a): raise RuntimeError\nsys.excepthook = sys.displayhook = sys.unraisablehook = tr",
        "import sys\nsys.settrace(lambda *a: None)",
        "globals().clear()",
        "del __builtins__",
        "import time\ntime.monotonic = time.time = None",
        "import threading\nthreading.Thread.start = None",
        "import gc\ngc.disable()",
        "import sys\nsys.exit = None; sys.getrecursionlimit = None",
        "import signal\nsignal.signal(signal.SIGINT, lambda *a: 1/0)",
        "import asyncio\nasyncio.run = asyncio.new_event_loop = None",
        "_ = __ = ___ = Out = In = 5",
        "import os\nos.close(1); os.close(2)",
        "import os\nos.chdir('/')\nos.environ.clear()",
    ],
)
def test_cells_that_break_things(kernel, code):
    assert kernel.run(code).error is None
    assert is_well(kernel)


def test_builtins_are_the_users_to_change(kernel):
    kernel.run("import builtins\nbuiltins.twice = lambda x: 2 * x\nbuiltins.len = lambda x: 7")
    assert text(kernel.run("twice(4), len('')")) == "(8, 7)"
    assert text(kernel.run("[1, 2]")) == "[1, 2]"


def test_fork_in_a_cell(kernel):
    """The child comes to the end of the cell as well, and says nothing to the daemon."""
    answer = kernel.run("import os\nprint('one')\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('two')\n'value'")
    assert answer.stdout == "one\ntwo\ntwo\n" and text(answer) == "'value'"
    answer = kernel.run("pid = os.fork()\nif pid == 0: 1/0\nos.waitpid(pid, 0)[1]")
    assert text(answer) == "256" and "ZeroDivisionError" in answer.stderr
    answer = kernel.run("import sys\npid = os.fork()\nif pid == 0: sys.exit(3)\nos.waitpid(pid, 0)[1] >> 8")
    assert text(answer) == "3" and answer.stderr == ""
    answer = kernel.run("pid = os.fork()\nif pid == 0:\n    display('child')\n    os._exit(0)\nos.waitpid(pid, 0)\nNone")
    assert answer.displays == []
    assert is_well(kernel)


def test_descriptors_of_the_protocol_are_not_inherited(kernel):
    answer = kernel.run("import os\nos.system('ls /proc/self/fd');")
    assert not {"60", "61"} & set(answer.stdout.split())
    answer = kernel.run("import subprocess\nsubprocess.run(['ls', '/proc/self/fd'], close_fds=False);")
    assert not {"60", "61"} & set(answer.stdout.split())


def test_forked_child_that_lives_on(kernel):
    """The cell ends although its child keeps the streams."""
    assert kernel.run("import os, time\nif os.fork() == 0:\n    time.sleep(0.5)\n    os._exit(0)").error is None
    assert is_well(kernel)


def test_repr_that_fails(kernel):
    error = kernel.run("class Bad:\n    def __repr__(self): raise ValueError('no repr')\nBad()").error
    assert (error["name"], error["message"]) == ("ValueError", "no repr")
    error = kernel.run("class Odd:\n    def __repr__(self): return 5\nOdd()").error
    assert error["name"] == "TypeError"
    assert kernel.run("[Bad()]").error["name"] == "ValueError"
    assert is_well(kernel)


def test_large_values_are_bounded(kernel):
    assert 1 << 20 <= len(text(kernel.run("'x' * (300 << 20)"))) < (1 << 20) + 100
    assert len(text(kernel.run("b'x' * (30 << 20)"))) < (1 << 20) + 100
    shown = kernel.run("list(range(10_000_000))").result
    assert shown["text"].endswith("...]") and "json" not in shown
    assert len(text(kernel.run("class Huge:\n    def __repr__(self): return 'y' * (64 << 20)\nHuge()"))) < (1 << 20) + 100
    shown = kernel.run("class Html:\n    def _repr_html_(self): return 'z' * (9 << 20)\n    def __repr__(self): return 'html'\nHtml()").result
    assert "html" not in shown and "left out" in shown["text"] and shown["text"].startswith("html")
    assert len(text(kernel.run("[['a' * 1000] * 900] * 900"))) < (1 << 20) + 100
    answer = kernel.run("import sys\n10 ** 5000")
    assert answer.error or answer.result
    shown = kernel.run("class Wide:\n    def _repr_html_(self): return '漢' * (4 << 20)\n    def __repr__(self): return '漢' * (2 << 20)\nWide()").result
    assert "html" not in shown and 1 << 19 < len(shown["text"].encode()) < (1 << 20) + 200
    assert is_well(kernel)


def test_cycles_and_depth(kernel):
    assert text(kernel.run("x = [1]; x.append(x); x")) == "[1, [...]]"
    assert "json" not in kernel.run("x").result
    assert text(kernel.run("d = {}; d['d'] = d; d")) == "{'d': {...}}"
    kernel.run("deep = []\nfor _ in range(500): deep = [deep]")
    assert "json" not in kernel.run("deep").result
    kernel.run("for _ in range(100_000): deep = [deep]")
    assert kernel.run("deep").count
    kernel.run("deep = None")
    assert is_well(kernel)


def test_json_only_when_it_is_json(kernel):
    assert kernel.run("{'a': [1, 2.5, None, True, 'x']}").result["json"] == {"a": [1, 2.5, None, True, "x"]}
    assert kernel.run("[float('nan'), float('inf')]").result["json"] == [None, None]
    for code in ("[1 << 70]", "[object()]", "{1: 2, '1': 3}", "[b'']", "{(1, 2): 3}"):
        assert "json" not in kernel.run(code).result
    assert kernel.run("{'a\\0': '\\0'}").result["json"] == {"a\ufffd": "\ufffd"}


def test_json_of_numpys_numbers(kernel):
    assert kernel.run("import numpy as np\n{'n': np.int64(3), 'f': np.float32(0.5)}").result["json"] == {"n": 3, "f": 0.5}


def test_threads_that_outlive_the_cell(kernel):
    code = "import threading, time\ndef go():\n    for i in range(300):\n        display(i); print(i); time.sleep(0.001)\nt = threading.Thread(target=go); t.start()"
    kernel.run(code)
    for _ in range(20):
        assert is_well(kernel)
    kernel.run("t.join()")
    assert is_well(kernel)


def test_sys_exit_in_a_thread(kernel):
    kernel.run("import sys, threading\nt = threading.Thread(target=sys.exit); t.start(); t.join()")
    assert is_well(kernel)


def test_memory_error(kernel):
    kernel.run("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, -1))")
    assert kernel.run("x = bytearray(4 << 30)").error["name"] == "MemoryError"
    assert is_well(kernel)


def test_sigint_in_a_storm(kernel):
    """Interrupts at any moment: each cell ends, each frame is whole."""
    for turn in range(60):
        kernel.begin("for i in range(50): display(i); print('x' * 100)\ni" if turn % 2 else "1 + 1")
        for _ in range(turn % 5):
            time.sleep(0.0005 * turn / 10)
            kernel.interrupt()
        answer = kernel.end()
        assert answer.error is None or answer.error["name"] == "KeyboardInterrupt"
    assert is_well(kernel)


def test_source_that_is_hard_to_parse(kernel):
    for code in ("(" * 1000, "-" * 100_000 + "1", "x = " + "[" * 150 + "]" * 150, "a" * 1_000_000, "\x0c\n1", "\r\n1\r\n"):
        assert kernel.run(code).count
    assert is_well(kernel)


FORKER = """
import os, sys
sys.argv = ['-c']
source = open({bundle!r}).read().replace('start.run()', '')
exec(compile(source, '<cay>', 'exec'), {{'__name__': 'cay_boot'}})
import random, tempfile, numpy, pandas, uuid, multiprocessing
random.random(); numpy.random.rand()
from cay_kernel import main
main.prepare()
main.run()
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A bundle that behaves as a fork of a zygote does: prepare(), then run()."""
    path = tmp_path_factory.mktemp("bundle") / "bundle.py"
    path.write_bytes(bundle())
    return FORKER.format(bundle=str(path)).encode()


def test_prepared_kernel(prepared):
    with Kernel(source=prepared) as kernel:
        assert is_well(kernel)
        assert "html" in kernel.run("import pandas as pd\npd.DataFrame({'a': [1]})").result
        assert kernel.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);").images
        assert text(kernel.run("sorted(n for n in globals() if not n.startswith('_'))")) == "['In', 'Out', 'pd', 'plt']"
        assert text(kernel.run("import threading; threading.active_count()")) == "1"


def test_prepared_kernel_is_unfit_for_another_library(prepared, tmp_path):
    (tmp_path / "pandas.py").write_text("x = 1")
    with Kernel(source=prepared, is_opened=False) as kernel:
        kind, _, payload = kernel.open(str(tmp_path))
        assert kind == "unfit" and "pandas" in payload["message"]
        assert kernel.wait() == 0
    with Kernel(source=prepared, is_opened=False) as kernel:
        env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)}
        assert kernel.open("/", env=env)[0] == "unfit"


SIBLINGS = FORKER.replace("main.run()", "").replace(
    "random.random(); numpy.random.rand()", "random.seed(1); numpy.random.seed(1); next(tempfile._get_candidate_names())"
) + """
import json
from cay_kernel import opening
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        opening.forget_siblings()
        draws = [random.random(), float(numpy.random.rand()), next(tempfile._get_candidate_names()), str(uuid.uuid4()),
                 bytes(multiprocessing.current_process().authkey).hex()]
        print(json.dumps(draws), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_siblings_share_no_random_state(prepared):
    path = prepared.decode().split("open('")[1].split("'")[0]
    done = subprocess.run([PYTHON, "-I", "-c", SIBLINGS.format(bundle=path)], capture_output=True, check=True)
    one, two = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(a != b for a, b in zip(one, two)), (one, two)
