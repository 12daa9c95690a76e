# SPDX-License-Identifier: Apache-2.0
"""docs/INTERPRETER.md, followed from its first line to its last: what it says is typed, what it shows is looked for. The
server has a zygote, as one has that nobody has configured."""

import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time

import api_helpers
import pytest
from api_helpers import ADMIN, CAY, PATIENCE, TOP, Client, eventually
from doc_helpers import differences, follow, squeeze, steps

PAGE = TOP / "docs" / "INTERPRETER.md"
NEEDED = ["jq", "node", "gcc", "curl"]
CELL_READY = {"code": "import sys\nprint('pandas' in sys.modules)"}


# --- the page


def is_repl(step):
    return step[0] == "cay repl"


# --- the server


@pytest.fixture(scope="module")
def server(top):
    """As the page has it: with what is loaded ahead."""
    from conftest import need_root

    need_root()
    for program in NEEDED:
        if shutil.which(program) is None:
            pytest.skip(f"the page uses {program}")
    for module in ("pandas", "matplotlib"):
        if subprocess.run(["/usr/bin/python3", "-c", f"import {module}"], capture_output=True, check=False).returncode:
            pytest.skip(f"the page uses {module}")
    data = tempfile.mkdtemp(prefix="interpreter-", dir=top)
    server = api_helpers.Server(data, "--preload", "numpy,pandas,matplotlib")
    eventually(lambda: finds_pandas(Client(server)))
    yield server
    assert server.stop() == 0
    assert server.faults() == []


def finds_pandas(api):
    api.ok("PUT", "/sandbox/warm", {})
    try:
        return api.ok("POST", "/sandbox/warm/code", CELL_READY)["logs"]["stdout"] == ["True\n"]
    finally:
        api("DELETE", "/sandbox/warm")


@pytest.fixture
def environment(server):
    return {
        **os.environ,
        "CAY": f"http://127.0.0.1:{server.port}",
        "AUTH": f"Authorization: Bearer {ADMIN}",
        "CAY_PROGRAM": CAY,
        "CAY_DATA": str(server.data),
        "ASAN_OPTIONS": "detect_leaks=0",
    }


def test_most_of_it_is_run():
    found = steps(PAGE)
    assert len(found) >= 50
    assert sum(1 for step in found if is_repl(step)) == 1
    assert len([step for step in found if step[1]]) >= 40


def test_followed(environment, tmp_path):
    found = [step for step in steps(PAGE) if not step[0].startswith("export ") and not is_repl(step)]
    outputs = follow(found, environment, tmp_path)
    wrong = differences(found, outputs)
    assert not wrong, "\n".join(wrong)


# --- what is loaded ahead

SAME = [
    "import pandas as pd, numpy as np, matplotlib, matplotlib.pyplot as plt",
    "pd.DataFrame(np.arange(2000).reshape(100, 20))",
    "pd.DataFrame({'text': ['x' * 200]}, index=pd.date_range('2024-01-01', periods=1))",
    "pd.get_option('display.max_columns'), pd.get_option('display.width'), pd.get_option('display.max_rows')",
    "pd.get_option('display.html.table_schema'), np.get_printoptions(), np.geterr()",
    "matplotlib.get_backend(), plt.isinteractive(), sorted(matplotlib.rcParams.items(), key=str)",
    "import sys; sys.path, sys.argv, sys.flags, sys.getrecursionlimit(), sys.dont_write_bytecode",
    "import locale; locale.getlocale(), locale.getpreferredencoding(), sys.stdout.encoding, type(sys.stdin)",
    "import os; sorted(os.environ.items()), os.getcwd(), os.umask(0o22), os.getuid(), os.nice(0)",
    "import signal; [(s, signal.getsignal(s)) for s in (2, 15, 13, 1, 17)], signal.pthread_sigmask(0, [])",
    "import warnings; sorted(str(f[:3]) for f in warnings.filters)",
    "warnings.warn('careful', DeprecationWarning); warnings.warn('again', FutureWarning)",
    "import logging; logging.getLogger().level, logging.getLogger('matplotlib').level, logging.root.handlers",
    "import threading; threading.active_count(), threading.current_thread() is threading.main_thread()",
    "import multiprocessing; multiprocessing.current_process().name, multiprocessing.get_start_method()",
    "import tempfile; tempfile.gettempdir(), os.path.expanduser('~')",
    "__name__, __builtins__, sys.modules['__main__'].__dict__ is globals()",
    "import gc; gc.isenabled(), gc.get_threshold()",
    "import resource; [resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE, resource.RLIMIT_STACK)]",
    "open('/proc/self/stat').read().split()[1], sys.executable, sys.prefix, sys.version",
    "sorted(os.listdir('/proc/self/fd'), key=int)[:3], open('/proc/self/status').read().split('CapEff:')[1][:60]",
    "plt.plot([1, 2]); plt.show(); plt.plot([3]); print('between')",
    "plt.gcf().canvas.manager is None, plt.get_fignums()",
    "import inspect\ndef f():\n    return 1\ninspect.getsource(f)",
    "import time; time.tzname, time.timezone",
    "os.sched_getaffinity(0) == set(range(os.cpu_count())), os.getpgid(0) == os.getpid(), os.getppid()",
]


def told(api, box, code):
    answer = api.ok("POST", f"/sandbox/{box}/code", {"code": code})
    for result in answer["results"]:
        result.pop("svg", None)  # it has names that are made up
    return [answer[field] for field in ("logs", "results", "reason")], answer.get("error")


def test_what_is_loaded_ahead_is_as_what_a_cell_loads(server):
    """Libraries look around when they are imported: in a zygote they must not find anything else than in a cell."""
    api = Client(server)
    api.ok("PUT", "/sandbox/forked", {})
    api.ok("PUT", "/sandbox/started", {"sharedZygote": False})
    assert finds_pandas(api)
    other = []
    for code in SAME:
        forked, started = told(api, "forked", code), told(api, "started", code)
        if forked != started:
            other.append(f"{code}\n  forked:  {str(forked)[:1500]}\n  started: {str(started)[:1500]}")
    for box in ("forked", "started"):
        api("DELETE", f"/sandbox/{box}")
    assert not other, "\n".join(other)


# --- the conversation


class Terminal:
    """A program on a terminal: what it shows, without its moving about."""

    def __init__(self, command, environment, where):
        self.shown = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(where)
            os.execvpe(command[0], command, environment)

    def type(self, line):
        os.write(self.fd, line.encode() + b"\r")

    def wait_for(self, text):
        end = time.monotonic() + PATIENCE
        while squeeze(text) not in squeeze(self.shown):
            assert time.monotonic() < end, f"no {text!r} in:\n{self.shown}"
            assert self.read(), f"it ended without {text!r}:\n{self.shown}"

    def read(self):
        if not select.select([self.fd], [], [], 0.2)[0]:
            return True
        try:
            raw = os.read(self.fd, 65536)
        except OSError:  # its end
            return False
        self.shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", raw.decode(errors="replace"))
        return bool(raw)

    def end(self):
        while self.read():
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_conversation(environment, tmp_path):
    """Each line is typed when its prompt has come; answers are looked for in between."""
    shown = next(step for step in steps(PAGE) if is_repl(step))[1]
    env = {**environment, "TERM": "xterm", "HOME": str(tmp_path)}
    terminal = Terminal([CAY, "repl"], env, tmp_path)
    for line in shown:
        prompt, typed = line[:4], line[4:]
        if prompt.rstrip() in (">>>", "..."):
            terminal.wait_for(prompt)
            terminal.shown = ""
            terminal.type(typed)
        else:
            for part in line.split("…"):
                terminal.wait_for(part)
    assert terminal.end() == 0
