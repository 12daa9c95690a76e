# SPDX-License-Identifier: Apache-2.0
"""Every route, by everybody who may not use it, in every way that it is not meant to be used."""

import json

from attack_helpers import BODIES, METHODS, ask, is_error, state_of


def test_every_route_has_a_sample(routes):
    assert {route.name for route in routes} == set(BODIES)
    for route in routes:
        assert (route.schema is None) == (BODIES[route.name] is None), route


def test_wrong_methods(server, routes, world):
    allowed = {}
    for route in routes:
        allowed.setdefault(route.path, set()).add(route.method)
    for path, methods in allowed.items():
        methods |= {"HEAD"} if "GET" in methods else set()
        target = path
        for name, value in world.ids.items():
            target = target.replace(f"{{{name}}}", value)
        for method in (*METHODS, "TRACE", "FOO", "get", "OPTIONS"):
            if method in methods:
                continue
            reply = ask(server, f"{method} {target}", world.alice.token)
            if method == "OPTIONS":
                assert (reply.status, reply.body) == (204, b"")
            elif method == "HEAD":
                assert reply.status == 405
            else:
                is_error(reply, 405 if method in METHODS else 501)
            assert set(reply.headers["Allow"].split(", ")) >= methods, (method, path, reply.headers)
            assert set(reply.headers["Allow"].split(", ")) <= methods | {"OPTIONS"}


def test_nobody_and_strangers(server, routes, world):
    headers = (
        (),
        ("Authorization: Bearer wrong",),
        ("Authorization: Bearer cay_" + "A" * 43,),
        (f"Authorization: Bearer {world.alice.id}",),
        (f"Authorization: Basic {world.alice.token}",),
    )
    for route in routes:
        if route.is_public:
            continue
        body = json.dumps(route.body).encode() if route.body else b""
        for lines in headers:
            reply = ask(server, f"{route.method} {route.at(**world.ids)}", None, *lines, body=body)
            is_error(reply, 401)
            assert reply.headers["WWW-Authenticate"].startswith("Bearer"), route


def test_tenants_are_no_admins(routes, mallory, world):
    seen = 0
    for route in routes:
        if route.is_admin:
            seen += 1
            is_error(mallory(route.method, route.at(**world.ids), route.body), 403)
    assert seen == 6


# Routes on which another tenant's id is a name that nobody has yet.
MAKES_ITS_OWN = ("createSandbox", "putSandbox", "listStored", "putStored")


def ids_like(name):
    """What an id could be taken for by a server that folds, decodes or trims more than once."""
    first = f"{ord(name[0]):02x}"
    return [
        name,
        name.swapcase(),
        name.upper(),
        f"{name}.",
        f".{name}",
        f"%{first}{name[1:]}",
        f"%25{first}{name[1:]}",
        f"%2525{first}{name[1:]}",
        f"{name}%00",
        f"{name}%00.png",
        f"{name}%20",
        f"{name}%0a",
        f"{name}/",
        f"/{name}",
        f"./{name}",
        f"own/../{name}",
        f"own%2f..%2f{name}",
        f"own/..%2f{name}",
        f"{name};x=1",
        f"{name}%c0%ae",
        f"{name}%ff",
        f"{name}%",
        f"{name}%zz",
        "".join(f"%ef%bc%{0xA1 + ord(c) - 65:02x}" if "A" <= c <= "N" else c for c in name.upper()),
        "*",
        "%2a",
        "..",
        "%2e%2e",
        "1",
        "0",
        "-1",
        "null",
        "' OR 1=1 --".replace(" ", "%20"),
    ]


def test_another_tenants_sandbox(server, routes, mallory, world):
    for route in routes:
        if "id" not in route.params or route.name in MAKES_ITS_OWN:
            continue
        body = json.dumps(route.body).encode() if route.body else b""
        texts = set()
        for name in ids_like(world.box):
            target = route.at(**{**world.ids, "id": name})
            reply = ask(server, f"{route.method} {target}", mallory.token, body=body)
            text = is_error(reply, 400, 404, 405)
            if name == world.box:
                assert reply.status == 404
                texts.add(text)
        # What is there and not theirs looks like what is not there.
        reply = mallory(route.method, route.at(**{**world.ids, "id": "Vacant.1"}), route.body)
        texts.add(is_error(reply, 404).replace("Vacant", "Victim"))
        assert len(texts) == 1, texts


def test_another_tenants_ids_in_ones_own_sandbox(server, routes, mallory, world):
    """Also with a sandbox that has the same name as the other one's."""
    mallory.ok("PUT", f"/sandbox/{world.box}", {})
    mine = state_of(mallory)
    for route in routes:
        sid = world.snapshot if "/snapshots/" in route.path else world.session
        inner = {"sid": sid, "pid": world.process, "cid": world.context, "cell": world.cell, "bid": world.backup}
        if not set(route.params) & set(inner):
            continue
        body = json.dumps(route.body).encode() if route.body else b""
        for box in ("own", world.box):
            for name in ids_like(inner[route.params[-1]]) if box == "own" else [inner[route.params[-1]]]:
                target = route.at(id=box, sid=name, pid=name, cid=name, cell=name, bid=name)
                reply = ask(server, f"{route.method} {target}", mallory.token, body=body)
                is_error(reply, 400, 404, 405)
                assert box != world.box or reply.status == 404
    assert state_of(mallory) == mine
    mallory.ok("DELETE", f"/sandbox/{world.box}")


def test_another_tenants_results(server, routes, mallory, world):
    assert world.alice.ok("GET", f"/execute/{world.result}") == {"ours": True}
    for route in routes:
        if "request_id" not in route.params:
            continue
        for name in ids_like(world.result):
            is_error(ask(server, f"{route.method} {route.at(request_id=name)}", mallory.token), 400, 404, 405)
        is_error(mallory(route.method, route.at(request_id=world.result)), 404)
        is_error(mallory.stream(route.method, route.at(request_id=world.result)), 404)
    is_error(mallory("GET", f"/execute?before={world.result}"), 400)
    assert mallory.ok("GET", "/execute")["results"] == []
    assert [r["request_id"] for r in world.alice.ok("GET", "/execute")["results"]] == [world.result]


def test_other_ways_to_name_another_tenants_things(mallory, world):
    path = "/sandbox/own/exec"
    is_error(mallory("POST", path, {"command": "echo $SECRET", "session": world.session}), 404)
    for last in (f"{world.process}.0.0", f"{world.box}/{world.process}.0.0", f"../{world.process}.0.0"):
        headers = {"Last-Event-ID": last}
        reply = mallory.stream("POST", path, {"command": "true"}, headers)
        is_error(reply, 400, 404)
    path = "/sandbox/own/code"
    is_error(mallory("POST", path, {"code": "echo $SECRET", "context": world.context}), 404)
    for last in (f"{world.cell}:0", f"{world.box}/{world.cell}:0", f"../{world.cell}:0"):
        is_error(mallory.stream("POST", path, {"code": "1"}, {"Last-Event-ID": last}), 400, 404)
    listed = mallory("GET", "/sandbox?limit=1000&label=k").json
    assert listed["sandboxes"] == []
    after = mallory("GET", f"/sandbox?after={world.box[:-1]}").json
    assert [b["id"] for b in after["sandboxes"]] == ["own"]
    for name in (world.alice.name, "admin", "default", "1", ""):
        is_error(mallory("GET", "/sandbox", headers={"X-Cay-Tenant": name}), 403)


def test_the_same_id_in_other_clothes(server, world):
    """For its owner an encoded id is the same id, decoded once; nothing else is."""
    token = world.alice.token
    for name in ids_like(world.box):
        reply = ask(server, f"GET /sandbox/{name}", token)
        if name in (world.box, "%56ictim.1"):
            assert reply.status == 200, reply
        else:
            is_error(reply, 400, 404)


def test_unknown_parameters(server, routes, world, admin):
    for route in routes:
        body = json.dumps(route.body).encode() if route.body else b""
        for query in ("nonsense=1", "%00=1", "limit=1&limit=2&nonsense", "=", "token=abc", "access_token=abc"):
            reply = ask(server, f"{route.method} {route.at(**world.ids)}?{query}", admin.token, body=body)
            is_error(reply, 400)


def test_parameters_of_the_wrong_kind(world):
    box = f"/sandbox/{world.box}"
    for target in (
        "/sandbox?limit=-1",
        "/sandbox?limit=99999999999999999999",
        "/sandbox?limit=1001",
        "/sandbox?limit=",
        "/sandbox?limit=0x10",
        "/sandbox?limit=%0010",
        "/sandbox?status=dead",
        "/sandbox?status=running&status=sleeping",
        "/sandbox?label==x",
        f"/sandbox?label={'x' * 300}",
        f"{box}/events?after=x",
        f"{box}/events?after=-1",
        f"{box}/events?after=9223372036854775808",
        f"{box}/events?follow=yes",
        f"{box}/events?follow=1",
        f"{box}/processes/svc/logs?stream=stdin",
        f"{box}/processes/svc/logs?offset=-1",
        f"{box}/processes/svc/logs?offset=1.2.3",
        f"{box}/processes/svc/logs?offset=99999999999999999999",
        f"{box}/processes/svc/logs?follow=2",
        "/execute?limit=501",
        "/execute?before=nobody",
        "/usage?since=%00",
        "/usage?since=99999999999999999999",
        "/usage?by=sandbox&by=day",
    ):
        is_error(world.alice("GET", target), 400)
    for header in ("x", "-1", "1.2", "9" * 30, "", "svc"):
        headers = {"Last-Event-ID": header}
        is_error(world.alice.stream("GET", f"{box}/events", headers=headers), 400)
        is_error(world.alice.stream("GET", f"{box}/processes/svc/logs", headers=headers), 400, 404)
