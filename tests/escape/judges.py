# SPDX-License-Identifier: Apache-2.0
"""Attempts whose outcome shows only outside the box.

A judge makes the attempt with the boxes it is given and answers (escaped, what was seen). The same judge
serves the test, which wants False, and the canary, which wants True.
"""

import os
import pathlib
import re
import signal
import subprocess
import time

from world import PATIENCE, Boxes, lingering

JUDGES = {}
MIB = 1 << 20
KEPT = 2 * MIB  # of output, where a test asks for little


def judge(function):
    JUDGES[function.__name__] = function
    return function


def cgroups_of(pid):
    """Directories of the box's cgroups that a process of it is in, the deepest first."""
    found = set()
    for mount in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = mount.partition(" - ")
        kind, _, options = after.split()[:3]
        if kind not in ("cgroup", "cgroup2"):
            continue
        for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if "/cay/" in path and (controllers in options.split(",") or (kind == "cgroup2" and not controllers)):
                top = pathlib.Path(before.split()[4] + path)
                found.update(p for p in (top, *top.parents) if p.parent.name == "cay" or "/cay/" in str(p.parent))
    return sorted(found, key=lambda p: -len(p.parts))


def end_lingerers(token):
    """Kills what an attempt left on the host, by id, and removes its cgroups; how many there were."""
    left = lingering(token)
    directories = []
    for pid in left:
        try:
            directories += cgroups_of(pid)
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, FileNotFoundError):
            pass
    for _ in range(50):
        if not lingering(token):
            break
        time.sleep(0.1)
    for directory in sorted(set(directories), key=lambda p: -len(p.parts)):
        try:
            directory.rmdir()
        except OSError:
            pass
    return len(left)


def settled_lingerers(token):
    """Those still there a moment after the run. A box that ended is one whose last process was reaped, so
    there should be nothing to wait for."""
    for _ in range(3):
        if not lingering(token):
            return 0
        time.sleep(0.1)
    return end_lingerers(token)


# -- 2 memory


@judge
def memory_page_cache(boxes):
    limit = 64 * MIB
    report = boxes.run(["--memory", "64m"], ["--memory", str(limit), "--direct", "memory_page_cache"])
    seen = f"ended by {report['reason']}, peak {report['peakMemory'] // MIB} MiB of 64"
    return report["reason"] != "exit" or report["peakMemory"] > limit, seen


# -- 3 processor time


def used(text):
    return int(re.search(r"used (\d+)", text.decode())[1])


@judge
def cpu_neighbour(boxes):
    """The hog and a modest neighbour run at the same time: the neighbour gets at least half of what the
    hog gets, however busy the machine is."""
    flags = ["--cpus", "0.2", "--pids", "200"]
    hog = boxes.start(flags, ["--direct", "cpu_neighbour"], stdout=subprocess.PIPE)
    fair = Boxes(host=boxes.host).start(flags, ["--pids", "1", "--direct", "cpu_neighbour"], stdout=subprocess.PIPE)
    greedy = used(hog.communicate(timeout=PATIENCE)[0])
    modest = used(fair.communicate(timeout=PATIENCE)[0])
    return modest < greedy / 2, f"thousandths of a processor: hog {greedy}, neighbour {modest}"


# -- 5 what all boxes draw from


@judge
def files_terminals(boxes):
    return exhaust(boxes, "files_terminals", ["--files", "10000"], "terminal")


@judge
def ipc_inotify(boxes):
    return exhaust(boxes, "ipc_inotify", [], "watch")


@judge
def ipc_lock(boxes):
    return exhaust(boxes, "ipc_lock", [], "lock")


@judge
def ipc_queues(boxes):
    return exhaust(boxes, "ipc_queues", [], "queue")


@judge
def ipc_timers(boxes):
    return exhaust(boxes, "ipc_timers", [], "timer")


def exhaust(boxes, name, flags, what):
    witnesses = [w for w in (boxes.host, boxes.neighbour) if w]
    marks = [w.mark() for w in witnesses]
    report = boxes.run(flags, ["--direct", name])
    held = report.results[name]["detail"]
    for witness, mark in zip(witnesses, marks):
        if any(beat[what] for beat in witness.wait_beats(mark)):
            return True, f"{held}; the witness in {witness.where} got none"
    return False, f"{held}; the witnesses got theirs"


@judge
def net_conntrack(boxes):
    counter = pathlib.Path("/proc/sys/net/netfilter/nf_conntrack_count")
    before = int(counter.read_text(encoding="ascii")) if counter.exists() else 0
    boxes.run([], ["--direct", "net_conntrack"])
    after = int(counter.read_text(encoding="ascii")) if counter.exists() else 0
    return after - before > 2000, f"the host knew {before} flows before and {after} after"


# -- 6 output


def output(boxes, name):
    report = boxes.run(["--output", "2m"], ["--direct", name])
    kept = len(report.output)
    flagged = report["truncated"] and "output" in report["limitsHit"]
    # The program poured out 256 MiB; cay keeps 2 of them, and their JSON. (The kernel counts what this
    # test had in memory when it started cay, too.)
    modest = kept <= KEPT and report.max_rss < 128 * MIB
    seen = f"kept {kept} bytes, limitsHit {report['limitsHit']}, cay took {report.max_rss // MIB} MiB"
    return not modest or not flagged or report["reason"] != "exit", seen


@judge
def output_flood(boxes):
    return output(boxes, "output_flood")


@judge
def output_line(boxes):
    return output(boxes, "output_line")


@judge
def output_binary(boxes):
    return output(boxes, "output_binary")


@judge
def output_controls(boxes):
    report = boxes.run([], ["--direct", "output_controls"])
    raw = [c for c in report.raw.rstrip("\n") if ord(c) < 0x20 or ord(c) == 0x7F]
    whole = b"\x1b[31m" in report.output and b"\xff\xfe\xc0\xaf" in report.output
    return bool(raw) or not whole, f"{len(raw)} raw control bytes in the JSON, output whole: {whole}"


# -- 7 and 10 processes that stay


@judge
def linger_after_exit(boxes):
    boxes.run([], ["--direct", "linger_after_exit"])
    left = settled_lingerers(boxes.host.token)
    return left > 0, f"{left} of 6 processes live on"


@judge
def linger_after_kill(boxes):
    report = boxes.run(["--timeout", "3s"], ["--direct", "linger_after_kill"])
    left = settled_lingerers(boxes.host.token)
    return left > 0 or report["reason"] != "timeout", f"{left} of 7 live on, reason {report['reason']}"


@judge
def output_held(boxes):
    """The run has to end, and its output with it, long before the grandchild ends by itself."""
    process = boxes.start([], ["--direct", "output_held"], stdout=subprocess.PIPE)
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        left = end_lingerers(boxes.host.token)
        process.communicate(timeout=PATIENCE)
        return True, f"the output stayed open; {left} held it"
    left = settled_lingerers(boxes.host.token)
    return left > 0, "the output ended with the run"


@judge
def output_poured(boxes):
    process = boxes.start(["--cpus", "2"], ["--direct", "output_poured"], stdout=subprocess.DEVNULL)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True, "the run did not end"
    return False, "the run ended"


# -- 11 and 12 the way in


@judge
def exe_as_command(boxes):
    """Whatever runs is user code in the box, or nothing. The program on the host stays as it is."""
    before = pathlib.Path(boxes.program).read_bytes()
    codes = {}
    for name in ("/proc/self/exe", "/proc/1/exe", "/proc/self/fd/0", "/proc/self/fd/3", "/proc/self/fd/4"):
        report = boxes.run_plain(["--timeout", "5s"], [name, "--version"])
        codes[name] = report.get("reason", "refused"), report.returncode
    changed = pathlib.Path(boxes.program).read_bytes() != before
    return changed, f"ended: {codes}"


@judge
def workdir_tricks(boxes):
    seen = []
    names = [f"/proc/self/fd/{n}" for n in range(3, 16)] + ["/proc/1/root", "/proc/1/cwd", "/proc/self/cwd"]
    for name in names:
        report = boxes.run(["--workdir", name], ["--direct", "workdir_tricks"])
        result = report.results.get("workdir_tricks")
        if result and result["outcome"] != "HELD":
            return True, f"{name}: {result['detail']}"
        seen.append(bool(result))
    return False, f"{sum(seen)} of {len(seen)} directories were accepted, all inside"


# -- 20 signals


@judge
def kill_everyone(boxes):
    witnesses = [w for w in (boxes.host, boxes.neighbour) if w]
    marks = [w.mark() for w in witnesses]
    boxes.run([], ["--direct", "kill_everyone"])
    for witness, mark in zip(witnesses, marks):
        before = witness.beats[mark - 1]["strays"]
        if any(beat["strays"] > before for beat in witness.wait_beats(mark, 4)):
            return True, f"the witness in {witness.where} got the signal"
    return False, "neither witness got a signal"


# -- 25 files the host trusts


@judge
def priv_system_files(boxes):
    report = boxes.run([], ["--direct", "priv_system_files"])
    name = f"cay-written-{boxes.host.token}"
    found = [d for d in ("/etc", "/usr/bin", "/var", "/tmp") if os.path.exists(f"{d}/{name}")]
    for directory in found:
        os.unlink(f"{directory}/{name}")
    seen = report.results["priv_system_files"]["detail"]
    return bool(found), f"{seen}; on the host: {found or 'none'}"
