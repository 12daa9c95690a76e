# SPDX-License-Identifier: Apache-2.0
"""A secret is planted, used and rotated, and then everything that a box, a log, a file, a snapshot, a core or an error
could hold of it is searched. Each search finds a mark that was put there on purpose, so that it is known to look."""

import base64
import glob
import http.server
import os
import pathlib
import re
import threading

import pytest
from attack_helpers import Client, Server, children, comm, daemon_pid, eventually

OLD, NEW = "planted-old-51ab0c77", "planted-new-c20e94d1"
USER = "robot:planted-basic-7d3f"
BASIC = base64.b64encode(USER.encode()).decode()
PLANTED = [text.encode() for text in (OLD, NEW, USER, USER.split(":")[1], BASIC)]
MARK = b"mark-on-purpose-3391"
HOST, ELSEWHERE = "127.0.0.2", "127.0.0.3"


class Upstream:
    """Remembers what it is shown; /moved goes elsewhere."""

    def __init__(self, host, moved=""):
        upstream = self
        self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                upstream.seen.append((self.path, self.headers))
                status = {"/moved": 302, "/wrong": 500, "/closed": 401}.get(self.path, 200)
                body = b"answer\n"
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", moved)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.url = f"http://{host}:{self.port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def shown(self):
        return [headers.get_all("Authorization") for _, headers in self.seen]


class Planted:
    box = "leaky"

    def __init__(self, server):
        self.server, self.api, self.answers = server, Client(server), []
        self.other = Upstream(ELSEWHERE)
        self.upstream = Upstream(HOST, self.other.url + "/end")
        self.put("token", OLD)
        self.put("basic", USER, format="Basic {basic}")
        allow = [f"{ELSEWHERE}:{self.other.port}"]
        body = {"network": {"allow": allow}, "secrets": ["token", "basic"], "env": {"MARK": MARK.decode()}, "keepAlive": True}
        self.ask("PUT", f"/sandbox/{self.box}", body)
        self.use()

    def put(self, name, value, **more):
        self.ask("PUT", f"/secrets/{name}", {"value": value, "upstream": self.upstream.url, **more})

    def ask(self, *request):
        reply = self.api(*request)
        self.answers.append(reply.body + str(reply.headers).encode())
        return reply

    def sh(self, command):
        done = self.ask("POST", f"/sandbox/{self.box}/exec", {"command": command}).json
        return done["stdout"]

    def use(self):
        """In every way that a box can, and in ways that it must not."""
        assert self.sh("curl -sv http://token.cay/ 2>&1 | tee /tmp/out | tail -1") == "answer\n"
        assert self.sh("curl -s http://basic.cay/x") == "answer\n"
        assert self.upstream.shown() == [[f"Bearer {OLD}"], [f"Basic {BASIC}"]]
        self.put("token", NEW)
        assert self.sh("curl -s -H 'Authorization: Bearer mine' http://token.cay/") == "answer\n"
        assert self.upstream.shown()[2:] == [[f"Bearer {NEW}"]]
        self.sh("curl -sLv http://token.cay/moved > /tmp/moved 2>&1")
        assert [path for path, _ in self.other.seen] == ["/end"], self.sh("cat /tmp/moved")
        assert self.other.shown() == [None]
        for path in ("wrong", "closed", "../x", "%2e%2e/x"):
            self.sh(f"curl -sv --path-as-is http://token.cay/{path} > /tmp/{path[:2]} 2>&1")
        self.sh("curl -sv -X TRACE http://token.cay/ > /tmp/trace 2>&1; curl -svk https://token.cay/ > /tmp/tls 2>&1")
        self.sh("curl -sv http://nobody.cay/ > /tmp/nobody 2>&1")
        self.ask("PUT", "/secrets/token", {"value": NEW + "\n", "upstream": "https://x"})
        self.ask("PUT", "/secrets/token", f'{{"value": "{NEW}" "')
        self.ask("PUT", "/secrets/Token", {"value": NEW, "upstream": "https://x"})
        self.ask("PUT", "/secrets/token", {"value": NEW, "upstream": "https://x", "x": NEW[:0]})
        self.ask("POST", f"/sandbox/{self.box}/processes", {"argv": ["sleep", "1000"], "id": "sleeper"})
        self.ask("POST", f"/sandbox/{self.box}/sessions", {"id": "shell"})
        for path in ("", "/stats", "/events?limit=1000", "/processes", "/sessions"):
            self.ask("GET", f"/sandbox/{self.box}{path}")
        for path in ("/secrets", "/secrets/token", "/openapi.json", "/metrics", "/health", "/sandbox"):
            self.ask("GET", path)


@pytest.fixture(scope="module")
def planted(top):
    os.mkdir(f"{top}/leaks")
    server = Server(f"{top}/leaks", "--egress-private", "127.0.0.0/8")
    yield Planted(server)
    assert server.stop() == 0
    assert server.faults() == []


def has(data):
    return [text for text in PLANTED if text in data]


def test_not_in_any_answer(planted):
    assert any(b"token" in answer for answer in planted.answers)
    assert [answer for answer in planted.answers if has(answer)] == []


def test_not_in_the_log(planted):
    log = planted.server.log_path.read_bytes()
    assert b"secret replaced" in log
    assert has(log) == []


def test_not_in_the_box(planted):
    """Looked for by a program in the box itself, that does not know what it looks for until it reads it."""
    words = "\\n".join(text.decode() for text in (*PLANTED, MARK))
    script = (
        "import os,sys\n"
        "words=[w.encode() for w in sys.stdin.read().split('\\n')]\n"
        "def look(path):\n"
        "    try: data=open(path,'rb').read(1<<26)\n"
        "    except OSError: return\n"
        "    for w in words:\n"
        "        if w in data: print(w.decode(), path)\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    if int(pid) != os.getpid():\n"
        "        for name in ('environ','cmdline','maps','status'): look(f'/proc/{pid}/{name}')\n"
        "for top in ('/workspace','/root','/home','/tmp','/etc','/var','/run','/srv','/opt','/dev/shm'):\n"
        "    for at,_,names in os.walk(top):\n"
        "        for name in names:\n"
        "            p=os.path.join(at,name)\n"
        "            if os.path.isfile(p) and not os.path.islink(p): look(p)\n"
    )
    body = {"argv": ["python3", "-c", script], "stdin": words.replace("\\n", "\n")}
    found = planted.api.ok("POST", f"/sandbox/{planted.box}/exec", body)
    lines = found["stdout"].splitlines()
    assert any(line.startswith(MARK.decode()) and line.endswith("/environ") for line in lines), found
    assert [line for line in lines if not line.startswith(MARK.decode())] == []


def descendants(pid):
    return [p for child in children(pid) for p in (child, *descendants(child))]


def memory_of(pid):
    """What can be read of a process's own memory, in pieces. A sanitizer's shadow is all zeros and far too large."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
            maps = f.readlines()
        mem = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except OSError:
        return  # it has ended
    for line in maps:
        start, end, mode = re.match(r"(\w+)-(\w+) (\S+)", line).groups()
        size = int(end, 16) - int(start, 16)
        if mode.startswith("rw") and size <= 64 << 20:
            try:
                yield os.pread(mem, size, int(start, 16))
            except OSError:
                pass  # the kernel's own part of it
    os.close(mem)


def test_not_in_the_memory_of_what_runs_in_boxes(planted):
    """Guests, programs, the spawner and the keeper: all but the daemon."""
    daemon = daemon_pid(planted.server)
    marked = 0
    for pid in (planted.server.process.pid, *descendants(planted.server.process.pid)):
        if pid == daemon:
            continue
        for memory in memory_of(pid):
            marked += MARK in memory
            assert has(memory) == [], (pid, comm(pid))
        for name in ("environ", "cmdline"):
            assert has(pathlib.Path(f"/proc/{pid}/{name}").read_bytes()) == [], (pid, comm(pid), name)
    assert marked > 0


def test_the_daemon_leaves_no_core(planted):
    daemon = daemon_pid(planted.server)
    limits = pathlib.Path(f"/proc/{daemon}/limits").read_text(encoding="utf-8")
    assert re.search(r"Max core file size +0 +0 ", limits), limits
    for name in ("environ", "cmdline"):
        assert has(pathlib.Path(f"/proc/{daemon}/{name}").read_bytes()) == []


def data_of(path):
    """The parts of a sparse file that are there."""
    with open(path, "rb") as f:
        at, end = 0, os.fstat(f.fileno()).st_size
        while at < end:
            try:
                start = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError:
                return
            at = os.lseek(f.fileno(), start, os.SEEK_HOLE)
            while start < at:
                f.seek(start)
                piece = f.read(min(at - start, 8 << 20))
                yield piece
                if len(piece) < 8 << 20:
                    break
                start += len(piece) - 4096  # what would lie on the border


def test_not_in_any_file(planted):
    """The database, its log, the logs of processes, the disks: asleep, which is when a disk is written whole."""
    mark = MARK.decode()
    planted.api.exec(planted.box, f"echo {mark} > /workspace/mark; sync /workspace/mark")
    planted.api.ok("POST", f"/sandbox/{planted.box}/sleep")
    eventually(lambda: planted.api.ok("GET", f"/sandbox/{planted.box}")["status"] == "sleeping")
    os.sync()
    marked = set()
    for path in glob.glob(f"{planted.server.data}/**", recursive=True):
        if not os.path.isfile(path) or os.path.islink(path) or "/images/" in path:
            continue
        for piece in data_of(path):
            assert has(piece) == [], path
            if MARK in piece:
                marked.add(os.path.basename(path))
    assert any(name.startswith("cay.db") for name in marked), marked  # the sandbox's env
    assert len(marked) >= 2, marked  # and its disk
