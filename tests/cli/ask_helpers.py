# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a server that answers questions: what `cay ask` does with the events of a run, and where
those break. What a model and a sandbox really give is tested against the real daemon."""

import json
import os
import shutil
import tempfile
import time

from cli_helpers import PATIENCE, Cli
from code_helpers import Cells
from pty_helpers import Pty
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


class Terminal(Pty):
    """`cay ask` on a terminal. `asking` has a `cli`, and a directory `work`."""

    def __init__(self, asking, *args, **env):
        env = {"TERM": "xterm", "LANG": "C.UTF-8", "LC_ALL": "", "HOME": str(asking.work), "XDG_STATE_HOME": "", **NO_KEYS, **env}
        super().__init__(asking.cli.command("ask", *args), cwd=asking.work, **env)

    def end(self):
        """Its exit code, and all that was shown, as it is."""
        return super().end(), self.all.decode().replace("\r\n", "\n")
