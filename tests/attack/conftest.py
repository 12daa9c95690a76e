# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import sqlite3
import tempfile

import pytest
from attack_helpers import CAY, Client, Server, eventually, restarts, routes_of, state_of


@pytest.fixture(scope="session")
def top():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    assert os.access(CAY, os.X_OK), f"{CAY} is not built"
    path = tempfile.mkdtemp(prefix="cay-attack-", dir="/var/tmp")
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def server(top):
    """One for all. No attack ends its daemon or makes it find a fault in itself."""
    os.mkdir(f"{top}/shared")
    server = Server(f"{top}/shared")
    server.killed = 0  # by the tests themselves
    yield server
    seen = restarts(Client(server))
    assert server.stop() == 0
    assert server.faults() == []
    assert seen == server.killed, server.log()[-4000:]


@pytest.fixture
def make_server(top):
    servers = []

    def make(*flags, data=None, **how):
        data = data or tempfile.mkdtemp(prefix="own-", dir=top)
        servers.append(Server(data, *flags, **how))
        return servers[-1]

    yield make
    for server in servers:
        assert server.stop() == 0
        assert server.faults() == []


@pytest.fixture(scope="session")
def admin(server):
    return Client(server)


@pytest.fixture(scope="session")
def routes(admin):
    return routes_of(admin)


def make_tenant(admin, name, **more):
    made = admin.ok("POST", "/tokens", {"name": name, **more})
    client = Client(admin.server, made["token"])
    client.id, client.name = made["id"], made["tenant"]
    return client


@pytest.fixture(scope="session")
def new_tenant(admin):
    count = 0

    def make(**more):
        nonlocal count
        count += 1
        return make_tenant(admin, f"tenant-{count}", **more)

    return make


def plant_result(server, tenant, name):
    """An answer of a model, as if there had been one."""
    db = sqlite3.connect(f"{server.data}/daemon/cay.db", timeout=60)
    with db:
        db.execute(
            "INSERT INTO results (tenant, id, kind, state, run, title, success, status, cost, input_tokens, output_tokens,"
            " generation_ms, sandbox_ms, total_ms, created_ms, ended_ms, size, body) SELECT number, ?, 'question', 2, 1, 'ours',"
            " 1, 200, 1, 1, 1, 1, 1, 1, 1, unixepoch() * 1000, 14, CAST('{\"ours\": true}' AS BLOB) FROM tenants WHERE name = ?",
            (name, tenant))
    db.close()


class World:
    """What the attacks are after: a sandbox of alice's with a session, a context, a process, a snapshot, a backup and
    some words in a file, here and in the store."""

    box, session, process, context, result = "Victim.1", "work", "svc", "calc", "Result-1"

    def __init__(self, alice):
        self.alice = alice
        alice.ok("PUT", f"/sandbox/{self.box}", {"memory": "64m", "labels": {"k": "v"}, "keepAlive": True})
        alice.ok("POST", f"/sandbox/{self.box}/sessions", {"id": self.session})
        alice.exec(self.box, {"session": self.session, "command": "export SECRET=ours; echo ours > /workspace/file"})
        alice.start(self.box, {"command": "echo started; exec cat", "id": self.process})
        alice.ok("POST", f"/sandbox/{self.box}/contexts", {"id": self.context, "language": "bash"})
        self.cell = alice.ok("POST", f"/sandbox/{self.box}/code", {"code": "SECRET=ours", "context": self.context})["id"]
        plant_result(alice.server, alice.name, self.result)
        self.snapshot = alice.ok("POST", f"/sandbox/{self.box}/snapshots", {})["id"]
        self.backup = alice.ok("POST", f"/sandbox/{self.box}/backups", {"dir": "/workspace"})["id"]
        alice.ok("PUT", f"/sandbox/{self.box}/stored/workspace/file", b"ours")
        self.url = alice.ok("POST", f"/sandbox/{self.box}/container-url", {})["id"]
        path = f"/sandbox/{self.box}/processes/{self.process}"
        alice.ok("POST", f"{path}/wait", {"log": "started", "timeout": "60s"})

    @property
    def ids(self):
        return {"id": self.box, "sid": self.session, "pid": self.process, "tid": self.alice.id, "name": self.alice.name, "port": "3000", "path": "workspace/file", "cid": self.context, "cell": self.cell, "request_id": self.result, "bid": self.backup, "url": self.url}

    def state(self):
        state = state_of(self.alice)
        path = f"/sandbox/{self.box}/processes/{self.process}/logs"
        state["log"] = self.alice("GET", path).body
        return state

    def files(self):
        """What is in its directory and its shell. It is use, and so not part of the state."""
        shell = self.alice.exec(self.box, {"session": self.session, "command": "ls /workspace; echo $SECRET"})
        return shell["stdout"]


@pytest.fixture(scope="session")
def alice(admin):
    return make_tenant(admin, "alice")


@pytest.fixture(scope="session")
def mallory(admin):
    """Another tenant, with a sandbox, a session and a process of its own."""
    client = make_tenant(admin, "mallory")
    client.ok("PUT", "/sandbox/own", {"keepAlive": True})
    client.ok("POST", "/sandbox/own/sessions", {"id": "mine"})
    client.start("own", {"argv": ["sleep", "1000"], "id": "mine"})
    return client


@pytest.fixture(scope="session")
def the_world(alice):
    return World(alice)


@pytest.fixture
def world(the_world, admin):
    """Whatever a test does, it is all as before in the end."""
    before = the_world.state()
    tokens = admin.ok("GET", "/tokens")
    yield the_world
    assert the_world.state() == before
    assert the_world.files() == "file\nours\n"
    assert admin.ok("GET", "/tokens") == tokens
    eventually(lambda: admin.ok("GET", "/health")["ok"])
