# SPDX-License-Identifier: Apache-2.0
"""Elsewhere the first request decides for good in which part of the world a sandbox is, and so people make one for each
region. Here a server is a place, and an id is one sandbox on it: nobody is locked in, but two ids are two sandboxes."""

import cay


def wrong(user: str) -> None:
    with cay.get_sandbox(f"{user}-eu") as one, cay.get_sandbox(f"{user}-us") as other:
        one.write_file("notes.txt", "written in Europe")
        print("wrong: the notes are there:", other.exists("notes.txt"))


def right(user: str) -> None:
    with cay.get_sandbox(user) as box:
        box.write_file("notes.txt", "written anywhere")
        print("right: the notes are there:", cay.get_sandbox(user).exists("notes.txt"))
        # To another place (url= of another server with the same store), or to another id: by a backup.
        backup = box.create_backup("/workspace", ttl="1h")
        with cay.get_sandbox(f"{user}-moved") as moved:
            moved.restore_backup(backup)
            print("right: moved:", moved.read_file("notes.txt"))


wrong("example-traveller")
right("example-traveller")
