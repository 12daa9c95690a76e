# SPDX-License-Identifier: Apache-2.0
"""GET /stats, and the histogram of requests in /metrics."""

import re
import time

from api_helpers import Client, eventually

LATENCIES = ["requests", "create", "wake", "exec", "cell"]
OF_ANSWERS = ["generation", "sandbox"]


def check_latency(row):
    assert set(row) == {"count", "p50_ms", "p90_ms", "p99_ms"}
    if row["count"] == 0:
        assert row["p50_ms"] is row["p90_ms"] is row["p99_ms"] is None
    else:
        assert 0 <= row["p50_ms"] <= row["p90_ms"] <= row["p99_ms"]


def test_an_admin_sees_everything(api, box):
    api.exec(box, "true")
    stats = api.ok("GET", "/stats")
    assert stats["success"] is True and stats["scope"] == "all"
    assert re.fullmatch(r"\d+\.\d+\.\d+", stats["version"]) and stats["uptime_ms"] >= 0
    boxes = stats["boxes"]
    assert boxes["max"] == 64 and boxes["running"] >= 1 and boxes["waiting"] >= 0
    assert set(boxes["parked"]) == {"python", "javascript"}
    assert stats["sandboxes"]["running"] >= 1
    assert set(stats["latency"]) == {"seconds", *LATENCIES, *OF_ANSWERS}
    assert stats["latency"]["seconds"] == 300
    for name in LATENCIES + OF_ANSWERS:
        check_latency(stats["latency"][name])
    assert set(stats["model"]) == {"requests", "tokens", "cost_usd", "errors", "open"}
    assert all(n >= 0 for n in stats["model"].values())
    assert set(stats["egress"]) == {"allowed", "denied", "bytes", "open"}


def test_the_machine(api):
    host = api.ok("GET", "/stats")["host"]
    assert host["cpus"] >= 1 and len(host["load"]) == 3
    assert 0 < host["memory_available"] <= host["memory_total"]

    def percent():
        return api.ok("GET", "/stats")["host"]["cpu_percent"]

    first = eventually(lambda: percent() is not None and [percent()])
    assert 0 <= first[0] <= 100


def test_what_takes_time_is_counted(make_server):
    """On a server of its own: elsewhere three that take long are few among many."""
    client = Client(make_server())
    client.ok("PUT", "/sandbox/slow", {})
    for _ in range(3):
        client.exec("slow", "sleep 0.2")
    after = client.ok("GET", "/stats")["latency"]
    assert after["exec"]["count"] == 3 and after["exec"]["p99_ms"] >= 190
    assert after["requests"]["p99_ms"] >= 190


def test_sandboxes_are_counted(api, tenant):
    def counts():
        return tenant.ok("GET", "/stats")["sandboxes"]

    assert counts() == {"running": 0, "sleeping": 0}
    for name in "ab":
        tenant.ok("PUT", f"/sandbox/{name}", {})
    tenant.exec("a", "true")
    tenant.exec("b", "true")
    assert counts() == {"running": 2, "sleeping": 0}
    tenant.ok("POST", "/sandbox/b/sleep")
    eventually(lambda: counts() == {"running": 1, "sleeping": 1})
    for name in "ab":
        tenant.ok("DELETE", f"/sandbox/{name}")
    eventually(lambda: counts() == {"running": 0, "sleeping": 0})


def test_a_tenant_sees_what_is_its_own(api, tenant, box):
    api.exec(box, "true")
    stats = tenant.ok("GET", "/stats")
    assert stats["scope"] == "tenant"
    assert stats["host"] is None and stats["egress"] is None
    assert set(stats["latency"]) == {"seconds", *OF_ANSWERS}
    assert stats["latency"]["generation"]["count"] == 0
    assert stats["model"] == {"requests": 0, "tokens": 0, "cost_usd": 0, "errors": None, "open": None}
    assert stats["sandboxes"] == {"running": 0, "sleeping": 0}


def test_nobody_sees_nothing(server, api):
    reply = type(api)(server, token=None)("GET", "/stats")
    reply.error(401, "UNAUTHORIZED")
    api("GET", "/stats?x=1").error(400, "INVALID_REQUEST", "x")
    assert api("POST", "/stats").status == 405


def test_requests_in_metrics(api):
    def read():
        text = api("GET", "/metrics").body.decode()
        buckets = [int(n) for n in re.findall(r'^cay_request_seconds_bucket\{le="[^"]+"\} (\d+)$', text, re.MULTILINE)]
        return buckets, int(re.search(r"^cay_request_seconds_count (\d+)$", text, re.MULTILINE)[1])

    before, count = read()
    assert before == sorted(before) and before[-1] == count
    for _ in range(5):
        api.ok("GET", "/stats")
    assert read()[1] >= count + 5


def test_it_is_cheap(api):
    """A monitor asks every second, and must not be what is monitored."""
    times = []
    for _ in range(20):
        start = time.monotonic()
        api.ok("GET", "/stats")
        times.append(time.monotonic() - start)
    assert sorted(times)[10] < 0.25  # with sanitizers, on a busy machine
