# SPDX-License-Identifier: Apache-2.0
"""The event loop of the context: cells that await run in it, and so do the tasks that they leave behind, while a later
cell awaits and between cells."""

from cay_kernel.own import BUILTINS as __builtins__

import sys
import warnings

_loop = None
_asyncio = None


def _module():
    global _asyncio
    if _asyncio is None:
        import asyncio

        _asyncio = asyncio
    return _asyncio


def _get():
    """The loop that asyncio.get_event_loop() gave an earlier cell, or a new one that stays."""
    global _loop
    asyncio = _module()
    if _loop is None or _loop.is_closed():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _loop = asyncio.get_event_loop_policy().get_event_loop()
        except Exception:
            _loop = None
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
    asyncio.set_event_loop(_loop)
    return _loop


def offer():
    """asyncio.run() takes the current loop away when it ends: a cell that asks for it gets ours again."""
    if _loop is not None and not _loop.is_closed():
        _module().set_event_loop(_loop)


def run(coroutine):
    loop = _get()
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        _cancel(loop, task)
        raise


def _cancel(loop, task):
    """The cell's own task ends here; others go on."""
    if task.done():
        return
    task.cancel()
    try:
        loop.run_until_complete(task)
    except _module().CancelledError:
        pass
    except Exception:
        pass  # what it raised while it was cancelled is not why it ended


def run_within(code, namespace):
    """Code that asks for the running loop, without an await of its own."""

    async def body():
        return eval(code, namespace)

    return run(body())


def run_until_readable(fd):
    """Between cells: tasks go on until the daemon has something to say."""
    loop = _loop
    if loop is None or loop.is_closed() or loop.is_running() or not _module().all_tasks(loop):
        return
    came = loop.create_future()
    loop.add_reader(fd, lambda: came.done() or came.set_result(None))
    try:
        loop.run_until_complete(came)
    except BaseException as error:
        print(type(error).__name__, error, file=sys.stderr)
    finally:
        loop.remove_reader(fd)
