# SPDX-License-Identifier: Apache-2.0
"""Code that is run: its result at once, or as it comes."""

import json
import os
import signal
import socket
import sqlite3

import pytest
from api_helpers import PATIENCE, Client, Stream, at_once, eventually, kill_daemon
from code_helpers import WAIT, go, make, merged, run, text_of, waits_in

SSE = {"Accept": "text/event-stream"}


def code(box):
    return f"/sandbox/{box}/code"


def whole(api, box, cell):
    """All events of a cell that has ended, or will."""
    with api.stream("GET", f"{code(box)}/{cell}") as stream:
        return stream.until("end")


def start(api, box, text, **more):
    """A cell that is streamed, and its id; its client leaves."""
    with api.stream("POST", code(box), {"code": text, **more}) as stream:
        return stream.until("start")[0].data["id"]


def ended(api, box, cell):
    def result():
        reply = api("GET", f"{code(box)}/{cell}")
        assert reply.status in (200, 202), reply
        return reply.json if reply.status == 200 else None

    return eventually(result)


# -- one result


def test_result(api, shared_box):
    text = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n{'a': [1, 2]}"
    result = run(api, shared_box, text)
    assert result["code"] == text and result["language"] == "python" and result["id"] and result["context"]
    assert result["logs"] == {"stdout": ["out\n"], "stderr": ["err\n"]}
    assert result["results"] == [{"type": "result", "text": "{'a': [1, 2]}", "json": {"a": [1, 2]}}]
    assert result["success"] is True and result["reason"] == "done" and result["duration"] >= 0
    assert not {"error", "truncated", "contextDied", "message"} & set(result)
    assert isinstance(result["executionCount"], int)
    assert run(api, shared_box, "1")["executionCount"] == result["executionCount"] + 1


def test_nothing(api, shared_box):
    for text in ("", "   \n", "# a comment", "x = 1", "None"):
        result = run(api, shared_box, text)
        assert result["success"] and result["results"] == [] and result["logs"] == {"stdout": [], "stderr": []}


def test_state_stays(api, box):
    run(api, box, "def f(n):\n    return n + 1\nimport math")
    assert text_of(run(api, box, "f(math.floor(41.5))")) == "42"


@pytest.mark.parametrize("text, name, line", [
    ("x = 1\ny = x / 0", "ZeroDivisionError", 2), ("a = 1\nb = (\n", "SyntaxError", None), ("x = 1\n  y = 2", "IndentationError", 2),
    ("nope", "NameError", 1), ("raise SystemExit(3)", "SystemExit", 1), ("input()", None, None),
])
def test_code_that_fails(api, shared_box, text, name, line):
    reply = api("POST", code(shared_box), {"code": text})
    assert reply.status == 200, reply
    result = reply.json
    assert result["success"] is False and result["reason"] == "error", result
    assert name is None or result["error"]["name"] == name
    assert line is None or result["error"]["lineNumber"] == line
    assert result["error"]["message"] and isinstance(result["error"]["traceback"], list)
    assert "contextDied" not in result
    assert text_of(run(api, shared_box, "1 + 1")) == "2"


def test_displays_and_the_result_in_order(api, box):
    """One of each representation, by an object of the user's own."""
    shown = run(api, box, "class R:\n  def _repr_html_(self): return '<b>x</b>'\n  def _repr_latex_(self): return '$x$'\n"
                          "  def __repr__(self): return 'x'\ndisplay(1)\nprint('between')\ndisplay(R())\nR()")
    assert shown["success"], shown
    assert [r["type"] for r in shown["results"]] == ["display", "display", "result"]
    assert shown["results"][0]["text"] == "1"
    assert shown["results"][2]["html"] == "<b>x</b>" and shown["results"][2]["latex"] == "$x$"
    names = [name for name, _ in merged(whole(api, box, shown["id"]))]
    assert names == ["start", "display", "stdout", "display", "result", "end"]


def test_env_of_one_cell(api, box):
    seen = "import os; os.environ.get('STAGE')"
    assert text_of(run(api, box, seen, env={"STAGE": "dev"})) == "'dev'"
    assert run(api, box, seen)["results"] == []
    api.ok("PATCH", f"/sandbox/{box}", {"env": {"STAGE": "all"}})
    make(api, box, id="new")
    assert text_of(run(api, box, seen, context="new")) == "'all'"
    assert text_of(run(api, box, seen, context="new", env={"STAGE": "one"})) == "'one'"
    assert text_of(run(api, box, seen, context="new")) == "'all'"


def test_languages_side_by_side(api, box):
    run(api, box, "x = 'python'")
    run(api, box, "x=bash", language="bash")
    assert run(api, box, "echo $x", language="bash")["logs"]["stdout"] == ["bash\n"]
    assert text_of(run(api, box, "x")) == "'python'"
    listed = api.ok("GET", f"/sandbox/{box}/contexts")["contexts"]
    assert sorted((c["language"], c["isDefault"]) for c in listed) == [("bash", True), ("python", True)]


def test_javascript(api, box):
    run(api, box, "const a = 20; const f = async () => a + 1", language="javascript")
    assert text_of(run(api, box, "await f() * 2", language="js")) == "42"


def test_bash_that_fails(api, box):
    failed = run(api, box, "echo out; false", language="bash")
    assert failed["success"] is False and failed["logs"]["stdout"] == ["out\n"] and failed["error"]["name"]
    assert run(api, box, "echo still", language="bash")["logs"]["stdout"] == ["still\n"]


def test_a_language_without_contexts(api, box):
    if api.exec(box, "command -v perl")["exitCode"] != 0:
        pytest.skip("no perl")
    result = run(api, box, 'print "hello\\n"; print STDERR "oops\\n"; exit 0;', language="perl")
    assert result["success"] and result["context"] is None and result["language"] == "perl", result
    assert result["logs"] == {"stdout": ["hello\n"], "stderr": ["oops\n"]}
    assert run(api, box, "die 'so';", language="perl")["success"] is False
    assert api.ok("GET", f"/sandbox/{box}/contexts")["contexts"] == []
    reply = api("POST", f"/sandbox/{box}/contexts", {"language": "perl"})
    reply.error(400, "INVALID_REQUEST", "language", "perl", "context")
    events = whole(api, box, result["id"])
    assert [name for name, _ in merged(events)][0] == "start" and events[0].data["context"] is None


def test_a_language_that_is_not_there(api, box):
    missing = [one for one in api.ok("GET", f"/sandbox/{box}/languages")["languages"] if not one["available"]]
    if not missing:
        pytest.skip("this machine has them all")
    reply = api("POST", code(box), {"code": "1", "language": missing[0]["name"]})
    error = reply.error(501, "LANGUAGE_MISSING", missing[0]["name"])
    assert error["details"]["language"] == missing[0]["name"] and error["details"]["package"]
    assert error["details"]["package"] in error["error"]


@pytest.mark.parametrize("body, word", [
    (None, "code"), ({}, "code"), ({"code": None}, "code"), ({"code": 1}, "code"), ({"code": ["1"]}, "code"),
    ({"code": "a\0b"}, "code"), ({"code": "x" * (4 * 1024 * 1024 + 1)}, "code"),
    ({"code": "1", "language": "klingon"}, "klingon"), ({"code": "1", "language": ""}, "language"),
    ({"code": "1", "language": "python", "context": "a"}, "either"), ({"code": "1", "timeout": 0}, "timeout"),
    ({"code": "1", "timeout": "fast"}, "timeout"), ({"code": "1", "env": {"A=": "1"}}, "env"), ({"code": "1", "env": "A"}, "env"),
    ({"code": "1", "cwd": "/tmp"}, "cwd"), ({"code": "1", "lang": "python"}, "lang"),
])
@pytest.mark.parametrize("headers", [None, SSE])
def test_bad_bodies(api, shared_box, body, word, headers):
    api("POST", code(shared_box), body, headers).error(400, "INVALID_REQUEST", word)


def test_none_of_that_context(api, shared_box):
    for headers in (None, SSE):
        api("POST", code(shared_box), {"code": "1", "context": "none"}, headers).error(404, "NOT_FOUND", "none")


def test_bad_input_does_not_wake(api, box):
    api.ok("POST", f"/sandbox/{box}/sleep")
    api("POST", code(box), {"code": "1", "language": "klingon"}).error(400, "INVALID_REQUEST")
    api("POST", code(box), {"code": "1", "context": "none"}).error(404, "NOT_FOUND")
    api("GET", f"{code(box)}/none").error(404, "NOT_FOUND")
    assert api.ok("GET", f"/sandbox/{box}")["status"] == "sleeping"
    assert text_of(run(api, box, "1 + 1")) == "2"


def test_bytes_that_are_no_text(api, shared_box):
    result = run(api, shared_box, r"import os; _ = os.write(1, b'a\xffb\xe2\x82'); _ = os.write(2, b'\x00\x1b[1m\xc3')")
    assert result["logs"] == {"stdout": ["a\ufffdb\ufffd\ufffd"], "stderr": ["\0\x1b[1m\ufffd"]}


def test_a_lot(api, box):
    result = run(api, box, "for i in range(100000): print(i)")
    assert result["logs"]["stdout"] == ["".join(f"{i}\n" for i in range(100000))]


def test_too_much(api, box):
    result = run(api, box, "import sys\nfor i in range(40): sys.stdout.write('x' * 1048576)\nprint('end')\n'v'")
    assert result["truncated"] is True and result["success"] and len(result["logs"]["stdout"][0]) <= 32 * 1024 * 1024
    assert len(result["logs"]["stdout"][0]) > 30 * 1024 * 1024


def test_what_grows_in_json(api, box):
    """Six bytes for one: not more than was meant to be kept."""
    result = run(api, box, "import os\nfor i in range(16): os.write(1, b'\\x01' * 1048576)\n")
    assert result["truncated"] is True and 1024 * 1024 < len(result["logs"]["stdout"][0]) < 16 * 1024 * 1024


# -- time


def test_timeout(api, box):
    """The cell ends; its context stays and remembers."""
    late = run(api, box, f"x = 1\nprint('on')\n{WAIT}", timeout=500)
    assert late["success"] is False and late["reason"] == "timeout" and "contextDied" not in late
    assert late["logs"]["stdout"] == ["on\n"] and late["duration"] >= 500
    assert text_of(run(api, box, "x")) == "1"


def test_timeout_of_a_context(api, box):
    make(api, box, id="short", timeout="400ms")
    assert run(api, box, WAIT, context="short")["reason"] == "timeout"
    go(api, box, "b")
    assert run(api, box, waits_in("b"), context="short", timeout="1m")["success"]


def test_timeout_that_has_to_kill(api, box):
    make(api, box, id="deaf")
    stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
    late = run(api, box, stubborn + WAIT, context="deaf", timeout=300)
    assert late["reason"] == "timeout" and late["contextDied"] is True and late["message"]
    assert late["error"]["name"]
    api("POST", code(box), {"code": "1", "context": "deaf"}).error(409, "CONTEXT_DEAD")
    api.ok("POST", f"/sandbox/{box}/contexts/deaf/restart")
    assert text_of(run(api, box, "1 + 1", context="deaf")) == "2"


def test_a_queue_keeps_its_order(api, box):
    make(api, box, id="q")
    first = start(api, box, f"order = []\n{WAIT}", context="q")
    others = [start(api, box, f"order.append({i})", context="q") for i in range(5)]
    status = api("GET", f"{code(box)}/{others[-1]}")
    assert status.status == 202 and status.json["status"] == "queued", status
    assert api("GET", f"{code(box)}/{first}").json["status"] == "running"
    assert api.ok("GET", f"/sandbox/{box}/contexts/q")["queued"] == 5
    go(api, box)
    assert text_of(run(api, box, "order", context="q")) == "[0, 1, 2, 3, 4]"
    assert ended(api, box, first)["success"] is True


def test_a_queue_that_is_full(api, box):
    make(api, box, id="q")
    start(api, box, WAIT, context="q")
    for _ in range(64):
        start(api, box, "1", context="q")
    reply = api("POST", code(box), {"code": "1", "context": "q"})
    reply.error(503, "UNAVAILABLE")
    assert reply.headers["Retry-After"]
    go(api, box)
    eventually(lambda: api.ok("GET", f"/sandbox/{box}/contexts/q")["queued"] == 0)
    assert run(api, box, "1", context="q")["success"]


def test_memory(api, box):
    """Out of memory ends the cell, and at most its context; not the sandbox."""
    api.ok("PATCH", f"/sandbox/{box}", {"memory": "256m"})
    make(api, box, id="big")
    api.exec(box, "touch /workspace/file")
    full = run(api, box, "x = []\nwhile True: x.append(bytearray(1 << 24))", context="big")
    assert full["success"] is False and full["reason"] in ("oom", "error"), full
    assert api.exec(box, "ls /workspace")["stdout"] == "file\n"
    assert text_of(run(api, box, "1 + 1")) == "2"


# -- clients that leave


def test_a_client_that_leaves(api, box):
    """A cell that nobody waits for is interrupted."""
    make(api, box, id="c")
    connection = api.connect()
    headers, body = api.head(None, {"code": f"x = 1\nopen('/workspace/on', 'w')\n{WAIT}", "context": "c"})
    connection.request("POST", code(box), body=body, headers=headers)
    run(api, box, waits_in("on"))
    connection.close()
    eventually(lambda: api.ok("GET", f"/sandbox/{box}/contexts/c")["status"] == "idle")
    assert text_of(run(api, box, "x", context="c")) == "1"


def test_a_client_that_leaves_the_queue(api, box):
    make(api, box, id="c")
    first = start(api, box, f"x = 1\n{WAIT}", context="c")
    connection = api.connect()
    headers, body = api.head(None, {"code": "x = 2", "context": "c"})
    connection.request("POST", code(box), body=body, headers=headers)
    eventually(lambda: api.ok("GET", f"/sandbox/{box}/contexts/c")["queued"] == 1)
    connection.close()
    eventually(lambda: api.ok("GET", f"/sandbox/{box}/contexts/c")["queued"] == 0)
    go(api, box)
    assert ended(api, box, first)["success"]
    assert text_of(run(api, box, "x", context="c")) == "1"


def test_a_stream_whose_client_leaves(api, box):
    """It goes on, and tells all to whoever asks again."""
    cell = start(api, box, f"print('a', flush=True)\n{WAIT}\nprint('b')\nopen('/workspace/done', 'w')\n7")
    assert api("GET", f"{code(box)}/{cell}").status == 202
    go(api, box)
    result = ended(api, box, cell)
    assert result["logs"]["stdout"] == ["a\nb\n"] and result["results"][-1]["text"]
    assert api.exec(box, "test -e /workspace/done")["exitCode"] == 0


def test_a_key_runs_it_once(api, box):
    key = {"Idempotency-Key": f"once-{box}"}
    run(api, box, "n = 0")
    first = api("POST", code(box), {"code": "n += 1; n"}, key)
    again = api("POST", code(box), {"code": "n += 1; n"}, key)
    assert first.json == again.json and again.headers["Idempotency-Replayed"] == "true"
    assert text_of(run(api, box, "n")) == "1"
    api("POST", code(box), {"code": "n += 2; n"}, key).error(409, "IDEMPOTENCY_KEY_REUSED")


def test_a_key_outlives_its_client(api, box):
    key = {"Idempotency-Key": f"gone-{box}"}
    body = {"code": f"open('/workspace/on', 'w')\n{WAIT}\n'late'"}
    make(api, box, id="watch")
    connection = api.connect()
    headers, text = api.head(key, body)
    connection.request("POST", code(box), body=text, headers=headers)
    run(api, box, waits_in("on"), context="watch")
    connection.close()
    api("POST", code(box), body, key).error(409, "REQUEST_IN_PROGRESS")
    go(api, box)

    def answer():
        reply = api("POST", code(box), body, key)
        return reply.json if reply.status == 200 else None

    assert text_of(eventually(answer)) == "'late'"


def test_a_key_of_a_stream(api, box):
    key = {"Idempotency-Key": f"stream-{box}"}
    body = {"code": f"n = globals().get('n', 0) + 1\nprint(n, flush=True)\n{WAIT}"}
    with api.stream("POST", code(box), body, key) as first:
        head = first.until("stdout")
        with api.stream("POST", code(box), body, key) as second:
            go(api, box)
            both = at_once(lambda: merged(head + first.until("end")), lambda: merged(second.until("end")))
    assert both[0] == both[1] and both[0][1] == ("stdout", "1\n")
    assert text_of(run(api, box, "n")) == "1"


# -- streams


def test_stream(api, box):
    text = "import sys\nprint('out')\nprint('err', file=sys.stderr)\ndisplay(5)\n1 / 0"
    with api.stream("POST", code(box), {"code": text}) as stream:
        events = list(stream)
    found = merged(events)
    assert [name for name, _ in found] == ["start", "stdout", "stderr", "display", "error", "end"]
    data = dict(found)
    assert data["start"]["language"] == "python" and data["start"]["context"]
    assert data["stdout"] == "out\n" and data["stderr"] == "err\n" and data["display"]["text"] == "5"
    assert data["error"]["name"] == "ZeroDivisionError" and data["error"]["lineNumber"] == 5
    assert data["end"]["success"] is False and data["end"]["reason"] == "error" and data["end"]["executionCount"] == 1
    result = api.ok("GET", f"{code(box)}/{data['start']['id']}")
    assert result["error"] == data["error"] and result["results"] == [{"type": "display", **data["display"]}]
    assert all(event.id.startswith(f"{data['start']['id']}:") for event in events)
    assert len({event.id for event in events}) == len(events)


def test_events_come_while_the_cell_runs(api, box):
    text = f"print('one', flush=True)\n{waits_in('a')}\ndisplay('two')\n{waits_in('b')}\nprint('three')\n4"
    with api.stream("POST", code(box), {"code": text}) as stream:
        assert stream.until("stdout")[-1].data == {"text": "one\n"}
        go(api, box, "a")
        assert stream.until("display")[-1].data["text"] == "'two'"
        assert api.ok("GET", f"/sandbox/{box}/contexts")["contexts"][0]["status"] == "busy"
        go(api, box, "b")
        names = [name for name, _ in merged(stream.until("end"))]
    assert names == ["stdout", "result", "end"]


def test_resume_from_every_event(api, box):
    text = "import sys\nfor i in range(20):\n  print('o', i, flush=True)\n  print('e', i, file=sys.stderr, flush=True)\n  display(i)\n'v'"
    cell = run(api, box, text)["id"]
    events = whole(api, box, cell)
    found = merged(events)
    assert len([name for name, _ in found if name == "display"]) == 20
    for i, event in enumerate(events):
        with api.stream("GET", f"{code(box)}/{cell}", headers={"Last-Event-ID": event.id}) as stream:
            rest = list(stream)
        assert merged(events[: i + 1] + rest) == found, event
        with api.stream("GET", f"{code(box)}/{cell}?offset={event.id.rsplit(':')[1]}") as stream:
            assert merged(e for e in stream if e.name != "start") == merged(rest)
        with api.stream("POST", code(box), {"code": "1 / 0"}, {"Last-Event-ID": event.id}) as stream:
            assert merged(stream) == merged(rest)


def test_resume_while_it_runs(api, box):
    """A client that leaves after each event and comes again has all of it, once."""
    text = "\n".join(f"print({i}, flush=True)\n{waits_in(f'f{i}')}" for i in range(6)) + "\n'v'"
    with api.stream("POST", code(box), {"code": text}) as stream:
        events = stream.until("stdout")
    cell = events[0].data["id"]
    for i in range(6):
        go(api, box, f"f{i}")
        with api.stream("GET", f"{code(box)}/{cell}", headers={"Last-Event-ID": events[-1].id}) as stream:
            events.append(next(iter(stream)))
    with api.stream("GET", f"{code(box)}/{cell}", headers={"Last-Event-ID": events[-1].id}) as stream:
        events += list(stream)
    found = merged(events)
    assert found[1] == ("stdout", "0\n1\n2\n3\n4\n5\n") and [name for name, _ in found] == ["start", "stdout", "result", "end"]


@pytest.mark.parametrize("last", ["", "x", ":", ":1", "CELL:", "CELL:x", "CELL:-1", "CELL:1.", "CELL:1.0", "CELL:0.2", "CELL:1.1", "CELL:99",
                                  "CELL:2.7", "CELL:1:1", "CELL:18446744073709551616", "CELL:9223372036854775807", "other:0"])
def test_bad_places(api, shared_box, last):
    cell = run(api, shared_box, "print('x')\n1")["id"]
    path = f"{code(shared_box)}/{cell}"
    api("GET", path, headers={**SSE, "Last-Event-ID": last.replace("CELL", cell)}).error(400, "INVALID_REQUEST")
    if last.startswith("CELL:"):
        reply = api("GET", f"{path}?offset={last[5:]}", headers=SSE)
        reply.error(400, "INVALID_REQUEST")
    reply = api("POST", code(shared_box), {"code": "1"}, {**SSE, "Last-Event-ID": last.replace("CELL", cell)})
    assert reply.status in (400, 404), reply


def test_characters_are_not_cut(api, box):
    """Half of one waits for its other half, also when its reader goes in between."""
    euro = "\u20ac\U0001f600".encode()
    writes = "\n".join(f"os.write(1, {euro[i:i + 1]!r}); os.write(2, b'{i}');\n{waits_in(f'f{i}')}" for i in range(len(euro)))
    with api.stream("POST", code(box), {"code": f"import os\n{writes}"}) as stream:
        events = stream.until("stderr")
    cell = events[0].data["id"]
    for i in range(len(euro)):
        go(api, box, f"f{i}")
        if i + 1 == len(euro):
            break
        with api.stream("GET", f"{code(box)}/{cell}", headers={"Last-Event-ID": events[-1].id}) as stream:
            events += stream.until("stderr")
    with api.stream("GET", f"{code(box)}/{cell}", headers={"Last-Event-ID": events[-1].id}) as stream:
        events += stream.until("end")
    assert "".join(e.data["text"] for e in events if e.name == "stdout") == "\u20ac\U0001f600"
    assert "".join(e.data["text"] for e in events if e.name == "stderr") == "".join(str(i) for i in range(len(euro)))


def test_half_a_character_at_the_end(api, box):
    cell = run(api, box, "import os; _ = os.write(1, b'a\\xe2\\x82'), os.write(2, b'b\\xf0\\x9f')")["id"]
    events = whole(api, box, cell)
    text = {name: "".join(e.data["text"] for e in events if e.name == name) for name in ("stdout", "stderr")}
    assert text == {"stdout": "a\ufffd\ufffd", "stderr": "b\ufffd\ufffd"}
    for i, event in enumerate(events):
        with api.stream("GET", f"{code(box)}/{cell}", headers={"Last-Event-ID": event.id}) as stream:
            both = events[: i + 1] + list(stream)
        again = {name: "".join(e.data["text"] for e in both if e.name == name) for name in ("stdout", "stderr")}
        assert again == text and both[-1].name == "end", event


def test_two_follow_one(api, box):
    cell = start(api, box, f"print('x' * 1000, flush=True)\n{WAIT}\nfor i in range(3000): print(i)\n'v'")
    streams = [api.stream("GET", f"{code(box)}/{cell}") for _ in range(3)]
    heads = [stream.until("stdout") for stream in streams]
    go(api, box)
    all_ = at_once(*(lambda h=h, s=s: merged(h + s.until("end")) for h, s in zip(heads, streams, strict=True)))
    assert all_[0] == all_[1] == all_[2] == merged(whole(api, box, cell))
    for stream in streams:
        stream.close()


def test_an_event_larger_than_a_stream_may_queue(api, box):
    text = "class H:\n  def _repr_html_(self): return '<p>\\n' * 1500000\n  def __repr__(self): return 'H'\ndisplay(H())\nprint('after')"
    with api.stream("POST", code(box), {"code": text}) as stream:
        events = stream.until("end")
    assert [name for name, _ in merged(events)] == ["start", "display", "stdout", "end"]
    assert events[1].data["html"] == "<p>\n" * 1500000
    result = api.ok("GET", f"{code(box)}/{events[0].data['id']}")
    assert result["results"] == [{"type": "display", **events[1].data}]


def test_a_reader_that_takes_nothing(api, server, box):
    """The cell does not wait for it, and what it did not take is there when it does."""
    body = json.dumps({"code": "for i in range(2000000): print(i)\nopen('/workspace/on', 'w')"})
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(PATIENCE)
    s.connect(("127.0.0.1", server.port))
    head = f"POST {code(box)} HTTP/1.0\r\nAuthorization: Bearer {api.token}\r\nAccept: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    s.sendall(head.encode() + body.encode())
    make(api, box, id="watch")
    assert run(api, box, waits_in("on"), context="watch")["success"]
    with s.makefile("rb") as f:
        assert b"200" in f.readline()
        while f.readline() not in (b"\r\n", b"\n"):
            pass
        events = list(Stream.__iter__(type("R", (), {"response": f, "comments": 0})()))
    s.close()
    assert "".join(e.data["text"] for e in events if e.name == "stdout") == "".join(f"{i}\n" for i in range(2000000))
    assert events[-1].name == "end"


def test_a_stream_of_a_dead_one(api, box):
    with api.stream("POST", code(box), {"code": "print('last', flush=True)\nimport os\nos.kill(os.getpid(), 9)"}) as stream:
        events = stream.until("end")
    end = events[-1].data
    assert end["reason"] == "signal" and end["contextDied"] is True and end["message"] and end["success"] is False
    assert ("stdout", "last\n") in merged(events)


def test_head(api, box):
    cell = run(api, box, "print('x')")["id"]
    for headers in (None, SSE):
        reply = api("HEAD", f"{code(box)}/{cell}", headers=headers)
        assert reply.status == 200 and reply.body == b""
    waits = start(api, box, WAIT)
    assert api("HEAD", f"{code(box)}/{waits}", headers=SSE).status == 200
    assert api("HEAD", f"{code(box)}/{waits}").status == 202
    go(api, box)


def test_cells_that_are_kept(api, box):
    cells = [run(api, box, str(i))["id"] for i in range(12)]
    assert len(set(cells)) == 12
    assert api.ok("GET", f"{code(box)}/{cells[-1]}")["code"] == "11"
    assert api.ok("GET", f"{code(box)}/{cells[-8]}")["code"] == "4"
    api("GET", f"{code(box)}/{cells[0]}").error(404, "NOT_FOUND")
    api("GET", f"{code(box)}/{cells[0]}", headers=SSE).error(404, "NOT_FOUND")


def test_a_stream_ends_with_its_token(api, server, box, tenant):
    tenant.ok("PUT", f"/sandbox/{box}", {})
    with tenant.stream("POST", code(box), {"code": f"print('on', flush=True)\n{WAIT}"}) as stream:
        stream.until("stdout")
        api.ok("DELETE", f"/tokens/{tenant.id}")
        assert [e.name for e in stream] == []


# -- a server that is killed


def is_known_to_run(server, context):
    """Its row has the cell: what is begun is found again."""
    with sqlite3.connect(f"file:{server.data}/daemon/cay.db?mode=ro", uri=True) as rows:
        return rows.execute("SELECT cell FROM contexts WHERE id = ?", (context,)).fetchone() not in (None, (0,))


def test_a_cell_goes_on_without_its_daemon(make_server):
    """Also twice: those who go on get what is left, once; the context remembers."""
    server = make_server()
    client = Client(server)
    client.ok("PUT", "/sandbox/b", {})
    make(client, "b", id="c")
    text = f"x = 5\nprint('one', flush=True)\n{waits_in('a')}\nprint('two', flush=True)\n{waits_in('b')}\nprint('three')\n'v'"
    with client.stream("POST", code("b"), {"code": text, "context": "c"}) as stream:
        events = stream.until("stdout")
    cell = events[0].data["id"]
    for name in ("a", "b"):
        eventually(lambda: is_known_to_run(server, "c"))
        kill_daemon(server, client)
        assert client("GET", f"{code('b')}/{cell}").json["status"] == "running"
        go(client, "b", name)
        with client.stream("GET", f"{code('b')}/{cell}", headers={"Last-Event-ID": events[-1].id}) as stream:
            events += [next(iter(stream))] if name == "a" else list(stream)
    found = merged(events)
    assert [name for name, _ in found] == ["start", "stdout", "result", "end"]
    assert found[1] == ("stdout", "one\ntwo\nthree\n") and found[2][1]["text"] == "'v'"
    assert found[3][1]["success"] is True and found[3][1]["truncated"] is True
    assert len({event.id for event in events}) == len(events)
    assert text_of(run(client, "b", "x", context="c")) == "5"


def test_a_key_whose_cell_is_gone(make_server):
    """It is said, and nothing is run again."""
    server = make_server()
    client = Client(server)
    client.ok("PUT", "/sandbox/b", {})
    body, key = {"code": "open('/workspace/n', 'a').write('x')"}, {"Idempotency-Key": "k"}
    with client.stream("POST", code("b"), body, key) as stream:
        stream.until("end")
    kill_daemon(server, client)
    client.stream("POST", code("b"), body, key).error(409, "OUTCOME_UNKNOWN")
    assert client.exec("b", "cat /workspace/n")["stdout"] == "x"


def test_a_cell_can_be_cancelled(api, box):
    with api.stream("POST", f"/sandbox/{box}/code", {"code": "import time\nprint('on')\ntime.sleep(1000)"}) as first:
        cell = next(iter(first)).data["id"]
        with api.stream("POST", f"/sandbox/{box}/code", {"code": "print('never')"}) as second:
            waiting = next(iter(second)).data["id"]
            api.ok("DELETE", f"/sandbox/{box}/code/{waiting}")
            assert not second.until("end")[-1].data["success"]
        api.ok("DELETE", f"/sandbox/{box}/code/{cell}")
        end = first.until("end")[-1].data
        assert not end["success"] and not end.get("contextDied"), end
    api.ok("DELETE", f"/sandbox/{box}/code/{cell}")  # it has ended: nothing is left to do
    assert api.ok("POST", f"/sandbox/{box}/code", {"code": "1"})["success"]
    api("DELETE", f"/sandbox/{box}/code/no-such-cell-1").error(404, "NOT_FOUND")


def test_a_cell_of_a_compiled_language_can_be_cancelled(api, box):
    code = 'while :; do sleep 1; done'
    with api.stream("POST", f"/sandbox/{box}/code", {"code": f"system('{code}');", "language": "perl"}) as stream:
        cell = next(iter(stream)).data["id"]
        api.ok("DELETE", f"/sandbox/{box}/code/{cell}")
        assert not stream.until("end")[-1].data["success"]
