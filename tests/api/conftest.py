# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import pathlib
import shutil
import sys
import tempfile

import pytest
from api_helpers import CAY, Client, Server

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "standin"))
from standin_helper import StandIn  # noqa: E402


def need_root():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    assert os.access(CAY, os.X_OK), f"{CAY} is not built"


@pytest.fixture(scope="session")
def top():
    path = tempfile.mkdtemp(prefix="cay-api-")
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def server(top):
    """One for all tests that do not need their own; in the end it has found no fault in itself."""
    need_root()
    os.mkdir(f"{top}/shared")
    server = Server(f"{top}/shared")
    yield server
    assert server.stop() == 0
    assert server.faults() == []


@pytest.fixture
def make_server(top):
    need_root()
    servers = []

    def make(*flags, env=None):
        data = tempfile.mkdtemp(prefix="own-", dir=top)
        servers.append(Server(data, *flags, env=env))
        return servers[-1]

    yield make
    for server in servers:
        assert server.stop() == 0
        assert server.faults() == []


@pytest.fixture(scope="session")
def api(server):
    return Client(server)


@pytest.fixture(scope="session")
def model():
    """A stand-in for the Messages API."""
    with StandIn() as standin:
        yield standin


@pytest.fixture(scope="session")
def asked(top, model):
    """A server that asks the stand-in, and its administrator's client."""
    need_root()
    os.mkdir(f"{top}/asked")
    server = Server(f"{top}/asked", env=model.env())
    yield Client(server)
    assert server.stop() == 0
    assert server.faults() == []


numbers = itertools.count(1)


@pytest.fixture
def box(api):
    """A sandbox of the test's own."""
    name = f"box-{next(numbers)}"
    api.ok("PUT", f"/sandbox/{name}", {})
    yield name
    api("DELETE", f"/sandbox/{name}")


@pytest.fixture(scope="module")
def shared_box(api):
    """One for all tests of a file that leave nothing behind in it."""
    name = f"box-{next(numbers)}"
    api.ok("PUT", f"/sandbox/{name}", {})
    yield name
    api("DELETE", f"/sandbox/{name}")


@pytest.fixture
def tenant(api, server):
    """A client of another tenant, and its token's id."""
    made = api.ok("POST", "/tokens", {"name": f"tenant-{next(numbers)}"})
    client = Client(server, made["token"])
    client.id = made["id"]
    client.name = made["tenant"]
    yield client
    api("DELETE", f"/tokens/{made['id']}")
