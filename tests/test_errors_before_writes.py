# mypy: allow-untyped-defs, allow-untyped-calls
"""Where an operation raises, nothing is written that the program writes after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import check
from jitcore import script


def added(t, u, x, y):
    before = t - t
    found = x + y
    u[:] = u + t
    return before, found


def multiplied(t, u, x, y):
    before = t - t
    found = x @ y
    u[:] = u + t
    return before, found


def solved(t, u, x, y):
    before = t - t
    found = np.linalg.solve(x, y)
    u[:] = u + t
    return before, found


def joined(t, u, x, y):
    before = t - t
    found = np.concatenate((x, y), axis=1)
    u[:] = u + t
    return before, found


def selected(t, u, x, y):
    before = t - t
    found = x[x > 0] + y[y > 0]
    u[:] = u + t
    return before, found


def largest(t, u, x, y):
    before = t - t
    found = x[: y.shape[0] - 2].max()
    u[:] = u + t
    return before, found


def looked_up(t, u, x, y):
    before = (t - t)[x[0].astype(np.int64)][::-1]
    found = before + (t[y[0].astype(np.int64)] - t[-x[0].astype(np.int64)])
    u[:] = u + t
    return found


def divided(t, u, x, y):
    before = t - t
    found = 12 // (y.shape[0] - 2)
    u[:] = u + t
    return before, found


FUNCTIONS = [added, multiplied, solved, joined, selected, largest, looked_up, divided]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_operations(function: Callable[..., Any]) -> None:
    compiled = script(function)
    u, t = np.ones(7), np.arange(7.0)
    # The code for the third pair of extents is that for all others.
    for x, y in ((4, 4), (5, 5), (3, 3), (3, 2)):
        check(function, t, u, np.eye(x), np.eye(y), script=lambda _: compiled)
    check(function, t, u, np.eye(3) * 0.0, np.eye(3) * 9.0, script=lambda _: compiled)


def row(x, i):
    found = x[i]
    x[0] += 1
    return found


def opened(x, i):
    found = x.reshape(i, 4)
    x[0] += 1
    return found


def stretched(x, i):
    found = np.broadcast_to(x[0], (i, 4))
    x[0] += 1
    return found


def part(x, i):
    found = x[i:][1]
    x[0] += 1
    return found, found[::-1]


@pytest.mark.parametrize("function", [row, opened, stretched, part])
def test_views_that_are_returned(function: Callable[..., Any]) -> None:
    compiled = script(function)
    for i in (2, 9, -9, 5, -2, 2):
        check(function, np.ones((2, 4)), i, script=lambda _: compiled)


def divided_in_turn(x, y):
    for k in range(5):
        x += 1
        x += 5 % (k - 3)
        y -= x


def in_branches(x, y):
    for k in range(6):
        if k % 2 == 1:
            y += 2
            x += 7 // (k - 5)
        x += k


def too_large(x, y):
    for k in range(40):
        x += 1
        y += 1
        y[:3] += 3**k


def element_by_element(x, y):
    for k in range(6):
        x[k] = 10
        y[k] = 12 // (k - 4)


def between_updates(x, y):
    y[x < 3] = 1
    selected = x[x > 100] + 2
    x *= 2
    return selected.sum(), selected.max()


def quotient_between(x, y):
    y += 1
    quotient = 3 // (y.size - 7)
    x += quotient


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float64"])
@pytest.mark.parametrize(
    "function",
    [
        divided_in_turn,
        in_branches,
        too_large,
        element_by_element,
        between_updates,
        quotient_between,
    ],
)
def test_what_comes_before_an_error_is_written(function: Callable[..., Any], dtype: str) -> None:
    x = np.arange(7).astype(dtype)
    for kind in ("STATIC", "DYNAMIC"):
        with jitcore.fusion_strategy([(kind, 1)]):
            check(function, x, x[::-1].copy())
