# mypy: allow-untyped-defs, allow-untyped-calls
"""``is`` and ``is not`` of tuples, which compiled code takes apart where nobody asks."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitcore import nn, script
from jitcore.markers import is_scripting


def of_elements(pairs):
    one, other = pairs[0], pairs[0]
    return one is other, one is not other, one is pairs[-1]


def of_extremes(pairs):
    one, other = max(pairs, key=lambda p: p[1]), max(pairs, key=lambda p: p[1])
    return one is other, one is min(pairs)


def in_loops(pairs):
    first, second = pairs[0], pairs[0]
    for pair in pairs:
        if pair[0] > first[0]:
            first = pair
        if pair[1] > second[1]:
            second = pair
    return first is second, first is pairs[0]


def of_new_lists(pairs):
    made = [(a, b) for a, b in pairs]
    best = made[0]
    for pair in made:
        if pair[0] > best[0]:
            best = pair
    return best is made[0], best is pairs[0]


def of_new_tuples(pairs):
    n = len(pairs)
    one, other = (n, 1), (n, 1)
    third = one if n > 1 else (1, 2)
    return one is other, one is third, one == other


def which(one, other):
    return one is other


def in_a_called_function(pairs):
    pair = pairs[0]
    return which(pair, pair), which(pair, (pair[0], pair[1])), which(pairs[0], pairs[-1])


def beside_arrays(pairs):
    counts, last, repeated = np.zeros((3, 3)), None, 0
    for i in range(3):
        for pair in pairs:
            repeated += pair is last
            counts[i, i] += pair[0]
            last = pair
    return counts.tolist(), repeated, last is pairs[-1]


@pytest.mark.parametrize(
    "function",
    [
        of_elements,
        of_extremes,
        in_loops,
        of_new_lists,
        of_new_tuples,
        in_a_called_function,
        beside_arrays,
    ],
)
def test_tuples_in_containers(function: Callable[..., Any]) -> None:
    scripted = script(function)
    pairs = [(1, 2), (3, 1), (0, 5)]
    given: list[Any] = [pairs[:1], pairs, tuple(pairs), [(1, 2.5), (3, 1.5)]]
    for one in given * 2:
        assert scripted(one) == function(one)


def test_arguments() -> None:
    def asking(one, other):
        total = 0
        for _ in range(3):
            total += one[0]
        return one is other, one is not other, total

    scripted = script(asking)
    for pair in ((1, 2), (1, (2, 3.0)), (2.5,)):
        for other in (pair, tuple(list(pair)), (1, 2)):
            assert scripted(pair, other) == asking(pair, other)


def given_on(held, pair, x):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * pair[0]
    held["new"] = pair
    return held["new"] is held["old"], total


def largest_of(held, pair, x):
    best = pair
    for i in range(len(x)):
        if x[i] > best[0]:
            best = (x[i], i)
    held["new"] = best
    return held["new"] is held["old"], held["new"] is best


def of_the_last(held, pair, x):
    made, last = [], pair
    for i in range(len(x)):
        last = (x[i], i)
        made.append(last)
    held["new"], held["last"] = last, made[-1]
    return held["new"] is held["last"], held["new"] is held["old"]


@pytest.mark.parametrize("function", [given_on, largest_of, of_the_last])
def test_tuples_of_numbers_that_loops_read_and_dicts_hold(function: Callable[..., Any]) -> None:
    scripted, x = script(function), np.array([1.0, 5.0, 2.0])
    for pair in ((0.5, 1), (9.0, 2), (5.0, 0)):
        for old in (pair, tuple(list(pair))):
            found, expected = ({"old": old}, pair, x), ({"old": old}, pair, x)
            assert scripted(*found) == function(*expected)


def test_tuples_of_arrays_of_any_extent() -> None:
    def asking(one, other):
        return one is other, (one[0] + 1).sum()

    scripted = script(asking)
    for n in range(3, 8):
        pair = (np.ones(n),)
        assert scripted(pair, pair) == (True, 2 * n)
        assert scripted(pair, (pair[0],)) == (False, 2 * n)


SIZE = (3, 4)


class Holder:
    def __init__(self, pair):
        self.pair = pair


class Sized(nn.Module):
    def __init__(self):
        super().__init__()
        self.held = {}

    def forward(self, pair):
        return type(self) is Sized, self.__class__ is Sized, self.held.get(0), pair is SIZE


def test_other_ways_to_ask() -> None:
    def by_functions(one, other):
        return operator.is_(one, other), operator.is_not(one, other), id(one) == id(other)

    def of_attributes(one, other):
        mine, yours = one.pair, other.pair
        total = 0.0
        for _ in range(50):
            total += mine[0]
        return mine is yours, total

    def through_a_dict(one, other, known):
        known["one"] = one
        chosen = other if one[0] > 5 else known["one"]
        known["other"] = chosen
        return known["one"] is known["other"], SIZE is known["one"]

    pair = (1.5, 2)
    for other in (pair, tuple(list(pair)), (3, 4)):
        for _ in range(2):
            assert script(by_functions)(pair, other) == by_functions(pair, other)
            holders = Holder(pair), Holder(other)
            assert script(of_attributes)(*holders) == of_attributes(*holders)
            for one in (pair, SIZE):
                found, expected = script(through_a_dict), through_a_dict
                assert found(one, other, {}) == expected(one, other, {})


def test_one_function_in_compiled_code_only() -> None:
    def asking(pair, other):
        return is_scripting(), pair is other

    scripted = script(asking)
    pair = (1, 2)
    assert scripted(pair, pair) == (True, True)
    assert scripted(pair, tuple(list(pair))) == (True, False)


def test_modules_that_python_runs_keep_their_class() -> None:
    plain = Sized()
    scripted = script(plain)
    for pair in (SIZE, tuple(list(SIZE))):
        for _ in range(3):
            assert scripted(pair) == plain(pair)


def test_loops_around_other_questions_stay_native() -> None:
    def asking(known, x):
        total = 0.0
        for i in range(len(x)):
            total += x[i] * 2
        return known["one"] is known["other"], total

    scripted = script(asking)
    x, one = np.arange(5.0), (1, 2)
    known = {"one": one, "other": one}
    assert scripted(known, x) == asking(known, x)
    assert "1 native region" in str(scripted.explain(known, x))


def test_the_report_says_why() -> None:
    report = str(script(of_elements).explain([(1, 2)]))
    assert "1 native region" not in report
    found = script(which).explain((1, 2), tuple([1, 2]))
    assert found.result is False
    assert "whether tuples are one object" in " ".join(str(found).split())
