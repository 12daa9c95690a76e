# SPDX-License-Identifier: Apache-2.0
"""Random rounds of writing, sleeping, snapshots, forks, backups, archives, with `kill -9` of the daemon, or of keeper and
daemon, in between, on both kinds of store: after each step every file is what it must be, and in the end nothing is left.
CAY_SEED repeats a round, CAY_CYCLES makes it longer."""

import os
import random
import sys

import pytest
from crash_helpers import TOP, wait_until
from integrity import World

sys.path.append(str(TOP / "tests" / "store"))

import s3_servers  # noqa: E402  pylint: disable=wrong-import-position
from fault_proxy import Proxy  # noqa: E402  pylint: disable=wrong-import-position

CYCLES = int(os.environ.get("CAY_CYCLES", "40"))
KINDS = ["write", "write", "write", "sleep", "snapshot", "delete_snapshot", "rollback", "fork", "backup", "delete_backup",
         "restore", "carry", "archive", "archive", "patch", "sync", "rebirth"]
FAULTS = ["500", "503", "502", "500-after", "reset-before", "reset-after", "reset-middle", "truncate", "cut-upload", "garbage",
          "empty"]  # of those that are over at once


def backups_in(folder):
    files = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)  # they go meanwhile
    return [path for path in files if "/backups/" in path]


def rounds(server, seed, trouble=None):
    world = World(server, seed, KINDS, trouble)
    print(f"seed {seed}")
    world.create()
    world.create()
    for _ in range(CYCLES):
        world.step()
    world.check_all()
    world.remove_all()
    seconds = {kind: round(spent, 1) for kind, spent in world.seconds.items()}
    print(f"{world.done}, {world.kills} kills, {world.doubts} answers lost, {seconds} s")
    for place in ("kept", "snaps", "making"):
        assert wait_until(lambda at=place: server.disks(at) == []), (place, server.disks(place))
    faults = [line for line in server.faults() if "the keeper is gone" not in line]  # it was killed a moment before
    assert not faults, faults


def choose_seed():
    return int(os.environ.get("CAY_SEED", random.randrange(1 << 30)))


def test_local_store(server):
    rounds(server, choose_seed())
    stored = server.data / "store"
    assert wait_until(lambda: not backups_in(stored)), backups_in(stored)


@pytest.fixture(params=s3_servers.KINDS)
def s3(request, tmp_path):
    """A bucket, and what stands before it and makes trouble."""
    with s3_servers.started(request.param, tmp_path) as started:
        proxy = Proxy(started.port, started.secrets)
        yield started, proxy
        proxy.close()


def test_s3_store(s3, server):
    behind, proxy = s3
    server.stop()
    server.env = {"CAY_S3_ACCESS_KEY": behind.access_key, "CAY_S3_SECRET_KEY": behind.secret_key}
    server.flags += ["--store", "s3", "--s3-endpoint", proxy.url, "--s3-bucket", s3_servers.BUCKET]
    server.start()

    def trouble(rng):
        proxy.plan[:] = [rng.choice(FAULTS) for _ in range(rng.choice((0, 0, 1, 2)))]

    rounds(server, choose_seed(), trouble)
    proxy.plan.clear()
    assert wait_until(lambda: not behind.objects("/backups/")), behind.objects("/backups/")
