# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops that take numbers out of arrays, as Horner's rule does."""

from __future__ import annotations

import numpy as np
import pytest

from checking import check
from jitcore import script


def horner(x, c):
    y = np.zeros_like(x)
    for k in range(c.shape[0]):
        y = y * x + c[k]
    return y


def backwards(x, c):
    y = x * 0
    for k in range(len(c) - 1, -1, -1):
        y = y * x + c[k]
    return y


def rows(x, c):
    total = x * 0
    for k in range(3):
        total = total + x * c[k : k + 2].sum() + np.abs(x - c[2 * k])
    return total


def beyond(x, c):
    y = x
    for k in range(9):
        y = y + c[k]
    return y


def last_row(x, c):
    row = x
    for k in range(2):
        row = c[k:]
    row[0] = 7
    return row, c


@pytest.mark.parametrize("function", [horner, backwards, rows, beyond, last_row])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_numpy_gives_the_same(function, dtype):
    random = np.random.default_rng(1)
    x, c = (random.integers(-9, 9, n).astype(dtype) for n in (30, 7))
    check(function, x, c)


def test_one_loop_computes_all():
    compiled = script(horner)
    compiled(np.ones(64), np.ones(5))
    (kernel,) = compiled.kernels
    assert kernel.source.count("    for ") == 1
