# mypy: allow-untyped-defs, allow-untyped-calls
"""Stores to views that take turns in one array, or lie beside each other, in one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import fusion_strategy, script


def turned(x, c, s):
    out = np.empty_like(x)
    a, b = x[:, ::2], x[:, 1::2]
    out[:, ::2] = a * c - b * s
    out[:, 1::2] = a * s + b * c
    return out


def turned_in_place(x, c, s):
    a, b = x[:, ::2], x[:, 1::2]
    first = a * c - b * s
    x[:, 1::2] = a * s + b * c
    x[:, ::2] = first
    return x


def halves(x, c, s):
    out = np.empty_like(x)
    h = x.shape[1] // 2
    out[:, :h] = x[:, :h] * c - x[:, h:] * s
    out[:, h:] = x[:, :h] * s + x[:, h:] * c
    return out


def halves_in_place(x, c, s):
    h = x.shape[1] // 2
    x[:, :h] += x[:, h:] * s
    x[:, h:] -= x[:, :h] * c
    return x


def ends(x, c, s):
    x[:, :-4] = x[:, :-4] * 2.0 + c[0, 0]
    x[:, -4:] = x[:, -4:] * 3.0 - s[0, 0]
    return x


def thirds(x, c, s):
    out = np.zeros_like(x)
    out[::3] = x[::3] * 2.0
    out[1::3] = x[1::3] * 3.0 - 1.0
    out[2::6] = x[2::6] * x[2::6]
    return out


def neighbours_of_others(x, c, s):
    x[:, 1::2] = x[:, ::2] * c + s
    x[:, ::2] = x[:, 1::2] * s - c
    return x


def not_apart(x, c, s):
    x[::2] = x[::2] + 1.0
    x[2::4] = x[2::4] * 3.0
    x[:3] = x[:3] * 2.0
    x[2:] = x[2:] - 1.0
    return x


def backwards(x, c, s):
    x[:, ::-2] = x[:, ::-2] * 2.0
    x[:, ::2] = x[:, ::2] + 1.0
    x[:, :-3] = x[:, :-3] * 2.0
    x[:, 2:] = x[:, 2:] - 1.0
    return x


FUNCTIONS = (
    turned,
    turned_in_place,
    halves,
    halves_in_place,
    ends,
    thirds,
    neighbours_of_others,
    not_apart,
    backwards,
)


def arguments(rows: int, columns: int, dtype: str) -> tuple[Any, ...]:
    random = np.random.default_rng(rows)
    x = random.standard_normal((rows, 2 * columns)).astype(dtype)
    return x, *(random.standard_normal((rows, columns)).astype(dtype) for _ in range(2))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (7, 33), (20, 5), (64, 64)])
def test_stores(function: Callable[..., Any], dtype: str, shape: tuple[int, int]) -> None:
    if function in (ends, backwards) and shape[1] < 2:
        return
    check(function, *arguments(*shape, dtype))
    x, c, s = arguments(*shape, dtype)
    check(function, np.asarray(x, order="F"), c, s[::-1])
    check(function, np.repeat(x, 2, axis=1)[::-1, ::2], c, np.asarray(s, order="F"))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_extents_that_change(function: Callable[..., Any]) -> None:
    with fusion_strategy([("DYNAMIC", 1)]):
        compiled = script(function)
        for shape in ((7, 33), (64, 64), (3, 2), (1, 5)):
            x, c, s = arguments(*shape, "float64")
            expected = function(x.copy(), c, s)
            np.testing.assert_array_equal(compiled(x, c, s), expected)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_that_overlap(function: Callable[..., Any]) -> None:
    def windows() -> Any:
        memory = np.random.default_rng(3).standard_normal(400)
        return np.lib.stride_tricks.as_strided(memory, (12, 10), (24, 16))

    c, s = np.full((12, 5), 0.5), np.full((12, 5), 0.25)
    np.testing.assert_array_equal(script(function)(windows(), c, s), function(windows(), c, s))


@pytest.mark.parametrize("function", [turned, halves])
def test_one_loop_writes_both(function: Callable[..., Any]) -> None:
    compiled = script(function)
    compiled(*arguments(64, 64, "float32"))
    assert "malloc" not in compiled.kernels[0].source
