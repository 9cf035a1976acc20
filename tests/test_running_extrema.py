# mypy: allow-untyped-defs, allow-untyped-calls
"""Running maxima and minima, with NaN and both zeros as NumPy has them."""

from __future__ import annotations

import numpy as np
import pytest

from checking import check


def along_rows(x):
    return np.maximum.accumulate(x, axis=-1), np.minimum.accumulate(x * 2, axis=-1)


def drawdown(x):
    peak = np.maximum.accumulate(x)
    return ((peak - x) / peak).max(), peak


SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8", "complex64"])
def test_numpy_gives_the_same(dtype):
    random = np.random.default_rng(1)
    for shape in ((0,), (1,), (7,), (100,), (5, 33), (3, 0)):
        x = np.abs(random.normal(size=shape) * 50).astype(dtype)
        check(along_rows, x)
        check(along_rows, x[::-1])
        check(along_rows, np.asfortranarray(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype):
    random = np.random.default_rng(2)
    for _ in range(40):
        x = random.choice(SPECIAL, size=(4, 6)).astype(dtype)
        check(along_rows, x)
        check(along_rows, np.where(np.isnan(x), 0, x).astype(dtype))


def test_drawdown():
    check(drawdown, np.exp(np.random.default_rng(3).normal(size=1000).cumsum() * 0.01))
