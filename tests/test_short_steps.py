"""Loops with short steps, which are printed as loops over vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from checking import check
from jitcore import script
from jitcore.codegen.engine import vector_bits

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS)
COUNTS = (300, 5, 0, 517)
"""Of elements: code is made for the first two, and then for all others."""


def of_integers(x: Any, y: Any) -> Any:
    low, high = np.minimum(x, y), np.maximum(x, y)
    return x + y, x - y, x * y, x & y, x ^ y, ~x, -x, low, high, x < y, np.where(x == y, x, y)


def of_floats(x: Any, y: Any) -> Any:
    low, high = np.minimum(x, y), np.fmax(x, y)
    return x + y, x - y, x * y, x / y, -x, np.sqrt(np.abs(x)), np.rint(x), low, high, x >= y


def of_bools(x: Any, y: Any) -> Any:
    return x & y, x | ~y, np.where(x, y, ~x), x == y


def in_place(x: Any, y: Any) -> None:
    x += y
    y[1:] -= x[:-1]
    x[:-1] = y[1:]


def _numbers(dtype: str, count: int, seed: int) -> npt.NDArray[np.generic]:
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, count).astype(dtype)
    if dtype in INTEGERS:
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, count, dtype, endpoint=True)
    found = random.normal(size=count).astype(dtype)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40], dtype)
    found[::7] = special[random.integers(0, 6, found[::7].shape)]
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(dtype: str) -> None:
    function = of_bools if dtype == "bool" else of_floats if dtype in FLOATS else of_integers
    compiled = script(function)
    for count in COUNTS:
        x, y = _numbers(dtype, count, 1), _numbers(dtype, count, 2)
        with np.errstate(all="ignore"):
            check(function, x, y, script=lambda _: compiled)


@pytest.mark.parametrize("dtype", FLOATS)
def test_updates_in_place(dtype: str) -> None:
    compiled = script(in_place)
    for count in COUNTS:
        x, y = np.random.default_rng(count).normal(size=(2, count)).astype(dtype)
        check(in_place, x, y, script=lambda _: compiled)
    (kernel, *_) = compiled.kernels
    assert vector_bits() < 512 or "llvm.masked.store" in kernel.llvm


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(dtype: str) -> None:
    compiled = script(conversions)
    for count in COUNTS:
        x = np.random.default_rng(count).integers(0, 2 if dtype == "bool" else 120, count)
        check(conversions, x.astype(dtype), script=lambda _: compiled)


def conversions(x: Any) -> Any:
    whole = x.astype(np.int8), x.astype(np.uint16), x.astype(np.int32), x.astype(np.uint64)
    return *whole, x.astype(np.float32), x.astype(np.float64), x.astype(np.bool_)
