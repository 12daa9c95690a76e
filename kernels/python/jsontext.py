# SPDX-License-Identifier: Apache-2.0
"""JSON that every reader takes: no NaN, no NUL, no integer beyond 64 bits, no name twice, bounded in depth and size."""

from cay_kernel.own import BUILTINS as __builtins__

from _json import encode_basestring, make_encoder
from math import isfinite

DEPTH_MAX = 64
NODES_MAX = 200_000
CHARACTERS_MAX = 8 << 20


class NotJson(Exception):
    pass


def _refuse(value):
    raise NotJson(type(value).__name__)


_encode = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)


def dumps(value):
    """Of values that are JSON already, but for NULs in strings."""
    return "".join(_encode(_Cleaner().clean(value, 0), 0))


def to_plain(value):
    """The value as plain JSON values, or NotJson."""
    return _Cleaner().clean(value, 0)


class _Cleaner:
    def __init__(self):
        self.nodes = 0
        self.characters = 0

    def clean(self, value, depth):
        self.nodes += 1
        if depth > DEPTH_MAX or self.nodes > NODES_MAX:
            raise NotJson("too deep or too large")
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, int):
            return _integer(value)
        if isinstance(value, float):
            value = float(value)
            return value if isfinite(value) else None
        if isinstance(value, dict):
            return self.object(value, depth)
        if isinstance(value, (list, tuple)):
            return [self.clean(item, depth + 1) for item in value]
        return self.clean(_number_of_library(value), depth)

    def string(self, value):
        self.characters += len(value)
        if self.characters > CHARACTERS_MAX * 4:
            raise NotJson("too large")
        value = str.__str__(value)
        return value.replace("\0", "\ufffd") if "\0" in value else value

    def object(self, value, depth):
        result = {}
        for key, item in value.items():
            name = self.string(_name(key))
            if name in result:
                raise NotJson("two names alike")
            result[name] = self.clean(item, depth + 1)
        return result


def _integer(value):
    value = int(value)
    if not -(1 << 63) <= value < 1 << 63:
        raise NotJson("too large an integer")
    return value


def _name(key):
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, (int, float)):
        return repr(_integer(key)) if isinstance(key, int) else float.__repr__(key)
    plain = _number_of_library(key)
    return _name(plain)


def _number_of_library(value):
    """numpy's scalars."""
    kind = type(value)
    if kind.__module__ != "numpy" or getattr(value, "shape", None) != () or not hasattr(value, "item"):
        raise NotJson(kind.__name__)
    plain = value.item()
    if not isinstance(plain, (bool, int, float, str)):
        raise NotJson(kind.__name__)
    return plain
