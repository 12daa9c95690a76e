# SPDX-License-Identifier: Apache-2.0
"""A Node kernel on two pipes, as the daemon would have one, but without a box."""

import json
import os
import pathlib
import re
import select
import signal
import subprocess
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
NODE = os.environ.get("CAY_TEST_NODE", "node")
PATIENCE = int(os.environ.get("CAY_TEST_PATIENCE", "120"))  # seconds; the machine may be busy
CONTROL_IN, CONTROL_OUT = 60, 61


def modules():
    """The files of the bundle, as the build has them."""
    build = (TOP / "src" / "kernels" / "meson.build").read_text()
    names = re.findall(r"'\.\./\.\./kernels/node/(\w+)\.js'", build)
    return [str(TOP / "kernels" / "node" / (name + ".js")) for name in names]


def bundle():
    with tempfile.NamedTemporaryFile(suffix=".js") as out:
        subprocess.run([str(TOP / "scripts" / "bundle-node"), out.name, *modules()], check=True)
        return pathlib.Path(out.name).read_bytes()


def words():
    """The command line, from where the daemon has it."""
    text = (TOP / "src" / "kernels" / "kernels.c").read_text()
    lines = re.search(r"#define BOOT_NODE\s*\\\n((?:.*\\\n)*.*\n)", text).group(1)
    boot = "".join(json.loads('"%s"' % part) for part in re.findall(r'"((?:[^"\\]|\\.)*)"', lines))
    argv = re.search(r"\bnode\[\] = \{(.*?)\}", text, re.DOTALL).group(1)
    flags = re.findall(r'"(-[^"]*)"', argv)
    return [NODE, *flags, boot]


class Ended(Exception):
    """The kernel has closed control out."""


class Answer:
    """What came of one cell."""

    def __init__(self):
        self.displays, self.results, self.error, self.count = [], [], None, None
        self.out, self.err = b"", b""

    @property
    def stdout(self):
        return self.out.decode("utf-8", "replace")

    @property
    def stderr(self):
        return self.err.decode("utf-8", "replace")

    @property
    def result(self):
        assert self.error is None, self.error
        assert len(self.results) == 1, self.results
        return self.results[0]

    @property
    def text(self):
        return self.result["text"]

    @property
    def nothing(self):
        return self.error is None and self.results == []


class Kernel:
    def __init__(self, language="javascript", cwd="/tmp", env=None, tool=None):
        self.env = {"PATH": os.environ["PATH"], "HOME": "/root", "LANG": "C.UTF-8"} if env is None else env
        self.cell = 0
        self.data = b""
        self.streams = {"out": b"", "err": b""}
        self._start()
        self.send("boot", 0, bundle())
        self.ready = self.frame()
        if tool is not None:
            self.send("tool", 0, tool)
        if language is not None:
            assert self.open(language, cwd, self.env) == ("opened", 0, {})

    def _start(self):
        in_read, self.control_in = os.pipe()
        self.control_out, out_write = os.pipe()

        def arrange():
            os.dup2(in_read, 200)
            os.dup2(out_write, 201)
            os.dup2(200, CONTROL_IN)
            os.dup2(201, CONTROL_OUT)
            os.closerange(3, CONTROL_IN)
            os.closerange(CONTROL_OUT + 1, 300)

        self.process = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
            words(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=False,
            preexec_fn=arrange,
            start_new_session=True,
        )
        os.close(in_read)
        os.close(out_write)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """The end of control in is the end of the kernel."""
        if self.control_in is not None:
            os.close(self.control_in)
            self.control_in = None
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
        os.close(self.control_out)
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    # -- frames

    def send(self, kind, cell, payload=b""):
        left = memoryview(f"{kind} {cell} {len(payload)}\n".encode() + payload)
        while left:
            self.pump([self.control_in])
            left = left[os.write(self.control_in, left[:4096]) :]

    def pump(self, writers=()):
        """Reads what is there; waits for something to be there, or for a place to write to."""
        fds = {self.control_out: None, self.process.stdout.fileno(): "out", self.process.stderr.fileno(): "err"}
        ready, writable, _ = select.select([fd for fd in fds if fd not in self.ended], writers, [], PATIENCE)
        assert ready or writable, f"nothing came, {self.streams}"
        for fd in sorted(ready, key=lambda fd: fds[fd] is None):
            got = os.read(fd, 1 << 20)
            if not got:
                self.ended.add(fd)
            if fds[fd] is None:
                self.data += got
            else:
                self.streams[fds[fd]] += got

    ended = frozenset()

    def frame(self):
        """(type, cell, payload)"""
        if not self.ended:
            self.ended = set()
        while True:
            head, newline, rest = self.data.partition(b"\n")
            if newline:
                kind, cell, length = re.fullmatch(rb"([a-z]{1,15}) (0|[1-9]\d*) (0|[1-9]\d*)", head).groups()
                if len(rest) >= int(length):
                    self.data = rest[int(length) :]
                    return kind.decode(), int(cell), json.loads(rest[: int(length)].decode("utf-8"))
            if self.control_out in self.ended:
                raise Ended
            self.pump()

    def open(self, language, cwd, env):
        texts = [language, cwd, *(f"{name}={value}" for name, value in env.items())]
        self.send("open", 0, b"".join(text.encode() + b"\0" for text in texts))
        return self.frame()

    # -- cells

    def begin(self, code, env=None):
        self.cell += 1
        self.streams = {"out": b"", "err": b""}
        if env:
            self.send("env", self.cell, b"".join(f"{name}={value}".encode() + b"\0" for name, value in env.items()))
        self.send("run", self.cell, code.encode())

    def end(self, on_display=None):
        answer = Answer()
        while True:
            kind, cell, payload = self.frame()
            assert cell == self.cell, (kind, cell, payload)
            if kind == "display":
                answer.displays.append(payload)
                if on_display:
                    on_display(self)
                self.send("ack", cell)
            elif kind == "result":
                answer.results.append(payload)
            elif kind == "error":
                assert answer.error is None
                answer.error = payload
            else:
                assert kind == "done", kind
                answer.count = payload["count"]
                break
        self.settle()
        answer.out, answer.err = self.streams["out"], self.streams["err"]
        return answer

    def settle(self):
        """Streams were flushed before `done`: what is in the pipes is all."""
        fds = [self.process.stdout.fileno(), self.process.stderr.fileno()]
        while select.select([fd for fd in fds if fd not in self.ended], [], [], 0)[0]:
            self.pump()

    def run(self, code, env=None):
        self.begin(code, env)
        return self.end()

    def interrupt(self):
        os.kill(self.process.pid, signal.SIGINT)

    def wait_for(self, text, stream="out"):
        """Until the stream of the running cell has this text."""
        deadline = time.monotonic() + PATIENCE
        while text.encode() not in self.streams[stream]:
            assert time.monotonic() < deadline
            self.pump()

    def run_interrupted(self, code, start="started"):
        """Interrupts the cell after it has printed `start`."""
        self.begin(code)
        self.wait_for(start)
        self.interrupt()
        return self.end()
