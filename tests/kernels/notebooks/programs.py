# Ordinary work: files, text, json, time, iteration
import csv, io, json, os, pathlib, random, re, statistics, tempfile, textwrap, itertools, functools, datetime
with tempfile.TemporaryDirectory() as place:
    path = pathlib.Path(place) / "data.json"
    path.write_text(json.dumps({"rows": list(range(5))}))
    rows = json.loads(path.read_text())["rows"]
rows
# %%
print(json.dumps({"b": 1, "a": [1, 2, {"c": None}]}, indent=2, sort_keys=True))
# %%
re.findall(r"\w+@\w+\.\w+", "write to a@b.cd or e@f.gh")
# %%
re.match("a(b)?", "ab")
# %%
re.compile(r"\d+", re.IGNORECASE)
# %%
@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

[fib(n) for n in range(20)], fib(90)
# %%
fib.cache_info()
# %%
list(itertools.combinations("abcd", 2))
# %%
dict(zip("abc", range(3)))
# %%
datetime.date(2024, 2, 29) + datetime.timedelta(days=1)
# %%
random.Random(3).sample(range(100), 5)
# %%
statistics.mean([1, 2, 3, 4]), statistics.stdev([1, 2, 3, 4])
# %%
matrix = [[i * j for j in range(10)] for i in range(10)]
matrix
# %%
words = "the quick brown fox jumps over the lazy dog the end".split()
counts = {}
for word in words:
    counts[word] = counts.get(word, 0) + 1
sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
# %%
print(textwrap.fill("some long text " * 10, 40))
# %%
def generator():
    yield from range(3)
generator().__class__, list(generator())
# %%
lambda x: x + 1
# %%
import subprocess
subprocess.run(["echo", "hi"], capture_output=True, text=True)
# %%
with open("/tmp/cay-notebook.csv", "w") as file:
    csv.writer(file).writerows([["a", "b"], [1, 2]])
print(open("/tmp/cay-notebook.csv").read())
os.remove("/tmp/cay-notebook.csv")
# %%
import sqlite3
base = sqlite3.connect(":memory:")
base.execute("create table t (a int, b text)")
base.executemany("insert into t values (?, ?)", [(1, "x"), (2, "y")])
base.execute("select * from t").fetchall()
# %%
"long " * 60
# %%
{f"key{i}": list(range(i)) for i in range(12)}
# %%
inspectable = __import__("inspect")
print(inspectable.getsource(fib.__wrapped__))
# %%
globals()["fib"] is fib, __name__
# %%
import threading
results = []
threads = [threading.Thread(target=results.append, args=(i,)) for i in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
sorted(results)
# %%
In[1].splitlines()[0]
# %%
match 3:
    case 1 | 2:
        print("low")
    case n if n > 2:
        print("high", n)
# %%
(walrus := 10) + walrus
# %%
print(*range(5), sep="\n", end="!\n")
# %%
del rows
rows
