# SPDX-License-Identifier: Apache-2.0
"""`cay doctor`: what it finds on a good machine and on poor ones, and that it leaves nothing behind."""

import glob
import json
import os
import pathlib
import pty
import random
import shlex
import shutil
import signal
import subprocess
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
CAY = os.environ.get("CAY", str(TOP / "build" / "cay"))
FULL = os.environ.get("CAY_TEST_FULL") == "1"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="most of it is root's to try")

# Without these no box can be made.
ESSENTIAL = (
    "root",
    "user namespaces",
    "namespaces",
    "new /proc",
    "clone3 and pidfds",
    "seccomp",
    "detached mounts",
    "overlayfs",
    "volatile overlay",
    "cgroups",
    "limits",
    "killing",
    "data directory",
    "box",
)
STATES = {"ok", "note", "missing", "untried"}
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def run(*args, before=(), env=None, code=0):
    done = subprocess.run(
        [*before, CAY, "doctor", *map(str, args)],
        capture_output=True,
        check=False,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=180,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def read(done):
    report = json.loads(done.stdout)
    assert done.stderr == ""
    assert report["ok"] is (done.returncode == 0)
    for check in report["checks"]:
        assert set(check) == {"name", "state", "detail", "advice"}
        assert check["state"] in STATES
        assert check["detail"]
    return {check["name"]: check for check in report["checks"]}


def run_json(*args, **kwargs):
    return read(run("--json", *args, **kwargs))


def run_mounted(script, *args, code=0):
    """Runs it after a shell script has mounted things that only it sees."""
    command = f"set -e; {script}; exec {shlex.quote(CAY)} doctor --json {shlex.join(map(str, args))}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command], capture_output=True, check=False, text=True, timeout=180
    )
    assert done.returncode == code, done.stdout + done.stderr
    return read(done)


# -- nothing stays


def loops():
    found = set()
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            found.add(path + " " + pathlib.Path(path).read_text(encoding="utf-8").strip())
        except OSError:
            pass  # it went while we looked
    return found


def is_empty(cgroup):
    for path in glob.glob(cgroup + "cgroup.procs") + glob.glob(cgroup + "*/cgroup.procs"):
        try:
            if pathlib.Path(path).read_text(encoding="utf-8"):
                return False
        except OSError:
            pass
    return os.path.isdir(cgroup)


def cgroups():
    """Those that nobody is in: others are boxes of somebody else, or processes() tells of them."""
    found = set()
    for top in glob.glob("/sys/fs/cgroup/cay") + glob.glob("/sys/fs/cgroup/*/cay"):
        found |= {path for path in glob.glob(top + "/*/") if is_empty(path)}
    return found


def processes():
    found = set()
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            words = pathlib.Path(path).read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [CAY.encode(), b"doctor"]:
            found.add(path)
    return found


def mounts():
    return set(pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines())


def strays():
    """Directories that a check made for itself, where any may be."""
    return {path for top in ("/var/tmp", "/var/lib", "/var/lib/cay") for path in glob.glob(top + "/.doctor-*")}


class Leftovers:
    """What is there after a block and was not before; others' boxes may come and go meanwhile."""

    LOOKS = (loops, cgroups, processes, mounts, strays)

    def __enter__(self):
        self.before = [look() for look in self.LOOKS]

    def __exit__(self, kind, *_):
        if kind is not None:
            return
        left = [look() - old for look, old in zip(self.LOOKS, self.before)]
        end = time.monotonic() + 10
        while any(left) and time.monotonic() < end:
            time.sleep(0.05)
            left = [old & look() for old, look in zip(left, self.LOOKS)]
        assert not any(left), left


@pytest.fixture
def data(tmp_path):
    """Not made yet; the directory above it is."""
    return tmp_path / "data"


# -- a good machine


def test_this_machine_has_what_boxes_need(data):
    checks = run_json("--data", data)
    for name in ESSENTIAL:
        assert checks[name]["state"] in ("ok", "note"), checks[name]
    assert " ms" in checks["box"]["detail"]
    assert checks["mkfs.btrfs"]["state"] == "ok"
    assert checks["tar"]["detail"][0].isdigit()


def test_a_volume_is_made_and_its_quota_felt(data):
    check = run_json("--data", data)["btrfs volume"]
    assert check["state"] in ("ok", "note"), check
    assert "quota" in check["detail"]


def test_nothing_stays(data):
    with Leftovers():
        run("--data", data)
    assert list(data.parent.iterdir()) == []


def test_nothing_stays_in_a_data_directory_that_is_there(data):
    data.mkdir(0o711)
    with Leftovers():
        run("--data", data)
    assert list(data.iterdir()) == []


def test_nothing_stays_when_it_is_killed(data):
    data.mkdir(0o711)
    for _ in range(20 if FULL else 4):
        with Leftovers():
            with subprocess.Popen([CAY, "doctor", "--data", data], stdout=subprocess.DEVNULL) as process:
                time.sleep(random.uniform(0, 1))
                process.send_signal(signal.SIGKILL)
            end = time.monotonic() + 10
            while list(data.iterdir()) and time.monotonic() < end:
                time.sleep(0.05)
            assert list(data.iterdir()) == []


def test_lines_for_people(data):
    lines = run("--data", data).stdout.splitlines()
    assert lines[0].startswith("ok       root ")
    assert lines[-2] == ""
    assert lines[-1].startswith("Boxes work on this machine")
    marks = {line.split()[0] for line in lines[:-2] if not line.startswith(" ")}
    assert marks <= {"ok", "note", "MISSING"}
    columns = {line.index(line.split("  ")[-1].lstrip()) for line in lines if line.startswith("ok ")}
    assert len(columns) == 1  # details begin one below the other


def test_colour_only_on_a_terminal(data):
    assert "\033" not in run("--data", data).stdout
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [CAY, "doctor", "--data", data], stdin=theirs, stdout=theirs, env={**os.environ, "TERM": "xterm"}
    ) as process:
        os.close(theirs)
        output = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # how the end of a terminal shows
                break
            output += chunk
            if not chunk:
                break
    os.close(ours)
    assert process.returncode == 0
    assert b"\033[32mok" in output


# -- poor machines


def test_without_root_it_says_that_root_is_needed(tmp_path):
    program = tmp_path / "cay"
    program.write_bytes(pathlib.Path(CAY).read_bytes())
    program.chmod(0o755)
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    for flag in ([], ["--json"]):
        done = subprocess.run(
            [*NOBODY, program, "doctor", *flag], capture_output=True, check=False, text=True, timeout=60
        )
        assert done.returncode == 125, done.stderr
        assert "root" in done.stdout.splitlines()[-1]
    checks = read(done)
    assert checks["root"]["state"] == "missing"
    assert checks["kernel"]["state"] in ("ok", "note")
    assert checks["overlayfs"]["state"] == checks["box"]["state"] == "untried"


def test_a_capability_that_root_lacks():
    checks = run_json(before=["setpriv", "--bounding-set=-mknod"], code=125)
    assert checks["capabilities"]["state"] == "missing"
    assert "CAP_MKNOD" in checks["capabilities"]["detail"]
    assert checks["box"]["state"] == "missing"


def test_a_user_namespace_is_not_the_machine():
    checks = run_json(before=["unshare", "-Ur"], code=125)
    assert checks["container"]["state"] == "missing"
    assert checks["user namespaces"]["state"] == "missing"


def test_an_old_kernel_is_told_and_gets_its_own_way_to_mount(data):
    checks = run_json("--data", data, before=["setarch", "--uname-2.6"])
    assert checks["kernel"]["state"] == "missing"
    assert "6.15" in checks["kernel"]["advice"]
    for name in ("overlayfs", "volatile overlay", "box"):
        assert checks[name]["state"] in ("ok", "note"), checks[name]


def test_programs_that_are_not_installed(data):
    hidden = [shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") for name in ("mmdebstrap", "mkfs.btrfs")]
    checks = run_mounted("; ".join(f"mount --bind /dev/null {path}" for path in hidden), "--data", data)
    assert checks["mmdebstrap"]["state"] == "missing"
    assert "apt-get install btrfs-progs" in checks["mkfs.btrfs"]["advice"]
    assert checks["box"]["state"] == "ok"


def test_data_on_a_read_only_file_system(tmp_path):
    with Leftovers():
        checks = run_mounted(f"mount -t tmpfs -o ro,mode=755 none {tmp_path}", "--data", tmp_path, code=125)
    assert checks["data directory"]["state"] == "missing"
    assert "read-only" in checks["data directory"]["detail"]
    assert "--data" in checks["data directory"]["advice"]
    assert checks["box"]["state"] == "missing"
    assert "/var/tmp" in checks["btrfs volume"]["detail"]


def test_data_on_a_full_file_system(tmp_path):
    fill = f"mount -t tmpfs -o size=1m,mode=755 none {tmp_path}; head -c 2m /dev/zero >{tmp_path}/f 2>&- || true"
    with Leftovers():
        checks = run_mounted(fill, "--data", tmp_path, code=125)
    assert checks["data directory"]["state"] == "missing"
    assert "full" in checks["data directory"]["detail"]
    assert checks["box"]["state"] == "missing"


def test_data_with_little_space(tmp_path):
    checks = run_mounted(f"mount -t tmpfs -o size=100m,mode=755 none {tmp_path}", "--data", tmp_path / "x")
    assert checks["data directory"]["state"] == "note"
    assert checks["box"]["state"] == "ok"


def test_data_on_overlayfs_falls_back_to_plain_binds(tmp_path):
    over = (
        f"mount -t tmpfs -o mode=755 none {tmp_path}; cd {tmp_path}; mkdir l u w data; "
        "mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w data"
    )
    checks = run_mounted(over, "--data", tmp_path / "data")
    assert checks["idmap data"]["state"] == "note"
    assert "nobody" in checks["idmap data"]["detail"]
    assert checks["box"]["state"] == "ok"


def test_a_masked_proc(data):
    checks = run_mounted("mount --bind /dev/null /proc/keys", "--data", data, code=125)
    assert checks["container"]["state"] == "note"
    assert checks["new /proc"]["state"] == "missing"
    assert "masked" in checks["new /proc"]["detail"]


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_data_that_others_may_write_to(data, mode):
    data.mkdir()
    data.chmod(mode)
    checks = run_json("--data", data, code=125)
    assert checks["data directory"]["state"] == "missing"
    assert "0711" in checks["data directory"]["advice"]
    assert list(data.iterdir()) == []


def test_data_where_nothing_can_be(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for path in (file, tmp_path / "a" / "b"):
        checks = run_json("--data", path, code=125)
        assert checks["data directory"]["state"] == "missing"
        assert checks["box"]["state"] == "missing"
    assert list(tmp_path.iterdir()) == [file]


# -- the command line


@pytest.mark.parametrize("args", [["--bogus"], ["word"], ["--data"], ["--data", ""]])
def test_usage(args):
    done = run(*args, code=2)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


def test_help():
    assert "--json" in run("--help").stdout
