# SPDX-License-Identifier: Apache-2.0
"""All of npm's claude-code-templates, unmodified: `--sandbox cloudflare` copies its launcher, installs what that needs, asks
whether it shall, and runs it. It knows one address, localhost:8787, so that all of this is in a network of its own; what is
installed was fetched before. About a minute: with CAY_TEST_FULL=1 only."""

import contextlib
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time

import clients
import pytest
from network import own_network
from serve_helpers import Serve
from standin_helper import StandIn

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = "node_modules/claude-code-templates/cli-tool"
PATIENCE = 300
PORT = 8787

pytestmark = pytest.mark.skipif(os.environ.get("CAY_TEST_FULL") != "1", reason="takes long: CAY_TEST_FULL=1")


@pytest.fixture(scope="module")
def cache(packages):
    """npm's, with all that the launcher's folder needs, in the versions of our lock file."""
    place, scratch = packages / "npm-cache", packages / "nested"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    shutil.copy(packages / PACKAGE / "components/sandbox/cloudflare/package.json", scratch)
    shutil.copy(HERE / "cloudflare/package-lock.json", scratch)
    done = subprocess.run(["npm", "install", *clients.FLAGS, "--cache", place], cwd=scratch, capture_output=True, text=True,
                          timeout=clients.PATIENCE, check=False)
    shutil.rmtree(scratch)
    if done.returncode != 0:
        pytest.skip(f"what the launcher needs cannot be had: {done.stderr[:200]}")
    return place


@pytest.fixture(scope="module")
def network(cache):
    with own_network():
        yield


@pytest.fixture(scope="module")
def far_model(network):
    """In that network, where the one of the other tests is not."""
    with StandIn() as stand_in:
        yield stand_in


@pytest.fixture
def far_server(far_model, top):
    data = pathlib.Path(top) / "whole"
    data.mkdir(mode=0o711)
    with Serve(data, "--listen", f"127.0.0.1:{PORT}", "--auth", "none", **far_model.env()) as serving:
        yield serving


class Terminal:
    """A program on a terminal, as a person has it."""

    def __init__(self, command, **options):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, **options)
        os.close(slave)
        self.text = ""

    def read(self):
        ready, _, _ = select.select([self.master], [], [], 1)
        if not ready:
            return
        with contextlib.suppress(OSError):  # the end of a terminal is an error
            data = os.read(self.master, 65536).decode(errors="replace")
            self.text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", data)

    def until(self, done):
        end = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < end, self.text
            self.read()

    def type(self, text):
        os.write(self.master, text.encode())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


def start(packages, cache, project, prompt):
    nested = project / ".claude/sandbox/cloudflare"
    nested.mkdir(parents=True)
    shutil.copy(HERE / "cloudflare/package-lock.json", nested)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(project), "TERM": "xterm", "CCT_NO_TRACKING": "true"}
    env |= {"npm_config_cache": str(cache), "npm_config_offline": "true", "npm_config_ignore_scripts": "true",
            "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_update_notifier": "false"}
    program = packages / PACKAGE / "bin/create-claude-config.js"
    command = ["node", program, "--sandbox", "cloudflare", "--prompt", prompt, "--anthropic-api-key", "a-key", "--yes",
               "--directory", project]
    return Terminal(command, cwd=project, env=env)


def test_the_whole_program(packages, cache, far_server, far_model, project):
    page = 'page = """```html:index.html\n<h1>hi</h1>```"""\nprint(len(page))'
    terminal = start(packages, cache, project, f"make a page [[code: {page}]]")
    try:
        terminal.until(lambda: "Execute this prompt" in terminal.text)
        terminal.type("\r")
        terminal.until(lambda: terminal.process.poll() is not None)
        terminal.read()
    finally:
        terminal.close()
    assert "completed successfully" in terminal.text, terminal.text
    assert "Cloudflare Worker is available" in terminal.text
    (saved,) = project.glob("cloudflare-*/index.html")
    assert saved.read_text() == "<h1>hi</h1>"
    assert len(far_model.messages("make a page")) == 1
