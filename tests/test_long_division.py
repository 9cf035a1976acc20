# mypy: allow-untyped-defs, allow-untyped-calls
"""Divisions of integers of 64 bits, which vectors of float64 do, against NumPy's."""

from __future__ import annotations

import re

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.codegen.engine import library
from jitcore.codegen.vecmath.long_division import MODERATE

LONG = ["int64", "uint64"]


def divisions(x, y):
    return x // y, x % y, np.fmod(x, y)


def by_constants(x):
    return x // 7, x % 10, np.fmod(x, 1000003), x // (2**53 + 1), x % (2**63 - 1)


def by_negative_constants(x):
    return x // -7, x % -10, np.fmod(x, -1000003), x // -(2**53), x % -(2**63)


def integers(dtype: str, count: int, seed: int) -> np.ndarray:
    """Integers of every magnitude, many of them next to a power of 2."""
    generator = np.random.default_rng(seed)
    shifts = generator.integers(0, 64, count).astype(np.uint64)
    spread = generator.integers(0, 2**64, count, dtype=np.uint64) >> shifts
    power = np.uint64(1) << shifts
    nearby = power + generator.integers(-3, 4, count).astype(np.uint64)
    sizes = np.where(generator.random(count) < 0.3, nearby, spread).astype(dtype)
    signs = np.where(generator.random(count) < 0.5, 1, -1)
    return sizes * signs if dtype == "int64" else sizes


def near_multiples(dtype: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Divisors, and numbers next to products with them, where a quotient is easily off by one."""
    divisors, factors = integers(dtype, count, seed), integers(dtype, count, seed + 1)
    offsets = np.random.default_rng(seed).integers(-2, 3, count).astype(dtype)
    return divisors * factors + offsets, divisors


@pytest.mark.parametrize("dtype", LONG)
@pytest.mark.parametrize("count", [1, 31, 64, 65, 20000])
def test_all_magnitudes(dtype: str, count: int) -> None:
    check(divisions, integers(dtype, count, 1), integers(dtype, count, 2))
    check(divisions, *near_multiples(dtype, count, 3))


@pytest.mark.parametrize("dtype", LONG)
def test_only_integers_that_float64_holds(dtype: str) -> None:
    generator = np.random.default_rng(4)
    low = 1 - MODERATE if dtype == "int64" else 0
    x = generator.integers(low, MODERATE, 5000, dtype=dtype)
    y = generator.integers(low, MODERATE, 5000, dtype=dtype) >> generator.integers(
        0, 54, 5000
    ).astype(dtype)
    check(divisions, x, y)
    check(divisions, x // np.where(y == 0, 1, y).astype(dtype) * y, y)


@pytest.mark.parametrize("dtype", LONG)
@pytest.mark.parametrize("place", [0, 40, 99])
def test_one_integer_that_float64_does_not_hold(dtype: str, place: int) -> None:
    x, y = np.full(100, 1000, dtype), np.full(100, 7, dtype)
    for one in (x, y):
        one[place] = MODERATE + 1
        check(divisions, x, y)


@pytest.mark.parametrize("dtype", LONG)
def test_zeros_and_extremes(dtype: str) -> None:
    info = np.iinfo(dtype)
    edges = np.array([0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1], dtype)
    edges = np.concatenate([edges, (0 - edges).astype(dtype)])
    x, y = (grid.ravel() for grid in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        check(divisions, x, y)


@pytest.mark.parametrize("dtype", LONG)
@pytest.mark.parametrize("count", [5, 64, 5000])
def test_constants(dtype: str, count: int) -> None:
    for x in (integers(dtype, count, 5), integers(dtype, count, 6) >> np.array(11, dtype)):
        check(by_constants, x)
        if dtype == "int64":
            check(by_negative_constants, x)


def selected_digits(x, y):
    digits = np.where(x % 10 > 4, x // 10 + (y << 3), -x ^ y)
    return digits, digits.sum(), (x // y).max()


def test_among_other_operations_and_sums() -> None:
    x, y = integers("int64", 3000, 7), np.abs(integers("int64", 3000, 8) >> 40) + 1
    check(selected_digits, x, y)
    check(selected_digits, x[::-3], y[::3])


@pytest.mark.parametrize("dtype", LONG)
def test_no_integers_are_divided(dtype: str) -> None:
    compiled = script(lambda x, y: x // y)
    compiled(np.ones(1000, dtype), np.ones(1000, dtype))
    module = compiled.kernels[0].module
    assert f"@jcm_floor_divide_{dtype}_x" in module.llvm
    (name,) = (name for name, _ in module.libraries() if name.startswith("jcm_floor_divide"))
    assert " fdiv <" in library(name).llvm
    for text in (module.llvm, library(name).llvm):
        assert not re.search(r" [su]div <", text)
