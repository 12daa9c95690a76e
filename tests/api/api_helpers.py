# SPDX-License-Identifier: Apache-2.0
"""What the tests of the API share: a server of their own, and a client that shows what came back as it came."""

import http.client
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import subprocess
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
# Sanitized, so that a fault inside shows; cayd lies beside it.
CAY = os.environ.get("CAY_SAN", str(TOP / "build-test" / "cay"))
FULL = os.environ.get("CAY_TEST_FULL") == "1"
PATIENCE = 60  # seconds; far more than anything here takes, so that only a hang gets that far
ADMIN = "cay_test_" + secrets.token_hex(16)
FAULT = re.compile(r"AddressSanitizer|LeakSanitizer|runtime error:|Assertion|level=error")


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"<{self.status} {self.body[:500]!r}>"

    @property
    def json(self):
        return json.loads(self.body)

    def error(self, status, code, *words):
        """Checks that it is an error of ours, whole and with these words, and returns it."""
        assert self.status == status, self
        assert self.headers["Content-Type"] == "application/json"
        body = self.json
        assert set(body) <= {"error", "error_code", "request_id", "details"}, body
        assert body["error_code"] == code, body
        if "Idempotency-Replayed" not in self.headers:  # then it is the first one's
            assert body["request_id"] == self.headers["X-Request-Id"]
        for word in words:
            assert word in body["error"], body
        return body


class Unix(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("cay", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Event:
    def __init__(self, id_, name, data):
        self.id, self.name, self.data = id_, name, data

    def __repr__(self):
        return f"<{self.id} {self.name} {self.data}>"


class Stream:
    """A streamed answer: its events one by one."""

    def __init__(self, connection, response):
        self.connection, self.response = connection, response
        self.status, self.headers = response.status, response.headers
        self.comments = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.response.close()
        self.connection.close()

    def __iter__(self):
        id_, name, data = None, None, []
        for raw in self.response:
            line = raw.decode().rstrip("\n")
            if line == "":
                if data:
                    yield Event(id_, name, json.loads("\n".join(data)))
                id_, name, data = None, None, []
            elif line.startswith(":"):
                self.comments += 1
            else:
                key, _, value = line.partition(": ")
                if key == "id":
                    id_ = value
                elif key == "event":
                    name = value
                elif key == "data":
                    data.append(value)
                else:
                    raise AssertionError(f"not an event's line: {line!r}")

    def until(self, name):
        """All events up to one of this name."""
        events = []
        for event in self:
            events.append(event)
            if event.name == name:
                return events
        raise AssertionError(f"ended without '{name}': {events}")


class Client:
    def __init__(self, server, token=ADMIN, unix=False):
        self.server, self.token, self.unix = server, token, unix

    def connect(self):
        if self.unix:
            return Unix(self.server.socket, PATIENCE)
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)

    def head(self, headers, body):
        all_headers = {}
        if self.token is not None and not self.unix:
            all_headers["Authorization"] = f"Bearer {self.token}"
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        all_headers.update(headers or {})
        return {k: v for k, v in all_headers.items() if v is not None}, body

    def __call__(self, method, path, body=None, headers=None):
        headers, body = self.head(headers, body)
        connection = self.connect()
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def ok(self, method, path, body=None, headers=None):
        reply = self(method, path, body, headers)
        assert reply.status in (200, 201), reply
        return reply.json

    def exec(self, box, body, headers=None):
        if isinstance(body, str):
            body = {"command": body}
        return self.ok("POST", f"/sandbox/{box}/exec", body, headers)

    def stream(self, method, path, body=None, headers=None):
        headers, body = self.head({"Accept": "text/event-stream", **(headers or {})}, body)
        connection = self.connect()
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        if response.status != 200:
            reply = Reply(response.status, response.headers, response.read())
            connection.close()
            return reply
        assert response.headers["Content-Type"].startswith("text/event-stream")
        return Stream(connection, response)

    def start(self, box, body):
        return self.ok("POST", f"/sandbox/{box}/processes", body)["id"]

    def ended(self, box, process):
        """Waits for a process's end and returns it."""
        reply = self.ok("POST", f"/sandbox/{box}/processes/{process}/wait", {"exit": True, "timeout": PATIENCE * 1000})
        assert reply["success"], reply
        return reply["process"]


class Server:
    """`cay serve` on a free port and a data directory of its own."""

    def __init__(self, data, *flags, env=None, program=None):
        self.program = program or CAY
        self.env = env or {}
        self.data = pathlib.Path(data)
        os.chmod(self.data, 0o711)
        self.log_path = self.data.parent / (self.data.name + ".log")
        self.socket = str(self.data / "cay.sock")
        self.flags = flags
        self.port = 0
        self.process = None
        self.start()

    def start(self):
        env = {**os.environ, **self.env, "CAY_TOKEN": ADMIN}
        env.setdefault("ASAN_OPTIONS", "detect_leaks=1")
        log = open(self.log_path, "ab")
        command = [self.program, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.data)]
        command += ["--preload", "", "--pool", "4", "--boxes", "64", "--volume", "8g", "--log-level", "debug", *self.flags]
        at = log.tell()
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        log.close()
        end = time.monotonic() + PATIENCE * 2  # the first start copies an image
        while True:
            with open(self.log_path, "rb") as f:
                f.seek(at)
                text = f.read().decode(errors="replace")
            found = re.search(r"serves on http://127\.0\.0\.1:(\d+)", text)
            if found:
                self.port = int(found[1])
                return
            assert self.process.poll() is None and time.monotonic() < end, text
            time.sleep(0.05)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def daemon_pid(self):
        """The unprivileged process that answers: the server's child named cayd."""
        for path in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                text = path.read_text(encoding="utf-8")
            except OSError:
                continue
            if "Name:\tcayd\n" in text and f"PPid:\t{self.process.pid}\n" in text:
                return int(path.parent.name)
        raise AssertionError("there is no cayd")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE * 2)

    def faults(self):
        """Lines of the log that tell of a fault inside."""
        return [line for line in self.log().splitlines() if FAULT.search(line)]


def at_once(*jobs):
    """Runs functions side by side and returns what they return."""
    results = [None] * len(jobs)

    def run(i):
        try:
            results[i] = jobs[i]()
        except BaseException as e:  # shown by whoever looks at the results
            results[i] = e

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE * 2)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def eventually(check):
    """Waits until check() is true, and returns what it returned."""
    end = time.monotonic() + PATIENCE
    while True:
        value = check()
        if value:
            return value
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def kill_daemon(server, client):
    before = server.daemon_pid()
    os.kill(before, signal.SIGKILL)

    def answers():
        try:
            return client("GET", "/health").status == 200 and server.daemon_pid() != before
        except (OSError, AssertionError, http.client.HTTPException):
            return False

    eventually(answers)
