# SPDX-License-Identifier: Apache-2.0
"""Backups, restores, archives, exports and imports: every byte and all that is known of it comes back, or nothing is
touched."""

import contextlib
import hashlib
import http.client
import io
import json
import os
import pathlib
import random
import subprocess
import tarfile
import threading
import time

import pytest
from api_helpers import Client, Server, at_once, eventually, kill_daemon
from conftest import need_root

# All that can be said of a tree, by somebody within.
LISTING = r"""
import hashlib, json, os, stat, sys
def look(path):
    st = os.lstat(path)
    seen = {"mode": oct(st.st_mode), "uid": st.st_uid, "gid": st.st_gid, "mtime": st.st_mtime_ns}
    if stat.S_ISREG(st.st_mode):
        with open(path, "rb") as f:
            seen["sha"] = hashlib.sha256(f.read()).hexdigest()
        seen["size"], seen["links"] = st.st_size, st.st_nlink
    elif stat.S_ISLNK(st.st_mode):
        seen["target"] = repr(os.readlink(os.fsencode(path)))
        del seen["mtime"]
    seen["xattrs"] = {n: os.getxattr(path, n, follow_symlinks=False).hex() for n in os.listxattr(path, follow_symlinks=False)}
    return seen
found = {}
for top in sys.argv[1:]:
    found[top] = look(top)
    for dir_, dirs, names in os.walk(os.fsencode(top)):
        for name in dirs + names:
            path = os.path.join(dir_, name)
            found[path.decode("utf-8", "surrogateescape").encode("unicode_escape").decode("latin-1")] = look(path)
print(json.dumps(found, sort_keys=True))
"""

# A bit of everything.
FILL = r"""
import os, sys
top = sys.argv[1]
os.makedirs(top + "/deep/er/and/deeper", exist_ok=True)
os.makedirs(top + "/empty", exist_ok=True)
def put(name, data, mode=0o644, uid=0, gid=0):
    path = os.fsencode(top) + b"/" + os.fsencode(name)
    with open(path, "wb") as f:
        f.write(data)
    os.chown(path, uid, gid)
    os.chmod(path, mode)
    return path
put("plain", b"hello\n")
put("secret", os.urandom(70000), 0o600, 1000, 1000)
put("suid", b"#!/bin/sh\n", 0o4755)
put("deep/er/and/deeper/file", b"x" * 300000, 0o640, 1000, 0)
put(b"odd \xff name\n", b"odd")
put("nothing", b"")
put("\u00fcml\u00e4ut", b"utf")
os.link(top + "/plain", top + "/deep/hard")
os.symlink("../plain", top + "/deep/link")
os.symlink("/nowhere/at all", top + "/dangling")
os.setxattr(top + "/plain", "user.colour", b"gr\x00en")
os.setxattr(top + "/deep", "user.kind", b"directory")
os.mkfifo(top + "/fifo")
with open(top + "/sparse", "wb") as f:
    f.seek(5_000_000)
    f.write(b"end")
os.chmod(top + "/empty", 0o1777)
os.chown(top + "/deep/er", 1000, 1000)
os.utime(top + "/plain", ns=(1, 1_234_567_890_123_456_789))
os.utime(top + "/deep", ns=(1, 1_000_000_000_000_000_001))
"""


def python(api, box, code, *args):
    done = api.exec(box, {"argv": ["python3", "-c", code, *args], "user": "root"})
    assert done["exitCode"] == 0, done["stderr"]
    return done["stdout"]


def fill(api, box, top="/workspace/t"):
    python(api, box, FILL, top)


def listing(api, box, *tops):
    return json.loads(python(api, box, LISTING, *(tops or ("/workspace",))))


def backup(api, box, **body):
    made = api.ok("POST", f"/sandbox/{box}/backups", body)
    assert made["state"] == "ready" and made["size"] > 0 and len(made["sha256"]) == 64, made
    return made


def restore(api, box, id_, **body):
    return api.ok("POST", f"/sandbox/{box}/restore", {"backup": id_, **body})


def objects(server, word):
    """Files of the store with that in their paths; directories may go while one looks."""
    paths = (pathlib.Path(top, file) for top, _, files in os.walk(server.data / "store") for file in files)
    return sorted(path for path in paths if word in str(path))


def data_of(server, id_):
    (found,) = [p for p in objects(server, id_) if p.name.startswith("data.tar.zst")]
    return found


def sandbox(api, name, **settings):
    api.ok("PUT", f"/sandbox/{name}", settings)
    return name


@pytest.fixture
def other(api, box):
    name = sandbox(api, f"{box}-other")
    yield name
    api("DELETE", f"/sandbox/{name}")


# -- there and back


def test_directory(api, server, box):
    fill(api, box)
    before = listing(api, box, "/workspace/t")
    made = backup(api, box, dir="/workspace/t", name="first")
    assert made["kind"] == "tree" and made["name"] == "first" and made["entries"] > 10
    data = data_of(server, made["id"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == made["sha256"] and len(data) == made["size"]
    api.exec(box, {"command": "rm -rf /workspace/t/deep /workspace/t/plain; echo new > /workspace/t/new; echo stays > /opt/stays", "user": "root"})
    restore(api, box, made["id"])
    assert listing(api, box, "/workspace/t") == before
    assert api.exec(box, "cat /opt/stays")["stdout"] == "stays\n"  # what is beside it is as it was
    shown = api.ok("GET", f"/sandbox/{box}/backups")["backups"]
    assert [b["id"] for b in shown] == [made["id"]]
    assert api.ok("GET", f"/sandbox/{box}/backups/{made['id']}")["sha256"] == made["sha256"]


def test_directory_elsewhere(api, box, other):
    fill(api, box)
    made = backup(api, box, dir="/workspace/t")
    restore(api, other, made["id"], dir="/workspace/here")
    there = {k.replace("/workspace/here", "/workspace/t"): v for k, v in listing(api, other, "/workspace/here").items()}
    assert there == listing(api, box, "/workspace/t")


def test_whole_disk(api, box, other):
    fill(api, box)
    fill(api, box, "/opt/t")
    api.exec(box, {"command": "rm -f /etc/debian_version; rm -rf /etc/apt; mkdir /etc/apt; echo mine > /etc/apt/mine", "user": "root"})
    tops = ("/workspace", "/opt", "/etc/apt")
    before = listing(api, box, *tops)
    made = backup(api, box)
    assert made["kind"] == "disk" and made["dir"] is None
    api.exec(other, {"command": "echo gone > /opt/gone", "user": "root"})
    restore(api, other, made["id"])
    assert listing(api, other, *tops) == before
    assert api.exec(other, "test -e /etc/debian_version")["exitCode"] == 1
    assert listing(api, box, *tops) == before  # and the source is what it was


def test_excludes(api, box, other):
    api.exec(box, "cd /workspace && mkdir a && echo 1 > a/keep && echo 2 > a/x.log && echo 'sub/' > a/.gitignore && mkdir a/sub && echo 3 > a/sub/f")
    plain = backup(api, box, dir="/workspace/a", excludes=["*.log"])
    restore(api, other, plain["id"])
    assert set(listing(api, other, "/workspace/a")) == {f"/workspace/a{n}" for n in ("", "/keep", "/.gitignore", "/sub", "/sub/f")}
    ignoring = backup(api, box, dir="/workspace/a", excludes=["*.log"], gitignore=True)
    restore(api, other, ignoring["id"])
    assert set(listing(api, other, "/workspace/a")) == {f"/workspace/a{n}" for n in ("", "/keep", "/.gitignore")}


def test_never_wakes(api, box):
    fill(api, box)
    before = listing(api, box, "/workspace/t")
    api.ok("POST", f"/sandbox/{box}/sleep")
    made = backup(api, box, dir="/workspace/t")
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "sleeping"
    restore(api, box, made["id"])
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "sleeping"
    assert listing(api, box, "/workspace/t") == before


def test_while_it_writes(api, box, other):
    """A copy of one instant: what a program writes in order is there up to some point, and nothing behind it."""
    code = "import os\nfor i in range(10**9):\n f = open(f'/workspace/n{i % 50}', 'w'); f.write(str(i)); f.close()"
    api.start(box, {"argv": ["python3", "-c", code]})
    eventually(lambda: api.exec(box, "cat /workspace/n49")["stdout"])
    for _ in range(3):
        restore(api, other, backup(api, box, dir="/workspace")["id"])
        numbers = sorted(int(n) for n in api.exec(other, "cd /workspace && for f in n*; do cat $f; echo; done")["stdout"].split())
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers


# -- bad input


def test_refused(api, box):
    for body, words in (
        ({"dir": "workspace"}, "absolute"),
        ({"dir": "/workspace/../etc"}, "absolute"),
        ({"dir": "/"}, "leave it out"),
        ({"excludes": ["x"]}, "dir"),
        ({"ttl": "x"}, "ttl"),
        ({"dir": "/workspace", "excludes": ["x" * 1000] * 100}, "patterns"),
    ):
        api("POST", f"/sandbox/{box}/backups", body).error(400, "INVALID_REQUEST", words)
    reply = api("POST", f"/sandbox/{box}/backups", {"dir": "/workspace/none"})
    assert reply.status in (400, 404), reply
    api("POST", f"/sandbox/{box}/restore", {"backup": "bak-none"}).error(404, "NOT_FOUND")
    made = backup(api, box)
    api("POST", f"/sandbox/{box}/restore", {"backup": made["id"], "dir": "/x"}).error(400, "INVALID_REQUEST", "whole disk")
    assert api.ok("GET", f"/sandbox/{box}/backups")["backups"][0]["id"] == made["id"]


def test_ephemeral(api, server):
    name = sandbox(api, "backup-ephemeral", ephemeral=True)
    api("POST", f"/sandbox/{name}/backups", {}).error(501, "NOT_IMPLEMENTED", "ephemeral")
    api("POST", f"/sandbox/{name}/archive").error(501, "NOT_IMPLEMENTED", "ephemeral")
    api.ok("DELETE", f"/sandbox/{name}")


def test_too_large(api, box):
    api.exec(box, "dd if=/dev/urandom of=/workspace/big bs=1M count=80")
    made = backup(api, box)
    small = sandbox(api, f"{box}-small", disk="64m")
    api.exec(small, "echo kept > /workspace/kept")
    api("POST", f"/sandbox/{small}/restore", {"backup": made["id"]}).error(507, "NO_SPACE", "does not fit")
    assert api.exec(small, "cat /workspace/kept")["stdout"] == "kept\n"
    api.ok("DELETE", f"/sandbox/{small}")


def test_others(api, server, box, tenant):
    made = backup(api, box, dir="/workspace")
    tenant.ok("PUT", "/sandbox/mine", {})
    tenant("POST", "/sandbox/mine/restore", {"backup": made["id"]}).error(404, "NOT_FOUND")
    tenant("GET", f"/backups/{made['id']}").error(404, "NOT_FOUND")
    tenant("DELETE", f"/backups/{made['id']}").error(404, "NOT_FOUND")
    tenant("DELETE", f"/sandbox/mine/backups/{made['id']}").error(404, "NOT_FOUND")
    assert tenant.ok("GET", "/backups")["backups"] == []
    theirs = backup(tenant, "mine", dir="/workspace")
    assert [b["id"] for b in tenant.ok("GET", "/backups")["backups"]] == [theirs["id"]]
    assert theirs["id"] not in [b["id"] for b in api.ok("GET", "/backups")["backups"]]
    assert tenant.name in str(data_of(server, theirs["id"]))
    tenant.ok("DELETE", "/sandbox/mine")
    tenant.ok("DELETE", f"/backups/{theirs['id']}")  # it outlived the sandbox
    eventually(lambda: not objects(server, theirs["id"]))


# -- objects that are not what they were


def cut(path, _):
    os.truncate(path, path.stat().st_size // 2)


def change(path, _):
    with open(path, "r+b") as f:
        f.seek(path.stat().st_size // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 1]))


def swap(path, another):
    keep = os.getxattr(another, "user.cay.object")
    path.write_bytes(another.read_bytes())
    os.setxattr(path, "user.cay.object", keep)


def longer(path, _):
    with open(path, "ab") as f:
        f.write(b"\0" * 100)


def lose(path, _):
    path.unlink()


@pytest.mark.parametrize("dir_", ["/workspace/t", None])
def test_damaged(api, server, box, dir_):
    fill(api, box)
    body = {} if dir_ is None else {"dir": dir_}
    harms = [cut, change, swap, longer, lose]
    made = [backup(api, box, **body)["id"] for _ in harms]
    another = backup(api, box, dir="/workspace/t", excludes=["secret"])["id"]
    api.exec(box, {"command": "echo later > /workspace/t/later", "user": "root"})
    before = listing(api, box)
    for harm, id_ in zip(harms, made):
        harm(data_of(server, id_), data_of(server, another))
        api("POST", f"/sandbox/{box}/restore", {"backup": id_}).error(500, "STORE_DAMAGED")
        assert listing(api, box) == before, harm.__name__
    for id_ in (*made, another):
        api.ok("DELETE", f"/sandbox/{box}/backups/{id_}")


# -- the end of backups


def test_delete(api, server, box):
    made = backup(api, box, dir="/workspace")
    assert len(objects(server, made["id"])) == 2
    api.ok("DELETE", f"/sandbox/{box}/backups/{made['id']}")
    api("GET", f"/sandbox/{box}/backups/{made['id']}").error(404, "NOT_FOUND")
    api("DELETE", f"/sandbox/{box}/backups/{made['id']}").error(404, "NOT_FOUND")
    eventually(lambda: not objects(server, made["id"]))


def test_ttl(api, server, box):
    made = backup(api, box, dir="/workspace", ttl=2)
    kept = backup(api, box, dir="/workspace", ttl="1h")
    assert made["expiresAt"] and kept["expiresAt"] > made["expiresAt"]
    eventually(lambda: not objects(server, made["id"]))
    assert [b["id"] for b in api.ok("GET", f"/sandbox/{box}/backups")["backups"]] == [kept["id"]]
    api("POST", f"/sandbox/{box}/restore", {"backup": made["id"]}).error(404, "NOT_FOUND")


def test_pages(api, box):
    made = [backup(api, box, dir="/workspace", name=str(i))["id"] for i in range(3)]
    first = api.ok("GET", f"/sandbox/{box}/backups?limit=2")
    assert [b["id"] for b in first["backups"]] == made[:0:-1] and first["next"] == made[1]
    second = api.ok("GET", f"/sandbox/{box}/backups?limit=2&before={first['next']}")
    assert [b["id"] for b in second["backups"]] == made[:1] and second["next"] is None


# -- archives


def test_archive(api, server, box):
    fill(api, box)
    before = listing(api, box)
    done = api.ok("POST", f"/sandbox/{box}/archive")
    assert done["bytes"] > 0
    shown = api.ok("GET", f"/sandbox/{box}")
    assert shown["archived"] is True and shown["status"] == "sleeping"
    assert api.ok("POST", f"/sandbox/{box}/archive")["backup"] == done["backup"]
    api("POST", f"/sandbox/{box}/backups", {}).error(409, "CONFLICT", "archived")
    api("DELETE", f"/sandbox/{box}/backups/{done['backup']}").error(409, "CONFLICT", "only copy")
    assert listing(api, box) == before
    assert api.ok("GET", f"/sandbox/{box}")["archived"] is False
    eventually(lambda: not objects(server, done["backup"]))


def test_archive_goes_with_its_sandbox(api, server):
    name = sandbox(api, "backup-gone")
    api.exec(name, "echo x > /workspace/x")
    done = api.ok("POST", f"/sandbox/{name}/archive")
    assert objects(server, done["backup"])
    api.ok("DELETE", f"/sandbox/{name}")
    eventually(lambda: not objects(server, done["backup"]))
    assert done["backup"] not in [b["id"] for b in api.ok("GET", "/backups")["backups"]]


def test_archive_after(api, server):
    name = sandbox(api, "backup-idle", archiveAfter=1)
    api.exec(name, "echo x > /workspace/x")
    assert api.ok("GET", f"/sandbox/{name}")["archiveAfter"] == 1
    time.sleep(1.5)  # it is awake, and stays here
    assert api.ok("GET", f"/sandbox/{name}")["archived"] is False
    api.ok("POST", f"/sandbox/{name}/sleep")
    eventually(lambda: api.ok("GET", f"/sandbox/{name}")["archived"])
    api.ok("PATCH", f"/sandbox/{name}", {"archiveAfter": None})
    assert api.exec(name, "cat /workspace/x")["stdout"] == "x\n"
    api.ok("DELETE", f"/sandbox/{name}")


def test_damaged_archive(api, server, box):
    """What cannot be brought back is not made up: the sandbox stays as it is, and says why."""
    api.exec(box, "echo x > /workspace/x")
    path = data_of(server, api.ok("POST", f"/sandbox/{box}/archive")["backup"])
    good = path.read_bytes()
    change(path, None)
    reply = api("POST", f"/sandbox/{box}/exec", {"command": "true"})
    assert reply.status >= 500, reply
    assert api.ok("GET", f"/sandbox/{box}")["archived"] is True
    with open(path, "r+b") as f:
        f.write(good)
    assert api.exec(box, "cat /workspace/x")["stdout"] == "x\n"


@pytest.fixture(scope="module")
def harmed(top):
    """A server whose daemon is killed, and whose store is taken away; each test leaves its store as it was."""
    need_root()
    os.mkdir(f"{top}/harmed")
    server = Server(f"{top}/harmed", "--drain", "1s")
    yield server
    assert server.stop() == 0
    assert server.faults() == []


def no_backups(server):
    return not objects(server, "backups")


def test_killed_while_archiving(harmed):
    api = Client(harmed)
    box = sandbox(api, "archived-victim")
    fill(api, box)
    before = listing(api, box)
    for i in range(3):
        ended = threading.Event()

        def go():
            with contextlib.suppress(OSError, http.client.HTTPException):
                api("POST", f"/sandbox/{box}/archive")
            ended.set()

        threading.Thread(target=go).start()
        time.sleep(random.Random(i).random() * 0.4)
        kill_daemon(harmed, api)
        ended.wait()
        assert listing(api, box) == before, i
    api.ok("DELETE", f"/sandbox/{box}")
    eventually(lambda: no_backups(harmed))


def test_killed_while_backing_up(harmed):
    api = Client(harmed)
    box = sandbox(api, "backed-up-victim")
    api.exec(box, "dd if=/dev/urandom of=/workspace/big bs=1M count=40")
    before = listing(api, box)
    thread = threading.Thread(target=lambda: pytest.raises(Exception, api, "POST", f"/sandbox/{box}/backups", {}))
    thread.start()
    eventually(lambda: api.ok("GET", f"/sandbox/{box}/backups")["backups"])
    kill_daemon(harmed, api)
    thread.join()
    eventually(lambda: api.ok("GET", f"/sandbox/{box}/backups")["backups"] == [])
    eventually(lambda: no_backups(harmed))
    assert listing(api, box) == before
    made = backup(api, box)
    restore(api, box, made["id"])
    assert listing(api, box) == before
    api.ok("DELETE", f"/sandbox/{box}/backups/{made['id']}")
    api.ok("DELETE", f"/sandbox/{box}")


def test_stopped_while_busy(harmed):
    """Nobody waits for what is under way: it is given up, and nothing is left of it."""
    server, api = harmed, Client(harmed)
    box = sandbox(api, "busy")
    api.exec(box, "dd if=/dev/urandom of=/workspace/big bs=1M count=60")
    data = export(api, box, "?dir=/workspace")
    before = listing(api, box)
    headers, body = api.head(None, {"dir": "/workspace"})
    connections = []
    for method, path, sent in (("POST", "backups", body), ("GET", "export", None), ("POST", "import", data[:1_000_000])):
        connections.append(api.connect())
        more = {"Content-Length": str(len(data))} if path == "import" else {}
        connections[-1].request(method, f"/sandbox/{box}/{path}", sent, {**headers, **more})
    assert server.stop() == 0
    assert server.faults() == []
    for connection in connections:
        connection.close()
    server.start()
    assert all(b["state"] == "ready" for b in api.ok("GET", f"/sandbox/{box}/backups")["backups"])
    assert listing(api, box) == before


# -- a store that does not work


def test_store_down(harmed):
    server, api = harmed, Client(harmed)
    box = sandbox(api, "goes-on")
    fill(api, box)
    before = listing(api, box)
    made = backup(api, box)
    eventually(lambda: api.ok("GET", "/health")["store"] == {"kind": "local", "ok": True})
    store = server.data / "store"
    away = server.data / "store-away"
    os.rename(store, away)  # the daemon has the directory open: nobody may enter any more
    owner = away.stat()
    os.chown(away, 0, 0)
    os.chmod(away, 0o700)
    try:
        api("POST", f"/sandbox/{box}/backups", {}).error(503, "STORE_UNAVAILABLE")
        assert listing(api, box) == before
        health = eventually(lambda: (h := api.ok("GET", "/health"))["store"]["ok"] is False and h)
        assert health["ok"] is True and health["store"]["error"]
        api("POST", f"/sandbox/{box}/restore", {"backup": made["id"]}).error(503, "STORE_UNAVAILABLE")
        api("POST", f"/sandbox/{box}/archive").error(503, "STORE_UNAVAILABLE")
        assert listing(api, box) == before
        api.ok("DELETE", f"/sandbox/{box}/backups/{made['id']}")
    finally:
        os.chown(away, owner.st_uid, owner.st_gid)
        os.rename(away, store)
    eventually(lambda: api.ok("GET", "/health")["store"]["ok"])
    eventually(lambda: not objects(server, made["id"]))  # it was not forgotten
    backup(api, box)
    assert "cay_store_ok 1" in api("GET", "/metrics").body.decode()


# -- exports and imports


def unzstd(data):
    return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout


def export(api, box, query=""):
    reply = api("GET", f"/sandbox/{box}/export{query}")
    assert reply.status == 200, reply
    assert reply.headers["Content-Type"] == "application/zstd"
    return reply.body


@pytest.mark.parametrize("dir_", ["/workspace/t", None])
def test_export_import(api, box, other, dir_):
    fill(api, box)
    query = f"?dir={dir_}" if dir_ else ""
    data = export(api, box, query)
    sha = hashlib.sha256(data).hexdigest()
    api.ok("POST", f"/sandbox/{other}/import{query}{'&' if query else '?'}sha256={sha}", data)
    assert listing(api, other, "/workspace/t") == listing(api, box, "/workspace/t")
    changed = data[:-1] + bytes([data[-1] ^ 1])
    before = listing(api, other)
    api("POST", f"/sandbox/{other}/import{query}{'&' if query else '?'}sha256={sha}", changed).error(400, "INVALID_REQUEST")
    reply = api("POST", f"/sandbox/{other}/import{query}", data[: len(data) // 2])
    assert reply.status == 400, reply
    assert listing(api, other) == before


def test_large_import(api, box, other):
    """More than is kept in memory on the way, with and without a length."""
    api.exec(box, "dd if=/dev/urandom of=/workspace/big bs=1M count=20")
    data = export(api, box, "?dir=/workspace")
    sha = hashlib.sha256(data).hexdigest()
    want = api.exec(box, "sha256sum /workspace/big")["stdout"]
    for body in (data, iter([data[:1000], data[1000:]])):
        api.exec(other, "rm -f /workspace/big")
        reply = api("POST", f"/sandbox/{other}/import?dir=/workspace&sha256={sha}", body)
        assert reply.status == 200, reply
        assert api.exec(other, "sha256sum /workspace/big")["stdout"] == want


def tar_of(n):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(n):
            info = tarfile.TarInfo(f"f{i}")
            info.size = 1024
            tar.addfile(info, io.BytesIO(b"x" * 1024))
    return out.getvalue()


def begin_import(api, box, query, data, sent):
    """An import whose body does not come to its end; the connection."""
    connection = api.connect()
    headers, _ = api.head({"Content-Length": str(len(data))}, None)
    connection.putrequest("POST", f"/sandbox/{box}/import{query}")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders(data[:sent])
    time.sleep(0.5)
    return connection


def test_cut_import(api, box):
    """A client that goes before its archive is whole: a plain tar does not tell by itself."""
    api.exec(box, "echo before > /workspace/f")
    before = listing(api, box)
    data = tar_of(400)
    for query in ("?dir=/workspace", ""):
        begin_import(api, box, query, data, 300 * 1536).close()
        assert listing(api, box) == before


def test_others_do_not_wait_for_one(api, server, box, tenant):
    """Who lets all he does wait for a sandbox of his own has no more than his share of the turns."""
    tenant.ok("PUT", "/sandbox/mine", {})
    theirs = backup(tenant, "mine", dir="/workspace")["id"]
    connection = begin_import(tenant, "mine", "?dir=/workspace", tar_of(400), 300 * 1536)
    client = lambda: Client(server, tenant.token)
    waiting = [lambda: client()("POST", "/sandbox/mine/restore", {"backup": theirs})] * 6
    waiting += [lambda: client()("POST", "/sandbox/mine/archive")] * 6
    threads = [threading.Thread(target=ask, daemon=True) for ask in waiting]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    mine = backup(api, box, dir="/workspace")
    assert restore(api, box, mine["id"])["success"]
    connection.close()
    for thread in threads:
        thread.join()


def hostile(kind):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        if kind == "up":
            info = tarfile.TarInfo("../../etc/up")
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
        elif kind == "through":
            info = tarfile.TarInfo("link")
            info.type, info.linkname = tarfile.SYMTYPE, "/etc"
            tar.addfile(info)
            info = tarfile.TarInfo("link/through")
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
        elif kind == "device":
            info = tarfile.TarInfo("sda")
            info.type, info.devmajor, info.devminor = tarfile.BLKTYPE, 8, 0
            tar.addfile(info)
    return out.getvalue() if kind != "noise" else os.urandom(100_000)


@pytest.mark.parametrize("kind", ["up", "through", "device", "noise"])
def test_hostile_import(api, box, kind):
    api.exec(box, "echo before > /workspace/f")
    before = listing(api, box, "/workspace", "/etc")
    reply = api("POST", f"/sandbox/{box}/import?dir=/workspace", hostile(kind))
    assert reply.status == 400, reply
    assert listing(api, box, "/workspace", "/etc") == before


def test_export_refused(api, box):
    api("GET", f"/sandbox/{box}/export?dir=x").error(400, "INVALID_REQUEST", "absolute")
    assert api("GET", f"/sandbox/{box}/export?dir=/workspace/none").status in (400, 404)
    api("GET", f"/sandbox/{box}/export?exclude=a").error(400, "INVALID_REQUEST", "dir")
    api("POST", f"/sandbox/{box}/import?sha256=x", b"x").error(400, "INVALID_REQUEST", "sha256")
    names = tarfile.open(fileobj=io.BytesIO(unzstd(export(api, box, "?dir=/workspace")))).getnames()
    assert all(".." not in n for n in names)


def test_gone_reader(api, box):
    """Whoever does not want the rest of an export holds nothing up."""
    api.exec(box, "dd if=/dev/urandom of=/workspace/big bs=1M count=30")
    for _ in range(3):
        connection = api.connect()
        headers, _body = api.head(None, None)
        connection.request("GET", f"/sandbox/{box}/export?dir=/workspace", headers=headers)
        response = connection.getresponse()
        assert response.status == 200 and response.read(1000)
        connection.sock.close()
        response.close()
        connection.close()
    assert len(export(api, box, "?dir=/workspace")) > 30_000_000


def test_many_at_once(api, box, other):
    fill(api, box)
    made = at_once(*(lambda: backup(api, box, dir="/workspace/t") for _ in range(8)))
    assert len({m["id"] for m in made}) == 8
    at_once(*(lambda id_=m["id"]: restore(api, other, id_) for m in made))
    assert listing(api, other, "/workspace/t") == listing(api, box, "/workspace/t")
    for m in made:
        api.ok("DELETE", f"/sandbox/{box}/backups/{m['id']}")
