# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import shutil
import tempfile

import pytest
from container_helpers import Client, Container, Server


@pytest.fixture(scope="session")
def top():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    path = tempfile.mkdtemp(prefix="cay-container-")
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def server(top):
    """One for all tests; in the end it has found no fault in itself."""
    os.mkdir(f"{top}/shared")
    server = Server(f"{top}/shared", "--egress-private", "127.0.0.0/8")  # for git servers of the tests
    yield server
    assert server.stop() == 0
    assert server.faults() == []


@pytest.fixture(scope="session")
def api(server):
    return Client(server)


numbers = itertools.count(1)


@pytest.fixture
def new(api):
    """A sandbox of the test's own, which nobody has made yet."""
    name = f"c-{next(numbers)}"
    yield Container(api, name)
    api("DELETE", f"/sandbox/{name}")


@pytest.fixture
def box(new):
    """One that is there."""
    new.api.ok("PUT", f"/sandbox/{new.box}", {})
    return new


@pytest.fixture(scope="module")
def shared(api):
    """One for all tests of a file."""
    name = f"c-{next(numbers)}"
    yield Container(api, name)
    api("DELETE", f"/sandbox/{name}")
