# SPDX-License-Identifier: Apache-2.0
"""Streams that outlive their connections. One that breaks is gone on with behind the last event that came; where that
cannot be done it ends with an error, never as if it were complete."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any, Awaitable, Callable, Generic, List, Optional, Type, TypeVar, Union

from ._client import Call, Core, backoff
from ._http import Broken, Exchange
from ._sse import EventReader, ServerEvent
from .errors import CayError, StreamInterruptedError

T = TypeVar("T")
S = TypeVar("S", bound="AsyncStream[Any]")

QUIET_SECONDS = 75.0  # a stream says something every 15


def named(name: str) -> Callable[[ServerEvent], bool]:
    return lambda event: event.name == name


class Follower:
    """The events of an answer until one of the last ones, over as many connections as it takes."""

    def __init__(
        self,
        core: Core,
        call: Call,
        open_stream: Callable[[Call], Awaitable[Exchange]],
        *,
        last: Callable[[ServerEvent], bool],
        what: str,
        resumable: bool = True,
    ) -> None:
        call.headers["Accept"] = "text/event-stream"
        self._core, self._call, self._open_stream = core, call, open_stream
        self._last, self._what, self._resumable = last, what, resumable
        self._exchange: Optional[Exchange] = None
        self._reader = EventReader()
        self._waiting: List[ServerEvent] = []
        self._begun = False
        self._broken = 0  # in a row, without an event in between
        self.ended = False

    async def next(self, timeout: Optional[float] = None) -> Optional[ServerEvent]:
        """The next event; None behind the last one. TimeoutError when none comes in that many seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.ended:
            if self._waiting:
                return self._tell(self._waiting.pop(0))
            if end is not None and time.monotonic() >= end:
                raise TimeoutError()
            await self._more(end)
        return None

    def _tell(self, event: ServerEvent) -> ServerEvent:
        self._begun, self._broken = True, 0
        if event.id is not None:
            self._call.headers["Last-Event-ID"] = event.id
        if self._last(event):
            self.close()
        return event

    async def _more(self, end: Optional[float]) -> None:
        why: Optional[Exception] = None
        try:
            if self._exchange is None:
                self._reader = EventReader()
                self._exchange = await self._open_stream(self._call)
            quiet = QUIET_SECONDS if end is None else min(QUIET_SECONDS, max(end - time.monotonic(), 0.001))
            piece = await self._exchange.piece(quiet)
            if piece:
                self._waiting = list(self._reader.feed(piece))
                return
        except Broken as broken:
            if end is not None and time.monotonic() >= end:
                raise TimeoutError() from None  # it may have been that alone
            why = broken
        except CayError as error:
            self.close()  # it was tried several times already
            if not self._begun:
                raise
            raise self._interrupted(error) from error
        self._let_go()
        if not self._resumable or self._broken >= self._core.retries:
            raise self._interrupted(why) from why
        await self._core.net.sleep(backoff(self._broken))
        self._broken += 1

    def _interrupted(self, why: Optional[Exception]) -> StreamInterruptedError:
        self.close()
        reason = str(why) if why is not None else "the server ended it"
        text = f"{self._what} is not complete, and cannot be gone on with: {reason}"
        return StreamInterruptedError(text, code="STREAM_INTERRUPTED")

    def _let_go(self) -> None:
        if self._exchange is not None:
            self._exchange.abandon()
        self._exchange = None

    def close(self) -> None:
        self.ended = True
        self._let_go()


class Replay:
    """The events of something that tells all of them when it is over."""

    def __init__(self, work: Callable[[], Awaitable[List[ServerEvent]]]) -> None:
        self._work: Optional[Callable[[], Awaitable[List[ServerEvent]]]] = work
        self._waiting: List[ServerEvent] = []
        self.ended = False

    async def next(self, timeout: Optional[float] = None) -> Optional[ServerEvent]:
        if self._work is not None and not self.ended:
            work, self._work = self._work, None
            self._waiting = await work()
        if not self._waiting:
            self.ended = True
        return self._waiting.pop(0) if self._waiting else None

    def close(self) -> None:
        self.ended, self._waiting = True, []


class AsyncStream(Generic[T]):
    """Events, for `async for`. `async with`, or aclose(), ends it early; so does leaving the loop for good, a little
    later. What it tells of goes on, unless the method that made it says otherwise."""

    def __init__(
        self,
        follower: Union[Follower, Replay],
        read: Callable[[ServerEvent], Optional[T]],
        on_leave: Optional[Callable[[], Awaitable[None]]] = None,
    ) -> None:
        self._follower, self._read, self._on_leave = follower, read, on_leave

    def __aiter__(self: S) -> S:
        return self

    async def __anext__(self) -> T:
        return await self.within(None)

    async def within(self, timeout: Optional[float]) -> T:
        """The next one, if it comes in so many seconds; else TimeoutError."""
        while True:
            event = await self._follower.next(timeout)
            if event is None:
                raise StopAsyncIteration
            value = self._read(event)
            if value is not None:
                return value

    async def aclose(self) -> None:
        left_early = not self._follower.ended
        self._follower.close()
        if left_early and self._on_leave is not None:
            await self._on_leave()

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if self._follower.ended:
            return
        try:
            asyncio.get_running_loop().create_task(self.aclose())
        except RuntimeError:  # there is no loop any more
            self._follower.close()
