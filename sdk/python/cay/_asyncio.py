# SPDX-License-Identifier: Apache-2.0
"""Connections of an event loop. Without TLS they are bare sockets, which can be closed also when their loop is gone."""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
import weakref
from typing import IO, Any, AsyncContextManager, Callable, Optional

from ._net import CONNECT_SECONDS, RECEIVE_BYTES, Address, Conn, Net, Pool, is_readable, tune


class SocketConn(Conn):
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def recv(self, timeout: Optional[float] = None) -> bytes:
        work = asyncio.get_running_loop().sock_recv(self._sock, RECEIVE_BYTES)
        if timeout is None:
            return await work
        try:
            return await asyncio.wait_for(work, timeout)
        except asyncio.TimeoutError:
            raise TimeoutError() from None

    def is_stale(self) -> bool:
        return is_readable(self._sock)

    def close(self) -> None:
        self._sock.close()


class StreamConn(Conn):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def recv(self, timeout: Optional[float] = None) -> bytes:
        try:
            return await asyncio.wait_for(self._reader.read(RECEIVE_BYTES), timeout)
        except asyncio.TimeoutError:
            raise TimeoutError() from None

    def is_stale(self) -> bool:
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()


class LoopLock:
    """An asyncio.Lock that may be made outside of a loop, and used in one after the other."""

    def __init__(self) -> None:
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()

    def _lock(self) -> asyncio.Lock:
        loop = asyncio.get_running_loop()
        if loop not in self._locks:
            self._locks[loop] = asyncio.Lock()
        return self._locks[loop]

    async def __aenter__(self) -> None:
        await self._lock().acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock().release()


class AsyncioNet(Net):
    def __init__(self, address: Address, ssl_context: Optional[ssl.SSLContext] = None) -> None:
        super().__init__(address, ssl_context)
        self._pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = weakref.WeakKeyDictionary()

    def pool(self) -> Pool:
        loop = asyncio.get_running_loop()
        if loop not in self._pools:
            self._pools[loop] = Pool()
        return self._pools[loop]

    async def connect(self) -> Conn:
        try:
            return await asyncio.wait_for(self._connect(), CONNECT_SECONDS)
        except asyncio.TimeoutError:
            raise TimeoutError("timed out") from None

    async def _connect(self) -> Conn:
        address = self.address
        if address.unix is not None:
            return await self._connect_to(socket.AF_UNIX, address.unix)
        if address.tls:
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=self.ssl_context())
            tune(writer.get_extra_info("socket"))
            return StreamConn(reader, writer)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        for i, (family, _, _, _, where) in enumerate(found):
            try:
                return await self._connect_to(family, where)
            except OSError:
                if i + 1 == len(found):
                    raise
        raise OSError(f"'{address.host}' has no address")

    async def _connect_to(self, family: int, where: Any) -> Conn:
        sock = socket.socket(family)
        try:
            sock.setblocking(False)
            await asyncio.get_running_loop().sock_connect(sock, where)
            tune(sock)
        except BaseException:
            sock.close()
            raise
        return SocketConn(sock)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def lock(self) -> AsyncContextManager[Any]:
        return LoopLock()

    async def read(self, file: IO[Any], size: int) -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, file.read, size)

    async def call(self, callback: Callable[..., Any], *args: Any) -> Any:
        result = callback(*args)
        return await result if inspect.isawaitable(result) else result
