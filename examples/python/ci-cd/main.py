# SPDX-License-Identifier: Apache-2.0
"""Builds and tests in a fresh sandbox, which is gone afterwards, whatever happens. The exit code is that of the first step
that fails.

    python3 main.py                                                     # a small project of its own
    REPO_URL=https://github.com/you/project.git python3 main.py 'make' 'make test'
"""

import os
import sys
from urllib.parse import urlsplit

import cay

PROJECT = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "import calc\nimport unittest\n\n\nclass Test(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n",
}
STEPS = ["python3 -m compileall -q .", "python3 -m unittest -v"]
REPO_URL = os.environ.get("REPO_URL")

steps = sys.argv[1:] or STEPS
host = urlsplit(REPO_URL).netloc.rpartition("@")[2] if REPO_URL else ""  # without a password


def fetch_source(box: cay.Sandbox) -> None:
    if REPO_URL:
        commit = box.git_checkout(REPO_URL, "/workspace/src", depth=1).commit
        print(f"== {REPO_URL} at {commit[:10]}")
        return
    for name, text in PROJECT.items():
        box.write_file(f"src/{name}", text)


def show(stream: str, text: str) -> None:
    print(text, end="", flush=True, file=sys.stderr if stream == "stderr" else sys.stdout)


# Nothing but the repository's host can be reached, and what runs wild is stopped by its limits.
with cay.get_sandbox(memory="1g", network={"allow": [host]} if host else "none") as box:
    fetch_source(box)
    for step in steps:
        print(f"== {step}", flush=True)
        result = box.exec(step, cwd="/workspace/src", timeout="10m", env={"CI": "1"}, on_output=show)
        if not result.success:
            print(f"== failed: exit code {result.exit_code} ({result.reason})")
            break
    else:
        print("== passed")
sys.exit(result.exit_code)
