# SPDX-License-Identifier: Apache-2.0
"""The servers that speak S3 which the tests are run against: one, and with CAY_TEST_FULL=1 a second, stricter one."""

import contextlib
import os

import pytest
import s3_swift
import s3rver

BUCKET = "test"
MODULES = {"s3rver": s3rver, "swift": s3_swift}
KINDS = list(MODULES) if os.environ.get("CAY_TEST_FULL") == "1" else ["s3rver"]


@contextlib.contextmanager
def started(kind, directory):
    module = MODULES[kind]
    try:
        server = module.Server(directory, [BUCKET])
    except module.Missing as missing:
        pytest.skip(f"no {kind}: {missing}")
    with server:
        yield server
