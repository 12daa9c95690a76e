# SPDX-License-Identifier: Apache-2.0
"""Counting on a set-up that may not be there: the first use of an id is a new, empty sandbox."""

import cay

MAKEFILE = "build:\n\t@echo built\n"


def wrong() -> None:
    with cay.get_sandbox() as box:
        result = box.exec("cd /workspace/project && make build")
        print("wrong:", result.exit_code, result.stderr.strip())


def right() -> None:
    with cay.get_sandbox() as box:
        for _ in range(2):  # the second time it is there
            if not box.exists("project/Makefile"):
                print("right: setting up")
                box.write_file("project/Makefile", MAKEFILE)  # or git_checkout(), and what has to be installed
            print("right:", box.exec("make build", cwd="/workspace/project", check=True).stdout.strip())


wrong()
right()
