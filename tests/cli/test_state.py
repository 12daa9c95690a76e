# SPDX-License-Identifier: Apache-2.0
"""What stays of sandboxes: how the commands ask and what they say (with a stand-in), and all of it against a real server."""

import hashlib
import io
import json
import os
import subprocess
import tarfile

import pytest
from cli_helpers import refused, rows
from pty_helpers import Pty
from standin import answer, chunked
from test_completion import complete

SNAPSHOT = {"id": "snap-1", "name": "before", "bytes": 3 << 20, "createdAt": "2026-01-02T03:04:05.000Z"}
BACKUP = {
    "id": "bak-1", "sandboxId": "a", "kind": "tree", "dir": "/workspace", "name": None, "size": 1 << 20,
    "createdAt": "2026-01-02T03:04:05.000Z", "expiresAt": None,
}  # fmt: skip


def play_json(standin, body, status="200 OK"):
    standin.play(answer(json.dumps(body).encode(), status=status))


def asked(standin):
    """The last request: method, target, and its body's JSON."""
    request = standin.requests[-1]
    return request.method, request.target, json.loads(request.body) if request.body else None


def events(*pairs, end=True):
    return chunked(*(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode() for name, data in pairs), end=end)


# -- what is asked, and what is said


@pytest.mark.parametrize(
    "command, reply, wanted, said",
    [
        (["snapshot", "a"], SNAPSHOT, ("POST", "/sandbox/a/snapshots", {}), "snap-1\n"),
        (["snapshot", "a", "x y"], SNAPSHOT, ("POST", "/sandbox/a/snapshots", {"name": "x y"}), "snap-1\n"),
        (["snapshot rm", "a", "snap-2"], {}, ("DELETE", "/sandbox/a/snapshots/snap-2", None), ""),
        (["snapshots", "a", "-q"], {"snapshots": [SNAPSHOT]}, ("GET", "/sandbox/a/snapshots", None), "snap-1\n"),
        (["rollback", "a", "s"], {}, ("POST", "/sandbox/a/rollback", {"snapshot": "s"}), ""),
        (["fork", "a"], {"sandboxes": [{"sandboxId": "k"}]}, ("POST", "/sandbox/a/fork", {}), "k\n"),
        (["fork", "a", "b", "-s", "s"], {"sandboxes": [{"sandboxId": "b"}]},
         ("POST", "/sandbox/a/fork", {"id": "b", "snapshot": "s"}), "b\n"),
        (["fork", "a", "-n", "2"], {"sandboxes": [{"sandboxId": "k"}, {"sandboxId": "l"}]},
         ("POST", "/sandbox/a/fork", {"count": 2}), "k\nl\n"),
        (["backup", "a"], BACKUP, ("POST", "/sandbox/a/backups", {}), "bak-1\n"),
        (["backup", "a", "/d", "-n", "n", "-t", "30d", "-x", "*.o", "-x", "b", "-g"], BACKUP,
         ("POST", "/sandbox/a/backups",
          {"dir": "/d", "name": "n", "ttl": "30d", "excludes": ["*.o", "b"], "gitignore": True}), "bak-1\n"),
        (["backup rm", "b/c"], {}, ("DELETE", "/backups/b%2Fc", None), ""),
        (["restore", "a", "b"], {}, ("POST", "/sandbox/a/restore", {"backup": "b"}), ""),
        (["restore", "a", "b", "/d"], {}, ("POST", "/sandbox/a/restore", {"backup": "b", "dir": "/d"}), ""),
        (["archive", "a"], {"bytes": 2 << 20}, ("POST", "/sandbox/a/archive", None), "2 MiB\n"),
        (["stored get", "a", "d/f g"], {"x": 1}, ("GET", "/sandbox/a/stored/d/f%20g", None), '{"x": 1}'),
        (["stored rm", "a", "d/f"], {}, ("DELETE", "/sandbox/a/stored/d/f", None), ""),
        (["create", "a", "--restore", "--sync", "--durable", "--archive-after", "7d", "--snapshot", "s"],
         {"sandboxId": "a"},
         ("POST", "/sandbox",
          {"id": "a", "restore": True, "sync": True, "durable": True, "archiveAfter": "7d", "snapshot": "s"}), "a\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_requests(standin, command, reply, wanted, said):
    play_json(standin, reply)
    assert standin.cli.ok(*command) == said
    assert asked(standin) == wanted
    if not command[0].startswith("stored get"):
        assert json.loads(standin.cli.ok(*[w for w in command if w != "-q"], "--json")) == reply


@pytest.mark.parametrize(
    "command, words",
    [
        (["snapshot"], ["an ID"]),
        (["snapshot rm", "a"], ["SNAPs"]),
        (["snapshots"], ["one ID"]),
        (["rollback", "a"], ["cay snapshots"]),
        (["fork", "a", "-n", "0"], ["--count"]),
        (["fork", "a", "-n", "1001"], ["1000"]),
        (["backup", "a", "--ttl", "soon"], ["--ttl", "soon"]),
        (["restore", "a"], ["cay backups"]),
        (["sync"], ["one ID"]),
        (["archive"], ["ID"]),
        (["import", "a", "b", "c"], ["FILE"]),
        (["export", "a", "-x", "a,b"], ["--exclude", "comma"]),
        (["stored walk"], ["walk"]),
    ],
)
def test_command_lines_that_make_no_sense(standin, command, words):
    play_json(standin, {})
    refused(standin.cli.run(*command), 2, *words)
    assert standin.requests == []


def test_lists(standin):
    play_json(standin, {"snapshots": [SNAPSHOT, dict(SNAPSHOT, id="snap-2", name=None)]})
    table = rows(standin.cli.ok("snapshots", "a"))
    assert [row[:4] for row in table] == [["snap-1", "before", "3", "MiB"], ["snap-2", "-", "3", "MiB"]]
    play_json(standin, {"backups": [BACKUP, dict(BACKUP, dir=None, kind="disk", name="n", expiresAt="2027-01-01T00:00:00Z")]})
    assert standin.cli.ok("backups", "a", "-q") == "bak-1\nbak-1\n"
    assert asked(standin)[1] == "/backups?sandbox=a&limit=1000"
    table = rows(standin.cli.ok("backups"))
    assert asked(standin)[1] == "/backups?limit=1000"
    assert standin.cli.json("backups")[0] == BACKUP
    assert table[0][:4] == ["bak-1", "a", "/workspace", "-"] and table[0][-1] == "-"
    assert table[1][:4] == ["bak-1", "a", "disk", "n"] and table[1][-1] == "2027-01-01T00:00:00Z"


def test_snapshots_by_name(standin):
    """The newest of that name; what is no name goes to the server as it is."""
    older = dict(SNAPSHOT, id="snap-0")
    play_json(standin, {"snapshots": [older, SNAPSHOT, dict(SNAPSHOT, id="snap-2", name="x")]})
    standin.cli.ok("rollback", "a", "before")
    assert asked(standin) == ("POST", "/sandbox/a/rollback", {"snapshot": "snap-1"})
    standin.cli.ok("fork", "a", "-s", "x")
    assert asked(standin) == ("POST", "/sandbox/a/fork", {"snapshot": "snap-2"})
    standin.cli.ok("snapshot rm", "a", "before")
    assert asked(standin)[:2] == ("DELETE", "/sandbox/a/snapshots/snap-1")
    standin.cli.ok("rollback", "a", "nobody")
    assert asked(standin)[2] == {"snapshot": "nobody"}
    standin.requests.clear()
    standin.cli.ok("rollback", "a", "snap-1")
    assert len(standin.requests) == 1  # an id needs no looking up


def test_archived_ones_in_the_list(standin):
    box = {"id": "a", "status": "sleeping", "image": "host", "archived": True}
    play_json(standin, {"sandboxes": [box, dict(box, id="b", archived=False)], "next": None})
    assert [row[:2] for row in rows(standin.cli.ok("ls"))] == [["a", "archived"], ["b", "sleeping"]]


def test_du(standin):
    row = {"sandboxId": "a", "tenant": "t", "status": "running", "disk": 5 << 30, "snapshots": 0, "stored": 1 << 20, "backups": 0}
    body = {
        "sandboxes": [row, dict(row, sandboxId="b", status="gone", disk=0)],
        "volume": {"size": 64 << 30, "used": 6 << 30, "writable": 50 << 30},
        "store": {"kind": "local", "workspaces": 2 << 20, "backups": 0, "archives": 0, "results": 0},
    }
    play_json(standin, body)
    text = standin.cli.ok("du")
    assert text.splitlines()[1].split() == ["a", "running", "5", "GiB", "-", "1", "MiB", "-", "-"]
    assert text.splitlines()[2].split() == ["b", "gone", "-", "-", "1", "MiB", "-", "-"]
    assert "volume: 6 GiB of 64 GiB held, 50 GiB can still be written" in text
    assert "store (local): synced 2 MiB" in text
    assert asked(standin)[1] == "/du"
    assert standin.cli.ok("du", "-a").splitlines()[1].split()[:2] == ["t", "a"]
    assert asked(standin)[1] == "/du?all=true"
    assert standin.cli.json("du") == body


def test_nothing_of_them_moves_the_cursor(standin):
    evil = "\x1b[2J\x07\u202egnp"
    outputs = []
    for command, body in (
        (["snapshots", "a"], {"snapshots": [dict(SNAPSHOT, id=evil, name=evil)]}),
        (["snapshots", "a", "-q"], {"snapshots": [dict(SNAPSHOT, id=evil)]}),
        (["backups"], {"backups": [dict(BACKUP, id=evil, sandboxId=evil, dir=evil, name=evil, expiresAt=evil)]}),
        (["fork", "a"], {"sandboxes": [{"sandboxId": evil}]}),
        (["snapshot", "a"], {"id": evil}),
        (["du"], {"sandboxes": [{"sandboxId": evil, "status": evil}], "store": {"kind": evil}}),
        (["stored ls", "a"], {"files": [{"path": evil, "size": 1, "modified": evil}]}),
        (["sync", "a", "-s"], {"state": evil, "error": evil}),
    ):
        play_json(standin, body)
        outputs.append(standin.cli.ok(*command))
        outputs.append(standin.cli.ok(*[w for w in command if w != "-q"], "--json"))
    standin.play(events(("error", {"error": evil})))
    outputs.append(standin.cli.run("sync", "a").stderr.decode())
    for text in outputs:
        assert not [c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160], text
        assert "\u202e" not in text


# -- sync

DONE = {"files": 3, "bytes": 2048, "put": 2, "putBytes": 1024, "deleted": 1, "durationMs": 5}


def test_sync(standin):
    standin.play(events(("progress", {"seen": 1, "put": 0, "putBytes": 0}), ("done", DONE)))
    assert standin.cli.ok("sync", "a", "-i", "*.c", "-x", "b", "-g") == "3 files, 2 KiB: 2 sent (1 KiB), 1 deleted\n"
    method, target, body = asked(standin)
    assert (method, target) == ("POST", "/sandbox/a/sync")
    assert body == {"include": ["*.c"], "exclude": ["b"], "gitignore": True, "stream": True}
    assert standin.requests[-1].headers["accept"] == "text/event-stream"
    assert standin.cli.json("sync", "a") == DONE


def test_sync_shows_how_far_it_is_on_a_terminal(standin):
    standin.play(events(("progress", {"seen": 7, "put": 2, "putBytes": 2048}), ("done", DONE)))
    with Pty(standin.cli.command("sync", "a")) as terminal:
        terminal.until("7 files seen, 2 sent (2 KiB)")
        terminal.until("3 files, 2 KiB")
        assert terminal.end() == 0


def test_sync_that_fails(standin):
    standin.play(events(("progress", {"seen": 1}), ("error", {"error": "the store is down", "error_code": "STORE_UNAVAILABLE"})))
    refused(standin.cli.run("sync", "a"), 125, "the store is down")
    assert len(standin.requests) == 1  # what failed is not begun again behind one's back
    standin.play(events(("progress", {"seen": 1}), end=False))
    refused(standin.cli.run("sync", "a"), 125, "cay sync a --status")
    assert len(standin.requests) == 1
    play_json(standin, {"error": "no such sandbox", "error_code": "NOT_FOUND"}, status="404 Not Found")
    assert "status" not in refused(standin.cli.run("sync", "a"), 125, "no such sandbox")


def test_sync_status(standin):
    play_json(standin, {"state": "never", "syncedAt": None, "files": 0, "bytes": 0})
    assert standin.cli.ok("sync", "a", "-s") == "never\n"
    play_json(standin, {"state": "failed", "error": "the store is down", "syncedAt": "2026-01-02T03:04:05Z", "files": 2, "bytes": 1024})
    text = standin.cli.ok("sync", "a", "--status")
    assert text.startswith("failed: the store is down; 2 files, 1 KiB stored ")
    assert asked(standin) == ("GET", "/sandbox/a/sync", None)
    play_json(standin, {"state": "failed", "error": "it is down", "syncedAt": None, "retryAt": "2026-01-02T03:04:05Z", "files": 0, "bytes": 0})
    assert standin.cli.ok("sync", "a", "--status") == "failed: it is down; it is tried again\n"


def test_pages_of_stored_files(standin):
    def page(request, _):
        after = request.target.split("after=")[1].split("&")[0] if "after=" in request.target else ""
        names = [n for n in "abcde" if n > after][:2]
        body = {"files": [{"path": n, "size": 1} for n in names]}
        return [answer(json.dumps({**body, "next": names[-1]} if names[-1] < "e" else body).encode())]

    standin.answer = page
    assert [row[0] for row in rows(standin.cli.ok("stored ls", "x"))] == list("abcde")
    assert [f["path"] for f in standin.cli.json("stored ls", "x", "p/")] == list("abcde")
    assert "prefix=p%2F" in standin.requests[-1].target
    play_json(standin, {"files": [], "next": "a"})
    assert standin.cli.run("stored ls", "x").returncode == 125  # a list that goes round


# -- export and import

TAR = b"not really an archive" * 1000


def test_export(standin, tmp_path):
    standin.play(chunked(TAR[:100], TAR[100:], content_type="application/zstd"))
    done = standin.cli.run("export", "a", "/w", "-x", "*.o", "-x", "b c", "-g")
    assert (done.returncode, done.stdout, done.stderr) == (0, TAR, b"")
    assert asked(standin)[1] == "/sandbox/a/export?dir=%2Fw&exclude=%2A.o%2Cb%20c&gitignore=true"
    assert standin.cli.ok("export", "a", "-o", tmp_path / "x") == ""
    assert (tmp_path / "x").read_bytes() == TAR and os.listdir(tmp_path) == ["x"]


def test_export_that_is_cut(standin, tmp_path):
    """What came is not taken for an archive, and a file that was there stays."""
    (tmp_path / "x").write_text("the last one")
    for pieces in (
        [chunked(TAR, content_type="application/zstd", end=False)],
        [chunked(TAR, content_type="application/zstd", end=False), standin.RESET],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + TAR[:20000]],
    ):
        standin.play(*pieces)
        done = standin.cli.run("export", "a")
        assert done.returncode == 125 and b"not a whole archive" in done.stderr
        refused(standin.cli.run("export", "a", "-o", tmp_path / "x"), 125)
        assert (tmp_path / "x").read_text() == "the last one" and os.listdir(tmp_path) == ["x"]


def test_export_is_not_for_a_terminal(standin):
    with Pty(standin.cli.command("export", "a")) as terminal:
        assert terminal.end() == 2
        assert b"> FILE" in terminal.all and standin.requests == []
    with Pty(standin.cli.command("import", "a")) as terminal:
        assert terminal.end() == 2
        assert b"< FILE" in terminal.all and standin.requests == []


def body_of(request):
    """What was sent in chunks, or with a length."""
    if request.headers.get("transfer-encoding") != "chunked":
        return request.body
    data, out = request.body, b""
    while data:
        size, data = data.split(b"\r\n", 1)
        out, data = out + data[: int(size, 16)], data[int(size, 16) + 2 :]
    return out


def test_import_makes_what_is_not_there(standin, tmp_path):
    (tmp_path / "x.tar.zst").write_bytes(TAR)

    def play(request, _):
        if request.method == "GET":
            return [answer(b'{"error":"no","error_code":"NOT_FOUND"}', status="404 Not Found")]
        return [answer(b'{"success":true,"sandboxId":"made"}')]

    standin.answer = play
    assert standin.cli.ok("import", tmp_path / "x.tar.zst", "-i", "debian") == "made\n"
    assert [(r.method, r.target) for r in standin.requests] == [("POST", "/sandbox"), ("POST", "/sandbox/made/import")]
    assert json.loads(standin.requests[0].body) == {"image": "debian"} and standin.requests[1].body == TAR
    standin.requests.clear()
    assert standin.cli.ok("import", "a", tmp_path / "x.tar.zst", "-d", "/w", "--sha256", "00") == "made\n"
    assert [(r.method, r.target) for r in standin.requests] == [
        ("GET", "/sandbox/a"), ("POST", "/sandbox"), ("POST", "/sandbox/made/import?dir=%2Fw&sha256=00")
    ]  # fmt: skip


def test_import_into_one_that_is_there(standin):
    play_json(standin, {"success": True})
    assert standin.cli.ok("import", "a", input=b"") == "a\n"
    assert [r.method for r in standin.requests] == ["GET", "POST"]
    assert standin.requests[1].target == "/sandbox/a/import"


def test_import_that_is_refused_leaves_nothing(standin, tmp_path):
    (tmp_path / "x.tar").write_bytes(TAR)

    def play(request, _):
        if request.target.endswith("/import"):
            return [answer(b'{"error":"no archive","error_code":"INVALID_ARCHIVE"}', status="400 Bad Request")]
        return [answer(b'{"success":true,"sandboxId":"made"}')]

    standin.answer = play
    refused(standin.cli.run("import", tmp_path / "x.tar"), 125, "no archive")
    assert (standin.requests[-1].method, standin.requests[-1].target) == ("DELETE", "/sandbox/made")
    standin.requests.clear()
    refused(standin.cli.run("import", "mine", tmp_path / "x.tar"), 125, "no archive")
    assert [r.method for r in standin.requests] == ["GET", "POST"]  # one that was there stays
    refused(standin.cli.run("import", tmp_path / "none.tar"), 125, "none.tar")


# -- completion


def test_completion(standin):
    play_json(standin, {"sandboxes": [{"id": "box"}], "snapshots": [SNAPSHOT], "backups": [BACKUP], "next": None})
    flags = ["--data", standin.cli.data]
    assert complete("snapshot", *flags, "") == {"rm", "box"}
    assert complete("snapshot", "rm", *flags, "") == {"box"}
    assert complete("snapshot", "rm", *flags, "box", "snap-0", "") == {"snap-1"}
    assert complete("rollback", *flags, "box", "") == {"snap-1"}
    assert complete("restore", *flags, "box", "b") == {"bak-1"}
    assert complete("backup", "rm", *flags, "bak-0", "") == {"bak-1"}
    assert complete("fork", *flags, "") == complete("sync", *flags, "") == {"box"}
    assert complete("stored", "") == {"ls", "get", "put", "rm"}
    assert complete("stored", "ls", *flags, "b") == {"box"}
    assert complete("snapshot", *flags, "box", "rm") == set()  # a name now, not a command


# -- a real server


def write(cli, sandbox, path, text):
    cli.ok("write", f"{sandbox}:{path}", input=text.encode())


def test_back_to_a_snapshot(cli, sandbox):
    write(cli, sandbox, "/workspace/f", "one")
    snapshot = cli.ok("snapshot", sandbox, "first").strip()
    write(cli, sandbox, "/workspace/f", "two")
    assert [row[:2] for row in rows(cli.ok("snapshots", sandbox))] == [[snapshot, "first"]]
    assert cli.ok("rollback", sandbox, snapshot) == ""
    assert cli.ok("cat", f"{sandbox}:/workspace/f") == "one"
    assert cli.ok("snapshot rm", sandbox, snapshot) == ""
    assert cli.json("snapshots", sandbox)["snapshots"] == []
    refused(cli.run("rollback", sandbox, snapshot), 125, snapshot)


def test_forks(cli, sandbox):
    write(cli, sandbox, "/workspace/f", "mine")
    names = cli.ok("fork", sandbox, "-n", "3").split()
    assert len(set(names)) == 3
    for name in names:
        cli.ok("exec", name, "-c", f"echo {name} > /workspace/g")
        assert cli.ok("cat", f"{name}:/workspace/f") == "mine"
    assert cli.run("cat", f"{sandbox}:/workspace/g").returncode != 0
    cli.ok("rm", *names)
    assert cli.ok("fork", sandbox, f"{sandbox}-child") == f"{sandbox}-child\n"
    cli.ok("rm", f"{sandbox}-child")
    assert cli.ok("fork", sandbox, f"{sandbox}-try", "-n", "2").split() == [f"{sandbox}-try-1", f"{sandbox}-try-2"]
    cli.ok("rm", f"{sandbox}-try-1", f"{sandbox}-try-2")


def test_sync_and_stored(cli, sandbox):
    cli.ok("exec", sandbox, "-c", "cd /workspace; mkdir d; echo a > d/a; echo b > b.log; echo d/a > .gitignore")
    assert cli.ok("sync", sandbox, "-s") == "never\n"
    first = cli.json("sync", sandbox, "-x", "*.log")
    assert first["put"] == first["files"] == 2
    assert cli.json("sync", sandbox)["put"] == 0
    assert cli.ok("sync", sandbox, "-s").startswith("done; 2 files")
    assert [row[0] for row in rows(cli.ok("stored ls", sandbox))] == [".gitignore", "d/a"]
    assert cli.ok("stored get", sandbox, "d/a") == "a\n"
    cli.ok("stored put", sandbox, "d/new", input=b"new")
    assert cli.ok("stored get", sandbox, "d/new") == "new"
    cli.ok("stored rm", sandbox, "d/new")
    assert cli.run("stored get", sandbox, "d/new").returncode == 125


def test_backup_and_restore(cli, sandbox):
    write(cli, sandbox, "/workspace/d/f", "kept")
    backup = cli.ok("backup", sandbox, "/workspace/d", "--name", "n", "--ttl", "1h").strip()
    row = next(row for row in cli.json("backups", sandbox) if row["id"] == backup)
    assert row["name"] == "n" and row["dir"] == "/workspace/d" and row["expiresAt"]
    write(cli, sandbox, "/workspace/d/f", "changed")
    assert cli.ok("restore", sandbox, backup) == ""
    assert cli.ok("cat", f"{sandbox}:/workspace/d/f") == "kept"
    assert backup in cli.ok("backups", "-q").split()
    assert cli.ok("backup rm", backup) == ""
    refused(cli.run("restore", sandbox, backup), 125)


def test_export_and_import(cli, sandbox, tmp_path):
    data = hashlib.shake_256(b"export").digest(3_000_000)
    cli.run("cp", "-", f"{sandbox}:/workspace/blob", input=data)
    cli.ok("exec", sandbox, "-c", "rm /etc/hostname; ln -s blob /workspace/link")
    cli.ok("export", sandbox, "-o", tmp_path / "x.tar.zst")
    name = cli.ok("import", tmp_path / "x.tar.zst").strip()
    assert cli.run("cat", f"{name}:/workspace/blob").stdout == data
    assert cli.ok("exec", name, "-c", "readlink /workspace/link; test ! -e /etc/hostname") == "blob\n"
    tree = cli.run("export", sandbox, "/workspace").stdout
    plain = subprocess.run(["zstd", "-d", "-q"], input=tree, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        assert {os.path.basename(n) for n in archive.getnames()} >= {"blob", "link"}
    before = cli.ok("ls", "-q")
    refused(cli.run("import", input=b"no archive at all"), 125)
    assert cli.ok("ls", "-q") == before
    cli.ok("rm", name)


def test_archive_and_du(cli, sandbox):
    cli.ok("exec", sandbox, "-c", "head -c 5000000 /dev/urandom > /workspace/blob; sha256sum /workspace/blob > /workspace/sum")
    used = {row["sandboxId"]: row for row in cli.json("du")["sandboxes"]}[sandbox]
    assert used["disk"] >= 5_000_000 and used["archived"] == 0
    assert cli.ok("archive", sandbox).strip()
    used = {row["sandboxId"]: row for row in cli.json("du")["sandboxes"]}[sandbox]
    assert used["archived"] >= 5_000_000 and used["disk"] == 0
    listed = {row[0]: row[1] for row in rows(cli.ok("ls"))}
    assert listed[sandbox] == "archived"
    assert cli.ok("exec", sandbox, "sha256sum", "-c", "/workspace/sum") == "/workspace/blob: OK\n"
    assert "volume:" in cli.ok("du")
