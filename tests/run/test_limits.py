# SPDX-License-Identifier: Apache-2.0
"""Every limit of `cay run` is hit, and the report says which."""

import os
import time

import pytest
from run_helpers import HIDING_TREE, alive_with, marker, wait_until

MIB = 1 << 20

# -- memory


def test_memory(cay):
    result = cay.python_json("x = bytearray(200 << 20); print('not reached')", flags=["--memory", "64m"])
    assert (result["reason"], result["exitCode"], result["success"]) == ("oom", 137, False)
    assert result["stdout"] == ""
    assert 48 * MIB <= result["peakMemory"] <= 64 * MIB


def test_memory_says_so_in_words(cay):
    done = cay.python("x = bytearray(200 << 20)", flags=["--memory", "64m"])
    assert done.returncode == 137
    assert done.stderr.count(b"\n") == 1 and b"64 MiB" in done.stderr and b"--memory" in done.stderr


def test_memory_below_the_limit(cay):
    result = cay.python_json("x = bytearray(40 << 20); print(len(x))", flags=["--memory", "64m"])
    assert (result["reason"], result["stdout"]) == ("exit", f"{40 << 20}\n")


def test_memory_of_all_processes_together(cay):
    code = """
import os, time
for i in range(4):
    if os.fork() == 0:
        x = bytearray(30 << 20)
        time.sleep(20)
        os._exit(0)
x = bytearray(30 << 20)
for i in range(4):
    if os.wait()[1] != 0: print("one was ended", flush=True); os._exit(1)
"""
    result = cay.python_json(code, flags=["--memory", "64m"])
    assert result["reason"] in ("exit", "oom")
    assert not result["success"]
    assert result["peakMemory"] <= 64 * MIB


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm"])
def test_memory_counts_files_in_memory(cay, place):
    code = f"""
f = open("{place}/file", "wb")
for i in range(256): f.write(bytes(1 << 20)); f.flush()
print("not reached")
"""
    result = cay.python_json(code, flags=["--memory", "64m"])
    assert not result["success"], result
    assert result["peakMemory"] <= 64 * MIB


def test_oom_of_a_child_is_not_the_end_of_the_program(cay):
    script = "python3 -c 'x = bytearray(200 << 20)'; echo $?"
    result = cay.json("--memory", "64m", "--", "sh", "-c", script)
    assert (result["reason"], result["exitCode"]) == ("exit", 0)
    assert result["stdout"].splitlines()[-1] == "137"


def test_kill_without_oom_is_a_signal(cay):
    assert cay.json("--memory", "64m", "--", "sh", "-c", "kill -9 $$")["reason"] == "signal"


def test_smallest_memory(cay):
    assert cay.run("--memory", "4m", "--", "/bin/true").returncode in (0, 137)


# -- cpus

SPIN = """
import os, sys, time
for i in range(int(sys.argv[1]) - 1):
    if os.fork() == 0: break
end = time.monotonic() + 1.5
while time.monotonic() < end: pass
"""


def test_cpus(cay):
    """Shares of the same time: a box that may have a quarter gets at most that, and another more, as soon as the
    machine has that to give."""

    def share(cpus):
        report = cay.python_json(SPIN, "1", flags=["--cpus", cpus])
        return report["cpu"] / report["duration"]

    quarter = share("0.25")
    assert quarter <= 0.25 * 1.3
    assert any(share("1") > quarter * 1.5 for _ in range(5))


def test_cpus_of_all_processes_together(cay):
    spread = cay.python_json(SPIN, "6", flags=["--cpus", "0.5"])
    assert spread["cpu"] / spread["duration"] <= 0.5 * 1.3


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_more_than_one_cpu(cay):
    result = cay.python_json(SPIN, "4", flags=["--cpus", "1"])
    assert result["cpu"] / result["duration"] <= 1.3


# -- pids


def test_pids(cay):
    code = """
import errno, os, time
n = 0
try:
    while n < 1000:
        if os.fork() == 0: time.sleep(1000)
        n += 1
except OSError as e:
    print(n, errno.errorcode[e.errno], flush=True)
"""
    result = cay.python_json(code, flags=["--pids", "20"])
    assert (result["reason"], result["limitsHit"]) == ("exit", ["pids"])
    count, error = result["stdout"].split()
    assert error == "EAGAIN"
    assert 17 <= int(count) <= 19  # the guest and the program itself count


def test_threads_are_pids(cay):
    code = """
import threading, time
n = 0
try:
    while n < 1000:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        n += 1
except RuntimeError:
    print(n, flush=True)
    import os
    os._exit(0)
"""
    result = cay.python_json(code, flags=["--pids", "20"])
    assert result["limitsHit"] == ["pids"]
    assert 17 <= int(result["stdout"]) <= 19


def test_fork_bomb_ends_with_its_time(cay):
    began = time.monotonic()
    result = cay.json("--pids", "64", "--timeout", "1s", "--", "bash", "-c", "b() { b | b & }; b 2>/dev/null; sleep 1000")
    assert result["reason"] == "timeout"
    assert result["limitsHit"] == ["pids"]
    assert time.monotonic() - began < 15


def test_pids_not_reached(cay):
    assert cay.json("--pids", "20", "--", "sh", "-c", "ls | cat | cat")["limitsHit"] == []


# -- disk

FILL = """
import errno, os, sys
fd = os.open(sys.argv[1] + "/file", os.O_CREAT | os.O_WRONLY)
n = 0
try:
    while n < 1 << 30: n += os.write(fd, bytes(65536))
except OSError as e:
    print(n, errno.errorcode[e.errno])
"""


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/root", "/etc", "/var/tmp"])
def test_disk(cay, place):
    result = cay.python_json(FILL, place, flags=["--disk", "16m", "--memory", "256m"])
    assert result["reason"] == "exit"
    count, error = result["stdout"].split()
    assert error in ("ENOSPC", "EDQUOT")
    assert 15 * MIB <= int(count) <= 16 * MIB
    assert result["limitsHit"] == ["disk"]


def test_disk_full_of_nothing(cay):
    """Empty files and directories cost memory too."""
    code = """
import errno, os
n = 0
try:
    while n < 1_000_000:
        os.close(os.open(f"/workspace/{n}", os.O_CREAT | os.O_WRONLY)); n += 1
except OSError as e:
    print(n, errno.errorcode[e.errno])
"""
    result = cay.python_json(code, flags=["--disk", "4m"])
    count, error = result["stdout"].split()
    assert error in ("ENOSPC", "EDQUOT")
    assert int(count) < 10_000
    assert result["limitsHit"] == ["disk"]


def test_disk_not_full(cay):
    result = cay.json("--disk", "16m", "--", "sh", "-c", "head -c 8388608 /dev/zero > file")
    assert (result["success"], result["limitsHit"]) == (True, [])


# -- open files


def test_files(cay):
    code = """
import errno, os
n = 0
try:
    while True: os.open("/dev/null", os.O_RDONLY); n += 1
except OSError as e:
    print(n, errno.errorcode[e.errno])
"""
    assert cay.python_json(code, flags=["--files", "64"])["stdout"] == "61 EMFILE\n"
    assert cay.python_json(code)["stdout"] == f"{4096 - 3} EMFILE\n"


def test_files_cannot_be_raised(cay):
    code = "import resource\ntry: resource.setrlimit(resource.RLIMIT_NOFILE, (65, 65))\nexcept ValueError: print('refused')"
    assert cay.python(code, flags=["--files", "64"]).stdout == b"refused\n"


# -- output


def test_output_default_is_16_mib(cay):
    result = cay.json("--", "sh", "-c", "head -c 17000000 /dev/zero | tr '\\0' x; exit 6")
    assert (result["exitCode"], result["reason"]) == (6, "exit")
    assert (result["truncated"], result["limitsHit"]) == (True, ["output"])
    assert len(result["stdout"]) == 16 * MIB


def test_output(cay):
    result = cay.json("--output", "1000", "--", "sh", "-c", "printf '%0600d' 0; printf '%0600d' 0 >&2")
    assert len(result["stdout"]) + len(result["stderr"]) == 1000
    assert (result["truncated"], result["limitsHit"]) == (True, ["output"])


def test_output_exactly_at_the_limit(cay):
    result = cay.json("--output", "1000", "--", "printf", "%01000d", "0")
    assert (len(result["stdout"]), result["truncated"], result["limitsHit"]) == (1000, False, [])


def test_output_without_end(cay):
    result = cay.json("--output", "64k", "--timeout", "1s", "--", "yes")
    assert (result["reason"], result["limitsHit"], len(result["stdout"])) == ("timeout", ["output"], 65536)


def test_output_passes_without_limit_when_nobody_keeps_it(cay):
    done = cay.run("--output", "1000", "--", "sh", "-c", "head -c 20000000 /dev/zero")
    assert len(done.stdout) == 20_000_000


# -- wall time


def test_timeout_ends_all_of_it(cay):
    word = marker()
    result = cay.json("--timeout", "1s", "--", "python3", "-c", HIDING_TREE, word)
    assert (result["reason"], result["exitCode"], result["success"]) == ("timeout", 124, False)
    assert 1000 <= result["duration"] < 15_000
    assert "up" in result["stdout"]
    assert wait_until(lambda: not alive_with(word))


def test_normal_end_ends_all_of_it_too(cay):
    word = marker()
    code = f"import os\nif os.fork() == 0:\n" + "\n".join("    " + line for line in HIDING_TREE.splitlines())
    result = cay.json("--", "sh", "-c", f"python3 -c \"$1\" {word} & sleep 0.5; exit 3", "sh", code)
    assert (result["reason"], result["exitCode"]) == ("exit", 3)
    assert wait_until(lambda: not alive_with(word))


def test_stopped_program_can_be_ended(cay):
    word = marker()
    result = cay.json("--timeout", "500ms", "--", "sh", "-c", f"sleep 1000 {word} & kill -STOP $! $$")
    assert result["reason"] == "timeout"
    assert wait_until(lambda: not alive_with(word))


# -- several at once


def test_two_limits_in_one_run(cay):
    code = FILL + "\ntry:\n    while True:\n        if os.fork() == 0:\n            import time; time.sleep(1000)\nexcept OSError: pass\n"
    result = cay.python_json(code, "/workspace", flags=["--disk", "4m", "--pids", "16"])
    assert result["limitsHit"] == ["pids", "disk"]
