# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "api")]

from api_helpers import CAY, Server  # noqa: E402
from bridge_helpers import Bridge, numbers  # noqa: E402


@pytest.fixture(scope="session")
def server():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    assert os.access(CAY, os.X_OK), f"{CAY} is not built"
    with tempfile.TemporaryDirectory(prefix="cay-bridge-") as top:
        os.chmod(top, 0o711)
        os.mkdir(f"{top}/data")
        started = Server(f"{top}/data")
        yield started
        assert started.stop() == 0
        assert started.faults() == []


@pytest.fixture(scope="session")
def api(server):
    return Bridge(server)


@pytest.fixture(scope="session")
def shared(api):
    """A sandbox for tests that leave nothing behind that others would mind."""
    box = api.ok("POST", "/v1/sandbox")["id"]
    yield box
    assert api("DELETE", f"/v1/sandbox/{box}").status == 204


@pytest.fixture
def box(api):
    """An id of a test's own; nothing is there before its first use."""
    name = f"box{next(numbers)}"
    yield name
    assert api("DELETE", f"/v1/sandbox/{name}").status == 204


@pytest.fixture
def stranger(server, api):
    """A client of another tenant."""
    name = f"other-{next(numbers)}"
    assert api("PUT", f"/tenants/{name}", {}).status in (200, 201)
    made = api.ok("POST", "/tokens", {"tenant": name, "name": "test"})
    client = Bridge(server, made["token"])
    client.tenant = name
    return client
