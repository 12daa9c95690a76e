# SPDX-License-Identifier: Apache-2.0
"""A Python kernel on two pipes, as the daemon would have one, but without a box."""

import fcntl
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("CAY_TEST_PYTHON", "/usr/bin/python3")
PATIENCE = 120


def modules():
    """The files of the bundle, as the build has them."""
    build = (TOP / "src" / "kernels" / "meson.build").read_text()
    names = re.findall(r"'\.\./\.\./kernels/python/(\w+)\.py'", build)
    return [str(TOP / "kernels" / "python" / (name + ".py")) for name in names]


def bundle():
    with tempfile.NamedTemporaryFile(suffix=".py") as out:
        subprocess.run([str(TOP / "scripts" / "bundle-python"), out.name, *modules()], check=True)
        return pathlib.Path(out.name).read_bytes()


def stub():
    """The program on the command line: from where the daemon has it."""
    text = (TOP / "src" / "kernels" / "kernels.c").read_text()
    lines = re.search(r"#define BOOT_PYTHON\s*\\\n((?:.*\\\n)*.*\n)", text).group(1)
    return "".join(json.loads('"%s"' % part) for part in re.findall(r'"((?:[^"\\]|\\.)*)"', lines))


class Answer:
    """What came of one cell."""

    def __init__(self):
        self.displays, self.results, self.error, self.count = [], [], None, None
        self.out, self.err = b"", b""
        self.order = []  # "out", "err", "display", in the order of their coming

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
    def shown(self):
        return self.displays + self.results

    @property
    def images(self):
        return [shown for shown in self.shown if "png" in shown]


class Kernel:
    def __init__(self, env=None, cwd="/tmp", python=PYTHON, is_opened=True, source=None):
        self.env = {"PATH": os.environ["PATH"], "HOME": "/root", "LANG": "C.UTF-8"} if env is None else env
        self.cell = 0
        self._start(python)
        self.send("boot", 0, source or bundle())
        self.ready = self.frame()
        if is_opened:
            assert self.open(cwd)[0] == "opened"

    def _start(self, python):
        in_read, self.to = os.pipe()
        self.frames, out_write = os.pipe()
        self.out, stdout = os.pipe()
        self.err, stderr = os.pipe()
        for fd in (stdout, out_write):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 1 << 20)
        theirs = in_read, out_write, stdout, stderr
        self.pid = os.fork()
        if self.pid == 0:
            _become(python, *theirs)
        for fd in theirs:
            os.close(fd)
        for fd in (self.out, self.err):
            os.set_blocking(fd, False)
        self.buffer = b""

    def open(self, cwd="/tmp", language="python", env=None):
        env = self.env if env is None else env
        parts = [language, cwd] + [f"{name}={value}" for name, value in env.items()]
        self.send("open", 0, b"".join(os.fsencode(part) + b"\0" for part in parts))
        return self.frame()

    def send(self, kind, cell, payload=b""):
        data = f"{kind} {cell} {len(payload)}\n".encode() + payload
        while data:
            data = data[os.write(self.to, data) :]

    def frame(self, answer=None):
        """(type, cell, payload). Reads the streams too, when there is an answer to put them in."""
        deadline = time.monotonic() + PATIENCE
        while True:
            end = self.buffer.find(b"\n")
            if end >= 0:
                kind, cell, length = self.buffer[:end].split(b" ")
                stop = end + 1 + int(length)
                if len(self.buffer) >= stop:
                    payload = self.buffer[end + 1 : stop]
                    self.buffer = self.buffer[stop:]
                    return kind.decode(), int(cell), json.loads(payload)
            self._wait(answer, deadline)

    def _wait(self, answer, deadline):
        watched = [self.frames] + ([self.out, self.err] if answer else [])
        left = deadline - time.monotonic()
        assert left > 0, "the kernel says nothing"
        ready = select.select(watched, [], [], left)[0]
        if answer:
            self._drain(answer)
        if self.frames in ready:
            more = os.read(self.frames, 1 << 20)
            if not more:
                raise EOFError("the kernel has gone")
            self.buffer += more

    def _drain(self, answer):
        for fd, name in ((self.out, "out"), (self.err, "err")):
            try:
                more = os.read(fd, 1 << 20)
            except BlockingIOError:
                continue
            if more:
                setattr(answer, name, getattr(answer, name) + more)
                answer.order.append((name, more.decode("utf-8", "replace")))

    def begin(self, code, env=None):
        self.cell += 1
        if env:
            self.send("env", self.cell, b"".join(f"{k}={v}".encode() + b"\0" for k, v in env.items()))
        self.send("run", self.cell, code.encode())

    def end(self):
        answer = Answer()
        while True:
            kind, cell, payload = self.frame(answer)
            assert cell == self.cell, (kind, cell)
            if kind == "done":
                answer.count = payload["count"]
                while select.select([self.out], [], [], 0)[0] or select.select([self.err], [], [], 0)[0]:
                    before = len(answer.out) + len(answer.err)
                    self._drain(answer)
                    if len(answer.out) + len(answer.err) == before:
                        break
                return answer
            self._take(kind, payload, answer)

    def _take(self, kind, payload, answer):
        if kind == "display":
            self._drain(answer)
            answer.displays.append(payload)
            answer.order.append(("display", payload.get("text")))
            self.send("ack", self.cell)
        elif kind == "result":
            answer.results.append(payload)
        else:
            assert kind == "error" and answer.error is None, (kind, payload)
            answer.error = payload

    def run(self, code, env=None):
        self.begin(code, env)
        return self.end()

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def interrupt_after(self, seconds):
        timer = threading.Timer(seconds, self.interrupt)
        timer.start()
        return timer

    def wait(self):
        """Its exit status. Control in has ended, or it has come to an end by itself."""
        if self.pid is None:
            return None
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = None
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        raise AssertionError("the kernel does not end")

    def close(self):
        if self.to is not None:
            os.close(self.to)
            self.to = None
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = None
        for name in ("frames", "out", "err"):
            if getattr(self, name) is not None:
                os.close(getattr(self, name))
                setattr(self, name, None)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def _become(python, control_in, control_out, stdout, stderr):
    """In the child: descriptors as the guest gives them to a job."""
    try:
        os.setsid()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (control_in, control_out, stdout, stderr)]
        for fd, number in zip(high, (60, 61, 1, 2)):
            os.dup2(fd, number)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.closerange(3, 60)
        os.closerange(62, 256)
        os.execve(python, [python, "-I", "-c", stub()], {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"})
    finally:
        os._exit(127)


def main():
    """For trying things by hand: each argument is a cell."""
    with Kernel() as kernel:
        for code in sys.argv[1:]:
            answer = kernel.run(code)
            print("stdout:", answer.stdout, "\nstderr:", answer.stderr)
            print(json.dumps({"displays": answer.displays, "results": answer.results}, indent=1)[:6000])
            if answer.error:
                print(answer.error["name"], answer.error["message"], answer.error["lineNumber"])
                print("\n".join(answer.error["traceback"]))


if __name__ == "__main__":
    main()
