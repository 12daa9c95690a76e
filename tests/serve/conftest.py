# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import tempfile

import pytest
from serve_helpers import CAY


@pytest.fixture
def data():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    assert os.access(CAY, os.X_OK), f"{CAY} is not built"
    path = tempfile.mkdtemp(prefix="cay-serve-")
    os.chmod(path, 0o711)
    yield path
    shutil.rmtree(path)
