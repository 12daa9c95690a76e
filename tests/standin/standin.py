#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the Messages API, for tests: no model, only what a test tells it to say.

    standin.py [--port 0] [--port-file FILE] [--cert FILE --key FILE] [--die-with-parent] [--keep BYTES]

It says that it is one: each of its answers has the header `x-stand-in: 1`. What is answered is written as markers into
the text that is sent (README.md lists them). GET /_requests tells what was sent, DELETE /_requests forgets it.
"""

import argparse
import asyncio
import collections
import ctypes
import email.utils
import gc
import itertools
import json
import os
import pathlib
import signal
import ssl
import time
import urllib.parse

import standin_checks as checks
import standin_message as message_of
from standin_markers import ANSWERS, Script

BODY_MAX = 32 << 20
HEAD_MAX = 1 << 16
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
STATUS_OF = {kind: status for status, kind in KINDS.items()}
MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-2", "claude-sonnet-4-5")
numbers = itertools.count(1)


class Gone(Exception):
    """The client does not listen any more."""


class Dropped(Exception):
    """We break the connection off, as we were told to."""

    def __init__(self, how):
        super().__init__(how)
        self.how = how


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.headers, self.body = method, headers, body
        self.path, _, self.query = target.partition("?")
        self.id = f"req_standin{next(numbers):08d}"
        self.at = time.time()
        self.status, self.state = None, "open"

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise checks.Refused(f"The request body is not valid JSON: {error}") from error

    def shown(self):
        try:
            body = json.loads(self.body) if self.body else None
        except ValueError:
            body = self.body.decode(errors="replace")
        named = ("id", "at", "method", "path", "query", "headers", "status", "state")
        return {name: getattr(self, name) for name in named} | {"body": body}


class Memory:
    """What was sent, the newest `keep` bytes of it."""

    def __init__(self, keep):
        self.keep, self.bytes, self.requests = keep, 0, collections.deque()

    def add(self, request):
        self.requests.append(request)
        self.bytes += len(request.body) + 1000
        while self.bytes > self.keep:
            self.bytes -= len(self.requests.popleft().body) + 1000

    def clear(self):
        self.requests.clear()
        self.bytes = 0

    def find(self, contains):
        wanted = [json.dumps(contains)[1:-1].encode(), contains.encode()]
        return [r.shown() for r in self.requests if any(w in r.body for w in wanted) or contains in r.path]


# -- HTTP


async def read_chunks(reader):
    body = b""
    while (size := int((await reader.readline()).split(b";")[0], 16)) > 0:
        body += await reader.readexactly(size)
        await reader.readline()
        if len(body) > BODY_MAX:
            raise checks.Refused("Request exceeds the maximum size", 413, "request_too_large")
    while (await reader.readline()).strip():
        pass
    return body


async def read_body(reader, writer, headers):
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await read_chunks(reader)
    length = int(headers.get("content-length", "0"))
    if length > BODY_MAX:
        raise checks.Refused("Request exceeds the maximum size", 413, "request_too_large")
    return await reader.readexactly(length)


async def read_request(reader, writer):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    method, target, _ = first.split(" ")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Request(method, target, headers, await read_body(reader, writer, headers))


def head_of(status, kind, extra, request):
    said = {"date": email.utils.formatdate(usegmt=True), "content-type": kind, "x-stand-in": "1"}
    said |= {"request-id": request.id} | extra
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"HTTP/1.1 {status} Stand-In\r\n{lines}\r\n".encode()


class Reply:
    """How a request is answered: whole, or as a stream of events."""

    def __init__(self, request, reader, writer):
        self.request, self.reader, self.writer = request, reader, writer

    def whole(self, status, body, kind="application/json", **extra):
        data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        self.request.status = status
        named = {name.replace("_", "-"): value for name, value in extra.items()}
        head = head_of(status, kind, named | {"content-length": len(data)}, self.request)
        self.writer.write(head if self.request.method == "HEAD" else head + data)

    def error(self, status, kind, text, **extra):
        said = {"type": "error", "error": {"type": kind, "message": text}, "request_id": self.request.id}
        self.whole(status, said, **extra)

    def begin_stream(self):
        self.request.status = 200
        extra = {"cache-control": "no-cache", "transfer-encoding": "chunked"}
        self.writer.write(head_of(200, "text/event-stream; charset=utf-8", extra, self.request))

    def chunk(self, data):
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def flush(self):
        if self.reader.at_eof():
            raise Gone
        await self.writer.drain()

    async def sleep(self, milliseconds):
        """Ends early when the client goes."""
        try:
            await asyncio.wait_for(self.reader.read(1), milliseconds / 1000)
            raise Gone
        except asyncio.TimeoutError:
            return

    async def hang(self):
        await self.reader.read(1)
        raise Gone


# -- POST /v1/messages


def written(event, script):
    end = "\r\n" if script.has("crlf") else "\n"
    if script.has("odd"):  # all of this is allowed, and a parser has to skip it
        data = json.dumps(event)
        return f": a comment{end}event:{event['type']}{end}id: 7{end}data: {data}{end}retry: 10{end}{end}".encode()
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}{end}data: {data}{end}{end}".encode()


async def send_pieces(reply, data, size):
    for i in range(0, len(data), size):
        reply.chunk(data[i : i + size])
        await reply.flush()


async def meet_fault(reply, fault, count, ends=False):
    """Trouble in the midst of a stream, before its event number `count`."""
    if fault is None or fault.name not in ("break", "error-event", "hang"):
        return
    word, options = fault.options()
    if word == "end":
        word = str(count if ends else -1)
    after = int(options.get("after", "2")) if fault.name == "error-event" else int(word or "0")
    if count != after:
        return
    if fault.name == "hang":
        await reply.hang()
    if fault.name == "break":
        raise Dropped(options.get("how", "close"))
    error = {"type": word or "overloaded_error", "message": options.get("message", "from the stand-in")}
    data = json.dumps({"type": "error", "error": error})
    reply.chunk(f"event: error\ndata: {data}\n\n".encode())
    raise Dropped("end")


async def send_stream(reply, message, script, fault):
    reply.begin_stream()
    slow, split = script.number("slow", 0), script.number("split", 0)
    count = 0
    for count, event in enumerate(message_of.events_of(message, script)):
        if slow and count > 0:
            await reply.sleep(slow)
        await meet_fault(reply, fault, count)
        data = written(event, script)
        await send_pieces(reply, data, split or len(data))
    await meet_fault(reply, fault, count + 1, ends=True)
    reply.writer.write(b"0\r\n\r\n")


async def send_whole(reply, message, script, fault):
    if script.has("slow"):
        await reply.sleep(script.number("slow", 0))
    if fault is not None and fault.name == "hang":
        await reply.hang()
    if fault is not None and fault.name == "error-event":
        kind = fault.options()[0] or "overloaded_error"
        return reply.error(STATUS_OF.get(kind, 500), kind, "from the stand-in")
    if fault is not None and fault.name == "break":
        data = json.dumps(message).encode()
        reply.writer.write(head_of(200, "application/json", {"content-length": len(data)}, reply.request))
        reply.writer.write(data[: len(data) // 2])
        raise Dropped(fault.options()[1].get("how", "close"))
    return reply.whole(200, message)


def send_status(reply, fault):
    word, options = fault.options()
    status = int(word)
    named = {"retry-after": "retry_after", "retry-after-ms": "retry_after_ms", "should-retry": "x_should_retry"}
    extra = {named[name]: value for name, value in options.items() if name in named}
    kind = options.get("type", KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error"))
    text = options.get("message", f"{status}, as the stand-in was told to").replace("+", " ")
    reply.error(status, kind, text, **extra)


def send_instead(reply, fault):
    """Trouble instead of an answer; whether that was all."""
    if fault is None or fault.name not in ("status", "garbage", "redirect"):
        return False
    if fault.name == "status":
        send_status(reply, fault)
    elif fault.name == "garbage":
        value = " ".join(word for word in fault.value.split(" ") if not word.startswith("times="))
        reply.whole(200, (value or "<html>no API is here</html>").encode(), "text/html")
    else:
        reply.whole(302, b"", location=fault.options()[0])
    return True


async def post_messages(reply, server):
    body = server.checked(reply.request)
    script = Script(body["messages"])
    if script.has("delay"):
        await reply.sleep(script.number("delay", 0))
    fault = script.fault()
    if send_instead(reply, fault):
        return
    if fault is not None and fault.name == "hang" and not fault.options()[0]:
        await reply.hang()
    message = message_of.make_message(script, body, len(reply.request.body))
    await (send_stream if body.get("stream") else send_whole)(reply, message, script, fault)


async def count_tokens(reply, server):
    server.checked(reply.request, counting=True)
    reply.whole(200, {"input_tokens": len(reply.request.body) // 4 + 1})


# -- the other routes


def model_shown(name):
    return {"type": "model", "id": name, "display_name": f"{name} (stand-in)", "created_at": "2026-01-01T00:00:00Z"}


async def get_models(reply, server):
    checks.check_version(reply.request.headers)
    checks.check_auth(reply.request.headers, server.tokens.is_expired)
    name = reply.request.path.removeprefix("/v1/models").strip("/")
    if not name:
        data = [model_shown(known) for known in MODELS]
        reply.whole(200, {"data": data, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]})
    elif name in MODELS:
        reply.whole(200, model_shown(name))
    else:
        reply.error(404, "not_found_error", f"model: {name}")


class Tokens:
    """OAuth. What is handed out for a refresh token is said by its name: README.md."""

    def __init__(self):
        self.until, self.spent = {}, set()

    def is_expired(self, token):
        return token in self.until and time.monotonic() > self.until[token]

    def renew(self, refresh):
        options = dict(word.split("=", 1) for word in refresh.split("-") if "=" in word)
        life = int(options.get("expires", "3600"))
        access = f"{'stale' if 'stale' in refresh else 'fresh'}-{next(numbers)}-{refresh.split('.')[0]}"
        self.until[access] = time.monotonic() + life
        answer = {"access_token": access, "token_type": "Bearer", "expires_in": life}
        if "rotate" in refresh:
            self.spent.add(refresh)
            answer["refresh_token"] = f"{refresh.split('.')[0]}.{next(numbers)}"
        return answer


async def post_token(reply, server):
    request = reply.request
    if request.headers.get("content-type", "").startswith("application/json"):
        given = request.json()
    else:
        given = dict(urllib.parse.parse_qsl(request.body.decode()))
    refresh = given.get("refresh_token", "")
    if "broken" in refresh:
        reply.whole(500, {"error": "server_error"})
    elif given.get("grant_type") != "refresh_token" or not given.get("client_id"):
        reply.whole(400, {"error": "invalid_request", "error_description": "grant_type, client_id"})
    elif not refresh or "revoked" in refresh or refresh in server.tokens.spent:
        reply.whole(400, {"error": "invalid_grant", "error_description": "the refresh token is not valid"})
    else:
        if "slow" in refresh:
            await reply.sleep(300)
        reply.whole(200, server.tokens.renew(refresh))


async def requests_seen(reply, server):
    query = urllib.parse.parse_qs(reply.request.query)
    if reply.request.method == "DELETE":
        server.memory.clear()
        reply.whole(200, {"success": True})
    else:
        reply.whole(200, server.memory.find(query.get("contains", [""])[0]))


async def anything_else(reply, server):
    if reply.request.method == "HEAD" or (reply.request.method == "GET" and reply.request.path == "/"):
        reply.whole(200, {"stand-in": True, "for": "the Messages API", "see": "tests/standin/README.md"})
    else:
        reply.error(404, "not_found_error", f"Not Found: {reply.request.method} {reply.request.path}")


ROUTES = {
    ("POST", "/v1/messages"): post_messages,
    ("POST", "/v1/messages/count_tokens"): count_tokens,
    ("POST", "/oauth/token"): post_token,
    ("GET", "/_requests"): requests_seen,
    ("DELETE", "/_requests"): requests_seen,
}


def route_of(request):
    if request.method == "GET" and (request.path + "/").startswith("/v1/models/"):
        return get_models
    return ROUTES.get((request.method, request.path), anything_else)


# -- connections


def close_hard(writer):
    """With a reset, not an end."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")  # SOL_SOCKET, SO_LINGER: on, 0 s
    writer.transport.abort()


class Server:
    def __init__(self, keep):
        self.memory, self.tokens = Memory(keep), Tokens()

    def checked(self, request, counting=False):
        checks.check_auth(request.headers, self.tokens.is_expired)
        checks.check_version(request.headers)
        kind = request.headers.get("content-type", "")
        checks.need(kind.startswith("application/json"), "content-type: must be application/json")
        body = request.json()
        checks.check_request(body, counting)
        return body

    async def answer(self, request, reader, writer):
        """Whether the connection may go on."""
        if not request.path.startswith("/_"):
            self.memory.add(request)
        reply = Reply(request, reader, writer)
        try:
            await route_of(request)(reply, self)
        except checks.Refused as refused:
            reply.error(refused.status, refused.kind, str(refused))
        except Dropped as dropped:
            return await self.drop(request, writer, dropped.how)
        await writer.drain()
        request.state = "done"
        return request.headers.get("connection", "").lower() != "close"

    async def drop(self, request, writer, how):
        request.state = "dropped"
        if how == "end":  # HTTP ends as it should, the message does not
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        if how == "reset":
            close_hard(writer)
        return how == "end"

    async def converse(self, reader, writer):
        while True:
            try:
                request = await read_request(reader, writer)
            except checks.Refused as refused:
                Reply(Request("POST", "/", {}, b""), reader, writer).error(refused.status, refused.kind, str(refused))
                return
            try:
                if not await self.answer(request, reader, writer):
                    return
            finally:
                request.state = "client-gone" if request.state == "open" else request.state

    async def connected(self, reader, writer):
        try:
            await self.converse(reader, writer)
        except (Gone, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass
        finally:
            writer.close()


# -- the program


def die_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() == 1:
        raise SystemExit("the parent has gone")


def tls_of(args):
    if not args.cert:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args.cert, args.key)
    return context


async def serve(args):
    server = Server(args.keep)
    listening = await asyncio.start_server(
        server.connected, args.host, args.port, limit=HEAD_MAX, backlog=1024, ssl=tls_of(args)
    )
    port = listening.sockets[0].getsockname()[1]
    print(f"{'https' if args.cert else 'http'}://{args.host}:{port}", flush=True)
    if args.port_file:
        scratch = pathlib.Path(f"{args.port_file}.new")
        scratch.write_text(f"{port}\n")
        scratch.rename(args.port_file)
    await listening.serve_forever()


def main():
    parser = argparse.ArgumentParser(description="A stand-in for the Messages API, for tests.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--port-file", help="where to write the port")
    parser.add_argument("--cert", help="serve TLS with this certificate")
    parser.add_argument("--key", help="and this key")
    parser.add_argument("--keep", type=int, default=64 << 20, help="bytes of requests to remember")
    parser.add_argument("--answers", help="a JSON object: words of a text, and the markers that count for it")
    parser.add_argument("--die-with-parent", action="store_true")
    args = parser.parse_args()
    if args.die_with_parent:
        die_with_parent()
    if args.answers:
        ANSWERS.update(json.loads(pathlib.Path(args.answers).read_text(encoding="utf-8")))
    gc.freeze()
    try:
        asyncio.run(serve(args))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
