# SPDX-License-Identifier: Apache-2.0
"""display() and the objects that cells hand to it, under the names that notebooks use."""

from cay_kernel.own import BUILTINS as __builtins__

import os
import sys

from cay_kernel import formats, hooks, streams, wire

_ids = 0


class DisplayHandle:
    """Of something shown under a name. A frame that was sent stays sent: an update is shown after it."""

    def __init__(self, display_id=None):
        global _ids
        _ids += 1
        self.display_id = display_id or "display-%d" % _ids

    def display(self, obj, **options):
        display(obj, display_id=self.display_id, **options)

    def update(self, obj, **options):
        display(obj, display_id=self.display_id, update=True, **options)

    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % self.display_id


def display(*objects, include=None, exclude=None, metadata=None, transient=None, display_id=None, raw=False,
            clear=False, update=False, **options):
    """Shows objects now. The cell goes on when the daemon has them."""
    handle = None
    if display_id is not None or update:
        if update and display_id is None:
            raise TypeError("display_id required for update_display")
        handle = DisplayHandle(None if display_id is True else display_id)
        metadata = {**(metadata or {}), "displayId": handle.display_id, "isUpdate": bool(update)}
    for value in objects:
        _show(value, raw, include, exclude, metadata)
    return handle if objects and not update else None


def _show(value, raw, include, exclude, metadata):
    if raw:
        found = value, {}
    else:
        found = formats.bundle(value, include, exclude)
    if found is not None:
        publish(found[0], {**found[1], **(metadata or {})})


def publish(data, metadata=None):
    if not wire.is_kernel():
        sys.stdout.write(str(data.get("text/plain", "")) + "\n")  # a fork of the cell's: its text at least
        return
    streams.flush()
    wire.send_display(formats.encode(data, metadata or {}))


def publish_display_data(data, metadata=None, source=None, *, transient=None, **options):
    publish(data, metadata)


def update_display(obj, *, display_id, **options):
    display(obj, display_id=display_id, update=True, **options)


def clear_output(wait=False):
    """What was shown has left already."""


class DisplayObject:
    """Data of one kind, given, or read from a file or an address."""

    _mode = "r"
    _method = None

    def __init__(self, data=None, url=None, filename=None, metadata=None):
        if data is not None and isinstance(data, (str, os.PathLike)) and url is None and filename is None:
            data, url, filename = self._guess(data)
        self.data, self.url, self.filename = data, url, None if filename is None else os.fspath(filename)
        self.metadata = metadata or {}
        self.reload()

    def _guess(self, data):
        text = os.fspath(data)
        if isinstance(data, os.PathLike):
            return None, None, text
        if text.startswith(("http://", "https://")):
            return None, text, None
        return data, None, None

    def reload(self):
        if self.filename is not None:
            with open(self.filename, self._mode, **({} if "b" in self._mode else {"encoding": "utf-8"})) as file:
                self.data = file.read()
        elif self.url is not None and self.data is None:
            self.data = self._fetch()

    def _fetch(self):
        from urllib.request import urlopen

        with urlopen(self.url) as answer:
            data = answer.read()
        return data if "b" in self._mode else data.decode("utf-8", "replace")

    def _with_metadata(self, data):
        return (data, self.metadata) if self.metadata else data

    def __repr__(self):
        return "<%s.%s object>" % ("IPython.core.display", type(self).__name__)


def _kind(name, method, base=DisplayObject):
    def give(self):
        return self._with_metadata(self.data)

    return type(name, (base,), {method: give, "__module__": __name__, "__doc__": "Data to show as %s." % name})


class TextDisplayObject(DisplayObject):
    pass


HTML = _kind("HTML", "_repr_html_", TextDisplayObject)
HTML.__html__ = lambda self: self.data
Markdown = _kind("Markdown", "_repr_markdown_", TextDisplayObject)
Latex = _kind("Latex", "_repr_latex_", TextDisplayObject)
Pretty = type("Pretty", (TextDisplayObject,), {"_repr_pretty_": lambda self, p, cycle: p.text(self.data)})


class Math(TextDisplayObject):
    def _repr_latex_(self):
        return self._with_metadata("$\\displaystyle %s$" % self.data.strip("$"))


class SVG(DisplayObject):
    def _repr_svg_(self):
        data = self.data.decode("utf-8", "replace") if isinstance(self.data, bytes) else self.data
        start = data.find("<svg")
        return self._with_metadata(data[start:] if start > 0 else data)


class Javascript(TextDisplayObject):
    def __init__(self, data=None, url=None, filename=None, lib=None, css=None):
        self.lib = [lib] if isinstance(lib, str) else lib or []
        super().__init__(data, url, filename)

    def _repr_javascript_(self):
        loads = "".join("await import(%r);\n" % lib for lib in self.lib)
        return loads + self.data


class JSON(DisplayObject):
    def __init__(self, data=None, url=None, filename=None, expanded=False, metadata=None, root="root", **options):
        super().__init__(data, url, filename, {"expanded": expanded, "root": root, **(metadata or {}), **options})

    def _guess(self, data):
        text = os.fspath(data)
        if isinstance(data, str) and text.lstrip()[:1] in ("{", "["):
            return data, None, None
        found = super()._guess(data)
        return found if found[0] is None else (None, None, text)

    def _repr_json_(self):
        data = self.data
        if isinstance(data, (str, bytes)):
            import json

            data = json.loads(data)
        return data, self.metadata


class GeoJSON(JSON):
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"application/geo+json": self._repr_json_()[0]}


class Image(DisplayObject):
    """A picture: png, jpeg or gif by what its bytes are, svg and addresses as html."""

    _mode = "rb"
    _KINDS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"))

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None, height=None,
                 retina=False, unconfined=False, metadata=None, alt=None):
        self.format, self.width, self.height, self.alt = format, width, height, alt
        self.embed = embed if embed is not None else url is None
        super().__init__(data, url, filename, metadata)

    def _guess(self, data):
        text = os.fspath(data)
        if text.startswith(("http://", "https://")):
            self.embed = False
            return None, text, None
        return None, None, text

    def reload(self):
        if self.embed or self.filename is not None:
            super().reload()

    def _sizes(self):
        sizes = {"width": self.width, "height": self.height, "alt": self.alt}
        return {name: value for name, value in sizes.items() if value is not None}

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            sizes = "".join(' %s="%s"' % pair for pair in self._sizes().items())
            return {"text/html": '<img src="%s"%s/>' % (self.url, sizes)}
        data = self.data.encode() if isinstance(self.data, str) else bytes(self.data)
        mime = next((mime for start, mime in self._KINDS if data.startswith(start)), None)
        if mime is None and b"<svg" in data[:4096]:
            return {"image/svg+xml": data.decode("utf-8", "replace")}
        mime = mime or "image/" + (self.format or "png").lower().replace("jpg", "jpeg")
        sizes = self._sizes()
        return ({mime: data}, {mime: {**self.metadata, **sizes}} if sizes else {})


class _Embedded(DisplayObject):
    """Sound and films, in html."""

    _mode = "rb"
    _tag, _kind = "video", "video/mp4"

    def __init__(self, data=None, filename=None, url=None, rate=None, **options):
        if isinstance(data, str) and not data.startswith("http") and filename is None:
            data, filename = None, data
        super().__init__(data, url if url else None, filename)

    def reload(self):
        if self.filename is not None:
            super().reload()

    def _repr_html_(self):
        from base64 import b64encode

        import mimetypes

        kind = mimetypes.guess_type(self.filename or "")[0] or self._kind
        source = self.url or "data:%s;base64,%s" % (kind, b64encode(bytes(self.data)).decode())
        return '<%s controls src="%s"></%s>' % (self._tag, source, self._tag)


class Video(_Embedded):
    pass


class Audio(_Embedded):
    _tag, _kind = "audio", "audio/wav"


class IFrame:
    def __init__(self, src, width, height, extras=None, **params):
        self.src, self.width, self.height, self.params = src, width, height, params

    def _repr_html_(self):
        from urllib.parse import urlencode

        query = "?" + urlencode(self.params) if self.params else ""
        form = '<iframe width="%s" height="%s" src="%s%s" frameborder="0" allowfullscreen></iframe>'
        return form % (self.width, self.height, self.src, query)


class FileLink:
    def __init__(self, path, url_prefix="", **options):
        self.path = os.fspath(path)

    def _repr_html_(self):
        return "<a href='%s' target='_blank'>%s</a><br>" % (self.path, self.path)

    def __repr__(self):
        return os.path.abspath(self.path)


class Code(TextDisplayObject):
    def __init__(self, data=None, url=None, filename=None, language=None):
        self.language = language
        super().__init__(data, url, filename)

    def _repr_html_(self):
        from html import escape

        return "<pre><code>%s</code></pre>" % escape(self.data)


class ProgressBar:
    def __init__(self, total):
        self.total, self.progress = total, 0

    def _repr_html_(self):
        return "<progress max='%d' value='%d'></progress>" % (self.total, self.progress)


def _shown_as(name, kind):
    def show(*objects, **options):
        raw = options.pop("raw", False)
        for value in objects:
            display(kind(value) if raw else value, **options)

    show.__name__ = name
    return show


display_html = _shown_as("display_html", HTML)
display_markdown = _shown_as("display_markdown", Markdown)
display_svg = _shown_as("display_svg", SVG)
display_latex = _shown_as("display_latex", Latex)
display_json = _shown_as("display_json", JSON)
display_javascript = _shown_as("display_javascript", Javascript)
display_png = _shown_as("display_png", Image)
display_jpeg = _shown_as("display_jpeg", Image)


def set_matplotlib_formats(*formats, **options):
    """Figures always come as png and svg."""


set_matplotlib_close = set_matplotlib_formats
hooks.rich_came(sys.modules[__name__])
