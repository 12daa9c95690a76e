# SPDX-License-Identifier: Apache-2.0
"""docs/FILES.md, followed from its first line to its last."""

import os
import subprocess

from api_helpers import ADMIN, CAY, PATIENCE, TOP


def commands():
    """The indented blocks that are commands."""
    block = []
    for line in (TOP / "docs" / "FILES.md").read_text().splitlines() + [""]:
        if line.startswith("    "):
            block.append(line[4:])
        elif block:
            if not block[0].startswith("{"):
                yield "\n".join(line for line in block if not line.startswith("export "))
            block = []


def test_followed(server, api, tmp_path):
    blocks = list(commands())
    assert len(blocks) >= 10
    script = 'set -eu\ncay() { local command=$1; shift; "$CAY_PROGRAM" "$command" --data "$CAY_DATA" "$@"; }\n'
    script += 'curl() { command curl -sS --fail-with-body -m 30 "$@" || { s=$?; [ $s = 22 ] && echo; }; }\n'
    script += "\necho; echo ----\n".join(blocks)
    env = {
        **os.environ,
        "CAY": f"http://127.0.0.1:{server.port}",
        "AUTH": f"Authorization: Bearer {ADMIN}",
        "CAY_PROGRAM": CAY,
        "CAY_DATA": str(server.data),
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE * 2)
    assert done.returncode == 0, (done.stdout, done.stderr)
    errors = [line for line in done.stdout.splitlines() if '"error_code"' in line]
    assert len(errors) == 1 and "PRECONDITION_FAILED" in errors[0]  # the one that the page is about
    assert "int main" in (tmp_path / "src-back" / "main.c").read_text()
    assert (tmp_path / "back.txt").read_text() == "hello\n"
    assert '"eventType":"create","path":"/workspace/new"' in done.stdout
    api("DELETE", "/sandbox/demo")
