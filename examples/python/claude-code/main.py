# SPDX-License-Identifier: Apache-2.0
"""A coding agent works on a repository, and you get the difference to look at.

    python3 main.py 'add a CONTRIBUTING.md'
    REPO_URL=https://github.com/you/project.git python3 main.py 'fix the typos in the README'
    AGENT='my-agent --task' python3 main.py 'whatever it can do'

The agent is Claude Code unless AGENT says otherwise. It needs an image that has it (`cay image build agents`) and a model: the
server's key, or a secret of the name `anthropic`, which the sandbox uses without ever seeing it.
"""

import os
import shlex
import sys
from urllib.parse import urlsplit

import cay

REPO_URL = os.environ.get("REPO_URL", "https://github.com/octocat/Hello-World.git")
AGENT = os.environ.get("AGENT")
REPO = "/workspace/repo"

task = " ".join(sys.argv[1:]) or "add a CONTRIBUTING.md"
network = {"allow": [urlsplit(REPO_URL).netloc.rpartition("@")[2]]}  # without a password


def show(stream: str, text: str) -> None:
    print(text, end="", flush=True, file=sys.stderr)


def open_sandbox() -> cay.Sandbox:
    if AGENT:
        return cay.get_sandbox(network=network)
    return cay.get_sandbox(
        network=network,
        image="agents",
        memory="2g",
        secrets=["anthropic"],
        env={"ANTHROPIC_BASE_URL": "http://anthropic.cay", "ANTHROPIC_API_KEY": "put-in-outside"},
        budget={"usd": 2},
    )


command = AGENT or "claude --dangerously-skip-permissions -p"  # it may do all it likes: it is in a sandbox
with open_sandbox() as box:
    box.git_checkout(REPO_URL, REPO)
    result = box.exec(f"{command} {shlex.quote(task)}", cwd=REPO, timeout="15m", on_output=show)
    if not result.success:
        sys.exit(f"the agent failed: exit code {result.exit_code} ({result.reason})")
    diff = box.git_diff(REPO)
    for file in diff.files:
        print(f"{file.status}: {file.path}", file=sys.stderr)
    print(diff.diff, end="")
