# mypy: allow-untyped-defs, allow-untyped-calls
"""Remainders of floats have NumPy's bits, next to whole quotients and at the ends."""

from __future__ import annotations

import numpy as np
import pytest

from checking import check

SPECIAL = [0.0, -0.0, 1, -1, 3, -3, 0.1, -0.1, np.inf, -np.inf, np.nan, 1e-300, -1e-300, 1e30]


def remainders(x, y):
    return x % y


def by_constants(x, y):
    return x % 6.0, x % -0.1, (x + np.pi) % (2 * np.pi) - np.pi, np.remainder(x, np.inf)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_next_to_whole_quotients(dtype: str) -> None:
    generator = np.random.default_rng(8)
    y = generator.uniform(-3, 3, 9000).astype(dtype)
    x = (y * generator.integers(-(2**16), 2**16, y.size)).astype(dtype)
    x[::3] = np.nextafter(x[::3], np.array(np.inf, dtype))
    x[1::3] = np.nextafter(x[1::3], np.array(-np.inf, dtype))
    check(remainders, x, y)
    check(by_constants, x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(dtype: str) -> None:
    x, y = (one.ravel().astype(dtype) for one in np.meshgrid(SPECIAL, SPECIAL))
    check(remainders, x, y)
    check(by_constants, x, y)


def by_one_of_two_constants(x):
    return np.where(x > 0, x % 3.7, x % 5.1)


def by_the_largest_constants(x):
    return x % 3e38, x % 1e35, x % -1e-45


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [by_one_of_two_constants, by_the_largest_constants])
def test_other_constants(function, dtype):
    x = np.random.default_rng(9).normal(size=1000) * 100
    for scale in (1, 1e36):
        check(function, np.append(x * scale, SPECIAL).astype(dtype))
