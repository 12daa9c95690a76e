# SPDX-License-Identifier: Apache-2.0
"""`cay init claude-code`, with the real Claude Code, whose model is the stand-in."""

import json
import os
import subprocess
import sys
import tempfile

import pytest
from agents_helpers import SANITIZED, TOP, end, serve
from api_helpers import ADMIN
from git_server import GitServer

sys.path.append(str(TOP / "tests"))
import npm_packages  # noqa: E402

TASK = "write it [[tool: Write %s]] [[then: text: It is written.]]"
PROGRAMS = {"typescript": ["node", "main.js"], "python": ["/usr/bin/python3", "main.py"]}


@pytest.fixture(scope="module")
def url(top, model):
    server = serve(top, model, "--egress-private", "127.0.0.0/8")
    yield f"http://127.0.0.1:{server.port}"
    end(server)


@pytest.fixture(scope="module")
def repo():
    with tempfile.TemporaryDirectory(prefix="cay-git-") as root:
        server = GitServer(root)
        server.repo("open/hello.git", {"README.md": "hello\n"})
        yield f"{server.url}/open/hello.git"
        server.close()


@pytest.mark.parametrize("language", PROGRAMS)
def test_the_agent_works_on_a_repository(url, repo, tmp_path, language):
    if language == "typescript":
        try:
            npm_packages.check_node()
        except npm_packages.Missing as why:
            pytest.skip(str(why))
    subprocess.run([SANITIZED, "init", "claude-code", ".", "--language", language], cwd=tmp_path, check=True, capture_output=True)
    task = TASK % json.dumps({"file_path": "/workspace/repo/new.txt", "content": f"by an agent, in {language}\n"})
    env = {"PATH": os.environ["PATH"], "CAY_URL": url, "CAY_TOKEN": ADMIN, "REPO_URL": repo}
    done = subprocess.run([*PROGRAMS[language], task], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"+by an agent, in {language}" in done.stdout, done
    assert "It is written." in done.stderr and "added: new.txt" in done.stderr
