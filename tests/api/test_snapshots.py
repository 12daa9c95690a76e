# SPDX-License-Identifier: Apache-2.0
"""Snapshots, going back, forks: what children get and what they do not, quotas, refusals, and that nothing is left."""

import glob
import http.client
import os
import secrets
import tempfile
import threading

import pytest
from api_helpers import Client, Server, at_once, eventually, kill_daemon

MIB = 1 << 20


def names(server, place="kept"):
    """The disks on the volume, as the keeper sees them."""
    for fd in glob.glob(f"/proc/{server.process.pid}/fd/*"):
        try:
            if {"blank", "kept"} <= set(os.listdir(fd)):
                pattern = "*" if place == "kept" else "*/*"
                return sorted(glob.glob(pattern, root_dir=f"{fd}/{place}"))
        except OSError:
            pass
    raise AssertionError("the keeper holds no volume")


@pytest.fixture(scope="module")
def own(top):
    """A server whose disks nobody else counts."""
    server = Server(tempfile.mkdtemp(prefix="own-", dir=top))
    yield server
    assert server.stop() == 0
    assert server.faults() == []


@pytest.fixture
def api(own):
    client = Client(own)
    yield client
    for box in client.ok("GET", "/sandbox?limit=1000")["sandboxes"]:
        client("DELETE", f"/sandbox/{box['id']}")
    for place in ("kept", "snaps"):
        assert eventually(lambda at=place: names(own, at) == []), place


@pytest.fixture
def box(api):
    name = "src-" + secrets.token_hex(3)
    api.ok("PUT", f"/sandbox/{name}", {"env": {"COLOUR": "blue"}, "labels": {"kind": "test"}})
    return name


def out(api, box, command):
    reply = api.exec(box, command)
    assert reply["exitCode"] == 0, reply
    return reply["stdout"]


def in_session(api, box, session, command):
    api("POST", f"/sandbox/{box}/sessions", {"id": session})  # unless it is there
    reply = api.ok("POST", f"/sandbox/{box}/exec", {"command": command, "session": session})
    assert reply["exitCode"] == 0, reply
    return reply["stdout"]


def fork(api, box, **body):
    return [child["sandboxId"] for child in api.ok("POST", f"/sandbox/{box}/fork", body)["sandboxes"]]


# -- forks


def test_children_have_files_environment_and_sessions(api, box):
    out(api, box, "echo one > /workspace/f; mkdir /workspace/d; chmod 700 /workspace/d; ln -s f /workspace/l")
    in_session(api, box, "work", "cd /workspace/d && export SHAPE='round & \"flat\"'")
    (child,) = fork(api, box)
    assert api.ok("GET", f"/sandbox/{child}")["status"] == "sleeping"
    assert out(api, child, "cat /workspace/l; stat -c %a /workspace/d; echo $COLOUR") == "one\n700\nblue\n"
    assert in_session(api, child, "work", 'pwd; echo "$SHAPE"') == '/workspace/d\nround & "flat"\n'
    shown = api.ok("GET", f"/sandbox/{child}")
    assert shown["labels"] == {"kind": "test"} and shown["sandboxId"] == child
    assert [e["type"] for e in api.ok("GET", f"/sandbox/{child}/events")["events"]][:1] == ["forked"]


def test_a_running_source_goes_on_and_its_memory_stays_its_own(api, box):
    process = api.start(box, {"command": "echo begun; for i in $(seq 400); do sleep 0.1; done"})
    in_session(api, box, "s", "unexported=1; export exported=2")
    (child,) = fork(api, box)
    assert api.ok("GET", f"/sandbox/{box}/processes/{process}")["process"]["status"] == "running"
    assert in_session(api, box, "s", "echo $unexported$exported") == "12\n"
    assert in_session(api, child, "s", "echo $unexported$exported") == "2\n"
    assert api.ok("GET", f"/sandbox/{child}/processes")["processes"] == []
    assert "seq 400" not in out(api, child, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


def test_each_goes_its_own_way(api, box):
    out(api, box, "echo common > /workspace/f")
    first, second = fork(api, box, id=f"{box}-kid", count=2)
    assert (first, second) == (f"{box}-kid-1", f"{box}-kid-2")
    out(api, first, "echo first > /workspace/f")
    out(api, second, "rm /workspace/f")
    assert out(api, box, "cat /workspace/f") == "common\n"
    assert out(api, first, "cat /workspace/f") == "first\n"
    assert out(api, second, "ls -A /workspace") == ""
    shown = [api.ok("GET", f"/sandbox/{one}") for one in (box, first, second)]
    assert len({one["slug"] for one in shown}) == 3
    (grandchild,) = fork(api, first)
    assert out(api, grandchild, "cat /workspace/f") == "first\n"


def test_numbers_drawn_by_children_differ(api, box):
    children = fork(api, box, count=4)
    drawn = [out(api, one, "head -c16 /dev/urandom | od -An -tx1; cat /proc/sys/kernel/random/uuid") for one in children]
    assert len(set(drawn)) == 4


def test_twenty_at_once(api, box):
    out(api, box, "echo all > /workspace/f")
    children = fork(api, box, count=20)
    assert len(set(children)) == 20
    for found in at_once(*[lambda one=one: out(api, one, "cat /workspace/f") for one in children[:8]]):
        assert found == "all\n"
    sets = at_once(*[lambda: fork(api, box, count=3) for _ in range(4)])
    assert len({one for children in sets for one in children}) == 12


def test_children_sleep_and_wake_with_their_files(api, box):
    (child,) = fork(api, box)
    out(api, child, "echo kept > /workspace/f")
    api.ok("POST", f"/sandbox/{child}/sleep")
    assert out(api, child, "cat /workspace/f") == "kept\n"


def test_a_source_that_is_gone_leaves_its_children(api, box):
    out(api, box, "head -c 3000000 /dev/urandom > /workspace/f; sha256sum /workspace/f > /workspace/sum")
    (child,) = fork(api, box)
    api.ok("DELETE", f"/sandbox/{box}")
    assert "OK" in out(api, child, "sha256sum -c /workspace/sum")


# -- quotas


def test_what_is_shared_counts_for_the_limit(api):
    api.ok("PUT", "/sandbox/small", {"disk": "64m"})
    out(api, "small", "head -c 40M /dev/urandom > /workspace/f && sync")
    (child,) = fork(api, "small", id="small-child")
    used = api.ok("POST", f"/sandbox/{child}/wake") and api.ok("GET", f"/sandbox/{child}/stats")["stats"]["disk"]
    assert used >= 40 * MIB
    assert api.exec(child, "head -c 40M /dev/urandom > /workspace/g && sync")["exitCode"] != 0
    out(api, child, "rm -f /workspace/g; head -c 8M /dev/urandom > /workspace/g && sync")
    # A chain has no more, either: what is left gets less, and then there is nothing.
    (grandchild,) = fork(api, child, id="small-grandchild")
    assert api.exec(grandchild, "head -c 24M /dev/urandom > /workspace/h && sync")["exitCode"] != 0
    api("PATCH", f"/sandbox/{grandchild}", {"disk": "40m"}).error(403, "QUOTA_EXCEEDED", "larger disk")
    api.ok("PATCH", f"/sandbox/{grandchild}", {"disk": "128m"})
    out(api, grandchild, "head -c 24M /dev/urandom > /workspace/h && sync")


def shared(api, box):
    (found,) = [one for one in api.ok("GET", "/du")["sandboxes"] if one["sandboxId"] == box]
    return found["shared"]


def test_what_was_deleted_counts_no_more(api):
    """A chain of forks, each of which throws away what it was given: all together they wrote more than a disk has. What
    is there is counted when one falls asleep."""
    name = "chain-0"
    api.ok("PUT", f"/sandbox/{name}", {"disk": "64m"})
    for i in range(1, 6):
        out(api, name, "rm -f /workspace/f && head -c 20M /dev/urandom > /workspace/f && sync")
        api.ok("POST", f"/sandbox/{name}/sleep")
        eventually(lambda: shared(api, name) <= 24 * MIB)
        (name,) = fork(api, name, id=f"chain-{i}")
    assert out(api, name, "sha256sum /workspace/f") == out(api, "chain-4", "sha256sum /workspace/f")


def test_a_full_disk_cannot_be_forked(api):
    api.ok("PUT", "/sandbox/full", {"disk": "16m"})
    api.exec("full", "head -c 100M /dev/zero > /workspace/f; head -c 100M /dev/urandom > /workspace/g; sync")
    api("POST", "/sandbox/full/fork", {"count": 3}).error(403, "QUOTA_EXCEEDED", "larger disk")
    assert [one["id"] for one in api.ok("GET", "/sandbox")["sandboxes"]] == ["full"]


def test_a_tenants_quota_is_for_all_children(api, own):
    api.ok("PUT", "/tenants/forkers", {"sandboxes": 4})
    token = api.ok("POST", "/tokens", {"tenant": "forkers", "name": "t"})["token"]
    theirs = Client(own, token)
    theirs.ok("PUT", "/sandbox/a", {})
    theirs("POST", "/sandbox/a/fork", {"count": 4}).error(403, "QUOTA_EXCEEDED", "quota")
    assert len(theirs.ok("GET", "/sandbox")["sandboxes"]) == 1
    assert len(fork(theirs, "a", count=3)) == 3
    snapshot = theirs.ok("POST", "/sandbox/a/snapshots", {})["id"]
    # Nobody else's.
    api("PUT", "/sandbox/x", {"snapshot": snapshot}).error(404, "NOT_FOUND", snapshot)
    for one in theirs.ok("GET", "/sandbox")["sandboxes"]:
        theirs.ok("DELETE", f"/sandbox/{one['id']}")


# -- snapshots and going back


def test_going_back(api, box):
    out(api, box, "echo then > /workspace/f")
    in_session(api, box, "s", "cd /workspace && export WHEN=then")
    made = api.ok("POST", f"/sandbox/{box}/snapshots", {"name": "before"})
    assert made["id"].startswith("snap-") and made["name"] == "before" and made["bytes"] > 0
    out(api, box, "echo now > /workspace/f; echo more > /workspace/g")
    in_session(api, box, "s", "cd / && export WHEN=now")
    api.ok("PATCH", f"/sandbox/{box}", {"env": {"COLOUR": "red"}})
    assert [s["id"] for s in api.ok("GET", f"/sandbox/{box}/snapshots")["snapshots"]] == [made["id"]]
    process = api.start(box, {"command": "sleep 1000"})
    assert api.ok("POST", f"/sandbox/{box}/rollback", {"snapshot": made["id"]})["snapshot"] == made["id"]
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "sleeping"
    assert out(api, box, "cat /workspace/f; ls /workspace; echo $COLOUR") == "then\nf\nblue\n"
    assert in_session(api, box, "s", "pwd; echo $WHEN") == "/workspace\nthen\n"
    assert api.ok("GET", f"/sandbox/{box}/processes/{process}")["process"]["status"] == "ended"
    events = [e["type"] for e in api.ok("GET", f"/sandbox/{box}/events")["events"]]
    assert "snapshot" in events and "rollback" in events
    for _ in range(3):  # again and again, with what was written between gone
        out(api, box, "echo again > /workspace/g")
        api.ok("POST", f"/sandbox/{box}/rollback", {"snapshot": made["id"]})
        assert out(api, box, "ls /workspace") == "f\n"


def test_a_snapshot_is_of_one_instant(api, box):
    """Two files that are written one after the other: the second never has more than the first."""
    script = "i=0; while :; do i=$((i+1)); echo $i > /workspace/a.t; mv /workspace/a.t /workspace/a;"
    script += " echo $i > /workspace/b.t; mv /workspace/b.t /workspace/b; done"
    api.start(box, {"command": script})
    eventually(lambda: api.exec(box, "test -e /workspace/b")["exitCode"] == 0)
    for child in fork(api, box, count=3):
        a, b = out(api, child, "cat /workspace/a /workspace/b").split()
        assert int(a) - int(b) in (0, 1)


def test_fork_and_create_from_a_snapshot(api, box):
    out(api, box, "echo then > /workspace/f")
    in_session(api, box, "s", "cd /workspace")
    snapshot = api.ok("POST", f"/sandbox/{box}/snapshots", {})["id"]
    out(api, box, "echo now > /workspace/f")
    for child in fork(api, box, count=2, snapshot=snapshot):
        assert out(api, child, "cat /workspace/f") == "then\n"
    made = api.ok("PUT", "/sandbox/made", {"snapshot": snapshot, "labels": {"of": "its own"}})
    assert made["created"] and made["status"] == "running" and made["labels"] == {"of": "its own"}
    assert out(api, "made", "cat /workspace/f; echo $COLOUR") == "then\nblue\n"
    assert in_session(api, "made", "s", "pwd") == "/workspace\n"
    again = api.ok("PUT", "/sandbox/made", {"snapshot": snapshot, "labels": {"of": "its own"}})
    assert not again["created"]
    api("PUT", "/sandbox/other", {"snapshot": snapshot, "ephemeral": True}).error(400, "INVALID_REQUEST", "ephemeral")
    # What begins with it goes on when it is gone.
    api.ok("DELETE", f"/sandbox/{box}/snapshots/{snapshot}")
    assert out(api, "made", "cat /workspace/f") == "then\n"


def test_snapshots_are_deleted_alone_and_with_their_sandbox(api, own, box):
    ids = [api.ok("POST", f"/sandbox/{box}/snapshots", {})["id"] for _ in range(3)]
    assert len(names(own, "snaps")) == 3
    api.ok("DELETE", f"/sandbox/{box}/snapshots/{ids[1]}")
    assert [s["id"] for s in api.ok("GET", f"/sandbox/{box}/snapshots")["snapshots"]] == [ids[0], ids[2]]
    assert len(names(own, "snaps")) == 2
    api("DELETE", f"/sandbox/{box}/snapshots/{ids[1]}").error(404, "NOT_FOUND", ids[1])
    api("POST", f"/sandbox/{box}/rollback", {"snapshot": ids[1]}).error(404, "NOT_FOUND", ids[1])
    api.ok("DELETE", f"/sandbox/{box}")
    assert eventually(lambda: names(own, "snaps") == [])


def test_of_one_that_sleeps_nothing_wakes(api, box):
    out(api, box, "echo x > /workspace/f")
    api.ok("POST", f"/sandbox/{box}/sleep")
    snapshot = api.ok("POST", f"/sandbox/{box}/snapshots", {})["id"]
    fork(api, box)
    api.ok("POST", f"/sandbox/{box}/rollback", {"snapshot": snapshot})
    shown = api.ok("GET", f"/sandbox/{box}")
    assert (shown["status"], shown["boxes"]) == ("sleeping", 1)


def test_use_while_it_goes_back_waits(api, box):
    out(api, box, "echo then > /workspace/f")
    snapshot = api.ok("POST", f"/sandbox/{box}/snapshots", {})["id"]

    def back():
        return api.ok("POST", f"/sandbox/{box}/rollback", {"snapshot": snapshot})

    def use():
        return api("POST", f"/sandbox/{box}/exec", {"command": "cat /workspace/f"}).status

    for statuses in [at_once(back, use, back, use, use) for _ in range(3)]:
        assert {s for s in statuses if isinstance(s, int)} <= {200}
    assert out(api, box, "cat /workspace/f") == "then\n"


# -- refusals


def test_refusals(api, box):
    api("POST", "/sandbox/none/fork", {}).error(404, "NOT_FOUND")
    api("POST", f"/sandbox/{box}/fork", {"snapshot": "snap-none"}).error(404, "NOT_FOUND", "snap-none")
    api("POST", f"/sandbox/{box}/fork", {"count": 0}).error(400, "INVALID_REQUEST", "count")
    api("POST", f"/sandbox/{box}/fork", {"count": 1001}).error(400, "INVALID_REQUEST", "count")
    api("POST", f"/sandbox/{box}/fork", {"id": "-x"}).error(400, "INVALID_REQUEST")
    api("POST", f"/sandbox/{box}/fork", {"id": box}).error(409, "CONFLICT", box)
    api.ok("PUT", "/sandbox/taken-2", {})
    api("POST", f"/sandbox/{box}/fork", {"id": "taken", "count": 3}).error(409, "CONFLICT", "taken-2")
    api("GET", "/sandbox/taken-1").error(404, "NOT_FOUND")
    api("POST", f"/sandbox/{box}/rollback", {}).error(400, "INVALID_REQUEST", "snapshot")
    api("PUT", "/sandbox/new", {"snapshot": "snap-none"}).error(404, "NOT_FOUND", "snap-none")
    api.ok("PUT", "/sandbox/brief", {"ephemeral": True})
    for path, body in [("snapshots", {}), ("fork", {}), ("rollback", {"snapshot": "snap-x"})]:
        api("POST", f"/sandbox/brief/{path}", body).error(501, "NOT_IMPLEMENTED", "ephemeral")


def test_a_repeated_request_is_answered_once(api, box):
    key = {"Idempotency-Key": secrets.token_hex(8)}
    first = api.ok("POST", f"/sandbox/{box}/fork", {"count": 2}, key)
    again = api.ok("POST", f"/sandbox/{box}/fork", {"count": 2}, key)
    assert first == again
    assert len(api.ok("GET", "/sandbox")["sandboxes"]) == 3


def test_too_many_snapshots(api, box):
    for _ in range(100):
        api.ok("POST", f"/sandbox/{box}/snapshots", {})
    api("POST", f"/sandbox/{box}/snapshots", {}).error(403, "QUOTA_EXCEEDED", "at most 100")


# -- a daemon that dies


def test_all_or_none_when_the_daemon_dies(api, own, box):
    out(api, box, "echo x > /workspace/f")
    for delay in (0.0, 0.01, 0.03, 0.08):
        before = {one["id"] for one in api.ok("GET", "/sandbox?limit=1000")["sandboxes"]}

        def ask():
            try:
                api("POST", f"/sandbox/{box}/fork", {"count": 30})
                api("POST", f"/sandbox/{box}/snapshots", {})
            except (OSError, http.client.HTTPException):
                pass  # it was killed

        asking = threading.Thread(target=ask)
        asking.start()
        threading.Event().wait(delay)
        kill_daemon(own, api)
        asking.join()
        rows = {one["id"] for one in api.ok("GET", "/sandbox?limit=1000")["sandboxes"]} - before
        assert len(rows) in (0, 30), len(rows)
        for one in list(rows)[:2]:
            assert out(api, one, "cat /workspace/f") == "x\n"
        total = len(before | rows)
        assert eventually(lambda n=total: len(names(own)) == n), (names(own), total)
        snapshots = len(api.ok("GET", f"/sandbox/{box}/snapshots")["snapshots"])
        assert eventually(lambda n=snapshots: len(names(own, "snaps")) == n)
        assert out(api, box, "cat /workspace/f") == "x\n"
