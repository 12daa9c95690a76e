# SPDX-License-Identifier: Apache-2.0
"""docs/CLIENTS.md, "A program written for Cloudflare's sandbox", and the five lines of sdk/cloudflare/README.md: as they are written."""

import os
import re
import subprocess
import textwrap

from conftest import ADMIN, TOP

PAGE = TOP / "docs" / "CLIENTS.md"
README = TOP / "sdk" / "cloudflare" / "README.md"


def blocks(text):
    """What is indented, in order."""
    found = re.findall(r"(?:(?:^    .*)?\n)*^    .*\n", text, re.MULTILINE)
    return [textwrap.dedent(block).strip("\n") + "\n" for block in found]


def project(packages, tmp_path):
    """A directory in which both packages are installed."""
    modules = tmp_path / "node_modules"
    modules.mkdir()
    for entry in (packages / "node_modules").iterdir():
        (modules / entry.name).symlink_to(entry)
    (modules / "@cay").mkdir()
    # As `npm install PATH` does it; Node looks for a link's packages beside its target unless told not to.
    (modules / "@cay" / "cloudflare").symlink_to(TOP / "sdk" / "cloudflare")
    return tmp_path


def run(directory, server, *words):
    env = {
        **os.environ,
        "CAY_URL": f"http://127.0.0.1:{server.port}",
        "CAY_TOKEN": ADMIN,
        "SANDBOX_LOG_LEVEL": "error",
    }
    done = subprocess.run(["node", *words], cwd=directory, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done
    return done.stdout


def test_the_worked_example(packages, server, tmp_path):
    section = PAGE.read_text(encoding="utf-8").split("## A program written for Cloudflare's sandbox\n")[1]
    worker, main, followed = blocks(section)[:3]
    directory = project(packages, tmp_path)
    (directory / "worker.mjs").write_text(worker)
    (directory / "main.mjs").write_text(main)
    command, expected = followed.split("\n", 1)[1].split("\n", 1)
    assert command == "$ node --import @cay/cloudflare/register main.mjs / '/run?code=6*7'"
    assert run(directory, server, "--import", "@cay/cloudflare/register", "main.mjs", "/", "/run?code=6*7") == expected


def test_five_lines(packages, server, tmp_path):
    lines = "".join(blocks(README.read_text(encoding="utf-8"))[:1])
    directory = project(packages, tmp_path)
    (directory / "app.mjs").write_text(lines.replace('"http://127.0.0.1:8787"', "process.env.CAY_URL"))
    assert run(directory, server, "--import", "@cay/cloudflare/register", "app.mjs") == "hello\nLinux\n"
