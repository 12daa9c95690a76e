# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import signal
import tempfile

import pytest
from cli_helpers import Cli, Server
from standin import StandIn

# A shell that starts something in the background has it ignore this one, and that is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def standin():
    path = tempfile.mkdtemp(prefix="cay-standin-")
    server = StandIn(path)
    server.cli = Cli(path)
    yield server
    server.close()
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def server():
    """One real server for all tests of behaviour."""
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    path = tempfile.mkdtemp(prefix="cay-cli-")
    os.chmod(path, 0o711)
    try:
        running = Server(path)
        yield running
        running.stop()
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if os.path.exists(path + ".log"):
            os.unlink(path + ".log")


@pytest.fixture(scope="session")
def cli(server):
    return Cli(server.data)


@pytest.fixture
def sandbox(cli):
    """A sandbox of the test's own."""
    name = cli.ok("create").strip()
    yield name
    cli.run("rm", name)
