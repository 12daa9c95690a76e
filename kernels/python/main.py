# SPDX-License-Identifier: Apache-2.0
"""The Python kernel: PROTOCOL.md says how it is spoken to.

run() is entered in a program of its own, or in a fork of a zygote that has called prepare() before.
"""

from cay_kernel.own import BUILTINS as __builtins__

import builtins
import sys
from posix import _exit

from cay_kernel import cell, hooks, interrupt, streams, wire
from cay_kernel.own import load

LATER = ("charts", "clib", "errors", "formats", "loop", "magics", "opening", "plots", "pretty", "rewrite", "rich",
         "shell", "sources")

_is_fork = False
_main = None


def prepare():
    """In a zygote, before it forks: what every fork would have to load. No threads, descriptors or random numbers."""
    global _is_fork
    _is_fork = True
    hooks.install()
    for name in ("ast", "asyncio", "inspect", "json", "linecache", "subprocess", "tempfile", "textwrap", "traceback"):
        __import__(name)
    for name in LATER:
        load(name)
    load("clib").find()
    load("opening").note_libraries()
    load("opening").settle_finders()
    if "_ssl" in sys.modules:
        sys.modules["_ssl"].RAND_status()  # OpenSSL begins here, once: 3 MiB. In a fork it draws anew by itself


def run():
    wire.start()
    interrupt.install()
    take_streams()
    if _is_fork:
        load("opening").forget_siblings()
    version = "%d.%d.%d" % sys.version_info[:3]
    wire.send(wire.frame(b"ready", 0, '{"language":"python","version":"%s"}' % version))
    hooks.install()
    builtins.input = streams.no_input
    if _is_fork and not wire.is_readable() and load("opening").is_untouched():
        rehearse()
    if wait_for_open():
        work()
    leave()


def rehearse():
    """A fork has its parent's memory until it writes to it, page by page; and its box has not been looked at. What the
    first cell would meet is met while nobody waits."""
    load("opening").open_context(b"python\0/\0PATH=/usr/bin:/bin\0HOME=/root\0LANG=C.UTF-8\0", True)
    _, last, _ = cell.parse("1 + 1", "<cell 0>")
    wire.frame(b"result", 0, cell.represent(eval(last, {})))


def take_streams():
    import os

    sys.stdout = sys.__stdout__ = streams.stdout
    sys.stderr = sys.__stderr__ = streams.stderr
    sys.stdin = sys.__stdin__ = streams.NoInput()
    os.register_at_fork(before=streams.before_fork, after_in_child=_in_child)


def _in_child():
    streams.after_fork_in_child()
    wire.leave()


def wait_for_open():
    """Whether there is something to work for."""
    global _main
    while True:
        frame = wire.read_frame()
        if frame is None:
            return False
        if frame[0] != b"open":
            continue
        answer, message = load("opening").open_context(frame[2], _is_fork)
        if answer == b"opened":
            _main = cell.open_namespace()
            hooks.set_builtins()
            interrupt.install()
            wire.send(b"opened 0 2\n{}")
            return True
        wire.send(wire.frame(answer, 0, '{"message":%s}' % wire.quote(message)))
        if answer == b"unfit":
            return False


def work():
    """Cells until the end of control in. Whatever a cell left behind to disturb us (an exception that a thread of
    its own sends, say) costs at most the frame that was waited for."""
    variables = b""
    while True:
        try:
            kind, number, payload = next_frame() or (None, 0, b"")
            if kind is None:
                return
            if kind == b"run":
                wire.cell = number  # whatever happens from here on, it has an end
                run_cell(number, payload, variables)
                variables = b""
            elif kind == b"env":
                variables = payload
            elif kind == b"ping":
                wire.send(b"pong %d 2\n{}" % number)
        except BaseException as error:
            if not wire.is_kernel():
                _exit(1)
            cell.end_disturbed(error)


def next_frame():
    loop = sys.modules.get("cay_kernel.loop")
    if loop is not None and not wire.has_waiting():
        loop.run_until_readable(wire.CONTROL_IN)
    return wire.read_frame()


def run_cell(number, payload, variables):
    source = payload.decode("utf-8", "replace").removeprefix("\ufeff")  # of a file that was made so
    if not variables:
        cell.run(number, source)
        return
    before = load("opening").set_for_cell(variables)
    try:
        cell.run(number, source)
    finally:
        load("opening").set_back(before)


def leave():
    """The end of the context: handlers of atexit run, threads are not waited for."""
    try:
        atexit = sys.modules.get("atexit")
        if atexit is not None:
            atexit._run_exitfuncs()
    except BaseException:
        pass
    streams.flush()
    _exit(0)
