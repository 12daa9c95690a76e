# SPDX-License-Identifier: Apache-2.0
"""Nothing stays on the machine: processes, cgroups, mounts, loop devices, files in /run/cay, shared
memory are counted before and after runs that end well, end badly, or are killed at any moment."""

import ctypes
import fcntl
import glob
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time

import pytest
from run_helpers import CAY, FULL, HIDING_TREE, PATIENCE, Cay, alive_with, marker, wait_until

PR_SET_CHILD_SUBREAPER = 36
ROUNDS = 300 if FULL else 40
SLOTS = "/run/cay/slots"


# -- what there is


def slot_is_free(fd, slot):
    """Nobody has this slot locked."""
    lock = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, slot, 1, 0))
    return struct.unpack("hhqqi4x", lock)[0] == fcntl.F_UNLCK


def cgroup_roots():
    roots = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, right = line.split(" - ", 1)
        if right.split()[0] in ("cgroup", "cgroup2"):
            roots.append(left.split()[4])
    return roots


def stale_cgroups():
    """Directories of boxes that no living keeper answers for. Those of a keeper that lives, somebody
    else's perhaps, are no leak."""
    found = set()
    if not os.path.exists(SLOTS):
        return found
    fd = os.open(SLOTS, os.O_RDWR | os.O_CLOEXEC)
    try:
        for root in cgroup_roots():
            for path in glob.glob(f"{root}/cay/[0-9]*"):
                if slot_is_free(fd, int(os.path.basename(path))):
                    found.add(path)
    finally:
        os.close(fd)
    return {path for path in found if os.path.isdir(path)}


def mount_points():
    lines = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return sorted(line.split()[4] for line in lines)


def loop_devices(data):
    found = set()
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            if pathlib.Path(path).read_text(encoding="utf-8").startswith(str(data)):
                found.add(path)
        except OSError:
            pass
    return found


def shared_memory():
    """Segments, semaphores and queues of System V, by kind and id."""
    found = set()
    for kind in ("shm", "sem", "msg"):
        for line in pathlib.Path(f"/proc/sysvipc/{kind}").read_text(encoding="utf-8").splitlines()[1:]:
            found.add((kind, line.split()[1]))
    return found


def data_files(data):
    return sorted(str(path) for path in pathlib.Path(data).glob("*")) + sorted(
        str(path) for path in pathlib.Path(data).glob("images/*")
    )


class Machine:
    """The state of the machine as far as Cay changes it. Every process that a run leaves behind becomes
    our child, because we are the reaper of orphans."""

    def __init__(self, data):
        self.data = data
        self.children = self.living_children()
        self.before = self.look()

    def look(self):
        return {
            "stale cgroups": stale_cgroups(),
            "mounts": mount_points(),
            "loop devices": loop_devices(self.data),
            "run": sorted(os.listdir("/run/cay")),
            "shared memory": shared_memory(),
            "data": data_files(self.data),
        }

    @staticmethod
    def living_children():
        """Pids of our children after those that have ended were reaped."""
        found = set()
        text = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8")
        for pid in map(int, text.split()):
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    found.add(pid)
            except ChildProcessError:
                pass
        return found

    def settled(self):
        if self.living_children() - self.children:
            return False
        now = self.look()
        if now["stale cgroups"] - self.before["stale cgroups"]:
            return False
        return all(now[k] == self.before[k] for k in now if k != "stale cgroups")

    def check(self):
        if wait_until(self.settled, 10):
            return
        now = self.look()
        told = []
        for pid in self.living_children() - self.children:
            name = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            told.append(f"process {pid} {name!r}")
        for what, was in self.before.items():
            if what == "stale cgroups":
                told += [f"{what}: {sorted(now[what] - was)}"] if now[what] - was else []
            elif now[what] != was:
                told.append(f"{what}: {was} became {now[what]}")
        raise AssertionError("left behind: " + "; ".join(told))


@pytest.fixture
def machine(cay):
    assert cay.run("--", "true").returncode == 0  # whatever is made once is there
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield Machine(cay.data)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


# -- what is done


def test_runs_that_end_well(cay, machine):
    script = "echo x > /workspace/f; mkdir -p /tmp/a/b; python3 -c 'import time' & wait"
    for _ in range(10):
        assert cay.run("--", "sh", "-c", script).returncode == 0
    machine.check()


def test_what_programs_leave_in_the_kernel(cay, machine):
    """Shared memory, semaphores, queues, sockets, mappings: gone with the box's namespaces."""
    code = """
import ctypes, mmap, os, socket
libc = ctypes.CDLL(None, use_errno=True)
assert libc.shmget(0x1234, 4096, 0o1600) >= 0 and libc.semget(0x1234, 1, 0o1600) >= 0 and libc.msgget(0x1234, 0o1600) >= 0
s = socket.socket(); s.bind(("127.0.0.1", 80)); s.listen()
u = socket.socket(socket.AF_UNIX); u.bind("\\0abstract"); u.listen()
open("/dev/shm/x", "wb").write(bytes(4096))
"""
    for _ in range(3):
        done = cay.python(code)
        assert done.returncode == 0, done.stderr
    machine.check()


FAILURES = [
    ["--", "no-such-command"],
    ["--", "/etc/passwd"],
    ["--workdir", "/nowhere", "--", "true"],
    ["--image", "no-such-image", "--", "true"],
    ["--nonsense", "--", "true"],
    ["--memory", "64m", "--", "python3", "-c", "x = bytearray(200 << 20)"],
    ["--timeout", "200ms", "--", "sleep", "1000"],
    ["--timeout", "300ms", "--", "python3", "-c", HIDING_TREE],
    ["--timeout", "1ms", "--", "sleep", "1000"],
    ["--pids", "8", "--timeout", "300ms", "--", "bash", "-c", "b() { b | b & }; b 2>/dev/null; sleep 10"],
    ["--", "sh", "-c", "kill -9 $$"],
    ["--", "sh", "-c", "kill -9 -1; exit 1"],
    ["--", "true", *["x"] * 5000],
]


@pytest.mark.parametrize("args", FAILURES, ids=lambda args: " ".join(args)[:40])
def test_runs_that_end_badly(cay, machine, args):
    for _ in range(2):
        assert cay.run(*args).returncode != 0
    machine.check()


def busy_run(cay, word):
    """Something of everything: children that hide, files, output."""
    script = f"setsid sh -c 'sleep 1000; : {word}' & (sleep 1000; : {word}) & echo up; seq 1000000; sleep 1000; : {word}"
    return cay.start("--", "sh", "-c", script, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def how_long_a_start_takes(cay):
    began = time.monotonic()
    for _ in range(5):
        cay.run("--", "true")
    return (time.monotonic() - began) / 5


def test_killed_at_random_moments(cay, machine):
    word = marker()
    span = how_long_a_start_takes(cay) * 2
    chance = random.Random(os.getpid())
    for i in range(ROUNDS):
        running = busy_run(cay, word)
        time.sleep(chance.random() * span)
        running.kill()
        running.wait()
        if i % 10 == 9:
            machine.check()
    assert wait_until(lambda: not alive_with(word))
    machine.check()


def test_killed_at_the_end(cay, machine):
    """While the box is being taken apart."""
    span = how_long_a_start_takes(cay)
    chance = random.Random(os.getpid())
    for _ in range(ROUNDS // 2):
        running = cay.start("--", "true")
        time.sleep(span * (0.5 + chance.random() * 0.7))
        running.kill()
        running.communicate()
    machine.check()


def test_client_is_stopped_and_killed(cay, machine):
    word = marker()
    running = busy_run(cay, word)
    time.sleep(0.3)
    running.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    running.kill()
    running.wait()
    assert wait_until(lambda: not alive_with(word))
    machine.check()


def keeper_of(pid):
    """The keeper among the children of a `cay`, or None while it has none."""
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    except OSError:
        return None
    return int(text.split()[0]) if text.split() else None


def kill_keeper(running, delay):
    if not wait_until(lambda: keeper_of(running.pid) or running.poll() is not None, 5):
        return
    keeper = keeper_of(running.pid)
    time.sleep(delay)
    if keeper is not None:
        try:
            os.kill(keeper, signal.SIGKILL)
        except ProcessLookupError:
            pass


def test_keeper_is_killed_at_random_moments(cay, machine):
    """The one process that cleans up is gone: its boxes end with it, and the next run removes what only
    root could have removed."""
    word = marker()
    span = how_long_a_start_takes(cay) * 2
    chance = random.Random(os.getpid())
    for _ in range(ROUNDS // 2):
        running = busy_run(cay, word)
        kill_keeper(running, chance.random() * span)
        assert running.wait(PATIENCE) == 125
    assert wait_until(lambda: not alive_with(word)), alive_with(word)
    assert cay.run("--", "echo", "fine").stdout == b"fine\n"
    machine.check()


def test_keeper_is_killed_and_the_client_says_so(cay, machine):
    word = marker()
    with cay.start("--", "sh", "-c", f"echo up; sleep 1000; : {word}") as running:
        assert running.stdout.readline() == b"up\n"
        kill_keeper(running, 0)
        assert running.wait(PATIENCE) == 125
        text = running.stderr.read()
        assert text.count(b"\n") == 1 and text.startswith(b"cay: "), text
    assert wait_until(lambda: not alive_with(word)), alive_with(word)
    assert cay.run("--", "true").returncode == 0
    machine.check()


def test_spawner_is_killed(cay, machine):
    word = marker()
    with cay.start("--", "sh", "-c", f"echo up; sleep 1; : {word}") as running:
        assert running.stdout.readline() == b"up\n"
        keeper = keeper_of(running.pid)
        first = int(pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text(encoding="utf-8").split()[0])
        os.kill(first, signal.SIGKILL)
        assert running.wait(PATIENCE) in (0, 125)
    machine.check()


def test_whole_group_is_killed(cay, machine):
    """As when a terminal's session or a CI job is ended: everybody who can be named at once."""
    word = marker()
    for _ in range(5):
        running = busy_run(cay, word)
        time.sleep(0.1)
        keeper = keeper_of(running.pid)
        for pid in (running.pid, keeper):
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
        running.wait()
    assert wait_until(lambda: not alive_with(word))
    assert cay.run("--", "true").returncode == 0
    machine.check()


def test_killed_while_the_image_is_made(machine, tmp_path):
    """On a data directory that is new each time; what is half done is removed or replaced later."""
    chance = random.Random(os.getpid())
    for i in range(ROUNDS // 4):
        data = tmp_path / f"data{i}"
        fresh = Cay(data, CAY)
        running = fresh.start("--", "true")
        time.sleep(chance.random() * 0.04)
        running.kill()
        running.communicate()
        assert fresh.run("--", "echo", "fine").stdout == b"fine\n"
        assert [p.name for p in (data / "images").iterdir() if not p.name.startswith("host")] in ([], [".lock"])
        shutil.rmtree(data)
    machine.check()
