# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a server that answers questions: what `cay ask` does with the events of a run, and where
those break. What a model and a sandbox really give is tested against the real daemon."""

import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import tempfile
import termios
import time

from cli_helpers import PATIENCE, Cli, clean_env
from code_helpers import Cells
from standin import answer, chunked

# Nothing of whoever runs the tests.
NO_KEYS = {name: "" for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "SUDO_UID")}

METRICS = {
    "generation_ms": 1200, "sandbox_ms": 34, "total_ms": 1300,
    "input_tokens": 812, "output_tokens": 203, "cost_usd": 0.0042,
}  # fmt: skip


def result(**more):
    """The answer, as the event "done" has it."""
    return {
        "success": True, "request_id": "r-1", "question": "q", "code": "print(2)", "output": "2\n", "error": None,
        "error_code": None, "results": [], "files": [], "sandboxId": "sb-1", "language": "python",
        "model": "claude-sonnet-5-5", "attempts": 1, "reason": "done", "metrics": METRICS, "cached": False, **more,
    }  # fmt: skip


START = ("start", {"request_id": "r-1", "question": "q", "language": "python", "model": "claude-sonnet-5-5"})
CODE = [("code", {"text": "pri"}), ("code", {"text": "nt(2)\n"})]
GENERATED = ("generated", {"code": "print(2)", "cached": False, "attempt": 1})
SANDBOX = ("sandbox", {"sandboxId": "sb-1"})
OUT = ("stdout", {"text": "2\n"})
DONE = ("done", result())
USUAL = [START, *CODE, GENERATED, SANDBOX, OUT, DONE]


def encode(events, first=0):
    """Server-sent events, each with its id, from this one on."""
    return [
        f"id: r-1:{n}\nevent: {name}\ndata: {json.dumps(data)}\n\n".encode()
        for n, (name, data) in enumerate(events)
        if n >= first
    ]


def stream(events, request=None, end=True):
    last = request.headers.get("last-event-id") if request else None
    return chunked(*encode(events, int(last.split(":")[1]) + 1 if last else 0), end=end)


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


class Questions(Cells):
    """`execute(request, number)` gives the pieces for /execute and what is below it."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="cay-ask-")
        self.work = os.path.join(self.directory, "work")
        os.mkdir(self.work)
        self.files = {}
        self.asked_for = []
        self.play_events(*USUAL)
        super().__init__(self.directory)
        self.cli = Cli(self.directory)
        self.cli.work = self.work

    def reply(self, request, number):
        if request.target.startswith("/execute"):
            self.asked_for.append(request)
            return self.execute(request, len(self.asked_for) - 1)
        if "/files/" in request.target:
            path = request.target.split("/files", 1)[1]
            if path not in self.files:
                return [answer(b'{"error": "no such file", "error_code": "NOT_FOUND"}', "404 Not Found")]
            return [answer(self.files[path], content_type="application/octet-stream")]
        return [answer(b'{"success": true}')]

    def play_events(self, *events):
        self.execute = lambda request, number: [stream(events, request)]

    def body(self, at=0):
        return json.loads(self.asked_for[at].body)

    def wait_for(self, what):
        deadline = time.monotonic() + PATIENCE
        while what not in self.asked():
            assert time.monotonic() < deadline, self.asked()
            time.sleep(0.01)

    def ask(self, *args, env=None, **kwargs):
        kwargs.setdefault("cwd", self.work)
        env = {**NO_KEYS, "HOME": self.work, "XDG_STATE_HOME": "", **(env or {})}
        return self.cli.run("ask", *args, env=env, **kwargs)

    def close(self):
        super().close()
        shutil.rmtree(self.directory)


class Terminal:
    """`cay ask` on a terminal. `asking` has a `cli`, and a directory `work`."""

    def __init__(self, asking, *args, **env):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.shown = self.all = b""
        env = {"TERM": "xterm", "LANG": "C.UTF-8", "LC_ALL": "", "HOME": str(asking.work), "XDG_STATE_HOME": "", **NO_KEYS, **env}
        self.process = subprocess.Popen(
            asking.cli.command("ask", *args),
            stdin=self.slave, stdout=self.slave, stderr=self.slave,
            env=clean_env(**env), cwd=asking.work, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def type(self, keys):
        os.write(self.master, keys.encode())

    def read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        more = os.read(self.master, 65536)
        self.shown += more
        self.all += more
        return True

    def until(self, text):
        """Reads until it is shown, and forgets what came up to there."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.shown.find(text.encode())) < 0:
            assert time.monotonic() < deadline, self.shown[-2000:]
            self.read(1)
        self.shown = self.shown[at + len(text.encode()) :]

    def end(self):
        """Its exit code, and all that was shown, as it is."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown[-2000:]
            self.read(0.05)
        while self.read(0):
            pass
        assert termios.tcgetattr(self.slave) == self.before
        return self.process.returncode, self.all.decode().replace("\r\n", "\n")
