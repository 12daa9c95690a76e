# SPDX-License-Identifier: Apache-2.0
"""Python contexts that are forks of one zygote: what they have of the box they are in, and nothing of each other's."""

import json
import os
import pathlib
import signal
import textwrap

import pytest
from api_helpers import Client, eventually

FORK = "/memfd:python3"  # what a fork's /proc/self/exe begins with


def run(api, box, code, context=None):
    body = {"code": textwrap.dedent(code)}
    if context is not None:
        body["context"] = context
    reply = api.ok("POST", f"/sandbox/{box}/code", body)
    assert reply["success"], reply
    return reply


def value(api, box, code, context=None):
    """What the last expression, a str of JSON, says."""
    return json.loads(run(api, box, code, context)["logs"]["stdout"][0])


def make(api, box, **settings):
    api.ok("PUT", f"/sandbox/{box}", settings)
    return box


def context(api, box):
    return api.ok("POST", f"/sandbox/{box}/contexts", {"language": "python"})["id"]


def children(pid):
    for path in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            continue
        if f"\nPPid:\t{pid}\n" in text:
            yield int(path.parent.name), text


def zygotes(server):
    """The keeper's children that are Pythons, but for guests': pid by pid."""
    found = []
    for pid, _ in children(server.process.pid):
        try:
            line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if line.endswith(b"\0zygote\0"):
            found.append(pid)
    return found


@pytest.fixture(scope="module")
def own(top):
    """A server whose zygote has numpy, and is ready."""
    import tempfile

    from api_helpers import Server
    from conftest import need_root

    need_root()
    server = Server(tempfile.mkdtemp(prefix="zygote-", dir=top), "--preload", "numpy,nosuchmodule")
    api = Client(server)
    eventually(lambda: zygotes(server))
    eventually(lambda: is_fork(api, "warm"))
    yield server
    assert server.stop() == 0
    assert server.faults() == []


def is_fork(api, name):
    make(api, name)
    try:
        exe = run(api, name, "import os; print(os.readlink('/proc/self/exe'))")["logs"]["stdout"][0]
        return exe.startswith(FORK)
    finally:
        api("DELETE", f"/sandbox/{name}")


@pytest.fixture
def api(own):
    return Client(own)


@pytest.fixture
def two(api):
    yield [make(api, "one"), make(api, "other")]
    for name in ("one", "other"):
        api("DELETE", f"/sandbox/{name}")


def forks(api, box):
    """A context that was parked, and one that was forked because somebody asked."""
    made = [context(api, box), context(api, box)]
    for one in made:
        assert run(api, box, "import os; print(os.readlink('/proc/self/exe'))", one)["logs"]["stdout"][0].startswith(FORK)
    return made


KILL_PARKED = """
for process in /proc/[0-9]*; do
    case $(readlink $process/exe) in
    /memfd:python3*) kill -9 ${process#/proc/} && echo killed ;;
    esac
done
true
"""


def box_without_parked(api, name):
    """One in which nothing waits any more; False when nothing did."""
    make(api, name)
    if "killed" in api.ok("POST", f"/sandbox/{name}/exec", {"command": KILL_PARKED})["stdout"]:
        return True
    api("DELETE", f"/sandbox/{name}")
    return False


def test_one_that_waits_may_be_killed(api):
    eventually(lambda: box_without_parked(api, "killed"))
    assert run(api, "killed", "print(6 * 7)")["logs"]["stdout"] == ["42\n"]
    api("DELETE", "/sandbox/killed")


# -- a fork is a process of its box like any other

LOOK = """
import json, os
def read(name):
    with open(f"/proc/self/{name}") as file:
        return file.read()
status = dict(line.split(":", 1) for line in read("status").splitlines())
keys = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "SigBlk"]
print(json.dumps({
    "status": {key: status[key].strip() for key in keys},
    "ns": {name: os.readlink(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))},
    "maps": [read("uid_map"), read("gid_map")],
    "limits": read("limits"),
    "root": os.listdir("/"), "umask": status["Umask"].strip(), "core": read("coredump_filter"),
}))
"""


def test_a_fork_is_confined_as_a_program_that_was_started_is(api, two):
    contexts = forks(api, two[0])
    program = api.exec(two[0], {"argv": ["/usr/bin/python3", "-c", LOOK]})
    wanted = json.loads(program["stdout"])
    assert wanted["status"]["Seccomp"] == "2"
    for one in contexts:
        seen = value(api, two[0], LOOK, one)
        assert seen == wanted


def test_forks_of_two_boxes_share_no_namespace(api, two):
    seen = [value(api, box, LOOK)["ns"] for box in two]
    shared = {name for name in seen[0] if seen[0][name] == seen[1][name]}
    assert shared <= {"time", "time_for_children"}


def test_a_fork_is_in_the_cgroups_of_its_box(api, two):
    contexts = forks(api, two[0])
    program = api.exec(two[0], "cat /proc/self/cgroup")["stdout"]
    for one in contexts:
        seen = run(api, two[0], "print(open('/proc/self/cgroup').read())", one)["logs"]["stdout"][0]
        # its own directory below the box's, as each exec has
        assert [line.rsplit("/", 1)[0] for line in seen.split()] == [line.rsplit("/", 1)[0] for line in program.split()]


def test_a_fork_has_no_descriptor_but_its_own(api, two):
    code = """
    import json, os
    print(json.dumps({fd: os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in os.listdir("/proc/self/fd")
                      if os.path.lexists(f"/proc/self/fd/{fd}")}))
    """
    for one in forks(api, two[0]):
        seen = value(api, two[0], code, one)
        listing = [fd for fd, to in seen.items() if to.startswith("/proc/")]
        assert {fd: to for fd, to in seen.items() if fd not in listing} == {
            "0": "/dev/null", "1": "pipe", "2": "pipe", "60": "pipe", "61": "pipe"}


def test_the_program_that_forks_have_in_common_cannot_be_opened(api, two):
    code = """
    import ctypes, json, os
    def refused(do):
        try:
            do()
        except OSError as error:
            return error.errno
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init()
    libc.inotify_add_watch(watch, b"/proc/self/exe", 0xfff)
    maps = "/proc/self/map_files"
    print(json.dumps([refused(lambda: os.open("/proc/self/exe", os.O_RDONLY)), ctypes.get_errno(),
                      refused(lambda: os.open(f"{maps}/{os.listdir(maps)[0]}", os.O_RDONLY))]))
    """
    for one in forks(api, two[0]):
        assert value(api, two[0], code, one) == [13, 13, 1]


# -- nothing is shared that should differ

def test_forks_do_not_draw_the_same_numbers(api, two):
    code = """
    import json, os, random, secrets, ssl, tempfile, uuid, numpy
    print(json.dumps([random.random(), random.SystemRandom().random(), float(numpy.random.rand()),
                      float(numpy.random.default_rng().random()), str(uuid.uuid4()), secrets.token_hex(8), os.urandom(8).hex(),
                      ssl.RAND_bytes(8).hex(), next(tempfile._get_candidate_names())]))
    """
    seen = [value(api, box, code, one) for box in two for one in forks(api, box)]
    for drawn in zip(*seen):
        assert len(set(drawn)) == len(seen), drawn


def test_what_one_does_to_its_libraries_no_other_sees(api, two):
    contexts = [(box, one) for box in two for one in forks(api, box)]
    poison = """
    import builtins, json, os, numpy, sys
    assert not hasattr(numpy, "poison")
    numpy.poison = json.poison = builtins.poison = sys.poison = True
    os.environ["POISON"] = "1"
    numpy.sum = json.dumps = None
    """
    for box, one in contexts:  # each asserts that it is the first
        run(api, box, poison, one)
    fresh = context(api, two[0])
    run(api, two[0], poison, fresh)


def test_libraries_are_loaded_before_anybody_asks(api, two):
    for one in forks(api, two[0]):
        assert run(api, two[0], "import sys; print('numpy' in sys.modules)", one)["logs"]["stdout"] == ["True\n"]


# -- a sandbox that wants none of it

def test_a_sandbox_may_have_interpreters_of_its_own(api):
    make(api, "alone", sharedZygote=False)
    try:
        for one in [context(api, "alone"), context(api, "alone")]:
            seen = run(api, "alone", "import os; print(os.readlink('/proc/self/exe'))", one)["logs"]["stdout"][0]
            assert "python3" in seen and not seen.startswith(FORK)
        look = "for p in /proc/[0-9]*; do readlink $p/exe; done; true"
        eventually(lambda: FORK not in api.exec("alone", look)["stdout"])
    finally:
        api("DELETE", "/sandbox/alone")


# -- the zygote itself

def test_a_zygote_is_root_nowhere(own):
    (pid,) = eventually(lambda: zygotes(own))
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    uids = {int(uid) for uid in status.split("\nUid:\t")[1].split("\n")[0].split()}
    others = {int(text.split("\nUid:\t")[1].split()[0]) for child, text in children(own.process.pid) if child != pid}
    assert min(uids) >= 0x70000000 and not uids & others
    # chroot and sys_admin, over Z and what is below it. Not setuid: guests are users of Z.
    for kind in ("CapBnd", "CapPrm", "CapEff"):
        assert int(status.split(f"\n{kind}:\t")[1].split()[0], 16) == 1 << 18 | 1 << 21
    assert os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user")
    assert os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    assert "/cay/" in pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8")


def test_a_zygote_that_dies_is_replaced_and_its_forks_do_not_notice(own, api, two):
    contexts = forks(api, two[0])
    for one in contexts:
        run(api, two[0], "kept = 41", one)
    (pid,) = eventually(lambda: zygotes(own))
    os.kill(pid, signal.SIGKILL)
    # At once, one way or another.
    last = context(api, two[0])
    assert run(api, two[0], "40 + 2", last)["results"][0]["text"] == "42"
    for one in contexts:
        assert run(api, two[0], "kept + 1", one)["results"][0]["text"] == "42"
    eventually(lambda: zygotes(own) and zygotes(own) != [pid])
    eventually(lambda: is_fork(api, "again"))


WHERE = """
import json, os
libc = [line for line in open("/proc/self/maps") if "libc.so" in line]
print(json.dumps([os.readlink("/proc/self/exe"), libc[0].split("-")[0]]))
"""


def test_zygotes_are_made_anew(make_server):
    server = make_server("--preload", "", "--zygote-renew", "1s")
    api = Client(server)
    make(api, "box")
    seen, layouts = set(), set()

    def look():
        seen.update(zygotes(server))
        one = context(api, "box")
        told = value(api, "box", WHERE, one)
        if told[0].startswith(FORK):
            layouts.add(told[1])
        api("DELETE", f"/sandbox/box/contexts/{one}")
        return len(seen) >= 3 and len(layouts) >= 2

    eventually(look)
    eventually(lambda: len(zygotes(server)) == 1)


def test_there_need_be_no_zygote(make_server):
    server = make_server("--preload", "off")
    api = Client(server)
    make(api, "box")
    assert run(api, "box", "1 + 1")["results"][0]["text"] == "2"
    assert zygotes(server) == []


def test_contexts_and_what_is_parked_outlive_the_daemon(make_server):
    server = make_server("--preload", "")
    api = Client(server)
    make(api, "before")
    run(api, "before", "kept = 41")
    pid = value(api, "before", "import json, os; print(json.dumps(os.getpid()))")
    os.kill(server.daemon_pid(), signal.SIGKILL)
    eventually(lambda: api("GET", "/health").status == 200)
    assert run(api, "before", "kept + 1")["results"][0]["text"] == "42"
    assert value(api, "before", "import json, os; print(json.dumps(os.getpid()))") == pid
    make(api, "after")
    assert run(api, "after", "1 + 1")["results"][0]["text"] == "2"


def test_nothing_is_left_of_boxes_and_zygotes(make_server):
    server = make_server("--preload", "", "--pool", "2")
    api = Client(server)
    eventually(lambda: zygotes(server))
    for i in range(6):
        make(api, f"box-{i}")
        forks_or_not = [context(api, f"box-{i}") for _ in range(3)]
        assert len(set(forks_or_not)) == 3
        api.ok("DELETE", f"/sandbox/box-{i}")
    keeper = server.process.pid
    ours = [pid for pid, _ in children(keeper)]
    os.kill(zygotes(server)[0], signal.SIGKILL)
    assert server.stop() == 0
    for pid in ours:
        assert not pathlib.Path(f"/proc/{pid}").exists()


# -- who pays

def cgroup_files(pid, controller, name):
    """The file of a process's cgroup, whichever hierarchy has the controller."""
    for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        top = f"/sys/fs/cgroup/{controllers}" if controllers else "/sys/fs/cgroup"
        for root in (top, "/sys/fs/cgroup/unified"):
            file = pathlib.Path(f"{root}{path}/{name}")
            if controller in (controllers or controller) and file.exists():
                return file
    return None


def test_forks_are_paid_for_by_their_box(own, api, two):
    (pid,) = eventually(lambda: zygotes(own))
    file = cgroup_files(pid, "memory", "memory.current") or cgroup_files(pid, "memory", "memory.usage_in_bytes")
    context(api, two[0])
    before = int(file.read_text(encoding="utf-8"))
    for _ in range(20):
        assert is_a_fork(api, two[0], context(api, two[0]))
    # All but what copying itself takes: page tables, the kernel's notes of areas.
    assert int(file.read_text(encoding="utf-8")) - before < 20 * 1200 * 1024


def is_a_fork(api, box, one):
    return run(api, box, "import os; print(os.readlink('/proc/self/exe'))", one)["logs"]["stdout"][0].startswith(FORK)


def test_forks_count_as_processes_of_their_box(api):
    make(api, "few", pids=12)
    try:
        made = 0
        for _ in range(20):
            reply = api("POST", "/sandbox/few/contexts", {})
            if reply.status != 201:
                break
            made += 1
        assert 1 <= made < 12 and reply.status >= 400, reply
        assert api.ok("GET", "/sandbox/few/contexts")["contexts"]
        for one in api.ok("GET", "/sandbox/few/contexts")["contexts"][:3]:
            api.ok("DELETE", f"/sandbox/few/contexts/{one['id']}")
        eventually(lambda: api("POST", "/sandbox/few/contexts", {}).status == 201)
    finally:
        api("DELETE", "/sandbox/few")


@pytest.mark.long
def test_there_is_a_limit_of_forks_in_one_box(api, two):
    """What is not paid for by the box is bounded: further contexts are programs of their own."""
    made = [context(api, two[0]) for _ in range(34)]
    ways = [is_a_fork(api, two[0], one) for one in made]
    assert ways[:20] == [True] * 20 and ways[33] is False
    for one in made[:10]:
        api.ok("DELETE", f"/sandbox/{two[0]}/contexts/{one}")
    eventually(lambda: is_a_fork(api, two[0], context(api, two[0])))
