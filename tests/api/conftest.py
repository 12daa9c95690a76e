# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import shutil
import tempfile

import pytest
from api_helpers import CAY, Client, Server


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

    def make(*flags):
        data = tempfile.mkdtemp(prefix="own-", dir=top)
        servers.append(Server(data, *flags))
        return servers[-1]

    yield make
    for server in servers:
        assert server.stop() == 0
        assert server.faults() == []


@pytest.fixture(scope="session")
def api(server):
    return Client(server)


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
