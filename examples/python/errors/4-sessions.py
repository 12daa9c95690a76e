# SPDX-License-Identifier: Apache-2.0
"""Counting on the directory of the last command: each has a shell of its own, unless a session is given."""

import cay


def wrong(box: cay.Sandbox) -> None:
    box.exec("cd /tmp && export STAGE=dev")
    print("wrong:", box.exec("pwd; echo \"stage: $STAGE\"").stdout.split("\n"))


def right(box: cay.Sandbox) -> None:
    session = box.create_session()
    box.exec("cd /tmp && export STAGE=dev", session=session)
    print("right:", box.exec("pwd; echo \"stage: $STAGE\"", session=session).stdout.split("\n"))
    # For one command there is a shorter way.
    print("right:", box.exec("pwd; echo \"stage: $STAGE\"", cwd="/tmp", env={"STAGE": "dev"}).stdout.split("\n"))


with cay.get_sandbox() as box:
    wrong(box)
    right(box)
