# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of a store that does to requests what networks and overloaded servers do. `plan` holds what happens to
the next requests, one word each; after it all goes well. A word may be bound to a method: "PUT:reset-after". `always`
happens to every request (of the method it names). Requests that are not signed as they should be are refused, where it knows
the secrets."""

import random
import re
import socket
import struct
import threading
import time

import sigv4

OTHER_BYTES = random.Random(7).randbytes(64 * 1024)
ERROR = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>by the proxy</Message></Error>"
CODES = {"500": b"InternalError", "503": b"SlowDown", "429": b"TooManyRequests", "502": b"", "504": b""}
STALL = 4  # seconds: longer than the patience that tests give
FAULTS_FOR_NOW = ["500", "503", "429", "502", "504", "500-after", "reset-before", "reset-after", "reset-middle", "truncate",
                  "cut-upload", "slow", "drip", "garbage", "twice", "empty"]
FAULTS_THAT_LIE = ["swap", "short", "html", "other-part"]


def read_head(file):
    lines = []
    while (line := file.readline(64 * 1024)) not in (b"\r\n", b"\n", b""):
        lines.append(line.rstrip(b"\r\n"))
    return lines


def length_of(lines):
    for line in lines:
        if line.lower().startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


def read_chunks(file):
    body = b""
    while (size := int(file.readline().split(b";")[0] or b"0", 16)) > 0:
        body += file.read(size)
        file.readline()
    read_head(file)
    return body


class Proxy:
    def __init__(self, port, secrets):
        self.to = port
        self.secrets = secrets  # by access key; None: who stands behind it looks at signatures
        self.plan = []
        self.always = None
        self.seen = []  # (method, target, fault)
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        # Closing alone leaves a thread in accept, and with it the socket: it would take somebody else's connection.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def fault_for(self, method, target):
        """What is next in the plan, if it is for such a request."""
        with self.lock:
            for word in ([self.always] if self.always else []) + self.plan[:1]:
                wanted, _, fault = word.rpartition(":")
                if wanted in ("", method):
                    if word != self.always:
                        self.plan.pop(0)
                    self.seen.append((method, target, fault))
                    return fault
            self.seen.append((method, target, None))
            return None

    def serve(self, client):
        with client, client.makefile("rb") as file:
            try:
                while (head := read_head(file)) and self.one(client, file, head):
                    pass
            except OSError:
                pass

    def one(self, client, file, head):
        """True: the connection goes on."""
        method, target, _ = head[0].decode("latin-1").split(" ")
        fault = self.fault_for(method, target)
        if fault == "cut-upload":
            file.read(length_of(head) // 2)
            return self.reset(client)
        body = file.read(length_of(head))
        if fault == "reset-before":
            return self.reset(client)
        wrong = sigv4.complaint(head, body, self.secrets) if self.secrets is not None else None
        if wrong is not None:
            text = ERROR % wrong.encode()
            return self.say(client, method, b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(text), text)
        if fault in CODES:
            text = ERROR % CODES[fault]
            return self.say(client, method, b"HTTP/1.1 %s Fault\r\nContent-Length: %d\r\n\r\n" % (fault.encode(), len(text)), text)
        answer_head, answer = self.ask(method, head, body)
        return self.spoil(client, method, fault, answer_head, answer)

    def ask(self, method, head, body):
        """Of the store itself, on a connection of its own."""
        lines = [line for line in head if not line.lower().startswith(b"connection:")] + [b"Connection: close"]
        with socket.create_connection(("127.0.0.1", self.to)) as server, server.makefile("rb") as file:
            server.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
            answer = [line for line in read_head(file) if not line.lower().startswith(b"connection:")]
            if method == "HEAD" or b" 204 " in answer[0]:
                return answer, b""
            if any(line.lower() == b"transfer-encoding: chunked" for line in answer):
                text = read_chunks(file)
                answer = [line for line in answer if not line.lower().startswith(b"transfer-encoding:")]
                return answer + [b"Content-Length: %d" % len(text)], text
            return answer, file.read(length_of(answer))

    def spoil(self, client, method, fault, lines, body):
        head = b"\r\n".join(lines) + b"\r\n\r\n"
        half = len(body) // 2
        if fault == "500-after":
            return self.say(client, method, b"HTTP/1.1 500 Fault\r\nContent-Length: 0\r\n\r\n", b"")
        if fault == "reset-after":
            return self.reset(client)
        if fault in ("reset-middle", "truncate"):
            client.sendall(head[: len(head) // 2] if half == 0 else head + body[:half])
            if fault == "reset-middle":
                time.sleep(0.05)
                return self.reset(client)
            return False
        if fault == "slow":
            time.sleep(STALL)
            return False
        if fault == "drip":
            client.sendall(head[: len(head) // 2] if half == 0 else head + body[:half])
            time.sleep(STALL)
            return False
        if fault == "garbage":
            client.sendall(b"\x16\x03\x01 this is not what you are looking for\r\n\r\n")
            return False
        if fault == "empty":
            return False
        if fault == "twice":
            client.sendall((head + body) * 2)
            return True
        if fault == "html":
            text = b"<html><body>Please log in</body></html>"
            return self.say(client, method, b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(text), text)
        if fault == "swap":
            body = (OTHER_BYTES * (len(body) // len(OTHER_BYTES) + 1))[: len(body)]
        if fault == "short":
            body = body[: max(0, len(body) - 7)]
            head = re.sub(rb"(?i)content-length: *\d+", b"Content-Length: %d" % len(body), head)
        if fault == "other-part":
            head = re.sub(rb"(?i)content-range: *bytes \d+", b"Content-Range: bytes 1", head)
        return self.say(client, method, head, body)

    @staticmethod
    def say(client, method, head, body):
        client.sendall(head + (b"" if method == "HEAD" else body))
        return True

    @staticmethod
    def reset(client):
        """Not an end, but a connection that is no more."""
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        return False
