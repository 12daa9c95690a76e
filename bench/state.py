# SPDX-License-Identifier: Apache-2.0
"""The table of state that is never lost: snapshots, forks, waking, sync, backups, and many that sleep. bench/state-bench
measures what takes milliseconds."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import server
from agents import clocked, series
from table import Line, line_table, run_program, timed

NAME, TITLE = "state", "State that is never lost"
PROGRAMS = ["cay", "cayd", "cay-pack", "bench/state-bench"]
BOXES, AT_ONCE, PATIENCE = 200, 8, 600
FORKS, SMALL_FILES, SLEEPING = 100, 10000, 10000
GENERATOR = pathlib.Path(__file__).with_name("mixed-files.py")

METHOD = """\
Over HTTP, with the local store. The sandboxes of lines t1 and t2 run, and have 1 MiB and 10 GiB that `dd` has written in
them; *bare* is fork, `execve` of `/bin/true` and `waitpid`. Of line t3 all children answered an exec afterwards; single forks
are one request after the other on one connection. Line t5 has a new sandbox each round. Line t6 has the same files (two fifths
source text, the rest binaries and what cannot be compressed) on both sides, and both sides read a Btrfs in a file that is
attached as a loop device with direct I/O; archives lie on the file system below it. Before each measurement all is written
back and the caches are dropped. `tar` leaves its output in the page cache, ours is on the disk when it answers: *synced* is
`tar` and a sync behind it. In line t7 two servers run, one with the sandboxes that sleep (each was made, used and put to
sleep) and one without, and are asked in turns."""


# -- the lines


def fork_figure(results):
    """The worse of both sizes."""
    return max(results.ratio("fork", size, "bare") for size in ("small", "large"))


def fork_detail(results):
    ratios = "; ".join(f"{size} {results.ratio('fork', size, 'bare'):.2f}x" for size in ("small", "large"))
    return f"{ratios}; " + results.times("fork", "small", "large", "bare", "small made", "large made")


def sync_detail(results):
    return results.times("sync", "unchanged", "first")


def archive_line(what, ours, theirs):
    def detail(results):
        synced = results.ratio("backup", ours, f"{theirs} synced")
        size = results.values["backup", "MiB"]
        return f"beside it synced {synced:.2f}x; {size:.0f} MiB; " + results.times("backup", ours, theirs, f"{theirs} synced")

    return Line("t6", "backup", what, lambda r: r.ratio("backup", ours, theirs), 1.3, detail)


LINES = [
    timed("t1", "large", "snapshot of a sandbox with 10 GiB beside one with 1 MiB", "snapshot", "large", "small", 1.5),
    Line("t2", "large", "fork of a running one until its child has answered an exec", fork_figure, 10, fork_detail),
    Line(
        "t3",
        "forks",
        f"{FORKS} forks by one request beside {FORKS} single ones",
        lambda r: r.ratio("forks", "together", "single"),
        0.5,
        lambda r: r.times("forks", "together", "single"),
    ),
    server.count(
        "t3",
        "forks",
        "children that failed, or were not there, or not of their own",
        lambda r: r.values["forks", "failed"],
        lambda r: f"{r.values['forks', 'children']:.0f} children asked",
    ),
    timed("t4", "wake", "wake of one with a 1 GiB disk and exec, beside create and exec", "wake", "wake", "create", 1.5),
    Line(
        "t5",
        "sync",
        f"sync of {SMALL_FILES:,} small files, nothing changed, beside the first",
        lambda r: r.ratio("sync", "unchanged", "first"),
        0.1,
        sync_detail,
    ),
    archive_line("backup of mixed files beside `tar \\| zstd -T0 -3`", "backup", "tar c"),
    archive_line("restore of it beside `zstd -d \\| tar x`", "restore", "tar x"),
    Line(
        "t7",
        "asleep",
        f"create and exec with {SLEEPING:,} sandboxes asleep, beside none",
        lambda r: r.ratio("asleep", "asleep", "none"),
        1.2,
        lambda r: f"{r.values['asleep', 'sandboxes']:.0f} asleep; " + r.times("asleep", "asleep", "none"),
    ),
]


# -- a client


class Ours:
    """A server, over a connection for each thread."""

    def __init__(self, port, data):
        self.port, self.local = port, threading.local()
        self.token = (data / "admin.token").read_text(encoding="utf-8").strip()

    def connection(self):
        if not hasattr(self.local, "connection"):
            self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        return self.local.connection

    def call(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        self.connection().request(method, path, None if body is None else json.dumps(body), headers)
        reply = self.connection().getresponse()
        answer = json.loads(reply.read() or b"{}")
        if reply.status > 299:
            raise RuntimeError(f"{method} {path}: {reply.status} {answer}")
        return answer

    def create(self, name, **more):
        return self.call("POST", "/sandbox", {"id": name, **more})

    def destroy(self, name):
        return self.call("DELETE", f"/sandbox/{name}")

    def run(self, name, *argv):
        answer = self.call("POST", f"/sandbox/{name}/exec", {"argv": argv, "timeout": f"{PATIENCE}s"})
        if answer["exitCode"] != 0:
            raise RuntimeError(f"{argv[0]} in {name}: {answer}")
        return answer["stdout"]

    def write_zeros(self, name, mib):
        self.run(name, "dd", "if=/dev/zero", "of=/workspace/data", "bs=1M", f"count={mib}", "status=none")
        os.sync()


def state_bench(build, ours, line, quick, results, other=None):
    command = [str(build / "bench/state-bench"), "--port", str(ours.port)]
    command += ["--other-port", str(other.port)] if other else []
    env = {**os.environ, "CAY_TOKEN": ours.token, "CAY_OTHER_TOKEN": other.token if other else ""}
    process = subprocess.Popen(
        command + ["--quick"] * quick + [line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=env
    )
    if not run_program(process, results):
        raise RuntimeError(f"state-bench {line} failed")


def settle():
    """Nothing of what was before is still being written, and nothing is in the caches."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")


# -- snapshots and forks


def measure_large(build, ours, quick, results, **_):
    large = 256 if quick else 10 * 1024
    ours.create("small", keepAlive=True)
    ours.create("large", keepAlive=True, disk=(large + 1024) << 20)
    ours.write_zeros("small", 1)
    ours.write_zeros("large", large)
    state_bench(build, ours, "snapshot", quick, results)
    state_bench(build, ours, "fork", quick, results)


def check_children(ours, names):
    """How many do not answer, or see what another wrote."""

    def check(name):
        try:
            mine = ours.run(name, "sh", "-c", f"cat /workspace/mark; echo {name} >> /workspace/mark; cat /workspace/mark")
            return mine != f"source\nsource\n{name}\n"
        except RuntimeError as error:
            print(f"  {error}", file=sys.stderr)
            return True

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(check, names)) + FORKS - len(set(names))


def destroy_all(ours, names):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(ours.destroy, names))


def fork_together(ours):
    answer = ours.call("POST", "/sandbox/source/fork", {"count": FORKS})
    return [child["sandboxId"] for child in answer["sandboxes"]]


def fork_single(ours):
    return [ours.call("POST", "/sandbox/source/fork", {})["sandboxes"][0]["sandboxId"] for _ in range(FORKS)]


def measure_forks(ours, quick, results, **_):
    ours.create("source", keepAlive=True)
    ours.run("source", "sh", "-c", "echo source > /workspace/mark")
    took, failed, children = {"together": [], "single": []}, 0, 0
    for _ in range(1 if quick else 5):
        for name, make in (("together", fork_together), ("single", fork_single)):
            os.sync()
            ns, names = clocked(make, ours)
            took[name].append(ns)
            failed += check_children(ours, names)
            children += len(names)
            destroy_all(ours, names)
    for name, all_of_it in took.items():
        results.series["forks", name] = series(all_of_it)
    results.values["forks", "failed"], results.values["forks", "children"] = failed, children


# -- asleep


def measure_wake(build, ours, quick, results, **_):
    ours.create("sleeper", disk=4 << 30)
    ours.write_zeros("sleeper", 1024)
    state_bench(build, ours, "wake", quick, results)


def put_to_sleep(ours, number):
    name = f"asleep-{number}"
    ours.create(name)
    ours.run(name, "sh", "-c", "echo here > /workspace/note")
    ours.call("POST", f"/sandbox/{name}/sleep")


def measure_asleep(build, data, ours, quick, results, **_):
    count = SLEEPING // 50 if quick else SLEEPING
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda number: put_to_sleep(ours, number), range(count)))
    os.sync()
    results.values["asleep", "sandboxes"] = count
    alone, port = data / "alone", server.free_port()
    alone.mkdir()
    with server.run_serve(build, alone, port, BOXES):
        state_bench(build, ours, "asleep", quick, results, other=Ours(port, alone))


# -- sync

FILES = """
import os, random
rng = random.Random(5)
for i in range({count}):
    os.makedirs(f"/workspace/files/{{i // 100}}", exist_ok=True)
    with open(f"/workspace/files/{{i // 100}}/{{i}}.txt", "wb") as file:
        file.write(rng.randbytes(rng.randint(100, 4000)))
"""


def measure_sync(ours, quick, results, **_):
    took = {"first": [], "unchanged": []}
    for number in range(1 if quick else 5):
        name = f"sync-{number}"
        ours.create(name, keepAlive=True)
        ours.run(name, "python3", "-c", FILES.format(count=SMALL_FILES))
        os.sync()
        for which in ("first", "unchanged", "unchanged", "unchanged"):
            ns, answer = clocked(ours.call, "POST", f"/sandbox/{name}/sync", {})
            took[which].append(ns)
            if answer["files"] != SMALL_FILES or answer["put"] != (SMALL_FILES if which == "first" else 0):
                raise RuntimeError(f"a sync ({which}): {answer}")
        ours.destroy(name)
    for name, all_of_it in took.items():
        results.series["sync", name] = series(all_of_it)


# -- backups

DIGEST = """
import hashlib, pathlib, sys
digest = hashlib.sha256()
for kind in ("text", "binary", "random"):
    top = pathlib.Path(sys.argv[1]) / kind
    for path in sorted((p for p in top.rglob("*") if p.is_file()), key=lambda p: int(p.name)):
        digest.update(path.read_bytes())
print(digest.hexdigest())
"""


@contextlib.contextmanager
def loop_btrfs(data):
    """A Btrfs made and mounted as that of the disks is."""
    image, mount = data / "beside.img", data / "beside"
    mount.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 30)
    subprocess.run(["mkfs.btrfs", "-q", "-f", "-K", str(image)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    command = ["losetup", "--show", "--direct-io=on", "-f", str(image)]
    loop = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    try:
        subprocess.run(["mount", "-o", "noatime", loop, str(mount)], check=True)
        try:
            yield mount
        finally:
            subprocess.run(["umount", str(mount)], check=True)
    finally:
        subprocess.run(["losetup", "-d", loop], check=True)
        image.unlink()


def shell(command):
    subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True, stdin=subprocess.DEVNULL)


def time_tar(took, name, command, synced_path):
    """With and without a sync behind it."""
    settle()
    began = time.monotonic_ns()
    shell(command)
    took[name].append(time.monotonic_ns() - began)
    shell(f"sync -f {synced_path}")
    took[f"{name} synced"].append(time.monotonic_ns() - began)


def one_backup(ours, tree, archive, took):
    settle()
    ns, backup = clocked(ours.call, "POST", "/sandbox/mixed/backups", {"dir": "/workspace/mixed"})
    took["backup"].append(ns)
    time_tar(took, "tar c", f"tar -C {tree} -c . | zstd -T0 -3 -q -f -o {archive}", archive)
    return backup


def one_restore(ours, backup, mount, archive, digest, took):
    ours.run("mixed", "rm", "-rf", "/workspace/mixed")
    ours.call("POST", "/sandbox/mixed/sleep")
    settle()
    ns, _ = clocked(ours.call, "POST", "/sandbox/mixed/restore", {"backup": backup["id"]})
    took["restore"].append(ns)
    if ours.run("mixed", "python3", "-c", DIGEST, "/workspace/mixed").strip() != digest:
        raise RuntimeError("what was restored is not what was backed up")
    ours.call("DELETE", f"/sandbox/mixed/backups/{backup['id']}")
    out = mount / "out"
    out.mkdir()
    time_tar(took, "tar x", f"zstd -d -q -c {archive} | tar -C {out} -x", out)
    shell(f"rm -rf {out}")


def measure_backup(data, ours, quick, results, **_):
    mib = 64 if quick else 1024
    names = ("backup", "tar c", "tar c synced", "restore", "tar x", "tar x synced")
    took, archive = {name: [] for name in names}, data / "beside.tar.zst"
    ours.create("mixed", disk=8 << 30, memory="1g")
    digest = ours.run("mixed", "python3", "-c", GENERATOR.read_text(encoding="utf-8"), "/workspace/mixed", str(mib)).strip()
    with loop_btrfs(data) as mount:
        tree = mount / "tree"
        shell(f"python3 {GENERATOR} {tree} {mib} > /dev/null")
        for _ in range(1 if quick else 5):
            backup = one_backup(ours, tree, archive, took)
            one_restore(ours, backup, mount, archive, digest, took)
        archive.unlink()
    results.values["backup", "MiB"] = mib
    for name, all_of_it in took.items():
        results.series["backup", name] = series(all_of_it)


PARTS = {
    "large": measure_large,
    "forks": measure_forks,
    "wake": measure_wake,
    "sync": measure_sync,
    "backup": measure_backup,
    "asleep": measure_asleep,
}


# -- all of it


def describe(first_line):
    yield "tar", first_line("tar", "--version")
    yield "zstd", first_line("zstd", "--version")


def measure_part(part, build, data, quick, results):
    port = server.free_port()
    with server.run_serve(build, data, port, BOXES):
        PARTS[part](build=build, data=data, ours=Ours(port, data), quick=quick, results=results)


def measure(parts, build, data, quick, results):
    """Whether everything went well. Each part has a server of its own, with nothing in it."""
    good = True
    for part in parts:
        directory = data / part
        directory.mkdir()
        print(f"{part}:", file=sys.stderr, flush=True)
        try:
            measure_part(part, build, directory, quick, results)
        except (RuntimeError, OSError, KeyError, subprocess.CalledProcessError, json.JSONDecodeError) as error:
            print(f"bench/run: {error}", file=sys.stderr)
            good = False
        finally:
            subprocess.run(["rm", "-rf", "--one-file-system", str(directory)], check=False)
    return good


def report(lines, results):
    yield METHOD
    yield ""
    yield from line_table(lines, results)
