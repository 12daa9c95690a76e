# SPDX-License-Identifier: Apache-2.0
"""What a sandbox can be made with, in the server's names; and what people write in several ways, in one."""

from __future__ import annotations

import posixpath
import re
from datetime import timedelta
from typing import Any, Dict, Mapping, Optional, Union
from urllib.parse import quote

from .types import Duration

# Can be changed at any time.
CHANGEABLE = (
    "memory disk pids cpus env labels sleepAfter keepAlive network secrets languages sharedZygote durable sync "
    "archiveAfter destroyAfter budget"
).split()
# Stay what they were when it was made. All others say how a new one begins, and nothing of one that is there.
FIXED = ("image", "ephemeral", "userId")

HOME = "/workspace"  # where commands begin, and paths without a slash in front

ID = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")


def check_id(id: str) -> str:
    if not ID.fullmatch(id):
        raise ValueError(
            f"{id!r} is no id of a sandbox: 1 to 128 letters, digits, '.', '_' and '-', with a letter or digit at both ends"
        )
    return id


class Unset:
    """Not given, where None means something."""

    def __repr__(self) -> str:
        return "..."


UNSET = Unset()


def given(**fields: Any) -> Dict[str, Any]:
    """Those that were given."""
    return {name: value for name, value in fields.items() if value is not None and not isinstance(value, Unset)}


def milliseconds(value: Optional[Duration]) -> Union[int, str, None]:
    """As `timeout` is told to the server."""
    if value is None or isinstance(value, str):
        return value
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds < 0:
        raise ValueError(f"a time of {seconds} seconds")
    return max(1, round(seconds * 1000))  # 0 would be no limit at all


def seconds(value: Any) -> Any:
    """As `sleepAfter` and its kin are told to the server."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def in_seconds(value: Duration) -> float:
    """For waiting on this side."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", value)
    if match is None:
        raise ValueError(f"{value!r} is no time such as 1.5, '500ms', '30s' or '2m'")
    return float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


def texts(env: Optional[Mapping[str, Any]]) -> Optional[Dict[str, str]]:
    """Variables; numbers are what they look like."""
    return None if env is None else {name: str(value) for name, value in env.items() if value is not None}


def absolute(path: str) -> str:
    """The one way in which the server takes a path: without '.', '..', '//' and a slash at its end."""
    if not path or "\0" in path:
        raise ValueError(f"{path!r} is no path")
    whole = posixpath.normpath(posixpath.join(HOME, path))
    return "/" + whole.lstrip("/")  # POSIX leaves two slashes in front as they are


def encoded(path: str) -> str:
    """As a part of a URL, behind /files."""
    return "" if path == "/" else quote(path, safe="/")
