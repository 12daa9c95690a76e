# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a server, for one thing only: how answers are framed and where connections break. It
knows nothing of sandboxes; it plays back the bytes that a test gives it. What commands do is tested
against the real daemon."""

import os
import socket
import struct
import threading


class Request:
    def __init__(self, head, body):
        lines = head.decode().split("\r\n")
        self.method, self.target, _ = lines[0].split(" ")
        self.headers = {}
        for line in lines[1:]:
            name, value = line.split(": ", 1)
            self.headers[name.lower()] = value
        self.body = body


class StandIn:
    """Listens on DIR/cay.sock. `answer(request, number)` gives the pieces to send, each with a write of
    its own; a last piece of RESET breaks the connection off."""

    RESET = object()

    def __init__(self, directory):
        self.path = os.path.join(directory, "cay.sock")
        self.requests = []
        self.answer = None
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(64)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            with conn:
                try:
                    self.serve(conn)
                except (BrokenPipeError, ConnectionResetError):
                    pass

    def serve(self, conn):
        request = read_request(conn)
        if request is None:
            return
        number = len(self.requests)
        self.requests.append(request)
        for piece in self.answer(request, number):
            if piece is self.RESET:
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            conn.sendall(piece)

    def play(self, *pieces):
        """The same pieces for every request from now on."""
        self.requests.clear()
        self.answer = lambda request, number: pieces

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def read_request(conn):
    data = b""
    while b"\r\n\r\n" not in data:
        more = conn.recv(65536)
        if not more:
            return None
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    request = Request(head, body)
    length = int(request.headers.get("content-length", "0"))
    while len(request.body) < length:
        request.body += conn.recv(65536)
    return request


def answer(body, status="200 OK", content_type="application/json"):
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}X-Request-Id: req-7\r\n\r\n".encode() + body


def chunked(*chunks, content_type="text/event-stream", end=True):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks if c)
    return head.encode() + body + (b"0\r\n\r\n" if end else b"")
