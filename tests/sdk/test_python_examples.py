# SPDX-License-Identifier: Apache-2.0
"""The README's lines and every example of the Python SDK, run as they stand, and what they print."""

import os
import re
import shutil
import subprocess

import pytest
from api_helpers import CAY
from python_helpers import SDK, TOP

EXAMPLES = TOP / "examples" / "python"
PYTHON = "/usr/bin/python3"


def run_in(folder, env, program, *args, code=0, **more):
    environment = {**env, "PYTHONDONTWRITEBYTECODE": "1", **more}
    command = [PYTHON, program, *args]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done
    return done


@pytest.fixture
def run(env, tmp_path):
    """Runs a program with the library beside it."""
    os.symlink(SDK / "cay", tmp_path / "cay")

    def run(program):
        shutil.copy(program, tmp_path / program.name)
        return run_in(tmp_path, env, program.name)

    return run


@pytest.fixture
def template(env, tmp_path):
    """Runs a template as `cay init` makes it: with nothing but what is there then."""

    def run(name, *args, **more):
        folder = tmp_path / name
        if not folder.exists():
            init(name, folder)
        return run_in(folder, env, "main.py", *args, **more)

    return run


def init(*words):
    return subprocess.run([CAY, "init", *words, "--language", "python"], check=True, capture_output=True, text=True).stdout


# -- the README


def blocks():
    return re.findall(r"```python\n(.*?)```", (SDK / "README.md").read_text(), re.DOTALL)


def test_the_first_five_lines(run, tmp_path):
    text = (SDK / "README.md").read_text()
    lines = re.search(r"^# .*\n\n((?:    .*\n|\n)+)", text)[1].splitlines()
    lines = [line[4:] for line in lines]
    assert len([line for line in lines if line]) <= 5
    (tmp_path / "lines").mkdir()
    program = tmp_path / "lines" / "readme.py"
    program.write_text("\n".join(lines))
    assert run(program).stdout == "42\n\n"


def test_the_rest_of_the_readme(run, tmp_path):
    """One program, from top to bottom."""
    (tmp_path / "blocks").mkdir()
    program = tmp_path / "blocks" / "blocks.py"
    makefile = 'box.write_file("Makefile", "all test:\\n\\t@echo made $@\\n")\nbox.write_file("script.py", "")\n'
    first, *rest = blocks()
    program.write_text("import cay\n" + first + makefile + "\n".join(rest) + "\nbox.destroy()\n")
    said = run(program).stdout
    for line in ("True 0 made test", "1\n2\n3\n", "/tmp\ndev", "200", "'computing\\n'] 42 None", "7\n[2, 4]", "['0\\n', '1\\n', '2\\n']"):
        assert line in said, said
    assert re.search(r"there is no '/workspace/nosuch'.* 404 NOT_FOUND \S+ False", said)


# -- templates


def test_basic_executor(template):
    assert template("basic-executor").stdout == "hello from Linux\n42\nit worked\n"
    failed = template("basic-executor", "echo oops >&2; exit 3", code=3)
    assert failed.stdout == "it failed: exit code 3 (exit)\n" and failed.stderr == "oops\n"


def test_chat_agent(template):
    said = template("chat-agent").stdout
    assert said.endswith("> pwd; cat $TOPIC\n/workspace/notes\nsmall and sandy\n")
    again = template("chat-agent", "pwd; cat $TOPIC", "exit 3", "pwd; false").stdout  # goes on where it was
    assert again == (
        "> pwd; cat $TOPIC\n/workspace/notes\nsmall and sandy\n> exit 3\n(the shell ended with 3)\n"
        "> pwd; false\n/workspace\n(exit code 1)\n"  # a new shell
    )
    assert template("chat-agent", "ls", CONVERSATION="bob").stdout == "> ls\n"
    template("chat-agent", "--end")
    template("chat-agent", "--end", CONVERSATION="bob")
    assert template("chat-agent", "pwd").stdout == "> pwd\n/workspace\n"
    template("chat-agent", "--end")


def test_ci_cd(template, env):
    own = {**env, "REPO_URL": ""}
    passed = template("ci-cd", **own)
    assert passed.stdout.endswith("== python3 -m unittest -v\n== passed\n") and "test_add" in passed.stderr
    assert template("ci-cd", "echo one", "exit 4", "echo never", code=4, **own).stdout == (
        "== echo one\none\n== exit 4\n== failed: exit code 4 (exit)\n"
    )
    cloned = template("ci-cd", "sh test.sh", "cat README.md")
    assert env["REPO_URL"] in cloned.stdout and cloned.stdout.endswith("hello\n== passed\n")


def test_workspace(template):
    assert "/workspace/README.txt" in template("workspace", "grace").stdout
    assert "/workspace/visits" in template("workspace", "grace", "echo 1 >> visits").stdout
    undone = template("workspace", "grace", "rm README.txt; false").stdout
    assert "that failed with 1: all is as it was" in undone and "/workspace/README.txt" in undone
    assert "/workspace/visits" in template("workspace", "grace").stdout
    assert template("workspace", "grace", "--reset").stdout == "the workspace of grace is empty\n"
    assert "visits" not in template("workspace", "grace").stdout


def test_git_operations(template):
    said = template("git-operations").stdout
    assert re.match(r"cloned main at [0-9a-f]{10}\nfiles: README.md, test.sh\nuntracked: NOTES.md\ndiff --git ", said)
    assert "+Written in a sandbox." in said
    assert re.search(r"committed [0-9a-f]{10}; 1 ahead of main\nAda: Add notes\n$", said)


@pytest.mark.parametrize("name", ["ci-cd", "claude-code", "git-operations"])
def test_credentials_in_an_address(env, tmp_path, name):
    """They are refused, with a reason, and get into no settings of a sandbox before."""
    os.symlink(SDK / "cay", tmp_path / "cay")
    shutil.copy(EXAMPLES / name / "main.py", tmp_path)
    address = env["REPO_URL"].replace("://", "://ada:hush@")
    said = run_in(tmp_path, {**env, "REPO_URL": address, "AGENT": "true"}, "main.py", code=1).stderr
    assert "credentials do not belong into it" in said and "hush" not in said


def test_multi_step_workflow(template):
    assert template("multi-step-workflow").stdout == (
        "hello, islander\nin an environment of its own: True\nstill in /workspace/project\n"
    )


def test_code_interpreter(template, model):
    assert "printed: computing\nresult: 6  (text)\n" in template("code-interpreter").stdout
    asked = template("code-interpreter", "Python primes [[code: print('hi')\n[2, 3, 5]]] [[prose]]", **model.env())
    assert "printed: hi\nresult: [2, 3, 5]  (text, json)\n" in asked.stdout
    (sent,) = model.messages("Python primes")
    assert "Only code" in sent["system"]


def test_code_that_the_model_mends(template, model):
    question = "mend this [[code: 1 / 0]] [[then: code: 41 + 1]]"
    said = template("code-interpreter", question, **model.env()).stdout
    assert "error in line 1: ZeroDivisionError: division by zero\n" in said and said.endswith("result: 42  (text)\n")
    assert "ZeroDivisionError" in model.messages("mend this")[-1]["messages"][-1]["content"]


AGENT = """python3 -c 'import sys; open("FEATURE.md", "w").write(sys.argv[1] + "\\n"); print("working on it")'"""


def test_claude_code(template):
    done = template("claude-code", "add", "it's new", AGENT=AGENT)
    assert "+add it's new" in done.stdout and done.stdout.startswith("diff --git a/FEATURE.md")
    assert done.stderr == "working on it\nadded: FEATURE.md\n"
    failed = template("claude-code", AGENT="sh -c 'exit 7'", code=1)
    assert failed.stderr == "the agent failed: exit code 7 (exit)\n"


# -- the eight mistakes

MISTAKES = {
    "1-persistence": [
        "wrong: there is no '/workspace/data.txt' in the sandbox",
        "right: content",
        "right, in another sandbox: content",
    ],
    "2-cold-start": [
        "wrong: 1 bash: line 1: cd: /workspace/project: No such file or directory",
        "right: setting up",
        "right: built",
        "right: built",
    ],
    "3-exit-codes": [
        "wrong: the answer is ''",
        "right: exit code 1: FileNotFoundError: [Errno 2] No such file or directory: 'nosuch.json'",
        "right: 'python3 script.py' failed (exit code 1): Traceback (most recent call last): 1",
    ],
    "4-sessions": [
        "wrong: ['/workspace', 'stage: ', '']",
        "right: ['/tmp', 'stage: dev', '']",
        "right: ['/tmp', 'stage: dev', '']",
    ],
    "5-cleaning-up": [
        "wrong: left behind: 1",
        "right: destroyed after 3600 seconds without use, or now",
        "right: left behind: 0",
    ],
    "6-timeouts": [
        "wrong: still waiting: True",
        "right: timeout 124",
        "right: step 2",
        "right: ended with 0 step 3",
    ],
    "7-strangers-words": [
        "wrong: broken in: True",
        "right: Hello Ada; touch /workspace/broken-in",
        "right: Hello Ada; touch /workspace/broken-in",
        "right: Hello Ada; touch /workspace/broken-in",
        "right: broken in: False",
        "right: what it could reach outside: None",
    ],
    "8-places": [
        "wrong: the notes are there: False",
        "right: the notes are there: True",
        "right: moved: written anywhere",
    ],
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(run, name):
    assert run(EXAMPLES / "errors" / f"{name}.py").stdout.splitlines() == MISTAKES[name]


def test_every_example_is_run_here():
    assert {path.stem for path in (EXAMPLES / "errors").glob("*.py")} == set(MISTAKES)
    text = open(__file__, encoding="utf-8").read()
    for path in EXAMPLES.glob("*/main.py"):
        assert f'template("{path.parent.name}"' in text


# -- cay init


def test_init_has_all_of_it(tmp_path):
    """Each template, and each file of the library."""
    listed = re.findall(r"^  ([\w-]+) .*\(.*python\)$", init(), re.MULTILINE)
    listed.remove("errors")  # eight programs: test_init.py
    assert sorted(listed) == sorted(path.parent.name for path in EXAMPLES.glob("*/main.py"))
    for name in listed:
        folder = tmp_path / name
        assert "python3 main.py" in init(name, folder)
        assert sorted(path.name for path in folder.iterdir()) == ["README.md", "cay", "main.py"]
        assert (folder / "main.py").read_bytes() == (EXAMPLES / name / "main.py").read_bytes()
    library = {path.name: path.read_bytes() for path in (SDK / "cay").iterdir() if path.is_file()}
    assert {path.name: path.read_bytes() for path in (folder / "cay").iterdir()} == library
