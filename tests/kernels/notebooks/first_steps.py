# Variables, results, printing
x = 40
x + 2
# %%
print("hello", "world", sep=", ")
print("to", "stderr", file=__import__("sys").stderr)
# %%
_ * 2, _1
# %%
"a string with 'quotes'"
# %%
[i ** 2 for i in range(30)]
# %%
{"name": "Ada", "born": 1815, "tags": ["math", "poetry"], "nested": {"deep": (1, 2, {3, 1, 2})}}
# %%
None
# %%
x;
# %%
for i in range(3):
    print(i, end=" ")
i
# %%
"%.3f" % 3.14159, f"{x:>8}|", b"bytes", 1e100, 10 ** 30, 2 + 3j
# %%
import math
math.pi, math.inf, math.nan
# %%
def greet(name, *, loud=False):
    """Says hello."""
    text = f"hello {name}"
    return text.upper() if loud else text

greet
# %%
greet("you", loud=True)
# %%
int, str, dict.get, len, print
# %%
set("mississippi"), frozenset([3, 1, 2]), set(), (), [], {}, (1,)
# %%
import sys
sys.version_info[0] == 3
