# SPDX-License-Identifier: Apache-2.0
"""What a server holds of the machine, in numbers that can be compared."""

import collections
import ctypes
import glob
import os
import pathlib
import re
import shutil
import sqlite3
import struct

from crash_helpers import children, disks_of, is_zygote, loops_of, name_of

SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
GET_INFO, LINK_FD, LINK_NEXT = 15, 30, 31
LINK_OF_NETNS = 5  # BPF_LINK_TYPE_NETNS
HOLDS_SANDBOX = ("processes", "sessions", "contexts", "events", "ports", "snapshots")  # tables with a column of this name


def list_fds(pid):
    """What each leads to, without numbers that differ. Of cgroups of execs in a guest, and of user namespaces of places
    for boxes in a keeper, there are as many as there ever were at once: they are used again."""
    found = []
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        try:
            found.append(os.readlink(path).partition(":")[0])
        except OSError:
            pass
    return sorted(name for name in found if name != "user" and not name.startswith("/sys/fs/cgroup"))


def tree(pid):
    """All processes below it."""
    found = []
    for child in children(pid):
        found += [child, *tree(child)]
    return found


def netns_of(pid):
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0


# -- programs of the kernel


def bpf(command, attr):
    buffer = ctypes.create_string_buffer(attr, 128)
    result = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF, command, buffer, len(buffer))
    return result, buffer.raw


def steering_links():
    """Ids of the links that steer connections of a namespace, with the namespace's number (0: it is gone)."""
    found, at = {}, 0
    while True:
        result, answer = bpf(LINK_NEXT, struct.pack("II", at, 0))
        if result < 0:
            return found
        at = struct.unpack_from("I", answer, 4)[0]
        fd, _ = bpf(LINK_FD, struct.pack("I", at))
        if fd < 0:
            continue
        info = ctypes.create_string_buffer(256)
        result, _ = bpf(GET_INFO, struct.pack("IIQ", fd, len(info), ctypes.addressof(info)))
        os.close(fd)
        kind, _, _, _, namespace = struct.unpack_from("IIIII", info.raw)
        if result == 0 and kind == LINK_OF_NETNS:
            found[at] = namespace


def links_of_nobody(before=frozenset()):
    """Links whose namespace has no process any more."""
    links = steering_links()
    alive = {netns_of(path.split("/")[2]) for path in glob.glob("/proc/[0-9]*")}
    return {link for link, namespace in links.items() if namespace not in alive} - set(before)


# -- one server


def subvolumes(server):
    return sum(len(disks_of(server.process.pid, place)) for place in ("blank", "kept", "snaps", "making", "forge"))


def rows(server):
    """Rows of sandboxes that are gone."""
    with sqlite3.connect(f"file:{server.data}/daemon/cay.db?mode=ro", uri=True) as db:
        found = {}
        for table in HOLDS_SANDBOX:
            sql = f"SELECT count(*) FROM {table} WHERE sandbox NOT IN (SELECT number FROM sandboxes)"
            found[table] = db.execute(sql).fetchone()[0]
        found["sandboxes"] = db.execute("SELECT count(*) FROM sandboxes").fetchone()[0]
    db.close()
    return found


def files(server):
    """Names in the data directory, without what lies in images and the log of the server."""
    return sorted(str(p.relative_to(server.data)) for d in ("", "daemon", "daemon/logs") for p in (server.data / d).iterdir())


def cgroups(pids):
    """Of boxes. What waits in one, which may come a moment later, is in one of its own; processes are counted, too."""
    found = set()
    for pid in pids:
        try:
            text = pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")
            found |= set(re.sub(r"(/cay/[0-9]+)/e[0-9]+$", r"\1", text, flags=re.M).split())
        except OSError:
            pass
    return len(found)


def held(server):
    """All of it. Of ready guests only how many there are: a blank one holds less than others."""
    keeper, daemon = server.process.pid, server.daemon()
    pids = [pid for pid in tree(keeper) if name_of(pid) != "node"]  # is_parked counts them
    return {
        "descriptors of the keeper": list_fds(keeper),
        "descriptors of the daemon": list_fds(daemon),
        "descriptors of the spawner": list_fds(spawner(server)),
        "descriptors of the zygote": sorted(fd for pid in server.zygotes() for fd in list_fds(pid)),
        "processes": len(pids),
        "mounts": len(pathlib.Path(f"/proc/{keeper}/mountinfo").read_text(encoding="utf-8").splitlines()),
        "cgroups": cgroups(pids),
        "subvolumes": subvolumes(server),
        "namespaces": len({netns_of(pid) for pid in pids}),
        "loop devices": len(loops_of(server.data)),
        "links": len(set(steering_links().values()) & {netns_of(pid) for pid in pids}),
        "rows": rows(server),
        "files": files(server),
    }


# -- disks, and what a store holds for them


def column(server, sql):
    """Of all rows, as a set of texts."""
    db = sqlite3.connect(f"file:{server.data}/daemon/cay.db?mode=ro", uri=True)
    try:
        return {str(row[0]) for row in db.execute(sql)}
    finally:
        db.close()


def packers(server):
    return [pid for pid in children(server.process.pid) if name_of(pid) == "cay-pack"]


def freezers(guest):
    """Of its box and of all that runs in it; none of one that is still being made: it is where all boxes are, those of
    other servers, too."""
    text = pathlib.Path(f"/proc/{guest}/cgroup").read_text(encoding="utf-8")
    group = next(line for line in text.splitlines() if line.startswith("0::"))[3:]
    if not re.search(r"/cay/\d+", group):
        return []
    return [path for root in ("", "unified") for path in pathlib.Path(f"/sys/fs/cgroup/{root}{group}").rglob("cgroup.freeze")]


def frozen(server):
    """Cgroups of boxes that stand still."""
    found = set()
    for guest in guests(server):
        try:
            found |= {str(path) for path in freezers(guest) if path.read_text(encoding="utf-8").strip() != "0"}
        except OSError:
            pass
    return found


def unknown_objects(server):
    """Of a local store: what no row knows, and what has no name yet."""
    store = server.data / "store"
    backups = column(server, "SELECT id FROM backups")
    objects = [path for path in store.glob("*/backups/*") if path.name not in backups]
    return sorted(str(path) for path in [*objects, *store.glob(".tmp/*")])


def left_behind(server):
    """What is there for nothing, while nobody works: disks without rows, objects without rows, helpers."""
    kept = column(server, "SELECT number FROM sandboxes WHERE archive IS NULL")
    found = {
        "making": server.disks("making") + server.disks("forge"),
        "kept": sorted(set(server.disks("kept")) - kept),
        "snapshots": sorted(set(server.disks("snaps")) ^ column(server, "SELECT number FROM snapshots")),
        "rows that are being made": column(server, "SELECT id FROM sandboxes WHERE status = 4"),
        "backups that are being made": column(server, "SELECT id FROM backups WHERE state = 1"),
        "doomed": column(server, "SELECT key FROM doomed"),
        "objects": unknown_objects(server),
        "helpers": packers(server),
        "frozen": frozen(server),
    }
    return {what: which for what, which in found.items() if which}


def difference(before, after):
    """What there is more of."""
    found = {}
    for key, value in before.items():
        if isinstance(value, list):
            more_of = collections.Counter(after[key]) - collections.Counter(value)
            # SQLite's second connection, which writes its log back, comes when it is first needed.
            more_of = {name: n for name, n in more_of.items() if not (name.endswith("cay.db") and n == 1)}
            if more_of:
                found[key] = more_of
        elif after[key] > value if isinstance(value, int) else after[key] != value:
            found[key] = (value, after[key])
    return found


# -- one box


def parent(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0
    return int(text[text.rindex(")") + 2 :].split()[1])


def guests(server):
    """PID 1 of each box, and the spawner."""
    return {pid for pid in children(server.process.pid) if name_of(pid) != "cayd" and not is_zygote(pid)}


def spawner(server):
    """The one of them that is not PID 1 of anything. Not the oldest by its number: those begin anew."""
    for pid in guests(server):
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        except OSError:
            continue
        if len(status[status.index("NSpid:") :].splitlines()[0].split()) == 2:
            return pid
    raise AssertionError("there is no spawner")


def kernels(server):
    """How many interpreters there are in boxes, by name. Those in the pool are parked there while nobody asks."""
    found = collections.Counter(name_of(pid) for guest in guests(server) for pid in children(guest))
    return {name: found[name] for name in ("python3", "node") if found[name]}


def is_parked(server):
    """Whether each ready box has what it is to have, and there is one zygote."""
    found = kernels(server)
    # A Node is in the two oldest; a daemon that has died may have thought others the oldest.
    nodes = range(2, 4) if shutil.which("node") else [0]
    return len(server.zygotes()) == 1 and found.get("python3") == server.POOL and found.get("node", 0) in nodes


def hands(guest):
    """Children of a guest that are not another program: what works on files, one for each daemon that lives."""
    try:
        program = os.stat(f"/proc/{guest}/exe")
    except OSError:
        return []
    found = []
    for pid in children(guest):
        try:
            if os.path.samestat(os.stat(f"/proc/{pid}/exe"), program):
                found.append(pid)
        except OSError:
            pass
    return found


def workers(guest):
    """What the hands have started: lists, archives, watches."""
    return [pid for hand in hands(guest) for pid in tree(hand)]


def more(before, after):
    """What there is more and less of."""
    one, two = collections.Counter(before), collections.Counter(after)
    return two - one, one - two
