# SPDX-License-Identifier: Apache-2.0
"""A server that speaks S3 and looks at signatures itself: OpenStack Swift, of Debian's python3-swift, which has no service that
would be started. Where it cannot be had the tests that need it are skipped, and say why."""

import http.client
import os
import pathlib
import subprocess

import sigv4
from s3_process import Process

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"  # which has Debian's modules
ACCESS_KEY, SECRET_KEY = "cay:test", "swift-secret"  # account and user


class Missing(Exception):
    pass


def check(directory):
    done = subprocess.run([PYTHON, "-c", "import lxml, swift.proxy"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing("scripts/deps full installs it: " + done.stderr.strip().splitlines()[-1])
    try:
        os.setxattr(directory, "user.test", b"1")
    except OSError as error:
        raise Missing(f"it wants extended attributes in {directory}: {error}") from error


def metadata(path):
    """With the object's name in it."""
    try:
        return os.getxattr(path, "user.swift.metadata")
    except FileNotFoundError:
        return b""


class Server(Process):
    patience_ms = 2000  # a request here is several to its servers

    def __init__(self, directory, buckets):
        check(directory)
        command = [PYTHON, str(HERE / "swift-servers.py"), str(directory), ACCESS_KEY, SECRET_KEY]
        super().__init__(command, directory, ACCESS_KEY, SECRET_KEY)
        for bucket in buckets:
            self.make_bucket(bucket)

    def make_bucket(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        fields = sigv4.sign_request("PUT", f"/{name}", f"127.0.0.1:{self.port}", ACCESS_KEY, SECRET_KEY)
        connection.request("PUT", f"/{name}", headers=fields)
        answer = connection.getresponse()
        assert answer.status == 200, (answer.status, answer.read())
        connection.close()

    def objects(self, part):
        """The files with the bytes of objects that have this in their keys."""
        return [path for path in self.files(".data") if part.encode() in metadata(path)]
