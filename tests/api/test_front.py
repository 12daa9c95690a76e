# SPDX-License-Identifier: Apache-2.0
"""What every request goes through: routes, methods, the description, health, metrics, CORS, ids."""

import json
import re

import pytest
from api_helpers import ADMIN, TOP, Client

METHODS = ["get", "post", "put", "patch", "delete"]


def routes_of_the_table():
    text = (TOP / "src" / "api" / "routes.c").read_text()
    found = re.findall(r'ROUTE\(\s*HTTP_([A-Z]+), "([^"]+)"', text)
    found += [(m, "/sandbox/{id}/proxy/{port}/{path*}") for m in re.findall(r"PREVIEW\(HTTP_([A-Z]+),", text)]
    found += [(m, "/sandbox/{id}/opencode/{path*}") for m in re.findall(r"OPENCODE\(HTTP_([A-Z]+),", text)]
    return {(m.lower(), p.replace("*", "")) for m, p in found}


def test_description_has_every_route(api):
    spec = Client(api.server, token=None).ok("GET", "/openapi.json")
    assert spec["openapi"].startswith("3.1")
    described = {(m, p) for p, methods in spec["paths"].items() for m in methods}
    assert described == routes_of_the_table()
    assert len(described) > 25


def references(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def no_doubles(pairs):
    names = [k for k, _ in pairs]
    assert len(names) == len(set(names)), names
    return dict(pairs)


def test_description_is_sound(api):
    text = api("GET", "/openapi.json").body
    spec = json.loads(text, object_pairs_hook=no_doubles)
    for reference in set(references(spec)):
        node = spec
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    ids = [op["operationId"] for ops in spec["paths"].values() for op in ops.values()]
    assert len(ids) == len(set(ids))
    for path, ops in spec["paths"].items():
        for op in ops.values():
            named = {p["name"] for p in op["parameters"] if p["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path)), path
            assert op["summary"] and op["responses"]
    fields = spec["components"]["schemas"]["CreateSandbox"]["properties"]
    assert "memory" in fields and "ports" not in fields


def test_every_described_route_is_there_and_others_are_not(api):
    spec = api.ok("GET", "/openapi.json")
    for path, ops in spec["paths"].items():
        real = re.sub(r"\{\w+\}", "no-such-thing", path)
        for method in METHODS:
            reply = api(method.upper(), real, body="{" if method != "get" else None)
            if method in ops:
                assert reply.status not in (405, 501), (method, path, reply)
            else:
                reply.error(405, "METHOD_NOT_ALLOWED")
                allowed = {m.strip().lower() for m in reply.headers["Allow"].split(",")}
                assert allowed == set(ops) | {"options"} | ({"head"} if "get" in ops else set())


@pytest.mark.parametrize("path", ["/nothing", "/sandbox/a/b/c", "/Sandbox", "/sandbox/x/exec/", "/health/x"])
def test_no_such_path(api, path):
    reply = api("GET", path)
    assert reply.status in (400, 404), reply
    assert reply.json["error_code"] in ("NOT_FOUND", "INVALID_REQUEST")


def test_unknown_method(api):
    api("BREW", "/sandbox").error(501, "NOT_IMPLEMENTED", "BREW")


def test_options(api):
    reply = Client(api.server, token=None)("OPTIONS", "/sandbox/x")
    assert reply.status == 204 and reply.body == b""
    assert reply.headers["Allow"] == "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"
    assert "Access-Control-Allow-Methods" not in reply.headers


def test_health(api):
    public = Client(api.server, token=None).ok("GET", "/health")
    assert set(public) == {"ok", "status", "service", "version", "timestamp"}
    assert public["ok"] is True and public["status"] == "healthy" and public["service"] == "cay"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", public["timestamp"])
    for client in (api, Client(api.server, unix=True)):
        known = client.ok("GET", "/health")
        assert known["tier"] == "namespaces" and known["load"]["boxes"] > 0 and "ready" in known["pool"]
    wrong = Client(api.server, token="cay_wrong").ok("GET", "/health")
    assert set(wrong) == set(public)


def test_index(api):
    client = Client(api.server, token=None)
    assert client.ok("GET", "/")["service"] == "cay"
    page = client("GET", "/", headers={"Accept": "text/html,*/*"})
    assert page.headers["Content-Type"].startswith("text/plain") and b"curl" in page.body


def test_head_is_get_without_a_body(api, shared_box):
    for path in ("/health", "/openapi.json", f"/sandbox/{shared_box}", f"/sandbox/{shared_box}/events"):
        reply = api("HEAD", path)
        assert reply.status == 200 and reply.body == b"", path


def test_metrics(api, box, tenant):
    api.exec(box, "exit 3")
    text = api("GET", "/metrics").body.decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    for name in ("cay_sandbox_created_total", "cay_pool_ready", "cay_boxes_running",
                 "cay_egress_bytes_total", "cay_transfers", 'cay_ends_total{reason="exit"}',
                 "process_resident_memory_bytes", "cay_sandbox_wake_seconds_count", "cay_exec_seconds_count"):
        assert name in values, name
    assert float(values["cay_sandbox_created_total"]) >= 1 and float(values['cay_ends_total{reason="exit"}']) >= 1
    assert float(values["cay_exec_seconds_sum"]) > 0
    buckets = [float(v) for k, v in values.items() if k.startswith("cay_exec_seconds_bucket")]
    assert buckets == sorted(buckets) and buckets[-1] == float(values["cay_exec_seconds_count"])
    assert float(values['cay_http_requests_total{method="POST",code="2xx"}']) >= 1
    tenant("GET", "/metrics").error(403, "FORBIDDEN")
    assert Client(api.server, unix=True)("GET", "/metrics").status == 200


@pytest.mark.parametrize("sent", ["abc", "A.b_c-9", "x" * 128])
def test_request_id_is_kept(api, sent):
    assert api("GET", "/health", headers={"X-Request-Id": sent}).headers["X-Request-Id"] == sent


@pytest.mark.parametrize("sent", ["", "a b", "x" * 129, "a;b", "\u00e9"])
def test_request_id_is_made(api, sent):
    made = api("GET", "/health", headers={"X-Request-Id": sent.encode("latin-1")}).headers["X-Request-Id"]
    assert made != sent and re.fullmatch(r"[A-Za-z0-9._-]+", made)


def test_request_ids_differ_and_are_logged(api):
    ids = {api("GET", "/sandbox/nobody").headers["X-Request-Id"] for _ in range(5)}
    assert len(ids) == 5
    log = api.server.log()
    assert all(f"req={i}" in log for i in ids)
    assert ADMIN not in log


@pytest.mark.parametrize("query", ["?token=x", "?access_token=x"])
def test_token_in_the_url(api, query):
    api("GET", "/sandbox" + query).error(400, "INVALID_REQUEST", "Bearer")


def test_unknown_query(api):
    api("GET", "/sandbox?limt=5").error(400, "INVALID_REQUEST", "limt", "limit")
    api("GET", "/sandbox?limit=5&limit=6").error(400, "INVALID_REQUEST")
    api("GET", "/sandbox?limit=x").error(400, "INVALID_REQUEST", "limit")
    api("GET", "/sandbox?limit=1001").error(400, "INVALID_REQUEST", "limit")


def test_cors(make_server):
    server = make_server("--cors", "https://a.example, https://b.example")
    client = Client(server)
    good = client("GET", "/health", headers={"Origin": "https://b.example"})
    assert good.headers["Access-Control-Allow-Origin"] == "https://b.example"
    assert good.headers["Vary"] == "Origin" and "X-Request-Id" in good.headers["Access-Control-Expose-Headers"]
    for origin in ("https://c.example", "https://a.example.evil", "null", "https://a.exampl"):
        bad = client("GET", "/health", headers={"Origin": origin})
        assert bad.status == 200 and "Access-Control-Allow-Origin" not in bad.headers
    flight = Client(server, token=None)("OPTIONS", "/sandbox/x/exec", headers={
        "Origin": "https://a.example", "Access-Control-Request-Method": "POST"})
    assert flight.status == 204 and flight.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert "POST" in flight.headers["Access-Control-Allow-Methods"]
    assert "Authorization" in flight.headers["Access-Control-Allow-Headers"]
    refused = Client(server, token=None)("GET", "/sandbox", headers={"Origin": "https://a.example"})
    assert refused.status == 401 and refused.headers["Access-Control-Allow-Origin"] == "https://a.example"


def test_cors_of_a_program_in_a_sandbox(make_server):
    """By path and with the API's token, a page that is listed may ask it, and reads its answers and what Cay says for it."""
    server = make_server("--cors", "https://a.example")
    client = Client(server)
    client.ok("PUT", "/sandbox/x", {})
    path = "/sandbox/x/proxy/3000/"
    page, asks = {"Origin": "https://a.example"}, {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "authorization,x-mine"}
    flight = Client(server, token=None)("OPTIONS", path, headers={**page, **asks})
    assert flight.status == 204 and flight.headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert (flight.headers["Access-Control-Allow-Methods"], flight.headers["Access-Control-Allow-Headers"]) == ("*", "Authorization, *")
    stranger = Client(server, token=None)
    assert stranger("OPTIONS", path, headers={"Origin": "https://b.example", **asks}).status == 401
    assert stranger("OPTIONS", path, headers=page).status == 401
    stranger("OPTIONS", path + "?cay_token=abcdefgh12345678", headers={**page, **asks}).error(404, "INVALID_TOKEN")
    nobody = client("PUT", path, b"x", headers=page)
    assert nobody.status == 502 and nobody.headers.get_all("Access-Control-Allow-Origin") == ["https://a.example"]
    client("OPTIONS", path, headers={**page, **asks}).error(502, "BAD_GATEWAY")  # with a token it is the program's
    assert "Access-Control-Allow-Origin" not in client("GET", path, headers={"Origin": "https://b.example"}).headers
