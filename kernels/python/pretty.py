# SPDX-License-Identifier: Apache-2.0
"""Values as text, as a notebook shows them: containers that do not fit a line are broken, sets are sorted, classes and
functions go by their names. The text is bounded, whatever the value.

A value becomes a flat list of pieces: strings, BREAKs (a space, or a new line where the group around it does not
fit) and the starts and ends of groups. Layout then decides for each group as a whole.
"""

from cay_kernel.own import BUILTINS as __builtins__

import sys
import types

WIDTH = 79
ITEMS_MAX = 1000
DEPTH_MAX = 150
OPEN, CLOSE, BREAK, LINE = object(), object(), object(), object()
CUT = "..."


class _Full(Exception):
    pass


def pretty(value, limit):
    printer = Printer(limit)
    try:
        printer.show(value)
    except _Full:
        printer.text(CUT)
        return "".join(_layout(printer.pieces))[:limit] + "... (cut: it was longer)"
    return "".join(_layout(printer.pieces))


class Printer:
    """What _repr_pretty_ methods are given: text, breakable, pretty, group and the like."""

    def __init__(self, limit):
        self.limit = limit
        self.used = 0
        self.pieces = []
        self.stack = []
        self.max_width = WIDTH
        self.max_seq_length = ITEMS_MAX
        self.verbose = False
        self.indentation = 0

    def text(self, text):
        self.used += len(text)
        if text:
            self.pieces.append(text)
        if self.used > self.limit and text != CUT:
            raise _Full

    write = text

    def breakable(self, sep=" "):
        self.pieces.append((BREAK, sep))

    def break_(self):
        self.pieces.append((LINE, ""))

    def begin_group(self, indent=0, open=""):
        if open:
            self.text(open)
        self.pieces.append((OPEN, indent))

    def end_group(self, dedent=0, close=""):
        self.pieces.append((CLOSE, dedent))
        if close:
            self.text(close)

    def group(self, indent=0, open="", close=""):
        return _Group(self, indent, open, close)

    def indent(self, indent):
        return _Group(self, indent, "", "")

    def flush(self):
        pass

    def pretty(self, value):
        self.show(value)

    def show(self, value):
        kind = type(value)
        if kind in _PLAIN:
            return self.text(repr(value))
        cycle = any(held is value for held in self.stack)
        if len(self.stack) > DEPTH_MAX:
            return self.text(CUT)
        self.stack.append(value)
        try:
            _printer_for(value, kind)(self, value, cycle)
        finally:
            self.stack.pop()

    def items(self, values, show):
        for at, value in enumerate(values):
            if at:
                self.text(",")
                self.breakable()
            if at == ITEMS_MAX:
                self.text(CUT)
                return
            show(value)


class _Group:
    def __init__(self, printer, indent, open, close):
        self.args = printer, indent, open, close

    def __enter__(self):
        printer, indent, open, _ = self.args
        printer.begin_group(indent, open)

    def __exit__(self, *exception):
        printer, indent, _, close = self.args
        if exception[0] is None:
            printer.end_group(indent, close)


def _layout(pieces):
    """Groups that fit the rest of the line stay on it; of the others each break becomes a new line."""
    out, column, indents, broken = [], 0, [0], [False]
    widths = _widths(pieces)
    for at, piece in enumerate(pieces):
        if type(piece) is str:
            out.append(piece)
            column = column + len(piece) if "\n" not in piece else len(piece) - piece.rindex("\n") - 1
            continue
        kind, what = piece
        if kind is OPEN:
            broken.append(column + widths[at] > WIDTH)
            indents.append(indents[-1] + what)
        elif kind is CLOSE:
            broken.pop()
            indents.pop()
        elif kind is LINE or broken[-1]:
            out.append("\n" + " " * indents[-1])
            column = indents[-1]
        else:
            out.append(what)
            column += len(what)
    return out


def _widths(pieces):
    """For each start of a group: how wide it is on one line, with the text up to the next break after it."""
    widths, tail, stack = {}, 0, []
    total, after = [0] * (len(pieces) + 1), [0] * (len(pieces) + 1)
    for at in range(len(pieces) - 1, -1, -1):
        piece = pieces[at]
        if type(piece) is str:
            size = WIDTH * 2 if "\n" in piece else len(piece)
            tail = len(piece.split("\n", 1)[0]) if "\n" in piece else tail + size
            total[at], after[at] = total[at + 1] + size, tail
            continue
        kind, what = piece
        size = WIDTH * 2 if kind is LINE else len(what) if kind is BREAK else 0
        if kind in (BREAK, LINE):
            tail = 0
        total[at], after[at] = total[at + 1] + size, tail
        if kind is CLOSE:
            stack.append(at)
        elif kind is OPEN and stack:
            close = stack.pop()
            widths[at] = total[at] - total[close] + after[close]
    for at, piece in enumerate(pieces):  # groups that a cut left open
        if type(piece) is tuple and piece[0] is OPEN:
            widths.setdefault(at, WIDTH * 2)
    return widths


def _sequence(start, end, base):
    def show(printer, value, cycle):
        if type(value) is not base and type(value).__repr__ is not base.__repr__:
            return _by_repr(printer, value, cycle)
        if cycle:
            return printer.text(start + CUT + end)
        printer.begin_group(1, start)
        printer.items(base.__iter__(value), printer.show)
        if base is tuple and len(value) == 1:
            printer.text(",")
        printer.end_group(1, end)

    return show


def _set(start, end, base):
    def show(printer, value, cycle):
        if type(value) is not base and type(value).__repr__ is not base.__repr__:
            return _by_repr(printer, value, cycle)
        if cycle:
            return printer.text(start + CUT + end)
        if not value:
            return printer.text(base.__name__ + "()")
        items = value
        if len(value) < ITEMS_MAX:
            try:
                items = sorted(value)
            except Exception:
                pass
        printer.begin_group(len(start), start)
        printer.items(items, printer.show)
        printer.end_group(len(start), end)

    return show


def _mapping(start, end, base=None):
    def show(printer, value, cycle):
        if base is not None and type(value) is not base and type(value).__repr__ is not base.__repr__:
            return _by_repr(printer, value, cycle)
        if cycle:
            return printer.text("{...}")
        printer.begin_group(len(start), start)

        def pair(key):
            printer.show(key)
            printer.text(": ")
            printer.show(value[key])

        printer.items(value, pair)
        printer.end_group(len(start), end)

    return show


def _call(name, *shows):
    """NAME(first, second), where each is given by a function of the value."""

    def show(printer, value, cycle):
        if type(value).__repr__ is not _REPRS[name]:
            return _by_repr(printer, value, cycle)
        start = type(value).__name__ + "("
        if cycle:
            return printer.text(start + CUT + ")")
        printer.begin_group(len(start), start)
        parts = [part for part in (give(value) for give in shows) if part is not None]
        printer.items(parts, lambda part: printer.text(part[0]) or printer.show(part[1]))
        printer.end_group(len(start), ")")

    return show


_REPRS = {}  # name: the class's own repr. A subclass with another is shown by that


def _deque_bound(value):
    return None if value.maxlen is None else ("maxlen=", value.maxlen)


def _by_repr(printer, value, cycle):
    for at, line in enumerate(repr(value).splitlines() or [""]):
        if at:
            printer.break_()
        printer.text(line)


def _type(printer, value, cycle):
    if type(value).__repr__ is not type.__repr__:
        return _by_repr(printer, value, cycle)
    module = value.__module__
    try:
        name = value.__qualname__
    except Exception:
        name = value.__name__
    known = not isinstance(module, str) or module in ("builtins", "exceptions")
    printer.text(name if known else module + "." + name)


def _function(printer, value, cycle):
    name = getattr(value, "__qualname__", value.__name__)
    module = value.__module__
    if module and module not in ("builtins", "exceptions"):
        name = module + "." + name
    try:
        import inspect

        name += str(inspect.signature(value))
    except Exception:
        pass
    printer.text("<function %s>" % name)


def _exception(printer, value, cycle):
    name = getattr(value.__class__, "__qualname__", value.__class__.__name__)
    if value.__class__.__module__ not in ("builtins", "exceptions"):
        name = "%s.%s" % (value.__class__.__module__, name)
    if type(value).__repr__ is not BaseException.__repr__ and type(value).__module__ != "builtins":
        return _by_repr(printer, value, cycle)
    printer.begin_group(len(name) + 1, name + "(")
    printer.items(value.args, printer.show)
    printer.end_group(len(name) + 1, ")")


def _namespace(printer, value, cycle):
    if cycle:
        return printer.text("namespace(...)")
    printer.begin_group(10, "namespace(")
    printer.items(value.__dict__.items(), lambda pair: printer.text(pair[0] + "=") or printer.show(pair[1]))
    printer.end_group(10, ")")


def _pattern(printer, value, cycle):
    import re

    known = ("IGNORECASE", "LOCALE", "MULTILINE", "DOTALL", "UNICODE", "VERBOSE", "DEBUG")
    names = ["re." + name for name in known if value.flags & getattr(re, name)]
    printer.begin_group(11, "re.compile(")
    printer.text("r" + repr(value.pattern).replace("\\\\", "\\"))
    if names:
        printer.text(",")
        printer.breakable()
        printer.text("|".join(names))
    printer.end_group(11, ")")


def _plain_object(printer, value, cycle):
    """One without a repr of its own."""
    kind = type(value)
    module = kind.__module__
    name = getattr(kind, "__qualname__", kind.__name__)
    if module not in (None, "builtins", "exceptions"):
        name = "%s.%s" % (module, name)
    printer.text("<%s at 0x%x>" % (name, id(value)))


def _by_method(printer, value, cycle):
    value._repr_pretty_(printer, cycle)


_PLAIN = frozenset((int, float, bool, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented)))
_SHOWS = {
    list: _sequence("[", "]", list),
    tuple: _sequence("(", ")", tuple),
    dict: _mapping("{", "}", dict),
    set: _set("{", "}", set),
    frozenset: _set("frozenset({", "})", frozenset),
    types.MappingProxyType: _mapping("mappingproxy({", "})"),
    types.SimpleNamespace: _namespace,
    types.FunctionType: _function,
    types.BuiltinFunctionType: _function,
    type: _type,
    BaseException: _exception,
}
_LATER = {
    "collections": (
        ("Counter", _call("Counter", lambda value: ("", dict(value.most_common())) if value else None)),
        ("OrderedDict", _call("OrderedDict", lambda value: ("", list(value.items())) if value else None)),
        ("defaultdict", _call("defaultdict", lambda value: ("", value.default_factory), lambda value: ("", dict(value)))),
        ("deque", _call("deque", lambda value: ("", list(value)), _deque_bound)),
    ),
    "re": (("Pattern", _pattern),),
}


def _learn():
    """Printers for classes of modules that are loaded."""
    for name in list(_LATER):
        module = sys.modules.get(name)
        if module is not None:
            for kind, show in _LATER.pop(name):
                found = getattr(module, kind)
                _SHOWS[found] = show
                _REPRS[kind] = found.__repr__


def _printer_for(value, kind):
    if _LATER:
        _learn()
    for base in kind.__mro__:
        show = _SHOWS.get(base)
        if show is not None:
            return show
        names = base.__dict__
        if "_repr_pretty_" in names and callable(names["_repr_pretty_"]):
            return _by_method
        if base is not object and "__repr__" in names and callable(names["__repr__"]):
            return _by_repr
    return _plain_object
