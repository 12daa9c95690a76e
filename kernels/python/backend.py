# SPDX-License-Identifier: Apache-2.0
"""The backend that pyplot is given: Agg, with a show() that shows."""

from cay_kernel.own import BUILTINS as __builtins__

from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from cay_kernel.plots import show

FigureCanvas = FigureCanvasAgg
FigureManager = FigureManagerBase


def new_figure_manager(num, *args, FigureClass=Figure, **kwargs):
    return new_figure_manager_given_figure(num, FigureClass(*args, **kwargs))


def new_figure_manager_given_figure(num, figure):
    return FigureManagerBase(FigureCanvasAgg(figure), num)


def draw_if_interactive():
    pass
