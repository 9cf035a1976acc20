"""Programs with ``match``: every kind of pattern, guards, and what names hold afterwards."""
# The programs are what people write, and some of them are wrong.
# mypy: ignore-errors

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from language_checking import Table


class Color(Enum):
    RED = 1
    GREEN = 2


class Point(NamedTuple):
    x: float
    y: float


@dataclass
class Order:
    count: int
    item: object = None


class Loud:
    __match_args__ = ("first", "second")

    def __init__(self, first, second):
        self.first = first
        self.second = second

    @property
    def half(self):
        print("asked")
        return self.first / 2


def literals(x):
    match x:
        case 1:
            return "one"
        case 2 | -3 | "b":
            return "several"
        case None | False:
            return "singleton"
        case 3 + 4j:
            return "complex"
    return "none of them"


def guards(n):
    match n:
        case x if x > 3:
            r = x * 2
        case 0:
            r = 100
        case x if x < -10:
            r = -x
        case y:
            r = y + 1
    # A guard that fails leaves what its pattern has captured.
    return r, x


def sequences(x):
    match x:
        case (0, y):
            return "zero", y
        case [1, (a, b)]:
            return "nested", a, b
        case (a, b):
            return a, b
        case [first, *middle, last]:
            return first, middle, last
        case [one]:
            return one
        case []:
            return "empty"
        case [*_]:
            return "never"
    return "no sequence"


def mappings(d):
    match d:
        case {"a": 1, "b": b, **rest}:
            return b, rest
        case {"a": [p, q]}:
            return p + q
        case {}:
            return "another mapping"
        case _:
            return "no mapping"


def classes(x):
    match x:
        case Point(0.0, y):
            return "on the axis", y
        case Point(x=a, y=b):
            return a, b
        case Order(1) | Order(count=2):
            return "few"
        case Order(count, item=str(name)):
            return count, name
        case Loud(half=1.5):
            return "three"
        case Loud(first, (second, _)):
            return first, second
        case Color.RED:
            return "red"
        case Color():
            return "another colour"
        case int(n) | float(n):
            return n + 1
        case str():
            return "text"
    return None


def same_names(p):
    match p:
        case [int(n), str(s)] | [str(s), int(n)]:
            return s * n
    return "neither"


def commands(*command):
    match command:
        case ("go", ("north" | "south") as where):
            return f"went {where}"
        case ("drop", *things):
            return [thing.upper() for thing in things]
        case ["quit"]:
            return "bye"
        case _:
            raise ValueError(f"unknown command {command}")


def jumps(values):
    seen = []
    for value in values:
        match value:
            case 1:
                continue
            case 0:
                break
            case other:
                seen.append(other)
    return seen


def in_a_nested_function(x):
    def name(v):
        match v:
            case 1:
                return "one"
        return "many"

    return [name(v) for v in (x, x + 1)]


def steps(n):
    total = 0
    for i in range(n):
        match i % 4:
            case 0:
                total += 1
            case 1 | 2:
                total += 10
            case k:
                total += k * 100
    return total


def quadrants(x, y):
    match x, y:
        case 0.0, _:
            return 0.0
        case a, b if a > b:
            return a - b
        case a, b:
            return a * b


def twice_the_same_key(d, k):
    match d:
        case {Color.RED.value: a, 1: b}:
            return a, b
    return None


PROGRAMS: Table = {
    "`match`": [
        (literals, [(1,), (2,), (-3,), ("b",), (None,), (False,), (True,), (3 + 4j,), (1.0,)]),
        (guards, [(5,), (0,), (-20,), (2,)]),
        (
            sequences,
            [((0, 2),), ([1, (2, 3)],), ((1, 2),), ([1, 2, 3, 4],), ([7],), ((),), ("ab",)]
            + [(range(2),), (np.array([0, 1]),), (b"ab",), (3,)],
        ),
        (mappings, [({"a": 1, "b": 2, "c": 3},), ({"a": [1, 2]},), ({"a": 2},), ({},), ([],)]),
        (
            classes,
            [(Point(0.0, 2.0),), (Point(1.0, 2.0),), (Order(1),), (Order(2),), (Order(3, "x"),)]
            + [(Order(3),), (Loud(3, 0),), (Loud(5, (6, 7)),), (Color.RED,), (Color.GREEN,)]
            + [(4,), (2.5,), ("s",), ([1],)],
        ),
        (same_names, [([2, "a"],), (["a", 2],), (["a", "b"],)]),
        (commands, [("go", "north"), ("go", "up"), ("drop", "a", "b"), ("quit",), ()]),
        (jumps, [([1, 2, 3, 1, 0, 9],), ([],)]),
        (in_a_nested_function, [(1,), (0,)]),
        (steps, [(9,), (0,)]),
        (quadrants, [(0.0, 1.0), (3.0, 1.0), (1.0, 3.0)]),
        (twice_the_same_key, [({1: 2}, 1), ({1: 2, 3: 4}, 1), ({}, 1)]),
    ],
}
