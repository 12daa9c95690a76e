# SPDX-License-Identifier: Apache-2.0
"""A terminal to look at (tmux, with a server of its own), and a stand-in that plays a server to be looked at."""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import threading
import time

from cli_helpers import CAY_SAN, PATIENCE, clean_env
from standin import StandIn, answer

KEYS = {"enter": "Enter", "esc": "Escape", "up": "Up", "down": "Down"}


class Screen:
    """`cay monitor` in a terminal of this size. Sanitized: what it complains about is in `errors()`."""

    def __init__(self, data, *args, cols=120, rows=36, env=None, program=CAY_SAN, typed=False):
        self.directory = tempfile.mkdtemp(prefix="cay-screen-")
        self.errors_path = pathlib.Path(self.directory, "errors")
        self.code_path = pathlib.Path(self.directory, "code")
        self.env = clean_env(**{"LC_ALL": "C.UTF-8", "ASAN_OPTIONS": "detect_leaks=1", **(env or {})})
        self.env.pop("TMUX", None)
        words = [program, "monitor", "--data", str(data), "--interval", "200ms", *args]
        command = f"{shlex.join(words)} 2>{self.errors_path}"
        self.then = f"echo $? >{self.code_path}; stty -a; exec cat"
        # The shell outlives signals from the keyboard. Or it has the command typed, and minds its jobs.
        shell = "exec bash --norc --noprofile" if typed else f"trap : INT QUIT HUP; {command}; {self.then}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(cols), "-y", str(rows), shell)
        if typed:
            self.keys(command, "enter")

    def tmux(self, *args):
        command = ["tmux", "-S", f"{self.directory}/tmux", *args]
        done = subprocess.run(command, env=self.env, check=True, capture_output=True, timeout=PATIENCE)
        return done.stdout.decode(errors="replace")

    def text(self, *flags):
        return self.tmux("capture-pane", "-p", *flags)

    def lines(self):
        return [line.rstrip() for line in self.text().split("\n")]

    def keys(self, *keys):
        for key in keys:
            if key in KEYS:
                self.tmux("send-keys", KEYS[key])
            else:
                self.tmux("send-keys", "-l", key)

    def wait(self, *words, without=()):
        """Until all of them are on it, and none of the others."""
        deadline = time.monotonic() + PATIENCE
        while True:
            text = self.text()
            if all(w in text for w in words) and not any(w in text for w in without):
                return text
            assert time.monotonic() < deadline, f"{words} not in\n{text}\n{self.errors()}"
            time.sleep(0.05)

    def resize(self, cols, rows):
        self.tmux("resize-window", "-x", str(cols), "-y", str(rows))

    def pid(self):
        """Of the monitor itself: the shell's child."""
        shell = self.tmux("display-message", "-p", "#{pane_pid}").strip()
        children = pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        return int(children[0])

    def errors(self):
        return self.errors_path.read_text(errors="replace") if self.errors_path.exists() else ""

    def ended(self):
        """Waits for its end: its exit code, once it has given the terminal back as it was."""
        deadline = time.monotonic() + PATIENCE
        while not (self.code_path.exists() and self.code_path.read_text().strip()):
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.05)
        assert self.errors() == "", self.errors()
        text = self.wait("icanon")  # a word of stty, not of what was typed
        assert " -echo " not in text and " icanon" in text and " -icanon" not in text, text
        return int(self.code_path.read_text())

    def close(self):
        self.tmux("kill-server")
        shutil.rmtree(self.directory)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def sandbox(name, status="running", **more):
    return {
        "id": name, "status": status, "image": "host", "labels": {}, "createdAt": "2026-01-02T03:04:05.678Z",
        "limits": {"memory": 1 << 30, "disk": 2 << 30, "pids": 256, "cpus": 1}, **more,
    }  # fmt: skip


class Played(StandIn):
    """Plays a whole server, out of what a test puts into it. Each connection has a thread of its own."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="cay-played-")
        self.gate = threading.Event()  # closed: nobody is answered
        self.gate.set()
        self.health = {"ok": True, "status": "healthy", "version": "1.2.3"}
        self.stats = {"success": True, "scope": "all", "uptime_ms": 1000}
        self.sandboxes = []
        self.requests_made = []
        self.usage = {"cpu": 1.0, "memory": 4096, "disk": 8192, "pids": 3}
        self.answers = {}  # by target: a body instead
        super().__init__(self.directory)
        self.answer = self.reply

    def serve(self, conn):
        copy = conn.dup()
        threading.Thread(target=self.serve_one, args=(copy,), daemon=True).start()

    def serve_one(self, conn):
        with conn:
            try:
                super().serve(conn)
            except (BrokenPipeError, ConnectionResetError):
                pass

    def reply(self, request, number):
        del number
        self.gate.wait(PATIENCE)
        target = request.target.split("?")[0]
        if target in self.answers:
            status, body = self.answers[target]
            return [answer(body if isinstance(body, bytes) else json.dumps(body).encode(), status)]
        if target.endswith("/stats") and target != "/stats":
            name = target.split("/")[2]
            return self.json({"success": True, "sandboxId": name, "stats": self.usage})
        known = {
            "/health": self.health,
            "/stats": self.stats,
            "/sandbox": {"success": True, "sandboxes": self.sandboxes, "next": None},
            "/execute": {"success": True, "results": self.requests_made, "next": None},
        }
        if target in known:
            return self.json(known[target])
        return [answer(b'{"error": "there is no such path", "error_code": "NOT_FOUND"}', "404 Not Found")]

    @staticmethod
    def json(value):
        return [answer(json.dumps(value).encode())]

    def close(self):
        self.gate.set()
        super().close()
        shutil.rmtree(self.directory)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
