# SPDX-License-Identifier: Apache-2.0
"""Server-sent events out of pieces of bytes that end anywhere."""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Optional


class ServerEvent(NamedTuple):
    id: Optional[str]
    name: str
    data: str


class EventReader:
    def __init__(self) -> None:
        self._pending: List[bytes] = []  # of a line that has not ended
        self._id: Optional[str] = None
        self._name = "message"
        self._data: List[str] = []

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        *lines, rest = piece.split(b"\n")
        for line in lines:
            if self._pending:
                line = b"".join(self._pending) + line
                self._pending = []
            event = self._line(line.rstrip(b"\r").decode())
            if event is not None:
                yield event
        if rest:
            self._pending.append(rest)

    def _line(self, line: str) -> Optional[ServerEvent]:
        if not line:
            event = ServerEvent(self._id, self._name, "\n".join(self._data)) if self._data else None
            self._id, self._name, self._data = None, "message", []
            return event
        name, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id":
            self._id = value
        return None  # a comment, which begins with a colon, has no name
