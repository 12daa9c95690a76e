# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are destroyed when nobody uses them, and budgets as settings."""

import sqlite3
import time

import pytest
from api_helpers import Client, at_once, eventually, kill_daemon


def exists(client, name):
    return client("GET", f"/sandbox/{name}").status == 200


def age(server, name, ms):
    """As if its last use were so much longer ago."""
    db = sqlite3.connect(f"{server.data}/daemon/cay.db", timeout=60)
    with db:
        assert db.execute("UPDATE sandboxes SET active_ms = active_ms - ? WHERE id = ?", (ms, name)).rowcount == 1
    db.close()


# -- the settings


def test_as_a_setting(api):
    made = api.ok("PUT", "/sandbox/da", {"destroyAfter": 3600, "budget": {"usd": 1.5, "tokens": 100000}})
    assert made["destroyAfter"] == 3600
    assert made["budget"] == {"usd": 1.5, "tokens": 100000, "spent": {"usd": 0, "tokens": 0}}
    assert api("PUT", "/sandbox/da", {"destroyAfter": "1h", "budget": {"usd": 1.5, "tokens": 100000}}).status == 200
    api("PUT", "/sandbox/da", {"destroyAfter": "2h", "budget": {"usd": 1.5, "tokens": 100000}}).error(409, "CONFLICT")
    api("PUT", "/sandbox/da", {"destroyAfter": "1h", "budget": {"usd": 1.5}}).error(409, "CONFLICT")

    def patch(**body):
        got = api.ok("PATCH", "/sandbox/da", body)
        assert {k: got[k] for k in ("destroyAfter", "budget")} == {
            k: api.ok("GET", "/sandbox/da")[k] for k in ("destroyAfter", "budget")}
        return got["destroyAfter"], got["budget"]["usd"], got["budget"]["tokens"]

    assert patch(destroyAfter="7d") == (604800, 1.5, 100000)
    assert patch(budget={"usd": 0.000000001}) == (604800, 0.000000001, 100000)
    assert patch(budget={"tokens": 1}) == (604800, 0.000000001, 1)
    assert patch(budget={}) == (604800, 0.000000001, 1)
    assert patch(budget={"usd": None}) == (604800, None, 1)
    assert patch(budget={"usd": 2, "tokens": None}) == (604800, 2, None)
    assert patch(pids=99) == (604800, 2, None)
    assert patch(budget=None) == (604800, None, None)
    assert patch(destroyAfter=None) == (None, None, None)
    assert patch(destroyAfter=5) == (5, None, None)
    assert patch(destroyAfter=0) == (None, None, None)
    api.ok("DELETE", "/sandbox/da")


def test_without(api, box):
    got = api.ok("GET", f"/sandbox/{box}")
    assert got["destroyAfter"] is None
    assert got["budget"] == {"usd": None, "tokens": None, "spent": {"usd": 0, "tokens": 0}}
    assert api("PUT", f"/sandbox/{box}", {"destroyAfter": None, "budget": None}).status == 200
    assert api("PUT", f"/sandbox/{box}", {"destroyAfter": 0, "budget": {"usd": None}}).status == 200


@pytest.mark.parametrize("body,word", [
    ({"destroyAfter": -1}, "destroyAfter"), ({"destroyAfter": "soon"}, "destroyAfter"), ({"destroyAfter": "400d"}, "destroyAfter"),
    ({"destroyAfter": True}, "destroyAfter"), ({"destroyAfter": []}, "destroyAfter"),
    ({"budget": 5}, "budget"), ({"budget": []}, "budget"), ({"budget": {"eur": 1}}, "eur"), ({"budget": {"spent": {}}}, "spent"),
    ({"budget": {"usd": 0}}, "usd"), ({"budget": {"usd": -1}}, "usd"), ({"budget": {"usd": "1"}}, "usd"),
    ({"budget": {"usd": 1e7}}, "usd"), ({"budget": {"usd": 1e300}}, "usd"), ({"budget": {"tokens": 0}}, "tokens"),
    ({"budget": {"tokens": 1.5}}, "tokens"), ({"budget": {"tokens": 10**18}}, "tokens"),
])
def test_bad_settings(api, box, body, word):
    for method, path in (("PUT", "/sandbox/bad"), ("PATCH", f"/sandbox/{box}")):
        api(method, path, body).error(400, "INVALID_REQUEST", word)
    assert not exists(api, "bad")


# -- what comes of it


def unused_ones_go(make_server):
    server = make_server()
    client = Client(server)
    client.ok("PUT", "/sandbox/awake", {"destroyAfter": 1})
    client.ok("PUT", "/sandbox/asleep", {"destroyAfter": 1, "sleepAfter": 3600})
    client.ok("POST", "/sandbox/asleep/sleep")
    client.ok("PUT", "/sandbox/kept", {"destroyAfter": 1, "keepAlive": True})
    client.ok("PUT", "/sandbox/never", {})
    client.ok("PUT", "/sandbox/later", {"destroyAfter": 3600})
    client.ok("PUT", "/sandbox/busy", {"destroyAfter": 1})
    client.start("busy", {"command": "sleep 600", "id": "p", "keepAwake": True})
    with client.stream("GET", "/sandbox/awake/events?follow=1") as events:
        eventually(lambda: not exists(client, "awake") and not exists(client, "asleep"))
        assert list(events)[-1].name == "destroyed"
    eventually(lambda: server.log().count("was not used for its destroyAfter") == 2)
    for name in ("kept", "never", "later", "busy"):
        assert exists(client, name), name
    client.ok("DELETE", "/sandbox/busy/processes/p")
    client.ok("PATCH", "/sandbox/kept", {"keepAlive": False})
    eventually(lambda: not exists(client, "busy") and not exists(client, "kept"))
    assert exists(client, "never") and exists(client, "later")
    client.ok("PUT", "/sandbox/awake", {})  # its name is free again
    assert client.exec("awake", "ls -A /workspace")["stdout"] == ""


def use_is_use(make_server):
    """As long as somebody comes now and then it stays, also through sleep: they are looked at every ten seconds, so that once
    of these it is older than it might be."""
    client = Client(make_server())
    client.ok("PUT", "/sandbox/a", {"destroyAfter": 8, "sleepAfter": 1})
    end = time.monotonic() + 19
    while time.monotonic() < end:
        assert client.exec("a", "true")["success"]
        time.sleep(2.5)
    assert exists(client, "a")
    client.ok("PATCH", "/sandbox/a", {"destroyAfter": 1})
    eventually(lambda: not exists(client, "a"))


def while_the_server_was_down(make_server):
    server = make_server()
    client = Client(server)
    client.ok("PUT", "/sandbox/old", {"destroyAfter": "1h"})
    client.ok("PUT", "/sandbox/new", {"destroyAfter": "1h"})
    assert server.stop() == 0
    age(server, "old", 3600 * 1000)
    server.start()
    client = Client(server)
    eventually(lambda: not exists(client, "old"))
    assert exists(client, "new")
    client.ok("PATCH", "/sandbox/new", {"destroyAfter": 1})
    kill_daemon(server, client)  # its box lives on, and is found
    eventually(lambda: not exists(client, "new"))


def many(make_server):
    """More than are looked at in one go."""
    server = make_server("--boxes", "4", "--pool", "0")
    client = Client(server)
    for i in range(40):
        client.ok("PUT", f"/sandbox/m{i}", {"destroyAfter": "1h"})
        client.ok("POST", f"/sandbox/m{i}/sleep")
    assert server.stop() == 0
    for i in range(40):
        age(server, f"m{i}", 3600 * 1000)
    server.start()
    client = Client(server)
    eventually(lambda: client.ok("GET", "/sandbox?limit=1000")["sandboxes"] == [])


def test_in_time(make_server):
    """Each waits for the better part of a minute, with a server of its own: so they wait together."""
    jobs = [unused_ones_go, use_is_use, while_the_server_was_down, many]
    at_once(*[lambda job=job: job(make_server) for job in jobs])
