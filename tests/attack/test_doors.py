# SPDX-License-Identifier: Apache-2.0
"""Who may come in: headers that are nearly right, tokens that were, other sites, other names of the host."""

import re

import pytest
from attack_helpers import ADMIN, PATIENCE, TOP, Client, ask, at_once, is_error, raw, raw_connect, read_reply


def test_authorization_that_is_nearly_right(server, world):
    token = world.alice.token
    for lines in (
        ("Authorization:",),
        ("Authorization: Bearer",),
        ("Authorization: Bearer ",),
        (f"Authorization: {token}",),
        (f"Authorization: Bearer{token}",),
        (f"Authorization: Bearer: {token}",),
        (f"Authorization: Bearer {token[:-1]}",),
        (f"Authorization: Bearer {token}x",),
        (f"Authorization: Bearer {token[:20]}",),
        (f"Authorization: Bearer {token} {token}",),
        (f"Authorization: Bearer {token}, Bearer {token}",),
        (f"Authorization: Bearer {token},",),
        (f'Authorization: Bearer "{token}"',),
        (f"Authorization: Bearer {token.swapcase()}",),
        (f"Authorization: Bearer {token.upper()}",),
        (f"Authorization: Bearer %{ord(token[0]):02x}{token[1:]}",),
        (f"Authorization: Basic {token}",),
        (f"Authorization: Token {token}",),
        (f"Authorization: Bearer {'x' * 4000}",),
        (f"Authorization: Bearer {token}", f"Authorization: Bearer {token}"),
        (f"Authorization: Bearer {token}", "Authorization: Bearer wrong"),
        ("Authorization: Bearer wrong", f"authorization: Bearer {token}"),
        ("Authorization:", f"Authorization: Bearer {token}"),
        (f"X-Authorization: Bearer {token}",),
        (f"Proxy-Authorization: Bearer {token}",),
        (f"Cookie: token={token}; Authorization={token}",),
        (f"X-Api-Key: {token}",),
        ("X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1", "Forwarded: for=localhost"),
        ("X-Cay-Tenant: alice",),
    ):
        reply = ask(server, f"GET /sandbox/{world.box}", None, *lines)
        is_error(reply, 401)
        assert token.encode() not in reply.body


def test_authorization_that_is_right(server, world):
    """The scheme has no case, and spaces before it do not matter."""
    for line in ("Bearer ", "bearer ", "BEARER ", "Bearer   ", "  Bearer\t "):
        reply = ask(server, f"GET /sandbox/{world.box}", None, f"aUTHORIZATION: {line}{world.alice.token}")
        assert reply.status == 200, (line, reply)


def test_authorization_that_is_no_header(server, world):
    token = world.alice.token
    for head in (
        f"Authorization : Bearer {token}\r\n",
        f" Authorization: Bearer {token}\r\n",
        f"X: y\r\n Authorization: Bearer {token}\r\n",
        f"X: y\nAuthorization: Bearer {token}\r\n",
        f"X: y\rAuthorization: Bearer {token}\r\n",
        f"Authorization: Bearer\0 {token}\r\n",
        f"Authorization: Bearer {token}\0\r\n",
        f"Authorization\0: Bearer {token}\r\n",
    ):
        reply = raw(server, f"GET /sandbox/{world.box} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
        assert reply.status in (None, 400, 401), (head, reply)
    # What follows a head is not part of it.
    reply = raw(server, f"GET /sandbox HTTP/1.1\r\nHost: x\r\n\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    assert reply.status == 401 and b"200 OK" not in reply.body


def test_tokens_in_the_url(server, world):
    for name in ("token", "access_token", "Token", "authorization", "api_key", "%74oken"):
        reply = ask(server, f"GET /sandbox?{name}={world.alice.token}", world.alice.token)
        assert world.alice.token not in is_error(reply, 400)
        is_error(ask(server, f"GET /sandbox?{name}={world.alice.token}"), 401)
    is_error(ask(server, f"GET http://user:{world.alice.token}@x/sandbox"), 400, 401, 404)
    assert world.alice.token not in server.log()


def test_a_revoked_token(admin, server):
    """It ends at once: for new requests, and for streams that are open."""
    client = Client(server, admin.ok("POST", "/tokens", {"name": "leaver", "tenant": "leaver"})["token"])
    other = Client(server, admin.ok("POST", "/tokens", {"name": "stayer", "tenant": "leaver"})["token"])
    listed = {t["name"]: t["id"] for t in admin.ok("GET", "/tokens")["tokens"]}
    client.ok("PUT", "/sandbox/b", {})
    client.start("b", {"command": "echo on; exec sleep 1000", "id": "p"})
    stays = other.stream("GET", "/sandbox/b/events")
    streams = [
        client.stream("GET", "/sandbox/b/events"),
        client.stream("GET", "/sandbox/b/processes/p/logs"),
        client.stream("POST", "/sandbox/b/exec", {"argv": ["sleep", "1000"]}),
    ]
    follows = client.connect()
    follows.request("GET", "/sandbox/b/processes/p/logs?follow=1", headers=client.head({}, None)[0])
    follows = follows.getresponse()
    kept = client.connect()
    kept.request("GET", "/sandbox", headers=client.head({}, None)[0])
    assert kept.getresponse().read() and kept.sock is not None

    admin.ok("DELETE", f"/tokens/{listed['leaver']}")
    for stream in streams:
        names = [event.name for event in stream]  # until its end
        assert "exit" not in names and "destroyed" not in names
    assert follows.read() == b"on\n"
    is_error(client("GET", "/sandbox"), 401)
    kept.request("GET", "/sandbox", headers=client.head({}, None)[0])
    assert kept.getresponse().status == 401
    is_error(admin("DELETE", f"/tokens/{listed['leaver']}"), 404)

    assert other.ok("GET", "/sandbox/b")["status"] == "running"
    other.ok("DELETE", "/sandbox/b")
    assert stays.until("destroyed")
    admin.ok("DELETE", f"/tokens/{listed['stayer']}")


def test_a_token_that_is_revoked_while_its_stream_begins(admin, server):
    """The sandbox has to wake first; the stream must not outlive the token."""
    made = admin.ok("POST", "/tokens", {"name": "hasty"})
    client = Client(server, made["token"])
    client.ok("PUT", "/sandbox/b", {})
    client.ok("POST", "/sandbox/b/sleep")
    with raw_connect(server) as s, raw_connect(server) as t:
        body = b'{"argv": ["sleep", "1000"]}'
        head = "POST /sandbox/b/exec HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nConnection: close\r\n"
        head += f"Authorization: Bearer {made['token']}\r\nContent-Length: {len(body)}\r\n\r\n"
        end = f"DELETE /tokens/{made['id']} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN}\r\n\r\n"
        s.sendall(head.encode() + body)
        t.sendall(end.encode())
        assert read_reply(t).status == 200
        s.settimeout(PATIENCE)
        data = b""
        try:
            while got := s.recv(65536):
                data += got
        except TimeoutError:
            pytest.fail(f"the stream goes on: {data!r}")
    admin("DELETE", "/sandbox/b", headers={"X-Cay-Tenant": "hasty"})


def test_the_admins_own_token(admin):
    own = next(t for t in admin.ok("GET", "/tokens")["tokens"] if t["name"] == "admin")
    is_error(admin("DELETE", f"/tokens/{own['id']}"), 409)
    is_error(admin("POST", "/tokens", {"name": "admin"}), 409)
    assert all("token" not in t and "hash" not in t for t in admin.ok("GET", "/tokens")["tokens"])


def test_acting_for_a_tenant(admin, server, world):
    """Only admins, only by a name that is there, and never by two at once."""
    path = f"/sandbox/{world.box}"
    assert admin.ok("GET", path, headers={"X-Cay-Tenant": "alice"})["id"] == world.box
    is_error(admin("GET", path), 404)
    for name in ("ALICE", "nobody", "", "alice%00", "1", "alice,mallory"):
        reply = admin("GET", path, headers={"X-Cay-Tenant": name})
        is_error(reply, 404)
    reply = ask(server, f"GET {path}", ADMIN, "X-Cay-Tenant: mallory", "X-Cay-Tenant: alice")
    is_error(reply, 400)


def test_tokens_are_found_by_their_hash():
    """Comparing a text byte by byte would tell, by its time, how much of it was right. What is looked up is a
    keyless hash of 256 bits: two texts that begin alike have nothing in common there."""
    auth = (TOP / "src" / "api" / "auth.c").read_text()
    find = re.search(r"^static struct token \*find\(.*?^}", auth, re.S | re.M)[0]
    assert "token_hash(text, hash)" in find and "db_token_by_hash(api->db, hash" in find
    assert not re.search(r"strn?(case)?cmp\([^)]*text", auth)
    assert "map_get(&api->tokens, key)" in find and "sodium_bin2hex(key" in find


# -- browsers


def test_no_site_is_let_in_by_default(server, world):
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "file://"):
        reply = ask(server, f"GET /sandbox/{world.box}", world.alice.token, f"Origin: {origin}")
        assert reply.status == 200
        assert not [name for name in reply.headers if name.lower().startswith("access-control")]
        lines = (f"Origin: {origin}", "Access-Control-Request-Method: DELETE", "Access-Control-Request-Headers: authorization")
        reply = ask(server, f"OPTIONS /sandbox/{world.box}", None, *lines)
        assert not [name for name in reply.headers if name.lower().startswith("access-control")]


def test_only_sites_that_are_listed(make_server):
    server = make_server("--cors", "https://good.example,https://two.example:8443", "--pool", "0", "--pool-blank", "0", "--volume", "0")
    listed = {"https://good.example", "https://two.example:8443"}
    for origin in (
        *listed,
        "https://evil.example",
        "https://good.example.evil.example",
        "https://evil-good.example",
        "https://GOOD.example",
        "http://good.example",
        "https://good.example:443",
        "https://good.exampl",
        "https://good.example,https://two.example:8443",
        "https://good.example/",
        "null",
        "*",
        "",
    ):
        for line in ("GET /health", "GET /sandbox", "OPTIONS /sandbox", "GET /nowhere"):
            lines = (f"Origin: {origin}", "Access-Control-Request-Method: POST")
            headers = ask(server, line, None, *lines).headers
            assert headers.get("Access-Control-Allow-Origin") == (origin if origin in listed else None)
            assert "Access-Control-Allow-Credentials" not in headers
            assert headers["Vary"] == "Origin"
    two = ("Origin: https://good.example", "Origin: https://evil.example")
    assert "Access-Control-Allow-Origin" not in ask(server, "GET /health", None, *two).headers


def test_all_sites_still_need_a_token(make_server):
    """With `--cors *` any site may ask, but browsers have no credentials that would go with it."""
    server = make_server("--cors", "*", "--pool", "0", "--pool-blank", "0", "--volume", "0")
    reply = ask(server, "GET /sandbox", None, "Origin: https://evil.example")
    is_error(reply, 401)
    assert "Access-Control-Allow-Credentials" not in reply.headers


def test_names_of_the_host(server, world):
    """No answer depends on Host, so that rebinding a name to 127.0.0.1 gives a site nothing: it has no token."""
    path = f"/sandbox/{world.box}"
    for host in ("evil.example", "127.0.0.1:1", "localhost", "[::1]", "x" * 200, "a, b", ""):
        bare = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n"
        reply = raw(server, f"{bare}Authorization: Bearer {world.alice.token}\r\n\r\n".encode())
        assert reply.status in (200, 400), (host, reply)
        assert host not in reply.headers.values() or not host
        is_error(raw(server, f"{bare}\r\n".encode()), 401, 400)
    for hosts in ("", "Host: a\r\nHost: b\r\n"):
        head = f"GET {path} HTTP/1.1\r\n{hosts}Authorization: Bearer {world.alice.token}\r\n\r\n"
        is_error(raw(server, head.encode()), 400)
    reply = raw(server, f"GET http://evil.example{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {world.alice.token}\r\n\r\n".encode())
    assert reply.status in (200, 400, 404)


# -- the unix socket


def test_the_socket_needs_no_token_but_takes_only_good_ones(server, world):
    local = Client(server, unix=True)
    assert local.ok("GET", "/tokens")
    assert local.ok("GET", f"/sandbox/{world.box}", headers={"X-Cay-Tenant": "alice"})
    # Whoever sends a token means to be that one: a wrong one is not taken for the machine's owner.
    is_error(local("GET", "/tokens", headers={"Authorization": "Bearer wrong"}), 401)
    is_error(local("GET", "/tokens", headers={"Authorization": ""}), 401)
    is_error(local("GET", "/tokens", headers={"Authorization": f"Bearer {world.alice.token}"}), 403)
    assert local("GET", "/tokens", headers={"Host": "evil.example", "Origin": "http://evil.example"}).status == 200


def test_only_its_group_may_open_the_socket(server):
    with open("/proc/self/status", encoding="ascii") as f:
        assert "Uid:\t0" in f.read()
    mode = (server.data / "cay.sock").stat().st_mode
    assert mode & 0o007 == 0
    # And nothing on the way to it can be listed or written by others.
    assert server.data.stat().st_mode & 0o006 == 0
    for name in ("admin.token", "volume.btrfs", "daemon"):
        path = server.data / name
        assert not path.exists() or path.stat().st_mode & 0o077 == 0, name


def test_a_box_does_not_reach_the_server(server, world):
    """Neither its port nor its socket."""
    code = f"exec 3<>/dev/tcp/127.0.0.1/{server.port} && echo port; test -e {server.socket} && echo socket; true"
    assert world.alice.exec(world.box, code)["stdout"] == ""


def test_names_are_kept_apart_when_made_at_once(admin, server):
    """Two tokens of one new tenant at the same moment are of one tenant."""
    made = at_once(*[lambda i=i: admin.ok("POST", "/tokens", {"name": f"t{i}", "tenant": "crowd"}) for i in range(8)])
    clients = [Client(server, m["token"]) for m in made]
    clients[0].ok("PUT", "/sandbox/common", {})
    assert all(c.ok("GET", "/sandbox/common")["id"] == "common" for c in clients)
    clients[0].ok("DELETE", "/sandbox/common")
    for m in made:
        admin.ok("DELETE", f"/tokens/{m['id']}")
