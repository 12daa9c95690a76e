# SPDX-License-Identifier: Apache-2.0
"""The model as a box sees it: what the tests of it share. The model is a stand-in (tests/standin)."""

import json
import pathlib
import shlex
import sys

from api_helpers import eventually

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "standin"))
from standin_helper import StandIn  # noqa: E402  pylint: disable=wrong-import-position,unused-import

KEY = "sk-ant-planted-0123456789abcdef"
SOCKET = "/run/cay/anthropic.sock"
MODEL = "claude-sonnet-5-5"

HEADERS = {"Content-Type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": "mine"}

# Runs in a box: requests on one connection, by TCP, by the proxy or by the socket; what came back as JSON. With "cut" where it broke off.
ASK = r"""
import http.client, json, socket, sys
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect("/run/cay/anthropic.sock")
spec = json.loads(sys.stdin.read() or sys.argv[1])
c = Unix("localhost") if spec["way"] == "unix" else http.client.HTTPConnection("anthropic.cay", timeout=60)
base = ""
if spec["way"] == "proxy":
    c, base = http.client.HTTPConnection("127.0.0.1", 3128, timeout=60), "http://anthropic.cay"
out = []
try:
    for r in spec["requests"]:
        c.request(r.get("method", "POST"), base + r.get("path", "/v1/messages"), r.get("body"), r.get("headers", {}))
        a = c.getresponse()
        one = {"status": a.status, "headers": {k.lower(): v for k, v in a.getheaders()}, "cut": False}
        out.append(one)
        got, n = b"", 0
        try:
            while piece := a.read1(65536):
                n += len(piece)
                got += piece if n < 100000 else b""
            a.read()
        except (http.client.HTTPException, OSError) as e:
            one["cut"] = True
        if a.length or (a.chunked and a.chunk_left is not None):
            one["cut"] = True
        one["body"] = got.decode(errors="replace") if n < 100000 else n
        if r.get("sleep"):
            import time; time.sleep(r["sleep"])
except (http.client.HTTPException, OSError) as e:
    out.append({"failed": repr(e)})
print(json.dumps(out))
"""


def question(text, **more):
    return json.dumps({"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": text}], **more})


def a_request(text, headers=None, **more):
    return {"body": question(text, **more), "headers": {**HEADERS, **(headers or {})}}


class Asker:
    """Asks from within a sandbox."""

    def __init__(self, api, box):
        self.api, self.box = api, box

    def raw(self, *requests, unix=False, way=None):
        spec = json.dumps({"requests": list(requests), "way": way or ("unix" if unix else "tcp")})
        done = self.api.exec(self.box, {"command": shlex.join(["python3", "-c", ASK]), "stdin": spec, "timeout": 120000})
        assert done["exitCode"] == 0, done
        return json.loads(done["stdout"])

    def ask(self, text, unix=False, headers=None, way=None, **more):
        return self.raw(a_request(text, headers, **more), unix=unix, way=way)[0]


def error_of(reply, status, kind, *words):
    """It is an error as the API would write it."""
    assert reply["status"] == status, reply
    assert reply["headers"]["content-type"] == "application/json"
    body = json.loads(reply["body"])
    assert body["type"] == "error" and body["error"]["type"] == kind, body
    for word in words:
        assert word in body["error"]["message"], body
    return body["error"]["message"]


def text_of(reply):
    assert reply["status"] == 200, reply
    return json.loads(reply["body"])["content"][0]["text"]


def spent(api, box):
    """What the sandbox has spent, as its row says."""
    return api.ok("GET", f"/sandbox/{box}")["budget"]["spent"]


def usage(api, by="source", **query):
    more = "".join(f"&{k}={v}" for k, v in query.items())
    return api.ok("GET", f"/usage?by={by}{more}")


def events(api, box, kind):
    found = api.ok("GET", f"/sandbox/{box}/events")["events"]
    return [e for e in found if e["type"] == kind]


def wait_for_event(api, box, kind):
    return eventually(lambda: events(api, box, kind))
