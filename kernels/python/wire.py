# SPDX-License-Identifier: Apache-2.0
"""Frames to and from the daemon: PROTOCOL.md."""

from cay_kernel.own import BUILTINS as __builtins__

from _thread import RLock
from posix import _exit, close, getpid, read, set_inheritable, write

from _json import encode_basestring as quote

from cay_kernel import interrupt

CONTROL_IN, CONTROL_OUT = 60, 61
CHUNK = 1 << 16

lock = RLock()  # a display from a thread, or from a signal's handler
cell = None  # the number of the cell that runs
pid = 0
_waiting = b""  # bytes that came after the frame that was read


def start():
    """The descriptors are ours alone: nothing that a cell starts gets them."""
    global pid
    pid = getpid()
    set_inheritable(CONTROL_IN, False)
    set_inheritable(CONTROL_OUT, False)


def leave():
    """In a child that a cell forked: it is no kernel."""
    global cell
    cell = None
    for fd in (CONTROL_IN, CONTROL_OUT):
        try:
            close(fd)
        except OSError:
            pass


def is_kernel():
    return getpid() == pid


def read_frame():
    """(type, cell, payload), or None at the end of control in."""
    global _waiting
    have = _waiting
    end = have.find(b"\n")
    while end < 0:
        more = read(CONTROL_IN, CHUNK)
        if not more:
            return None
        have += more
        end = have.find(b"\n")
    kind, number, length = have[:end].split()
    stop = end + 1 + int(length)
    if len(have) < stop:
        have = _read_rest(have, stop)
        if have is None:
            return None
    _waiting = have[stop:]
    return kind, int(number), have[end + 1 : stop]


def _read_rest(have, size):
    parts, missing = [have], size - len(have)
    while missing > 0:
        more = read(CONTROL_IN, missing)
        if not more:
            return None
        parts.append(more)
        missing -= len(more)
    return b"".join(parts)


def has_waiting():
    return _waiting != b""


def frame(kind, number, text):
    """Lone surrogates are not UTF-8: they become question marks."""
    payload = text.encode("utf-8", "replace")
    return b"%b %d %d\n%b" % (kind, number, len(payload), payload)


def send(data):
    """Whole frames. An interrupt waits until they are out."""
    interrupt.hold()
    try:
        with lock:
            while data:
                done = write(CONTROL_OUT, data)
                if done == len(data):
                    break
                data = data[done:]
    finally:
        interrupt.release()


def send_display(payload):
    """Sends it and waits until the daemon has dealt with it. Nothing is shown outside a cell."""
    interrupt.hold()
    try:
        with lock:
            if cell is None or not is_kernel():
                return
            send(frame(b"display", cell, payload))
            _await_ack()
    finally:
        interrupt.release()


def _await_ack():
    while True:
        came = read_frame()
        if came is None:
            _exit(0)  # the daemon has gone: the end of control in is the end of the kernel
        if came[0] == b"ack":
            return
