# SPDX-License-Identifier: Apache-2.0
"""What the tests of the commands share: running `cay` against a server, and a real server to run."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CAY = os.environ.get("CAY", str(TOP / "build" / "cay"))
CAY_SAN = os.environ.get("CAY_SAN", str(TOP / "build-test" / "cay"))
FULL = os.environ.get("CAY_TEST_FULL") == "1"
PATIENCE = 60  # seconds; far more than anything here takes, so that only a hang gets that far


def clean_env(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("CAY_") and k != "NO_COLOR"}
    return {**env, **more}


class Cli:
    """`cay COMMAND ... --data DIR`."""

    def __init__(self, data, program=CAY):
        self.data = str(data)
        self.program = program

    def command(self, name, *args):
        return [self.program, *name.split(), "--data", self.data, *map(str, args)]

    def run(self, name, *args, env=None, **kwargs):
        kwargs.setdefault("timeout", PATIENCE)
        if "input" not in kwargs:
            kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        return subprocess.run(
            self.command(name, *args), check=False, env=clean_env(**(env or {})), **kwargs
        )

    def start(self, name, *args, **kwargs):
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(self.command(name, *args), env=clean_env(), **kwargs)

    def ok(self, name, *args, **kwargs):
        """Standard output of one that succeeds and has nothing to complain about."""
        done = self.run(name, *args, **kwargs)
        assert (done.returncode, done.stderr) == (0, b""), done
        return done.stdout.decode()

    def json(self, name, *args, **kwargs):
        return json.loads(self.ok(name, *args, "--json", **kwargs))


def refused(done, code, *words):
    """One clear line on standard error, nothing on standard output, and this exit code."""
    text = done.stderr.decode()
    assert done.returncode == code, (done.returncode, text)
    assert done.stdout in (b"", None), done.stdout
    assert text.count("\n") == 1 and re.match(r"cay( \w+)?: ", text), text
    for word in words:
        assert word in text, text
    return text


def rows(text):
    """A table as lists of words, without its head."""
    return [line.split() for line in text.splitlines()[1:]]


class Server:
    """`cay serve` with a data directory of its own, on any free port."""

    def __init__(self, data):
        self.data = str(data)
        self.log_path = self.data + ".log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [CAY, "serve", "--data", self.data, "--listen", "127.0.0.1:0", "--boxes", "32"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_env(),
            )
        self.wait_ready()

    def log(self):
        return pathlib.Path(self.log_path).read_text(encoding="utf-8", errors="replace")

    def wait_ready(self):
        deadline = time.monotonic() + PATIENCE
        while Cli(self.data).run("ls").returncode != 0:
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def url(self):
        deadline = time.monotonic() + PATIENCE  # it answers a moment before it says so
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", self.log())):
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)
        return found.group(0)

    def daemon_pid(self):
        """The unprivileged process that answers: the server's child named cayd."""
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                text = path.read_text(encoding="utf-8")
            except OSError:
                continue
            name = text[text.index("(") + 1 : text.rindex(")")]
            parent = int(text[text.rindex(")") + 2 :].split()[1])
            if name == "cayd" and parent == self.process.pid:
                return int(path.parent.name)
        raise AssertionError("there is no cayd")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
