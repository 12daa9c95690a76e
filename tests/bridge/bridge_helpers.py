# SPDX-License-Identifier: Apache-2.0
"""A plain client of the bridge, which believes nothing: what it says is what came over the wire."""

import base64
import itertools
import json
import os
import pathlib
import signal

from api_helpers import Client

CODES = {
    "unauthorized",
    "invalid_request",
    "payload_too_large",
    "exec_error",
    "exec_transport_error",
    "workspace_read_not_found",
    "workspace_archive_read_error",
    "workspace_archive_write_error",
    "capacity_exceeded",
    "pool_error",
    "mount_error",
    "unmount_error",
    "session_error",
    "tunnel_error",
}
numbers = itertools.count(1)


def refused(reply, status, code, *words):
    """It is an error in their words, and nothing else."""
    assert reply.status == status, reply
    assert reply.headers["Content-Type"] == "application/json", reply
    body = reply.json
    assert set(body) == {"error", "code"} and body["code"] in CODES, body
    assert body["code"] == code, body
    for word in words:
        assert word in body["error"], body


def events(lines):
    """(event, data) of each that is whole, as its lines come."""
    name, data = None, []
    for raw in lines:
        line = raw.decode().rstrip("\n")
        if line == "":
            if data:
                yield name, "\n".join(data)
            name, data = None, []
        elif line.startswith("event: "):
            name = line[len("event: ") :]
        elif line.startswith("data: "):
            data.append(line[len("data: ") :])
        else:
            assert line.startswith(":"), line


class Run:
    """A command on its way: its output so far, and its end."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response
        self.out, self.err = b"", b""
        self.pieces = []
        self.exit = self.error = None
        self.events = events(response)

    def step(self):
        """The next event; None: there is no more."""
        found = next(self.events, None)
        if found is None:
            return None
        assert self.exit is None and self.error is None, f"{found} behind the end"
        name, data = found
        if name == "stdout":
            piece = base64.b64decode(data, validate=True)
            self.pieces.append(piece)
            self.out += piece
        elif name == "stderr":
            self.err += base64.b64decode(data, validate=True)
        elif name == "exit":
            self.exit = json.loads(data)
            assert set(self.exit) == {"exit_code"}
        else:
            assert name == "error", found
            self.error = json.loads(data)
            assert set(self.error) == {"error", "code"} and self.error["code"] in CODES
        return name

    def all(self):
        while self.step() is not None:
            pass
        self.close()
        return self

    def until(self, text):
        while text not in self.out:
            assert self.step() is not None, self.out
        return self

    def close(self):
        self.response.close()
        self.connection.close()

    @property
    def code(self):
        assert self.error is None and self.exit is not None, (self.error, self.exit)
        return self.exit["exit_code"]


class Bridge(Client):
    def begin(self, box, argv, session=None, **more):
        headers, body = self.head({"Session-Id": session}, {"argv": argv, **more})
        connection = self.connect()
        connection.request("POST", f"/v1/sandbox/{box}/exec", body=body, headers=headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"].startswith("text/event-stream")
        return Run(connection, response)

    def run(self, box, argv, session=None, **more):
        return self.begin(box, argv, session, **more).all()

    def sh(self, box, line, **more):
        return self.run(box, ["sh", "-c", line], **more)

    def put(self, box, path, data):
        reply = self("PUT", f"/v1/sandbox/{box}/file/{path}", data)
        assert reply.status == 200 and reply.json == {"ok": True}, reply

    def get(self, box, path):
        reply = self("GET", f"/v1/sandbox/{box}/file/{path}")
        assert reply.status == 200, reply
        assert reply.headers["Content-Type"] == ("application/octet-stream" if reply.body else None)
        return reply.body

    def state(self, box):
        """As the native API has it; None: there is no such sandbox."""
        reply = self("GET", f"/sandbox/{box}")
        return None if reply.status == 404 else reply.json["status"]


def pids_with(mark):
    """Processes of this machine, those in boxes too, that have the mark among their arguments."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def field_of(pid, name):
    """Of /proc/PID/status; None when it is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next(line.split()[-1] for line in lines if line.startswith(f"{name}:"))


def kill_box(mark):
    """Ends the box that a program with the mark runs in, from outside: its PID 1 is the program's parent."""
    parents = {field_of(pid, "PPid") for pid in pids_with(mark)}
    (guest,) = [pid for pid in parents if field_of(pid, "NSpid") == "1"]
    os.kill(int(guest), signal.SIGKILL)
