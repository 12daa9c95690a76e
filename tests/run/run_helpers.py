# SPDX-License-Identifier: Apache-2.0
"""What the tests of `cay run` share: starting it on a data directory of its own, and looking for what
it may have left on the machine."""

import glob
import json
import os
import pathlib
import secrets
import subprocess
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CAY = os.environ.get("CAY", str(TOP / "build" / "cay"))
CAY_SAN = os.environ.get("CAY_SAN", str(TOP / "build-test" / "cay"))
FULL = os.environ.get("CAY_TEST_FULL") == "1"

PATIENCE = 30  # seconds; far more than anything here takes, so that only a hang gets that far

# Ends quickly when it works, and never by itself: a tree with a setsid and a second fork in it, whose
# members ignore what can be ignored. The marker is in every member's arguments.
HIDING_TREE = """
import os, signal, sys, time
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(s, signal.SIG_IGN)
for depth in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
            break
        os._exit(0)
print("up", flush=True)
time.sleep(1000)
"""


class Cay:
    """`cay run` with a data directory."""

    def __init__(self, data, program=CAY):
        self.data = pathlib.Path(data)
        self.program = program

    def command(self, *args):
        return [self.program, "run", "--data", str(self.data), *map(str, args)]

    def run(self, *args, **kwargs):
        """Runs to the end: `args` are flags, "--", and the command."""
        kwargs.setdefault("timeout", PATIENCE)
        if "stdin" not in kwargs and "input" not in kwargs:
            kwargs["stdin"] = subprocess.DEVNULL
        if "stdout" not in kwargs:
            kwargs["stdout"] = subprocess.PIPE
        if "stderr" not in kwargs:
            kwargs["stderr"] = subprocess.PIPE
        return subprocess.run(self.command(*args), check=False, **kwargs)

    def start(self, *args, **kwargs):
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(self.command(*args), **kwargs)

    def json(self, *args, **kwargs):
        done = self.run("--json", *args, **kwargs)
        assert done.stderr == b"", done.stderr
        result = json.loads(done.stdout)
        assert result["exitCode"] == done.returncode, result
        return result

    def python(self, code, *args, flags=(), **kwargs):
        return self.run(*flags, "--", "python3", "-c", code, *args, **kwargs)

    def python_json(self, code, *args, flags=(), **kwargs):
        return self.json(*flags, "--", "python3", "-c", code, *args, **kwargs)


def refused(done, code, *words):
    """One clear line on standard error, nothing on standard output, and this exit code."""
    text = done.stderr.decode()
    assert done.returncode == code, (done.returncode, text)
    assert done.stdout in (b"", None), done.stdout
    assert text.count("\n") == 1 and text.startswith(("cay: ", "cay run: ")), text
    for word in words:
        assert word in text, text
    return text


def marker():
    """A word that no other process has in its arguments."""
    return "marker-" + secrets.token_hex(8)


def alive_with(word):
    """Pids of processes, in boxes too, that have the word in their arguments."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            text = pathlib.Path(path).read_bytes()
        except OSError:
            continue
        if word.encode() in text and int(path.split("/")[2]) != os.getpid():
            found.append(int(path.split("/")[2]))
    return found


def wait_until(check, seconds=PATIENCE):
    """Whether check() has become true before the time was up."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def cpu_seconds(pid):
    """Processor time of a process so far, its children not included."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
