# SPDX-License-Identifier: Apache-2.0
"""The interpreter, attacked from inside a cell and over HTTP. Whatever a cell does, its client is answered, its context
says what became of it and can be restarted, and nobody else notices."""

import itertools
import json
import os
import signal
import subprocess
import tempfile
import threading
import time

import pytest
from attack_helpers import PATIENCE, Client, Server, at_once, at_rest, children, daemon_pid, descriptors, eventually
from attack_helpers import restarts

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
    if what == "exceptions from a thread":  # which may hit the next cells, too, while it lives
        eventually(lambda: api.ok("POST", f"/sandbox/{box}/code", {"code": "1", "context": mine})["success"])
        eventually(lambda: api.ok("POST", f"/sandbox/{box}/code", {"code": "next(t for t in __import__('threading')."
                           "enumerate() if t.name != 'MainThread' and not t.daemon)", "context": mine}).get("error", {})
                   .get("name") == "StopIteration")
    # A signal every millisecond may hit any cell, or leave no time for one on a machine that has other work.
    if what == "alarm":
        off = {"code": "import signal; signal.setitimer(signal.ITIMER_REAL, 0)", "context": mine, "timeout": 20000}
        eventually(lambda: (r := api("POST", f"/sandbox/{box}/code", off)).status == 409
                   or r.json["success"] or r.json.get("contextDied"))
    works(api, box, mine, may_hang=20000 if what == "alarm" else 0)


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


# -- from inside a box: what is on its way into it

FORK = "/memfd:python3"  # what a fork's /proc/self/exe begins with
HAMMER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hammer.c")


def zygotes(server):
    return [pid for pid in children(server.process.pid) if cmdline(pid).endswith(b"\0zygote\0")]


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def is_fork(api, box, name):
    code = "import os; print(os.readlink('/proc/self/exe'))"
    return cell(api, box, code, context=name)["logs"]["stdout"][0].startswith(FORK)


def forks_come(api, box):
    """Whether new contexts are forks."""
    name = context(api, box)
    try:
        return is_fork(api, box, name)
    finally:
        api("DELETE", f"/sandbox/{box}/contexts/{name}")


@pytest.fixture(scope="module")
def hammer(top):
    path = f"{top}/hammer"
    subprocess.run(["cc", "-O2", "-static", "-o", path, HAMMER], check=True)
    with open(path, "rb") as file:
        return file.read()


def start_hammer(api, box, hammer, mode):
    reply = api("PUT", f"/sandbox/{box}/files/workspace/hammer", hammer)
    assert reply.status in (200, 201), reply
    return api.start(box, {"command": f"chmod +x /workspace/hammer; exec /workspace/hammer {mode} /workspace/enough"})


def stop_hammer(api, box, process):
    api.ok("PUT", f"/sandbox/{box}/files/workspace/enough", "x")
    ended = api.ended(box, process)
    assert ended["exitCode"] == 0, ended
    return json.loads(api("GET", f"/sandbox/{box}/processes/{process}/logs?stream=stdout").body)


def test_nobody_lays_hands_on_a_fork_before_it_is_his(own, api, hammer):
    """A root process of the box looks for forks of the zygote that are not confined yet, and tries everything."""
    api.ok("PUT", "/sandbox/hostile", {})
    eventually(lambda: forks_come(api, "hostile"))
    process = start_hammer(api, "hostile", hammer, "look")
    forks = 0
    for _ in range(200):
        name = context(api, "hostile")
        forks += is_fork(api, "hostile", name)
        api.ok("DELETE", f"/sandbox/hostile/contexts/{name}")
    seen = stop_hammer(api, "hostile", process)
    print(seen, forks)
    assert forks > 100 and seen["early"] > 50, (seen, forks)  # or this has shown nothing
    assert {what: n for what, n in seen["bad"].items() if n > 0} == {}
    api("DELETE", "/sandbox/hostile")


def counted(server):
    """What would grow if something were left behind: descriptors of the keeper and the zygotes, children of the keeper."""
    keeper = server.process.pid
    own = [name for name in descriptors(keeper) if not name.startswith("user:")]  # each slot keeps one
    return (own, [descriptors(zygote) for zygote in zygotes(server)], len(children(keeper)))


def settled(server, api, wanted=None):
    last = [None, 0]

    def same():
        ready = api.ok("GET", "/health")["pool"]["ready"]
        now = counted(server) if ready >= 2 and len(zygotes(server)) == 1 else None
        last[:] = [now, last[1] + 1 if now is not None and now == last[0] else 0]
        return last[1] >= 8 and wanted in (None, now)

    try:
        eventually(same)
    except AssertionError:
        pass  # shown by whoever compares
    return last[0]


def test_forks_that_are_killed_at_birth(own, api, hammer):
    """It is his own affair, but everybody is answered, and nothing is left."""
    api.ok("PUT", "/sandbox/killer", {})
    eventually(lambda: forks_come(api, "killer"))
    before = settled(own, api)
    process = start_hammer(api, "killer", hammer, "kill")
    for i in range(30):
        reply = api("POST", "/sandbox/killer/contexts", {"language": "python", "id": f"c{i}"})
        assert reply.status in (201, 503), reply
        assert api("DELETE", f"/sandbox/killer/contexts/c{i}").status in (200, 404)
    stop_hammer(api, "killer", process)
    eventually(lambda: forks_come(api, "killer"))
    assert settled(own, api, before) == before
    api("DELETE", "/sandbox/killer")


def test_forks_that_are_stopped_at_birth(own, api, hammer):
    """Whoever waits for such a context can still be rid of it."""
    api.ok("PUT", "/sandbox/stopper", {})
    eventually(lambda: forks_come(api, "stopper"))
    process = start_hammer(api, "stopper", hammer, "stop")
    replies = []
    waiting = threading.Thread(target=lambda: replies.append(
        api("POST", "/sandbox/stopper/contexts", {"language": "python", "id": "held"})))
    waiting.start()
    eventually(lambda: api("GET", "/sandbox/stopper/contexts/held").status == 200)
    time.sleep(1)
    if not replies:
        assert status(api, "stopper", "held")["status"] == "starting"
        assert api("DELETE", "/sandbox/stopper/contexts/held").status == 200
    waiting.join(PATIENCE)
    assert replies and replies[0].status in (201, 503), replies
    # Others do not wait for it.
    api.ok("PUT", "/sandbox/other", {})
    assert text_of(cell(api, "other", "1 + 1")) == "2"
    stop_hammer(api, "stopper", process)
    assert forks_come(api, "stopper")
    for name in ("stopper", "other"):
        api("DELETE", f"/sandbox/{name}")


def test_boxes_that_end_while_they_are_planted(own, api):
    before, which = settled(own, api), zygotes(own)
    for i in range(40):
        name = f"brief-{i}"
        api.ok("PUT", f"/sandbox/{name}", {})
        jobs = [lambda: api("POST", f"/sandbox/{name}/contexts", {"language": "python"}) for _ in range(3)]
        jobs.append(lambda: time.sleep(0.002 * (i % 10)) or api("DELETE", f"/sandbox/{name}"))
        for reply in at_once(*jobs):
            assert reply.status in (200, 201, 404, 409, 410, 503), reply
        api("DELETE", f"/sandbox/{name}")
    assert settled(own, api, before) == before
    assert zygotes(own) == which  # it was not torn in the middle of a fork
    api.ok("PUT", "/sandbox/after", {})
    eventually(lambda: forks_come(api, "after"))
    api("DELETE", "/sandbox/after")


@pytest.mark.long
def test_many_forks_leave_nothing_in_the_zygote(own, api):
    api.ok("PUT", "/sandbox/many", {})
    eventually(lambda: forks_come(api, "many"))
    before, which = settled(own, api), zygotes(own)
    for _ in range(500):
        name = context(api, "many")
        api.ok("DELETE", f"/sandbox/many/contexts/{name}")
    assert zygotes(own) == which
    assert settled(own, api, before) == before
    api("DELETE", "/sandbox/many")


def test_a_zygote_that_does_not_answer_is_replaced(own, api):
    api.ok("PUT", "/sandbox/patient", {})
    eventually(lambda: forks_come(api, "patient"))
    settled(own, api)
    (pid,) = zygotes(own)
    os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    name = context(api, "patient")
    assert text_of(cell(api, "patient", "1 + 1", context=name)) == "2"
    assert time.monotonic() - begun < 20
    eventually(lambda: zygotes(own) and pid not in zygotes(own))
    eventually(lambda: forks_come(api, "patient"))
    assert not os.path.exists(f"/proc/{pid}")
    api("DELETE", "/sandbox/patient")


ALONE = r"""
import ctypes, errno, glob, json, os, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
found = {}
def note(name, value):
    found[name] = value
with open("/proc/self/maps") as file:
    note("shared", sorted({line.split()[-1] for line in file if line.split()[1][1] == "w" and line.split()[1][3] == "s"}))
note("processes", sorted(open(f"/proc/{p}/cmdline").read()[:60] for p in os.listdir("/proc") if p.isdigit()))
note("parent", os.getppid())
def call(do):
    try:
        return [0, do()]
    except OSError as error:
        return [error.errno, None]
note("kill 1", call(lambda: os.kill(1, 0))[0])
note("kill far", [pid for pid in range(2, 40000) if call(lambda: os.kill(pid, 0))[0] == errno.EPERM])
note("sysv", [len(open(f"/proc/sysvipc/{kind}").readlines()) - 1 for kind in ("shm", "sem", "msg")])
note("unix", sorted(line.split()[-1] for line in open("/proc/net/unix").readlines()[1:] if "@" in line))
note("keys", open("/proc/keys").read() if os.path.exists("/proc/keys") else "")
note("timers", open("/proc/self/timers").read() if os.path.exists("/proc/self/timers") else "")
note("environ", sorted(v.split(b"=")[0].decode() for v in open("/proc/self/environ", "rb").read().split(b"\0") if v))
print(json.dumps(found))
"""


def test_a_fork_sees_nobody_but_its_box(own, api):
    api.ok("PUT", "/sandbox/alone", {})
    eventually(lambda: forks_come(api, "alone"))
    name = context(api, "alone")
    assert is_fork(api, "alone", name)
    seen = json.loads("".join(cell(api, "alone", ALONE, context=name)["logs"]["stdout"]))
    assert seen["shared"] == [] and seen["parent"] == 1, seen
    assert set(seen["kill far"]) == set() and seen["kill 1"] == 1, seen
    assert seen["sysv"] == [0, 0, 0] and seen["unix"] == [], seen
    assert set(seen["environ"]) <= {"PATH", "LANG", "HOME", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MPLBACKEND"}, seen
    api("DELETE", "/sandbox/alone")


def test_its_own_program_again_is_no_zygote(own, api):
    """Executed with a zygote's arguments it finds none of the descriptors that make one."""
    api.ok("PUT", "/sandbox/again", {})
    eventually(lambda: forks_come(api, "again"))
    code = """
import subprocess, json
argv = ["/usr/bin/python3", "-I", "-c", "exec(open(60).read())", "zygote"]
done = subprocess.run(argv, executable="/proc/self/exe", capture_output=True)
look = ["python3", "-I", "-S", "-c", "import os; print(sorted(int(f) for f in os.listdir('/proc/self/fd')))"]
fds = subprocess.run(look, executable="/proc/self/exe", capture_output=True)
print(json.dumps([done.returncode, done.stderr.decode()[-60:], fds.stdout.decode()]))
"""
    reply = cell(api, "again", code)
    code, error, fds = json.loads(reply["logs"]["stdout"][0])
    assert code != 0 and "Bad file descriptor" in error, reply
    assert json.loads(fds) in ([0, 1, 2], [0, 1, 2, 3]), reply
    api("DELETE", "/sandbox/again")


# -- too much

FLOOD = """
import os
frame = b'%s {number} 12\\n{{"text":"a"}}'
data = frame * 4000
for _ in range({times}):
    done = 0
    while done < len(data):
        done += os.write(61, data[done:])
"""


@pytest.mark.parametrize("number", [2, 7], ids=["its own", "another cell's"])
def test_displays_that_do_not_wait(api, box, number):
    """What would answer them is not read: it must not pile up."""
    mine = context(api, box, timeout=20000)
    cell(api, box, "1", context=mine)
    reply = cell(api, box, FLOOD.format(number=number, times=200) % "display", context=mine)
    assert reply["reason"] == "protocol" and reply.get("contextDied"), reply["reason"]
    assert works(api, box, mine) == "dead"


def test_results_without_end(api, box):
    mine = context(api, box, timeout=50000)
    cell(api, box, "1", context=mine)
    reply = api("POST", f"/sandbox/{box}/code", {"code": FLOOD.format(number=2, times=100) % "result", "context": mine})
    assert reply.status == 200 and len(reply.body) < 2**20
    assert reply.json["reason"] == "done" and reply.json["truncated"] and len(reply.json["results"]) == 10000
    assert works(api, box, mine) == "alive"


LARGE = """
import os
data = b'result {number} 33554432\\n{{"text":"' + b'a' * (33554432 - 11) + b'"}}'
while data:
    data = data[os.write(61, data):]
"""


def test_a_result_of_32_mib(api, box):
    mine = context(api, box, timeout=50000)
    cell(api, box, "1", context=mine)
    reply = api("POST", f"/sandbox/{box}/code", {"code": LARGE.format(number=2), "context": mine})
    assert reply.status == 200 and len(reply.body) < 34 * 2**20
    assert works(api, box, mine) in ("alive", "dead")


def test_one_that_prints_for_ever_between_cells(own, api, box):
    mine = context(api, box)
    code = "import threading\ndef f():\n while True: print('x' * 1000)\nthreading.Thread(target=f, daemon=True).start()"
    cell(api, box, code, context=mine)
    time.sleep(2)
    reply = api("POST", f"/sandbox/{box}/code", {"code": "6 * 7", "context": mine})
    assert reply.status == 200 and len(reply.body) < 34 * 2**20
    assert text_of(reply.json) == "42"
    api.ok("DELETE", f"/sandbox/{box}/contexts/{mine}")


DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(0)
r, w = os.pipe()
os.set_inheritable(61, True); os.set_inheritable(60, True)
os.posix_spawn('/bin/sleep', ['sleep', '1000'], {})
os._exit(4)
"""


def test_a_child_that_keeps_the_pipes_open(api, box):
    """The kernel's end is told all the same."""
    mine = context(api, box)
    reply = cell(api, box, DAEMON, context=mine)
    assert (reply["reason"], reply.get("contextDied")) == ("exit", True), reply
    assert works(api, box, mine) == "dead"


def test_a_child_that_writes_frames(api, box):
    mine = context(api, box, timeout=3000)
    code = """
import os
keep = os.dup(61)
if os.fork() == 0:
    for _ in range(100): os.write(keep, b'done 1 11\\n{"count":9}garbage\\n')
    os._exit(0)
os.wait()
"""
    reply = cell(api, box, code, context=mine)
    assert reply["reason"] in ("done", "protocol"), reply
    works(api, box, mine)


def test_a_fork_bomb(api):
    api.ok("PUT", "/sandbox/bomb", {"pids": 64})
    first = context(api, "bomb", timeout=5000)
    second = context(api, "bomb")
    code = "import os, time\nfor _ in range(2000):\n try:\n  if os.fork() == 0: time.sleep(1000)\n except OSError: pass"
    cell(api, "bomb", code, context=first)
    # There is room for nobody now; whoever asks hears it.
    reply = api("POST", "/sandbox/bomb/contexts", {"language": "python", "id": "more"})
    reply.error(403, "QUOTA_EXCEEDED", "processes")
    assert text_of(cell(api, "bomb", "1 + 1", context=second)) == "2"
    api.ok("DELETE", f"/sandbox/bomb/contexts/{first}")
    eventually(lambda: api("POST", "/sandbox/bomb/contexts", {"language": "python"}).status == 201)
    api("DELETE", "/sandbox/bomb")


def test_a_full_disk(api):
    api.ok("PUT", "/sandbox/full", {"disk": "64m"})
    mine = context(api, "full")
    code = "with open('/workspace/f', 'wb') as f:\n while True: f.write(b'x' * 2**20)"
    reply = cell(api, "full", code, context=mine)
    assert reply["reason"] == "error" and reply["error"]["name"] == "OSError", reply
    assert text_of(cell(api, "full", "1 + 1", context=mine)) == "2"
    assert text_of(cell(api, "full", "1 + 1", context=context(api, "full"))) == "2"
    api("DELETE", "/sandbox/full")


# -- what is asked for

PLACES = {
    "gone": "mkdir d; rmdir d",
    "a loop": "ln -s d d",
    "a file": "touch d",
    "a pipe": "mkfifo d",
    "a link to nowhere": "ln -s /nowhere d",
}


@pytest.mark.parametrize("what", PLACES)
def test_directories_that_are_none(api, box, what):
    api.exec(box, "cd /workspace; " + PLACES[what])
    reply = api("POST", f"/sandbox/{box}/contexts", {"language": "python", "cwd": "/workspace/d"})
    reply.error(400, "INVALID_REQUEST", "/workspace/d")
    assert [one["id"] for one in api.ok("GET", f"/sandbox/{box}/contexts")["contexts"]] == ["witness"]


TEXTS = {
    "nothing": ("", None),
    "comments": ("# nothing\n  # at all", None),
    "a mark": ("\ufeff1 + 1", "2"),
    "CRLF": ("a = 1\r\nif a:\r\n    a = 2\r\na", "2"),
    "CR": ("a = 1\ra = 2\ra", "2"),
    "form feeds": ("\f1 + 1\f", "2"),
    "4 MiB": ("a = '" + "x" * (2**22 - 20) + "'\nlen(a)", str(2**22 - 20)),
    "many lines": ("#\n" * 2000000 + "1 + 1", "2"),
    "one long line": ("1" + " + 1" * 400, "401"),
    "characters": ("'\U0001f600' * 2", "'\U0001f600\U0001f600'"),
    "frames": ("done 1 11\n{'count': 1}", False),
    "brackets": ("(" * 5000, False),
    "tabs": ("if 1:\n\ta = 1\n        b = 1", False),
}


@pytest.mark.parametrize("what", TEXTS)
def test_texts(api, box, what):
    code, wanted = TEXTS[what]
    reply = cell(api, box, code)
    if wanted is False:
        assert reply["reason"] == "error" and reply["error"]["name"] in ("SyntaxError", "MemoryError", "TabError", "IndentationError"), reply["error"]
    elif wanted is None:
        assert reply["success"] and reply["results"] == [], reply
    else:
        assert text_of(reply) == wanted


@pytest.mark.parametrize("code", [b'"1\\u0000"', b'"\\ud800"', b'"\xff"', b'"\\udc80 1"', b"1", b"null", b'["1"]'])
def test_texts_that_are_none(api, box, code):
    reply = api("POST", f"/sandbox/{box}/code", b'{"code": ' + code + b"}", {"Content-Type": "application/json"})
    reply.error(400, "INVALID_REQUEST")


@pytest.mark.parametrize("name", ["", "a/b", "..", ".", "a b", "a\n", "\x00", "default-python", "x" * 300, "%2e", "\u00e9", "a:b", "-" * 200])
def test_ids_that_are_none(api, box, name):
    api("POST", f"/sandbox/{box}/contexts", {"language": "python", "id": name}).error(400, "INVALID_REQUEST")


@pytest.mark.parametrize("env", [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0y"}, {"A": 1}, {"A": None}, {"\ud800": "x"}])
def test_variables_that_are_none(api, box, env):
    for path in ("code", "contexts"):
        body = {"language": "python", "env": env, **({"code": "1"} if path == "code" else {})}
        api("POST", f"/sandbox/{box}/{path}", body).error(400, "INVALID_REQUEST")


def test_variables_that_are_odd(api, box):
    env = {"a b": "1", "\u00e9": "\u00fc", "LD_PRELOAD": "/nowhere", "PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere", "X": ""}
    mine = context(api, box, env=env)
    code = "import os, json; print(json.dumps([os.environ.get(n) for n in ('a b', '\u00e9', 'X')]))"
    assert json.loads(cell(api, box, code, context=mine)["logs"]["stdout"][0]) == ["1", "\u00fc", ""]


def test_cells_of_others(api, box):
    """Their ids can be guessed, and that is no use."""
    api.ok("PUT", "/sandbox/theirs", {})
    context(api, "theirs", "closed")
    theirs = cell(api, "theirs", "'secret'", context="closed")
    names = [theirs["id"], theirs["context"] + "-0", theirs["context"] + "-01", theirs["context"] + "-99999999999999999999"]
    for name in names:
        api("GET", f"/sandbox/{box}/code/{name}").error(404, "NOT_FOUND")
    for name in names[1:] + [theirs["context"], "-1", "%2e%2e", theirs["id"] + "%00"]:
        assert api("GET", f"/sandbox/theirs/code/{name}").status in (400, 404)
    token = api.ok("POST", "/tokens", {"name": "stranger"})
    stranger = Client(api.server, token["token"])
    stranger("GET", f"/sandbox/theirs/code/{theirs['id']}").error(404, "NOT_FOUND")
    mine = cell(api, box, "1")
    for last in (f"{theirs['id']}:0", f"{mine['id']}:-1", f"{mine['id']}:99999", f"{mine['id']}:9223372036854775807",
                 f"{mine['id']}:18446744073709551616", f"{mine['id']}:0.9", ":0", "0", mine["id"], f"{mine['id']}:1e3"):
        reply = api("GET", f"/sandbox/{box}/code/{mine['id']}", headers={"Last-Event-ID": last, "Accept": "text/event-stream"})
        assert reply.status == 400, (last, reply)
    api("DELETE", "/sandbox/theirs")


def test_fifty_follow_one(api, box):
    mine = context(api, box)
    code = "import os, time\nwhile not os.path.exists('/workspace/go'): time.sleep(0.01)\nfor i in range(200): print(i, 'x' * 1000)"
    with api.stream("POST", f"/sandbox/{box}/code", {"code": code, "context": mine}) as first:
        start = next(iter(first))
        streams = [api.stream("GET", f"/sandbox/{box}/code/{start.data['id']}") for _ in range(50)]
        api.exec(box, "touch /workspace/go")
        wanted = "".join(f"{i} {'x' * 1000}\n" for i in range(200))
        for stream in streams[::2]:  # the others leave without a word
            got = [event.data["text"] for event in stream.until("end") if event.name == "stdout"]
            assert "".join(got) == wanted
        for stream in streams:
            stream.close()
    assert works(api, box, mine) == "alive"


# -- everything at once

OK = {200, 201, 202, 404, 409, 410, 429, 503}


@pytest.mark.parametrize("what", ["sleep", "destroy"])
def test_the_sandbox_goes_under_a_cell(api, what):
    for i in range(5):
        name = f"under-{what}-{i}"
        api.ok("PUT", f"/sandbox/{name}", {})
        context(api, name, "a")
        leave = ("DELETE", f"/sandbox/{name}") if what == "destroy" else ("POST", f"/sandbox/{name}/sleep")
        jobs = [lambda: api("POST", f"/sandbox/{name}/code", {"code": "import time; time.sleep(8)", "context": "a", "timeout": 12000}),
                lambda: api("POST", f"/sandbox/{name}/code", {"code": "import time; time.sleep(8)", "timeout": 12000}),
                lambda: time.sleep(0.05 * i) or api(*leave)]
        begun = time.monotonic()
        replies = at_once(*jobs)
        assert {r.status for r in replies} <= OK, replies
        assert time.monotonic() - begun < 25, replies  # one that came too late for the sleep has woken it again
        api("DELETE", f"/sandbox/{name}")


def test_restart_run_and_delete_race(own, api, box):
    before = at_rest(own)[1]
    odds = itertools.cycle([
        lambda: api("POST", f"/sandbox/{box}/contexts/racer/restart"),
        lambda: api("POST", f"/sandbox/{box}/code", {"code": "1", "context": "racer", "timeout": 5000}),
        lambda: api("DELETE", f"/sandbox/{box}/contexts/racer"),
        lambda: api("POST", f"/sandbox/{box}/contexts", {"language": "python", "id": "racer"}),
        lambda: api("POST", f"/sandbox/{box}/contexts/racer/interrupt"),
        lambda: api("POST", f"/sandbox/{box}/code", {"code": "import time; time.sleep(0.05)", "context": "racer", "timeout": 5000}),
        lambda: api("GET", f"/sandbox/{box}/contexts/racer"),
    ])
    for _ in range(25):
        replies = at_once(*[next(odds) for _ in range(10)])
        assert {r.status for r in replies} <= OK, replies
    api("DELETE", f"/sandbox/{box}/contexts/racer")
    ended = [one["id"] for one in api.ok("GET", f"/sandbox/{box}/contexts")["contexts"]]
    assert ended == ["witness"], ended
    eventually(lambda: len(descriptors(daemon_pid(own))) <= len(before) + 2)


@pytest.mark.long
def test_a_hundred_contexts(api):
    api.ok("PUT", "/sandbox/hundred", {"memory": "2g", "pids": 1000})
    names = [context(api, "hundred") for _ in range(100)]
    for i, name in enumerate(names):
        cell(api, "hundred", f"mine = {i}", context=name)
    for i, name in enumerate(names):
        assert text_of(cell(api, "hundred", "mine", context=name)) == str(i)
    api.ok("DELETE", "/sandbox/hundred")
