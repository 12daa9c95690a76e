# SPDX-License-Identifier: Apache-2.0
"""Archives there and back, and archives of strangers: nothing outside of the directory is touched, nothing half is left."""

import gzip
import io
import os
import subprocess
import tarfile

import pytest
from pack_helpers import listing, run

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="owners and devices are root's")


def tar_of(*members, form=tarfile.PAX_FORMAT):
    """Members are (name, options) or (name, options, content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, options, *content in members:
            info = tarfile.TarInfo(name)
            data = content[0] if content else b""
            info.size = len(data)
            for key, value in options.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


FILE, DIR = {}, {"type": tarfile.DIRTYPE, "mode": 0o755}


def link(target):
    return {"type": tarfile.SYMTYPE, "linkname": target}


def hard(target):
    return {"type": tarfile.LNKTYPE, "linkname": target}


def attribute(name, value):
    return {"pax_headers": {"SCHILY.xattr." + name: value}}


HOSTILE = {
    "dots": [("../escaped", FILE, b"x")],
    "dots within": [("a/../../escaped", FILE, b"x")],
    "absolute": [("/tmp/cay-escaped", FILE, b"x")],
    "through a link": [("l", link("..")), ("l/escaped", FILE, b"x")],
    "through an absolute link": [("l", link("/")), ("l/tmp/cay-escaped", FILE, b"x")],
    "through a link in between": [("d", DIR), ("d/l", link("../..")), ("d/l/x/escaped", FILE, b"x")],
    "through a file": [("f", FILE, b"x"), ("f/escaped", FILE, b"x")],
    "hard link up": [("h", hard("../outside"))],
    "hard link absolute": [("h", hard("/etc/passwd"))],
    "hard link through a link": [("l", link("..")), ("h", hard("l/outside"))],
    "hard link to nothing": [("h", hard("nothing"))],
    "hard link to a directory": [("d", DIR), ("h", hard("d"))],
    "device": [("n", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
    "block device": [("n", {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0})],
    "whiteout in a tree": [("n", {"type": tarfile.CHRTYPE, "devmajor": 0, "devminor": 0})],
    "opaque in a tree": [("d", {**DIR, **attribute("trusted.overlay.opaque", "y")})],
    "redirect": [("d", {**DIR, **attribute("trusted.overlay.redirect", "/etc")})],
    "escaped redirect": [("d", {**DIR, **attribute("trusted%2Eoverlay.redirect", "/etc")})],
    "the directory is a link": [(".", link("/"))],
    "name too long": [("a" * 300, FILE, b"x")],
    "pax size too large": [("f", {"pax_headers": {"size": "99999999999"}}, b"x")],
    "pax path": [("f", {"pax_headers": {"path": "../escaped"}}, b"x")],
    "file over a full directory": [("d", DIR), ("d/f", FILE, b"x"), ("d", FILE, b"x")],
}


@needs_root
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archive_is_refused(tmp_path, name):
    (tmp_path / "t" / "d").mkdir(parents=True)
    (tmp_path / "outside").write_text("as it was")
    (tmp_path / "t" / "d" / "old").write_text("as it was")
    before = listing(tmp_path / "t" / "d")
    _, verdict = run(tmp_path / "t", "unpack-tree", "/d", data=tar_of(*HOSTILE[name]))
    assert verdict.startswith("failed 1 "), verdict
    assert listing(tmp_path / "t" / "d") == before
    assert sorted(os.listdir(tmp_path)) == ["outside", "t"]
    assert (tmp_path / "outside").read_text() == "as it was"
    assert not os.path.exists("/tmp/cay-escaped")


@needs_root
@pytest.mark.parametrize("name", ["redirect", "device", "block device", "hard link up", "dots"])
def test_disks_refuse_them_too(tmp_path, name):
    (tmp_path / "up").mkdir()
    _, verdict = run(tmp_path, "unpack-disk", data=tar_of(*HOSTILE[name]))
    assert verdict.startswith("failed 1 "), verdict


@needs_root
def test_disk_has_whiteouts_and_opaque_directories(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "up" / "d").mkdir(parents=True)
    (one / "work").mkdir()
    (two / "work" / "left").mkdir(parents=True)
    os.mknod(one / "up" / "gone", 0o20000, 0)
    os.setxattr(one / "up" / "d", "trusted.overlay.opaque", b"y")
    os.setxattr(one / "up" / "d", "trusted.overlay.origin", b"\x00\xfb")
    archive, _ = run(one, "pack-disk")
    _, verdict = run(two, "unpack-disk", data=archive)
    assert verdict == "ok 3 0\n"
    os.removexattr(one / "up" / "d", "trusted.overlay.origin")  # it tells of this file system alone
    assert listing(one / "up") == listing(two / "up")
    assert os.listdir(two / "work") == []


@needs_root
def test_what_an_overlay_keeps_elsewhere_is_not_lost_silently(tmp_path):
    (tmp_path / "up" / "d").mkdir(parents=True)
    os.setxattr(tmp_path / "up" / "d", "trusted.overlay.redirect", b"/old")
    _, verdict = run(tmp_path, "pack-disk")
    assert verdict.startswith("failed 6 ")


def test_truncated_at_every_block(tmp_path):
    whole = tar_of(("a", FILE, b"x" * 3000), ("d", DIR), ("d/b", FILE, b"y" * 700))
    end = whole.rstrip(b"\0")
    for size in range(0, len(end), 512):
        _, verdict = run(tmp_path, "unpack-tree", "/d", data=whole[:size])
        assert verdict.startswith("failed "), (size, verdict)
        assert not (tmp_path / "d").exists()
    _, verdict = run(tmp_path, "unpack-tree", "/d", data=whole)
    assert verdict == "ok 3 3700\n"


def test_damaged_zstd(tmp_path):
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "f").write_bytes(os.urandom(100000))
    archive, _ = run(tmp_path, "pack-tree", "/w")
    for at in (3, 40, len(archive) // 2, len(archive) - 2):
        bad = archive[:at] + bytes([archive[at] ^ 1]) + archive[at + 1 :]
        assert run(tmp_path, "unpack-tree", "/x", data=bad)[1].startswith("failed 1 ")
    assert run(tmp_path, "unpack-tree", "/x", data=archive[:-1])[1].startswith("failed 1 ")
    assert not (tmp_path / "x").exists()


def test_limits(tmp_path):
    many = tar_of(*[(f"f{i}", FILE, b"x" * 1000) for i in range(100)])
    assert run(tmp_path, "unpack-tree", "/d", "--max-entries", 99, data=many)[1].startswith("failed 4 ")
    assert run(tmp_path, "unpack-tree", "/d", "--max-bytes", 99999, data=many)[1].startswith("failed 4 ")
    assert run(tmp_path, "unpack-tree", "/d", "--max-bytes", 100000, "--max-entries", 100, data=many)[1] == "ok 100 100000\n"
    bomb = gzip.compress(tar_of(("f", FILE, bytes(200 << 20))), 9)
    assert run(tmp_path, "unpack-tree", "/e", "--max-bytes", 1 << 20, data=bomb)[1].startswith("failed 4 ")


def zstd_frame(data, window_log, says_size):
    """A frame of plain blocks that claims to need a window of that size."""
    head = b"\x28\xb5\x2f\xfd" + bytes([0xC0 if says_size else 0, (window_log - 10) << 3])
    head += len(data).to_bytes(8, "little") if says_size else b""
    blocks = [data[at : at + 100000] for at in range(0, len(data), 100000)]
    sizes = [(len(block) << 3 | (i == len(blocks) - 1)).to_bytes(3, "little") for i, block in enumerate(blocks)]
    return head + b"".join(size + block for size, block in zip(sizes, blocks))


@pytest.mark.parametrize("says_size", [False, True])
def test_zstd_window(tmp_path, says_size):
    data = tar_of(("f", FILE, b"x" * 3000000))
    assert run(tmp_path, "unpack-tree", "/d", data=zstd_frame(data, 27, says_size))[1] == "ok 1 3000000\n"
    for log in (28, 31, 41):
        assert run(tmp_path, "unpack-tree", "/e", data=zstd_frame(data, log, says_size))[1].startswith("failed 1 ")
    small = zstd_frame(tar_of(("f", FILE, b"x")), 31, says_size)
    assert run(tmp_path, "unpack-tree", "/e", data=small)[1].startswith("failed 1 ")
    # Behind a frame that is well.
    both = zstd_frame(data[:1000000], 20, says_size) + zstd_frame(data[1000000:], 31, says_size)
    assert run(tmp_path, "unpack-tree", "/e", data=both)[1].startswith("failed 1 ")
    assert not (tmp_path / "e").exists()


def octal(value):
    """A size as tar's base-256 form has it, which may be negative."""
    return (value & (1 << 96) - 1 | (0x80 if value >= 0 else 0xFF) << 88).to_bytes(12, "big")


@pytest.mark.parametrize("size", [-1, -512, -(1 << 40), -(1 << 63), (1 << 63) - 1, 1 << 63, 1 << 80])
def test_sizes_that_cannot_be(tmp_path, size):
    data = bytearray(tar_of(("f", FILE, b"x" * 700), ("g", FILE, b"y")))
    data[124:136] = octal(size)
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    assert run(tmp_path, "unpack-tree", "/d", data=bytes(data))[1].startswith("failed ")
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("size", ["-1", "-9223372036854775808", "18446744073709551615", "1e3", ""])
def test_pax_sizes_that_cannot_be(tmp_path, size):
    data = tar_of(("f", {"pax_headers": {"size": size}}, b"x" * 700))
    _, verdict = run(tmp_path, "unpack-tree", "/d", data=data)
    if verdict.startswith("ok "):  # one that is passed over: then the header's own counts
        assert (tmp_path / "d" / "f").read_bytes() == b"x" * 700
    else:
        assert not (tmp_path / "d").exists()


@pytest.mark.long
def test_a_million_entries(tmp_path):
    """A file, and links of it to itself, which cost nothing but their number."""
    headers = tar_of(("f", FILE), ("f", hard("f")))
    many = headers[:512] + headers[512:1024] * 999999 + bytes(1024)
    data = subprocess.run(["zstd", "-q", "-c"], input=many, capture_output=True, check=True).stdout
    assert run(tmp_path, "unpack-tree", "/d", "--max-entries", 999999, data=data)[1].startswith("failed 4 ")
    assert not (tmp_path / "d").exists()


def test_endless_zeros(tmp_path):
    zeros = subprocess.run("head -c 600M /dev/zero | zstd -q --long=31 -c", shell=True, capture_output=True, check=True)
    _, verdict = run(tmp_path, "unpack-tree", "/d", "--max-bytes", 1000, "--max-entries", 10, data=zeros.stdout)
    assert verdict.startswith("failed "), verdict


def test_last_of_a_name_counts(tmp_path):
    data = tar_of(("f", FILE, b"one"), ("f", FILE, b"two"), ("l", link("f")), ("l", FILE, b"three"), ("e", DIR), ("e", FILE, b"4"))
    assert run(tmp_path, "unpack-tree", "/d", data=data)[1].startswith("ok 6 ")
    assert (tmp_path / "d" / "f").read_bytes() == b"two"
    assert (tmp_path / "d" / "l").read_bytes() == b"three" and not (tmp_path / "d" / "l").is_symlink()
    assert (tmp_path / "d" / "e").read_bytes() == b"4"


@needs_root
def test_there_and_back(tmp_path):
    top = tmp_path / "w"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "f").write_bytes(os.urandom(300000))
    os.link(top / "a" / "f", top / "a" / "g")
    os.symlink("a/f", top / "s")
    os.mkfifo(top / "p", 0o640)
    with open(top / "sparse", "wb") as f:
        f.truncate(1 << 40)
        f.seek(12345678)
        f.write(b"here")
    sparse = os.stat(top / "sparse")
    (tmp_path / "hold").mkdir()
    os.rename(top / "sparse", tmp_path / "hold" / "sparse")
    for name in (b"\xff\xfe", b"new\nline", "ü".encode(), b" ", b"\\", b"x" * 255):
        (top / os.fsdecode(name)).write_bytes(name)
    os.setxattr(top / "a" / "f", "user.binary", bytes(range(256)))
    os.setxattr(top / "a" / "b", "user.a=b%3D", b"v")
    os.chown(top / "a" / "f", 1000, 33)
    os.chmod(top / "a" / "f", 0o6750)
    os.utime(top / "a" / "b", ns=(1, 981173106123456789))
    os.utime(top / "s", ns=(1, -1500000001), follow_symlinks=False)
    archive, verdict = run(tmp_path, "pack-tree", "/w")
    assert verdict.startswith("ok ")
    assert run(tmp_path, "unpack-tree", "/x/y", data=archive)[1] == verdict
    assert listing(top) == listing(tmp_path / "x" / "y")
    archive, verdict = run(tmp_path, "pack-tree", "/hold")
    assert run(tmp_path, "unpack-tree", "/z", data=archive)[1] == verdict
    after = os.stat(tmp_path / "z" / "sparse")
    assert after.st_size == sparse.st_size and after.st_blocks == sparse.st_blocks


def test_deep_tree(tmp_path):
    here = os.getcwd()
    (tmp_path / "w").mkdir()
    os.chdir(tmp_path / "w")
    try:
        for _ in range(1500):  # longer than any path may be
            os.mkdir("ab")
            os.chdir("ab")
    finally:
        os.chdir(here)
    archive, verdict = run(tmp_path, "pack-tree", "/w")
    assert verdict == "ok 1501 0\n", verdict
    assert run(tmp_path, "unpack-tree", "/x", data=archive)[1] == verdict
    assert run(tmp_path, "unpack-tree", "/x", data=archive)[1] == verdict  # the deep one goes too
    subprocess.run(["rm", "-rf", tmp_path / "w", tmp_path / "x"], check=True)


@pytest.mark.parametrize("args,expected", [
    ([], [".git", ".gitignore", "a.log", "build", "build/out", "src", "src/.gitignore", "src/keep.log", "src/x.c"]),
    (["--gitignore"], [".git", ".gitignore", "src", "src/.gitignore", "src/keep.log", "src/x.c"]),
    (["--exclude", "*.c", "--exclude", "/build"], [".git", ".gitignore", "a.log", "src", "src/.gitignore", "src/keep.log"]),
    (["--include", "*.log"], ["a.log", "src/keep.log"]),
])  # fmt: skip
def test_what_is_left_out(tmp_path, args, expected):
    top = tmp_path / "w"
    for name in ("src", "build", ".git"):
        (top / name).mkdir(parents=True)
    for name, text in ((".gitignore", "*.log\nbuild/\n"), ("src/.gitignore", "!keep.log\n"), ("a.log", ""), ("src/keep.log", ""),
                       ("src/x.c", ""), ("build/out", "")):  # fmt: skip
        (top / name).write_text(text)
    archive, _ = run(tmp_path, "pack-tree", "/w", *args)
    plain = subprocess.run(["zstd", "-dc"], input=archive, capture_output=True, check=True).stdout
    names = sorted(m.name for m in tarfile.open(fileobj=io.BytesIO(plain)) if m.name != ".")
    assert names == expected
