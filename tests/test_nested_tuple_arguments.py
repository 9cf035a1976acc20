# mypy: allow-untyped-defs, allow-untyped-calls
"""Lists of tuples with tuples in them as arguments."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest

from jitcore import script

Pair = namedtuple("Pair", "one other")


def added(rows):
    total = 0
    for a, (b, c) in rows:
        total += a * b - c
    return total


def deep(rows):
    total = 0.0
    for (a, (b, (c, d))), e in rows:
        if d:
            total += a * b + c * e
    return total, rows[-1][0][1][1][0], len(rows)


def largest(rows):
    return max(rows, key=lambda row: row[1][0]), sorted(rows)[0], rows[0][1][1]


def with_complex(rows):
    total = 0j
    for (z, k), w in rows:
        total += z * k * w
    return total


FLAT = [(1, (2, 3)), (4, (5, 6)), (-2, (8, 2))]


@pytest.mark.parametrize(
    ("function", "rows"),
    [
        (added, FLAT),
        (added, [Pair(a, b) for a, b in FLAT]),
        (deep, [((1, (2, (3.5, True))), 7), ((4, (3, (0.5, False))), 2)]),
        (largest, FLAT),
        (with_complex, [((1j, 2), 3.0), ((2 - 1j, 5), 6.5)]),
    ],
)
def test_nested_tuples_are_read_by_native_code(function: Callable[..., Any], rows: Any) -> None:
    scripted = script(function)
    for given in (rows, rows[:1], rows * 40):
        assert repr(scripted(given)) == repr(function(given))
    assert f"one native function, {function.__name__}_0" in str(scripted.explain(rows))


@pytest.mark.parametrize(
    "last",
    [
        (4, (5.0, 6)),
        (4, (5, 6, 7)),
        (4, (5,)),
        (4, [5, 6]),
        (4, Pair(5, 6)),
        (4, 5),
        (4,),
        ((4, 4), (5, 6)),
        (4, (2**70, 6)),
        None,
    ],
)
def test_rows_that_differ_are_python_s(last: Any) -> None:
    scripted = script(added)
    assert scripted(FLAT) == added(FLAT)
    outcomes = []
    for one in (added, scripted):
        try:
            outcomes.append(repr(one([*FLAT, last])))
        except (TypeError, ValueError) as error:
            outcomes.append(repr(error))
    assert outcomes[0] == outcomes[1]


def looked_for(rows):
    return (4, (5, 6)) in rows, rows.count(rows[0]), rows[0] is rows[1], rows[0] == rows[1]


def appended(rows):
    rows.append((7, (8, 9)))
    rows[0] = (2, (1, 1))
    return added(rows)


def in_lists(rows):
    total = 0
    for row in [rows, rows[1:]]:
        for a, (b, c) in row:
            total += a * b * c
    return total


@pytest.mark.parametrize("function", [looked_for, appended, in_lists])
def test_what_else_is_done_with_them(function: Callable[..., Any]) -> None:
    scripted = script(function)
    for given in (FLAT, [FLAT[0]] * 2):
        mine, yours = list(given), list(given)
        assert scripted(mine) == function(yours)
        assert mine == yours
