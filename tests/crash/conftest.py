# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import tempfile

import pytest
from crash_helpers import CAY, Server, cgroups_of_nobody, loops_of, mounts_of, wait_until


@pytest.fixture
def data_dir():
    path = tempfile.mkdtemp(prefix="cay-crash-", dir="/var/tmp")
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def server(data_dir):
    """A server of its own, which leaves nothing behind."""
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    if not os.access(CAY, os.X_OK):
        pytest.fail(f"{CAY} is not built")
    before = cgroups_of_nobody()
    server = Server(data_dir)
    try:
        server.start()
        yield server
    finally:
        server.stop()
    assert wait_until(lambda: not mounts_of(data_dir)), mounts_of(data_dir)
    assert wait_until(lambda: not loops_of(data_dir)), loops_of(data_dir)
    assert wait_until(lambda: not cgroups_of_nobody(before)), cgroups_of_nobody(before)
