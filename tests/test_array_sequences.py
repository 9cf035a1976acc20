"""Reductions over the arrays in a list: one loop, and no array of them all."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import check


def extrema(a: Any, b: Any, c: Any) -> Any:
    return np.maximum.reduce([a, b, c]), np.min((a, b, c), axis=0), np.max([c, b], axis=(0,))


def sums(a: Any, b: Any, c: Any) -> Any:
    return np.add.reduce([a, b, c]), np.sum([a, b], axis=0), np.prod((c, a), axis=-3)


def means(a: Any, b: Any, c: Any) -> Any:
    return np.mean([a, b, c], axis=0), np.mean((b,), axis=0)


def flags(a: Any, b: Any, c: Any) -> Any:
    found = np.logical_or.reduce([a > 1, b > 1, c > 1]), np.logical_and.reduce((a > 0, b > 0))
    return *found, np.any([a, b], axis=0), np.all([a > 0, c], axis=0)


def of_one(a: Any, b: Any, c: Any) -> Any:
    low, high = np.minimum.reduce([a]), np.any([b > 0], axis=0)
    low += 1
    return low, high, c


def mixed(a: Any, b: Any, c: Any) -> Any:
    return np.max([a, b.astype(np.int16), c > 1], axis=0), np.sum([a > 0, c > 0], axis=0)


def other_axes(a: Any, b: Any, c: Any) -> Any:
    whole = np.max([a, b, c]), np.sum([a, b], axis=1), np.maximum.reduce((a, c), axis=None)
    return *whole, np.min([a, b], axis=0, keepdims=True), np.sum([a, b], axis=0, dtype=np.float64)


def grown(a: Any, b: Any, c: Any) -> Any:
    rows = [a, b]
    for k in range(3):
        rows.append(c * k)
    return np.maximum.reduce(rows), np.mean(rows, axis=0)


def neighbours(x: Any) -> Any:
    parts = [x[i : x.shape[0] - 2 + i, j : x.shape[1] - 2 + j] for i in range(3) for j in range(3)]
    return np.maximum.reduce(parts) - np.minimum.reduce(parts)


PROGRAMS = (extrema, sums, means, flags, of_one, mixed, other_axes, grown)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float32", "f8"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_dtypes_are_those_of_the_array(program: Any, dtype: str) -> None:
    rng = np.random.default_rng(3)
    numbers = rng.integers(-3, 4, (3, 5, 7))
    if np.dtype(dtype).kind != "f":
        numbers = abs(numbers)
    if program is of_one and dtype == "bool":
        pytest.skip("NumPy adds no bools in place")
    check(program, *numbers.astype(dtype))


def test_special_numbers() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 2.0, -1.0])
    a, b, c = np.meshgrid(special, special, special)
    with np.errstate(invalid="ignore"):
        for program in (extrema, sums, means):
            check(program, a, b, c)


def test_neighbours_are_one_loop() -> None:
    x = np.random.default_rng(4).random((30, 41))
    compiled = jitcore.script(neighbours)
    np.testing.assert_array_equal(compiled(x), neighbours(x))
    (kernel,) = compiled.kernels
    assert len(re.findall(r"^ *for ", kernel.source, re.MULTILINE)) <= 2
    assert "jc_malloc" not in kernel.source
    check(neighbours, x)


@pytest.mark.parametrize("strategy", [[("STATIC", 1)], [("DYNAMIC", 2)]])
def test_rows_of_unequal_lengths(strategy: Any) -> None:
    compiled = jitcore.script(lambda a, b: np.maximum.reduce([a, b]))
    with jitcore.fusion_strategy(strategy):
        for lengths in ((4, 4), (4, 3), (1, 4), (6, 6)):
            a, b = (np.arange(float(length)) for length in lengths)
            if len(set(lengths)) == 1:
                np.testing.assert_array_equal(compiled(a, b), np.maximum(a, b))
                continue
            with pytest.raises(ValueError, match="inhomogeneous"):
                compiled(a, b)


def test_a_list_of_numbers_is_one_row() -> None:
    check(lambda x: np.maximum.reduce([x, 2.0, 0.5]), 1.5)
    check(lambda x: np.add.reduce((x, 2)), 3)
