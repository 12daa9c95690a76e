# SPDX-License-Identifier: Apache-2.0
"""From the server's JSON to dataclasses."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any, Dict, Mapping, Optional, Type, TypeVar

T = TypeVar("T", bound="Answer")

MILLISECONDS = frozenset(["duration", "cpu", "durationMs"])  # there; seconds here
RENAMED = {"durationMs": "duration", "from": "from_offset", "to": "to_offset"}
_names: Dict[type, Dict[str, str]] = {}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _names_of(cls: Any) -> Dict[str, str]:
    """From the server's names to ours."""
    if cls not in _names:
        own = {f.name for f in dataclasses.fields(cls)}
        theirs = {_camel(name): name for name in own}
        theirs.update({key: name for key, name in RENAMED.items() if name in own})
        _names[cls] = theirs
    return _names[cls]


class Answer:
    """What the server says, in fields; what it does not say has its default. `raw` is all of it as it came."""

    raw: Mapping[str, Any]

    @classmethod
    def read(cls: Type[T], body: Mapping[str, Any], **more: Any) -> T:
        names = _names_of(cls)
        for key, value in body.items():
            if key in names:
                more.setdefault(names[key], value / 1000 if key in MILLISECONDS and value is not None else value)
        answer = cls(**more)
        answer.raw = body
        return answer


def decode(data: str, encoding: Optional[str]) -> bytes:
    """The bytes of a piece of output as JSON has it."""
    return base64.b64decode(data) if encoding == "base64" else data.encode()
