# SPDX-License-Identifier: Apache-2.0
"""get_ipython(), and IPython.display for boxes that have no IPython. Where the real one is installed it is imported as
it is, and its display functions are led here."""

from cay_kernel.own import BUILTINS as __builtins__

import sys

from cay_kernel import cell, hooks
from cay_kernel.own import load


class _Events:
    """Callbacks around cells are not called."""

    def register(self, event, function):
        pass

    unregister = trigger = register


class _DisplayPublisher:
    def publish(self, data, metadata=None, **options):
        load("rich").publish(data, metadata)


class _Formatter:
    def format(self, value, include=None, exclude=None):
        return load("formats").bundle(value, include, exclude) or ({}, {})


class ZMQInteractiveShell:
    """What libraries ask get_ipython() for. Many look at the name of its class to learn that this is a notebook."""

    def __init__(self):
        self.config = {}
        self.events = _Events()
        self.display_pub = _DisplayPublisher()
        self.display_formatter = _Formatter()
        self.kernel = None

    @property
    def user_ns(self):
        return cell.namespace

    user_global_ns = user_ns

    @property
    def execution_count(self):
        return cell.count

    def run_line_magic(self, name, line, _stack_depth=1):
        return load("magics").run_line(name, line)

    def run_cell_magic(self, name, line, text):
        return load("magics").run_cell(name, line, text)

    def magic(self, line):
        name, _, rest = line.lstrip("%").partition(" ")
        return self.run_line_magic(name, rest)

    def system(self, command):
        load("magics").system(command)

    system_raw = system_piped = system

    def getoutput(self, command, split=True, depth=0):
        return load("magics").getoutput(command)

    def run_cell(self, text, *args, **options):
        value, is_quiet = cell.execute(text, "<cell %d>" % cell.count)
        if value is not None and not is_quiet:
            load("rich").display(value)

    ex = run_cell

    def ev(self, text):
        return eval(text, cell.namespace)

    def push(self, variables, interactive=True):
        if isinstance(variables, dict):
            cell.namespace.update(variables)

    def var_expand(self, text, depth=0, formatter=None):
        return load("magics").expand(text)

    def register_magic_function(self, function, magic_kind="line", magic_name=None):
        load("magics").register(function, magic_kind, magic_name)

    def show_usage(self, *args):
        pass

    def enable_gui(self, gui=None):
        pass

    def set_next_input(self, *args, **options):
        pass

    def showtraceback(self, *args, **options):
        import traceback

        traceback.print_exc()


_shell = None


def shell():
    global _shell
    if _shell is None:
        _shell = ZMQInteractiveShell()
    return _shell


LED = ("display", "update_display", "clear_output", "publish_display_data", "DisplayHandle")


def adopt(module):
    """A module of the real IPython."""
    rich = load("rich")
    for name in LED:
        if hasattr(module, name):
            setattr(module, name, getattr(rich, name))
    if hasattr(module, "get_ipython"):
        module.get_ipython = hooks.get_ipython


def _fill_top(module):
    module.get_ipython = hooks.get_ipython
    module.version_info = (8, 0, 0)
    module.__version__ = "8.0.0"
    module.embed = module.start_ipython = _no_shell


def _no_shell(*args, **options):
    raise RuntimeError("there is no IPython in this box, only its display functions")


def _fill_display(module):
    rich = load("rich")
    for name, value in vars(rich).items():
        if not name.startswith("_") and name not in ("os", "sys", "formats", "hooks", "streams", "wire"):
            setattr(module, name, value)


def _fill_getipython(module):
    module.get_ipython = hooks.get_ipython


def _fill_shell(module):
    module.InteractiveShell = ZMQInteractiveShell


def _fill_magic(module):
    module.register_line_magic = _registrar("line")
    module.register_cell_magic = _registrar("cell")
    module.register_line_cell_magic = _registrar("line_cell")


def _registrar(kind):
    def register(function):
        def add(function, name=None):
            load("magics").register(function, kind, name)
            return function

        return add(function) if callable(function) else lambda real: add(real, function)

    return register


SHIMS = {
    "IPython": _fill_top,
    "IPython.core": lambda module: None,
    "IPython.core.display": _fill_display,
    "IPython.core.display_functions": _fill_display,
    "IPython.core.getipython": _fill_getipython,
    "IPython.core.interactiveshell": _fill_shell,
    "IPython.core.magic": _fill_magic,
    "IPython.display": _fill_display,
}


class _Loader:
    def create_module(self, spec):
        return None

    def exec_module(self, module):
        SHIMS[module.__name__](module)


def shim_spec(name):
    top = sys.modules.get("IPython")
    if name not in SHIMS or (top is not None and getattr(top, "__file__", None)):
        return None  # the real one is there
    from importlib.machinery import ModuleSpec

    return ModuleSpec(name, _Loader(), is_package=name in ("IPython", "IPython.core"))
