# SPDX-License-Identifier: Apache-2.0
"""`cay upgrade`: keeper and daemon are replaced by the programs that lie in their place now, and nothing that
runs notices."""

import os
import pathlib
import shutil
import subprocess

import leaks
import pytest
from crash_helpers import CAY, PATIENCE, TOP, Prober, Server, wait_until
from load import Worker
from test_crash import Steady
from test_ways import guest_of, world  # noqa: F401  pylint: disable=unused-import
from ways import Ways

# Programs that speak the next version of the messages.
NEXT = os.environ.get("CAY_NEXT", str(TOP / "build-test" / "tests" / "next" / "cay"))
PROGRAMS = ("cay", "cayd", "cay-pack")


@pytest.fixture
def installed(server):
    """A server whose programs may be replaced: its data directory holds them too."""
    for name in PROGRAMS:
        shutil.copy2(pathlib.Path(CAY).parent / name, server.data / name)
    server.stop()
    server.program = str(server.data / "cay")
    return server.start()


def replace(server, program=CAY):
    """As an installation does: another file under the same name."""
    place = pathlib.Path(server.program).parent
    for name in PROGRAMS:
        if not (pathlib.Path(program).parent / name).exists():
            continue  # the next ones pack as these do
        shutil.copy2(pathlib.Path(program).parent / name, place / f"{name}.new")
        (place / f"{name}.new").rename(place / name)


def upgrade(server):
    command = [server.program, "upgrade", "--data", str(server.data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE * 2, check=False)


def test_nothing_notices(installed):
    server: Server = installed
    workers = [Worker(server, f"u{i}", i) for i in range(2)]
    with Prober(server) as prober:
        steady = Steady(server)
        for worker in workers:
            worker.start()
        for _ in range(3):
            daemon, keeper = server.daemon(), server.process.pid
            replace(server)
            done = upgrade(server)
            assert done.returncode == 0, (done.stderr, server.log())
            assert server.process.poll() is None and server.process.pid == keeper
            assert server.daemon() not in (None, daemon)
            steady.check()
        for worker in workers:
            worker.end()
        steady.end()
    assert prober.count > 0 and not server.refused
    # The new one can still lose its daemon.
    server.wait_for_another(server.kill_daemon())
    assert server.client().good("GET", "/sandbox")["sandboxes"] == []


def test_a_program_that_does_not_start_is_not_taken(installed):
    server: Server = installed
    steady = Steady(server)
    place = pathlib.Path(server.program).parent
    good = (place / "cayd").read_bytes()
    (place / "cayd.new").write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    (place / "cayd.new").chmod(0o755)
    (place / "cayd.new").rename(place / "cayd")
    done = upgrade(server)
    assert done.returncode != 0 and "cayd" in done.stderr, done
    steady.check()
    (place / "cayd.new").write_bytes(good)
    (place / "cayd.new").chmod(0o755)
    (place / "cayd.new").rename(place / "cayd")
    assert upgrade(server).returncode == 0
    steady.check()
    steady.end()


def test_ways_in_and_out_go_on(installed, world):  # noqa: F811
    """To programs that speak another version: what a box has been given by the old ones works with the new ones."""
    server: Server = installed
    if not os.access(NEXT, os.X_OK):
        pytest.fail(f"{NEXT} is not built")
    server.stop()
    server.flags += ["--egress-private", "127.0.0.0/8"]
    server.hosts = world.hosts
    server.start()
    ways = Ways(server, world)
    guest = guest_of(server, server.client(), "ways")
    ways.check()
    ways.start()
    keeper = server.process.pid
    for program in (NEXT, NEXT):
        daemon = server.daemon()
        replace(server, program)
        done = upgrade(server)
        assert done.returncode == 0, (done.stderr, server.log())
        assert server.process.pid == keeper and server.daemon() not in (None, daemon)
        ways.check()
        assert not ways.failures(), ways.failures()[0]
        assert wait_until(lambda: len(leaks.hands(guest)) <= 1), leaks.hands(guest)
        server.wait_for_another(server.kill_daemon())
        ways.check()
    assert not ways.failures(), ways.failures()[0]
    # A box of the new ones beside it, with the same settings.
    client = server.client()
    client.good("PUT", "/sandbox/new", {"network": world.network, "secrets": ["key"]})
    assert client.call("PUT", "/sandbox/new/files/workspace/x", b"new").status == 201
    assert client.exec("new", "cat x; curl -sS http://key.cay/secret") == "newknown"
    client.good("DELETE", "/sandbox/new")
    ways.end()
    ways.destroy()
    server.stop()
    assert not server.faults(), server.faults()
