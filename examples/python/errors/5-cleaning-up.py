# SPDX-License-Identifier: Apache-2.0
"""Never destroying sandboxes that were for one thing only: each keeps its disk, and counts for quotas."""

import cay


def left_behind() -> int:
    return len(cay.list_sandboxes(label="example=cleaning-up"))


def wrong() -> cay.Sandbox:
    box = cay.get_sandbox(labels={"example": "cleaning-up"})
    box.exec("true")
    return box


def right() -> None:
    with cay.get_sandbox(labels={"example": "cleaning-up"}) as box:
        box.exec("true")
    # Where nobody is sure to come back: the server destroys what was not used for so long.
    box = cay.get_sandbox(labels={"example": "cleaning-up"}, destroy_after="1h")
    try:
        box.exec("true")
        print("right: destroyed after", box.info().destroy_after, "seconds without use, or now")
    finally:
        box.destroy()


forgotten = wrong()
print("wrong: left behind:", left_behind())
forgotten.destroy()
right()
print("right: left behind:", left_behind())
