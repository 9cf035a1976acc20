# mypy: allow-untyped-defs, allow-untyped-calls
"""``sort``, ``sorted``, ``min`` and ``max`` with a ``key`` in native code."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pytest
from draw_checking import is_native

from checking import observed
from jitcore import script


class Span(NamedTuple):
    start: int
    stop: float


def last(pair):
    return pair[1]


def by_place(n, m):
    pairs = [(i, (i * 7) % m) for i in range(n)]
    pairs.sort(key=lambda pair: pair[1])
    down = sorted(pairs, key=last, reverse=True)
    pairs.sort(key=lambda pair: (pair[1] // 3, -pair[0]), reverse=True)
    return pairs, down, [pair for pair in sorted(pairs, key=lambda pair: pair[0] * m)]


def of_numbers(values, scale):
    near = min(values, key=lambda value: abs(value - scale))
    far = max(range(len(values)), key=lambda i: (abs(values[i] - scale), i))
    found = [value * scale for value in values]
    found.sort(key=abs)
    return near, far, found, sorted(values, key=lambda value: value > 0, reverse=True)


def of_places(values, scale):
    order = list(range(values.size))
    order.sort(key=lambda i: values[i] * scale)
    return order, min(order, key=lambda i: values[i]), [values[i] for i in order[:3]]


def of_rows(n):
    rows = [[i % 3, i] for i in range(n)]
    first = rows[0]
    rows.sort(key=lambda row: row[0], reverse=True)
    first[1] = 99
    longest = max(rows, key=len)
    return [row[1] for row in rows], longest is rows[0]


def of_spans(n):
    spans = [Span(i % 4, i / 3) for i in range(n)]
    spans.sort(key=lambda span: span.stop if span.start % 2 else -span.stop)
    best = min(spans, key=lambda span: span.start)
    return best.start, best.stop, [span.start for span in spans]


def nested_function(n, scale):
    def weight(i):
        total = 0.0
        for j in range(i % 5):
            total += j * scale
        return total

    values = list(range(n))
    values.sort(key=weight)
    return values, max(values, key=weight)


def in_a_called_function(values, scale):
    def order(items, sign):
        return sorted(items, key=lambda item: sign * item)

    return order(values, 1), order(values, -scale)


def seen_by_its_key(n, m):
    values = [(i * 5) % m for i in range(n)]
    values.sort(key=lambda value: value + len(values))
    return values


def changed_by_its_key(n, m):
    values = [(i * 5) % m for i in range(n)]
    other = values

    def key(value):
        if m <= 3:
            other.append(value)
        return -value

    values.sort(key=key)
    return values


def caught(n, m):
    values = [(i * 5) % m for i in range(n)]
    try:
        values.sort(key=lambda value: 60 // (value - 1))
    except ZeroDivisionError:
        values.append(-1)
    return values


def not_caught(n, m):
    values = [(i * 5) % m for i in range(n)]
    values.sort(key=lambda value: 60 // (value - 1))
    return values


def of_other_keys(n, m):
    pairs = [(i, (i * 7) % m) for i in range(n)]
    texts = sorted(pairs, key=lambda pair: str(pair[1]))
    pairs.sort(key=itemgetter(1))
    mixed = sorted(pairs, key=lambda pair: pair[0] if pair[0] % 2 else pair[1] / 2)

    def rest(pair, k=m):
        return pair[0] % k

    return pairs, texts, mixed, sorted(pairs, key=rest)


def in_place(values, scale):
    values.sort(key=lambda value: abs(value - scale))
    return values[0] if values else None


SIZES = [(0, 3), (1, 1), (7, 4), (200, 31)]
NUMBERS: list[Any] = [
    [],
    [1.5, -2.0, 1.5, 0.0, -0.0, 7.25] * 9,
    [3, -1, 3, 0, 12, -7] * 8,
    [1, 2.0, True],
    [math.nan, 1.0, -math.inf],
    [2**70, 1],
    (3, 1, 2),
    np.random.default_rng(0).normal(size=40),
    np.random.default_rng(0).integers(-9, 9, 40),
]


@pytest.mark.parametrize(
    "function",
    [by_place, seen_by_its_key, changed_by_its_key, caught, not_caught, of_other_keys],
)
def test_lists_that_the_function_makes(function: Callable[..., Any]) -> None:
    scripted = script(function)
    for n, m in SIZES:
        for _ in range(2):
            assert observed(scripted, (n, m)) == observed(function, (n, m))


@pytest.mark.parametrize("function", [of_rows, of_spans])
def test_rows_and_named_tuples(function: Callable[..., Any]) -> None:
    scripted = script(function)
    for n in (0, 1, 2, 40):
        for _ in range(2):
            assert observed(scripted, (n,)) == observed(function, (n,))


@pytest.mark.parametrize("function", [of_numbers, in_a_called_function, in_place])
def test_numbers(function: Callable[..., Any]) -> None:
    scripted = script(function)
    for number, values in enumerate(NUMBERS):
        for _ in range(2):
            args = values, 2 if number % 2 else 0.5
            assert observed(scripted, args) == observed(function, args)


def test_places_in_arrays() -> None:
    scripted = script(of_places)
    for values in (
        NUMBERS[7],
        NUMBERS[8],
        np.array([3, math.nan, 1], "f4"),
        np.array([3, 200], "u1"),
    ):
        for _ in range(2):
            assert observed(scripted, (values, 2)) == observed(of_places, (values, 2))


def test_nested_functions() -> None:
    scripted = script(nested_function)
    for n in (1, 30):
        assert scripted(n, 0.5) == nested_function(n, 0.5)
    with pytest.raises(ValueError, match="empty"):
        scripted(0, 0.5)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (by_place, (50, 11)),
        (of_numbers, (NUMBERS[1], 2)),
        (of_places, (NUMBERS[7], 2)),
        (of_rows, (40,)),
        (of_spans, (40,)),
        (nested_function, (30, 0.5)),
        (in_place, (NUMBERS[1], 0.5)),
    ],
)
def test_what_is_native(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    scripted = script(function)
    scripted(*copy.deepcopy(args))
    assert is_native(scripted)
