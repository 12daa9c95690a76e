# SPDX-License-Identifier: Apache-2.0
"""Figures of matplotlib: those that are open when a cell ends are shown, as png, svg and chart, and closed."""

from cay_kernel.own import BUILTINS as __builtins__

import io
import os
import sys
from weakref import WeakSet

from cay_kernel.own import load

BACKEND = "module://cay_kernel.backend"
SVG_POINTS_MAX = 50_000  # an svg of more takes seconds and megabytes

_shown = WeakSet()  # figures that this cell has shown by itself: not again at its end


def matplotlib_came(matplotlib):
    if "MPLBACKEND" not in os.environ:
        matplotlib.rcParams["backend"] = BACKEND
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and getattr(pyplot, "_backend_mod", None) is not None:
            pyplot.switch_backend(BACKEND)


def axes_came(module):
    """What some calls were given cannot be read from what they drew."""
    _note(module.Axes, "bxp", "_cay_boxes", lambda args, kwargs: args[0] if args else kwargs["bxpstats"])
    _note(module.Axes, "pie", "_cay_pie", lambda args, kwargs: args[0] if args else kwargs["x"])


def _note(kind, name, attribute, choose):
    """Calls of METHOD leave (what CHOOSE took of the arguments, what it drew) with the axes."""
    from functools import wraps

    real = getattr(kind, name)

    @wraps(real)
    def noting(self, *args, **kwargs):
        drawn = real(self, *args, **kwargs)
        try:
            self.__dict__.setdefault(attribute, []).append((choose(args, kwargs), drawn))
        except Exception:
            pass
        return drawn

    setattr(kind, name, noting)


def _managers():
    gcf = getattr(sys.modules.get("matplotlib._pylab_helpers"), "Gcf", None)
    return [] if gcf is None else list(gcf.get_all_fig_managers())


def _close(manager):
    sys.modules["matplotlib._pylab_helpers"].Gcf.destroy(manager.num)


def show(*args, close=True, block=None, **options):
    """pyplot.show(): at this moment, then closed."""
    for manager in _managers():
        figure = manager.canvas.figure
        _close(manager)
        load("rich").display(figure)


def take_open():
    """The payloads of figures that are still open at the end of a cell. Those shown as its value are only closed."""
    payloads = []
    for manager in _managers():
        figure = manager.canvas.figure
        _close(manager)
        if figure not in _shown:
            found = load("formats").payload(figure)
            if found is not None:
                payloads.append(found)
    _shown.clear()
    return payloads


def add(figure, data):
    """The representations of a figure. One with nothing on it has only its text."""
    _shown.add(figure)
    if not figure.axes and not figure.lines and not _has_parts(figure):
        return
    png = _print(figure, "png")
    if png is not None:
        data["image/png"] = png
    if _points(figure) <= SVG_POINTS_MAX:
        svg = _print(figure, "svg")
        if svg is not None:
            data["image/svg+xml"] = svg.decode("utf-8")
    try:
        data["chart"] = load("charts").of_figure(figure)
    except Exception:
        pass  # an artist that does not answer as the others


def _has_parts(figure):
    return bool(getattr(figure, "subfigs", None) or figure.patches or figure.texts or figure.images)


def _print(figure, form):
    out = io.BytesIO()
    if figure.canvas is None or not hasattr(figure.canvas, "print_figure"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        FigureCanvasAgg(figure)
    figure.canvas.print_figure(
        out,
        format=form,
        dpi=figure.dpi,
        bbox_inches="tight",
        facecolor=figure.get_facecolor(),
        edgecolor=figure.get_edgecolor(),
        **({"metadata": {"Date": None}} if form == "svg" else {}),
    )
    return out.getvalue()


def _points(figure):
    total = 0
    for axes in figure.axes:
        total += sum(len(line.get_xdata(orig=False)) for line in axes.lines)
        total += len(axes.patches) * 10
        for collection in axes.collections:
            offsets = collection.get_offsets()
            total += len(offsets) + sum(len(path.vertices) for path in collection.get_paths()[:1000])
    return total


def add_picture(image, data):
    out = io.BytesIO()
    try:
        image.save(out, "PNG")
    except Exception:
        return
    data["image/png"] = out.getvalue()
