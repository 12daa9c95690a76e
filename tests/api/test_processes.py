# SPDX-License-Identifier: Apache-2.0
"""Background processes: their lives, signals, input, logs, and waiting for them."""

import base64
import time

import pytest
from api_helpers import Client, at_once, eventually


def path(box, process, action=""):
    return f"/sandbox/{box}/processes/{process}{action}"


def test_life(api, box):
    made = api.ok("POST", f"/sandbox/{box}/processes", {"command": "echo hi; sleep 1000", "id": "p.1", "cwd": "/tmp",
                                                        "env": {"A": "b"}, "keepAwake": True})
    p = made["process"]
    assert made["id"] == p["id"] == "p.1" and p["pid"] > 1 and p["status"] == "running" and p["cwd"] == "/tmp"
    assert p["command"] == "echo hi; sleep 1000" and p["keepAwake"] is True and p["endedAt"] is None
    assert "exitCode" not in p and "reason" not in p
    api("POST", f"/sandbox/{box}/processes", {"command": "id", "id": "p.1"}).error(409, "CONFLICT", "p.1")
    assert [q["id"] for q in api.ok("GET", f"/sandbox/{box}/processes")["processes"]] == ["p.1"]
    api.ok("DELETE", path(box, "p.1"))
    ended = api.ended(box, "p.1") if api("GET", path(box, "p.1")).status == 200 else None
    if ended is not None:
        assert ended["status"] == "ended" and ended["reason"] == "killed" and ended["success"] is False
        api.ok("DELETE", path(box, "p.1"))
    api("GET", path(box, "p.1")).error(404, "NOT_FOUND")


def test_end(api, box):
    p = api.ended(box, api.start(box, {"argv": ["sh", "-c", "echo out; echo err >&2; exit 4"]}))
    assert p["exitCode"] == 4 and p["reason"] == "exit" and p["success"] is False and p["endedAt"] is not None
    assert p["logs"] == {"stdout": {"size": 4}, "stderr": {"size": 4}}
    assert p["command"] == ["sh", "-c", "echo out; echo err >&2; exit 4"]


def test_cannot_start(api, box):
    api("POST", f"/sandbox/{box}/processes", {"argv": ["nope"], "id": "x"}).error(400, "CANNOT_START", "nope")
    api("GET", path(box, "x")).error(404, "NOT_FOUND")
    assert api.start(box, {"argv": ["true"], "id": "x"}) == "x"  # the name is free


@pytest.mark.parametrize("body, words", [
    ({}, "command"), ({"command": "x", "id": "a b"}, "id"), ({"command": "x", "id": ""}, "id"),
    ({"command": "x", "keepAwake": 1}, "keepAwake"), ({"command": "x", "stdin": "x"}, "stdin"),
    ({"command": "x", "session": "s"}, "session"), ({"command": "x", "timeout": "1"}, "unit"),
])
def test_bad_starts(api, shared_box, body, words):
    api("POST", f"/sandbox/{shared_box}/processes", body).error(400, "INVALID_REQUEST", words)


def test_timeout(api, box):
    p = api.ended(box, api.start(box, {"command": "sleep 1000", "timeout": 200}))
    assert p["reason"] == "timeout" and p["exitCode"] == 124


@pytest.mark.parametrize("signal, number", [("SIGTERM", 15), ("usr1", 10), (9, 9), ("INT", 2)])
def test_signals(api, box, signal, number):
    process = api.start(box, {"argv": ["sleep", "1000"]})
    api.ok("POST", path(box, process, "/signal"), {"signal": signal})
    p = api.ended(box, process)
    assert p["signal"] == number and p["exitCode"] == 128 + number
    api("POST", path(box, process, "/signal"), {"signal": signal}).error(409, "CONFLICT", "ended")


def test_signals_reach_the_group(api, box):
    process = api.start(box, {"command": "trap 'echo got; exit 0' USR1; echo ready; while :; do sleep 0.05; done"})
    api.ok("POST", path(box, process, "/wait"), {"log": "ready", "timeout": "30s"})
    api.ok("POST", path(box, process, "/signal"), {"signal": "SIGUSR1"})
    assert api.ended(box, process)["exitCode"] in (0, 138)


@pytest.mark.parametrize("body", [{}, {"signal": None}, {"signal": "SIGNOPE"}, {"signal": 0}, {"signal": 65}, {"signal": []},
                                  {"signal": 9, "pid": 1}])
def test_bad_signals(api, shared_box, body):
    api("POST", path(shared_box, "nobody", "/signal"), body).error(400, "INVALID_REQUEST")


@pytest.mark.parametrize("method, action, body", [
    ("GET", "", None), ("DELETE", "", None), ("GET", "/logs", None), ("POST", "/signal", {"signal": 9}),
    ("POST", "/stdin", {"data": "x"}), ("POST", "/wait", {"exit": True}),
])
def test_no_such_process(api, shared_box, method, action, body):
    api(method, path(shared_box, "nobody", action), body).error(404, "NOT_FOUND", "nobody")


# --- standard input


def test_stdin(api, box):
    process = api.start(box, {"argv": ["cat"]})
    api.ok("POST", path(box, process, "/stdin"), {"data": "a\0\n"})
    api.ok("POST", path(box, process, "/stdin"), {"data": base64.b64encode(b"\xff\n").decode(), "encoding": "base64"})
    raw = {"Content-Type": "application/octet-stream"}
    api.ok("POST", path(box, process, "/stdin"), b"raw\xfe\n", raw)
    api.ok("POST", path(box, process, "/stdin?end=1"), b"last", raw)
    api.ended(box, process)
    assert api("GET", path(box, process, "/logs")).body == b"a\0\n\xff\nraw\xfe\nlast"
    api("POST", path(box, process, "/stdin"), {"data": "x"}).error(409, "CONFLICT")


def test_stdin_ended_with_base64(api, box):
    process = api.start(box, {"argv": ["cat"]})
    api.ok("POST", path(box, process, "/stdin?end=1"), {"data": "AP8=", "encoding": "base64"})
    assert api.ok("POST", path(box, process, "/wait"), {"exit": True})["process"]["exitCode"] == 0
    assert api("GET", path(box, process, "/logs")).body == b"\0\xff"


def test_stdin_closed(api, box):
    process = api.start(box, {"argv": ["cat"], "stdin": False})
    assert api.ended(box, process)["exitCode"] == 0
    process = api.start(box, {"argv": ["cat"]})
    api.ok("POST", path(box, process, "/stdin"), {"end": True})
    assert api.ended(box, process)["exitCode"] == 0


def test_stdin_that_nobody_reads(api, box):
    process = api.start(box, {"argv": ["sleep", "1000"]})
    replies = [api("POST", path(box, process, "/stdin"), b"x" * 500_000, {"Content-Type": "application/octet-stream"})
               for _ in range(4)]
    full = [r for r in replies if r.status != 200]
    assert full, replies
    full[0].error(503, "UNAVAILABLE")
    assert int(full[0].headers["Retry-After"]) >= 1
    api.ok("DELETE", path(box, process))


@pytest.mark.parametrize("body, words", [
    ({"data": 5}, "data"), ({"data": "!", "encoding": "base64"}, "base64"), ({"data": "x", "encoding": "hex"}, "encoding"),
    ({"data": "x", "end": "yes"}, "end"), ({"text": "x"}, "text"),
])
def test_bad_stdin(api, box, body, words):
    process = api.start(box, {"argv": ["cat"]})
    api("POST", path(box, process, "/stdin"), body).error(400, "INVALID_REQUEST", words)
    api.ok("DELETE", path(box, process))


# --- logs


@pytest.fixture
def spoken(api, box):
    process = api.start(box, {"command": "printf 'one\\ntwo\\n'; printf 'e\\377\\n' >&2"})
    api.ended(box, process)
    return process


def test_raw_logs(api, box, spoken):
    reply = api("GET", path(box, spoken, "/logs"))
    assert reply.body == b"one\ntwo\n" and reply.headers["X-Cay-Offset"] == "0"
    assert reply.headers["Content-Type"] == "application/octet-stream" and "X-Cay-Gap" not in reply.headers
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    reply = api("GET", path(box, spoken, "/logs?stream=stderr&offset=1"))
    assert reply.body == b"\xff\n" and reply.headers["X-Cay-Offset"] == "1"
    assert api("GET", path(box, spoken, "/logs?offset=8")).body == b""
    assert api("GET", path(box, spoken, "/logs?offset=99999")).body == b""
    assert api("GET", path(box, spoken, "/logs?follow=1")).body == b"one\ntwo\n"


def test_json_logs(api, box, spoken):
    accept = {"Accept": "application/json"}
    page = api.ok("GET", path(box, spoken, "/logs"), headers=accept)
    assert page["status"] == "ended" and page["more"] is False and page["nextOffset"] == {"stdout": 8, "stderr": 3}
    assert page["events"] == [{"stream": "stdout", "offset": 0, "data": "one\ntwo\n"},
                              {"stream": "stderr", "offset": 0, "data": "Zf8K", "encoding": "base64"}]
    page = api.ok("GET", path(box, spoken, "/logs?offset=4.3"), headers=accept)
    assert page["events"] == [{"stream": "stdout", "offset": 4, "data": "two\n"}]
    page = api.ok("GET", path(box, spoken, "/logs?stream=stderr&offset=2"), headers=accept)
    assert page["events"] == [{"stream": "stderr", "offset": 2, "data": "\n"}]
    api("GET", path(box, spoken, "/logs?follow=1"), headers=accept).error(400, "INVALID_REQUEST", "event-stream")


def test_event_logs(api, box, spoken):
    with api.stream("GET", path(box, spoken, "/logs")) as stream:
        events = list(stream)
    assert [e.name for e in events] == ["stdout", "stderr", "exit"]
    with api.stream("GET", path(box, spoken, "/logs"), headers={"Last-Event-ID": f"{spoken}.4.0"}) as stream:
        assert next(iter(stream)).data == {"offset": 4, "data": "two\n"}
    with api.stream("GET", path(box, spoken, "/logs?stream=stdout&offset=4")) as stream:
        assert [e.name for e in stream] == ["stdout", "exit"]
    api.stream("GET", path(box, spoken, "/logs"), headers={"Last-Event-ID": "other.0.0"}).error(400, "INVALID_REQUEST")


@pytest.mark.parametrize("query, words", [
    ("?stream=both", "both"), ("?stream=x", "stream"), ("?offset=x", "offset"), ("?offset=-1", "offset"), ("?follow=maybe", "follow"),
    ("?offset=1.x", "offset"), ("?ofset=1", "offset"),
])
def test_bad_log_queries(api, box, spoken, query, words):
    api("GET", path(box, spoken, "/logs" + query)).error(400, "INVALID_REQUEST", words)


def test_logs_of_one_that_runs(api, box):
    process = api.start(box, {"command": "echo first; sleep 1000"})
    eventually(lambda: api("GET", path(box, process, "/logs")).body == b"first\n")  # ends though it runs
    with api.stream("GET", path(box, process, "/logs")) as stream:
        assert next(iter(stream)).data["data"] == "first\n"
        api.ok("POST", path(box, process, "/signal"), {"signal": "KILL"})
        assert stream.until("exit")[-1].data["signal"] == 9


def test_followers_see_the_same(api, box):
    process = api.start(box, {"command": "for i in $(seq 300); do echo line $i; done; sleep 0.3; echo end"})

    def follow():
        with api.stream("GET", path(box, process, "/logs?stream=stdout&follow=1")) as stream:
            return "".join(e.data["data"] for e in stream.until("exit") if e.name == "stdout")

    want = "".join(f"line {i}\n" for i in range(1, 301)) + "end\n"
    assert at_once(follow, follow, follow) == [want] * 3


def test_log_beyond_its_cap(make_server):
    api = Client(make_server("--process-log", "1m"))
    api.ok("PUT", "/sandbox/loud", {})
    process = api.start("loud", {"command": "seq -f %015.0f 300000"})  # 16 bytes a line
    p = api.ended("loud", process)
    size = p["logs"]["stdout"]["size"]
    gap = p["logs"]["stdout"]["gap"]
    assert size == 300000 * 16 and 0 < gap[0] < gap[1] < size
    reply = api("GET", path("loud", process, "/logs"))
    assert reply.headers["X-Cay-Gap"] == f"{gap[0]}-{gap[1]}" and len(reply.body) == size - (gap[1] - gap[0])
    whole = b"".join(b"%015d\n" % i for i in range(1, 300001))
    assert reply.body == whole[:gap[0]] + whole[gap[1]:]
    inside = api("GET", path("loud", process, f"/logs?offset={gap[0] + 5}"))
    assert inside.headers["X-Cay-Offset"] == str(gap[1]) and inside.body == whole[gap[1]:]
    with api.stream("GET", path("loud", process, "/logs")) as stream:
        events = stream.until("exit")
    holes = [e.data for e in events if e.name == "gap"]
    assert holes == [{"stream": "stdout", "from": gap[0], "to": gap[1]}]
    assert events[-1].data["limitsHit"] == ["output"]
    assert "".join(e.data["data"] for e in events if e.name == "stdout").encode() == reply.body
    page = api.ok("GET", path("loud", process, "/logs"), headers={"Accept": "application/json"})
    assert any(e.get("type") == "gap" for e in page["events"])


@pytest.mark.parametrize("before", ["", "xx"])  # the hole begins behind one byte of a character, behind two
def test_log_whose_hole_begins_in_a_character(make_server, before):
    api = Client(make_server("--process-log", "1m"))
    api.ok("PUT", "/sandbox/loud", {})
    process = api.start("loud", {"command": f"printf '{before}'; yes 漢漢漢 | tr -d '\\n' | head -c 3000000"})
    logs = api.ended("loud", process)["logs"]["stdout"]
    gap = {"stream": "stdout", "from": logs["gap"][0], "to": logs["gap"][1]}
    assert (gap["from"] - len(before)) % 3 > 0
    raw = api("GET", path("loud", process, "/logs")).body

    def joined(pieces):
        return b"".join(base64.b64decode(p["data"]) if "encoding" in p else p["data"].encode() for p in pieces)

    with api.stream("GET", path("loud", process, "/logs?stream=stdout")) as stream:
        events = stream.until("exit")
    assert [e.data for e in events if e.name == "gap"] == [gap] and events[-1].data["limitsHit"] == ["output"]
    assert joined(e.data for e in events if e.name == "stdout") == raw
    pages, page = [], {"more": True, "nextOffset": {"stdout": 0}}
    while page["more"]:
        last = page["nextOffset"]["stdout"]
        page = api.ok("GET", path("loud", process, f"/logs?stream=stdout&offset={last}"), headers={"Accept": "application/json"})
        assert page["nextOffset"]["stdout"] > last
        pages += page["events"]
    assert [e for e in pages if e.get("type") == "gap"] == [{"type": "gap", **gap}]
    assert joined(e for e in pages if "data" in e) == raw


# --- waiting


def test_wait_for_a_line(api, box):
    process = api.start(box, {"command": "echo start; sleep 0.3; echo 'listening on :8080'; sleep 1000"})
    got = api.ok("POST", path(box, process, "/wait"), {"log": "listening on :[0-9]+$", "timeout": "30s"})
    assert got["success"] is True and got["matched"] == "log" and got["line"] == "listening on :8080"
    assert got["stream"] == "stdout" and got["offset"] == 6 and got["timedOut"] is False
    again = api.ok("POST", path(box, process, "/wait"), {"log": "^start$"})  # also what was there before
    assert again["offset"] == 0
    late = api.ok("POST", path(box, process, "/wait"), {"log": "never", "timeout": 200})
    assert late["success"] is False and late["matched"] is None and late["timedOut"] is True
    api.ok("DELETE", path(box, process))


def test_wait_for_a_prompt(api, box):
    process = api.start(box, {"command": "printf 'Password: ' >&2; sleep 1000"})
    got = api.ok("POST", path(box, process, "/wait"), {"log": "word: $", "timeout": "30s"})
    assert got["stream"] == "stderr" and got["line"] == "Password: "
    api.ok("DELETE", path(box, process))


def test_wait_for_what_never_comes(api, box):
    process = api.start(box, {"command": "seq 50000; sleep 0.2; exit 3"})
    got = api.ok("POST", path(box, process, "/wait"), {"log": "x"})
    assert got["success"] is False and got["timedOut"] is False and got["process"]["exitCode"] == 3


def test_wait_for_a_line_far_down(api, box):
    process = api.start(box, {"command": "seq 200000; sleep 1000"})
    got = api.ok("POST", path(box, process, "/wait"), {"log": "^199999$", "timeout": "30s"})
    assert got["line"] == "199999"
    api.ok("DELETE", path(box, process))


def test_wait_for_a_port(api, box):
    script = ("import socket, time; time.sleep(0.3); s = socket.socket(); s.bind(('127.0.0.1', 4567)); s.listen(); "
              "time.sleep(1000)")
    process = api.start(box, {"argv": ["python3", "-c", script]})
    got = api.ok("POST", path(box, process, "/wait"), {"port": 4567, "timeout": "30s"})
    assert got["success"] is True and got["matched"] == "port"
    late = api.ok("POST", path(box, process, "/wait"), {"port": 4568, "timeout": 300})
    assert late["timedOut"] is True
    waiting = lambda: api.ok("POST", path(box, process, "/wait"), {"port": 4568})
    killing = lambda: (time.sleep(0.3), api.ok("POST", path(box, process, "/signal"), {"signal": 9}))
    assert at_once(waiting, killing)[0]["success"] is False


def test_wait_for_the_end(api, box):
    process = api.start(box, {"command": "sleep 0.3; exit 6"})
    got = api.ok("POST", path(box, process, "/wait"), {"exit": True})
    assert got["matched"] == "exit" and got["process"]["exitCode"] == 6
    again = api.ok("POST", path(box, process, "/wait"), {"exit": True, "timeout": 0})
    assert again["matched"] == "exit"


def test_waiting_when_it_is_deleted(api, box):
    process = api.start(box, {"argv": ["sleep", "1000"]})
    waiting = lambda: api("POST", path(box, process, "/wait"), {"log": "x"})

    def deleting():
        time.sleep(0.2)
        api.ok("DELETE", path(box, process))
        return api("DELETE", path(box, process))

    reply = at_once(waiting, deleting)[0]
    assert reply.status == 404 or reply.json["success"] is False


@pytest.mark.parametrize("body, words", [
    ({}, "one of"), ({"exit": False}, "one of"), ({"exit": True, "port": 1}, "one of"), ({"log": "("}, "log"),
    ({"log": "a{9}{9}{9}{9}{9}"}, "log"), ({"log": "x" * 1025}, "log"), ({"log": "*"}, "log"), ({"port": 0}, "port"),
    ({"port": 65536}, "port"), ({"port": "80"}, "port"), ({"exit": True, "timeout": -1}, "timeout"), ({"line": "x"}, "line"),
])
def test_bad_waits(api, shared_box, body, words):
    api("POST", path(shared_box, "nobody", "/wait"), body).error(400, "INVALID_REQUEST", words)


def test_ended_ones_are_kept_and_trimmed(api, box):
    for i in range(70):
        api.start(box, {"argv": ["true"], "id": f"t{i}"})
    eventually(lambda: all(p["status"] == "ended" for p in api.ok("GET", f"/sandbox/{box}/processes")["processes"]))
    kept = [p["id"] for p in api.ok("GET", f"/sandbox/{box}/processes")["processes"]]
    assert len(kept) == 64 and "t69" in kept and "t0" not in kept


def test_asleep(api, box):
    process = api.start(box, {"command": "echo before; sleep 1000"})
    api.ok("POST", path(box, process, "/wait"), {"log": "before"})
    api.ok("POST", f"/sandbox/{box}/sleep")
    p = api.ok("GET", path(box, process))["process"]
    assert p["status"] == "ended" and p["success"] is False
    assert api("GET", path(box, process, "/logs")).body == b"before\n"
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "sleeping"
