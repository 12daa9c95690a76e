# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 on one connection: a request goes out in one write, an answer comes back whole or in pieces."""

from __future__ import annotations

import io
from typing import IO, Any, Dict, Mapping, Optional, Union

from ._net import Conn, Net

HEAD_MAX = 64 * 1024
PIECE = 256 * 1024

Body = Union[bytes, IO[Any], None]


class Broken(Exception):
    """The connection is of no use any more. `sent`: whether the server may have seen the request."""

    def __init__(self, why: str, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


def _check_text(text: str) -> str:
    if "\r" in text or "\n" in text or "\0" in text:
        raise ValueError(f"a line's end in {text[:80]!r}")
    return text


def head_of(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {_check_text(value)}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def length_of(body: IO[Any]) -> Optional[int]:
    """What is left of a file; None when it cannot tell, or counts characters."""
    if isinstance(body, io.TextIOBase) or not hasattr(body, "seekable") or not body.seekable():
        return None
    here = body.tell()
    end = body.seek(0, io.SEEK_END)
    body.seek(here)
    return max(end - here, 0)


class Exchange:
    """One request and its answer. Whoever has read all of the answer gives the connection back."""

    def __init__(self, net: Net, conn: Conn) -> None:
        self._net, self._conn = net, conn
        self._buffer = b""
        self._open = True
        self._left = 0  # bytes of the body, or of its chunk
        self._chunked = False
        self._within = False  # a chunk, whose end has not been read
        self._trailing = False  # behind the last chunk
        self._to_end = False  # the body ends with the connection
        self._keep = True
        self.status = 0
        self.reason = ""
        self.headers: Dict[str, str] = {}

    # -- the request

    async def send(self, head: bytes, body: Body, length: Optional[int]) -> None:
        """`length` of a file; None: in chunks."""
        try:
            if body is None or isinstance(body, bytes):
                await self._conn.send(head + body if body else head)
            else:
                await self._conn.send(head)
                await self._send_file(body, length)
        except OSError as error:
            await self._hear_why(error)

    async def _send_file(self, file: IO[Any], length: Optional[int]) -> None:
        left = length
        while left is None or left > 0:
            piece = await self._net.read(file, PIECE if left is None else min(PIECE, left))
            piece = piece.encode() if isinstance(piece, str) else piece
            if not piece:
                break
            if left is None:
                piece = b"%x\r\n%b\r\n" % (len(piece), piece)
            else:
                left -= len(piece)
            await self._conn.send(piece)
        if length is None:
            await self._conn.send(b"0\r\n\r\n")
        elif left:
            raise Broken("the file became shorter while it was sent", sent=True)

    async def _hear_why(self, error: OSError) -> None:
        """A server that refuses a body may answer and close before all of it was sent."""
        try:
            self._buffer = await self._conn.recv(1.0)
        except OSError:
            pass
        if not self._buffer:
            raise Broken(str(error) or type(error).__name__, sent=True) from error
        self._keep = False

    # -- the answer

    async def _more(self, timeout: Optional[float] = None) -> bytes:
        try:
            data = await self._conn.recv(timeout)
        except OSError as error:
            raise Broken(str(error) or "nothing came for too long", sent=True) from error
        if not data:
            raise Broken("the server closed the connection", sent=True)
        return data

    async def head(self, timeout: Optional[float] = None) -> None:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > HEAD_MAX:
                    raise Broken("the answer has no end of its head", sent=True)
                self._buffer += await self._more(timeout)
                continue
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            self._parse(head.decode("latin-1"))
            if self.status >= 200 or self.status == 101:
                return

    def _parse(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        version, _, rest = first.partition(" ")
        code, _, self.reason = rest.partition(" ")
        if not version.startswith("HTTP/1.") or not code.isdigit():
            raise Broken(f"this is no HTTP server: {first[:80]!r}", sent=True)
        self.status = int(code)
        headers: Dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        self.headers = headers
        if self.status < 200:
            return  # there is another one behind it
        if headers.get("connection", "").lower() == "close" or version == "HTTP/1.0":
            self._keep = False
        if headers.get("transfer-encoding", "").lower() == "chunked":
            self._chunked = True
        elif "content-length" in headers:
            self._left = int(headers["content-length"])
        elif self.status not in (204, 304):
            self._to_end = True

    async def read(self, timeout: Optional[float] = None) -> bytes:
        """All of the body."""
        first = await self.piece(timeout)
        if not self._open:  # the usual case
            return first
        pieces = [first]
        while pieces[-1]:
            pieces.append(await self.piece(timeout))
        return b"".join(pieces)

    async def piece(self, timeout: Optional[float] = None) -> bytes:
        """Some of the body; none at its end. A body that is cut short is Broken."""
        if self._to_end:
            return await self._until_end(timeout)
        if self._chunked and self._left == 0:
            await self._next_chunk(timeout)
        if not self._open or (self._left == 0 and not self._chunked):
            self.done()
            return b""
        data = self._buffer or await self._more(timeout)
        piece, self._buffer = data[: self._left], data[self._left :]
        self._left -= len(piece)
        if self._left == 0 and not self._chunked:
            self.done()
        return piece

    async def _until_end(self, timeout: Optional[float]) -> bytes:
        self._keep = False
        data, self._buffer = self._buffer, b""
        try:
            data = data or (await self._conn.recv(timeout) if self._open else b"")
        except OSError as error:
            raise Broken(str(error), sent=True) from error
        if not data:
            self.done()
        return data

    async def _line(self, timeout: Optional[float]) -> bytes:
        while True:
            end = self._buffer.find(b"\r\n")
            if end >= 0:
                line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
                return line
            if len(self._buffer) > HEAD_MAX:
                raise Broken("a chunk without a length", sent=True)
            self._buffer += await self._more(timeout)

    async def _next_chunk(self, timeout: Optional[float]) -> None:
        """Each line that was read is told at once: who waited too long for the next one, or was cancelled, may go on."""
        if not self._open:
            return
        if self._within:
            await self._line(timeout)  # the end of the one before
            self._within = False
        if not self._trailing:
            size = (await self._line(timeout)).split(b";")[0].strip()
            try:
                self._left = int(size, 16)
            except ValueError:
                raise Broken(f"a chunk of length {size[:20]!r}", sent=True) from None
            self._within, self._trailing = self._left > 0, self._left == 0
        if self._trailing:
            while await self._line(timeout):
                pass  # trailers
            self.done()

    # -- the end

    def done(self) -> None:
        """The answer is whole: the connection can be used again."""
        if self._open and self._keep and not self._buffer:
            self._net.pool().give(self._conn)
        elif self._open:
            self._conn.close()
        self._open = False

    def abandon(self) -> None:
        """The rest of the answer is not wanted."""
        if self._open:
            self._conn.close()
        self._open = False

    def taken(self) -> "tuple[Conn, bytes]":
        """The connection, for another protocol, and what has come of that already."""
        self._open = False
        return self._conn, self._buffer
