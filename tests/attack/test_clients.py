# SPDX-License-Identifier: Apache-2.0
"""The protocols of others, used by somebody who wants more of them than they are for: addresses that have their permission
within, sandboxes that are made on first use, streams whose readers go or stop, credentials that are lent."""

import base64
import io
import json
import pathlib
import select
import socket
import tarfile
import urllib.parse

import pytest
from attack_helpers import ADMIN, Client, ask, at_once, children, daemon_pid, eventually, memory, raw, raw_connect
from ws_helpers import Closed, connect

MIB = 2**20


def refused(reply, status, code):
    """Checks that it is an error in the container protocol's words, and returns it."""
    assert reply.status == status, reply
    body = reply.json
    assert {"code", "message", "context", "httpStatus", "timestamp"} <= set(body), body
    assert (body["code"], body["httpStatus"]) == (code, status), body
    assert body["message"] and "/tmp/" not in body["message"], body
    return body


class Address(Client):
    """Who has nothing but an address."""

    def __init__(self, owner, box, **how):
        made = owner.ok("POST", f"/sandbox/{box}/container-url", how)
        super().__init__(owner.server, None)
        self.id, self.path = made["id"], urllib.parse.urlsplit(made["url"]).path
        self.secret = self.path.rsplit("/", 1)[1]

    def __call__(self, method, path, body=None, headers=None):
        return super().__call__(method, self.path + path, body, headers)

    def events(self, path, body=None, method="POST"):
        return super().stream(method, self.path + path, body)

    def run(self, command, **more):
        return self.ok("POST", "/api/execute", {"command": command, **more})


@pytest.fixture(scope="module")
def owner(admin):
    made = admin.ok("POST", "/tokens", {"name": "clients"})
    client = Client(admin.server, made["token"])
    client.id, client.name = made["id"], made["tenant"]
    return client


@pytest.fixture(scope="module")
def boxes(owner):
    """One whose address somebody has, and another one of the same tenant with something to find."""
    for name in ("open", "other"):
        owner.ok("PUT", f"/sandbox/{name}", {"keepAlive": True})
        owner.ok("PUT", f"/sandbox/{name}/files/workspace/secret", f"of {name}".encode())
    yield "open", "other"
    for name in ("open", "other"):
        owner("DELETE", f"/sandbox/{name}")


@pytest.fixture
def mallory_has(owner, boxes):
    address = Address(owner, boxes[0])
    yield address
    owner("DELETE", f"/sandbox/{boxes[0]}/container-urls/{address.id}")


# -- how far an address reaches

UPWARDS = [
    "/../files/workspace/secret", "/../exec", "/../../other/container/api/ping", "/%2e%2e/%2e%2e/other/container/api/ping",
    "/..%2f..%2fother%2fcontainer%2fapi%2fping", "/api/../../../other/container/api/ping", "//../../other/container/api/ping",
    "/./../../../sandbox", "%2f..%2f..%2fother", "/..;/..;/other/container/api/ping", "/api/ping/../../../files/workspace/secret",
    "\\..\\..\\other\\container\\api\\ping", "/api/ping%00/../..", "/%252e%252e/files/workspace/secret", "/api%2fping",
    "/container/api/ping", "/api/ping/", "//api/ping", "/..", "/../", "/api/process/..%2f..%2f..%2fother",
]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"])
def test_an_address_reaches_no_other_path(server, owner, mallory_has, method):
    before = owner.ok("GET", "/sandbox")
    for path in UPWARDS:
        reply = ask(server, f"{method} {mallory_has.path}{path}")
        assert reply.status in (400, 401, 404, 405, 501), (path, reply)
        assert b"of other" not in reply.body and b"of open" not in reply.body
    assert [b["id"] for b in owner.ok("GET", "/sandbox")["sandboxes"]] == [b["id"] for b in before["sandboxes"]]


def test_an_address_is_no_token(server, owner, boxes, mallory_has):
    secret, path = mallory_has.secret, mallory_has.path
    for line in ("GET /sandbox/open", "GET /sandbox/open/container/api/ping", "GET /sandbox", "GET /tokens", "GET /metrics",
                 "POST /sandbox/open/container-url"):
        assert ask(server, line, secret).status == 401, line
        assert ask(server, f"{line}?token={secret}").status in (400, 401), line
        assert ask(server, f"{line}", None, f"Cookie: token={secret}").status == 401, line
    # and a token is no address
    for token in (owner.token, ADMIN, "", "x" * 47, secret[:-1], secret + "A", secret.swapcase()):
        reply = ask(server, f"GET /container/{token}/api/ping")
        refused(reply, 401, "UNAUTHORIZED")
    # what else is said does not make it more
    for more in (f"Authorization: Bearer {ADMIN}", "X-Cay-Tenant: default", "X-Cay-Tenant: clients", "X-Forwarded-For: 127.0.0.1",
                 "X-Original-URL: /sandbox/other/container/api/ping", "X-HTTP-Method-Override: DELETE"):
        reply = ask(server, f"POST {path}/api/read", None, more, "Content-Type: application/json",
                    body=json.dumps({"path": "/workspace/secret"}).encode())
        assert reply.status == 200 and reply.json["content"] == "of open", (more, reply)


def test_an_address_in_other_clothes(server, mallory_has):
    """It is read as it is written, in the one place that it is for, and its owner's words are not told by it."""
    cap, ping = mallory_has.secret, "api/ping"
    for path in (f"/container/%63{cap[1:]}/{ping}", f"/container/{cap}%2f{ping}", f"/container//{cap}/{ping}", f"/CONTAINER/{cap}/{ping}",
                 f"/%63ontainer/{cap}/{ping}", f"/container/{cap};x=1/{ping}", f"/container/{cap}%00/{ping}", f"/container/{cap}/{ping}?a=%00",
                 f"/container/{cap}#x/{ping}", f"/./container/{cap}/{ping}", f"/x/../container/{cap}/{ping}", f"/container/{cap}\t/{ping}",
                 f"/sandbox/open/container/{cap}/{ping}", f"/v1/container/{cap}/{ping}", f"/container/{cap}/v1/sandbox/open/running",
                 f"/container/{cap}/container/{cap}/{ping}", f"/container/{cap}/{ping}?token={cap}", f"/container/{cap}/openapi.json",
                 f"/container/{cap}/container-url", f"/container/{cap}/container-urls", f"http://x/container/{cap}/{ping}"):
        reply = ask(server, f"GET {path}")
        assert reply.status in (400, 401, 404) and cap.encode() not in reply.body, (path, reply)
    # It takes no Idempotency-Key, so that it can neither have an answer of its tenant's nor take one's place.
    key = {"Idempotency-Key": "theirs"}
    for command in ("echo one", "echo two"):
        reply = mallory_has("POST", "/api/execute", {"command": command}, key)
        assert reply.json["stdout"] == command[5:] and "Idempotency-Replayed" not in reply.headers


def test_another_tenant_by_the_same_names(owner, new_tenant):
    """Sandbox, session, backup, context and key of the same name are each one's own."""
    other = new_tenant()
    for client, word in ((owner, "ours"), (other, "theirs")):
        client.ok("PUT", "/sandbox/same", {})
        client.ok("POST", "/sandbox/same/sessions", {"id": "work"})
        client.exec("same", {"session": "work", "command": f"export S={word}"})
    owner.ok("PUT", "/sandbox/same/files/workspace/secret", b"ours")
    owner.ok("POST", "/sandbox/same/contexts", {"id": "calc", "language": "bash"})
    backup = {"dir": "/workspace", "archivePath": "/var/backups/same"}
    owner.ok("POST", "/sandbox/same/container/api/backup/create", backup)
    refused(other("POST", "/sandbox/same/container/api/backup/restore", backup), 404, "BACKUP_NOT_FOUND")
    look = {"command": "cat /workspace/secret || echo none"}
    said = [c.exec("same", look, {"Idempotency-Key": "same"})["stdout"] for c in (owner, other)]
    assert said == ["ours", "none\n"]
    with other.stream("POST", "/v1/sandbox/same/exec", {"argv": ["sh", "-c", "echo $S"]}, {"Session-Id": "work"}) as stream:
        assert base64.b64encode(b"theirs\n") in stream.response.read()
    reply = other("POST", "/sandbox/same/container/api/execute/code", {"context_id": "calc", "code": "echo $S", "language": "bash"})
    assert b"ours" not in reply.body
    other.ok("DELETE", "/v1/sandbox/same/session/work")
    assert owner.exec("same", {"session": "work", "command": "echo $S"})["stdout"] == "ours\n"
    for client in (owner, other):
        client.ok("DELETE", "/sandbox/same")


def test_an_address_has_no_part_in_other_sandboxes_backups(owner, boxes, mallory_has):
    """Backups are the tenant's, and found by their names: those of others are not for whoever has one sandbox's address."""
    name = "/var/backups/of-other.sqsh"
    with_token = f"/sandbox/{boxes[1]}/container/api/backup/create"
    assert owner.ok("POST", with_token, {"dir": "/workspace", "archivePath": name})["success"]
    reply = mallory_has("POST", "/api/backup/restore", {"dir": "/workspace/got", "archivePath": name})
    refused(reply, 404, "BACKUP_NOT_FOUND")
    assert mallory_has.ok("POST", "/api/exists", {"path": "/workspace/got/secret"})["exists"] is False
    # its own it may have, and the tenant all of them
    own = "/var/backups/own.sqsh"
    assert mallory_has.ok("POST", "/api/backup/create", {"dir": "/workspace", "archivePath": own})["success"]
    assert mallory_has.ok("POST", "/api/backup/restore", {"dir": "/workspace/own", "archivePath": own})["success"]
    assert owner.ok("POST", "/sandbox/open/container/api/backup/restore", {"dir": "/workspace/theirs", "archivePath": name})["success"]
    assert mallory_has.ok("POST", "/api/read", {"path": "/workspace/theirs/secret"})["content"] == "of other"
    mallory_has.run("rm -r /workspace/own /workspace/theirs")


def test_an_address_has_no_part_in_an_earlier_sandboxs_backups(owner):
    """Backups outlive their sandbox, for the tenant. An address is of one sandbox, and another one of its id is not that one."""
    name, route = "/var/backups/reborn.sqsh", "/sandbox/reborn/container/api/backup"
    owner.ok("PUT", "/sandbox/reborn", {})
    owner.ok("PUT", "/sandbox/reborn/files/workspace/secret", b"of the first")
    owner.ok("POST", f"{route}/create", {"dir": "/workspace", "archivePath": name})
    owner.ok("DELETE", "/sandbox/reborn")
    owner.ok("PUT", "/sandbox/reborn", {})
    address = Address(owner, "reborn")
    got = {"dir": "/workspace/got", "archivePath": name}
    refused(address("POST", "/api/backup/restore", got), 404, "BACKUP_NOT_FOUND")
    # of two with one name it is the later one's own, and the tenant may have both
    owner.ok("PUT", "/sandbox/reborn/files/workspace/secret", b"of the second")
    address.ok("POST", "/api/backup/create", {"dir": "/workspace", "archivePath": name})
    address.ok("POST", "/api/backup/restore", got)
    assert address.ok("POST", "/api/read", {"path": "/workspace/got/secret"})["content"] == "of the second"
    second, first = owner.ok("GET", "/sandbox/reborn/backups")["backups"]
    owner.ok("DELETE", f"/backups/{second['id']}")
    refused(address("POST", "/api/backup/restore", got), 404, "BACKUP_NOT_FOUND")
    owner.ok("POST", f"{route}/restore", got)
    assert address.ok("POST", "/api/read", {"path": "/workspace/got/secret"})["content"] == "of the first"
    owner.ok("DELETE", f"/backups/{first['id']}")
    owner.ok("DELETE", "/sandbox/reborn")


def test_more_addresses_are_not_more_requests(admin):
    """A token that may ask so often may not ask oftener by addresses that it makes."""
    made = admin.ok("POST", "/tokens", {"name": "slow", "rate": 12})
    slow = Client(admin.server, made["token"])
    slow.ok("PUT", "/sandbox/slow", {})
    addresses = [Address(slow, "slow") for _ in range(4)]
    answers = [a("GET", "/api/ping").status for _ in range(5) for a in addresses]
    assert answers.count(200) <= 12 and answers[-1] == 429, answers
    refused(addresses[0]("GET", "/api/ping"), 429, "RATE_LIMITED")
    admin("DELETE", "/sandbox/slow", headers={"X-Cay-Tenant": made["tenant"]})
    admin.ok("DELETE", f"/tokens/{made['id']}")


# -- when it is over


def open_ones(address):
    """Each kind of stream that an address can have open, and the words for it."""
    address.run("mkdir -p /workspace/w; head -c 300000000 /dev/zero | tr '\\0' x > /workspace/big.txt")
    address.ok("POST", "/api/process/start", {"command": "sleep 1000", "processId": "sleeper"})
    yield "exec", address.events("/api/execute/stream", {"command": "echo on; sleep 1000", "sessionId": "__DISABLE_SESSION__"})
    yield "session", address.events("/api/execute/stream", {"command": "echo on; sleep 1000", "sessionId": "s1"})
    yield "port", address.events("/api/port-watch", {"port": 4567})
    yield "watch", address.events("/api/watch", {"path": "/workspace/w"})
    yield "code", address.events("/api/execute/code", {"code": "echo on; sleep 1000", "language": "bash"})
    yield "process", address.events("/api/process/sleeper/stream", method="GET")
    yield "file", address.events("/api/read/stream", {"path": "/workspace/big.txt"})


# What their clients take for a good end.
GOOD_ENDS = {"complete", "execution_complete", "exit", "ready", "process_exited"}


def rest_of(stream):
    """The types of a stream's events, to its end or to where it is cut."""
    types = []
    try:
        for event in stream:
            types.append(event.data["type"])
    except (OSError, ValueError) as e:
        types.append(f"cut: {e}")
    stream.close()
    return types


def seen_to_be_over(address, owner, box, end):
    """Opens everything, ends it, and looks at what the readers are told."""
    streams = list(open_ones(address))
    with connect(address, address.path + "/ws/pty?sessionId=term") as ws:
        for name, stream in streams:
            assert stream.status == 200, (name, stream)
        end()
        refused(address("GET", "/api/ping"), 401, "UNAUTHORIZED")
        for name, stream in streams:
            types = rest_of(stream)
            assert not GOOD_ENDS & set(types), (name, types)
            assert types and (types[-1] in ("error", "stopped") or types[-1].startswith("cut")), (name, types)
        with pytest.raises((Closed, OSError)):
            while True:
                ws.recv()


def test_a_revoked_address_is_cut(owner):
    owner.ok("PUT", "/sandbox/ends", {})
    address = Address(owner, "ends")
    seen_to_be_over(address, owner, "ends", lambda: owner.ok("DELETE", f"/sandbox/ends/container-urls/{address.id}"))
    # what ran for its readers alone has ended with them
    eventually(lambda: owner.exec("ends", "pgrep -fc '^sleep 1000' || true")["stdout"] == "1\n")
    owner("DELETE", "/sandbox/ends")


def test_an_address_ends_with_its_sandbox_and_its_token(admin, owner):
    made = admin.ok("POST", "/tokens", {"name": "short-lived", "tenant": owner.name})
    other = Client(admin.server, made["token"])
    other.ok("PUT", "/sandbox/again", {})
    by_other, by_owner = Address(other, "again"), Address(owner, "again")
    assert by_other.ok("GET", "/api/ping")["success"] and by_owner.ok("GET", "/api/ping")["success"]
    admin.ok("DELETE", f"/tokens/{made['id']}")
    refused(by_other("GET", "/api/ping"), 401, "UNAUTHORIZED")
    assert by_owner.ok("GET", "/api/ping")["success"]
    stream = by_owner.events("/api/execute/stream", {"command": "echo on; sleep 1000"})
    assert next(iter(stream)).data["type"] == "start"
    owner.ok("DELETE", "/sandbox/again")
    assert not GOOD_ENDS & set(rest_of(stream))
    refused(by_owner("GET", "/api/ping"), 401, "UNAUTHORIZED")
    owner.ok("PUT", "/sandbox/again", {})  # another one of the same name
    refused(by_owner("GET", "/api/ping"), 401, "UNAUTHORIZED")
    assert owner.ok("GET", "/sandbox/again/container-urls")["urls"] == []
    owner.ok("DELETE", "/sandbox/again")
    refused(by_owner("POST", "/api/execute", {"command": "true"}), 401, "UNAUTHORIZED")
    assert owner("GET", "/sandbox/again").status == 404  # an address makes none


def test_an_address_ends_with_its_time(owner, boxes):
    address = Address(owner, boxes[0], ttl=1)
    stream = address.events("/api/execute/stream", {"command": "echo on; sleep 1000"})
    assert not GOOD_ENDS & set(rest_of(stream))  # it is cut
    refused(address("GET", "/api/ping"), 401, "UNAUTHORIZED")
    for ttl in (0, -1, 1e300, "forever", 10**12, {}, True):
        owner("POST", f"/sandbox/{boxes[0]}/container-url", {"ttl": ttl}).error(400, "INVALID_REQUEST", "ttl")
    assert address.id not in json.dumps(owner.ok("GET", f"/sandbox/{boxes[0]}/container-urls"))


def test_an_address_where_no_token_is_asked_for(make_server):
    """By other names, and from pages of the web, it is no more than elsewhere."""
    server = make_server("--auth", "none")
    local = Client(server, None, unix=True)
    anyone = Client(server, None)
    anyone.ok("PUT", "/sandbox/a", {})
    address = Address(anyone, "a")
    host = f"Host: localhost:{server.port}"

    def ask_as(path, *lines):
        return raw(server, "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode())

    assert ask_as(f"{address.path}/api/ping", host).status == 200
    assert ask_as(f"{address.path}/api/ping", "Host: evil.example").status == 421
    assert ask_as(f"{address.path}/../files/etc/passwd", host).status in (400, 404)
    assert ask_as("/container/x/api/ping", host).status == 401  # a wrong one is not nobody's
    for evil in ("Origin: https://evil.example", "Sec-Fetch-Site: cross-site"):
        assert ask_as("/sandbox/by-a-page/container/api/ping", host, evil).status == 403
        assert ask_as("/v1/sandbox/by-a-page/running", host, evil).status in (403, 404)
    assert [b["id"] for b in anyone.ok("GET", "/sandbox")["sandboxes"]] == ["a"]
    address.unix = True  # who may use the socket has it as an address all the same
    refused(Client.__call__(local, "GET", "/container/x/api/ping"), 401, "UNAUTHORIZED")
    assert address("GET", "/../../sandbox").status in (400, 404)
    assert address("GET", "/api/ping").status == 200


def test_what_nobody_made_ends_when_tokens_are_asked_for(make_server):
    """An address is its maker's. One that was made without a token is worth nothing where tokens are."""
    server = make_server("--auth", "none")
    anyone, local, known = Client(server, None), Client(server, None, unix=True), Client(server)
    anyone.ok("PUT", "/sandbox/a", {})
    by_anyone, by_local, by_token = Address(anyone, "a"), Address(local, "a"), Address(known, "a")
    for address in (by_anyone, by_local, by_token):
        assert address.ok("GET", "/api/ping")["success"]
    assert server.stop() == 0
    server.flags = ()
    server.start()
    large = {"path": "/workspace/x", "content": "x" * 400_000}  # which is looked at before it is read
    for method, path, body in (("GET", "/api/ping", None), ("POST", "/api/execute", {"command": "true"}), ("POST", "/api/write", large)):
        refused(by_anyone(method, path, body), 401, "UNAUTHORIZED")
    assert [u["id"] for u in known.ok("GET", "/sandbox/a/container-urls")["urls"]] == [by_local.id, by_token.id]
    for address in (by_local, by_token, Address(local, "a")):  # whoever may use the socket is known by that
        assert address.ok("GET", "/api/ping")["success"]
    assert server.stop() == 0
    server.flags = ("--auth", "none")
    server.start()
    refused(by_anyone("GET", "/api/ping"), 401, "UNAUTHORIZED")  # it does not come back
    assert by_local.ok("GET", "/api/ping")["success"] and by_token.ok("GET", "/api/ping")["success"]


# -- what is kept of secrets


def test_no_address_and_no_login_is_kept(make_server, tmp_path):
    """Not in the log, the database, events, metrics, or any process's title."""
    server = make_server()
    client = Client(server)
    client.ok("PUT", "/sandbox/s", {"network": "internet"})
    address = Address(client, "s")
    login, password = "login-Xq7", "pass-Yw9-Zk3"
    url = f"https://{login}:{password}@git.invalid/a/b.git"
    address.ok("GET", "/api/ping")
    address("POST", "/api/nothing")
    address("GET", "/api/process/none")
    ask(server, f"GET {address.path}/api/ping", None, "Content-Length: x")  # which is refused before it is anybody's
    ask(server, f"GET {address.path}/" + "x" * 20000)
    ask(server, f"BREW {address.path}/api/ping")
    raw(server, f"GET {address.path}/api/ping HTTP/9.9\r\n\r\n".encode())
    raw(server, f"GET http://x{address.path}/api/ping HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    told = [address("POST", "/api/git/checkout", {"repoUrl": url, "timeoutMs": 20000}),
            address("POST", "/api/git/checkout", {"repoUrl": url + "\0"}),
            address("POST", "/api/git/checkout", {"repoUrl": url, "targetDir": "/proc/1/x"}),
            address("POST", "/api/git/checkout", {"repoUrl": url, "branch": "-x"})]
    for reply in told:
        assert reply.status >= 400 and password.encode() not in reply.body, reply
    pid = daemon_pid(server)
    texts = {"log": server.log().encode(), "metrics": client("GET", "/metrics").body,
             "events": client("GET", "/sandbox/s/events?limit=1000").body, "secrets": client("GET", "/secrets").body,
             "urls": client("GET", "/sandbox/s/container-urls").body,
             "titles": b"".join(pathlib.Path(f"/proc/{p}/{f}").read_bytes() for p in (pid, *children(pid)) for f in ("cmdline", "environ"))}
    in_box = client.exec("s", "grep -rslF -e pass-Yw9 -e login-Xq7 -e '%s' /workspace /tmp /root /home /proc/[0-9]*/environ; true" % address.secret)
    assert in_box["stdout"] == "", in_box
    for path in pathlib.Path(server.data, "daemon").rglob("*"):
        if path.is_file() and path.stat().st_size < 64 * MIB:
            texts[str(path)] = path.read_bytes()
    for where, text in texts.items():
        for secret in (address.secret, password, login):
            assert secret.encode() not in text, where
    assert "login" not in client("GET", "/secrets").body.decode()


# -- sandboxes by mere probing


def test_strangers_and_bad_names_make_nothing(server, admin, owner):
    before = admin.ok("GET", "/sandbox?limit=1000")["sandboxes"]
    for line in ("GET /sandbox/new/container/api/ping", "POST /sandbox/new/container/api/execute", "GET /sandbox/new/container/ws/pty?sessionId=a",
                 "OPTIONS /sandbox/new/container/api/ping", "GET /v1/sandbox/new/running", "POST /v1/sandbox"):
        assert ask(server, line).status in (204, 401, 404), line
    for name in ("..", ".", "%2e%2e", "a%2fb", "a%00b", "-a", "a-", "a" * 200, "%ff", "a b".replace(" ", "%20"), "%0d%0aX:1", "é".encode().hex("%")):
        reply = ask(server, f"GET /sandbox/{name}/container/api/ping", ADMIN)
        assert reply.status in (400, 404), (name, reply)
    for path in ("/api/nothing", "/api/process/a/b/c", "/..", "/api/ping/x"):
        assert ask(server, f"GET /sandbox/new/container{path}", ADMIN).status in (400, 404), path
    assert ask(server, "POST /sandbox/new/container/api/execute", ADMIN, body=b"{}").status == 400
    assert ask(server, "POST /sandbox/new/container/api/execute", ADMIN, body=b"{").status == 400
    assert [b["id"] for b in admin.ok("GET", "/sandbox?limit=1000")["sandboxes"]] == [b["id"] for b in before]


def test_a_tenant_makes_no_more_than_it_may(admin):
    made = admin.ok("POST", "/tokens", {"name": "few", "quotas": {"sandboxes": 2}})
    few = Client(admin.server, made["token"])
    replies = at_once(*[lambda i=i: few("GET", f"/sandbox/few-{i}/container/api/ping") for i in range(8)])
    assert sorted(r.status for r in replies)[:2] == [200, 200]
    for reply in replies:
        if reply.status != 200:
            assert 400 <= reply.status < 500 and reply.json["code"] == "QUOTA_EXCEEDED", reply
    assert len(few.ok("GET", "/sandbox")["sandboxes"]) == 2
    for box in few.ok("GET", "/sandbox")["sandboxes"]:
        few.ok("DELETE", f"/sandbox/{box['id']}")
    admin.ok("DELETE", f"/tokens/{made['id']}")


# -- bodies

BODIES = {
    "/api/execute": {"command": "true"},
    "/api/execute/stream": {"command": "true"},
    "/api/execute/code": {"code": "1", "language": "bash"},
    "/api/contexts": {"language": "bash"},
    "/api/process/start": {"command": "true"},
    "/api/session/create": {"id": "x1"},
    "/api/session/delete": {"sessionId": "x1"},
    "/api/read": {"path": "/etc/hostname"},
    "/api/read/stream": {"path": "/etc/hostname"},
    "/api/write": {"path": "/tmp/x", "content": "x"},
    "/api/list-files": {"path": "/workspace"},
    "/api/exists": {"path": "/x"},
    "/api/mkdir": {"path": "/tmp/d"},
    "/api/delete": {"path": "/tmp/none"},
    "/api/rename": {"oldPath": "/tmp/none", "newPath": "/tmp/n"},
    "/api/move": {"sourcePath": "/tmp/none", "destinationPath": "/tmp/n"},
    "/api/watch": {"path": "/workspace"},
    "/api/watch/check": {"path": "/workspace"},
    "/api/port-watch": {"port": 1},
    "/api/git/checkout": {"repoUrl": "https://git.invalid/a/b"},
    "/api/backup/create": {"dir": "/workspace", "archivePath": "/var/backups/x"},
    "/api/backup/restore": {"dir": "/workspace", "archivePath": "/var/backups/x"},
}
NOT_TEXT = [None, 1, -1, 1.5, True, [], {}, [[]], "", "a\0b", "\0", "x" * 5000, "\ud800"]
NOT_BODIES = [b"", b"null", b"[]", b"1", b'"x"', b"{", b"{}{}", b'{"a":1,}', b"\xff\xfe", b'{"path":"\xff"}', b"[" * 100000,
              b'{"a":' * 5000, b"\0" * 100]


def is_told(reply, what):
    assert 400 <= reply.status < 500 and reply.status not in (401, 429), (what, reply)
    assert reply.json["httpStatus"] == reply.status and reply.json["message"], (what, reply)


def test_bad_bodies_are_told_so(mallory_has):
    for path, good in BODIES.items():
        for body in NOT_BODIES:
            reply = mallory_has("POST", path, body)
            if reply.status != 200 or path != "/api/session/create":  # nothing need be in it
                if path == "/api/contexts" and body == b"":
                    continue
                is_told(reply, (path, body[:20]))
        for name, value in good.items():
            reply = mallory_has("POST", path, {k: v for k, v in good.items() if k != name})
            if path not in ("/api/session/create", "/api/contexts") and (path, name) != ("/api/execute/code", "language"):
                is_told(reply, (path, name))
            for bad in NOT_TEXT:
                if bad == 1 and name == "port" or bad == "" and name in ("content", "code") or bad == "x" * 5000 and name in ("command", "code", "content"):
                    continue
                reply = mallory_has("POST", path, json.dumps({**good, name: bad}))
                assert reply.status < 500 or (path, reply.status) in (("/api/session/delete", 500), ("/api/backup/create", 500)), (path, name, bad, reply)
                if bad is not None and not isinstance(bad, str) and name not in ("port",):
                    is_told(reply, (path, name, bad))


def test_odd_names_are_names(mallory_has):
    """What is no text of the shell's is still the name of a file."""
    for name in ("a\nb", "\x1b[2J", "$(touch pwned)", "`id`", "'\"", "-rf", "a\\b", "é\u2028\u2029", "\U0001f600", " ", "a" * 255, "..a", "data: x\n\n"):
        path = f"/workspace/odd/{name}"
        assert mallory_has.ok("POST", "/api/write", {"path": path, "content": name})["success"]
        assert mallory_has.ok("POST", "/api/read", {"path": path})["content"] == name
        listed = mallory_has.ok("POST", "/api/list-files", {"path": "/workspace/odd", "options": {"includeHidden": True}})
        assert name in [f["name"] for f in listed["files"]], listed
        assert mallory_has.ok("POST", "/api/delete", {"path": path})["success"]
    assert mallory_has.ok("POST", "/api/exists", {"path": "/workspace/pwned"})["exists"] is False


def test_env_and_sessions_are_no_shell(mallory_has):
    for env in ({"A=B": "x"}, {"": "x"}, {"A\0": "x"}, {"A": "x\0y"}, {"A;touch /workspace/pwned": "x"}, {"A": 1}, {"A": {}}, ["A"], "A=1"):
        for path in ("/api/execute", "/api/execute/stream", "/api/process/start"):
            reply = mallory_has("POST", path, {"command": "true", "env": env})
            assert reply.status in (200, 400), (env, reply)
    for session in ("../x", "a/b", "$(touch /workspace/pwned)", "a b", "\n", "x" * 300, ".", "é"):
        for path in ("/api/execute", "/api/execute/stream", "/api/process/start"):
            refused(mallory_has("POST", path, {"command": "true", "sessionId": session}), 400, "VALIDATION_FAILED")
        assert mallory_has("GET", f"/ws/pty?sessionId={urllib.parse.quote(session)}").status in (400, 426), session
    value = "'; touch /workspace/pwned; \"$(touch /workspace/pwned)\"\n`x`"
    assert mallory_has.run('printf %s "$V"', env={"V": value}, sessionId="env")["stdout"] == value
    assert mallory_has.run('printf %s "$V"', env={"V": value}, sessionId="__DISABLE_SESSION__")["stdout"] == value
    assert mallory_has.ok("POST", "/api/exists", {"path": "/workspace/pwned"})["exists"] is False


# -- files that are none


def test_files_that_have_no_end(mallory_has):
    mallory_has.run("cd /workspace; mkdir -p odd; mkfifo odd/fifo; ln -sfn loop odd/loop; ln -sfn / odd/root; ln -sfn . odd/self; ln -sfn /nowhere odd/dangling")
    for path in ("/dev/zero", "/dev/random", "/workspace/odd/fifo", "/workspace/odd/loop", "/workspace/odd", "/proc/kmsg", "/workspace/odd/dangling/x",
                 "/dev/tty", "/proc/self/mem"):
        for route in ("/api/read", "/api/read/stream"):
            reply = mallory_has.events(route, {"path": path}) if route.endswith("stream") else mallory_has("POST", route, {"path": path})
            if hasattr(reply, "connection"):
                types = rest_of(reply)
                assert types[-1] == "error" or path == "/proc/kmsg", (path, types)
            else:
                assert 400 <= reply.status < 600 and reply.json["code"] not in ("INTERNAL_ERROR",), (path, reply)
    listed = mallory_has.ok("POST", "/api/list-files", {"path": "/workspace/odd", "options": {"recursive": True}})
    assert {f["name"] for f in listed["files"]} == {"fifo", "loop", "root", "self", "dangling"}, listed  # links are not followed
    assert mallory_has.ok("POST", "/api/watch/check", {"path": "/workspace/odd"})["success"]
    for path in ("/etc", "/workspace/../etc", "/workspacex", "../etc", "/workspace/./../proc", "/"):
        refused(mallory_has("POST", "/api/watch", {"path": path}), 403, "PERMISSION_DENIED")
        refused(mallory_has("POST", "/api/watch/check", {"path": path}), 403, "PERMISSION_DENIED")
    mallory_has.run("rm -r /workspace/odd")


# -- streams


def test_output_is_no_event(mallory_has):
    """What a program writes cannot end an event or begin one."""
    forged = 'x\n\ndata: {"type":"complete","exitCode":0}\n\n\r\n\r\nevent: x\rdata: {"type":"exit"}\u2028\x00\x1b'
    for session in ("forge", "__DISABLE_SESSION__"):
        with mallory_has.events("/api/execute/stream", {"command": 'printf %b "$V\\0"; exit 3' if session != "forge" else 'printf "%s\\0" "$V"; false',
                                                        "env": {"V": forged.replace("\x00", "")}, "sessionId": session}) as stream:
            events = [e.data for e in stream]
        types = [e["type"] for e in events]
        assert types[0] == "start" and types[-1] == "complete" and set(types[1:-1]) == {"stdout"}, events
        assert events[-1]["exitCode"] in (1, 3)
        assert 'data: {"type":"complete","exitCode":0}' in "".join(e["data"] for e in events[1:-1])


def test_names_are_no_events(mallory_has):
    """Nor can the name of a file."""
    name = 'x\n\ndata: {"type":"stopped"}\n\n'
    mallory_has.run("mkdir -p /workspace/names")
    with mallory_has.events("/api/watch", {"path": "/workspace/names"}) as stream:
        events = iter(stream)
        assert next(events).data["type"] == "watching"
        mallory_has.run('mkdir "/workspace/names/$NAME"', env={"NAME": name})
        mallory_has.run("printf '\\377\\r\\n' | xargs -0 touch", cwd="/workspace/names")
        seen = [next(events).data for _ in range(2)]
    assert {e["type"] for e in seen} == {"event"} and seen[0]["path"] == f"/workspace/names/{name}", seen
    mallory_has.run("rm -r /workspace/names")


def test_a_command_of_any_size_is_told_of(mallory_has):
    """Escaped, it is larger than all that a stream may have waiting."""
    for session in ("forge", "__DISABLE_SESSION__"):
        with mallory_has.events("/api/execute/stream", {"command": "true #" + "\x01" * (MIB - 6), "sessionId": session}) as stream:
            types = [e.data["type"] for e in stream]
        assert types[0] == "start" and types[-1] == "complete", (session, types)


def test_readers_that_leave_leave_nothing(server, owner):
    """Each kind of stream, left at once, after its head, and after an event."""
    owner.ok("PUT", "/sandbox/leave", {"keepAlive": True})
    address = Address(owner, "leave")
    address.run("mkdir -p /workspace/w; head -c 50000000 /dev/zero > /workspace/big")
    address.ok("POST", "/api/process/start", {"command": "yes", "processId": "yes"})
    address.run("true", sessionId="s1")
    requests = [("POST", "/api/execute/stream", {"command": "yes", "sessionId": "__DISABLE_SESSION__"}),
                ("POST", "/api/execute/stream", {"command": "yes", "sessionId": "s1"}),
                ("POST", "/api/execute", {"command": "sleep 1000", "sessionId": "s1"}),
                ("POST", "/api/execute", {"command": "sleep 1000", "sessionId": "__DISABLE_SESSION__"}),
                ("POST", "/api/port-watch", {"port": 4567, "interval": 100}),
                ("POST", "/api/port-watch", {"port": 4567, "processId": "yes", "mode": "tcp"}),
                ("POST", "/api/watch", {"path": "/workspace/w"}),
                ("POST", "/api/watch/check", {"path": "/workspace"}),
                ("POST", "/api/execute/code", {"code": "yes", "language": "bash"}),
                ("GET", "/api/process/yes/stream", None),
                ("GET", "/api/process/yes/logs", None),
                ("POST", "/api/read/stream", {"path": "/workspace/big"}),
                ("POST", "/api/read", {"path": "/workspace/big"}),
                ("POST", "/api/list-files", {"path": "/usr", "options": {"recursive": True}}),
                ("POST", "/api/git/checkout", {"repoUrl": "https://a:b@git.invalid/x/y.git"}),
                ("POST", "/api/contexts", {"language": "bash"}),
                ("POST", "/api/backup/create", {"dir": "/workspace/w", "archivePath": "/var/backups/l"}),
                ("GET", "/api/commands", None)]

    def leave(method, path, body, after):
        text = json.dumps(body).encode() if body is not None else b""
        with raw_connect(server) as s:
            s.sendall(f"{method} {address.path}{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
            if after == 1:
                s.settimeout(0.2)
            if after > 0:
                try:
                    s.recv(after)
                except TimeoutError:
                    pass
            if after == 2:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def all_of_them():
        streams = [r for r in requests if "stream" in r[1] or "watch" == r[1][-5:]]
        at_once(*[lambda r=r: leave(*r, after=0) for r in requests])
        at_once(*[lambda r=r: leave(*r, after=1) for r in requests])
        at_once(*[lambda r=r: leave(*r, after=2) for r in streams])

    all_of_them()
    address.ok("DELETE", "/api/process/kill-all")
    eventually(lambda: owner.exec("leave", "pgrep -xc yes || true")["stdout"] == "0\n")
    eventually(lambda: owner.exec("leave", "pgrep -fc '^sleep 1000' || true")["stdout"] == "0\n")
    assert address.run("echo fine", sessionId="s1")["stdout"] == "fine"
    refused(address("GET", "/api/process/none"), 404, "PROCESS_NOT_FOUND")
    owner.ok("DELETE", "/sandbox/leave")


def test_a_reader_that_stops_is_waited_for(make_server):
    """What it does not take is not kept for it."""
    server = make_server(env={"ASAN_OPTIONS": "detect_leaks=1:quarantine_size_mb=2"})
    owner = Client(server)
    owner.ok("PUT", "/sandbox/stop", {"keepAlive": True})
    address = Address(owner, "stop")
    address.run("truncate -s 250M /workspace/big; mkdir /workspace/w")
    bodies = [("/api/execute/stream", {"command": "yes", "sessionId": "__DISABLE_SESSION__"}), ("/api/execute/stream", {"command": "yes", "sessionId": "s1"}),
              ("/api/read/stream", {"path": "/workspace/big"}), ("/api/read", {"path": "/workspace/big"}),
              ("/api/execute/code", {"code": "yes", "language": "bash"}), ("/api/watch", {"path": "/workspace/w"})]
    daemon = daemon_pid(server)
    before = memory(daemon)
    stopped = []
    try:
        for path, body in bodies:
            text = json.dumps(body).encode()
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", server.port))
            s.sendall(f"POST {address.path}{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
            assert b" 200 " in s.recv(64), path
            stopped.append(s)
        # changes that nobody reads, and other work meanwhile
        for _ in range(3):
            address.run("cd /workspace/w; for i in $(seq 3000); do : > file-with-a-long-name-$i; done; rm *", sessionId="s2")
        assert address.run("echo fine", sessionId="s3")["stdout"] == "fine"
        assert memory(daemon) - before < 192 * MIB, (before, memory(daemon))
    finally:
        for s in stopped:
            s.close()
    owner.ok("DELETE", "/sandbox/stop")


def tar_of(*entries, **more):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **more) as tar:
        for name, data, fields in entries:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out.getvalue()


def test_archives_stay_in_the_workspace(owner):
    """Whatever the bridge is given to unpack, and whatever lies there already."""
    owner.ok("PUT", "/sandbox/tar", {})
    owner.exec("tar", {"command": "ln -s /etc /workspace/there; mkdir /etc/keep", "user": "root"})
    link, hard = {"type": tarfile.SYMTYPE}, {"type": tarfile.LNKTYPE}
    file = ("f", b"x" * 600)
    for name, archive in {
        "up": tar_of(("../../etc/harm", b"x", {})),
        "absolute": tar_of(("/etc/harm", b"x", {})),
        "absolute by pax": tar_of(("f", b"x", {"pax_headers": {"path": "/etc/harm"}})),
        "link": tar_of(("l", b"", {**link, "linkname": "/etc"}), ("l/harm", b"x", {})),
        "a link that is there": tar_of(("there/harm", b"x", {})),
        "hard link": tar_of(("h", b"", {**hard, "linkname": "/etc/passwd"})),
        "hard link up": tar_of(("h", b"", {**hard, "linkname": "../etc/passwd"})),
        "hard link through a link": tar_of(("h", b"", {**hard, "linkname": "there/passwd"})),
        "the directory as a file": tar_of((".", b"x", {})),
        "no name": tar_of(("", b"x", {})),
        "pax without an end": tar_of((*file, {"pax_headers": {"comment": "x" * 3_000_000}})),
        "long name": tar_of(("n" * 300_000, b"x", {}), format=tarfile.GNU_FORMAT),
        "negative": tar_of((*file, {"pax_headers": {"size": "-1"}})),
        "huge": tar_of((*file, {"pax_headers": {"size": "9" * 30}})),
        "cut": tar_of((*file, {}))[:900],
        "noise": b"noise" * 1000,
    }.items():
        reply = owner("POST", "/v1/sandbox/tar/hydrate", archive)
        assert reply.status == 400 and reply.json["code"] == "workspace_archive_write_error", (name, reply)
    odd = tar_of(("dev", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 1}), ("suid", b"x", {"mode": 0o6755, "uid": 2**31}),
                 ("attr", b"x", {"pax_headers": {"SCHILY.xattr.trusted.overlay.redirect": "/etc"}}), ("there", b"x", {}))
    assert owner("POST", "/v1/sandbox/tar/hydrate", odd).status == 200
    seen = owner.exec("tar", "cd /workspace; stat -c '%n %F %a' dev suid attr there; ls -d /etc/harm; ls /etc/keep")["stdout"].split("\n")
    assert seen == ["suid regular file 755", "attr regular file 644", "there regular file 644", ""], seen
    owner.ok("DELETE", "/sandbox/tar")


def slow_reader(address, method, path, body=None):
    """Asks, and reads the status of the answer and no more."""
    text = json.dumps(body).encode() if body is not None else b""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect(("127.0.0.1", address.server.port))
    s.sendall(f"{method} {address.path}{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
    return s, int(s.recv(12).split()[1])


def test_answers_that_nobody_reads_are_so_many(new_tenant):
    """Large ones are counted, for all together and for each who asks: what is beyond is refused, and what ran says how it ended."""
    greedy, other = new_tenant(), new_tenant()
    for client, size in ((greedy, 8_000_000), (other, 500_000)):
        client.ok("PUT", "/sandbox/much", {"keepAlive": True})
        client.exec("much", f"head -c {size} /dev/zero | tr '\\0' '\\1' > ones")  # of which each is six bytes of JSON
        client.start("much", {"command": "cat ones", "id": "ones"})
        client.ended("much", "ones")
    greedy.exec("much", "mkdir many; cd many; python3 -c 'for i in range(10500): open(\"\\1\" * 245 + str(i), \"w\")'")
    address, others = Address(greedy, "much"), Address(other, "much")
    logs, listed = ("GET", "/api/process/ones/logs"), ("POST", "/api/list-files", {"path": "/workspace/many"})
    run = ("POST", "/api/execute", {"command": "cat ones", "sessionId": "__DISABLE_SESSION__"})
    readers = [slow_reader(address, *request) for request in (logs, listed, logs, listed, run)]
    try:
        assert [status for _, status in readers] == [200, 200, 503, 503, 200]
        reply = address(*logs)
        assert refused(reply, 503, "CONTAINER_UNAVAILABLE") and reply.headers["Retry-After"]
        # it has run: so it is told how that ended, and not that it did not
        told = address.ok(*run)
        assert told["exitCode"] == 0 and told["truncated"] and len(told["stdout"]) < MIB, len(told["stdout"])
        told = greedy.exec("much", "tr '\\1' x < ones; echo late >&2; exit 3")
        assert told["exitCode"] == 3 and told["truncated"] and len(told["stdout"]) < MIB, len(told["stdout"])
        assert address.run("echo small")["stdout"] == "small"
        # nobody else pays for it
        assert others(*logs).status == 200 and "truncated" not in others.ok(*run)
    finally:
        for s, _ in readers:
            s.close()

    def is_well():
        s, status = slow_reader(address, *logs)
        s.close()
        return status == 200

    eventually(is_well)
    for client in (greedy, other):
        client.ok("DELETE", "/sandbox/much")


def test_bodies_of_those_who_have_left_are_so_many(new_tenant):
    """With an Idempotency-Key a command goes on without its client. What was sent for it is memory of the server's."""
    client = new_tenant()
    client.ok("PUT", "/sandbox/left", {"keepAlive": True})
    body = json.dumps({"argv": ["sleep", "1000"], "stdin": "x" * 30_000_000})
    headers, _ = client.head(None, None)
    head = "".join(f"{k}: {v}\r\n" for k, v in headers.items())

    def running():
        return int(client.exec("left", "pgrep -xc sleep || true")["stdout"])

    for i in range(8):
        with raw_connect(client.server) as s:
            s.sendall(f"POST /sandbox/left/exec HTTP/1.1\r\nHost: x\r\n{head}Idempotency-Key: k{i}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            answered = eventually(lambda: select.select([s], [], [], 0.05)[0] or running() > i)
            if isinstance(answered, list):
                assert b" 503 " in s.recv(64)
                break
    assert i == 2 and running() == 2
    small = {"argv": ["true"]}
    assert client.ok("POST", "/sandbox/left/exec", small, {"Idempotency-Key": "small"})["success"]
    client.ok("DELETE", "/sandbox/left")  # and all that ran in it
    client.ok("PUT", "/sandbox/left", {})
    eventually(lambda: client("POST", "/sandbox/left/exec", {**small, "stdin": "x" * 3_000_000}, {"Idempotency-Key": "again"}).status == 200)
    client.ok("DELETE", "/sandbox/left")


def test_bodies_that_do_not_end_leave_room_for_others(server, new_tenant):
    """Large ones are kept until all of it is there, and all together have a limit: half of it is not one tenant's to take."""
    greedy, other = new_tenant(), new_tenant()
    other.ok("PUT", "/sandbox/room", {})
    size, sent = 31_000_000, b"x" * 30_000_000
    head = f"POST /sandbox/none/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {greedy.token}\r\nContent-Length: {size}\r\n\r\n"
    held = []
    try:
        for _ in range(6):
            held.append(raw_connect(server))
            held[-1].sendall(head.encode())
            if select.select([held[-1]], [], [], 0.3)[0]:
                break
            held[-1].sendall(sent)
        assert b" 503 " in held[-1].recv(64) and len(held) == 5
        done = other.exec("room", {"argv": ["wc", "-c"], "stdin": "x" * 25_000_000})
        assert done["stdout"] == "25000000\n"
    finally:
        for s in held:
            s.close()
    eventually(lambda: greedy("POST", "/sandbox/none/exec", b"x" * size).status in (400, 404))
    other.ok("DELETE", "/sandbox/room")


def test_commands_of_any_size_are_listed(owner, boxes, mallory_has):
    """Each takes ten million bytes of JSON, where it is told in full: more than a list, or what the server keeps, has room for."""
    long, cut = "\x01" * 100_000, ("\x01" * 2**14)[: 2**14 - len("true")] + "…"
    for i in range(8):
        owner.start(boxes[0], {"argv": ["true", *[long] * 14], "id": f"long-{i}"})
    listed = [p for p in owner.ok("GET", f"/sandbox/{boxes[0]}/processes")["processes"] if p["id"].startswith("long-")]
    assert len(listed) == 8 and all(p["command"] == ["true", cut] for p in listed)
    theirs = [p for p in mallory_has.ok("GET", "/api/process/list")["processes"] if p["id"].startswith("long-")]
    assert len(theirs) == 8 and all(p["command"] == f"true {cut}" for p in theirs)
    odd = "é" * 9000  # not cut within a character
    assert owner.exec(boxes[0], {"argv": ["true", odd]})["command"] == ["true", "é" * 8190 + "…"]
    assert owner.exec(boxes[0], f"true {odd[:100]}")["command"] == f"true {odd[:100]}"


def test_globs_are_no_work_for_all(owner, mallory_has):
    """Patterns of the worst kind over a tree: it is answered, and others are meanwhile."""
    mallory_has.run("mkdir -p /workspace/tree && cd /workspace/tree && for d in $(seq 5); do mkdir $d; (cd $d; seq -f 'a-name-of-a-file-that-is-not-short-%g' 200 | xargs touch); done")
    worst = ["?*" * 127 + "z"] * 64
    for which in ("include", "exclude"):
        replies = at_once(lambda: mallory_has.ok("POST", "/api/watch/check", {"path": "/workspace/tree", which: worst}), lambda: owner.ok("GET", "/sandbox/open"))
        assert replies[0]["success"]
    refused(mallory_has("POST", "/api/watch/check", {"path": "/workspace/tree", "include": ["x"] * 65}), 400, "VALIDATION_FAILED")
    refused(mallory_has("POST", "/api/watch/check", {"path": "/workspace/tree", "include": ["x" * 256]}), 400, "VALIDATION_FAILED")
    mallory_has.run("rm -r /workspace/tree")


# -- the bridge


def test_the_bridge_stays_in_the_workspace(server, owner, boxes, mallory_has):
    top = "/v1/sandbox/open/file"
    for path in ("/etc/passwd", "/workspace/../etc/passwd", "/workspace/%2e%2e/etc/passwd", "/workspace/..%2f..%2fetc/passwd", "/workspacex/a",
                 "/workspace%00/../etc/passwd", "//etc/passwd", "/../../other/file/workspace/secret", "/./../etc/passwd", "/"):
        for method in ("GET", "PUT"):
            reply = ask(server, f"{method} {top}{path}", owner.token, body=b"harm" if method == "PUT" else b"")
            assert reply.status in (400, 403, 404, 405), (method, path, reply)
            assert {"error", "code"} <= set(reply.json) and b"root:" not in reply.body, reply
    for cwd in ("/etc", "../etc", "/workspace/../..", "a/../../../b"):
        assert owner("POST", "/v1/sandbox/open/exec", {"argv": ["pwd"], "cwd": cwd}).status == 403, cwd
    for argv in ([], [""], ["a\0b"], "ls", [1], [None], None, {}, ["x"] * 100000):
        assert owner("POST", "/v1/sandbox/open/exec", {"argv": argv}).status in (400, 413), argv
    for session in ("../x", "a b", "$(id)", "x" * 300):
        assert owner("POST", "/v1/sandbox/open/exec", {"argv": ["true"]}, {"Session-Id": session}).status == 400, session
    # an address is for the container protocol alone, and strangers have none of it
    for line in ("GET /v1/sandbox/open/running", "POST /v1/sandbox", "POST /v1/sandbox/open/exec", "DELETE /v1/sandbox/open", "POST /v1/pool/shutdown-prewarmed",
                 "GET /v1/sandbox/open/file/workspace/secret", "POST /v1/sandbox/open/persist", "GET /v1/pool/stats"):
        assert ask(server, line).status == 401, line
        assert ask(server, line, mallory_has.secret).status == 401, line
        assert ask(server, line.replace("/v1", f"{mallory_has.path}/v1")).status in (404, 405), line
    assert ask(server, "POST /v1/pool/shutdown-prewarmed", owner.token).status == 403
    assert owner.exec("open", "cat /workspace/secret")["stdout"] == "of open"


def test_the_bridge_quotes(owner, boxes):
    """An argument is one word, in a shell or not, and what is written is no event."""
    words = ["a b", "$(touch /workspace/pwned)", "`id`", "'", "\"", "\\", "\n\ndata: x\n\n", "*", "~", "", "-n", ";touch /workspace/pwned", "\U0001f600"]
    for headers in ({}, {"Session-Id": "quotes"}):
        reply = owner("POST", "/v1/sandbox/open/exec", {"argv": ["printf", "%s|", *words]}, headers)
        blocks = [dict(line.split(": ", 1) for line in block.split("\n")) for block in reply.body.decode().strip().split("\n\n") if not block.startswith(":")]
        assert {b["event"] for b in blocks} == {"stdout", "exit"}, reply
        assert b"".join(base64.b64decode(b["data"]) for b in blocks[:-1]).decode() == "".join(f"{w}|" for w in words)
        assert json.loads(blocks[-1]["data"]) == {"exit_code": 0}
    assert owner.exec("open", "ls /workspace")["stdout"].split() == ["secret"]
