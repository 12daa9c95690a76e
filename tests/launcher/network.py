# SPDX-License-Identifier: Apache-2.0
"""A network of our own, with nothing but a loopback: every port is free there, and nothing leads outside."""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1

libc = ctypes.CDLL(None, use_errno=True)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def raise_loopback():
    with socket.socket() as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


@contextlib.contextmanager
def own_network():
    """For this thread, and the programs that it starts."""
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        check(libc.unshare(CLONE_NEWNET))
        raise_loopback()
        yield
    finally:
        check(libc.setns(before, CLONE_NEWNET))
        os.close(before)
