# SPDX-License-Identifier: Apache-2.0
"""The real OpenCode in real boxes: messages, its own API, its events, its terminal."""

import http.client
import json
import os
import urllib.parse

import pytest
import ws_helpers
from agents_helpers import eventually, make_box
from api_helpers import at_once, kill_daemon


@pytest.fixture(scope="module")
def talker(api):
    """A sandbox whose OpenCode several tests talk to."""
    name = make_box(api, "talker")
    yield name
    api("DELETE", f"/sandbox/{name}")


def say(api, box, text, **more):
    return api("POST", f"/sandbox/{box}/message", {"message": text, **more})


def said(api, box, text, **more):
    reply = say(api, box, text, **more)
    assert reply.status == 200, reply
    return reply.json


def process_of(api, box):
    return api.ok("GET", f"/sandbox/{box}/processes/opencode")["process"]


def test_first_messages_at_once_start_one_server(api, box):
    one, two = at_once(
        lambda: said(api, box, "[[text: the first answer]]"),
        lambda: said(api, box, "[[text: the other answer]]"),
    )
    assert one["success"] is True and one["response"] == "the first answer"
    assert two["response"] == "the other answer" and one["sessionId"] != two["sessionId"]
    assert [p["type"] for p in one["parts"]] == ["step-start", "text", "step-finish"]
    assert one["info"]["modelID"] == "claude-sonnet-5-5"
    listed = [p["id"] for p in api.ok("GET", f"/sandbox/{box}/processes")["processes"]]
    assert listed == ["opencode"]


def test_a_session_is_gone_on_with(api, talker, model):
    first = said(api, talker, "[[text: I keep it]] remember the word brindle")
    second = said(api, talker, "[[text: it was brindle]] which word, asks marl", sessionId=first["sessionId"])
    assert second["sessionId"] == first["sessionId"] and second["response"] == "it was brindle"
    asked = [m for m in model.messages("asks marl") if "brindle" in json.dumps(m)]
    assert asked and len(asked[-1]["messages"]) >= 3


def test_a_tool_works_in_the_workspace(api, talker):
    call = json.dumps({"filePath": "/workspace/made.txt", "content": "by a tool"})
    made = said(api, talker, f"[[tool: write {call}]] [[then: text: written]]")
    assert made["response"] == "written"
    assert api.exec(talker, "cat /workspace/made.txt")["stdout"] == "by a tool"


@pytest.mark.parametrize(
    ("model_name", "asked"),
    [
        ("haiku", "claude-haiku-5-5"),
        ("anthropic/claude-opus-5-5", "claude-opus-5-5"),
        ({"providerID": "anthropic", "modelID": "claude-opus-5-5"}, "claude-opus-5-5"),
    ],
)
def test_a_model_is_named(api, talker, model_name, asked):
    assert said(api, talker, "[[text: yes]]", model=model_name)["info"]["modelID"] == asked


def test_what_fails_is_told(api, talker):
    say(api, talker, "[[status: 401]] x").error(401, "AUTH_ERROR", "401")
    failed = say(api, talker, "[[status: 400 message=so+it+is]] y").error(502, "API_ERROR", "so it is")
    assert failed["details"]["sessionId"].startswith("ses_")
    say(api, talker, "x", sessionId="ses_nobody").error(404, "NOT_FOUND", "ses_nobody")
    say(api, talker, "x", model="anthropic/claude-nobody").error(502, "AGENT_FAILED", "anthropic/claude-nobody")


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"message": " \n"}, "message"),
        ({"message": "x", "sessionId": "../x"}, "sessionId"),
        ({"message": "x", "directory": "there"}, "directory"),
        ({"message": "x", "model": "a b/c"}, "model"),
        ({"message": "x", "model": 7}, "model"),
        ({"message": "x", "model": {"providerID": "x"}}, "model"),
        ({"message": "x", "config": []}, "config"),
        ({"message": "x", "timeout": 0}, "timeout"),
    ],
)
def test_what_makes_no_sense_is_refused(api, talker, body, word):
    api("POST", f"/sandbox/{talker}/message", body).error(400, "INVALID_REQUEST", word)


def test_a_timeout_ends_the_work(api, talker):
    session = said(api, talker, "[[text: begun]]")["sessionId"]
    slow = {"timeout": 3000, "sessionId": session}
    say(api, talker, "[[delay: 60000]] until kingdom come", **slow).error(504, "EXECUTION_TIMEOUT", "3000 ms")
    path = f"/sandbox/{talker}/opencode/session/status"
    eventually(lambda: session not in api.ok("GET", path))
    assert said(api, talker, "[[text: still here]]")["response"] == "still here"


def test_a_client_that_leaves_has_it_aborted(api, talker):
    session = said(api, talker, "[[text: begun]]")["sessionId"]
    path = f"/sandbox/{talker}/opencode/session/status"
    headers, body = api.head(None, {"message": "[[delay: 60000]] nobody waits", "sessionId": session})
    connection = api.connect()
    connection.request("POST", f"/sandbox/{talker}/message", body=body, headers=headers)
    eventually(lambda: session in api.ok("GET", path))
    connection.close()
    eventually(lambda: session not in api.ok("GET", path))


@pytest.mark.long
def test_its_work_keeps_the_sandbox_awake(api):
    box = make_box(api, "wakeful", sleepAfter=2)
    assert said(api, box, "[[delay: 6000]] [[text: at last]]")["response"] == "at last"
    assert api.ok("GET", f"/sandbox/{box}")["boxes"] == 1
    api("DELETE", f"/sandbox/{box}")


def test_no_model_no_message(api):
    api.ok("PUT", "/sandbox/without", {"memory": "2g"})
    say(api, "without", "x").error(403, "FORBIDDEN", '"secrets": ["anthropic"]')
    api("DELETE", "/sandbox/without")


@pytest.mark.long
def test_a_budget_that_is_used_up(api):
    box = make_box(api, "poor", budget={"tokens": 1})
    say(api, box, "[[text: too much]]").error(402, "BUDGET_EXCEEDED", "budget", "spent of")  # as OpenCode was told
    say(api, box, "[[text: more]]").error(402, "BUDGET_EXCEEDED", "budget")  # and before it is asked
    api("DELETE", f"/sandbox/{box}")


def test_too_little_memory_is_named(api):
    box = make_box(api, "small", memory="128m")
    say(api, box, "x").error(507, "OUT_OF_MEMORY", "memory", "2g")
    api("DELETE", f"/sandbox/{box}")


def test_its_own_api_by_path(api, talker):
    path = f"/sandbox/{talker}/opencode"
    shown = api.ok("GET", f"/sandbox/{talker}")
    assert urllib.parse.urlsplit(shown["opencodeUrl"]).path == path
    assert api.ok("GET", f"{path}/global/health")["healthy"] is True
    assert api("GET", path).status == 308
    made = api.ok("POST", f"{path}/session", {"title": "by path"}, {"Content-Type": "application/json"})
    assert made["title"] == "by path"
    assert api.ok("GET", f"{path}/session/{made['id']}")["id"] == made["id"]
    assert api("DELETE", f"{path}/session/{made['id']}").status == 200
    assert api("GET", f"{path}/config", headers={"Authorization": None}).status == 401


def test_its_events_come_live(api, talker):
    headers, _ = api.head({"Accept": "text/event-stream"}, None)
    connection = api.connect()
    connection.request("GET", f"/sandbox/{talker}/opencode/event", headers=headers)
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Type"].startswith("text/event-stream")

    def event():
        while True:
            line = response.readline()
            assert line, "it ended"
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    assert event()["type"] == "server.connected"
    session = said(api, talker, "[[text: seen by many]]")["sessionId"]
    while True:
        seen = event()
        if seen["type"] == "session.idle" and seen["properties"]["sessionID"] == session:
            break
    connection.close()


def test_its_terminal_by_websocket(api, talker):
    path = f"/sandbox/{talker}/opencode/pty"
    made = api.ok("POST", path, {"command": "/bin/sh", "args": []}, {"Content-Type": "application/json"})
    with ws_helpers.connect(api, f"{path}/{made['id']}/connect") as ws:
        ws.send(ws_helpers.TEXT, b"echo $((40+2))-in-the-box\n")
        shown = b""
        while b"42-in-the-box" not in shown:
            shown += ws.recv()[1]


def test_its_pages_by_host(api, talker):
    opened = api.ok("POST", f"/sandbox/{talker}/ports", {"port": 4096, "name": "opencode"})
    shown = api.ok("GET", f"/sandbox/{talker}")
    assert shown["opencodeUiUrl"] == opened["url"]
    host = urllib.parse.urlsplit(opened["url"]).netloc
    api.ok("DELETE", f"/sandbox/{talker}/processes/opencode")
    api.ended(talker, "opencode")  # and it starts it, too
    connection = http.client.HTTPConnection("127.0.0.1", api.server.port, timeout=120)
    connection.request("GET", "/", headers={"Host": host, "Accept": "text/html"})
    page = connection.getresponse()
    text = page.read()
    assert page.status == 200 and b"/assets/" in text
    connection.close()


def test_one_that_dies_is_started_again(api, talker):
    session = said(api, talker, "[[text: before]]")["sessionId"]
    before = process_of(api, talker)["pid"]
    api.exec(talker, f"kill -9 {before}")
    api.ended(talker, "opencode")
    again = said(api, talker, "[[text: after]]", sessionId=session)
    assert again["response"] == "after" and process_of(api, talker)["pid"] != before


@pytest.mark.long
def test_it_sleeps_and_wakes(api, talker):
    session = said(api, talker, "[[text: tired]]")["sessionId"]
    api.ok("POST", f"/sandbox/{talker}/sleep")
    assert said(api, talker, "[[text: awake]]", sessionId=session)["response"] == "awake"


def test_a_killed_daemon_finds_it_again(make_server):
    from agents_helpers import Client

    server = make_server("--boxes", "8", "--pool", "1")
    api = Client(server)
    box = make_box(api, "kept")
    session = said(api, box, "[[text: one]]")["sessionId"]
    before = process_of(api, box)["pid"]
    kill_daemon(server, api)
    assert said(api, box, "[[text: two]]", sessionId=session)["response"] == "two"
    assert process_of(api, box)["pid"] == before


def test_an_idempotency_key_asks_once(api, talker, model):
    key = {"Idempotency-Key": f"say-{os.getpid()}"}
    body = {"message": "[[text: once]] only once, gneiss"}
    first = api("POST", f"/sandbox/{talker}/message", body, key)
    second = api("POST", f"/sandbox/{talker}/message", body, key)
    assert first.body == second.body and first.json["response"] == "once"
    assert len([m for m in model.messages("only once, gneiss") if m.get("tools")]) == 1
