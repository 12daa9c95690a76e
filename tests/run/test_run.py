# SPDX-License-Identifier: Apache-2.0
"""`cay run`: what passes through it, how it ends, its flags and its report."""

import base64
import concurrent.futures
import hashlib
import json
import os
import signal
import subprocess
import time

import pytest
from run_helpers import alive_with, cpu_seconds, marker, refused, wait_until

MIB = 1 << 20

# -- input and output


def test_streams_are_kept_apart(cay):
    done = cay.run("--", "sh", "-c", "echo out; echo err >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\n", b"err\n")


def test_fifty_megabytes_of_any_bytes_come_back_as_they_went_in(cay):
    data = hashlib.shake_256(b"cay").digest(50 * MIB)
    done = cay.run("--", "cat", input=data)
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()
    assert done.stderr == b""


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20])
def test_sizes_around_those_of_pipes(cay, size):
    data = os.urandom(size)
    done = cay.run("--", "cat", input=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, data, b"")
    done = cay.run("--", "sh", "-c", "cat >&2", input=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", data)


@pytest.mark.parametrize("user", ["0", "1000"])
def test_streams_can_be_opened_by_name(cay, user):
    """Scripts say `> /dev/stderr`; the pipes behind it were made by somebody outside the box."""
    script = "echo out > /dev/stdout; echo err > /dev/stderr; cat /dev/stdin; cat < /proc/self/fd/0"
    done = cay.run("--user", user, "--", "sh", "-c", script, input=b"in\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"out\nin\n", b"err\n")


@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_files_as_streams(cay, tmp_path, mode):
    data = os.urandom(3 * MIB + 17)
    (tmp_path / "in").write_bytes(data)
    (tmp_path / "out").write_bytes(b"before ")
    with open(tmp_path / "in", "rb") as given, open(tmp_path / "out", mode) as out:
        done = cay.run("--", "cat", stdin=given, stdout=out)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_bytes() == (b"before " if mode == "ab" else b"") + data


def test_input_that_arrives_slowly(cay):
    with cay.start("--", "cat", stdin=subprocess.PIPE) as running:
        for i in range(5):
            running.stdin.write(b"line %d\n" % i)
            running.stdin.flush()
            assert running.stdout.readline() == b"line %d\n" % i
        running.stdin.close()
        assert running.wait(10) == 0


def test_input_nobody_reads(cay):
    done = cay.run("--", "true", input=os.urandom(4 * MIB))
    assert done.returncode == 0, done.stderr


def test_program_that_closes_its_input(cay):
    done = cay.run("--", "sh", "-c", "exec <&-; sleep 0.3; echo on", input=os.urandom(4 * MIB))
    assert (done.returncode, done.stdout) == (0, b"on\n")


def test_program_that_closes_its_output_runs_on(cay):
    done = cay.run("--", "sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 9")
    assert done.returncode == 9


def test_reader_that_goes_away_is_told_to_the_program(cay):
    with cay.start("--", "yes") as running:
        assert running.stdout.read(4) == b"y\ny\n"
        running.stdout.close()
        code = running.wait(10)
        assert (code, running.stderr.read()) == (128 + signal.SIGPIPE, b"")


def test_programs_start_with_no_signal_ignored_or_blocked(cay):
    done = cay.run("--", "sh", "-c", "grep -E '^Sig(Blk|Ign|Cgt):' /proc/self/status")
    masks = dict(line.split(":\t") for line in done.stdout.decode().splitlines())
    assert int(masks["SigBlk"], 16) == 0, masks
    assert int(masks["SigIgn"], 16) == 0, masks


def test_grandchild_that_holds_the_output_open_does_not_hold_the_run(cay):
    word = marker()
    began = time.monotonic()
    done = cay.run("--", "sh", "-c", f"setsid sleep 1000 {word} 2>/dev/null & setsid sh -c 'sleep 500; : {word}' & echo done")
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert time.monotonic() - began < 10
    assert wait_until(lambda: not alive_with(word))


def test_all_that_was_printed_before_the_end_arrives(cay):
    for _ in range(10):
        done = cay.run("--", "sh", "-c", "head -c 60000 /dev/zero; exit 3")
        assert (done.returncode, len(done.stdout)) == (3, 60000)


def without(*fds):
    def close():
        for fd in fds:
            os.close(fd)

    return close


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_closed_standard_streams(cay, closed):
    """The numbers of closed ones are taken by Cay's own descriptors, which nobody may mistake."""
    code = "import sys; data = sys.stdin.buffer.read(); print('out', len(data)); print('err', file=sys.stderr)"
    done = cay.python(code, preexec_fn=without(*closed), input=b"12345" if 0 not in closed else None)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (b"" if 1 in closed else b"out 0\n" if 0 in closed else b"out 5\n")
    assert done.stderr == (b"" if 2 in closed else b"err\n")


def test_directory_as_input(cay):
    fd = os.open("/", os.O_RDONLY)
    try:
        done = cay.run("--", "sh", "-c", "cat; echo end", stdin=fd)
    finally:
        os.close(fd)
    assert (done.returncode, done.stdout) == (0, b"end\n")


def test_full_device_as_output(cay):
    with open("/dev/full", "wb") as full:
        done = cay.run("--", "sh", "-c", "echo lost; sleep 0.2; exit 4", stdout=full)
    assert done.returncode == 4, done.stderr


def test_waiting_for_a_slow_reader_takes_no_processor_time(cay):
    with cay.start("--", "yes") as running:
        assert running.stdout.read(2) == b"y\n"
        before, began = cpu_seconds(running.pid), time.monotonic()
        time.sleep(1)
        share = (cpu_seconds(running.pid) - before) / (time.monotonic() - began)
        running.kill()
        running.stdout.read()
    assert share < 0.25


def test_waiting_for_a_program_that_does_not_read_takes_no_processor_time(cay):
    with cay.start("--", "sleep", "1000", stdin=subprocess.PIPE) as running:
        os.set_blocking(running.stdin.fileno(), False)
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:  # until the pipes on the way are full
            try:
                os.write(running.stdin.fileno(), b"x" * 65536)
            except BlockingIOError:
                time.sleep(0.01)
        before, began = cpu_seconds(running.pid), time.monotonic()
        time.sleep(1)
        share = (cpu_seconds(running.pid) - before) / (time.monotonic() - began)
        running.kill()
    assert share < 0.25


# -- how it ends


@pytest.mark.parametrize("code", [0, 1, 2, 3, 77, 125, 126, 127, 128, 137, 255])
def test_exit_codes(cay, code):
    assert cay.run("--", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("sig", ["KILL", "TERM", "INT", "SEGV", "ABRT", "HUP", "USR1", "PIPE", "RTMIN"])
def test_signals_become_128_and_more(cay, sig):
    number = int(getattr(signal, "SIG" + sig))
    result = cay.json("--", "sh", "-c", f"kill -{number} $$")
    assert (result["exitCode"], result["reason"], result["signal"]) == (128 + number, "signal", number)
    assert result["success"] is False


def test_no_such_command(cay):
    refused(cay.run("--", "no-such-command"), 127, "no-such-command")
    refused(cay.run("--", "/no/such/command"), 127, "/no/such/command")


def test_what_is_not_a_command(cay):
    refused(cay.run("--", "/etc/passwd"), 126, "/etc/passwd")
    refused(cay.run("--", "/usr"), 126, "/usr")
    refused(cay.run("--", ""), 127)


def test_missing_working_directory(cay):
    refused(cay.run("--workdir", "/no/such/place", "--", "true"), 125, "/no/such/place")


def test_timeout(cay):
    began = time.monotonic()
    done = cay.run("--timeout", "300ms", "--", "sh", "-c", "echo early; sleep 1000")
    assert 0.3 <= time.monotonic() - began < 10
    assert (done.returncode, done.stdout) == (124, b"early\n")
    assert done.stderr.count(b"\n") == 1 and b"--timeout" in done.stderr


def test_timeout_that_is_not_reached(cay):
    assert cay.run("--timeout", "60s", "--", "sh", "-c", "exit 5").returncode == 5


def test_timeout_of_a_program_whose_output_nobody_reads(cay):
    word = marker()
    with cay.start("--timeout", "500ms", "--", "sh", "-c", f": {word}; yes {word}") as running:
        assert running.stdout.read(1) == b"m"
        assert wait_until(lambda: [p for p in alive_with(word) if p != running.pid] == [], 15)
        running.stdout.read()
        assert running.wait(10) == 124


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2])
def test_signals_are_passed_on(cay, sig):
    code = f"""
import os, signal, time
def caught(number, frame):
    os.write(1, b"caught %d\\n" % number)
    os._exit(42)
signal.signal({int(sig)}, caught)
os.write(1, b"ready\\n")
time.sleep(1000)
"""
    with cay.start("--", "python3", "-c", code) as running:
        assert running.stdout.readline() == b"ready\n"
        running.send_signal(sig)
        assert running.stdout.readline() == b"caught %d\n" % sig
        assert running.wait(10) == 42


def test_terminated_from_outside(cay):
    with cay.start("--json", "--", "sh", "-c", "echo ready >&2; exec sleep 1000") as running:
        time.sleep(0.2)
        running.send_signal(signal.SIGTERM)
        result = json.loads(running.stdout.read())
        assert running.wait(10) == 128 + signal.SIGTERM
    assert (result["reason"], result["signal"]) == ("killed", signal.SIGTERM)


def test_signal_in_the_first_moments_is_not_lost(cay):
    """It ends the command, or Cay before the command was there; never neither."""
    for delay in (0, 0.0005, 0.001, 0.002, 0.003, 0.005):
        with cay.start("--", "sleep", "1000") as running:
            time.sleep(delay)
            running.send_signal(signal.SIGTERM)
            assert running.wait(10) in (-signal.SIGTERM, 128 + signal.SIGTERM)


def test_asked_twice_to_terminate_it_does_not_ask_again(cay):
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(1000)"
    with cay.start("--", "python3", "-c", code) as running:
        assert running.stdout.readline() == b"up\n"
        running.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        assert running.wait(10) == 128 + signal.SIGKILL


# -- flags


def test_environment_is_small_and_ours_stays_out(cay):
    done = cay.run("--", "env", env={**os.environ, "SECRET_OF_OURS": "x"})
    names = {line.split("=")[0] for line in done.stdout.decode().splitlines()}
    assert names == {"PATH", "LANG", "HOSTNAME", "HOME", "USER"}


def test_env(cay):
    flags = ["-e", "A=1", "--env", "B=two words=x", "--env=C=", "-e", "OURS", "-e", "NOT_OURS", "-e", "A=2", "-e", "HOME=/h"]
    done = cay.run(*flags, "--", "env", env={"OURS": "from here", "PATH": "/nowhere"})
    got = dict(line.split("=", 1) for line in done.stdout.decode().splitlines())
    assert (got["A"], got["B"], got["C"], got["OURS"], got["HOME"]) == ("2", "two words=x", "", "from here", "/h")
    assert "NOT_OURS" not in got
    assert got["PATH"].startswith("/usr/local/sbin")


def test_path_of_the_box_finds_the_command(cay):
    refused(cay.run("-e", "PATH=/nowhere", "--", "true"), 127)
    assert cay.run("-e", "PATH=/nowhere:/usr/bin", "--", "true").returncode == 0


def test_workdir(cay):
    assert cay.run("--", "pwd").stdout == b"/workspace\n"
    assert cay.run("-w", "/tmp", "--", "pwd").stdout == b"/tmp\n"
    assert cay.run("-w", "/home/user/workspace", "--", "pwd", "-P").stdout == b"/workspace\n"


@pytest.mark.parametrize("user, ids", [("0", "0 0"), ("1000", "1000 1000"), ("33:44", "33 44"), ("65534:0", "65534 0")])
def test_user(cay, user, ids):
    script = 'echo $(id -u) $(id -g) "groups" $(id -G); touch /workspace/mine /tmp/mine && stat -c "%u %g" /workspace/mine'
    done = cay.run("--user", user, "--", "sh", "-c", script)
    first, second = done.stdout.decode().splitlines()
    assert first == f"{ids} groups {ids.split()[1]}", done.stderr
    assert second == ids


def test_user_cannot_become_root(cay):
    done = cay.python("import os\ntry: os.setuid(0)\nexcept PermissionError: print('refused')", flags=["-u", "1000"])
    assert done.stdout == b"refused\n"


def test_long_arguments(cay):
    """Past what fits in one message to the guest, up to the kernel's own limit for one argument."""
    for size in (60_000, 65_400, 65_536, 70_000, 131_071):
        done = cay.run("--", "printf", "%s", "x" * size)
        assert (done.returncode, len(done.stdout)) == (0, size), done.stderr
    many = [str(i) * 50 for i in range(3000)]
    done = cay.run("--", "printf", "%s\\n", *many)
    assert done.stdout.decode().split() == many


def test_too_many_arguments(cay):
    done = cay.run("--", "true", *["x"] * 5000)
    refused(done, 125, "arguments")


def test_arguments_are_bytes(cay):
    done = cay.run("--", "printf", "%s|", b"\xff\xfe".decode("utf-8", "surrogateescape"), "", "a\nb")
    assert done.stdout == b"\xff\xfe||a\nb|"


def test_flags_end_at_the_command(cay):
    assert cay.run("echo", "--json", "-t", "--").stdout == b"--json -t --\n"
    assert cay.run("--", "echo", "--", "x").stdout == b"-- x\n"


def test_nothing_stays_of_a_run(cay):
    assert cay.run("--", "sh", "-c", "echo x > /workspace/file; echo x > /tmp/file").returncode == 0
    done = cay.run("--", "sh", "-c", "ls -A /workspace /tmp")
    assert b"file" not in done.stdout


# -- the report


def test_json_fields(cay):
    result = cay.json("--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert set(result) == {
        "success", "exitCode", "reason", "limitsHit", "stdout", "stderr", "truncated", "duration", "cpu", "peakMemory",
    }
    assert (result["success"], result["exitCode"], result["reason"]) == (False, 3, "exit")
    assert (result["stdout"], result["stderr"], result["truncated"]) == ("out\n", "err\n", False)
    assert result["limitsHit"] == []
    assert cay.json("--", "true")["success"] is True


def test_json_measures(cay):
    code = "import time\nx = bytearray(50 << 20)\nt = time.process_time()\nwhile time.process_time() - t < 0.3: pass\ntime.sleep(0.3)"
    result = cay.python_json(code)
    assert result["success"], result
    assert 600 <= result["duration"] < 20_000
    assert 300 <= result["cpu"] < 5_000
    assert 50 * MIB <= result["peakMemory"] < 200 * MIB


def test_json_counts_what_children_used(cay):
    code = (
        "import os, time\npid = os.fork()\nif pid == 0:\n    t = time.process_time()\n    while time.process_time() - t < 0.3: pass\n"
        "else: os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)"  # and does not reap it
    )
    assert cay.python_json(code)["cpu"] >= 300


def test_json_of_odd_text(cay):
    text = 'quote " backslash \\ control \x01\x1f\x7f tab\t nul \x00 ümlaut \U0001f41a \u2028'
    result = cay.python_json("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())", input=text.encode())
    assert result["stdout"] == text
    assert "encoding" not in result


def test_json_of_what_is_not_text(cay):
    data = os.urandom(5000) + b"\xff"
    result = cay.json("--", "sh", "-c", "cat; echo err >&2", input=data)
    assert result["encoding"] == "base64"
    assert base64.b64decode(result["stdout"]) == data
    assert base64.b64decode(result["stderr"]) == b"err\n"


def test_json_without_a_terminal_even_on_one(cay):
    leader, follower = os.openpty()
    try:
        done = cay.run("--json", "--", "sh", "-c", "test -t 0 || echo none", stdin=follower)
    finally:
        os.close(leader)
        os.close(follower)
    assert json.loads(done.stdout)["stdout"] == "none\n"


# -- several at once


def test_ten_at_once(cay):
    def one(i):
        script = f"echo {i} > /workspace/n; sleep 0.2; cat /workspace/n; ls /workspace | wc -l; hostname"
        return cay.run("--", "sh", "-c", script).stdout

    with concurrent.futures.ThreadPoolExecutor(10) as threads:
        results = list(threads.map(one, range(10)))
    assert results == [b"%d\n1\ncay\n" % i for i in range(10)]


def test_pids_of_a_box_are_its_own(cay):
    done = cay.run("--", "sh", "-c", "ls /proc | grep -c '^[0-9]'")
    assert int(done.stdout) <= 5


# -- the same program built with sanitizers (all but guest and spawner)


def test_sanitized_round(cay_san):
    data = os.urandom(MIB)
    done = cay_san.run("--", "sh", "-c", "cat; exit 7", input=data)
    assert (done.returncode, done.stdout, done.stderr) == (7, data, b"")
    result = cay_san.json("-m", "128m", "-c", "0.5", "-e", "A=b", "-u", "1000", "--", "sh", "-c", "echo $A; id -u >&2; kill -9 $$")
    assert (result["stdout"], result["stderr"], result["reason"]) == ("b\n", "1000\n", "signal")
    assert cay_san.run("-t", "300ms", "--", "sleep", "1000").returncode == 124
    refused(cay_san.run("--", "no-such-command"), 127)
    refused(cay_san.run("--image", "no-such-image", "--", "true"), 125)
    refused(cay_san.run("--nonsense"), 2)
    done = cay_san.run("--", "printf", "%s", "x" * 100_000)
    assert len(done.stdout) == 100_000, done.stderr
