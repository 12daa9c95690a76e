# SPDX-License-Identifier: Apache-2.0
"""What was asked of a model before. The model is a stand-in for the Messages API (tests/standin)."""

import itertools
import os
import sqlite3

import pytest
from api_helpers import Client, eventually, kill_daemon

numbers = itertools.count(1)
FIELDS = {"request_id", "kind", "state", "question", "success", "error_code", "sandboxId", "model", "cost_usd", "input_tokens",
          "output_tokens", "generation_ms", "sandbox_ms", "total_ms", "created", "ended"}


def unique(text):
    return f"Result {os.getpid()}-{next(numbers)}. {text}"


@pytest.fixture(scope="module")
def mine(asked):
    """A tenant whose results are those of this file alone."""
    made = asked.ok("POST", "/tokens", {"name": f"results-{os.getpid()}"})
    client = Client(asked.server, made["token"])
    client.name = made["tenant"]
    return client


@pytest.fixture
def fresh(asked):
    """A tenant that has asked nothing yet."""
    made = asked.ok("POST", "/tokens", {"name": f"results-{os.getpid()}-{next(numbers)}"})
    client = Client(asked.server, made["token"])
    client.name = made["tenant"]
    yield client
    asked("DELETE", f"/tokens/{made['id']}")


def ask(client, text, **more):
    return client.ok("POST", "/execute", {"question": unique(text), **more})


def rows(server):
    return sqlite3.connect(f"{server.data}/daemon/cay.db", timeout=60)


def change(server, statement, *values):
    """Changes a row behind the server's back."""
    db = rows(server)
    try:
        with db:
            return db.execute(statement, values).rowcount
    finally:
        db.close()


# -- the list


def test_a_list(fresh):
    assert fresh.ok("GET", "/execute") == {"success": True, "results": [], "next": None}
    good = ask(fresh, "[[code: print(1)]] [[usage: in=10 out=5]]")
    bad = ask(fresh, "[[code: raise ValueError(1)]]", retries=0)
    listed = fresh.ok("GET", "/execute")
    assert [r["request_id"] for r in listed["results"]] == [bad["request_id"], good["request_id"]]
    failed, done = listed["results"]
    assert set(done) == FIELDS
    assert done["kind"] == "question" and done["state"] == "done" and done["success"] is True
    assert done["question"] == good["question"] and done["error_code"] is None
    assert done["sandboxId"] == good["sandboxId"] and done["model"] == good["model"]
    assert done["cost_usd"] == pytest.approx(good["metrics"]["cost_usd"]) and done["cost_usd"] > 0
    assert done["input_tokens"] == 10 and done["output_tokens"] == 5
    assert done["created"] <= done["ended"] and done["total_ms"] >= 0
    assert failed["success"] is False and failed["error_code"] == "CODE_FAILED"


def test_pages(fresh):
    asked = [ask(fresh, "[[code: print(1)]]")["request_id"] for _ in range(5)]
    seen, before, pages = [], "", 0
    while pages < 10:
        page = fresh.ok("GET", f"/execute?limit=2{before}")
        seen += [r["request_id"] for r in page["results"]]
        pages += 1
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert seen == asked[::-1] and pages == 3
    assert fresh.ok("GET", "/execute?kind=sdk")["results"] == []
    assert len(fresh.ok("GET", "/execute?kind=question&limit=500")["results"]) == 5
    assert fresh.ok("GET", "/execute?limit=0")["results"] == []


@pytest.mark.parametrize("query,word", [
    ("limit=501", "limit"), ("limit=-1", "limit"), ("limit=x", "limit"), ("kind=poem", "kind"), ("kind=", "kind"),
    ("before=nobody", "before"), ("before=", "before"), ("before=' OR 1=1 --".replace(" ", "%20"), "before"), ("befor=x", "befor"),
])
def test_bad_lists(mine, query, word):
    mine("GET", f"/execute?{query}").error(400, "INVALID_REQUEST", word)


# -- one


def test_the_answer_again(mine):
    for text in ("[[code: print(6 * 7)]]", "[[code: raise ValueError('no')]]", "[[refusal]]"):
        reply = mine("POST", "/execute", {"question": unique(text), "retries": 0})
        again = mine("GET", f"/execute/{reply.json['request_id']}")
        assert again.status == reply.status == 200
        assert again.json == reply.json
        assert again.headers["Content-Type"] == "application/json"


def test_errors_again(mine):
    """An answer that is none has its own status, also later."""
    reply = mine("POST", "/execute", {"question": unique("[[status: 400 message=no+such+thing]]")})
    reply.error(400, "INVALID_REQUEST")
    newest = mine.ok("GET", "/execute?limit=1")["results"][0]
    assert newest["success"] is False and newest["error_code"] == "INVALID_REQUEST"
    again = mine("GET", f"/execute/{newest['request_id']}")
    assert again.status == 400 and again.json["error_code"] == "INVALID_REQUEST"


def test_while_it_runs(mine):
    question = unique("[[code: import time; print('up', flush=True); time.sleep(600)]]")
    with mine.stream("POST", "/execute", {"question": question, "timeout": "10m"}) as events:
        run = events.until("stdout")[0].data["request_id"]
        reply = mine("GET", f"/execute/{run}")
        assert reply.status == 202
        assert reply.json == {"success": True, "request_id": run, "state": "running"}
        [row] = [r for r in mine.ok("GET", "/execute")["results"] if r["request_id"] == run]
        assert row["state"] == "running" and row["success"] is None and row["ended"] is None
        with mine.stream("GET", f"/execute/{run}") as other:
            assert other.until("stdout")[0].name == "start"
        cancelled = mine("DELETE", f"/execute/{run}")
        assert cancelled.status == 202 and cancelled.json["state"] == "cancelling"
        done = events.until("done")[-1].data
    assert done["success"] is False and done["error_code"] == "CANCELLED"
    assert mine.ok("GET", f"/execute/{run}") == done
    assert mine("DELETE", f"/execute/{run}").status == 200
    mine("GET", f"/execute/{run}").error(404, "NOT_FOUND")
    assert mine.stream("GET", f"/execute/{run}").status == 404
    mine("DELETE", f"/execute/{run}").error(404, "NOT_FOUND")


def test_events_again(mine):
    with mine.stream("POST", "/execute", {"question": unique("[[code: print(1)]]")}) as events:
        first = list(events)
    run = first[0].data["request_id"]
    with mine.stream("GET", f"/execute/{run}") as events:
        again = list(events)
    assert [(e.id, e.name, e.data) for e in again] == [(e.id, e.name, e.data) for e in first]
    with mine.stream("GET", f"/execute/{run}", headers={"Last-Event-ID": first[-2].id}) as events:
        assert [e.name for e in events] == ["done"]
    for last in ("x", "x:1", f"{run}:", f"{run}:-1", f"{run}:99999", f"{run[:-1]}:0"):
        reply = mine.stream("GET", f"/execute/{run}", headers={"Last-Event-ID": last})
        assert reply.status == 400, last
    assert mine("HEAD", f"/execute/{run}").status == 200


@pytest.mark.parametrize("name", ["nobody", "sdk", "..%2f..", "%00", "a" * 400, "' OR 1=1 --".replace(" ", "%20"), "%25"])
def test_what_is_not_there(mine, name):
    for method in ("GET", "DELETE"):
        assert mine(method, f"/execute/{name}").status in (400, 404, 405)


def test_whose_it_is(mine, fresh, asked):
    run = ask(mine, "[[code: print(1)]]")["request_id"]
    for other in (fresh, asked):  # an administrator's tenant is one like others
        other("GET", f"/execute/{run}").error(404, "NOT_FOUND")
        other("DELETE", f"/execute/{run}").error(404, "NOT_FOUND")
        assert other.stream("GET", f"/execute/{run}").status == 404
        other("GET", f"/execute?before={run}").error(400, "INVALID_REQUEST")
        assert run not in [r["request_id"] for r in other.ok("GET", "/execute?limit=500")["results"]]
    assert mine.ok("GET", f"/execute/{run}")["request_id"] == run


# -- what lasts


def test_a_restart(make_server, model):
    server = make_server(env=model.env())
    client = Client(server)
    answer = ask(client, "[[code: print(6 * 7)]]")
    large = ask(client, "[[code: print('x' * 3000000)]]")
    question = unique("[[code: import time; print('up', flush=True); time.sleep(600)]]")
    events = client.stream("POST", "/execute", {"question": question, "timeout": "10m"})
    run = events.until("stdout")[0].data["request_id"]
    kill_daemon(server, client)
    events.close()
    assert client.ok("GET", f"/execute/{answer['request_id']}") == answer
    assert client.ok("GET", f"/execute/{large['request_id']}") == large
    with client.stream("GET", f"/execute/{large['request_id']}") as events:  # of its events there is the last
        [done] = list(events)
    assert done.name == "done" and done.data == large
    client("GET", f"/execute/{run}").error(410, "RESULT_LOST")
    assert client.stream("GET", f"/execute/{run}").status == 410
    listed = {r["request_id"]: r for r in client.ok("GET", "/execute")["results"]}
    assert listed[run]["state"] == "lost" and listed[run]["error_code"] == "RESULT_LOST" and listed[run]["ended"]
    assert client("DELETE", f"/execute/{run}").status == 200
    assert server.stop() == 0
    server.start()
    client = Client(server)
    assert client.ok("GET", f"/execute/{answer['request_id']}") == answer


def test_old_ones_go(make_server, model):
    server = make_server("--keep-results", "1h", env=model.env())
    client = Client(server)
    old = ask(client, "[[code: print(1)]]")["request_id"]
    new = ask(client, "[[code: print(2)]]")["request_id"]
    assert change(server, "UPDATE results SET ended_ms = ended_ms - 3600000 WHERE id = ?", old) == 1
    assert server.stop() == 0
    server.start()  # looks at once, then every minute
    client = Client(server)
    eventually(lambda: client("GET", f"/execute/{old}").status == 404)
    assert client.ok("GET", f"/execute/{new}")["request_id"] == new
