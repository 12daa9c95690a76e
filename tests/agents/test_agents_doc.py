# SPDX-License-Identifier: Apache-2.0
"""docs/AGENTS.md, followed from its first line to its last: what it says is typed, what it shows is looked for. The agents
are the real ones; their model is a stand-in (tests/standin), which says what the page shows."""

import json
import os
import re
import shutil
import tempfile

import pytest
from agents_helpers import RELEASE, TOP, StandIn, end, serve
from api_helpers import ADMIN, Client
from doc_helpers import differences, follow, steps
from git_server import GitServer

PAGE = TOP / "docs" / "AGENTS.md"
NEEDED = ["jq", "curl", "git"]
DIR = "/workspace/thing"

THING = {
    ".gitignore": "__pycache__/\n",
    "stats.py": "def mean(numbers):\n    return sum(numbers) / (len(numbers) - 1)\n",
    "test_stats.py": "from stats import mean\n\nassert mean([1, 2, 3]) == 2\n",
}


def tool(name, **arguments):
    return f"[[tool: {name} {json.dumps(arguments)}]]"


def then(markers):
    return f"[[then: {markers}]]"


TEST = tool("Bash", command="python3 test_stats.py")
MEND = tool("Edit", file_path=f"{DIR}/stats.py", old_string="(len(numbers) - 1)", new_string="len(numbers)")
LOOK = 'echo "the key: $ANTHROPIC_API_KEY"; curl -sS https://example.com; git fetch; true'

# What the model says to what is asked on the page.
ANSWERS = {
    "Make the tests pass": f"[[text: I run the tests first.]]{TEST}"
    + then(tool("Read", file_path=f"{DIR}/stats.py"))
    + then(MEND)
    + then(TEST)
    + then("[[text: The tests pass now: the mean was divided by one too few.]]"),
    "Add a licence": tool("Write", file_path=f"{DIR}/LICENSE", content="Do what you like.\n") + then("[[text: It is there.]]"),
    "Count to eight": tool("Bash", command="sleep 4; seq 8 > eight.txt") + then("[[text: Counted.]]"),
    "Say hello to the whole world": "[[text: Hello, world!]]",
    "Look around": tool("Bash", command=LOOK),
    "Write hello to hello.txt": tool("write", filePath="/workspace/hello.txt", content="hello\n") + then("[[text: Done.]]"),
    "What did you write": "[[text: I wrote hello.]]",
}


def files_of_agents():
    """name -> text, of the blocks that begin with '# /etc/cay/agents/NAME'."""
    blocks = re.findall(r"((?:^    .*\n)+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    found = {}
    for block in blocks:
        text = re.sub(r"^    ", "", block, flags=re.MULTILINE)
        if name := re.match(r"# /etc/cay/agents/([a-z]+)\n", text):
            found[name[1]] = text
    return found


def write_agents(folder):
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    for name, text in files_of_agents().items():
        with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
    return folder


@pytest.fixture(scope="module")
def repo():
    with tempfile.TemporaryDirectory(prefix="cay-git-") as root:
        server = GitServer(root)
        server.repo("open/thing", THING)
        yield f"{server.url}/open/thing"
        server.close()


@pytest.fixture(scope="module")
def server(top):
    for program in NEEDED:
        if shutil.which(program) is None:
            pytest.skip(f"the page uses {program}")
    answers = os.path.join(top, "answers.json")
    with open(answers, "w", encoding="utf-8") as f:
        json.dump(ANSWERS, f)
    agents = write_agents(os.path.join(top, "agents-of-the-page"))
    with StandIn("--answers", answers) as model:
        server = serve(top, model, "--agents", agents, "--egress-private", "127.0.0.0/8")
        yield server
        end(server)


@pytest.fixture
def environment(server, repo, tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    return {
        **clean,
        "CAY": f"http://127.0.0.1:{server.port}",
        "AUTH": f"Authorization: Bearer {ADMIN}",
        "CAY_PROGRAM": RELEASE,
        "CAY_DATA": str(server.data),
        "HOME": str(tmp_path),
        "REPO": repo,
    }


def test_most_of_it_is_run():
    found = steps(PAGE)
    assert len(found) >= 25
    assert len([step for step in found if step[1]]) >= 20
    assert sorted(files_of_agents()) == ["loud", "scribe"]


def test_followed(environment, tmp_path):
    found = [step for step in steps(PAGE) if not step[0].startswith("export ")]
    wrong = differences(found, follow(found, environment, tmp_path))
    assert not wrong, "\n".join(wrong)


# --- it is complete


def words():
    text = PAGE.read_text(encoding="utf-8")
    return set(re.findall(r"[A-Za-z_]+", " ".join(re.findall(r"`([^`]+)`", text))))


def test_each_field_is_there(server):
    described = Client(server).ok("GET", "/openapi.json")["components"]["schemas"]
    execute = described["Execute"]["properties"]
    fields = set(execute["options"]["properties"]) | {"task", "repo", "branch", "auth_token"}
    message = next(schema for schema in described.values() if {"message", "sessionId"} <= set(schema.get("properties", {})))
    fields |= set(message["properties"])
    assert {"components", "sandbox_id", "sessionId", "directory"} < fields
    assert fields - words() == set()


def test_each_flag_is_there():
    source = (TOP / "src" / "cli" / "ask-flags.c").read_text(encoding="utf-8")
    flags = re.findall(r'^    \{"([a-z-]+)", ', source, re.MULTILINE)
    ours = set(flags[flags.index("repo"):])
    assert {"repo", "hook", "apply"} < ours
    said = set(re.findall(r"--([a-z-]+)", PAGE.read_text(encoding="utf-8")))
    assert ours - said == set()


ERROR = r'"((?:AGENT|EXECUTION|OUT_OF|DISK|SANDBOX|RESULT|BAD|API|AUTH|BUDGET|RATE|MAX)_[A-Z_]+|CANCELLED|UNAVAILABLE|FORBIDDEN)"'


def test_each_error_is_there():
    """Those that tasks and OpenCode answer with, and those that the agents' files name."""
    found = set()
    for path in [*(TOP / "src" / "agents").glob("task*.c"), *(TOP / "src" / "agents").glob("opencode*.c")]:
        found |= set(re.findall(ERROR, path.read_text(encoding="utf-8")))
    for path in (TOP / "agents").iterdir():
        found |= set(re.findall(r"code=([A-Z_]+)", path.read_text(encoding="utf-8")))
    found -= {"API_KEY"}
    assert len(found) > 12
    assert found - words() == set()
