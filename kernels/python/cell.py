# SPDX-License-Identifier: Apache-2.0
"""Runs one cell: parse, run, show the value of the last expression, say how it ended."""

from cay_kernel.own import BUILTINS as __builtins__

import builtins
import sys
from posix import _exit
from sys import getrecursionlimit, modules, setrecursionlimit

from _ast import Expr, Expression, PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST

from cay_kernel import interrupt, streams, wire
from cay_kernel.own import load

PARSE = PyCF_ONLY_AST | PyCF_ALLOW_TOP_LEVEL_AWAIT
# `from __future__ import` lasts for the context: annotations, and the one that is a joke.
FUTURE = 0x1000000 | 0x400000
CO_COROUTINE = 0x80
SIMPLE = frozenset((int, float, bool, complex))
TEXT_MAX = 1 << 20
LEAST_RECURSION = 400
KEPT_RESULTS = 1000
PLAIN_ERROR = '{"name":%s,"message":"","traceback":[],"lineNumber":null}'
# `ls /tmp` is Python as well: such lines are looked at before they are compiled (rewrite.py).
SHELL_WORDS = frozenset(("ls", "ls ", "ll", "ll ", "cd", "cd ", "pwd", "cat", "who", "pip"))

namespace = {}  # of __main__
sources = {}  # "<cell 3>": its text
count = 0
_flags = PyCF_ALLOW_TOP_LEVEL_AWAIT
_loop_names = frozenset(("create_task", "ensure_future", "get_running_loop"))
_own_loop_names = frozenset(("run", "run_until_complete", "run_forever"))


class History:
    """In, Out, _ and their kin, as in a notebook. A cell that takes one of the names for itself keeps it."""

    def __init__(self):
        self.inputs = [""]
        self.outputs = {}
        self.last = ["", "", ""]  # _, __, ___

    def enter(self, source):
        self.inputs.append(source)

    def remember(self, value):
        last = self.last
        if all(namespace.get(name, old) is old for name, old in zip(("_", "__", "___"), last)):
            self.last = last = [value, last[0], last[1]]
            namespace["_"], namespace["__"], namespace["___"] = last
        namespace["_%d" % count] = value
        self.outputs[count] = value
        if len(self.outputs) > KEPT_RESULTS:
            self._forget_oldest()

    def _forget_oldest(self):
        for number in list(self.outputs)[: KEPT_RESULTS // 5]:
            del self.outputs[number]
            namespace.pop("_%d" % number, None)


history = History()


def open_namespace():
    """A real __main__: what pickle, dataclasses and multiprocessing look for."""
    global namespace
    main = modules["__main__"]
    namespace = main.__dict__
    for name in list(namespace):
        if name not in ("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__"):
            del namespace[name]
    namespace.update(__name__="__main__", __doc__=None, __builtins__=builtins)
    namespace.update(In=history.inputs, Out=history.outputs, _ih=history.inputs, _oh=history.outputs)
    namespace.update(_="", __="", ___="")
    return main  # who holds it keeps its names alive, whatever happens to sys.modules


def run(number, source):
    """Runs cell NUMBER. The frames that end it leave in one write."""
    global count
    count += 1
    history.enter(source)
    wire.cell = number
    frames = []
    try:
        interrupt.running = True
        try:
            _run(number, source, frames)
        finally:
            interrupt.running = False
    except BaseException as error:
        frames = [_error_frame(number, error)] + [f for f in frames if not f.startswith(b"error ")]
    _end(number, frames)


def _run(number, source, frames):
    try:
        value, is_quiet = execute(source, "<cell %d>" % count)
        if not wire.is_kernel():
            _leave(None)
        if value is not None and not is_quiet:
            shown = represent(value)
            history.remember(value)
            if shown is not None:
                frames.append(wire.frame(b"result", number, shown))
    except BaseException as error:
        if not wire.is_kernel():
            _leave(error)
        frames.append(_error_frame(number, error))
    if "matplotlib._pylab_helpers" in modules:
        for shown in load("plots").take_open():
            frames.append(wire.frame(b"result", number, shown))


def _end(number, frames):
    interrupt.install()
    if streams.stdout.parts or streams.stderr.parts:
        streams.flush()
    if "_ctypes" in modules:
        load("clib").flush()
    frames.append(wire.frame(b"done", number, '{"count":%d}' % count))
    with wire.lock:
        wire.cell = None
        wire.send(b"".join(frames))


def end_disturbed(error):
    """What a cell left behind (a timer, a thread that sends exceptions) has hit us before its end was told."""
    while wire.cell is not None:
        try:
            frame = wire.frame(b"error", wire.cell, PLAIN_ERROR % wire.quote(type(error).__name__))
            _end(wire.cell, [frame])
        except BaseException as other:
            error = other


def _leave(error):
    """A child that was forked by the cell has come to its end: not a word to the daemon."""
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        code = 1
        sys.stderr.write("\n".join(load("errors").lines(error)) + "\n")
    for out in (sys.stdout, sys.stderr):
        out.flush()
    streams.flush()
    _exit(code & 255)


def execute(source, name):
    """Runs a text in the namespace: (value of its last expression, whether a `;` asks not to show it)."""
    namespace.pop("__warningregistry__", None)  # a warning of this cell is not one of an earlier
    register(name, source)
    body, last, is_quiet = parse(source, name)
    if body is not None:
        run_code(body)
    return (None if last is None else run_code(last)), is_quiet


def register(name, source):
    """Tracebacks and inspect find the lines of a cell in linecache, whenever that is loaded (hooks.py)."""
    sources[name] = source
    if "linecache" in modules:
        add_lines(modules["linecache"], name)


def add_lines(linecache, name):
    source = sources[name]
    try:
        linecache.cache[name] = (len(source), None, (source + "\n").splitlines(True), name)
    except Exception:
        pass  # a cell's own idea of linecache


def parse(source, name):
    """(code of the statements or None, code of the last expression or None, is it followed by `;`)"""
    global _flags
    if source[:3] in SHELL_WORDS:
        source = load("rewrite").bare(source)
    try:
        tree = compile(source, name, "exec", PARSE | _flags, True)
    except SyntaxError:
        source = load("rewrite").to_python(source)
        if source is None:
            raise
        tree = compile(source, name, "exec", PARSE | _flags, True)
    body = tree.body
    code = last = None
    is_quiet = False
    if body and type(body[-1]) is Expr:
        expression = body.pop()
        is_quiet = ";" in source and _ends_quietly(source, expression)
        last = expression.value
    if body:
        code = compile(tree, name, "exec", _flags, True)
        _flags |= code.co_flags & FUTURE
    if last is not None:
        last = compile(Expression(last), name, "eval", _flags, True)
    return code, last, is_quiet


def _ends_quietly(source, expression):
    lines = source.encode("utf-8", "surrogatepass").splitlines()
    rest = lines[expression.end_lineno - 1][expression.end_col_offset :]
    return rest.lstrip()[:1] == b";"


def run_code(code):
    if code.co_flags & CO_COROUTINE:
        return load("loop").run(eval(code, namespace))
    if "asyncio" in modules:
        if not _loop_names.isdisjoint(code.co_names) and _own_loop_names.isdisjoint(code.co_names):
            return load("loop").run_within(code, namespace)
        load("loop").offer()
    return eval(code, namespace)


def represent(value):
    """The payload of a `result`, or None when the value has shown itself."""
    kind = type(value)
    if kind in SIMPLE:
        return '{"text":"%s"}' % repr(value)
    if kind is str and len(value) < TEXT_MAX:
        return '{"text":%s}' % wire.quote(repr(value))
    return load("formats").payload(value)


def _error_frame(number, error):
    if getrecursionlimit() < LEAST_RECURSION:
        setrecursionlimit(LEAST_RECURSION)
    interrupt.hold()  # it ends the cell already
    try:
        return wire.frame(b"error", number, load("errors").payload(error, "<cell %d>" % count))
    except BaseException as other:
        return wire.frame(b"error", number, PLAIN_ERROR % wire.quote(type(error).__name__))
    finally:
        interrupt.pending = False
        interrupt.held -= 1
