# SPDX-License-Identifier: Apache-2.0
"""Contexts and their zygote when the daemon, the keeper or the zygote is killed, the programs are replaced, the
server ends, a sandbox sleeps. What a context knew it still knows as long as its kernel lives; when that is gone it says
so, and nothing of it is left."""

import contextlib
import glob
import os
import random
import signal
import stat
import subprocess
import threading
import time

import leaks
import pytest
from cells import CellWorker
from crash_helpers import CAY, FULL, PATIENCE, Broken, Prober, name_of, processes_with, wait_until
from test_crash import kill_at_random
from test_upgrade import NEXT, installed, replace, upgrade  # noqa: F401  pylint: disable=unused-import
from test_ways import settled

ROUNDS = 200 if FULL else 8
BOTH_ROUNDS = 10 if FULL else 2
ZYGOTE_ROUNDS = 40 if FULL else 6
PARK_ROUNDS = 700 if FULL else 10
LEAK_ROUNDS = 20 if FULL else 3
FORK = "/memfd:python3"  # what /proc/self/exe of a fork begins with
LANGUAGES = ["python", "javascript", "bash"]
SET = {"python": "kept = {}", "javascript": "var kept = {}", "bash": "kept={}"}
GET = {"python": "print(kept)", "javascript": "console.log(kept)", "bash": "echo $kept"}
MARK = f"context-{os.getpid()}"


def code(client, sandbox, text, **more):
    where = more if "context" in more or "language" in more else {**more, "language": "python"}
    answer = client.again("POST", f"/sandbox/{sandbox}/code", {"code": text, **where})
    assert answer.status == 200, answer
    return answer.json


def out(client, sandbox, text, **more):
    result = code(client, sandbox, text, **more)
    assert result["success"], result
    return "".join(result["logs"]["stdout"])


def context(client, sandbox, name="default-python"):
    answer = client.again("GET", f"/sandbox/{sandbox}/contexts/{name}")
    assert answer.status == 200, answer
    return answer.json


def make(client, sandbox, name, language="python"):
    return client.good("POST", f"/sandbox/{sandbox}/contexts", {"id": name, "language": language})


def state_of(client, sandbox, name):
    """None: there is none."""
    answer = client.again("GET", f"/sandbox/{sandbox}/contexts/{name}")
    return answer.json["status"] if answer.status == 200 else None


def begin(server, sandbox, text, **more):
    """Runs it beside us, until it is answered or cut off."""
    found = []
    client = server.client()

    def ask():
        try:
            found.append(client.call("POST", f"/sandbox/{sandbox}/code", {"code": text, **more}))
        except (Broken, ConnectionRefusedError):
            found.append(None)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.found = found
    return thread


def lose_daemon(server):
    server.wait_for_another(server.kill_daemon())


def pythons_of(client, sandbox):
    """Interpreters in a box: parked ones, those of contexts, and whatever nobody has any more."""
    lines = names_in(client, sandbox)
    return lines.count("python3") + lines.count("node")


def names_in(client, sandbox):
    return client.exec(sandbox, "cat /proc/[0-9]*/comm 2>/dev/null; true").split()


class Kept:
    """A sandbox with contexts of each language, a default one, and a cell that lasts."""

    def __init__(self, server, name="kept"):
        self.server, self.name, self.client = server, name, server.client()
        self.client.good("PUT", f"/sandbox/{name}", {"keepAlive": True})
        self.pids = {}
        for i, language in enumerate(LANGUAGES):
            make(self.client, name, language, language)
            code(self.client, name, SET[language].format(i), context=language)
            self.pids[language] = context(self.client, name, language)["pid"]
        code(self.client, name, "kept = 'default'")
        self.pids["default-python"] = context(self.client, name)["pid"]
        make(self.client, name, "long")
        out(self.client, name, "kept = 5", context="long")
        text = "i = 0\nimport os, time\nwhile not os.path.exists('/workspace/stop'):\n"
        text += "    print(i, flush=True); i += 1; time.sleep(0.005)\nprint('end', i)"
        self.cell = begin(server, name, text, context="long", timeout=3_600_000)
        assert wait_until(lambda: state_of(self.client, name, "long") == "busy")
        time.sleep(0.3)  # so that its row has it

    def check(self):
        for i, language in enumerate(LANGUAGES):
            assert out(self.client, self.name, GET[language], context=language) == f"{i}\n"
            assert context(self.client, self.name, language)["pid"] == self.pids[language]
        assert out(self.client, self.name, "print(kept)") == "default\n"
        assert context(self.client, self.name)["pid"] == self.pids["default-python"]
        assert state_of(self.client, self.name, "long") == "busy"

    def end(self):
        """The cell that lasted ends, and its context goes on."""
        assert self.client.again("PUT", f"/sandbox/{self.name}/files/workspace/stop", b"").status in (200, 201)
        assert out(self.client, self.name, "print(kept, i > 0)", context="long") == "5 True\n"
        assert self.client.again("DELETE", f"/sandbox/{self.name}").status in (200, 404)


# -- the daemon


def test_daemon_is_killed_at_random_moments(server):
    chance = random.Random(os.getpid())
    workers = [CellWorker(server, f"w{i}", chance.random()) for i in range(3)]
    with Prober(server) as prober:
        kept = Kept(server)
        for worker in workers:
            worker.start()
        for _ in range(ROUNDS):
            kill_at_random(server, chance)
            kept.check()
            failures = [worker.failure for worker in workers if worker.failure]
            assert not failures, failures[0]
        for worker in workers:
            worker.end()
        kept.end()
    assert prober.count > 0 and not server.refused
    assert all(worker.done > ROUNDS for worker in workers), [worker.done for worker in workers]
    assert server.client().good("GET", "/sandbox")["sandboxes"] == []
    settled(server)
    assert not server.faults(), server.faults()


def test_what_a_daemon_had_just_begun_is_nobodys(server):
    """A kernel whose context has no row yet goes with its daemon: none is left, and the next context is a new one, also
    where one was parked."""
    client = server.client()
    client.good("PUT", "/sandbox/a", {"keepAlive": True})
    for i in range(ROUNDS):
        first = begin(server, "a", f"import time; secret = {i}; time.sleep(0.04)", language="python")
        others = [begin_context(server, "a", f"c{i}-{n}") for n in range(3)]
        time.sleep(0.002 * (i % 12))
        lose_daemon(server)
        for thread in [first, *others]:
            thread.join(PATIENCE)
        there = [one["id"] for one in client.again("GET", "/sandbox/a/contexts").json["contexts"]]
        for name in there:
            if not name.startswith("default"):
                assert out(client, "a", "print('secret' in globals())", context=name) == "False\n"
        make(client, "a", f"new{i}")
        assert out(client, "a", "print('secret' in globals())", context=f"new{i}") == "False\n"
        for name in [*there, f"new{i}"]:
            assert client.again("DELETE", f"/sandbox/a/contexts/{name}").status in (200, 404)
        assert wait_until(lambda: pythons_of(client, "a") == 0), client.exec("a", "ps -ef")
        client.good("DELETE", "/sandbox/a")
        client.good("PUT", "/sandbox/a", {"keepAlive": True})
    assert not server.faults(), server.faults()


def begin_context(server, sandbox, name):
    client = server.client()

    def ask():
        try:
            client.call("POST", f"/sandbox/{sandbox}/contexts", {"id": name, "language": "python"})
        except Broken:
            pass

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    return thread


def test_a_deadline_holds_for_the_next_daemon(server):
    """Also that of a cell that had only just begun, of which no row tells."""
    client = server.client()
    client.good("PUT", "/sandbox/a", {"keepAlive": True})
    for i, wait in enumerate([0.01, 0.05, 0.3]):
        name = f"c{i}"
        client.good("POST", "/sandbox/a/contexts", {"id": name, "language": "python", "timeout": 1500})
        out(client, "a", "kept = 7", context=name)
        cell = begin(server, "a", "open('/workspace/begun','w').close()\nwhile True: pass", context=name)
        assert wait_until(lambda: client.exec("a", "ls /workspace").strip(), every=0)
        time.sleep(wait)
        lose_daemon(server)
        cell.join(PATIENCE)
        # Nobody waits for it: it is interrupted, and its context goes on.
        assert out(client, "a", "print(kept)", context=name, timeout=PATIENCE * 1000) == "7\n"
        client.exec("a", "rm /workspace/begun")
    client.good("DELETE", "/sandbox/a")


def test_a_cell_that_nobody_knows_can_be_interrupted(server):
    client = server.client()
    client.good("PUT", "/sandbox/a", {"keepAlive": True})
    make(client, "a", "c")
    out(client, "a", "kept = 7", context="c")
    cell = begin(server, "a", "open('/workspace/begun','w').close()\nwhile True: pass", context="c")
    assert wait_until(lambda: client.exec("a", "ls /workspace").strip(), every=0)
    lose_daemon(server)
    cell.join(PATIENCE)
    assert state_of(client, "a", "c") == "busy"
    assert client.again("POST", "/sandbox/a/contexts/c/interrupt").status == 200
    assert wait_until(lambda: state_of(client, "a", "c") == "idle")
    assert out(client, "a", "print(kept)", context="c") == "7\n"
    client.good("DELETE", "/sandbox/a")


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_display_that_nobody_acknowledged(server, language):
    """It goes on, also when its cell had only just begun."""
    client = server.client()
    client.good("PUT", "/sandbox/a", {"keepAlive": True})
    show = {
        "python": "n = 0\nwhile n < 400:\n    display(n); n += 1",
        "javascript": "var n = 0; while (n < 400) { display(n); n += 1 }",
    }[language]
    for i in range(6):
        name = f"c{i}"
        make(client, "a", name, language)
        cell = begin(server, "a", show, context=name)
        time.sleep(0.01 + 0.03 * i)
        lose_daemon(server)
        cell.join(PATIENCE)
        assert wait_until(lambda: state_of(client, "a", name) == "idle"), context(client, "a", name)
        again = {"python": "print(globals().get('n', 400))", "javascript": "console.log(globalThis.n ?? 400)"}[language]
        assert out(client, "a", again, context=name) == "400\n"
        client.good("DELETE", f"/sandbox/a/contexts/{name}")
    client.good("DELETE", "/sandbox/a")


def test_half_a_cell_is_never_run(server):
    """Code that does not fit into a pipe, of which the daemon has sent the first part when it is killed."""
    client = server.client()
    client.good("PUT", "/sandbox/a", {"keepAlive": True})
    make(client, "a", "c")
    out(client, "a", "ran = []", context="c")
    pid = kernel_pid(server, client, "a", "c")
    os.kill(pid, signal.SIGSTOP)
    large = "ran.append(1)\n" + "# " + "x" * 2_000_000 + "\nran.append(2)\nopen('/workspace/ran', 'w')\n"
    cell = begin(server, "a", large, context="c")
    time.sleep(0.3)
    daemon = server.kill_daemon()
    server.wait_for_another(daemon)
    cell.join(PATIENCE)
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
    answer = client.again("POST", "/sandbox/a/code", {"code": "print(ran)", "context": "c", "timeout": 5000})
    if answer.status == 409:  # its state is lost, and it says so
        assert client.good("POST", "/sandbox/a/contexts/c/restart")
        assert out(client, "a", "print('ran' in globals())", context="c") == "False\n"
    else:
        assert answer.status == 200 and answer.json["success"], answer
        assert answer.json["logs"]["stdout"] == ["[]\n"], answer
    assert client.exec("a", "ls /workspace") == ""
    client.good("DELETE", "/sandbox/a")


def kernel_pid(server, client, sandbox, name):
    """On the host."""
    mark = f"{MARK}-{time.monotonic_ns()}"
    helper = f"import subprocess\nhelper = subprocess.Popen(['sh', '-c', 'sleep 1000; : {mark}'])"
    out(client, sandbox, helper, context=name)
    pid = leaks.parent(min(wait_until(lambda: processes_with(mark))))
    out(client, sandbox, "helper.kill()", context=name)
    return pid


# -- the keeper


def test_keeper_is_killed(server):
    client = server.client()
    for i in range(BOTH_ROUNDS):
        name = f"k{i}"
        client.good("PUT", f"/sandbox/{name}", {"keepAlive": True})
        for language in LANGUAGES:
            make(client, name, language, language)
        code(client, name, "kept = 1")
        cell = begin(server, name, f"import subprocess; subprocess.run(['sh', '-c', 'sleep 1000; : {MARK}'])", context="python")
        assert wait_until(lambda: processes_with(MARK))
        assert wait_until(server.zygotes)
        ours = leaks.tree(server.process.pid)
        if i % 2 == 0:
            server.kill_both()
        else:
            os.kill(server.process.pid, signal.SIGKILL)
            server.process.wait(PATIENCE)
        cell.join(PATIENCE)
        gone = lambda: not [pid for pid in ours if name_of(pid)]
        assert wait_until(gone), [(pid, name_of(pid)) for pid in ours if name_of(pid)]
        assert not processes_with(MARK)
        server.start()
        client.close()
        for language in [*LANGUAGES, "default-python"]:
            dead = context(client, name, language)
            assert (dead["status"], dead["reason"]) == ("dead", "box_lost"), dead
        answer = client.call("POST", f"/sandbox/{name}/code", {"code": "1", "context": "python"})
        assert answer.status == 409 and "restart" in answer.json["error"], answer
        assert out(client, name, "print('kept' in globals())") == "False\n"  # the default one begins anew
        client.good("POST", f"/sandbox/{name}/contexts/bash/restart")
        assert out(client, name, "echo up", context="bash") == "up\n"
        client.good("DELETE", f"/sandbox/{name}")
    settled(server)


# -- the zygote


def is_fork(client, sandbox, **more):
    return out(client, sandbox, "import os; print(os.readlink('/proc/self/exe'))", **more).startswith(FORK)


def test_the_zygote_is_killed_while_it_plants(server):
    """Whoever asked has a context, one way or another, and no half-made fork stays in a box."""
    client = server.client()
    client.good("PUT", "/sandbox/a", {"keepAlive": True})
    assert wait_until(server.zygotes)
    for i in range(ZYGOTE_ROUNDS):
        threads = [begin_context(server, "a", f"c{i}-{n}") for n in range(4)]
        time.sleep(0.003 * (i % 5))
        for pid in server.zygotes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for thread in threads:
            thread.join(PATIENCE)
        for n in range(4):
            assert out(client, "a", "print(1 + 1)", context=f"c{i}-{n}") == "2\n"
            client.good("DELETE", f"/sandbox/a/contexts/c{i}-{n}")
        client.good("DELETE", "/sandbox/a")
        client.good("PUT", "/sandbox/a", {"keepAlive": True})
        make(client, "a", "c")
        make(client, "a", "d")
        for name in "cd":
            client.good("DELETE", f"/sandbox/a/contexts/{name}")
        # What is left is a Node that was parked.
        assert wait_until(lambda: "python3" not in names_in(client, "a")), client.exec("a", "ps -ef")
    client.good("DELETE", "/sandbox/a")
    settled(server)
    assert not server.faults(), server.faults()


def test_the_daemon_is_killed_while_the_zygote_plants(server):
    """An answer for the one that died is not taken for one of the next."""
    client = server.client()
    chance = random.Random(os.getpid())
    for i in range(ROUNDS):
        client.again("PUT", "/sandbox/a", {"keepAlive": True})
        pid = wait_until(server.zygotes)[0]
        os.kill(pid, signal.SIGSTOP)
        threads = [begin_context(server, "a", f"c{i}-{n}") for n in range(4)]
        time.sleep(0.1)
        killed = server.kill_daemon()
        if i % 2 == 0:
            os.kill(pid, signal.SIGCONT)
        server.wait_for_another(killed)
        asked = [begin(server, "a", f"print({n})", language="python") for n in range(2)]
        time.sleep(chance.random() * 0.05)
        os.kill(pid, signal.SIGCONT)
        for thread in [*threads, *asked]:
            thread.join(PATIENCE)
        assert all(thread.found[0].status == 200 for thread in asked), [thread.found for thread in asked]
        for one in client.again("GET", "/sandbox/a/contexts").json["contexts"]:
            assert client.again("DELETE", f"/sandbox/a/contexts/{one['id']}").status == 200
        assert wait_until(lambda: "python3" not in names_in(client, "a")), client.exec("a", "ps -ef")
        client.good("DELETE", "/sandbox/a")
    settled(server)
    assert not server.faults(), server.faults()


def test_daemons_come_and_go_while_nobody_uses_the_pool(server):
    """Each parks interpreters in boxes that have them, and what their guests say of it is read by nobody."""
    client = server.client()
    for _ in range(PARK_ROUNDS):
        killed = server.kill_daemon()
        server.wait_for_another(killed)
        time.sleep(0.05)
    client.good("PUT", "/sandbox/a", {"languages": ["javascript"]})
    assert out(client, "a", "print(1)") == "1\n"
    assert out(client, "a", "console.log(2)", language="javascript") == "2\n"
    client.good("DELETE", "/sandbox/a")
    settled(server)


# -- upgrades


def test_contexts_are_taken_over_by_another_program(installed):  # noqa: F811
    server = installed
    if not os.access(NEXT, os.X_OK):
        pytest.fail(f"{NEXT} is not built")
    kept = Kept(server)
    client = server.client()
    assert wait_until(server.zygotes)
    for program in (NEXT, NEXT):
        before = server.zygotes()
        replace(server, program)
        done = upgrade(server)
        assert done.returncode == 0, (done.stderr, server.log())
        client.close()
        kept.check()
        assert wait_until(lambda: server.zygotes() and not set(before) & set(server.zygotes()))
        # A box of the program before is in another Z, which no zygote of ours may enter.
        made = make(client, "kept", "after-the-upgrade")
        assert made["status"] == "idle" and not is_fork(client, "kept", context="after-the-upgrade")
        client.good("DELETE", "/sandbox/kept/contexts/after-the-upgrade")
        assert wait_until(lambda: new_is_fork(client), every=0.1)
        lose_daemon(server)
        client.close()
        kept.check()
    kept.end()
    settled(server)
    assert not server.faults(), server.faults()


def new_is_fork(client):
    client.again("PUT", "/sandbox/new", {})
    try:
        return is_fork(client, "new")
    finally:
        client.again("DELETE", "/sandbox/new")


# It says that it starts, and is gone when it is to.
VANISHING = '#!/bin/sh\nrm -f "$0"\nexec {} "$@"\n'


def test_zygotes_come_back_when_there_is_no_upgrade(installed):  # noqa: F811
    """Also when that shows only after all that is ready was taken apart."""
    server = installed
    kept = Kept(server)
    client = server.client()
    assert wait_until(lambda: new_is_fork(client), every=0.1)
    place = server.data / "cay"
    place.unlink()
    place.write_text(VANISHING.format(CAY), encoding="utf-8")
    place.chmod(0o755)
    before = server.zygotes()
    done = subprocess.run(
        [CAY, "upgrade", "--data", str(server.data)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode != 0 and not place.exists(), (done, server.log())
    client.close()
    kept.check()
    assert wait_until(lambda: set(server.zygotes()) - set(before)), server.log()
    assert wait_until(lambda: new_is_fork(client), every=0.1), server.log()
    replace(server)
    assert upgrade(server).returncode == 0, server.log()
    client.close()
    kept.check()
    kept.end()
    settled(server)


def test_the_spawner_is_killed(server):
    """Its zygote is in another Z than the boxes of the next, and is made anew."""
    client = server.client()
    assert wait_until(lambda: new_is_fork(client), every=0.1)
    kept = Kept(server)
    before = server.zygotes()
    os.kill(leaks.spawner(server), signal.SIGKILL)
    assert wait_until(lambda: server.zygotes() and not set(before) & set(server.zygotes())), server.log()
    kept.check()
    assert wait_until(lambda: client.good("GET", "/health")["pool"]["ready"] == server.POOL)
    for one in client.good("GET", "/sandbox")["sandboxes"]:
        assert one["id"] == "kept", one
    kept.end()
    assert wait_until(lambda: new_is_fork(client), every=0.1), server.log()


# -- ends that were asked for


def test_the_server_ends_while_a_cell_runs(server):
    client = server.client()
    client.good("PUT", "/sandbox/a", {"keepAlive": True})
    make(client, "a", "c")
    cell = begin(server, "a", f"import subprocess; subprocess.run(['sh', '-c', 'sleep 1000; : {MARK}-end'])", context="c")
    assert wait_until(lambda: processes_with(f"{MARK}-end"))
    ours = leaks.tree(server.process.pid)
    begun = time.monotonic()
    server.stop()
    assert time.monotonic() - begun < PATIENCE
    cell.join(PATIENCE)
    assert cell.found[0] is None or cell.found[0].json.get("reason") in ("killed", None), cell.found
    assert wait_until(lambda: not [pid for pid in ours if name_of(pid)]), [(p, name_of(p)) for p in ours]
    server.start()
    client.close()
    dead = context(client, "a", "c")
    assert dead["status"] == "dead" and "sleep" in (dead.get("detail") or dead.get("reason")), dead
    client.good("DELETE", "/sandbox/a")


def test_a_sandbox_sleeps(server):
    client = server.client()
    client.good("PUT", "/sandbox/a", {"keepAlive": True})
    for language in LANGUAGES:
        make(client, "a", language, language)
    code(client, "a", "kept = 1")
    cell = begin(server, "a", "while True: pass", context="python")
    assert wait_until(lambda: state_of(client, "a", "python") == "busy")
    client.good("POST", "/sandbox/a/sleep")
    cell.join(PATIENCE)
    assert cell.found[0].json["reason"] == "killed", cell.found
    for name in [*LANGUAGES, "default-python"]:
        dead = context(client, "a", name)
        assert dead["status"] == "dead" and "sleep" in str(dead), dead
    lose_daemon(server)
    for name in [*LANGUAGES, "default-python"]:
        dead = context(client, "a", name)
        assert dead["status"] == "dead" and "sleep" in str(dead), dead
    client.again("POST", "/sandbox/a/wake")
    for language in LANGUAGES:
        client.good("POST", f"/sandbox/a/contexts/{language}/restart")
        code(client, "a", SET[language].format(4), context=language)
        assert out(client, "a", GET[language], context=language) == "4\n"
    client.good("DELETE", "/sandbox/a")


# -- nothing is left


def test_nothing_is_left(server):
    """After many contexts, cells with large output, kills of kernels and zygotes: the same descriptors, processes,
    cgroups, rows and files as before."""
    client = server.client()
    round_of_everything(server, client, "warm")
    settled(server)
    before = leaks.held(server)
    filled = bytes_of(server)
    for i in range(LEAK_ROUNDS):
        round_of_everything(server, client, f"r{i}")
        if i % 2 == 0:
            assert wait_until(server.zygotes)  # the next one may still be on its way
            os.kill(server.zygotes()[0], signal.SIGKILL)
    settled(server)
    rest = lambda: leaks.difference(before, leaks.held(server))
    assert wait_until(lambda: not rest()), rest()
    assert bytes_of(server) < filled + (64 << 20), (filled, bytes_of(server))
    assert not server.faults(), server.faults()


def bytes_of(server):
    """What its files take of the file system: those in its data directory, with the volume, and those without names in which cells
    keep what does not fit into memory, as long as one of its processes has them."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(server.data) for name in names]
    paths += [path for pid in (server.process.pid, *leaks.tree(server.process.pid)) for path in glob.glob(f"/proc/{pid}/fd/*")]
    device, found = os.stat(server.data).st_dev, {}
    for path in paths:
        with contextlib.suppress(OSError):  # gone meanwhile
            info = os.stat(path)
            if info.st_dev == device and stat.S_ISREG(info.st_mode):
                found[info.st_ino] = info.st_blocks * 512
    return sum(found.values())


def round_of_everything(server, client, name):
    client.good("PUT", f"/sandbox/{name}", {})
    for language in LANGUAGES:
        make(client, name, language, language)
        code(client, name, SET[language].format(1), context=language)
    code(client, name, "print('x' * 20_000_000)", context="python")
    code(client, name, "import os; os._exit(3)", context="python")
    client.good("POST", f"/sandbox/{name}/contexts/python/restart")
    code(client, name, "while True: pass", context="python", timeout=200)
    cells = [begin(server, name, "import time; time.sleep(1000)", language="python") for _ in range(3)]
    assert wait_until(lambda: state_of(client, name, "default-python") == "busy")
    client.good("DELETE", f"/sandbox/{name}/contexts/javascript")
    client.good("DELETE", f"/sandbox/{name}")
    for cell in cells:
        cell.join(PATIENCE)
        assert cell.found, name
