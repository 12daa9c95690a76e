# SPDX-License-Identifier: Apache-2.0
"""Tokens, tenants, rates, quotas."""

import http.client

import pytest
from api_helpers import ADMIN, PATIENCE, Client, eventually


@pytest.mark.parametrize("header", [
    None, "", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearer a,b", f"Token {ADMIN}", f"Bearer{ADMIN}",
    f"Bearer {ADMIN[:-1]}", f"Bearer {ADMIN}x", "Bearer cay_" + "A" * 43,
])
def test_no_good_token(api, header):
    reply = Client(api.server, token=None)("GET", "/sandbox", headers={"Authorization": header})
    reply.error(401, "UNAUTHORIZED")
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_scheme_in_any_case(api, scheme):
    client = Client(api.server, token=None)
    assert client("GET", "/sandbox", headers={"Authorization": f"{scheme} {ADMIN}"}).status == 200


def test_two_authorizations(api):
    connection = http.client.HTTPConnection("127.0.0.1", api.server.port, timeout=PATIENCE)
    connection.putrequest("GET", "/sandbox")
    connection.putheader("Authorization", f"Bearer {ADMIN}")
    connection.putheader("Authorization", f"Bearer {ADMIN}")
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


def test_unix_socket_needs_none(api, shared_box):
    local = Client(api.server, unix=True)
    assert shared_box in [s["id"] for s in local.ok("GET", "/sandbox")["sandboxes"]]
    assert local("GET", "/sandbox", headers={"Authorization": "Bearer wrong"}).status == 401


def test_token_life(api, server):
    made = api.ok("POST", "/tokens", {"name": "life", "rate": 600})
    assert made["token"].startswith("cay_") and len(made["token"]) == 47
    assert made["tenant"] == "life" and made["admin"] is False and made["rate"] == 600
    listed = [t for t in api.ok("GET", "/tokens")["tokens"] if t["id"] == made["id"]]
    assert len(listed) == 1 and "token" not in listed[0] and listed[0]["name"] == "life"
    client = Client(server, made["token"])
    reply = client("GET", "/sandbox")
    assert reply.json["sandboxes"] == []
    assert reply.headers["X-RateLimit-Limit"] == "600" and int(reply.headers["X-RateLimit-Remaining"]) == 599
    assert int(reply.headers["X-RateLimit-Reset"]) >= 1
    client("GET", "/tokens").error(403, "FORBIDDEN")
    client("POST", "/tokens", {"name": "more"}).error(403, "FORBIDDEN")
    client("PUT", "/tenants/life", {"running": 9}).error(403, "FORBIDDEN")
    client("GET", "/sandbox", headers={"X-Cay-Tenant": "admin"}).error(403, "FORBIDDEN")
    api.ok("DELETE", f"/tokens/{made['id']}")
    client("GET", "/sandbox").error(401, "UNAUTHORIZED")
    api("DELETE", f"/tokens/{made['id']}").error(404, "NOT_FOUND")
    for data in server.data.glob("daemon/*"):
        if data.is_file():
            assert made["token"].encode() not in data.read_bytes()  # hashed at rest
    assert made["token"] not in server.log()


@pytest.mark.parametrize("body, words", [
    ({}, "name"), ({"name": ""}, "name"), ({"name": "a/b"}, "name"), ({"name": 5}, "name"),
    ({"name": "x", "tenant": "-"}, "tenant"), ({"name": "x", "rate": -1}, "rate"), ({"name": "x", "rate": 1.5}, "rate"),
    ({"name": "x", "quotas": 5}, "quotas"), ({"name": "x", "quotas": {"cpu": 1}}, "cpu"),
    ({"name": "x", "quotas": {"memory": "lots"}}, "memory"), ({"name": "x", "role": "y"}, "role"),
])
def test_bad_tokens(api, body, words):
    api("POST", "/tokens", body).error(400, "INVALID_REQUEST", words)


def test_the_configured_token_stays(api):
    api("POST", "/tokens", {"name": "admin"}).error(409, "CONFLICT")
    admins = [t for t in api.ok("GET", "/tokens")["tokens"] if t["name"] == "admin"]
    assert len(admins) == 1
    api("DELETE", f"/tokens/{admins[0]['id']}").error(409, "CONFLICT")


def test_tenants_do_not_see_each_other(api, tenant, box):
    for method, path, body in [
        ("GET", "", None), ("PATCH", "", {"keepAlive": True}), ("DELETE", "", None), ("POST", "/exec", {"command": "id"}),
        ("POST", "/wake", None), ("POST", "/sleep", None), ("GET", "/stats", None), ("GET", "/events", None),
        ("GET", "/sessions", None), ("POST", "/sessions", {}), ("GET", "/processes", None),
        ("POST", "/processes", {"command": "id"}), ("GET", "/processes/p/logs", None),
    ]:
        tenant(method, f"/sandbox/{box}{path}", body).error(404, "NOT_FOUND")
    assert tenant.ok("GET", "/sandbox")["sandboxes"] == []
    assert tenant.ok("PUT", f"/sandbox/{box}", {})["created"] is True  # one of its own, of the same name
    tenant.exec(box, "echo theirs > /workspace/f")
    assert api.exec(box, "cat /workspace/f")["exitCode"] == 1
    assert tenant.ok("GET", f"/sandbox/{box}")["slug"] != api.ok("GET", f"/sandbox/{box}")["slug"]
    acting = {"X-Cay-Tenant": tenant.name}
    assert [s["id"] for s in api.ok("GET", "/sandbox", headers=acting)["sandboxes"]] == [box]
    api.ok("DELETE", f"/sandbox/{box}", headers=acting)
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "running"
    api("GET", "/sandbox", headers={"X-Cay-Tenant": "nobody"}).error(404, "NOT_FOUND")


def test_rate(api, server):
    made = api.ok("POST", "/tokens", {"name": "slow", "rate": 3})
    client = Client(server, made["token"])
    replies = [client("GET", "/sandbox") for _ in range(5)]
    assert [r.status for r in replies[:3]] == [200, 200, 200]
    assert [int(r.headers["X-RateLimit-Remaining"]) for r in replies[:3]] == [2, 1, 0]
    replies[3].error(429, "RATE_LIMITED")
    assert 1 <= int(replies[3].headers["Retry-After"]) <= 20
    assert Client(server).ok("GET", "/sandbox")  # others are not held up
    api.ok("DELETE", f"/tokens/{made['id']}")


def test_revoked_token_ends_its_streams(api, server):
    made = api.ok("POST", "/tokens", {"name": "streams"})
    client = Client(server, made["token"])
    client.ok("PUT", "/sandbox/s", {})
    with client.stream("GET", "/sandbox/s/events") as stream:
        assert next(iter(stream)).name == "created"
        api.ok("DELETE", f"/tokens/{made['id']}")
        assert list(stream) == []  # over
    api("DELETE", "/sandbox/s", headers={"X-Cay-Tenant": "streams"})


def test_quota_of_sandboxes(api, server):
    made = api.ok("POST", "/tokens", {"name": "few", "quotas": {"sandboxes": 2}})
    client = Client(server, made["token"])
    client.ok("PUT", "/sandbox/a", {})
    client.ok("PUT", "/sandbox/b", {})
    client("PUT", "/sandbox/c", {}).error(403, "QUOTA_EXCEEDED")
    client.ok("PUT", "/sandbox/a", {})
    client.ok("DELETE", "/sandbox/b")
    client.ok("PUT", "/sandbox/c", {})
    api.ok("PUT", "/tenants/few", {"sandboxes": 3})
    assert api.ok("GET", "/tenants/few")["quotas"]["sandboxes"] == 3
    client.ok("PUT", "/sandbox/d", {})
    for name in "acd":
        client.ok("DELETE", f"/sandbox/{name}")
    api.ok("DELETE", f"/tokens/{made['id']}")


def test_quota_of_running(api, server):
    made = api.ok("POST", "/tokens", {"name": "one", "quotas": {"running": 1}})
    client = Client(server, made["token"])
    client.ok("PUT", "/sandbox/a", {})
    reply = client("PUT", "/sandbox/b", {})
    reply.error(503, "UNAVAILABLE")
    assert int(reply.headers["Retry-After"]) >= 1
    client.ok("POST", "/sandbox/a/sleep")
    eventually(lambda: client("PUT", "/sandbox/b", {}).status in (200, 201))
    client("POST", "/sandbox/a/exec", {"command": "id"}).error(503, "UNAVAILABLE")
    for name in "ab":
        client.ok("DELETE", f"/sandbox/{name}")
    api.ok("DELETE", f"/tokens/{made['id']}")


def test_tenants(api):
    api("GET", "/tenants/nobody-here").error(404, "NOT_FOUND")
    api("PUT", "/tenants/bad%20name", {}).error(400, "INVALID_REQUEST")
    api("PUT", "/tenants/t", {"sandboxes": "x"}).error(400, "INVALID_REQUEST", "sandboxes")
