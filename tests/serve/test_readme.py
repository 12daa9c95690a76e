# SPDX-License-Identifier: Apache-2.0
"""The quick start of README.md, line for line: what it says is typed, what it shows is looked for. The model that answers
its questions is a stand-in (tests/standin)."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from serve_helpers import CAY, PATIENCE, TOP, Serve, environment

sys.path.insert(0, str(TOP / "tests" / "standin"))
from standin_helper import StandIn  # noqa: E402  pylint: disable=wrong-import-position

PRIME = """\
n, found = 1, 0
while found < 1000:
    n += 1
    found += all(n % d for d in range(2, int(n ** 0.5) + 1))
print("The 1000th prime is", n)"""

# What it says to what is asked there.
ANSWERS = {
    "1000th prime": f"[[code: {PRIME}]]",
    "sine.png": "[[code: open('sine.png', 'wb').write(b'a picture')]]",
}


@pytest.fixture
def model(tmp_path):
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(ANSWERS), encoding="utf-8")
    with StandIn("--answers", str(answers)) as standin:
        yield standin


def steps():
    """(command, the lines shown under it) of the section about the server."""
    text = (TOP / "README.md").read_text(encoding="utf-8")
    section = text.split("## A server in two minutes")[1].split("\n## ")[0]
    found = []
    for line in section.splitlines():
        if line.startswith("    # "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line[4:])
    return found


def pattern(shown):
    """'...' in a line stands for anything."""
    return ".*".join(re.escape(part) for part in re.split(r" ?\.\.\. ?", shown))


def script(all_steps, port, data):
    """One shell for all, as a reader has; each command's output ends with a mark of its own."""
    lines = []
    for number, (command, _) in enumerate(all_steps):
        command = command.replace("127.0.0.1:8787", f"127.0.0.1:{port}").replace("/var/lib/cay", data)
        lines += [command + " 2>&1", f"echo; echo '=== {number} ==='"]
    return "\n".join(lines)


def test_the_section_is_there():
    assert len(steps()) > 10


def test_quick_start(data, model, tmp_path):
    path = f"{pathlib.Path(CAY).parent}:{os.environ['PATH']}"
    with Serve(data, **model.env()) as server:
        done = subprocess.run(
            ["bash", "-c", script(steps(), server.port, data)],
            env=environment(PATH=path, CAY_DATA=data, HOME=str(tmp_path)),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 4,
            check=False,
        )
    outputs = re.split(r"\n=== \d+ ===\n", done.stdout)
    for (command, shown), output in zip(steps(), outputs, strict=False):
        for line in shown:
            if not re.search(pattern(line), output):
                pytest.fail(f"# {command}\nshould show: {line}\nbut shows:\n{output}")
    assert len(outputs) == len(steps()) + 1, done
