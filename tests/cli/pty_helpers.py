# SPDX-License-Identifier: Apache-2.0
"""A command with a terminal of its own, whose other end is ours."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from cli_helpers import PATIENCE, clean_env


class Pty:
    def __init__(self, command, cols=80, rows=24, cwd=None, **env):
        self.master, self.slave = pty.openpty()
        self.resize(cols, rows)
        self.before = termios.tcgetattr(self.slave)
        self.shown = b""
        self.all = b""
        self.process = subprocess.Popen(
            command,
            stdin=self.slave, stdout=self.slave, stderr=self.slave,
            env=clean_env(**env), cwd=cwd, start_new_session=True,
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

    def resize(self, cols, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        more = os.read(self.master, 65536)
        self.shown += more
        self.all += more
        return True

    def find(self, text, since=0):
        """Reads until it is shown: where it ends."""
        deadline = time.monotonic() + PATIENCE
        while (at := self.shown.find(text.encode(), since)) < 0:
            assert time.monotonic() < deadline, self.shown[-2000:]
            self.read(1)
        return at + len(text.encode())

    def until(self, text):
        """Reads until it is shown, and forgets what came up to there."""
        end = self.find(text)
        seen, self.shown = self.shown[:end], self.shown[end:]
        return seen.decode(errors="replace")

    def end(self):
        """Its exit code, when the terminal is as it was before."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown[-2000:]
            self.read(0.05)
        while self.read(0):
            pass
        assert termios.tcgetattr(self.slave) == self.before
        return self.process.returncode

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON
