# SPDX-License-Identifier: Apache-2.0
"""Runs one command in a sandbox and says how it ended.

    python3 main.py                         # a command of its own
    python3 main.py 'ls -la /; exit 3'      # yours
"""

import sys

import cay

command = sys.argv[1] if len(sys.argv) > 1 else 'echo "hello from $(uname -s)"; python3 -c "print(6 * 7)"'

# Without an id one is made up. The sandbox is made when it is first used, and destroyed at the end of the block.
with cay.get_sandbox() as box:
    result = box.exec(command, timeout="30s")
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)

# A command that fails is a result, not an exception: look at it.
print("it worked" if result.success else f"it failed: exit code {result.exit_code} ({result.reason})")
sys.exit(result.exit_code)
