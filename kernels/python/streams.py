# SPDX-License-Identifier: Apache-2.0
"""sys.stdout, sys.stderr and sys.stdin of the cells.

A line is written at once, unless another was a moment ago: in a burst lines are gathered, and a thread, started when
there is something to wait for, writes what is left a moment later.
"""

from cay_kernel.own import BUILTINS as __builtins__

import io
from _thread import RLock, allocate_lock, start_new_thread
from posix import write
from time import monotonic

LIMIT = 32 << 10
MOMENT = 0.005
NOBODY = "has nobody to ask here: write the value into the code, or read it from a file"


class Out(io.TextIOBase):
    """Text to a descriptor. Its write and flush are closures: a cell may print a million lines."""

    encoding = "utf-8"
    errors = "backslashreplace"
    line_buffering = True
    write_through = False
    newlines = None
    mode = "w"

    def __init__(self, fd, name):
        self.fd = fd
        self.name = name
        self.parts = []  # the same list for ever: threads append to it while another takes from it
        self.lock = RLock()
        self._bytes = None
        self.write, self.flush, self.cool = _writer(self)

    def put(self, data):
        done = 0
        try:
            while done < len(data):
                try:
                    done += write(self.fd, data[done:] if done else data)
                except BlockingIOError:  # a program that shares the pipe has made it so
                    _pause(0.001)
        except KeyboardInterrupt:
            # What is left comes out with the next flush.
            self.parts.insert(0, data[done:].decode("utf-8", "surrogateescape"))
            raise

    @property
    def buffer(self):
        if self._bytes is None:
            self._bytes = Bytes(self)
        return self._bytes

    def fileno(self):
        return self.fd

    def writable(self):
        return True

    def reconfigure(self, **options):
        self.flush()

    def close(self):
        self.flush()  # the kernel's streams stay open: the next cell needs them

    def __del__(self):
        pass

    def __repr__(self):
        return "<%s mode='w' encoding='utf-8'>" % self.name


def _writer(out):
    """write, flush and cool. While it is hot, text is gathered, and the flusher sees to it that this is not for long."""
    parts, is_hot, room, last = out.parts, False, LIMIT, 0.0
    append = parts.append

    def write(text):
        nonlocal room
        if is_hot and type(text) is str:
            append(text)
            size = len(text)
            room -= size
            if room < 0:
                flush()
            return size
        return write_cold(text)

    def write_cold(text):
        nonlocal is_hot, room
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        append(str(text))
        room -= len(text)
        if text[-1:] == "\n" or room < 0:
            is_hot = monotonic() - last < MOMENT
            if not is_hot or room < 0:
                flush()
            if not is_hot:
                return len(text)
        if flusher.is_asleep:
            flusher.wake()
        return len(text)

    def flush():
        nonlocal room, last
        with out.lock:
            taken = parts[:]
            del parts[: len(taken)]
            room = LIMIT
            if taken:
                out.put(encode("".join(taken)))
                last = monotonic()

    def cool():
        nonlocal is_hot
        is_hot = False

    return write, flush, cool


def encode(text):
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace")


class Bytes(io.RawIOBase):
    """sys.stdout.buffer"""

    def __init__(self, out):
        self.out = out

    def write(self, data):
        view = memoryview(data).cast("B")
        with self.out.lock:
            self.out.flush()
            self.out.put(bytes(view))
        return len(view)

    def flush(self):
        self.out.flush()

    def fileno(self):
        return self.out.fd

    def writable(self):
        return True

    def close(self):
        self.flush()

    @property
    def raw(self):
        return self


class Flusher:
    """The thread that writes what a burst left. It sleeps when there is nothing to do."""

    def __init__(self):
        self.is_asleep = True
        self.is_started = False
        self.bell = allocate_lock()
        self.stopping = False

    def wake(self):
        self.is_asleep = False
        if self.is_started:
            try:
                self.bell.release()
            except RuntimeError:
                pass  # another thread was quicker
            return
        self.bell = allocate_lock()
        self.is_started = True
        try:
            start_new_thread(self._work, (self.bell,))
        except RuntimeError:  # no more threads: write through
            self.is_asleep, self.is_started = True, False
            flush()

    def _work(self, bell):
        bell.acquire()
        try:
            while not self.stopping:
                bell.acquire(True, 2 * MOMENT)
                if stdout.parts or stderr.parts:
                    flush()
                    continue
                self.is_asleep = True
                stdout.cool()
                stderr.cool()
                # A write that took it for awake may be between its look and its deed: look once more.
                if not bell.acquire(True, 10 * MOMENT) and not (stdout.parts or stderr.parts):
                    bell.acquire()
                self.is_asleep = False
        except BaseException:
            pass
        self.is_started = False
        self.is_asleep = True

    def stop(self):
        """Before a fork: a process of one thread forks without a warning."""
        if not self.is_started:
            return
        self.stopping = True
        for _ in range(1000):
            if not self.is_started:
                break
            try:
                self.bell.release()
            except RuntimeError:
                pass
            _pause(0.0001)
        self.stopping = False


def _pause(seconds):
    """Not time.sleep: a cell may have put its own there."""
    lock = allocate_lock()
    lock.acquire()
    lock.acquire(True, seconds)


class NoInput(io.TextIOBase):
    """sys.stdin: says that nobody answers."""

    encoding = "utf-8"
    errors = "strict"
    name = "<stdin>"
    mode = "r"

    def _refuse(self, *args):
        raise EOFError("sys.stdin " + NOBODY)

    read = readline = readlines = __next__ = _refuse

    def __iter__(self):
        return self

    def fileno(self):
        return 0

    def readable(self):
        return True

    def close(self):
        pass

    def __del__(self):
        pass

    @property
    def buffer(self):
        return self


def no_input(prompt="", /):
    raise EOFError("input() " + NOBODY)


def no_password(prompt="Password: ", stream=None):
    raise EOFError("getpass() " + NOBODY)


stdout = Out(1, "<stdout>")
stderr = Out(2, "<stderr>")
flusher = Flusher()


def flush():
    """What a cell did to its descriptors is its own affair."""
    for out in (stdout, stderr):
        if out.parts:
            try:
                out.flush()
            except OSError:
                pass


def before_fork():
    flush()
    flusher.stop()


def after_fork_in_child():
    global flusher
    flusher = Flusher()
    for out in (stdout, stderr):
        out.lock = RLock()
        out.parts.clear()
        out.cool()
