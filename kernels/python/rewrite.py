# SPDX-License-Identifier: Apache-2.0
"""What notebooks write that is not Python (%magic, !command, thing?) as Python, line for line.

Only cells that do not compile come here, so ordinary ones pay nothing. Lines inside strings and brackets are left alone.
"""

from cay_kernel.own import BUILTINS as __builtins__

from cay_kernel import cell

CALL = "get_ipython()."
# Words that need no % at the start of a line, unless a variable has the name.
BARE = frozenset(
    ("cd", "ls", "ll", "pip", "conda", "pwd", "cat", "mkdir", "rmdir", "cp", "mv", "rm", "who", "whos", "time", "timeit")
)


def to_python(source):
    """The same lines as Python, or None when there is nothing to rewrite."""
    lines = source.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return None
    if lines[first].startswith("%%"):
        return _cell_magic(lines, first)
    plain = _without_prompts(_without_indent(lines, first))
    changed = _rewrite(plain)
    return None if changed == lines else "\n".join(changed)


def bare(source):
    """A cell of one line that begins with a word of the shell, or the source as it is."""
    line = source.strip()
    return source if "\n" in line else _bare("", line) or source


def _cell_magic(lines, first):
    name, _, rest = lines[first][2:].strip().partition(" ")
    body = "\n".join(lines[first + 1 :])
    if name.endswith("?"):
        return "\n" * first + _help(name)
    # The body begins on the line after the magic's: run_cell keeps numbers right (magics.py).
    return "\n" * first + "%srun_cell_magic(%r, %r, %r)" % (CALL, name, rest.strip(), body)


def _without_indent(lines, first):
    """A cell that was cut out of a function."""
    width = len(lines[first]) - len(lines[first].lstrip())
    indent = lines[first][:width]
    if not width or any(line.strip() and not line.startswith(indent) for line in lines):
        return lines
    return [line[width:] for line in lines]


def _without_prompts(lines):
    """A cell that was copied from a session."""
    marked = [line for line in lines if line.strip()]
    if not marked or not marked[0].startswith(">>> "):
        return lines
    return [line[4:] if line[:4] in (">>> ", "... ") else "" if line.strip() in (">>>", "...") else line for line in lines]


def _rewrite(lines):
    out, state, at = [], _State(), 0
    while at < len(lines):
        line = lines[at]
        if state.is_inside():
            state.feed(line)
            out.append(line)
            at += 1
            continue
        whole, used = _joined(lines, at)
        new = _rewrite_line(whole)
        if new is None:
            state.feed(line)
            out.append(line)
            at += 1
            continue
        out.extend([new] + [""] * (used - 1))
        at += used
    return out


def _joined(lines, at):
    """A line with those that a backslash adds to it."""
    text, used = lines[at], 1
    while text.endswith("\\") and at + used < len(lines):
        text = text[:-1] + lines[at + used]
        used += 1
    return text, used


def _rewrite_line(line):
    body = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    if not body or body[0] == "#":
        return None
    if body.startswith("!!"):
        return indent + "%sgetoutput(%r)" % (CALL, body[2:])
    if body[0] == "!":
        return indent + "%ssystem(%r)" % (CALL, body[1:])
    if body[0] == "%" and body[1:2].isidentifier():
        return indent + _line_magic(body[1:])
    if body[0] == "?" or (body[-1] == "?" and _is_name(body.rstrip("?").lstrip("%"))):
        return indent + _help(body)
    return _assignment(indent, body) or _bare(indent, body)


def _line_magic(text):
    name, _, rest = text.partition(" ")
    if name.endswith("?"):
        return _help(name)
    return "%srun_line_magic(%r, %r)" % (CALL, name, rest.strip())


def _help(text):
    return "%srun_line_magic('pinfo', %r)" % (CALL, text.strip("?%").strip())


def _is_name(text):
    return bool(text) and all(part.isidentifier() for part in text.split("."))


def _assignment(indent, body):
    """names = !command, names = %magic"""
    target, equals, value = body.partition("=")
    value = value.strip()
    target = target.strip()
    if not equals or not _is_target(target):
        return None
    if value[:1] == "!":
        return "%s%s = %sgetoutput(%r)" % (indent, target, CALL, value[1:])
    if value[:1] == "%" and value[1:2].isidentifier():
        return "%s%s = %s" % (indent, target, _line_magic(value[1:]))
    return None


def _is_target(text):
    return bool(text) and all(char.isalnum() or char in "_.,[]'\"() *" for char in text)


def _bare(indent, body):
    if indent:
        return None
    name, _, rest = body.partition(" ")
    if name not in BARE or name in cell.namespace or rest.lstrip()[:1] in ("=", "("):
        return None
    return _line_magic(body)


class _State:
    """Whether the end of a line is inside a string or brackets, or the line goes on."""

    def __init__(self):
        self.depth = 0
        self.quote = None  # of a string that lasts over lines
        self.goes_on = False

    def is_inside(self):
        return self.depth > 0 or self.quote is not None or self.goes_on

    def feed(self, line):
        at = 0
        self.goes_on = False
        while at < len(line):
            at = self._in_string(line, at) if self.quote else self._in_code(line, at)
        if self.quote and len(self.quote) == 1 and not self.goes_on:
            self.quote = None  # a string that was never closed: the compiler will say so

    def _in_string(self, line, at):
        if line[at] == "\\":
            self.goes_on = at == len(line) - 1
            return at + 2
        if line.startswith(self.quote, at):
            at += len(self.quote)
            self.quote = None
            return at
        return at + 1

    def _in_code(self, line, at):
        char = line[at]
        if char == "#":
            return len(line)
        if char in "\"'":
            self.quote = char * 3 if line.startswith(char * 3, at) else char
            return at + len(self.quote)
        if char in "([{":
            self.depth += 1
        elif char in ")]}":
            self.depth = max(0, self.depth - 1)
        elif char == "\\" and at == len(line) - 1:
            self.goes_on = True
        return at + 1
