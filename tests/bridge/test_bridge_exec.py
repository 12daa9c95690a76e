# SPDX-License-Identifier: Apache-2.0
"""POST /v1/sandbox/{id}/exec: programs and what they write, in a shell of their own or in a session's."""

import contextlib
import hashlib
import http.client
import json

import pytest
from api_helpers import eventually, kill_daemon
from bridge_helpers import kill_box, numbers, pids_with, refused

BOTH = pytest.mark.parametrize("session", [None, "s"], ids=["alone", "session"])


# -- how they end


@pytest.mark.parametrize(
    "argv, code, out, err",
    [
        (["echo", "hello"], 0, b"hello\n", b""),
        (["sh", "-c", "echo oops >&2; exit 7"], 7, b"", b"oops\n"),
        (["sh", "-c", "kill -9 $$"], 137, b"", b""),
        (["sh", "-c", "kill -TERM $$"], 143, b"", b""),
        (["pwd"], 0, b"/workspace\n", b""),
        (["printf", "%s", ""], 0, b"", b""),
        # What only a shell knows: theirs gives every command to one.
        (["cd", "/"], 0, b"", b""),
        (["command", "-v", "sh"], 0, b"/usr/bin/sh\n", b""),
        (["type", "-t", "cd"], 0, b"builtin\n", b""),
        ([":"], 0, b"", b""),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_ends(api, shared, argv, code, out, err):
    run = api.run(shared, argv)
    assert (run.code, run.out, run.err) == (code, out, err)


@BOTH
def test_a_program_that_is_not_there(api, shared, session):
    run = api.run(shared, ["no-such-program", "x"], session)
    assert run.code == 127 and b"no-such-program" in run.err


def test_a_program_that_is_none(api, shared):
    run = api.run(shared, ["/etc/passwd"])
    assert run.code == 126 and b"/etc/passwd" in run.err


@BOTH
def test_arguments_arrive_as_they_are(api, shared, session):
    argv = ["a b", "it's", '"', "$HOME", "`id`", "\\", "\n", "\t", "-n", "", "*", "é中😀", "a;b|c&d", "~", "!!", "#", "=x"]
    run = api.run(shared, ["printf", "%s\\0", *argv], session)
    assert run.code == 0 and run.out.split(b"\0")[:-1] == [arg.encode() for arg in argv]


def test_many_and_long_arguments(api, shared):
    argv = ["x" * 100 * 1024, *(str(i) for i in range(1000))]
    run = api.run(shared, ["printf", "%s", *argv])
    assert run.code == 0 and run.out == "".join(argv).encode()


def test_stdin_is_empty(api, shared):
    run = api.run(shared, ["cat"])
    assert (run.code, run.out) == (0, b"")


@pytest.mark.parametrize(
    "cwd, seen", [("/workspace/in", "in"), ("in", "in"), ("/workspace/in/../in/./deep/", "in/deep"), (".", ""), ("in//..", "")]
)
def test_directory(api, shared, cwd, seen):
    assert api.sh(shared, "mkdir -p in/deep").code == 0
    run = api.run(shared, ["pwd"], cwd=cwd)
    assert run.out.decode().strip() == f"/workspace/{seen}".rstrip("/")


@BOTH
def test_directory_that_is_not_there(api, shared, session):
    run = api.run(shared, ["pwd"], session, cwd="nowhere")
    assert run.code != 0 and run.out == b"" and b"/workspace/nowhere" in run.err


# -- as it comes


@BOTH
def test_output_comes_as_it_is_written(api, box, session):
    run = api.begin(box, ["sh", "-c", "echo one; while ! [ -e go ]; do sleep 0.02; done; echo two; echo three >&2"], session)
    run.until(b"one\n")
    assert run.exit is None
    api.put(box, "workspace/go", b"")
    run.all()
    assert (run.code, run.out, run.err) == (0, b"one\ntwo\n", b"three\n")


@BOTH
def test_characters_are_not_cut(api, shared, session):
    # Their client reads each piece as text.
    line = r"for i in 1 2 3 4 5; do printf 'a\360\237'; sleep 0.02; printf '\230\200\303'; sleep 0.02; printf '\251'; done; printf '\377\303'"
    run = api.run(shared, ["sh", "-c", line], session)
    assert run.out == "a😀é".encode() * 5 + b"\xff\xc3"
    assert b"".join(run.pieces) == run.out and len(run.pieces) > 1
    text = "".join(piece.decode(errors="replace") for piece in run.pieces)
    assert text == "a😀é" * 5 + "\ufffd" * 2


@BOTH
def test_much_output_and_a_reader_that_waits(api, box, session):
    """More than is ever kept. Until it is read, the program waits."""
    n = 24 * 1024 * 1024
    run = api.begin(box, ["sh", "-c", f"head -c {n} /dev/zero | tr '\\0' x; echo end >&2; echo > over"], session)
    run.step()
    assert api("GET", f"/v1/sandbox/{box}/file/workspace/over").status == 404
    digest, length = hashlib.sha256(), 0
    while True:
        digest.update(run.out)
        length += len(run.out)
        run.out, run.pieces = b"", []
        if run.step() is None:
            break
    assert run.code == 0 and run.err == b"end\n"
    assert length == n and digest.digest() == hashlib.sha256(b"x" * n).digest()
    assert api.get(box, "workspace/over") == b"\n"


def test_many_at_once(api, shared):
    runs = [api.begin(shared, ["sh", "-c", f"sleep 0.1; echo {i}"]) for i in range(16)]
    assert [run.all().out for run in runs] == [f"{i}\n".encode() for i in range(16)]


# -- sessions


def test_a_session_stays(api, shared):
    name = f"stays{next(numbers)}"
    assert api.run(shared, ["cd", "/usr/share"], name).code == 0
    assert api.run(shared, ["export", "A=b c"], name).code == 0
    assert api.run(shared, ["sh", "-c", "pwd; echo $A"], name).out == b"/usr/share\nb c\n"
    assert api.run(shared, ["sh", "-c", "pwd; echo $A"]).out == b"/workspace\n\n"
    assert api.run(shared, ["pwd"], name, cwd=".").out == b"/workspace\n"
    assert api.run(shared, ["pwd"], name).out == b"/usr/share\n"


def test_a_session_is_made_with_what_it_is_given(api, shared):
    made = api.ok("POST", f"/v1/sandbox/{shared}/session", {"cwd": "/usr", "env": {"GIVEN": "yes"}, "name": "not looked at"})
    assert set(made) == {"id"}
    assert api.run(shared, ["sh", "-c", "pwd; echo $GIVEN"], made["id"]).out == b"/usr\nyes\n"
    chosen = f"chosen{next(numbers)}"
    assert api.ok("POST", f"/v1/sandbox/{shared}/session", {"id": chosen, "cwd": "below"}) == {"id": chosen}
    refused(api("POST", f"/v1/sandbox/{shared}/session", {"id": chosen}), 409, "session_error", chosen)
    assert api.run(shared, ["true"], chosen).code in (0, 1)  # its directory is not there
    gone = api.ok("DELETE", f"/v1/sandbox/{shared}/session/{chosen}")
    assert gone["success"] is True and gone["sessionId"] == chosen and set(gone) == {"success", "sessionId", "timestamp"}
    refused(api("DELETE", f"/v1/sandbox/{shared}/session/{chosen}"), 404, "session_error", chosen)


def test_a_session_without_a_body(api, shared):
    assert set(api.ok("POST", f"/v1/sandbox/{shared}/session")) == {"id"}


def test_commands_of_a_session_wait_for_each_other(api, shared):
    name = f"order{next(numbers)}"
    runs = [api.begin(shared, ["eval", f"n=${{n}}{i}; sleep 0.05; echo $n"], name) for i in range(4)]
    assert [run.all().out for run in runs] == [b"0\n", b"01\n", b"012\n", b"0123\n"]


def test_a_command_that_ends_the_shell(api, shared):
    name = f"exits{next(numbers)}"
    run = api.run(shared, ["exit", "3"], name)
    assert run.exit is None and run.error["code"] == "exec_error"
    assert api.run(shared, ["echo", "on"], name).out == b"on\n"


def test_a_session_that_is_deleted_under_a_command(api, shared):
    name = f"deleted{next(numbers)}"
    run = api.begin(shared, ["sh", "-c", "echo on; sleep 1000"], name).until(b"on\n")
    api.ok("DELETE", f"/v1/sandbox/{shared}/session/{name}")
    run.all()
    assert run.exit is None and run.error["code"] == "exec_error" and "deleted" in run.error["error"]


# -- an end that is not the program's


def test_time_is_up(api, shared):
    run = api.run(shared, ["sh", "-c", "echo begun; sleep 1000 & sleep 1000"], timeout_ms=300)
    assert run.code == 124 and run.out == b"begun\n" and b"timed out" in run.err


def test_time_is_up_in_a_session(api, shared):
    name = f"slow{next(numbers)}"
    assert api.run(shared, ["cd", "/usr"], name).code == 0
    run = api.run(shared, ["sh", "-c", "echo begun; sleep 1000"], name, timeout_ms=300)
    assert run.exit is None and run.out == b"begun\n"
    assert run.error["code"] == "exec_error" and "timed out" in run.error["error"]
    assert api.run(shared, ["pwd"], name).out == b"/usr\n"


def test_no_time_is_any_time(api, shared):
    assert api.run(shared, ["true"], timeout_ms=0).code == 0
    assert api.run(shared, ["true"], timeout_ms=60000.5).code == 0


@BOTH
def test_a_client_that_goes_takes_its_command_along(api, shared, session):
    mark = f"gone-{next(numbers)}-{id(api)}"
    run = api.begin(shared, ["sh", "-c", f"echo on; sleep 1000; : {mark}"], session).until(b"on\n")
    assert pids_with(mark)
    run.close()
    eventually(lambda: not pids_with(mark))
    assert api.run(shared, ["echo", "on"], session).out == b"on\n"


def test_a_client_that_goes_while_its_command_writes(api, shared):
    mark = f"writes-{next(numbers)}-{id(api)}"
    run = api.begin(shared, ["sh", "-c", f"yes; : {mark}"])
    run.step()
    run.close()
    eventually(lambda: not pids_with(mark))


@BOTH
def test_a_box_that_dies(api, box, session):
    mark = f"dies-{next(numbers)}-{id(api)}"
    run = api.begin(box, ["sh", "-c", f"echo on; sleep 1000; : {mark}"], session).until(b"on\n")
    if session is None:
        kill_box(mark)
    else:  # its parent is the shell
        other = api.begin(box, ["sh", "-c", f"echo on; sleep 1000; : other {mark}"]).until(b"on\n")
        kill_box(f"other {mark}")
        other.all()
        assert other.exit is None and other.error["code"] == "exec_transport_error"
    run.all()
    assert run.exit is None and run.error["code"] == "exec_transport_error", run.error
    eventually(lambda: api("GET", f"/v1/sandbox/{box}/running").json["running"])
    assert api.run(box, ["echo", "again"], session).out == b"again\n"


def test_a_sandbox_that_is_destroyed(api, box):
    run = api.begin(box, ["sh", "-c", "echo on; sleep 1000"]).until(b"on\n")
    assert api("DELETE", f"/v1/sandbox/{box}").status == 204
    run.all()
    assert run.exit is None and run.error is not None


def test_memory_that_is_used_up(api, box):
    api.ok("PUT", f"/sandbox/{box}", {"memory": "64m"})
    run = api.run(box, ["python3", "-c", "x = bytearray(1 << 30)"])
    assert run.code == 137 and b"memory" in run.err


def test_a_stream_that_is_cut(server, api, box):
    """The daemon dies: what came is no end."""
    run = api.begin(box, ["sh", "-c", "echo on; sleep 1000"]).until(b"on\n")
    kill_daemon(server, api)
    with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
        run.all()
    assert run.exit is None and run.error is None


def test_a_revoked_token_ends_it(server, api, box):
    made = api.ok("POST", "/tokens", {"tenant": "admin", "name": "short"})
    run = type(api)(server, made["token"]).begin(box, ["sh", "-c", "echo on; sleep 1000"]).until(b"on\n")
    assert api("DELETE", f"/tokens/{made['id']}").status in (200, 204)
    run.all()
    assert run.exit is None and run.error["code"] == "exec_transport_error"


# -- what is refused, before anything is made

BAD = [
    (b"", 400, "argv"),
    (b"{", 400, ""),
    (b"[]", 400, "object"),
    (b'"x"', 400, "object"),
    ({}, 400, "argv"),
    ({"argv": []}, 400, "argv"),
    ({"argv": None}, 400, "argv"),
    ({"argv": "ls"}, 400, "argv"),
    ({"argv": [1]}, 400, "argv"),
    ({"argv": ["ls", None]}, 400, "argv"),
    ({"argv": [""]}, 400, "empty"),
    ({"argv": ["a\0b"]}, 400, "argv"),
    ({"argv": ["x"] * 2000}, 400, "argv"),
    ({"argv": ["ls"], "timeout_ms": -1}, 400, "timeout_ms"),
    ({"argv": ["ls"], "timeout_ms": "soon"}, 400, "timeout_ms"),
    ({"argv": ["ls"], "timeout_ms": True}, 400, "timeout_ms"),
    ({"argv": ["ls"], "timeout_ms": 1e18}, 400, "timeout_ms"),
    ({"argv": ["ls"], "cwd": 1}, 400, "cwd"),
    ({"argv": ["ls"], "cwd": "/etc"}, 403, "/workspace"),
    ({"argv": ["ls"], "cwd": ".."}, 403, "/workspace"),
    ({"argv": ["ls"], "cwd": "/workspace/../etc"}, 403, "/workspace"),
    ({"argv": ["ls"], "cwd": "/workspacex"}, 403, "/workspace"),
    ({"argv": ["ls"], "cwd": "a/" * 3000}, 400, "cwd"),
]


@pytest.mark.parametrize("body, status, word", BAD, ids=[f"{str(body)[:40]}" for body, _, _ in BAD])
def test_bad_bodies(api, body, status, word):
    refused(api("POST", "/v1/sandbox/never-made/exec", body), status, "invalid_request", word)
    assert api.state("never-made") is None


def test_a_body_that_is_too_large(api):
    reply = api("POST", "/v1/sandbox/never-made/exec", json.dumps({"argv": ["x" * (40 * 1024 * 1024)]}).encode())
    refused(reply, 413, "payload_too_large")
    assert api.state("never-made") is None


def test_unknown_fields_are_passed_over(api, shared):
    assert api.run(shared, ["echo", "x"], more=1, env={"A": 1}).out == b"x\n"


def test_an_empty_session_id_is_none(api, shared):
    assert api.run(shared, ["cd", "/usr"], "").code == 0
    assert api.run(shared, ["pwd"], "").out == b"/workspace\n"


@pytest.mark.parametrize("name", ["a b", "../x", "x/..", "é", "-x", "x" * 129])
def test_bad_session_ids(api, name):
    headers = {"Session-Id": name.encode()}
    for method, path, body in [
        ("POST", "exec", {"argv": ["ls"]}),
        ("GET", "file/workspace/x", None),
        ("PUT", "file/workspace/x", b"x"),
    ]:
        refused(api(method, f"/v1/sandbox/never-made/{path}", body, headers), 400, "invalid_request")
    refused(api("POST", "/v1/sandbox/never-made/session", {"id": name}), 400, "invalid_request")
    assert api.state("never-made") is None


@pytest.mark.parametrize("body", [{"id": 1}, {"cwd": 1}, {"env": []}, {"env": {"A": 1}}, {"env": {"A=B": "1"}}, b"{"])
def test_bad_sessions(api, body):
    refused(api("POST", "/v1/sandbox/never-made/session", body), 400, "invalid_request")
    refused(api("POST", "/v1/sandbox/never-made/session", {"cwd": "../.."}), 403, "invalid_request")
    assert api.state("never-made") is None
