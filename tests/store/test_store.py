# SPDX-License-Identifier: Apache-2.0
"""What every store does, whichever kind it is."""

import hashlib
import random

import pytest
from conftest import Failed

PART = 65536


def content(size, seed=1):
    return random.Random(seed).randbytes(size)


def sha(data):
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("how", ["unknown", "known", "summed"])
def test_what_is_put_is_got(store, file, how):
    for size in (0, 1000, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 5):
        data = content(size)
        more = {"unknown": [], "known": ["-", size], "summed": [sha(data), size]}[how]
        text = f"{size} {sha(data)}\n".encode()
        out = store.run(("put", "a/b", file(data), *more), ("get", "a/b"), ("head", "a/b"))
        assert out.startswith(text + data)
        known = out[len(text + data) :].decode().split()
        assert known[0] == str(size) and known[1] in (sha(data), "-")
        if how == "summed" or size < PART:
            assert known[1] == sha(data)


def test_ranges(store, file):
    data = content(300000)
    store.run(("put", "r", file(data)))
    for offset, length in [(0, 2), (0, 300000), (0, 999999), (1, 0), (299999, 0), (100000, 150000), (65535, 2), (5, 300000)]:
        assert store.run(("get", "r", offset, length)) == data[offset : offset + length if length else None]
    for offset in (300000, 300001, 10**15):
        with pytest.raises(Failed) as failed:
            store.run(("get", "r", offset, 1))
        assert failed.value.code == "invalid"


def test_replaced_and_deleted(store, file):
    one, two = content(100, 1), content(200000, 2)
    store.run(("put", "k/x", file(one)))
    store.run(("put", "k/x", file(two)))
    assert store.run(("get", "k/x")) == two
    store.run(("put", "k/x", file(one)))
    assert store.run(("get", "k/x")) == one
    assert store.text(("delete", "k/x"), ("delete", "k/x"), ("head", "k/x")) == "1\n0\nnone\n"
    with pytest.raises(Failed) as failed:
        store.run(("get", "k/x"))
    assert failed.value.code == "not_found"


STRANGE = ["a b", "a+b", "a%20b", "a%", "ä/€/𝄞", "a&b=c?d#e", "a'b\"c", "a~b-c_d.e", "<x>&amp;", "a;b:c@d,e!f$g(h)*i", "=", "a\\b", " "]


def test_strange_keys(store, file):
    for key in STRANGE:
        store.run(("put", key, file(key.encode())))
    assert store.text(*[("get", key) for key in STRANGE]) == "".join(STRANGE)
    assert store.keys() == sorted(STRANGE, key=str.encode)
    assert store.text(*[("list", key, "", 1) for key in STRANGE]).splitlines() == [f"{key}\t{len(key.encode())}" for key in STRANGE]
    assert store.text(*[("delete", key) for key in STRANGE]) == "1\n" * len(STRANGE)
    assert store.keys() == []


NO_KEYS = ["", "/a", "a/", "a//b", ".", "../a", "a/../b", ".tmp/x", "a\nb", "a\x7f", "x" * 256, "y/" * 513 + "y"]


def test_no_keys(store, file):
    for i, key in enumerate(NO_KEYS):
        for command in [("put", key, file(b"x")), ("get", key), ("head", key), ("delete", key)][i % 4 :][:1]:
            with pytest.raises(Failed) as failed:
                store.run(command)
            assert failed.value.code == "invalid"


def test_content_must_be_what_was_announced(store, file):
    for size in (1000, 200000):
        data = content(size)
        for more in [(sha(b"other"), size), ("-", size + 1), ("-", size - 1), (sha(b"other"), -1)]:
            with pytest.raises(Failed) as failed:
                store.run(("put", "k", file(data), *more))
            assert failed.value.code == "invalid" and failed.value.is_damage
    assert store.keys() == []


def test_a_wrong_sum_is_seen_by_the_reader(store, file):
    data = content(200000)
    store.run(("put", "k", file(data)))
    assert store.text(("sum", "k", sha(data))).split()[1] == sha(data)
    with pytest.raises(Failed) as failed:
        store.run(("sum", "k", sha(b"other")))
    assert failed.value.code == "internal" and failed.value.is_damage


def test_lists(store, file):
    keys = ["a-b", "a/b", "a/b-c", "a/b0", "a/bc/d", "a0", "b", "B/x"]
    store.run(*[("put", key, file(b"x")) for key in keys])
    keys.sort(key=str.encode)
    assert store.keys() == keys
    for prefix in ("a", "a/", "a/b", "a/bc/", "none/"):
        assert store.keys(prefix) == [key for key in keys if key.startswith(prefix)]
    for after in ["a", "a/", "0", "zz", "a/b", "a-b", "b"]:
        for most in (100,) if store.env.get("S3_ACCESS_KEY") == "S3RVER" else (100, 1, 3):  # its order is that of its file names
            assert store.keys("", after, most) == [key for key in keys if key > after][:most]


def test_pages(store):
    """More than one answer of an S3 has."""
    paged = store.but(S3_PAGE=7)
    paged.run(("many", "m/", 120, 3))
    keys = sorted(f"m/{i % 100}/{i}" for i in range(120))
    assert paged.keys("m/") == keys
    assert paged.keys("m/", keys[50]) == keys[51:]
    assert paged.keys("m/", "", 20) == keys[:20]
    paged.run(("delete-all", "m/1/"))
    assert paged.keys() == [key for key in keys if not key.startswith("m/1/")]
    paged.run(("delete-all", "m/"))
    assert paged.keys() == []


def test_delete_all_leaves_the_rest(store, file):
    for key in ("x/a", "x/b/c<&>", "x/b/d/e", "x-y", "xy"):
        store.run(("put", key, file(b"x")))
    store.run(("delete-all", "x/"), ("delete-all", "x/"))
    assert store.keys() == ["x-y", "xy"]


def test_stop(store):
    with pytest.raises(Failed) as failed:
        store.run(("generate", "k", 10**6, "unknown", 500000))
    assert failed.value.code == "unavailable" and "stopped" in failed.value.message
    assert store.keys() == []


def test_check_leaves_nothing(store):
    store.run(("check",), ("sync",))
    assert store.keys() == []


def test_large_objects_need_little_memory(store):
    """100 MB, streamed: what a part needs, not what the object does."""
    big = store.but(S3_PART=8 * 1024 * 1024)
    size = 100 * 1000 * 1000
    small_rss = int(big.text(("generate", "k", 1), ("counts",)).split()[-1])
    out = big.text(("generate", "k", size), ("sum", "k"), ("counts",)).split()
    assert out[0] == out[2] == str(size) and out[1] == out[3]
    assert int(out[-1]) < small_rss + 64 * 1024  # KiB; a part, its copies, and what the sanitizer adds
