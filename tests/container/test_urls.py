# SPDX-License-Identifier: Apache-2.0
"""Addresses with the permission within: what they open and what not, and how they end."""

import os
import pathlib
import re
import threading

import pytest
from container_helpers import Client, Container, Server, eventually
from test_family import ROUTES
from ws_helpers import Closed, WebSocket, connect


class Url(Container):
    """What a container sees that has nothing but its address."""

    def __init__(self, server, made):
        super().__init__(Client(server, None), "")
        self.id, self.url = made["id"], made["url"]
        self.base = "/" + made["url"].split("/", 3)[3]
        self.secret = made["url"].rsplit("/", 1)[1]


def make(box, **body):
    reply = box.api("POST", f"/sandbox/{box.box}/container-url", body)
    assert reply.status == 201, reply
    return Url(box.api.server, reply.json)


def ids(box):
    return [u["id"] for u in box.api.ok("GET", f"/sandbox/{box.box}/container-urls")["urls"]]


def revoke(box, url):
    box.api.ok("DELETE", f"/sandbox/{box.box}/container-urls/{url.id}")


def dead(url):
    for method, path, body in ROUTES:
        error = url.check(url(method, path, body), 401, "UNAUTHORIZED")
        assert url.secret not in str(error)
    assert isinstance(connect(url.api, url.base + "/ws/pty?sessionId=s"), type(url("GET", "/api/ping")))


def test_made_and_used(server, box):
    url = make(box)
    assert re.fullmatch(rf"http://127\.0\.0\.1:{server.port}/container/cay_[A-Za-z0-9_-]{{43}}", url.url)
    assert url.ok("/api/ping", method="GET")["status"] == "healthy"
    assert url("GET", "").status == url("GET", "/").status == url("GET", "?x=1").status == 200
    url.ok("/api/write", {"path": "/workspace/a", "content": "by url"})
    assert box.read("/workspace/a")["content"] == "by url"
    with url.stream("/api/execute/stream", {"command": "echo x"}) as stream:
        assert stream.until(type="complete")
    url.fail("/api/nope", {}, 404, "UNKNOWN_ERROR")
    url.invalid("/api/execute", {}, "command")
    listed = box.api.ok("GET", f"/sandbox/{box.box}/container-urls")["urls"]
    assert [set(u) for u in listed] == [{"id", "createdAt"}] and listed[0]["id"] == url.id


def test_large_bodies(box):
    """Which only those may send who are known before they are read."""
    url = make(box)
    content = "x" * 3_000_000
    url.ok("/api/write", {"path": "/workspace/large", "content": content})
    assert url.read("/workspace/large")["size"] == len(content)
    revoke(box, url)
    url.fail("/api/write", {"path": "/workspace/large", "content": content}, 401, "UNAUTHORIZED")


def test_a_terminal(box):
    url = make(box)
    ws = connect(url.api, url.base + "/ws/pty?sessionId=s")
    assert isinstance(ws, WebSocket), ws
    revoke(box, url)
    with pytest.raises(Closed) as closed:
        while True:
            ws.recv()
    assert closed.value.code == 1008


def test_nothing_else(server, api, box):
    url = make(box)
    other = Container(api, box.box + "-other")
    other.ok("/api/ping", method="GET")
    nobody = Client(server, None)
    for path in (f"/sandbox/{box.box}", f"/sandbox/{box.box}/sessions", f"/sandbox/{box.box}/container/api/ping", "/sandbox", "/tokens"):
        assert nobody("GET", path, headers={"Authorization": f"Bearer {url.secret}"}).status == 401
        assert nobody("GET", path + f"?token={url.secret}").status in (400, 401)
        assert url("GET", path).status == 404  # behind the capability there are no such routes
    for path in ("/../sandbox", "/%2e%2e/sandbox", f"/../../sandbox/{other.box}/container/api/ping", "//api/ping", "/api/%2e%2e/ping"):
        assert url("GET", path).status in (400, 404)
    # Neither another sandbox's id nor another tenant make a difference.
    assert url.api("GET", url.base + "/api/ping", headers={"X-Sandbox-Id": other.box, "X-Cay-Tenant": "admin"}).status == 200
    assert url.ok("/api/execute", {"command": "echo in > /workspace/which"})
    assert "which" in box.run("ls /workspace") and "which" not in other.run("ls /workspace")
    for near in (url.secret[:-1], url.secret + "x", url.secret.swapcase(), url.secret[:-1] + "%41", url.id, "", "x" * 200):
        assert nobody("GET", f"/container/{near}/api/ping").status in (400, 401)
    api.ok("DELETE", f"/sandbox/{other.box}")


def test_others_cannot_make_list_or_revoke(server, api, box):
    url = make(box)
    mallory = Client(server, api.ok("POST", "/tokens", {"name": f"m-{box.box}"})["token"])
    mallory("POST", f"/sandbox/{box.box}/container-url", {}).error(404, "NOT_FOUND")
    mallory("GET", f"/sandbox/{box.box}/container-urls").error(404, "NOT_FOUND")
    mallory("DELETE", f"/sandbox/{box.box}/container-urls/{url.id}").error(404, "NOT_FOUND")
    mallory.ok("PUT", "/sandbox/own", {})
    mallory("DELETE", f"/sandbox/own/container-urls/{url.id}").error(404, "NOT_FOUND")
    mallory.ok("DELETE", "/sandbox/own")
    assert url.ok("/api/ping", method="GET") and ids(box) == [url.id]


def test_revoked(box):
    url, other = make(box), make(box)
    with url.stream("/api/execute/stream", {"command": "echo x; sleep 1000.6", "sessionId": "s"}) as stream:
        stream.until(type="stdout")
        revoke(box, url)
        events = list(stream)
    assert events[-1]["type"] == "error"  # and never complete
    dead(url)
    assert other.ok("/api/ping", method="GET") and ids(box) == [other.id]
    box.api("DELETE", f"/sandbox/{box.box}/container-urls/{url.id}").error(404, "NOT_FOUND")
    eventually(lambda: box.api.exec(box.box, "pgrep -f 'sleep 1000[.]6'")["exitCode"] == 1)


def test_its_time(box):
    url = make(box, ttl=1)
    assert url("GET", "/api/ping").status in (200, 401)
    eventually(lambda: url("GET", "/api/ping").status == 401)
    dead(url)
    assert ids(box) == []
    for ttl in (0, -1, "x", 1e12, None, "1h"):
        reply = box.api("POST", f"/sandbox/{box.box}/container-url", {"ttl": ttl})
        assert reply.status == (201 if ttl in (None, "1h") else 400), (ttl, reply)
    assert [set(u) for u in box.api.ok("GET", f"/sandbox/{box.box}/container-urls")["urls"]] in (
        [{"id", "createdAt"}, {"id", "createdAt", "expiresAt"}], [{"id", "createdAt", "expiresAt"}, {"id", "createdAt"}])


def test_an_open_stream_when_its_time_is_over(box):
    url = make(box, ttl=2)
    with url.stream("/api/execute/stream", {"command": "echo x; sleep 1000", "sessionId": "s"}) as stream:
        assert list(stream)[-1]["type"] == "error"


def test_its_sandbox_is_destroyed(api, box):
    url = make(box)
    assert url.ok("/api/ping", method="GET")
    api.ok("DELETE", f"/sandbox/{box.box}")
    dead(url)
    box.ok("/api/ping", method="GET")  # another one of the same id
    dead(url)
    assert ids(box) == []


def test_its_maker_is_revoked(server, api, box):
    made = api.ok("POST", "/tokens", {"name": f"maker-{box.box}"})
    maker = Container(Client(server, made["token"]), "mine")
    maker.ok("/api/ping", method="GET")
    url = make(maker)
    assert url.ok("/api/ping", method="GET")
    api.ok("DELETE", f"/tokens/{made['id']}")
    dead(url)


def test_as_fast_as_its_maker(server, api, box):
    made = api.ok("POST", "/tokens", {"name": f"slow-url-{box.box}", "rate": 4})
    maker = Container(Client(server, made["token"]), "mine")
    maker.ok("/api/ping", method="GET")
    url = make(maker)
    replies = [url("GET", "/api/ping") for _ in range(6)]
    url.check(next(r for r in replies if r.status != 200), 429, "RATE_LIMITED")


def test_so_many(box):
    for _ in range(64):
        make(box)
    box.api("POST", f"/sandbox/{box.box}/container-url", {}).error(403, "QUOTA_EXCEEDED", "64")


def test_never_told(server, box):
    """Not in the log, which has every request; nor in errors, lists, events, metrics."""
    url = make(box)
    with url.stream("/api/execute/stream", {"command": "echo x"}) as stream:
        list(stream)
    said = [str(url(m, p, b).body) for m, p, b in (("GET", "/api/nope", None), ("GET", "/api//x", None), ("POST", "/api/execute", "{"), ("PUT", "/api/ping", None))]
    revoke(box, url)
    said += [str(url("GET", "/api/ping").body), str(url("POST", "/api/write", {"path": "x", "content": "y" * 100000}).body)]
    said += [str(box.api("GET", p).body) for p in ("/metrics", f"/sandbox/{box.box}", f"/sandbox/{box.box}/events", f"/sandbox/{box.box}/container-urls")]
    said.append(server.log())
    assert not [text for text in said if url.secret in text or url.secret[4:20] in text]
    assert "/sandbox/{id}/container/api/execute/stream" in server.log()


def test_not_on_the_disk(server, box):
    url = make(box)
    for path in pathlib.Path(server.data).rglob("cay.db*"):
        assert url.secret.encode() not in path.read_bytes()


@pytest.fixture(scope="module")
def open_server(top):
    os.mkdir(f"{top}/open")
    server = Server(f"{top}/open", "--auth", "none")
    yield server
    assert server.stop() == 0
    assert server.faults() == []


def test_without_tokens(open_server):
    """`--auth none`: pages of the web get nowhere without it, and no further than one sandbox with it."""
    box = Container(Client(open_server, None), "a")
    box.ok("/api/ping", method="GET")
    url = make(box)
    page = {"Origin": "https://example.com", "Sec-Fetch-Site": "cross-site"}
    assert box.api("GET", box.base + "/api/ping", headers=page).status == 403
    assert url.api("GET", url.base + "/api/ping", headers=page).status == 200
    assert url.api("GET", url.base + "/api/ping", headers={"Host": "evil.example"}).status == 421
    revoke(box, url)
    dead(url)


def test_it_outlives_the_server(top):
    """And so does its end."""
    os.mkdir(f"{top}/restarted")
    server = Server(f"{top}/restarted")
    box = Container(Client(server), "a")
    box.ok("/api/ping", method="GET")
    url, gone = make(box), make(box)
    revoke(box, gone)
    assert server.stop() == 0
    server.start()
    assert url.ok("/api/ping", method="GET")
    dead(gone)
    done = threading.Event()
    with url.stream("/api/execute/stream", {"command": "echo x; sleep 1000", "sessionId": "s"}) as stream:
        stream.until(type="stdout")
        stopping = threading.Thread(target=lambda: (server.stop(), done.set()))
        stopping.start()
        events = list(stream)  # cut by the server that stops: it does not read as complete
        assert events[-1]["type"] == "error", events
    stopping.join()
    assert done.is_set() and server.faults() == []
