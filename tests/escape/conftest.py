# SPDX-License-Identifier: Apache-2.0
"""At the end, in figures: how many attempts were made, how many could not be and why, and which have no
canary and why."""

import collections

import pytest

LEDGER = collections.defaultdict(dict)


@pytest.fixture(scope="session")
def ledger():
    """LEDGER[kind][what] = why; kinds: made, cannot, canary, excused, none."""
    return LEDGER


def pytest_terminal_summary(terminalreporter):
    if not LEDGER:
        return
    say = terminalreporter.write_line
    terminalreporter.section("escape")
    say(f"{len(LEDGER['made'])} attempts made, {len(LEDGER['cannot'])} could not be")
    for what, why in sorted(LEDGER["cannot"].items()):
        say(f"  {what}: {why}")
    say(
        f"{len(LEDGER['canary'])} canaries sang, {len(LEDGER['excused'])} excused by this machine, "
        f"{len(LEDGER['none'])} attempts have none"
    )
    for kind in ("excused", "none"):
        for what, why in sorted(LEDGER[kind].items()):
            say(f"  {what}: {why}")
