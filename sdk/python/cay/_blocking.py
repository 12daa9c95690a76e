# SPDX-License-Identifier: Apache-2.0
"""Blocking connections, for threads."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from typing import IO, Any, AsyncContextManager, Callable, Coroutine, Optional, TypeVar

from ._net import CONNECT_SECONDS, RECEIVE_BYTES, Address, Conn, Net, Pool, is_readable, tune

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Does all of it. Nothing on a BlockingNet suspends, so that the first step is the last."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("this waits for an event loop: a callback that is a coroutine function is for cay.aio")


class BlockingConn(Conn):
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        sock.settimeout(None)  # for good: another thread may be sending while one waits

    async def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    async def recv(self, timeout: Optional[float] = None) -> bytes:
        if timeout is not None and not self._has_more() and not is_readable(self._sock, timeout):
            raise TimeoutError("timed out")
        return self._sock.recv(RECEIVE_BYTES)

    def _has_more(self) -> bool:
        """Of what has come already and is not on the socket any more."""
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0

    def is_stale(self) -> bool:
        return is_readable(self._sock)

    def close(self) -> None:
        self._sock.close()


class BlockingLock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class BlockingNet(Net):
    def __init__(self, address: Address, ssl_context: Optional[ssl.SSLContext] = None) -> None:
        super().__init__(address, ssl_context)
        self._pool = Pool()

    def pool(self) -> Pool:
        return self._pool

    async def connect(self) -> Conn:
        address = self.address
        if address.unix is not None:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.settimeout(CONNECT_SECONDS)
                sock.connect(address.unix)
            except BaseException:
                sock.close()
                raise
            return BlockingConn(sock)
        sock = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
        tune(sock)
        if address.tls:
            try:
                sock = self.ssl_context().wrap_socket(sock, server_hostname=address.host)
            except BaseException:
                sock.close()
                raise
        return BlockingConn(sock)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def lock(self) -> AsyncContextManager[Any]:
        return BlockingLock()

    async def read(self, file: IO[Any], size: int) -> Any:
        return file.read(size)

    async def call(self, callback: Callable[..., Any], *args: Any) -> Any:
        return callback(*args)
