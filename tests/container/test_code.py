# SPDX-License-Identifier: Apache-2.0
"""The code interpreter as the container protocol has it: contexts, and cells told as they run."""

import base64
import contextlib
import http.client
import json
import os
import pathlib

import pytest
from container_helpers import Client, Container, Server, eventually

RUN = "/api/execute/code"


def run(box, code, **more):
    """What a cell told, without what each event repeats."""
    with box.stream(RUN, {"code": code, **more}) as events:
        return list(events)


def text(events, stream="stdout"):
    return "".join(e["text"] for e in events if e["type"] == stream)


def ended(events):
    """It came to its end without an error; nothing else says so."""
    assert [e["type"] for e in events if e["type"] in ("error", "execution_complete")] == ["execution_complete"], events
    assert events[-1]["type"] == "execution_complete"
    return events


def failed(events):
    assert [e["type"] for e in events if e["type"] in ("error", "execution_complete")] == ["error"], events
    return events[-1]


@pytest.fixture(scope="module")
def context(shared):
    return shared.ok("/api/contexts", {"language": "python", "cwd": "/workspace"})["contextId"]


# -- requests


def test_bad_requests(shared, context):
    for body, field in (
        ({"language": 1}, "language"),
        ({"language": "cobol"}, "language"),
        ({"language": "c"}, "language"),
        ({"cwd": 1}, "cwd"),
        ({"cwd": ""}, "cwd"),
        ({"cwd": "/no/such"}, "cwd"),
        ({"env_vars": []}, "env_vars"),
        ({"env_vars": {"a": 1}}, "env_vars"),
        ({"env_vars": {"a=b": "1"}}, "env_vars"),
    ):
        shared.invalid("/api/contexts", body, field)
    for body, field in (
        ({}, "code"),
        ({"code": 1}, "code"),
        ({"code": "1", "context_id": 1}, "context_id"),
        ({"code": "1", "language": "cobol"}, "language"),
        ({"code": "1", "context_id": context, "language": "javascript"}, "language"),
        ({"code": "1", "timeout_ms": 0}, "timeout_ms"),
        ({"code": "1", "timeout_ms": "1s"}, "timeout_ms"),
        ({"code": "1" * (4 * 1024 * 1024 + 1)}, "code"),
    ):
        shared.invalid(RUN, body, field)
    shared.fail(RUN, {"code": "1", "context_id": "nobody"}, 404, "CONTEXT_NOT_FOUND", contextId="nobody")
    shared.fail("/api/contexts/nobody", None, 404, "CONTEXT_NOT_FOUND", method="DELETE", contextId="nobody")


def test_contexts_come_and_go(box):
    assert box.ok("/api/interpreter/health", method="GET")["status"] == "healthy"
    assert box.ok("/api/contexts", method="GET")["contexts"] == []
    made = box.ok("/api/contexts", {})
    assert made["language"] == "python" and made["cwd"] == "/workspace" and made["contextId"]
    js = box.ok("/api/contexts", {"language": "js", "cwd": "/tmp"})
    assert js["language"] == "javascript" and js["cwd"] == "/tmp"
    listed = box.ok("/api/contexts", method="GET")["contexts"]
    assert sorted(listed, key=lambda c: c["language"]) == [
        {"id": js["contextId"], "language": "javascript", "cwd": "/tmp"},
        {"id": made["contextId"], "language": "python", "cwd": "/workspace"},
    ]
    assert box.ok(f"/api/contexts/{js['contextId']}", method="DELETE")["contextId"] == js["contextId"]
    assert [c["id"] for c in box.ok("/api/contexts", method="GET")["contexts"]] == [made["contextId"]]
    box.fail(RUN, {"code": "1", "context_id": js["contextId"]}, 404, "CONTEXT_NOT_FOUND")


def test_directory_and_variables_are_real(box):
    box.run("mkdir /workspace/sub")
    made = box.ok("/api/contexts", {"language": "python", "cwd": "sub", "env_vars": {"WHO": "é me"}})
    assert made["cwd"] == "/workspace/sub"
    events = ended(run(box, "import os\nprint(os.getcwd(), os.environ['WHO'])", context_id=made["contextId"]))
    assert text(events) == "/workspace/sub é me\n"


MISSING = {"python": "PYTHON_NOT_AVAILABLE", "javascript": "JAVASCRIPT_NOT_AVAILABLE", "typescript": "JAVASCRIPT_NOT_AVAILABLE"}


@pytest.fixture
def bare(top):
    """A server in whose boxes no interpreter waits already."""
    os.mkdir(f"{top}/bare")
    server = Server(f"{top}/bare", "--pool", "0")
    yield Client(server)
    assert server.stop() == 0
    assert server.faults() == []


def test_a_language_that_is_not_there(bare):
    bare.ok("PUT", "/sandbox/bare", {"env": {"PATH": "/nowhere"}, "sharedZygote": False})
    box = Container(bare, "bare")
    for language, code in MISSING.items():
        box.fail("/api/contexts", {"language": language}, 501, code)
        box.fail(RUN, {"code": "1", "language": language}, 501, code)


# -- cells


def test_what_a_cell_tells(shared, context):
    events = ended(run(shared, "import sys\nx = 20\nprint('out')\nprint('err', file=sys.stderr)\nx + 1", context_id=context))
    assert text(events) == "out\n" and text(events, "stderr") == "err\n"
    (result,) = [e for e in events if e["type"] == "result"]
    assert result["text"] == "21" and isinstance(result["metadata"], dict)
    assert events[-1]["execution_count"] >= 1
    assert not [e for e in events if "timestamp" in e]  # their client takes it for a number
    again = ended(run(shared, "x * 2", context_id=context, language="python"))
    assert [e["text"] for e in again if e["type"] == "result"] == ["40"]
    assert again[-1]["execution_count"] == events[-1]["execution_count"] + 1


def test_results_in_every_form(shared, context):
    code = """
class Rich:
    def _repr_html_(self): return "<b>é😀</b>"
    def _repr_png_(self): return b"\\x89PNG\\r\\n\\x1a\\n"
    def _repr_json_(self): return {"a": [1, None, "ü"]}
    def __repr__(self): return "rich €"
Rich()
"""
    (result,) = [e for e in ended(run(shared, code, context_id=context)) if e["type"] == "result"]
    assert result["html"] == "<b>é😀</b>" and result["text"] == "rich €"
    assert base64.b64decode(result["png"]).startswith(b"\x89PNG")
    assert result["json"] == {"a": [1, None, "ü"]}


def test_a_result_without_any_form(shared, context):
    events = ended(run(shared, "display({}, raw=True)\ndisplay({'text/plain': 'x'}, raw=True)", context_id=context))
    assert [e for e in events if e["type"] == "result"][0] == {"type": "result", "metadata": {}}
    assert [e.get("text") for e in events if e["type"] == "result"] == [None, "x"]


# -- cells that are not told whole


def test_more_than_is_kept_of_a_cell(box):
    events = ended(run(box, "import sys\nfor i in range(40): _ = sys.stdout.write('x' * 1024 * 1024)"))
    assert 30_000_000 < len(text(events)) < 40 * 1024 * 1024
    assert events[-1]["truncated"] is True and events[-2]["type"] == "stderr" and "missing" in events[-2]["text"]
    events = run(box, "print('x' * 40_000_000)\n1/0")
    assert failed(events)["truncated"] is True and "missing" in text(events, "stderr")
    assert "truncated" not in run(box, "1")[-1]


LARGE = 24_000_000  # more than what lies between a slow reader and the server
OBJECT = f"display({{'text/' + form: 'x' * {LARGE // 3} for form in ('html', 'markdown', 'latex')}}, raw=True)"


def read_some(box, code):
    """A stream whose reader takes a little of what is told and stays."""
    stream = box.stream(RUN, {"code": code})
    assert b"xxxx" in stream.stream.response.read(1000)
    return stream


def rest_is_cut(stream):
    """It does not end as one that is complete does, not even between two events."""
    with stream, pytest.raises(http.client.IncompleteRead):
        stream.stream.response.read()


def test_a_stream_that_the_server_ends_in_the_middle_of_a_result(server, api):
    made = api.ok("POST", "/tokens", {"name": "short-lived"})
    box = Container(Client(server, made["token"]), "short-lived")
    stream = read_some(box, OBJECT)
    api.ok("DELETE", f"/tokens/{made['id']}")
    rest_is_cut(stream)


def large_logs(server):
    found = {}
    for path in pathlib.Path(f"/proc/{server.daemon_pid()}/fd").iterdir():
        with contextlib.suppress(OSError):  # it may be closed meanwhile
            if "/#" in os.readlink(path) and path.stat().st_size > LARGE * 0.9:
                found[os.readlink(path)] = path
    return found


def read_some_and_break(server, box, code):
    """What was written is gone when its reader goes on."""
    before = large_logs(server)
    stream = read_some(box, code)
    log = eventually(lambda: [path for name, path in large_logs(server).items() if name not in before])
    os.truncate(log[0], 0)
    return stream


def test_what_was_written_cannot_be_read(server, box):
    rest_is_cut(read_some_and_break(server, box, OBJECT))
    with read_some_and_break(server, box, f"print('x' * {LARGE})") as stream:
        stream.stream.response.readline()  # of which the beginning was read
        error = failed(list(stream))
    assert error["ename"] == "ExecutionError" and "cannot be read" in error["evalue"]


def test_all_that_is_sent_is_ascii(shared, context):
    """Their client decodes each piece that it receives by itself."""
    with shared.stream(RUN, {"code": "print('é€😀' * 30000)\n'é€😀' * 100000", "context_id": context}) as events:
        raw = events.stream.response.read()
    assert raw.isascii()
    lines = [line for line in raw.decode().split("\n") if line]
    assert all(line.startswith("data: ") or line == ":" for line in lines)
    told = [json.loads(line[6:]) for line in lines if line != ":"]
    assert text(told) == "é€😀" * 30000 + "\n"
    assert [e["text"] for e in told if e["type"] == "result"] == [repr("é€😀" * 100000)]


def test_an_error(shared, context):
    events = run(shared, "print('before')\n1 / 0", context_id=context)
    error = failed(events)
    assert text(events) == "before\n"
    assert error["ename"] == "ZeroDivisionError" and "division" in error["evalue"]
    assert any("1 / 0" in line for line in error["traceback"]), error
    assert failed(run(shared, "def", context_id=context))["ename"] == "SyntaxError"


def test_a_huge_error_is_one(shared, context):
    error = failed(run(shared, "raise ValueError('x' * 3000000)", context_id=context))
    assert "x" * 1000 in error["evalue"]


def test_its_time(shared, context):
    events = run(shared, "import time\nprint('begun', flush=True)\ntime.sleep(1000)", context_id=context, timeout_ms=300)
    assert text(events) == "begun\n" and failed(events)["ename"] == "TimeoutError"
    assert text(ended(run(shared, "print(2)", context_id=context))) == "2\n"


def test_it_streams(shared, context):
    """What a cell writes comes while it waits for an answer to it."""
    shared.run("rm -f /workspace/go; mkfifo /workspace/go")
    with shared.stream(RUN, {"code": "print('first', flush=True)\nopen('/workspace/go').read()\nprint('second')", "context_id": context}) as events:
        assert text(events.until(type="stdout", text="first\n")) == "first\n"
        shared.run("echo > /workspace/go")
        assert text(ended(list(events))) == "second\n"


def test_without_a_context(shared):
    ended(run(shared, "y = 1"))
    assert text(ended(run(shared, "print(y)", language="py"))) == "1\n"
    assert text(ended(run(shared, "const a: number = 3; console.log(a)", language="typescript"))) == "3\n"
    events = ended(run(shared, "await Promise.resolve({b: 2})", language="javascript"))
    assert [e["json"] for e in events if e["type"] == "result"] == [{"b": 2}]
    assert failed(run(shared, "null.x", language="js"))["ename"] == "TypeError"


# -- ends


def test_a_reader_who_leaves_takes_his_cell_along(box):
    made = box.ok("/api/contexts", {})["contextId"]
    code = "import time\ntry:\n  print('on', flush=True)\n  time.sleep(1000)\nfinally:\n  open('/workspace/over', 'w')"
    with box.stream(RUN, {"code": code, "context_id": made}) as events:
        events.until(type="stdout")
    eventually(lambda: box.ok("/api/exists", {"path": "/workspace/over"})["exists"])
    assert text(ended(run(box, "print(1)", context_id=made))) == "1\n"


def test_a_context_that_dies_and_begins_anew(box):
    made = box.ok("/api/contexts", {"env_vars": {"KEPT": "yes"}})["contextId"]
    ended(run(box, "z = 1", context_id=made))
    error = failed(run(box, "import os; print('x', flush=True); os._exit(3)", context_id=made))
    assert error["ename"] == "ExecutionError" and error["evalue"]
    events = ended(run(box, "import os\nprint('z' in globals(), os.environ['KEPT'])", context_id=made))
    assert text(events) == "False yes\n" and "begins anew" in text(events, "stderr")
    assert text(ended(run(box, "print(1)", context_id=made)), "stderr") == ""


def test_after_sleep(box):
    made = box.ok("/api/contexts", {})["contextId"]
    ended(run(box, "z = 1", context_id=made))
    box.api.ok("POST", f"/sandbox/{box.box}/sleep")
    eventually(lambda: box.api.ok("GET", f"/sandbox/{box.box}")["status"] == "sleeping")
    events = run(box, "z", context_id=made)
    assert failed(events)["ename"] == "NameError" and "begins anew" in text(events, "stderr")


def test_a_box_that_dies(box):
    made = box.ok("/api/contexts", {})["contextId"]
    with box.stream(RUN, {"code": "import time\nprint('on', flush=True)\ntime.sleep(1000)", "context_id": made}) as events:
        events.until(type="stdout")
        box.api.ok("POST", f"/sandbox/{box.box}/sleep")
        assert failed(list(events))["evalue"]


def test_cells_of_a_context_in_turn(box):
    made = box.ok("/api/contexts", {})["contextId"]
    first = box.stream(RUN, {"code": "import time\nprint('a', flush=True)\ntime.sleep(0.3)\nw = 1", "context_id": made})
    first.until(type="stdout")
    assert text(ended(run(box, "print(w)", context_id=made))) == "1\n"
    ended(list(first))
    first.close()
