def risky(n):
    if n == 0:
        raise ValueError("n must not be zero")
    return 10 / n
# %%
risky(0)
# %%
risky("a")
# %%
{}["missing"]
# %%
undefined_name + 1
# %%
[1, 2, 3][10]
# %%
x = 1
if x == 1
    print("no colon")
# %%
print("unclosed
# %%
def f():
return 1
# %%
import does_not_exist_anywhere
# %%
try:
    int("x")
except ValueError as error:
    raise RuntimeError("wrapped") from error
# %%
class CustomError(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")

raise CustomError(42)
# %%
assert 1 + 1 == 3, "arithmetic"
# %%
assert False
# %%
print("before")
1 / 0
print("after")
# %%
None.attribute
# %%
"text".nothing
# %%
def deep(n):
    return deep(n + 1)

deep(0)
# %%
open("/no/such/file")
# %%
raise KeyboardInterrupt
# %%
import sys
sys.exit(3)
# %%
x = 5
x.append(1)
# %%
sum([1, "a"])
# %%
import json
json.loads("{bad json}")
# %%
eval("1 +")
# %%
"still alive"
