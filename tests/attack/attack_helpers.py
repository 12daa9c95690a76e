# SPDX-License-Identifier: Apache-2.0
"""What the attacks share: the routes as the server lists them, a good request for each, raw bytes, and a look at
everything that an attack must not change."""

import copy
import glob
import json
import os
import pathlib
import re
import socket
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "api"))
# pylint: disable=wrong-import-position,unused-import
from api_helpers import ADMIN, CAY, PATIENCE, TOP, Client, Reply, Server, at_once, eventually  # noqa: E402,F401

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

# A good body for every route, by its name in /openapi.json. A route that is not here fails test_matrix.py.
BODIES = {
    "index": None,
    "health": None,
    "openapi": None,
    "metrics": None,
    "getServerStats": None,
    "execute": {"question": "harm"},
    "executeSdk": {"prompt": "harm"},
    "listResults": None,
    "getResult": None,
    "deleteResult": None,
    "getUsage": None,
    "getDiskUsage": None,
    "createSandbox": {"id": "made"},
    "listSandboxes": None,
    "putSandbox": {"memory": "64m"},
    "getSandbox": None,
    "patchSandbox": {"pids": 99},
    "deleteSandbox": None,
    "wakeSandbox": None,
    "sleepSandbox": None,
    "getStats": None,
    "getEvents": None,
    "exec": {"argv": ["touch", "/workspace/harm"]},
    "runCode": {"code": "open('/workspace/harm', 'w')"},
    "getCode": None,
    "cancelCode": None,
    "createContext": {"id": "made"},
    "listContexts": None,
    "getContext": None,
    "deleteContext": None,
    "interruptContext": None,
    "restartContext": None,
    "createSession": {"id": "made"},
    "listSessions": None,
    "getSession": None,
    "deleteSession": None,
    "startProcess": {"argv": ["sleep", "300"]},
    "listProcesses": None,
    "getProcess": None,
    "deleteProcess": None,
    "signalProcess": {"signal": "SIGKILL"},
    "writeStdin": {"data": "harm\n"},
    "waitProcess": {"port": 1, "timeout": 0},
    "getLogs": None,
    "openTerminal": None,
    "listTerminals": None,
    "sync": {"exclude": ["*"]},
    "getSync": None,
    "listStored": None,
    "getStored": None,
    "putStored": None,
    "deleteStored": None,
    "deleteTerminal": None,
    "listRoot": None,
    "readFile": None,
    "writeFile": None,
    "removeFile": None,
    "makeDirectory": {"path": "/workspace/harm"},
    "moveFile": {"from": "/etc/hostname", "to": "/workspace/harm"},
    "copyFile": {"from": "/etc/hostname", "to": "/workspace/harm"},
    "changeMode": {"path": "/etc/hostname", "mode": "0600"},
    "changeOwner": {"path": "/etc/hostname", "user": "1000"},
    "deleteFile": {"path": "/etc/hostname"},
    "batchFiles": {"operations": [{"op": "write", "path": "/workspace/harm", "content": "x"}]},
    "searchFiles": {"path": "/workspace", "text": "x"},
    "replaceInFiles": {"path": "/workspace", "text": "x", "with": "y"},
    "getArchive": None,
    "putArchive": None,
    "watchFiles": None,
    "gitCheckout": {"repoUrl": "https://git.example.com/a/b.git", "branch": "main"},
    "gitStatus": None,
    "gitDiff": None,
    "gitCommit": {"message": "harm"},
    "listAgents": None,
    "sendMessage": {"message": "harm"},
    "makeSnapshot": {"name": "x"},
    "listSnapshots": None,
    "deleteSnapshot": None,
    "rollback": {"snapshot": "snap-x"},
    "fork": {"count": 2},
    "makeBackup": {"dir": "/workspace"},
    "listBackups": None,
    "getBackup": None,
    "deleteBackup": None,
    "listAllBackups": None,
    "getAnyBackup": None,
    "deleteAnyBackup": None,
    "restore": {"backup": "bak-x"},
    "archive": None,
    "export": None,
    "import": None,
    "makeContainerUrl": {"ttl": 60},
    "listContainerUrls": None,
    "revokeContainerUrl": None,
    "openPort": {"port": 3000},
    "listPorts": None,
    "listLanguages": None,
    "closePort": None,
    "putSecret": {"value": "harm", "upstream": "https://api.example.com"},
    "listSecrets": None,
    "getSecret": None,
    "deleteSecret": None,
    "createToken": {"name": "made"},
    "listTokens": None,
    "revokeToken": None,
    "putTenant": {"sandboxes": 1},
    "getTenant": None,
}

# Fields that are not of that body: by the route's name and theirs, one that has a use for them.
OTHER_BODIES = {("execute", field): {"task": "harm"} for field in ("task", "repo", "branch", "options")}


class Route:
    def __init__(self, method, path, spec, schemas):
        self.method, self.path, self.name = method.upper(), path, spec["operationId"]
        self.is_public = spec.get("security") == []
        self.params = re.findall(r"{(\w+)}", path)
        content = spec.get("requestBody", {}).get("content", {})
        ref = content.get("application/json", {}).get("schema", {}).get("$ref")
        self.schema = schemas[ref.rsplit("/", 1)[1]] if ref else None
        self.takes_bytes = ref is None and "application/octet-stream" in content
        self.is_admin = path.startswith(("/tokens", "/tenants", "/metrics"))

    def __repr__(self):
        return f"{self.method} {self.path}"

    @property
    def body(self):
        return copy.deepcopy(BODIES[self.name])

    def body_for(self, field):
        """A good one that may have this field beside the others."""
        return copy.deepcopy(OTHER_BODIES.get((self.name, field), BODIES[self.name]))

    def at(self, **ids):
        return re.sub(r"{(\w+)}", lambda m: ids[m[1]], self.path)


def routes_of(api):
    """All but previews and OpenCode's own API, whose paths, methods and bodies are a program's in the box: tests/api/test_previews.py."""
    spec = api.ok("GET", "/openapi.json")
    schemas = spec["components"]["schemas"]
    paths = {path: all_ for path, all_ in spec["paths"].items() if "/proxy/" not in path and "/opencode/" not in path}
    return [Route(m, path, what, schemas) for path, all_ in paths.items() for m, what in all_.items()]


# -- what an attack must not change


def without(value, *names):
    """The value without these names at any depth: what changes by itself, or by being looked at."""
    if isinstance(value, dict):
        return {k: without(v, *names) for k, v in value.items() if k not in names}
    if isinstance(value, list):
        return [without(v, *names) for v in value]
    return value


def state_of(client):
    """All that a tenant has, as far as it can be asked for."""
    boxes = client.ok("GET", "/sandbox?limit=1000")["sandboxes"]
    state = {"sandboxes": boxes}
    for box in boxes:
        for part in ("sessions", "contexts", "processes", "events?limit=1000", "snapshots", "backups", "stored", "sync", "container-urls"):
            state[box["id"], part] = client.ok("GET", f"/sandbox/{box['id']}/{part}")
    return without(state, "stats", "lastActiveAt", "lastUsed", "duration", "cpu", "peakMemory")


# -- raw bytes


def raw_connect(server):
    s = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def read_reply(s, method="GET"):
    """One answer with a length from a socket; b"" as status when there came none."""
    data = b""
    while b"\r\n\r\n" not in data:
        got = s.recv(65536)
        if not got:
            assert data == b"", data
            return Reply(None, {}, b"")
        data += got
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        headers[name] = value
    length = 0 if method == "HEAD" else int(headers.get("Content-Length", "0"))
    while len(body) < length:
        got = s.recv(65536)
        assert got, "the answer was cut"
        body += got
    return Reply(int(lines[0].split()[1]), headers, body)


def raw(server, data, method="GET"):
    """Sends bytes as they are on a connection of their own."""
    with raw_connect(server) as s:
        try:
            s.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent: the answer is there
        return read_reply(s, method)


def ask(server, line, token=None, *lines, body=b""):
    """One raw request: the request line's middle, and header lines."""
    head = [f"{line} HTTP/1.1", "Host: x", *lines]
    if token is not None:
        head.append(f"Authorization: Bearer {token}")
    if body:
        head.append(f"Content-Length: {len(body)}")
    text = "\r\n".join(head).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body
    return raw(server, text, line.split()[0])


def is_error(reply, *statuses):
    """Checks that it is a whole error of ours with one of these statuses, and returns its text."""
    assert reply.status in statuses, reply
    assert reply.headers["Content-Type"] == "application/json", reply
    body = json.loads(reply.body)
    assert {"error", "error_code", "request_id"} <= set(body) <= {"error", "error_code", "request_id", "details"}
    assert body["request_id"] == reply.headers["X-Request-Id"]
    assert body["error"] and "/tmp/" not in body["error"], body
    return body["error"]


# -- the daemon from outside


def children(pid):
    try:
        return [int(n) for n in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def comm(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def daemon_pid(server):
    return eventually(lambda: next((p for p in children(server.process.pid) if comm(p) == "cayd"), None))


def descriptors(pid):
    """What its descriptors are, without the numbers of sockets and pipes, in order."""
    found = []
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            found.append(re.sub(r"\d+", "N", os.readlink(path)))
        except OSError:
            pass
    # The database's own come and go, with the thread that tidies it.
    return sorted(name for name in found if "/cay.db" not in name)


def at_rest(server, wanted=None):
    """The daemon's descriptors when no box is being made; it has some for each that is ready."""
    daemon = daemon_pid(server)
    admin = Client(server)
    last, end = None, time.monotonic() + 10
    while time.monotonic() < end:
        now = (admin.ok("GET", "/health")["pool"]["ready"], descriptors(daemon))
        if now == last and wanted in (None, now):
            break
        last = now
        time.sleep(0.1)
    return now


def memory(pid):
    """Bytes of its memory that are its own."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * int(re.search(r"Private_Dirty: +(\d+)", text)[1])


def restarts(client):
    return client.ok("GET", "/health")["restarts"]
