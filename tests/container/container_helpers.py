# SPDX-License-Identifier: Apache-2.0
"""What the tests of the container protocol share: a client that checks the shape of what comes back."""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "api"))
from api_helpers import PATIENCE, Client, Server, at_once, eventually  # noqa: E402, F401

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


class Container:
    """One sandbox, as a program that was written for Cloudflare's sees it."""

    def __init__(self, api, box):
        self.api, self.box = api, box
        self.base = f"/sandbox/{box}/container"

    def __call__(self, method, path, body=None):
        return self.api(method, self.base + path, body)

    def ok(self, path, body=None, method="POST"):
        reply = self(method, path, body)
        assert reply.status == 200, reply
        answer = reply.json
        assert answer["success"] is True and TIME.fullmatch(answer["timestamp"]), answer
        return answer

    def fail(self, path_, body, status_, code_, /, method="POST", **context):
        """An error with this code, whose context has at least these members; returned whole."""
        return self.check(self(method, path_, body), status_, code_, **context)

    def check(self, reply, status, code, /, **context):
        assert reply.status == status, reply
        error = reply.json
        assert error["code"] == code, error
        assert error["message"] and error["httpStatus"] == status and TIME.fullmatch(error["timestamp"]), error
        assert set(error) <= {"code", "message", "context", "operation", "httpStatus", "timestamp", "suggestion", "documentation"}
        for key, value in context.items():
            assert error["context"][key] == value, error
        return error

    def invalid(self, path, body, field, method="POST"):
        error = self.fail(path, body, 400, "VALIDATION_FAILED", method)
        errors = error["context"]["validationErrors"]
        assert [e["field"] for e in errors] == [field] and errors[0]["message"] and errors[0]["code"], error
        return error

    def stream(self, path, body):
        """Events, which have no lines but their data. Or a Reply, if it is none."""
        stream = self.api.stream("POST", self.base + path, body)
        return Events(stream) if stream.status == 200 else stream

    def write(self, path, content, **more):
        self.ok("/api/write", {"path": path, "content": content, **more})

    def read(self, path, **more):
        return self.ok("/api/read", {"path": path, **more})

    def run(self, command):
        """Past the protocol: what the tests need done in the sandbox."""
        result = self.api.exec(self.box, command)
        assert result["success"], result
        return result["stdout"]


class Events:
    def __init__(self, stream):
        self.stream = stream

    def __iter__(self):
        for raw in self.stream.response:
            line = raw.decode()
            assert line in ("\n", ":\n") or line.startswith("data: {"), line
            if line.startswith("data: "):
                yield json.loads(line[6:])

    def until(self, **want):
        seen = []
        for event in self:
            seen.append(event)
            if all(event.get(k) == v for k, v in want.items()):
                return seen
        raise AssertionError(f"ended without {want}: {seen[-20:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.stream.close()
