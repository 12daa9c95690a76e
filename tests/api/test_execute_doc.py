# SPDX-License-Identifier: Apache-2.0
"""docs/EXECUTE.md, followed from its first line to its last: what it says is typed, what it shows is looked for. The model
is a stand-in (tests/standin), which says what the page shows."""

import json
import os
import re
import shutil

import pytest
from api_helpers import ADMIN, CAY, TOP, Client
from doc_helpers import differences, follow, steps
from standin_helper import StandIn

PAGE = TOP / "docs" / "EXECUTE.md"
TASKS = TOP / "docs" / "AGENTS.md"
NEEDED = ["jq", "curl"]

PRIMES = """\
primes, n = [], 2
while len(primes) < 100:
    if all(n % p for p in primes):
        primes.append(n)
    n += 1
print("The sum of the first 100 primes is", sum(primes))"""

SQUARES = """\
import csv

with open("squares.csv", "w", newline="") as f:
    rows = csv.writer(f, lineterminator="\\n")
    rows.writerow(["n", "square"])
    rows.writerows([n, n * n] for n in range(1, 11))
print("10 squares are in squares.csv")"""

COUNT = """\
import time
for n in range(1, 9):
    print(n, flush=True)
    time.sleep(1)"""

BELOW = "sum(all(n % d for d in range(2, int(n ** 0.5) + 1)) for n in range(2, 10000))"

# What the model says to what is asked on the page, and what that costs.
ANSWERS = {
    "sum of the first 100 primes": f"[[code: {PRIMES}]] [[usage: in=412 out=62]]",
    "median of 3, 1, 2": "[[code: import statistics\nprint(statistics.medain([3, 1, 2]))]]"
    ' [[then: code: print("The median is 2")]]',
    "last line of notes.txt": '[[code: print(open("notes.txt").readlines()[-1])]]',
    "squares of 1 to 10": f"[[code: {SQUARES}]]",
    "what is their sum": '[[code: print("The sum of the squares is", sum(int(r["square"])'
    ' for r in csv.DictReader(open("squares.csv"))))]]',
    "capital of Australia": "[[text: Canberra]] [[usage: in=412 out=5]]",
    "primes are below 10000": f"[[tool: RunCode {json.dumps({'code': BELOW}, separators=(',', ':'))}]]"
    " [[then: text: There are 1229 primes below 10000.]]",
    "Which files are here": '[[tool: Bash {"command":"ls"}]] [[usage: in=412 out=5]]'
    " [[then: [[text: There is one: squares.csv]] [[usage: in=412 out=5]]]]",
    "Count to eight": f"[[code: {COUNT}]]",
    "Say hello": "[[text: Hello!]] [[usage: in=412 out=5]]",
    "first 5 primes": '[[code: print(2, 3, 5, 7, 11, sep="\\n")]] [[usage: in=412 out=18]]',
    "their product": "[[code: print(2 * 3 * 5 * 7 * 11)]]",
}


@pytest.fixture
def server(make_server, tmp_path):
    for program in NEEDED:
        if shutil.which(program) is None:
            pytest.skip(f"the page uses {program}")
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(ANSWERS), encoding="utf-8")
    with StandIn("--answers", str(answers)) as model:
        yield make_server(env=model.env())


@pytest.fixture
def environment(server, tmp_path):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    return {
        **clean,
        "CAY": f"http://127.0.0.1:{server.port}",
        "AUTH": f"Authorization: Bearer {ADMIN}",
        "CAY_PROGRAM": CAY,
        "CAY_DATA": str(server.data),
        "HOME": str(tmp_path),
        "ASAN_OPTIONS": "detect_leaks=0",
    }


def test_most_of_it_is_run():
    found = steps(PAGE)
    assert len(found) >= 30
    assert len([step for step in found if step[1]]) >= 25


def test_followed(environment, tmp_path):
    found = [step for step in steps(PAGE) if not step[0].startswith("export ")]
    wrong = differences(found, follow(found, environment, tmp_path))
    assert not wrong, "\n".join(wrong)


# --- it is complete


def words():
    text = "".join(page.read_text(encoding="utf-8") for page in (PAGE, TASKS))
    return set(re.findall(r"[A-Za-z_]+", " ".join(re.findall(r"`([^`]+)`", text))))


def names(schema):
    """Of its fields, and of those within them."""
    found = set(schema.get("properties", {}))
    return found.union(*(names(inner) for inner in schema.get("properties", {}).values()))


def test_each_field_is_there(server):
    described = Client(server).ok("GET", "/openapi.json")["components"]["schemas"]
    fields = names(described["Execute"]) | names(described["Sdk"])
    assert {"maxTokens", "prompt", "max_turns"} < fields
    assert fields - words() == set()


def test_each_error_is_there():
    """Those that the room of the agents can answer with."""
    found = set()
    for source in (TOP / "src" / "agents").glob("*.c"):
        text = source.read_text(encoding="utf-8")
        found |= set(re.findall(r'"([A-Z]+_[A-Z_]+|CANCELLED|UNAVAILABLE)"', text))
    found -= {name for name in found if name.startswith("OPENCODE_")} | {"API_KEY"}  # variables
    assert len(found) > 15
    assert found - words() == {"INTERNAL_ERROR"}


def test_each_tool_is_there():
    source = (TOP / "src" / "agents" / "talk-tools.c").read_text(encoding="utf-8")
    names = re.search(r'return "(Bash, [^"]*)"', source)[1].split(", ")
    assert len(names) == 8
    assert set(names) - words() == set()
