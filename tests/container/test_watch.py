# SPDX-License-Identifier: Apache-2.0
"""Watches as the container protocol has them, and checks whether anything has changed since a version."""

import pytest
from container_helpers import eventually

BOTH = ("/api/watch", "/api/watch/check")


@pytest.mark.parametrize("route", BOTH)
def test_bad_requests(shared, route):
    shared.invalid(route, {}, "path")
    shared.invalid(route, {"path": 1}, "path")
    shared.invalid(route, {"path": ""}, "path")
    shared.invalid(route, {"path": "/workspace", "recursive": "no"}, "recursive")
    for name in ("include", "exclude"):
        for bad in ("*.ts", [1], [""], ["a[b]"], ["{a,b}"], ["x" * 256], ["*"] * 65):
            shared.invalid(route, {"path": "/workspace", name: bad}, name)
    shared.invalid(route, {"path": "/workspace", "include": ["a"], "exclude": ["b"]}, "include")
    for path in ("/", "/tmp", "/workspace2", "/workspace/../etc", "../tmp"):
        shared.fail(route, {"path": path}, 403, "PERMISSION_DENIED")
    shared.fail(route, {"path": "/workspace/nowhere"}, 404, "FILE_NOT_FOUND")
    if route == "/api/watch":
        shared.invalid(route, {"path": "/workspace", "events": ["open"]}, "events")
        shared.invalid(route, {"path": "/workspace", "events": "create"}, "events")
    else:
        for since in ("", "watch-1-2:3", "v1:", "v1" + "0" * 32 + ":" + "0" * 31, 7):
            shared.invalid(route, {"path": "/workspace", "since": since}, "since")


def told(events):
    return [(e["eventType"], e["path"], e["isDirectory"]) for e in events if e["type"] == "event"]


def test_changes_are_told(box):
    box.run("mkdir -p /workspace/src /workspace/node_modules/x /workspace/.git; touch /workspace/src/old")
    with box.stream("/api/watch", {"path": "/workspace", "recursive": True, "sessionId": "s"}) as watch:
        first = next(iter(watch))
        assert first["type"] == "watching" and first["path"] == "/workspace" and first["watchId"]
        box.run(
            "cd /workspace; touch node_modules/x/a .git/b .DS_Store src/.DS_Store; echo 1 > src/new; chmod 600 src/old;"
            "mv src/old src/older; mkdir src/dir; touch src/dir/in; rm src/new; touch end"
        )
        events = watch.until(eventType="create", path="/workspace/end")
    changes = told(events)
    for change in (
        ("create", "/workspace/src/new", False),
        ("modify", "/workspace/src/new", False),
        ("move_from", "/workspace/src/old", False),
        ("move_to", "/workspace/src/older", False),
        ("create", "/workspace/src/dir", True),
        ("create", "/workspace/src/dir/in", False),
        ("delete", "/workspace/src/new", False),
    ):
        assert change in changes, changes
    assert not [c for c in changes if c[0] == "attrib" or "node_modules" in c[1] or ".git" in c[1] or "DS_Store" in c[1]], changes
    assert all("timestamp" in e for e in events)


def test_a_written_file_is_one_change(box):
    box.run("mkdir -p /workspace/src; touch /workspace/src/old")
    with box.stream("/api/watch", {"path": "/workspace", "events": ["create", "modify", "delete", "move_from", "move_to", "attrib"]}) as watch:
        next(iter(watch))
        for name, content in (("src/old", "1"), ("src/new", "2" * 2_000_000), ("src/new", "3"), ("end", "")):
            box.ok("/api/write", {"path": f"/workspace/{name}", "content": content})
        assert told(watch.until(path="/workspace/end")) == [
            ("modify", "/workspace/src/old", False),
            ("create", "/workspace/src/new", False),
            ("modify", "/workspace/src/new", False),
            ("create", "/workspace/end", False),
        ]


def test_globs_and_kinds(box):
    box.run("mkdir -p /workspace/src/deep /workspace/lib")
    script = "cd /workspace; touch a.ts a.js src/b.ts src/deep/c.ts src/deep/c.tsx lib/d.ts; rm a.ts; touch end"

    def changes(**options):
        with box.stream("/api/watch", {"path": ".", **options}) as watch:
            assert next(iter(watch))["type"] == "watching"
            box.run(script)
            seen = told(watch.until(path="/workspace/end"))
        box.run("cd /workspace; rm -f a.* end src/b.ts src/deep/* lib/*")
        return [(kind, path[11:]) for kind, path, _ in seen]

    assert changes(include=["src/*.ts", "end"], events=["create"]) == [("create", "src/b.ts"), ("create", "end")]
    assert changes(include=["src/**", "end"], events=["create"])[:-1] == [
        ("create", "src/b.ts"),
        ("create", "src/deep/c.ts"),
        ("create", "src/deep/c.tsx"),
    ]
    assert changes(include=["?.js", "end"], events=["create"]) == [("create", "a.js"), ("create", "end")]
    assert changes(exclude=["deep", "lib/*.ts", "*.js"], events=["create", "delete"]) == [
        ("create", "a.ts"),
        ("create", "src/b.ts"),
        ("delete", "a.ts"),
        ("create", "end"),
    ]
    assert changes(recursive=False, events=["create"]) == [("create", "a.ts"), ("create", "a.js"), ("create", "end")]
    assert ("attrib", "a.ts") in changes(events=["attrib", "create"])


def test_what_is_excluded_everywhere_may_be_watched_itself(box):
    box.run("mkdir -p /workspace/node_modules/m/node_modules")
    with box.stream("/api/watch", {"path": "/workspace/node_modules"}) as watch:
        next(iter(watch))
        box.run("touch /workspace/node_modules/m/node_modules/x /workspace/node_modules/m/y")
        assert told(watch.until(path="/workspace/node_modules/m/y")) == [("create", "/workspace/node_modules/m/y", False)]


def test_the_end_is_told(box):
    box.run("mkdir /workspace/w")
    with box.stream("/api/watch", {"path": "w"}) as watch:
        next(iter(watch))
        box.run("rm -r /workspace/w")
        assert watch.until(type="stopped")[-1]["reason"]
        assert list(watch) == []
    with box.stream("/api/watch", {"path": "/workspace"}) as watch:
        next(iter(watch))
        box.api.ok("POST", f"/sandbox/{box.box}/sleep")
        assert watch.until(type="stopped")[-1]["reason"]


STORM = """
import glob, os, signal
watchers = [s for s in (open(p).read().split() for p in glob.glob("/proc/[0-9]*/stat")) if s[1] == "(cay)" and int(s[3]) > 1]
assert watchers
for s in watchers:
    os.kill(int(s[0]), signal.SIGSTOP)
for i in range(20000):
    os.close(os.open("/workspace/x", os.O_CREAT))
    os.unlink("/workspace/x")
for s in watchers:
    os.kill(int(s[0]), signal.SIGCONT)
"""


def test_what_was_lost_is_told(box):
    """Who watches in the box is stopped while more changes than the kernel keeps for him."""
    with box.stream("/api/watch", {"path": "/workspace"}) as watch:
        next(iter(watch))
        assert box.api.exec(box.box, {"argv": ["python3", "-c", STORM]})["success"]
        assert "again" in watch.until(type="error")[-1]["error"]
        box.run("touch /workspace/still")  # and it goes on
        watch.until(path="/workspace/still")


# -- checks


def version(box, since=None, **options):
    body = {"path": "/workspace", **options}
    if since is not None:
        body["since"] = since
    answer = box.ok("/api/watch/check", body)
    assert set(answer) <= {"success", "timestamp", "status", "version", "reason"}
    return answer["status"], answer["version"], answer.get("reason")


CHANGES = [
    "echo 1 > new",
    "echo 2 > new",  # the same size, as soon as can be
    "mv new newer",
    "chmod 755 newer",
    "touch -d 2020-01-01 newer",
    "echo 3 > newer; touch -d 2020-01-01 newer",  # the same size and time
    "ln -s newer link",
    "ln -sfn other link",
    "mkdir -p d/e",
    "touch .hidden d/e/f",
    "rm -r d",
    "rm newer",
]


def test_every_change_makes_another_version(box):
    status, now, _ = version(box)
    assert status == "unchanged" and version(box, now)[:2] == ("unchanged", now)
    seen = {now}
    for change in CHANGES:
        box.run(f"cd /workspace; {change}")
        status, then, reason = version(box, now)
        assert (status, reason) == ("changed", None) and then not in seen, change
        assert version(box, then) == ("unchanged", then, None), change
        seen.add(then)
        now = then
    for quiet in ("cat link 2>/dev/null; true", "mkdir -p .git node_modules/x", "touch .git/a node_modules/x/b .DS_Store; rm node_modules/x/b"):
        box.run(f"cd /workspace; {quiet}")
        assert version(box, now) == ("unchanged", now, None), quiet


def test_versions_are_about_what_was_asked(box):
    box.run("mkdir -p /workspace/src; touch /workspace/src/a.ts /workspace/b.js")
    _, ts, _ = version(box, include=["*.ts"])
    _, top, _ = version(box, recursive=False)
    box.run("echo 1 > /workspace/b.js")
    assert version(box, ts, include=["*.ts"])[0] == "unchanged"
    assert version(box, top, recursive=False)[0] == "changed"
    assert version(box, ts)[0::2] == ("resync", "restarted")
    assert version(box, ts, path="/workspace/src")[0] == "resync"
    _, file, _ = version(box, path="/workspace/b.js")
    assert version(box, file, path="b.js")[0] == "unchanged"
    box.run("echo 2 > /workspace/b.js")
    assert version(box, file, path="b.js")[0] == "changed"


def test_versions_outlive_sleep(box):
    box.run("mkdir -p /workspace/a; echo 1 > /workspace/a/b; ln -s b /workspace/a/l")
    _, now, _ = version(box)
    box.api.ok("POST", f"/sandbox/{box.box}/sleep")
    eventually(lambda: box.api.ok("GET", f"/sandbox/{box.box}")["status"] == "sleeping")
    assert version(box, now) == ("unchanged", now, None)
    box.run("echo 2 > /workspace/a/b")
    assert version(box, now)[0] == "changed"


def test_while_it_goes_on_changing(box):
    """Of a file that is written all the time, with the same text: no version of it equals a later one."""
    box.api.start(box.box, {"command": "cd /workspace; while :; do echo 1 > busy; done"})
    eventually(lambda: box.ok("/api/exists", {"path": "/workspace/busy"})["exists"])
    for _ in range(5):
        _, now, _ = version(box)
        written = box.run("stat -c %z /workspace/busy")
        eventually(lambda: box.run("stat -c %z /workspace/busy") != written)  # it had its turn
        assert version(box, now)[0] == "changed"
