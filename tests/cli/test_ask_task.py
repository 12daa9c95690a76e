# SPDX-License-Identifier: Apache-2.0
"""`cay ask --repo`: what is asked for, with which components, and what is made of the events of a task. What an agent really
does is tested with the agents (tests/agents)."""

import json
import os
import re
import signal
import subprocess
import threading

import pytest
from ask_helpers import Questions, Terminal, chunk, encode, stream
from cli_helpers import PATIENCE, refused
from standin import answer, chunked

REPO = "https://example.org/you/thing.git"
DIFF = "diff --git a/a.txt b/a.txt\nindex 7898192..6178079 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n"
FILES = [
    {"path": "a.txt", "status": "modified", "added": 1, "removed": 1},
    {"path": "new/n.png", "status": "added", "added": None, "removed": None},
    {"path": "x\x1b[2J", "status": "deleted", "added": 0, "removed": 7},
    {"path": "to", "old": "from", "status": "renamed", "added": 0, "removed": 0},
]


def result(**more):
    """The answer, as the event "done" has it."""
    metadata = {
        "execution_time_ms": 12300, "clone_ms": 400, "agent_ms": 11800, "sandbox_id": "sb-1", "repo": REPO, "num_turns": 3,
        "total_cost_usd": 0.0042, "usage": {"input_tokens": 812, "output_tokens": 203}, "kept": False,
    }  # fmt: skip
    return {
        "success": True, "request_id": "r-1", "logs": "I look.\nDone.\n", "result": "Done.", "error": None, "error_code": None,
        "diff": DIFF, "diff_truncated": False, "files": FILES[:1], "warnings": [],
        **more, "metadata": {**metadata, **more.get("metadata", {})},
    }  # fmt: skip


START = ("start", {"request_id": "r-1", "task": "t"})
SANDBOX = ("sandbox", {"sandboxId": "sb-1"})
CLONED = ("cloned", {"repo": REPO, "branch": "main", "commit": "0123456789abcdef0123", "duration": 400})
MESSAGE = ("message", {"type": "assistant", "message": {"content": []}})
LOGS = [("log", {"text": "I look.\n"}), ("log", {"text": "Done.\n"})]
USUAL = [START, SANDBOX, CLONED, MESSAGE, *LOGS, ("done", result())]


@pytest.fixture
def tasks():
    server = Questions()
    server.play_events(*USUAL)
    yield server
    server.close()


def text(done):
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def write(tasks, path, content):
    path = os.path.join(tasks.work, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(content)


def saved(tasks):
    """What was saved in directories of ours: name -> text."""
    found = {}
    for name in os.listdir(tasks.work):
        if re.fullmatch(r"cay-\d{8}-\d{6}(-\d+)?", name):
            for file in os.listdir(os.path.join(tasks.work, name)):
                with open(os.path.join(tasks.work, name, file), encoding="utf-8") as f:
                    found[file] = f.read()
    return found


# -- what is asked, what is shown


def test_a_task(tasks):
    code, out, err = text(tasks.ask("--repo", REPO, "change", "it"))
    assert (code, out) == (0, "Done.\n")
    assert tasks.asked() == ["POST /execute"]
    assert tasks.body() == {"task": "change it", "repo": REPO, "options": {}}
    assert tasks.asked_for[0].headers["accept"] == "text/event-stream"
    lines = err.splitlines()
    assert lines[0].startswith(f"claude works on {REPO}; server ")
    assert lines[1:5] == ["-- cloned, branch main at 0123456789ab, 0.40s", "| I look.", "| Done.", "   a.txt | +1 -1"]
    place = re.fullmatch(r"cay: saved (cay-[-\d]+/changes\.diff)", lines[5])[1]
    assert lines[6] == f"cay: to have it here: git apply {place}"
    assert lines[7:] == ["-- 12.3s: clone 0.40s, agent 11.8s, 3 turns, 812 + 203 tokens, $0.0042"]
    assert saved(tasks) == {"changes.diff": DIFF}


def test_all_that_can_be_said(tasks):
    flags = [
        "--repo", REPO, "--branch", "b", "--secret", "s", "--with", "opencode", "-m", "opus", "-s", "sb 1", "-t", "10m", "--max-turns", "7",
        "--permission-mode", "plan", "--keep", "--allow", "a.org", "--allow", "*.b.org:443", "--no-files",
    ]  # fmt: skip
    assert tasks.ask(*flags, "t").returncode == 0
    assert tasks.body() == {
        "task": "t", "repo": REPO, "branch": "b",
        "options": {
            "agent": "opencode", "model": "opus", "sandbox_id": "sb 1", "secret": "s", "permission_mode": "plan", "max_turns": 7,
            "network": {"allow": ["a.org", "*.b.org:443"]}, "timeout": 600000, "keep": True, "include_diff": False,
        },
    }  # fmt: skip
    assert saved(tasks) == {}


def test_without_a_repository(tasks):
    tasks.play_events(START, SANDBOX, *LOGS, ("done", result(metadata={"clone_ms": 0, "repo": None, "kept": True})))
    code, out, err = text(tasks.ask("--task", "--internet", "t"))
    assert (code, out) == (0, "Done.\n")
    assert tasks.body() == {"task": "t", "options": {"network": "internet"}}
    assert err.splitlines()[0].startswith("claude works; server") and "-- 12.3s: agent 11.8s" in err
    assert "kept: cay shell sb-1" in err
    assert tasks.ask("--task", "-c", "more").returncode == 0  # it is the last one of this directory
    assert tasks.body(1)["options"]["sandbox_id"] == "sb-1"


def test_a_long_task_from_standard_input(tasks):
    assert tasks.ask("--task", "-", input=b"x" * (1024 * 1024)).returncode == 0
    assert len(tasks.body()["task"]) == 1024 * 1024
    refused(tasks.ask("--task", "-", input=b"x" * (1024 * 1024 + 1)), 125, "1024 KiB")
    refused(tasks.ask("--task", "-", input=b" \n"), 125, "the task is empty")


def test_quiet(tasks):
    code, out, err = text(tasks.ask("-q", "--repo", REPO, "t"))
    assert (code, out) == (0, "Done.\n") and re.fullmatch(r"cay: saved \S+/changes.diff\n", err)


def test_json(tasks):
    code, out, err = text(tasks.ask("--json", "--repo", REPO, "t"))
    assert (code, err) == (0, "") and json.loads(out) == result()
    assert saved(tasks) == {}
    assert tasks.ask("--json", "--repo", REPO, "-o", "here", "t").returncode == 0
    assert os.listdir(os.path.join(tasks.work, "here")) == ["changes.diff"]


def test_nothing_is_overwritten(tasks):
    write(tasks, "here/changes.diff", "mine")
    code, out, err = text(tasks.ask("--repo", REPO, "-o", "here", "t"))
    assert (code, out) == (125, "Done.\n") and "here/changes.diff" in err
    with open(os.path.join(tasks.work, "here/changes.diff"), encoding="utf-8") as f:
        assert f.read() == "mine"


def test_all_kinds_of_changes(tasks):
    tasks.play_events(START, ("done", result(files=FILES, warnings=["2 processes \x1b[2J were ended"], diff_truncated=True)))
    _, _, err = text(tasks.ask("--repo", REPO, "t"))
    lines = ["   a.txt | +1 -1", "   new/n.png | new binary", "   x\\x1b[2J | gone -7", "   to | was from"]
    assert "\n".join(lines) in err and "\x1b" not in err
    assert "cay: 2 processes \\x1b[2J were ended" in err and "the end is missing" in err and "git apply" not in err


def test_many_files(tasks):
    files = [{**FILES[0], "path": f"f{n}"} for n in range(60)]
    tasks.play_events(START, ("done", result(files=files)))
    err = text(tasks.ask("--repo", REPO, "t"))[2]
    assert "f49 |" in err and "f50 |" not in err and "and 10 more" in err


def test_no_change(tasks):
    tasks.play_events(START, ("done", result(files=[], diff="")))
    code, _, err = text(tasks.ask("--repo", REPO, "t"))
    assert code == 0 and "nothing has changed" in err and "saved" not in err and saved(tasks) == {}


def test_what_it_says_moves_no_cursor(tasks):
    tasks.play_events(START, ("log", {"text": "\x1b]0;mine\x07\u202e\n"}), ("done", result()))
    code, _, err = text(tasks.ask("--repo", REPO, "t"))
    assert code == 0 and "\x1b" not in err and "\u202e" not in err


@pytest.mark.parametrize(
    "error_code, expected",
    [
        ("AGENT_FAILED", 1), ("MAX_TURNS", 1), ("BUDGET_EXCEEDED", 1), ("EXECUTION_TIMEOUT", 124), ("CANCELLED", 130),
        ("SANDBOX_LOST", 125), ("GIT_REPO_NOT_FOUND", 125), ("API_ERROR", 125),
    ],
)  # fmt: skip
def test_no_success(tasks, error_code, expected):
    more = result(success=False, result=None, error="it \x1b[2J says why", error_code=error_code)
    tasks.play_events(START, ("done", more))
    code, out, err = text(tasks.ask("--repo", REPO, "--apply", "t"))
    assert (code, out) == (expected, "")
    assert "cay: cancelled" in err if error_code == "CANCELLED" else "cay: it \\x1b[2J says why" in err
    assert saved(tasks) == {"changes.diff": DIFF}  # what there is, and it is not applied


def test_errors_of_the_server(tasks):
    body = {"error": "the server has no agent 'x'", "error_code": "INVALID_REQUEST", "request_id": "r-1"}
    tasks.execute = lambda request, number: [answer(json.dumps(body).encode(), "400 Bad Request")]
    refused(tasks.ask("--task", "--with", "x", "t"), 125, "no agent 'x'")


@pytest.mark.parametrize(
    "args, words",
    [
        (["--branch", "b", "q"], ["--branch", "--repo"]),
        (["--keep", "q"], ["--keep", "--task"]),
        (["--task", "--branch", "b", "q"], ["--branch", "which"]),
        (["--repo", REPO, "-l", "python", "q"], ["--language", "question"]),
        (["--repo", REPO, "--retries", "1", "q"], ["--retries", "question"]),
        (["--repo", "", "q"], ["--repo"]),
        (["--task", "--agent", " , ", "q"], ["--agent", "empty"]),
        (["--task", "--max-turns", "0", "q"], ["--max-turns"]),
        (["--task", "--internet", "--allow", "x", "q"], ["--allow"]),
        (["--repo", REPO, "--no-files", "--apply", "q"], ["--apply"]),
    ],
)
def test_usage(tasks, args, words):
    refused(tasks.ask(*args), 2, *words)
    assert tasks.asked() == []


def test_help_teaches(tasks):
    done = tasks.ask("--help")
    for word in ("cay ask --repo https://", "--agent", ".claude-components", "git apply", "~/.config/cay/components"):
        assert word in done.stdout.decode()


# -- components


def components(tasks, *flags, **env):
    tasks.asked_for.clear()
    done = tasks.ask("--task", *flags, "t", env=env)
    assert done.returncode == 0, done.stderr
    return tasks.body()["options"]["components"]


def test_files(tasks):
    write(tasks, "rev.md", "# r")
    write(tasks, "sub/check.md", "check")
    write(tasks, "db.json", '{"mcpServers": {}}')
    assert components(tasks, "--agent", "rev.md", "--command", "sub/check.md", "--mcp", "./db.json") == {
        "agents": [{"name": "rev", "content": "# r"}],
        "commands": [{"name": "check", "content": "check"}],
        "mcps": [{"name": "db", "content": '{"mcpServers": {}}'}],
    }


def test_names(tasks):
    """In the folder of the directory, then in the user's, then on the server."""
    write(tasks, ".claude-components/agents/team/a.md", "here")
    write(tasks, ".config/cay/components/agents/team/a.md", "not this")
    write(tasks, ".config/cay/components/agents/b.md", "the user's")
    write(tasks, "elsewhere/cay/components/agents/b.md", "elsewhere")
    agents = components(tasks, "--agent", "team/a, b", "--agent", "c/d", XDG_CONFIG_HOME="")["agents"]
    assert agents == [{"name": "a", "content": "here"}, {"name": "b", "content": "the user's"}, "c/d"]
    agents = components(tasks, "--agent", "b", XDG_CONFIG_HOME=os.path.join(tasks.work, "elsewhere"))["agents"]
    assert agents == [{"name": "b", "content": "elsewhere"}]


def test_a_directory_is_no_file(tasks):
    os.mkdir(os.path.join(tasks.work, "rev"))
    assert components(tasks, "--agent", "rev") == {"agents": ["rev"]}


def test_scripts_come_with_them(tasks):
    write(tasks, ".claude-components/hooks/h.json", '{"hooks": {}}')
    write(tasks, ".claude-components/hooks/h.py", "print()")
    write(tasks, ".claude-components/hooks/other.sh", "no")
    write(tasks, "s.json", '{"statusLine": {"command": "python3 .claude/scripts/bar.py"}}')
    write(tasks, "bar.py", "bar")
    found = components(tasks, "--hook", "h", "--setting", "s.json")
    assert found["hooks"] == [{"name": "h", "content": '{"hooks": {}}', "files": {".claude/hooks/h.py": "print()"}}]
    assert found["settings"][0]["files"] == {".claude/scripts/bar.py": "bar"}


@pytest.mark.parametrize("word", ["./none.md", "none.md", "/none", "../none", "~/none"])
def test_a_file_that_is_not_there(tasks, word):
    refused(tasks.ask("--task", "--agent", word, "t"), 125, word)
    assert tasks.asked() == []


def test_files_that_are_no_components(tasks):
    write(tasks, "big.md", "x" * (1024 * 1024 + 1))
    refused(tasks.ask("--task", "--agent", "big.md", "t"), 125, "1 MiB")
    with open(os.path.join(tasks.work, "bytes.md"), "wb") as f:
        f.write(b"\xff\xfe")
    refused(tasks.ask("--task", "--agent", "bytes.md", "t"), 125, "UTF-8")
    assert tasks.asked() == []


# -- the change, applied


def git(where, *args):
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    return subprocess.run(["git", *args], cwd=where, env=env, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tasks):
    git(tasks.work, "init", "-q")
    write(tasks, "a.txt", "a\n")
    return tasks.work


def read(tasks, name):
    with open(os.path.join(tasks.work, name), encoding="utf-8") as f:
        return f.read()


def test_apply(tasks, repository):
    code, out, _ = text(tasks.ask("--repo", REPO, "--apply", "t"))
    assert (code, out) == (0, "Done.\n") and read(tasks, "a.txt") == "b\n"
    assert not [name for name in os.listdir(tasks.work) if name.startswith("cay-")]
    code, _, err = text(tasks.ask("--repo", REPO, "--apply", "t"))  # again: it does not fit any more
    assert code == 125 and "not applied" in err and read(tasks, "a.txt") == "b\n"


def test_apply_elsewhere(tasks):
    code, _, err = text(tasks.ask("--repo", REPO, "--apply", "t"))
    assert code == 125 and "not applied" in err and saved(tasks) == {"changes.diff": DIFF}


@pytest.mark.parametrize("path", ["../out.txt", ".git/hooks/post-checkout", "/tmp/cay-out.txt"])
def test_a_diff_that_wants_out(tasks, repository, path):
    diff = f"diff --git a/{path} b/{path}\nnew file mode 100755\nindex 0000000..6178079\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+b\n"
    tasks.play_events(START, ("done", result(diff=diff)))
    code, _, err = text(tasks.ask("--repo", REPO, "--apply", "t"))
    assert code == 125 and "not applied" in err
    for place in ("../out.txt", ".git/hooks/post-checkout", "/tmp/cay-out.txt"):
        assert not os.path.exists(os.path.join(tasks.work, place))


# -- on its way


def test_a_stream_that_breaks(tasks):
    whole = stream(USUAL)
    for cut in range(100, len(whole), 301):
        tasks.execute = lambda request, number, cut=cut: [stream(USUAL, request)[:cut] if number == 0 else stream(USUAL, request)]
        tasks.asked_for.clear()
        code, out, _ = text(tasks.ask("-q", "--no-files", "--repo", REPO, "t"))
        assert (code, out) == (0, "Done.\n"), cut


def test_a_stream_that_is_gone(tasks):
    def play(request, number):
        if request.method == "POST":
            return [stream(USUAL[:3], end=False)]
        if request.headers["accept"] == "text/event-stream":
            return [answer(b'{"error": "gone", "error_code": "NOT_FOUND"}', "404 Not Found")]
        return [answer(json.dumps(result()).encode())]

    tasks.execute = play
    code, out, err = text(tasks.ask("--repo", REPO, "t"))
    assert (code, out) == (0, "Done.\n") and "| I look.\n| Done.\n" in err and saved(tasks) == {"changes.diff": DIFF}


def test_interrupt(tasks):
    go = threading.Event()
    over = ("done", result(success=False, result=None, error="it was cancelled", error_code="CANCELLED", diff="", files=[]))

    def play(request, number):
        if request.method == "DELETE":
            go.set()
            yield answer(b'{"success": true}')
            return
        yield chunked(*encode([START, LOGS[0]]), end=False)
        assert go.wait(PATIENCE)
        yield chunk(encode([START, LOGS[0], over])[-1]) + b"0\r\n\r\n"

    tasks.execute = play
    with tasks.cli.start("ask", "--task", "t", cwd=tasks.work) as process:
        assert b"claude works" in process.stderr.readline() and process.stderr.readline() == b"| I look.\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert b"cay: cancelled" in process.stderr.read()
    assert tasks.asked()[:2] == ["POST /execute", "DELETE /execute/r-1"]


def test_on_a_terminal(tasks):
    """The last words stand there already, so they are not said twice."""
    with Terminal(tasks, "--repo", REPO, "t") as t:
        code, seen = t.end()
    seen = re.sub(r"\x1b\[\d*[mK]|\r", "", seen)
    assert code == 0 and seen.count("Done.") == 1 and "a.txt | +1 -1" in seen
