# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client that can also misbehave: every frame is made by hand."""

import base64
import hashlib
import http.client
import json
import os
import select
import socket
import struct
import time
import urllib.parse

from api_helpers import PATIENCE, Reply

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(opcode, data=b"", fin=True, mask=True, rsv=0, length=None):
    """One frame. `length` may lie."""
    n = len(data) if length is None else length
    head = bytes([(fin << 7) | (rsv << 4) | opcode])
    bit = 0x80 if mask else 0
    if n < 126:
        head += bytes([bit | n])
    elif n < 65536:
        head += bytes([bit | 126]) + struct.pack("!H", n)
    else:
        head += bytes([bit | 127]) + struct.pack("!Q", n)
    if not mask:
        return head + data
    key = os.urandom(4)
    whole = int.from_bytes(data, "big") ^ int.from_bytes((key * (len(data) // 4 + 1))[: len(data)], "big")
    return head + key + whole.to_bytes(len(data), "big")


class Closed(Exception):
    def __init__(self, code, reason):
        super().__init__(f"closed with {code} {reason!r}")
        self.code, self.reason = code, reason


class WebSocket:
    def __init__(self, sock, reply):
        self.sock, self.reply = sock, reply
        self.buffer = bytearray()
        self.pongs = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    # -- out

    def raw(self, data):
        self.sock.sendall(data)

    def send(self, opcode, data=b"", **how):
        self.raw(frame(opcode, data, **how))

    def close(self, code=1000):
        self.send(CLOSE, struct.pack("!H", code))

    # -- in

    def need(self, n, end):
        while len(self.buffer) < n:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.sock], [], [], left)[0]:
                raise TimeoutError(f"{n} bytes never came; {bytes(self.buffer[:200])!r}")
            data = self.sock.recv(1 << 16)
            if data == b"":
                raise Closed(1006, "")
            self.buffer += data

    def recv(self, timeout=PATIENCE):
        """The next frame: its opcode and data. Pings are answered, a close raises."""
        end = time.monotonic() + timeout
        while True:
            try:
                self.need(2, end)
                n, at = self.buffer[1] & 0x7F, 2
                assert self.buffer[1] & 0x80 == 0, "a server's frame is not masked"
                assert self.buffer[0] & 0xF0 == 0x80, "whole, and without reserved bits"
                if n > 125:
                    at = 4 if n == 126 else 10
                    self.need(at, end)
                    n = int.from_bytes(self.buffer[2:at], "big")
                self.need(at + n, end)
            except ConnectionResetError:
                raise Closed(1006, "reset") from None
            opcode, data = self.buffer[0] & 0x0F, bytes(self.buffer[at : at + n])
            del self.buffer[: at + n]
            if opcode == PING:
                self.send(PONG, data)
            elif opcode == CLOSE:
                code = int.from_bytes(data[:2], "big") if data else 1005
                raise Closed(code, data[2:].decode())
            elif opcode == PONG:
                self.pongs.append(data)
            else:
                return opcode, data

    def closed(self, timeout=PATIENCE):
        """Reads on until it is closed, and returns how."""
        while True:
            try:
                self.recv(timeout)
            except Closed as e:
                return e.code


def connect(client, path, headers=None, token=True, **query):
    """A WebSocket, or the Reply that refused it."""
    if query:
        path += "?" + urllib.parse.urlencode(query)
    key = base64.b64encode(os.urandom(16)).decode()
    connection = client.connect()
    connection.connect()
    fields = {
        "Host": f"127.0.0.1:{client.server.port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13",
    }
    if token and client.token is not None and not client.unix:
        fields["Authorization"] = f"Bearer {client.token}"
    fields.update(headers or {})
    head = "".join(f"{k}: {v}\r\n" for k, v in fields.items() if v is not None)
    connection.sock.sendall(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode())
    sock = connection.sock
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(1)  # not a byte of what comes behind it
        assert more, data
        data += more
    lines = data.decode().split("\r\n")
    status = int(lines[0].split()[1])
    found = http.client.HTTPMessage()
    for line in lines[1:]:
        if line:
            name, _, value = line.partition(": ")
            found[name] = value
    if status != 101:
        body = b""
        while len(body) < int(found["Content-Length"]):
            body += sock.recv(65536)
        connection.close()
        return Reply(status, found, body)
    accept = base64.b64encode(hashlib.sha1((key + MAGIC).encode()).digest()).decode()
    assert found["Sec-WebSocket-Accept"] == accept
    assert found["Upgrade"] == "websocket" and found["Connection"].lower() == "upgrade"
    sock.settimeout(PATIENCE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) if not client.unix else None
    return WebSocket(sock, Reply(status, found, b""))


class Terminal:
    """A viewer of a terminal: all that it was shown, and what it was told."""

    def __init__(self, client, box, path="terminal", headers=None, **query):
        self.ws = connect(client, f"/sandbox/{box}/{path}", headers=headers, **query)
        assert isinstance(self.ws, WebSocket), self.ws
        self.shown = b""
        self.told = []
        self.replay = b""
        while not self.told or self.told[-1]["type"] != "ready":
            self.step()
        self.replay = self.shown
        self.ready = self.told[-1]
        self.start = self.ready["offset"] - len(self.shown)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ws.sock.close()

    def step(self, timeout=PATIENCE):
        opcode, data = self.ws.recv(timeout)
        if opcode == BINARY:
            self.shown += data
        else:
            self.told.append(json.loads(data))

    def type(self, text):
        self.ws.send(BINARY, text.encode() if isinstance(text, str) else text)

    def resize(self, cols, rows):
        self.ws.send(TEXT, json.dumps({"type": "resize", "cols": cols, "rows": rows}).encode())

    def until(self, text, since=0):
        """Reads on until this is shown, and returns where it ends."""
        text = text.encode() if isinstance(text, str) else text
        while (at := self.shown.find(text, since)) < 0:
            self.step()
        return at + len(text)

    def run(self, command, mark):
        """Types a command line that ends by printing `mark`, and returns what was shown before it."""
        since = len(self.shown)
        self.type(f"{command}; echo {mark[:1]}''{mark[1:]}\r")  # the echo of what was typed is another text
        end = self.until(mark, since)
        return self.shown[since : end - len(mark)].decode(errors="replace")

    def wait_told(self, kind):
        while True:
            for message in self.told:
                if message["type"] == kind:
                    return message
            self.step()

    def end(self):
        """Reads to the end. The code of the close, and the message `exit`."""
        try:
            while True:
                self.step()
        except Closed as e:
            exits = [m for m in self.told if m["type"] == "exit"]
            return e.code, exits[0] if exits else None
