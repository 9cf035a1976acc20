"""Minima and maxima of several operands, of which as few as possible are looked at for NaN."""

from __future__ import annotations

import itertools
import platform
import re
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import check

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0, 1e-310)


def of_two(x: Any, y: Any, z: Any) -> Any:
    return np.maximum(x, y), np.minimum(y, z)


def range_of_three(x: Any, y: Any, z: Any) -> Any:
    return np.maximum(np.maximum(x, y), z), np.minimum(np.minimum(x, y), z)


def median(x: Any, y: Any, z: Any) -> Any:
    return np.maximum(np.minimum(x, y), np.minimum(np.maximum(x, y), z))


def long_chain(x: Any, y: Any, z: Any) -> Any:
    low = np.minimum(np.minimum(np.minimum(np.minimum(z, y), x), y), z)
    return np.maximum(np.maximum(np.maximum(low, x), y), z), low


def limits(x: Any, y: Any, z: Any) -> Any:
    rest = np.maximum(-1.0, np.minimum(0.0, z))
    return np.clip(x, -0.5, 1.5), np.maximum(y, 0), np.minimum(z, -0.0), np.clip(y, 0, 1), rest


def of_nan(x: Any, y: Any, z: Any) -> Any:
    return np.maximum(np.minimum(x, np.nan), y), np.minimum(z, np.inf), np.maximum(z, -np.inf)


PROGRAMS = (of_two, range_of_three, median, long_chain, limits, of_nan)


def operands(dtype: str) -> tuple[np.ndarray, ...]:
    """All triples of the special numbers."""
    with np.errstate(under="ignore"):
        triples = np.array(list(itertools.product(SPECIAL, repeat=3))).astype(dtype)
    return tuple(np.ascontiguousarray(column) for column in triples.T)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_special_numbers_in_all_orders(program: Any, dtype: str) -> None:
    check(program, *operands(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_numbers_instead_of_arrays(program: Any, dtype: str) -> None:
    x, y, z = operands(dtype)
    compiled = jitcore.script(program)
    for place in range(0, len(x), 5):
        wanted = program(x[place], y[place], z[place])
        found = compiled(x[place], y[place], z[place])
        for one, other in zip(np.atleast_1d(wanted), np.atleast_1d(found), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
            assert np.isnan(one) or np.signbit(one) == np.signbit(other)


def bounded(x: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(x, low), high)


def test_bounds_that_a_loop_does_not_change() -> None:
    x = np.tile(np.array(SPECIAL), 20)
    for low, high in itertools.product(SPECIAL, repeat=2):
        check(bounded, x, low, high)


def comparisons(program: Any, *args: Any) -> tuple[int, int]:
    """How many comparisons look for NaN, and how many others a kernel has, of numbers."""
    compiled = jitcore.script(program)
    compiled(*args)
    lines = [line for kernel in compiled.kernels for line in kernel.llvm.splitlines()]
    made = [line for line in lines if " fcmp " in line]
    of_nan = [line for line in made if " fcmp uno " in line]
    return len(of_nan), len(made) - len(of_nan)


def test_one_comparison_looks_at_two_operands() -> None:
    rows = [np.zeros(64) for _ in range(3)]
    looks, _ = comparisons(range_of_three, *rows)
    apart, _ = comparisons(lambda x, y, z: (np.maximum(x, y), np.minimum(y, z)), *rows)
    assert 0 < 2 * looks <= apart


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the instructions of x86")
def test_constants_need_no_look() -> None:
    compiled = jitcore.script(lambda x: np.clip(x, -0.5, 1.5))
    compiled(np.zeros(64))
    for kernel in compiled.kernels:
        assert not re.search(r"\bv?cmp\w*[ps][sd]\b", kernel.assembly)
    assert comparisons(lambda x: np.maximum(x, 0), np.zeros(64))[0] == 0
