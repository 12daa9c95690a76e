# SPDX-License-Identifier: Apache-2.0
"""What a tenant may have, asked for by many at the same moment."""

from attack_helpers import at_once, eventually, is_error


def counts(replies):
    found = {}
    for reply in replies:
        found[reply.status] = found.get(reply.status, 0) + 1
    return found


def clear(client):
    names = [b["id"] for b in client.ok("GET", "/sandbox?limit=1000")["sandboxes"]]
    at_once(*[lambda n=n: client.ok("DELETE", f"/sandbox/{n}") for n in names])
    assert client.ok("GET", "/sandbox")["sandboxes"] == []


def test_the_last_place_is_given_once(new_tenant):
    client = new_tenant(quotas={"sandboxes": 5, "running": 0})
    for i in range(4):
        client.ok("PUT", f"/sandbox/b{i}", {})
    replies = at_once(*[lambda i=i: client("PUT", f"/sandbox/n{i}", {}) for i in range(100)])
    assert counts(replies) == {201: 1, 403: 99}
    assert {r.json["error_code"] for r in replies if r.status == 403} == {"QUOTA_EXCEEDED"}
    assert len(client.ok("GET", "/sandbox")["sandboxes"]) == 5
    # One that is there is found, not counted; one that goes makes room.
    assert client("PUT", "/sandbox/b0", {}).status == 200
    client.ok("DELETE", "/sandbox/b0")
    replies = at_once(*[lambda: client("POST", "/sandbox", {}) for _ in range(10)])
    assert counts(replies) == {201: 1, 403: 9}
    clear(client)


def test_the_same_name_from_many_sides(new_tenant):
    client = new_tenant(quotas={"sandboxes": 1})
    replies = at_once(*[lambda: client("PUT", "/sandbox/one", {}) for _ in range(50)])
    assert set(counts(replies)) <= {200, 201} and counts(replies)[201] == 1
    # Made and ended by many at once, it is there or not there in the end, and counted so.
    at_once(*[lambda i=i: client("DELETE" if i % 2 else "PUT", "/sandbox/one", None if i % 2 else {}) for i in range(40)])
    client("DELETE", "/sandbox/one")
    assert client("PUT", "/sandbox/two", {}).status == 201
    is_error(client("PUT", "/sandbox/three", {}), 403)
    clear(client)


def test_disks(new_tenant):
    client = new_tenant(quotas={"disk": "100m"})
    replies = at_once(*[lambda i=i: client("PUT", f"/sandbox/d{i}", {"disk": "30m"}) for i in range(12)])
    assert counts(replies) == {201: 3, 403: 9}
    made = [b["id"] for b in client.ok("GET", "/sandbox")["sandboxes"]]
    # Growing one is asking for more, too.
    is_error(client("PATCH", f"/sandbox/{made[0]}", {"disk": "41m"}), 403)
    is_error(client("PATCH", f"/sandbox/{made[0]}", {"disk": "64t"}), 400, 403)
    assert client.ok("GET", f"/sandbox/{made[0]}")["limits"]["disk"] == 30 * 2**20
    is_error(client("PUT", "/sandbox/over", {"disk": "11m"}), 403)
    assert client("PUT", "/sandbox/fits", {"disk": "10m"}).status == 201
    clear(client)


def test_running_and_memory(new_tenant):
    for quotas, body in (({"running": 2}, {}), ({"memory": "200m"}, {"memory": "90m"})):
        client = new_tenant(quotas=quotas)
        replies = at_once(*[lambda i=i: client("PUT", f"/sandbox/n{i}", body) for i in range(30)])
        assert counts(replies) == {201: 2, 503: 28}  # one that cannot run is not made
        eventually(lambda: len(client.ok("GET", "/sandbox")["sandboxes"]) == 2)  # their disks go first
        clear(client)
        names = [f"r{i}" for i in range(6)]
        for name in names:
            client.ok("PUT", f"/sandbox/{name}", body)
            client.ok("POST", f"/sandbox/{name}/sleep")
        replies = at_once(*[lambda n=n: client("POST", f"/sandbox/{n}/wake") for n in names])
        assert set(counts(replies)) <= {200, 503} and counts(replies)[200] == 2, replies
        running = client.ok("GET", "/sandbox?status=running")["sandboxes"]
        assert len(running) == 2
        asleep = next(n for n in names if n not in [b["id"] for b in running])
        reply = client("POST", f"/sandbox/{asleep}/exec", {"argv": ["true"]})
        is_error(reply, 503)
        assert int(reply.headers["Retry-After"]) >= 1 and reply.json["error_code"] == "UNAVAILABLE"
        # A place that is left is a place to have.
        client.ok("POST", f"/sandbox/{running[0]['id']}/sleep")
        assert client.exec(asleep, {"argv": ["true"]})["success"]
        is_error(client("POST", f"/sandbox/{running[0]['id']}/wake"), 503)
        # More memory for one that runs counts as well.
        if "memory" in quotas:
            is_error(client("PATCH", f"/sandbox/{asleep}", {"memory": "150m"}), 403, 503)
            assert client.ok("GET", f"/sandbox/{asleep}")["limits"]["memory"] == 90 * 2**20
        clear(client)


def test_a_quota_that_shrinks(admin, new_tenant):
    """What is there stays; nothing is added until it fits again."""
    client = new_tenant(quotas={"sandboxes": 3})
    for i in range(3):
        client.ok("PUT", f"/sandbox/s{i}", {})
    admin.ok("PUT", f"/tenants/{client.name}", {"sandboxes": 1})
    assert len(client.ok("GET", "/sandbox")["sandboxes"]) == 3
    client.ok("DELETE", "/sandbox/s0")
    is_error(client("PUT", "/sandbox/s0", {}), 403)
    client.ok("DELETE", "/sandbox/s1")
    client.ok("DELETE", "/sandbox/s2")
    assert client("PUT", "/sandbox/s0", {}).status == 201
    # Quotas that a tenant would like to give itself.
    is_error(client("PUT", f"/tenants/{client.name}", {"sandboxes": 100}), 403)
    is_error(client("POST", "/tokens", {"name": "x", "tenant": client.name, "quotas": {"sandboxes": 9}}), 403)
    clear(client)


def test_tenants_do_not_share(new_tenant):
    one, two = new_tenant(quotas={"sandboxes": 1}), new_tenant(quotas={"sandboxes": 1})
    assert [c("PUT", "/sandbox/x", {}).status for c in (one, two)] == [201, 201]
    is_error(one("PUT", "/sandbox/y", {}), 403)
    two.ok("DELETE", "/sandbox/x")
    is_error(one("PUT", "/sandbox/y", {}), 403)
    eventually(lambda: two("PUT", "/sandbox/y", {}).status == 201)
    clear(one)
    clear(two)
