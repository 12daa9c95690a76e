# SPDX-License-Identifier: Apache-2.0
"""Sandboxes: made, found, changed, asleep, awake, gone."""

import pytest
from api_helpers import at_once, eventually

FIELDS = {"success", "sandboxId", "id", "slug", "status", "image", "limits", "labels", "userId", "provider", "box", "boxes",
          "sleepAfter", "destroyAfter", "budget", "keepAlive", "ephemeral", "createdAt", "updatedAt", "lastActiveAt", "workspaceSyncedAt",
          "network", "secrets", "languages", "sharedZygote", "opencodeUrl", "opencodeUiUrl",
          "durable", "archived", "sync", "archiveAfter"}


def test_create(api):
    body = {"id": "make.me_1", "memory": "256m", "disk": 1 << 30, "pids": 64, "cpus": 0.5, "env": {"A": "1"},
            "labels": {"team": "x"}, "sleepAfter": "3m", "keepAlive": False, "ephemeral": False, "userId": "u1",
            "image": "host"}
    reply = api("POST", "/sandbox", body)
    assert reply.status == 201, reply
    made = reply.json
    assert set(made) == FIELDS | {"created"}
    assert made["success"] is True and made["sandboxId"] == "make.me_1" and made["status"] == "running"
    assert made["limits"] == {"memory": 256 << 20, "disk": 1 << 30, "pids": 64, "cpus": 0.5}
    assert made["labels"] == {"team": "x"} and made["sleepAfter"] == 180 and made["userId"] == "u1"
    assert made["provider"] == "local" and made["box"] > 0 and made["created"] is True
    again = api("POST", "/sandbox", body)
    assert again.status == 200 and again.json["created"] is False
    api("POST", "/sandbox", {**body, "memory": "512m"}).error(409, "CONFLICT")
    got = api.ok("GET", "/sandbox/make.me_1")
    assert set(got) == FIELDS | {"stats", "ports"} and got["stats"]["pids"] >= 1
    assert api.exec("make.me_1", "echo $A")["stdout"] == "1\n"
    gone = api.ok("DELETE", "/sandbox/make.me_1")
    assert gone["success"] is True
    api("GET", "/sandbox/make.me_1").error(404, "NOT_FOUND", "PUT")
    api("DELETE", "/sandbox/make.me_1").error(404, "NOT_FOUND")


def test_ids_are_made_up(api):
    a, b = api.ok("POST", "/sandbox", {}), api.ok("POST", "/sandbox")
    assert a["id"] != b["id"] and len(a["slug"]) <= 40
    for made in (a, b):
        api.ok("DELETE", f"/sandbox/{made['id']}")


def test_put_is_idempotent(api, box):
    assert api("PUT", f"/sandbox/{box}", {}).status == 200
    api("PUT", f"/sandbox/{box}", {"pids": 99}).error(409, "CONFLICT")


@pytest.mark.parametrize("name", ["-a", "a-", ".a", "a.", "_", "a b", "a/b", "\u00e9", "x" * 129, "", "a\nb"])
def test_bad_ids(api, name):
    api("POST", "/sandbox", {"id": name}).error(400, "INVALID_REQUEST", "id")


@pytest.mark.parametrize("path", ["/sandbox/-a", "/sandbox/a%20b", "/sandbox/" + "x" * 129, "/sandbox/%C3%A9"])
def test_bad_ids_in_paths(api, path):
    api("PUT", path, {}).error(400, "INVALID_REQUEST", "id")


@pytest.mark.parametrize("body, words", [
    ({"memory": "lots"}, "memory"), ({"memory": 1}, "memory"), ({"memory": True}, "memory"), ({"memory": "1m"}, "memory"),
    ({"disk": -1}, "disk"), ({"disk": 1.5}, "disk"), ({"pids": "many"}, "pids"), ({"pids": 1}, "pids"),
    ({"pids": 1 << 40}, "pids"), ({"cpus": 0}, "cpus"), ({"cpus": "x"}, "cpus"), ({"cpus": 1e300}, "cpus"),
    ({"env": ["A=1"]}, "env"), ({"env": {"A": 1}}, "env"), ({"env": {"A=B": ""}}, "env"), ({"env": {"": ""}}, "env"),
    ({"labels": {"a": None}}, "labels"), ({"labels": {"a": "x" * 257}}, "labels"),
    ({"labels": {str(i): "" for i in range(65)}}, "labels"), ({"env": {str(i): "" for i in range(513)}}, "env"),
    ({"sleepAfter": "soon"}, "sleepAfter"), ({"sleepAfter": 0}, "sleepAfter"), ({"sleepAfter": -1}, "sleepAfter"),
    ({"keepAlive": "yes"}, "keepAlive"), ({"ephemeral": 1}, "ephemeral"), ({"userId": 7}, "userId"),
    ({"userId": "x" * 257}, "userId"), ({"image": 5}, "image"), ({"image": "x" * 64}, "image"),
    ({"memry": 1}, "memory"), ({"colour": "red"}, "colour"),
])
def test_bad_settings(api, body, words):
    before = api.ok("GET", "/sandbox")["sandboxes"]
    api("POST", "/sandbox", {"id": "bad", **body}).error(400, "INVALID_REQUEST", words)
    api("PUT", "/sandbox/bad", body).error(400, "INVALID_REQUEST", words)
    assert api.ok("GET", "/sandbox")["sandboxes"] == before  # nothing was touched


def test_parts_that_are_not_there(api, box):
    for value in ("x", None, [], True):
        api("POST", "/sandbox", {"ports": value}).error(400, "INVALID_REQUEST", "ports", "not supported")
        api("PATCH", f"/sandbox/{box}", {"ports": value}).error(400, "INVALID_REQUEST", "ports")


def test_settings_of_the_disk(api, box):
    for field, bad in [("durable", "x"), ("sync", 1), ("snapshot", [])]:
        api("POST", "/sandbox", {field: bad}).error(400, "INVALID_REQUEST", field)
        api("PATCH", f"/sandbox/{box}", {field: bad}).error(400, "INVALID_REQUEST", field)
    assert api.ok("PATCH", f"/sandbox/{box}", {"durable": True})["durable"] is True
    api.ok("POST", f"/sandbox/{box}/sleep")
    assert api.exec(box, "echo x > /workspace/f && sync -f /workspace/f && cat /workspace/f")["stdout"] == "x\n"
    assert api.ok("PATCH", f"/sandbox/{box}", {"durable": False})["durable"] is False


def test_image_that_is_not_there(api):
    reply = api("PUT", "/sandbox/no-image", {"image": "nothing-of-that-name"})
    assert reply.status in (400, 404), reply
    api("GET", "/sandbox/no-image").error(404, "NOT_FOUND")


@pytest.mark.parametrize("raw, words", [
    (b"{", "JSON"), (b"[]", "object"), (b"null", "object"), (b'{"id":"a","id":"b"}', "duplicate"), (b"\xef\xbb\xbf{}", "byte order"),
    (b'{"id":"\xff"}', "JSON"), (b'{"memory":1e400}', "JSON"), (b'{"id":"a\\u0000"}', "NUL"), (b"[" * 100, "deep"),
    (b'{"labels":' * 40 + b"1" + b"}" * 40, "deep"), (b"{}{}", "JSON"), (b"{'id':1}", "JSON"),
])
def test_bodies_that_are_none(api, raw, words):
    api("POST", "/sandbox", raw).error(400, "INVALID_REQUEST", words)


def test_too_large(api):
    reply = api("POST", "/sandbox", b'{"userId":"' + b"x" * (33 << 20) + b'"}')
    assert reply.status == 413 and reply.json["error_code"] == "PAYLOAD_TOO_LARGE"


def test_body_where_none_belongs(api, box):
    api("POST", f"/sandbox/{box}/wake", {"a": 1}).error(400, "INVALID_REQUEST", "no body")
    api("DELETE", f"/sandbox/{box}", "x").error(400, "INVALID_REQUEST", "no body")


def test_patch(api, box):
    changed = api.ok("PATCH", f"/sandbox/{box}", {"memory": "128m", "pids": 32, "sleepAfter": 3600, "keepAlive": True,
                                                  "labels": {"a": "b"}, "env": {"NEW": "yes"}})
    assert changed["limits"]["memory"] == 128 << 20 and changed["limits"]["pids"] == 32
    assert changed["sleepAfter"] == 3600 and changed["keepAlive"] is True and changed["labels"] == {"a": "b"}
    assert api.ok("GET", f"/sandbox/{box}")["limits"] == changed["limits"]
    assert api.exec(box, "echo $NEW")["stdout"] == "yes\n"
    hungry = api.exec(box, {"argv": ["python3", "-c", "x = 'a' * (300 << 20)"]})  # the limit holds at once
    assert hungry["success"] is False and hungry["reason"] in ("oom", "exit", "signal"), hungry
    unchanged = api.ok("PATCH", f"/sandbox/{box}", {})
    assert unchanged["limits"] == changed["limits"]
    for field in ("id", "image", "ephemeral", "userId", "gitUrl", "gitBranch"):
        api("PATCH", f"/sandbox/{box}", {field: "x"}).error(400, "INVALID_REQUEST", field, "changed")
    api("PATCH", f"/sandbox/{box}", {"memory": "1k"}).error(400, "INVALID_REQUEST", "memory")
    api("PATCH", "/sandbox/nobody", {}).error(404, "NOT_FOUND")


def test_sleep_and_wake(api, box):
    api.exec(box, "echo kept > /workspace/f")
    first = api.ok("GET", f"/sandbox/{box}")["box"]
    asleep = api.ok("POST", f"/sandbox/{box}/sleep")
    assert asleep["status"] == "sleeping" and asleep["box"] is None
    for path in ("", "/stats", "/events", "/processes", "/sessions"):
        api.ok("GET", f"/sandbox/{box}{path}")
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "sleeping"  # looking does not wake
    assert api.ok("GET", f"/sandbox/{box}/stats")["stats"] is None
    assert api.ok("POST", f"/sandbox/{box}/sleep")["status"] == "sleeping"
    awake = api.ok("POST", f"/sandbox/{box}/wake")
    assert awake["status"] == "running" and awake["box"] != first and awake["boxes"] == 2
    api.ok("POST", f"/sandbox/{box}/sleep")
    assert api.exec(box, "cat /workspace/f")["stdout"] == "kept\n"  # use wakes
    api("POST", "/sandbox/nobody/wake").error(404, "NOT_FOUND")
    api("POST", "/sandbox/nobody/sleep").error(404, "NOT_FOUND")


def test_falls_asleep_by_itself(api):
    api.ok("PUT", "/sandbox/sleepy", {"sleepAfter": 1})
    eventually(lambda: api.ok("GET", "/sandbox/sleepy")["status"] == "sleeping")
    types = [e["type"] for e in api.ok("GET", "/sandbox/sleepy/events")["events"]]
    assert types[0] == "created" and len(types) >= 2
    api.ok("DELETE", "/sandbox/sleepy")


def test_stats(api, box):
    api.exec(box, "head -c 3000000 /dev/urandom > /workspace/f; sync")
    stats = api.ok("GET", f"/sandbox/{box}/stats")
    assert stats["sandboxId"] == box and stats["status"] == "running"
    assert stats["stats"]["cpu"] > 0 and stats["stats"]["memory"] > 0 and stats["stats"]["pids"] >= 1
    assert stats["limits"]["pids"] == 256


def test_list(api, tenant):
    names = [f"l{i:02}" for i in range(7)]
    for i, name in enumerate(names):
        tenant.ok("PUT", f"/sandbox/{name}", {"labels": {"n": str(i % 2), "all": ""}})
    tenant.ok("POST", "/sandbox/l03/sleep")
    ids = lambda query: [s["id"] for s in tenant.ok("GET", "/sandbox" + query)["sandboxes"]]
    assert ids("") == names
    assert ids("?label=n=1") == ["l01", "l03", "l05"] and ids("?label=all") == names and ids("?label=none") == []
    assert ids("?status=sleeping") == ["l03"] and "l03" not in ids("?status=running")
    seen, after = [], ""
    while after is not None:
        page = tenant.ok("GET", f"/sandbox?limit=3{after and '&after=' + after}")
        assert len(page["sandboxes"]) <= 3
        seen += [s["id"] for s in page["sandboxes"]]
        after = page["next"]
    assert seen == names
    tenant("GET", "/sandbox?status=dead").error(400, "INVALID_REQUEST", "status")
    tenant("GET", "/sandbox?label==x").error(400, "INVALID_REQUEST", "label")
    for name in names:
        tenant.ok("DELETE", f"/sandbox/{name}")


def test_events(api, box):
    api.ok("POST", f"/sandbox/{box}/sleep")
    api.ok("POST", f"/sandbox/{box}/wake")
    page = api.ok("GET", f"/sandbox/{box}/events")
    ids = [e["id"] for e in page["events"]]
    assert len(ids) >= 3 and ids == sorted(ids) and page["next"] == ids[-1]
    assert page["events"][0]["type"] == "created" and isinstance(page["events"][0]["data"], dict)
    for query in (f"?after={ids[0]}", f"?offset={ids[0]}"):
        assert [e["id"] for e in api.ok("GET", f"/sandbox/{box}/events{query}")["events"]] == ids[1:]
    assert len(api.ok("GET", f"/sandbox/{box}/events?limit=1")["events"]) == 1
    api("GET", f"/sandbox/{box}/events?follow=1").error(400, "INVALID_REQUEST", "event-stream")
    api("GET", f"/sandbox/{box}/events?after=x").error(400, "INVALID_REQUEST", "after")
    api("GET", f"/sandbox/{box}/events", headers={"Accept": "text/event-stream", "Last-Event-ID": "x"}).error(400, "INVALID_REQUEST")


def test_events_followed(api):
    api.ok("PUT", "/sandbox/watched", {})
    with api.stream("GET", "/sandbox/watched/events") as stream:
        first = next(iter(stream))
        assert first.name == "created" and int(first.id) == first.data["id"]
        api.ok("POST", "/sandbox/watched/sleep")
        second = next(iter(stream))
        assert second.data["id"] > first.data["id"]
        with api.stream("GET", "/sandbox/watched/events", headers={"Last-Event-ID": first.id}) as resumed:
            assert next(iter(resumed)).id == second.id
        api.ok("DELETE", "/sandbox/watched")
        assert stream.until("destroyed")
        assert list(stream) == []
    once = api.stream("GET", "/sandbox/watched/events")
    once.error(404, "NOT_FOUND")


def test_many_at_once_make_one(api):
    replies = at_once(*[lambda: api("PUT", "/sandbox/crowd", {}) for _ in range(8)])
    assert sorted(r.status for r in replies) == [200] * 7 + [201]
    assert len({r.json["box"] for r in replies}) == 1
    api.ok("DELETE", "/sandbox/crowd")


def test_destroyed_while_used(api):
    api.ok("PUT", "/sandbox/doomed", {})

    def destroy():
        eventually(lambda: api.ok("GET", "/sandbox/doomed/stats")["stats"]["pids"] > 1)
        return api("DELETE", "/sandbox/doomed")

    used, deleted = at_once(lambda: api("POST", "/sandbox/doomed/exec", {"command": "sleep 100"}), destroy)
    assert deleted.status == 200
    if used.status == 200:
        assert used.json["success"] is False and used.json["reason"] in ("box_lost", "killed"), used
    else:
        assert used.status in (404, 409, 503), used
    api("GET", "/sandbox/doomed").error(404, "NOT_FOUND")
