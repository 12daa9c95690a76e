# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the daemon, and of the keeper, while files, archives, watches, previews, tunnels, secrets, terminals and
clones are under way: what was answered is there, what runs goes on, and nothing is left behind."""

import os
import random
import tempfile
import time

import leaks
import pytest
from crash_helpers import FULL, PATIENCE, Prober, Server, processes_with, wait_until
from outside import Outside
from test_crash import kill_at_random
from ways import Files, Ways

ROUNDS = 100 if FULL else 5
BOTH_ROUNDS = 15 if FULL else 2


@pytest.fixture(scope="module")
def world():
    with tempfile.TemporaryDirectory(prefix="cay-outside-") as top:
        os.chmod(top, 0o755)
        world = Outside(top)
        yield world
        world.close()


@pytest.fixture
def server(server, world):
    """One that may reach the world, instead of the one that was started."""
    before = leaks.links_of_nobody()
    server.stop()
    server.flags += ["--egress-private", "127.0.0.0/8"]
    server.hosts = world.hosts
    yield server.start()
    server.stop()
    assert wait_until(lambda: not leaks.links_of_nobody(before)), leaks.links_of_nobody(before)
    assert not server.faults(), server.faults()


def guest_of(server, client, sandbox):
    """Pid of its PID 1."""
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    client.good("POST", f"/sandbox/{sandbox}/processes", {"id": mark, "command": f"sleep 1000; : {mark}"})
    found = wait_until(lambda: leaks.guests(server) & {leaks.parent(pid) for pid in processes_with(mark)})
    client.good("DELETE", f"/sandbox/{sandbox}/processes/{mark}")
    (guest,) = found
    return guest


def settled(server):
    """When all that is to be ready is ready."""
    assert wait_until(lambda: server.health()["load"]["running"] == 0), server.health()
    assert wait_until(lambda: not server.disks()), server.disks()
    assert wait_until(lambda: server.health()["pool"]["ready"] == server.POOL), server.health()
    everybody = server.POOL + server.BLANK + 1  # the spawner
    assert wait_until(lambda: server.boxes() == everybody), (server.boxes(), everybody)
    assert wait_until(lambda: leaks.is_parked(server), every=0.1), (leaks.kernels(server), server.zygotes())


def warm_up(server):
    """Once through all of it, so that what is made once is there."""
    client = server.client()
    client.good("PUT", "/sandbox/warm", {"network": "internet"})
    client.call("PUT", "/sandbox/warm/files/workspace/x", b"x" * 1000000)
    client.good("DELETE", "/sandbox/warm")
    client.close()
    server.wait_for_another(server.kill_daemon())
    settled(server)


def no_more_than(server, before):
    settled(server)
    rest = lambda: leaks.difference(before, leaks.held(server))
    assert wait_until(lambda: not rest(), 20), rest()


def test_daemon_is_killed_under_all_of_it(server, world):
    chance = random.Random(os.getpid())
    warm_up(server)
    before = leaks.held(server)
    ways = Ways(server, world, chance.random())
    client = server.client()
    guest = guest_of(server, client, "ways")
    ways.check()
    held = leaks.list_fds(guest)
    with Prober(server) as prober:
        ways.start()
        for _ in range(ROUNDS):
            kill_at_random(server, chance)
            ways.check()
            assert not ways.failures(), ways.failures()[0]
            assert wait_until(lambda: len(leaks.hands(guest)) <= 1), leaks.hands(guest)
        ways.end()
    assert prober.count > 0 and not server.refused
    # Nobody asks for anything: one hand, which does nothing, and a guest that holds what it held.
    assert wait_until(lambda: not leaks.workers(guest)), leaks.workers(guest)
    # (Less one that was parked in it: the next daemon cannot know whether it was used.)
    assert wait_until(lambda: not leaks.more(held, leaks.list_fds(guest))[0]), leaks.more(held, leaks.list_fds(guest))
    server.wait_for_another(server.kill_daemon())
    assert wait_until(lambda: not leaks.hands(guest)), leaks.hands(guest)
    ways.destroy()
    client.close()
    no_more_than(server, before)


def test_keeper_is_killed_under_all_of_it(server, world):
    """The boxes go with it; the files, the ports and the secrets are there afterwards."""
    chance = random.Random(os.getpid())
    warm_up(server)
    before = leaks.held(server)
    for _ in range(BOTH_ROUNDS):
        ways = Ways(server, world, chance.random())
        for job in ways.jobs:
            job.start()
        time.sleep(0.3 + chance.random() * 2)
        server.kill_both()
        server.start()
        for job in ways.jobs:  # what it still waits for does not come
            job.over.set()
        files = ways.jobs[0]
        files.join(PATIENCE * 3)
        assert isinstance(files, Files) and not files.is_alive() and files.failure is None, files.failure
        check_after_keeper(server, ways)
        ways.destroy()
    no_more_than(server, {**before, **{k: v for k, v in leaks.held(server).items() if k.startswith("descriptors of the")}})


def check_after_keeper(server, ways):
    client = server.client()
    sandbox = client.good("GET", "/sandbox/ways")
    assert [p["token"] for p in sandbox["ports"]] == [ways.port["token"]], sandbox
    assert sandbox["secrets"] == ["key"], sandbox
    assert client.good("GET", "/sandbox/ways/ports")["ports"][0]["url"] == ways.port["url"]
    # It wakes, and everything that needs no program of before works.
    ways.start_again()
    ways.box = client.good("GET", "/sandbox/ways")["box"]
    ways.shell_pid = ways.ask_shell("x=41", "")
    ways.check()
