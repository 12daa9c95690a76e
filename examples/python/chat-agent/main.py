# SPDX-License-Identifier: Apache-2.0
"""A conversation in which each message finds what the last one left: directory, variables, files. A message is a command
here; where an agent answers, it is what the agent runs.

    python3 main.py                               # some messages of its own
    python3 main.py 'cd /tmp' 'pwd'               # yours; run it again, and it goes on where it was
    CONVERSATION=bob python3 main.py 'pwd'        # another conversation has another sandbox
    python3 main.py --end                         # it is over
"""

import os
import sys

import cay

MESSAGES = ["mkdir -p notes && cd notes", "export TOPIC=islands", "echo small and sandy > $TOPIC", "pwd; cat $TOPIC"]

# The id is all that has to be remembered of a conversation. After ten minutes without a message the sandbox falls asleep:
# programs end; files, directory and exported variables stay, and the next message wakes it. After a week it is destroyed.
box = cay.get_sandbox(f"chat-{os.environ.get('CONVERSATION', 'ada')}", sleep_after="10m", destroy_after="7d")


def open_session() -> cay.Session:
    try:
        return box.create_session("chat")
    except cay.ConflictError:  # the conversation has begun before
        return box.get_session("chat")


def answer(session: cay.Session, message: str) -> str:
    try:
        result = session.exec(message, timeout="1m")
    except cay.SessionTerminatedError as end:  # somebody said `exit`: the next message gets a new shell
        return f"(the shell ended with {end.exit_code})"
    said = (result.stdout + result.stderr).rstrip("\n")
    return said if result.success else f"{said}\n(exit code {result.exit_code})".lstrip("\n")


if sys.argv[1:] == ["--end"]:
    box.destroy()
    sys.exit()

session = open_session()
for message in sys.argv[1:] or MESSAGES:
    print(f"> {message}")
    said = answer(session, message)
    if said:
        print(said)
