# SPDX-License-Identifier: Apache-2.0
"""`cay run` asked for nonsense, or on a machine that is in trouble: one clear line, the right exit
code, and nothing left."""

import os
import pathlib
import shutil
import subprocess

import pytest
from run_helpers import CAY, PATIENCE, Cay, refused

USAGE, FAILED = 2, 125

# -- nonsense


@pytest.mark.parametrize(
    "args, words",
    [
        ([], ["no command"]),
        (["--"], ["no command"]),
        (["--nonsense", "--", "true"], ["--nonsense"]),
        (["--memroy", "1g", "--", "true"], ["--memroy", "--memory"]),
        (["-z", "--", "true"], ["-z"]),
        (["--memory"], ["--memory"]),
        (["--json=yes", "--", "true"], ["--json"]),
        (["--memory", "lots", "--", "true"], ["--memory", "lots"]),
        (["--memory", "", "--", "true"], ["--memory"]),
        (["--memory", "-1", "--", "true"], ["--memory"]),
        (["--memory", "1k", "--", "true"], ["memory"]),
        (["--memory", "100000t", "--", "true"], ["memory"]),
        (["--memory", "99999999999999999999", "--", "true"], ["memory"]),
        (["--cpus", "0", "--", "true"], ["--cpus"]),
        (["--cpus", "0.001", "--", "true"], ["cpus"]),
        (["--cpus", "-2", "--", "true"], ["--cpus"]),
        (["--cpus", "nan", "--", "true"], ["--cpus"]),
        (["--cpus", "1000000", "--", "true"], ["cpus"]),
        (["--pids", "0", "--", "true"], ["--pids"]),
        (["--pids", "1", "--", "true"], ["--pids"]),
        (["--pids", "1.5", "--", "true"], ["--pids"]),
        (["--pids", "4294967297", "--", "true"], ["--pids"]),
        (["--disk", "1", "--", "true"], ["disk"]),
        (["--disk", "65t", "--", "true"], ["disk"]),
        (["--files", "3", "--", "true"], ["--files"]),
        (["--files", "99999999", "--", "true"], ["--files"]),
        (["--output", "x", "--", "true"], ["--output"]),
        (["--timeout", "soon", "--", "true"], ["--timeout"]),
        (["--timeout", "-1s", "--", "true"], ["--timeout"]),
        (["--env", "=x", "--", "true"], ["--env"]),
        (["--workdir", "here", "--", "true"], ["--workdir", "here"]),
        (["--user", "root", "--", "true"], ["--user"]),
        (["--user", "65535", "--", "true"], ["--user"]),
        (["--user", "0:65535", "--", "true"], ["--user"]),
        (["--user", "-1", "--", "true"], ["--user"]),
        (["--user", "0:", "--", "true"], ["--user"]),
        (["--user", "", "--", "true"], ["--user"]),
    ],
)
def test_usage(cay, args, words):
    refused(cay.run(*args), USAGE, *words)


def test_text_that_would_spoil_a_terminal_is_not_repeated(cay):
    done = cay.run("--memory", "\x1b[31mred\n", "--", "true")
    assert done.returncode == USAGE
    assert b"\x1b" not in done.stderr and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("name", ["no-such-image", "../host", "Host", "", "x" * 63, "x" * 64, "x" * 5000], ids=len)
def test_image_that_is_not_there(cay, name):
    done = cay.run("--image", name, "--", "true")
    assert done.returncode in (USAGE, FAILED)
    assert done.stderr.count(b"\n") == 1 and b"image" in done.stderr, done.stderr
    assert done.stdout == b""


def test_json_keeps_standard_output_for_the_report(cay):
    refused(cay.run("--json", "--image", "no-such-image", "--", "true"), FAILED)


# -- a data directory that will not do


def test_data_directory_that_is_a_file(cay, tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    refused(Cay(tmp_path / "file").run("--", "true"), FAILED, "data directory", "file")


def test_data_directory_below_nothing(cay, tmp_path):
    refused(Cay(tmp_path / "a" / "b").run("--", "true"), FAILED, "data directory")
    assert list(tmp_path.iterdir()) == []


def test_data_directory_of_others(cay, tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    refused(Cay(tmp_path / "open").run("--", "true"), FAILED, "data directory")


def in_private_mounts(script, *args, program=CAY):
    """Runs a shell script whose mounts nobody else sees, and go with it."""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", program, *map(str, args)]
    return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False)


def test_data_directory_on_a_read_only_disk(cay, tmp_path):
    script = 'mount -t tmpfs -o mode=711 none "$2"; mount -o remount,ro "$2"; exec "$1" run --data "$2" -- true'
    refused(in_private_mounts(script, tmp_path), FAILED, "ead-only")
    refused(in_private_mounts(script.replace('--data "$2"', '--data "$2/new"'), tmp_path), FAILED, "ead-only")


def test_prepared_data_directory_on_a_read_only_disk_will_do(cay, tmp_path):
    script = (
        'mount -t tmpfs -o mode=711 none "$2"; "$1" run --data "$2" -- true; mount -o remount,ro "$2";'
        ' exec "$1" run --data "$2" -- echo fine'
    )
    done = in_private_mounts(script, tmp_path)
    assert (done.returncode, done.stdout) == (0, b"fine\n") or done.returncode == FAILED and done.stderr.count(b"\n") == 1


def test_data_directory_on_a_full_disk(cay, tmp_path):
    script = (
        'mount -t tmpfs -o size=64k,mode=711 none "$2"; head -c 1000000 /dev/zero > "$2/fill" 2>/dev/null || true;'
        ' "$1" run --data "$2" -- true || echo $?; ls "$2"; ls -A "$2/images" 2>/dev/null || true'
    )
    done = in_private_mounts(script, tmp_path)
    code, *left = done.stdout.decode().split()
    assert code == str(FAILED), done
    assert done.stderr.count(b"\n") == 1 and b"cay: " in done.stderr, done.stderr
    assert [name for name in left if name not in ("fill", "images", "host")] == []


# -- a machine that will not do


def as_nobody(program, tmp_path):
    """A copy that anybody may execute."""
    copy = tmp_path / "cay"
    shutil.copy(program, copy)
    copy.chmod(0o755)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_mode & 0o001 == 0:
            parent.chmod(parent.stat().st_mode | 0o011)
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(copy)]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_without_root(cay, tmp_path, more):
    command = [*as_nobody(cay.program, tmp_path), "run", *more, "--", "true"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    refused(done, FAILED, "root")


def test_root_without_its_powers(cay):
    command = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", *cay.command("--", "true")]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    refused(done, FAILED)


def test_root_in_a_container_without_powers(cay, data_dir):
    command = ["unshare", "--user", "--map-root-user", *cay.command("--", "true")]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    refused(done, FAILED)


def test_without_proc(cay, data_dir):
    done = in_private_mounts('mount -t tmpfs none /proc; exec "$1" run --data "$2" -- true', data_dir)
    refused(done, FAILED)


def test_without_run(cay, data_dir):
    done = in_private_mounts('mount -t tmpfs -o ro none /run; exec "$1" run --data "$2" -- true', data_dir)
    refused(done, FAILED, "/run/cay")


def test_with_few_descriptors(cay):
    for limit in range(3, 40):
        done = subprocess.run(
            ["prlimit", f"--nofile={limit}:{limit}", *cay.command("--", "echo", "fine")],
            capture_output=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
        )
        if done.returncode == 0:
            assert done.stdout == b"fine\n"
        else:
            assert done.returncode == FAILED, (limit, done)
            assert done.stderr.count(b"\n") == 1, (limit, done)


def test_with_no_process_left(cay):
    for limit in (0, 1, 2, 3):
        script = f'mkdir -p "$2"; echo {limit} > "$2/pids.max"; echo $$ > "$2/cgroup.procs"; exec "$1" run --data "$3" -- true'
        group = pathlib.Path("/sys/fs/cgroup/pids/cay-test")
        if not group.parent.is_dir():
            pytest.skip("no pids hierarchy of cgroup v1 here")
        done = in_private_mounts(script, group, cay.data)
        os.rmdir(group)
        if done.returncode != 0:
            assert done.returncode == FAILED, (limit, done)
            assert done.stderr.count(b"\n") == 1, (limit, done)


def test_output_into_a_full_disk_with_json(cay):
    with open("/dev/full", "wb") as full:
        done = cay.run("--json", "--", "true", stdout=full)
    assert done.returncode == FAILED
    assert done.stderr.count(b"\n") == 1, done.stderr


def test_help(cay):
    for args in (["run", "--help"], ["run", "-h"], ["help", "run"]):
        done = subprocess.run([cay.program, *args], capture_output=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0 and done.stderr == b""
        for flag in ("image", "memory", "cpus", "pids", "disk", "timeout", "env", "workdir", "user", "json"):
            assert b"--" + flag.encode() in done.stdout
