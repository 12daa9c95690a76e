# SPDX-License-Identifier: Apache-2.0
"""`cay run` on a terminal: the program in the box has one too."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from run_helpers import PATIENCE, alive_with, marker, wait_until


class Terminal:
    """A terminal with `cay run` on it, and what it has shown so far."""

    def __init__(self, cay, *args, rows=30, cols=100, env=None):
        self.leader, follower = pty.openpty()
        self.resize(rows, cols)
        self.mode = termios.tcgetattr(follower)
        self.follower = follower
        self.shown = b""
        self.process = subprocess.Popen(
            cay.command(*args), stdin=follower, stdout=follower, stderr=follower, env=env,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.process.kill()
        self.process.wait()
        os.close(self.leader)
        os.close(self.follower)

    def resize(self, rows, cols):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.leader, text)

    def read_some(self, seconds):
        if select.select([self.leader], [], [], seconds)[0]:
            self.shown += os.read(self.leader, 65536)

    def expect(self, pattern):
        """Reads until the pattern has been shown, and forgets what was shown up to there."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < deadline, (pattern, self.shown)
            self.read_some(0.2)
        self.shown = self.shown[found.end():]
        return found

    def wait(self):
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown
            self.read_some(0.02)
        self.read_some(0)
        return self.process.returncode


def test_program_has_a_terminal(cay):
    with Terminal(cay, "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty && echo yes $TERM") as terminal:
        terminal.expect(rb"/dev/pts/\d+\r\nyes xterm-256color\r\n")
        assert terminal.wait() == 0


def test_terminal_opens_by_its_name(cay):
    with Terminal(cay, "--user", "1000", "--", "sh", "-c", "stat -c '%u %G %a' $(tty); echo x > $(tty); echo y > /dev/tty") as terminal:
        terminal.expect(rb"tty 666\r\nx\r\ny\r\n")
        assert terminal.wait() == 0


def test_exit_code_and_mode_come_back(cay):
    with Terminal(cay, "--", "sh", "-c", "stty raw -echo; exit 9") as terminal:
        assert terminal.wait() == 9
        assert termios.tcgetattr(terminal.follower) == terminal.mode


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP])
def test_mode_comes_back_after_a_signal(cay, sig):
    with Terminal(cay, "--", "sh", "-c", "echo up; exec sleep 1000") as terminal:
        terminal.expect(b"up")
        terminal.process.send_signal(sig)
        assert terminal.wait() == 128 + sig
        assert termios.tcgetattr(terminal.follower) == terminal.mode


def test_typing(cay):
    with Terminal(cay, "--", "sh", "-c", "read line; echo got $line") as terminal:
        terminal.type(b"some words\r")
        terminal.expect(rb"some words\r\n.*got some words\r\n")  # echoed once by the box's terminal, then answered
        assert terminal.wait() == 0


def test_end_of_input_by_key(cay):
    with Terminal(cay, "--", "cat") as terminal:
        terminal.type(b"a\r")
        terminal.expect(rb"a\r\na\r\n")
        terminal.type(b"\x04")
        assert terminal.wait() == 0


def test_interrupt_by_key(cay):
    with Terminal(cay, "--", "sh", "-c", "echo up; exec sleep 1000") as terminal:
        terminal.expect(b"up")
        terminal.type(b"\x03")
        assert terminal.wait() == 128 + signal.SIGINT


def test_interrupt_by_key_reaches_the_foreground_only(cay):
    with Terminal(cay, "--", "bash", "--norc", "-i") as terminal:
        terminal.expect(rb"[#$] ")
        terminal.type(b"sleep 1000; echo after $?\r")
        time.sleep(0.3)
        terminal.type(b"\x03")
        terminal.expect(rb"[#$] ")
        terminal.type(b"echo still $((40 + 2))\r")
        terminal.expect(b"still 42")
        terminal.type(b"exit 5\r")
        assert terminal.wait() == 5


def test_job_control(cay):
    with Terminal(cay, "--", "bash", "--norc", "-i") as terminal:
        terminal.expect(rb"[#$] ")
        terminal.type(b"sleep 1000\r")
        time.sleep(0.3)
        terminal.type(b"\x1a")
        terminal.expect(b"Stopped")
        terminal.type(b"kill %1; exit\r")
        terminal.type(b"exit\r")  # the first may only warn of stopped jobs
        terminal.wait()


def test_size_at_the_start(cay):
    with Terminal(cay, "--", "stty", "size", rows=33, cols=111) as terminal:
        terminal.expect(rb"33 111\r\n")
        assert terminal.wait() == 0


def test_size_follows(cay):
    code = """
import os, signal, time
def changed(*_):
    size = os.get_terminal_size(0)
    os.write(1, b"now %d %d\\n" % (size.lines, size.columns))
signal.signal(signal.SIGWINCH, changed)
os.write(1, b"up\\n")
while True: time.sleep(10)
"""
    with Terminal(cay, "--", "python3", "-c", code) as terminal:
        terminal.expect(b"up")
        for rows, cols in ((40, 120), (10, 20), (50, 200)):
            terminal.resize(rows, cols)  # the kernel sends SIGWINCH to who is in the foreground
            terminal.expect(b"now %d %d\r\n" % (rows, cols))


def test_timeout(cay):
    word = marker()
    with Terminal(cay, "--timeout", "500ms", "--", "sh", "-c", f"echo up; sleep 1000; : {word}") as terminal:
        assert terminal.wait() == 124
        assert wait_until(lambda: not alive_with(word))
        assert termios.tcgetattr(terminal.follower) == terminal.mode


def test_timeout_while_nobody_takes_what_was_typed(cay):
    with Terminal(cay, "--timeout", "1s", "--", "sh", "-c", "stty raw -echo; echo up; exec sleep 1000") as terminal:
        terminal.expect(b"up")
        os.set_blocking(terminal.leader, False)
        deadline = time.monotonic() + 0.6
        while time.monotonic() < deadline:
            try:
                os.write(terminal.leader, b"x" * 1000)
            except BlockingIOError:
                time.sleep(0.01)
        assert terminal.wait() == 124


def test_timeout_while_nobody_looks_at_the_terminal(cay):
    word = marker()
    with Terminal(cay, "--timeout", "1s", "--", "sh", "-c", f"yes {word}") as terminal:
        assert wait_until(lambda: alive_with("yes"), 10)
        assert wait_until(lambda: [p for p in alive_with(word) if p != terminal.process.pid] == [], 15)
        assert terminal.wait() == 124


def test_much_output(cay):
    with Terminal(cay, "--", "seq", "100000") as terminal:
        text = b""
        while terminal.process.poll() is None or select.select([terminal.leader], [], [], 0.1)[0]:
            terminal.read_some(0.1)
            text, terminal.shown = text + terminal.shown, b""
        assert text.split() == [b"%d" % i for i in range(1, 100001)]


def test_terminal_that_hangs_up(cay):
    """The window is closed: the program gets SIGHUP, and nothing stays."""
    word = marker()
    terminal = Terminal(cay, "--", "sh", "-c", f"echo up; sleep 1000; : {word}")
    terminal.expect(b"up")
    os.close(terminal.follower)
    os.close(terminal.leader)
    assert terminal.process.wait(PATIENCE) == 128 + signal.SIGHUP
    assert wait_until(lambda: not alive_with(word))


def test_only_input_is_a_terminal(cay):
    leader, follower = pty.openpty()
    try:
        done = cay.run("--", "sh", "-c", "test -t 0 || test -t 1 || echo no terminal", stdin=follower)
        assert done.stdout == b"no terminal\n"
    finally:
        os.close(leader)
        os.close(follower)
