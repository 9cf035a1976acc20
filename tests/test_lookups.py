# mypy: allow-untyped-defs, allow-untyped-calls
"""Elements that are looked up in tables, in one loop with what is computed from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script


def scaled(table, i):
    return table[i] * 0.5 + 1.0


def interpolated(table, x):
    i = x.astype(np.int64)
    part = x - i
    return table[i] * (1.0 - part) + table[i + 1] * part


def of_a_table_that_is_made(table, i):
    return np.sqrt(np.abs(table))[i] + table[i]


def chained(table, i):
    return table[(table[i] * 3.0).astype(np.int64)] - 1.0


def of_dear_places(table, x):
    return table[np.floor(np.exp(np.sin(x))).astype(np.int64)] * 2.0


def in_place(table, i):
    table[: i.size] = table[i] * 2.0
    return table


def before_and_after(table, i):
    old = table[i] + 1.0
    table[:] = table * 3.0
    return old, table[i] - old


def summed(table, i):
    return (table[i] * 2.0).sum()


def of_a_plane(plane, i, j):
    return plane[i, j] * 2.0 + plane[j, i]


@pytest.mark.parametrize(
    "function",
    [scaled, of_a_table_that_is_made, chained, in_place, before_and_after, summed],
)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
@pytest.mark.parametrize("shape", [(0,), (7,), (33,)])
def test_lookups(function: Callable[..., Any], dtype: str, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(5)
    table = random.uniform(0.0, 10.0, 40)
    i = random.integers(0 if dtype == "uint8" else -40, 40, shape).astype(dtype)
    check(function, table, i, reduction=function is summed)


def test_places_that_are_computed() -> None:
    random = np.random.default_rng(6)
    table = random.standard_normal(40)
    check(interpolated, table, random.uniform(0.0, 39.0, 1000))
    check(interpolated, table[::-2], random.uniform(0.0, 19.0, 1000)[::3])
    check(of_dear_places, table, random.standard_normal(1000))


@pytest.mark.parametrize("order", ["C", "F"])
def test_planes(order: Any) -> None:
    random = np.random.default_rng(7)
    plane = np.asarray(random.standard_normal((9, 9)), order=order)
    i, j = (np.asarray(random.integers(-9, 9, (6, 5)), order=order) for _ in range(2))
    check(of_a_plane, plane, i, j)
    check(of_a_plane, plane, i, j[0])
    check(scaled, plane.reshape(-1), i)


@pytest.mark.parametrize("place", [40, -41])
def test_places_outside(place: int) -> None:
    i = np.arange(30)
    i[17] = place
    expected = f"index {place} is out of bounds for axis 0 with size 40"
    for function in (scaled, in_place, chained):
        with pytest.raises(IndexError, match=expected):
            script(function)(np.ones(40), i)


def after_a_write(plane, i, j):
    plane[0] += 1.0
    return plane[i, j] * 2.0


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 0), (3, 0)])
def test_places_outside_that_nobody_reads(shape: tuple[int, int]) -> None:
    i = np.full((shape[0], 1), 9)
    check(after_a_write, np.ones((4, 5)), i, np.zeros((1, shape[1]), np.int64))
    check(after_a_write, np.ones((4, 5)), i[0], np.zeros(shape[1], np.int64))


def test_one_loop_computes_all() -> None:
    compiled = script(interpolated)
    compiled(np.ones(40), np.linspace(0.0, 38.0, 50))
    assert "malloc" not in compiled.kernels[0].source
