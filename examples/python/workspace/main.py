# SPDX-License-Identifier: Apache-2.0
"""A place for each person that is there again tomorrow. Run it several times.

    python3 main.py ada                     # what is in Ada's workspace
    python3 main.py ada 'date >> visits'    # does something in it; what fails is undone
    python3 main.py ada --reset             # begins anew
"""

import sys

import cay

user = sys.argv[1] if len(sys.argv) > 1 else "ada"
command = sys.argv[2] if len(sys.argv) > 2 else None

# The same id is the same sandbox, from wherever it is asked for. It sleeps when nobody is there, and keeps its files.
box = cay.get_sandbox(f"workspace-{user}", sleep_after="5m", labels={"user": user})

if command == "--reset":
    box.destroy()
    print(f"the workspace of {user} is empty")
    sys.exit()

if not box.exists(".welcome"):  # the first time
    box.write_file(".welcome", "")
    box.write_file("README.txt", f"This is {user}'s.\n")

if command is not None:
    before = box.snapshot()  # a few milliseconds, whatever there is
    result = box.exec(command, timeout="2m")
    print(result.stdout + result.stderr, end="")
    if not result.success:
        box.rollback(before)
        print(f"that failed with {result.exit_code}: all is as it was")
    box.delete_snapshot(before)

for entry in box.list_files(recursive=True):
    print(f"{entry.type:<10} {entry.size:>8}  {entry.path}")
