# SPDX-License-Identifier: Apache-2.0
"""The representations of a value: by the methods that notebooks know (_repr_html_ and its kin), and by what it is."""

from cay_kernel.own import BUILTINS as __builtins__

import sys
from _json import encode_basestring as quote
from binascii import b2a_base64

from cay_kernel.jsontext import dumps, to_plain
from cay_kernel.own import load

TEXT_MAX = 1 << 20
ONE_MAX = 8 << 20
ALL_MAX = 24 << 20
MIMES_MAX, MIME_MAX = 64, 200
CUT = "... (cut: it was longer)"

# MIME type: (its name in a representation, the method that gives it)
KINDS = {
    "text/plain": ("text", None),
    "text/html": ("html", "_repr_html_"),
    "text/markdown": ("markdown", "_repr_markdown_"),
    "image/svg+xml": ("svg", "_repr_svg_"),
    "image/png": ("png", "_repr_png_"),
    "image/jpeg": ("jpeg", "_repr_jpeg_"),
    "text/latex": ("latex", "_repr_latex_"),
    "application/json": ("json", "_repr_json_"),
    "application/javascript": ("javascript", "_repr_javascript_"),
}
IMAGES = ("image/png", "image/jpeg")
CANARY = "_ipython_canary_method_should_not_exist_"


def payload(value):
    """A value's representation as JSON, or None when it has shown itself. Raises what its repr raises."""
    found = bundle(value)
    return None if found is None else encode(*found)


def bundle(value, include=None, exclude=None):
    """({MIME type: data}, {MIME type: metadata}), or None when the value has shown itself."""
    kind = type(value)
    if kind in (dict, list):
        return _plain_container(value), {}
    data, metadata = {}, {}
    if has_methods(value):
        if _shows_itself(value):
            return None
        _ask_for_bundle(value, include, exclude, data, metadata)
        for mime, (_, name) in KINDS.items():
            if name is not None and mime not in data:
                _ask(value, mime, name, data, metadata)
        _add_known(value, data)
    if "text/plain" not in data:
        data["text/plain"] = text_of(value)
    return _chosen(data, include, exclude), metadata


def _plain_container(value):
    data = {"text/plain": text_of(value)}
    try:
        data["application/json"] = to_plain(value)
    except Exception:
        pass  # a cycle, an object, too much of it
    return data


def has_methods(value):
    """Classes have them for their objects; some objects answer to any name."""
    if isinstance(value, type):
        return False
    try:
        return getattr(value, CANARY, None) is None
    except Exception:
        return False


def method(value, name):
    try:
        found = getattr(value, name, None)
    except Exception:
        return None
    return found if callable(found) else None


def _shows_itself(value):
    show = method(value, "_ipython_display_")
    if show is None:
        return False
    try:
        show()
        return True
    except NotImplementedError:
        return False


def _ask_for_bundle(value, include, exclude, data, metadata):
    give = method(value, "_repr_mimebundle_")
    if give is None:
        return
    try:
        found = give(include=include, exclude=exclude)
    except Exception:
        return
    if isinstance(found, tuple) and len(found) == 2:
        found, extra = found
        metadata.update(extra or {})
    if isinstance(found, dict):
        data.update((mime, item) for mime, item in found.items() if isinstance(mime, str) and item is not None)


def _ask(value, mime, name, data, metadata):
    give = method(value, name)
    if give is None:
        return
    try:
        found = give()
    except Exception:
        return  # as if it had none
    if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
        found, metadata[mime] = found
    if found is not None:
        data[mime] = found


def _add_known(value, data):
    """Things that have no such methods."""
    figures = sys.modules.get("matplotlib.figure")
    if figures is not None and isinstance(value, getattr(figures, "Figure", ())):
        load("plots").add(value, data)
    images = sys.modules.get("PIL.Image")
    if images is not None and isinstance(value, getattr(images, "Image", ())) and "image/png" not in data:
        load("plots").add_picture(value, data)


def _chosen(data, include, exclude):
    if include:
        data = {mime: item for mime, item in data.items() if mime in include}
    if exclude:
        data = {mime: item for mime, item in data.items() if mime not in exclude}
    return data


def text_of(value):
    kind = type(value)
    if kind in (str, bytes) and len(value) > TEXT_MAX:
        return repr(value[:TEXT_MAX])[:-1] + CUT
    return load("pretty").pretty(value, TEXT_MAX)


def encode(data, metadata):
    """The JSON of a representation, within its bounds."""
    parts, other, left_out, total = {}, {}, [], 0
    for mime, item in list(data.items())[:MIMES_MAX]:
        if len(mime) > MIME_MAX:
            continue
        name = KINDS[mime][0] if mime in KINDS else "chart" if mime == "chart" else None
        try:
            text = _item_json(mime, item)
        except Exception:
            continue
        size = _size(text)
        if size > ONE_MAX or total + size > ALL_MAX:
            left_out.append("%s (%d bytes)" % (mime, size))
            continue
        total += size
        (other if name is None else parts)[name or mime] = text
    if left_out:
        _say_left_out(parts, left_out)
    if other:
        parts["data"] = _object(other)
    if metadata:
        _add_metadata(parts, metadata)
    return _object(parts)


def _size(text):
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _add_metadata(parts, metadata):
    try:
        text = dumps(metadata)
    except Exception:
        return
    if _size(text) <= TEXT_MAX:
        parts["metadata"] = text


def _say_left_out(parts, left_out):
    said = "[left out, too large: %s]" % ", ".join(left_out)
    parts["text"] = parts["text"][:-1] + "\\n" + said + '"' if "text" in parts else dumps(said)


def _object(parts):
    return "{%s}" % ",".join("%s:%s" % (quote(name.replace("\0", "?")), text) for name, text in parts.items())


def _item_json(mime, item):
    if mime == "text/plain":
        return dumps(_cut(_as_text(item)))
    if mime in IMAGES or isinstance(item, (bytes, bytearray)):
        return dumps(_base64(item))
    if mime == "chart" or mime.endswith("json"):
        return dumps(item)
    if mime in KINDS:
        return dumps(_as_text(item))
    return dumps(item)


def _cut(text):
    if _size(text) <= TEXT_MAX:
        return text
    return text[:TEXT_MAX].encode("utf-8", "replace")[:TEXT_MAX].decode("utf-8", "ignore") + CUT


def _as_text(item):
    if isinstance(item, str):
        return item
    if isinstance(item, (bytes, bytearray)):
        return bytes(item).decode("utf-8", "replace")
    raise TypeError(type(item).__name__)


def _base64(item):
    if isinstance(item, str):
        return item.replace("\n", "").strip()
    return b2a_base64(bytes(item), newline=False).decode("ascii")
