# SPDX-License-Identifier: Apache-2.0
"""A server that pretends to be a Messages API and is on nobody's side: it answers in raw bytes. What it does to a request is
named in the request's text, as <<name>>; without a name it answers well."""

import json
import re
import socket
import threading

KEY = "sk-ant-api03-Zq8planted5f2c-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"


def event(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"data: " + text + b"\n\n"


def start(**more):
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": [],
               "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}, **more}
    return event({"type": "message_start", "message": message})


def open_block(index=0, **block):
    return event({"type": "content_block_start", "index": index, "content_block": block or {"type": "text", "text": ""}})


def delta(text, index=0):
    return event({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}})


def piece(index=0, **what):
    return event({"type": "content_block_delta", "index": index, "delta": what})


def close_block(index=0):
    return event({"type": "content_block_stop", "index": index})


def end(stop_reason="end_turn", usage=None):
    return (event({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage or {"output_tokens": 2}})
            + event({"type": "message_stop"}))


def says(code, **more):
    """A good answer with this code."""
    return STREAM + start(**more) + open_block() + delta(code) + close_block() + end()


def status(line, body, *headers):
    head = [f"HTTP/1.1 {line}", "Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body


class HostileModel:
    def __init__(self):
        self.answers, self.seen, self.lock = {}, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.serve, daemon=True).start()

    def env(self, key=KEY):
        return {"ANTHROPIC_API_KEY": key, "ANTHROPIC_BASE_URL": self.url}

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with connection:
            connection.settimeout(120)
            file = connection.makefile("rb")
            try:
                head, body = self.read(file)
                with self.lock:
                    self.seen.append((head, body))
                self.answer(body, connection)
            except OSError:
                pass  # it has heard enough

    @staticmethod
    def read(file):
        lines = []
        while (line := file.readline()) not in (b"", b"\r\n"):
            lines.append(line)
        head = b"".join(lines).decode("latin-1")
        length = re.search(r"(?im)^content-length: (\d+)", head)
        return head, file.read(int(length[1])) if length else b""

    def answer(self, body, connection):
        names = re.findall(rb"<<([^<>]+)>>", body)
        answer = self.answers[names[-1].decode()] if names else says("print(1)\n")
        if callable(answer):
            answer = answer(connection)
        for part in [answer] if isinstance(answer, bytes) else answer or []:
            connection.sendall(part)

    def asked(self, text):
        """The bodies of requests that hold this text."""
        with self.lock:
            return [json.loads(body) for _, body in self.seen if text.encode() in body]
