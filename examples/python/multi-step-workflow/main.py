# SPDX-License-Identifier: Apache-2.0
"""Steps that build on each other, in one session: directory, environment and what was activated stay.

    python3 main.py
"""

import cay

MAIN = """\
import os, sys
from greeting import greet

print(greet(os.environ["NAME"]))
print("in an environment of its own:", sys.prefix != sys.base_prefix)
"""

with cay.get_sandbox() as box:
    session = box.create_session(env={"NAME": "islander"})

    # Step 1: a place. The session stays in it.
    session.exec("mkdir project && cd project", check=True)

    # Step 2: an environment, which the session stays in, too. (Packages need a network: get_sandbox(network={"allow":
    # ["pypi.org", "files.pythonhosted.org"]}), then `pip install -r requirements.txt` here.)
    session.exec("python3 -m venv --without-pip .venv && . .venv/bin/activate", check=True, timeout="2m")

    # Step 3: files. These need no session: the disk is the same for all.
    box.write_file("project/greeting.py", "def greet(name):\n    return f'hello, {name}'\n")
    box.write_file("project/main.py", MAIN)

    # Step 4: run it. Nothing has to be said again of where, and with what.
    result = box.exec("python main.py", session=session, check=True, timeout="1m")
    print(result.stdout, end="")
    print("still in", session.exec("pwd").stdout, end="")
