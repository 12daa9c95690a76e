# SPDX-License-Identifier: Apache-2.0
"""Stores to test, both kinds, driven by a small program (store-tool.c)."""

import contextlib
import functools
import os
import pathlib
import subprocess

import pytest
import s3_servers
from fault_proxy import Proxy

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
TOOL = os.environ.get("CAY_STORE_TOOL", str(TOP / "build-test" / "tests" / "store-tool"))
CODES = ["none", "invalid", "not_found", "conflict", "exhausted", "denied", "unsupported", "unavailable", "internal"]
EBADMSG = 74


class Failed(Exception):
    def __init__(self, text):
        super().__init__(text)
        code, number, self.message = text.strip().split(" ", 2)
        self.code = CODES[int(code)]
        self.is_damage = int(number) == EBADMSG


class Store:
    """`run` does commands of the tool one after another, in one process."""

    def __init__(self, **env):
        self.env = env

    def but(self, **env):
        return Store(**{**self.env, **env})

    def run(self, *commands):
        words = [word for command in commands for word in ("+", *map(str, command))][1:]
        env = {**os.environ, **{name: str(value) for name, value in self.env.items()}}
        done = subprocess.run([TOOL, *words], env=env, capture_output=True, timeout=300, check=False)
        error = done.stderr.decode(errors="replace")
        assert done.returncode in (0, 1) and "Sanitizer" not in error and "runtime error" not in error, error
        if done.returncode == 1:
            raise Failed(error)
        return done.stdout

    def text(self, *commands):
        return self.run(*commands).decode()

    def keys(self, prefix="", *more):
        return [line.split("\t")[0] for line in self.text(("list", prefix, *more)).splitlines()]


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """By kind; each is started once."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def get(kind):
            started = stack.enter_context(s3_servers.started(kind, tmp_path_factory.mktemp(kind)))
            started.front = Proxy(started.port, started.secrets)
            stack.callback(started.front.close)
            return started

        yield get


@pytest.fixture(scope="session", params=s3_servers.KINDS)
def server(request, servers):
    return servers(request.param)


class Prefixes:
    n = 0


def s3_store(url, access_key="S3RVER", secret_key="S3RVER"):
    """Each test has a prefix of its own in the bucket."""
    Prefixes.n += 1
    keys = {"S3_ACCESS_KEY": access_key, "S3_SECRET_KEY": secret_key}
    return Store(S3_ENDPOINT=url, S3_PREFIX=f"test-{Prefixes.n}/", S3_PART=65536, S3_TRIES=5, **keys)


def store_on(server):
    return s3_store(server.front.url, server.access_key, server.secret_key)


@pytest.fixture
def s3(server):
    return store_on(server)


@pytest.fixture(params=["local", *s3_servers.KINDS])
def store(request, tmp_path):
    if request.param == "local":
        (tmp_path / "store").mkdir()
        return Store(STORE_DIR=tmp_path / "store")
    return store_on(request.getfixturevalue("servers")(request.param))


@pytest.fixture
def file(tmp_path):
    """Makes a file of these bytes."""

    def make(content):
        path = tmp_path / "content"
        path.write_bytes(content)
        return path

    return make
