# SPDX-License-Identifier: Apache-2.0
"""`cay upgrade`: keeper and daemon are replaced by the programs that lie in their place now, and nothing that
runs notices."""

import pathlib
import shutil
import subprocess

import pytest
from crash_helpers import CAY, PATIENCE, Prober, Server
from load import Worker
from test_crash import Steady


@pytest.fixture
def installed(server):
    """A server whose programs may be replaced: its data directory holds them too."""
    for name in ("cay", "cayd"):
        shutil.copy2(pathlib.Path(CAY).parent / name, server.data / name)
    server.stop()
    server.program = str(server.data / "cay")
    return server.start()


def replace(server):
    """As an installation does: another file under the same name."""
    place = pathlib.Path(server.program).parent
    for name in ("cay", "cayd"):
        shutil.copy2(pathlib.Path(CAY).parent / name, place / f"{name}.new")
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
