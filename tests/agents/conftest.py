# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import shutil
import tempfile

import pytest
from agents_helpers import IMAGE, IMAGE_DATA, RELEASE, SANITIZED, Client, StandIn, end, make_box, near_image, serve


@pytest.fixture(scope="session")
def top():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    for program in (RELEASE, SANITIZED):
        assert os.access(program, os.X_OK), f"{program} is not built"
    why = IMAGE_DATA / "why"
    assert (IMAGE_DATA / "images" / IMAGE).exists(), why.read_text() if why.exists() else "scripts/agents-image makes it"
    path = tempfile.mkdtemp(prefix="cay-agents-", dir=near_image())
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def model():
    """A stand-in for the Messages API."""
    with StandIn() as standin:
        yield standin


@pytest.fixture(scope="session")
def server(top, model):
    """One for all tests that do not need their own."""
    server = serve(top, model)
    yield server
    end(server)


@pytest.fixture(scope="session")
def release(top, model):
    """The same by the program that people run: for tests of time and memory, and of what the sanitizers would hide."""
    server = serve(top, model, program=RELEASE)
    yield server
    end(server)


@pytest.fixture
def make_server(top, model):
    """make_server(*flags, program=..., env=...): a server of the test's own."""
    servers = []

    def make(*flags, **more):
        servers.append(serve(top, model, *flags, **more))
        return servers[-1]

    yield make
    for server in servers:
        end(server)


@pytest.fixture(scope="session")
def api(server):
    return Client(server)


numbers = itertools.count(1)


@pytest.fixture
def box(api):
    """A sandbox of the test's own that has the model and no network."""
    name = make_box(api, f"agent-{next(numbers)}")
    yield name
    api("DELETE", f"/sandbox/{name}")
