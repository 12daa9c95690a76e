# SPDX-License-Identifier: Apache-2.0
"""Cay for asyncio: the names of `cay`, with coroutines for methods.

    async with cay.aio.get_sandbox() as box:
        print((await box.exec("uname -a")).stdout)
"""

from ._commands import AsyncSession as Session
from ._files import AsyncPieces as Pieces
from ._processes import AsyncProcess as Process
from ._sandbox import AsyncSandbox as Sandbox
from ._sandbox import get_sandbox, list_sandboxes
from ._stream import AsyncStream as Stream
from ._terminal import AsyncTerminal as Terminal

__all__ = ["Pieces", "Process", "Sandbox", "Session", "Stream", "Terminal", "get_sandbox", "list_sandboxes"]
