# SPDX-License-Identifier: Apache-2.0
"""Components of a task: agents, commands, settings, MCP servers and hooks, of the request or of the server's folder, put where
the real Claude Code finds them, and merged as the real installer (npm's claude-code-templates) merges them."""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile

import pytest
from agents_helpers import RELEASE, TOP, end, serve
from git_server import GitServer
from task_helpers import OK, Tasks, write_agents

sys.path.insert(0, str(TOP / "tests" / "launcher"))

import clients  # noqa: E402

INSTALLER = "node_modules/claude-code-templates/cli-tool/bin/create-claude-config.js"

# A server of one tool, over standard input and output.
MCP = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}},
        "tools/list": {"tools": [{"name": "word", "description": "says it", "inputSchema": {"type": "object", "properties": {}}}]},
        "tools/call": {"content": [{"type": "text", "text": "xyzzy-" + sys.argv[1]}]},
    }
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
"""


def mcp(name, word):
    return {"mcpServers": {name: {"command": "python3", "args": ["-c", MCP, word], "description": "for people"}}}


def hook(event, command, matcher="*"):
    return {"hooks": {event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]}}


def item(content, name="one", **more):
    return [{"name": name, "content": content, **more}]


def tool(name, **given):
    return f"[[tool: {name} {json.dumps(given)}]]"


# --- the server, its folder, and a repository with something in it already

FOLDER = {
    "agents/team/reviewer.md": "---\nname: reviewer\ndescription: reviews\n---\nYou are a pirate who reviews.\n",
    "commands/greet.md": "---\ndescription: greets\n---\nSay hello to $ARGUMENTS [[text: greeted]]\n",
    "mcps/web/words.json": json.dumps(mcp("words", "words")),
    "settings/rules.json": json.dumps(
        {"description": "for people", "env": {"MINE": "1"}, "permissions": {"allow": ["Bash(python3:*)", "Read(a)"], "deny": ["Read(b)"]}}
    ),
    "settings/model.json": json.dumps({"model": "haiku", "cleanupPeriodDays": 7}),
    "hooks/note.json": json.dumps(hook("PostToolUse", "python3 .claude/hooks/note.py", "Write")),
    "hooks/note.py": "open('noted.txt', 'a').write('noted\\n')\n",
    "hooks/team/stop.json": json.dumps(hook("Stop", "bash .claude/hooks/stop.sh")),
    "hooks/team/stop.sh": "echo stopped >> stopped.txt\n",
}
THERE = {
    "README.md": "hello\n",
    ".mcp.json": json.dumps({"mcpServers": {"theirs": {"command": "true"}, "words": {"command": "false"}}, "other": 1}),
    ".claude/settings.local.json": json.dumps(
        {
            "env": {"THEIRS": "2"},
            "permissions": {"allow": ["Read(a)", "Read(c)"], "ask": ["Read(d)"]},
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
            "outputStyle": "theirs",
        }
    ),
    ".claude/agents/reviewer.md": "theirs\n",
}


def write_folder(top, files):
    for path, text in files.items():
        path = pathlib.Path(top) / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory(prefix="cay-components-", dir="/var/tmp") as path:
        write_folder(path, FOLDER)
        for top, _, _ in os.walk(path):
            os.chmod(top, 0o755)
        yield path


@pytest.fixture(scope="module")
def remote():
    with tempfile.TemporaryDirectory(prefix="cay-git-") as root:
        git = GitServer(root)
        git.repo("open/plain.git", {"README.md": "hello\n"})
        git.repo("open/there.git", THERE)
        git.repo("open/broken.git", {".claude/settings.local.json": "{ // mine\n}"})
        git.repo("open/off.git", {".claude/settings.json": json.dumps({"disableAllHooks": True, "env": {"MINE": "theirs"}})})
        yield git
        git.close()


@pytest.fixture(scope="module")
def tasks(top, model, folder):
    agents = write_agents(os.path.join(top, "agents-of-components"))
    os.chmod(agents, 0o755)
    server = serve(top, model, "--agents", agents, "--components", folder, "--egress-private", "127.0.0.0/8")
    tasks = Tasks(server)
    tasks.model = model
    yield tasks
    end(server)


@pytest.fixture
def repo(remote):
    return f"{remote.url}/open/plain.git"


def claude(tasks, task, components, **more):
    return tasks.good(task, agent="claude", components=components, **more)


# --- the real Claude Code


def test_an_agent(tasks, repo):
    given = {"subagent_type": "reviewer", "description": "d", "prompt": "look at it [[text: arr]]", "run_in_background": False}
    done = claude(tasks, f"have it reviewed {tool('Agent', **given)} [[then: text: over]]", {"agents": ["team/reviewer"]}, repo=repo)
    assert done["files"] == [] and done["diff"] == "", done
    assert tasks.model.messages("You are a pirate who reviews.")


def test_a_command(tasks, repo):
    done = claude(tasks, "/greet the whole world", {"commands": ["greet"]}, repo=repo)
    assert done["result"] == "greeted" and done["files"] == []
    assert tasks.model.messages("Say hello to the whole world")


def test_settings(tasks, repo):
    """Permissions, and variables: what is else refused is done."""
    task = tool("Bash", command="python3 -c 'import os; print(6 * 7, os.environ.get(\"MINE\"))'")
    assert "42 1" not in claude(tasks, f"without {task}", {}, repo=repo)["result"]
    assert "42 1" in claude(tasks, f"with {task}", {"settings": ["rules"]}, repo=repo)["result"]


def test_hooks(tasks, repo):
    task = tool("Write", file_path="/workspace/plain/a.txt", content="a")
    done = claude(tasks, f"write it {task} [[then: text: over]]", {"hooks": ["note", "team/stop"]}, repo=repo)
    assert tasks.names(done) == {"a.txt": "added", "noted.txt": "added", "stopped.txt": "added"}


def test_a_hook_that_says_no(tasks, repo):
    refuse = item(hook("PreToolUse", ".claude/hooks/no.sh", "Write"), files={"no.sh": "#!/bin/sh\necho not that >&2\nexit 2\n"})
    task = tool("Write", file_path="/workspace/plain/a.txt", content="a")
    done = claude(tasks, f"write what is refused {task}", {"hooks": refuse}, repo=repo)
    assert "not that" in done["result"] and done["files"] == []


def test_mcp(tasks, repo):
    done = claude(tasks, f"say the word {tool('mcp__words__word')}", {"mcps": ["web/words"]}, repo=repo)
    assert "xyzzy-words" in done["result"] and done["files"] == []


def test_mcp_with_an_odd_name(tasks, repo):
    task = f"say the odd word {tool('mcp__my_w_rds_x__word')}"
    done = claude(tasks, task, {"mcps": item(mcp("my wörds.x", "odd"))}, repo=repo)
    assert "xyzzy-odd" in done["result"]


def test_in_a_repository_that_has_settings_in_its_history(tasks, remote):
    """Claude Code does not trust what such a file allows, and components are merged into it."""
    task = f"say the word there {tool('mcp__words__word')}"
    done = claude(tasks, task, {"mcps": ["web/words"]}, repo=f"{remote.url}/open/there.git")
    assert "xyzzy-words" in done["result"] and done["files"] == []


def test_what_a_repository_says_does_not_undo_them(tasks, remote):
    """It would switch off all hooks, and sets the variable itself."""
    components = {"hooks": ["note"], "settings": ["rules"]}
    write = tool("Write", file_path="/workspace/off/a.txt", content="a")
    show = tool("Bash", command="python3 -c 'import os; print(os.environ[\"MINE\"] * 3)'")
    done = claude(tasks, f"switched off {write} {show}", components, repo=f"{remote.url}/open/off.git")
    assert tasks.names(done) == {"a.txt": "added", "noted.txt": "added"} and "111" in done["result"], done


# --- merging


@pytest.fixture(scope="module")
def installed(folder):
    """install(project, flags): what the real installer makes of it, without a network. It has its own fetch, which has the
    files of the folder in place of those that it would load."""
    try:
        packages = clients.folder()
    except clients.Missing as why:
        pytest.skip(f"claude-code-templates cannot be had: {why}")
    fetch = pathlib.Path(folder) / "fetch.cjs"
    fetch.write_text(FETCH, encoding="utf-8")

    def install(project, *flags):
        command = ["node", "-r", fetch, packages / INSTALLER, *flags, "--yes", "-d", project]
        env = {"PATH": os.environ["PATH"], "HOME": str(project), "CI": "1", "CCT_NO_TRACKING": "1", "COMPONENTS": folder}
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0 and "Successfully installed" in done.stdout, done
        return read_project(project)

    return install


FETCH = """
const fs = require("fs");
globalThis.fetch = async (url) => {
  const [, path] = String(url).split("/cli-tool/components/");
  const file = `${process.env.COMPONENTS}/${path}`;
  return path && fs.existsSync(file) ? new Response(fs.readFileSync(file)) : new Response("", { status: 404 });
};
"""


FOLDERS = (".claude/agents", ".claude/commands", ".claude/hooks", ".claude/settings")


def read_project(top):
    """path -> (text or JSON, whether it is executable), of what agents look at."""
    found = {}
    for path in pathlib.Path(top).rglob("*"):
        name = str(path.relative_to(top))
        if path.is_file() and (name == ".mcp.json" or name.startswith(FOLDERS)):
            text = path.read_text(encoding="utf-8")
            found[name] = (json.loads(text) if name.endswith(".json") else text, bool(path.stat().st_mode & stat.S_IXUSR))
    return found


LOOK = """
import json, os
found = {}
for top, _, names in os.walk("."):
    for name in names:
        path = os.path.relpath(os.path.join(top, name), ".")
        if path == ".mcp.json" or path.startswith(".claude/"):
            text = open(path).read()
            found[path] = (json.loads(text) if path.endswith(".json") else text, os.access(path, os.X_OK))
print(json.dumps({"type": "result", "result": json.dumps(found)}))
"""


def look(tasks, repo, components, **more):
    """What the agent finds."""
    done = tasks.good(f"python3 -c '{LOOK}'\n", repo=repo, components=components, **more)
    assert done["files"] == [] and done["diff"] == "", done
    found = {path: tuple(found) for path, found in json.loads(done["result"]).items()}
    found.pop(".claude/settings.cay.json", None)
    return found


def without_ours(found):
    """Without what says that nobody need be asked."""
    settings = found[".claude/settings.local.json"][0]
    assert settings.pop("enabledMcpjsonServers") == ["words"] and settings.pop("disableAllHooks") is False
    settings["permissions"]["allow"].remove("mcp__words")
    return found


ALL = {
    "agents": ["team/reviewer"],
    "commands": ["greet"],
    "mcps": ["web/words"],
    "settings": ["rules", "model"],
    "hooks": ["note", "team/stop"],
}
FLAGS = ["--agent", "team/reviewer", "--command", "greet", "--mcp", "web/words", "--setting", "rules,model", "--hook", "note,team/stop"]


@pytest.mark.parametrize("name", ["plain", "there"])
def test_merged_as_the_installer_does(tasks, remote, installed, tmp_path, name):
    write_folder(tmp_path, THERE if name == "there" else {"README.md": "hello\n"})
    expected = installed(tmp_path, *FLAGS)
    assert len(expected) == 6 if name == "plain" else len(expected) >= 6
    assert without_ours(look(tasks, f"{remote.url}/open/{name}.git", ALL)) == expected


def test_what_was_asked_for_wins(tasks, remote):
    """Where the installer would ask somebody."""
    settings = item({"env": {"THEIRS": "mine"}, "outputStyle": "mine"})
    found = look(tasks, f"{remote.url}/open/there.git", {"settings": settings})
    merged = found[".claude/settings.local.json"][0]
    assert merged["env"] == {"THEIRS": "mine"} and merged["outputStyle"] == "mine" and merged["permissions"]["ask"] == ["Read(d)"]


def test_without_a_repository(tasks):
    found = look(tasks, None, {"agents": item("mine\n"), "settings": item({"model": "haiku"})})
    assert found == {".claude/agents/one.md": ("mine\n", False), ".claude/settings.local.json": ({"model": "haiku"}, False)}


def test_what_is_no_json_is_not_replaced(tasks, remote):
    repo = f"{remote.url}/open/broken.git"
    reply = tasks.post(OK, repo=repo, components={"settings": ["rules"]})
    answer = reply.json
    assert not answer.get("success") and "settings.local.json" in answer["error"], reply
    assert tasks.good(OK, repo=repo, components={"agents": ["team/reviewer"]})["success"]


# --- what is refused, before anything is begun


@pytest.mark.parametrize(
    "components, words",
    [
        ({"agents": ["nobody"]}, ["agents[0] nobody", "agents/nobody.md"]),
        ({"agents": ["../../etc/passwd"]}, ["agents[0]", "name"]),
        ({"agents": [{"name": "a"}]}, ["agents[0] a", "content"]),
        ({"skills": []}, ["skills"]),
        ({"mcps": item("{")}, ["mcps[0] one", "JSON"]),
        ({"mcps": item({})}, ["mcps[0] one", "mcpServers"]),
        ({"hooks": item(hook("Stop", "x"), files={"../x": ""})}, ["hooks[0] one", "../x"]),
        ({"agents": item("x") * 257}, ["256"]),
    ],
)
def test_refused(tasks, components, words):
    reply = tasks.post(OK, components=components)
    assert reply.status in (400, 404), reply
    for word in words:
        assert word in reply.json["error"], reply.json


def test_an_agent_that_has_no_use_for_them(tasks):
    assert tasks.post(OK, agent="plain", components={"agents": item("x")}).status == 400


# --- from a shell


def ask(tasks, where, *args):
    command = [RELEASE, "ask", "--data", str(tasks.server.data), *args]
    env = {"PATH": os.environ["PATH"], "HOME": str(where)}
    return subprocess.run(command, cwd=where, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)


def test_cay_ask(tasks, repo, tmp_path):
    """A file, a name in a folder here, a name in the server's; and the change is applied to the clone that one works in."""
    subprocess.run(["git", "clone", "-q", repo, tmp_path / "plain"], check=True)
    here = tmp_path / "plain"
    write_folder(tmp_path, {"rules.json": json.dumps({"env": {"MINE": "from-a-file"}, "permissions": {"allow": ["Bash(python3:*)"]}})})
    write_folder(here, {".claude-components/hooks/mark.json": json.dumps(hook("PostToolUse", ".claude/hooks/mark.sh", "Write"))})
    write_folder(here, {".claude-components/hooks/mark.sh": "#!/bin/sh\necho marked > marked.txt\n"})
    show = tool("Bash", command="python3 -c 'import os; print(os.environ[\"MINE\"])'")
    write = tool("Write", file_path="/workspace/plain/new.txt", content="new\n")
    flags = ["--repo", repo, "--setting", "../rules.json", "--hook", "mark", "--mcp", "web/words", "--apply"]
    done = ask(tasks, here, *flags, f"all of it {show} {write} {tool('mcp__words__word')}")
    assert done.returncode == 0, done
    assert "from-a-file" in done.stdout and "xyzzy-words" in done.stdout
    for words in ("claude works on", "-- cloned, branch main", "   new.txt | new +1", "Applied patch new.txt", "turns"):
        assert words in done.stderr, done.stderr
    assert (here / "new.txt").read_text() == "new\n" and (here / "marked.txt").read_text() == "marked\n"


def test_cay_ask_for_what_nobody_has(tasks, tmp_path):
    done = ask(tasks, tmp_path, "--task", "--agent", "nobody", "anything")
    assert done.returncode == 125 and "agents/nobody.md" in done.stderr, done
