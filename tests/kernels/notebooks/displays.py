from IPython.display import HTML, Markdown, Latex, SVG, JSON, Javascript, Math, Image, display
HTML("<h1>title</h1>")
# %%
display(Markdown("# heading"), HTML("<p>"))
# %%
Latex("$e^{i\\pi}$")
# %%
SVG('<svg xmlns="http://www.w3.org/2000/svg"><circle r="5"/></svg>')
# %%
JSON({"a": [1, 2]})
# %%
Javascript("console.log(1)")
# %%
Math("x^2")
# %%
print("one")
display("two")
print("three")
"four"
# %%
display(1, "a", [1, 2], {"k": "v"})
# %%
import base64
png = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
Image(data=png)
# %%
from PIL import Image as Picture
Picture.new("RGB", (8, 8), "blue")
# %%
class Many:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/html": "<b>m</b>", "text/plain": "m", "text/markdown": "**m**"}
Many()
# %%
class Broken:
    def __repr__(self):
        raise RuntimeError("no repr")
Broken()
# %%
class SelfShown:
    def _ipython_display_(self):
        print("I show myself")
SelfShown()
# %%
get_ipython().__class__.__name__
# %%
display()
# %%
display(HTML("<b>x</b>"), metadata={"k": 1})
# %%
handle = display("first", display_id="here")
# %%
import warnings
warnings.warn("take care")
# %%
import logging
logging.warning("a log line")
# %%
import sys
sys.stdout.write("no newline")
# %%
print("é ü 漢字 🎉")
# %%
help(len)
