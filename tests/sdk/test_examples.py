# SPDX-License-Identifier: Apache-2.0
"""The README's lines and every example of the TypeScript client, as `cay init` leaves them, and what they print."""

import json
import re
import shutil
import subprocess

import pytest
from api_helpers import CAY, TOP
from typescript_helpers import SDK, check_types, link_library, link_types, run_node, strip

EXAMPLES = TOP / "examples" / "typescript"
TEMPLATES = sorted(path.parent.name for path in EXAMPLES.glob("*/main.ts"))


@pytest.fixture(scope="module")
def made(top, node):
    """made(TEMPLATE): the directory that `cay init` makes of it."""
    folder = top / "made"
    folder.mkdir()

    def make(template):
        if not (folder / template).exists():
            subprocess.run([CAY, "init", template], cwd=folder, check=True, capture_output=True)
        return folder / template

    return make


@pytest.fixture
def run(env, made):
    def run(template, *args, program="main", code=0, **more):
        done = run_node({**env, **more}, f"{program}.js", *args, cwd=made(template))
        assert done.returncode == code, done
        return done

    return run


def test_basic_executor(run):
    assert run("basic-executor").stdout == "hello from Linux\n42\nit worked\n"
    failed = run("basic-executor", "echo oops >&2; exit 3", code=3)
    assert failed.stdout == "it failed: exit code 3 (exit)\n" and failed.stderr == "oops\n"


def test_chat_agent(run):
    name = {"CONVERSATION": "typescript"}
    assert run("chat-agent", **name).stdout.endswith("> pwd; cat $TOPIC\n/workspace/notes\nsmall and sandy\n")
    again = run("chat-agent", "pwd; cat $TOPIC", "exit 3", "pwd; false", **name).stdout  # goes on where it was
    assert again == (
        "> pwd; cat $TOPIC\n/workspace/notes\nsmall and sandy\n> exit 3\n(the shell ended with 3)\n"
        "> pwd; false\n/workspace\n(exit code 1)\n"  # a new shell
    )
    run("chat-agent", "--end", **name)
    assert run("chat-agent", "ls", **name).stdout == "> ls\n"
    run("chat-agent", "--end", **name)


def test_ci_cd(run, env):
    own = {"REPO_URL": ""}
    passed = run("ci-cd", **own)
    assert passed.stdout.endswith("== python3 -m unittest -v\n== passed\n") and "test_add" in passed.stderr
    assert run("ci-cd", "echo one", "exit 4", "echo never", code=4, **own).stdout == (
        "== echo one\none\n== exit 4\n== failed: exit code 4 (exit)\n"
    )
    cloned = run("ci-cd", "sh test.sh", "cat README.md")
    assert env["REPO_URL"] in cloned.stdout and cloned.stdout.endswith("hello\n== passed\n")


def test_workspace(run):
    assert "/workspace/README.txt" in run("workspace", "joan").stdout
    assert "/workspace/visits" in run("workspace", "joan", "echo 1 >> visits").stdout
    undone = run("workspace", "joan", "rm README.txt; false").stdout
    assert "that failed with 1: all is as it was" in undone and "/workspace/README.txt" in undone
    assert run("workspace", "joan", "--reset").stdout == "the workspace of joan is empty\n"
    assert "visits" not in run("workspace", "joan").stdout


def test_git_operations(run):
    said = run("git-operations").stdout
    assert re.match(r"cloned main at [0-9a-f]{10}\nfiles: README.md, test.sh\nuntracked: NOTES.md\ndiff --git ", said)
    assert "+Written in a sandbox." in said
    assert re.search(r"committed [0-9a-f]{10}; 1 ahead of main\nAda: Add notes\n$", said)


def test_multi_step_workflow(run):
    said = run("multi-step-workflow").stdout
    assert said == "hello, islander\nin an environment of its own: True\nstill in /workspace/project\n"


def test_code_interpreter(run, model):
    question = "TypeScript primes [[code: print('hi')\n[2, 3, 5]]] [[prose]]"
    said = run("code-interpreter", question).stdout
    assert said.endswith("--\nprinted: hi\nresult: [2, 3, 5]  (text, json)\n")
    (sent,) = model.messages("TypeScript primes")
    assert "Only code" in json.dumps(sent["system"])


def test_code_that_the_model_mends(run, model):
    code = "n = globals().get('n', -1) + 1\n1 / n"  # which fails the first time
    said = run("code-interpreter", f"TypeScript mend [[code: {code}]]").stdout
    assert "error in line 2: ZeroDivisionError" in said and said.endswith("result: 1.0  (text)\n")
    assert "This failed:" in json.dumps(model.messages("TypeScript mend")[-1]["messages"])


AGENT = """python3 -c 'import sys; open("FEATURE.md", "w").write(sys.argv[1] + "\\n"); print("working on it")'"""


def test_claude_code(run):
    """With another agent; tests/agents has the real one."""
    done = run("claude-code", "add", "it's new", AGENT=AGENT)
    assert "+add it's new" in done.stdout and done.stdout.startswith("diff --git a/FEATURE.md")
    assert done.stderr == "working on it\nadded: FEATURE.md\n"
    assert "the agent failed: exit code 7 (exit)" in run("claude-code", AGENT="sh -c 'exit 7'", code=1).stderr


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
        'wrong: the answer is ""',
        "right: exit code 1: FileNotFoundError: [Errno 2] No such file or directory: 'nosuch.json'",
    ],
    "4-sessions": ["wrong: /workspace []", "right: /tmp [dev]", "right: /tmp [dev]"],
    "5-cleaning-up": [
        "wrong: left behind: 1",
        "right: destroyed after 3600 seconds without use, or now",
        "right: left behind: 0",
    ],
    "6-timeouts": ["wrong: still waiting", "right: timeout 124", "right: step 2", "right: ended with 0: step 3"],
    "7-strangers-words": [
        "wrong: broken in: true",
        "right: Hello Ada; touch /workspace/broken-in",
        "right: Hello Ada; touch /workspace/broken-in",
        "right: Hello Ada; touch /workspace/broken-in",
        "right: broken in: false",
        "right: reached something outside: false",
    ],
    "8-places": [
        "wrong: the notes are there: false",
        "right: the notes are there: true",
        "right: moved: written anywhere",
    ],
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(run, name):
    assert run("errors", program=name).stdout.splitlines() == MISTAKES[name]


def test_every_example_is_run_here():
    assert {path.stem for path in (EXAMPLES / "errors").glob("*.ts")} == set(MISTAKES)
    text = open(__file__, encoding="utf-8").read()
    for name in TEMPLATES:
        assert f'run("{name}"' in text


def test_types_of_the_examples(made, compiler, top):
    """As whoever runs `npm run build` has them checked: all at once, in one template's project."""
    project = top / "all"
    shutil.copytree(made("basic-executor"), project, symlinks=True)
    (project / "main.ts").unlink()
    for path in EXAMPLES.glob("*/*.ts"):
        shutil.copy(path, project / f"{path.parent.name}-{path.name}")
    link_types(project, compiler)
    assert check_types(compiler, project) == ""


# -- the README


def readme_lines():
    """The block that it starts with, and those that go on with it."""
    text = (SDK / "README.md").read_text()
    first = re.search(r"^# .*\n\n((?:    .*\n)+)", text)[1]
    blocks = re.findall(r"```ts\n(.*?)```", text, re.S)
    return re.sub(r"^    ", "", first, flags=re.M), blocks


def run_program(env, folder, library, text):
    link_library(folder, library)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "readme.ts").write_text(text)
    strip(folder, [folder / "readme.ts"])
    done = run_node(env, "--experimental-websocket", "readme.js", cwd=folder)
    assert done.returncode == 0, done
    return done.stdout


def test_the_first_five_lines(env, library, tmp_path):
    first, _ = readme_lines()
    assert len(first.splitlines()) == 5
    assert run_program(env, tmp_path, library, first) == "42\n\n"


README_SAYS = [
    "false 3 exit made in dev\nstdout 1",
    "ended with 0\nno $SHELL, no quoting\nAda in /tmp\n/tmp\nsunny\n\n6 [ 'today.txt' ] false\n",
    "/workspace/new.txt\n200\ntrue\n143 killed\n",
    "[ 'computing\\n' ] [ 1, 2, 3 ] [ 'text', 'json' ]\nIndexError 1\none two\ntrue 0\n",
    "there is no '/workspace/nowhere' in the sandbox 404 NOT_FOUND false\n",
]


def test_the_rest_of_the_readme(env, library, tmp_path, compiler):
    """One program, from top to bottom; and its types."""
    _, blocks = readme_lines()
    said = run_program(env, tmp_path, library, "\n".join(blocks))
    for words in README_SAYS:
        assert words in said, (words, said)
    options = {"target": "ES2022", "module": "NodeNext", "strict": True, "types": ["node"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "include": ["*.ts"]}))
    link_types(tmp_path, compiler)
    assert check_types(compiler, tmp_path) == ""


