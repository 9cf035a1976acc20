"""Classes whose methods are compiled by themselves, in compiled code."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
from language_checking import check_calls

import jitcore
from checking import observed


class Sets:
    @jitcore.script  # type: ignore[misc]
    def __init__(self, n):
        self.parent, self.count = np.arange(n), n

    @jitcore.script
    def find(self, i):
        while self.parent[i] != i:
            i = self.parent[i]
        return i

    @jitcore.script
    def union(self, i, j, least=1):
        i, j = self.find(i), self.find(j)
        if i == j or self.count == least:
            return False
        self.parent[j] = i
        self.count -= 1
        return True


@dataclass
class Arrow:
    x: float
    y: float

    @jitcore.script
    def __add__(self, other):
        return Arrow(self.x + other.x, self.y + other.y)

    @property
    @jitcore.script
    def length(self):
        return (self.x**2 + self.y**2) ** 0.5

    @length.setter
    @jitcore.script
    def length(self, value):
        factor = value / self.length
        self.x *= factor
        self.y *= factor


def made_here(pairs, n):
    sets = Sets(n)
    for i, j in pairs:
        sets.union(i, j, least=2)
    return sets.count, sets.parent


def of_the_caller(sets, pairs):
    joined = 0
    for i, j in pairs:
        joined += sets.union(i, j)
    return joined


def arrows(first, others):
    total = 0.0
    for one in others:
        total += one.length
    first.length = 2.0
    return (first + Arrow(total, 1.0)).length


def _pairs():
    return np.random.default_rng(4).integers(0, 9, (7, 2))


def test_they_are_compiled_with_the_caller() -> None:
    check_calls(made_here, (_pairs(), 9), (_pairs(), 30), (_pairs(), 5))
    check_calls(of_the_caller, (Sets(9), _pairs()), (Sets(5), _pairs()))
    check_calls(arrows, (Arrow(3.0, 4.0), [Arrow(1.0, 2.0), Arrow(0.0, 5.0)]))


def test_an_object_may_hide_one() -> None:
    scripted = jitcore.script(of_the_caller)
    hiding = Sets(9)
    hiding.find = int
    for sets in (Sets(9), hiding, Sets(9), hiding):
        args = (sets, _pairs())
        assert observed(scripted, args) == observed(of_the_caller, args)


def test_a_class_may_get_another_one() -> None:
    class Own(Sets):
        pass

    scripted = jitcore.script(of_the_caller)
    for find in (Sets.find, lambda self, i: i, jitcore.script(lambda self, i: i // 2)):
        Own.find = find
        for _ in range(2):
            args = (Own(9), _pairs())
            expected = of_the_caller(*copy.deepcopy(args))
            assert scripted(*args) == expected


def test_the_plain_function_may_change() -> None:
    class Own(Sets):
        @jitcore.script
        def find(self, i):
            return i

    def halved(self, i):
        return i // 2

    scripted = jitcore.script(of_the_caller)
    for code in (Own.find.__wrapped__.__code__, halved.__code__):
        Own.find.__wrapped__.__code__ = code
        args = (Own(9), _pairs())
        expected = of_the_caller(*copy.deepcopy(args))
        assert scripted(*args) == expected


class Made:
    shift = 2.0

    @jitcore.script  # type: ignore[misc]
    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    @jitcore.script
    def shifted(cls, x):
        return cls(x, cls.shift)

    @jitcore.script
    def times(self, s):
        return self.a * s


def with_too_few(x):
    return Made(x[0], 2.0).times()


def by_class_methods(x):
    total = 0.0
    for i in range(2):
        total += Made(x[i], 1.0).a + Made.shifted(x[i]).b
    return total


def test_what_calls_compiled_classes_in_python():
    x = np.arange(1.0, 4.0)
    for function in (with_too_few, by_class_methods):
        compiled = jitcore.script(function)
        for _ in range(2):
            assert observed(compiled, (x,)) == observed(function, (x,))
