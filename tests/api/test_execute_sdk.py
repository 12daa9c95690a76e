# SPDX-License-Identifier: Apache-2.0
"""Conversations without tools of ours: answers, turns, trouble, streams. Tools are in test_execute_sdk_tools.py."""

import json
import re
import secrets
import threading
import time

import pytest
from api_helpers import PATIENCE, at_once, eventually
from sdk_helpers import good, messages, post, talk, then, unique, use

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def boxes(client):
    return {s["id"] for s in client.ok("GET", "/sandbox?limit=1000")["sandboxes"]}


# -- plain talk


def test_plain_talk(asked, model):
    before = boxes(asked)
    prompt = unique("What is 2 + 2? [[text: 4]] [[usage: in=100 out=20 cache_read=5 cache_write=7]]")
    reply = asked("POST", "/execute/sdk", {"prompt": prompt})
    answer = reply.json
    assert answer["success"] is True and answer["result"] == "4" and answer["error"] is None
    assert answer["request_id"] == reply.headers["X-Request-Id"] and answer["timestamp"].endswith("Z")
    metadata = answer["metadata"]
    assert metadata["model"] == "claude-sonnet-5-5" and metadata["num_turns"] == 1
    assert metadata["stop_reason"] == "end_turn" and metadata["sandbox_id"] is None
    assert metadata["usage"]["input_tokens"] == 100 and metadata["usage"]["output_tokens"] == 20
    assert metadata["usage"]["cache_creation_input_tokens"] == 7 and metadata["usage"]["cache_read_input_tokens"] == 5
    assert metadata["total_cost_usd"] == pytest.approx(100 * 2e-6 + 20 * 10e-6 + 7 * 2.5e-6 + 5 * 0.1e-6)
    assert boxes(asked) == before
    [sent] = model.messages(prompt)
    assert sent["model"] == "claude-sonnet-5-5" and sent["stream"] is True and sent["max_tokens"] == 8192
    assert not {"temperature", "top_p", "top_k"} & set(sent)
    assert [b["cache_control"] for b in sent["system"]] == [{"type": "ephemeral"}]
    assert [t.get("type", t["name"]) for t in sent["tools"]] == ["TodoWrite", "web_fetch_20250910", "web_search_20250305"]


def test_the_messages_are_the_sdks(asked):
    answer = good(asked, "[[text: hello]]", model="haiku")
    first, said, last = answer["messages"]
    assert first["type"] == "system" and first["subtype"] == "init" and first["model"] == "claude-haiku-5-5"
    assert first["tools"] == ["TodoWrite", "WebFetch", "WebSearch"] and first["cwd"] == "/workspace"
    assert said["type"] == "assistant" and said["parent_tool_use_id"] is None
    assert said["message"]["content"] == [{"type": "text", "text": "hello"}]
    assert said["message"]["role"] == "assistant" and said["message"]["stop_reason"] == "end_turn"
    assert said["message"]["id"].startswith("msg_") and said["message"]["usage"]["input_tokens"] > 0
    assert last["type"] == "result" and last["subtype"] == "success" and last["is_error"] is False
    assert last["result"] == "hello" and last["num_turns"] == 1 and last["permission_denials"] == []
    assert last["total_cost_usd"] == answer["metadata"]["total_cost_usd"] > 0
    assert last["modelUsage"]["claude-haiku-5-5"]["costUSD"] == last["total_cost_usd"]
    assert last["duration_ms"] >= last["duration_api_ms"] >= 0
    sessions = {m["session_id"] for m in answer["messages"]}
    assert len(sessions) == 1 and UUID.fullmatch(sessions.pop())
    ids = [m["uuid"] for m in answer["messages"]]
    assert len(set(ids)) == 3 and all(UUID.fullmatch(i) for i in ids)


@pytest.mark.parametrize(("asked_for", "id_"), [("opus", "claude-opus-5-5"), ("claude-sonnet-4-5", "claude-sonnet-4-5")])
def test_models(asked, model, asked_for, id_):
    prompt = unique("[[text: x]]")
    answer = asked.ok("POST", "/execute/sdk", {"prompt": prompt, "options": {"model": asked_for}})
    assert answer["metadata"]["model"] == id_ and model.messages(prompt)[0]["model"] == id_


def test_system_prompts(asked, model):
    def sent(**options):
        prompt = unique("[[text: x]]")
        asked.ok("POST", "/execute/sdk", {"prompt": prompt, "options": options})
        return model.messages(prompt)[0]

    own = sent()["system"][0]["text"]
    assert own and sent(append_system_prompt="Be kind.")["system"][0]["text"] == own + "\n\nBe kind."
    assert sent(system_prompt="Only this.")["system"][0]["text"] == "Only this."
    assert sent(system_prompt="This", append_system_prompt="that")["system"][0]["text"] == "This\n\nthat"
    assert sent(system_prompt="", append_system_prompt="that")["system"][0]["text"] == "that"
    assert "system" not in sent(system_prompt="")
    assert "tools" not in sent(allowed_tools=[])
    assert [t["name"] for t in sent(allowed_tools=["Bash", "Read", "Bash"])["tools"]] == ["Bash", "Read"]
    assert sent(max_tokens=100)["max_tokens"] == 100


def test_a_long_prompt(asked):
    assert good(asked, "[[text: long]]" + "\u00e9\n\x01" * 100000)["result"] == "long"


def test_the_web_is_the_apis_own(asked):
    answer = good(asked, "[[websearch: cays]] [[webfetch: https://example.com/]] [[usage: in=1 out=1 web_search=2]]")
    kinds = [b["type"] for b in messages(answer, "assistant")[0]["message"]["content"]]
    assert {"server_tool_use", "web_search_tool_result", "web_fetch_tool_result"} <= set(kinds)
    assert answer["metadata"]["usage"]["server_tool_use"]["web_search_requests"] == 2
    assert answer["metadata"]["total_cost_usd"] == pytest.approx(2e-6 + 10e-6 + 0.02)


def test_a_paused_turn_goes_on(asked, model):
    prompt = unique("[[pause_turn]] [[then: text: and on]]")
    answer = asked.ok("POST", "/execute/sdk", {"prompt": prompt})
    assert answer["success"] and answer["metadata"]["num_turns"] == 2
    first, second = model.messages(prompt)
    assert [m["role"] for m in second["messages"]] == ["user", "assistant"]
    assert second["messages"][:1] == first["messages"]


def test_thinking_goes_back_as_it_came(asked):
    todo = use("TodoWrite", todos=[])
    answer = good(asked, f"[[thinking: hm]] [[redacted]] {todo} {then('[[text: done]]')}")
    assert answer["result"] == "done"  # the stand-in refuses what was changed
    assert messages(answer, "assistant")[0]["message"]["content"][0]["thinking"] == "hm"


# -- ends that are no success


def test_a_refusal(asked):
    answer = talk(asked, "[[refusal]]")
    assert answer["success"] is False and answer["error_code"] == "MODEL_REFUSED" and answer["result"] == ""
    assert answer["metadata"]["stop_reason"] == "refusal"
    assert messages(answer, "result")[0]["is_error"] is True


def test_max_tokens(asked):
    answer = talk(asked, "[[text: 1234567890]] [[max_tokens]]")
    assert answer["success"] is False and answer["error_code"] == "MAX_TOKENS"
    assert answer["result"] and "1234567890".startswith(answer["result"]) and answer["metadata"]["stop_reason"] == "max_tokens"


def test_a_stop_that_nobody_knows(asked):
    answer = talk(asked, "[[text: x]] [[stop: tired]]")
    assert answer["success"] is False and answer["error_code"] == "API_ERROR" and answer["result"] == "x"
    assert talk(asked, "[[text: x]] [[stop: stop_sequence]]")["success"] is True
    assert talk(asked, "[[text: x]] [[stop: model_context_window_exceeded]]")["error_code"] == "MAX_TOKENS"


def test_turns_run_out(asked):
    todo = use("TodoWrite", todos=[{"content": "a", "status": "pending"}])
    answer = talk(asked, todo + then(todo) + then(todo), max_turns=2)
    assert answer["success"] is False and answer["error_code"] == "MAX_TURNS" and answer["metadata"]["num_turns"] == 2
    last = answer["messages"][-1]
    assert last["subtype"] == "error_max_turns" and last["is_error"] and "result" not in last
    assert last["errors"] == ["Reached maximum number of turns (2)"]
    assert len(messages(answer, "user")) == 1  # what nobody would hear of is not done
    assert talk(asked, "[[pause_turn]] [[then: pause_turn]]", max_turns=1)["error_code"] == "MAX_TURNS"


# -- trouble with the API

FAULTS = [
    ("[[status: 400 message=too+odd]]", 400, "INVALID_REQUEST", "too odd"),
    ("[[status: 413]]", 400, "INVALID_REQUEST", ""),
    ("[[status: 401]]", 401, "AUTH_ERROR", "key"),
    ("[[status: 403]]", 401, "AUTH_ERROR", ""),
    ("[[status: 429 retry-after=0]]", 429, "RATE_LIMITED", ""),
    ("[[status: 529 retry-after=0]]", 502, "API_ERROR", "overloaded"),
    ("[[status: 500 retry-after=0]]", 502, "API_ERROR", ""),
    ("[[status: 500 should-retry=false]]", 502, "API_ERROR", ""),
    ("[[status: 400 type=garbled]]", 400, "INVALID_REQUEST", ""),
]


@pytest.mark.parametrize(("marker", "status", "code", "words"), FAULTS)
def test_faults(asked, marker, status, code, words):
    reply = post(asked, f"{marker} [[text: x]]")
    error = reply.error(status, code, words)
    stored = asked("GET", f"/execute/{error['request_id']}")
    assert stored.status == status and stored.json == error
    listed = [r for r in asked.ok("GET", "/execute?kind=sdk")["results"] if r["request_id"] == error["request_id"]]
    assert listed[0]["error_code"] == code and listed[0]["success"] is False


@pytest.mark.parametrize("marker", ["[[break: 3]]", "[[break: 3 how=end]]", "[[error-event: overloaded_error after=3]]"])
def test_a_stream_that_breaks_is_no_success(asked, marker):
    post(asked, f"{marker} [[text: a long text that breaks off somewhere]]").error(502, "API_ERROR")


@pytest.mark.parametrize("marker", ["[[break: 3 times=1]]", "[[status: 500 retry-after=0 times=2]]",
                                    "[[error-event: api_error after=3 times=1]]"])
def test_trouble_that_passes(asked, marker):
    answer = good(asked, f"{marker} [[text: whole again]]")
    assert answer["result"] == "whole again" and len(messages(answer, "assistant")) == 1
    retries = [m for m in answer["messages"] if m.get("subtype") == "api_retry"]
    assert retries and retries[0]["attempt"] >= 1 and retries[0]["retry_delay_ms"] >= 0


def test_trouble_in_a_later_turn_tells_what_was_spent(asked):
    todo = use("TodoWrite", todos=[])
    error = post(asked, f"{todo} [[usage: in=1000 out=1]] {then('[[status: 400]]')}").error(400, "INVALID_REQUEST")
    assert error["details"]["num_turns"] == 1 and error["details"]["usage"]["input_tokens"] == 1000
    assert error["details"]["total_cost_usd"] == pytest.approx(1000 * 2e-6 + 10e-6)


def test_it_takes_too_long(asked, model):
    prompt = unique("[[hang: 2]] [[text: never]]")
    reply = asked("POST", "/execute/sdk", {"prompt": prompt, "options": {"timeout": 500}})
    reply.error(504, "EXECUTION_TIMEOUT", "500 ms")
    eventually(lambda: [r["state"] for r in model.requests(prompt)] == ["client-gone"])


def test_when_to_come_again(asked):
    reply = post(asked, "[[status: 429 retry-after=7 should-retry=false]]")
    reply.error(429, "RATE_LIMITED")
    assert reply.headers["Retry-After"] == "7"


def test_there_is_no_key(api):
    post(api, "x").error(503, "MISSING_API_KEY", "ANTHROPIC_API_KEY")


# -- what is refused

BAD = [
    ({}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": " \n"}, "prompt"),
    ({"prompt": 1}, "prompt"),
    ({"prompt": "a\u0000b"}, "prompt"),
    ({"prompt": "x", "question": "y"}, "question"),
    ({"prompt": "x", "options": []}, "options"),
    ({"prompt": "x", "options": {"maxTurns": 1}}, "max_turns"),
    ({"prompt": "x", "options": {"zzz": 1}}, "include_partial_messages"),
    ({"prompt": "x", "options": {"max_turns": 0}}, "max_turns"),
    ({"prompt": "x", "options": {"max_turns": 201}}, "max_turns"),
    ({"prompt": "x", "options": {"max_turns": "2"}}, "max_turns"),
    ({"prompt": "x", "options": {"max_tokens": 0}}, "max_tokens"),
    ({"prompt": "x", "options": {"timeout": 0}}, "timeout"),
    ({"prompt": "x", "options": {"temperature": 0.5}}, "temperature"),
    ({"prompt": "x", "options": {"model": "a b"}}, "model"),
    ({"prompt": "x", "options": {"model": "../x"}}, "model"),
    ({"prompt": "x", "options": {"allowed_tools": ["Bash(ls)"]}}, "RunCode"),
    ({"prompt": "x", "options": {"allowed_tools": ["bash"]}}, "'bash'"),
    ({"prompt": "x", "options": {"allowed_tools": "Bash"}}, "allowed_tools"),
    ({"prompt": "x", "options": {"allowed_tools": ["Bash"] * 33}}, "allowed_tools"),
    ({"prompt": "x" * (1024 * 1024 + 1)}, "prompt"),
]


@pytest.mark.parametrize(("body", "words"), BAD)
def test_bad_requests(asked, body, words):
    asked("POST", "/execute/sdk", body).error(400, "INVALID_REQUEST", words)


def test_sandboxes_of_others(asked):
    post(asked, "x", sandbox_id="no-such-box").error(404, "NOT_FOUND")
    made = asked.ok("POST", "/tokens", {"name": unique("tenant").replace(" ", "-").replace(".", "")})
    other = type(asked)(asked.server, made["token"])
    box = asked.ok("POST", "/sandbox", {})["id"]
    post(other, "x", sandbox_id=box).error(404, "NOT_FOUND")
    answer = good(asked, "[[text: mine]]", sandbox_id=box)
    assert answer["metadata"]["sandbox_id"] == box
    other("GET", f"/execute/{answer['request_id']}").error(404, "NOT_FOUND")
    asked("DELETE", f"/sandbox/{box}")


def test_a_budget(asked):
    box = asked.ok("POST", "/sandbox", {"budget": {"tokens": 150}})["id"]
    todo = use("TodoWrite", todos=[])
    good(asked, "[[text: x]] [[usage: in=90 out=10]]", sandbox_id=box)
    steps = f"{todo} [[usage: in=90 out=10]] {then('[[text: never]]')}"
    error = post(asked, steps, sandbox_id=box).error(402, "BUDGET_EXCEEDED", "200 of 150 tokens")
    assert error["details"]["num_turns"] == 1
    assert "details" not in post(asked, "[[text: x]]", sandbox_id=box).error(402, "BUDGET_EXCEEDED")
    asked("DELETE", f"/sandbox/{box}")


# -- streams


def test_a_stream(asked):
    todo = use("TodoWrite", todos=[])
    body = {"prompt": unique(todo + then("[[text: done]]"))}
    with asked.stream("POST", "/execute/sdk", body) as stream:
        events = stream.until("done")
    assert [e.name for e in events] == ["start", *["message"] * 5, "done"]
    answer = events[-1].data
    assert events[0].data == {"request_id": answer["request_id"]}
    assert [e.data for e in events[1:-1]] == answer["messages"]
    assert [m["type"] for m in answer["messages"]] == ["system", "assistant", "user", "assistant", "result"]
    assert asked.ok("GET", f"/execute/{answer['request_id']}") == answer
    with asked.stream("GET", f"/execute/{answer['request_id']}", headers={"Last-Event-ID": events[2].id}) as rest:
        assert [e.id for e in rest.until("done")] == [e.id for e in events[3:]]


def test_pieces(asked):
    body = {"prompt": unique("[[text: one two three]] [[piece: 3]]"), "options": {"include_partial_messages": True}}
    with asked.stream("POST", "/execute/sdk", body) as stream:
        events = stream.until("done")
    pieces = [e.data for e in events if e.name == "message" and e.data["type"] == "stream_event"]
    kinds = [p["event"]["type"] for p in pieces]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    text = "".join(p["event"]["delta"]["text"] for p in pieces if p["event"]["type"] == "content_block_delta")
    assert text == "one two three" and all(p["session_id"] and p["uuid"] for p in pieces)
    assert "stream_event" not in [m["type"] for m in events[-1].data["messages"]]
    whole = [i for i, e in enumerate(events) if e.name == "message" and e.data["type"] == "assistant"][0]
    assert all(e.data["type"] == "stream_event" for e in events[2:whole])


def test_a_stream_of_an_error(asked):
    with asked.stream("POST", "/execute/sdk", {"prompt": unique("[[status: 401]]")}) as stream:
        events = stream.until("done")
    assert events[-1].data["error_code"] == "AUTH_ERROR"
    assert events[-2].data["type"] == "result" and events[-2].data["subtype"] == "error_during_execution"


def test_messages_come_as_they_happen(asked):
    prompt = unique(use("TodoWrite", todos=[]) + then("[[hang]]"))
    with asked.stream("POST", "/execute/sdk", {"prompt": prompt}) as stream:
        seen = []
        for event in stream:
            seen.append(event)
            if event.name == "message" and event.data["type"] == "user":
                break
        assert asked("GET", f"/execute/{seen[0].data['request_id']}").status == 202
        assert asked("DELETE", f"/execute/{seen[0].data['request_id']}").status == 202
        last = stream.until("done")[-1].data
    assert last["success"] is False and last["error_code"] == "CANCELLED"
    assert [m["type"] for m in last["messages"]] == ["system", "assistant", "user", "result"]


# -- clients


def test_a_client_that_goes_away(asked, model):
    prompt = unique("[[delay: 300]] [[text: nobody listens]]")
    headers, body = asked.head(None, {"prompt": prompt})
    connection = asked.connect()
    connection.request("POST", "/execute/sdk", body=body, headers=headers)
    eventually(lambda: model.requests(prompt))
    connection.close()

    def found():
        return [r for r in asked.ok("GET", "/execute?kind=sdk")["results"] if r["question"] == prompt and r["success"]]

    assert asked.ok("GET", f"/execute/{eventually(found)[0]['request_id']}")["result"] == "nobody listens"


def test_the_same_key_is_one_talk(asked, model):
    body = {"prompt": unique("[[delay: 100]] [[text: once]]")}
    headers = {"Idempotency-Key": secrets.token_hex(8)}
    first = asked("POST", "/execute/sdk", body, headers)
    second = asked("POST", "/execute/sdk", body, headers)
    assert first.json == second.json and len(model.messages(body["prompt"])) == 1


def test_cancelled_while_the_model_thinks(asked, model):
    prompt = unique("[[hang]]")
    got = []
    thread = threading.Thread(target=lambda: got.append(asked("POST", "/execute/sdk", {"prompt": prompt})))
    thread.start()
    eventually(lambda: model.requests(prompt))
    [run] = [r for r in asked.ok("GET", "/execute?kind=sdk")["results"] if r["question"] == prompt]
    assert run["state"] == "running"
    assert asked("DELETE", f"/execute/{run['request_id']}").status == 202
    thread.join(PATIENCE)
    assert got[0].status == 200 and got[0].json["error_code"] == "CANCELLED"
    eventually(lambda: [r["state"] for r in model.requests(prompt)] == ["client-gone"])


def test_many_at_once(asked):
    def one(i):
        return lambda: good(asked, f"[[text: {i}]] [[delay: 50]]")["result"]

    began = time.monotonic()
    assert at_once(*[one(i) for i in range(30)]) == [str(i) for i in range(30)]
    assert time.monotonic() - began < PATIENCE


def test_a_very_long_answer(asked):
    answer = good(asked, "[[big: 900000]]")
    assert len(answer["result"]) == 900000 and answer["messages"][-1]["type"] == "result"


def test_openapi_has_it(asked):
    described = asked.ok("GET", "/openapi.json")
    post_ = described["paths"]["/execute/sdk"]["post"]
    assert post_["operationId"] == "executeSdk"
    assert "max_turns" in json.dumps(described["components"]["schemas"])
