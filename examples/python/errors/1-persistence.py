# SPDX-License-Identifier: Apache-2.0
"""Counting on files after a while of idleness. Elsewhere they are gone when the container stops; here they stay."""

import cay


def wrong() -> None:
    """What is lost with idleness elsewhere is lost here only by one who asks for it: an ephemeral sandbox."""
    with cay.get_sandbox(ephemeral=True) as box:
        box.write_file("data.txt", "content")
        box.sleep()  # as ten minutes without use do
        try:
            print("wrong:", box.read_file("data.txt"))
        except FileNotFoundError as error:
            print("wrong:", error)


def right() -> None:
    """Nothing has to be done for files to be there after sleep."""
    with cay.get_sandbox() as box:
        box.write_file("data.txt", "content")
        box.sleep()
        print("right:", box.read_file("data.txt"))
        # What shall outlive the sandbox itself is stored outside of it.
        backup = box.create_backup("/workspace", ttl="1h")
    with cay.get_sandbox() as other:
        other.restore_backup(backup)
        print("right, in another sandbox:", other.read_file("data.txt"))


wrong()
right()
