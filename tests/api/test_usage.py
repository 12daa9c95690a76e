# SPDX-License-Identifier: Apache-2.0
"""What models have cost. The model is a stand-in for the Messages API (tests/standin)."""

import itertools
import os
import sqlite3
import time

import pytest
from api_helpers import Client

numbers = itertools.count(1)
SUMS = ("requests", "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens",
        "web_search_requests", "web_fetch_requests", "cost_usd")
NOTHING = dict.fromkeys(SUMS, 0)
HOUR = 3600 * 1000


def make_tenant(admin):
    made = admin.ok("POST", "/tokens", {"name": f"usage-{os.getpid()}-{next(numbers)}"})
    client = Client(admin.server, made["token"])
    client.name, client.id = made["tenant"], made["id"]
    return client


@pytest.fixture
def mine(asked):
    client = make_tenant(asked)
    yield client
    asked("DELETE", f"/tokens/{client.id}")


def ask(client, text, **more):
    question = f"Usage {os.getpid()}-{next(numbers)}. {text}"
    return client.ok("POST", "/execute", {"question": question, **more})


def usage(client, query=""):
    got = client.ok("GET", f"/usage{query}")
    assert got["success"] is True
    assert set(got["total"]) == set(SUMS)
    for row in got["usage"]:
        assert set(row) == {"key", *SUMS}
    return got


def spend(server, tenant, time_ms, sandbox="", request="", model="claude-sonnet-5-5", cost=1000):
    """A call as if it had been made then."""
    db = sqlite3.connect(f"{server.data}/daemon/cay.db", timeout=60)
    with db:
        [[number]] = db.execute("SELECT number FROM tenants WHERE name = ?", (tenant,)).fetchall()
        db.execute(
            "INSERT INTO spend (tenant, time_ms, sandbox_number, sandbox, request, source, model, input, output, cache_write,"
            " cache_write_1h, cache_read, searches, fetches, cost) VALUES (?, ?, 0, ?, ?, 'execute', ?, 1, 2, 4, 8, 16, 32, 64, ?)",
            (number, time_ms, sandbox, request, model, cost))
    db.close()


# -- what was used


def test_nothing(mine):
    got = usage(mine)
    assert got == {"success": True, "by": "tenant", "total": NOTHING, "usage": []}


def test_a_question(mine):
    answer = ask(mine, "[[code: print(1)]] [[usage: in=100 out=20 cache_read=7 cache_write=5]]")
    other = ask(mine, "[[code: print(2)]] [[usage: in=1 out=1]]", model="haiku")
    for by, keys in (("tenant", {mine.name}), ("request", {answer["request_id"], other["request_id"]}),
                     ("source", {"execute"}), ("model", {answer["model"], other["model"]}),
                     ("day", {time.strftime("%Y-%m-%d", time.gmtime())})):
        got = usage(mine, f"?by={by}")
        assert got["by"] == by and {row["key"] for row in got["usage"]} == keys
        assert got["total"]["requests"] == 2 and got["total"]["input_tokens"] == 101
        assert got["total"]["cache_read_input_tokens"] == 7 and got["total"]["cache_creation_input_tokens"] == 5
        for name in SUMS:
            assert sum(row[name] for row in got["usage"]) == pytest.approx(got["total"][name])
        costs = [row["cost_usd"] for row in got["usage"]]
        assert by == "day" or costs == sorted(costs, reverse=True)
    [row] = [r for r in usage(mine, "?by=request")["usage"] if r["key"] == answer["request_id"]]
    assert row["output_tokens"] == 20 and row["cost_usd"] == pytest.approx(answer["metrics"]["cost_usd"])


def test_a_sandbox(mine):
    mine.ok("PUT", "/sandbox/spender", {"budget": {"usd": 5}})
    answer = ask(mine, "[[code: print(1)]] [[usage: in=100 out=20]]", sandboxId="spender")
    budget = mine.ok("GET", "/sandbox/spender")["budget"]
    assert budget["usd"] == 5 and budget["tokens"] is None
    assert budget["spent"]["tokens"] == 120
    assert budget["spent"]["usd"] == pytest.approx(answer["metrics"]["cost_usd"])
    ask(mine, "[[code: print(2)]] [[usage: in=100 out=20]]", sandboxId="spender")
    assert mine.ok("GET", "/sandbox/spender")["budget"]["spent"]["tokens"] == 240
    ask(mine, "[[code: print(3)]]")
    got = usage(mine, "?sandbox=spender")
    assert got["total"]["requests"] == 2 and got["total"]["input_tokens"] == 200
    [row] = [r for r in usage(mine, "?by=sandbox")["usage"] if r["key"] == "spender"]
    assert row["requests"] == 2
    mine.ok("DELETE", "/sandbox/spender")
    assert usage(mine, "?sandbox=spender")["total"] == got["total"]  # what was spent was spent
    mine.ok("PUT", "/sandbox/spender", {})
    assert mine.ok("GET", "/sandbox/spender")["budget"]["spent"] == {"usd": 0, "tokens": 0}
    mine.ok("DELETE", "/sandbox/spender")


def test_one_that_is_not_in_memory(mine):
    """What is spent for a sandbox that the server has forgotten meanwhile counts once."""
    mine.ok("PUT", "/sandbox/forgotten", {})
    mine.ok("POST", "/sandbox/forgotten/sleep")
    time.sleep(3)  # it is forgotten within a second or two, and again while the model thinks
    for tokens in (120, 240):
        ask(mine, "[[code: print(1)]] [[delay: 3000]] [[usage: in=100 out=20]]", sandboxId="forgotten")
        assert mine.ok("GET", "/sandbox/forgotten")["budget"]["spent"]["tokens"] == tokens
        mine.ok("POST", "/sandbox/forgotten/sleep")
    mine.ok("DELETE", "/sandbox/forgotten")


def test_what_is_spent_stays(make_server, model):
    """Through sleep, changes of settings and restarts."""
    server = make_server(env=model.env())
    client = Client(server)
    client.ok("PUT", "/sandbox/a", {})
    ask(client, "[[code: print(1)]] [[usage: in=100 out=20]]", sandboxId="a")
    client.ok("POST", "/sandbox/a/sleep")
    client.ok("PATCH", "/sandbox/a", {"budget": {"tokens": 1000}, "pids": 99})
    ask(client, "[[code: print(2)]] [[usage: in=100 out=20]]", sandboxId="a")
    before = client.ok("GET", "/sandbox/a")["budget"]
    assert before["spent"]["tokens"] == 240
    assert server.stop() == 0
    server.start()
    assert Client(server).ok("GET", "/sandbox/a")["budget"] == before


# -- when


def test_times(mine):
    start = 1700000000000 - 1700000000000 % HOUR  # 2023-11-14T22:00:00Z
    spend(mine.server, mine.name, start, "s1", "r1")
    spend(mine.server, mine.name, start + HOUR + 5, "s1", "r2")
    spend(mine.server, mine.name, start + 26 * HOUR, "s2", "r3")

    def calls(query):
        return usage(mine, f"?{query}")["total"]["requests"]

    assert calls("") == 0  # of the last 30 days
    assert calls(f"since={start}") == calls("since=0") == calls("until=2023-11-17") == 3 and calls(f"since={start + HOUR}") == 2
    assert calls(f"until={start}") == 0 and calls(f"until={start + 1}") == 1
    assert calls("until=2023-11-15") == 2 and calls("since=2023-11-15") == calls("since=2023-11-16") == 1
    assert calls("since=2023-11-14T23:00:00Z&until=2023-11-15T00:00:00Z") == 1
    assert calls("since=2023-11-15T01:00:00%2B02:00&until=2023-11-15T02:00:00%2B02:00") == 1
    assert calls(f"by=request&since={start + HOUR + 5}") == 2 and calls(f"by=request&since={start + HOUR + 6}") == 1
    assert calls(f"by=request&until={start + HOUR + 5}") == 1
    days = usage(mine, "?by=day&since=0")["usage"]
    assert [(d["key"], d["requests"]) for d in days] == [("2023-11-14", 2), ("2023-11-16", 1)]
    assert days[0]["cache_creation_input_tokens"] == 24 and days[0]["web_search_requests"] == 64
    assert [r["key"] for r in usage(mine, "?by=request&since=0&limit=2")["usage"]] == ["r1", "r2"]
    assert usage(mine, "?by=request&since=0&limit=0")["usage"] == []


@pytest.mark.parametrize("query,word", [
    ("by=me", "by"), ("by=", "by"), ("since=yesterday", "since"), ("until=2026-02-30", "until"), ("since=-5", "since"),
    ("since=2026-11-16&until=2026-11-16", "until"), ("limit=1001", "limit"), ("limit=x", "limit"), ("sinc=5", "sinc"),
])
def test_bad_questions(asked, query, word):
    asked("GET", f"/usage?{query}").error(400, "INVALID_REQUEST", word)


# -- whose


def test_whose_it_is(asked, mine):
    other = make_tenant(asked)
    ask(mine, "[[code: print(1)]] [[usage: in=10 out=1]]")
    assert usage(other)["total"]["requests"] == 0
    for query in ("tenant=all", f"tenant={mine.name}", f"tenant={other.name}"):
        other("GET", f"/usage?{query}").error(403, "FORBIDDEN", "tenant")
    assert usage(asked, f"?tenant={mine.name}")["total"]["requests"] == 1
    everybody = {row["key"] for row in usage(asked, "?tenant=all&by=tenant&limit=1000")["usage"]}
    assert mine.name in everybody and other.name not in everybody
    asked("GET", "/usage?tenant=nobody-knows").error(404, "NOT_FOUND", "tenant")
    for query in ("by=sandbox", "by=request", "sandbox=x"):
        asked("GET", f"/usage?tenant=all&{query}").error(400, "INVALID_REQUEST", "tenant")
    asked("DELETE", f"/tokens/{other.id}")


def test_metrics(asked):
    ask(asked, "[[code: print(1)]] [[usage: in=10 out=1]]")
    text = asked("GET", "/metrics").body.decode()
    for name in ("cay_model_requests_total", "cay_runs_total", "cay_model_cost_usd_total",
                 'cay_model_tokens_total{kind="input"}'):
        [line] = [line for line in text.splitlines() if line.startswith(name + " ")]
        assert float(line.rsplit(" ", 1)[1]) > 0, line
    assert "cay_runs_open 0" in text and "cay_model_errors_total " in text


def test_no_model(api):
    """Where there is no key all of this works, and is empty."""
    assert api.ok("GET", "/usage")["total"]["requests"] == 0
    assert api.ok("GET", "/execute")["results"] == []
