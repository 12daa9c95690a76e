# SPDX-License-Identifier: Apache-2.0
"""`cay serve` as a person starts it: its words, its files, its end."""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CAY = os.environ.get("CAY", str(TOP / "build" / "cay"))
CAY_NEXT = os.environ.get("CAY_NEXT", str(TOP / "build-test" / "tests" / "next" / "cay"))
PATIENCE = 30  # seconds; far more than anything here takes


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CAY_", "ANTHROPIC_"))}
    return {**clean, **more}


def refused(*flags, **env):
    """Runs a server that cannot start. Its exit code, and the one line that it says."""
    done = subprocess.run(
        [CAY, "serve", *map(str, flags)],
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    lines = done.stderr.splitlines()
    assert done.stdout == "" and len(lines) == 1, done
    return done.returncode, lines[0]


class Serve:
    """A small one, on a port of its own."""

    def __init__(self, data, *flags, **env):
        self.data = pathlib.Path(data)
        self.port = free_port()
        self.command = [CAY, "serve", "--data", str(data), "--listen", f"127.0.0.1:{self.port}"]
        self.command += ["--boxes", "8", "--pool", "1", "--pool-blank", "0", "--preload", "", "--volume", "2g", *map(str, flags)]
        self.env = env

    def __enter__(self):
        self.log = open(self.data / "log", "ab+")
        self.process = subprocess.Popen(
            self.command,
            env=environment(**self.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.said = []
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if line.endswith("/exec\n"):  # the last of three
                return self
        raise AssertionError((self.process.wait(PATIENCE), self.said, (self.data / "log").read_text()))

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.log.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def children(self, name):
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        pids = pathlib.Path(path).read_text().split()
        return [int(pid) for pid in pids if pathlib.Path(f"/proc/{pid}/comm").read_text() == f"{name}\n"]

    def call(self, method, path, body=None):
        """A request that must go well, over the unix socket: no token needed."""
        connection = http.client.HTTPConnection("localhost", timeout=PATIENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(PATIENCE)
        connection.sock.connect(str(self.data / "cay.sock"))
        connection.request(method, path, json.dumps(body) if body is not None else None)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status < 300, (answer.status, text)
        return json.loads(text)

    def health(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/health")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status


def await_that(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)
