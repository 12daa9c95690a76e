# SPDX-License-Identifier: Apache-2.0
"""Things that are done when a cell imports a module: each costs nothing until then."""

from cay_kernel.own import BUILTINS as __builtins__

import builtins
import sys

from cay_kernel import cell, streams
from cay_kernel.own import load

RICH = ("HTML", "Image", "JSON", "Javascript", "Latex", "Markdown", "Math", "SVG")


def display(*objects, **options):
    """Shows objects now, each by its richest representations."""
    return load("rich").display(*objects, **options)


def get_ipython():
    return load("shell").shell()


def _linecache_came(module):
    for name in cell.sources:
        cell.add_lines(module, name)


def _getpass_came(module):
    module.getpass = module.unix_getpass = module.fallback_getpass = streams.no_password


def _flushing(function):
    """What was printed before a program is started stands before what the program prints."""

    def start(*args, **kwargs):
        streams.flush()
        return function(*args, **kwargs)

    start.__name__, start.__doc__ = function.__name__, function.__doc__
    return start


def _os_came(module):
    for name in ("system", "posix_spawn", "posix_spawnp"):
        setattr(module, name, _flushing(getattr(module, name)))


def _subprocess_came(module):
    for holder, name in ((module, "_fork_exec"), (getattr(module, "_posixsubprocess", None), "fork_exec")):
        if hasattr(holder, name):
            setattr(holder, name, _flushing(getattr(holder, name)))


WATCHED = {
    "IPython.core.display": lambda module: load("shell").adopt(module),
    "IPython.core.display_functions": lambda module: load("shell").adopt(module),
    "IPython.core.getipython": lambda module: load("shell").adopt(module),
    "getpass": _getpass_came,
    "inspect": lambda module: load("sources").inspect_came(module),
    "linecache": _linecache_came,
    "matplotlib": lambda module: load("plots").matplotlib_came(module),
    "matplotlib.axes._axes": lambda module: load("plots").axes_came(module),
    "os": _os_came,
    "subprocess": _subprocess_came,
}


class Watcher:
    """Lets the other finders find a module, and is told when it has run."""

    def __init__(self):
        self.busy = set()

    def find_spec(self, name, path=None, target=None):
        came = WATCHED.get(name)
        if came is None or name in self.busy:
            return None
        self.busy.add(name)
        try:
            spec = _find(name, path, target, self)
        finally:
            self.busy.discard(name)
        if spec is not None and spec.loader is not None:
            _tell_after(spec.loader, came)
        return spec


def _find(name, path, target, but):
    for finder in list(sys.meta_path):
        if finder is not but and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def _tell_after(loader, came):
    run = getattr(loader, "exec_module", None)
    if run is None or isinstance(loader, type):  # the loader of all that is built in
        return

    def exec_module(module):
        run(module)
        try:
            came(module)
        except Exception:
            pass  # a version of the library that we do not know: it works as it would without us

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass


class Shim:
    """The last finder: IPython.display for those who have no IPython."""

    def find_spec(self, name, path=None, target=None):
        if name == "IPython" or name.startswith("IPython."):
            return load("shell").shim_spec(name)
        return None


_installed = []


def install():
    if _installed:
        return
    _installed.extend((Watcher(), Shim()))
    sys.meta_path.insert(0, _installed[0])
    sys.meta_path.append(_installed[1])
    for name, came in WATCHED.items():
        if name in sys.modules:
            came(sys.modules[name])


def set_builtins():
    builtins.display = display
    builtins.get_ipython = get_ipython
    builtins.__IPYTHON__ = True
    for name in RICH:
        setattr(builtins, name, _Later(name))


def rich_came(rich):
    """The classes themselves, now that they are there."""
    for name in RICH:
        if type(getattr(builtins, name, None)) is _Later:
            setattr(builtins, name, getattr(rich, name))


class _Later:
    """A class of rich.py that nobody has used yet."""

    def __init__(self, name):
        self._name = name

    def _real(self):
        return getattr(load("rich"), self._name)

    def __call__(self, *args, **kwargs):
        return self._real()(*args, **kwargs)

    def __instancecheck__(self, value):
        return isinstance(value, self._real())

    def __getattr__(self, name):
        return getattr(self._real(), name)

    def __repr__(self):
        return repr(self._real())

    def __mro_entries__(self, bases):
        return (self._real(),)
