# SPDX-License-Identifier: Apache-2.0
"""Frames to and from the daemon: PROTOCOL.md."""

from cay_kernel.own import BUILTINS as __builtins__

from _thread import RLock
from posix import _exit, close, getpid, read, set_blocking, set_inheritable, write

from _json import encode_basestring as quote

from cay_kernel import interrupt

CONTROL_IN, CONTROL_OUT = 60, 61
CHUNK = 1 << 16
HEADER_MAX = 64

lock = RLock()  # a display from a thread, or from a signal's handler
cell = None  # the number of the cell that runs
pid = 0
_came = []  # bytes that were read, and are no frame yet


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
    """(type, cell, payload), or None at the end of control in, or when something else was put there."""
    while not any(b"\n" in part for part in _came):
        if sum(map(len, _came)) > HEADER_MAX or not _read(CHUNK):
            return None
    have = b"".join(_came)
    end = have.find(b"\n")
    try:
        kind, number, length = have[:end].split()
        number, stop = int(number), end + 1 + int(length)
    except ValueError:
        return None
    if len(have) < stop:
        have = _read_rest(len(have), stop)
        if have is None:
            return None
    payload = have[end + 1 : stop]
    _came[:] = [have[stop:]]
    return kind, number, payload


def _read_rest(have, size):
    while have < size:
        if not _read(size - have):
            return None
        have += len(_came[-1])
    return b"".join(_came)


def _read(size):
    """Whether there was more. No step of Python is between the call and the list: an exception that a thread of the
    cell's sends us does not lose what was read. A cell that has closed it has ended its kernel."""
    while True:
        try:
            _came.extend(map(read, (CONTROL_IN,), (size,)))
            return _came[-1] != b""
        except BlockingIOError:
            set_blocking(CONTROL_IN, True)
        except OSError:
            return False


def is_readable():
    from select import select

    return bool(select([CONTROL_IN], [], [], 0)[0])


def has_waiting():
    return any(_came)


def frame(kind, number, text):
    """Lone surrogates are not UTF-8: they become question marks."""
    payload = text.encode("utf-8", "replace")
    return b"%b %d %d\n%b" % (kind, number, len(payload), payload)


def _write(data):
    try:
        return write(CONTROL_OUT, data)
    except BlockingIOError:
        set_blocking(CONTROL_OUT, True)
        return 0
    except OSError:
        _exit(1)  # nobody would hear of the cell's end


def send(data):
    """Whole frames. An interrupt waits until they are out."""
    interrupt.hold()
    try:
        with lock:
            while data:
                done = _write(data)
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
