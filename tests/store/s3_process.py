# SPDX-License-Identifier: Apache-2.0
"""A server that speaks S3, as a process of the test."""

import os
import pathlib
import subprocess


class Process:
    """`port` and `url` are where it is, `directory` where its objects are; a proxy in front of it looks at signatures where it
    has `secrets`, by access key."""

    patience_ms = 700  # longer than an answer takes

    def __init__(self, command, directory, access_key, secret_key, secrets=None):
        self.directory = pathlib.Path(directory)
        self.access_key, self.secret_key, self.secrets = access_key, secret_key, secrets
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = self.process.stdout.readline()
        assert said, f"{command[0]} has ended: see what it wrote above"
        self.port = int(said)
        self.url = f"http://127.0.0.1:{self.port}"

    def files(self, ending):
        """Those it has now: they come and go meanwhile."""
        found = (pathlib.Path(at, name) for at, _, names in os.walk(self.directory) for name in names)
        return sorted(path for path in found if path.name.endswith(ending))

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
