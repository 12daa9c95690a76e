# SPDX-License-Identifier: Apache-2.0
"""The container protocol as a whole: who gets in, what is made on first use, and errors that come before any handler."""

import json
import re

import pytest
from container_helpers import Client, Container
from api_helpers import TOP

# A good request for every route of commands, sessions, processes, ports; of the files' own see test_files.py and others.
ROUTES = [
    ("GET", "", None),
    ("GET", "/api/ping", None),
    ("GET", "/api/version", None),
    ("GET", "/api/commands", None),
    ("POST", "/api/session/create", {"id": "made"}),
    ("GET", "/api/session/list", None),
    ("POST", "/api/session/delete", {"sessionId": "work"}),
    ("POST", "/api/execute", {"command": "touch /workspace/harm"}),
    ("POST", "/api/execute", {"command": "touch /workspace/harm", "background": True}),
    ("POST", "/api/execute/stream", {"command": "touch /workspace/harm"}),
    ("POST", "/api/process/start", {"command": "touch /workspace/harm"}),
    ("GET", "/api/process/list", None),
    ("GET", "/api/process/svc", None),
    ("DELETE", "/api/process/svc", None),
    ("DELETE", "/api/process/kill-all", None),
    ("GET", "/api/process/svc/logs", None),
    ("GET", "/api/process/svc/stream", None),
    ("POST", "/api/port-watch", {"port": 80, "mode": "tcp"}),
    ("GET", "/ws/pty?sessionId=work", None),
    ("GET", "/rpc", None),
    ("POST", "/api/read", {"path": "/etc/passwd"}),
    ("POST", "/api/write", {"path": "/workspace/harm", "content": "x"}),
    ("POST", "/api/delete", {"path": "/workspace/file"}),
    ("POST", "/api/list-files", {"path": "/"}),
]


def test_first_seen_is_made(new):
    assert new.api("GET", f"/sandbox/{new.box}").status == 404
    assert new.ok("/api/ping", method="GET")["status"] == "healthy"
    made = new.api.ok("GET", f"/sandbox/{new.box}")
    assert made["network"] == "internet" and made["status"] == "running"
    assert new.ok("/api/execute", {"command": "echo made"})["stdout"] == "made"


def test_one_that_is_there_is_not_changed(new):
    new.api.ok("PUT", f"/sandbox/{new.box}", {"memory": "64m", "labels": {"a": "b"}})
    new.ok("/api/ping", method="GET")
    there = new.api.ok("GET", f"/sandbox/{new.box}")
    assert there["network"] == "none" and there["labels"] == {"a": "b"}


def test_nothing_is_made_in_vain(new):
    new.fail("/api/nope", {}, 404, "UNKNOWN_ERROR")
    new.invalid("/api/execute", {}, "command")
    new.fail("/api/ping", None, 405, "METHOD_NOT_ALLOWED")
    assert new.api("GET", f"/sandbox/{new.box}").status == 404
    bad = Container(new.api, "-x")
    bad.fail("/api/ping", None, 400, "VALIDATION_FAILED", method="GET")


def test_base(shared):
    reply = shared("GET", "/")
    assert reply.status == 200 and reply.headers["Content-Type"] == "text/plain"
    assert shared("GET", "").body == shared("GET", "/?x=1").body == reply.body
    assert shared.ok("/api/ping", method="GET")["message"]
    assert shared.ok("/api/version", method="GET")["version"] == "0.12.10"
    commands = shared.ok("/api/commands", method="GET")
    assert commands["count"] == len(commands["availableCommands"]) and {"bash", "ls"} <= set(commands["availableCommands"])


@pytest.mark.parametrize("path", ["/ws", "/api/ws", "/rpc"])
def test_other_transports_say_so(shared, path):
    error = shared.fail(path, None, 501, "NOT_IMPLEMENTED", method="GET")
    assert "http" in error["message"]


def test_what_is_not_known_is_passed_over(shared):
    assert shared("GET", "/api/ping?whatever=1&more").status == 200
    assert shared("GET", "/api/ping", {"a": 1}).status == 200
    assert shared.ok("/api/execute", {"command": "echo x", "origin": "user", "future": {"a": [1]}})["stdout"] == "x"


def test_bodies_that_are_none(shared):
    for body in ("", "{", "[]", '"x"', "null", b"\xff", "{'command': 'x'}"):
        reply = shared("POST", "/api/execute", body)
        error = shared.check(reply, 400, "VALIDATION_FAILED")
        assert error["context"]["validationErrors"][0]["field"] in ("body", "command")


def test_bodies_that_are_too_large(shared):
    reply = shared("POST", "/api/execute", json.dumps({"command": "x" * (1024 * 1024 + 1)}))
    shared.check(reply, 400, "VALIDATION_FAILED")
    shared.check(shared("POST", "/api/execute", b"x" * (33 * 1024 * 1024)), 413, "FILE_TOO_LARGE")


def test_paths_that_make_no_sense(shared):
    for path in ("/api/../api/ping", "/api//ping", "/api/ping%00", "/api/%2e%2e/x", "/api/process/%ff"):
        shared.check(shared("GET", path), 400, "VALIDATION_FAILED")


def test_strangers(server, shared):
    for token in (None, "wrong", "cay_" + "A" * 43):
        stranger = Container(Client(server, token), shared.box)
        for method, path, body in ROUTES:
            reply = stranger(method, path, body)
            error = stranger.check(reply, 401, "UNAUTHORIZED")
            assert reply.headers["WWW-Authenticate"].startswith("Bearer") and shared.box not in error["message"]


def test_another_tenants_sandbox(server, api, box):
    """By its id one gets a sandbox of one's own, and never the other's."""
    box.ok("/api/execute", {"command": "echo ours > /workspace/file", "sessionId": "work"})
    box.ok("/api/process/start", {"command": "exec sleep 1000", "processId": "svc"})
    made = api.ok("POST", "/tokens", {"name": f"mallory-{box.box}"})
    mallory = Container(Client(server, made["token"]), box.box)
    for method, path, body in ROUTES:
        if path.endswith("/port-watch"):  # it would wait
            continue
        reply = mallory(method, path, body)
        assert b"ours" not in reply.body
        if "/svc" in path:
            mallory.check(reply, 404, "PROCESS_NOT_FOUND")
    assert mallory.ok("/api/session/list", method="GET")["data"] != box.ok("/api/session/list", method="GET")["data"]
    assert box.ok("/api/execute", {"command": "cat file; ls", "sessionId": "work"})["stdout"] == "ours\nfile"
    assert box.ok("/api/process/svc", method="GET")["process"]["status"] == "running"
    Client(server, made["token"]).ok("DELETE", f"/sandbox/{box.box}")
    assert box.ok("/api/ping", method="GET")


def test_rate(server, api, box):
    made = api.ok("POST", "/tokens", {"name": f"slow-{box.box}", "rate": 2})
    slow = Container(Client(server, made["token"]), "slow")
    replies = [slow("GET", "/api/ping") for _ in range(4)]
    error = slow.check(next(r for r in replies if r.status != 200), 429, "RATE_LIMITED")
    assert "minute" in error["message"] and "Retry-After" in replies[-1].headers


def test_quota(server, api, box):
    made = api.ok("POST", "/tokens", {"name": f"poor-{box.box}", "quotas": {"sandboxes": 1}})
    client = Client(server, made["token"])
    Container(client, "one").ok("/api/ping", method="GET")
    Container(client, "two").fail("/api/ping", None, 403, "QUOTA_EXCEEDED", method="GET")
    client.ok("DELETE", "/sandbox/one")


def test_headers_are_taken(api, shared):
    headers = {"X-Sandbox-Id": "abc", "X-Trace-Id": "t", "X-Session-Id": "by-header"}
    reply = api("POST", shared.base + "/api/execute", {"command": "true"}, headers)
    assert reply.json["sessionId"] == "by-header"
    assert "Access-Control-Allow-Origin" not in reply.headers


def test_not_in_the_description(api):
    assert not [p for p in api.ok("GET", "/openapi.json")["paths"] if "/container/" in p or p.startswith("/v1")]


def test_every_code_is_in_the_documentation():
    codes = re.findall(r"X\((\w+), (\d{3})\)", (TOP / "src/api/container/container.h").read_text())
    page = (TOP / "docs/ERRORS.md").read_text().split("## In the container protocol")[1].split("\n## ")[0]
    assert len(codes) > 30 and set(re.findall(r"^\| (\d{3}) \| `(\w+)` \| ", page, re.MULTILINE)) == {(status, code) for code, status in codes}
