# SPDX-License-Identifier: Apache-2.0
"""Cay: isolated Linux sandboxes.

    import cay

    with cay.get_sandbox() as box:
        print(box.exec("uname -a").stdout)

`cay.aio` is the same for asyncio."""

from . import aio, errors, types
from ._sandbox import AsyncSandbox
from ._sync import Process, Sandbox, Session, Stream, Terminal, get_sandbox, list_sandboxes
from .errors import *  # noqa: F403
from .errors import ConnectionError as ConnectionError
from .errors import FileExistsError as FileExistsError
from .errors import FileNotFoundError as FileNotFoundError
from .errors import TimeoutError as TimeoutError
from .types import *  # noqa: F403

__version__ = "0.1.0"

__all__ = ["AsyncSandbox", "Process", "Sandbox", "Session", "Stream", "Terminal", "aio", "get_sandbox", "list_sandboxes"]
__all__ += errors.__all__
__all__ += types.__all__
