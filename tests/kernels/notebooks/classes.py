from dataclasses import dataclass, field
from enum import Enum
import collections, pickle, typing

@dataclass
class Point:
    x: float
    y: float = 0.0
    tags: list = field(default_factory=list)

Point(1.5)
# %%
[Point(i, i * 2) for i in range(6)]
# %%
class Color(Enum):
    RED = 1
    GREEN = 2

Color.RED, list(Color)
# %%
class Plain:
    pass

Plain
# %%
class WithRepr:
    def __repr__(self):
        return "WithRepr()"

[WithRepr(), WithRepr()]
# %%
pickle.loads(pickle.dumps(Point(1, 2)))
# %%
collections.Counter("abracadabra")
# %%
collections.OrderedDict(a=1, b=2), collections.defaultdict(int, {"k": 1}), collections.deque([1, 2], maxlen=3)
# %%
Pair = collections.namedtuple("Pair", "left right")
Pair(1, "two")
# %%
class Animal:
    def __init__(self, name):
        self.name = name
    def speak(self):
        raise NotImplementedError
    @property
    def title(self):
        return self.name.title()
    @classmethod
    def make(cls, name):
        return cls(name)
    @staticmethod
    def kind():
        return "animal"

class Dog(Animal):
    def speak(self):
        return f"{self.name} says woof"

Dog.make("rex").speak(), Dog("rex").title, Dog.kind()
# %%
Animal("x").speak()
# %%
class Rich:
    def _repr_html_(self):
        return "<b>rich</b>"
    def __repr__(self):
        return "Rich()"

Rich()
# %%
class Markdown1:
    def _repr_markdown_(self):
        return "**bold**"
    def _repr_latex_(self):
        return "$x$"

display(Rich())
# %%
import abc
class Base(abc.ABC):
    @abc.abstractmethod
    def go(self): ...
Base()
# %%
class Meta(type):
    def __new__(mcs, name, bases, ns):
        ns["made"] = True
        return super().__new__(mcs, name, bases, ns)
class Made(metaclass=Meta): pass
Made.made
# %%
typing.List[int], typing.Optional[str]
# %%
@dataclass(frozen=True)
class Frozen:
    a: int
Frozen(1).a = 2
# %%
class Context:
    def __enter__(self):
        print("enter"); return self
    def __exit__(self, *args):
        print("exit", args[0].__name__ if args[0] else None); return True
with Context():
    raise ValueError
# %%
import types
types.SimpleNamespace(a=1, b="two")
