# SPDX-License-Identifier: Apache-2.0
"""SIGINT ends the cell that runs, and is nothing to a kernel that waits."""

from cay_kernel.own import BUILTINS as __builtins__

from _signal import SIGINT, getsignal, signal
from _thread import get_ident

running = False  # user code has the floor
held = 0  # a frame is on its way: it must not be cut in two
pending = False
_main_thread = 0  # the only one that signals reach


def on_sigint(signum, frame):
    global pending
    if not running:
        return
    if held:
        pending = True
        return
    raise KeyboardInterrupt


def install():
    """Again at each end of a cell: it may have put its own in place."""
    global _main_thread
    _main_thread = get_ident()
    if getsignal(SIGINT) is not on_sigint:
        signal(SIGINT, on_sigint)


def hold():
    global held
    if get_ident() == _main_thread:
        held += 1


def release():
    global held, pending
    if get_ident() != _main_thread:
        return
    held -= 1
    if pending and not held:
        pending = False
        if running:
            raise KeyboardInterrupt
