# SPDX-License-Identifier: Apache-2.0
"""Background processes of the container protocol, and waiting for a port."""

import base64
import re

import pytest
from container_helpers import eventually

NONE = "__DISABLE_SESSION__"


def start(box, command, **more):
    answer = box.ok("/api/process/start", {"command": command, **more})
    assert answer["command"] == command and answer["pid"] > 0
    return answer["processId"]


def get(box, process):
    return box.ok(f"/api/process/{process}", method="GET")["process"]


def ended(box, process):
    return eventually(lambda: (p := get(box, process))["status"] not in ("starting", "running") and p)


def follow(box, process):
    stream = box.api.stream("GET", f"{box.base}/api/process/{process}/stream")
    assert stream.status == 200
    return [e.data for e in stream]


@pytest.fixture(scope="module", autouse=True)
def early(shared):
    """Processes that the last test looks for: nobody waits for what takes its time."""
    return start(shared, "echo x", autoCleanup=True), start(shared, "echo x", autoCleanup=False)


def test_life(shared):
    process = start(shared, "echo out; echo err >&2; exec sleep 1000", processId="life")
    assert process == "life"
    there = get(shared, "life")
    assert there["status"] == "running" and there["startTime"] and there["command"].startswith("echo out")
    assert "endTime" not in there and "exitCode" not in there
    logs = eventually(lambda: (a := shared.ok("/api/process/life/logs", method="GET"))["stderr"] and a["stdout"] and a)
    assert (logs["processId"], logs["stdout"], logs["stderr"]) == ("life", "out\n", "err\n")
    listed = shared.ok("/api/process/list", method="GET")["processes"]
    assert [p for p in listed if p["id"] == "life"] == [there]
    assert "life" not in [p["id"] for p in shared.ok("/api/process/list?status=completed", method="GET")["processes"]]
    assert shared.ok("/api/process/life", method="DELETE")["processId"] == "life"
    there = get(shared, "life")
    assert there["status"] == "killed" and there["exitCode"] == 143 and there["endTime"]
    shared.fail("/api/process/life", None, 404, "COMMAND_NOT_FOUND", method="DELETE")


def test_unknown(shared):
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/logs"), ("GET", "/stream")):
        shared.fail(f"/api/process/nope{path}", None, 404, "PROCESS_NOT_FOUND", method=method, processId="nope")


@pytest.mark.parametrize("command,status,code", [("true", "completed", 0), ("exit 3", "failed", 3), ("kill -9 $$", "killed", 137),
                                                 ("kill -SEGV $$", "failed", 139), ("exit 143", "killed", 143)])
def test_ends(shared, command, status, code):
    there = ended(shared, start(shared, command))
    assert (there["status"], there["exitCode"]) == (status, code)


def test_in_background(shared):
    answer = shared.ok("/api/execute", {"command": "echo x; exit 2", "background": True, "processId": "bg"})
    assert answer["processId"] == "bg" and ended(shared, "bg")["exitCode"] == 2


def test_the_sessions_place(shared):
    shared.ok("/api/execute", {"command": "mkdir -p /workspace/d; cd /workspace/d; export A='x y' B=2; C=3", "sessionId": "p"})
    command = "pwd; echo \"$A,$B,$C\""
    read = lambda p: (ended(shared, p), shared.ok(f"/api/process/{p}/logs", method="GET")["stdout"])[1]
    assert read(start(shared, command, sessionId="p")) == "/workspace/d\nx y,2,\n"
    assert read(start(shared, command, sessionId="p", env={"B": "4"}, cwd="..")) == "/workspace\nx y,4,\n"
    shared.ok("/api/execute", {"command": "unset A; export B=5; cd /tmp", "sessionId": "p"})
    assert read(start(shared, command, sessionId="p")) == "/tmp\n,5,\n"
    assert read(start(shared, command, sessionId=NONE)) == "/workspace\n,,\n"
    assert read(start(shared, command, sessionId="p-new")) == "/workspace\n,,\n"
    assert "p-new" in shared.ok("/api/session/list", method="GET")["data"]


def test_while_its_session_works(box):
    """It does not wait for the command, and gets what was known before."""
    box.ok("/api/execute", {"command": "cd /tmp", "sessionId": "s"})
    with box.stream("/api/execute/stream", {"command": "echo x; sleep 1000", "sessionId": "s"}) as stream:
        stream.until(type="stdout")
        process = start(box, "pwd", sessionId="s")
        ended(box, process)
        assert box.ok(f"/api/process/{process}/logs", method="GET")["stdout"] == "/tmp\n"


def test_names(shared):
    start(shared, "sleep 1000", processId="name")
    shared.fail("/api/process/start", {"command": "true", "processId": "name"}, 409, "RESOURCE_BUSY")
    shared.ok("/api/process/name", method="DELETE")
    start(shared, "echo again", processId="name")  # one that has ended gives up its name
    ended(shared, "name")
    assert shared.ok("/api/process/name/logs", method="GET")["stdout"] == "again\n"


def test_timeout(shared):
    there = ended(shared, start(shared, "sleep 1000", timeoutMs=100))
    assert there["status"] == "killed" and there["exitCode"] == 124


def test_signals(shared):
    start(shared, "trap 'echo usr1' USR1; trap 'echo term' TERM; echo ready; while :; do sleep 0.02; done", processId="sig")
    stdout = lambda: shared.ok("/api/process/sig/logs", method="GET")["stdout"]
    eventually(lambda: "ready" in stdout())
    shared.ok("/api/process/sig?signal=SIGUSR1", method="DELETE")
    eventually(lambda: "usr1" in stdout())
    shared.ok("/api/process/sig", {"signal": "SIGTERM"}, method="DELETE")
    eventually(lambda: "term" in stdout())
    assert get(shared, "sig")["status"] == "running"
    shared.invalid("/api/process/sig?signal=SIGNOPE", None, "signal", method="DELETE")
    shared.invalid("/api/process/sig", {"signal": "SIGNOPE"}, "signal", method="DELETE")
    shared.ok("/api/process/sig?signal=9", method="DELETE")
    assert (get(shared, "sig")["status"], get(shared, "sig")["exitCode"]) == ("killed", 137)


def test_kill_all(box):
    names = [start(box, "sleep 1000") for _ in range(5)]
    done = start(box, "true")
    ended(box, done)
    assert box.ok("/api/process/kill-all", method="DELETE")["cleanedCount"] == 5
    assert {get(box, n)["status"] for n in names} == {"killed"} and get(box, done)["status"] == "completed"
    assert box.ok("/api/process/kill-all", method="DELETE")["cleanedCount"] == 0


def test_one_that_does_not_heed(shared):
    """TERM, and KILL when it does not end."""
    start(shared, "trap '' TERM; echo ready; while :; do sleep 0.02; done", processId="deaf")
    eventually(lambda: shared.ok("/api/process/deaf/logs", method="GET")["stdout"])
    shared.ok("/api/process/deaf", method="DELETE")
    assert (get(shared, "deaf")["status"], get(shared, "deaf")["exitCode"]) == ("killed", 137)


def test_stream(shared):
    process = start(shared, "echo one; echo two >&2; sleep 0.05; printf '\\377\\303'; sleep 0.05; printf '\\244'; exit 6")
    for _ in range(2):  # while it runs, and when it has ended
        events = follow(shared, process)
        assert events[0]["type"] == "process_info" and events[0]["command"].startswith("echo one") and events[0]["status"]
        assert "".join(e["data"] for e in events if e["type"] == "stdout") == "one\n\ufffd\u00e4"
        assert "".join(e["data"] for e in events if e["type"] == "stderr") == "two\n"
        assert events[-1]["type"] == "exit" and events[-1]["exitCode"] == 6 and events[-1]["data"]
        assert {e["processId"] for e in events} == {process}


LOST = re.compile(r"(\d+) bytes of stdout were lost")


def test_stream_with_a_hole(shared):
    """More than a log keeps: what is missing is said where it is missing, and the end says it again."""
    size = 12_000_000
    process = start(shared, f"head -c {size} /dev/zero | tr '\\0' x; echo err >&2; echo end; exit 3")
    ended(shared, process)
    assert shared.ok(f"/api/process/{process}/logs", method="GET")["truncated"] is True
    events = follow(shared, process)
    out = "".join(e["data"] for e in events if e["type"] == "stdout")
    (hole,) = [e for e in events if e["type"] == "error"]
    assert hole["processId"] == process and hole["data"] == hole["error"]
    assert len(out) + int(LOST.match(hole["data"])[1]) == size + 4 and out.endswith("xend\n")
    kinds = [e["type"] for e in events if e["type"] != "stderr"]
    assert "stdout" in kinds[: kinds.index("error")] and "stdout" in kinds[kinds.index("error") :]
    assert (events[-1]["type"], events[-1]["exitCode"], events[-1]["truncated"]) == ("exit", 3, True)


def test_stream_with_a_hole_that_begins_in_a_character(shared):
    process = start(shared, "yes 漢漢漢 | tr -d '\\n' | head -c 12000000")
    ended(shared, process)
    events = follow(shared, process)
    (hole,) = [e for e in events if e["type"] == "error"]
    out = "".join(e["data"] for e in events if e["type"] == "stdout").replace("\ufffd", "")
    whole = 12000000 - int(LOST.match(hole["data"])[1])
    assert whole - 6 < len(out.encode()) <= whole and out.endswith("漢")
    assert (events[-1]["type"], events[-1]["truncated"]) == ("exit", True)


def test_stream_of_one_that_is_deleted(shared):
    start(shared, "sleep 1000", processId="gone")
    stream = shared.api.stream("GET", f"{shared.base}/api/process/gone/stream")
    events = iter(stream)
    assert next(events).data["type"] == "process_info"
    shared.ok("/api/process/gone?signal=KILL", method="DELETE")
    assert next(events).data["type"] == "exit"
    stream.close()


def test_encoding(shared):
    process = start(shared, "printf '\\377\\0x'", encoding="base64")
    ended(shared, process)
    logs = shared.ok(f"/api/process/{process}/logs", method="GET")
    assert base64.b64decode(logs["stdout"]) == b"\xff\0x" and logs["encoding"] == "base64"
    assert base64.b64decode(follow(shared, process)[1]["data"]) == b"\xff\0x"


def test_native_ones_are_seen(box):
    box.api.start(box.box, {"argv": ["sleep", "1000"], "id": "native"})
    there = get(box, "native")
    assert there["command"] == "sleep 1000" and there["status"] == "running"
    start(box, "echo x", processId="theirs")
    assert box.api.ended(box.box, "theirs")["exitCode"] == 0


# --- ports


@pytest.mark.parametrize(
    "body,field",
    [
        ({}, "port"),
        ({"port": "80"}, "port"),
        ({"port": 0}, "port"),
        ({"port": 65536}, "port"),
        ({"port": 80, "mode": "udp"}, "mode"),
        ({"port": 80, "mode": 1}, "mode"),
        ({"port": 80, "path": "x"}, "path"),
        ({"port": 80, "path": "/a b"}, "path"),
        ({"port": 80, "path": "/\r\nX: y"}, "path"),
        ({"port": 80, "path": "/" + "x" * 3000}, "path"),
        ({"port": 80, "statusMin": 99}, "statusMin"),
        ({"port": 80, "statusMin": 300, "statusMax": 200}, "statusMin"),
        ({"port": 80, "interval": "x"}, "interval"),
    ],
)
def test_bad_port_watches(shared, body, field):
    shared.invalid("/api/port-watch", body, field)


SERVER = """
import http.server, sys, time
class H(http.server.BaseHTTPRequestHandler):
    n = 0
    def do_GET(self):
        H.n += 1
        self.send_response(200 if self.path == "/ok" and H.n > 2 else 404)
        self.end_headers()
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), H).serve_forever()
"""


def watch_port(box, **body):
    with box.stream("/api/port-watch", {"interval": 100, **body}) as stream:
        return [{k: v for k, v in e.items() if k != "timestamp"} for e in stream]


def test_port(shared):
    shared.write("/workspace/server.py", SERVER)
    start(shared, "python3 server.py 8101", processId="web", sessionId=NONE)
    watching = {"type": "watching", "port": 8101}
    assert watch_port(shared, port=8101, mode="tcp", processId="web") == [watching, {"type": "ready", "port": 8101}]
    assert watch_port(shared, port=8101, path="/ok", processId="web") == [watching, {"type": "ready", "port": 8101, "statusCode": 200}]
    assert watch_port(shared, port=8101, path="/no", statusMin=404, statusMax=404)[-1]["statusCode"] == 404
    with shared.stream("/api/port-watch", {"port": 8101, "path": "/never", "processId": "web"}) as stream:
        events = iter(stream)
        assert next(events)["type"] == "watching"
        shared.ok("/api/process/web", method="DELETE")
        assert next(events) | {"timestamp": 0} == {"type": "process_exited", "port": 8101, "exitCode": 143, "timestamp": 0}
    shared.fail("/api/port-watch", {"port": 8101, "processId": "nope"}, 404, "PROCESS_NOT_FOUND")


def test_port_that_does_not_speak_http(shared):
    start(shared, "exec python3 -c \"import socket,time; s=socket.create_server(('127.0.0.1',8102))\nwhile 1:\n c,_=s.accept(); c.sendall(b'SSH-2.0-x\\r\\n'); c.close()\"", processId="ssh", sessionId=NONE)
    assert watch_port(shared, port=8102, mode="tcp")[-1]["type"] == "ready"
    with shared.stream("/api/port-watch", {"port": 8102, "processId": "ssh", "interval": 100}) as stream:
        events = iter(stream)
        assert next(events)["type"] == "watching"
        shared.run("sleep 0.5")
        shared.ok("/api/process/ssh", method="DELETE")
        assert next(events)["type"] == "process_exited"


def test_cleaned_up_when_asked(shared, early):
    """After a while in which it can be looked at."""
    process, kept = early
    eventually(lambda: shared("GET", f"/api/process/{process}").status == 404)
    assert process not in [p["id"] for p in shared.ok("/api/process/list", method="GET")["processes"]]
    assert get(shared, kept)["status"] == "completed"
    fresh = start(shared, "echo x", autoCleanup=True)
    assert ended(shared, fresh)["status"] == "completed"
