# SPDX-License-Identifier: Apache-2.0
"""Snapshots, forks, stored files, backups, archives: what an enemy would do with them. Of tenants who want each other's,
of guests with hostile files, of archives and objects that were made by hand, of many who ask at once or never go."""

import base64
import binascii
import bz2
import gzip
import hashlib
import http.server
import io
import lzma
import os
import pathlib
import struct
import subprocess
import tarfile
import threading
import time
import zipfile

import pytest
from attack_helpers import Client, at_once, eventually, is_error


def python(client, box, code, *args, **more):
    done = client.exec(box, {"argv": ["python3", "-c", code, *args], "user": "root", **more})
    assert done["exitCode"] == 0, done["stderr"][-2000:]
    return done["stdout"]


def clear(client):
    for box in client.ok("GET", "/sandbox?limit=1000")["sandboxes"]:
        client("DELETE", f"/sandbox/{box['id']}")
    for backup in client.ok("GET", "/backups?limit=1000")["backups"]:
        client("DELETE", f"/backups/{backup['id']}")


@pytest.fixture
def one(new_tenant):
    client = new_tenant()
    yield client
    clear(client)


@pytest.fixture
def two(new_tenant):
    client = new_tenant()
    yield client
    clear(client)


@pytest.fixture
def box(one):
    one.ok("PUT", "/sandbox/box", {})
    return "box"


# -- other tenants' (42)


def test_what_another_tenant_keeps(one, two):
    """With a sandbox of the same name, and all ids known. What is there and not theirs looks like what is not there."""
    for client, word in ((one, "secret"), (two, "own")):
        client.ok("PUT", "/sandbox/box", {})
        client.exec("box", f"echo {word} > /workspace/file")
    snapshot = one.ok("POST", "/sandbox/box/snapshots", {})["id"]
    backup = one.ok("POST", "/sandbox/box/backups", {"dir": "/workspace"})["id"]
    whole = one.ok("POST", "/sandbox/box/backups", {})["id"]
    one.ok("POST", "/sandbox/box/sync", {})
    one.ok("PUT", "/sandbox/vacant/stored/file", b"secret")
    asks = (
        ("POST", "/sandbox/box/rollback", lambda s, b: {"snapshot": s}),
        ("POST", "/sandbox/box/fork", lambda s, b: {"snapshot": s, "id": "child"}),
        ("POST", "/sandbox", lambda s, b: {"snapshot": s, "id": "child"}),
        ("PUT", "/sandbox/child", lambda s, b: {"snapshot": s}),
        ("POST", "/sandbox/box/restore", lambda s, b: {"backup": b}),
        ("POST", "/sandbox/box/restore", lambda s, b: {"backup": b, "dir": "/workspace/x"}),
        ("DELETE", "/sandbox/box/snapshots/{s}", None),
        ("GET", "/sandbox/box/backups/{b}", None),
        ("DELETE", "/sandbox/box/backups/{b}", None),
        ("GET", "/backups/{b}", None),
        ("DELETE", "/backups/{b}", None),
    )
    for method, path, body in asks:
        texts = set()
        for s, b in ((snapshot, backup), (snapshot, whole), ("snap-" + "0" * 20, "bak-" + "0" * 20)):
            reply = two(method, path.format(s=s, b=b), body(s, b) if body else None)
            texts.add(is_error(reply, 404).replace(s, "ID").replace(b, "ID"))
        assert len(texts) == 1, texts
    assert two("GET", f"/backups?before={backup}").status in (400, 404)
    assert two.ok("GET", "/backups?sandbox=box")["backups"] == []
    assert two.ok("GET", "/sandbox/box/snapshots")["snapshots"] == []
    for path in ("/sandbox/box/stored", "/sandbox/vacant/stored"):
        assert two.ok("GET", path)["files"] == []
        is_error(two("GET", f"{path}/file"), 404)
        is_error(two("DELETE", f"{path}/file"), 404)
    two.ok("DELETE", "/sandbox/box")
    two.ok("PUT", "/sandbox/box", {"restore": True})
    assert two.exec("box", "ls -A /workspace")["stdout"] == ""
    held = two.ok("GET", "/du")
    assert [s["sandboxId"] for s in held["sandboxes"]] == ["box"] and held["volume"] is None
    assert held["store"]["workspaces"] == held["store"]["backups"] == 0
    is_error(two("GET", "/du?all=1"), 400, 403)
    # The same by their owner: it was not for want of trying.
    for method, path, body in asks[:6] + asks[7:8] + asks[9:10]:
        reply = one(method, path.format(s=snapshot, b=backup), body(snapshot, backup) if body else None)
        assert reply.status in (200, 201), (path, reply)
        one("DELETE", "/sandbox/child")
    assert one.exec("box", "cat /workspace/file")["stdout"] == "secret\n"
    assert one("GET", "/sandbox/vacant/stored/file").body == b"secret"


def test_another_sandboxs_snapshot(one, box):
    """Of the same tenant it begins a new sandbox, and nothing else."""
    one.ok("PUT", "/sandbox/other", {})
    snapshot = one.ok("POST", "/sandbox/other/snapshots", {})["id"]
    is_error(one("POST", f"/sandbox/{box}/rollback", {"snapshot": snapshot}), 404)
    is_error(one("POST", f"/sandbox/{box}/fork", {"snapshot": snapshot}), 404)
    is_error(one("DELETE", f"/sandbox/{box}/snapshots/{snapshot}"), 404)
    assert len(one.ok("GET", "/sandbox/other/snapshots")["snapshots"]) == 1


def test_odd_ids(one, box):
    for id_ in ("", ".", "..", "../box", "a/b", "%00", "x" * 300, "snap-*", "' OR 1=1", "\u212a", "-", "x~", "\n"):
        for path, field in (("rollback", "snapshot"), ("fork", "snapshot"), ("restore", "backup")):
            is_error(one("POST", f"/sandbox/{box}/{path}", {field: id_}), 400, 404)
        for path in ("fork",):
            if id_ not in ("-",):
                is_error(one("POST", f"/sandbox/{box}/{path}", {"id": id_}), 400)
        is_error(one("PUT", "/sandbox/new", {"snapshot": id_}), 400, 404)
    for count in (0, -1, 1001, 1.5, "2", 2**63):
        is_error(one("POST", f"/sandbox/{box}/fork", {"count": count}), 400)
    is_error(one("POST", f"/sandbox/{box}/fork", {"id": "x" * 200, "count": 2}), 400)
    assert [b["id"] for b in one.ok("GET", "/sandbox")["sandboxes"]] == [box]


# -- keys of the store (36)


def test_names_that_begin_like_others(server, one):
    """Of sandboxes whose ids begin with another's, and of paths that look like the store's own."""
    names = ("x", "x-1", "x.1", "x1", "xx")
    for name in names:
        one.ok("PUT", f"/sandbox/{name}/stored/deep/{name}", name.encode())
    for path in (".tmp/a", "indexes/x", "..x/y", "a/...", "x~", "%2e%2ea/b", "C:%5Cx", "a%25%32%66b", "%25252e", "\u00e9".encode().hex(), "-rf", " ", "%0A"):
        one.ok("PUT", f"/sandbox/x/stored/{path.replace(' ', '%20')}", b"odd")
    for name in names:
        seen = one.ok("GET", f"/sandbox/{name}/stored")["files"]
        assert [f["path"] for f in seen if f["path"].startswith("deep")] == [f"deep/{name}"]
        assert name == "x" or len(seen) == 1
    # A sync removes what is its own, and no more.
    for name in ("x", "x-1"):
        one.ok("PUT", f"/sandbox/{name}", {})
        one.exec(name, "echo > /workspace/synced")
        one.ok("POST", f"/sandbox/{name}/sync", {})
    one.exec("x", "rm /workspace/synced")
    assert one.ok("POST", "/sandbox/x/sync", {})["deleted"] == 1
    for name in names:
        found = {f["path"] for f in one.ok("GET", f"/sandbox/{name}/stored")["files"]}
        assert f"deep/{name}" in found and ("synced" in found) == (name == "x-1"), (name, found)
    store = server.data / "store"
    assert {p.name for p in (store / one.name).iterdir()} <= {"workspaces", "indexes", "backups"}
    assert not [p for p in store.iterdir() if p.name in ("indexes", "workspaces")]


BAD_PATHS = (
    "..", "../x", "a/../x", "%2e%2e/x", "%2E%2E%2Fx", "a%2f..%2fx", "..%2f..%2f..%2fetc%2fpasswd", "a//b", "a%2f%2fb", "./a", "a/.", "a/./b", "%2e",
    "%00", "a%00b", "a%00/../b", "%2fetc/passwd", "/etc/passwd", "a/", "p" * 256, "/".join(["p" * 200] * 6), "%2525".join(["a"] * 400),
)  # fmt: skip


def test_paths_that_lead_elsewhere(server, one):
    store = server.data / "store"
    one.ok("PUT", "/sandbox/x/stored/control", b"x")
    before = sorted(str(p) for p in store.rglob("*") if ".tmp" not in p.parts)
    for path in BAD_PATHS:
        for method, body in (("GET", None), ("PUT", b"harm"), ("DELETE", None)):
            is_error(one(method, f"/sandbox/x/stored/{path}", body), 400, 404, 405)
    # An object in the place of a directory and the other way round.
    is_error(one("PUT", "/sandbox/x/stored/control/below", b"harm"), 409)
    assert sorted(str(p) for p in store.rglob("*") if ".tmp" not in p.parts) == before
    for query in ("prefix=..", "prefix=%2e%2e/", "after=../x", "prefix=%00", "limit=-1", "limit=1e9", "prefix=a/../b", "prefix=" + "a" * 1100):
        is_error(one("GET", f"/sandbox/x/stored?{query}"), 400)
    one.ok("DELETE", "/sandbox/x/stored/control")


def test_tenants_names_are_no_paths(admin, server):
    for name in ("..", ".", ".tmp", "a/b", "../x", "x\0", "", "a\\b", "%2e%2e"):
        reply = admin("POST", "/tokens", {"name": "t", "tenant": name})
        if reply.status == 201:  # then it is one that has a place of its own
            client = Client(server, reply.json["token"])
            client.ok("PUT", "/sandbox/x/stored/f", b"x")
            assert (server.data / "store" / name / "workspaces" / "x" / "f").read_bytes() == b"x"
            client.ok("DELETE", "/sandbox/x/stored/f")
            admin.ok("DELETE", f"/tokens/{reply.json['id']}")
        else:
            is_error(reply, 400)


# -- hostile files (sync, backup, export)

HOSTILE = r"""
import os, socket
os.chdir("/workspace")
def put(name, data=b"x"):
    with open(name, "wb") as f:
        f.write(data)
for name in (b"new\nline", b"tab\t", b"per%cent", b"%2e%2e", b"\xff\xfe", b"\xc0\xae\xc0\xae", b" ", b"-rf", b"..x", b"~", b"a\\b", b"*", b"?", b"[", b"!x", b"#x",
             b".tmp", b"\xe2\x80\xae", b"\x01", b"\x7f", b"n" * 255, b"\xff" * 250):
    put(name, name)
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
for name, to in (("loop", "loop"), ("shadow", "/etc/shadow"), ("proc", "/proc/1/root"), ("up", "../../../.."), ("dot", "."), ("long", "x" * 3900)):
    os.symlink(to, name)
os.link("-rf", "hard")
put("gitdir")
os.mkdir("ign"); os.mkfifo("ign/.gitignore"); put("ign/f")
os.mkdir("ign2"); os.symlink("/proc/kmsg", "ign2/.gitignore"); put("ign2/f")
os.mkdir("ign3"); os.mkdir("ign3/.gitignore"); put("ign3/f")
os.mkdir("closed"); put("closed/f"); os.chmod("closed/f", 0); os.chmod("closed", 0)
top = os.getcwd()
for i in range(1500):
    os.mkdir("d"); os.chdir("d")
os.chdir(top)
with open("sparse", "wb") as f:
    f.truncate(300 << 20)
"""


def test_hostile_files(one, box):
    python(one, box, HOSTILE)
    seen = python(one, box, "import os; print(sorted(os.listdir(b'/workspace')))")
    start = time.monotonic()
    backup = one.ok("POST", f"/sandbox/{box}/backups", {"dir": "/workspace", "gitignore": True})
    whole = one.ok("POST", f"/sandbox/{box}/backups", {})
    exported = one("GET", f"/sandbox/{box}/export?dir=/workspace")
    done = one.ok("POST", f"/sandbox/{box}/sync", {"gitignore": True, "exclude": ["/sparse"]})
    assert exported.status == 200 and done["files"] > 20 and "too long" in done["warning"], done
    assert time.monotonic() - start < 60
    paths = {f["path"] for f in one.ok("GET", f"/sandbox/{box}/stored?limit=10000")["files"]}
    assert {"new%0Aline", "per%25cent", "%252e%252e", "%FF%FE", "closed/f", "hard"} <= paths
    assert not {"fifo", "socket", "shadow", "proc", "loop"} & paths
    # What can be stored can be got, and written; each under one name.
    assert one("GET", f"/sandbox/{box}/stored/new%250Aline").body == b"new\nline"
    for what in ({"backup": backup["id"]}, {"backup": whole["id"]}):
        one.exec(box, {"command": "rm -rf /workspace/* || true", "user": "root"})
        one.ok("POST", f"/sandbox/{box}/restore", what)
        assert python(one, box, "import os; print(sorted(os.listdir(b'/workspace')))").replace(", b'socket'", "") == seen.replace(", b'socket'", "")
    one.ok("DELETE", f"/sandbox/{box}")
    one.ok("PUT", f"/sandbox/{box}", {"restore": True})
    assert one.exec(box, "cat /workspace/hard; readlink /workspace/shadow")["stdout"] == "-rf/etc/shadow\n"


BOMBS = {
    "brackets": "f.write('[' * 1000000)",
    "stars": "f.write('*a' * 500000)",
    "many stars": "f.write(('*a' * 120 + 'b\\n') * 4000)",
    "depths": "f.write(('**/' * 300 + 'x\\n') * 1000)",
    "lines": "f.write('x\\n' * 500000)",
    "too large": "f.write('x\\n' * 6000000)",
    "classes": "f.write('[[:alpha:]' * 100000)",
}


def test_gitignore_bombs(one, two, box):
    """Whoever waits for a bomb is told so, in bounded time, and nobody else waits."""
    python(one, box, "import os\nfor i in range(400):\n os.makedirs('/workspace/' + 'a' * 200 + f'/{i}/' + 'a' * 200)")
    two.ok("PUT", "/sandbox/quick", {})

    def attack(name, code):
        child = f"bomb-{name.replace(' ', '-')}"
        one.ok("POST", f"/sandbox/{box}/fork", {"id": child})
        python(one, child, f"with open('/workspace/.gitignore', 'w') as f: {code}")
        return name, one("POST", f"/sandbox/{child}/backups", {"dir": "/workspace", "gitignore": True})

    def wait():
        time.sleep(1)
        start = time.monotonic()
        two.ok("POST", "/sandbox/quick/backups", {"dir": "/workspace"})
        return time.monotonic() - start

    *replies, took = at_once(*[lambda n=n, c=c: attack(n, c) for n, c in BOMBS.items()], wait)
    for name, reply in replies:
        assert reply.status in (201, 400), (name, reply)
    assert dict(replies)["too large"].status == 201
    assert took < 100


PLACES = {
    "a link to /": "mv /workspace /w && ln -s / /workspace",
    "a link to /etc": "mv /workspace /w && ln -s /etc /workspace",
    "a link up": "mv /workspace /w && ln -s ../../../../etc /workspace",
    "a link to /proc": "mv /workspace /w && ln -s /proc/1/root /workspace",
    "a pipe": "mv /workspace /w && mkfifo /workspace",
    "a file": "mv /workspace /w && echo > /workspace",
    "nothing": "mv /workspace /w",
}


def test_a_workspace_that_is_none(one, box):
    def attack(name, command):
        child = name.replace(" ", "-").replace("/", "s")
        one.ok("POST", f"/sandbox/{box}/fork", {"id": child})
        one.exec(child, {"command": command, "user": "root", "cwd": "/"})
        replies = [one("POST", f"/sandbox/{child}/sync", {}), one("POST", f"/sandbox/{child}/backups", {"dir": "/workspace"})]
        replies.append(one("POST", f"/sandbox/{child}/import?dir=/workspace", tar_of(("in", b"x"))))
        files = one.ok("GET", f"/sandbox/{child}/stored")["files"]
        return name, replies, files

    for name, replies, files in at_once(*[lambda n=n, c=c: attack(n, c) for n, c in PLACES.items()]):
        for reply in replies[:2]:
            is_error(reply, 400, 404)
        assert replies[2].status in ((200,) if name == "nothing" else (400, 404)), (name, replies[2])
        assert files == []


def test_directories_that_are_none(one, box):
    one.exec(box, {"command": "ln -s /etc /workspace/link; ln -s / /workspace/root; echo > /workspace/file; mkdir /workspace/d", "user": "root"})
    for dir_ in ("", "/", "//", "/.", "/..", "/../..", "/workspace/..", "/workspace/../etc", "/workspace//d", "/workspace/./d", "/workspace/d/", "workspace", "~", "/workspace\0", "/" + "x" * 5000,
                 "/workspace/link", "/workspace/root", "/workspace/file", "/workspace/none", "/proc/1", "/proc/self/root/etc"):  # fmt: skip
        is_error(one("POST", f"/sandbox/{box}/backups", {"dir": dir_}), 400, 404)
    for dir_ in ("/", "//x", "/..", "/workspace/../x", "/workspace/link", "/workspace/file", "/workspace/file/x", "x"):
        is_error(one("POST", f"/sandbox/{box}/import?dir={dir_}", tar_of(("in", b"x"))), 400)
    # Places of a machine's: whatever is there is the box's own image.
    for dir_ in ("/proc", "/sys", "/dev"):
        reply = one("POST", f"/sandbox/{box}/backups", {"dir": dir_})
        assert reply.status in (400, 404) or reply.json["entries"] < 50, reply
    # Through a link in the middle: within the box.
    one.exec(box, {"command": "mkdir /etc/harm && echo inside > /etc/harm/f", "user": "root"})
    one.ok("POST", f"/sandbox/{box}/import?dir=/workspace/root/etc/harm", tar_of(("in", b"x")))
    assert one.exec(box, "ls /etc/harm")["stdout"] == "in\n" and not os.path.exists("/etc/harm")


# -- hostile archives (33, 35)


def entry(name, data=b"", **more):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def tar_of(*entries, format_=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format_) as tar:
        for one_ in entries:
            info, data = one_ if isinstance(one_[0], tarfile.TarInfo) else entry(*one_)
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out.getvalue()


def link(name, to):
    return entry(name, type=tarfile.SYMTYPE, linkname=to)


def hard(name, to):
    return entry(name, type=tarfile.LNKTYPE, linkname=to)


def folder(name, **more):
    return entry(name, type=tarfile.DIRTYPE, mode=0o755, **more)


def node(name, type_, major, minor, **more):
    return entry(name, type=type_, devmajor=major, devminor=minor, **more)


def xattr(name, value, on="f"):
    return entry(on, b"x", pax_headers={f"SCHILY.xattr.{name}": value})


def resized(size):
    """The first header says another size, and its sum is right."""
    data = bytearray(tar_of(("f", b"x" * 600), format_=tarfile.USTAR_FORMAT))
    data[124:136] = size
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("f", "x")
    return out.getvalue()


def command(*argv, data=b""):
    return subprocess.run(argv, input=data, capture_output=True, check=True).stdout


MTREE = b"#mtree\nshadow type=file content=/etc/shadow\npasswd type=file contents=/etc/passwd\n"
CPIO = b"070701" + b"00000001" + b"000081a4" + b"0" * 32 + b"00000001" + b"0" * 32 + b"00000002" + b"0" * 8 + b"f\0" + b"\0" * 100

GOOD = tar_of(folder("."), ("f", b"x"), folder("d"), hard("h", "f"), link("l", "/etc/shadow"), ("d/f", b"y"))

# By name: an archive that is refused, wherever it is meant to go.
REFUSED = {
    "up": lambda: tar_of(("../harm", b"x")),
    "far up": lambda: tar_of(("a/../../../../../../etc/harm", b"x")),
    "up in the end": lambda: tar_of(folder("a/..")),
    "absolute": lambda: tar_of(("/etc/harm", b"x")),
    "absolute by pax": lambda: tar_of(entry("f", b"x", pax_headers={"path": "/etc/harm"})),
    "link, then file": lambda: tar_of(link("l", "/etc"), ("l/harm", b"x")),
    "link, then directory": lambda: tar_of(link("l", ".."), folder("l/harm")),
    "link to itself, then file": lambda: tar_of(link("l", "l"), ("l/f", b"x")),
    "hard link up": lambda: tar_of(hard("h", "../../etc/shadow")),
    "hard link absolute": lambda: tar_of(hard("h", "/etc/shadow")),
    "hard link through a link": lambda: tar_of(link("l", "/etc"), hard("h", "l/shadow")),
    "hard link to nothing": lambda: tar_of(hard("h", "none")),
    "hard link to a directory": lambda: tar_of(folder("d"), hard("h", "d")),
    "hard link by pax": lambda: tar_of(entry("h", type=tarfile.LNKTYPE, linkname="f", pax_headers={"linkpath": "/etc/shadow"})),
    "block device": lambda: tar_of(node("sda", tarfile.BLKTYPE, 8, 0)),
    "device": lambda: tar_of(node("mem", tarfile.CHRTYPE, 1, 1)),
    "device 0:1": lambda: tar_of(node("w", tarfile.CHRTYPE, 0, 1)),
    "block device 0:0": lambda: tar_of(node("w", tarfile.BLKTYPE, 0, 0)),
    "the directory as a file": lambda: tar_of((".", b"x")),
    "file, then below it": lambda: tar_of(("f", b"x"), ("f/g", b"x")),
    "directory that is not empty as a file": lambda: tar_of(("d/f", b"x"), ("d", b"x")),
    "long name": lambda: tar_of(("n" * 256, b"x")),
    "long path": lambda: tar_of(("/".join(["n" * 200] * 500), b"x")),
    "redirect": lambda: tar_of(xattr("trusted.overlay.redirect", "/../../etc")),
    "metacopy": lambda: tar_of(xattr("trusted.overlay.metacopy", "")),
    "origin": lambda: tar_of(xattr("trusted.overlay.origin", "x")),
    "other trusted": lambda: tar_of(xattr("trusted.x", "x")),
    "opaque, but oddly": lambda: tar_of(folder("d", pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "x"})),
    "escaped": lambda: tar_of(xattr("trusted%2Eoverlay%2Eredirect", "/x")),
    "in base64": lambda: tar_of(entry("f", b"x", pax_headers={"LIBARCHIVE.xattr.trusted.overlay.redirect": base64.b64encode(b"/x").decode()})),
    "on a link": lambda: tar_of(entry("l", type=tarfile.SYMTYPE, linkname="x", pax_headers={"SCHILY.xattr.trusted.overlay.redirect": "/x"})),
    "negative size": lambda: resized(b"\xff" * 12),
    "huge size": lambda: resized(b"\x80" + b"\0" * 3 + b"\x7f" + b"\xff" * 7),
    "size of nothing": lambda: tar_of(entry("f", b"x", pax_headers={"size": "99999999999"})),
    "negative size by pax": lambda: tar_of(entry("f", b"x" * 600, pax_headers={"size": "-1"})),
    "size that is none": lambda: tar_of(entry("f", b"x" * 600, pax_headers={"size": "1e9", "path": "\n"}))[:1024],
    "bad sum": lambda: GOOD[:5] + b"!" + GOOD[6:],
    "cut": lambda: GOOD[:1500],
    "without an end": lambda: tar_of(("f", b"x" * 512), format_=tarfile.USTAR_FORMAT)[:1024],
    "cut gzip": lambda: gzip.compress(GOOD)[:-10],
    "zstd with a wrong sum": lambda: command("zstd", "-c", "--check", data=GOOD)[:-4] + b"\0" * 4,
    "xz with a wrong sum": lambda: lzma.compress(GOOD)[:-36] + bytes(8) + lzma.compress(GOOD)[-28:],
    "zeros": lambda: b"\0" * 20480,
    "cut xz": lambda: lzma.compress(GOOD)[:-20],
    "cut zstd": lambda: command("zstd", "-c", data=GOOD)[:-3],
    "zstd with a huge window": lambda: b"\x28\xb5\x2f\xfd\x00\xb0" + b"\0" * 1000,
    "noise": lambda: os.urandom(100_000),
    "text": lambda: b"hello\n" * 1000,
    "nothing": lambda: b"",
    "zip": zipped,
    "zip in gzip": lambda: gzip.compress(zipped()),
    "mtree": lambda: MTREE,
    "mtree in gzip": lambda: gzip.compress(MTREE),
    "cpio": lambda: CPIO,
    "ar": lambda: b"!<arch>\nf/              0           0     0     644     2         `\nx\n",
    "7z": lambda: b"7z\xbc\xaf\x27\x1c\0\4" + b"\0" * 100,
    "rar": lambda: b"Rar!\x1a\x07\x01\0" + b"\0" * 100,
    "iso": lambda: b"\0" * 32768 + b"\1CD001\1\0" + b"\0" * 4096,
    "uuencoded": lambda: b"begin 644 f\n" + b"".join(binascii.b2a_uu(GOOD[i : i + 45]) for i in range(0, len(GOOD), 45)) + b"`\nend\n",
    "gzip 60 times": lambda: nest(gzip.compress, GOOD, 60),
    "a file in gzip": lambda: gzip.compress(b"x" * 100000),
    "a file that is not a tar, in xz": lambda: lzma.compress(os.urandom(5000)),
    "dots and zeros": lambda: b"." + b"\0" * 10239,
}  # fmt: skip


def nest(compress, data, n):
    for _ in range(n):
        data = compress(data)
    return data


@pytest.mark.parametrize("where", ["?dir=/workspace/in", ""])
def test_archives_that_are_refused(one, box, where):
    one.exec(box, "mkdir /workspace/in && echo kept > /workspace/in/kept")
    replies = at_once(*[lambda n=n, m=m: many_imports(one, box, where, n, m) for n, m in enumerate(chunks(list(REFUSED.items()), 4))])
    wrong = {name: (reply.status, reply.body[:200]) for group in replies for name, reply in group if reply.status != 400}
    assert wrong == {}
    assert one.exec(box, "ls -A /workspace/in && cat /workspace/in/kept")["stdout"] == "kept\nkept\n"
    one.exec(box, "test ! -e /etc/harm")
    # Refused for what they are: a good one is taken, in any clothes.
    for wrap in (bytes, gzip.compress, lzma.compress, bz2.compress, lambda d: nest(gzip.compress, d, 3), lambda d: command("zstd", "-c", data=d)):
        one.ok("POST", f"/sandbox/{box}/import?dir=/workspace/in", wrap(GOOD))
        assert one.exec(box, "cat /workspace/in/h /workspace/in/d/f; readlink /workspace/in/l")["stdout"] == "xy/etc/shadow\n"


def chunks(items, n):
    return [items[i::n] for i in range(n)]


def many_imports(client, box, where, number, items):
    child = f"{box}-{number}"
    if client("GET", f"/sandbox/{child}").status == 404:
        client.ok("PUT", f"/sandbox/{child}", {})
    target = box if number == 0 else child
    return [(name, client("POST", f"/sandbox/{target}/import{where}", make())) for name, make in items]


def test_digests(one, box):
    one.exec(box, "mkdir /workspace/in && echo kept > /workspace/in/kept")
    good = hashlib.sha256(GOOD).hexdigest()
    for digest in ("0" * 64, good.upper(), good[:-1], good + "0", "", "sha256:" + good, hashlib.sha256(b"").hexdigest()):
        is_error(one("POST", f"/sandbox/{box}/import?dir=/workspace/in&sha256={digest}", GOOD), 400)
        is_error(one("POST", f"/sandbox/{box}/import?sha256={digest}", GOOD), 400)
    # A sum of the archive alone, when something follows it.
    is_error(one("POST", f"/sandbox/{box}/import?dir=/workspace/in&sha256={good}", GOOD + b"\0" * 512), 400)
    assert one.exec(box, "cat /workspace/in/kept")["stdout"] == "kept\n"
    one.ok("POST", f"/sandbox/{box}/import?dir=/workspace/in&sha256={good}", GOOD)


def test_bombs(one):
    """What does not fit is refused, and what there was is there."""
    one.ok("PUT", "/sandbox/small", {"disk": "64m"})
    one.exec("small", "mkdir /workspace/in && echo kept > /workspace/in/kept")
    head, noise = entry("bomb", b""), os.urandom(1 << 16) * 16
    head[0].size = 256 << 20
    block = head[0].tobuf(tarfile.PAX_FORMAT)
    bomb = subprocess.Popen(["zstd", "-c", "-1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def feed():
        bomb.stdin.write(block)
        for _ in range(256):
            bomb.stdin.write(noise)
        bomb.stdin.write(b"\0" * 1024)
        bomb.stdin.close()

    thread = threading.Thread(target=feed)
    thread.start()
    large = bomb.stdout.read()
    thread.join()
    bomb.wait()
    entries = command("zstd", "-c", "-1", data=tar_of(*[folder(f"{i:090}") for i in range(20000)], format_=tarfile.USTAR_FORMAT))
    assert len(large) < 16 << 20
    for where in ("", "?dir=/workspace/in"):
        one("POST", f"/sandbox/small/import{where}", large).error(507, "NO_SPACE")
    # Many that are nothing take their place, too.
    assert one("POST", "/sandbox/small/import?dir=/workspace/many", entries).status in (200, 507)
    assert one.ok("GET", "/du")["sandboxes"][0]["disk"] <= 72 << 20
    # A hole is no content: 8 EiB of it take nothing.
    one.ok("POST", "/sandbox/small/import?dir=/workspace/hole", tar_of(entry("f", b"0\n" + b"\0" * 510, pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "f", "GNU.sparse.realsize": str(1 << 40)})))
    assert one.exec("small", "cat /workspace/in/kept; stat -c %s /workspace/hole/f")["stdout"] == f"kept\n{1 << 40}\n"


def test_layers_of_a_whole_disk(one, box):
    """Whiteouts and opaque directories are what a disk has; and they hide what is the image's, not the machine's."""
    archive = tar_of(
        folder("."), folder("etc"), node("etc/debian_version", tarfile.CHRTYPE, 0, 0), folder("opt", pax_headers={"SCHILY.xattr.trusted.overlay.opaque": "y"}),
        folder("workspace"), ("workspace/f", b"x"), entry("workspace/suid", b"x", mode=0o6755), entry("workspace/alien", b"x", uid=2**31, gid=4294967294),
        entry("workspace/many", b"x", uid=65536, pax_headers={"uid": "99999999999"}),
    )  # fmt: skip
    one.ok("POST", f"/sandbox/{box}/import", archive)
    seen = one.exec(box, {"command": "ls /etc/debian_version /opt; cat /workspace/f; stat -c '%a %u %g' /workspace/*; touch /workspace/new && rm -r /workspace/f", "user": "root"})
    assert seen["exitCode"] == 0 or "debian_version" in seen["stderr"], seen
    assert "x755" not in seen["stdout"] and "6755 0 0" in seen["stdout"], seen
    assert os.path.exists("/etc/debian_version")


# -- objects that were made by hand (36)


def seal(path, data, like):
    """An object as the store would have written it."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    os.setxattr(path, "user.cay.object", hashlib.sha256(data).digest() + struct.pack("<Q", len(data)))
    os.chown(path, like.st_uid, like.st_gid)


def line(kind, path, sha="-", target="", mode="644", uid="0", size="0"):
    return "\t".join((kind, size, "0", mode, uid, "0", sha, path, target))


X = hashlib.sha256(b"x").hexdigest()
INDEXES = {
    "up": [line("f", "../harm", X, size="1")],
    "absolute": [line("f", "/etc/harm", X, size="1")],
    "escaped": [line("f", "%2e%2e/harm", X, size="1")],
    "escaped slash": [line("f", "a%2fb", X, size="1")],
    "NUL": [line("f", "a%00b", X, size="1")],
    "through a link": [line("l", "a", target="/etc"), line("f", "a/x", X, size="1")],
    "through a link that comes twice": [line("d", "a", mode="755"), line("l", "a", target="/etc"), line("f", "a/x", X, size="1")],
    "twice": [line("f", "a", X, size="1"), line("f", "a", X, size="1")],
    "unsorted": [line("f", "b", X, size="1"), line("f", "a", X, size="1")],
    "a device": [line("c", "a", mode="20666")],
    "a device by its mode": [line("f", "a", X, mode="20666", size="1")],
    "an owner that is none": [line("d", "a", uid="99999999999999999999")],
    "a link to nothing": [line("l", "a")],
    "another's object": [line("f", "../../../admin/results/x", X, size="1")],
    "less fields": ["f\t1"],
    "no end": [line("f", "x" * 100000, X, size="1")],
    "noise": ["\x00\xff" * 1000],
    "many": [line("d", f"{i:07}", mode="755") for i in range(300000)] + [line("d", "../x", mode="755")],
}  # fmt: skip


def test_indexes_by_hand(server, one):
    """Restoring what somebody has put in the store is as all other archives: it stays in the workspace, or fails."""
    top = server.data / "store" / one.name

    def attack(name, lines):
        id_ = "index-" + name.replace(" ", "-").replace("'", "")
        one.ok("PUT", f"/sandbox/{id_}/stored/x", b"x")
        one.ok("PUT", f"/sandbox/{id_}", {})
        one.ok("POST", f"/sandbox/{id_}/sync", {"exclude": ["*"]})
        one.ok("DELETE", f"/sandbox/{id_}")
        index = top / "indexes" / id_
        seal(index, ("cay index 1\n" + "\n".join(lines) + "\n").encode(), index.stat())
        reply = one("PUT", f"/sandbox/{id_}", {"restore": True})
        if reply.status == 201:
            seen = one.exec(id_, {"command": "ls -A /workspace; ls -d /etc/harm /harm /etc/x /x", "user": "root"})["stdout"]
            assert "harm" not in seen and "/x" not in seen, (name, seen)
        return name, reply

    for name, reply in at_once(*[lambda n=n, l=l: attack(n, l) for n, l in INDEXES.items()]):
        assert reply.status == 201 or is_error(reply, 400, 500, 507), (name, reply)
    assert not os.path.exists("/etc/harm")


def replace_by_link(path):
    path.unlink()
    path.symlink_to("/etc/shadow")


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


def replace_by_directory(path):
    path.unlink()
    path.mkdir()


def replace_by_socket(path):
    path.unlink()
    os.mknod(path, 0o140600)
    os.chmod(path, 0o666)


def replace_above(path):
    """The directory that it is in is a link to elsewhere."""
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.symlink_to("/etc")


@pytest.mark.parametrize("how", [replace_by_link, replace_by_pipe, replace_by_directory, replace_by_socket, replace_above])
def test_objects_that_are_none(server, one, box, how):
    one.exec(box, "echo kept > /workspace/kept")
    backup = one.ok("POST", f"/sandbox/{box}/backups", {"dir": "/workspace"})["id"]
    one.ok("PUT", "/sandbox/far/stored/d/f", b"x")
    top = server.data / "store" / one.name
    how(top / "backups" / backup / "data.tar.zst")
    how(top / "workspaces" / "far" / "d" / "f")
    one.exec(box, "echo later > /workspace/later")
    one("POST", f"/sandbox/{box}/restore", {"backup": backup}).error(500, "STORE_DAMAGED")
    assert one.exec(box, "cat /workspace/kept /workspace/later")["stdout"] == "kept\nlater\n"
    reply = one("GET", "/sandbox/far/stored/d/f")
    assert reply.status in (404, 500) and b"root:" not in reply.body
    assert one("PUT", "/sandbox/far/stored/d/f", b"new").status in (200, 409, 500)
    assert one("GET", "/sandbox/far/stored").status in (200, 500)
    assert one("PUT", "/sandbox/far", {"restore": True}).status in (201, 500)
    one.ok("DELETE", f"/backups/{backup}")
    if how is replace_above:
        for at in (top / "backups" / backup, top / "workspaces" / "far" / "d"):
            if at.is_symlink():
                at.unlink()
    assert pathlib.Path("/etc/shadow").stat().st_size > 0


# -- many at once (52, 53)


def statuses(replies):
    found = {}
    for reply in replies:
        found[reply.status] = found.get(reply.status, 0) + 1
    return found


def test_the_last_places_are_given_once(new_tenant):
    client = new_tenant(quotas={"sandboxes": 10})
    client.ok("PUT", "/sandbox/s", {})
    is_error(client("POST", "/sandbox/s/fork", {"count": 1000}), 403)
    is_error(client("POST", "/sandbox/s/fork", {"count": 10}), 403)
    assert len(client.ok("GET", "/sandbox")["sandboxes"]) == 1
    replies = at_once(*[lambda: client("POST", "/sandbox/s/fork", {"count": 4}) for _ in range(12)])
    assert statuses(replies) == {201: 2, 403: 10}
    replies = at_once(*[lambda i=i: client("POST", "/sandbox/s/fork", {}) if i % 2 else client("POST", "/sandbox", {}) for i in range(10)])
    assert statuses(replies) == {201: 1, 403: 9}
    assert len(client.ok("GET", "/sandbox")["sandboxes"]) == 10
    # Snapshots have places, too.
    for _ in range(97):
        client.ok("POST", "/sandbox/s/snapshots", {})
    replies = at_once(*[lambda: client("POST", "/sandbox/s/snapshots", {}) for _ in range(12)])
    assert statuses(replies)[201] == 3 and len(client.ok("GET", "/sandbox/s/snapshots")["snapshots"]) == 100
    clear(client)


def test_more_than_its_disk(one):
    """Snapshots and rewriting, forks of forks: nobody holds more than the limits of what there is."""
    one.ok("PUT", "/sandbox/s", {"disk": "40m"})
    kept = 0
    for _ in range(4):
        done = one.exec("s", "dd if=/dev/urandom of=/workspace/f bs=1M count=15 2>&1 && sync")
        kept += one("POST", "/sandbox/s/snapshots", {}).status == 201
        if done["exitCode"] != 0:
            break
    assert done["exitCode"] != 0 and "space" in done["stdout"].lower() + done["stderr"].lower() or "quota" in done["stdout"].lower(), done
    held = one.ok("GET", "/du")["sandboxes"][0]
    assert held["disk"] <= 48 << 20, held
    one.ok("PUT", "/sandbox/t", {"disk": "40m"})
    one.exec("t", "dd if=/dev/urandom of=/workspace/f0 bs=1M count=15")
    name = "t"
    for i in range(4):
        reply = one("POST", f"/sandbox/{name}/fork", {"id": f"t{i}"})
        if reply.status != 201:
            is_error(reply, 403)
            break
        name = f"t{i}"
        one.exec(name, f"rm -f /workspace/f*; dd if=/dev/urandom of=/workspace/f{i} bs=1M count=15")
    assert i < 4 and one.exec(name, "cat /workspace/* | wc -c")["exitCode"] == 0
    for held in one.ok("GET", "/du")["sandboxes"]:
        assert held["disk"] + held["shared"] <= 48 << 20, held
    is_error(one("PATCH", f"/sandbox/{name}", {"disk": "4m"}), 400, 403, 409)


def test_at_the_same_moment(one, admin):
    """Whatever is done to one sandbox at the same time: each is done or refused, and what there is in the end works."""
    data = tar_of(("f", b"imported"))
    for round_ in range(3):
        one.ok("PUT", "/sandbox/r", {"disk": "200m"})
        one.exec("r", "echo first > /workspace/f")
        snap = one.ok("POST", "/sandbox/r/snapshots", {})["id"]
        backup = one.ok("POST", "/sandbox/r/backups", {"dir": "/workspace"})["id"]
        jobs = [
            lambda: one("POST", "/sandbox/r/fork", {"count": 3}),
            lambda: one("POST", "/sandbox/r/fork", {"snapshot": snap, "id": f"c{round_}"}),
            lambda: one("DELETE", f"/sandbox/r/snapshots/{snap}"),
            lambda: one("POST", "/sandbox/r/rollback", {"snapshot": snap}),
            lambda: one("POST", "/sandbox/r/restore", {"backup": backup}),
            lambda: one("POST", "/sandbox/r/restore", {"backup": backup}),
            lambda: one("POST", "/sandbox/r/import?dir=/workspace", data),
            lambda: one("POST", "/sandbox/r/sync", {}),
            lambda: one("POST", "/sandbox/r/archive"),
            lambda: one("POST", "/sandbox/r/exec", {"command": "cat /workspace/f"}),
            lambda: one("POST", "/sandbox/r/sleep"),
            lambda: one("PATCH", "/sandbox/r", {"disk": "100m"}),
            lambda: one("GET", "/sandbox/r/export?dir=/workspace"),
            lambda: one("DELETE", f"/backups/{backup}"),
        ]
        if round_ > 0:
            jobs += [lambda: (time.sleep(0.05 * round_), one("DELETE", "/sandbox/r"))[1], lambda: (time.sleep(0.1 * round_), one("PUT", "/sandbox/r", {}))[1]]
        replies = at_once(*jobs)
        bad = [r for r in replies if r.status >= 500 and r.status not in (503,) and (r.json["error_code"] != "STORE_DAMAGED")]
        assert not bad, bad
        for box in one.ok("GET", "/sandbox")["sandboxes"]:
            seen = one.exec(box["id"], "cat /workspace/f 2>/dev/null; echo new > /workspace/new && cat /workspace/new")
            assert seen["stdout"] in ("first\nnew\n", "importednew\n", "new\n"), seen
            one.ok("DELETE", f"/sandbox/{box['id']}")
    assert admin.ok("GET", "/health")["ok"]


def test_forks_of_one_that_forks(one):
    """A box that makes processes as fast as it can stands still when it is asked to, and goes on."""
    one.ok("PUT", "/sandbox/bomb", {"pids": 60, "keepAlive": True})
    one.start("bomb", {"argv": ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > /workspace/n; done"], "id": "count"})
    one.start("bomb", {"command": "f() { f | f & sleep 0.01; f; }; f", "id": "fork"})
    for i in range(3):
        one.ok("POST", "/sandbox/bomb/fork", {"id": f"b{i}"})
        one.ok("POST", "/sandbox/bomb/snapshots", {})
    read = one("GET", "/sandbox/bomb/files/workspace/n")
    assert read.status in (200, 404, 503), read  # it may have no room for whoever looks
    before = read.body
    eventually(lambda: one("GET", "/sandbox/bomb/files/workspace/n").body != before or one.ok("GET", "/sandbox/bomb/processes"))
    assert one.exec("b0", "echo alive")["stdout"] == "alive\n"


def test_children_have_numbers_of_their_own(one, box):
    """49: nothing that two must not have in common is in common."""
    one.exec(box, {"command": "export SECRET_TOKEN=x; cat /proc/sys/kernel/random/uuid > /workspace/drawn"})
    one.start(box, {"argv": ["sleep", "300"], "id": "running"})
    ids = [s["sandboxId"] for s in one.ok("POST", f"/sandbox/{box}/fork", {"count": 6})["sandboxes"]]
    draw = "import os, uuid, random, ssl, tempfile; print(uuid.uuid4(), os.urandom(8).hex(), random.random(), ssl.RAND_bytes(8).hex(), id(object()), open('/proc/sys/kernel/random/uuid').read(), tempfile.mktemp())"
    rows = at_once(*[lambda i=i: python(one, i, draw).split() for i in [box, *ids]])
    for column in zip(*rows):
        assert len(set(column)) == len(rows), column
    for id_ in ids:
        seen = one.exec(id_, "cat /etc/machine-id /var/lib/dbus/machine-id 2>/dev/null; hostname")["stdout"]
        assert seen == "cay\n", seen
        assert one.ok("GET", f"/sandbox/{id_}/processes")["processes"] == []


# -- who never goes


def slow_get(client, path):
    connection = client.connect()
    headers, _ = client.head(None, None)
    connection.request("GET", path, headers=headers)
    return connection


def slow_post(client, method, path, size):
    connection = client.connect()
    headers, _ = client.head({"Content-Length": str(size)}, None)
    connection.putrequest(method, path)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders(GOOD[:1024])
    return connection


def test_slow_clients_hold_nobody_up(one, two):
    """Exports that nobody reads, imports that do not come, and stored files: of one tenant so many, and others go on."""
    for client in (one, two):
        client.ok("PUT", "/sandbox/s", {})
        client.exec("s", "head -c 20000000 /dev/urandom > /workspace/big")
    one.ok("PUT", "/sandbox/s/stored/big", os.urandom(20_000_000))
    backup = two.ok("POST", "/sandbox/s/backups", {"dir": "/workspace"})["id"]
    two.ok("PUT", "/sandbox/s/stored/big", os.urandom(1_000_000))
    held = []
    try:
        for i in range(12):
            held.append(slow_get(one, "/sandbox/s/export?dir=/workspace"))
            one.ok("PUT", f"/sandbox/i{i}", {})
            held.append(slow_post(one, "POST", f"/sandbox/i{i}/import?dir=/workspace", 50_000_000))
        for i in range(24):
            held.append(slow_get(one, "/sandbox/s/stored/big"))
            held.append(slow_post(one, "PUT", f"/sandbox/s/stored/slow{i}", 50_000_000))
        time.sleep(2)
        start = time.monotonic()
        two.ok("POST", "/sandbox/s/restore", {"backup": backup})
        two.ok("POST", "/sandbox/s/sync", {})
        two.ok("POST", "/sandbox/s/archive")
        assert two.exec("s", "wc -c < /workspace/big")["stdout"] == "20000000\n"
        assert len(two("GET", "/sandbox/s/stored/big").body) == 20_000_000
        two.ok("PUT", "/sandbox/s/stored/new", os.urandom(1_000_000))
        assert two("GET", "/sandbox/s/export?dir=/workspace").status == 200
        assert time.monotonic() - start < 30
        is_error(one("GET", "/sandbox/s/export?dir=/workspace"), 503)
    finally:
        for connection in held:
            connection.close()
    eventually(lambda: one("GET", "/sandbox/s/export?dir=/workspace").status == 200)
    assert not [f for f in one.ok("GET", "/sandbox/s/stored")["files"] if f["path"].startswith("slow")]


class SlowStore(http.server.BaseHTTPRequestHandler):
    """An S3 that has nothing and takes everything; of one index it does not say so before it may."""

    protocol_version = "HTTP/1.1"
    asked, may = threading.Event(), threading.Event()

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"x"')
        self.end_headers()
        self.wfile.write(body if self.command != "HEAD" else b"")

    def do_GET(self):
        if "/indexes/slow" in self.path:
            self.asked.set()
            self.may.wait(20)
        self.answer(404, b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>")

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200)

    do_HEAD = do_DELETE = do_GET

    def log_message(self, *_):
        pass


def test_many_files_of_one_place(make_server, monkeypatch):
    """While its index cannot be had they wait, and nobody else does."""
    monkeypatch.setenv("CAY_S3_ACCESS_KEY", "AKIDEXAMPLE")
    monkeypatch.setenv("CAY_S3_SECRET_KEY", "secret")
    store = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SlowStore)
    threading.Thread(target=store.serve_forever, daemon=True).start()
    where = f"http://127.0.0.1:{store.server_port}"
    client = Client(make_server("--store", "s3", "--s3-endpoint", where, "--s3-bucket", "b", "--s3-region", "r"))
    replies = []
    asks = [threading.Thread(target=lambda i=i: replies.append(client("PUT", f"/sandbox/slow/stored/{i}", b"x"))) for i in range(60)]
    for ask in asks:
        ask.start()
    try:
        assert SlowStore.asked.wait(10)
        time.sleep(1)  # all of them are there
        began = time.monotonic()
        client.ok("PUT", "/sandbox/other/stored/x", b"x")
        took = time.monotonic() - began
        assert not replies and took < 3, (replies, took)
    finally:
        SlowStore.may.set()
        for ask in asks:
            ask.join()
        store.shutdown()
    assert [r.status for r in replies] == [200] * 60


# -- secrets


def test_the_stores_credentials_are_nowhere(make_server, monkeypatch):
    key = "SECRETsecretSECRETsecret0123456789"
    monkeypatch.setenv("CAY_S3_ACCESS_KEY", "AKIDEXAMPLE")
    monkeypatch.setenv("CAY_S3_SECRET_KEY", key)
    server = make_server("--store", "s3", "--s3-endpoint", "http://127.0.0.1:9", "--s3-bucket", "b", "--s3-region", "r")
    client = Client(server)
    client.ok("PUT", "/sandbox/s", {})
    texts = [client("GET", "/health").body, client("GET", "/metrics").body]
    client.exec("s", "echo x > /workspace/x; env")
    for method, path, body in (
        ("PUT", "/sandbox/s/stored/x", b"x"),
        ("GET", "/sandbox/s/stored/x", None),
        ("GET", "/sandbox/s/stored", None),
        ("GET", "/sandbox/s/sync", None),
    ):
        texts.append(client(method, path, body).body)
    texts.append(client.exec("s", "cat /proc/*/environ /proc/*/cmdline")["stdout"].encode())
    texts.append(server.log().encode())
    pids = {server.process.pid, server.daemon_pid()}
    texts += [pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
    assert not [t for t in texts if key.encode() in t]
    client.ok("DELETE", "/sandbox/s")
