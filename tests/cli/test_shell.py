# SPDX-License-Identifier: Apache-2.0
"""`cay shell` under a real terminal."""

import os
import signal
import tempfile
import termios
import time

import pytest
from cli_helpers import PATIENCE, Cli, Server, refused
from pty_helpers import Pty


class Shell(Pty):
    until = Pty.find  # nothing is forgotten

    def run(self, command, mark):
        since = len(self.shown)
        self.type(f"{command}; echo {mark[:1]}''{mark[1:]}\r")
        end = self.find(mark, since)
        return self.shown[since:end].decode(errors="replace")


@pytest.fixture
def shell(cli):
    opened = []

    def open_shell(*args, using=cli, **size):
        opened.append(Shell(using.command("shell", *args), **size))
        return opened[-1]

    yield open_shell
    for one in opened:
        one.__exit__()


def test_is_a_shell(shell, sandbox):
    t = shell(sandbox, cols=95, rows=31)
    t.until("Ctrl-] d leaves it")
    said = t.run("stty size; tty; echo $TERM", "READY")
    assert "31 95" in said and "/dev/pts/0" in said and "xterm-256color" in said
    assert t.is_raw()
    t.resize(61, 17)
    t.run("while [ \"$(stty size)\" != '17 61' ]; do :; done", "RESIZED")
    t.type("printf '%s' a\tb | cat -A\x03")  # Ctrl-C is the program's, not ours
    t.run("true", "ALIVE")
    t.type("exit 7\r")
    assert t.end() == 7


@pytest.mark.parametrize("line, code", [("exit 0", 0), ("kill -9 $$", 137), ("kill -15 $$; kill -HUP $$", 129)])
def test_exit_code_is_the_programs(shell, sandbox, line, code):
    t = shell(sandbox)
    t.run("true", "READY")
    t.type(line + "\r")
    assert t.end() == code


def test_command_is_passed_word_by_word(shell, sandbox):
    t = shell(sandbox, "--", "printf", "<%s>", "a b", "it's", "$HOME", "", "x;y")
    assert t.end() == 0
    assert b"<a b><it's><$HOME><><x;y>" in t.shown
    assert shell(sandbox, "--", "sh", "-c", "exit 5").end() == 5
    t = shell(sandbox, "--cwd", "/usr", "--user", "user", "--", "sh", "-c", "pwd; id -u")
    assert t.end() == 0 and b"/usr\r\n1000" in t.shown


def test_left_and_come_back_to(shell, cli, sandbox):
    t = shell(sandbox)
    t.run("here=still", "ONE")
    t.type("\x1dd")
    assert t.end() == 0
    assert f"cay shell {sandbox}' comes back" in t.shown.decode()
    assert "bash" in cli.ok("ps", sandbox)
    t = shell(sandbox)
    t.until("ONE")  # what was on the screen
    assert "still" in t.run("echo $here", "TWO")
    t.type("echo can n''ow; cat -v\r")
    t.until("can now")
    t.type("\x1d\x1da\x1dx\r")  # twice is once, and with another key both
    t.until("^]a^]x\r\n^]a^]x\r\n")
    t.type("\x04exit\r")
    assert t.end() == 0


def test_another_looks_on(shell, sandbox):
    t = shell(sandbox, "--session", "pair")
    t.run("true", "ONE")
    watcher = shell(sandbox, "-s", "pair", "--readonly")
    watcher.until("ONE")
    watcher.type("echo not-me\r")
    t.run("echo for both", "TWO")
    watcher.until("TWO")
    assert b"not-me" not in watcher.shown
    t.type("exit 3\r")
    assert (t.end(), watcher.end()) == (3, 3)


def test_goes_on_when_the_daemon_is_killed(shell, server, sandbox):
    t = shell(sandbox)
    t.run("kept=yes", "ONE")
    for i in range(3):
        os.kill(server.daemon_pid(), signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE
        while f"yes-{i}" not in t.shown.decode():  # what a dead daemon had not read was typed for nothing
            assert time.monotonic() < deadline, t.shown[-2000:]
            t.type(f"\x15echo $kept-{i}\r")
            t.read(1)
    t.type("for i in $(seq 1 30000); do echo line-$i; done; echo fin''ished\r")
    t.until("line-200\r")
    os.kill(server.daemon_pid(), signal.SIGKILL)
    t.until("finished")
    lines = [line for line in t.shown.decode().splitlines() if line.startswith("line-") and "$" not in line]
    assert lines == [f"line-{i}" for i in range(1, 30001)]
    t.type("exit 4\r")
    assert t.end() == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_signal_leaves_the_terminal_as_it_was(shell, cli, sandbox, number):
    t = shell(sandbox)
    t.run("true", "READY")
    assert t.is_raw()
    t.process.send_signal(number)
    assert t.end() == 128 + number
    assert "bash" in cli.ok("ps", sandbox)  # the shell is not ours to end


def test_is_stopped_and_goes_on(shell, sandbox):
    t = shell(sandbox)
    t.run("true", "ONE")
    t.process.send_signal(signal.SIGTSTP)
    os.waitid(os.P_PID, t.process.pid, os.WSTOPPED)
    assert termios.tcgetattr(t.slave) == t.before
    t.process.send_signal(signal.SIGCONT)
    t.run("true", "TWO")
    assert t.is_raw()


def test_sandbox_that_goes_is_told(shell, cli, sandbox):
    t = shell(sandbox)
    t.run("true", "READY")
    cli.ok("sleep", sandbox)
    assert t.end() == 129
    assert b"fell asleep" in t.shown
    t = shell(sandbox)
    t.run("true", "READY")
    cli.ok("rm", sandbox)
    assert t.end() != 0
    assert b"was destroyed" in t.shown


def test_screen_is_put_back_when_left(shell, sandbox):
    t = shell(sandbox)
    t.run("printf '\\033[?1049h\\033[?1000h'", "ONE")
    t.type("\x1dd")
    assert t.end() == 0
    assert t.shown.rfind(b"\x1b[?1049l") > t.shown.rfind(b"\x1b[?1049h\x1b[?1000h") > 0


def test_server_that_is_gone_does_not_hold_us(shell):
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    with tempfile.TemporaryDirectory(prefix="cay-shell-") as path:
        os.chmod(path, 0o711)
        server = Server(path)
        cli = Cli(path)
        name = cli.ok("create").strip()
        t = shell(name, using=cli)
        t.run("true", "READY")
        server.process.kill()
        server.process.wait()
        time.sleep(0.5)
        assert t.process.poll() is None  # it tries again
        t.type("\x1dd")
        assert t.end() == 0
        os.unlink(server.log_path)


def test_what_cannot_be_is_refused(shell, cli, sandbox):
    refused(cli.run("shell", sandbox), 2, "terminal", "cay exec")
    t = shell("no-such-sandbox")
    assert t.end() == 125 and b"no sandbox" in t.shown
    t = shell(sandbox, "--shell", "no-such-shell", "--session", "x")
    assert t.end() == 125 and b"no-such-shell" in t.shown
    assert b"usage: cay shell ID" in cli.run("shell", "--help").stdout
