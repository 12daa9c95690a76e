# SPDX-License-Identifier: Apache-2.0
"""The model as a box sees it: http://anthropic.cay and a unix socket, with the key put in outside, counted, and within a
budget. Answers are a stand-in's (tests/standin)."""

import itertools
import json
import os
import signal
import tempfile
import threading

import pytest
from api_helpers import Client, Server, at_once, eventually
from model_helpers import (HEADERS, KEY, MODEL, SOCKET, Asker, StandIn, a_request, error_of, events, question, spent, text_of,
                           usage, wait_for_event)

# As Claude Code is told to ask: ANTHROPIC_UNIX_SOCKET, ANTHROPIC_BASE_URL=http://localhost.
CURL = (f"curl -sS --unix-socket {SOCKET} http://localhost/v1/messages?beta=true -H 'anthropic-version: 2023-06-01' "
        "-H 'content-type: application/json' -H 'x-api-key: placeholder'")
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def model():
    with StandIn() as standin:
        yield standin


@pytest.fixture(scope="module")
def net(model, top):
    """A server with a key of its own; and nothing private is open."""
    server = Server(tempfile.mkdtemp(prefix="model-", dir=top), "--anthropic-base-url", model.url, env={"ANTHROPIC_API_KEY": KEY})
    client = Client(server)
    yield client
    assert server.stop() == 0
    assert server.faults() == []
    assert KEY not in server.log()


@pytest.fixture
def make(net):
    """Sandboxes that may ask, and who asks from them."""
    made = []

    def make(api=net, **settings):
        name = f"model-{next(numbers)}"
        api.ok("PUT", f"/sandbox/{name}", {"secrets": ["anthropic"], **settings})
        made.append((api, name))
        return Asker(api, name)

    yield make
    for api, name in made:
        api("DELETE", f"/sandbox/{name}")


def total(api, box):
    return usage(api, sandbox=box)["total"]


# --- both ways


@pytest.mark.parametrize("unix", [False, True])
def test_an_answer_comes_with_the_key_put_in_outside(make, model, unix):
    box = make()
    word = f"plain-{unix}"
    reply = box.ask(f"{word} [[text: hello box]]", unix=unix,
                    headers={"Authorization": "Bearer mine", "Cookie": "a=b", "anthropic-workspace-id": "other"})
    assert text_of(reply) == "hello box"
    assert reply["headers"]["x-stand-in"] == "1"
    sent = model.requests(word)[0]["headers"]
    assert sent["x-api-key"] == KEY
    assert not {"authorization", "cookie", "anthropic-workspace-id"} & set(sent)
    assert "mine" not in json.dumps(sent)


def test_curl_and_the_variables_of_claude_code(make, net):
    box = make()
    body = json.dumps(question("[[text: by curl]]"))
    done = net.exec(box.box, f"{CURL} -d {body}")
    assert "by curl" in done["stdout"], done
    stat = net.exec(box.box, f"stat -c '%a %U %F' /run/cay {SOCKET}")["stdout"]
    assert stat == "755 root directory\n666 root socket\n"


def test_a_user_in_the_box_may_use_it_and_not_replace_it(make, net):
    box = make()
    script = f"curl -sS --unix-socket {SOCKET} -H 'anthropic-version: 2023-06-01' http://x/v1/models; rm {SOCKET} 2>&1; mv /run/cay /run/cay2 2>&1"
    done = net.exec(box.box, {"command": script, "user": "user"})
    assert '"data"' in done["stdout"] and done["stdout"].count("denied") == 2, done


@pytest.mark.parametrize("unix", [False, True])
def test_streams_come_as_they_are(make, net, unix):
    box = make()
    reply = box.ask("[[text: one two three]] [[usage: in=11 out=7]]", unix=unix, stream=True)
    assert reply["status"] == 200 and not reply["cut"]
    assert reply["headers"]["content-type"].startswith("text/event-stream")
    assert "message_stop" in reply["body"]
    assert total(net, box.box)["output_tokens"] == 7


def test_many_requests_on_one_connection(make, net):
    box = make()
    ask = a_request("[[text: again]] [[usage: in=10 out=1]]")
    for unix in (False, True):
        replies = box.raw(*[ask] * 5, unix=unix)
        assert [text_of(r) for r in replies] == ["again"] * 5
    assert total(net, box.box)["requests"] == 10
    assert total(net, box.box)["input_tokens"] == 100


# --- who may


def test_without_the_secret_there_is_nothing(net):
    net.ok("PUT", "/sandbox/closed", {"network": "internet"})
    box = Asker(net, "closed")
    error_of(box.ask("hello", way="proxy"), 403, "permission_error", 'PATCH /sandbox/closed {"secrets": ["anthropic"]}')
    assert net.exec("closed", f"test -e {SOCKET}")["exitCode"] == 1
    net.ok("DELETE", "/sandbox/closed")


def test_a_patch_opens_and_closes_it(make, net):
    box = make()
    assert text_of(box.ask("[[text: a]]", unix=True)) == "a"
    for _ in range(3):
        net.ok("PATCH", f"/sandbox/{box.box}", {"secrets": []})
        assert net.exec(box.box, f"test -e {SOCKET}")["exitCode"] == 1
        error_of(box.ask("hello", way="proxy"), 403, "permission_error")
        net.ok("PATCH", f"/sandbox/{box.box}", {"secrets": ["anthropic"]})
        assert text_of(box.ask("[[text: b]]", unix=True)) == "b"
        assert text_of(box.ask("[[text: c]]")) == "c"


def test_a_box_without_a_network_is_patched_in(net, make):
    net.ok("PUT", "/sandbox/late", {})
    net.exec("late", "true")
    net.ok("PATCH", "/sandbox/late", {"secrets": ["anthropic"]})
    assert text_of(Asker(net, "late").ask("[[text: late]]", unix=True)) == "late"
    net.ok("DELETE", "/sandbox/late")


@pytest.mark.parametrize("settings", [{}, {"ephemeral": True}])
def test_sleep_and_wake(make, net, settings):
    box = make(**settings)
    assert text_of(box.ask("[[text: before]]", unix=True)) == "before"
    net.ok("POST", f"/sandbox/{box.box}/sleep")
    assert text_of(box.ask("[[text: after]]", unix=True)) == "after"
    assert text_of(box.ask("[[text: after]]")) == "after"


def test_no_key_anywhere(make_server):
    server = make_server()
    api = Client(server)
    api("PUT", "/sandbox/a", {"secrets": ["anthropic"]}).error(400, "INVALID_REQUEST", "anthropic")
    api.ok("PUT", "/secrets/anthropic", {"value": "sk-ant-of-a-tenant", "upstream": "https://api.example.com", "header": "x-api-key"})
    api.ok("PUT", "/sandbox/a", {"secrets": ["anthropic"]})
    api.ok("DELETE", "/secrets/anthropic")
    error_of(Asker(api, "a").ask("hello"), 401, "authentication_error", "ANTHROPIC_API_KEY")
    error_of(Asker(api, "a").ask("hello", unix=True), 401, "authentication_error", "PUT /secrets/anthropic")


@pytest.fixture
def renewing(model, top):
    """A server with a token that the API does not take any more, and one to renew it with."""
    env = {"ANTHROPIC_AUTH_TOKEN": "stale-token-0123456789", "ANTHROPIC_REFRESH_TOKEN": f"refresh-slow-{next(numbers)}",
           "ANTHROPIC_TOKEN_URL": f"{model.url}/oauth/token", "ANTHROPIC_CLIENT_ID": "cay"}
    server = Server(tempfile.mkdtemp(prefix="renew-", dir=top), "--anthropic-base-url", model.url, env=env)
    yield Client(server)
    assert server.stop() == 0
    assert server.faults() == []


def test_a_token_is_renewed_outside(renewing, model):
    renewing.ok("PUT", "/sandbox/a", {"secrets": ["anthropic"]})
    box = Asker(renewing, "a")
    ask = a_request("token-renewed [[text: fresh]]")
    first, *rest = box.raw(ask, ask, ask, unix=True)  # on one connection
    error_of(first, 401, "authentication_error")
    assert first["headers"]["x-should-retry"] == "true"
    assert [text_of(r) for r in rest] == ["fresh"] * 2
    sent = [r["headers"]["authorization"] for r in model.requests("token-renewed")]
    assert sent[0] == "Bearer stale-token-0123456789" and sent[1].startswith("Bearer fresh-") and sent[1] == sent[2]


def test_who_leaves_while_it_is_renewed(renewing):
    renewing.ok("PUT", "/sandbox/a", {"secrets": ["anthropic"]})
    box = Asker(renewing, "a")
    error_of(box.ask("first"), 401, "authentication_error")
    body = json.dumps(question("[[text: x]]"))
    renewing.exec("a", f"for i in 1 2 3 4 5; do {CURL} -m 0.1 -d {body} & done; wait")
    assert text_of(box.ask("[[text: later]]")) == "later"


# --- which requests


@pytest.mark.parametrize("method,path", [
    ("GET", "/v1/files"), ("POST", "/v1/messages/batches"), ("GET", "/v1/messages/batches/x/results"),
    ("GET", "/v1/organizations/me"), ("GET", "/v1/organizations/users"), ("POST", "/v1/complete"), ("GET", "/"),
    ("GET", "/v1/messages"), ("DELETE", "/v1/messages"), ("PUT", "/v1/messages"), ("POST", "/v1/models"),
    ("POST", "/v1/messages/"), ("POST", "//v1/messages"), ("POST", "/v1//messages"), ("POST", "/v1/messages%2Fbatches"),
    ("POST", "/v1/%6dessages"), ("POST", "/v1/messages;x"), ("GET", "/v1/models/a/b"), ("GET", "/v1/models/a%2fb"),
    ("GET", "/v1/models/.hidden"), ("OPTIONS", "/v1/messages"), ("PATCH", "/v1/models"), ("POST", "/V1/messages"),
])
def test_only_the_api_s_own_paths(make, net, model, method, path):
    box = make()
    for unix in (False, True):
        reply = box.raw({"method": method, "path": path, "headers": {"x-word": "forbidden-path"}}, unix=unix)[0]
        error_of(reply, 403, "permission_error", "/v1/messages")
    assert model.requests("forbidden-path") == []
    assert all(not r["path"].startswith(("/v1/files", "/v1/org", "/v1/messages/batches")) for r in model.requests())


@pytest.mark.parametrize("path", ["/v1/models/../files", "/v1/messages/../../v1/files", "/v1/models/%2e%2e/files", "/v1/models/..;/files"])
def test_no_way_up(make, path):
    box = make()
    for unix in (False, True):
        error_of(box.raw({"method": "GET", "path": path}, unix=unix)[0], 400, "invalid_request_error", "..")


def test_the_rest_of_the_api(make):
    box = make()
    replies = box.raw({"method": "GET", "path": "/v1/models?limit=5", "headers": HEADERS},
                      {"method": "GET", "path": f"/v1/models/{MODEL}", "headers": HEADERS},
                      {"method": "HEAD", "path": "/v1/models"},
                      {"path": "/v1/messages/count_tokens", "headers": HEADERS,
                       "body": json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]})}, unix=True)
    assert [r["status"] for r in replies] == [200] * 4
    assert json.loads(replies[3]["body"])["input_tokens"] > 0
    assert spent(box.api, box.box)["tokens"] == 0


def test_errors_of_the_api_come_through(make, net):
    box = make()
    error_of(box.ask("[[status: 529]]"), 529, "overloaded_error")
    error_of(box.ask("[[status: 429 retry-after=7]]"), 429, "rate_limit_error")
    assert spent(net, box.box)["tokens"] == 0


# --- a tenant's own


def test_a_tenant_s_own_secret_goes_first(make, net, model, tenant_of):
    tenant = tenant_of()
    box = make(tenant)
    assert text_of(box.ask("[[text: ours]]")) == "ours"
    # It is not to be reached: nothing private was opened for tenants.
    tenant.ok("PUT", "/secrets/anthropic", {"value": "sk-own-0123456789", "upstream": model.url, "header": "x-api-key"})
    error_of(box.ask("[[text: theirs]] own-secret"), 403, "permission_error", "egress-private")
    assert model.requests("own-secret") == []
    tenant.ok("DELETE", "/secrets/anthropic")
    assert text_of(box.ask("[[text: ours again]]")) == "ours again"


@pytest.fixture
def tenant_of(net):
    def make():
        made = net.ok("POST", "/tokens", {"name": f"model-tenant-{next(numbers)}"})
        return Client(net.server, made["token"])

    return make


def test_a_tenant_s_own_secret_where_it_is_open(make_server, model):
    server = make_server("--egress-private", "127.0.0.0/8")
    api = Client(server)
    api.ok("PUT", "/secrets/anthropic", {"value": "sk-own-0123456789", "upstream": model.url, "header": "x-api-key"})
    api.ok("PUT", "/sandbox/own", {"secrets": ["anthropic"]})
    box = Asker(api, "own")
    assert text_of(box.ask("own-open [[text: theirs]] [[usage: in=5 out=6]]", unix=True)) == "theirs"
    assert model.requests("own-open")[0]["headers"]["x-api-key"] == "sk-own-0123456789"
    assert total(api, "own")["output_tokens"] == 6
    # Any path, as with any secret, until there is a budget.
    assert box.raw({"method": "GET", "path": "/v1/files"})[0]["headers"].get("x-stand-in") == "1"
    api.ok("PATCH", "/sandbox/own", {"budget": {"tokens": 1000}})
    error_of(box.raw({"method": "GET", "path": "/v1/files"})[0], 403, "permission_error", "budget")


# --- usage


def test_what_is_used_is_counted(make, net):
    box = make()
    for stream in (False, True):
        box.ask("[[text: x]] [[usage: in=100 out=10 cache_read=1000 cache_write=50 web_search=2]]", stream=stream)
    sums = total(net, box.box)
    assert sums["requests"] == 2
    assert (sums["input_tokens"], sums["output_tokens"]) == (200, 20)
    assert (sums["cache_read_input_tokens"], sums["cache_creation_input_tokens"]) == (2000, 100)
    assert sums["web_search_requests"] == 4
    # $2 and $10 a million, $0.10 read, $2.5 written, $0.01 a search.
    assert sums["cost_usd"] == pytest.approx(2 * (100 * 2e-6 + 10 * 10e-6 + 1000 * 0.1e-6 + 50 * 2.5e-6 + 0.02))
    assert [u["key"] for u in usage(net, by="source", sandbox=box.box)["usage"]] == ["box"]
    assert [u["key"] for u in usage(net, by="model", sandbox=box.box)["usage"]] == [MODEL]
    assert spent(net, box.box)["usd"] == pytest.approx(sums["cost_usd"])
    assert all(u["key"].startswith("req_standin") for u in usage(net, by="request", sandbox=box.box)["usage"])


def test_a_stream_that_breaks_has_cost_what_it_told(make, net):
    box = make()
    reply = box.ask("[[text: a b c d e f g h i j k l m n o p q r s t u v w x y z]] [[piece: 4]] [[break: 5]] [[usage: in=321 out=9]]", stream=True)
    assert reply["cut"]
    assert eventually(lambda: total(net, box.box)["input_tokens"]) == 321


def test_who_hangs_up_pays(make, net):
    box = make()
    net.exec(box.box, {"command": f"{CURL} -m 2 -d @-", "stdin": question("x" * 40000 + " [[delay: 60000]]")})
    tokens = eventually(lambda: total(net, box.box)["input_tokens"])
    assert 10000 <= tokens < 11000
    assert [u["key"] for u in usage(net, by="model", sandbox=box.box)["usage"]] == [MODEL]


# --- the budget


def test_a_budget_of_tokens(make, net):
    box = make(budget={"tokens": 100})
    assert text_of(box.ask("[[text: a]] [[usage: in=50 out=20]]")) == "a"
    assert text_of(box.ask("[[text: b]] [[usage: in=50 out=20]]", unix=True)) == "b"  # paid for: it comes whole
    for unix in (False, True):
        message = error_of(box.ask("[[text: c]]", unix=unix), 402, "billing_error", "budget is used up", f"PATCH /sandbox/{box.box}")
        assert '"tokens":140' in message
    assert len(events(net, box.box, "budget_exceeded")) == 1
    net.ok("PATCH", f"/sandbox/{box.box}", {"budget": {"tokens": 1000}})
    assert text_of(box.ask("[[text: d]] [[usage: in=1 out=1]]")) == "d"
    net.ok("PATCH", f"/sandbox/{box.box}", {"budget": {"tokens": 142}})
    error_of(box.ask("[[text: e]]"), 402, "billing_error")
    assert len(events(net, box.box, "budget_exceeded")) == 2


def test_a_budget_of_money(make, net):
    box = make(budget={"usd": 0.001})
    assert text_of(box.ask("[[text: a]] [[usage: in=100 out=79]]")) == "a"
    assert text_of(box.ask("[[text: a]] [[usage: in=5 out=0]]")) == "a"
    error_of(box.ask("[[text: c]]"), 402, "billing_error", '"usd":0.001')


def test_a_stream_is_cut_where_the_budget_ends(make, net, model):
    box = make(budget={"tokens": 400})
    reply = box.ask("cut-here [[big: 20000]] [[slow: 20]] [[usage: in=10 out=5000]]", stream=True)
    assert reply["status"] == 200 and reply["cut"], reply
    assert "message_stop" not in reply["body"] and 500 < len(reply["body"])
    wait_for_event(net, box.box, "budget_exceeded")
    error_of(box.ask("[[text: c]]"), 402, "billing_error")
    assert 400 < spent(net, box.box)["tokens"] < 1500
    eventually(lambda: model.requests("cut-here")[0]["state"] == "client-gone")


def test_so_many_at_once(make, net):
    box = make(budget={"tokens": 100000})
    ask = lambda i: lambda: box.ask(f"[[delay: 3000]] [[text: {i}]] [[usage: in=1 out=1]]", unix=i % 2 == 0)
    replies = at_once(*[ask(i) for i in range(12)])
    good = [r for r in replies if r["status"] == 200]
    assert len(good) >= 8
    for reply in replies:
        if reply not in good:
            error_of(reply, 429, "rate_limit_error", "8")
            assert reply["headers"]["retry-after"] == "1"
    assert spent(net, box.box)["tokens"] == 2 * len(good)
    assert box.ask("[[text: x]]")["status"] == 200


def test_budgets_are_each_one_s_own(make, net, tenant_of):
    a, b = make(budget={"tokens": 10}), make(tenant_of(), budget={"tokens": 10})
    a.ask("[[usage: in=50 out=5]]")
    error_of(a.ask("hello"), 402, "billing_error")
    assert b.ask("[[usage: in=1 out=1]]")["status"] == 200
    assert (spent(a.api, a.box)["tokens"], spent(b.api, b.box)["tokens"]) == (55, 2)


def test_counters_outlive_sleep_and_daemon(make, net):
    box = make(budget={"tokens": 100})
    box.ask("[[usage: in=90 out=5]]")
    net.ok("POST", f"/sandbox/{box.box}/sleep")
    os.kill(net.server.daemon_pid(), signal.SIGKILL)
    eventually(lambda: try_health(net))
    assert spent(net, box.box)["tokens"] == 95
    box.ask("[[usage: in=9 out=5]]")
    error_of(box.ask("hello"), 402, "billing_error")


# --- a daemon that dies


def try_health(api):
    try:
        return api("GET", "/health").status == 200
    except OSError:
        return False


def test_the_socket_outlives_the_daemon(make, net):
    box = make()
    assert text_of(box.ask("[[text: a]]", unix=True)) == "a"
    inode = net.exec(box.box, f"stat -c %i {SOCKET}")["stdout"]
    running = threading.Thread(target=lambda: swallow(lambda: box.ask("[[big: 100000]] [[slow: 50]]", stream=True)))
    running.start()
    eventually(lambda: "running")
    os.kill(net.server.daemon_pid(), signal.SIGKILL)  # in the middle of a stream, too
    running.join()
    eventually(lambda: try_health(net))
    assert net.exec(box.box, f"stat -c %i {SOCKET}")["stdout"] == inode
    assert text_of(box.ask("[[text: b]]", unix=True)) == "b"
    assert text_of(box.ask("[[text: c]]")) == "c"


def test_who_connects_meanwhile_waits(make, net):
    box = make()
    body = json.dumps(question("[[text: patient]]"))
    process = net.start(box.box, {"command": f"sleep 1; {CURL} -m 60 -d {body}"})
    os.kill(net.server.daemon_pid(), signal.SIGSTOP)
    threading.Event().wait(2)
    os.kill(net.server.daemon_pid(), signal.SIGKILL)
    eventually(lambda: try_health(net))
    net.ended(box.box, process)
    logs = net.ok("GET", f"/sandbox/{box.box}/processes/{process}/logs")
    assert "patient" in json.dumps(logs), logs


def swallow(job):
    try:
        job()
    except (OSError, AssertionError):
        pass
