# SPDX-License-Identifier: Apache-2.0
"""The same request sent twice."""

import pytest
from api_helpers import Client, at_once, eventually


def key(name):
    return {"Idempotency-Key": name}


def test_exec_runs_once(api, box):
    body = {"command": "echo x >> /workspace/n; wc -l < /workspace/n"}
    first = api("POST", f"/sandbox/{box}/exec", body, key("once"))
    again = api("POST", f"/sandbox/{box}/exec", body, key("once"))
    assert first.body == again.body and first.json["stdout"].strip() == "1"
    assert "Idempotency-Replayed" not in first.headers and again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["X-Request-Id"] != first.headers["X-Request-Id"]
    assert api("POST", f"/sandbox/{box}/exec", body, key("twice")).json["stdout"].strip() == "2"


def test_other_request(api, box):
    api.exec(box, "echo 1", key("other"))
    api("POST", f"/sandbox/{box}/exec", {"command": "echo 2"}, key("other")).error(409, "IDEMPOTENCY_KEY_REUSED")
    api("POST", f"/sandbox/{box}/processes", {"command": "echo 1"}, key("other")).error(409, "IDEMPOTENCY_KEY_REUSED")


def test_create_and_put(api, tenant):
    first = tenant("POST", "/sandbox", {}, key("create"))
    again = tenant("POST", "/sandbox", {}, key("create"))
    assert first.status == again.status == 201 and first.json["id"] == again.json["id"]
    assert len(tenant.ok("GET", "/sandbox")["sandboxes"]) == 1
    put = [tenant("PUT", "/sandbox/put", {}, key("put")).status for _ in range(2)]
    assert put == [201, 201]  # the first answer again
    for made in tenant.ok("GET", "/sandbox")["sandboxes"]:
        tenant.ok("DELETE", f"/sandbox/{made['id']}")


def test_process_starts_once(api, box):
    body = {"argv": ["true"]}
    ids = {api.ok("POST", f"/sandbox/{box}/processes", body, key("start"))["id"] for _ in range(3)}
    assert len(ids) == 1 and len(api.ok("GET", f"/sandbox/{box}/processes")["processes"]) == 1


def test_still_running(api, box):
    body = {"command": "touch /workspace/begun; sleep 2; echo done"}

    def second():
        eventually(lambda: api.exec(box, "test -e /workspace/begun")["success"])
        return api("POST", f"/sandbox/{box}/exec", body, key("busy"))

    first, reply = at_once(lambda: api.exec(box, body, key("busy")), second)
    assert first["stdout"] == "done\n"
    if reply.status == 409:
        reply.error(409, "REQUEST_IN_PROGRESS")
        assert int(reply.headers["Retry-After"]) >= 1
    else:  # the machine was so slow that it was over
        assert reply.json["stdout"] == "done\n"


def test_client_that_went_away_gets_its_answer(api, box):
    body = {"command": "touch /workspace/begun; sleep 1; echo made it"}
    connection = api.connect()
    headers, raw = api.head(key("gone"), body)
    connection.request("POST", f"/sandbox/{box}/exec", body=raw, headers=headers)
    eventually(lambda: api.exec(box, "test -e /workspace/begun")["success"])
    connection.close()
    reply = eventually(lambda: (r := api("POST", f"/sandbox/{box}/exec", body, key("gone"))).status == 200 and r)
    assert reply.json["stdout"] == "made it\n" and reply.headers["Idempotency-Replayed"] == "true"


def test_keys_belong_to_tenants(api, tenant):
    a = api.ok("POST", "/sandbox", {}, key("shared"))
    b = tenant.ok("POST", "/sandbox", {}, key("shared"))
    assert a["id"] != b["id"]
    api.ok("DELETE", f"/sandbox/{a['id']}")
    tenant.ok("DELETE", f"/sandbox/{b['id']}")


def test_refusals_do_not_take_the_key(api, box):
    api("POST", f"/sandbox/{box}/exec", {"command": 5}, key("refused")).error(400, "INVALID_REQUEST")
    api("POST", "/sandbox/nobody/exec", {"command": "id"}, key("refused")).error(404, "NOT_FOUND")
    assert api.exec(box, "echo fine", key("refused"))["stdout"] == "fine\n"


def test_too_large_to_keep(api, box):
    body = {"command": "head -c 2000000 /dev/zero | tr '\\0' x"}
    assert len(api.exec(box, body, key("large"))["stdout"]) == 2000000
    api("POST", f"/sandbox/{box}/exec", body, key("large")).error(409, "OUTCOME_UNKNOWN", "too large")


def test_stream_attaches(api, box):
    body = {"command": "echo x >> /workspace/n; wc -l < /workspace/n; sleep 0.3"}
    outputs, processes = set(), set()
    for _ in range(3):
        with api.stream("POST", f"/sandbox/{box}/exec", body, key("stream")) as stream:
            events = stream.until("exit")
        outputs.add("".join(e.data["data"] for e in events if e.name == "stdout").strip())
        processes.add(events[0].data["processId"])
    assert outputs == {"1"} and len(processes) == 1
    api.ok("DELETE", f"/sandbox/{box}/processes/{processes.pop()}")
    api.stream("POST", f"/sandbox/{box}/exec", body, key("stream")).error(409, "OUTCOME_UNKNOWN")


@pytest.mark.parametrize("bad", ["", "a b", "x" * 256, "\u00e9"])
def test_bad_keys(api, box, bad):
    api("POST", f"/sandbox/{box}/exec", {"command": "id"}, {"Idempotency-Key": bad.encode("latin-1")}).error(
        400, "INVALID_REQUEST", "Idempotency-Key")


def test_answers_outlive_a_restart(make_server):
    server = make_server()
    api = Client(server)
    api.ok("PUT", "/sandbox/a", {"keepAlive": True})
    first = api("POST", "/sandbox/a/exec", {"command": "date +%N"}, key("kept"))
    assert server.stop() == 0
    server.start()
    again = api("POST", "/sandbox/a/exec", {"command": "date +%N"}, key("kept"))
    assert again.body == first.body
