# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of the bridge themselves: when they come to be, who sees them, and when they are gone. The pool, what Cay has not, and
the description of all of it."""

import re

import pytest
from api_helpers import eventually
from bridge_helpers import refused
from ws_helpers import connect

ROUTES = [
    ("POST", "", {}),
    ("POST", "/x/exec", {"argv": ["true"]}),
    ("GET", "/x/file/workspace/a", None),
    ("PUT", "/x/file/workspace/a", b"a"),
    ("PUT", "/x/file/workspace/a", b"a" * 400_000),
    ("GET", "/x/running", None),
    ("GET", "/x/pty", None),
    ("POST", "/x/persist", None),
    ("POST", "/x/hydrate", b"a"),
    ("POST", "/x/mount", {"mountPath": "/m", "options": {}}),
    ("POST", "/x/unmount", {"mountPath": "/m"}),
    ("POST", "/x/session", {}),
    ("DELETE", "/x/session/s", None),
    ("POST", "/x/tunnel/8080", None),
    ("DELETE", "/x/tunnel/8080", None),
    ("DELETE", "/x", None),
]


def test_ids(api):
    ids = {api.ok("POST", "/v1/sandbox")["id"] for _ in range(20)}
    assert len(ids) == 20 and all(re.fullmatch("[a-z2-7]{26}", name) for name in ids)
    assert {letter for name in ids for letter in name[:25]} == set("abcdefghijklmnopqrstuvwxyz234567")
    for name in ids:
        assert api.state(name) is None  # nothing is made of it yet


def test_what_clients_say_of_themselves(api):
    sent = {"exposedPorts": [3000], "timeoutMs": 1000, "createTimeoutMs": 5, "mounts": [], "later": {}}
    assert set(api.ok("POST", "/v1/sandbox", sent)) == {"id"}
    refused(api("POST", "/v1/sandbox", {"mounts": [{"bucket": "b"}]}), 501, "mount_error", "mounts")
    refused(api("POST", "/v1/sandbox", b"{"), 400, "invalid_request")


def test_made_by_its_first_use(api, box):
    assert api("GET", f"/v1/sandbox/{box}/running").json == {"running": False, "state": "none"}
    assert api.state(box) is None
    assert api.run(box, ["true"]).code == 0
    made = api.ok("GET", f"/sandbox/{box}")
    assert made["status"] == "running" and made["network"] == "internet"


def test_running_does_not_wake(api, box):
    assert api.run(box, ["true"]).code == 0
    assert api("GET", f"/v1/sandbox/{box}/running").json == {"running": True, "state": "running"}
    api.ok("POST", f"/sandbox/{box}/sleep")
    for _ in range(3):  # its files are there, and whoever goes on with it wakes it
        assert api("GET", f"/v1/sandbox/{box}/running").json == {"running": True, "state": "sleeping"}
    assert api.state(box) == "sleeping"
    assert api.run(box, ["true"]).code == 0


def test_one_that_loses_its_files_with_its_sleep(api, box):
    api.ok("PUT", f"/sandbox/{box}", {"ephemeral": True})
    api.ok("POST", f"/sandbox/{box}/sleep")
    assert api("GET", f"/v1/sandbox/{box}/running").json == {"running": False, "state": "sleeping"}


def test_gone(api, box):
    api.put(box, "workspace/a", b"a")
    for _ in range(2):
        reply = api("DELETE", f"/v1/sandbox/{box}")
        assert (reply.status, reply.body) == (204, b"")
    assert api.state(box) is None
    refused(api("GET", f"/v1/sandbox/{box}/file/workspace/a"), 404, "workspace_read_not_found")  # another one, and empty


def test_native_ids_are_the_same(api, box):
    """It is a sandbox like any other."""
    api.ok("PUT", f"/sandbox/{box}", {"env": {"OWN": "yes"}})
    assert api.sh(box, "echo $OWN; echo made > file").out == b"yes\n"
    assert api("GET", f"/sandbox/{box}/files/workspace/file").body == b"made\n"


@pytest.mark.parametrize("name", ["a b", "-x", "x-", "é", "x" * 129, "a%2fb"])
def test_bad_ids(api, name):
    path = f"/v1/sandbox/{name.replace(' ', '%20').replace('é', '%C3%A9')}"
    refused(api("POST", f"{path}/exec", {"argv": ["true"]}), 400, "invalid_request")


# -- who may


@pytest.mark.parametrize("method, path, body", ROUTES, ids=[f"{m} {p}" for m, p, _ in ROUTES])
def test_a_token_is_needed(api, method, path, body):
    for authorization in [None, "Bearer wrong", "Basic eDp5", "Bearer "]:
        refused(api(method, f"/v1/sandbox{path}", body, {"Authorization": authorization}), 401, "unauthorized")


@pytest.mark.parametrize("method, path", [("GET", "stats"), ("POST", "prime"), ("POST", "shutdown-prewarmed")])
def test_a_token_is_needed_for_the_pool(api, method, path):
    refused(api(method, f"/v1/pool/{path}", headers={"Authorization": None}), 401, "unauthorized")


def test_no_tokens_in_addresses(api, shared):
    refused(api("GET", f"/v1/sandbox/{shared}/running?token=x"), 400, "invalid_request", "token")


def test_ids_of_others(api, stranger, box):
    """The same id is another sandbox of another tenant's."""
    api.put(box, "workspace/mine", b"mine")
    assert stranger("GET", f"/v1/sandbox/{box}/running").json == {"running": False, "state": "none"}
    refused(stranger("GET", f"/v1/sandbox/{box}/file/workspace/mine"), 404, "workspace_read_not_found")
    assert stranger("DELETE", f"/v1/sandbox/{box}").status == 204
    assert api.get(box, "workspace/mine") == b"mine"
    refused(stranger("DELETE", f"/v1/sandbox/{box}/session/s"), 404, "invalid_request", box)


def test_no_room(api, stranger, box):
    """A quota, in their words."""
    assert api.ok("PUT", f"/tenants/{stranger.tenant}", {"running": 1})
    assert stranger.run(box, ["true"]).code == 0
    large = b"x" * 400_000
    for method, path, body in [("POST", "exec", {"argv": ["true"]}), ("GET", "file/workspace/a", None), ("PUT", "file/workspace/a", large)]:
        refused(stranger(method, f"/v1/sandbox/more-{method}/{path}", body), 503, "capacity_exceeded")
    assert stranger("DELETE", f"/v1/sandbox/{box}").status == 204


def test_no_room_to_wake(api, stranger, box):
    assert stranger.run("sleeps", ["true"]).code == 0
    stranger.ok("POST", "/sandbox/sleeps/sleep")
    assert api.ok("PUT", f"/tenants/{stranger.tenant}", {"running": 1})
    assert stranger.run(box, ["true"]).code == 0
    for method, path, body in [
        ("POST", "exec", {"argv": ["true"]}),
        ("GET", "file/workspace/a", None),
        ("PUT", "file/workspace/a", b"x" * 400_000),
        ("POST", "persist", None),
        ("POST", "hydrate", b"x" * 400_000),
    ]:
        refused(stranger(method, f"/v1/sandbox/sleeps/{path}", body), 503, "capacity_exceeded")
    refused(connect(stranger, "/v1/sandbox/sleeps/pty"), 503, "capacity_exceeded")
    for name in ("sleeps", box):
        assert stranger("DELETE", f"/v1/sandbox/{name}").status == 204


# -- what is not there


@pytest.mark.parametrize(
    "method, path, body, code",
    [
        ("POST", "mount", {"bucket": "b", "mountPath": "/mnt/x", "options": {"endpoint": "https://x"}}, "mount_error"),
        ("POST", "mount", {"binding": "B", "mountPath": "/mnt/x", "options": {}}, "mount_error"),
        ("POST", "unmount", {"mountPath": "/mnt/x"}, "unmount_error"),
        ("POST", "tunnel/8080", {"name": "app"}, "tunnel_error"),
        ("POST", "tunnel/8080", None, "tunnel_error"),
        ("DELETE", "tunnel/8080", None, "tunnel_error"),
    ],
)
def test_not_here(api, method, path, body, code):
    refused(api(method, f"/v1/sandbox/never-made/{path}", body), 501, code, "Cay")
    assert api.state("never-made") is None


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("POST", "mount", {}),
        ("POST", "mount", {"mountPath": "/m"}),
        ("POST", "mount", {"mountPath": "m", "options": {}}),
        ("POST", "mount", {"mountPath": 1, "options": {}}),
        ("POST", "mount", {"mountPath": "/m", "options": {}, "bucket": 1}),
        ("POST", "mount", b"x"),
        ("POST", "unmount", {}),
        ("POST", "unmount", {"mountPath": ""}),
        ("POST", "tunnel/0", None),
        ("POST", "tunnel/65536", None),
        ("POST", "tunnel/x", None),
        ("POST", "tunnel/8080", {"name": 1}),
        ("DELETE", "tunnel/-1", None),
    ],
)
def test_not_here_and_wrong(api, method, path, body):
    refused(api(method, f"/v1/sandbox/never-made/{path}", body), 400, "invalid_request")


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("GET", "/v1", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/sandbox", 405),
        ("PATCH", "/v1/sandbox/x/exec", 405),
        ("GET", "/v1/sandbox/x/exec", 405),
    ],
)
def test_no_such_route(api, method, path, status):
    refused(api(method, path), status, "invalid_request")


# -- the pool


def test_pool(api, stranger, box):
    assert api.run(box, ["true"]).code == 0
    stats = eventually(lambda: (found := api.ok("GET", "/v1/pool/stats"))["warm"] == 4 and found)
    assert set(stats) == {"warm", "assigned", "total", "config", "maxInstances"}
    assert stats["assigned"] >= 1 and stats["total"] == stats["warm"] + stats["assigned"]
    assert stats["config"] == {"warmTarget": 4, "refreshInterval": 0} and stats["maxInstances"] == 64
    assert stranger.ok("GET", "/v1/pool/stats")["assigned"] == 0
    assert api.ok("POST", "/v1/pool/prime") == {"ok": True}


def test_pool_is_renewed(api, stranger, box):
    eventually(lambda: api.ok("GET", "/v1/pool/stats")["warm"] == 4)
    refused(stranger("POST", "/v1/pool/shutdown-prewarmed"), 403, "unauthorized")
    assert api.ok("POST", "/v1/pool/shutdown-prewarmed") == {"ok": True, "stopped": 4}
    assert api.run(box, ["echo", "still"]).out == b"still\n"
    eventually(lambda: api.ok("GET", "/v1/pool/stats")["warm"] == 4)


# -- the description


def test_health(api):
    assert api("GET", "/health", headers={"Authorization": None}).json["ok"] is True


def resolve(description, node):
    """Every reference leads somewhere."""
    if isinstance(node, dict):
        if "$ref" in node:
            at = description
            for part in node["$ref"].removeprefix("#/").split("/"):
                at = at[part]
        for value in node.values():
            resolve(description, value)
    elif isinstance(node, list):
        for value in node:
            resolve(description, value)


def test_openapi(api):
    reply = api("GET", "/v1/openapi.json", headers={"Authorization": None})
    description = reply.json
    assert reply.status == 200 and description["openapi"] == "3.1.0"
    resolve(description, description)
    paths = description["paths"]
    for method, path, _ in ROUTES:
        path = re.sub("/x", "/{id}", path.replace("workspace/a", "{path}").replace("8080", "{port}").replace("session/s", "session/{sid}"))
        assert method.lower() in paths[f"/v1/sandbox{path}"], path
    for path in ["/v1/pool/stats", "/v1/pool/prime", "/v1/pool/shutdown-prewarmed", "/v1/openapi.json", "/v1/openapi.html"]:
        assert path in paths
    names = [route["operationId"] for path in paths.values() for route in path.values()]
    assert len(names) == len(set(names))
    assert "workspace_read_not_found" in description["components"]["schemas"]["Error"]["properties"]["code"]["enum"]
    headers = [p["name"] for p in paths["/v1/sandbox/{id}/exec"]["post"]["parameters"] if p["in"] == "header"]
    assert headers == ["Session-Id"]
    native = api("GET", "/openapi.json").json
    resolve(native, native)
    assert not any(path.startswith("/v1") for path in native["paths"])


@pytest.mark.parametrize("path", ["/v1/openapi.html", "/v1/openapi"])
def test_page(api, path):
    reply = api("GET", path, headers={"Authorization": None})
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/html")
    page = reply.body.decode()
    assert "<script" not in page and "POST /v1/sandbox/{id}/exec" in page and 'href="openapi.json"' in page
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
