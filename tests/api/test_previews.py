# SPDX-License-Identifier: Apache-2.0
"""Ports and previews: a real HTTP server and real WebSockets in a box, reached by host and by path; and what a
hostile client, or a hostile box, tries with them."""

import hashlib
import json
import os
import re
import signal
import socket
import time
import urllib.parse

import pytest
from api_helpers import ADMIN, PATIENCE, Client, at_once, eventually
from preview_helpers import Preview, WebSocket, encoded, read_answer, start_server


@pytest.fixture(scope="module")
def served(api, server, shared_box):
    start_server(api, shared_box, 3000)
    made = api.ok("POST", f"/sandbox/{shared_box}/ports", {"port": 3000, "name": "web"})
    return shared_box, Preview(server, made)


def daemon_of(server):
    """The pid of cayd."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                text = f.read()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        if name == "cayd" and int(rest[1]) == server.process.pid:
            return int(pid)
    raise AssertionError("no daemon")


def memory_of(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def fields(reply, name):
    return reply.headers.get_all(name) or []


# --- ports


def test_open_list_close(api, box):
    made = api("POST", f"/sandbox/{box}/ports", {"port": 8080})
    assert made.status == 201
    port = made.json
    assert port["success"] and port["port"] == 8080 and port["name"] is None
    assert re.fullmatch("[a-z0-9]{16}", port["token"])
    slug = api.ok("GET", f"/sandbox/{box}")["slug"]
    assert port["url"] == f"http://8080-{slug}-{port['token']}.localhost:{api.server.port}/"
    assert port["path"] == f"/sandbox/{box}/proxy/8080/"
    again = api("POST", f"/sandbox/{box}/ports", {"port": 8080})
    assert again.status == 200 and again.json == port
    named = api.ok("POST", f"/sandbox/{box}/ports", {"port": 8080, "name": "x"})
    assert named["name"] == "x" and named["token"] == port["token"]
    other = api.ok("POST", f"/sandbox/{box}/ports", {"port": 80, "token": "abcdefgh12"})
    assert other["token"] == "abcdefgh12"
    changed = api.ok("POST", f"/sandbox/{box}/ports", {"port": 80, "token": "zyxwvuts98"})
    assert changed["token"] == "zyxwvuts98" and changed["createdAt"] == other["createdAt"]
    ports = api.ok("GET", f"/sandbox/{box}/ports")["ports"]
    assert [p["port"] for p in ports] == [80, 8080]
    assert ports[1] == {k: v for k, v in named.items() if k != "success"}
    assert api("DELETE", f"/sandbox/{box}/ports/80").status == 200
    api("DELETE", f"/sandbox/{box}/ports/80").error(404, "NOT_FOUND")
    assert [p["port"] for p in api.ok("GET", f"/sandbox/{box}/ports")["ports"]] == [8080]
    types = [e["type"] for e in api.ok("GET", f"/sandbox/{box}/events")["events"]]
    assert types.count("port_opened") == 2 and types.count("port_closed") == 1


@pytest.mark.parametrize("port", [0, 65536, -1, 80.5, "80", " 80", None, True, [80], 1e400])
def test_ports_that_are_none(api, shared_box, port):
    api("POST", f"/sandbox/{shared_box}/ports", json.dumps({"port": port})).error(400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "token", ["", "short12", "a" * 17, "UPPERCASE1", "with-hyphen", "with_under", "dot.dot.dot", "ä" * 8]
)
def test_tokens_that_are_none(api, shared_box, token):
    api("POST", f"/sandbox/{shared_box}/ports", {"port": 9, "token": token}).error(400, "INVALID_REQUEST", "token")


@pytest.mark.parametrize(
    "port", ["0", "02280", "+80", "%2080", "80%20", "-1", "65536", "0x50", "8e1", "80.", "٣", "99999999999"]
)
def test_ports_in_paths_that_are_none(api, shared_box, port):
    port = urllib.parse.quote(port, safe="%+")
    api("DELETE", f"/sandbox/{shared_box}/ports/{port}").error(400, "INVALID_REQUEST", "port")
    api("GET", f"/sandbox/{shared_box}/proxy/{port}/").error(400, "INVALID_REQUEST", "port")


def test_ports_of_others(api, tenant, served):
    box, preview = served
    tenant("POST", f"/sandbox/{box}/ports", {"port": 1}).error(404, "NOT_FOUND")
    tenant("GET", f"/sandbox/{box}/ports").error(404, "NOT_FOUND")
    tenant("DELETE", f"/sandbox/{box}/ports/3000").error(404, "NOT_FOUND")
    tenant("GET", f"/sandbox/{box}/proxy/3000/").error(404, "NOT_FOUND")
    assert preview("GET", "/").status == 200


def test_too_many_ports(api, box):
    for port in range(1, 65):
        api.ok("POST", f"/sandbox/{box}/ports", {"port": port})
    api("POST", f"/sandbox/{box}/ports", {"port": 65}).error(403, "QUOTA_EXCEEDED")
    assert api("POST", f"/sandbox/{box}/ports", {"port": 64}).status == 200


# --- by host


def test_hello(served):
    _, preview = served
    reply = preview("GET", "/some/where?a=b")
    assert (reply.status, reply.body) == (200, b"hello from /some/where")
    assert "X-Request-Id" not in reply.headers and "Content-Security-Policy" not in reply.headers
    assert preview("HEAD", "/x").body == b""
    assert preview("GET", "/", host=preview.host.upper()).status == 200
    assert preview("GET", "/", host=preview.host.split(":")[0]).status == 200
    assert preview("GET", "/", host=preview.host.split(":")[0] + ".").status == 200


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_methods_and_bodies(served, method):
    _, preview = served
    body = os.urandom(100_000)
    reply = preview(method, "/echo?x=%2F..%2f&y", body).json
    assert (reply["method"], reply["target"], reply["length"]) == (method, "/echo?x=%2F..%2f&y", len(body))
    assert reply["sha256"] == hashlib.sha256(body).hexdigest()


def test_targets_are_the_boxs_own(served):
    _, preview = served
    many = "&".join(f"a{i}=b" for i in range(15))
    for target in ("/echo//a/../b/./%2e%2e/%00%ff", f"/echo?{many}", "/echo;a=b?c=d?e"):
        reply = preview("GET", target)
        if reply.status == 200 and target.split("?")[0] == "/echo":
            assert reply.json["target"] == target
        else:
            assert reply.body.startswith(b"hello from /echo"), reply
    # No path is the API's on this host, with whatever credentials.
    for target in ("/health", "/sandbox", "/openapi.json", "/metrics", "/sandbox/x/proxy/3000/"):
        reply = preview("GET", target, headers={"Authorization": f"Bearer {ADMIN}"})
        assert reply.body == b"hello from " + target.encode()


def test_connections_are_kept(served):
    _, preview = served
    connection = preview.connect()
    before = None
    for i in range(20):
        connection.request("GET", "/seen", headers={"Host": preview.host})
        reply = connection.getresponse()
        now = json.loads(reply.read())["connections"]
        assert before in (None, now)
        before = now
    sock = connection.sock
    connection.request("POST", "/echo", body=iter([b"a" * 1000, b"b" * 1000]), headers={"Host": preview.host})
    assert json.loads(connection.getresponse().read())["length"] == 2000
    assert connection.sock is sock
    # An answer without a length ends its own connection, not the client's.
    raw = encoded(b"HTTP/1.0 200 OK\r\n\r\nbye")
    connection.request("GET", f"/raw?close=1&bytes={raw}", headers={"Host": preview.host})
    reply = connection.getresponse()
    assert reply.read() == b"bye" and reply.headers["Transfer-Encoding"] == "chunked"
    connection.request("GET", "/again", headers={"Host": preview.host})
    assert connection.getresponse().read() == b"hello from /again"
    assert connection.sock is sock
    connection.close()


def test_answers_stream(served):
    _, preview = served
    connection = preview.connect()
    connection.request("GET", "/pieces?n=10", headers={"Host": preview.host})
    reply = connection.getresponse()
    first = time.monotonic()
    assert reply.readline() == b"piece\n"
    assert reply.read() == b"piece\n" * 9
    assert time.monotonic() - first > 0.1  # they did not come in one
    connection.close()


def test_large_upload(served, server):
    _, preview = served
    pid = daemon_of(server)
    preview("GET", "/")
    before = memory_of(pid)
    size = 96 * 1024 * 1024
    piece = os.urandom(1024 * 1024)
    sha = hashlib.sha256()

    def body():
        for _ in range(size // len(piece)):
            sha.update(piece)
            yield piece

    reply = preview("PUT", "/echo", body(), {"Content-Length": str(size)}).json
    assert (reply["length"], reply["sha256"]) == (size, sha.hexdigest())
    assert memory_of(pid) - before < 16 * 1024 * 1024


def test_answer_before_the_body(served):
    _, preview = served
    s = preview.raw()
    head = f"POST /early HTTP/1.1\r\nHost: {preview.host}\r\nContent-Length: 10000000\r\n\r\n"
    s.sendall(head.encode() + b"x" * 1000)
    f = s.makefile("rb")
    status, _, body = read_answer(f)
    assert (status, body) == (413, b"too much")
    s.settimeout(PATIENCE)
    assert f.read() == b""  # and then it is closed
    s.close()


def test_expect_continue(served):
    _, preview = served
    s = preview.raw()
    s.sendall(
        f"POST /echo HTTP/1.1\r\nHost: {preview.host}\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n".encode()
    )
    time.sleep(0.1)
    s.sendall(b"abc")  # this server says nothing; a client goes on after a while
    assert json.loads(read_answer(s.makefile("rb"))[2])["length"] == 3
    s.close()


def test_forwarded_headers_are_ours_alone(served):
    _, preview = served
    reply = preview(
        "GET",
        "/echo",
        headers={
            "X-Forwarded-For": "6.6.6.6",
            "x-forwarded-proto": "gopher",
            "X-Forwarded-Host": "evil",
            "X-Forwarded-Anything": "evil",
            "Forwarded": "for=6.6.6.6",
            "X-Real-IP": "6.6.6.6",
            "Via": "evil",
            "X-Cay-Tenant": "admin",
            "Proxy-Authorization": "Basic eDp5",
            "Proxy-Connection": "keep-alive",
            "Connection": "X-Mine, keep-alive",
            "X-Mine": "1",
            "TE": "trailers",
            "Cookie": "a=b",
            "Authorization": "Basic eDp5",
            "X-Other": "kept",
        },
    ).json
    headers = sorted((n.lower(), v) for n, v in reply["headers"])
    assert headers == sorted(
        [
            ("host", preview.host),
            ("accept-encoding", "identity"),
            ("cookie", "a=b"),
            ("authorization", "Basic eDp5"),
            ("x-other", "kept"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", preview.host),
        ]
    )


def test_platform_credentials_stay_outside(served, api, tenant):
    _, preview = served
    for token in (ADMIN, tenant.token):
        reply = preview("GET", "/echo", headers={"Authorization": f"Bearer {token}"})
        assert token.encode() not in reply.body
    reply = preview("GET", "/echo", headers={"Authorization": "Bearer of-the-page-itself"})
    assert b"Bearer of-the-page-itself" in reply.body


def test_cookies_are_their_hosts_own(served):
    _, preview = served
    raw = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=b; Domain=.localhost; Path=/; HttpOnly\r\n"
        b"Set-Cookie: c=d;domain = localhost;secure\r\nSet-Cookie: Domain=x; Path=/y\r\nset-cookie: e=f\r\n\r\n"
    )
    reply = preview("GET", f"/raw?bytes={encoded(raw)}")
    assert fields(reply, "Set-Cookie") == ["a=b; Path=/; HttpOnly", "c=d;secure", "Domain=x; Path=/y", "e=f"]


def test_redirects_are_passed_on(served):
    _, preview = served
    for where in (b"http://169.254.169.254/latest/meta-data/", b"/sandbox", b"//evil/"):
        raw = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + where + b"\r\n\r\n"
        reply = preview("GET", f"/raw?bytes={encoded(raw)}")
        assert (reply.status, reply.headers["Location"]) == (302, where.decode())


# --- hosts that are none


def test_wrong_names(served, server):
    box, preview = served
    name, _, rest = preview.host.partition(".")
    port, slug, token = re.fullmatch("([0-9]+)-(.*)-([a-z0-9]+)", name).groups()
    other = "a" if token[0] != "a" else "b"
    wrong = [
        f"{port}-{slug}-{other}{token[1:]}",
        f"{port}-{slug}-{token[:-1]}",
        f"{port}-{slug}-{token}x",
        f"{port}-{slug}",
        f"{port}-{slug}x-{token}",
        f"{port}--{token}",
        f"3001-{slug}-{token}",
        f"0{port}-{slug}-{token}",
        f"0-{slug}-{token}",
        f"65536-{slug}-{token}",
        f"{server.port}-{slug}-{token}",
        f"-1-{slug}-{token}",
        f"+80-{slug}-{token}",
        f"0x50-{slug}-{token}",
        f"127.0.0.1-{slug}-{token}",
        f"{slug}.{port}-{slug}-{token}",
        f"{port}-{'a' * 60}-{token}",
        f"{port}-{slug}-{token}-",
        f"{port}-{slug}-%00{token}",
        "1-2-3",
        "1",
    ]
    for name in wrong:
        for target in ("/", "/health", "/sandbox"):
            reply = preview("GET", target, headers={"Authorization": f"Bearer {ADMIN}"}, host=f"{name}.{rest}")
            reply.error(404, "INVALID_TOKEN")
    assert preview("GET", "/").status == 200
    # Hosts of no preview are the API's, which wants a token.
    longer = f"{preview.host.split(':')[0]}.evil.example"
    for host in ("localhost", "127.0.0.1", "api.localhost", "evil.example", longer, "169.254.169.254"):
        preview("GET", "/sandbox", host=host).error(401, "UNAUTHORIZED")


def test_a_persons_error_is_a_page(served):
    _, preview = served
    reply = preview("GET", "/", headers={"Accept": "text/html,*/*"}, host="1-2-3.localhost")
    assert reply.status == 404 and reply.headers["Content-Type"].startswith("text/html")
    assert b"<h1>404 INVALID_TOKEN</h1>" in reply.body


def test_one_connection_one_host(served, api, server, box):
    """What follows on a preview's connection is that preview's, or nobody's."""
    _, preview = served
    start_server(api, box, 3000)
    other = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": 3000}))
    for host in (other.host, "localhost", "evil", preview.host + "x"):
        s = preview.raw()
        f = s.makefile("rb")
        s.sendall(f"GET /1 HTTP/1.1\r\nHost: {preview.host}\r\n\r\n".encode())
        assert read_answer(f)[2] == b"hello from /1"
        s.sendall(f"GET /sandbox HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode())
        status, _, body = read_answer(f)
        assert status == 421 and json.loads(body)["error_code"] == "MISDIRECTED_REQUEST"
        assert f.read() == b""
        s.close()


def test_other_forms_of_targets(served):
    _, preview = served
    targets = ["GET http://169.254.169.254/", "CONNECT 127.0.0.1:80", "OPTIONS *", "GET x"]
    lines = [f"{target} HTTP/1.1" for target in targets]
    for first in ("", f"GET /1 HTTP/1.1\r\nHost: {preview.host}\r\n\r\n"):  # read by the server, and by the preview
        for line in lines:
            s = preview.raw()
            f = s.makefile("rb")
            if first:
                s.sendall(first.encode())
                assert read_answer(f)[2] == b"hello from /1"
            s.sendall(f"{line}\r\nHost: {preview.host}\r\n\r\n".encode())
            assert read_answer(f)[0] == 400, line
            s.close()


def test_smuggling(served):
    _, preview = served
    bad = [
        "GET / HTTP/1.1\nHost: {h}\n\n",
        "GET / HTTP/1.1\r\nHost: {h}\r\nHost: {h}\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: {h}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: {h}\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding : chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: {h}\r\nX: a\r\n b\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: {h}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ]
    for first in ("", "GET /1 HTTP/1.1\r\nHost: {h}\r\n\r\n"):
        for text in bad:
            s = preview.raw()
            f = s.makefile("rb")
            if first:
                s.sendall(first.format(h=preview.host).encode())
                assert read_answer(f)[2] == b"hello from /1"
            s.sendall(text.format(h=preview.host).encode() + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
            rest = f.read()
            assert rest.startswith(b"HTTP/1.1 400 "), (text, rest)
            assert b"smuggled" not in rest and rest.count(b"HTTP/1.1 ") == 1
            s.close()


# --- hostile boxes


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: evil=1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: evil=1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n Set-Cookie: evil=1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nevil",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nevil",
        b"HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nevil",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 101 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 20000 + b"\r\n\r\n",
        b"HTTP/1.1 102 Wait\r\n\r\n" * 50,
        b"evil\r\n\r\n",
    ],
)
def test_hostile_answers(served, answer):
    _, preview = served
    s = preview.raw()
    f = s.makefile("rb")
    if len(answer) > 2500:
        s.sendall(f"POST /seen HTTP/1.1\r\nHost: {preview.host}\r\nContent-Length: 0\r\n\r\n".encode())
        assert read_answer(f)[0] == 200
        s.sendall(f"GET /raw?bytes={encoded(answer)} HTTP/1.1\r\nHost: {preview.host}\r\n\r\n".encode())
        status = read_answer(f)[0]
        assert status in (502, 431)
        s.close()
        return
    s.sendall(f"GET /raw?bytes={encoded(answer)} HTTP/1.1\r\nHost: {preview.host}\r\n\r\n".encode())
    while True:
        status, headers, body = read_answer(f)
        if status >= 200:
            break
    assert status == 502 and json.loads(body)["error_code"] == "BAD_GATEWAY", body
    assert b"evil" not in body and "set-cookie" not in dict(headers)
    s.sendall(f"GET /next HTTP/1.1\r\nHost: {preview.host}\r\n\r\n".encode())
    assert read_answer(f)[2] == b"hello from /next"
    s.close()


def test_an_answer_too_many(served):
    _, preview = served
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    s = preview.raw()
    f = s.makefile("rb")
    s.sendall(f"GET /raw?bytes={encoded(answer)} HTTP/1.1\r\nHost: {preview.host}\r\n\r\n".encode())
    assert read_answer(f)[2] == b"x"
    s.sendall(f"GET /next HTTP/1.1\r\nHost: {preview.host}\r\n\r\n".encode())
    assert read_answer(f)[2] == b"hello from /next"
    s.close()


def test_an_endless_answer_costs_nothing(served, server):
    box, preview = served
    pid = daemon_of(server)
    before = memory_of(pid)
    s = preview.raw()
    s.sendall(f"GET /endless HTTP/1.1\r\nHost: {preview.host}\r\n\r\n".encode())
    seen = lambda: preview("GET", "/seen").json

    def stuck():
        sent = seen()["sent"]
        time.sleep(0.3)
        return sent > 0 and seen()["sent"] == sent

    eventually(stuck)  # nobody reads, so nobody can send
    assert seen()["sent"] < 64 * 1024 * 1024
    assert memory_of(pid) - before < 8 * 1024 * 1024
    aborted = seen()["aborted"]
    s.close()
    eventually(lambda: seen()["aborted"] > aborted)


def test_a_client_that_leaves(served):
    _, preview = served
    aborted = preview("GET", "/seen").json["aborted"]
    s = preview.raw()
    s.sendall(f"GET /hang HTTP/1.1\r\nHost: {preview.host}\r\n\r\n".encode())
    time.sleep(0.2)
    s.close()
    eventually(lambda: preview("GET", "/seen").json["aborted"] > aborted)


def test_nobody_listens(served, api, server):
    box, preview = served
    for port in (3001, server.port, 22):  # the daemon's own port is none of the box's
        made = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": port}))
        reply = made("GET", "/")
        reply.error(502, "BAD_GATEWAY", f"nobody listens on port {port} in this sandbox")
        page = made("GET", "/", headers={"Accept": "text/html"})
        assert page.status == 502 and f"nobody listens on port {port}".encode() in page.body
        api("GET", f"/sandbox/{box}/proxy/{port}/").error(502, "BAD_GATEWAY", str(port))
    # The same connection works as soon as somebody does.
    late = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": 3002}))
    connection = late.connect()
    connection.request("GET", "/", headers={"Host": late.host})
    reply = connection.getresponse()
    assert reply.status == 502 and reply.read()
    sock = connection.sock
    start_server(api, box, 3002)
    connection.request("GET", "/now", headers={"Host": late.host})
    assert connection.getresponse().read() == b"hello from /now" and connection.sock is sock
    connection.close()


def test_not_http(served, api, server):
    box, _ = served
    code = (
        "import socket\nl = socket.socket()\nl.bind(('127.0.0.1', 3003))\nl.listen()\n"
        "while True:\n c, _ = l.accept()\n c.sendall(b'SSH-2.0-x\\r\\n')\n c.close()"
    )
    api.start(box, {"argv": ["python3", "-c", code]})
    made = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": 3003}))
    eventually(lambda: b"no answer" in made("GET", "/").body)
    made("GET", "/").error(502, "BAD_GATEWAY", "port 3003")


def test_six(api, server, box):
    start_server(api, box, 3000, "::1")
    preview = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": 3000}))
    assert preview("GET", "/six").body == b"hello from /six"


# --- WebSockets


def test_websocket(served):
    _, preview = served
    headers = "Origin: http://x\r\nSec-WebSocket-Protocol: chat, cay.bearer.secret\r\n"
    ws = WebSocket(preview.raw(), preview.host, headers=headers)
    assert ws.status == 101 and ws.headers["sec-websocket-protocol"] == "chat"
    for size in (0, 1, 125, 126, 65535, 65536, 300_000):
        data = os.urandom(size)
        ws.send(data)
        assert ws.receive() == data
    ws.send(b"\x03\xe8", 8)
    assert ws.receive() == b"\x03\xe8"
    assert ws.receive() is None
    ws.close()


def test_websocket_that_does_not_read(served, server):
    _, preview = served
    pid = daemon_of(server)
    before = memory_of(pid)
    ws = WebSocket(preview.raw(), preview.host)
    ws.sock.settimeout(2)
    with pytest.raises(OSError):  # everything is full in the end
        for _ in range(10_000):
            ws.send(b"x" * 65536)
    assert memory_of(pid) - before < 8 * 1024 * 1024
    ws.close()
    assert preview("GET", "/").status == 200


def test_upgrades_to_something_else(served):
    _, preview = served
    s = preview.raw()
    f = s.makefile("rb")
    for upgrade in ("h2c", "tcp", "websocket, h2c", "TLS/1.0"):
        s.sendall(
            f"GET /echo HTTP/1.1\r\nHost: {preview.host}\r\nConnection: Upgrade, HTTP2-Settings\r\n"
            f"Upgrade: {upgrade}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n".encode()
        )
        status, _, body = read_answer(f)
        names = [n.lower() for n, _ in json.loads(body)["headers"]]
        assert status == 200 and not {"upgrade", "connection", "http2-settings"} & set(names)
    s.close()


def test_websocket_refused(served):
    _, preview = served
    ws = WebSocket(preview.raw(), preview.host, "/echo")
    assert ws.status == 200
    ws.sock.sendall(f"GET /next HTTP/1.1\r\nHost: {preview.host}\r\n\r\n".encode())
    assert read_answer(ws.file)[2] == b"hello from /next"
    ws.close()


# --- by path


def test_by_path(served, api):
    box, preview = served
    reply = api("GET", f"/sandbox/{box}/proxy/3000/a/b?c=d")
    assert (reply.status, reply.body) == (200, b"hello from /a/b")
    assert fields(reply, "Content-Security-Policy") == ["sandbox"]
    headers = {"Cookie": "a=b", "Referer": "http://x/"}
    echo = api("POST", f"/sandbox/{box}/proxy/3000/echo?c=%2F&&d", os.urandom(500_000), headers).json
    assert (echo["target"], echo["length"]) == ("/echo?c=%2F&&d", 500_000)
    names = {n.lower(): v for n, v in echo["headers"]}
    assert not names.keys() & {"authorization", "cookie", "referer"}
    assert names["x-forwarded-prefix"] == f"/sandbox/{box}/proxy/3000"
    assert names["x-forwarded-for"] == "127.0.0.1"
    raw = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=b\r\nClear-Site-Data: *\r\n"
        b"Service-Worker-Allowed: /\r\nStrict-Transport-Security: max-age=9\r\n"
        b"Content-Security-Policy: default-src *\r\nLocation: /x\r\nX: y\r\n\r\n"
    )
    reply = api("GET", f"/sandbox/{box}/proxy/3000/raw?bytes={encoded(raw)}")
    assert fields(reply, "Content-Security-Policy") == ["default-src *", "sandbox"]
    assert reply.headers["Location"] == "/x" and reply.headers["X"] == "y"
    for name in ("Set-Cookie", "Clear-Site-Data", "Service-Worker-Allowed", "Strict-Transport-Security"):
        assert name not in reply.headers
    reply = api("GET", f"/sandbox/{box}/proxy/3000?c=d")
    assert (reply.status, reply.headers["Location"]) == (308, f"/sandbox/{box}/proxy/3000/?c=d")


def test_by_path_with_the_ports_token(served, server):
    box, preview = served
    nobody = Client(server, None)
    nobody("GET", f"/sandbox/{box}/proxy/3000/").error(401, "UNAUTHORIZED")
    nobody("GET", f"/sandbox/{box}/proxy/3000/", headers={"Authorization": "Bearer x"}).error(401, "UNAUTHORIZED")
    for query in (f"cay_token={preview.token}", f"a=b&cay_token={preview.token}&c=d"):
        echo = nobody("GET", f"/sandbox/{box}/proxy/3000/echo?{query}").json
        assert "cay_token" not in json.dumps(echo) and echo["target"] in ("/echo", "/echo?a=b&c=d")
    wrong = "a" + preview.token[1:] if preview.token[0] != "a" else "b" + preview.token[1:]
    right = f"cay_token={preview.token}"
    for query in (f"cay_token={wrong}", "cay_token=", f"{right}&{right}", f"{right}x"):
        nobody("GET", f"/sandbox/{box}/proxy/3000/?{query}").error(404, "INVALID_TOKEN")
        Client(server)("GET", f"/sandbox/{box}/proxy/3000/?{query}").error(404, "INVALID_TOKEN")
    nobody("GET", f"/sandbox/{box}/proxy/3001/?cay_token={preview.token}").error(404, "INVALID_TOKEN")
    nobody("GET", f"/sandbox/nosuch/proxy/3000/?cay_token={preview.token}").error(404, "INVALID_TOKEN")


def test_by_path_each_request_is_asked_for(served, server):
    """A connection by path is good for one request: the next may be another's."""
    box, preview = served
    s = preview.raw()
    f = s.makefile("rb")
    get = f"GET /sandbox/{box}/proxy/3000/a HTTP/1.1\r\nHost: localhost\r\n"
    s.sendall(f"{get}Authorization: Bearer {ADMIN}\r\n\r\n".encode())
    status, headers, body = read_answer(f)
    assert (status, body, dict(headers)["connection"]) == (200, b"hello from /a", "close")
    try:
        s.sendall(f"{get}\r\n".encode())
        assert f.read() == b""
    except ConnectionError:
        pass  # closed before that came
    s.close()


def test_by_path_websocket(served, server):
    box, preview = served
    target = f"/sandbox/{box}/proxy/3000/ws"
    ws = WebSocket(preview.raw(), "localhost", f"{target}?cay_token={preview.token}")
    assert ws.status == 101
    ws.send(b"hi")
    assert ws.receive() == b"hi"
    ws.close()
    ws = WebSocket(preview.raw(), "localhost", target, f"Authorization: Bearer {ADMIN}\r\n")
    ws.send(b"hi")
    assert ws.receive() == b"hi"
    ws.close()
    ws = WebSocket(preview.raw(), "localhost", target)
    assert ws.status == 401
    ws.close()


ADDRESSES = ["127.0.0.1", "::1", "[::1]", "169.254.169.254", "0.0.0.0", "2130706433", "0177.0.0.1", "localhost"]


@pytest.mark.parametrize("port", [*ADDRESSES, "3000@evil", "3000:80", "evil:3000"])
def test_by_path_reaches_nothing_else(served, api, port):
    box, _ = served
    api("GET", f"/sandbox/{box}/proxy/{port}/").error(400, "INVALID_REQUEST")


# --- beginnings and ends


def test_closing_a_port_ends_its_connections(served, api, server):
    box, _ = served
    start_server(api, box, 3005)
    preview = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": 3005}))
    ws = WebSocket(preview.raw(), preview.host)
    ws.send(b"hi")
    assert ws.receive() == b"hi"
    kept = preview.connect()
    kept.request("GET", "/", headers={"Host": preview.host})
    assert kept.getresponse().read()
    api.ok("DELETE", f"/sandbox/{box}/ports/3005")
    assert ws.receive() is None
    assert kept.sock.recv(1) == b""
    preview("GET", "/").error(404, "INVALID_TOKEN")
    # Opened again it has another address; with another token the one before is closed.
    again = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": 3005}))
    assert again.token != preview.token and again("GET", "/").status == 200
    ws = WebSocket(again.raw(), again.host)
    assert ws.status == 101
    third = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": 3005, "token": "another0token"}))
    assert ws.receive() is None
    again("GET", "/").error(404, "INVALID_TOKEN")
    assert third("GET", "/").status == 200


def test_destroying_ends_its_connections(api, server, box):
    start_server(api, box, 3000)
    preview = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": 3000}))
    ws = WebSocket(preview.raw(), preview.host)
    kept = preview.connect()
    kept.request("GET", "/", headers={"Host": preview.host})
    assert kept.getresponse().read()
    api.ok("DELETE", f"/sandbox/{box}")
    assert ws.receive() is None
    assert kept.sock.recv(1) == b""
    preview("GET", "/").error(404, "INVALID_TOKEN")


def test_revoking_a_token_ends_its_websockets(api, server, tenant):
    tenant.ok("PUT", "/sandbox/mine", {})
    start_server(tenant, "mine", 3000)
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    ws = WebSocket(sock, "localhost", "/sandbox/mine/proxy/3000/ws", f"Authorization: Bearer {tenant.token}\r\n")
    ws.send(b"hi")
    assert ws.receive() == b"hi"
    api.ok("DELETE", f"/tokens/{tenant.id}")
    assert ws.receive() is None
    ws.close()


def test_the_same_id_of_two_tenants(api, server, tenant, box):
    """The port's token tells whose sandbox it is."""
    tenant.ok("PUT", f"/sandbox/{box}", {})
    previews = []
    for client, address in ((api, "127.0.0.1"), (tenant, "0.0.0.0")):
        start_server(client, box, 3000, address)
        client.exec(box, "true")
        previews.append(Preview(server, client.ok("POST", f"/sandbox/{box}/ports", {"port": 3000})))
    assert previews[0].host != previews[1].host
    nobody = Client(server, None)
    for client, preview in zip((api, tenant), previews):
        before = preview("GET", "/seen").json["connections"]
        nobody("GET", f"/sandbox/{box}/proxy/3000/?cay_token={preview.token}")
        assert preview("GET", "/seen").json["connections"] == before + 2
    tenant.ok("DELETE", f"/sandbox/{box}")


def test_over_sleep(api, server, box):
    """It stays valid, and wakes: only whoever listens must be started again."""
    start_server(api, box, 3000)
    preview = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": 3000}))
    kept = preview.connect()
    kept.request("GET", "/a", headers={"Host": preview.host})
    assert kept.getresponse().read() == b"hello from /a"
    api.ok("POST", f"/sandbox/{box}/sleep")
    kept.request("GET", "/b", headers={"Host": preview.host})
    reply = kept.getresponse()
    assert reply.status == 502 and b"nobody listens on port 3000" in reply.read()
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "running"
    start_server(api, box, 3000)
    kept.request("GET", "/c", headers={"Host": preview.host})
    assert kept.getresponse().read() == b"hello from /c"
    assert preview("GET", "/d").body == b"hello from /d"


def test_over_restarts(make_server):
    server = make_server()
    api = Client(server)
    api.ok("PUT", "/sandbox/a", {})
    start_server(api, "a", 3000)
    preview = Preview(server, api.ok("POST", "/sandbox/a/ports", {"port": 3000}))
    kept = preview.connect()
    kept.request("GET", "/a", headers={"Host": preview.host})
    assert kept.getresponse().read() == b"hello from /a"
    os.kill(daemon_of(server), signal.SIGKILL)  # the box, its server and the address are still there
    eventually(lambda: preview("GET", "/b").body == b"hello from /b")
    assert server.stop() == 0
    server.start()
    preview("GET", "/c").error(502, "BAD_GATEWAY", "nobody listens")


def test_a_stop_waits_for_answers(make_server):
    server = make_server()
    api = Client(server)
    api.ok("PUT", "/sandbox/a", {})
    start_server(api, "a", 3000)
    preview = Preview(server, api.ok("POST", "/sandbox/a/ports", {"port": 3000}))
    idle, ws = preview.connect(), WebSocket(preview.raw(), preview.host)
    idle.request("GET", "/a", headers={"Host": preview.host})
    assert idle.getresponse().read()
    busy = preview.connect()
    busy.request("GET", "/pieces?n=50", headers={"Host": preview.host})
    reply = busy.getresponse()
    assert reply.readline() == b"piece\n"
    server.process.send_signal(signal.SIGTERM)
    assert reply.read() == b"piece\n" * 49
    assert idle.sock.recv(1) == b"" and ws.receive() is None
    assert server.stop() == 0


def test_activity_keeps_it_awake(api, server, box):
    api.ok("PATCH", f"/sandbox/{box}", {"sleepAfter": 3})
    start_server(api, box, 3000)
    preview = Preview(server, api.ok("POST", f"/sandbox/{box}/ports", {"port": 3000}))
    ws = WebSocket(preview.raw(), preview.host)
    boxes = api.ok("GET", f"/sandbox/{box}")["boxes"]
    for _ in range(12):
        ws.send(b"x")
        assert ws.receive() == b"x"
        time.sleep(0.5)
    state = api.ok("GET", f"/sandbox/{box}")
    assert state["status"] == "running" and state["boxes"] == boxes
    eventually(lambda: api.ok("GET", f"/sandbox/{box}")["status"] == "sleeping")  # an idle one does not
    assert ws.receive() is None


def test_domain_setting(make_server):
    server = make_server("--preview-domain", "Preview.Example:8443", "--behind-proxy")
    api = Client(server)
    api.ok("PUT", "/sandbox/a", {})
    made = api.ok("POST", "/sandbox/a/ports", {"port": 3000})
    assert re.fullmatch(r"https://3000-a-[0-9a-f]+-[a-z0-9]{16}\.preview\.example:8443/", made["url"])
    start_server(api, "a", 3000)
    host = made["url"][len("https://") : -1]
    reply = api("GET", "/echo", headers={"Host": host, "Authorization": None})
    assert dict(reply.json["headers"])["X-Forwarded-Proto"] == "https"
    api("GET", "/sandbox", headers={"Host": host.replace("preview.example", "localhost")})  # not its domain: the API
    assert api("GET", "/sandbox", headers={"Host": host.replace("preview.example:8443", "localhost")}).status == 200


def test_many_at_once(served):
    _, preview = served

    def talk():
        connection = preview.connect()
        for i in range(20):
            connection.request("GET", f"/{i}", headers={"Host": preview.host})
            assert connection.getresponse().read() == f"hello from /{i}".encode()
        connection.close()

    at_once(*[talk] * 16)


def test_nothing_is_left(served, server):
    """Clients that leave at any moment, and answers that break off: no descriptor stays."""
    _, preview = served
    pid = daemon_of(server)
    fds = lambda: len(os.listdir(f"/proc/{pid}/fd"))
    preview("GET", "/")
    time.sleep(0.5)
    before = fds()
    half = encoded(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
    texts = [
        f"GET / HTTP/1.1\r\nHost: {preview.host}\r\n\r\n",
        f"GET /raw?close=1&bytes={half} HTTP/1.1\r\nHost: {preview.host}\r\n\r\n",
        f"GET /endless HTTP/1.1\r\nHost: {preview.host}\r\n\r\n",
        f"POST /echo HTTP/1.1\r\nHost: {preview.host}\r\nContent-Length: 100000\r\n\r\n" + "x" * 50000,
        f"POST /early HTTP/1.1\r\nHost: {preview.host}\r\nContent-Length: 100000\r\n\r\n" + "x" * 50000,
        f"GET /ws HTTP/1.1\r\nHost: {preview.host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: eDp5eDp5eDp5eDp5eDp5eA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    ]

    def leave(text, n):
        for _ in range(n):
            s = preview.raw()
            s.sendall(text.encode())
            if n % 2 and "/echo" not in text:  # that one waits for the rest
                s.recv(100)
            s.close()

    at_once(*[lambda t=t, n=n: leave(t, n) for t in texts for n in (10, 11)])
    eventually(lambda: fds() <= before)
    assert preview("GET", "/").status == 200
