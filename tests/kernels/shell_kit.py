# SPDX-License-Identifier: Apache-2.0
"""A kernel that is a shell's program, spoken to as the daemon does (kernels/PROTOCOL.md), without a box."""

import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
PATIENCE = 60  # seconds; the machine may be busy
CONTROL_IN, CONTROL_OUT = 60, 61


def boot_text():
    """BOOT_SHELL of src/kernels/kernels.c, so that the real one is tested."""
    source = (TOP / "src/kernels/kernels.c").read_text(encoding="utf-8")
    macro = re.search(r"#define BOOT_SHELL((?:.*\\\n)*.*\n)", source).group(1)
    return "".join(json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', macro))


class Ended(Exception):
    """The kernel has closed control out."""


class Cell:
    """What came of one cell."""

    def __init__(self, out, err, frames):
        self.out, self.err = out, err
        self.frames = frames
        self.error = next((f for t, f in frames if t == "error"), None)
        self.count = next((f["count"] for t, f in frames if t == "done"), None)


class Kernel:
    """One that was started as `boot` would; `opened` with `language` unless it is None."""

    def __init__(self, folder, language, cwd="/", env=None):
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/root"}
        in_r, self.control_in = os.pipe()
        self.control_out, out_w = os.pipe()

        def arrange():
            os.dup2(in_r, 200)
            os.dup2(out_w, 201)
            os.dup2(200, CONTROL_IN)
            os.dup2(201, CONTROL_OUT)
            os.closerange(3, CONTROL_IN)
            os.closerange(CONTROL_OUT + 1, 300)

        self.process = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
            ["bash", "--norc", "--noprofile", "-c", boot_text()],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment, close_fds=False, preexec_fn=arrange, start_new_session=True)
        os.close(in_r)
        os.close(out_w)
        self.control = b""
        self.output = {1: b"", 2: b""}
        self.cells = 0
        self.send("boot", 0, (TOP / "kernels" / folder / "kernel.bash").read_bytes())
        self.ready = self.receive()[2]
        if language is not None:
            self.opened = self.open(language, cwd, {**environment, **(env or {})})

    # -- frames

    def send(self, kind, cell, payload):
        left = memoryview(f"{kind} {cell} {len(payload)}\n".encode() + payload)
        while left:
            self.pump(0, [self.control_in])
            left = left[os.write(self.control_in, left[:4096]):]

    def pump(self, wait, writers=()):
        """Reads what is there, so that nobody waits for us."""
        names = {self.control_out: 0, self.process.stdout.fileno(): 1, self.process.stderr.fileno(): 2}
        ready = select.select([fd for fd in names if fd >= 0], writers, [], wait or (PATIENCE if writers else 0))
        for fd in ready[0]:
            data = os.read(fd, 1 << 20)
            if names[fd]:
                self.output[names[fd]] += data
            elif not data:
                raise Ended(self.output)
            else:
                self.control += data
        return bool(ready[0])

    def receive(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            head, newline, rest = self.control.partition(b"\n")
            if newline:
                match = re.fullmatch(rb"([a-z]{1,15}) (0|[1-9][0-9]*) (0|[1-9][0-9]*)", head)
                assert match, f"no header: {head!r}"
                size = int(match[3])
                if len(rest) >= size:
                    self.control = rest[size:]
                    return match[1].decode(), int(match[2]), json.loads(rest[:size].decode())
            self.pump(1)
        raise AssertionError(f"the kernel says nothing: {self.control!r} {self.output}")

    # -- what the daemon does

    def open(self, language, cwd, env):
        texts = [language, cwd, *(f"{name}={value}" for name, value in env.items())]
        self.send("open", 0, b"".join(text.encode() + b"\0" for text in texts))
        return self.receive()

    def begin(self, code, env=None):
        self.cells += 1
        self.output = {1: b"", 2: b""}
        if env is not None:
            self.send("env", self.cells, b"".join(f"{k}={v}".encode() + b"\0" for k, v in env.items()))
        self.send("run", self.cells, code.encode() if isinstance(code, str) else code)

    def finish(self, patience=0.05):
        """All up to `done`, and what is still written in so many seconds after it."""
        frames = []
        while not frames or frames[-1][0] != "done":
            kind, cell, payload = self.receive()
            assert cell == self.cells
            frames.append((kind, payload))
        while self.pump(patience):
            pass
        return Cell(self.output[1], self.output[2], frames)

    def run(self, code, env=None):
        self.begin(code, env)
        return self.finish()

    def wait_for_output(self, text):
        end = time.monotonic() + PATIENCE
        while text not in self.output[1]:
            assert time.monotonic() < end, self.output
            self.pump(1)

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def status(self):
        """How it ended."""
        return self.process.wait(PATIENCE)

    def close(self):
        """Control in ends: so does the kernel. Its group is killed, for what a cell has left."""
        os.close(self.control_in)
        try:
            return self.process.wait(PATIENCE)
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.wait()
            os.close(self.control_out)
            self.process.stdout.close()
            self.process.stderr.close()
