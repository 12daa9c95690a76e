# SPDX-License-Identifier: Apache-2.0
"""A zygote: a Python with libraries loaded that forks itself into boxes.

It is a user of Z, the user namespace above those of boxes, with the capabilities that entering them takes, and never
sees a byte of user code. A fork is a child
of the box's own PID 1: a helper process that shares our memory (so that page tables are copied once) is born in the
box's pid namespace, forks, and ends. The fork enters everything that keeps user code in its box, and only
then waits for the pipes that code comes through. Layouts are those of src/wire/zygote-msg.h."""

import array
import ctypes
import gc
import mmap
import os
import platform
import resource
import signal
import socket
import struct
import sys

SOCK, SETUP = 62, 61
VERSION = None  # of the messages; the keeper's first one tells
READY, PLANT, PLANTED, FAILED, GO = 1, 2, 3, 4, 5
HEAD = struct.Struct("=HHI")
PLANT_BODY = struct.Struct("=IIII")
PLANTED_BODY = struct.Struct("=iI")
FAILED_BODY = struct.Struct("=i60s")
SETUP_HEAD = struct.Struct("=QII256s")
INSTRUCTION = 8  # bytes of one of the filter

CLONE_VM, CLONE_FILES, CLONE_VFORK = 0x100, 0x400, 0x4000
NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = (
    0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
PR_SET_DUMPABLE, PR_SET_NAME, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 15, 22, 24, 38
SECCOMP_MODE_FILTER = 2
CAP_LAST = 63
CAP_VERSION_3 = 0x20080522
KEYCTL_JOIN_SESSION_KEYRING = 1
STACK = 64 << 20

# Not in Python's library: system call numbers.
NUMBERS = {
    "x86_64": {"capset": 126, "keyctl": 250, "close_range": 436},
    "aarch64": {"capset": 91, "keyctl": 219, "close_range": 436},
}[platform.machine()]

# Held while calling: nobody else may run between two steps, and there is nobody else.
libc = ctypes.PyDLL(None, use_errno=True)


class Step(Exception):
    """Which step failed, and how."""

    def __init__(self, name, code=None):
        super().__init__(name)
        self.name, self.errno = name, ctypes.get_errno() if code is None else code


def check(name, result):
    if result < 0:
        raise Step(name)
    return result


def system_call(name, *args):
    return check(name, libc.syscall(ctypes.c_long(NUMBERS[name]), *args))


def prctl(name, *args):
    values = [ctypes.c_ulong(v) if isinstance(v, int) else v for v in args]
    values += [ctypes.c_ulong(0)] * (5 - len(values))
    return check(name, libc.prctl(*values))


def read_setup():
    """What the fork has to take on, told by whoever started us."""
    with os.fdopen(SETUP, "rb") as file:
        caps, n, _, preload = SETUP_HEAD.unpack(file.read(SETUP_HEAD.size))
        filter_bytes = file.read(n * INSTRUCTION)
    if n == 0 or len(filter_bytes) != n * INSTRUCTION:
        sys.exit("a zygote without a filter")
    return {"caps": caps, "filter": ctypes.create_string_buffer(filter_bytes, len(filter_bytes)), "n": n,
            "preload": preload.rstrip(b"\0").decode()}


# -- in the fork, from a user of Z to a process of the box

def enter_namespaces(fds):
    kinds = [("mnt", NEWNS), ("net", NEWNET), ("ipc", NEWIPC), ("uts", NEWUTS), ("cgroup", NEWCGROUP)]
    for fd, (name, kind) in zip(fds[1:6], kinds):
        check("setns " + name, libc.setns(fd, kind))
    check("setns user", libc.setns(fds[6], NEWUSER))


def drop_caps(kept):
    for cap in range(CAP_LAST + 1):
        if not kept >> cap & 1:
            libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(cap), 0, 0, 0)  # fails for those the kernel lacks
    low, high = kept & 0xFFFFFFFF, kept >> 32
    head = struct.pack("=Ii", CAP_VERSION_3, 0)
    system_call("capset", head, struct.pack("=IIIIII", low, low, 0, high, high, 0))


def become_user(setup, uid, gid):
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(0, 0, 0)
    drop_caps(setup["caps"])
    if uid != 0:
        os.setresuid(uid, uid, uid)


def load_filter(setup):
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    program = Program(setup["n"], ctypes.addressof(setup["filter"]))
    prctl("no_new_privs", PR_SET_NO_NEW_PRIVS, 1)
    prctl("seccomp", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program))


def close_from(first, last=0xFFFFFFFF):
    if first <= last:
        system_call("close_range", ctypes.c_uint(first), ctypes.c_uint(last), 0)


def keep_only(fd):
    """Moves it to 3 and closes all others above the standard ones."""
    if fd != 3:
        os.dup2(fd, 3, inheritable=False)
    close_from(4)
    return 3


def join_box(setup, fds, uid, gid, files):
    os.setpgid(0, 0)
    system_call("keyctl", ctypes.c_long(KEYCTL_JOIN_SESSION_KEYRING), None)
    enter_namespaces(fds)
    seat = keep_only(fds[7])
    become_user(setup, uid, gid)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    os.umask(0o022)
    os.chdir("/")
    load_filter(setup)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    return seat


def take_seat(seat):
    """The guest hands over the ends of our streams. Nobody there: the box has ended."""
    with socket.socket(fileno=seat) as sock:
        message, ancillary, _, _ = sock.recvmsg(64, socket.CMSG_SPACE(16 * 4))
    got = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            got.frombytes(data[:len(data) - len(data) % got.itemsize])
    if not message or len(got) != 4:
        os._exit(0)
    return list(got)


def place_streams(ends):
    null = os.open("/dev/null", os.O_RDWR)
    high = [os.dup2(fd, 70 + i, inheritable=False) for i, fd in enumerate([null, *ends])]
    for fd, place in zip(high, [0, 1, 2, 60, 61]):
        os.dup2(fd, place, inheritable=place < 3)
    close_from(3, 59)
    close_from(62)


def enter(setup, fds, uid, gid, files):
    return take_seat(join_box(setup, fds, uid, gid, files))


def be_kernel(ends):
    from cay_kernel import main

    try:
        place_streams(ends)
        prctl("dumpable", PR_SET_DUMPABLE, 1)
        main.run()
    except BaseException:
        import traceback

        traceback.print_exc()
    os._exit(1)


# -- in the zygote

class Planter:
    """Makes forks. Its stack is what they go on living on."""

    def __init__(self, setup):
        self.setup = setup
        self.stack = mmap.mmap(-1, STACK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.stack))
        check("mprotect", libc.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(mmap.PAGESIZE), 0))
        self.top = base + STACK - 64
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
        self.callback = function(self.between)
        libc.clone.argtypes = [function, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        self.answer = ctypes.create_string_buffer(HEAD.size)
        self.wanted = self.pid = self.pidfd = None

    def fork(self, seat):
        """As os.fork(), but that the fork stands still until the keeper has put it into its box's cgroups: every page
        that it writes to is counted where it is then, and Python writes to many before it has said a word."""
        python = ctypes.pythonapi
        python.PyOS_BeforeFork()
        pid = libc.fork()
        if pid != 0:
            code = ctypes.get_errno()
            python.PyOS_AfterFork_Parent()
            if pid < 0:
                raise OSError(code, "fork")
            return pid
        got = libc.read(seat, self.answer, HEAD.size)
        python.PyOS_AfterFork_Child()
        if got != HEAD.size or HEAD.unpack(self.answer.raw)[1] != GO:
            os._exit(1)
        return 0

    def between(self, _):
        """In the helper process, on the other stack, in our memory."""
        try:
            self.pid = self.fork(self.wanted[0][7])
            if self.pid == 0:
                self.live()
            self.pidfd = os.pidfd_open(self.pid)
            return 0
        except OSError as error:
            self.pid, self.pidfd = -error.errno, None
            return 1

    def live(self):
        # Whatever happens, this process is no zygote. While it enters a box nothing is imported or read, not even
        # for a traceback: the files are that box's, and not all of its powers are gone.
        try:
            ends = enter(self.setup, *self.wanted)
        except BaseException:
            os._exit(1)
        be_kernel(ends)

    def plant(self, fds, uid, gid, files):
        self.wanted = (fds, uid, gid, files)
        self.pid = self.pidfd = None
        check("setns pid", libc.setns(fds[0], NEWPID))
        flags = CLONE_VM | CLONE_VFORK | CLONE_FILES | signal.SIGCHLD
        helper = check("clone", libc.clone(self.callback, self.top, flags, None))
        _, status = os.waitpid(helper, 0)
        if os.WIFSIGNALED(status):  # its box has ended: who knows what it left half done in our memory
            os._exit(1)
        if self.pidfd is None:
            raise Step("fork", -(self.pid or 0))
        return self.pid, self.pidfd


def send(sock, kind, number, body=b"", fds=()):
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([HEAD.pack(VERSION, kind, number) + body], ancillary)


def serve_one(sock, planter, message, fds):
    _, kind, number = HEAD.unpack_from(message)
    if kind != PLANT or len(message) != HEAD.size + PLANT_BODY.size or len(fds) != 8:
        return
    uid, gid, files, _ = PLANT_BODY.unpack_from(message, HEAD.size)
    try:
        pid, pidfd = planter.plant(fds, uid, gid, files)
        send(sock, PLANTED, number, PLANTED_BODY.pack(pid, 0), [pidfd])
        os.close(pidfd)
    except Step as step:
        send(sock, FAILED, number, FAILED_BODY.pack(step.errno, step.name.encode()[:59]))


def serve(sock, planter):
    while True:
        message, fds, _, _ = socket.recv_fds(sock, 256, 16)
        if not message:
            os._exit(0)
        serve_one(sock, planter, message, fds)
        for fd in fds:
            os.close(fd)


def preload(names):
    for name in filter(None, names.split(",")):
        try:
            __import__(name)
            if name == "matplotlib":
                __import__("matplotlib.pyplot")
        except Exception:  # not in this image, or not fit: contexts import it themselves, or fail to
            pass


def become_ready(sock):
    from cay_kernel import hooks, main

    setup = read_setup()
    prctl("dumpable", PR_SET_DUMPABLE, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())  # a box may signal a fork before it is its own
    libc.prctl(PR_SET_NAME, b"python3", 0, 0, 0)
    hooks.set_builtins()  # some ask, as they are imported, whether this is a notebook
    preload(setup["preload"])
    os.environ.pop("MPLBACKEND", None)  # it was for the import: from here on the backend is ours (plots.py)
    main.prepare()
    planter = Planter(setup)
    gc.collect()
    gc.freeze()
    send(sock, READY, 0)
    return planter


def run():
    global VERSION
    sock = socket.socket(fileno=SOCK)
    VERSION = HEAD.unpack_from(sock.recv(256))[0]
    try:
        planter = become_ready(sock)
    except Exception as error:  # the keeper says why there is none
        send(sock, FAILED, 0, FAILED_BODY.pack(0, repr(error).encode()[:59]))
        raise
    serve(sock, planter)
