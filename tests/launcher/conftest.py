# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "standin"), str(TESTS / "serve")]

import clients  # noqa: E402
from serve_helpers import CAY, Serve  # noqa: E402
from standin_helper import StandIn  # noqa: E402


@pytest.fixture(scope="session")
def packages():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    assert os.access(CAY, os.X_OK), f"{CAY} is not built"
    try:
        return clients.folder()
    except clients.Missing as why:
        pytest.skip(f"claude-code-templates cannot be had: {why}")


@pytest.fixture(scope="session")
def top():
    path = tempfile.mkdtemp(prefix="cay-launcher-")
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def model():
    with StandIn() as stand_in:
        yield stand_in


def new_data(top):
    path = tempfile.mkdtemp(prefix="data-", dir=top)
    os.chmod(path, 0o711)  # the server's daemon passes through
    return path


@pytest.fixture(scope="module")
def server(top, model):
    """As somebody who uses the launcher would start it; with it the stand-in for the model."""
    with Serve(new_data(top), "--auth", "none", **model.env()) as serving:
        yield serving


@pytest.fixture
def make_server(top, model):
    servers = []

    def make(*flags, **env):
        serving = Serve(new_data(top), *flags, **{**model.env(), **env})
        servers.append(serving.__enter__())
        return serving

    yield make
    for serving in servers:
        serving.__exit__()


@pytest.fixture
def project(top):
    """A directory of the person who asks."""
    return pathlib.Path(tempfile.mkdtemp(prefix="project-", dir=top))
