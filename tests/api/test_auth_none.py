# SPDX-License-Identifier: Apache-2.0
"""`--auth none`: no token is asked for, and pages of the web get no further than with one."""

import http.client
import json
import tempfile

import pytest
from api_helpers import ADMIN, PATIENCE, Client, Server
from conftest import need_root

LISTED = "https://listed.example"
# What a page can send without asking first: a form's kinds, and our own where the answer is of no interest.
SIMPLE = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]


@pytest.fixture(scope="module")
def open_server(top):
    need_root()
    server = Server(tempfile.mkdtemp(prefix="open-", dir=top), "--auth", "none", "--cors", LISTED)
    yield server
    assert server.stop() == 0
    assert server.faults() == []


@pytest.fixture(scope="module")
def anyone(open_server):
    return Client(open_server, token=None)


@pytest.fixture(scope="module")
def open_box(anyone):
    anyone.ok("PUT", "/sandbox/open-box", {})
    return "open-box"


def sandboxes(client):
    return {row["id"] for row in client.ok("GET", "/sandbox")["sandboxes"]}


# --- what it is for


def test_everything_but_managing(anyone, open_box):
    said = anyone.ok("POST", f"/sandbox/{open_box}/exec", {"command": "echo hi"})
    assert said["stdout"] == "hi\n"
    assert open_box in sandboxes(anyone)
    assert "tier" in anyone.ok("GET", "/health")
    assert anyone("GET", "/").status == 200


@pytest.mark.parametrize("method, path", [("GET", "/tokens"), ("GET", "/metrics"), ("GET", "/tenants/default")])
def test_managing_takes_a_token(anyone, open_server, method, path):
    anyone(method, path).error(403, "FORBIDDEN", "admin")
    assert Client(open_server)(method, path).status in (200, 404)


def test_no_other_tenant(anyone):
    anyone("GET", "/sandbox", headers={"X-Cay-Tenant": "default"}).error(403, "FORBIDDEN")


def test_a_token_that_is_sent_is_looked_at(open_server, anyone):
    Client(open_server, token="cay_wrong_token_wrong_token")("GET", "/sandbox").error(401, "UNAUTHORIZED")
    anyone("GET", "/sandbox", headers={"Authorization": "Basic YTpi"}).error(401, "UNAUTHORIZED")
    assert Client(open_server, token=ADMIN)("GET", "/tokens").status == 200


def test_the_unix_socket_is_as_ever(open_server):
    assert Client(open_server, unix=True)("GET", "/tokens", headers={"Host": "whatever"}).status == 200


def test_a_large_body(anyone, open_box):
    data = b"x" * (3 << 20)
    put = anyone("PUT", f"/sandbox/{open_box}/files/workspace/large", data, {"Content-Type": "application/octet-stream"})
    assert put.status in (200, 201), put


# --- names that lead here: DNS rebinding


def raw(server, host, path="/sandbox", method="GET", **headers):
    """With exactly this Host, or none."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    connection.putrequest(method, path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body


def test_hosts_of_this_machine(open_server):
    for host in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST"):
        assert raw(open_server, f"{host}:{open_server.port}")[0] == 200, host


@pytest.mark.parametrize(
    "host", ["evil.example:{}", "localhost", "localhost:1", "localhost.evil.example:{}", "x.localhost:{}", "127.1:{}",
             "0.0.0.0:{}", "localhost.:{}", "evil.example"],
)
@pytest.mark.parametrize("path", ["/sandbox", "/health", "/", "/openapi.json", "/sandbox/open-box/proxy/80/", "/nothing"])
def test_other_hosts(open_server, open_box, host, path):
    status, body = raw(open_server, host.format(open_server.port), path)
    assert status == 421, body
    assert json.loads(body)["error_code"] == "MISDIRECTED_REQUEST"


def test_another_host_with_a_token(open_server):
    assert raw(open_server, "evil.example", Authorization=f"Bearer {ADMIN}")[0] == 421


def test_rebinding_cannot_change_anything(open_server, anyone):
    assert raw(open_server, f"evil.example:{open_server.port}", "/sandbox/rebound", "PUT", Content_Length="0")[0] == 421
    assert "rebound" not in sandboxes(anyone)


# --- pages that send here: CSRF


@pytest.mark.parametrize("kind", SIMPLE + ["application/json"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1:{}",
                                    "http://3000-a-bbbbbbbb.localhost:{}", "file://", ""])
def test_a_page_cannot_post(open_server, anyone, open_box, kind, origin):
    origin = origin.format(open_server.port)
    headers = {"Host": f"localhost:{open_server.port}", "Origin": origin, "Content-Type": kind}
    body = json.dumps({"command": "touch /workspace/csrf"})
    anyone("POST", f"/sandbox/{open_box}/exec", body, headers).error(403, "FORBIDDEN", "Origin")
    anyone("POST", "/sandbox", json.dumps({"id": "csrf"}), headers).error(403, "FORBIDDEN")
    assert "csrf" not in sandboxes(anyone)
    assert anyone("GET", f"/sandbox/{open_box}/files/workspace/csrf").status == 404


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_a_page_cannot_embed(open_server, anyone, open_box, site):
    """Pictures, scripts and links come without an Origin."""
    anyone("GET", f"/sandbox/{open_box}/files/etc/hostname", headers={"Sec-Fetch-Site": site}).error(403, "FORBIDDEN")
    assert anyone("GET", "/sandbox", headers={"Sec-Fetch-Site": "none"}).status == 200
    assert anyone("GET", "/sandbox", headers={"Sec-Fetch-Site": "same-origin"}).status == 200


def test_a_page_learns_nothing_of_the_machine(anyone):
    assert "tier" not in anyone.ok("GET", "/health", headers={"Origin": "https://evil.example"})


def test_no_large_body_of_a_page(anyone):
    headers = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
    try:
        assert anyone("POST", "/sandbox", b" " * (1 << 20), headers).status in (401, 403, 413)
    except ConnectionError:
        pass  # refused before it was sent


def test_preflights(open_server, anyone):
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    evil = anyone("OPTIONS", "/sandbox", headers={"Origin": "https://evil.example", **asks})
    assert "Access-Control-Allow-Origin" not in evil.headers
    good = anyone("OPTIONS", "/sandbox", headers={"Origin": LISTED, **asks})
    assert good.headers["Access-Control-Allow-Origin"] == LISTED


def test_pages_that_may(open_server, anyone, open_box):
    for origin in (LISTED, f"http://127.0.0.1:{open_server.port}"):
        said = anyone("POST", f"/sandbox/{open_box}/exec", {"command": "true"}, {"Origin": origin, "Sec-Fetch-Site": "cross-site"})
        assert said.status == 200, (origin, said)


def test_two_origins(open_server):
    connection = http.client.HTTPConnection("127.0.0.1", open_server.port, timeout=PATIENCE)
    connection.putrequest("GET", "/sandbox")
    connection.putheader("Origin", LISTED)
    connection.putheader("Origin", "https://evil.example")
    connection.endheaders()
    assert connection.getresponse().status in (400, 403)
    connection.close()


def test_files_of_a_sandbox_are_no_pages_of_ours(anyone, open_box):
    """Whoever opens one in a browser does not run its scripts as us."""
    anyone("PUT", f"/sandbox/{open_box}/files/workspace/x.html", b"<script>fetch('/sandbox')</script>",
           {"Content-Type": "application/octet-stream"})
    got = anyone("GET", f"/sandbox/{open_box}/files/workspace/x.html")
    assert got.status == 200 and got.headers["Content-Security-Policy"] == "sandbox"


def test_websockets(open_server, open_box):
    host = f"localhost:{open_server.port}"
    path = f"/sandbox/{open_box}/terminal"
    asks = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13",
            "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    assert raw(open_server, host, path, Origin="https://evil.example", **asks)[0] == 403
    assert raw(open_server, "evil.example", path, **asks)[0] == 421
