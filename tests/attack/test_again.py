# SPDX-License-Identifier: Apache-2.0
"""Requests that are sent twice, and too often."""

import os
import signal
import time

import pytest
from attack_helpers import Client, ask, at_once, daemon_pid, eventually, is_error, raw_connect, read_reply

EXEC = "/sandbox/b/exec"


def key(text):
    return {"Idempotency-Key": text}


@pytest.fixture
def client(new_tenant):
    client = new_tenant()
    client.ok("PUT", "/sandbox/b", {})
    yield client
    client("DELETE", "/sandbox/b")


def lines(client, path):
    return client.exec("b", f"cat {path} 2>/dev/null | wc -l")["stdout"].strip()


def test_the_same_key(client):
    body = {"command": "echo x >> /tmp/n; date +%N"}
    first = client("POST", EXEC, body, key("k"))
    again = client("POST", EXEC, body, key("k"))
    assert (again.status, again.body) == (first.status, first.body)
    assert again.headers["Idempotency-Replayed"] == "true" and "Idempotency-Replayed" not in first.headers
    assert lines(client, "/tmp/n") == "1"
    for method, path, other in (
        ("POST", EXEC, {"command": "echo x >> /tmp/n"}),
        ("POST", "/sandbox/b/processes", body),
        ("PUT", "/sandbox/c", {}),
        ("POST", "/sandbox", {"id": "c"}),
    ):
        reply = client(method, path, other, key("k"))
        is_error(reply, 409)
        assert reply.json["error_code"] == "IDEMPOTENCY_KEY_REUSED"
    assert lines(client, "/tmp/n") == "1"
    is_error(client("GET", "/sandbox/c"), 404)


def test_keys_that_are_none(client, server):
    for text in ("x" * 256, "a b", "a\tb", "é", "", "\x7f", "a%0d%0aX: y "):
        reply = ask(server, "PUT /sandbox/none", client.token, f"Idempotency-Key: {text}")
        assert reply.status in (400, 201), (text, reply)
        if reply.status == 201:
            assert text == "a%0d%0aX: y "
    for text in ("a\rb", "a\nb", "a\0b"):
        with raw_connect(server) as s:
            head = f"PUT /sandbox/none HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.token}\r\nIdempotency-Key: {text}\r\n\r\n"
            s.sendall(head.encode())
            assert read_reply(s).status in (None, 400)
    reply = ask(server, "PUT /sandbox/none", client.token, "Idempotency-Key: a", "Idempotency-Key: b")
    is_error(reply, 400)
    is_error(client("GET", "/sandbox/none"), 404)
    assert client("PUT", "/sandbox/none", {}, key("x" * 255)).status == 201
    client.ok("DELETE", "/sandbox/none")


def test_keys_belong_to_a_tenant(client, new_tenant):
    """Another tenant's key is free, and gives nothing of its answer away."""
    other = new_tenant()
    other.ok("PUT", "/sandbox/b", {})
    body = {"command": "echo $$ >> /tmp/n; cat /proc/sys/kernel/random/uuid"}
    mine = client("POST", EXEC, body, key("shared")).json["stdout"]
    theirs = other("POST", EXEC, body, key("shared"))
    assert "Idempotency-Replayed" not in theirs.headers and theirs.json["stdout"] != mine
    other.ok("DELETE", "/sandbox/b")


def test_a_key_from_many_sides_at_once(client):
    """It is done once; whoever comes before its end is told so."""
    body = {"command": "echo x >> /tmp/n; sleep 0.3; echo done"}
    replies = at_once(*[lambda: client("POST", EXEC, body, key("many")) for _ in range(16)])
    assert sorted({r.status for r in replies}) in ([200], [200, 409])
    for reply in replies:
        if reply.status == 409:
            assert reply.json["error_code"] == "REQUEST_IN_PROGRESS" and int(reply.headers["Retry-After"]) >= 1
    assert len({r.body for r in replies if r.status == 200}) == 1
    assert lines(client, "/tmp/n") == "1"
    replies = at_once(*[lambda: client("POST", "/sandbox", {}, key("make")) for _ in range(8)])
    made = {r.json["id"] for r in replies if r.status == 201}
    assert len(made) == 1
    listed = {b["id"] for b in client.ok("GET", "/sandbox")["sandboxes"]}
    assert listed == made | {"b"}
    client.ok("DELETE", f"/sandbox/{made.pop()}")


def test_refusals_do_not_take_a_key(client):
    """A body that was refused was never begun: the key is free for the right one."""
    is_error(client("POST", EXEC, {"nonsense": 1}, key("mend")), 400)
    assert client("POST", EXEC, {"command": "echo ok"}, key("mend")).json["stdout"] == "ok\n"


def test_a_key_on_a_route_that_takes_none(client):
    """It is not a promise that is silently broken: the request is the same each time anyway."""
    for _ in range(2):
        assert client("PATCH", "/sandbox/b", {"pids": 77}, key("p")).status == 200


def test_keys_after_a_kill(client, server):
    """The answer that was given is given again; what ran when the daemon died is said to be unknown."""
    done = client("POST", EXEC, {"command": "echo x >> /tmp/n; date +%N"}, key("kept"))
    with raw_connect(server) as s:
        body = b'{"command": "echo y >> /tmp/m; sleep 1000"}'
        head = f"POST {EXEC} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.token}\r\nIdempotency-Key: lost\r\n"
        s.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        eventually(lambda: lines(client, "/tmp/m") == "1")
        pid = daemon_pid(server)
        os.kill(pid, signal.SIGKILL)
        server.killed += 1
        eventually(lambda: daemon_pid(server) != pid)
        again = eventually(lambda: attempt(client, EXEC, {"command": "echo x >> /tmp/n; date +%N"}, "kept"))
    assert (again.status, again.body, again.headers["Idempotency-Replayed"]) == (200, done.body, "true")
    lost = client("POST", EXEC, body.decode(), key("lost"))
    assert (lost.status, lost.json["error_code"]) == (409, "OUTCOME_UNKNOWN")
    other = client("POST", EXEC, {"command": "true"}, key("lost"))
    assert (other.status, other.json["error_code"]) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert (lines(client, "/tmp/n"), lines(client, "/tmp/m")) == ("1", "1")


def attempt(client, path, body, text):
    try:
        reply = client("POST", path, body, key(text))
        return reply if reply.status != 503 else None
    except OSError:
        return None


# -- too often


def test_the_rate(admin, server):
    made = admin.ok("POST", "/tokens", {"name": "fast", "rate": 20})
    second = admin.ok("POST", "/tokens", {"name": "fast2", "tenant": "fast", "rate": 20})
    client, other = Client(server, made["token"]), Client(server, second["token"])
    good = []
    start = time.monotonic()
    for _ in range(30):
        reply = client("GET", "/sandbox")
        assert reply.headers["X-RateLimit-Limit"] == "20"
        if reply.status == 429:
            break
        good.append(int(reply.headers["X-RateLimit-Remaining"]))
    spare = (time.monotonic() - start) / 3 + 1  # what comes back meanwhile
    assert 20 <= len(good) <= 20 + spare and good == sorted(good, reverse=True)
    is_error(reply, 429)
    assert reply.json["error_code"] == "RATE_LIMITED"
    assert 1 <= int(reply.headers["Retry-After"]) <= 60 and int(reply.headers["X-RateLimit-Reset"]) >= 1
    assert reply.headers["X-RateLimit-Remaining"] == "0"
    # Nothing is done beyond it, whatever it is; and no way around it by other spellings.
    is_error(client("PUT", "/sandbox/b", {}), 429)
    reply = ask(server, "GET /sandbox", None, f"authorization: bearer   {made['token']}")
    is_error(reply, 429)
    # Another token of the same tenant, and the machine's owner, are not slowed.
    assert other("GET", "/sandbox").status == 200 and "X-RateLimit-Limit" not in admin("GET", "/sandbox").headers
    assert other.ok("GET", "/sandbox")["sandboxes"] == []
    for t in (made, second):
        admin.ok("DELETE", f"/tokens/{t['id']}")
