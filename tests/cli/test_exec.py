# SPDX-License-Identifier: Apache-2.0
"""`cay exec` against a real server."""

import json
import os
import signal
import time

import pytest
from cli_helpers import PATIENCE, refused


def wait_for(process, text):
    seen = b""
    while text not in seen:
        more = os.read(process.stdout.fileno(), 4096)
        assert more, (seen, process.stderr.read())
        seen += more
    return seen


def test_output_and_exit_code(cli, sandbox):
    done = cli.run("exec", sandbox, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")
    assert cli.ok("exec", sandbox, "--", "printf", "%s|", "a b", "$HOME", "") == "a b|$HOME||"
    assert cli.ok("exec", sandbox, "-c", "echo $((6 * 7))") == "42\n"
    assert cli.ok("exec", sandbox, "ls", "-d", "/") == "/\n"  # flags behind the command are its own


def test_bytes_are_exact(cli, sandbox):
    code = "import os; os.write(1, bytes(range(256)) * 300); os.write(2, b'\\xc3\\x00\\xff')"
    done = cli.run("exec", sandbox, "--", "python3", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, bytes(range(256)) * 300, b"\xc3\x00\xff")
    done = cli.run("exec", sandbox, "-c", "head -c 3000000 /dev/zero | tr '\\0' x; printf '\\303'")
    assert done.stdout == b"x" * 3000000 + b"\xc3"


@pytest.mark.parametrize(
    "flags, command, code",
    [
        ([], ["sh", "-c", "kill -9 $$"], 137),
        ([], ["sh", "-c", "kill -TERM $$"], 143),
        (["--timeout", "200ms"], ["sleep", "1000"], 124),
        ([], ["/etc/passwd"], 126),
        ([], ["/no/such/program"], 127),
        (["--cwd", "/no/such/directory"], ["true"], None),
    ],
)
def test_exit_codes(cli, sandbox, flags, command, code):
    done = cli.run("exec", sandbox, *flags, "--", *command)
    assert done.returncode == code if code is not None else done.returncode in (125, 126, 127)
    if code in (124, 126, 127):
        assert done.stderr.startswith(b"cay: ")


def test_where_who_and_with_what(cli, sandbox):
    assert cli.ok("exec", sandbox, "--", "pwd") == "/workspace\n"
    assert cli.ok("exec", sandbox, "--cwd", "/tmp", "--", "pwd") == "/tmp\n"
    assert cli.ok("exec", sandbox, "--user", "1000", "--", "id", "-u") == "1000\n"
    text = cli.ok("exec", sandbox, "-e", "A=1 2", "-e", "OURS", "-e", "NOT_SET", "-c", "echo $A $OURS", env={"OURS": "x"})
    assert text == "1 2 x\n"


def test_output_comes_as_it_is_written(cli, sandbox):
    """The last line is written only after the first was seen here."""
    process = cli.start("exec", sandbox, "-c", "echo first; while ! test -e gate; do sleep 0.02; done; echo last")
    wait_for(process, b"first\n")
    cli.ok("exec", sandbox, "--", "touch", "gate")
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, errors) == (0, b"last\n", b"")


def test_standard_input(cli, sandbox):
    done = cli.run("exec", sandbox, "-i", "--", "wc", "-c", input=b"x" * 100000)
    assert (done.returncode, done.stdout.strip()) == (0, b"100000"), done.stderr
    data = bytes(range(256)) * 12000  # three megabytes that are no text
    done = cli.run("exec", sandbox, "-i", "--", "cat", input=data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == data
    assert cli.run("exec", sandbox, "-i", "--", "cat", input=b"").stdout == b""
    done = cli.run("exec", sandbox, "-i", "--", "true", input=data)  # reads nothing of it
    assert (done.returncode, done.stderr) == (0, b"")
    assert cli.ok("exec", sandbox, "--", "cat") == ""  # without -i there is none


def test_too_much_standard_input(cli, sandbox):
    refused(cli.run("exec", sandbox, "-i", "--", "cat", input=b"x" * (17 << 20)), 125, "16 MiB")


def test_sessions(cli, sandbox):
    cli.ok("exec", sandbox, "-s", "s", "-c", "cd /tmp; A='1 2'; export A")  # made on first use
    assert cli.ok("exec", sandbox, "-s", "s", "-c", 'pwd; echo "$A"') == "/tmp\n1 2\n"
    assert cli.ok("exec", sandbox, "-s", "s", "--", "printf", "%s|", "it's", "$A") == "it's|$A|"
    assert cli.ok("exec", sandbox, "-s", "other", "--", "pwd") == "/workspace\n"
    assert cli.run("exec", sandbox, "-s", "s", "-c", "(exit 5)").returncode == 5
    assert cli.run("exec", sandbox, "-s", "s", "-c", "exit 6").returncode == 6
    assert cli.ok("exec", sandbox, "-s", "s", "-i", "--", "cat", input=b"in") == "in"
    refused(cli.run("exec", sandbox, "-s", "no/name", "-c", "true"), 125)


def test_json(cli, sandbox):
    done = cli.run("exec", sandbox, "--json", "-c", "echo hello; exit 4")
    result = json.loads(done.stdout)
    assert (done.returncode, result["exitCode"], result["stdout"]) == (4, 4, "hello\n")


def test_a_sandbox_that_is_not_there(cli):
    refused(cli.run("exec", "newcomer", "--", "true"), 125, "newcomer", "cay create newcomer", "--create")
    assert cli.ok("exec", "newcomer", "--create", "--", "echo", "hi") == "hi\n"
    assert cli.ok("exec", "newcomer", "--create", "--", "echo", "hi") == "hi\n"
    cli.ok("rm", "newcomer")
    assert cli.ok("exec", "newcomer", "--create", "-s", "s", "-c", "echo hi") == "hi\n"
    cli.ok("rm", "newcomer")


def test_what_was_followed_leaves_nothing_behind(cli, sandbox):
    cli.ok("exec", sandbox, "--", "true")
    assert cli.json("ps", sandbox)["processes"] == []


def test_signals_are_passed_on(cli, sandbox):
    process = cli.start("exec", sandbox, "-c", "trap 'echo got it; exit 9' INT; echo up; while :; do sleep 0.1; done")
    wait_for(process, b"up\n")
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, errors) == (9, b"got it\n", b"")


def test_a_signal_before_there_is_a_process(cli, sandbox):
    """While the sandbox wakes: it is not lost."""
    cli.ok("sleep", sandbox)
    process = cli.start("exec", sandbox, "-c", "sleep 1000")
    time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (143, b"") or process.returncode == -15, errors


def test_a_second_signal_ends_it(cli, sandbox):
    process = cli.start("exec", sandbox, "-c", "trap '' INT; echo up; while :; do sleep 0.1; done")
    wait_for(process, b"up\n")
    process.send_signal(signal.SIGINT)
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert process.returncode == 130
    process.communicate()
    while "running" in cli.ok("ps", sandbox):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_daemon_that_dies_costs_not_a_byte(cli, server, sandbox):
    """The daemon is killed while a command writes; what we print is whole, once and in order."""
    count = 3000
    process = cli.start("exec", sandbox, "-c", f"for i in $(seq {count}); do echo line $i; done; sleep 1; echo end; exit 6")
    seen = wait_for(process, b"line 10\n")
    os.kill(server.daemon_pid(), signal.SIGKILL)
    rest, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 6, errors
    expected = b"".join(b"line %d\n" % i for i in range(1, count + 1)) + b"end\n"
    assert seen + rest == expected


def test_many_at_once(cli, sandbox):
    running = [cli.start("exec", sandbox, "--", "echo", i) for i in range(16)]
    for i, process in enumerate(running):
        out, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (0, b"%d\n" % i), errors
