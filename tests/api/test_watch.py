# SPDX-License-Identifier: Apache-2.0
"""Changes of files as events: all of them, or a word that some are missing."""

import pathlib
import socket
import time

import pytest
from api_helpers import FULL, PATIENCE, Client, eventually
from test_files import Files

STORM = 1_000_000 if FULL else 100_000


@pytest.fixture
def files(api, box):
    return Files(api, box)


class Watch:
    def __init__(self, files, query):
        self.stream = files.api.stream("GET", f"/sandbox/{files.box}/watch?{query}")
        assert self.stream.status == 200, self.stream
        self.events = (e.data for e in self.stream)
        self.first = next(self.events)
        assert self.first["type"] == "watching" and self.first["watchId"]

    def until(self, **want):
        """All changes up to one that has these members."""
        seen = []
        for event in self.events:
            seen.append(event)
            if all(event.get(k) == v for k, v in want.items()):
                return [(e.get("eventType"), e.get("path")) for e in seen]
        raise AssertionError(f"ended without {want}: {seen}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()


def test_each_kind(files):
    files.sh("mkdir -p /w/d; touch /w/old")
    with Watch(files, "path=/w") as watch:
        assert watch.first["path"] == "/w"
        files.sh("echo x > /w/new; chmod 600 /w/new; mv /w/old /w/d/moved; mkdir /w/e; rm /w/new; touch /w/end")
        seen = watch.until(eventType="create", path="/w/end")
    for want in [
        ("create", "/w/new"),
        ("modify", "/w/new"),
        ("attrib", "/w/new"),
        ("move_from", "/w/old"),
        ("move_to", "/w/d/moved"),
        ("create", "/w/e"),
        ("delete", "/w/new"),
    ]:
        assert want in seen, (want, seen)


def test_shape(files):
    files.sh("mkdir -p /w")
    with Watch(files, "path=/w") as watch:
        files.sh("mkdir /w/d")
        event = next(watch.events)
    assert set(event) <= {"type", "eventType", "path", "isDirectory", "timestamp", "cookie"}
    assert event["type"] == "event" and event["isDirectory"] is True and event["timestamp"].endswith("Z")


def test_deeper(files):
    files.sh("mkdir -p /w/a/b")
    with Watch(files, "path=/w") as watch:
        files.sh("touch /w/a/b/f; mkdir -p /w/new/er; sleep 0.2; touch /w/new/er/g")
        seen = watch.until(path="/w/new/er/g")
        assert ("create", "/w/a/b/f") in seen
    with Watch(files, "path=/w&recursive=0") as watch:
        files.sh("touch /w/a/b/h; touch /w/flat")
        seen = watch.until(path="/w/flat")
        assert not any("/w/a/b" in path for _, path in seen)


def test_include_and_exclude(files):
    files.sh("mkdir -p /w")
    with Watch(files, "path=/w&include=*.c,*.h") as watch:
        files.sh("touch /w/a.o /w/a.c /w/a.h")
        assert {p for _, p in watch.until(path="/w/a.h")} == {"/w/a.c", "/w/a.h"}
    with Watch(files, "path=/w&exclude=*.o,node_modules") as watch:
        files.sh("mkdir -p /w/node_modules; touch /w/node_modules/x /w/b.o /w/b.c")
        assert {p for _, p in watch.until(path="/w/b.c")} == {"/w/b.c"}


def test_a_put_file_is_one_change(files):
    """Whatever it takes to put it there: nothing of that is told, but the file, as new or as changed."""
    files.sh("mkdir -p /w/d; touch /w/old")
    with Watch(files, "path=/w") as watch:
        files.put("/w/old", b"1")
        files.put("/w/d/new", b"2" * 100_000)
        files.put("/w/d/new", b"3")
        files.done("copy", {"from": "/w/old", "to": "/w/d/new", "replace": True})
        files.done("batch", {"operations": [{"op": "write", "path": f"/w/{name}", "content": "4"} for name in ("old", "end")]})
        assert watch.until(path="/w/end") == [
            ("modify", "/w/old"),
            ("create", "/w/d/new"),
            ("modify", "/w/d/new"),
            ("modify", "/w/d/new"),
            ("modify", "/w/old"),
            ("create", "/w/end"),
        ]
    with Watch(files, "path=/w/old") as watch:
        for body in (b"5", b"6"):
            files.put("/w/old", body)
            event = next(watch.events)
            assert (event["eventType"], event["path"]) == ("modify", "/w/old"), event


def test_one_file(files):
    files.sh("mkdir -p /w; touch /w/f /w/g")
    with Watch(files, "path=/w/f") as watch:
        files.sh("touch /w/g; echo x >> /w/f")
        event = next(watch.events)
        assert event["path"] == "/w/f", event


def test_wrong_questions(files):
    ask = lambda query: files.api("GET", f"/sandbox/{files.box}/watch?{query}")
    ask("").error(400, "INVALID_REQUEST", "path")
    ask("path=x").error(400, "INVALID_REQUEST", "path")
    ask("path=/nope").error(404, "NOT_FOUND")
    ask("path=/etc&recursive=maybe").error(400, "INVALID_REQUEST", "recursive")
    ask("path=/etc&colour=red").error(400, "INVALID_REQUEST", "colour")


def test_what_is_watched_goes(files):
    files.sh("mkdir -p /w")
    with Watch(files, "path=/w") as watch:
        files.sh("rmdir /w")
        last = [e for e in watch.events][-1]
        assert last["type"] == "stopped" and last["reason"]


@pytest.mark.parametrize("end", ["sleep", "destroy"])
def test_ends_with_the_box(api, files, end):
    files.sh("mkdir -p /w")
    with Watch(files, "path=/w") as watch:
        if end == "sleep":
            api.ok("POST", f"/sandbox/{files.box}/sleep")
        else:
            api.ok("DELETE", f"/sandbox/{files.box}")
        last = [e for e in watch.events][-1]
        assert last["type"] in ("stopped", "error"), last


def test_does_not_keep_awake(make_server):
    """A watch to which nothing comes is no use of a sandbox."""
    client = Client(make_server())
    client.ok("PUT", "/sandbox/s", {"sleepAfter": 1})
    files = Files(client, "s")
    with Watch(files, "path=/etc") as watch:
        eventually(lambda: client.ok("GET", "/sandbox/s")["status"] == "sleeping")
        assert [e for e in watch.events][-1]["type"] in ("stopped", "error")


def test_renamed_while_watched(files):
    files.sh("mkdir -p /w/a/b")
    with Watch(files, "path=/w") as watch:
        files.sh("for i in $(seq 200); do mv /w/a /w/c; mv /w/c /w/a; done; touch /w/a/b/f; touch /w/end")
        seen = watch.until(path="/w/end")
        assert seen.count(("move_to", "/w/a")) == 200 or any(kind is None for kind, _ in seen)


def memory_of_the_daemon(server):
    text = pathlib.Path(f"/proc/{server.daemon_pid()}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) * 1024


def test_a_storm_that_nobody_reads(make_server, monkeypatch):
    """The reader stops: what is kept for it is bounded, and it is told that there was more."""
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1:quarantine_size_mb=1")  # what is freed is free
    server = make_server()
    api = Client(server)
    api.ok("PUT", "/sandbox/storm", {})
    files = Files(api, "storm")
    files.sh("mkdir -p /w")
    files.get("/etc/hostname")
    sock = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
    sock.sendall(
        f"GET /sandbox/{files.box}/watch?path=/w HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.token}\r\n\r\n".encode()
    )
    assert sock.recv(12) == b"HTTP/1.1 200"
    loop = "import os\nfor i in range(%d):\n  n = '/w/%%d' %% (i %% 1000)\n  os.close(os.open(n, os.O_CREAT)); os.unlink(n)"

    def storm():
        assert api.exec(files.box, {"argv": ["python3", "-c", loop % (STORM // 2)]})["success"]
        return memory_of_the_daemon(server)

    before = storm()  # all that may be kept for a reader is kept now
    assert storm() - before < 4 << 20
    files.sh("touch /w/last")
    text, end = b"", time.monotonic() + PATIENCE
    while b'"type":"overflow"' not in text and time.monotonic() < end:
        piece = sock.recv(1 << 20)
        assert piece, "it ended without a word"
        text = text[-200:] + piece
    assert b'"type":"overflow"' in text and b"rescan" in text
    sock.close()


def test_a_storm_that_is_read(files):
    """Whoever keeps up hears of all, or that something is missing."""
    files.sh("mkdir -p /w")
    with Watch(files, "path=/w") as watch:
        files.sh("cd /w; for i in $(seq 3000); do : > f$i; done; touch end")
        seen, overflow = set(), False
        for event in watch.events:
            overflow = overflow or event["type"] == "overflow"
            if event.get("eventType") == "create":
                seen.add(event["path"])
            if event.get("path") == "/w/end":
                break
        assert overflow or seen >= {f"/w/f{i}" for i in range(1, 3001)}


def test_many_watches(files):
    """Those that leave make room."""
    files.sh("mkdir -p /w")
    for _ in range(3):
        watches = [Watch(files, "path=/w") for _ in range(40)]
        files.sh("touch /w/x; rm /w/x")
        for watch in watches:
            watch.until(eventType="delete", path="/w/x")
            watch.stream.close()
    eventually(lambda: files.api("GET", files.url("/w", "?list")).status == 200)
