# SPDX-License-Identifier: Apache-2.0
"""Terminals: a shell on a real one, over a WebSocket."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional, Union

from . import _ws
from ._client import backoff
from ._http import Broken
from ._link import Link
from ._settings import absolute, given
from .errors import CayError, ConnectionError, StreamInterruptedError
from .types import Ref, TerminalExit, id_of

MESSAGE_MAX = 128 * 1024  # the server takes twice that


class AsyncTerminal:
    """A terminal that is open: its bytes by recv() or `async for`, send(), resize(), close(). A connection that breaks is
    made again, and goes on behind the last byte that came. Closing it leaves its program running, for the next who opens
    it."""

    def __init__(self, link: Link, query: Dict[str, Any]) -> None:
        self._link, self._query = link, query
        self._conn: Any = None
        self._frames = _ws.FrameReader()
        self._write_lock = link.core.net.lock()
        self._closed = False
        self.session = ""
        self.process = ""  # the id of its process
        self.offset = 0  # of the next byte
        self.exit: Optional[TerminalExit] = None  # how its program ended, when it has

    # -- the connection

    async def _open(self) -> None:
        nonce = _ws.new_nonce()
        headers = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": nonce,
        }
        call = self._link.call("GET", "/terminal", query=self._query, headers=headers)
        exchange = await self._link.open(call)
        if exchange.status != 101 or exchange.headers.get("sec-websocket-accept") != _ws.accept_of(nonce):
            exchange.abandon()
            raise ConnectionError("what is between here and the server does not pass on WebSockets", status=exchange.status)
        self._conn, first = exchange.taken()
        self._frames = _ws.FrameReader(first)

    async def _open_again(self, why: Exception) -> None:
        """Only for one whose program is known; else it might be another one."""
        self._drop()
        for tries in range(self._link.core.retries):
            await self._link.core.net.sleep(backoff(tries))
            try:
                self._query = {**given(readonly=self._query.get("readonly")), "resume": self.process, "offset": self.offset}
                await self._open()
                return
            except (ConnectionError, Broken):
                continue
        raise StreamInterruptedError(f"the terminal's connection broke: {why}", code="STREAM_INTERRUPTED") from why

    def _drop(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = None

    async def _message(self, timeout: Optional[float]) -> _ws.Message:
        while True:
            message = self._frames.next()
            if message is not None:
                return message
            data = await self._conn.recv(timeout)
            if not data:
                raise OSError("the server closed it")
            self._frames.feed(data)

    async def _send_frame(self, kind: int, data: bytes) -> None:
        if self._closed or self._conn is None:
            raise ConnectionError("the terminal is closed", code="CLOSED")
        async with self._write_lock:
            await self._conn.send(_ws.frame(kind, data))

    # -- what comes

    async def start(self) -> None:
        """Connects, and waits until it is there. What it showed before comes with recv()."""
        await self._open()

    def _take(self, message: Mapping[str, Any]) -> None:
        kind = message.get("type")
        if kind == "ready":
            self.session, self.process = message["session"], message["process"]
            self.offset = message["offset"]
        elif kind == "gap":
            self.offset = message["offset"]
        elif kind == "exit":
            self.exit = TerminalExit.read(message)

    async def recv(self, timeout: Optional[float] = None) -> bytes:
        """The next bytes that it shows; none when its program has ended (`exit` says how) or it was closed. TimeoutError
        when none come in so many seconds."""
        while self._conn is not None and self.exit is None and not self._closed:
            try:
                message = await self._message(timeout)
            except (OSError, _ws.ProtocolError) as error:
                if isinstance(error, TimeoutError):
                    raise
                if self._closed:
                    break
                if not self.process:
                    raise ConnectionError(f"the terminal's connection broke: {error}", code="CONNECTION_BROKEN") from error
                await self._open_again(error)
                continue
            if message.kind == _ws.BINARY and message.data:
                self.offset += len(message.data) if self.process else 0  # what is replayed is counted by `ready`
                return message.data
            if message.kind == _ws.TEXT:
                self._take(json.loads(message.data))
            elif message.kind == _ws.PING:
                await self._answer_ping(message.data)
            elif message.kind == _ws.CLOSE:
                await self._closed_by_server(message.data)
        self._drop()
        return b""

    async def _answer_ping(self, data: bytes) -> None:
        try:
            await self._send_frame(_ws.PONG, data)
        except OSError:
            pass  # whoever reads on is told

    async def _closed_by_server(self, data: bytes) -> None:
        if self.exit is not None:
            return
        code = int.from_bytes(data[:2], "big") if len(data) >= 2 else 1005
        why = ConnectionError(f"the server closed the terminal ({code} {data[2:].decode(errors='replace')})", code="CLOSED")
        if not self.process or code not in (1001, 1005, 1006, 1011, 1012, 1013):
            self._drop()
            raise why
        await self._open_again(why)

    def __aiter__(self) -> AsyncTerminal:
        return self

    async def __anext__(self) -> bytes:
        data = await self.recv()
        if not data:
            raise StopAsyncIteration
        return data

    # -- what goes

    async def send(self, data: Union[str, bytes]) -> None:
        """As if it were typed: a command ends with a newline, "\\x03" is Ctrl-C."""
        whole = data.encode() if isinstance(data, str) else data
        for at in range(0, len(whole), MESSAGE_MAX):
            try:
                await self._send_frame(_ws.BINARY, whole[at : at + MESSAGE_MAX])
            except CayError:
                raise
            except OSError as error:
                raise ConnectionError(f"the terminal's connection broke: {error}", code="CONNECTION_BROKEN") from error

    async def resize(self, cols: int, rows: int) -> None:
        await self._send_frame(_ws.TEXT, json.dumps({"type": "resize", "cols": cols, "rows": rows}).encode())

    async def close(self) -> None:
        """Leaves it; its program goes on."""
        if self._conn is not None and not self._closed:
            try:
                await self._send_frame(_ws.CLOSE, (1000).to_bytes(2, "big"))
            except OSError:
                pass
        self._closed = True
        self._drop()

    async def __aenter__(self) -> AsyncTerminal:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Terminals:
    _link: Link

    async def terminal(
        self,
        session: Optional[Ref] = None,
        *,
        cols: int = 80,
        rows: int = 24,
        readonly: bool = False,
        replay: Optional[int] = None,
        shell: Optional[str] = None,
        command: Optional[str] = None,
        cwd: Optional[str] = None,
        user: Optional[str] = None,
    ) -> AsyncTerminal:
        """Opens a terminal. Whoever names the same session sees and types into the same one; without a name it is
        "default".

        replay: how many bytes of the last output come first. shell, command, cwd, user: of a new one."""
        query: Dict[str, Any] = given(
            session=None if session is None else id_of(session),
            cols=cols,
            rows=rows,
            readonly=1 if readonly else None,
            replay=replay,
            shell=shell,
            command=command,
            cwd=None if cwd is None else absolute(cwd),
            user=user,
        )
        opened = AsyncTerminal(self._link, query)
        await opened.start()
        return opened

    async def list_terminals(self) -> "list[Mapping[str, Any]]":
        """Those that run."""
        found: "list[Mapping[str, Any]]" = (await self._link.look("/terminals"))["terminals"]
        return found

    async def delete_terminal(self, session: Ref) -> None:
        """Ends it and all that runs in it."""
        await self._link.json("DELETE", f"/terminals/{id_of(session)}", first=False)

