"""Programs about classes: records with methods, operators, inheritance, interfaces."""
# The programs are what people write, and some of them are wrong.
# mypy: ignore-errors

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import List, Optional, Union

import numpy as np
from language_checking import Table

import jitcore

X = np.linspace(-1.0, 2.0, 7)


@jitcore.script
class Vector:
    """A pair of numbers."""

    def __init__(self, x: float, y: float):
        self.x = x
        self.y = y

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, k: float) -> Vector:
        return Vector(self.x * k, self.y * k)

    def __neg__(self):
        return Vector(-self.x, -self.y)

    def __eq__(self, other):
        return self.x == other.x and self.y == other.y

    def __lt__(self, other):
        return self.x < other.x

    def __getitem__(self, i: int):
        return self.x if i == 0 else self.y

    def __setitem__(self, i: int, value: float):
        if i == 0:
            self.x = value
        else:
            self.y = value

    def __len__(self):
        return 2

    def __contains__(self, v):
        return v == self.x or v == self.y

    def __str__(self):
        return f"<{self.x}, {self.y}>"

    def __iadd__(self, other):
        self.x += other.x
        self.y += other.y
        return self

    def __bool__(self):
        return self.x != 0 or self.y != 0

    def __abs__(self):
        return abs(self.x) + abs(self.y)

    def __call__(self, k):
        return self.x * k

    def __hash__(self):
        return 7

    def dot(self, other: Vector) -> float:
        return self.x * other.x + self.y * other.y

    def shift(self, d: float):
        self.x += d

    @property
    def size(self) -> float:
        return self.dot(self)

    @size.setter
    def size(self, value):
        self.x = value

    @staticmethod
    def unit() -> Vector:
        return Vector(1.0, 0.0)

    @classmethod
    def diagonal(cls, d):
        return cls(d, d)


class Stack:
    items: List[int]

    def __init__(self):
        self.items = []
        self.best: Optional[int] = None

    def push(self, k: int):
        self.items.append(k)
        if self.best is None or k > self.best:
            self.best = k

    def pop(self):
        return self.items.pop()


class Running:
    """A mean over arrays."""

    def __init__(self, shape):
        self.total = np.zeros(shape)
        self.count = 0

    def update(self, x):
        self.total += x
        self.count += 1

    def mean(self):
        return self.total / self.count


@dataclasses.dataclass
class Body:
    mass: float
    position: np.ndarray
    name: str = "body"
    tags: list = dataclasses.field(default_factory=list)

    def moved(self, d):
        return Body(self.mass, self.position + d, self.name)


@dataclasses.dataclass(frozen=True, order=True)
class Version:
    major: int
    minor: int = 0


class Base:
    kind = "base"

    def __init__(self, k):
        self.k = k

    def scaled(self, x):
        return x * self.factor()

    def factor(self):
        return self.k


class Derived(Base):
    kind = "derived"

    def __init__(self, k):
        super().__init__(k)
        self.extra = 1

    def factor(self):
        return self.k + self.extra


@jitcore.interface
class Shape:
    def area(self) -> float:
        pass


@jitcore.script
class Square:
    def __init__(self, side: float):
        self.side = side

    def area(self) -> float:
        return self.side * self.side


@jitcore.script
class Circle:
    def __init__(self, radius: float):
        self.radius = radius

    def area(self) -> float:
        return 3.0 * self.radius * self.radius


def class_made(a):
    v = Vector(a, 2.0)
    return v, v.x + v.y, v.dot(v), v.size


def class_argument(v, k):
    v.x = v.x + k
    v.shift(k)
    v.y *= 2
    return v.dot(Vector(1.0, 1.0)), v


def class_operators(v, w):
    u = v + w * 2.0
    u += w
    return u, -v, v == w, v != w, v < w, v[0], len(v), 2.0 in v, str(v), abs(v), v(3.0), bool(v)


def class_items(v):
    v[0] = 5.0
    v[1] += 1.0
    return v[0] + v[1]


def class_properties(v):
    v.size = 3.0
    return v.size, v.x


def class_static_methods(a):
    return Vector.unit(), Vector.diagonal(a), Vector.unit().dot(Vector.diagonal(a))


def class_in_numeric_loop(n):
    v = Vector(0.0, 1.0)
    for i in range(n):
        v = v + Vector(1.0, 0.5) * float(i)
    return v.x, v.y


def class_mutated_in_numeric_loop(n):
    v = Vector(0.0, 1.0)
    for i in range(n):
        v.x += v.y * i
        v.shift(0.5)
    return v.x


def class_known_elsewhere_in_numeric_loop(n):
    v, seen = Vector(0.0, 1.0), []
    for i in range(n):
        v.x += v.y * i
        seen.append(v)
    return [one.x for one in seen]


def class_without_decorator(n):
    s = Stack()
    for i in range(n):
        s.push((i * 7) % 5)
    return s.pop(), s.best, s


def class_of_arrays(x, n):
    r = Running(x.shape)
    for i in range(n):
        r.update(x * i)
    return r.mean(), r


def class_method_of_argument(r, x):
    r.update(x)
    r.update(x * 2 + 1)
    return r.mean()


def class_missing_attribute(v):
    return v.nothing


def class_attributes(k):
    d = Derived(k)
    return d.kind, Base.kind, d.scaled(2), isinstance(d, Base), type(d) is Derived


def inherited(d, x):
    return d.scaled(x), d.factor()


def dataclasses_made(x):
    b = Body(2.0, x)
    c = b.moved(1.0)
    b.tags.append("seen")
    return b.mass, c.position, b.tags, c.name, c


def dataclasses_compared(a):
    return Version(a) == Version(1), Version(a, 2) < Version(2), Version(a), hash(Version(1)) == 1


def dataclass_frozen(v):
    v.major = 3
    return v


def interface_argument(shapes: List[Shape]):
    total = 0.0
    for shape in shapes:
        total += shape.area()
    return total


def interface_variable(flag):
    shape: Shape = Square(2.0)
    if flag:
        shape = Circle(2.0)
    return shape.area()


def objects_in_containers(a):
    items = [Vector(a, 1.0), Vector(2.0, a)]
    items[0].x = 9.0
    named = {"v": items[1]}
    named["v"].y = -1.0
    return items, named, items[1] is named["v"]


def aliased_attributes(s):
    items = s.items
    items.append(3)
    other = s
    other.best = 7
    return s.best, items is other.items


class Holder:
    """An object around another."""

    def __init__(self, vector):
        self.vector = vector


def alias_in_loop(n):
    holder = Holder(Vector(1.0, 2.0))
    vector = holder.vector
    for i in range(n):
        vector.x += i
    return holder.vector.x, vector.y


class Link:
    def __init__(self, value, rest=None):
        self.value = value
        self.rest = rest


def linked_list(values):
    first = None
    for value in values:
        first = Link(value, first)
    total, link = 0, first
    while link is not None:
        total = total * 10 + link.value
        link = link.rest
    return total, first


def linked_list_of_numbers(n):
    first = None
    for i in range(n):
        first = Link(i * i, first)
    made = [Link(k) for k in range(n)]
    total = 0
    for link in made:
        total += link.value
    while first is not None:
        total += first.value
        first = first.rest
    return total


def objects_that_python_iterates_around(values):
    one, other = Link(1), Link(2)
    for value in values[:3]:
        try:
            values[0] = one.value
        except TypeError:
            one.value += value
        one, other = other, one
    for value in values[:3]:
        one = Link(one.value, None)
    other.rest = one
    return one.value, values, other


class Tree:
    def __init__(self, value):
        self.value = value
        self.left = None
        self.right = None

    def insert(self, value):
        side = "left" if value < self.value else "right"
        below = getattr(self, side)
        if below is None:
            setattr(self, side, Tree(value))
        else:
            below.insert(value)


def in_order(tree, found):
    if tree is not None:
        in_order(tree.left, found)
        found.append(tree.value)
        in_order(tree.right, found)


def search_tree(values):
    root = Tree(values[0])
    for value in values[1:]:
        root.insert(value)
    found = []
    in_order(root, found)
    return found, root


class Registered(abc.ABC):
    """Has other classes for its own."""


Registered.register(int)
Registered.register(np.ndarray)


def classes_in_unions(value):
    nested = isinstance(value, (int | str, (list, (tuple,))))
    optional = isinstance(value, Optional[int]), isinstance(value, Union[np.ndarray, list])
    return nested, optional, isinstance(value, Registered), isinstance(value, Sequence)


def classes_that_are_none(value, known):
    if known:
        return isinstance(value, (int, 5))
    return isinstance(value, 5)


def attributes_by_name(v):
    setattr(v, "x", 4.0)
    return getattr(v, "x"), hasattr(v, "zz"), getattr(v, "zz", 0)


def bound_methods(v):
    f = v.dot
    return f(Vector(1.0, 2.0)), Vector.dot(v, v)


VALUES = [(3,), (4,), (2.5,), (X,), ("a",), ([1],), ((1,),), (None,)]

PROGRAMS: Table = {
    "`isinstance`, `type`": [
        (classes_in_unions, VALUES),
        (classes_that_are_none, [(3, True), (X, True), (3, False)]),
    ],
    "classes": [
        (class_made, [(1.0,)]),
        (class_argument, [(Vector(1.0, 2.0), 3.0)]),
        (class_properties, [(Vector(1.0, 2.0),)]),
        (class_static_methods, [(2.0,)]),
        (class_without_decorator, [(6,)]),
        (class_of_arrays, [(X, 3)]),
        (class_method_of_argument, [(Running(7), X)]),
        (class_missing_attribute, [(Vector(1.0, 2.0),)]),
        (objects_in_containers, [(1.0,)]),
        (attributes_by_name, [(Vector(1.0, 2.0),)]),
        (bound_methods, [(Vector(1.0, 2.0),)]),
        (linked_list, [([3, 1, 2],), ([],)]),
        (linked_list_of_numbers, [(5,), (0,)]),
        (objects_that_python_iterates_around, [([3, 4],), ((3, 4, "a"),), ([],)]),
        (search_tree, [([5, 2, 8, 1],)]),
    ],
    "operators of classes": [
        (class_operators, [(Vector(1.0, 2.0), Vector(0.5, 3.0))]),
        (class_items, [(Vector(1.0, 2.0),)]),
    ],
    "records in numeric loops": [
        (class_in_numeric_loop, [(5,)]),
        (class_mutated_in_numeric_loop, [(5,)]),
        (class_known_elsewhere_in_numeric_loop, [(5,)]),
    ],
    "aliases of attributes": [
        (aliased_attributes, [(Stack(),)]),
        (alias_in_loop, [(4,), (0,)]),
    ],
    "inheritance": [
        (class_attributes, [(3,)]),
        (inherited, [(Derived(2), X), (Base(2), X)]),
    ],
    "dataclasses": [
        (dataclasses_made, [(X,)]),
        (dataclasses_compared, [(1,), (2,)]),
        (dataclass_frozen, [(Version(1),)]),
    ],
    "interfaces": [
        (interface_argument, [([Square(2.0), Circle(1.0)],)]),
        (interface_variable, [(True,), (False,)]),
    ],
}
