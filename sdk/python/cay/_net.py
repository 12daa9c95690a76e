# SPDX-License-Identifier: Apache-2.0
"""Connections, and where they lead. All that is above this is written once, as coroutines that ask a `Net` for
whatever takes time. On `AsyncioNet` these wait in the event loop; on `BlockingNet` they block and never suspend, so that
`run()` drives such a coroutine to its end with a single step."""

from __future__ import annotations

import math
import os
import select
import socket
import ssl
import sys
import time
from dataclasses import dataclass
from typing import IO, Any, AsyncContextManager, Callable, List, Optional, TypeVar
from urllib.parse import unquote, urlsplit

T = TypeVar("T")

CONNECT_SECONDS = 10.0
IDLE_SECONDS = 60.0  # the server closes what was idle for 75
IDLE_MAX = 16  # connections that are kept for later
RECEIVE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Address:
    """Of a server: http://HOST:PORT, https://..., with a path in front of the API's if need be; or unix:///PATH."""

    url: str
    host: str
    port: int
    tls: bool
    prefix: str
    unix: Optional[str]

    @classmethod
    def of(cls, url: str) -> Address:
        parts = urlsplit(url)
        if parts.scheme == "unix":
            path = unquote(parts.path)
            if not path.startswith("/") or parts.netloc:
                raise ValueError(f"url: '{url}' is no path of a socket, such as unix:///var/lib/cay/cay.sock")
            return cls(url, "cay", 0, False, "", path)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise ValueError(f"url: '{url}' is none of a server, such as http://127.0.0.1:8787")
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        return cls(url.rstrip("/"), parts.hostname, port, tls, parts.path.rstrip("/"), None)

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.unix is not None or self.port == (443 if self.tls else 80)
        return host if usual else f"{host}:{self.port}"


def tune(sock: socket.socket) -> None:
    """Requests go out at once, and the end of a server that vanished is noticed also while nothing is sent."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)


def is_readable(sock: socket.socket, timeout: float = 0.0) -> bool:
    """Whether something comes, or the end. Where nothing is due, such a connection is of no use any more."""
    if not hasattr(select, "poll"):
        return bool(select.select([sock], [], [], timeout)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(math.ceil(timeout * 1000)))


class Conn:
    """One connection. `idle_since` counts while it is in a pool."""

    idle_since = 0.0

    async def send(self, data: bytes) -> None:
        raise NotImplementedError

    async def recv(self, timeout: Optional[float] = None) -> bytes:
        """Some bytes; none at the end. TimeoutError when nothing comes."""
        raise NotImplementedError

    def is_stale(self) -> bool:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # half-made, or the interpreter is at its end
            pass


class Pool:
    """Connections between requests. A process that was forked has none of its parent's."""

    def __init__(self) -> None:
        self._idle: List[Conn] = []
        self._pid = os.getpid()

    def take(self) -> Optional[Conn]:
        if self._pid != os.getpid():
            self._idle, self._pid = [], os.getpid()
        while True:
            try:
                conn = self._idle.pop()  # the one that was used last; pop and append need no lock
            except IndexError:
                return None
            if time.monotonic() - conn.idle_since < IDLE_SECONDS and not conn.is_stale():
                return conn
            conn.close()

    def give(self, conn: Conn) -> None:
        if len(self._idle) >= IDLE_MAX or self._pid != os.getpid():
            conn.close()
            return
        conn.idle_since = time.monotonic()
        self._idle.append(conn)

    def close(self) -> None:
        idle, self._idle = self._idle, []
        for conn in idle:
            conn.close()


class Net:
    """What takes time."""

    def __init__(self, address: Address, ssl_context: Optional[ssl.SSLContext] = None) -> None:
        self.address = address
        self._ssl = ssl_context

    def ssl_context(self) -> ssl.SSLContext:
        if self._ssl is None:
            self._ssl = ssl.create_default_context()
        return self._ssl

    def pool(self) -> Pool:
        raise NotImplementedError

    async def connect(self) -> Conn:
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def lock(self) -> AsyncContextManager[Any]:
        """A new lock, for whoever uses this net."""
        raise NotImplementedError

    async def read(self, file: IO[Any], size: int) -> Any:
        """Of a file of this machine."""
        raise NotImplementedError

    async def call(self, callback: Callable[..., Any], *args: Any) -> Any:
        """A callback of the user's, which may be a coroutine function where there is an event loop."""
        raise NotImplementedError

    def close(self) -> None:
        self.pool().close()
