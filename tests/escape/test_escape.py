# SPDX-License-Identifier: Apache-2.0
"""Attempts to get out of a box, as root in it and as an ordinary user, and their canaries.

Attempts that judge themselves share one box (or get one each, with small limits, where they take all they
can); the others have a judge in judges.py. A canary makes an attempt again in a box whose defences against
it are taken away (cay-weak): there it has to succeed, else it proves nothing.
"""

import os
import pathlib
import time

import pytest
from judges import JUDGES
from world import (
    CAY,
    CAY_WEAK,
    ESCAPE,
    Boxes,
    clock_offset,
    escape_table,
    host_state,
    lingering,
    machine_features,
    markdown_table,
    missing_feature,
    witness_in_box,
    witness_on_host,
)

if os.geteuid() != 0:
    pytest.skip("boxes need root", allow_module_level=True)
if not all(pathlib.Path(p).exists() for p in (CAY, CAY_WEAK, ESCAPE)):
    pytest.fail(f"build first: {CAY}, {CAY_WEAK} and {ESCAPE} are needed", pytrace=False)

TABLE = {entry["name"]: entry for entry in escape_table()}
FEATURES = machine_features()
USERS = {"root": None, "user": 1000}
MIB = 1 << 20

# Limits for an attempt that has a box to itself, and what escape is told of them.
SMALL = {"memory": 64 * MIB, "disk": 32 * MIB, "pids": 64, "files": 256}
LIMITS = {
    "cpu_spin": {"memory": 256 * MIB, "pids": 200, "cpus": 0.25},
    "disk_fill": {**SMALL, "memory": 512 * MIB},
    "disk_sparse": {**SMALL, "memory": 512 * MIB},
    "files_sockets": {**SMALL, "files": 4096},
    "fork_storm": {**SMALL, "memory": 512 * MIB},
    "thread_bomb": {**SMALL, "memory": 512 * MIB},
}
# The reason and the limits that the report of such a box has to name.
TOLD = {
    "fork_bomb": "pids",
    "fork_storm": "pids",
    "thread_bomb": "pids",
    "zombie_hold": "pids",
    "disk_fill": "disk",
}
# Made in the box's first process, so that it is the one that dies.
OUT_OF_MEMORY = ["memory_anonymous", "memory_memfd", "memory_sysv", "memory_shm_files"]

# One defence taken away at a time: whatever has two of them must still hold. (Not the user namespaces, which
# carry half of the others.)
LAYERS = ["seccomp", "caps", "nnp", "nosuid", "masks", "nested", "guestuid", "dumpable", "cgroupns"]


def names(place):
    return [entry["name"] for entry in TABLE.values() if entry["place"] == place]


def canaries():
    return [entry["name"] for entry in TABLE.values() if entry["canary"]]


def limit_flags(limits):
    """The same limits for cay and for escape."""
    flags, args = [], []
    for name, value in limits.items():
        flags += [f"--{name}", str(value)]
        args += ["--milli-cpus", str(int(value * 1000))] if name == "cpus" else [f"--{name}", str(value)]
    return flags, args


def run_alone(boxes, name):
    flags, args = limit_flags(LIMITS.get(name, SMALL))
    return boxes.run(flags, [*args, "--json", name])


def result_of(report, name):
    result = report.results.get(name)
    assert result, f"no result: {report.get('reason')} {report.get('stderr')} {report.cay_stderr}"
    return result


# -- fixtures


@pytest.fixture(scope="module")
def before():
    return {"state": host_state(), "offset": clock_offset()}


@pytest.fixture(scope="module")
def host(before):
    witness = witness_on_host()
    yield witness
    witness.stop()


@pytest.fixture(scope="module")
def neighbour(before):
    witness = witness_in_box()
    yield witness
    witness.stop()


@pytest.fixture
def undisturbed(host, neighbour):
    """Fails the test if a witness noticed anything while it ran."""
    marks = [(w, w.mark()) for w in (host, neighbour)]
    yield
    for witness, mark in marks:
        assert not witness.complaints(mark)


@pytest.fixture(scope="module")
def together(host, neighbour):
    """Results of all attempts that share a box, per user. Made once each."""
    made = {}

    def results(user):
        if user not in made:
            boxes = Boxes(user=USERS[user], host=host, neighbour=neighbour)
            made[user] = boxes.run([], ["--json"])
        return made[user]

    return results


@pytest.fixture(scope="module")
def weakened(host, neighbour):
    """Results of the attempts that share a box, per set of defences taken away. Made once each."""
    made = {}

    def results(weaken, which):
        if weaken not in made:
            boxes = Boxes(program=CAY_WEAK, weaken=weaken, host=host, neighbour=neighbour)
            made[weaken] = boxes.run([], ["--json", *which])
        return made[weaken]

    return results


# -- the table itself


def test_every_number_has_attempts():
    assert {entry["n"] for entry in TABLE.values()} == set(range(1, 27))


def test_every_attempt_has_a_canary_or_says_why_not(ledger):
    for entry in TABLE.values():
        assert bool(entry["canary"]) != bool(entry["noCanary"]), entry["name"]
        if entry["noCanary"]:
            ledger["none"][entry["name"]] = entry["noCanary"]


def test_every_outside_attempt_has_a_judge():
    assert set(names("outside")) == set(JUDGES)


def test_readme_has_the_table():
    readme = (pathlib.Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    assert markdown_table() in readme, "run tests/escape/world.py to write it anew"


# -- attempts


def check(ledger, result, user):
    where = f"{result['name']} as {user}"
    assert result["outcome"] in ("HELD", "CANNOT"), f"{where}: {result['outcome']}: {result['detail']}"
    assert result["detail"], f"{where}: no reason given"
    ledger["cannot" if result["outcome"] == "CANNOT" else "made"][where] = result["detail"]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", names("together"))
def test_together(together, ledger, name, user):
    check(ledger, result_of(together(user), name), user)


@pytest.mark.parametrize("user", USERS)
def test_together_disturbs_nobody(host, neighbour, together, user):
    together(user)
    for witness in (host, neighbour):
        assert not witness.complaints(0)


@pytest.mark.parametrize("name", names("together"))
def test_made_at_least_once(together, name):
    outcomes = [result_of(together(user), name)["outcome"] for user in USERS]
    assert set(outcomes) != {"CANNOT"} or missing_feature(TABLE[name]["needs"], FEATURES)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", names("alone"))
def test_alone(undisturbed, host, neighbour, ledger, name, user):
    boxes = Boxes(user=USERS[user], host=host, neighbour=neighbour)
    report = run_alone(boxes, name)
    if TABLE[name]["killedIsHeld"] and report["reason"] == "oom":
        ledger["made"][f"{name} as {user}"] = "the kernel ended the box's first process: out of memory"
        return
    check(ledger, result_of(report, name), user)
    if name in TOLD:
        assert TOLD[name] in report["limitsHit"]


@pytest.mark.parametrize("name", OUT_OF_MEMORY)
def test_out_of_memory_is_told(undisturbed, host, name):
    flags, args = limit_flags(SMALL)
    report = Boxes(host=host).run(flags, [*args, "--direct", name])
    assert report["reason"] == "oom", report


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", sorted(JUDGES))
def test_outside(undisturbed, host, neighbour, ledger, name, user):
    boxes = Boxes(user=USERS[user], host=host, neighbour=neighbour)
    escaped, seen = JUDGES[name](boxes)
    assert not escaped, seen
    ledger["made"][f"{name} as {user}"] = seen


def test_mounts_are_private_on_a_shared_host(host, ledger):
    """Where the host shares its mounts, as systemd has it, none of them is the box's peer."""
    boxes = Boxes(host=host, prefix=["unshare", "--mount", "--propagation", "shared"])
    check(ledger, result_of(boxes.run([], ["--json", "mount_peers"]), "mount_peers"), "root, shared mounts")


# -- canaries


@pytest.mark.parametrize("name", canaries())
def test_canary(host, neighbour, weakened, ledger, name):
    entry = TABLE[name]
    missing = missing_feature(entry["needs"], FEATURES)
    if missing:
        ledger["excused"][name] = f"this machine has no {missing}"
        pytest.skip(ledger["excused"][name])
    boxes = Boxes(program=CAY_WEAK, weaken=entry["canary"], host=host, neighbour=neighbour)
    if entry["place"] == "outside":
        for _ in range(3):  # a busy machine may hide what a missing limit allows
            escaped, seen = JUDGES[name](boxes)
            if escaped:
                break
        assert escaped, f"held without {entry['canary']}: {seen}"
    else:
        if entry["place"] == "alone":
            report = run_alone(boxes, name)
        else:
            alike = [e["name"] for e in TABLE.values() if e["canary"] == entry["canary"]]
            report = weakened(entry["canary"], [n for n in alike if TABLE[n]["place"] == "together"])
        result = result_of(report, name)
        assert result["outcome"] == "ESCAPED", f"{result['outcome']} without {entry['canary']}: {result['detail']}"
    ledger["canary"][name] = entry["canary"]


@pytest.mark.parametrize("weaken", LAYERS)
def test_other_layers_hold(host, neighbour, weaken):
    """With one defence gone, what is held by two is still held."""
    boxes = Boxes(program=CAY_WEAK, weaken=weaken, host=host, neighbour=neighbour)
    results = boxes.run([], ["--json"]).results
    assert len(results) == len(names("together"))
    loose = [n for n, r in results.items() if r["outcome"] not in ("HELD", "CANNOT")]
    alone = [n for n in results if TABLE[n]["canary"] and set(TABLE[n]["canary"].split(",")) <= {weaken}]
    assert sorted(set(loose) - set(alone)) == []


# -- afterwards


def test_witnesses_still_live(host, neighbour):
    for witness in (host, neighbour):
        witness.wait_beats(witness.mark())


def test_nothing_lingers(host):
    assert lingering(host.token) == []


def test_clock_was_not_set(before):
    assert abs(clock_offset() - before["offset"]) < 2


def test_host_is_unchanged(before):
    for _ in range(50):  # what a box leaves behind is taken away a moment later
        after = host_state()
        changed = {key for key in after if after[key] != before["state"].get(key)}
        changed |= set(before["state"]) - set(after)
        if not changed:
            return
        time.sleep(0.1)
    assert {key: (before["state"].get(key), after.get(key)) for key in sorted(changed)} == {}
