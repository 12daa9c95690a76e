# SPDX-License-Identifier: Apache-2.0
"""The interpreter, attacked from inside a cell and over HTTP. Whatever a cell does, its client is answered, its context
says what became of it and can be restarted, and nobody else notices."""

import itertools
import json
import os
import socket
import tempfile
import threading
import time

import pytest
from attack_helpers import ADMIN, PATIENCE, Client, Server, at_once, at_rest, daemon_pid, eventually, restarts

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def own(top):
    server = Server(tempfile.mkdtemp(prefix="interpreter-", dir=top), "--boxes", "32", "--pool", "2")
    yield server
    seen = restarts(Client(server))
    assert server.stop() == 0
    assert server.faults() == []
    assert seen == 0, server.log()[-4000:]


@pytest.fixture
def api(own):
    return Client(own)


@pytest.fixture
def box(api):
    """In the end a context of it that had no part in anything is as it was."""
    name = f"box-{next(numbers)}"
    api.ok("PUT", f"/sandbox/{name}", {})
    context(api, name, "witness")
    cell(api, name, "kept = 41", context="witness")
    yield name
    assert text_of(cell(api, name, "kept + 1", context="witness")) == "42"
    api("DELETE", f"/sandbox/{name}")


def context(api, box, name=None, **more):
    body = {"language": "python", **more}
    if name is not None:
        body["id"] = name
    return api.ok("POST", f"/sandbox/{box}/contexts", body)["id"]


def cell(api, box, code, **more):
    return api.ok("POST", f"/sandbox/{box}/code", {"code": code, **more})


def text_of(reply):
    assert reply["success"], reply
    return [result["text"] for result in reply["results"]][-1]


def status(api, box, name):
    return api.ok("GET", f"/sandbox/{box}/contexts/{name}")


def restart(api, box, name):
    made = api.ok("POST", f"/sandbox/{box}/contexts/{name}/restart")
    assert made["status"] == "idle", made
    assert text_of(cell(api, box, "1 + 1", context=name)) == "2"


def works(api, box, name, may_hang=0):
    """It goes on, or it is dead, says so, and can be restarted."""
    now = status(api, box, name)
    if now["status"] == "dead":
        api("POST", f"/sandbox/{box}/code", {"code": "1", "context": name}).error(409, "CONTEXT_DEAD")
        restart(api, box, name)
        return "dead"
    reply = cell(api, box, "1 + 1", context=name, timeout=may_hang or 20000)
    if reply.get("contextDied") and may_hang:
        restart(api, box, name)
        return "dead"
    assert text_of(reply) == "2"
    return "alive"


# -- ends

ENDS = {
    "exit": ("import os; os._exit(3)", "exit"),
    "kill": ("import os; os.kill(os.getpid(), 9)", "signal"),
    "kill the group": ("import os; os.killpg(0, 9)", "signal"),
    "segfault": ("import ctypes; ctypes.string_at(0)", "signal"),
    "no limit of recursion": ("import sys; sys.setrecursionlimit(10**9)\ndef f(*a): return f(*a)\nclass A:\n def __getattr__(s, n): return getattr(s, n)\nA().x", "signal"),
    "memory": ("x = []\nwhile True: x.append(bytearray(1 << 24))", "oom"),
    "memory in one piece, touched": ("b = memoryview(bytearray(200 << 20)); c = [bytes(b) for _ in range(100)]", "oom"),
    "deaf": ("import time\nwhile True:\n try:\n  while True: time.sleep(0.01)\n except KeyboardInterrupt: pass", "timeout"),
    "a program instead": ("import os; os.execv('/bin/sleep', ['sleep', '0'])", "exit"),
    "stop": ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", "timeout"),
}


@pytest.mark.parametrize("what", ENDS)
def test_a_context_that_ends_says_so(api, box, what):
    code, reason = ENDS[what]
    mine = context(api, box)
    reply = cell(api, box, "print('before', flush=True)\n" + code, context=mine, timeout=1500 if reason == "timeout" else 50000)
    assert (reply["success"], reply.get("contextDied")) == (False, True), reply
    if what.startswith("memory in one"):
        assert reply["reason"] in ("oom", "signal"), reply
    else:
        assert reply["reason"] == reason, reply
    assert "before\n" in reply["logs"]["stdout"]
    assert works(api, box, mine) == "dead"


def test_everybody_in_the_box_is_killed(api):
    api.ok("PUT", "/sandbox/massacre", {})
    names = [context(api, "massacre") for _ in range(4)]
    reply = cell(api, "massacre", "import os; os.kill(-1, 9); os.kill(os.getpid(), 9)", context=names[0])
    assert reply["reason"] == "signal", reply
    for name in names:
        eventually(lambda name=name: status(api, "massacre", name)["status"] == "dead")
        restart(api, "massacre", name)
    assert api.exec("massacre", "echo fine")["stdout"] == "fine\n"
    api("DELETE", "/sandbox/massacre")


def test_killed_from_another_exec(api, box):
    mine = context(api, box)
    pid = text_of(cell(api, box, "import os; os.getpid()", context=mine))
    replies = at_once(
        lambda: cell(api, box, "open('/workspace/begun', 'w').close()\nimport time; time.sleep(50)", context=mine),
        lambda: api.exec(box, f"while ! [ -e /workspace/begun ]; do sleep 0.01; done; kill -9 {pid}"))
    assert (replies[0]["reason"], replies[0].get("contextDied")) == ("signal", True), replies
    assert works(api, box, mine) == "dead"


def test_killed_while_nothing_runs(api, box):
    mine = context(api, box)
    pid = text_of(cell(api, box, "import os; os.getpid()", context=mine))
    api.exec(box, f"kill -9 {pid}")
    eventually(lambda: status(api, box, mine)["status"] == "dead")
    assert works(api, box, mine) == "dead"


# -- what a context survives

LIVES = {
    "sys.exit in a thread": "import sys, threading\nt = threading.Thread(target=sys.exit); t.start(); t.join()",
    "sys.exit": "import sys; sys.exit(3)",
    "recursion": "def f(): f()\nf()",
    "repr that recurses": "class A:\n def __repr__(self): return repr(self)\nA()",
    "repr of 100 MB": "class A:\n def __repr__(self): return 'x' * 10**8\nA()",
    "display of 100 MB": "display('x' * 10**8)",
    "html of 100 MB": "class A:\n def _repr_html_(self): return 'x' * 10**8\nA()",
    "repr without end": "class A:\n def __repr__(self):\n  while True: pass\nA()",
    "repr that ends the cell": "class A:\n def __repr__(self): raise SystemExit\nA()",
    "a list in itself": "a = []; a.append(a); a",
    "depth": "a = []\nfor _ in range(100000): a = [a]\na",
    "builtins": "import builtins\nfor n in list(vars(builtins)):\n if not n.startswith('__'): setattr(builtins, n, None)",
    "builtins are gone": "import builtins; vars(builtins).clear()",
    "modules are gone": "import sys; sys.modules.clear()",
    "posix": "import os, sys, posix\nfor m in (os, posix):\n for n in ('read', 'write', '_exit', 'getpid'): setattr(m, n, None)",
    "streams": "import sys\nsys.stdout = sys.stderr = sys.stdin = sys.__stdout__ = None",
    "a closed stream": "import sys; sys.stdout.close(); sys.stderr.close()",
    "excepthook": "import sys\ndef f(*a): raise f\nsys.excepthook = sys.unraisablehook = sys.displayhook = f\n1/0",
    "trace": "import sys\ndef f(*a): raise ValueError\nsys.settrace(f); sys.setprofile(f)\nlen('a')",
    "no recursion": "import sys; sys.setrecursionlimit(20)",
    "alarm": "import signal; signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001); signal.signal(signal.SIGALRM, lambda *a: 1/0)",
    "stdin": "input('?')",
    "stdin read": "import sys; sys.stdin.read()",
    "stdin as it is": "import os; assert os.read(0, 10) == b''",
    "1 and 2": "import os; os.close(1); os.close(2)",
    "1 is a file": "import os; os.dup2(os.open('/workspace/f', os.O_CREAT | os.O_RDWR), 1); print('x' * 100000)",
    "1 does not block": "import os; os.set_blocking(1, False); print('x' * 10**6)",
    "1 is a socket": "import os, socket; a, b = socket.socketpair(); os.dup2(a.fileno(), 1); print('x')",
    "fork": "import os\nif os.fork() == 0: os._exit(0)",
    "fork that goes on": "import os, sys\npid = os.fork()\nprint('twice')",
    "fork that stays": "import os, time\nif os.fork() == 0: time.sleep(1000)",
    "no more descriptors": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    "no more files": "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))",
    "gone directory": "import os; os.mkdir('/workspace/d'); os.chdir('/workspace/d'); os.rmdir('/workspace/d')",
    "exceptions that lie": "class E(BaseException):\n def __str__(self): raise E\n __repr__ = __str__\nraise E",
    "a class named so": "raise type('E\\ud800\"}' + 'x' * 100000, (Exception,), {})('\\ud800' * 1000)",
    "a traceback of many": "def f(n):\n try: 1/0\n except Exception as e:\n  if n: f(n - 1)\n  raise\nf(500)",
    "threads": "import threading, time\nfor _ in range(50): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
    "exceptions from a thread": """import ctypes, threading, time
me = threading.main_thread().ident
def f():
    for _ in range(2000):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(me), ctypes.py_object(ValueError))
        time.sleep(0.0002)
threading.Thread(target=f).start()""",
    "gc": "import gc\nfor o in gc.get_objects():\n if type(o) is list and len(o) < 3:\n  try: o.clear()\n  except Exception: pass",
}


@pytest.mark.parametrize("what", LIVES)
def test_a_context_goes_on(api, box, what):
    mine = context(api, box, timeout=4000)
    reply = api("POST", f"/sandbox/{box}/code", {"code": LIVES[what], "context": mine})
    assert reply.status == 200 and len(reply.body) < 40 * 2**20, reply
    if reply.json.get("contextDied"):
        assert what in ("gc", "builtins are gone", "modules are gone"), reply
    works(api, box, mine)


# -- the control pipes

DONE = b'done %d 11\n{"count":1}'
FORGED = {
    "garbage": b"\xff" * 1000,
    "no newline": b"a" * 1000,
    "negative": b"result 1 -1\n",
    "negative cell": b"result -1 2\n{}",
    "zeros": b"result 01 2\n{}",
    "huge": b"result 1 99999999999999999999999\n",
    "just too large": b"result 1 33554433\n",
    "unknown": b"exploit 1 2\n{}",
    "upper case": b"Done 1 2\n{}",
    "two spaces": b"done  1 2\n{}",
    "ready": b'ready 0 2\n{}',
    "opened": b'opened 0 2\n{}',
    "failed": b'failed 0 15\n{"message":"x"}',
    "unfit": b'unfit 0 15\n{"message":"x"}',
    "not UTF-8": b'result %d 13\n{"text":"\xff\xfe"}',
    "not JSON": b"result %d 4\n{{{{",
    "an array": b"result %d 2\n[]",
    "deep": b'result %d 200009\n{"json":' + b"[" * 100000 + b"]" * 100000 + b"}",
    "deep and open": b'result %d 100008\n{"json":' + b"[" * 100000,
    "twice the same": b'result %d 21\n{"text":"a","text":1}',
    "text is a number": b'result %d 10\n{"text":1}',
    "surrogates": b'result %d 17\n{"text":"\\ud800"}',
    "a NUL": b'result %d 17\n{"text":"\\u0000"}',
    "done": DONE,
    "done twice": DONE + DONE,
    "done without a count": b"done %d 2\n{}",
    "done of minus one": b'done %d 12\n{"count":-1}',
    "done of too many": b'done %d 28\n{"count":9999999999999999999}',
    "done with a fraction": b'done %d 13\n{"count":1.5}',
    "other cells": b"".join(b'done %d 11\n{"count":1}' % n for n in (0, 7, 999, 2**31 - 1)),
    "half a header": b"resul",
    "half a payload": b"result %d 1000\n{",
    "errors": b'error %d 68\n{"name":"A","message":"b","traceback":["c"],"lineNumber":1,"x":"yy"}' * 2,
    "an error without anything": b"error %d 2\n{}",
    "an error of lines": b'error %d 50\n{"name":"A","message":"b","traceback":[[[1]]],"a":1}',
    "nothing of a name": b" 1 2\n{}",
    "an empty line": b"\n",
    "nul": b"\0" * 64,
}

WRITE = """
import os
data = {data!r}
def put(data):
    while data:
        data = data[os.write(61, data):]
put(data)
"""


@pytest.mark.parametrize("what", FORGED)
def test_forged_frames(api, box, what):
    mine = context(api, box, timeout=3000)
    first = cell(api, box, "1", context=mine)
    number = int(first["id"].rsplit("-", 1)[1]) + 1
    data = FORGED[what].replace(b"%d", b"%d" % number)
    reply = cell(api, box, WRITE.format(data=data), context=mine)
    assert reply["reason"] in ("done", "error", "protocol", "timeout"), reply
    assert len(json.dumps(reply)) < 2**20
    works(api, box, mine)


def test_half_a_frame_holds_nobody_up(api, box):
    mine = context(api, box, timeout=2000)
    cell(api, box, WRITE.format(data=b"result 2 33000000\n"), context=mine)
    assert works(api, box, mine) == "dead"


CLOSED = {
    "in": "import os; os.close(60)",
    "out": "import os; os.close(61)",
    "both": "import os; os.close(60); os.close(61)",
    "in is a file": "import os; os.dup2(os.open('/etc/passwd', 0), 60)",
    "in is zeros": "import os; os.dup2(os.open('/dev/zero', 0), 60)",
    "out is a file": "import os; os.dup2(os.open('/workspace/out', os.O_RDWR | os.O_CREAT), 61)",
    "out is in": "import os; os.dup2(60, 61)",
    "in is out": "import os; os.dup2(61, 60)",
    "in does not block": "import os; os.set_blocking(60, False)",
    "out does not block": "import os; os.set_blocking(61, False); 'x' * 900000",
    "in is read by another": "import os, threading\nthreading.Thread(target=lambda: [os.read(60, 1) for _ in range(10)], daemon=True).start()",
    "a socket": "import os, socket; a, b = socket.socketpair(); os.dup2(a.fileno(), 60); os.dup2(a.fileno(), 61)",
}


@pytest.mark.parametrize("what", CLOSED)
def test_control_descriptors_changed(api, box, what):
    mine = context(api, box, timeout=2000)
    api.ok("POST", f"/sandbox/{box}/code", {"code": CLOSED[what], "context": mine})
    reply = api("POST", f"/sandbox/{box}/code", {"code": "1 + 1", "context": mine})
    assert reply.status in (200, 409), reply
    works(api, box, mine, may_hang=2000)
