# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows that are walked side by side: which loops they are, and that each has its own results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import check
from jitcore import fusion_strategy, script
from jitcore.codegen.loop_passes import rows_together
from jitcore.codegen.loop_passes.rows_together import ROWS, walk_rows_together
from jitcore.codegen.loops import Function


def running_sum(x):
    return np.cumsum(x, axis=-1)


def growth(x):
    return np.cumprod(1 + x / 8, axis=-1) - 1


def deepest(x):
    top = np.maximum.accumulate(x, axis=-1)
    return (top - x).max(axis=-1) if x.shape[-1] else top.sum(axis=-1)


def band(x):
    top, low = np.maximum.accumulate(x, axis=-1), np.minimum.accumulate(x, axis=-1)
    return top - low, top


def in_place(x):
    x[...] = np.cumsum(x * 2, axis=-1)
    return x


def over_neighbours(x):
    x[1:] = np.cumsum(x[:-1], axis=-1)
    return x


def filtered(x):
    out = np.zeros_like(x)
    for i in range(x.shape[0]):
        last = x[0, 0] * 0
        for k in range(x.shape[1]):
            last = last / 2 + x[i, k]
            out[i, k] = last
    return out


def from_row_to_row(x):
    last = x[0, 0] * 0
    out = np.zeros_like(x)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            last = last / 2 + x[i, k]
            out[i, k] = last
    return out


def triangle(x):
    out = np.zeros_like(x)
    for i in range(x.shape[0]):
        last = x[0, 0] * 0
        for k in range(i):
            last = last / 2 + x[i, k]
            out[i, k] = last
    return out


TOGETHER: Sequence[Callable[..., Any]] = (running_sum, growth, deepest, band, in_place)
OTHERS: Sequence[Callable[..., Any]] = (over_neighbours,)
LOOPS: Sequence[Callable[..., Any]] = (filtered, from_row_to_row, triangle)


def lowered(function: Callable[..., Any], *args: Any) -> list[Function]:
    compiled = script(function)
    compiled(*args)
    return [kernel.lowered.function for kernel in compiled.kernels]


def are_together(function: Callable[..., Any], *args: Any) -> bool:
    return any(walk_rows_together(one) != one for one in lowered(function, *args))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
@pytest.mark.parametrize("function", [*TOGETHER, *OTHERS])
def test_any_number_of_rows(function: Callable[..., Any], dtype: str) -> None:
    random = np.random.default_rng(5)
    with fusion_strategy([("DYNAMIC", 9)]), np.errstate(all="ignore"):
        for rows in (0, 1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 2):
            for columns in (1, 8, 37):
                check(function, random.uniform(-4, 4, (rows, columns)).astype(dtype))


@pytest.mark.parametrize("rows", [ROWS, 2 * ROWS + 3])
@pytest.mark.parametrize("function", [*TOGETHER, *OTHERS])
def test_known_numbers_of_rows(function: Callable[..., Any], rows: int) -> None:
    check(function, np.random.default_rng(6).uniform(-4, 4, (rows, 19)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", TOGETHER)
def test_layouts_and_special_values(function: Callable[..., Any], dtype: str) -> None:
    x = np.random.default_rng(6).normal(size=(22, 90)).astype(dtype)
    x[3, 5], x[7, 0], x[8, 88], x[21, 40] = np.nan, np.inf, -np.inf, np.nan
    x[5] = -0.0
    cube = np.random.default_rng(7).normal(size=(3, 9, 20)).astype(dtype)
    with np.errstate(all="ignore"):
        for one in (x, x[::-1], x[:, ::-2], x[1::3], np.asfortranarray(x), cube, cube[:, ::2]):
            check(function, one)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", LOOPS)
def test_loops_of_the_program(function: Callable[..., Any], dtype: str) -> None:
    random = np.random.default_rng(8)
    for rows in (1, ROWS, 2 * ROWS + 3, 30):
        check(function, random.normal(size=(rows, 30)).astype(dtype))


@pytest.mark.parametrize("function", [*TOGETHER, filtered])
def test_which_rows_are_walked_together(function: Callable[..., Any]) -> None:
    assert are_together(function, np.ones((20, 50)))


@pytest.mark.parametrize("function", [from_row_to_row, triangle])
def test_rows_that_belong_together_or_differ_are_not(function: Callable[..., Any]) -> None:
    assert not are_together(function, np.ones((20, 50)))


def test_few_rows_and_short_ones_are_not() -> None:
    assert not are_together(running_sum, np.ones((ROWS - 1, 50)))
    assert not are_together(running_sum, np.ones((50, 4)))
    assert not are_together(running_sum, np.ones((20, 50), np.int64))


@pytest.mark.parametrize("function", TOGETHER)
def test_they_do_not_change_a_bit(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    x = np.random.default_rng(9).normal(size=(300, 70))
    found = script(function)(x.copy())
    monkeypatch.setattr(rows_together, "walk_rows_together", lambda function: function)
    alone = script(function)(x.copy())
    np.testing.assert_array_equal(found, alone, strict=True)


def test_threads_share_the_rows() -> None:
    x = np.random.default_rng(10).normal(size=(1001, 700))
    before = jitcore.get_num_threads()
    found = []
    try:
        for threads in (1, 2):
            jitcore.set_num_threads(threads)
            found.append(script(growth)(x))
    finally:
        jitcore.set_num_threads(before)
    np.testing.assert_array_equal(*found, strict=True)
