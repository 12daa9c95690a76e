# SPDX-License-Identifier: Apache-2.0
"""Questions that are answered by code. The model is a stand-in for the Messages API (tests/standin)."""

import itertools
import json
import os

import pytest
from api_helpers import PATIENCE, Client, at_once, eventually, kill_daemon

numbers = itertools.count(1)


def unique(text):
    """A question that nobody has asked before: nothing is cached, no fault of another test is met."""
    return f"Question {os.getpid()}-{next(numbers)}. {text}"


def ask(client, text, **more):
    reply = client("POST", "/execute", {"question": unique(text), **more})
    assert reply.status == 200, reply
    return reply.json


def stream(client, text, **more):
    return client.stream("POST", "/execute", {"question": unique(text), **more})


def names(events):
    return [event.name for event in events]


# -- answers


def test_a_question(asked, model):
    question = unique("[[code: print(6 * 7)]] [[usage: in=100 out=20]]")
    answer = asked.ok("POST", "/execute", {"question": question})
    assert answer["success"] is True and answer["question"] == question
    assert answer["code"] == "print(6 * 7)\n" and answer["output"] == "42\n" and answer["stderr"] == ""
    assert answer["error"] is None and answer["error_code"] is None and answer["results"] == []
    assert answer["files"] == [] and answer["cached"] is False and answer["attempts"] == 1
    assert answer["language"] == "python" and answer["model"] == "claude-sonnet-5-5" and answer["reason"] == "done"
    metrics = answer["metrics"]
    assert metrics["input_tokens"] == 100 and metrics["output_tokens"] == 20
    assert metrics["cost_usd"] == pytest.approx(100 * 2e-6 + 20 * 10e-6)
    assert metrics["total_ms"] >= metrics["generation_ms"] > 0 and metrics["sandbox_ms"] > 0
    assert answer["executionTime"] == int(metrics["total_ms"])
    assert asked.ok("GET", f"/sandbox/{answer['sandboxId']}")["id"] == answer["sandboxId"]
    [sent] = model.messages(question)
    assert sent["model"] == "claude-sonnet-5-5" and sent["max_tokens"] == 2048 and sent["stream"] is True
    assert sent["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert not {"temperature", "top_p", "top_k"} & set(sent)


@pytest.mark.parametrize("type_", ["text/plain", "application/x-www-form-urlencoded", None, "application/json"])
def test_any_content_type(asked, type_):
    body = json.dumps({"question": unique("[[code: print(1)]]")})
    reply = asked("POST", "/execute", body, {"Content-Type": type_})
    assert reply.status == 200 and reply.json["output"] == "1\n"


def test_javascript(asked):
    answer = ask(asked, "[[code: console.log([1, 2].map((n) => n * 2).join())]]", language="javascript")
    assert answer["output"] == "2,4\n" and answer["language"] == "javascript"


def test_the_last_value_is_output(asked):
    answer = ask(asked, "[[code: print('a')\n{'b': 1}]]")
    assert answer["output"] == "a\n{'b': 1}\n"
    assert answer["results"] == [{"type": "result", "text": "{'b': 1}", "json": {"b": 1}}]


@pytest.mark.parametrize("markers", ["[[fence]]", "[[prose]]", "[[fence: py]]", "[[thinking]]"])
def test_fences_and_prose_are_cleaned_away(asked, markers):
    answer = ask(asked, f"[[code: print('x' * 3)]] {markers}")
    assert answer["success"] and answer["code"] == "print('x' * 3)\n" and answer["output"] == "xxx\n"


def test_files_that_were_written(asked):
    code = "import os\nos.makedirs('d/__pycache__')\nopen('a b.txt','w').write('x' * 5)\nopen('d/c','w')\n"
    answer = ask(asked, f"[[code: {code}open('d/__pycache__/n','w')]]")
    assert answer["files"] == [{"path": "/workspace/a b.txt", "size": 5}, {"path": "/workspace/d/c", "size": 0}]
    box = answer["sandboxId"]
    assert asked("GET", f"/sandbox/{box}/files/workspace/a%20b.txt").body == b"xxxxx"
    again = ask(asked, "[[code: open('a b.txt','a').write('y'); open('new','w')]]", sandboxId=box)
    assert [f["path"] for f in again["files"]] == ["/workspace/a b.txt", "/workspace/new"]


def test_steps_keep_their_state_and_are_remembered(asked, model):
    first = ask(asked, "[[code: x = 41; print('kept')]]")
    box = first["sandboxId"]
    second = ask(asked, "[[code: print(x + 1)]]", sandboxId=box)
    assert second["output"] == "42\n" and second["sandboxId"] == box
    sent = model.messages(second["question"])[0]["messages"]
    assert [m["role"] for m in sent] == ["user", "assistant", "user"]
    assert sent[0]["content"] == first["question"] and sent[1]["content"] == first["code"]
    assert "kept" in sent[2]["content"] and second["question"] in sent[2]["content"]


def test_another_sandbox_of_the_same_name_remembers_nothing(asked, model, box_of):
    box = box_of(asked)
    ask(asked, "[[code: print('of the first')]]", sandboxId=box)
    asked("DELETE", f"/sandbox/{box}")
    asked.ok("PUT", f"/sandbox/{box}", {})
    answer = ask(asked, "[[code: print(1)]]", sandboxId=box)
    assert [m["role"] for m in model.messages(answer["question"])[0]["messages"]] == ["user"]


def test_in_a_context(asked, box_of):
    box = box_of(asked)
    context = asked.ok("POST", f"/sandbox/{box}/contexts", {"language": "python"})["id"]
    asked.ok("POST", f"/sandbox/{box}/code", {"context": context, "code": "y = 7"})
    answer = ask(asked, "[[code: print(y)]]", sandboxId=box, context=context)
    assert answer["output"] == "7\n" and answer["context"] == context


def test_a_context_has_its_language(asked, model, box_of):
    box = box_of(asked)
    for language in ("javascript", "bash"):
        asked.ok("POST", f"/sandbox/{box}/contexts", {"language": language, "id": language})
    answer = ask(asked, "[[code: console.log(6 * 7)]]", sandboxId=box, context="javascript")
    assert (answer["output"], answer["language"]) == ("42\n", "javascript")
    body = {"question": unique("not asked"), "sandboxId": box}
    for more in ({"context": "javascript", "language": "python"}, {"context": "bash"}):
        asked("POST", "/execute", {**body, **more}).error(400, "INVALID_REQUEST", "speaks")
    assert model.messages("not asked") == []


@pytest.fixture
def box_of():
    made = []

    def make(client, **settings):
        name = f"asked-{os.getpid()}-{next(numbers)}"
        client.ok("PUT", f"/sandbox/{name}", settings)
        made.append((client, name))
        return name

    yield make
    for client, name in made:
        client("DELETE", f"/sandbox/{name}")


def test_code_is_used_again(asked, model):
    question = unique("[[code: import os; print(os.getpid() > 0)]]")
    first = asked.ok("POST", "/execute", {"question": question})
    second = asked.ok("POST", "/execute", {"question": question})
    assert second["cached"] is True and second["output"] == "True\n" and second["metrics"]["cost_usd"] == 0
    assert second["sandboxId"] != first["sandboxId"]
    assert len(model.messages(question)) == 1
    third = asked.ok("POST", "/execute", {"question": question, "cache": False})
    assert third["cached"] is False and len(model.messages(question)) == 2
    fourth = asked.ok("POST", "/execute", {"question": question, "model": "haiku"})
    assert fourth["cached"] is False and fourth["model"] == "claude-haiku-5-5"


def test_code_of_one_tenant_is_not_anothers(asked, model):
    question = unique("[[code: print(1)]]")
    asked.ok("POST", "/execute", {"question": question})
    made = asked.ok("POST", "/tokens", {"name": f"asked-{next(numbers)}"})
    other = Client(asked.server, made["token"])
    assert other.ok("POST", "/execute", {"question": question})["cached"] is False
    assert len(model.messages(question)) == 2


def test_code_that_failed_is_not_kept(asked):
    question = unique("[[code: 1/0]] [[then: code: print('better')]]")
    first = asked.ok("POST", "/execute", {"question": question})
    second = asked.ok("POST", "/execute", {"question": question})
    assert first["attempts"] == second["attempts"] == 2 and second["cached"] is False


# -- code that fails


def test_it_is_repaired_once(asked, model):
    answer = ask(asked, "[[code: print(undefined_name)]] [[then: code: print('repaired')]]")
    assert answer["success"] and answer["output"] == "repaired\n" and answer["attempts"] == 2
    sent = model.messages(answer["question"])
    assert len(sent) == 2
    assert [m["role"] for m in sent[1]["messages"]] == ["user", "assistant", "user"]
    assert "NameError" in sent[1]["messages"][2]["content"]


def test_it_fails_twice(asked, model):
    answer = ask(asked, "[[code: raise ValueError('no good')]]")
    assert answer["success"] is False and answer["error_code"] == "CODE_FAILED" and answer["attempts"] == 2
    assert "ValueError: no good" in answer["error"] and answer["reason"] == "error"
    assert len(model.messages(answer["question"])) == 2


def test_without_retries(asked, model):
    answer = ask(asked, "[[code: print('before'); 1/0]]", retries=0)
    assert answer["error_code"] == "CODE_FAILED" and answer["attempts"] == 1 and answer["output"] == "before\n"
    assert len(model.messages(answer["question"])) == 1


def test_a_repair_that_the_model_fails_leaves_the_first_result(asked):
    answer = ask(asked, "[[code: 1/0]] [[then: refusal]]")
    assert answer["error_code"] == "CODE_FAILED"
    assert "ZeroDivisionError" in answer["error"] and "refused" in answer["error"]


def test_code_that_takes_too_long(asked):
    answer = ask(asked, "[[code: print('begun', flush=True)\nwhile True: pass]]", timeout=500)
    assert answer["success"] is False and answer["error_code"] == "EXECUTION_TIMEOUT"
    assert answer["reason"] == "timeout" and answer["output"] == "begun\n" and answer["attempts"] == 1


def test_a_sandbox_that_dies(asked, box_of):
    box = box_of(asked, memory="96m")
    answer = ask(asked, "[[code: x = bytearray(500 << 20)\nprint(len(x))]]", sandboxId=box, retries=0)
    assert answer["success"] is False and answer["reason"] in ("oom", "error", "box_lost"), answer
    assert answer["error"]


def test_a_sandbox_that_is_destroyed_meanwhile(asked, box_of):
    box = box_of(asked)
    with stream(asked, "[[code: print('up', flush=True)\nwhile True: pass]]", sandboxId=box) as events:
        events.until("stdout")
        asked("DELETE", f"/sandbox/{box}")
        answer = events.until("done")[-1].data
    assert answer["error_code"] == "SANDBOX_LOST" and answer["reason"] in ("box_lost", "killed"), answer


# -- the model's trouble


@pytest.mark.parametrize(
    "markers, code, words",
    [
        ("[[refusal]]", "MODEL_REFUSED", "refused"),
        ("[[refusal: it is against the rules]]", "MODEL_REFUSED", "refused: it is against the rules"),
        ("[[max_tokens]] [[code: print('a long program')]]", "MAX_TOKENS", "maxTokens"),
        ("[[text: I would rather talk about it.]]", "NO_CODE", "without code: I would rather"),
        ("[[code:  ]]", "NO_CODE", "without code"),
    ],
)
def test_answers_that_are_no_code(asked, markers, code, words):
    before = asked.ok("GET", "/sandbox?limit=1000")["sandboxes"]
    answer = ask(asked, markers)
    assert answer["success"] is False and answer["error_code"] == code and words in answer["error"]
    assert answer["sandboxId"] is None and answer["metrics"]["total_ms"] > 0
    left = {box["id"] for box in before}
    eventually(lambda: not {b["id"] for b in asked.ok("GET", "/sandbox?limit=1000")["sandboxes"]} - left or None)


@pytest.mark.parametrize(
    "markers, status, code",
    [
        ("[[status: 400 message=it+is+wrong]]", 400, "INVALID_REQUEST"),
        ("[[status: 401]]", 401, "AUTH_ERROR"),
        ("[[status: 403]]", 401, "AUTH_ERROR"),
        ("[[status: 429 retry-after-ms=1]]", 429, "RATE_LIMITED"),
        ("[[status: 500 retry-after-ms=1]]", 502, "API_ERROR"),
        ("[[status: 529 retry-after-ms=1]]", 502, "API_ERROR"),
        ("[[garbage]]", 502, "API_ERROR"),
    ],
)
def test_errors_of_the_api(asked, markers, status, code):
    reply = asked("POST", "/execute", {"question": unique(markers)})
    reply.error(status, code)


def test_trouble_that_passes(asked, model):
    for trouble in ("[[status: 529 retry-after-ms=1 times=1]]", "[[break: 4 times=1]]", "[[error-event: overloaded_error times=1]]"):
        answer = ask(asked, f"{trouble} [[code: print('there')]]")
        assert answer["success"] and answer["output"] == "there\n", trouble
        assert len(model.messages(answer["question"])) == 2


def test_what_broke_is_paid_for_too(asked):
    """The API counts what it has written, whether or not it arrived."""
    markers = "[[usage: in=1000 out=50]] [[code: print('x')]]"
    whole = ask(asked, markers)["metrics"]
    broken = ask(asked, f"[[break: 4 times=1]] {markers}")["metrics"]
    assert whole["input_tokens"] == 1000 and broken["input_tokens"] == 2000
    assert whole["output_tokens"] == 50 and broken["output_tokens"] >= 50


def test_a_stream_that_always_breaks_is_no_success(asked):
    reply = asked("POST", "/execute", {"question": unique("[[break: 5]] [[code: print('half of it')]]")})
    reply.error(502, "API_ERROR")


def test_without_a_key(api):
    for body in ({"question": "anything"}, {"question": "anything", "sandboxId": "none"}):
        reply = api("POST", "/execute", body)
        reply.error(503, "MISSING_API_KEY", "ANTHROPIC_API_KEY")


def test_a_tenants_own_key(make_server, model):
    server = make_server("--egress-private", "127.0.0.0/8")
    client = Client(server)
    client("POST", "/execute", {"question": unique("x")}).error(503, "MISSING_API_KEY")
    secret = {"value": "sk-own", "upstream": model.url, "header": "x-api-key"}
    assert client("PUT", "/secrets/anthropic", secret).status in (200, 201)
    answer = ask(client, "[[code: print(1)]]")
    assert answer["output"] == "1\n"
    assert model.requests(answer["question"])[0]["headers"]["x-api-key"] == "sk-own"


# -- streams


def test_a_stream(asked):
    with stream(asked, "[[code: print('a')\nprint('b')\n7]] [[piece: 3]]") as events:
        seen = events.until("done")
    order = names(seen)
    assert order[0] == "start" and order[-1] == "done" and "restart" not in order
    assert "".join(e.data["text"] for e in seen if e.name == "code") == "print('a')\nprint('b')\n7"
    assert order.count("code") > 2
    assert order.index("generated") < order.index("stdout") < order.index("result")
    assert "".join(e.data["text"] for e in seen if e.name == "stdout") == "a\nb\n"
    done = seen[-1].data
    assert done["success"] and done["output"] == "a\nb\n7\n" and done["request_id"] == seen[0].data["request_id"]
    assert [e.id for e in seen] == [f"{done['request_id']}:{n}" for n in range(len(seen))]


def test_code_comes_as_it_is_written(asked):
    with stream(asked, "[[code: print(1)\nprint(2)]] [[piece: 9]] [[hang: 4]]") as events:
        seen = events.until("code")
        assert seen[-1].data["text"].startswith("print(1)")
        assert asked("DELETE", f"/execute/{seen[0].data['request_id']}").status == 202
        assert events.until("done")[-1].data["error_code"] == "CANCELLED"


def test_output_comes_while_it_runs(asked, tmp_path):
    with stream(asked, "[[code: import time\nprint('first', flush=True)\ntime.sleep(3600)]]", timeout=PATIENCE * 1000) as events:
        seen = events.until("stdout")
        run = seen[0].data["request_id"]
        assert seen[-1].data["text"] == "first\n"
        assert asked("GET", f"/execute/{run}").status == 202
        assert asked("DELETE", f"/execute/{run}").status == 202
        done = events.until("done")[-1].data
    assert done["success"] is False and done["error_code"] == "CANCELLED" and done["reason"] == "cancelled"
    assert done["output"] == "first\n" and done["metrics"]["sandbox_ms"] > 0


def test_a_stream_that_was_lost_goes_on(asked):
    question = unique("[[code: for i in range(50): print(i)]]")
    with asked.stream("POST", "/execute", {"question": question}) as events:
        whole = events.until("done")
    run = whole[0].data["request_id"]
    for at in (0, 1, len(whole) - 2):
        with asked.stream("GET", f"/execute/{run}", headers={"Last-Event-ID": whole[at].id}) as events:
            rest = events.until("done")
        assert [e.id for e in rest] == [e.id for e in whole[at + 1 :]]
    with asked.stream("POST", "/execute", {"question": question}, {"Last-Event-ID": whole[1].id}) as events:
        assert [e.id for e in events.until("done")] == [e.id for e in whole[2:]]


def test_characters_are_not_cut(asked):
    code = "import sys\nfor b in 'ä€𝄞'.encode(): sys.stdout.buffer.write(bytes([b])); sys.stdout.flush()"
    with stream(asked, f"[[code: {code}]]") as events:
        seen = events.until("done")
    assert "".join(e.data["text"] for e in seen if e.name == "stdout") == "ä€𝄞"
    assert seen[-1].data["output"].startswith("ä€𝄞")


def test_more_than_a_log_holds(asked):
    """Nothing is left out silently: the answer has what it can hold, and says that it is cut."""
    code = "for i in range(12): print('x' * (1 << 20))"
    with stream(asked, f"[[code: {code}]]") as events:
        seen = events.until("done")
    assert names(seen)[-2:] == ["gap", "done"] and names(seen).count("gap") == 1
    assert seen[-1].data["success"] and seen[-1].data["truncated"] is True
    assert set(seen[-1].data["output"]) == {"x", "\n"}


def test_errors_in_a_stream(asked):
    with stream(asked, "[[status: 401]]") as events:
        done = events.until("done")[-1].data
    assert done["error_code"] == "AUTH_ERROR" and set(done) == {"error", "error_code", "request_id"}
    with stream(asked, "[[break: 6 times=1]] [[code: print('twice')]] [[piece: 2]]") as events:
        seen = events.until("done")
    assert "restart" in names(seen)
    last = len(seen) - 1 - names(seen)[::-1].index("restart")
    assert "".join(e.data["text"] for e in seen[last:] if e.name == "code") == "print('twice')"


def test_a_repair_is_seen(asked):
    with stream(asked, "[[code: 1/0]] [[then: code: print('ok')]]") as events:
        seen = events.until("done")
    assert names(seen).count("generated") == 2 and names(seen).count("repair") == 1
    error = next(e for e in seen if e.name == "error").data
    assert error["name"] == "ZeroDivisionError"


# -- clients that leave, repeat, or come back


def test_a_client_that_leaves_does_not_end_it(asked):
    with stream(asked, "[[delay: 300]] [[code: print('anyway')]]") as events:
        run = events.until("start")[0].data["request_id"]

    def result():
        reply = asked("GET", f"/execute/{run}")
        return reply.json if reply.status == 200 else None

    assert eventually(result)["output"] == "anyway\n"


def test_the_same_key_asks_once(asked, model):
    question = unique("[[code: print('once')]]")
    headers = {"Idempotency-Key": f"key-{os.getpid()}-{next(numbers)}"}
    replies = [asked("POST", "/execute", {"question": question}, headers) for _ in range(2)]
    assert replies[0].json == replies[1].json and replies[1].headers["Idempotency-Replayed"]
    assert len(model.messages(question)) == 1
    question = unique("[[code: print('once')]]")
    headers = {"Idempotency-Key": f"key-{os.getpid()}-{next(numbers)}"}
    ids = []
    for _ in range(2):
        with asked.stream("POST", "/execute", {"question": question}, headers) as events:
            ids.append(events.until("done")[-1].data["request_id"])
    assert ids[0] == ids[1] and len(model.messages(question)) == 1


def test_it_is_stored_before_it_is_answered(make_server, model):
    server = make_server(env=model.env())
    client = Client(server)
    answers = [ask(client, f"[[code: print({n})]]") for n in range(3)]
    kill_daemon(server, client)
    for n, answer in enumerate(answers):
        stored = client.ok("GET", f"/execute/{answer['request_id']}")
        assert stored == answer and stored["output"] == f"{n}\n"


def test_many_at_once(asked):
    def one(n):
        return lambda: ask(asked, f"[[code: print({n} * 2)]]")["output"]

    assert at_once(*[one(n) for n in range(20)]) == [f"{n * 2}\n" for n in range(20)]


def test_more_than_there_are_boxes(make_server, model):
    """Sandboxes that were left by earlier questions give way, and those at once wait for each other."""
    server = make_server("--boxes", "6", "--pool", "2", env=model.env())
    client = Client(server)
    first = ask(client, "[[code: open('kept', 'w').write('here')]]")
    for n in range(8):
        assert ask(client, f"[[code: print({n})]]")["output"] == f"{n}\n"
    answers = at_once(*[lambda: ask(client, "[[code: print(1)]]")["output"] for _ in range(12)])
    assert answers == ["1\n"] * 12
    again = ask(client, "[[code: print(open('kept').read())]]", sandboxId=first["sandboxId"])
    assert again["output"] == "here\n"


# -- bad input


@pytest.mark.parametrize(
    "body, words",
    [
        ({}, "question"),
        ({"question": ""}, "question"),
        ({"question": " \n "}, "question"),
        ({"question": 7}, "question"),
        ({"question": "x" * (100 * 1024 + 1)}, "question"),
        ({"question": "x", "language": "cobol"}, "language"),
        ({"question": "x", "language": "bash"}, "language"),
        ({"question": "x", "model": "two words"}, "model"),
        ({"question": "x", "model": "x" * 150}, "model"),
        ({"question": "x", "maxTokens": 0}, "maxTokens"),
        ({"question": "x", "maxTokens": 1 << 40}, "maxTokens"),
        ({"question": "x", "timeout": 0}, "timeout"),
        ({"question": "x", "retries": 99}, "retries"),
        ({"question": "x", "retries": -1}, "retries"),
        ({"question": "x", "cache": "yes"}, "cache"),
        ({"question": "x", "context": "c"}, "sandboxId"),
        ({"question": "x", "temperature": 1}, "temperature"),
    ],
)
def test_bad_bodies(asked, body, words):
    asked("POST", "/execute", body).error(400, "INVALID_REQUEST", words)


def test_what_is_not_there(asked, box_of):
    asked("POST", "/execute", {"question": "x", "sandboxId": "nobody"}).error(404, "NOT_FOUND")
    box = box_of(asked)
    asked("POST", "/execute", {"question": unique("[[code: 1]]"), "sandboxId": box, "context": "none"}).error(404, "NOT_FOUND")
    made = asked.ok("POST", "/tokens", {"name": f"asked-{next(numbers)}"})
    other = Client(asked.server, made["token"])
    other("POST", "/execute", {"question": "x", "sandboxId": box}).error(404, "NOT_FOUND")


def test_a_budget_that_is_used_up(asked, box_of):
    box = box_of(asked, budget={"usd": 0.001})
    first = ask(asked, "[[code: print(1)]] [[usage: in=1000 out=100]]", sandboxId=box)
    assert first["metrics"]["cost_usd"] == pytest.approx(0.003)
    asked("POST", "/execute", {"question": unique("[[code: 1]]"), "sandboxId": box}).error(402, "BUDGET_EXCEEDED", box)
    asked.ok("PATCH", f"/sandbox/{box}", {"budget": {"usd": 1}})
    assert ask(asked, "[[code: print(2)]]", sandboxId=box)["output"] == "2\n"
