# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python SDK share: a way to write one test for threads and for asyncio, and a proxy that spoils
what goes through it."""

import asyncio
import inspect
import itertools
import pathlib
import socket
import sys
import threading

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
SDK = TOP / "sdk" / "python"
sys.path.insert(0, str(SDK))

import cay  # noqa: E402

PATIENCE = 60
numbers = itertools.count(1)


# -- both ways


class Driven:
    """A thing of cay.aio that is used as its twin of cay: what would be awaited is waited for."""

    def __init__(self, thing, loop):
        self.__dict__.update(thing=thing, loop=loop)

    def __getattr__(self, name):
        value = getattr(self.thing, name)
        return self.method(value) if callable(value) else value

    def method(self, function):
        def call(*args, **kwargs):
            args = [a.thing if isinstance(a, Driven) else a for a in args]
            kwargs = {k: a.thing if isinstance(a, Driven) else a for k, a in kwargs.items()}
            return self.wrap(self.wait(function(*args, **kwargs)))

        return call

    def wait(self, value):
        return self.loop.run_until_complete(value) if inspect.isawaitable(value) else value

    def wrap(self, value):
        if isinstance(value, list):
            return [self.wrap(one) for one in value]
        return Driven(value, self.loop) if type(value).__module__.startswith("cay._") else value

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self.wait(self.thing.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self):
        self.wait(getattr(self.thing, "aclose", None) and self.thing.aclose() or self.thing.close())

    def __enter__(self):
        self.wait(self.thing.__aenter__())
        return self

    def __exit__(self, *error):
        self.wait(self.thing.__aexit__(*error))


class Way:
    """How sandboxes are had: `cay` itself, or `cay.aio` with a loop of the test's own."""

    def __init__(self, kind, **where):
        self.kind, self.where = kind, where
        self.loop = asyncio.new_event_loop() if kind == "asyncio" else None
        self.made = []

    def sandbox(self, id_=None, **settings):
        settings = {**self.where, **settings}
        id_ = id_ or f"py-{next(numbers)}"
        box = cay.get_sandbox(id_, **settings) if self.loop is None else Driven(cay.aio.get_sandbox(id_, **settings), self.loop)
        self.made.append(box)
        return box

    def at_once(self, *works):
        """Calls side by side: each is a function of nothing, or, with asyncio, of a coroutine."""
        if self.loop is None:
            from api_helpers import at_once

            return at_once(*works)

        async def all_of_them():
            return await asyncio.gather(*[work() for work in works])

        return self.loop.run_until_complete(all_of_them())

    def close(self):
        for box in self.made:
            box.destroy()
        if self.loop is not None:
            self.loop.close()


# -- a spoiled way to the server


class Spoiler:
    """A proxy on a free port. `rules` are tried for each request, in order: (words of its first line, what to do), each is
    used once. What is done:

        ("answer", bytes)      instead of the server
        ("cut",)               the server never sees the request
        ("lose",)              the server answers, nobody hears it
        ("lose now",)          the same, and the connection ends before that
        ("shorten", n)         the answer is cut behind n bytes
        ("shorten at", word)   the answer is cut in front of this word
    """

    def __init__(self, port):
        self.target = ("127.0.0.1", port)
        self.rules = []
        self.seen = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def close(self):
        stop(self.listener)

    def serve(self, sock):
        """One request; then the connection ends, as those of an impatient server do."""
        with sock:
            sock.settimeout(PATIENCE)
            request = read_request(sock)
            if request is None:
                return
            head = request.split(b"\r\n\r\n")[0].decode("latin-1")
            self.seen.append(head)
            first = head.split("\r\n")[0]
            rule = next((r for r in self.rules if all(word in first for word in r[0].split())), None)
            if rule is not None:
                self.rules.remove(rule)
            self.act(sock, request, rule[1] if rule is not None else ("pass",))

    def act(self, sock, request, rule):
        if rule[0] == "answer":
            sock.sendall(rule[1])
            return
        if rule[0] == "cut":
            return
        with socket.create_connection(self.target) as upstream:
            upstream.settimeout(PATIENCE)
            upstream.sendall(with_close(request))
            if rule[0] == "lose now":
                sock.shutdown(socket.SHUT_RDWR)
            told = b""
            while True:
                try:
                    data = upstream.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                if rule[0].startswith("lose"):
                    continue
                cut = None
                if rule[0] == "shorten" and len(told) + len(data) >= rule[1]:
                    cut = rule[1] - len(told)
                if rule[0] == "shorten at" and rule[1] in told + data:
                    cut = (told + data).index(rule[1]) - len(told)
                told += data
                try:
                    sock.sendall(data if cut is None else data[: max(cut, 0)])
                except OSError:
                    return
                if cut is not None:
                    return

    def keys(self, word="POST"):
        """The Idempotency-Keys of the requests seen with this in their first lines."""
        found = []
        for head in self.seen:
            first, *lines = head.split("\r\n")
            if word in first:
                found += [line.split(": ")[1] for line in lines if line.startswith("Idempotency-Key:")]
        return found


class Relay:
    """Passes bytes on, by TLS if there is a context for it, until cut() ends all connections at once."""

    def __init__(self, port, context=None):
        self.target, self.context = ("127.0.0.1", port), context
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.open = []
        self.accepted = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        try:
            sock = self.context.wrap_socket(sock, server_side=True) if self.context is not None else sock
            upstream = socket.create_connection(self.target)
        except OSError:
            sock.close()
            return
        self.open += [sock, upstream]
        threading.Thread(target=self.pass_on, args=(upstream, sock), daemon=True).start()
        self.pass_on(sock, upstream)

    def pass_on(self, one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for sock in (one, other):
            end(sock)

    def cut(self):
        for sock in self.open:
            end(sock)

    def close(self):
        stop(self.listener)
        self.cut()


def end(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def stop(listener):
    end(listener)  # else the thread that waits for it takes one more
    listener.close()


def read_request(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            more = sock.recv(65536)
        except OSError:
            return None
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.decode("latin-1").split("\r\n"):
        if line.lower().startswith("content-length:"):
            length = int(line.split(":")[1])
    while len(body) < length:
        body += sock.recv(65536)
    return head + b"\r\n\r\n" + body


def with_close(request):
    """So that the end of the answer is the end of the connection."""
    return request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


def answer(status, body, *headers):
    """An answer in bytes."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()
