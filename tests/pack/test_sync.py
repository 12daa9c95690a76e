# SPDX-License-Identifier: Apache-2.0
"""What of a directory has changed, and a directory made of what was stored."""

import hashlib
import os
import struct

from pack_helpers import listing, run

RECORD = struct.Struct("<IIQQIIq32s")
PUT, DELETE, PROGRESS, INDEX, END = range(1, 6)


def parse(data):
    records, at = [], 0
    while at < len(data):
        kind, path_len, size, seen, mode, _, mtime, sha = RECORD.unpack_from(data, at)
        at += RECORD.size
        path = data[at : at + path_len]
        at += path_len
        content = b""
        if kind in (PUT, INDEX):
            content = data[at : at + size]
            at += size
        records.append((kind, path, size, mode, mtime, sha, content))
    return records


def record(kind, path=b"", content=b"", mode=0, mtime=0, sha=None):
    sha = hashlib.sha256(content).digest() if sha is None else sha
    return RECORD.pack(kind, len(path), len(content), 0, mode, 0, mtime, sha) + path + content


def sync(top, index=b"", *args):
    out, verdict = run(top, "sync", "/w", *args, data=index)
    records = parse(out)
    assert records[-1][0] == INDEX
    puts = {r[1]: r[6] for r in records if r[0] == PUT}
    for r in records:
        assert r[0] != PUT or hashlib.sha256(r[6]).digest() == r[5]
    return puts, [r[1] for r in records if r[0] == DELETE], records[-1][6], verdict, records


def fill(top):
    (top / "w" / "d" / "empty").mkdir(parents=True)
    (top / "w" / "a").write_bytes(b"first")
    (top / "w" / "d" / "b").write_bytes(os.urandom(3_000_000))
    (top / "w" / "none").touch()
    os.symlink("../a", top / "w" / "d" / "link")
    (top / "w" / os.fsdecode(b"odd\xff\n%")).write_bytes(b"odd")


def test_only_what_changed(tmp_path):
    fill(tmp_path)
    top = tmp_path / "w"
    puts, deleted, index, verdict, _ = sync(tmp_path)
    assert set(puts) == {b"a", b"d/b", b"none", b"odd\xff\n%"} and not deleted and puts[b"a"] == b"first"
    assert verdict == "ok 7 3000008\n"
    puts, deleted, again, _, _ = sync(tmp_path, index)
    assert not puts and not deleted and again == index
    os.utime(top / "a")  # touched, but the same
    (top / "none").unlink()
    (top / "d" / "b").write_bytes(b"new")
    (top / os.fsdecode(b"odd\xff\n%")).unlink()
    (top / os.fsdecode(b"odd\xff\n%")).mkdir()
    puts, deleted, third, _, _ = sync(tmp_path, index)
    assert puts == {b"d/b": b"new"} and set(deleted) == {b"none", b"odd\xff\n%"} and third != index


def test_long_names_are_skipped_and_counted(tmp_path):
    deep = tmp_path.joinpath("w", *["%" * 80] * 3)  # each byte is three
    deep.mkdir(parents=True)
    (deep / ("%" * 80)).touch()
    (tmp_path / "w" / ("%" * 100)).touch()
    (tmp_path / "w" / "short").touch()
    puts, _, _, verdict, _ = sync(tmp_path)
    assert set(puts) == {b"short"} and verdict == "ok 4 0 skipped 2\n"


def test_index_of_somebody_else(tmp_path):
    fill(tmp_path)
    for index in (b"junk", b"cay index 1\nf\t1\n", b"cay index 1\nf\t1\t1\t420\t0\t0\t" + b"0" * 64 + b"\t../x\t\n"):
        _, verdict = run(tmp_path, "sync", "/w", data=index)
        assert verdict.startswith("failed 1 ")


def test_there_and_back(tmp_path):
    fill(tmp_path)
    _, _, index, verdict, records = sync(tmp_path)
    puts = b"".join(record(PUT, r[1], r[6], r[3], r[4]) for r in records if r[0] == PUT)
    whole = record(INDEX, content=index) + puts + record(END)
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "old").touch()
    assert run(tmp_path, "unsync", "/x", data=whole)[1] == verdict
    before, after = listing(tmp_path / "w"), listing(tmp_path / "x")
    del before[b"."], after[b"."]
    assert before == after
    # Without its end, with another's content, with a path that leads out: nothing has changed.
    broken = [whole[: -RECORD.size], whole[:-100], record(INDEX) + record(PUT, b"a", b"x", sha=bytes([1] * 32)) + record(END)]
    broken += [record(INDEX) + record(PUT, b"../a", b"x") + record(END), record(PUT, b"a", b"x") + record(END), b""]
    for data in broken:
        assert run(tmp_path, "unsync", "/x", data=data)[1].startswith("failed ")
        assert listing(tmp_path / "x")[b"a"] == after[b"a"]


def test_files_without_an_index(tmp_path):
    data = record(INDEX) + record(PUT, b"new/dir/f", b"content", 0o640, 981173106123456789, bytes(32)) + record(END)
    assert run(tmp_path, "unsync", "/x", data=data)[1] == "ok 1 7\n"
    made = os.stat(tmp_path / "x" / "new" / "dir" / "f")
    assert made.st_mode & 0o7777 == 0o640 and made.st_mtime_ns == 981173106123456789
    link = b"cay index 1\nl\t0\t1\t511\t0\t0\t-\tl\t/etc\n"
    through = record(INDEX, content=link) + record(PUT, b"l/passwd", b"x") + record(END)
    assert run(tmp_path, "unsync", "/x", data=through)[1].startswith("failed 1 ")
