# SPDX-License-Identifier: Apache-2.0
import os

import pytest
from edge_helpers import PROGRAM, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One for a whole file; in the end it has lost nothing."""
    assert os.access(PROGRAM, os.X_OK), f"{PROGRAM} is not built"
    server = Server(tmp_path_factory.mktemp("edge"))
    yield server
    assert server.stop() == 0


@pytest.fixture
def make_server(tmp_path):
    """Servers of a test's own."""
    servers = []

    def make(**kwargs):
        servers.append(Server(tmp_path, **kwargs))
        return servers[-1]

    yield make
    for server in servers:
        assert server.stop() == 0
