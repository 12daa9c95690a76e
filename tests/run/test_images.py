# SPDX-License-Identifier: Apache-2.0
"""`cay image`: import (of archives that mean harm too), build, ls and rm."""

import fcntl
import os
import random
import signal
import stat
import subprocess
import tarfile
import time

import pytest
from image_helpers import CAY, Images, member, small_root, write_tar

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="images belong to root")

FULL = os.environ.get("CAY_TEST_FULL") == "1"
LINK, HARD, CHAR, BLOCK, FIFO = (
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.FIFOTYPE,
)


@pytest.fixture
def images(tmp_path):
    return Images(tmp_path / "data")


@pytest.fixture
def small(tmp_path):
    return write_tar(tmp_path / "small.tar", small_root())


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return file.read()


# -- import


def test_import_makes_a_root_that_boxes_can_stand_on(images, small):
    before = mounts()
    done = images.run("import", "small", small)
    assert done.returncode == 0, done.stderr
    root = images.root("small")
    assert (root / "usr/bin/tool").read_bytes() == b"#!/bin/sh\n"
    for name in ("dev", "proc", "sys", "run", "mnt", "media", "opt", "srv", "home", "var/lib"):
        assert (root / name).is_dir(), name
    assert stat.S_IMODE((root / "tmp").stat().st_mode) == 0o1777
    assert stat.S_IMODE((root / "var/tmp").stat().st_mode) == 0o1777
    assert stat.S_IMODE((root / "workspace").stat().st_mode) == 0o777
    assert stat.S_IMODE((root / "root").stat().st_mode) == 0o700
    assert (root / "home/user").stat().st_uid == 1000
    assert os.readlink(root / "home/user/workspace") == "/workspace"
    assert os.readlink(root / "etc/mtab") == "/proc/self/mounts"
    assert (root / "etc/hostname").read_text() == "cay\n"
    assert "localhost cay" in (root / "etc/hosts").read_text()
    passwd = (root / "etc/passwd").read_text()
    assert passwd.startswith("root:x:0:0:root:/root:/bin/sh\n")
    assert "user:*:1000:1000:" in passwd
    assert "tty:x:5:" in (root / "etc/group").read_text()
    assert stat.S_IMODE(images.data.stat().st_mode) == 0o711
    assert stat.S_IMODE((images.data / "images").stat().st_mode) == 0o700
    assert mounts() == before
    assert images.left() == ["small"]


@pytest.mark.parametrize("tool", ["gzip", "zstd", "xz", "bzip2"])
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_import_knows_compressions_by_their_bytes(images, small, tmp_path, tool, way):
    packed = tmp_path / "archive"  # no name that tells
    packed.write_bytes(subprocess.run([tool, "-c", small], capture_output=True, check=True).stdout)
    if way == "file":
        done = images.run("import", "packed", packed)
    else:
        done = images.run("import", "packed", "-", input=packed.read_bytes())
    assert done.returncode == 0, done.stderr
    assert (images.root("packed") / "usr/bin/tool").exists()


def test_import_reads_a_slow_pipe(images, small):
    data = small.read_bytes()
    child = images.start("import", "slow", "-", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    for at in (0, 1, 100, 511, 513, 4000):
        child.stdin.write(data[:at])
        child.stdin.flush()
        data = data[at:]
        time.sleep(0.01)
    child.stdin.write(data)
    child.stdin.close()
    assert child.wait(30) == 0, child.stderr.read()
    child.stderr.close()


def test_import_keeps_owners_and_modes_and_drops_dev(images, tmp_path):
    archive = write_tar(
        tmp_path / "a.tar",
        [
            *small_root(),
            member("usr/bin/su", b"x", mode=0o4755),
            member("var"),
            member("var/mine", b"x", mode=0o640, uid=33, gid=33),
            member("dev"),
            member("dev/null", kind=CHAR, major=1, minor=3),
            member("./dev/sda", kind=BLOCK, major=8, minor=0),
            member("/usr/bin/absolute", b"x"),
        ],
    )
    done = images.run("import", "kept", archive)
    assert done.returncode == 0, done.stderr
    root = images.root("kept")
    assert stat.S_IMODE((root / "usr/bin/su").stat().st_mode) == 0o4755
    mine = (root / "var/mine").stat()
    assert (mine.st_uid, mine.st_gid, stat.S_IMODE(mine.st_mode)) == (33, 33, 0o640)
    assert os.listdir(root / "dev") == []
    assert (root / "usr/bin/absolute").exists()


def test_import_gives_python_its_other_name(images, tmp_path):
    archive = write_tar(tmp_path / "a.tar", [*small_root(), member("usr/bin/python3", b"x")])
    assert images.run("import", "py", archive).returncode == 0
    assert os.readlink(images.root("py") / "usr/bin/python") == "python3"


def test_import_does_not_take_a_name_twice(images, small):
    assert images.run("import", "one", small).returncode == 0
    done = images.run("import", "one", small)
    assert done.returncode == 125
    assert b"already" in done.stderr and b"cay image rm one" in done.stderr
    assert images.left() == ["one"]


# -- hostile archives: each tries to reach a canary outside of the new root


@pytest.fixture
def canary(tmp_path):
    path = tmp_path / "canary"
    path.write_text("alive")
    return path


def alive(canary):
    return canary.read_text() == "alive" and canary.stat().st_nlink == 1


def test_hostile_dotdot(images, tmp_path, canary):
    up = "../" * 12 + str(canary).lstrip("/")
    archive = write_tar(tmp_path / "a.tar", [*small_root(), member(up, b"dead")])
    images.refuse(archive, "refused", "..")
    assert alive(canary)


def test_hostile_absolute_name_stays_inside(images, tmp_path, canary):
    archive = write_tar(tmp_path / "a.tar", [*small_root(), member(str(canary), b"dead")])
    assert images.run("import", "abs", archive).returncode == 0
    assert alive(canary)
    assert (images.root("abs") / str(canary).lstrip("/")).read_bytes() == b"dead"


@pytest.mark.parametrize("target", ["/usr/bin", "/etc", "..", "../../../../../../../../tmp", "/t/../usr"])
def test_hostile_link_then_file(images, tmp_path, target):
    """A link out of the root, then a file through it."""
    canary = "cay-canary-" + os.urandom(4).hex()
    archive = write_tar(
        tmp_path / "a.tar",
        [*small_root(), member("out", kind=LINK, link=target), member(f"out/{canary}", b"dead")],
    )
    images.run("import", "bad", archive)
    for place in ("/usr/bin", "/etc", "/tmp", "/usr", "/", images.data, images.data / "images"):
        assert not os.path.lexists(os.path.join(place, canary)), place


def test_hostile_link_to_the_canary(images, tmp_path, canary):
    archive = write_tar(
        tmp_path / "a.tar",
        [*small_root(), member("x", kind=LINK, link=str(canary)), member("x", b"dead")],
    )
    images.run("import", "bad", archive)
    assert alive(canary)


@pytest.mark.parametrize("target", ["{}", "../../../../../..{}", "/usr/bin/env", "usr/../../../..{}"])
def test_hostile_hard_link_out(images, tmp_path, canary, target):
    archive = write_tar(
        tmp_path / "a.tar", [*small_root(), member("x", kind=HARD, link=target.format(canary))]
    )
    images.refuse(archive, "refused")
    assert alive(canary)


def test_hostile_hard_link_is_meant_inside(images, tmp_path):
    archive = write_tar(tmp_path / "a.tar", [*small_root(), member("x", kind=HARD, link="/etc/passwd")])
    assert images.run("import", "hard", archive).returncode == 0
    assert (images.root("hard") / "x").stat().st_ino != os.stat("/etc/passwd").st_ino


@pytest.mark.parametrize("kind", [CHAR, BLOCK])
def test_hostile_device_nodes(images, tmp_path, kind):
    archive = write_tar(
        tmp_path / "a.tar", [*small_root(), member("usr/disk", kind=kind, major=8, minor=0)]
    )
    images.refuse(archive, "refused", "mknod")


def test_hostile_whiteouts_are_left_out(images, tmp_path):
    """A character device 0:0 needs no privilege, and an overlay takes it for a hole."""
    archive = write_tar(tmp_path / "a.tar", [*small_root(), member("usr/hole", kind=CHAR)])
    done = images.run("import", "holes", archive)
    if done.returncode == 0:
        assert b"1 device node" in done.stderr
        assert not os.path.lexists(images.root("holes") / "usr/hole")
    else:
        assert images.left() == []


@pytest.mark.parametrize("name", ["etc", "home", "tmp", "proc", "var", "workspace", "run"])
@pytest.mark.parametrize("kind", ["link", "file"])
def test_hostile_places_where_we_write(images, tmp_path, name, kind):
    """What makes a root ready for boxes must not be led out of it by its own directories."""
    outside = tmp_path / "outside"
    outside.mkdir()
    members = [m for m in small_root() if "etc" not in m[0].name]
    if kind == "link":
        members.append(member(name, kind=LINK, link=str(outside)))
    else:
        members.append(member(name, b"file"))
    images.refuse(write_tar(tmp_path / "a.tar", members), f"'/{name}'", "refused")
    assert os.listdir(outside) == []


@pytest.mark.parametrize("name", ["etc/passwd", "etc/hosts", "etc/hostname", "etc/mtab", "etc/resolv.conf"])
def test_hostile_links_in_place_of_files(images, tmp_path, canary, name):
    members = [m for m in small_root() if "passwd" not in m[0].name]
    members.append(member(name, kind=LINK, link=str(canary)))
    done = images.run("import", "files", write_tar(tmp_path / "a.tar", members))
    assert done.returncode == 0, done.stderr
    assert alive(canary)
    if name != "etc/mtab":
        assert not (images.root("files") / name).is_symlink()


def test_hostile_pipe_in_place_of_passwd(images, tmp_path):
    members = [m for m in small_root() if "passwd" not in m[0].name]
    members.append(member("etc/passwd", kind=FIFO))
    done = images.run("import", "pipe", write_tar(tmp_path / "a.tar", members), timeout=20)
    assert done.returncode == 0, done.stderr
    assert "user:" in (images.root("pipe") / "etc/passwd").read_text()


def test_hostile_depth(images, tmp_path):
    members = [*small_root()]
    path = "usr"
    for _ in range(400):
        path += "/d"
        members.append(member(path))
    images.refuse(write_tar(tmp_path / "a.tar", members), "nested")


def test_hostile_depth_beyond_paths(images, tmp_path):
    """Links make directories deeper than any path can say; they are removed all the same."""
    members = [*small_root()]
    step = "/".join(["d"] * 200)
    here = ""
    for _ in range(30):
        path = here
        for _ in range(200):
            path = f"{path}/d" if path else "d"
            members.append(member(path))
        members.append(member("j", kind=LINK, link=f"{here}/{step}" if here else step))
        here = "j"
    images.run("import", "deep", write_tar(tmp_path / "a.tar", members))
    assert images.left() == []


def test_hostile_size(images, tmp_path):
    """Zeros that pack a thousandfold: stopped at the limit, not at the end of the disk."""
    archive = tmp_path / "bomb.tar.gz"
    with open(archive, "wb") as out, subprocess.Popen(
        ["gzip", "-1"], stdin=subprocess.PIPE, stdout=out
    ) as gzip:
        info, _ = member("usr/zeros", kind=tarfile.REGTYPE)
        info.size = 1 << 30
        gzip.stdin.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(256):
            gzip.stdin.write(bytes(1 << 20))
        gzip.stdin.close()
    images.refuse(archive, "more than 64 MiB", "--limit", args=("--limit", "64m"))


def test_hostile_sparse_size(images, tmp_path):
    """A file that is all hole has no bytes in the archive; its size is limited all the same."""
    with open(tmp_path / "hole", "wb") as hole:
        hole.truncate(1 << 40)
    os.makedirs(tmp_path / "usr")
    os.rename(tmp_path / "hole", tmp_path / "usr/hole")
    archive = tmp_path / "a.tar"
    subprocess.run(["tar", "-C", tmp_path, "-cSf", archive, "usr"], check=True)
    assert archive.stat().st_size < 1 << 20
    images.refuse(archive, "refused")


@pytest.mark.skipif(not FULL, reason="a million files: CAY_TEST_FULL=1")
def test_hostile_count(images, tmp_path):
    archive = tmp_path / "many.tar.gz"
    with open(archive, "wb") as out, subprocess.Popen(
        ["gzip", "-1"], stdin=subprocess.PIPE, stdout=out
    ) as gzip:
        for i in range(1_000_100):
            gzip.stdin.write(member(f"usr/{i % 1000}-{i}", b"")[0].tobuf(tarfile.GNU_FORMAT))
        gzip.stdin.close()
    images.refuse(archive, "more than 1000000 entries")


@pytest.mark.parametrize("tool", [None, "gzip", "zstd", "xz"])
def test_truncated(images, tmp_path, tool):
    small = write_tar(tmp_path / "a.tar", [*small_root(), member("usr/big", os.urandom(100000))])
    data = small.read_bytes()
    if tool:
        data = subprocess.run([tool, "-c", small], capture_output=True, check=True).stdout
    cut = tmp_path / "cut"
    cut.write_bytes(data[: 50000 if tool is None else len(data) - 20])
    images.refuse(cut, "refused")


def test_noise(images, tmp_path):
    """Archives with bytes turned over: whole images or none, and never a hang."""
    rng = random.Random(20)
    good = write_tar(tmp_path / "good.tar", small_root()).read_bytes()[:6144]
    for i in range(40):
        data = bytearray(good)
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path = tmp_path / "noise.tar"
        path.write_bytes(data)
        done = images.run("import", f"n{i}", path, timeout=20)
        assert done.returncode in (0, 125)
        assert not [name for name in images.left() if name.startswith(".")]


@pytest.mark.parametrize(
    "content, word",
    [(b"", "empty"), (b"hello", "refused"), (bytes(2048), "root file system"), (b"\x1f\x8bnot", "refused")],
)
def test_not_an_archive(images, tmp_path, content, word):
    path = tmp_path / "x"
    path.write_bytes(content)
    images.refuse(path, word)


def test_not_a_root(images, tmp_path):
    images.refuse(write_tar(tmp_path / "a.tar", [member("readme", b"x")]), "root file system")
    layers = [member("manifest.json", b"[]"), member("oci-layout", b"{}")]
    images.refuse(write_tar(tmp_path / "b.tar", layers), "docker export")


# -- trouble


def test_usage(images, small, tmp_path):
    for args, word in [
        ((), b"usage"),
        (("nonsense",), b"unknown command"),
        (("imprt",), b"did you mean 'import'"),
        (("import",), b"NAME"),
        (("import", "a"), b"FILE"),
        (("import", "A", small), b"cannot name an image"),
        (("import", "../a", small), b"cannot name an image"),
        (("import", "a", small, "--limit", "lots"), b"--limit"),
        (("import", "a", small, "--wrong"), b"--wrong"),
        (("build", "a"), b"--from"),
        (("build", "a", "--from", "fedora:40"), b"debian:SUITE"),
        (("build", "a", "--from", "debian:../x"), b"not a Debian suite"),
        (("build", "a", "--from", "debian:bookworm", "--packages", "a;b"), b"cannot be a package"),
        (("build", "a", "--from", "debian:bookworm", "--packages", "--force"), b"cannot be a package"),
        (("ls", "x"), b"no names"),
        (("rm",), b"NAME"),
        (("rm", ".new-1"), b"cannot name an image"),
    ]:
        done = images.run(*args)
        assert done.returncode == 2, args
        assert word in done.stderr, (args, done.stderr)
    assert images.left() == []
    for command in ("build", "import", "ls", "rm"):
        done = images.run(command, "--help")
        assert done.returncode == 0 and b"usage: cay image " + command.encode() in done.stdout


def test_host_makes_itself(images, small):
    done = images.run("import", "host", small)
    assert done.returncode == 125 and b"host" in done.stderr


def test_missing_archive(images, tmp_path):
    assert b"No such file" in images.run("import", "a", tmp_path / "none").stderr
    done = images.run("import", "a", tmp_path)
    assert done.returncode == 125 and b"directory" in done.stderr


def test_data_directory(images, small, tmp_path):
    def fails(path, *words):
        done = images.run("import", "a", small, "--data", path)
        text = done.stderr.decode()
        assert done.returncode == 125 and text.count("\n") == 1, text
        for word in words:
            assert word in text, text

    file = tmp_path / "file"
    file.write_text("")
    fails(file, "is a file")
    fails(tmp_path / "no" / "such", "above it is missing")
    open_dir = tmp_path / "open"
    open_dir.mkdir()
    open_dir.chmod(0o777)
    fails(open_dir, "others may write")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    os.chown(foreign, 1000, 1000)
    fails(foreign, "belongs to uid 1000")
    loose = tmp_path / "loose"
    (loose / "images").mkdir(parents=True, mode=0o755)
    fails(loose, "0700")


@pytest.fixture
def small_disk(tmp_path):
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0755", "none", path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)


def test_full_disk(small_disk, tmp_path):
    images = Images(small_disk / "data")
    archive = write_tar(tmp_path / "a.tar", [*small_root(), member("usr/big", bytes(8 << 20))])
    images.refuse(archive, "disk", "full")
    (small_disk / "filler").write_bytes(bytes(3 << 20))
    with open(small_disk / "filler2", "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)) == 4096:
                pass
        except OSError:
            pass
    os.rmdir(images.data / "images")
    os.rmdir(images.data)
    done = images.run("import", "a", archive)
    assert done.returncode == 125 and done.stderr.count(b"\n") == 1
    assert b"full" in done.stderr or b"No space left" in done.stderr


def test_read_only_disk(small_disk, small):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    done = Images(small_disk / "data").run("import", "a", small)
    assert done.returncode == 125 and b"read-only" in done.stderr
    assert done.stderr.count(b"\n") == 1


# -- ls, rm, and what is left of the dead


def test_ls(images, small):
    host = images.ls()["host"]
    assert host == {"name": "host", "kind": "host", "bytes": 0, "made": None}
    images.run("import", "small", small)
    listed = images.ls()
    assert sorted(listed) == ["host", "small"]
    assert listed["small"]["kind"] == "import" and listed["small"]["bytes"] > 0
    assert listed["small"]["made"].endswith("Z")
    table = images.run("ls").stdout.decode().splitlines()
    assert table[0].split() == ["NAME", "SIZE", "MADE", "KIND"] and len(table) == 3


def test_rm(images, small):
    for name in ("a", "b", "c"):
        images.run("import", name, small)
    assert images.run("rm", "a").returncode == 0
    done = images.run("rm", "nope", "b")
    assert done.returncode == 125 and b"no image 'nope'" in done.stderr
    assert images.left() == ["c"]


def test_rm_keeps_what_is_in_use(images, small):
    images.run("import", "used", small)
    fd = os.open(images.data / "images" / "used", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    done = images.run("rm", "used")
    assert done.returncode == 125 and b"in use" in done.stderr
    assert (images.root("used") / "usr/bin/tool").exists()
    os.close(fd)
    assert images.run("rm", "used").returncode == 0


def test_rm_never_leaves_the_image(images, small, tmp_path):
    images.run("import", "a", small)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("")
    os.symlink(outside, images.root("a") / "link")
    mounted = images.root("a") / "mounted"
    mounted.mkdir()
    subprocess.run(["mount", "--bind", outside, mounted], check=True)
    try:
        done = images.run("rm", "a")
        assert done.returncode == 125, done.stderr
    finally:
        subprocess.run(["umount", "--all-targets", "--", outside], check=False, capture_output=True)
        for line in mounts().splitlines():
            if str(images.data) in line:
                subprocess.run(["umount", line.split()[4]], check=True)
    assert (outside / "keep").exists()
    assert "a" not in images.ls()
    assert images.left() == []  # the sweep of `ls` took the rest


def test_leftovers_are_swept_but_not_what_is_held(images, small):
    images.run("import", "a", small)
    directory = images.data / "images"
    for name in (".new-00000001", ".trash-00000002", ".new-00000003"):
        (directory / name / "rootfs/deep/er").mkdir(parents=True)
    fd = os.open(directory / ".new-00000003", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    images.ls()
    assert images.left() == [".new-00000003", "a"]
    os.close(fd)
    images.ls()
    assert images.left() == ["a"]


def children_of(pid):
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, check=False)
    return [int(word) for word in done.stdout.split()]


def runs(pid):
    """Whether a process is there and more than the memory of one (its new parent may take its time)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(images, small, number):
    child = images.start("import", "a", "-", stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    child.stdin.write(small.read_bytes()[:2048])
    child.stdin.flush()
    for _ in range(200):
        if any(name.startswith(".new-") for name in images.left()) and children_of(child.pid):
            break
        time.sleep(0.01)
    tools = children_of(child.pid)
    assert tools
    child.send_signal(number)
    assert child.wait(10) == -number
    assert b"interrupted" in child.stderr.read()
    child.stdin.close()
    child.stderr.close()
    assert images.left() == []
    assert not [pid for pid in tools if runs(pid)]


def test_kill_9_leaves_nothing_for_long(images, tmp_path):
    archive = write_tar(
        tmp_path / "a.tar", [*small_root(), *(member(f"usr/{i}", bytes(100)) for i in range(5000))]
    )
    before = mounts()
    rng = random.Random(4)
    for _ in range(15):
        child = images.start("import", "a", archive, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0, 0.15))
        tools = children_of(child.pid)
        child.kill()
        child.wait()
        for _ in range(200):
            if not any(runs(pid) for pid in tools):
                break
            time.sleep(0.01)
        else:
            pytest.fail("a child outlived its parent")
        if "a" in images.ls():
            images.run("rm", "a")
        assert images.left() == []
    assert mounts() == before


def test_two_at_one_time(images, small):
    children = [images.start("import", "same", small, stderr=subprocess.DEVNULL) for _ in range(6)]
    codes = sorted(child.wait(60) for child in children)
    assert codes == [0, 125, 125, 125, 125, 125]
    assert images.left() == ["same"]


# -- build


def test_build_of_nothing_fails_clean(images):
    done = images.run("build", "none", "--from", "debian:nosuchsuite", timeout=300)
    assert done.returncode == 125, done.stderr
    assert b"mmdebstrap" in done.stderr
    assert images.left() == []


@pytest.mark.skipif(not FULL, reason="a bootstrap takes a minute: CAY_TEST_FULL=1")
def test_build(images):
    before = mounts()
    done = images.run(
        "build", "deb", "--from", "debian:bookworm", "--packages", "python3-minimal,less", timeout=900
    )
    assert done.returncode == 0, done.stderr
    root = images.root("deb")
    assert (root / "usr/bin/less").exists() and (root / "etc/ssl/certs/ca-certificates.crt").exists()
    assert os.readlink(root / "usr/bin/python") == "python3"
    with open("/etc/hostname", encoding="utf-8") as file:
        assert (root / "etc/hostname").read_text() == "cay\n" != file.read()
    assert (root / "etc/resolv.conf").read_text().startswith("#")
    assert os.listdir(root / "dev") == []
    assert images.ls()["deb"]["kind"] == "debian:bookworm"
    assert mounts() == before


@pytest.mark.skipif(not FULL, reason="a bootstrap takes a minute: CAY_TEST_FULL=1")
def test_build_interrupted(images):
    before = mounts()
    for number in (signal.SIGINT, signal.SIGKILL):
        child = images.start("build", "deb", "--from", "debian:bookworm", stderr=subprocess.DEVNULL)
        time.sleep(8)
        tools = children_of(child.pid)
        assert tools
        child.send_signal(number)
        assert child.wait(30) == -number
        time.sleep(0.5)
        assert not [pid for pid in tools if runs(pid)]
        images.ls()
        assert images.left() == []
    assert mounts() == before


def test_needs_root(images):
    def drop():
        os.setgid(65534)
        os.setuid(65534)

    try:
        done = subprocess.run(
            [CAY, "image", "ls"], preexec_fn=drop, cwd="/", env=images.env, capture_output=True, check=False
        )
    except PermissionError:
        pytest.skip("nobody cannot reach the program in this checkout")
    assert done.returncode == 125 and b"root" in done.stderr
