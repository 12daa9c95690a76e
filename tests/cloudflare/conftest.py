# SPDX-License-Identifier: Apache-2.0
"""The tests themselves are in *.test.mjs: each is a case here, and each file is run once, by Node."""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "api")]

import npm_packages  # noqa: E402
from api_helpers import ADMIN, CAY, Server  # noqa: E402
from git_server import GitServer  # noqa: E402

TEST = re.compile(r'^test\("((?:[^"\\]|\\.)*)"', re.MULTILINE)
PATIENCE = 300  # seconds for a file
AT_ONCE = 2  # files; most of their time is waiting
wanted = {}  # files of which tests were asked for, in order


def pytest_collection_finish(session):
    for item in session.items:
        path = getattr(item, "callspec", None) and item.callspec.params.get("path")
        if path is not None:
            wanted[path] = None


def names_in(path):
    return [json.loads(f'"{name}"') for name in TEST.findall(path.read_text(encoding="utf-8"))]


@pytest.fixture(scope="session")
def packages():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    assert os.access(CAY, os.X_OK), f"{CAY} is not built"
    try:
        return npm_packages.folder(HERE, "cloudflare")
    except npm_packages.Missing as why:
        pytest.skip(f"@cloudflare/sandbox cannot be had: {why}")


@pytest.fixture(scope="session")
def remote():
    with tempfile.TemporaryDirectory(prefix="cay-git-") as root:
        server = GitServer(root)
        server.repo("open/hello.git", {"README.md": "hello\n", "src/a.txt": "one\n"})
        server.repo("open/hello.git", {"README.md": "hello again\n"})
        server.repo("open/hello.git", {"later.txt": "later\n"}, branch="later")
        server.repo("private/closed.git", {"inside.txt": "closed\n"})
        yield server
        server.close()


@pytest.fixture(scope="session")
def server(packages):
    with tempfile.TemporaryDirectory(prefix="cay-cloudflare-") as top:
        os.chmod(top, 0o711)
        os.mkdir(f"{top}/data")
        # Where the git server is.
        started = Server(f"{top}/data", "--egress-private", "127.0.0.0/8")
        yield started
        assert started.stop() == 0
        assert started.faults() == []


def read_results(out):
    """By name. Tests may print, too."""
    results = {}
    for line in out.splitlines():
        try:
            result = json.loads(line)
            results[result["name"]] = result
        except (ValueError, TypeError, KeyError):
            continue
    return results


def run_node(path, **env):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SANDBOX_")}
    # The library leaves a timer of five seconds behind whenever it starts a container.
    flags = ["--test", "--test-force-exit", "--test-timeout=120000", f"--test-reporter={HERE / 'reporter.mjs'}"]
    command = ["node", "--import", TOP / "sdk" / "cloudflare" / "register.mjs", *flags, path]
    done = subprocess.run(command, env={**clean, **env}, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return {**read_results(done.stdout), None: done.stdout[-4000:] + done.stderr[-4000:]}


@pytest.fixture(scope="session")
def run_file(packages, server, remote):
    """What became of each test of a file. All that are wanted are run when the first is asked for."""
    env = {
        "CAY_NODE_MODULES": str(packages),
        "CAY_URL": f"http://127.0.0.1:{server.port}",
        "CAY_TOKEN": ADMIN,
        "GIT_URL": remote.url,
        "SANDBOX_LOG_LEVEL": "error",
    }
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        runs = {path: pool.submit(run_node, path, **env) for path in wanted}
        yield lambda path: runs[path].result()
