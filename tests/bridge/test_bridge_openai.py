# SPDX-License-Identifier: Apache-2.0
"""OpenAI's Agents SDK for JavaScript, from npm as package-lock.json has it, unmodified: openai.mjs has the scenarios. And what
docs/CLIENTS.md says of it."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import textwrap

import npm_packages
import pytest
from api_helpers import ADMIN

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "CLIENTS.md"
SCRIPT = HERE / "openai.mjs"
NAMES = re.findall(r'^await scenario\("([^"]*)"', SCRIPT.read_text(encoding="utf-8"), re.MULTILINE)
PATIENCE = 300  # seconds


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A directory in which it is installed."""
    try:
        packages = npm_packages.folder(HERE, "openai")
    except npm_packages.Missing as why:
        pytest.skip(f"the Agents SDK cannot be had: {why}")
    directory = tmp_path_factory.mktemp("openai")
    (directory / "node_modules").symlink_to(packages / "node_modules")
    return directory


@pytest.fixture(scope="session")
def node(project, server):
    def run(script):
        env = {**os.environ, "CAY_URL": f"http://127.0.0.1:{server.port}", "CAY_TOKEN": ADMIN}
        return subprocess.run(["node", script], cwd=project, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)

    return run


@pytest.fixture(scope="session")
def told(node, project):
    shutil.copyfile(SCRIPT, project / "openai.mjs")
    done = node("openai.mjs")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    return {line["name"]: line["error"] for line in lines}, done


@pytest.mark.parametrize("name", NAMES)
def test_scenario(told, name):
    errors, done = told
    assert name in errors, done
    assert errors[name] is None, errors[name]


def test_all_of_them(told):
    errors, done = told
    assert list(errors) == NAMES and done.returncode == 0, done


def test_the_page(node, project):
    section = PAGE.read_text(encoding="utf-8").split("## The bridge\n")[1]
    script, followed = [textwrap.dedent(block) for block in re.findall(r"(?:(?:^    .*)?\n)*^    .*\n", section, re.MULTILINE)[:2]]
    (project / "bridge.mjs").write_text(script)
    done = node("bridge.mjs")
    assert done.returncode == 0, done
    assert followed.split("$ node bridge.mjs\n")[1] == done.stdout
