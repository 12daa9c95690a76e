# SPDX-License-Identifier: Apache-2.0
"""The stand-in itself: what it is told to say it says, as the API would, and what the API refuses it refuses."""

import base64
import http.client
import json
import pathlib
import subprocess
import sys
import time
import urllib.parse

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "launcher"))

import clients  # noqa: E402
from standin_helper import StandIn  # noqa: E402

PATIENCE = 60
MODEL = "claude-sonnet-5-5"
TOOL = {"name": "Write", "description": "writes", "input_schema": {"type": "object", "properties": {}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@pytest.fixture(scope="module")
def model():
    with StandIn() as stand_in:
        yield stand_in


class Asker:
    def __init__(self, model):
        self.model = model
        self.at = urllib.parse.urlsplit(model.url)

    def send(self, body, path="/v1/messages?beta=true", **headers):
        connection = http.client.HTTPConnection(self.at.hostname, self.at.port, timeout=PATIENCE)
        said = {"x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json"}
        said |= {name.replace("_", "-"): value for name, value in headers.items()}
        said = {name: value for name, value in said.items() if value is not None}
        connection.request("POST", path, body=body if isinstance(body, (str, bytes)) else json.dumps(body), headers=said)
        return connection.getresponse()

    def raw(self, text, **more):
        messages = more.pop("messages", None) or [{"role": "user", "content": text}]
        return self.send({"model": MODEL, "max_tokens": 1000, "messages": messages} | more)

    def __call__(self, text, **more):
        response = self.raw(text, **more)
        body = json.loads(response.read())
        assert response.status == 200 and response.headers["x-stand-in"] == "1", body
        return body

    def events(self, text, **more):
        """The events of a stream, as far as it came."""
        data = b""
        try:
            for line in self.raw(text, stream=True, **more):
                data += line
        except (http.client.IncompleteRead, ConnectionError):
            pass
        return [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]

    def refused(self, status, kind, words, body):
        response = self.send(body)
        said = json.loads(response.read())
        assert (response.status, said["type"], said["error"]["type"]) == (status, "error", kind), said
        assert words in said["error"]["message"], said


@pytest.fixture(scope="module")
def ask(model):
    return Asker(model)


def text_of(message):
    return "".join(block.get("text", "") for block in message["content"])


def joined(events):
    """What a client makes of a stream."""
    message, parts = None, {}
    for event in events:
        if event["type"] == "message_start":
            message = event["message"]
        elif event["type"] == "content_block_start":
            assert event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            block, delta = message["content"][event["index"]], event["delta"]
            if delta["type"] == "input_json_delta":
                parts[event["index"]] = parts.get(event["index"], "") + delta["partial_json"]
            else:
                name = delta["type"].removesuffix("_delta")
                block[name] = block.get(name, "") + delta[name]
        elif event["type"] == "message_delta":
            message |= event["delta"] | {"usage": event["usage"]}
    for index, text in parts.items():
        message["content"][index]["input"] = json.loads(text or "{}")
    return message


# --- what is said


def test_code_bare_fenced_and_in_prose(ask):
    assert text_of(ask("please [[code: print([[1], [2]])]]")) == "print([[1], [2]])"
    assert text_of(ask("[[code:\nfor i in x:\n    print(i)\n]][[fence]]")) == "```python\nfor i in x:\n    print(i)\n```"
    assert text_of(ask("[[code: 1]][[fence: js]]")) == "```js\n1\n```"
    prose = text_of(ask("[[code: 1]][[prose]]"))
    assert "```python\n1\n```" in prose and prose.startswith("Sure") and not prose.endswith("```")


def test_values_with_brackets_of_their_own(ask):
    code = 'print("]]")  # ['
    assert text_of(ask(f"[[code-b64: {base64.b64encode(code.encode()).decode()}]]")) == code


def test_what_is_no_marker(ask):
    assert "has heard: [[1, 2]] [[nothing: x]]" in text_of(ask("[[1, 2]] [[nothing: x]]"))


def test_without_markers(ask):
    assert text_of(ask("add", system="Answer with Python code only.")) == 'print("hello from the stand-in")'
    assert "console.log" in text_of(ask("add", system=[{"type": "text", "text": "JavaScript code"}]))
    assert "has heard: add" in text_of(ask("add"))


@pytest.mark.parametrize(
    "text",
    [
        "[[code: print('a longer text, in more than one piece: äöü €')]] [[thinking: hm]]",
        '[[tool: write {"path": "/a", "n": [[1]]}]] [[tool: Write]] [[text: two tools]]',
        "[[websearch: cats]] [[text: about cats]] [[usage: in=5 out=7 cache_read=3 cache_write=2 cache_1h=1]]",
        "[[refusal]]",
        "[[big: 100000]]",
    ],
)
@pytest.mark.parametrize("how", ["", "[[split: 1]]", "[[crlf]]", "[[piece: 1]]"])
def test_streamed_and_whole_are_the_same(ask, text, how):
    if how and "big" in text:
        how = ""
    whole = ask(text + how, tools=[TOOL, SEARCH])
    streamed = joined(ask.events(text + how, tools=[TOOL, SEARCH]))
    for message in (whole, streamed):
        message.pop("id")
        for block in message["content"]:
            block.pop("id", None), block.pop("tool_use_id", None)
    whole["usage"].pop("input_tokens"), streamed["usage"].pop("input_tokens")  # the request was longer
    assert whole == streamed


def test_the_order_of_events(ask):
    names = [event["type"] for event in ask.events("[[code: 1]]")]
    assert names == ["message_start", "content_block_start", "ping", "content_block_delta", "content_block_stop",
                     "message_delta", "message_stop"]


def test_odd_streams_say_the_same(ask):
    events = ask.events("[[code: 1]] [[odd]]")
    assert {"vibe_check"} < {event["type"] for event in events}
    known = [e for e in events if e.get("delta", {}).get("type") != "vibe_delta"]
    assert text_of(joined(known)) == "1"


def test_tools_and_their_results(ask):
    first = ask('[[tool: write {"a": 1}]] [[tool: Write {"a": 2}]]', tools=[TOOL])
    assert first["stop_reason"] == "tool_use"
    assert [(b["name"], b["input"]) for b in first["content"]] == [("Write", {"a": 1}), ("Write", {"a": 2})]
    results = [{"type": "tool_result", "tool_use_id": b["id"], "content": f"did {b['input']['a']}"} for b in first["content"]]
    results[1]["is_error"] = True
    asked = [{"role": "user", "content": '[[tool: Write {"a": 1}]]'}, {"role": "assistant", "content": first["content"]}]
    second = ask("", messages=asked + [{"role": "user", "content": results}], tools=[TOOL])
    assert text_of(second) == "The tools said: did 1; error: did 2" and second["stop_reason"] == "end_turn"


def test_then(ask):
    text = "[[code: 1/0]] [[then: code: print(1)]] [[then: [[text: three]] [[refusal]]]]"
    messages = [{"role": "user", "content": text}]
    said = []
    for _ in range(4):
        answer = ask("", messages=messages)
        said.append((text_of(answer), answer["stop_reason"]))
        messages += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "it failed [[1]]"}]
    assert said == [("1/0", "end_turn"), ("print(1)", "end_turn"), ("three", "refusal"), ("three", "refusal")]


def test_without_then_the_same_again(ask):
    asked = [{"role": "user", "content": "[[code: 1/0]]"}, {"role": "assistant", "content": "1/0"}]
    assert text_of(ask("", messages=asked + [{"role": "user", "content": "an error"}])) == "1/0"


# --- how it ends


def test_endings(ask):
    assert ask("[[refusal]]")["content"] == []
    assert ask("[[refusal: no]]")["stop_details"]["explanation"] == "no"
    cut = ask("[[code: print(12345678)]] [[max_tokens]]")
    assert cut["stop_reason"] == "max_tokens" and "print(12345678)".startswith(text_of(cut))
    short = ask("[[text: " + "word " * 100 + "]]", max_tokens=3)
    assert short["stop_reason"] == "max_tokens" and len(text_of(short)) == 12
    stopped = ask("[[text: one two three]]", stop_sequences=["two"])
    assert (stopped["stop_reason"], stopped["stop_sequence"], text_of(stopped)) == ("stop_sequence", "two", "one ")
    assert ask("[[stop: model_context_window_exceeded]]")["stop_reason"] == "model_context_window_exceeded"


def test_pauses(ask):
    first = ask("[[pause_turn]]", tools=[SEARCH])
    assert first["stop_reason"] == "pause_turn" and first["usage"]["server_tool_use"]["web_search_requests"] == 1
    messages = [{"role": "user", "content": "[[pause_turn]]"}, {"role": "assistant", "content": first["content"]}]
    assert ask("", messages=messages, tools=[SEARCH])["stop_reason"] == "end_turn"


def test_usage_and_model(ask):
    said = ask("[[usage: in=1 out=2 cache_read=3 cache_write=4 cache_1h=5 web_search=6 web_fetch=7]] [[model: claude-x]]")
    usage = said["usage"]
    assert said["model"] == "claude-x"
    assert (usage["input_tokens"], usage["output_tokens"], usage["cache_read_input_tokens"]) == (1, 2, 3)
    assert usage["cache_creation_input_tokens"] == 9
    assert usage["cache_creation"] == {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 5}
    assert usage["server_tool_use"] == {"web_search_requests": 6, "web_fetch_requests": 7}


# --- trouble


def test_statuses(ask):
    response = ask.raw("[[status: 429 retry-after=3 should-retry=false message=slow+down]]")
    body = json.loads(response.read())
    assert response.status == 429 and response.headers["retry-after"] == "3" and response.headers["x-should-retry"] == "false"
    assert body["error"] == {"type": "rate_limit_error", "message": "slow down"} and body["request_id"]
    for status, kind in ((401, "authentication_error"), (500, "api_error"), (529, "overloaded_error")):
        response = ask.raw(f"[[status: {status}]]")
        assert (response.status, json.loads(response.read())["error"]["type"]) == (status, kind)


def test_faults_that_pass_are_counted_for_each_text(ask):
    text = "[[status: 500 times=2]] [[status: 529 times=1]] [[text: fine]] "
    for name in ("a", "b"):
        assert [ask.raw(text + name).status for _ in range(5)] == [500, 500, 529, 200, 200]


def test_broken_streams(ask):
    assert [e["type"] for e in ask.events("[[break: 3]]")] == ["message_start", "content_block_start", "ping"]
    assert ask.events("[[break: 2 how=reset]]")[:2] != []
    response = ask.raw("[[break: 1 how=end]]", stream=True)
    assert b"message_stop" not in response.read()  # and HTTP had its end
    with pytest.raises(http.client.IncompleteRead):
        ask.raw("[[break: 1]]").read()
    assert [e["type"] for e in ask.events("[[break: 2 times=1]] once")][-1] == "content_block_start"
    assert [e["type"] for e in ask.events("[[break: 2 times=1]] once")][-1] == "message_stop"


def test_an_error_inside(ask):
    events = ask.events("[[error-event: overloaded_error after=3]]")
    assert [e["type"] for e in events] == ["message_start", "content_block_start", "ping", "error"]
    assert events[-1]["error"]["type"] == "overloaded_error"
    assert ask.raw("[[error-event: overloaded_error]]").status == 529


def test_garbage_and_redirects(ask):
    assert b"<html>" in ask.raw("[[garbage]]").read()
    response = ask.raw("[[redirect: http://127.0.0.1:1/x]]")
    assert response.status == 302 and response.headers["location"] == "http://127.0.0.1:1/x"


def test_slow_delayed_and_left(ask, model):
    start = time.monotonic()
    ask.events("[[slow: 20]] [[delay: 50]]")
    assert time.monotonic() - start >= 0.05 + 6 * 0.02
    for text in ("[[hang]] left", "[[hang: 2]] left", "[[slow: 60000]] left"):
        connection = http.client.HTTPConnection(ask.at.hostname, ask.at.port, timeout=PATIENCE)
        body = {"model": MODEL, "max_tokens": 10, "stream": True, "messages": [{"role": "user", "content": text}]}
        connection.request("POST", "/v1/messages", json.dumps(body), {
            "x-api-key": "k", "anthropic-version": "2026-10-21", "content-type": "application/json"})
        until(lambda text=text: states(model, text) == ["open"])
        connection.close()
        until(lambda text=text: states(model, text) == ["client-gone"])


def states(model, text):
    return [request["state"] for request in model.requests(text)]


def until(check):
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end
        time.sleep(0.02)


# --- what is refused


def request(**more):
    return {"model": MODEL, "max_tokens": 10, "messages": [{"role": "user", "content": "x"}]} | more


def user(*content):
    return {"role": "user", "content": list(content)}


def assistant(*content):
    return {"role": "assistant", "content": list(content)}


USE = {"type": "tool_use", "id": "t1", "name": "Write", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
SAY = {"type": "text", "text": "x"}
MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    "words, body",
    [
        ("temperature", request(temperature=1)),
        ("top_p", request(top_p=0.9)),
        ("top_k", request(top_k=None)),
        ("model: Field required", {"max_tokens": 1, "messages": []}),
        ("max_tokens: Field required", {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}),
        ("max_tokens", request(max_tokens=0)),
        ("max_tokens", request(max_tokens=True)),
        ("maximum allowed", request(max_tokens=200000)),
        ("messages", request(messages=[])),
        ("role", request(messages=[{"role": "tool", "content": "x"}])),
        ("non-empty", request(messages=[{"role": "user", "content": ""}])),
        ("non-empty", request(messages=[user()])),
        ("non-empty", request(messages=[user({"type": "text", "text": ""})])),
        ("non-whitespace", request(messages=[{"role": "user", "content": " \n"}])),
        ("first message", request(messages=[assistant(SAY)])),
        ("prefill", request(messages=[user(SAY), assistant(SAY)])),
        ("without `tool_result`", request(messages=[user(SAY), assistant(USE), user(SAY)], tools=[TOOL])),
        ("without `tool_result`", request(messages=[user(SAY), assistant(USE)], tools=[TOOL])),
        ("unexpected `tool_use_id`", request(messages=[user(RESULT)], tools=[TOOL])),
        ("unexpected `tool_use_id`", request(messages=[user(SAY), assistant(SAY), user(RESULT)], tools=[TOOL])),
        ("single result", request(messages=[user(SAY), assistant(USE), user(RESULT, RESULT)], tools=[TOOL])),
        ("come first", request(messages=[user(SAY), assistant(USE), user(SAY, RESULT)], tools=[TOOL])),
        ("define tools", request(messages=[user(SAY), assistant(USE), user(RESULT)])),
        ("is_error", request(messages=[user(SAY), assistant(USE), user(RESULT | {"content": "", "is_error": True})],
                             tools=[TOOL])),
        ("input", request(messages=[user(SAY), assistant(USE | {"input": "x"}), user(RESULT)], tools=[TOOL])),
        ("signature", request(messages=[user(SAY), assistant({"type": "thinking", "thinking": "a", "signature": "b"}),
                                        user(SAY)])),
        ("unique", request(tools=[TOOL, TOOL])),
        ("input_schema", request(tools=[{"name": "x"}])),
        ("name", request(tools=[TOOL | {"name": "a b"}])),
        ("there is no tool", request(tools=[{"type": "web_surf_20250305", "name": "web_surf"}])),
        ("must be web_search", request(tools=[SEARCH | {"name": "WebSearch"}])),
        ("tool_choice", request(tools=[TOOL], tool_choice={"type": "tool", "name": "Read"})),
        ("maximum of 4", request(system=[SAY | MARK] * 5)),
        ("budget_tokens", request(thinking={"type": "enabled", "budget_tokens": 10})),
        ("effort", request(output_config={"effort": "much"})),
        ("stream", request(stream="yes")),
    ],
)
def test_bad_requests(ask, words, body):
    ask.refused(400, "invalid_request_error", words, body)


def test_other_refusals(ask):
    ask.refused(404, "not_found_error", "model: sonnet", request(model="sonnet"))
    assert ask.send("{", content_type="application/json").status == 400
    assert ask.send(request(), anthropic_version=None).status == 400
    assert ask.send(request(), anthropic_version="2020-01-01").status == 400
    assert ask.send(request(), content_type="text/plain").status == 400


def test_good_requests(ask):
    system = {"role": "system", "content": "a word in between"}
    chat = [user(SAY), assistant(USE), system, user(RESULT, SAY), assistant(SAY), user(SAY)]
    full = request(messages=chat, tools=[TOOL, SEARCH], system=[SAY | MARK], nobody_knows_this=1, stream=False,
                   thinking={"type": "adaptive"}, output_config={"effort": "high"}, metadata={"user_id": "u"})
    assert ask.send(full).status == 200
    assert ask.send(full, anthropic_version="2026-10-21", x_api_key=None, authorization="Bearer t").status == 200


def test_keys(ask):
    assert ask.send(request(), x_api_key=None).status == 401
    assert ask.send(request(), x_api_key="sk-bad-key").status == 401
    assert ask.send(request(), x_api_key=None, authorization="Bearer stale-1").status == 401
    assert ask.send(request(), x_api_key=None, authorization="Basic x").status == 401


def renew(ask, refresh, kind="application/json"):
    given = {"grant_type": "refresh_token", "client_id": "c", "refresh_token": refresh}
    body = json.dumps(given) if kind == "application/json" else urllib.parse.urlencode(given)
    response = ask.send(body, "/oauth/token", x_api_key=None, anthropic_version=None, content_type=kind)
    return response.status, json.loads(response.read())


def test_renewal(ask):
    status, new = renew(ask, "refresh-a")
    assert status == 200 and new["expires_in"] == 3600
    assert ask.send(request(), x_api_key=None, authorization=f"Bearer {new['access_token']}").status == 200
    status, brief = renew(ask, "refresh-expires=0-a", "application/x-www-form-urlencoded")
    assert status == 200
    time.sleep(0.01)
    assert ask.send(request(), x_api_key=None, authorization=f"Bearer {brief['access_token']}").status == 401
    status, rotated = renew(ask, "refresh-rotate")
    assert rotated["refresh_token"] != "refresh-rotate"
    assert renew(ask, "refresh-rotate")[0] == 400 and renew(ask, rotated["refresh_token"])[0] == 200
    assert renew(ask, "revoked-1")[1]["error"] == "invalid_grant" and renew(ask, "broken-1")[0] == 500
    refused = renew(ask, "refresh-stale")[1]["access_token"]
    assert ask.send(request(), x_api_key=None, authorization=f"Bearer {refused}").status == 401


# --- the other routes, and what is remembered


def get(ask, method, path, **headers):
    connection = http.client.HTTPConnection(ask.at.hostname, ask.at.port, timeout=PATIENCE)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    return response.status, response.read()


def test_other_routes(ask):
    known = {"x_api_key": "k", "anthropic_version": "2023-06-01"}
    status, body = get(ask, "GET", "/v1/models", **known)
    assert status == 200 and MODEL in [row["id"] for row in json.loads(body)["data"]]
    assert get(ask, "GET", f"/v1/models/{MODEL}", **known)[0] == 200
    assert get(ask, "GET", "/v1/models/nobody", **known)[0] == 404
    assert get(ask, "GET", "/v1/models")[0] == 400
    assert get(ask, "HEAD", "/api/hello") == (200, b"")
    assert json.loads(get(ask, "GET", "/")[1])["stand-in"] is True
    assert get(ask, "GET", "/nowhere")[0] == 404
    counted = ask.send(request(), "/v1/messages/count_tokens")
    assert json.loads(counted.read())["input_tokens"] > 0


def test_what_was_sent(ask, model):
    model.clear()
    ask('a "quoted" word', metadata={"user_id": "u1"})
    ask("another")
    (seen,) = model.requests('"quoted"')
    assert seen["body"]["metadata"]["user_id"] == "u1" and seen["headers"]["x-api-key"] == "k"
    assert (seen["path"], seen["query"], seen["status"], seen["state"]) == ("/v1/messages", "beta=true", 200, "done")
    assert len(model.messages()) == 2
    model.clear()
    assert model.requests() == []


def test_it_remembers_no_more_than_it_may():
    with StandIn("--keep", "20000") as small:
        asker = Asker(small)
        for i in range(50):
            asker(f"number {i} " + "x" * 1000)
        kept = small.requests()
        assert 0 < len(kept) < 20 and "number 49 " in json.dumps(kept[-1])


def test_a_body_in_chunks(ask):
    connection = http.client.HTTPConnection(ask.at.hostname, ask.at.port, timeout=PATIENCE)
    data = json.dumps(request()).encode()
    connection.request("POST", "/v1/messages", body=iter([data[:10], data[10:]]), encode_chunked=True, headers={
        "x-api-key": "k", "anthropic-version": "2023-06-01", "content-type": "application/json",
        "transfer-encoding": "chunked"})
    assert connection.getresponse().status == 200


# --- the API's own client takes it for the API


def test_the_real_client(model):
    try:
        folder = clients.folder()
    except clients.Missing as why:
        pytest.skip(f"the API's own client cannot be had: {why}")
    done = subprocess.run(["node", "--test", str(HERE / "sdk_client.mjs")], capture_output=True, text=True, check=False,
                          timeout=PATIENCE * 2, env={"PATH": "/usr/bin:/bin", "CLIENTS": str(folder), **model.env()})
    assert done.returncode == 0, done.stdout + done.stderr
