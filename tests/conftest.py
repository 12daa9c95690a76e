# SPDX-License-Identifier: Apache-2.0
"""Tests marked `long` take many seconds and show what others show in little, too: `make test-full` has them."""

import os

import pytest

FULL = os.environ.get("CAY_TEST_FULL") == "1"


def pytest_configure(config):
    config.addinivalue_line("markers", "long: takes many seconds, for CAY_TEST_FULL=1")


def pytest_collection_modifyitems(items):
    for item in [] if FULL else items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes long: CAY_TEST_FULL=1"))
