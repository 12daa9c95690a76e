# SPDX-License-Identifier: Apache-2.0
"""Commands and sessions of the container protocol: results, streams, timeouts, shells that end."""

import base64

import pytest
from container_helpers import at_once, eventually

NONE = "__DISABLE_SESSION__"


def run(box, command, **more):
    reply = box("POST", "/api/execute", {"command": command, **more})
    assert reply.status == 200, reply
    return reply.json


def streamed(box, command, **more):
    with box.stream("/api/execute/stream", {"command": command, **more}) as stream:
        return list(stream)


@pytest.mark.parametrize(
    "body,field",
    [
        ({}, "command"),
        ({"command": None}, "command"),
        ({"command": 1}, "command"),
        ({"command": ["ls"]}, "command"),
        ({"command": ""}, "command"),
        ({"command": "a\0b"}, "command"),
        ({"command": "x" * (1024 * 1024 + 1)}, "command"),
        ({"command": "x", "sessionId": 1}, "sessionId"),
        ({"command": "x", "sessionId": "a b"}, "sessionId"),
        ({"command": "x", "sessionId": "x" * 129}, "sessionId"),
        ({"command": "x", "timeoutMs": "soon"}, "timeoutMs"),
        ({"command": "x", "timeoutMs": -1}, "timeoutMs"),
        ({"command": "x", "timeoutMs": 1e15}, "timeoutMs"),
        ({"command": "x", "env": []}, "env"),
        ({"command": "x", "env": {"A": 1}}, "env"),
        ({"command": "x", "env": {"A=B": "1"}}, "env"),
        ({"command": "x", "cwd": 1}, "cwd"),
        ({"command": "x", "cwd": "/" + "x" * 5000}, "cwd"),
        ({"command": "x", "background": "yes"}, "background"),
        ({"command": "x", "encoding": "ebcdic"}, "encoding"),
        ({"command": "x", "processId": "a/b"}, "processId"),
    ],
)
def test_bad_commands(shared, body, field):
    for route in ("/api/execute", "/api/execute/stream", "/api/process/start"):
        shared.invalid(route, body, field)


def test_a_name_that_no_variable_has(shared):
    shared.fail("/api/execute", {"command": "x", "env": {"A-B": "1"}}, 400, "VALIDATION_FAILED")


def test_result(shared):
    result = run(shared, "echo out; echo err >&2; exit 3", sessionId=NONE)
    assert result["success"] is False and result["exitCode"] == 3 and "sessionId" not in result
    assert (result["stdout"], result["stderr"], result["command"]) == ("out\n", "err\n", "echo out; echo err >&2; exit 3")
    assert result["duration"] > 0 and result["timestamp"]
    result = run(shared, "echo out; echo err >&2")
    assert result["success"] and result["sessionId"] == "default"
    assert (result["stdout"], result["stderr"]) == ("out", "err")


def test_bytes(shared):
    text = r"printf 'a\0b\n\n'"
    assert run(shared, text, sessionId=NONE)["stdout"] == "a\0b\n\n"
    assert run(shared, text)["stdout"] == "ab\n"
    assert run(shared, r"printf '\n'")["stdout"] == ""
    assert run(shared, r"printf '\0\n\0'")["stdout"] == "\n" * 0
    assert run(shared, r"printf 'x\377y\342\202'", sessionId=NONE)["stdout"] == "x\ufffdy\ufffd\ufffd"
    assert run(shared, r"printf 'x\377y'; printf '\0e\n' >&2", encoding="base64", sessionId=NONE) | {"duration": 0, "timestamp": ""} == {
        "success": True, "exitCode": 0, "stdout": base64.b64encode(b"x\xffy").decode(), "stderr": base64.b64encode(b"\0e\n").decode(),
        "encoding": "base64", "command": r"printf 'x\377y'; printf '\0e\n' >&2", "duration": 0, "timestamp": ""}


@pytest.mark.parametrize("session", [NONE, "much"])
def test_much_output(shared, session):
    line = "each line has what is escaped: \" \\ \t and \u20ac\U0001f600"
    result = run(shared, f"for i in {{1..40000}}; do echo '{line}'; done; head -c 3000000 /dev/zero | tr '\\0' e >&2", sessionId=session)
    expected = f"{line}\n" * 40000
    assert result["stdout"] == (expected if session == NONE else expected[:-1])
    assert result["stderr"] == "e" * 3000000 and "truncated" not in result


def test_too_much_output_is_cut_and_says_so(shared):
    result = run(shared, "head -c 17000000 /dev/zero | tr '\\0' x", sessionId=NONE)
    assert result["truncated"] and result["stdout"] == "x" * 16 * 1024 * 1024


def test_sessions_keep_their_state(shared):
    assert run(shared, "cd /tmp; export A=1; f() { echo f$1; }; alias x=y", sessionId="keeps")["success"]
    assert run(shared, "pwd; echo $A; f 2", sessionId="keeps")["stdout"] == "/tmp\n1\nf2"
    assert run(shared, "pwd; echo $A", sessionId="other")["stdout"] == "/workspace\n"
    assert run(shared, "pwd; echo $A", sessionId=NONE)["stdout"] == "/workspace\n\n"
    assert run(shared, "pwd; echo $A$B", sessionId="keeps", env={"A": "2", "B": "3"}, cwd="/usr")["stdout"] == "/usr\n23"
    assert run(shared, "pwd; echo $A$B", sessionId="keeps")["stdout"] == "/tmp\n1"
    assert run(shared, "mkdir -p d; cd d; pwd", sessionId="keeps", cwd="/workspace")["stdout"] == "/workspace/d"
    assert run(shared, "pwd", sessionId=NONE, cwd="d")["stdout"] == "/workspace/d\n"
    assert run(shared, "pwd", sessionId="other", cwd="d")["stdout"] == "/workspace/d"
    assert run(shared, "cat", sessionId="other")["stdout"] == ""  # its input is at its end


def test_a_directory_that_is_not_there(shared):
    for session in (NONE, "default"):
        result = run(shared, "pwd", cwd="/nowhere", sessionId=session)
        assert not result["success"] and "/nowhere" in result["stderr"]


def test_timeouts_end_the_command(shared):
    shared.fail("/api/execute", {"command": "sleep 1000.1", "timeoutMs": 50, "sessionId": "late"}, 500,
                "COMMAND_EXECUTION_ERROR", sessionId="late", exitCode=124)
    assert run(shared, "pgrep -f 'sleep 1000.1'", sessionId="late")["exitCode"] == 1
    result = run(shared, "echo begun; sleep 1000.1", timeoutMs=300, sessionId=NONE)
    assert result["exitCode"] == 124 and result["stdout"] in ("begun\n", "") and "timed out after 300 ms" in result["stderr"]
    assert run(shared, "pgrep -f 'sleep 1000.1'", sessionId="late")["exitCode"] == 1


def test_a_shell_that_ends(shared):
    error = shared.fail("/api/execute", {"command": "exit 7", "sessionId": "ends"}, 410, "SESSION_TERMINATED", sessionId="ends", exitCode=7)
    assert "ends" in error["message"]
    assert run(shared, "echo $((1+1))", sessionId="ends")["stdout"] == "2"


# --- sessions


@pytest.mark.parametrize(
    "body,field",
    [
        ({"id": 1}, "id"),
        ({"id": "x" * 129}, "id"),
        ({"id": "a b"}, "sessionId"),
        ({"id": NONE}, "id"),
        ({"cwd": 1}, "cwd"),
        ({"cwd": "relative"}, "cwd"),
        ({"env": "A=1"}, "env"),
        ({"env": {"A": None}}, "env"),
        ({"commandTimeoutMs": "x"}, "commandTimeoutMs"),
        ({"commandTimeoutMs": -5}, "commandTimeoutMs"),
    ],
)
def test_bad_sessions(shared, body, field):
    shared.invalid("/api/session/create", body, field)


def test_sessions(box):
    made = box.ok("/api/session/create", {"id": "s", "cwd": "/tmp", "env": {"A": "1"}, "name": "x", "isolation": True})
    assert made["data"]["id"] == "s" and made["containerPlacementId"]
    box.fail("/api/session/create", {"id": "s"}, 409, "SESSION_ALREADY_EXISTS", sessionId="s", containerPlacementId=made["containerPlacementId"])
    other = box.ok("/api/session/create", {})["data"]["id"]
    assert set(box.ok("/api/session/list", method="GET")["data"]) == {"s", other}
    assert run(box, "pwd; echo $A", sessionId="s")["stdout"] == "/tmp\n1"
    assert box.ok("/api/session/delete", {"sessionId": "s"})["sessionId"] == "s"
    box.fail("/api/session/delete", {"sessionId": "s"}, 500, "INTERNAL_ERROR")
    box.invalid("/api/session/delete", {}, "sessionId")
    box.invalid("/api/session/delete", {"sessionId": ["s"]}, "sessionId")
    assert run(box, "pwd; echo $A", sessionId="s")["stdout"] == "/workspace\n"  # made anew


def test_another_box_is_another_place(box):
    first = box.ok("/api/session/create", {"id": "a"})["containerPlacementId"]
    assert box.ok("/api/session/create", {"id": "b"})["containerPlacementId"] == first
    box.api.ok("POST", f"/sandbox/{box.box}/sleep")
    assert box.ok("/api/session/create", {"id": "c"})["containerPlacementId"] != first


def test_a_sessions_timeout(box):
    box.ok("/api/session/create", {"id": "s", "commandTimeoutMs": 200})
    box.fail("/api/execute", {"command": "sleep 1000", "sessionId": "s"}, 500, "COMMAND_EXECUTION_ERROR")
    assert run(box, "sleep 0.5; echo done", sessionId="s", timeoutMs=60000)["stdout"] == "done"
    assert streamed(box, "sleep 1000", sessionId="s")[-1]["type"] == "error"


def test_a_session_deleted_while_it_works(box):
    run(box, "true", sessionId="s")
    reply, _ = at_once(
        lambda: box("POST", "/api/execute", {"command": "touch begun; sleep 1000.2", "sessionId": "s"}),
        lambda: eventually(lambda: "begun" in box.run("ls")) and box.ok("/api/session/delete", {"sessionId": "s"}),
    )
    box.check(reply, 410, "SESSION_DESTROYED", sessionId="s")
    eventually(lambda: run(box, "pgrep -f 'sleep 1000.2'", sessionId=NONE)["exitCode"] == 1)


# --- streams


@pytest.mark.parametrize("session", [NONE, "streams"])
def test_stream(shared, session):
    events = streamed(shared, "echo one; echo two >&2; sleep 0.05; printf three; exit_code() { return 4; }; exit_code", sessionId=session)
    assert events[0]["type"] == "start" and events[0]["command"].startswith("echo one")
    assert events[0].get("sessionId") == (None if session == NONE else session)
    assert "".join(e["data"] for e in events if e["type"] == "stdout") == "one\nthree"
    assert "".join(e["data"] for e in events if e["type"] == "stderr") == "two\n"
    assert events[-1]["type"] == "complete" and events[-1]["exitCode"] == 4
    assert all(e["timestamp"] for e in events)


@pytest.mark.parametrize("session", [NONE, "streams"])
def test_stream_as_it_comes(shared, session):
    """The next line is written only when the one before was seen."""
    command = "rm -f go-*; for i in 1 2 3; do echo line $i; until [ -e go-$i ]; do sleep 0.01; done; done"
    with shared.stream("/api/execute/stream", {"command": command, "sessionId": session, "cwd": "/workspace"}) as stream:
        seen = []
        for event in stream:
            seen.append(event)
            if event["type"] == "stdout":
                shared.run(f"touch /workspace/go-{event['data'].split()[1]}")
    assert [e["data"] for e in seen if e["type"] == "stdout"] == ["line 1\n", "line 2\n", "line 3\n"]
    assert seen[-1]["type"] == "complete"


@pytest.mark.parametrize("session", [NONE, "streams"])
def test_stream_never_cuts_characters(shared, session):
    command = r"for b in '\342' '\202' '\254' '\360' '\237\230' '\200' '\377' '\303'; do printf $b; sleep 0.02; done"
    events = streamed(shared, command, sessionId=session)
    assert "".join(e["data"] for e in events if e["type"] == "stdout") == "\u20ac\U0001f600\ufffd\ufffd"


@pytest.mark.parametrize("session", [NONE, "streams"])
def test_stream_of_much(shared, session):
    events = streamed(shared, "seq 200000; seq 100 >&2", sessionId=session)
    assert "".join(e["data"] for e in events if e["type"] == "stdout") == "".join(f"{i}\n" for i in range(1, 200001))
    assert events[-1] | {"duration": 0, "timestamp": 0} == {"type": "complete", "exitCode": 0, "duration": 0, "timestamp": 0}


def test_stream_timeouts(shared):
    events = streamed(shared, "echo x; sleep 1000.3", timeoutMs=300, sessionId="streams")
    assert events[-1]["type"] == "error" and "timed out" in events[-1]["error"] == events[-1]["data"]
    events = streamed(shared, "echo x; sleep 1000.3", timeoutMs=300, sessionId=NONE)
    assert events[-1]["type"] == "complete" and events[-1]["exitCode"] == 124 and "timed out" in events[-2]["data"]
    assert run(shared, "pgrep -f 'sleep 1000.3'", sessionId=NONE)["exitCode"] == 1


@pytest.mark.parametrize("session", [NONE, "streams"])
def test_a_stream_that_is_left_ends_its_command(shared, session):
    with shared.stream("/api/execute/stream", {"command": "echo x; sleep 1000.4", "sessionId": session}) as stream:
        stream.until(type="stdout")
    eventually(lambda: shared.api.exec(shared.box, "pgrep -f 'sleep 1000[.]4'")["exitCode"] == 1)
    assert run(shared, "echo on", sessionId=session)["success"]


def test_an_exec_that_is_left_ends_its_command(shared):
    for session in (NONE, "streams"):
        connection = shared.api.connect()
        headers, body = shared.api.head({}, {"command": "sleep 1000.5", "sessionId": session})
        connection.request("POST", shared.base + "/api/execute", body, headers)
        eventually(lambda: shared.api.exec(shared.box, "pgrep -f 'sleep 1000[.]5'")["exitCode"] == 0)
        connection.close()
        eventually(lambda: shared.api.exec(shared.box, "pgrep -f 'sleep 1000[.]5'")["exitCode"] == 1)


def test_a_reader_that_does_not_read_makes_the_command_wait(shared):
    with shared.stream("/api/execute/stream", {"command": "yes | head -c 50000000; touch /workspace/written", "sessionId": NONE}) as stream:
        stream.until(type="stdout")
        assert "written" not in shared.run("sleep 0.3; ls /workspace")
        total = sum(len(e.get("data", "")) for e in stream if e["type"] == "stdout")
    assert total > 40000000 and "written" in shared.run("ls /workspace")


def test_stream_of_a_shell_that_ends(shared):
    events = streamed(shared, "echo x; exit 5", sessionId="streams")
    assert events[-1]["type"] == "complete" and events[-1]["exitCode"] == 5


def test_sessions_side_by_side(box):
    """One waits for a file that the other makes; those of one session wait for each other."""
    first, _ = at_once(
        lambda: run(box, "until [ -e go ]; do sleep 0.01; done; echo first", sessionId="a", timeoutMs=60000),
        lambda: run(box, "touch go", sessionId="b"),
    )
    assert first["stdout"] == "first"
    results = at_once(*[lambda: run(box, "n=$((n+1)); sleep 0.02; echo $n", sessionId="c") for _ in range(5)])
    assert sorted(r["stdout"] for r in results) == list("12345")


def test_the_native_api_sees_the_same(box):
    run(box, "cd /tmp; export A=b", sessionId="s")
    assert box.api.exec(box.box, {"command": "pwd; echo $A", "session": "s"})["stdout"] == "/tmp\nb\n"
    with box.api.stream("POST", f"/sandbox/{box.box}/exec", {"command": "echo x; false", "session": "s"}) as stream:
        events = stream.until("exit")
    assert [e.name for e in events] == ["stdout", "exit"] and events[-1].data["exitCode"] == 1
