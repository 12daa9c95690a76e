# SPDX-License-Identifier: Apache-2.0
"""Pages that are followed from their first line to their last: what they say is typed, what they show is looked for."""

import os
import re
import subprocess

from api_helpers import PATIENCE


def is_whole(command):
    """Whether a shell would run it, or ask for more: quotes, a pipe, a here-document, a backslash."""
    if command.endswith("\\"):
        return False
    done = subprocess.run(["bash", "-n", "-c", command + "\n"], capture_output=True, check=False)
    return done.returncode == 0 and not done.stderr


def steps(page):
    """[command, the lines shown under it], of all blocks of the page."""
    found, indent, is_open = [], 0, False
    for line in page.read_text(encoding="utf-8").splitlines():
        start = re.match(r" {4,6}\$ ", line)
        if start and (not is_open or is_whole(found[-1][0])):
            found.append([line[start.end():], []])
            indent, is_open = start.end() - 2, True
        elif is_open and (line.startswith(" " * indent) or not line.strip()):
            add_line(found[-1], line[indent:])
        else:
            is_open = False
    return found


def add_line(step, line):
    if not step[1] and not is_whole(step[0]):
        step[0] += "\n" + line
    else:
        step[1].append(line)


def squeeze(text):
    """Where lines are broken is the page's affair."""
    return re.sub(r"\s", "", text)


def pattern(shown):
    """'…' stands for anything."""
    return ".*".join(re.escape(squeeze(part)) for part in "\n".join(shown).split("…"))


def script(commands):
    """One shell for all, as a reader has; each command's output ends with a mark of its own."""
    prelude = ['cay() { "$CAY_PROGRAM" "$@"; }', f'curl() {{ command curl -sS -m {PATIENCE} "$@"; }}']
    lines = [f"{{ {command}\n}} 2>&1\necho; echo '=== {i} ==='" for i, command in enumerate(commands)]
    return "\n".join(prelude + lines)


def follow(found, environment, where):
    """What each command printed."""
    whole = script([command for command, _ in found])
    done = subprocess.run(["bash", "-c", whole], cwd=where, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE * 6, check=False)
    outputs = re.split(r"\n=== \d+ ===\n", done.stdout)
    assert len(outputs) == len(found) + 1, done
    if os.environ.get("CAY_DOC_TRANSCRIPT"):
        with open(os.environ["CAY_DOC_TRANSCRIPT"], "w", encoding="utf-8") as f:
            f.writelines(f"$ {command}\n{output}\n" for (command, _), output in zip(found, outputs, strict=False))
    return outputs


def differences(found, outputs):
    """Where a page and the program do not agree, in words."""
    return [
        f"$ {command}\nshould show:\n" + "\n".join(shown) + f"\nbut shows:\n{output}\n"
        for (command, shown), output in zip(found, outputs, strict=False)
        if not re.fullmatch(pattern(shown), squeeze(output))
    ]
