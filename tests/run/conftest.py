# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import tempfile

import pytest
from run_helpers import CAY, CAY_SAN, Cay


@pytest.fixture(scope="session")
def data_dir():
    """One data directory for all that do not need their own: the image `host` is made in it once."""
    path = tempfile.mkdtemp(prefix="cay-test-")
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def cay(data_dir):
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    return Cay(data_dir, CAY)


@pytest.fixture(scope="session")
def cay_san(data_dir):
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    if not os.access(CAY_SAN, os.X_OK):
        pytest.skip(f"{CAY_SAN} is not built")
    return Cay(data_dir, CAY_SAN)
