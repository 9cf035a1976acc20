# mypy: allow-untyped-defs, allow-untyped-calls
"""``is`` and ``is not`` of tuples, which compiled code takes apart elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitcore import script


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


def test_tuples_of_arrays_of_any_extent() -> None:
    def asking(one, other):
        return one is other, (one[0] + 1).sum()

    scripted = script(asking)
    for n in range(3, 8):
        pair = (np.ones(n),)
        assert scripted(pair, pair) == (True, 2 * n)
        assert scripted(pair, (pair[0],)) == (False, 2 * n)
