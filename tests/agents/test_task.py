# SPDX-License-Identifier: Apache-2.0
"""POST /execute {task}: a sandbox, a clone, an agent, and what has changed. The agent is a shell here (task_helpers.py), so
that it can do whatever an agent may do wrong."""

import os
import tempfile

import pytest
from agents_helpers import Client, Server, StandIn, end, eventually
from git_server import BASIC, HOST, PASSWORD, USER, GitServer
from task_helpers import ASK, OK, Tasks, write_agents


@pytest.fixture(scope="module")
def remote():
    with tempfile.TemporaryDirectory(prefix="cay-git-") as root:
        server = GitServer(root)
        server.head = server.repo("open/hello.git", {"README.md": "hello\n", "src/a.txt": "one\n", "old.txt": "old\n"})
        server.repo("private/closed.git", {"inside.txt": "closed\n"})
        yield server
        server.close()


@pytest.fixture(scope="module")
def tasks():
    if os.geteuid() != 0:
        pytest.skip("boxes need root")
    with tempfile.TemporaryDirectory(prefix="cay-task-") as top, StandIn() as model:
        os.chmod(top, 0o711)
        os.mkdir(f"{top}/data")
        agents = write_agents(f"{top}/agents")
        os.chmod(agents, 0o755)
        server = Server(
            f"{top}/data", "--agents", agents, "--egress-private", "127.0.0.0/8", "--process-log", "1m", env=model.env()
        )
        tasks = Tasks(server)
        tasks.model = model
        yield tasks
        end(server)


@pytest.fixture
def repo(remote):
    return f"{remote.url}/open/hello.git"


# --- what comes back


def test_a_change_comes_back_as_a_diff(tasks, repo, remote):
    done = tasks.good("echo more >> README.md; echo new > src/new.txt; rm old.txt\n" + OK, repo=repo)
    assert tasks.names(done) == {"README.md": "modified", "src/new.txt": "added", "old.txt": "deleted"}
    assert "+more" in done["diff"] and "+new" in done["diff"] and "-old" in done["diff"]
    assert done["result"] == "done" and done["error"] is None and done["error_code"] is None
    assert done["warnings"] == [] and not done["diff_truncated"]
    meta = done["metadata"]
    assert meta["repo"] == repo and meta["branch"] == "main" and meta["commit"] == remote.head
    assert meta["agent"] == "shell" and meta["num_turns"] == 1 and meta["exit_code"] == 0 and meta["reason"] == "exit"
    assert 0 < meta["clone_ms"] < meta["execution_time_ms"] and not meta["kept"]
    eventually(lambda: tasks.is_gone(meta["sandbox_id"]))


def test_commits_count_and_so_does_what_was_not_committed(tasks, repo):
    script = "git config user.name a; git config user.email a@b; echo x > x; git add x; git commit -qm x; echo y > y\n"
    assert tasks.names(tasks.good(script + OK, repo=repo)) == {"x": "added", "y": "added"}


def test_without_a_repository(tasks):
    done = tasks.good("pwd; mkdir d; echo x > d/x\n" + OK)
    assert tasks.names(done) == {"d/x": "added"}
    assert done["metadata"]["repo"] is None and "/workspace" in done["logs"]


def test_no_diff_if_not_wanted(tasks, repo):
    done = tasks.good("echo x > x\n" + OK, repo=repo, include_diff=False)
    assert done["diff"] == "" and tasks.names(done) == {"x": "added"}


def test_a_large_change_is_cut_and_says_so(tasks):
    script = "python3 -c \"print('x' * 70 + chr(10), end='') or [print('%070d' % n) for n in range(300000)]\" > big\n"
    done = tasks.good(script + OK)
    assert done["diff_truncated"] and len(done["diff"]) > 100_000
    assert done["diff"].endswith("\n") and tasks.names(done) == {"big": "added"}


def test_a_long_list_of_files_is_cut_and_says_so(tasks):
    script = "python3 -c \"[open('[' + 'é{' * 60 + '%05d' % n, 'w').close() for n in range(9500)]\"\n"
    done = tasks.good(script + OK, include_diff=False)
    assert done.get("files_truncated") and 1000 < len(done["files"]) < 9500, done["warnings"]
    assert all(f["status"] == "added" for f in done["files"])


def test_its_stream(tasks, repo):
    script = 'echo \'{"type": "say", "text": "hello"}\'; echo aside; echo trouble >&2\n' + OK
    with tasks.stream(script, repo=repo) as stream:
        events = stream.until("done")
    names = [e.name for e in events]
    assert names[:3] == ["start", "sandbox", "cloned"] and names[-1] == "done"
    assert events[0].data["task"] == script and events[2].data["repo"] == repo
    said = [e.data for e in events if e.name == "message"]
    assert said[0] == {"type": "say", "text": "hello"} and said[-1]["type"] == "result"
    logs = "".join(e.data["text"] for e in events if e.name == "log")
    assert "hello" in logs and "aside" in logs and "trouble" in logs
    assert events[-1].data["success"] and events[-1].data["logs"] == logs


def test_a_client_that_leaves_finds_it_again(tasks):
    request, box = tasks.begin("sleep 1; echo x > x\n" + OK)
    assert tasks.api("GET", f"/execute/{request}").status == 202
    assert tasks.wait(request)["success"]
    kept = tasks.api("GET", f"/execute/{request}").json
    assert kept["success"] and tasks.names(kept) == {"x": "added"} and kept["metadata"]["sandbox_id"] == box


def test_many_at_once(tasks, repo):
    begun = [tasks.begin(f"sleep 1; echo {n} > x\n" + OK, repo=repo)[0] for n in range(6)]
    for n, request in enumerate(begun):
        done = tasks.wait(request)
        assert done["success"] and f"+{n}\n" in done["diff"], done


# --- where it works


def test_a_working_directory(tasks, repo):
    done = tasks.good("pwd; echo x > x\n" + OK, repo=repo, working_dir="src")
    assert "/workspace/hello/src" in done["logs"] and tasks.names(done) == {"src/x": "added"}
    done = tasks.good("pwd\n" + OK, repo=repo, working_dir="/workspace/hello/src")
    assert "/workspace/hello/src" in done["logs"]
    tasks.post(OK, repo=repo, working_dir="nowhere").error(400, "INVALID_REQUEST", "working_dir", "nowhere")
    tasks.post(OK, repo=repo, working_dir="README.md").error(400, "INVALID_REQUEST", "working_dir")


def test_a_sandbox_that_is_there(tasks, repo):
    tasks.api.ok("PUT", "/sandbox/mine", {"network": {"allow": [f"{HOST}:*"]}})
    tasks.api.exec("mine", "echo before > /workspace/before")
    done = tasks.good("echo x > x\n" + OK, sandbox_id="mine")
    assert tasks.names(done) == {"x": "added"} and done["metadata"]["kept"]
    done = tasks.good("echo y > y\n" + OK, sandbox_id="mine", repo=repo)
    assert tasks.names(done) == {"y": "added"} and done["metadata"]["sandbox_id"] == "mine"
    left = tasks.api.exec("mine", "cat /workspace/before /workspace/x /workspace/hello/y")
    assert left["stdout"] == "before\nx\ny\n"
    assert [p["id"] for p in tasks.api.ok("GET", "/sandbox/mine/processes")["processes"]] == ["agent", "agent-2"]
    tasks.post(OK, sandbox_id="mine", repo=repo).error(409, "FILE_EXISTS")
    tasks.post(OK, sandbox_id="nobodys").error(404, "NOT_FOUND")
    tasks.api.ok("DELETE", "/sandbox/mine")


def test_one_that_is_kept(tasks):
    box = tasks.good("echo x > x\n" + OK, keep=True)["metadata"]["sandbox_id"]
    assert tasks.api.exec(box, "cat /workspace/x")["stdout"] == "x\n"
    tasks.api.ok("DELETE", f"/sandbox/{box}")


# --- what it may reach


def test_the_clone_has_its_host_and_the_agent_has_nothing(tasks, repo, remote):
    seen = len(remote.seen)
    done = tasks.run(f"curl -sS -m 5 {remote.url}/ 2>&1; git fetch 2>&1; env; exit 7\n", repo=repo, keep=True)
    box = done["metadata"]["sandbox_id"]
    assert done["error_code"] == "AGENT_FAILED" and done["metadata"]["exit_code"] == 7
    shown = tasks.api.ok("GET", f"/sandbox/{box}")
    assert shown["network"] == "none" and shown["secrets"] == []
    paths = [path for _, path, _, _ in remote.seen[seen:]]
    assert len([p for p in paths if "info/refs" in p]) == 1 and "/" not in paths
    tasks.api.ok("DELETE", f"/sandbox/{box}")


def test_a_private_repository(tasks, remote):
    url = f"{remote.url}/private/closed.git"
    tasks.api.ok(
        "PUT",
        "/secrets/mygit",
        {"value": f"{USER}:{PASSWORD}", "upstream": remote.url, "format": "Basic {basic}"},
    )
    tasks.post(OK, repo=url).error(403, "GIT_AUTH_FAILED")
    script = "cat inside.txt; curl -sS -m 5 http://mygit.cay/private/closed.git/info/refs 2>&1; env; cat .git/config\n"
    done = tasks.good(script + OK, repo=url, secret="mygit", keep=True)
    assert "closed" in done["logs"] and PASSWORD not in done["logs"] and BASIC not in done["logs"]
    assert "git-upload-pack" not in done["logs"]
    box = done["metadata"]["sandbox_id"]
    assert tasks.api.ok("GET", f"/sandbox/{box}")["secrets"] == []
    tasks.api.ok("DELETE", f"/sandbox/{box}")


def test_the_network_it_was_given(tasks, repo, remote):
    script = "git ls-remote origin\n" + OK
    done = tasks.good(script, repo=repo, network={"allow": [f"{HOST}:{remote.port}"]})
    assert "refs/heads/main" in done["logs"]


def test_the_model(tasks):
    done = tasks.good(ASK, agent="asker")
    assert '"hello"' in done["result"]
    meta = done["metadata"]
    spent = tasks.api.ok("GET", f"/usage?sandbox={meta['sandbox_id']}")["total"]
    assert meta["total_cost_usd"] == spent["cost_usd"] > 0
    assert meta["usage"]["input_tokens"] == spent["input_tokens"] > 0
    listed = tasks.api.ok("GET", "/execute?limit=1&kind=task")["results"][0]
    assert listed["request_id"] == done["request_id"] and listed["cost_usd"] == spent["cost_usd"]
    by_request = tasks.api.ok("GET", "/usage?by=request")["usage"]
    assert done["request_id"] in [row["key"] for row in by_request]


def test_a_budget(tasks):
    again = ASK + ASK + ASK
    done = tasks.bad("BUDGET_EXCEEDED", "set -e\n" + again, agent="asker", budget={"tokens": 5})
    assert done["metadata"]["total_cost_usd"] > 0


def test_a_sandbox_without_the_model(tasks):
    tasks.api.ok("PUT", "/sandbox/deaf", {})
    tasks.post(ASK, agent="asker", sandbox_id="deaf").error(400, "INVALID_REQUEST", "anthropic", "deaf")
    tasks.api.ok("PATCH", "/sandbox/deaf", {"secrets": ["anthropic"]})
    assert '"hello"' in tasks.good(ASK, agent="asker", sandbox_id="deaf")["result"]
    tasks.api.ok("DELETE", "/sandbox/deaf")


# --- what goes wrong before it


def test_clones_that_fail(tasks, remote):
    tasks.post(OK, repo=f"{remote.url}/open/none.git").error(404, "GIT_REPO_NOT_FOUND")
    body = {**tasks.body(OK, repo=f"{remote.url}/open/hello.git"), "branch": "nowhere"}
    tasks.api("POST", "/execute", body).error(404, "GIT_BRANCH_NOT_FOUND", "nowhere")
    tasks.post(OK, repo=f"http://{HOST}:1/x.git", keep=True).error(502, "GIT_CLONE_FAILED")
    for url in ("file:///etc", "ext::sh -c id", "http://user:word@127.0.0.2/x.git", "-u", "http://127.0.0.2/../x"):
        tasks.post(OK, repo=url).error(400, "INVALID_REQUEST", "repo")


def test_an_agent_that_is_not_there(tasks):
    tasks.post("x", agent="absent").error(501, "AGENT_NOT_INSTALLED", "no-such-agent", "cay image build agents")
    assert tasks.post("x", agent="nobody").status in (400, 404)
    tasks.post(OK, image="no-such-image").error(404, "NOT_FOUND")


def test_nothing_of_ours_stays_where_no_agent_was_started(tasks):
    tasks.api.ok("PUT", "/sandbox/yours", {})
    tasks.post("x", agent="absent", sandbox_id="yours").error(501, "AGENT_NOT_INSTALLED")
    eventually(lambda: ".cay-git" not in tasks.api.exec("yours", "ls -A /tmp")["stdout"])
    tasks.api.ok("DELETE", "/sandbox/yours")


# --- what goes wrong in it


def test_how_it_can_fail(tasks):
    done = tasks.bad("AGENT_FAILED", "echo broken >&2; exit 3\n")
    assert done["metadata"]["exit_code"] == 3 and "broken" in done["logs"]
    tasks.bad("AGENT_FAILED", "true\n")  # it said nothing
    done = tasks.bad(
        "AGENT_FAILED",
        """echo '{"type": "result", "subtype": "success", "is_error": true, "result": "no", "error": "it hurts"}'\n""",
    )
    assert done["error"] == "it hurts"
    tasks.bad("AGENT_FAILED", OK + "exit 1\n")
    tasks.bad("MAX_TURNS", """echo '{"type": "result", "subtype": "error_max_turns", "is_error": true}'; exit 1\n""")
    tasks.bad("AGENT_FAILED", "kill -SEGV $$\n")
    assert tasks.good("echo hello\n", agent="plain")["result"] == "hello\n"


def test_its_time(tasks, repo):
    script = "echo x > x; setsid sleep 1000 & sleep 1000 & wait\n"
    done = tasks.bad("EXECUTION_TIMEOUT", script, repo=repo, timeout=2500, keep=True)
    assert tasks.names(done) == {"x": "added"} and done["metadata"]["reason"] == "timeout"
    assert 2400 < done["metadata"]["execution_time_ms"] < 20000
    box = done["metadata"]["sandbox_id"]
    assert tasks.api.exec(box, "pgrep -x sleep | wc -l")["stdout"].strip() == "0"
    tasks.api.ok("DELETE", f"/sandbox/{box}")


def test_cancelled(tasks):
    request, box = tasks.begin("sleep 1000\n", before="echo x > x\n")
    assert tasks.api("DELETE", f"/execute/{request}").json["state"] == "cancelling"
    done = tasks.wait(request)
    assert done["error_code"] == "CANCELLED" and tasks.names(done) == {"x": "added"}
    eventually(lambda: tasks.is_gone(box))


def test_its_memory(tasks):
    eat = "python3 -c 'b = []\nwhile True: b.append(bytearray(1 << 20))'\n"
    done = tasks.bad("OUT_OF_MEMORY", "exec " + eat, memory="64m")
    assert done["metadata"]["reason"] == "oom"
    tasks.bad("OUT_OF_MEMORY", eat + "exit 1\n", memory="64m")


def test_its_disk(tasks):
    tasks.api.ok("PUT", "/sandbox/small", {"disk": "64m"})
    tasks.bad("DISK_FULL", "cat /dev/zero > zero; exit 1\n", sandbox_id="small")
    tasks.api.ok("DELETE", "/sandbox/small")


def test_a_flood(tasks):
    done = tasks.good("echo first; yes | head -c 100000000\n" + OK)
    assert done["result"] == "done" and done["metadata"]["logs_truncated"]
    assert "first" in done["logs"] and len(done["logs"]) < 3_000_000
    assert any("so much" in w for w in done["warnings"])
    done = tasks.good("head -c 20000000 /dev/zero | tr '\\0' x; echo\n" + OK)  # one line
    assert done["result"] == "done"


def test_what_it_leaves_running(tasks):
    script = "setsid sleep 1000 > /dev/null 2>&1 & setsid sleep 1001 &\n"
    done = tasks.good(script + OK, keep=True)
    assert any("2 processes" in w for w in done["warnings"]), done["warnings"]
    box = done["metadata"]["sandbox_id"]
    eventually(lambda: tasks.api.exec(box, "pgrep -x sleep | wc -l")["stdout"].strip() == "0")
    tasks.api.ok("DELETE", f"/sandbox/{box}")
    assert tasks.good("sleep 0\n" + OK)["warnings"] == []


def test_only_its_own_are_ended(tasks):
    tasks.api.ok("PUT", "/sandbox/shared", {})
    mine = tasks.api.start("shared", {"command": "sleep 1000"})
    tasks.good("setsid sleep 1001 &\n" + OK, sandbox_id="shared")
    eventually(lambda: tasks.api.exec("shared", "pgrep -xf 'sleep 1001' | wc -l")["stdout"].strip() == "0")
    assert tasks.api.ok("GET", f"/sandbox/shared/processes/{mine}")["process"]["status"] == "running"
    tasks.api.ok("DELETE", "/sandbox/shared")


@pytest.mark.parametrize("how", ["DELETE", "sleep"])
def test_its_sandbox_goes(tasks, how):
    request, box = tasks.begin("sleep 1000\n", keep=True)
    if how == "DELETE":
        tasks.api.ok("DELETE", f"/sandbox/{box}")
    else:
        tasks.api.ok("POST", f"/sandbox/{box}/sleep")
    done = tasks.wait(request)
    assert done["error_code"] == "SANDBOX_LOST", done
    tasks.api("DELETE", f"/sandbox/{box}")


# --- components


def test_components(tasks, remote):
    remote.repo("open/comp.git", {".claude/settings.local.json": '{"env": {"A": "1"}}', "README.md": "x\n"})
    big = "# big\n" + "word " * 40000
    components = {
        "agents": [{"name": "reviewer", "content": "---\nname: reviewer\n---\nReview.\n"}, {"name": "big", "content": big}],
        "mcps": [{"name": "clock", "content": {"mcpServers": {"clock": {"command": "date"}}}}],
        "settings": [{"name": "more", "content": {"env": {"B": "2"}}}],
    }
    script = "cat .claude/agents/reviewer.md .mcp.json .claude/settings.local.json; wc -c < .claude/agents/big.md; touch new\n"
    done = tasks.good(script + OK, repo=f"{remote.url}/open/comp.git", components=components)
    assert tasks.names(done) == {"new": "added"}
    assert "Review." in done["logs"] and '"clock"' in done["logs"] and str(len(big)) in done["logs"]
    assert '"A"' in done["logs"] and '"B"' in done["logs"]


def test_components_that_cannot_be_merged(tasks, remote):
    remote.repo("open/odd.git", {".mcp.json": "no json", "README.md": "x\n"})
    components = {"mcps": [{"name": "clock", "content": {"mcpServers": {"clock": {"command": "date"}}}}]}
    reply = tasks.post(OK, repo=f"{remote.url}/open/odd.git", components=components)
    assert reply.status == 409 and ".mcp.json" in reply.json["error"], reply


def test_nothing_is_left(tasks):
    """After all of the above."""
    eventually(lambda: tasks.api.ok("GET", "/sandbox")["sandboxes"] == [])
    assert Client(tasks.server)("GET", "/health").status == 200
