# SPDX-License-Identifier: Apache-2.0
"""Frames of a WebSocket (RFC 6455), a client's, without extensions."""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from typing import NamedTuple, Optional

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class ProtocolError(Exception):
    pass


class Message(NamedTuple):
    kind: int
    data: bytes


def new_nonce() -> str:
    return base64.b64encode(os.urandom(16)).decode()


def accept_of(nonce: str) -> str:
    return base64.b64encode(hashlib.sha1(nonce.encode() + MAGIC).digest()).decode()


def _masked(data: bytes, mask: bytes) -> bytes:
    n = len(data)
    key = int.from_bytes((mask * (n // 4 + 1))[:n], "big")
    return (int.from_bytes(data, "big") ^ key).to_bytes(n, "big")


def frame(kind: int, data: bytes) -> bytes:
    n = len(data)
    if n < 126:
        head = bytes([0x80 | kind, 0x80 | n])
    elif n < 65536:
        head = bytes([0x80 | kind, 0x80 | 126]) + struct.pack("!H", n)
    else:
        head = bytes([0x80 | kind, 0x80 | 127]) + struct.pack("!Q", n)
    mask = os.urandom(4)
    return head + mask + _masked(data, mask)


class FrameReader:
    """Messages out of pieces of bytes that end anywhere."""

    def __init__(self, first: bytes = b"") -> None:
        self._buffer = bytearray(first)
        self._kind = 0
        self._parts = bytearray()

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> Optional[Message]:
        """None when more bytes are needed."""
        while True:
            frame = self._frame()
            if frame is None:
                return None
            first, data = frame
            kind, is_last = first & 0x0F, bool(first & 0x80)
            if kind >= CLOSE:
                return Message(kind, data)
            if (kind == CONTINUATION) != bool(self._kind):
                raise ProtocolError("a message within another")
            self._kind = self._kind or kind
            self._parts += data
            if is_last:
                message = Message(self._kind, bytes(self._parts))
                self._kind, self._parts = 0, bytearray()
                return message

    def _frame(self) -> "Optional[tuple[int, bytes]]":
        have = self._buffer
        if len(have) < 2:
            return None
        at, n = 2, have[1] & 0x7F
        if have[0] & 0x70 or have[1] & 0x80:
            raise ProtocolError("a frame of an extension, or a masked one")
        if n >= 126:
            at, form = (4, "!H") if n == 126 else (10, "!Q")
            if len(have) < at:
                return None
            (n,) = struct.unpack(form, have[2:at])
        if len(have) < at + n:
            return None
        first, data = have[0], bytes(have[at : at + n])
        del have[: at + n]
        return first, data
