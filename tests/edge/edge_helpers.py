# SPDX-License-Identifier: Apache-2.0
"""What the tests of edge/ share: the test server on a listening socket of ours, and raw connections."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("CAY_EDGE", str(TOP / "build-test" / "tests" / "edge" / "edge-server"))
FULL = os.environ.get("CAY_TEST_FULL") == "1"
PATIENCE = 60  # seconds; far more than anything here takes, so that only a hang gets that far

OK_BODY = b'{"ok":true,"a":"b"}\n'


def request(target="/health", method="GET", headers=(), body=None, host="Host: a"):
    lines = [f"{method} {target} HTTP/1.1", host, *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join(line for line in lines if line is not None) + "\r\n\r\n"
    return head.encode("latin-1") + (body or b"")


HEALTH = request()


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:200]!r}>"

    def json(self):
        return json.loads(self.body)


class Closed(Exception):
    """The other side closed the connection, or reset it."""


class Connection:
    """A client that does exactly what it is told."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(PATIENCE)
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.sock.sendall(data)
        return self

    def more(self):
        try:
            data = self.sock.recv(65536)
        except (ConnectionResetError, BrokenPipeError) as e:
            raise Closed from e
        if not data:
            raise Closed
        self.rest += data

    def until(self, mark):
        while mark not in self.rest:
            self.more()
        before, _, self.rest = self.rest.partition(mark)
        return before

    def exactly(self, n):
        parts, got = [], 0
        while got + len(self.rest) < n:
            parts.append(self.rest)
            got += len(self.rest)
            self.rest = b""
            self.more()
        data, self.rest = b"".join(parts) + self.rest[: n - got], self.rest[n - got :]
        return data

    def head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = lines[0].split(" ", 2)
        assert version in ("HTTP/1.1", "HTTP/1.0"), lines
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            assert name.lower() not in headers, lines
            headers[name.lower()] = value
        return int(status), headers

    def chunk(self):
        size = int(self.until(b"\r\n"), 16)
        data = self.exactly(size)
        assert self.exactly(2) == b"\r\n"
        return data

    def reply(self, head_only=False):
        status, headers = self.head()
        body = b""
        if head_only or status in (204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while data := self.chunk():
                body += data
        elif "content-length" in headers:
            body = self.exactly(int(headers["content-length"]))
        else:
            body = self.everything()
        return Reply(status, headers, body)

    def ask(self, data):
        return self.send(data).reply()

    def everything(self):
        """What comes until the other side closes."""
        try:
            while True:
                self.more()
        except Closed:
            data, self.rest = self.rest, b""
            return data

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)
        return self

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def close(self):
        self.sock.close()


class Server:
    """The test server, with a TCP and a unix socket that are also ours."""

    def __init__(self, directory, idle=0, listener=None, files=None):
        self.tcp = listener or socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.path = str(directory / f"s{time.monotonic_ns()}")
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(self.path)
        self.unix.listen(64)
        self.address = self.tcp.getsockname()
        fds = (self.tcp.fileno(), self.unix.fileno())
        command = [PROGRAM, str(fds[0]), str(idle), str(fds[1])]
        if files:
            command = ["prlimit", f"--nofile={files}", *command]
        self.process = subprocess.Popen(command, pass_fds=fds, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == b"ready\n"

    def connect(self, receive_buffer=None):
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.connect(self.address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Connection(sock)

    def connect_unix(self):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(self.path)
        return Connection(sock)

    def ask(self, data=HEALTH):
        with self.connect() as c:
            return c.ask(data)

    def stats(self):
        return self.ask(request("/stats")).json()

    def signal(self, number):
        self.process.send_signal(number)

    def cpu(self):
        """Seconds of processor time so far."""
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8")
        fields = stat.rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """Ends it, and sees that it has lost nothing: its own count, and the sanitizers'."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.unix.close()
        return code


def wait_until(check, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
