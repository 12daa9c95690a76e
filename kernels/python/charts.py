# SPDX-License-Identifier: Apache-2.0
"""The data behind a figure, so that a page can draw it again: PROTOCOL.md, "chart"."""

from cay_kernel.own import BUILTINS as __builtins__

import sys
from math import isfinite

POINTS_MAX = 10_000
ELEMENTS_MAX = 1000
AXES_MAX = 64


def of_figure(figure):
    axes = [one for one in figure.axes if one.get_label() != "<colorbar>" and one.get_visible()][:AXES_MAX]
    title = getattr(getattr(figure, "_suptitle", None), "get_text", lambda: "")()
    charts = [of_axes(one) for one in axes]
    if len(charts) == 1:
        charts[0]["title"] = charts[0]["title"] or title
        return charts[0]
    return {"type": "figure", "title": title, "elements": charts}


def of_axes(axes):
    kind, elements, is_cut = _elements(axes)
    chart = {"type": kind, "title": axes.get_title()}
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        chart.update(_axis(name, axis))
    chart["elements"] = elements[:ELEMENTS_MAX]
    if is_cut or len(elements) > ELEMENTS_MAX:
        chart["truncated"] = True
    return chart


def _elements(axes):
    """(type, elements, whether some are missing): what the axes are mostly made of gives the type."""
    if getattr(axes, "_cay_pie", None):
        return "pie", _pie(axes), False
    if getattr(axes, "_cay_boxes", None):
        return "box", _boxes(axes), False
    bars = [one for one in axes.containers if type(one).__name__ == "BarContainer" and len(one.patches)]
    if bars:
        return "bar", _bars(axes, bars), False
    scatters, lines = _scatters(axes), _lines(axes)
    if scatters or any(is_dots for _, is_dots in lines):
        only_dots = scatters or all(is_dots for _, is_dots in lines)
        return "scatter" if only_dots else "line", [one for one, _ in lines] + scatters, False
    if lines:
        return "line", [one for one, _ in lines], False
    return "unknown", [], False


# Axes


def _axis(name, axis):
    label = axis.get_label_text()
    scale = _scale(axis)
    ticks, texts = _ticks(axis, scale)
    found = {name + "Label": label}
    unit = _unit(label)
    if unit:
        found[name + "Unit"] = unit
    found.update({name + "Ticks": ticks, name + "TickLabels": texts, name + "Scale": scale})
    return found


def _converter(axis):
    get = getattr(axis, "get_converter", None)
    found = get() if get is not None else getattr(axis, "converter", None)
    return "" if found is None else type(found).__name__


def _scale(axis):
    converter = _converter(axis)
    if "Category" in converter:
        return "categorical"
    if "Date" in converter or "Period" in converter:
        return "datetime"
    scale = axis.get_scale()
    if scale == "log":
        return "log"
    if scale == "linear" and _names_at(axis):
        return "categorical"
    return "linear"


def _unit(label):
    """Of "Speed (km/h)" or "Speed [km/h]"."""
    label = label.strip()
    for start, end in ("()", "[]"):
        at = label.rfind(start)
        if label.endswith(end) and at > 0:
            return label[at + 1 : -1].strip()
    return None


def _ticks(axis, scale):
    low, high = sorted(axis.get_view_interval())
    spare = (high - low) * 1e-9
    ticks, texts = [], []
    labels = [tick.get_text() for tick in axis.get_majorticklabels()]
    for at, place in enumerate(axis.get_majorticklocs()[:ELEMENTS_MAX]):
        if low - spare <= place <= high + spare:
            ticks.append(_date_of(place, axis) if scale == "datetime" else value_of(place))
            texts.append(labels[at] if at < len(labels) else "")
    return ticks, texts


def _date_of(place, axis):
    if "Period" in _converter(axis) or "TimeSeries" in _converter(axis):
        frequency, pandas = getattr(axis, "freq", None), sys.modules.get("pandas")
        if frequency is None or pandas is None:
            return value_of(place)
        return value_of(pandas.Period(ordinal=int(place), freq=frequency))
    dates = sys.modules["matplotlib.dates"]
    return value_of(dates.num2date(place).replace(tzinfo=None))


def _names_at(axis):
    """{place: name} of ticks that were given names: categories, or labels set by hand."""
    formatter = axis.get_major_formatter()
    kind = type(formatter).__name__
    if kind == "StrCategoryFormatter":
        return {place: name for name, place in axis.units._mapping.items()}
    if kind == "FixedFormatter" and formatter.seq:
        return dict(zip(axis.get_majorticklocs(), [_text(name) for name in formatter.seq]))
    if kind == "FuncFormatter" and type(axis.get_major_locator()).__name__ == "FixedLocator":
        # What set_ticklabels() makes of ticks that stand still.
        places = axis.get_majorticklocs()
        names = [_text(formatter(place, at)) for at, place in enumerate(places)]
        return dict(zip(places, names)) if any(names) and not all(map(_is_number, names)) else {}
    return {}


def _is_number(text):
    try:
        float(text.replace("\u2212", "-"))
        return True
    except ValueError:
        return False


def _text(name):
    return name.get_text() if hasattr(name, "get_text") else str(name)


# Values


def value_of(value):
    """A number, a string or null: dates as ISO 8601."""
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    kind = type(value).__name__
    if kind == "datetime64":
        return None if str(value) == "NaT" else _trimmed(str(value))
    if kind == "Period":
        return value.start_time.isoformat()
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    if not isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 1 << 53 else number


def _trimmed(text):
    """numpy writes nanoseconds: 2024-01-01T00:00:00.000000000"""
    return text.rstrip("0").rstrip(".") if "." in text else text


def label_of(artist):
    label = artist.get_label()
    return label if isinstance(label, str) and not label.startswith("_") else ""


def _series(label, xs, ys):
    size = min(len(xs), len(ys))
    points = [[value_of(x), value_of(y)] for x, y in zip(xs[:POINTS_MAX], ys[:POINTS_MAX])]
    element = {"label": label, "points": points}
    if size > POINTS_MAX:
        element["truncated"] = True
    return element


# Kinds


def _lines(axes):
    """[(element, whether it is dots without a line)]"""
    found = []
    aside = _lines_of_error_bars(axes)
    for line in axes.lines:
        if id(line) in aside or not line.get_visible():
            continue
        if not all(line.get_transform().contains_branch_seperately(axes.transData)):
            continue  # axhline and its kin: not data
        xs, ys = line.get_xdata(orig=True), line.get_ydata(orig=True)
        if len(xs) != len(ys):
            xs, ys = line.get_xdata(orig=False), line.get_ydata(orig=False)
        is_dots = line.get_linestyle() in ("None", "none", "", " ") and line.get_marker() not in ("None", None, "")
        found.append((_series(label_of(line), _listed(xs), _listed(ys)), is_dots))
    return found


def _listed(values):
    """Something that can be cut: an Index, an array, a list."""
    return getattr(values, "values", values)


def _lines_of_error_bars(axes):
    aside = set()
    for container in axes.containers:
        if type(container).__name__ == "ErrorbarContainer":
            aside.update(id(line) for line in container.lines[1])
            if container.lines[0] is not None and container.lines[0] in axes.lines:
                _take_label(container.lines[0], container)
    return aside


def _take_label(line, container):
    if not label_of(line) and label_of(container):
        line.set_label(container.get_label())


def _scatters(axes):
    found = []
    for collection in axes.collections:
        if type(collection).__name__ != "PathCollection" or not collection.get_visible():
            continue
        offsets = collection.get_offsets()
        xs, ys = offsets[:, 0], offsets[:, 1]
        found.append(_series(label_of(collection), _back(axes.xaxis, xs), _back(axes.yaxis, ys)))
    return found


def _back(axis, places):
    """Places on an axis as the values they stand for."""
    places = places[:POINTS_MAX + 1]
    scale = _scale(axis)
    if scale == "datetime" and "Period" not in _converter(axis):
        return [_date_of(float(place), axis) if isfinite(place) else None for place in places]
    if scale == "categorical":
        names = _names_at(axis)
        return [names.get(place, place) for place in places]
    return places


def _bars(axes, containers):
    elements = []
    for container in containers:
        is_flat = getattr(container, "orientation", None) == "horizontal"
        axis = axes.yaxis if is_flat else axes.xaxis
        names, group = _names_at(axis), label_of(container)
        spans = [_span(patch, is_flat) for patch in container.patches[: ELEMENTS_MAX + 1]]
        are_bins = not names and _touch(spans)
        for patch, (low, high) in zip(container.patches, spans):
            value = patch.get_width() if is_flat else patch.get_height()
            label = "%g - %g" % (low, high) if are_bins else _bar_label(axis, names, (low + high) / 2)
            elements.append({"label": label, "group": group, "value": value_of(value)})
    return elements


def _span(patch, is_flat):
    start = patch.get_y() if is_flat else patch.get_x()
    return start, start + (patch.get_height() if is_flat else patch.get_width())


def _touch(spans):
    """A histogram: each bar begins where the one before it ends."""
    return len(spans) > 1 and all(abs(a[1] - b[0]) <= 1e-9 * max(1, abs(b[0])) for a, b in zip(spans, spans[1:]))


def _bar_label(axis, names, middle):
    if names:
        place = min(names, key=lambda place: abs(place - middle))
        if abs(place - middle) <= 0.5:
            return str(names[place])
    if _scale(axis) == "datetime":
        return str(_date_of(middle, axis))
    return str(value_of(round(middle, 12)))


def _pie(axes):
    elements = []
    for values, drawn in axes._cay_pie:
        for value, wedge in zip(values, drawn[0]):
            angle = abs(wedge.theta2 - wedge.theta1)
            label = label_of(wedge)
            elements.append(
                {"label": label, "angle": value_of(angle), "radius": value_of(wedge.r), "value": value_of(value)}
            )
    return elements


def _boxes(axes):
    elements = []
    names = {**_names_at(axes.xaxis)}
    names_up = {**_names_at(axes.yaxis)}
    for stats, drawn in axes._cay_boxes:
        for at, one in enumerate(stats):
            label = one.get("label") or _box_name(drawn, at, names, names_up)
            elements.append(
                {
                    "label": str(label),
                    "min": value_of(one.get("whislo")),
                    "firstQuartile": value_of(one.get("q1")),
                    "median": value_of(one.get("med")),
                    "thirdQuartile": value_of(one.get("q3")),
                    "max": value_of(one.get("whishi")),
                    "outliers": [value_of(value) for value in list(one.get("fliers", ()))[:POINTS_MAX]],
                }
            )
    return elements


def _box_name(drawn, at, names, names_up):
    """The name of the tick in the middle of a box."""
    if at >= len(drawn.get("medians", ())):
        return ""
    line = drawn["medians"][at]
    for values, found in ((line.get_xdata(), names), (line.get_ydata(), names_up)):
        middle = sum(values) / len(values)
        for place, name in found.items():
            if abs(place - middle) < 1e-6:
                return name
    return ""
