# SPDX-License-Identifier: Apache-2.0
"""One request to the server, sent again where that is safe: when nothing was done (503, 429, no connection), and when
the connection broke and either the request does no harm twice or an Idempotency-Key keeps it from being done twice."""

from __future__ import annotations

import json
import os
import random
import secrets
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Mapping, Optional, Union
from urllib.parse import quote

from ._http import Body, Broken, Exchange, head_of, length_of
from ._net import Net
from .errors import CayError, ConnectionError, error_of

DEFAULT_URL = "http://127.0.0.1:8787"
RETRIES = 5
FIRST_WAIT = 0.1
LONGEST_WAIT = 10.0
ASKED_WAIT_MAX = 30.0  # a server that wants more patience than that is an error

Query = Mapping[str, Union[str, int, bool, None]]


def new_key() -> str:
    """Something that nobody else has."""
    return secrets.token_hex(16)


def backoff(tries: int, least: Optional[float] = None) -> float:
    """How long to wait before the try after `tries` that failed: longer each time, and not all at once."""
    grown = min(LONGEST_WAIT, FIRST_WAIT * 2.0**tries)
    return max(grown, least or 0.0) + random.random() * grown


@dataclass
class Call:
    """What is asked."""

    method: str
    path: str  # encoded
    query: Query = field(default_factory=dict)
    json: Any = None
    body: Body = None  # instead of JSON
    headers: Dict[str, str] = field(default_factory=dict)
    key: Optional[str] = None  # the server does the call once, however often it comes with this key
    # Whether it does no harm twice; None: all but POST. False: nor may it be sent again after a 503.
    repeatable: Optional[bool] = None
    any_status: bool = False  # whoever reads the answer looks at its status, too

    def target(self) -> str:
        given = [
            f"{name}={quote(str(int(value) if isinstance(value, bool) else value), safe='')}"
            for name, value in self.query.items()
            if value is not None
        ]
        return f"{self.path}?{'&'.join(given)}" if given else self.path

    def may_repeat(self) -> bool:
        if self.repeatable is not None:
            return self.repeatable
        return self.key is not None or self.method != "POST"


class Rewind:
    """The body of a call that may have to be sent again."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self._start: Optional[int] = None
        if body is not None and not isinstance(body, bytes):
            seekable = getattr(body, "seekable", lambda: False)
            self._start = body.tell() if seekable() else None

    def possible(self) -> bool:
        return self.body is None or isinstance(self.body, bytes) or self._start is not None

    def back(self) -> None:
        if self._start is not None and self.body is not None and not isinstance(self.body, bytes):
            self.body.seek(self._start)


def default_url() -> str:
    return os.environ.get("CAY_URL") or DEFAULT_URL


class Core:
    """A server, and the way to it."""

    def __init__(self, net: Net, token: Optional[str], retries: int) -> None:
        self.net = net
        self.retries = retries
        self.url = net.address.url
        self._headers = {"Host": net.address.host_header, "User-Agent": "cay-python/0.1"}
        if token is not None and net.address.unix is None:
            self._headers["Authorization"] = f"Bearer {token}"

    def key(self) -> Optional[str]:
        """For a call that shall be done once. Without retries there is none: then a command whose client goes ends."""
        return new_key() if self.retries > 0 else None

    # -- one try

    async def _begin(self, call: Call, rewind: Rewind) -> Exchange:
        """Sends it and reads the head of its answer."""
        body, length = rewind.body, None
        headers = {**self._headers, **call.headers}
        if call.key is not None:
            headers["Idempotency-Key"] = call.key
        if call.json is not None:
            body = json.dumps(call.json, ensure_ascii=False, separators=(",", ":")).encode()
            headers["Content-Type"] = "application/json"
        if isinstance(body, bytes):
            headers["Content-Length"] = str(len(body))
        elif body is not None:
            length = length_of(body)
            headers.update({"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)})
        elif call.method in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = "0"
        head = head_of(call.method, self.net.address.prefix + call.target(), headers)
        exchange = Exchange(self.net, await self.connect())
        try:
            await exchange.send(head, body, length)
            await exchange.head()
        except BaseException:
            exchange.abandon()
            raise
        return exchange

    async def connect(self) -> Any:
        conn = self.net.pool().take()
        if conn is not None:
            return conn
        try:
            return await self.net.connect()
        except OSError as error:
            raise Broken(str(error), sent=False) from error

    def _unreachable(self, broken: Broken) -> ConnectionError:
        if broken.sent:
            return ConnectionError(f"no answer from {self.url}: {broken}", code="CONNECTION_BROKEN")
        hint = "is the server there? `cay serve` starts one, and CAY_URL or url= says where it is"
        return ConnectionError(f"no connection to {self.url}: {broken}: {hint}", code="CONNECTION_FAILED")

    # -- as many as it takes

    async def send(self, call: Call, read: Callable[[Exchange], Any]) -> Any:
        """Sends it, and has the coroutine function `read` make something of the answer. What breaks while that is read is
        sent again, too."""
        rewind = Rewind(call.body)
        tries, unsure = 0, False
        while True:
            error: CayError
            try:
                exchange = await self._begin(call, rewind)
                if exchange.status < 300 or call.any_status:
                    try:
                        return await read(exchange)
                    except BaseException:
                        exchange.abandon()
                        raise
                try:
                    error = failure(call, exchange, await exchange.read())
                finally:
                    exchange.abandon()
            except Broken as broken:
                error = self._unreachable(broken)
                error.__cause__ = broken.__cause__
            if unsure and call.method == "DELETE" and error.status == 404:
                return {}  # it was the try before that did it
            unsure = unsure or error.code == "CONNECTION_BROKEN"
            if not rewind.possible() or not self._may_try_again(call, error, tries):
                raise error
            if error.code == "REQUEST_IN_PROGRESS":
                tries = 0  # the server is there, and at it
            await self.net.sleep(backoff(tries, error.retry_after))
            tries += 1
            rewind.back()

    def _may_try_again(self, call: Call, error: CayError, tries: int) -> bool:
        if error.code == "REQUEST_IN_PROGRESS":
            return call.key is not None
        if tries >= self.retries or (error.retry_after or 0) > ASKED_WAIT_MAX:
            return False
        if error.code in ("CONNECTION_FAILED", "RATE_LIMITED"):
            return True  # nothing was done
        if error.code in ("UNAVAILABLE", "STORE_UNAVAILABLE"):
            return call.repeatable is not False
        return error.code == "CONNECTION_BROKEN" and call.may_repeat()

    async def json(self, call: Call) -> Any:
        return await self.send(call, _read_json)

    async def bytes(self, call: Call) -> bytes:
        data: bytes = await self.send(call, _read_bytes)
        return data

    async def open(self, call: Call) -> Exchange:
        """The answer without its body, which whoever asked reads himself."""
        exchange: Exchange = await self.send(call, _read_nothing)
        return exchange


def failure(call: Call, exchange: Exchange, text: bytes) -> CayError:
    """What an answer that is none tells."""
    try:
        body = json.loads(text)
    except ValueError:
        body = None  # a proxy's page, perhaps
    return error_of(exchange.status, exchange.headers, body, text.decode(errors="replace"), call.path)


async def _read_json(exchange: Exchange) -> Any:
    text = await exchange.read()
    try:
        return json.loads(text)
    except ValueError:
        what = text[:200].decode(errors="replace")
        raise CayError(f"that is no answer of Cay: is its address right? {what}", status=exchange.status, code="NOT_JSON") from None


async def _read_bytes(exchange: Exchange) -> bytes:
    return await exchange.read()


async def _read_nothing(exchange: Exchange) -> Exchange:
    return exchange
