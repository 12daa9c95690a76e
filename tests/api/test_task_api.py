# SPDX-License-Identifier: Apache-2.0
"""Tasks as far as HTTP goes: what is refused before anything begins, tokens in bodies, keys, the list. The agent is a
shell that runs its task; the real ones are in tests/agents."""

import json
import os
import socket
import tempfile

import pytest
from api_helpers import ADMIN, Client, Server, at_once, eventually, kill_daemon

SHELL = """\
about   A shell
program /bin/sh
arg     -s
input   {task}
output  text
"""
CHOOSY = """\
about      One with opinions
program    /bin/cat
components claude
allow      permission_mode look write
env        MODE {permission_mode}
env        TURNS {max_turns}
needs      model
input      {system_prompt}
input      {task}
output     text
"""
HALF = 100 * 1024  # bytes: more than strangers may send elsewhere


@pytest.fixture(scope="module")
def folder(top):
    path = tempfile.mkdtemp(prefix="agents-", dir=top)
    os.chmod(path, 0o755)
    for name, text in (("shell", SHELL), ("choosy", CHOOSY)):
        with open(f"{path}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
    return path


@pytest.fixture(scope="module")
def server(top, folder):
    data = tempfile.mkdtemp(prefix="tasks-", dir=top)
    server = Server(data, "--agents", folder)
    yield server
    assert server.stop() == 0
    assert server.faults() == []


@pytest.fixture(scope="module")
def api(server):
    return Client(server)


def task(text, **options):
    return {"task": text, "options": {"agent": "shell", **options}}


def run(client, text, headers=None, **options):
    return client.ok("POST", "/execute", task(text, **options), headers)


# --- what is refused

REFUSED = [
    ({}, "either 'question' or 'task'", "neither"),
    ({"question": "x", "task": "x"}, "either 'question' or 'task'", "both"),
    ({"question": None, "task": None}, "neither"),
    ({"question": "x", "repo": "https://example.com/a/b"}, "repo", "task"),
    ({"question": "x", "options": {}}, "options", "task"),
    ({"task": "x", "model": "opus"}, "model", "'options'"),
    ({"task": "x", "sandboxId": "a"}, "sandboxId", "'options'"),
    ({"task": " \n"}, "task", "empty"),
    ({"task": "x", "auth_token": 5}, "auth_token"),
    ({"task": "x", "branch": "main"}, "branch", "'repo'"),
    ({"task": "x", "repo": "ssh://example.com/a/b"}, "repo"),
    ({"task": "x", "repo": "https://me:pw@example.com/a/b"}, "repo", "credentials"),
    ({"task": "x", "repo": "https://example.com/a/../b"}, "repo"),
    ({"task": "x", "repo": "https://example.com/a/b", "branch": "--upload-pack=x"}, "branch"),
    ({"task": "x", "options": {"secret": "mine"}}, "secret", "'repo'"),
    ({"task": "x", "repo": "https://example.com/a/b", "options": {"secret": "mine"}}, "there is no secret 'mine'"),
    ({"task": "x", "repo": "https://example.com/a/b", "options": {"secret": "No Name"}}, "there is no secret"),
    ({"task": "x", "options": {"working_dir": "../up"}}, "working_dir", "'..'"),
    ({"task": "x", "options": {"working_dir": "a/./b"}}, "working_dir"),
    ({"task": "x", "options": {"working_dir": "/workspace/a/.."}}, "working_dir"),
    ({"task": "x", "options": {"working_dir": "/workspaces"}}, "working_dir", "/workspace"),
    ({"task": "x", "options": {"working_dir": "/etc"}}, "working_dir", "/workspace"),
    ({"task": "x", "options": {"working_dir": ""}}, "working_dir"),
    ({"task": "x", "options": {"working_dir": "a\nb"}}, "working_dir"),
    ({"task": "x", "options": {"timeout": 300001}}, "timeout", "300000", "max-execution-time"),
    ({"task": "x", "options": {"timeout": "2d"}}, "timeout"),
    ({"task": "x", "options": {"timeout": 0}}, "timeout"),
    ({"task": "x", "options": {"max_turns": 0}}, "max_turns"),
    ({"task": "x", "options": {"memory": "1k"}}, "memory"),
    ({"task": "x", "options": {"image": "../etc"}}, "image"),
    ({"task": "x", "options": {"image": "Agents"}}, "image"),
    ({"task": "x", "options": {"model": "my model"}}, "model"),
    ({"task": "x", "options": {"network": "everything"}}, "network"),
    ({"task": "x", "options": {"network": {"allow": ["http://a"]}}}, "network"),
    ({"task": "x", "options": {"budget": {"usd": -1}}}, "budget", "usd"),
    ({"task": "x", "options": {"budget": 5}}, "budget"),
    ({"task": "x", "options": {"sandbox_id": "a", "image": "host"}}, "image", "sandbox_id"),
    ({"task": "x", "options": {"sandbox_id": "a", "memory": "1g"}}, "memory", "sandbox_id"),
    ({"task": "x", "options": {"sandbox_id": "a", "network": "none"}}, "network", "sandbox_id"),
    ({"task": "x", "options": {"sandbox_id": "a", "budget": {"usd": 1}}}, "budget", "sandbox_id"),
    ({"task": "x", "options": {"max_turn": 1}}, "did you mean 'max_turns'?"),
    ({"task": "x", "options": {"agent": "nobody"}}, "'nobody'", "choosy", "claude", "opencode", "shell"),
    ({"task": "x", "options": {"agent": "shell", "max_turns": 3}}, "max_turns"),
    ({"task": "x", "options": {"agent": "shell", "components": {}}}, "components", "shell"),
    ({"task": "x", "options": {"agent": "choosy", "permission_mode": "all"}}, "permission_mode", "look", "write"),
]


@pytest.mark.parametrize("body, words", [(r[0], r[1:]) for r in REFUSED], ids=lambda v: json.dumps(v)[:60])
def test_refused(api, body, words):
    api("POST", "/execute", body).error(400, "INVALID_REQUEST", *words)


def test_refused_before_anything_began(api):
    assert api.ok("GET", "/execute")["results"] == []
    assert api.ok("GET", "/sandbox")["sandboxes"] == []


def test_a_key_is_needed_where_the_agent_needs_a_model(api):
    api("POST", "/execute", task("x", agent="choosy")).error(503, "MISSING_API_KEY")


@pytest.fixture(scope="module")
def keyed(top, folder):
    """With a key, which nobody asks with, and a folder of components."""
    data = tempfile.mkdtemp(prefix="keyed-", dir=top)
    components = tempfile.mkdtemp(prefix="components-", dir=top)
    os.chmod(components, 0o755)
    env = {"ANTHROPIC_API_KEY": "sk-ant-nobody", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "MAX_EXECUTION_TIME": "30000"}
    server = Server(data, "--agents", folder, "--components", components, env=env)
    yield Client(server)
    assert server.stop() == 0
    assert server.faults() == []


@pytest.mark.parametrize(
    "components, words",
    [
        ([], ["object"]),
        ("agents", ["object"]),
        ({"agents": ["nobody"]}, ["nobody"]),
        ({"agents": ["../../etc/passwd"]}, ["agents[0]", "name"]),
        ({"agents": [{"name": "a", "content": "\0"}]}, ["components"]),
        ({"things": []}, ["things"]),
    ],
)
def test_components_are_looked_at_first(keyed, components, words):
    reply = keyed("POST", "/execute", task("x", agent="choosy", components=components))
    reply.error(400, "INVALID_REQUEST", "components", *words)


def test_the_setting_is_the_most(keyed):
    keyed("POST", "/execute", task("x", timeout="31s")).error(400, "INVALID_REQUEST", "30000")


def test_an_unknown_sandbox(api):
    api("POST", "/execute", task("x", sandbox_id="nobody")).error(404, "NOT_FOUND")


# --- what is done


def test_a_task(api):
    done = run(api, "echo new >file.txt; echo said")
    assert done["success"] is True, done
    assert done["result"].strip() == "said"
    assert [f["path"] for f in done["files"]] == ["file.txt"]
    assert "+new" in done["diff"]
    assert done["metadata"]["agent"] == "shell"
    assert api("GET", f"/execute/{done['request_id']}").json == done
    listed = api.ok("GET", "/execute?kind=task")["results"]
    assert [(r["request_id"], r["kind"], r["state"]) for r in listed] == [(done["request_id"], "task", "done")]
    assert listed[0]["task"] == listed[0]["question"] == "echo new >file.txt; echo said"
    assert api.ok("GET", "/execute?kind=question")["results"] == []
    eventually(lambda: api.ok("GET", "/sandbox")["sandboxes"] == [])


def test_cancelled(api):
    with api.stream("POST", "/execute", task("echo begun; sleep 1000")) as stream:
        start = next(iter(stream))
        assert start.name == "start"
        id_ = start.data["request_id"]
        eventually(lambda: api("GET", f"/execute/{id_}").status == 202)
        assert api("DELETE", f"/execute/{id_}").status == 202
        done = stream.until("done")[-1].data
    assert (done["success"], done["error_code"]) == (False, "CANCELLED")
    assert api.ok("DELETE", f"/execute/{id_}")["state"] == "removed"
    api("GET", f"/execute/{id_}").error(404, "NOT_FOUND")


def test_its_time(api):
    done = run(api, "echo some >file.txt; echo begun; sleep 1000", timeout="3s")
    assert (done["success"], done["error_code"]) == (False, "EXECUTION_TIMEOUT")
    eventually(lambda: api.ok("GET", "/sandbox")["sandboxes"] == [])


def test_agents(api):
    agents = {a["name"]: a for a in api.ok("GET", "/agents")["agents"]}
    assert set(agents) == {"choosy", "claude", "opencode", "shell"}
    assert agents["shell"]["about"] == "A shell"
    assert agents["shell"]["program"] == "/bin/sh"
    assert (agents["shell"]["needsModel"], agents["shell"]["options"]) == (False, [])
    assert agents["choosy"]["options"] == ["permission_mode", "system_prompt", "max_turns", "components"]
    assert (agents["claude"]["image"], agents["claude"]["needsModel"]) == ("agents", True)
    Client(api.server, token=None)("GET", "/agents").error(401, "UNAUTHORIZED")


def test_metrics(api):
    lines = dict(line.split(" ") for line in api("GET", "/metrics").body.decode().splitlines() if line.startswith("cay_tasks"))
    assert int(lines["cay_tasks_total"]) >= int(lines["cay_tasks_failed_total"]) >= 2
    assert lines["cay_tasks_open"] == "0"


# --- a token in the body


@pytest.fixture(scope="module")
def stranger(server):
    return Client(server, token=None)


def sealed(token, text="true", **more):
    return {**task(text), "auth_token": token, **more}


def test_a_token_within(api, stranger):
    made = api.ok("POST", "/tokens", {"name": "within"})
    done = stranger.ok("POST", "/execute", sealed(made["token"], "echo hello"))
    assert done["result"].strip() == "hello"
    mine = Client(api.server, made["token"])
    assert [r["request_id"] for r in mine.ok("GET", "/execute")["results"]] == [done["request_id"]]
    api.ok("DELETE", f"/tokens/{made['id']}")
    stranger("POST", "/execute", sealed(made["token"])).error(401, "UNAUTHORIZED", "not known")


def test_a_token_within_of_a_question(stranger):
    """It is known who asks: then there is no key."""
    stranger("POST", "/execute", {"question": "x", "auth_token": ADMIN}).error(503, "MISSING_API_KEY")


@pytest.mark.parametrize(
    "body",
    [
        {"task": "true"},
        sealed("wrong"),
        sealed(""),
        sealed(None),
        sealed(7),
        sealed(ADMIN + " "),
        {"task": "true", "options": {"auth_token": ADMIN}},
        [sealed(ADMIN)],
        ADMIN,
        '{"auth\\u005ftoken": "' + ADMIN + '"}',
        "",
    ],
    ids=str,
)
def test_no_token_within(stranger, body):
    reply = stranger("POST", "/execute", body)
    reply.error(401, "UNAUTHORIZED")
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert ADMIN not in reply.body.decode()


def test_a_token_within_is_for_one_route(stranger):
    for path, body in (("/execute/sdk", {"prompt": "x"}), ("/sandbox", {}), ("/execute?kind=task", {"task": "true"})):
        reply = stranger("POST", path, {**body, "auth_token": ADMIN})
        assert reply.status == 401 if "?" not in path else reply.status == 400, reply


def test_bad_bodies_of_those_who_are_known(stranger):
    text = '{"auth_token": "%s", "task": ' % ADMIN
    stranger("POST", "/execute", text).error(400, "INVALID_REQUEST", "not JSON")
    twice = '{"auth_token": "%s", "auth_token": "x", "task": "true"}' % ADMIN
    reply = stranger("POST", "/execute", twice)
    reply.error(400, "INVALID_REQUEST")
    assert ADMIN not in reply.body.decode()


def test_the_header_wins(server, stranger):
    assert Client(server)("POST", "/execute", sealed("wrong")).status == 200
    Client(server, "wrong")("POST", "/execute", sealed(ADMIN)).error(401, "UNAUTHORIZED")


def test_its_rate(api, stranger):
    made = api.ok("POST", "/tokens", {"name": "slow", "rate": 2})
    replies = [stranger("POST", "/execute", {"auth_token": made["token"]}) for _ in range(3)]
    assert [r.status for r in replies] == [400, 400, 429]
    assert replies[1].headers["X-RateLimit-Remaining"] == "0"
    api.ok("DELETE", f"/tokens/{made['id']}")


def test_it_is_written_nowhere(api, stranger):
    token = api.ok("POST", "/tokens", {"name": "quiet"})["token"]
    stranger.ok("POST", "/execute", sealed(token), {"Idempotency-Key": "quiet-1"})
    stranger("POST", "/execute", sealed(token, options={"agent": token[:20]}))
    files = [p for p in (api.server.data / "daemon").rglob("*") if p.is_file()]
    assert any(p.name == "cay.db" for p in files)
    assert [p for p in files if token.encode() in p.read_bytes()] == []
    assert token not in api.server.log()


# --- large bodies of strangers


def test_a_large_body(stranger):
    done = stranger.ok("POST", "/execute", sealed(ADMIN, "echo large\n" + "# fill\n" * (HALF // 7)))
    assert done["result"].strip() == "large"
    stranger("POST", "/execute", sealed("wrong", "x" * HALF)).error(401, "UNAUTHORIZED", "not known")


def test_a_body_that_is_too_large(stranger):
    reply = stranger("POST", "/execute", sealed(ADMIN, "x" * (3 * 1024 * 1024)))
    reply.error(401, "UNAUTHORIZED", "before a body of this size")
    pieces = [json.dumps(sealed(ADMIN, "x" * HALF)).encode()]
    reply = stranger("POST", "/execute", iter(pieces))
    reply.error(401, "UNAUTHORIZED", "before a body of this size")


def begin(server, length):
    """A body of which only the beginning comes."""
    conn = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    conn.sendall(f"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{{".encode())
    return conn


def test_few_at_a_time(server, stranger):
    body = sealed(ADMIN, "echo large\n" + "# fill\n" * (HALF // 7))

    def is_full():
        reply = stranger("POST", "/execute", body)
        assert reply.status in (200, 401), reply
        return reply.status == 401

    waiting = [begin(server, HALF) for _ in range(8)]
    eventually(is_full)
    assert stranger("POST", "/execute", sealed(ADMIN)).status == 200  # small ones are read
    assert Client(server)("POST", "/execute", body).status == 200  # and all of those who say who they are
    for conn in waiting:
        conn.close()
    eventually(lambda: not is_full())


# --- the same key

COUNT = "echo x >>/workspace/count; sleep {}; cat /workspace/count"


@pytest.fixture
def box(api):
    api.ok("PUT", "/sandbox/counts", {})
    yield "counts"
    api("DELETE", "/sandbox/counts")


def test_the_same_key_runs_once(api, box):
    key = {"Idempotency-Key": "once-1"}
    body = task(COUNT.format(1), sandbox_id=box)
    first, second = at_once(*[lambda: api("POST", "/execute", body, key)] * 2)
    assert first.status == second.status == 200
    assert first.json == second.json
    assert first.json["result"].split() == ["x"]
    assert {"true"} <= {first.headers["Idempotency-Replayed"], second.headers["Idempotency-Replayed"]}
    again = api("POST", "/execute", body, key)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json == first.json
    other = api("POST", "/execute", task("true", sandbox_id=box), key)
    other.error(409, "IDEMPOTENCY_KEY_REUSED")


def test_a_key_and_a_token_within(api, stranger, box):
    """The token is no part of what is asked."""
    key = {"Idempotency-Key": "once-2"}
    body = task(COUNT.format(0), sandbox_id=box)
    first = api("POST", "/execute", body, key)
    second = stranger("POST", "/execute", {**body, "auth_token": ADMIN}, key)
    assert second.headers["Idempotency-Replayed"] == "true"
    assert first.json == second.json
    assert first.json["result"].split() == ["x"]


def ask_and_leave(client, body, headers):
    headers, body = client.head(headers, body)
    connection = client.connect()
    connection.request("POST", "/execute", body=body, headers=headers)
    eventually(lambda: any(r["state"] == "running" for r in client.ok("GET", "/execute")["results"]))
    connection.close()


def test_a_key_outlasts_the_daemon(api, box):
    key = {"Idempotency-Key": "once-3"}
    body = task(COUNT.format(3), sandbox_id=box)
    ask_and_leave(api, body, key)
    eventually(lambda: "x" in api.exec(box, "cat /workspace/count || true")["stdout"])
    kill_daemon(api.server, api)
    done = api("POST", "/execute", body, key)
    assert done.status == 200, done
    assert done.json["success"] is True, done
    assert done.json["result"].split() == ["x"]
    assert api.exec(box, "cat /workspace/count")["stdout"].split() == ["x"]
    again = api("POST", "/execute", body, key)
    assert again.json == done.json
    kill_daemon(api.server, api)
    assert api("POST", "/execute", body, key).json == done.json


def test_a_stream_goes_on_behind_a_killed_daemon(api, box):
    """Its events are told anew, since nobody has them any more; and the key leads there, too."""
    key = {"Idempotency-Key": "once-4"}
    body = task("touch /workspace/begun; sleep 3; echo over", sandbox_id=box)
    with api.stream("POST", "/execute", body, key) as stream:
        first = next(iter(stream))
    eventually(lambda: api.exec(box, "ls /workspace")["stdout"] == "begun\n")
    kill_daemon(api.server, api)
    run_id = first.data["request_id"]
    last = {"Last-Event-ID": f"{run_id}:5000"}
    for method, path, headers in (("GET", f"/execute/{run_id}", last), ("POST", "/execute", {**key}), ("POST", "/execute", last)):
        with api.stream(method, path, body if method == "POST" else None, headers) as stream:
            events = stream.until("done")
        assert (events[0].name, events[0].data["resumed"]) == ("start", True)
        assert (events[-1].data["success"], events[-1].data["result"].strip()) == (True, "over"), events[-1]


# --- settings


@pytest.mark.parametrize("name", ["agents", "components"])
def test_folders_that_are_not_there(top, name):
    for path, words in (("/nonexistent", f"{name}: open '/nonexistent'"), ("here", f"{name}: 'here' must begin with /")):
        data = tempfile.mkdtemp(prefix="own-", dir=top)
        with pytest.raises(AssertionError, match=words):
            Server(data, f"--{name}", path)
