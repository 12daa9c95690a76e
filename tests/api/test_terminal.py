# SPDX-License-Identifier: Apache-2.0
"""Terminals: a shell on a WebSocket, seen by several, over restarts, and by those who mean no good."""

import hashlib
import json
import os
import pathlib
import re
import signal
import socket
import threading
import time

import api_helpers
import pytest
from api_helpers import ADMIN, PATIENCE, TOP, Client, eventually
from ws_helpers import BINARY, CLOSE, CONTINUATION, PING, TEXT, Closed, Terminal, WebSocket, connect, frame

KIB = 1024
RELEASE = os.environ.get("CAY", str(TOP / "build" / "cay"))


def daemon_pid(server):
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        if name == "cayd" and int(text[text.rindex(")") + 2 :].split()[1]) == server.process.pid:
            return int(path.parent.name)
    return 0


def kill_daemon(server, api):
    """Kills it without a word and waits until another one answers."""
    pid = daemon_pid(server)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: daemon_pid(server) not in (0, pid))
    api.ok("GET", "/health")


def memory(server):
    """Resident bytes of the daemon."""
    text = pathlib.Path(f"/proc/{daemon_pid(server)}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * KIB


# -- a shell


def test_shell_has_terminal_of_its_own(api, box):
    with Terminal(api, box, cols=101, rows=33) as t:
        assert t.replay == b"" and t.ready["session"] == "default" and not t.ready["readonly"]
        shown = t.run("stty size; tty; echo $TERM; pwd; shopt -q login_shell && echo login", "DONE")
        for word in ("33 101", "/dev/pts/0", "xterm-256color", "/workspace", "login"):
            assert word in shown, shown
        t.run("trap 'echo W''INCH' WINCH", "DONE2")
        t.resize(72, 9)
        t.until("WINCH")
        assert "9 72" in t.run("stty size", "DONE3")


@pytest.mark.parametrize("line, code, name", [("exit 0", 0, None), ("exit 7", 7, None), ("kill -9 $$", 137, "SIGKILL")])
def test_end_has_code(api, box, line, code, name):
    with Terminal(api, box) as t:
        t.run("true", "READY")
        t.type(f"echo l''ast; {line}\r")
        closed, end = t.end()
        assert closed == 1000
        assert (end["code"], end.get("signal")) == (code, name)
        assert b"last" in t.shown
    assert api.ok("GET", f"/sandbox/{box}/terminals")["terminals"] == []
    ended = api.ok("GET", f"/sandbox/{box}/processes/{t.ready['process']}")["process"]
    assert (ended["status"], ended["exitCode"], ended["terminal"]) == ("ended", code, "default")


def test_end_comes_behind_all_output(api, box):
    with Terminal(api, box, session="out", command="seq 1 50000; exit 3") as t:
        assert t.end() == (1000, {"type": "exit", "code": 3, "reason": "exit"})
        assert t.shown.split() == [str(i).encode() for i in range(1, 50001)]


def test_program_is_chosen(api, box):
    with Terminal(api, box, session="a", shell="sh", cwd="/tmp", user="user") as t:
        shown = t.run("pwd; id -u; echo $0", "DONE")
        assert "/tmp" in shown and "1000" in shown and "sh" in shown
    with Terminal(api, box, session="b", shell="/bin/cat") as t:
        t.type("echoed\r")
        t.until("echoed\r\nechoed\r\n")
    with Terminal(api, box, session="c", command='printf "%s|" "a b" c') as t:
        assert t.end()[1]["code"] == 0 and t.shown == b"a b|c|"
    bad = connect(api, f"/sandbox/{box}/terminal", session="d", shell="no-such-shell")
    bad.error(400, "CANNOT_START", "no-such-shell")
    names = {t["id"] for t in api.ok("GET", f"/sandbox/{box}/terminals")["terminals"]}
    assert names == {"a", "b"}


def test_session_gives_directory_and_variables(api, box):
    api.ok("POST", f"/sandbox/{box}/sessions", {"id": "dev", "cwd": "/usr", "env": {"COLOUR": "teal", "TERM": "dumb"}})
    with Terminal(api, box, session="dev") as t:
        shown = t.run("echo $COLOUR $PWD $TERM", "DONE")
        assert "teal /usr xterm-256color" in shown
    api.ok("POST", f"/sandbox/{box}/sessions", {"id": "lost", "cwd": "/tmp/gone"})
    with Terminal(api, box, session="lost") as t:
        assert "/workspace" in t.run("pwd", "DONE")


def test_delete_ends_it(api, box):
    with Terminal(api, box, session="x") as t:
        t.run("sleep 1000 & true", "READY")
        api.ok("DELETE", f"/sandbox/{box}/terminals/x")
        code, end = t.end()
        assert (code, end["code"], end["reason"], end["signal"]) == (1000, 137, "killed", "SIGKILL")
    api("DELETE", f"/sandbox/{box}/terminals/x").error(404, "NOT_FOUND")
    assert "sleep 1000" not in api.exec(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")["stdout"]


def test_is_a_process_like_others(api, box):
    with Terminal(api, box) as t:
        t.run("echo in the log", "DONE")
        path = f"/sandbox/{box}/processes/{t.ready['process']}"
        assert b"in the log" in api("GET", path + "/logs?stream=stdout").body
        api.ok("POST", path + "/stdin", {"data": "echo by std''in\r"})
        t.until("by stdin")
        api("POST", path + "/stdin", {"data": "", "end": True}).error(409, "CONFLICT", "Ctrl-D")
        api.ok("POST", path + "/signal", {"signal": "HUP"})
        assert t.end()[1]["signal"] == "SIGHUP"


# -- several viewers, and those who come late


def test_viewers_share_it(api, box):
    with Terminal(api, box, cols=90) as a:
        a.run("x=seen", "ONE")
        with Terminal(api, box) as b, Terminal(api, box, readonly=1, cols=40, rows=7) as c:
            assert (b.ready["process"], c.ready["process"]) == (a.ready["process"],) * 2
            assert b.ready["cols"] == 90 and c.ready["cols"] == 90  # one who looks on changes nothing
            assert b"ONE" in b.replay and b"ONE" in c.replay
            b.type("echo $x-b''y-all\r")
            for viewer in (a, b, c):
                viewer.until("seen-by-all")
            listed = api.ok("GET", f"/sandbox/{box}/terminals")["terminals"]
            assert [(t["id"], t["viewers"]) for t in listed] == [("default", 3)]
            c.type("echo not-''typed\r")
            c.resize(40, 7)
            assert "looks on" in c.wait_told("error")["message"]
            assert "24 90" in b.run("stty size", "TWO")
            c.until("TWO")
            assert b"not-typed" not in c.shown and len([m for m in c.told if m["type"] == "error"]) == 1
        # the terminal is still there for the one who stays
        a.run("true", "THREE")
    eventually(lambda: api.ok("GET", f"/sandbox/{box}/terminals")["terminals"][0]["viewers"] == 0)


def test_opened_by_many_at_once_is_one(api, box):
    viewers, threads = [], []

    def look():
        viewers.append(Terminal(api, box, session="crowd"))

    for _ in range(8):
        threads.append(threading.Thread(target=look))
        threads[-1].start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len({v.ready["process"] for v in viewers}) == 1 and len(viewers) == 8
    viewers[0].type("echo o''ne\r")
    for viewer in viewers:
        viewer.until("one")
        viewer.ws.sock.close()


def test_replay_is_the_last_of_it(api, box):
    with Terminal(api, box, session="r", command="seq 1 100000; sleep 1000") as t:
        t.until("\n100000\r\n")
        whole = t.shown
    with Terminal(api, box, session="r") as late:
        assert len(late.replay) <= 64 * KIB and len(late.replay) > 63 * KIB
        assert whole.endswith(late.replay) and whole[: -len(late.replay)].endswith(b"\n")
        assert late.ready["offset"] == len(whole)
    with Terminal(api, box, session="r", replay=100) as little:
        assert 90 < len(little.replay) <= 100 and whole.endswith(little.replay)
    with Terminal(api, box, session="r", replay=0) as none:
        assert none.replay == b"" and none.ready["offset"] == len(whole)
    with Terminal(api, box, session="r", offset=5) as rest:
        rest.until("\n100000\r\n")
        assert rest.shown == whole[5:]
    with Terminal(api, box, session="r", offset=10**12) as beyond:
        assert beyond.replay == b"" and beyond.ready["offset"] == len(whole)


def test_ended_one_can_be_looked_at_again(api, box):
    with Terminal(api, box, session="e", command="echo the end; exit 5") as t:
        t.end()
    with Terminal(api, box, resume=t.ready["process"], offset=4) as again:
        assert again.end() == (1000, {"type": "exit", "code": 5, "reason": "exit"})
        assert again.shown == b"end\r\n"
    other = api.start(box, {"command": "true"})
    connect(api, f"/sandbox/{box}/terminal", resume=other).error(409, "CONFLICT", "no terminal")
    connect(api, f"/sandbox/{box}/terminal", resume="nope").error(404, "NOT_FOUND")


def test_slow_viewer_costs_nothing_and_is_told_what_it_missed(make_server, monkeypatch):
    monkeypatch.setattr(api_helpers, "CAY", RELEASE)  # the other one keeps what is freed for a while
    server = make_server("--process-log", "1m")
    api = Client(server)
    api.ok("PUT", "/sandbox/s", {})
    with Terminal(api, "s", session="slow", command="yes 0123456789abcdef | head -n 3500000; echo; sleep 1000") as slow:
        with Terminal(api, "s", session="slow", readonly=1) as quick:
            before = memory(server)
            most = 0
            while b"f\r\n\r\n" not in quick.shown[-100:]:
                quick.step()
                if len(quick.shown) > 4_000_000:
                    quick.shown = quick.shown[-1000:]
                    most = max(most, memory(server))
            assert most - before < 24 * KIB * KIB, (before, most)  # 60 MB went by
        assert slow.until("f\r\n\r\n") > 0
        gaps = [m for m in slow.told if m["type"] == "gap"]
        assert gaps and all(m["bytes"] > 0 for m in gaps)
        lost = sum(m["bytes"] for m in gaps)
        size = api.ok("GET", f"/sandbox/s/processes/{slow.ready['process']}")["process"]["logs"]["stdout"]["size"]
        assert slow.start + len(slow.shown) + lost == size


def test_input_waits_for_the_program(api, server, box):
    data = os.urandom(3_000_000)
    command = "stty raw -echo; echo go; sleep 1; head -c 3000000 | sha256sum"
    with Terminal(api, box, session="in", command=command) as t:
        t.until("go")
        before = memory(server)

        def send():
            for at in range(0, len(data), 60000):
                t.type(data[at : at + 60000])

        thread = threading.Thread(target=send)
        thread.start()
        time.sleep(0.5)
        assert memory(server) - before < 8 * KIB * KIB
        t.until(hashlib.sha256(data).hexdigest())
        thread.join(PATIENCE)


# -- trouble with the daemon, the sandbox, the token


def test_goes_on_when_the_daemon_is_killed(make_server):
    server = make_server()
    api = Client(server)
    api.ok("PUT", "/sandbox/k", {})
    with Terminal(api, "k", cols=77) as t:
        t.run("kept=still-here; cd /usr/lib", "SET")
        shell, at = t.ready["process"], t.ready["offset"] + len(t.shown) - len(t.replay)
        kill_daemon(server, api)
        with pytest.raises(Closed):
            t.end()
            raise Closed(1006, "")
    with Terminal(api, "k") as t:
        assert t.ready["process"] == shell and t.ready["cols"] == 77
        assert "still-here /usr/lib" in t.run("echo $kept $PWD", "SAME")
        assert b"SET" in t.replay
    with Terminal(api, "k", resume=shell, offset=at) as t:
        assert b"still-here" in t.replay and b"SET" not in t.replay


def test_no_byte_is_lost_to_kills(make_server):
    server = make_server()
    api = Client(server)
    api.ok("PUT", "/sandbox/k", {})
    shown, at = b"", 0
    with Terminal(api, "k", session="seq", command="seq 1 2000000; exit 9") as t:
        process = t.ready["process"]
    for _ in range(8):
        with Terminal(api, "k", resume=process, offset=at) as t:
            goal = len(t.shown) + 300_000
            while len(t.shown) < goal:
                t.step()
            os.kill(daemon_pid(server), signal.SIGKILL)
            try:
                while True:
                    t.step()
            except Closed as e:
                assert e.code == 1006
            shown += t.shown
            at += len(t.shown)
        api.ok("GET", "/health")
    with Terminal(api, "k", resume=process, offset=at) as t:
        code, end = t.end()
        shown += t.shown
    assert (code, end["code"]) == (1000, 9)
    assert [m for m in t.told if m["type"] == "gap"] == []
    assert shown == b"".join(b"%d\r\n" % i for i in range(1, 2000001))


def test_sleep_and_destruction_are_told(api):
    api.ok("PUT", "/sandbox/sleepy", {})
    with Terminal(api, "sleepy") as t:
        t.run("true", "READY")
        begun = time.monotonic()
        api.ok("POST", "/sandbox/sleepy/sleep")
        code, end = t.end()
        assert (code, end["reason"]) == (1001, "sleep"), end
        assert end["signal"] == "SIGHUP"  # and not only by what ends the box
    with Terminal(api, "sleepy") as t:  # a new one, which wakes it
        assert "fresh" in t.run("echo ${x:-fresh}", "READY")
        api.ok("DELETE", "/sandbox/sleepy")
        code, end = t.end()
        assert (code, end["reason"]) == (1001, "destroyed"), end
    assert time.monotonic() - begun < PATIENCE


def test_only_bytes_keep_the_sandbox_awake(api):
    api.ok("PUT", "/sandbox/idle", {"sleepAfter": 2})
    with Terminal(api, "idle") as t:
        t.run("true", "READY")
        t.type("for i in 1 2 3 4 5 6 7 8 9 10; do echo ti''ck; sleep .5; done; echo o''ver\r")
        t.until("over")  # longer than it would sleep after
        assert api.ok("GET", "/sandbox/idle")["status"] == "running"
        assert t.end()[1]["reason"] == "sleep"
    api("DELETE", "/sandbox/idle")


def test_revoked_token_ends_its_viewers(api, tenant):
    tenant.ok("PUT", "/sandbox/mine", {})
    with Terminal(tenant, "mine") as t:
        t.run("true", "READY")
        api.ok("DELETE", f"/tokens/{tenant.id}")
        assert t.end()[0] == 1008


def test_stopping_server_says_goodbye(make_server):
    server = make_server()
    api = Client(server)
    api.ok("PUT", "/sandbox/g", {})
    with Terminal(api, "g") as t:
        t.run("true", "READY")
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert t.end()[0] == 1001
        stopping.join(PATIENCE)


def test_other_tenants_see_none(api, tenant, box):
    with Terminal(api, box):
        connect(tenant, f"/sandbox/{box}/terminal").error(404, "NOT_FOUND")
        tenant("GET", f"/sandbox/{box}/terminals").error(404, "NOT_FOUND")
        tenant("DELETE", f"/sandbox/{box}/terminals/default").error(404, "NOT_FOUND")
        assert api.ok("GET", f"/sandbox/{box}/terminals")["terminals"] != []


# -- the door


def test_handshake(api, server, shared_box):
    path = f"/sandbox/{shared_box}/terminal"

    def refused(status, code, *words, **headers):
        names = {k.replace("_", "-"): v for k, v in headers.items()}
        return connect(api, path, headers=names).error(status, code, *words)

    plain = api("GET", path)
    plain.error(426, "UPGRADE_REQUIRED")
    assert plain.headers["Sec-WebSocket-Version"] == "13" and plain.headers["Upgrade"] == "websocket"
    refused(426, "UPGRADE_REQUIRED", Sec_WebSocket_Version="8")
    refused(426, "UPGRADE_REQUIRED", Upgrade="h2c")
    refused(400, "INVALID_REQUEST", "Connection", Connection="keep-alive")
    for key in (None, "", "short", "A" * 24, "=" * 24, "AAAAAAAAAAAAAAAAAAAAAAA=" + "A", "AAAAAAAAAAAAAAAAAAAAAA==AAAA"):
        refused(400, "INVALID_REQUEST", "Key", Sec_WebSocket_Key=key)
    for origin in ("http://evil.example", "null", f"http://127.0.0.1.evil.example:{server.port}", "http://127.0.0.1"):
        refused(403, "FORBIDDEN", "cors", Origin=origin)
    with connect(api, path, headers={"Origin": f"http://127.0.0.1:{server.port}"}) as same:
        assert isinstance(same, WebSocket)
    assert api("POST", path, {}).status == 405
    assert api("HEAD", path).status == 426


def test_listed_origin_may(make_server):
    server = make_server("--cors", "https://app.example")
    api = Client(server)
    api.ok("PUT", "/sandbox/o", {})
    with connect(api, "/sandbox/o/terminal", headers={"Origin": "https://app.example"}) as ws:
        assert isinstance(ws, WebSocket)
    connect(api, "/sandbox/o/terminal", headers={"Origin": "https://app.example.evil"}).error(403, "FORBIDDEN")


def test_token_as_browsers_send_it(api, server, shared_box):
    path = f"/sandbox/{shared_box}/terminal"

    def ask(protocols, **more):
        return connect(api, path, headers={"Sec-WebSocket-Protocol": protocols, **more}, token=False)

    with ask(f"cay, cay.bearer.{ADMIN}") as ws:
        assert ws.reply.headers["Sec-WebSocket-Protocol"] == "cay"
        assert ADMIN not in str(ws.reply.headers)
    ask(f"cay.bearer.{ADMIN}").error(400, "INVALID_REQUEST", "subprotocols")
    ask("cay, cay.bearer.wrong").error(401, "UNAUTHORIZED")
    ask("cay, cay.bearer.").error(401, "UNAUTHORIZED")
    ask("cay").error(401, "UNAUTHORIZED")
    ask("cay, cay.bearer." + "x" * 2000).error(401, "UNAUTHORIZED")
    ask(f"cay, cay.bearer.{ADMIN}", Authorization=f"Bearer {ADMIN}").error(401, "UNAUTHORIZED", "one")
    connect(api, path, token=False).error(401, "UNAUTHORIZED")
    connect(api, path + f"?token={ADMIN}").error(400, "INVALID_REQUEST", "URLs")
    # only where it is a WebSocket
    headers = {"Authorization": None, "Sec-WebSocket-Protocol": f"cay, cay.bearer.{ADMIN}"}
    api("GET", f"/sandbox/{shared_box}", headers=headers).error(401, "UNAUTHORIZED")
    assert ADMIN not in server.log()


@pytest.mark.parametrize(
    "query, word",
    [
        ({"cols": 0}, "cols"),
        ({"cols": "+80"}, "cols"),
        ({"rows": 4097}, "rows"),
        ({"session": "-x"}, "session"),
        ({"session": ""}, "session"),
        ({"session": "a/b"}, "session"),
        ({"shell": ""}, "shell"),
        ({"shell": "-c"}, "shell"),
        ({"shell": "../bin/sh"}, "shell"),
        ({"shell": "sh\nx"}, "shell"),
        ({"command": ""}, "command"),
        ({"cwd": "tmp"}, "cwd"),
        ({"user": "70000"}, "user"),
        ({"replay": 1024 * 1024 + 1}, "replay"),
        ({"offset": -1}, "offset"),
        ({"readonly": "yes"}, "readonly"),
        ({"sesion": "x"}, "session"),
    ],
)
def test_bad_query(api, shared_box, query, word):
    connect(api, f"/sandbox/{shared_box}/terminal", **query).error(400, "INVALID_REQUEST", word)


def test_command_is_for_a_new_one(api, box):
    with Terminal(api, box):
        connect(api, f"/sandbox/{box}/terminal", command="true").error(409, "CONFLICT", "default")


# -- frames of those who mean no good: each ends its own connection, and nothing else


BAD_FRAMES = {
    "unmasked": (frame(BINARY, b"x", mask=False), 1002),
    "reserved bit 1, as of compression": (frame(BINARY, b"x", rsv=4), 1002),
    "reserved bit 2": (frame(TEXT, b"x", rsv=2), 1002),
    "reserved bit 3": (frame(PING, b"x", rsv=1), 1002),
    "fragmented ping": (frame(PING, b"x", fin=False), 1002),
    "fragmented close": (frame(CLOSE, b"", fin=False), 1002),
    "long ping": (frame(PING, b"x" * 126), 1002),
    "unknown opcode": (frame(3, b"x"), 1002),
    "unknown control opcode": (frame(11, b"x"), 1002),
    "continuation of nothing": (frame(CONTINUATION, b"x"), 1002),
    "a message within a message": (frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"), 1002),
    "length of 2^63": (frame(BINARY, b"x", length=1 << 63), 1002),
    "length of 2^63-1": (frame(BINARY, b"x", length=(1 << 63) - 1), 1009),
    "length too large": (frame(BINARY, b"x", length=256 * 1024 + 1), 1009),
    "too large in pieces": (frame(BINARY, b"x" * 200000, fin=False) + frame(CONTINUATION, b"x" * 200000), 1009),
    "length written too long": (b"\x82\xfe\x00\x01\0\0\0\0x", 1002),
    "not UTF-8": (frame(TEXT, b"\xff\xfe"), 1007),
    "overlong UTF-8": (frame(TEXT, b"\xc0\xaf"), 1007),
    "a surrogate": (frame(TEXT, b"\xed\xa0\x80"), 1007),
    "half a character at the end": (frame(TEXT, b"\xe2\x82"), 1007),
    "close with half a code": (frame(CLOSE, b"\x03"), 1002),
    "close with a code that is none": (frame(CLOSE, b"\x00\x01"), 1002),
    "close that is not UTF-8": (frame(CLOSE, b"\x03\xe8\xff"), 1007),
    "ping flood": (frame(PING, b"x" * 100) * 5000, 1008),
    "a message in a million pieces": (frame(BINARY, b"", fin=False) + frame(CONTINUATION, b"", fin=False) * 5000, 1008),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frames(api, server, shared_box, name):
    data, code = BAD_FRAMES[name]
    with Terminal(api, shared_box, session="witness") as witness, Terminal(api, shared_box, session="bad") as t:
        try:
            t.ws.raw(data)
        except ConnectionError:
            pass  # it was cut off before it had sent all
        assert t.ws.closed() == code
        assert witness.run("echo a-l''ive", "YES").count("a-live") == 1
    assert server.faults() == []


def test_flood_that_is_not_read_is_cut(api, server, box):
    """Pings whose answers are not read: neither memory nor another viewer pays for it."""
    before = memory(server)
    with Terminal(api, box) as t:
        t.ws.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        t.ws.sock.settimeout(5)
        try:
            for _ in range(200):
                t.ws.raw(frame(PING, b"x" * 120) * 1000)
        except OSError:
            pass
        assert memory(server) - before < 8 * KIB * KIB


def test_fragments_and_pings_between_them_are_fine(api, box):
    with Terminal(api, box) as t:
        t.ws.send(BINARY, b"echo spl", fin=False)
        t.ws.send(PING, b"between")
        t.ws.send(CONTINUATION, b"it-o", fin=False)
        t.ws.send(CONTINUATION, b"''k\r")
        t.until("split-ok")
        assert t.ws.pongs == [b"between"]
        for byte in frame(BINARY, b"echo by''tes\r"):
            t.ws.raw(bytes([byte]))
        t.until("bytes")
        t.ws.close(1000)
        assert t.ws.closed() == 1000


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "{}", '{"type":"resize"}', '{"type":"resize","cols":0,"rows":1}', '{"type":"resize","cols":"80","rows":24}',
     '{"type":"resize","cols":5000,"rows":24}', '{"type":"quit"}', '{"type":1}', "[" * 10000, '{"type":"resize","type":"resize","cols":9,"rows":9}'],
)
def test_bad_messages_are_explained(api, shared_box, text):
    with Terminal(api, shared_box, session="explain") as t:
        t.ws.send(TEXT, text.encode())
        assert t.wait_told("error")["message"]
        assert "24 80" in t.run("stty size", "SAME")


def test_openapi_lists_them(api):
    paths = api.ok("GET", "/openapi.json")["paths"]
    asked = paths["/sandbox/{id}/terminal"]["get"]
    assert {p["name"] for p in asked["parameters"]} >= {"session", "cols", "rows", "readonly", "offset", "resume"}
    assert "426" in asked["responses"] and "101" in asked["responses"]
    assert json.dumps(paths["/sandbox/{id}/terminals"])
