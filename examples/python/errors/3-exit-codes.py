# SPDX-License-Identifier: Apache-2.0
"""Ignoring exit codes: a command that fails is a result, and what it should have printed is not there."""

import cay

SCRIPT = "import json, sys\nprint(json.load(open('nosuch.json'))['answer'])\n"


def wrong(box: cay.Sandbox) -> None:
    answer = box.exec("python3 script.py").stdout
    print(f"wrong: the answer is {answer!r}")


def right(box: cay.Sandbox) -> None:
    result = box.exec("python3 script.py")
    if not result.success:
        print(f"right: exit code {result.exit_code}:", result.stderr.strip().splitlines()[-1])
    try:
        box.exec("python3 script.py", check=True)  # the same as an exception
    except cay.CommandFailedError as error:
        print("right:", str(error).splitlines()[0], error.result.exit_code)


with cay.get_sandbox() as box:
    box.write_file("script.py", SCRIPT)
    wrong(box)
    right(box)
