# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "api"), str(TESTS / "standin")]

import npm_packages  # noqa: E402
import typescript_helpers  # noqa: E402
from api_helpers import ADMIN, CAY, Server  # noqa: E402
from git_server import GitServer  # noqa: E402
from standin_helper import StandIn  # noqa: E402


@pytest.fixture(scope="session")
def top():
    path = tempfile.mkdtemp(prefix="cay-sdk-")
    os.chmod(path, 0o711)
    yield pathlib.Path(path)
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def model():
    """A stand-in for the Messages API."""
    with StandIn() as standin:
        yield standin


@pytest.fixture(scope="session")
def server(top, model):
    """One for all; in the end it has found no fault in itself. Boxes may reach the git server of the tests."""
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    assert os.access(CAY, os.X_OK), f"{CAY} is not built"
    data = top / "data"
    data.mkdir()
    server = Server(data, "--egress-private", "127.0.0.0/8", env=model.env())
    yield server
    assert server.stop() == 0
    assert server.faults() == []


@pytest.fixture(scope="session")
def git(top):
    (top / "git").mkdir()
    server = GitServer(top / "git")
    server.repo("open/project.git", {"README.md": "hello\n", "test.sh": "test -f README.md\n"})
    yield server
    server.close()


@pytest.fixture(scope="session")
def env(server, git):
    """What a program of ours finds the server by."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "CAY_URL": f"http://127.0.0.1:{server.port}",
        "CAY_TOKEN": ADMIN,
        "REPO_URL": f"{git.url}/open/project.git",
    }


@pytest.fixture(scope="session")
def node():
    try:
        npm_packages.check_node()
    except npm_packages.Missing as why:
        pytest.skip(f"no TypeScript: {why}")
    return "node"


@pytest.fixture(scope="session")
def library(top, node):
    """The TypeScript client as a package, made as the build makes it."""
    return typescript_helpers.make_library(top / "cay-sandbox")


@pytest.fixture(scope="session")
def compiler(node):
    """tsc, and the types of Node."""
    try:
        return npm_packages.folder(TESTS / "sdk", "sdk")
    except npm_packages.Missing as why:
        pytest.skip(f"the TypeScript compiler cannot be had: {why}")
