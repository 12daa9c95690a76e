# SPDX-License-Identifier: Apache-2.0
"""A server that speaks S3 (but takes any signature; sigv4.py checks them): npm's s3rver. Where it cannot be had the tests that
need it are skipped, and say why."""

import pathlib
import sys

from s3_process import Process

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))

import npm_packages  # noqa: E402
from npm_packages import Missing  # noqa: E402, F401

ACCESS_KEY = SECRET_KEY = "S3RVER"  # it knows no others


class Server(Process):
    def __init__(self, directory, buckets):
        # Its continuation tokens need a cipher that OpenSSL 3 calls legacy.
        command = ["node", "--openssl-legacy-provider", str(HERE / "s3rver.cjs"), str(npm_packages.folder(HERE, "s3rver"))]
        command += [str(directory), *buckets]
        super().__init__(command, directory, ACCESS_KEY, SECRET_KEY, {ACCESS_KEY: SECRET_KEY})

    def objects(self, part):
        """The files with the bytes of objects that have this in their keys."""
        return [path for path in self.files("_object") if part in str(path)]
