# SPDX-License-Identifier: Apache-2.0
"""No timeout: a command that hangs is waited for without an end."""

import threading

import cay


def wrong(box: cay.Sandbox) -> None:
    waiting = threading.Thread(target=lambda: box.exec("sleep 86400"), daemon=True)
    waiting.start()
    waiting.join(1)
    print("wrong: still waiting:", waiting.is_alive())


def right(box: cay.Sandbox) -> None:
    result = box.exec("sleep 86400", timeout="500ms")
    print("right:", result.reason, result.exit_code)  # all of it was killed; the sandbox goes on
    # What takes long is a process: it goes on when nobody waits, and its output can be read at any time.
    process = box.start_process("for i in 1 2 3; do echo step $i; sleep 0.1; done", timeout="1h")
    print("right:", process.wait_for_log("step 2").line)
    print("right: ended with", process.wait_for_exit(), process.get_logs().stdout.split("\n")[-2])


with cay.get_sandbox() as box:
    wrong(box)  # the end of the sandbox is the end of what hangs in it
with cay.get_sandbox() as box:
    right(box)
