# SPDX-License-Identifier: Apache-2.0
"""A server to run inside a box, of the standard library alone, and what talks to it from outside."""

import base64
import hashlib
import http.client
import os
import socket
import struct

from api_helpers import PATIENCE

SERVER = r'''
import base64, hashlib, json, socket, struct, sys, threading, time, urllib.parse
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
seen = {"connections": 0, "sent": 0, "aborted": 0}

def head_of(f):
    line = f.readline()
    if not line:
        return None
    method, target, version = line.decode("latin-1").split()
    headers = []
    while True:
        line = f.readline().decode("latin-1").rstrip("\r\n")
        if not line:
            return method, target, version, headers
        name, _, value = line.partition(": ")
        headers.append((name, value))

def body_of(f, headers):
    h = {n.lower(): v for n, v in headers}
    total, sha = 0, hashlib.sha256()
    def took(data):
        nonlocal total
        total += len(data)
        sha.update(data)
    if h.get("transfer-encoding") == "chunked":
        while True:
            size = int(f.readline(), 16)
            if size == 0:
                f.readline()
                break
            took(f.read(size))
            f.readline()
    else:
        left = int(h.get("content-length", 0))
        while left > 0:
            data = f.read(min(left, 65536))
            if not data:
                break
            took(data)
            left -= len(data)
    return total, sha.hexdigest()

def answer(c, body, extra="", status="200 OK"):
    c.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body)

def websocket(c, f, headers):
    h = {n.lower(): v for n, v in headers}
    accept = base64.b64encode(hashlib.sha1(h["sec-websocket-key"].encode() + GUID).digest()).decode()
    extra = ""
    if "sec-websocket-protocol" in h:
        extra = "Sec-WebSocket-Protocol: " + h["sec-websocket-protocol"].split(",")[0].strip() + "\r\n"
    head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    c.sendall(f"{head}Sec-WebSocket-Accept: {accept}\r\n{extra}\r\n".encode())
    while True:
        two = f.read(2)
        if len(two) < 2:
            return
        n = two[1] & 127
        if n == 126:
            n, = struct.unpack(">H", f.read(2))
        elif n == 127:
            n, = struct.unpack(">Q", f.read(8))
        mask = f.read(4)
        data = bytes(b ^ mask[i % 4] for i, b in enumerate(f.read(n)))
        if n < 126:
            reply = bytes([two[0], n])
        elif n < 65536:
            reply = bytes([two[0], 126]) + struct.pack(">H", n)
        else:
            reply = bytes([two[0], 127]) + struct.pack(">Q", n)
        c.sendall(reply + data)
        if two[0] & 15 == 8:
            return

def serve(c):
    f = c.makefile("rb")
    seen["connections"] += 1
    try:
        while True:
            head = head_of(f)
            if head is None:
                return
            method, target, version, headers = head
            url = urllib.parse.urlsplit(target)
            query = dict(urllib.parse.parse_qsl(url.query))
            if url.path == "/ws":
                return websocket(c, f, headers)
            if url.path == "/early":
                return answer(c, b"too much", status="413 Too Large")
            n, sha = body_of(f, headers)
            if url.path == "/echo":
                answer(c, json.dumps({"method": method, "target": target, "version": version, "headers": headers,
                                      "length": n, "sha256": sha}).encode())
            elif url.path == "/seen":
                answer(c, json.dumps(seen).encode())
            elif url.path == "/raw":
                c.sendall(base64.urlsafe_b64decode(query["bytes"]))
                if "close" in query:
                    return
            elif url.path == "/pieces":
                c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for i in range(int(query["n"])):
                    c.sendall(b"6\r\npiece\n\r\n")
                    time.sleep(0.02)
                c.sendall(b"0\r\n\r\n")
            elif url.path == "/endless":
                c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n")
                try:
                    while True:
                        seen["sent"] += c.send(b"x" * 65536)
                except OSError:
                    seen["aborted"] += 1
                    return
            elif url.path == "/hang":
                if not f.read(1):
                    seen["aborted"] += 1
                    return
            else:
                answer(c, b"hello from " + url.path.encode())
    except OSError:
        pass
    finally:
        c.close()

family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
listener = socket.socket(family)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen(128)
while True:
    c, _ = listener.accept()
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(c,), daemon=True).start()
'''


def start_server(api, box, port, address="127.0.0.1"):
    """Runs it on a port of the box, and returns its process when it listens."""
    api.exec(box, {"command": f"cat > /tmp/server.py <<'THE-END'\n{SERVER}\nTHE-END"})
    process = api.start(box, {"argv": ["python3", "/tmp/server.py", address, str(port)]})
    reply = api.ok(
        "POST", f"/sandbox/{box}/processes/{process}/wait", {"port": port, "timeout": PATIENCE * 1000}
    )
    assert reply["success"], reply
    return process


class Preview:
    """A port that was opened, as a browser sees it."""

    def __init__(self, server, made):
        self.server, self.made = server, made
        self.token, self.port = made["token"], made["port"]
        assert made["url"].startswith("http://") and made["url"].endswith("/")
        self.host = made["url"][len("http://") : -1]

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)

    def __call__(self, method, target, body=None, headers=None, host=None):
        from api_helpers import Reply

        connection = self.connect()
        try:
            all_headers = {"Host": host or self.host, **(headers or {})}
            connection.request(method, target, body=body, headers=all_headers)
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def raw(self):
        s = socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s


def read_answer(f):
    """One answer with a length, from a file of a socket: status, headers, body."""
    line = f.readline().decode("latin-1")
    if not line:
        return None
    status, headers = int(line.split()[1]), []
    while True:
        line = f.readline().decode("latin-1").rstrip("\r\n")
        if not line:
            break
        name, _, value = line.partition(": ")
        headers.append((name.lower(), value))
    length = int(dict(headers).get("content-length", 0))
    return status, headers, f.read(length)


class WebSocket:
    """A client, with masked frames."""

    def __init__(self, sock, host, target="/ws", headers=""):
        self.sock, self.file = sock, sock.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        sock.sendall(
            f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{headers}\r\n".encode()
        )
        self.status, fields, self.body = read_answer(self.file)
        self.headers = dict(fields)
        if self.status == 101:
            want = hashlib.sha1(key.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
            assert self.headers["sec-websocket-accept"] == base64.b64encode(want).decode()

    def send(self, data, opcode=2):
        mask = os.urandom(4)
        n = len(data)
        if n < 126:
            head = bytes([0x80 | opcode, 0x80 | n])
        elif n < 65536:
            head = bytes([0x80 | opcode, 0x80 | 126]) + struct.pack(">H", n)
        else:
            head = bytes([0x80 | opcode, 0x80 | 127]) + struct.pack(">Q", n)
        self.sock.sendall(head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def receive(self):
        two = self.file.read(2)
        if len(two) < 2:
            return None
        n = two[1] & 127
        if n == 126:
            (n,) = struct.unpack(">H", self.file.read(2))
        elif n == 127:
            (n,) = struct.unpack(">Q", self.file.read(8))
        return self.file.read(n)

    def close(self):
        self.file.close()
        self.sock.close()


def encoded(data):
    return base64.urlsafe_b64encode(data).decode()
