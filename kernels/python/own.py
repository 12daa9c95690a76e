# SPDX-License-Identifier: Apache-2.0
"""What the kernel keeps to itself.

A cell may put anything in place of a builtin (`builtins.len = None`) or of a module. The kernel's own functions look
builtins up in a copy that no cell has a name for: each module of ours begins by taking BUILTINS as its `__builtins__`.
"""

import builtins
import sys

BUILTINS = dict(vars(builtins))
PREFIX = "<cay>"  # file names of our own code begin with it: tracebacks leave them out
__builtins__ = BUILTINS

_loaded = {}


def load(name):
    """A module of ours that few cells need. Found again even if the cell has cleared sys.modules."""
    module = _loaded.get(name)
    if module is None:
        __import__("cay_kernel." + name)
        module = _loaded[name] = sys.modules["cay_kernel." + name]
    return module
