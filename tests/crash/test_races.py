# SPDX-License-Identifier: Apache-2.0
"""Requests that get in each other's way: one name made and removed at once, exec against sleep and removal,
many who wake, many who want the last place."""

import collections
import concurrent.futures
import threading
import time

from crash_helpers import FULL, PATIENCE, wait_until

ROUNDS = 50 if FULL else 8


def at_once(server, requests, token=None):
    """Sends all of them in the same moment, each on its own connection; the answers in order."""
    gate = threading.Barrier(len(requests))

    def one(request):
        client = server.client(token)
        client.connect()
        gate.wait(PATIENCE)
        try:
            return client.call(*request)
        finally:
            client.close()

    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(one, requests))


def statuses(answers):
    return collections.Counter(answer.status for answer in answers)


def check_nothing_is_left(server):
    assert server.client().good("GET", "/sandbox")["sandboxes"] == []
    assert wait_until(lambda: server.health()["load"]["running"] == 0), server.health()
    assert wait_until(lambda: not server.disks()), server.disks()


def test_many_make_the_same(server):
    for i in range(ROUNDS):
        answers = at_once(server, [("PUT", f"/sandbox/s{i}", {})] * 20)
        assert statuses(answers) == {201: 1, 200: 19}, answers
        assert len({answer.json["box"] for answer in answers}) == 1
        assert server.client().good("GET", f"/sandbox/s{i}")["boxes"] == 1
        server.client().good("DELETE", f"/sandbox/s{i}")
    check_nothing_is_left(server)


def test_made_and_removed_at_once(server):
    client = server.client()
    for i in range(ROUNDS):
        requests = [("PUT", "/sandbox/x", {}), ("DELETE", "/sandbox/x")] * 10
        for (method, *_), answer in zip(requests, at_once(server, requests)):
            wanted = (200, 201, 409, 503) if method == "PUT" else (200, 404)
            assert answer.status in wanted, (i, method, answer)
        # Whatever came last, the name works.
        assert client.call("DELETE", "/sandbox/x").status in (200, 404)
        assert client.call("GET", "/sandbox/x").status == 404
        client.good("PUT", "/sandbox/x", {})
        assert client.exec("x", "ls /workspace; echo here") == "here\n"
        client.good("DELETE", "/sandbox/x")
    check_nothing_is_left(server)


def test_removed_during_exec(server):
    client = server.client()
    for _ in range(ROUNDS):
        client.good("PUT", "/sandbox/x", {})
        answers = at_once(
            server, [("POST", "/sandbox/x/exec", {"command": "sleep 1000"})] * 4 + [("DELETE", "/sandbox/x")]
        )
        assert answers[-1].status == 200, answers[-1]
        for answer in answers[:-1]:
            assert answer.status in (200, 404, 409), answer
            if answer.status == 200:
                assert not answer.json["success"] and answer.json["reason"] in ("killed", "signal"), answer
        assert client.call("GET", "/sandbox/x").status == 404
    check_nothing_is_left(server)


def test_exec_during_sleep(server):
    """Either it ran before, or it wakes the sandbox, or sleep ended it: it is told, and nothing hangs."""
    client = server.client()
    client.good("PUT", "/sandbox/x", {})
    for i in range(ROUNDS):
        requests = [("POST", "/sandbox/x/exec", {"command": f"echo {i}"})] * 6 + [("POST", "/sandbox/x/sleep")] * 2
        answers = at_once(server, requests)
        for answer in answers[:6]:
            assert answer.status == 200, answer
            result = answer.json
            assert result["stdout"] == f"{i}\n" or result["reason"] in ("killed", "signal"), result
        assert statuses(answers[6:]) == {200: 2}, answers[6:]
        assert client.exec("x", "echo fine") == "fine\n"
    client.good("DELETE", "/sandbox/x")
    check_nothing_is_left(server)


def test_many_wake_it(server):
    client = server.client()
    client.good("PUT", "/sandbox/x", {})
    for i in range(ROUNDS):
        client.good("POST", "/sandbox/x/sleep")
        requests = [("POST", "/sandbox/x/wake")] * 6 + [("POST", "/sandbox/x/exec", {"command": "echo up"})] * 6
        answers = at_once(server, requests)
        assert statuses(answers) == {200: 12}, answers
        assert len({answer.json["box"] for answer in answers[:6]}) == 1
        assert all(answer.json["stdout"] == "up\n" for answer in answers[6:])
        assert client.good("GET", "/sandbox/x")["boxes"] == i + 2
    client.good("DELETE", "/sandbox/x")
    check_nothing_is_left(server)


def tenant(server, **quotas):
    body = {"name": "racer", "quotas": quotas}
    return server.client().good("POST", "/tokens", body)["token"]


def test_the_last_place(server):
    """A hundred want it, one gets it."""
    token = tenant(server, sandboxes=4)
    client = server.client(token)
    for i in range(3):
        client.good("PUT", f"/sandbox/old{i}", {})
    for i in range(3):
        answers = at_once(server, [("PUT", f"/sandbox/new{i}-{n}", {}) for n in range(100)], token)
        assert statuses(answers) == {201: 1, 403: 99}, statuses(answers)
        assert {a.json["error_code"] for a in answers if a.status == 403} == {"QUOTA_EXCEEDED"}
        assert len(client.good("GET", "/sandbox")["sandboxes"]) == 4
        winner = next(answer.json["sandboxId"] for answer in answers if answer.status == 201)
        client.good("DELETE", f"/sandbox/{winner}")
    for i in range(3):
        client.good("DELETE", f"/sandbox/old{i}")
    check_nothing_is_left(server)


def test_the_last_running_place(server):
    """Of those that exist, a hundred requests for more than may run: exactly as many as may."""
    token = tenant(server, running=3)
    client = server.client(token)
    for i in range(10):
        client.good("PUT", f"/sandbox/s{i}", {})
        client.good("POST", f"/sandbox/s{i}/sleep")
    answers = at_once(server, [("POST", f"/sandbox/s{n % 10}/wake") for n in range(100)], token)
    assert set(statuses(answers)) == {200, 503}, statuses(answers)
    assert all("Retry-After" in answer.headers for answer in answers if answer.status == 503)
    woken = {answer.json["sandboxId"] for answer in answers if answer.status == 200}
    running = client.good("GET", "/sandbox?status=running")["sandboxes"]
    assert len(running) == 3 and {each["id"] for each in running} == woken, (woken, running)
    for i in range(10):
        client.good("DELETE", f"/sandbox/s{i}")
    check_nothing_is_left(server)


def test_a_client_that_leaves_takes_its_exec_with_it(server):
    client = server.client()
    client.good("PUT", "/sandbox/x", {})
    for _ in range(3):
        other = server.client()
        other.connect()
        other.connection.request(
            "POST",
            "/sandbox/x/exec",
            '{"command": "sleep 1000.25"}',
            {"Authorization": f"Bearer {server.token}"},
        )
        running = lambda: "sleep 1000.25" in client.exec("x", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; true")
        assert wait_until(running)
        other.close()
        assert wait_until(lambda: not running())
        time.sleep(0.01)
    client.good("DELETE", "/sandbox/x")
