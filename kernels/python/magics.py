# SPDX-License-Identifier: Apache-2.0
"""The magics that ordinary notebooks use, and the shell."""

from cay_kernel.own import BUILTINS as __builtins__

import os
import sys
import time

from cay_kernel import cell, streams
from cay_kernel.own import load

NOTHING = ("autoreload", "load_ext", "reload_ext", "unload_ext", "config", "colors", "precision", "xmode", "pylab",
           "matplotlib", "autosave", "pdb", "logstart", "logstop", "gui", "automagic", "autocall", "autoawait")
SHELL = ("ls", "cat", "mkdir", "rmdir", "cp", "mv", "rm", "ll", "head", "tail", "grep", "find", "which", "touch", "wc")
PROGRAMS = ("bash", "sh", "perl", "ruby", "python", "python3", "node", "javascript", "js")

line_magics, cell_magics = {}, {}
_visited = []  # directories, for %cd -


class UsageError(Exception):
    """The name that IPython gives a magic that is not there, or not used so."""


UsageError.__module__ = "IPython.core.error"


def _is(table, *names):
    def add(function):
        for name in names:
            table[name] = function
        return function

    return add


def register(function, kind="line", name=None):
    name = name or function.__name__
    if "line" in kind:
        line_magics[name] = function
    if "cell" in kind:
        cell_magics[name] = function


def run_line(name, line):
    if name in NOTHING:
        return None
    magic = line_magics.get(name)
    if magic is None:
        also = " (but the cell magic %%%%%s exists)" % name if name in cell_magics else ""
        raise UsageError("Line magic function `%%%s` not found%s." % (name, also))
    return magic(line if name in ("time", "timeit", "prun", "pinfo") else expand(line))


def run_cell(name, line, text):
    magic = cell_magics.get(name)
    if magic is None:
        also = " (but the line magic %%%s exists)" % name if name in line_magics else ""
        raise UsageError("Cell magic `%%%%%s` not found%s." % (name, also))
    return magic(line, text)


# Variables in lines for the shell: {expression}, $name, $$.


def expand(text):
    out, at = [], 0
    while at < len(text):
        piece, at = _expand_one(text, at)
        out.append(piece)
    return "".join(out)


def _expand_one(text, at):
    char = text[at]
    if char == "$" and text[at + 1 : at + 2] == "$":
        return "$", at + 2
    if char == "$":
        end = at + 1
        while end < len(text) and (text[end] == "_" or text[end].isalnum()):
            end += 1
        name = text[at + 1 : end]
        return (str(cell.namespace[name]), end) if name in cell.namespace else (text[at:end] or "$", max(end, at + 1))
    if char in "{}" and text[at + 1 : at + 2] == char:
        return char, at + 2
    if char == "{" and "}" in text[at:]:
        end = text.index("}", at)
        try:
            return str(eval(text[at + 1 : end].strip(), cell.namespace)), end + 1
        except Exception:
            pass  # braces of the shell's own
    return char, at + 1


def system(command):
    """!command: its output goes where ours goes, as it comes."""
    import subprocess

    streams.flush()
    done = subprocess.Popen(expand(command), shell=True, executable=_shell())
    try:
        code = done.wait()
    except KeyboardInterrupt:
        done.wait()
        raise
    cell.namespace["_exit_code"] = code


def _shell():
    shell = os.environ.get("SHELL", "/bin/sh")
    return shell if os.access(shell, os.X_OK) else "/bin/sh"


def getoutput(command):
    import subprocess

    streams.flush()
    done = subprocess.run(expand(command), shell=True, executable=_shell(), stdout=subprocess.PIPE, check=False)
    cell.namespace["_exit_code"] = done.returncode
    return SList(done.stdout.decode("utf-8", "replace").splitlines())


class SList(list):
    """Lines, as `x = !command` gives them."""

    l = list_ = property(lambda self: list(self))
    n = nlstr = property(lambda self: "\n".join(self))
    s = spstr = property(lambda self: " ".join(self))

    def grep(self, pattern, prune=False, field=None):
        import re

        keep = pattern if callable(pattern) else re.compile(pattern, re.IGNORECASE).search
        return SList(line for line in self if bool(keep(line)) != prune)

    def fields(self, *numbers):
        rows = [line.split() for line in self]
        if not numbers:
            return rows
        return SList(" ".join(row[n] for n in numbers if -len(row) <= n < len(row)) for row in rows)


# Lines


@_is(line_magics, "pip")
def pip(line):
    import shlex

    system("%s -m pip %s" % (shlex.quote(sys.executable), line))
    _forget_paths()


@_is(line_magics, "conda", "mamba")
def conda(line):
    system("conda " + line)
    _forget_paths()


def _forget_paths():
    """What was installed just now is to be found."""
    import importlib

    importlib.invalidate_caches()
    load("opening").add_new_paths()


@_is(line_magics, "cd")
def cd(line):
    place = line.strip().strip("'\"") or "~"
    if place.startswith("-q"):
        place = place[2:].strip() or "~"
    if place == "-":
        if not _visited:
            raise UsageError("No previous directory to change to.")
        place = _visited[-1]
    before = os.getcwd()
    os.chdir(os.path.expanduser(place))
    _visited.append(before)
    print(os.getcwd())


@_is(line_magics, "pwd")
def pwd(line):
    return os.getcwd()


@_is(line_magics, "env")
def env(line):
    line = line.strip()
    if not line:
        return dict(os.environ)
    if "=" not in line and " " not in line:
        if line not in os.environ:
            raise UsageError("Environment does not have key: " + line)
        return os.environ[line]
    return set_env(line)


@_is(line_magics, "set_env")
def set_env(line):
    name, _, value = line.partition("=" if "=" in line else " ")
    os.environ[name.strip()] = value.strip()
    print("env: %s=%s" % (name.strip(), value.strip()))


def _names():
    hidden = ("In", "Out", "exit", "quit", "get_ipython")
    return [n for n in sorted(cell.namespace) if not n.startswith("_") and n not in hidden]


@_is(line_magics, "who", "who_ls")
def who(line):
    kinds = line.split()
    names = [n for n in _names() if not kinds or type(cell.namespace[n]).__name__ in kinds]
    print("\t ".join(names) + "\t " if names else "Interactive namespace is empty.")


@_is(line_magics, "whos")
def whos(line):
    names = _names()
    if not names:
        print("Interactive namespace is empty.")
        return
    rows = [(n, type(cell.namespace[n]).__name__, _short(cell.namespace[n])) for n in names]
    wide = max(8, *(len(row[0]) for row in rows)), max(4, *(len(row[1]) for row in rows))
    head = "%-*s   %-*s   Data/Info" % (wide[0], "Variable", wide[1], "Type")
    print(head + "\n" + "-" * len(head))
    for name, kind, text in rows:
        print("%-*s   %-*s   %s" % (wide[0], name, wide[1], kind, text))


def _short(value):
    if hasattr(value, "shape"):
        return "shape: %s" % (value.shape,)
    if isinstance(value, (list, dict, tuple, set)):
        return "n=%d" % len(value)
    try:
        text = " ".join(repr(value).split())
    except Exception as error:
        text = "<%s>" % type(error).__name__
    return text if len(text) < 60 else text[:57] + "..."


@_is(line_magics, "reset")
def reset(line):
    for name in _names():
        del cell.namespace[name]


@_is(line_magics, "reset_selective", "xdel")
def forget(line):
    for name in line.replace("-f", "").split():
        cell.namespace.pop(name, None)


@_is(line_magics, "lsmagic")
def lsmagic(line):
    print("Available line magics:\n" + "  ".join("%" + n for n in sorted(line_magics)))
    print("\nAvailable cell magics:\n" + "  ".join("%%" + n for n in sorted(cell_magics)))


@_is(line_magics, "history", "hist")
def history(line):
    print("\n".join(cell.history.inputs[1:-1]))


@_is(line_magics, "run")
def run_file(line):
    import runpy
    import shlex

    words = [word for word in shlex.split(line) if not word.startswith("-")] or [""]
    path = words[0] if words[0].endswith((".py", ".ipy")) or os.path.exists(words[0]) else words[0] + ".py"
    if not os.path.exists(path):
        raise FileNotFoundError("File `%r` not found." % path)
    before, sys.argv = sys.argv, [path] + shlex.split(line)[1:]
    main = sys.modules.get("__main__")
    try:
        found = runpy.run_path(path, run_name="__main__")
    finally:
        sys.argv = before
        if main is not None:
            sys.modules["__main__"] = main
    cell.namespace.update((n, v) for n, v in found.items() if not n.startswith("__"))


@_is(line_magics, "load")
def load_file(line):
    with open(line.strip(), encoding="utf-8") as file:
        print(file.read())


@_is(line_magics, "pinfo", "pinfo2")
def pinfo(line):
    """thing?"""
    name = line.strip()
    if name in line_magics or name in cell_magics:
        print((line_magics.get(name) or cell_magics[name]).__doc__ or "No documentation")
        return
    try:
        value = eval(name, cell.namespace)
    except Exception:
        print("Object `%s` not found." % name)
        return
    print("\n".join(_describe(name, value)))


def _describe(name, value):
    import inspect

    lines = []
    if callable(value):
        try:
            lines.append("Signature: %s%s" % (name, inspect.signature(value)))
        except (TypeError, ValueError):
            pass
    lines.append("Type:      " + type(value).__name__)
    if not callable(value):
        lines.append("String form: " + _short(value))
    lines.append("Docstring: " + (inspect.getdoc(value) or "<no docstring>"))
    return lines


# Time


@_is(line_magics, "time")
def time_line(line):
    return _timed(line.strip())


@_is(cell_magics, "time")
def time_cell(line, text):
    """%%time: the body begins one line below, so that numbers of lines are those of the cell."""
    if line:
        cell.execute(line, _name())
    return _timed("\n" + text)


def _name():
    return "<cell %d>" % cell.count


def _timed(text):
    name = _name()
    source = cell.sources.get(name, text)
    body, last, is_quiet = cell.parse(text, name)
    cell.register(name, source)
    start, cpu = time.time(), os.times()
    try:
        if body is not None:
            cell.run_code(body)
        value = None if last is None else cell.run_code(last)
    finally:
        wall, now = time.time() - start, os.times()
        user, kernel = now.user - cpu.user, now.system - cpu.system
        print("CPU times: user %s, sys: %s, total: %s" % (span(user), span(kernel), span(user + kernel)))
        print("Wall time: %s" % span(wall))
    return None if is_quiet else value


def span(seconds, digits=3):
    """A length of time for people."""
    if seconds >= 60:
        parts = []
        for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
            count, seconds = divmod(seconds, size)
            if count or unit == "s":
                parts.append("%d%s" % (count, unit))
        return " ".join(parts[:3])
    for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "\u00b5s")):
        if seconds >= size:
            return "%.*g %s" % (digits, seconds / size, unit)
    return "%.*g %s" % (digits, seconds / 1e-9, "ns")


@_is(line_magics, "timeit")
def timeit_line(line):
    return _timeit(line, "pass", is_line=True)


@_is(cell_magics, "timeit")
def timeit_cell(line, text):
    return _timeit(line, text, is_line=False)


def _timeit(line, text, is_line):
    import timeit

    options, rest = _options(line, "nr")
    setup, code = ("pass", rest) if is_line else (rest or "pass", text)
    timer = timeit.Timer(code, setup, globals=cell.namespace)
    loops = int(options.get("n", 0)) or timer.autorange()[0]
    rounds = int(options.get("r", 7))
    times = [spent / loops for spent in timer.repeat(rounds, loops)]
    mean = sum(times) / len(times)
    spread = (sum((one - mean) ** 2 for one in times) / len(times)) ** 0.5
    form = "%s \u00b1 %s per loop (mean \u00b1 std. dev. of %d run%s, %s loop%s each)"
    plural = ("" if rounds == 1 else "s", "" if loops == 1 else "s")
    print(form % (span(mean), span(spread), rounds, plural[0], format(loops, ","), plural[1]))


def _options(line, known):
    """Options with a number, -n 10 or -n10, before the rest; others (-q, -o) are dropped."""
    options, words = {}, line.strip()
    while words.startswith("-") and len(words) > 1 and words[1].isalpha():
        name, words = words[1], words[2:].lstrip()
        if name in known:
            value, _, words = words.partition(" ")
            options[name] = value
    return options, words.strip()


@_is(line_magics, "prun")
def prun(line):
    import cProfile

    cProfile.runctx(line, cell.namespace, cell.namespace, sort="tottime")


# Cells


@_is(cell_magics, "capture")
def capture(line, text):
    """%%capture NAME: what the cell prints goes into a variable."""
    import contextlib
    import io

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        cell.execute("\n" + text, _name())
    names = [word for word in line.split() if not word.startswith("-")]
    if names:
        cell.namespace[names[0]] = Captured(out.getvalue(), err.getvalue())


class Captured:
    def __init__(self, stdout, stderr):
        self.stdout, self.stderr, self.outputs = stdout, stderr, []

    def show(self):
        sys.stdout.write(self.stdout)
        sys.stderr.write(self.stderr)

    __call__ = show

    def __str__(self):
        return self.stdout


@_is(cell_magics, "writefile", "file")
def writefile(line, text):
    import shlex

    words = shlex.split(line)
    is_more = "-a" in words or "--append" in words
    path = os.path.expanduser(next((word for word in words if not word.startswith("-")), ""))
    if not path:
        raise UsageError("%%writefile: the following arguments are required: filename")
    said = "Appending to" if is_more else "Overwriting" if os.path.exists(path) else "Writing"
    print("%s %s" % (said, path))
    with open(path, "a" if is_more else "w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else text + "\n")


def _program(name):
    def run(line, text):
        _run_program(["node"] if name in ("javascript", "js") and line == "node" else [name], line, text)

    return run


def _run_program(command, line, text):
    import shlex
    import subprocess

    streams.flush()
    words = command + [word for word in shlex.split(line) if word != "node"]
    done = subprocess.run(words, input=text.encode(), check=False)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, text.encode())


@_is(cell_magics, "script")
def script(line, text):
    _run_program([], line, text)


@_is(cell_magics, "!", "sx", "system")
def system_cell(line, text):
    return getoutput(line + "\n" + text)


def _shown(kind):
    def show(line, text):
        rich = load("rich")
        rich.display(getattr(rich, kind)(text))

    return show


def _of_shell(name):
    return lambda line: system("%s %s" % (name, line))


def _fill():
    for name in PROGRAMS:
        cell_magics[name] = _program(name)
    for name, kind in (("html", "HTML"), ("HTML", "HTML"), ("markdown", "Markdown"), ("latex", "Latex"), ("svg", "SVG"),
                       ("SVG", "SVG"), ("javascript", "Javascript"), ("js", "Javascript")):
        cell_magics[name] = _shown(kind)
    for name in SHELL:
        line_magics[name] = _of_shell(name)
    line_magics["ll"] = _of_shell("ls -l")
    line_magics["system"] = line_magics["sx"] = line_magics["sc"] = getoutput


_fill()
