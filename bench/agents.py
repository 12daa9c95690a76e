# SPDX-License-Identifier: Apache-2.0
"""The table of agents in a box: what Cay adds to Claude Code and OpenCode, beside the same programs run bare."""

import concurrent.futures
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import ask
import server
from table import MS, Line, line_table, timed

NAME, TITLE = "agents", "Agents in a box"
PROGRAMS = ["cay", "cayd"]
AT_ONCE = 10
TASK = """Write it down [[tool: Write {{"file_path": "{path}", "content": "written\\n"}}]] [[then: text: It is written.]]"""
MESSAGE = "What is two and two? [[text: Four.]]"

METHOD = """\
**The model is a stand-in** (`tests/standin`) that answers at once. *bare* is the same `claude` (the one of the image),
started on the host with the same arguments and variables, the same task on its standard input, in an empty directory and
with a fresh home that has the same settings, and waited for; in turns with ours. The task is two turns, of which one writes a
file; ours makes a sandbox for it, gives back the diff, stores the answer and destroys the sandbox. Memory is the most
seen of the proportional set sizes of all processes, and of what lies in memory file systems beyond what lay there before;
ours is what the server and everything it has started have beyond what they have when idle, with its pool of boxes and
interpreters. *direct* is a call of OpenCode's own API by a program in the same box,
timed there. The image is `agents`, made from `host`."""


# -- the lines


def task_detail(results):
    more = (results.series["task", "task"][2] - results.series["task", "bare"][2]) / MS
    tenth = results.ratio("task", "task", "bare", 1)
    return f"{more:.0f} ms more; fastest tenth {tenth:.2f}x; " + results.times("task", "task", "bare", "agent_ms")


def burst_detail(results):
    return "until the last answer " + results.times("burst", "tasks", "bare")


def memory_detail(results):
    ours, every, bare = (results.values["burst", name] for name in ("memory", "all memory", "bare memory"))
    return f"{ours:.0f} MiB beside {bare:.0f} MiB; with all that the server has anyway {every:.0f} MiB ({every / bare:.2f}x)"


LINES = [
    Line(
        "g1",
        "task",
        "`/execute {task}` beside `claude -p` run bare",
        lambda r: r.ratio("task", "task", "bare"),
        1.15,
        task_detail,
    ),
    server.count(
        "g2", "burst", f"{AT_ONCE} tasks at once: failed", lambda r: r.values["burst", "failed"], burst_detail
    ),
    Line(
        "g2",
        "burst",
        "memory with them, beside as many bare runs",
        lambda r: r.values["burst", "memory"] / r.values["burst", "bare memory"],
        1.1,
        memory_detail,
    ),
    timed("g3", "message", "second `/message` to a running OpenCode beside the same call made directly", "message", "message", "direct", 1.1),
]


def describe(first_line):
    yield "node", first_line("/usr/bin/node", "--version")


# -- numbers


def series(took):
    took = sorted(took)
    at = lambda part: int(took[min(len(took) - 1, int(len(took) * part))])
    return (len(took), at(0.1), at(0.5), at(0.9), at(0.99))


def clocked(fn, *args):
    start = time.monotonic_ns()
    answer = fn(*args)
    return time.monotonic_ns() - start, answer


def descendants(pid):
    found, new = set(), [pid]
    while new:
        found.update(new)
        new = [child for one in new for child in children(one) if child not in found]
    return found


def children(pid):
    pids = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            pids += map(int, pathlib.Path(path).read_text(encoding="utf-8").split())
        except OSError:
            pass
    return pids


def pss_kib(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def shmem_kib():
    for line in pathlib.Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("Shmem:"):
            return int(line.split()[1])
    return 0


class Memory:
    """The most that processes and all they start have while this looks, in MiB."""

    def __init__(self, pids):
        self.pids, self.most, self.over = pids, 0, threading.Event()
        self.before = shmem_kib()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(0.05):
            pids = {pid for top in self.pids() for pid in descendants(top)}
            total = sum(pss_kib(pid) for pid in pids) + max(0, shmem_kib() - self.before)
            self.most = max(self.most, total / 1024)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


# -- claude, bare


class Bare:
    """As a task runs it: see the file agents/claude."""

    def __init__(self, image, directory, model_port):
        self.image, self.directory, self.model_port = image, directory, model_port

    def start(self):
        place = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
        home, work = place / "home", place / "work"
        home.mkdir()
        work.mkdir()
        shutil.copy(self.image / "root/.claude.json", home)
        process = subprocess.Popen(
            [str(find_program(self.image, "claude")), "-p", "--output-format", "stream-json", "--verbose"]
            + ["--permission-mode", "acceptEdits", "--model", "claude-sonnet-5-5"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=work,
            env=self.environment(home),
            text=True,
        )
        return process, work

    def environment(self, home):
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.model_port}",
            "ANTHROPIC_API_KEY": "sk-ant-stand-in",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_TMPDIR": str(home),
            "IS_SANDBOX": "1",
        }

    def finish(self, process, work):
        out, _ = process.communicate(TASK.format(path=work / "it.txt"))
        if process.returncode != 0 or not (work / "it.txt").exists():
            raise RuntimeError(f"claude by itself fails: {out[-300:]}")
        shutil.rmtree(work.parent)

    def run(self):
        self.finish(*self.start())


def find_program(image, name):
    """The program itself, not what starts it."""
    found = [path for path in (image / "opt/cay").rglob(name) if path.is_file() and path.stat().st_size > 1 << 24]
    if not found:
        raise RuntimeError(f"there is no {name} in the image")
    return found[0]


# -- ours


class Ours:
    def __init__(self, port, token):
        self.port, self.token = port, token

    def call(self, path, body):
        return ask.call(self.port, path, body, self.token)

    def task(self):
        answer = self.call(
            "/execute", {"task": TASK.format(path="/workspace/it.txt"), "options": {"model": "claude-sonnet-5-5"}}
        )
        if not answer["success"] or "+written" not in answer["diff"]:
            raise RuntimeError(f"a task fails: {str(answer)[:600]}")
        return answer


def measure_task(ours, bare, rounds, results, **_):
    ours.task()
    bare.run()
    took = {"task": [], "bare": [], "agent_ms": []}
    for _ in range(rounds):
        ns, answer = clocked(ours.task)
        took["task"].append(ns)
        took["agent_ms"].append(answer["metadata"]["agent_ms"] * MS)
        took["bare"].append(clocked(bare.run)[0])
    for name, all_of_it in took.items():
        results.series["task", name] = series(all_of_it)


def many_bare(bare):
    started = [bare.start() for _ in range(AT_ONCE)]
    with Memory(lambda: [process.pid for process, _ in started]) as memory:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda one: bare.finish(*one), started))
    return memory.most


def many_tasks(ours, serve):
    failed, before = 0, sum(pss_kib(pid) for pid in descendants(serve.pid)) / 1024
    with Memory(lambda: [serve.pid]) as memory:
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for future in [pool.submit(ours.task) for _ in range(AT_ONCE)]:
                failed += future.exception() is not None
                if future.exception():
                    print(f"  {future.exception()}", file=sys.stderr)
    return memory.most - before, memory.most, failed


def measure_burst(ours, bare, serve, rounds, results, **_):
    ours.task()
    took, most, failed = {"tasks": [], "bare": []}, {"ours": [], "all": [], "bare": []}, 0
    for _ in range(max(1, rounds // 5)):
        ns, memory = clocked(many_bare, bare)
        took["bare"].append(ns)
        most["bare"].append(memory)
        ns, (more, memory, bad) = clocked(many_tasks, ours, serve)
        took["tasks"].append(ns)
        most["ours"].append(more)
        most["all"].append(memory)
        failed += bad
    for name, all_of_it in took.items():
        results.series["burst", name] = series(all_of_it)
    results.values["burst", "failed"] = failed
    results.values["burst", "memory"] = server.median(most["ours"])
    results.values["burst", "all memory"] = server.median(most["all"])
    results.values["burst", "bare memory"] = server.median(most["bare"])


DIRECT = """
import http.client, json, sys, time
session, message = sys.argv[1:]
connection = http.client.HTTPConnection("127.0.0.1", 4096)
connection.connect()
body = json.dumps({"parts": [{"type": "text", "text": message}]})
start = time.monotonic_ns()
connection.request("POST", f"/session/{session}/message", body, {"content-type": "application/json"})
answer = json.load(connection.getresponse())
print(time.monotonic_ns() - start if "Four." in json.dumps(answer["parts"]) else answer)
"""


def direct(ours, session):
    answer = ours.call("/sandbox/oc/exec", {"argv": ["python3", "-c", DIRECT, session, MESSAGE]})
    if not answer["stdout"].strip().isdigit():
        raise RuntimeError(f"OpenCode by itself fails: {answer}")
    return int(answer["stdout"])


def message(ours, session=None):
    answer = ours.call("/sandbox/oc/message", {"message": MESSAGE, **({"sessionId": session} if session else {})})
    if "Four." not in answer["response"]:
        raise RuntimeError(f"a message fails: {answer}")
    return answer["sessionId"]


def measure_message(ours, rounds, results, **_):
    ours.call("/sandbox", {"id": "oc", "image": "agents", "memory": "2g", "secrets": ["anthropic"]})
    sessions = [message(ours), message(ours)]
    took = {"message": [], "direct": []}
    for _ in range(2 * rounds):
        took["message"].append(clocked(message, ours, sessions[0])[0])
        took["direct"].append(direct(ours, sessions[1]))
    for name, all_of_it in took.items():
        results.series["message", name] = series(all_of_it)


PARTS = {"task": measure_task, "burst": measure_burst, "message": measure_message}


# -- all of it


def make_image(build, data):
    command = [str(build / "cay"), "image", "build", "agents", "--from", "host", "--data", str(data)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return data / "images/agents/rootfs"


def measure_part(part, build, data, image, quick, results):
    port = server.free_port()
    with ask.run_standin() as model_port, ask.model_environment(model_port):
        with ask.run_server(build, data, port) as serve:
            token = (data / "admin.token").read_text(encoding="utf-8").strip()
            PARTS[part](
                ours=Ours(port, token),
                bare=Bare(image, data, model_port),
                serve=serve,
                rounds=2 if quick else 20,
                results=results,
            )


def measure(parts, build, data, quick, results):
    """Whether everything went well."""
    good, image = True, make_image(build, data)
    for part in parts:
        print(f"{part}:", file=sys.stderr, flush=True)
        try:
            measure_part(part, build, data, image, quick, results)
        except (RuntimeError, OSError, KeyError, json.JSONDecodeError) as error:
            print(f"bench/run: {error}", file=sys.stderr)
            good = False
    return good


def report(lines, results):
    yield METHOD
    yield ""
    yield from line_table(lines, results)
