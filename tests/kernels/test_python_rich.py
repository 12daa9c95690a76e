# SPDX-License-Identifier: Apache-2.0
"""Representations: what a value looks like, display(), figures and their charts, with the real libraries."""

import base64
import collections
import random
import re
import subprocess
import types

import pytest
from python_kernel import PYTHON, Kernel, bundle

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture(scope="module")
def shared():
    with Kernel() as kernel:
        kernel.run("import numpy as np, pandas as pd, datetime\nimport matplotlib.pyplot as plt")
        yield kernel


@pytest.fixture(scope="module")
def without_ipython(tmp_path_factory):
    """A kernel for which IPython is not installed."""
    with Kernel() as kernel:
        hide = (
            "import sys\nclass Hide:\n    def find_spec(self, name, path=None, target=None): return None\n"
            "from importlib.machinery import PathFinder\nreal = PathFinder.find_spec\n"
            "PathFinder.find_spec = classmethod(lambda cls, name, path=None, target=None: None if name.startswith('IPython') else real(name, path, target))"
        )
        assert kernel.run(hide).error is None
        yield kernel


def chart(kernel, code):
    answer = kernel.run(code)
    assert answer.error is None, answer.error
    shown = [one for one in answer.shown if "chart" in one]
    assert len(shown) == 1, answer.shown
    assert base64.b64decode(shown[0]["png"]).startswith(b"\x89PNG") and "<svg" in shown[0]["svg"]
    return shown[0]["chart"]


METHODS = [
    ("_repr_html_", "'<b>x</b>'", "html", "<b>x</b>"),
    ("_repr_markdown_", "'# x'", "markdown", "# x"),
    ("_repr_svg_", "'<svg/>'", "svg", "<svg/>"),
    ("_repr_latex_", "'$x$'", "latex", "$x$"),
    ("_repr_json_", "{'a': 1}", "json", {"a": 1}),
    ("_repr_javascript_", "'f()'", "javascript", "f()"),
    ("_repr_png_", "b'abc'", "png", "YWJj"),
    ("_repr_jpeg_", "b'abc'", "jpeg", "YWJj"),
    ("_repr_png_", "'YWJj'", "png", "YWJj"),
    ("_repr_html_", "('<b>', {'k': 1})", "html", "<b>"),
]


@pytest.mark.parametrize("method, value, key, shown", METHODS)
def test_methods(shared, method, value, key, shown):
    code = f"class Shown:\n    def {method}(self): return {value}\n    def __repr__(self): return 'text'\nShown()"
    result = shared.run(code).result
    assert result[key] == shown and result["text"] == "text"
    shown_now = shared.run("display(Shown())").displays
    assert [one[key] for one in shown_now] == [shown]


def test_method_that_raises_is_skipped(shared):
    code = "class Half:\n    def _repr_html_(self): raise ValueError\n    def _repr_markdown_(self): return '*'\nHalf()"
    result = shared.run(code).result
    assert result["markdown"] == "*" and "html" not in result


def test_mimebundle(shared):
    code = (
        "class Bundle:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
        "        return {'text/html': '<i>', 'application/x-own+json': {'a': [1]}, 'text/x-own': 'own'}, {'text/html': {'k': 1}}\n"
        "    def _repr_html_(self): return 'not this'\nBundle()"
    )
    result = shared.run(code).result
    assert result["html"] == "<i>" and result["data"] == {"application/x-own+json": {"a": [1]}, "text/x-own": "own"}
    assert result["metadata"] == {"text/html": {"k": 1}}
    code = "class Self:\n    def _ipython_display_(self): display('shown by itself')\nSelf()"
    answer = shared.run(code)
    assert answer.results == [] and answer.displays[0]["text"] == "'shown by itself'"


def test_objects_that_answer_to_any_name(shared):
    code = "class Any:\n    def __getattr__(self, name): return lambda *a, **k: 'oops'\n    def __repr__(self): return 'any'\nAny()"
    assert shared.run(code).result == {"text": "any"}
    assert shared.run("from unittest.mock import MagicMock\nisinstance(MagicMock(), object)").result["text"] == "True"


@pytest.mark.parametrize("kind", ["shared", "without_ipython"])
def test_display_objects(kind, request):
    kernel = request.getfixturevalue(kind)
    names = "HTML, Markdown, SVG, Latex, Javascript, JSON, Math, Image"
    for start in ("", f"from IPython.display import {names}, display\n", f"from IPython.core.display import HTML, Markdown, SVG, Latex, Javascript, JSON, Math, Image\n"):
        answer = kernel.run(
            start + "display(HTML('<b>'), Markdown('# m'), SVG('<svg></svg>'), Latex('$l$'), Javascript('j()'), JSON({'a': 1}), "
            f"Math('x^2'), Image(data={PNG!r}))"
        )
        assert answer.error is None, answer.error
        html, markdown, svg, latex, javascript, json, math, image = answer.displays
        assert html["html"] == "<b>" and markdown["markdown"] == "# m" and "<svg" in svg["svg"] and latex["latex"] == "$l$"
        assert javascript["javascript"] == "j()" and json["json"] == {"a": 1} and "x^2" in math["latex"]
        assert base64.b64decode(image["png"]) == PNG
    assert kernel.run("HTML('<u>')").result["html"] == "<u>"


def test_shim_of_ipython(without_ipython):
    kernel = without_ipython
    assert kernel.run("import IPython; IPython.get_ipython() is get_ipython()").result["text"] == "True"
    answer = kernel.run("from IPython.display import display, clear_output, update_display\nh = display('a', display_id=True)\nh.update('b'); clear_output()")
    assert [one["text"] for one in answer.displays] == ["'a'", "'b'"]
    assert answer.displays[0]["metadata"]["displayId"] == answer.displays[1]["metadata"]["displayId"]
    assert kernel.run("import IPython.nothing").error["name"] == "ModuleNotFoundError"
    assert kernel.run("isinstance(HTML('x'), HTML)").result["text"] == "True"
    assert "html" in kernel.run("class Mine(HTML): pass\nMine('<p>')").result


def test_display_with_the_real_ipython(shared):
    answer = shared.run("from IPython.display import display as d, Markdown as M\nd(M('*x*')); d({'a': 1}); d(1, 2)")
    assert [one.get("markdown") or one["text"] for one in answer.displays] == ["*x*", "{'a': 1}", "1", "2"]
    shared.run("from IPython import get_ipython as g")
    assert shared.run("g().__class__.__name__").result["text"] == "'ZMQInteractiveShell'"


def test_pandas(shared):
    result = shared.run("df = pd.DataFrame({'a': [1, 2], 'b': ['x', None]})\ndf").result
    assert set(result) == {"html", "text"} and '<table border="1" class="dataframe">' in result["html"]
    assert result["text"] == "   a     b\n0  1     x\n1  2  None"
    assert shared.run("df.a").result == {"text": "0    1\n1    2\nName: a, dtype: int64"}
    result = shared.run("pd.DataFrame(np.zeros((500, 40)))").result
    assert "500 rows × 40 columns" in result["html"] and "..." in result["text"]


def test_pictures(shared):
    result = shared.run("from PIL import Image as P\nP.new('RGB', (4, 3), 'red')").result
    assert base64.b64decode(result["png"]).startswith(b"\x89PNG")


def test_figures(shared):
    answer = shared.run("for i in range(3):\n    plt.figure(); plt.plot([i, 1])")
    assert len(answer.images) == 3 and all("svg" in one and "chart" in one for one in answer.images)
    assert [one["text"] for one in answer.images] == ["<Figure size 640x480 with 1 Axes>"] * 3
    assert shared.run("plt.get_fignums()").result["text"] == "[]"
    answer = shared.run("fig, ax = plt.subplots()\nax.plot([1, 2])\nfig")
    assert len(answer.images) == 1
    assert len(shared.run("fig").images) == 1
    answer = shared.run("print('a')\nplt.plot([1]); plt.show()\nprint('b')\nplt.plot([2]); plt.show()")
    assert [kind for kind, _ in answer.order] == ["out", "display", "out", "display"] and len(answer.images) == 2
    answer = shared.run("plt.plot([1, 2])")
    assert len(answer.images) == 1 and "Line2D" in answer.results[0]["text"]
    answer = shared.run("plt.plot([1, 2]);")
    assert len(answer.results) == 1
    assert [one.get("png") for one in shared.run("plt.figure()").results] == [None]


def test_figures_of_a_cell_that_fails(shared):
    answer = shared.run("plt.plot([1, 2])\n1/0")
    assert answer.error["name"] == "ZeroDivisionError" and len(answer.images) == 1


def test_another_backend(shared):
    with Kernel() as kernel:
        answer = kernel.run("%matplotlib inline\nimport matplotlib\nmatplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
        assert answer.error is None and len(answer.images) == 1
    with Kernel(env={"MPLBACKEND": "agg", "PATH": "/usr/bin:/bin", "HOME": "/root"}) as kernel:
        assert len(kernel.run("import matplotlib.pyplot as plt\nplt.plot([1, 2]);").images) == 1


def test_line_chart(shared):
    found = chart(shared, "plt.plot([1, 2, 3], [4, float('nan'), 6], label='a'); plt.plot([1, 2, 3], [1, 1, 1]); plt.axhline(3)\n"
                          "plt.title('T'); plt.xlabel('Time (s)'); plt.ylabel('Speed [m/s]'); plt.legend(); plt.show()")
    assert (found["type"], found["title"], found["xLabel"], found["xUnit"], found["yUnit"]) == ("line", "T", "Time (s)", "s", "m/s")
    assert found["elements"] == [
        {"label": "a", "points": [[1, 4], [2, None], [3, 6]]},
        {"label": "", "points": [[1, 1], [2, 1], [3, 1]]},
    ]
    assert found["xScale"] == "linear" and len(found["xTicks"]) == len(found["xTickLabels"]) > 2


def test_bar_charts(shared):
    found = chart(shared, "plt.bar(['a', 'b'], [1, 2.5], label='one'); plt.show()")
    assert found["type"] == "bar" and found["xScale"] == "categorical" and found["xTickLabels"] == ["a", "b"]
    assert found["elements"] == [{"label": "a", "group": "one", "value": 1}, {"label": "b", "group": "one", "value": 2.5}]
    found = chart(shared, "plt.barh(['a', 'b'], [1, 2]); plt.show()")
    assert [one["value"] for one in found["elements"]] == [1, 2] and [one["label"] for one in found["elements"]] == ["a", "b"]
    found = chart(shared, "x = np.arange(2)\nplt.bar(x - .2, [1, 2], .4, label='m'); plt.bar(x + .2, [3, 4], .4, label='n')\nplt.xticks(x, ['p', 'q']); plt.show()")
    assert [(one["label"], one["group"], one["value"]) for one in found["elements"]] == [("p", "m", 1), ("q", "m", 2), ("p", "n", 3), ("q", "n", 4)]
    found = chart(shared, "pd.DataFrame({'u': [1, 2], 'v': [3, 4]}, index=['g', 'h']).plot.bar(); plt.show()")
    assert [(one["label"], one["group"]) for one in found["elements"]] == [("g", "u"), ("h", "u"), ("g", "v"), ("h", "v")]


def test_histogram(shared):
    found = chart(shared, "plt.hist([1, 1, 2, 3], bins=[1, 2, 3, 4]); plt.show()")
    assert found["type"] == "bar" and [(one["label"], one["value"]) for one in found["elements"]] == [("1 - 2", 2), ("2 - 3", 1), ("3 - 4", 1)]


def test_scatter_chart(shared):
    found = chart(shared, "plt.scatter([1, 2], [3, 4], label='s'); plt.xscale('log'); plt.show()")
    assert found["type"] == "scatter" and found["elements"] == [{"label": "s", "points": [[1, 3], [2, 4]]}] and found["xScale"] == "log"
    assert chart(shared, "plt.plot([1, 2], [3, 4], 'o'); plt.show()")["type"] == "scatter"
    found = chart(shared, "plt.plot(range(20000)); plt.show()")
    assert found["elements"][0]["truncated"] is True and len(found["elements"][0]["points"]) == 10_000


def test_pie_chart(shared):
    found = chart(shared, "plt.pie([1, 3], labels=['x', 'y'], autopct='%d'); plt.show()")
    assert found["type"] == "pie" and [(one["label"], one["value"]) for one in found["elements"]] == [("x", 1), ("y", 3)]
    assert [round(one["angle"]) for one in found["elements"]] == [90, 270] and found["elements"][0]["radius"] == 1


def test_box_chart(shared):
    found = chart(shared, "plt.boxplot([[1, 2, 3, 4, 5, 50], [2, 3]], labels=['p', 'q']); plt.show()")
    assert found["type"] == "box" and [one["label"] for one in found["elements"]] == ["p", "q"]
    assert found["elements"][0] == {"label": "p", "min": 1, "firstQuartile": 2.25, "median": 3.5, "thirdQuartile": 4.75, "max": 5, "outliers": [50]}
    found = chart(shared, "pd.DataFrame({'u': [1, 2, 3], 'v': [3, 4, 5]}).plot.box(); plt.show()")
    assert [one["label"] for one in found["elements"]] == ["u", "v"]


def test_dates(shared):
    found = chart(shared, "plt.plot([datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], [1, 2]); plt.show()")
    assert found["xScale"] == "datetime" and found["elements"][0]["points"] == [["2024-01-01", 1], ["2024-01-02", 2]]
    assert all(tick.startswith("202") for tick in found["xTicks"])
    found = chart(shared, "plt.plot(pd.date_range('2024-03-01', periods=2), [1, 2]); plt.show()")
    assert found["elements"][0]["points"][0][0].startswith("2024-03-01")
    found = chart(shared, "pd.Series([1, 2, 3], pd.date_range('2024-03-01', periods=3)).plot(); plt.show()")
    assert found["xScale"] == "datetime" and found["elements"][0]["points"][0][0].startswith("2024-03-01")


def test_several_axes_and_unknown(shared):
    found = chart(shared, "fig, ax = plt.subplots(1, 2)\nax[0].plot([1, 2]); ax[1].bar(['a'], [1]); fig.suptitle('both'); plt.show()")
    assert (found["type"], found["title"], [one["type"] for one in found["elements"]]) == ("figure", "both", ["line", "bar"])
    found = chart(shared, "plt.imshow(np.eye(3)); plt.colorbar(); plt.show()")
    assert found["type"] == "unknown" and found["elements"] == []


def random_value(draw, depth):
    if depth == 0 or draw.random() < 0.25:
        leaves = [draw.randint(-(10**12), 10**12), draw.random(), "s" * draw.randint(0, 90), None, True, b"x", int, len, random_value,
                  range(3), ValueError("x", 1), re.compile("a", re.I), 1j, "it's \n", types.SimpleNamespace(a=1), collections.Counter("aab")]
        return draw.choice(leaves)
    items = [random_value(draw, depth - 1) for _ in range(draw.randint(0, 8))]
    named = {f"k{at}" if draw.random() < 0.7 else at: item for at, item in enumerate(items)}
    kinds = [items, tuple(items), named, set(range(len(items))), frozenset("abc"[: len(items)]), collections.OrderedDict(named),
             collections.defaultdict(list, named), collections.deque(items, 10), types.MappingProxyType(named)]
    return draw.choice(kinds)


def test_text_is_that_of_ipython(tmp_path):
    """Two thousand values, ours against theirs."""
    path = tmp_path / "bundle.py"
    path.write_bytes(bundle().replace(b"start.run()", b""))
    code = (
        f"import sys; sys.path.insert(0, {str(__file__.rsplit('/', 1)[0])!r})\n"
        f"exec(open({str(path)!r}).read())\n"
        "import random, test_python_rich\nfrom cay_kernel.pretty import pretty\nfrom IPython.lib.pretty import pretty as theirs\n"
        "for seed in range(2000):\n    draw = random.Random(seed)\n    value = test_python_rich.random_value(draw, draw.randint(0, 4))\n"
        "    assert pretty(value, 1 << 20) == theirs(value), (pretty(value, 1 << 20), theirs(value))\n"
        "for value in (list(range(1500)), set(range(1200)), {i: i for i in range(1100)}, tuple(range(1001))):\n"
        "    assert pretty(value, 1 << 20) == theirs(value)\n"
    )
    subprocess.run([PYTHON, "-c", code], check=True)
