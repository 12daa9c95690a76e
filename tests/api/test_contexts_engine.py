# SPDX-License-Identifier: Apache-2.0
"""What contexts live through: a daemon that is killed, sleep, kernels that end, lie, flood and do not listen."""

import os
import time

import pytest
from api_helpers import Client, at_once, eventually


def run(api, box, code, **more):
    return api.ok("POST", f"/sandbox/{box}/code", {"language": "python", "code": code, **more})


def context(api, box, name="default-python"):
    return api.ok("GET", f"/sandbox/{box}/contexts/{name}")


def text(reply):
    return "".join(reply["logs"]["stdout"])


@pytest.fixture
def own(make_server):
    """A server that may be treated badly, and a sandbox in it."""
    server = make_server()
    api = Client(server)
    api.ok("PUT", "/sandbox/own", {})
    return server, api


def kill_daemon(server, api):
    before = server.daemon_pid()
    os.kill(before, 9)

    def is_back():
        try:
            return api("GET", "/health").status == 200 and server.daemon_pid() != before
        except (OSError, AssertionError):
            return False

    eventually(is_back)


def test_state_outlives_the_daemon(own):
    server, api = own
    assert run(api, "own", "x = 41")["success"]
    api.ok("POST", "/sandbox/own/contexts", {"language": "bash", "id": "sh"})
    run(api, "own", "y=7", language=None, context="sh")
    first = run(api, "own", "x += 1")["id"]
    kill_daemon(server, api)
    reply = run(api, "own", "x")
    assert reply["results"][0]["text"] == "42"
    assert reply["id"] != first
    assert text(run(api, "own", "echo $y", language=None, context="sh")) == "7\n"
    assert context(api, "own")["status"] == "idle"


def test_a_cell_that_is_lost_leaves_nothing_to_the_next(own):
    server, api = own
    run(api, "own", "n = 0")
    code = "import time\nprint('lost', flush=True); time.sleep(0.05); print('lost'); n += 1"
    with api.stream("POST", "/sandbox/own/code", {"language": "python", "code": code}) as stream:
        for event in stream:
            if "lost" in str(event.data):
                break
        kill_daemon(server, api)
    eventually(lambda: api.exec("own", "true")["exitCode"] == 0)
    time.sleep(0.3)
    assert text(run(api, "own", "print(n)")) == "1\n"


def test_a_long_cell_outlives_the_daemon(own):
    server, api = own
    run(api, "own", "1")
    go = "import os, time\nprint('one', flush=True)\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)\nprint('two')"
    with api.stream("POST", "/sandbox/own/code", {"language": "python", "code": go}) as stream:
        for event in stream:
            if "one" in str(event.data):
                break
        cell = context(api, "own")["cell"]
        time.sleep(0.3)  # it counts as a long one after a tenth of a second
        kill_daemon(server, api)
    assert context(api, "own")["status"] == "busy"
    assert context(api, "own")["cell"] == cell
    api.exec("own", "touch /tmp/go")
    eventually(lambda: context(api, "own")["status"] == "idle")
    reply = api.ok("GET", f"/sandbox/own/code/{cell}")
    assert text(reply) == "two\n" and reply["success"] and reply["truncated"]
    assert run(api, "own", "2")["results"][0]["text"] == "2"


def test_a_deadline_outlives_the_daemon(own):
    server, api = own
    run(api, "own", "1")
    code = {"language": "python", "code": "import time\nwhile True: time.sleep(1)", "timeout": 4000}
    with api.stream("POST", "/sandbox/own/code", code):
        eventually(lambda: context(api, "own")["status"] == "busy")
        cell = context(api, "own")["cell"]
        time.sleep(0.5)
        kill_daemon(server, api)
    eventually(lambda: context(api, "own")["status"] == "idle")
    assert api.ok("GET", f"/sandbox/own/code/{cell}")["reason"] == "timeout"


def test_sleep_ends_contexts_and_says_so(api, box):
    run(api, box, "x = 1")
    api.ok("POST", f"/sandbox/{box}/contexts", {"language": "python", "id": "named"})
    api.ok("POST", f"/sandbox/{box}/sleep")
    for name in ("named", "default-python"):
        assert context(api, box, name)["status"] == "dead"
        assert "sleep" in str(context(api, box, name))
    api("POST", f"/sandbox/{box}/code", {"context": "named", "code": "1"}).error(409, "CONTEXT_DEAD", "sleep", "restart")
    assert run(api, box, "'x' in globals()")["results"][0]["text"] == "False"
    api.ok("POST", f"/sandbox/{box}/contexts/named/restart")
    assert run(api, box, "5", language=None, context="named")["results"][0]["text"] == "5"


@pytest.mark.parametrize(
    "code, reason",
    [
        ("import os; os._exit(3)", "exit"),
        ("import os; os.kill(os.getpid(), 9)", "signal"),
        ("import os; os.kill(os.getpid(), 11)", "signal"),
    ],
)
def test_a_kernel_that_ends(api, box, code, reason):
    reply = run(api, box, "print('last words', flush=True)\n" + code)
    assert (reply["reason"], reply["success"], reply["contextDied"]) == (reason, False, True)
    assert text(reply) == "last words\n"
    assert context(api, box)["status"] == "dead"
    assert run(api, box, "6")["results"][0]["text"] == "6"


def test_lies_end_the_kernel_alone(api, box):
    api.ok("POST", f"/sandbox/{box}/contexts", {"language": "python", "id": "good"})
    lie = "import os\nfor fd in range(3, 256):\n  try: os.write(fd, b'x 0 99999999\\n' * 10)\n  except OSError: pass\n"
    reply = run(api, box, lie + "import time; time.sleep(30)")
    assert reply["reason"] == "protocol" and reply["contextDied"], reply
    assert run(api, box, "7", language=None, context="good")["results"][0]["text"] == "7"
    assert run(api, box, "8")["results"][0]["text"] == "8"


def test_one_that_does_not_listen_is_killed(api, box):
    deaf = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    reply = run(api, box, deaf, timeout=300)
    assert reply["reason"] == "timeout" and reply["contextDied"]
    assert context(api, box)["status"] == "dead"


def test_one_that_listens_is_not(api, box):
    run(api, box, "x = 9")
    reply = run(api, box, "import time\nwhile True: time.sleep(1)", timeout=300)
    assert reply["reason"] == "timeout" and not reply.get("contextDied")
    assert reply["error"]["name"] == "TimeoutError"
    assert run(api, box, "x")["results"][0]["text"] == "9"


def test_output_between_cells_is_not_lost_and_does_not_block(api, box):
    thread = (
        "import threading, os, time\n"
        "def talk():\n  time.sleep(0.2)\n  for i in range(300): os.write(1, b'z' * 8192)\n  done.set()\n"
        "done = threading.Event(); t = threading.Thread(target=talk); t.start()"
    )
    run(api, box, thread)
    time.sleep(0.1)
    eventually(lambda: run(api, box, "done.is_set()")["results"][0]["text"] == "True")


def test_a_flood_is_cut(api, box):
    reply = run(api, box, "import os\nfor i in range(5000): os.write(1, b'y' * 8191 + b'\\n')")
    assert reply["success"] and reply["truncated"]
    assert 30 * 2**20 < len(text(reply)) <= 32 * 2**20
    assert run(api, box, "1")["results"][0]["text"] == "1"


def test_cells_of_a_context_are_in_order_and_contexts_side_by_side(api, box):
    names = [f"c{i}" for i in range(6)]
    for name in names:
        api.ok("POST", f"/sandbox/{box}/contexts", {"language": "bash", "id": name})
    run(api, box, "n=''", language=None, context="c0")
    jobs = [lambda i=i: run(api, box, f"n+={i}", language=None, context="c0") for i in range(8)]
    replies = at_once(*jobs)
    assert sorted(r["executionCount"] for r in replies) == list(range(2, 10))
    assert len(text(run(api, box, "echo $n", language=None, context="c0"))) == 9
    meet = "touch /tmp/$m; until [ $(ls /tmp/meet-* | wc -l) = 6 ]; do sleep 0.05; done"
    jobs = [lambda n=n: run(api, box, f"m=meet-{n}; {meet}", language=None, context=n) for n in names]
    assert all(r["success"] for r in at_once(*jobs))


def test_single_cells_side_by_side_leave_nothing(api, box):
    code = "for (1..200) { last if -e '/tmp/go'; select(undef, undef, undef, 0.05) } print 'went';"
    jobs = [lambda: run(api, box, code, language="perl") for _ in range(12)]
    jobs.append(lambda: (time.sleep(0.5), api.exec(box, "touch /tmp/go"))[0])
    replies = [r for r in at_once(*jobs) if r is not None]
    assert [text(r) for r in replies] == ["went"] * 12
    assert api.ok("GET", f"/sandbox/{box}/contexts")["contexts"] == []
    eventually(lambda: api.exec(box, "pgrep -c perl || true")["stdout"].strip() == "0")


def test_a_sandbox_destroyed_under_a_cell(api, box):
    go = {"language": "python", "code": "import time\nwhile True: time.sleep(1)"}
    with api.stream("POST", f"/sandbox/{box}/code", go) as stream:
        eventually(lambda: context(api, box)["status"] == "busy")
        api.ok("DELETE", f"/sandbox/{box}")
        assert list(stream)  # it ends
