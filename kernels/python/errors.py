# SPDX-License-Identifier: Apache-2.0
"""What went wrong in a cell, with the user's lines and without ours."""

from cay_kernel.own import BUILTINS as __builtins__

import traceback

from cay_kernel import cell
from cay_kernel.jsontext import dumps
from cay_kernel.own import PREFIX

FRAMES_MAX = 100  # of one traceback: half from its start, half from its end
LINES_MAX = 1000
LINE_MAX = 2000
MESSAGE_MAX = 64 << 10


def payload(error, cell_name):
    return dumps(
        {
            "name": type(error).__name__,
            "message": message(error),
            "traceback": lines(error),
            "lineNumber": line_number(error, cell_name),
        }
    )


def message(error):
    try:
        text = str(error)
    except BaseException as other:
        text = "<its message cannot be shown: %s>" % type(other).__name__
    return text if len(text) <= MESSAGE_MAX else text[:MESSAGE_MAX] + "..."


def line_number(error, cell_name):
    """The line of the cell where it happened, or from where it was reached."""
    if isinstance(error, SyntaxError) and error.filename == cell_name:
        return error.lineno
    found, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == cell_name:
            found = step.tb_lineno
        step = step.tb_next
    return found


def lines(error):
    try:
        text = "".join(_format(error))
    except BaseException:
        text = "%s: %s" % (type(error).__name__, message(error))
    found = text.rstrip("\n").split("\n")
    if len(found) > LINES_MAX:
        found = found[: LINES_MAX // 2] + ["..."] + found[-LINES_MAX // 2 :]
    return [line if len(line) <= LINE_MAX else line[:LINE_MAX] + "..." for line in found]


def _format(error):
    """The standard library formats; it is given tracebacks without our steps and not too many of the others."""
    whole = traceback.TracebackException(type(error), error, _shorten(error))
    seen = set()
    _clean(whole, seen)
    if isinstance(error, SyntaxError) and not whole.stack:
        return whole.format_exception_only()
    return whole.format()


def _shorten(error):
    """Where the user's part of it begins: an event loop's steps may stand between ours and those."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename not in cell.sources:
        step = step.tb_next
    return step or error.__traceback__


def _clean(summary, seen):
    if summary is None or id(summary) in seen:
        return
    seen.add(id(summary))
    steps = [step for step in summary.stack if not step.filename.startswith(PREFIX)]
    if len(steps) > FRAMES_MAX and not _repeats(steps):
        steps = steps[: FRAMES_MAX // 2] + steps[-FRAMES_MAX // 2 :]
    summary.stack[:] = steps
    _clean(summary.__cause__, seen)
    _clean(summary.__context__, seen)
    for part in getattr(summary, "exceptions", None) or ():
        _clean(part, seen)


def _repeats(steps):
    """A function that calls itself: format() says how often instead of repeating the line."""
    places = {(step.filename, step.lineno, step.name) for step in steps}
    return len(places) <= FRAMES_MAX // 2 and all(
        (a.filename, a.lineno) == (b.filename, b.lineno) for a, b in zip(steps[5:-5], steps[6:-4])
    )
