# SPDX-License-Identifier: Apache-2.0
"""Commands and their results, sessions, and commands as streams."""

import base64
import time

import pytest
from api_helpers import at_once, eventually

RESULT = {"success", "exitCode", "reason", "stdout", "stderr", "duration", "cpu", "peakMemory", "command", "timestamp"}


def test_result(api, shared_box):
    result = api.exec(shared_box, "echo out; echo err >&2")
    assert set(result) == RESULT
    assert result["success"] is True and result["exitCode"] == 0 and result["reason"] == "exit"
    assert result["stdout"] == "out\n" and result["stderr"] == "err\n"
    assert result["duration"] > 0 and result["cpu"] > 0 and result["peakMemory"] > 0
    assert result["command"] == "echo out; echo err >&2"


def test_argv(api, shared_box):
    result = api.exec(shared_box, {"argv": ["printf", "%s|", "a b", "$HOME", ""]})
    assert result["stdout"] == "a b|$HOME||" and result["command"] == ["printf", "%s|", "a b", "$HOME", ""]


@pytest.mark.parametrize("command, code", [("exit 3", 3), ("false", 1), ("kill -TERM $$", 143), ("nope-nope", 127)])
def test_failures_are_answers(api, shared_box, command, code):
    result = api.exec(shared_box, command)
    assert result["success"] is False and result["exitCode"] == code


def test_signal(api, shared_box):
    result = api.exec(shared_box, "kill -SEGV $$")
    assert result["reason"] == "signal" and result["signal"] == 11 and result["exitCode"] == 139


@pytest.mark.parametrize("argv, code", [(["nope"], 127), (["/etc/passwd"], 126), (["/"], 126), (["/etc/passwd/x"], 126)])
def test_not_started(api, shared_box, argv, code):
    result = api.exec(shared_box, {"argv": argv})
    assert result["success"] is False and result["exitCode"] == code and result["reason"] == "exit"
    assert argv[0] in result["stderr"]


def test_directory(api, shared_box):
    assert api.exec(shared_box, "pwd")["stdout"] == "/workspace\n"
    assert api.exec(shared_box, {"command": "pwd", "cwd": "/tmp"})["stdout"] == "/tmp\n"
    lost = api.exec(shared_box, {"command": "pwd", "cwd": "/nope"})
    assert lost["success"] is False and "/nope" in lost["stderr"]


def test_variables_and_user(api, shared_box):
    assert api.exec(shared_box, {"command": 'echo "$A$B"', "env": {"A": "x\ny", "B": "\u00e9"}})["stdout"] == "x\ny\u00e9\n"
    for user, ids in (("root", "0 0"), ("user", "1000 1000"), (33, "33 33"), ("5:6", "5 6")):
        assert api.exec(shared_box, {"command": "echo $(id -u) $(id -g)", "user": user})["stdout"] == ids + "\n"


def test_stdin(api, shared_box):
    assert api.exec(shared_box, {"argv": ["cat"], "stdin": "a\0b\n\u00e9"})["stdout"] == "a\0b\n\u00e9"
    assert api.exec(shared_box, {"argv": ["cat"]})["stdout"] == ""
    assert api.exec(shared_box, {"argv": ["cat"], "stdin": ""})["stdout"] == ""
    large = "0123456789abcde\n" * 65536
    assert api.exec(shared_box, {"argv": ["cat"], "stdin": large})["stdout"] == large
    assert api.exec(shared_box, {"argv": ["true"], "stdin": large})["success"] is True  # not read


@pytest.mark.parametrize("data", [b"", b"\0", b"a\0b", b"x\n\n", "\u00e9\U0001f600".encode(), b"\r\n\t\x1b[0m\x7f"])
def test_bytes_are_exact(api, shared_box, data):
    octal = "".join(f"\\{b:03o}" for b in data)
    result = api.exec(shared_box, {"argv": ["printf", octal]})
    assert result["stdout"].encode() == data and "encoding" not in result


@pytest.mark.parametrize("data", [b"\xff", b"ok \xc3", b"\xed\xa0\x80", b"\xc0\x80", bytes(range(256))])
def test_bytes_that_are_no_text(api, shared_box, data):
    octal = "".join(f"\\{b:03o}" for b in data)
    result = api.exec(shared_box, {"command": f"printf '{octal}'; echo text >&2"})
    assert result["encoding"] == "base64"
    assert base64.b64decode(result["stdout"]) == data and base64.b64decode(result["stderr"]) == b"text\n"


def test_nothing_but_nuls(api, shared_box):
    result = api.exec(shared_box, {"argv": ["head", "-c", "2000000", "/dev/zero"]})
    assert base64.b64decode(result["stdout"]) == bytes(2000000)


def test_output_beyond_the_limit(api, shared_box):
    result = api.exec(shared_box, "yes | head -c 20000000")
    assert result["success"] is True and result["truncated"] is True and "output" in result["limitsHit"]
    assert len(result["stdout"]) == 16 << 20


@pytest.mark.parametrize("timeout", [200, "0.2s", "200ms"])
def test_timeout(api, shared_box, timeout):
    result = api.exec(shared_box, {"command": "setsid sleep 1000 & echo $!; sleep 1000", "timeout": timeout})
    assert result["success"] is False and result["reason"] == "timeout" and result["exitCode"] == 124
    assert 190 <= result["duration"] < 30000
    pid = int(result["stdout"])
    eventually(lambda: not api.exec(shared_box, f"grep -q '^State:.[^Z]' /proc/{pid}/status")["success"])


def test_out_of_memory(api):
    api.ok("PUT", "/sandbox/small", {"memory": "64m"})
    result = api.exec("small", {"argv": ["python3", "-c", "x = bytearray(200 << 20); print(len(x))"]})
    assert result["success"] is False and result["reason"] == "oom" and result["exitCode"] == 137, result
    assert api.exec("small", "echo alive")["stdout"] == "alive\n"
    api.ok("DELETE", "/sandbox/small")


def test_disk_full(api):
    api.ok("PUT", "/sandbox/tight", {"disk": "16m"})
    result = api.exec("tight", "head -c 64000000 /dev/urandom > /workspace/big; sync")
    assert result["success"] is False or "disk" in result.get("limitsHit", []), result
    assert "No space" in result["stderr"] or "quota" in result["stderr"].lower(), result
    assert api.exec("tight", "rm /workspace/big; echo fine")["stdout"] == "fine\n"
    api.ok("DELETE", "/sandbox/tight")


@pytest.mark.parametrize("body, words", [
    ({}, "command"), ({"command": ""}, "command"), ({"command": "a", "argv": ["b"]}, "argv"), ({"argv": []}, "argv"),
    ({"argv": [""]}, "argv"), ({"argv": ["a", 1]}, "argv"), ({"argv": "ls"}, "argv"), ({"argv": ["a\0b"]}, "argv"),
    ({"argv": ["x"] * 1025}, "argv"), ({"command": 5}, "command"), ({"command": "a\0b"}, "NUL"),
    ({"command": "x" * ((1 << 20) + 1)}, "command"), ({"command": "x", "cwd": "rel"}, "cwd"),
    ({"command": "x", "cwd": "/" + "a" * 5000}, "cwd"), ({"command": "x", "timeout": 0}, "timeout"),
    ({"command": "x", "timeout": -1}, "timeout"), ({"command": "x", "timeout": "100"}, "unit"),
    ({"command": "x", "timeout": "soon"}, "timeout"), ({"command": "x", "user": "nobody"}, "user"),
    ({"command": "x", "user": 65535}, "user"), ({"command": "x", "stdin": 5}, "stdin"), ({"command": "x", "env": 5}, "env"),
    ({"command": "x", "session": "s", "user": "root"}, "user"), ({"argv": ["x"], "session": "s"}, "session"),
    ({"command": "x", "tiemout": 5}, "timeout"), ({"comand": "x"}, "command"),
])
def test_bad_requests(api, shared_box, body, words):
    api("POST", f"/sandbox/{shared_box}/exec", body).error(400, "INVALID_REQUEST", words)
    api("POST", f"/sandbox/{shared_box}/exec", body, {"Accept": "text/event-stream"}).error(400, "INVALID_REQUEST", words)


def test_no_such_sandbox(api):
    api("POST", "/sandbox/nobody/exec", {"command": "id"}).error(404, "NOT_FOUND", "PUT")


def test_side_by_side(api, shared_box):
    begun = time.monotonic()
    results = at_once(*[lambda: api.exec(shared_box, "sleep 1; echo $$") for _ in range(8)])
    assert len({r["stdout"] for r in results}) == 8 and time.monotonic() - begun < 7


def test_client_goes_away(api, box):
    connection = api.connect()
    headers, body = api.head(None, {"command": "echo $$ > /workspace/pid; sleep 1000"})
    connection.request("POST", f"/sandbox/{box}/exec", body=body, headers=headers)
    pid = eventually(lambda: api.exec(box, "cat /workspace/pid 2>/dev/null")["stdout"].strip())
    assert api.exec(box, f"test -d /proc/{pid}")["success"]
    connection.close()
    eventually(lambda: not api.exec(box, f"test -d /proc/{pid}")["success"])


# --- sessions


def test_session_keeps_its_state(api, box):
    made = api.ok("POST", f"/sandbox/{box}/sessions", {"id": "s", "cwd": "/tmp", "env": {"A": "1"}})
    assert made["session"]["id"] == "s" and made["session"]["cwd"] == "/tmp"
    run = lambda command, **more: api.exec(box, {"session": "s", "command": command, **more})
    assert run("pwd; echo $A")["stdout"] == "/tmp\n1\n"
    run("cd /etc; export B=2; f() { echo f$1; }; c=3")
    assert run("pwd; echo $B$c; f x")["stdout"] == "/etc\n23\nfx\n"
    assert run("pwd", cwd="/usr")["stdout"] == "/usr\n" and run("pwd")["stdout"] == "/etc\n"
    assert run("echo $T", env={"T": "t"})["stdout"] == "t\n" and run("echo $T")["stdout"] == "\n"
    assert run("cat", stdin="in\n")["stdout"] == "in\n"
    failed = run("false")
    assert failed["exitCode"] == 1 and failed["success"] is False
    assert run("echo 'unbalanced")["success"] is False and run("echo ok")["stdout"] == "ok\n"
    slow = run("echo a; sleep 100", timeout=300)
    assert slow["reason"] == "timeout" and slow["exitCode"] == 124 and slow["stdout"] == "a\n"
    assert run("echo $B")["stdout"] == "2\n"


def test_session_that_exits(api, box):
    api.ok("POST", f"/sandbox/{box}/sessions", {"id": "s"})
    reply = api("POST", f"/sandbox/{box}/exec", {"session": "s", "command": "echo bye; exit 7"})
    error = reply.error(410, "SESSION_TERMINATED", "'s'", "7")
    assert error["details"]["exitCode"] == 7 and error["details"]["stdout"] == "bye\n"
    assert api.exec(box, {"session": "s", "command": "echo back"})["stdout"] == "back\n"


def test_sessions_listed_and_ended(api, box):
    assert api.ok("GET", f"/sandbox/{box}/sessions")["sessions"] == []
    api.ok("POST", f"/sandbox/{box}/sessions", {"id": "a"})
    made = api.ok("POST", f"/sandbox/{box}/sessions")
    assert {s["id"] for s in api.ok("GET", f"/sandbox/{box}/sessions")["sessions"]} == {"a", made["id"]}
    api("POST", f"/sandbox/{box}/sessions", {"id": "a"}).error(409, "CONFLICT")
    assert api.ok("GET", f"/sandbox/{box}/sessions/a")["session"]["id"] == "a"
    api.ok("DELETE", f"/sandbox/{box}/sessions/a")
    for method in ("GET", "DELETE"):
        api(method, f"/sandbox/{box}/sessions/a").error(404, "NOT_FOUND", "a")
    api("POST", f"/sandbox/{box}/exec", {"session": "a", "command": "id"}).error(404, "NOT_FOUND", "a")


@pytest.mark.parametrize("body, words", [
    ({"id": "a b"}, "id"), ({"id": ""}, "id"), ({"cwd": "x"}, "cwd"), ({"env": {"A": 1}}, "env"), ({"shell": "zsh"}, "shell"),
])
def test_bad_sessions(api, shared_box, body, words):
    api("POST", f"/sandbox/{shared_box}/sessions", body).error(400, "INVALID_REQUEST", words)


def test_session_survives_sleep(api, box):
    api.ok("POST", f"/sandbox/{box}/sessions", {"id": "s"})
    api.exec(box, {"session": "s", "command": "mkdir -p /workspace/d; cd /workspace/d; export KEPT=1"})
    api.ok("POST", f"/sandbox/{box}/sleep")
    assert api.exec(box, {"session": "s", "command": "pwd; echo $KEPT"})["stdout"] == "/workspace/d\n1\n"


def test_session_order(api, box):
    api.ok("POST", f"/sandbox/{box}/sessions", {"id": "s"})
    results = at_once(*[lambda: api.exec(box, {"session": "s", "command": "n=$((n+1)); sleep 0.1; echo $n"})
                        for _ in range(5)])
    assert sorted(int(r["stdout"]) for r in results) == [1, 2, 3, 4, 5]


# --- streams


def joined(events, name):
    parts = []
    for e in (e for e in events if e.name == name):
        assert e.data["offset"] == sum(map(len, parts))
        parts.append(base64.b64decode(e.data["data"]) if "encoding" in e.data else e.data["data"].encode())
    return b"".join(parts)


def test_stream(api, box):
    with api.stream("POST", f"/sandbox/{box}/exec", {"command": "echo a; echo b >&2; sleep 0.2; echo c; exit 5"}) as stream:
        events = stream.until("exit")
        assert list(stream) == []
    assert events[0].name == "start" and events[0].data["pid"] > 0
    assert joined(events, "stdout") == b"a\nc\n" and joined(events, "stderr") == b"b\n"
    end = events[-1].data
    assert end["exitCode"] == 5 and end["success"] is False and end["reason"] == "exit" and "duration" in end
    process = events[0].data["processId"]
    assert events[-1].id == f"{process}.4.2"
    assert all(e.id.startswith(process + ".") for e in events)


def test_stream_comes_as_it_is_written(api, box):
    with api.stream("POST", f"/sandbox/{box}/exec", {"command": "echo now; sleep 1000"}) as stream:
        for event in stream:
            if event.name == "stdout":
                assert event.data["data"] == "now\n"
                break
    # The client has gone: the command has not.
    process = event.id.split(".")[0]
    got = api.ok("GET", f"/sandbox/{box}/processes/{process}")["process"]
    assert got["status"] == "running"
    api.ok("DELETE", f"/sandbox/{box}/processes/{process}")


def test_stream_characters_are_whole(api, box):
    script = ("import os, time\nfor b in 'h\u00e9\U0001f600!'.encode(): os.write(1, bytes([b])); time.sleep(0.03)\n"
              "os.write(1, b'\\xc3'); time.sleep(0.05); os.write(1, b'\\x28\\xff')")
    with api.stream("POST", f"/sandbox/{box}/exec", {"argv": ["python3", "-c", script]}) as stream:
        events = stream.until("exit")
    text = "".join(e.data["data"] for e in events if e.name == "stdout" and "encoding" not in e.data)
    assert text.startswith("h\u00e9\U0001f600!")
    assert joined(events, "stdout") == "h\u00e9\U0001f600!".encode() + b"\xc3\x28\xff"


def test_stream_resumed(api, box):
    body = {"command": "for i in 1 2 3 4 5 6; do echo $i; sleep 0.2; done; exit 9"}
    path = f"/sandbox/{box}/exec"
    with api.stream("POST", path, body) as stream:
        seen = []
        for event in stream:
            seen.append(event)
            if len([e for e in seen if e.name == "stdout"]) == 2:
                break
    with api.stream("POST", path, body, {"Last-Event-ID": seen[-1].id}) as stream:
        rest = stream.until("exit")
    out = [e.data["data"] for e in seen + rest if e.name == "stdout"]
    assert "".join(out) == "1\n2\n3\n4\n5\n6\n" and rest[-1].data["exitCode"] == 9
    assert len(api.ok("GET", f"/sandbox/{box}/processes")["processes"]) == 1  # it was not started again
    with api.stream("POST", path, body, {"Last-Event-ID": rest[-1].id}) as stream:
        assert [e.name for e in stream] == ["start", "exit"]
    api.stream("POST", path, body, {"Last-Event-ID": "nobody.0.0"}).error(404, "NOT_FOUND")
    for bad in ("x", "x.1", ".1.2", "x.a.b", "x.1.-2"):
        api.stream("POST", path, body, {"Last-Event-ID": bad}).error(400, "INVALID_REQUEST", "Last-Event-ID")


def test_stream_of_what_cannot_start(api, box):
    with api.stream("POST", f"/sandbox/{box}/exec", {"argv": ["nope"]}) as stream:
        events = stream.until("exit")
    assert events[-1].data["exitCode"] == 127 and "nope" in events[0].data["data"]
    assert api.ok("GET", f"/sandbox/{box}/processes")["processes"] == []


def test_stream_in_a_session(api, box):
    api.ok("POST", f"/sandbox/{box}/sessions", {"id": "s"})
    with api.stream("POST", f"/sandbox/{box}/exec", {"session": "s", "command": "echo hi; false"}) as stream:
        events = stream.until("exit")
    assert joined(events, "stdout") == b"hi\n" and events[-1].data["exitCode"] == 1


def test_large_stream_slowly_read(api, box):
    size = 6_000_000
    with api.stream("POST", f"/sandbox/{box}/exec", {"command": f"yes 0123456789 | head -c {size}"}) as stream:
        first = next(iter(stream))
        assert first.name == "start"
        time.sleep(1)  # it fills every buffer on the way
        events = stream.until("exit")
    assert joined(events, "stdout") == (b"0123456789\n" * (size // 11 + 1))[:size]
