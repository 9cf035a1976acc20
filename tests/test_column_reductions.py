# mypy: allow-untyped-defs, allow-untyped-calls
"""Reductions over leading axes: NumPy's bits, and variances that start from known means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script, set_fusion_strategy


def mean_kept(x):
    mean = x.mean(axis=0)
    return (x - mean) / x.std(axis=0), mean


def mean_changed(x):
    mean = x.mean(axis=0)
    mean += 1
    return mean, x.var(axis=0)


def elements_changed(x):
    mean = x.mean(axis=0)
    x -= mean
    return mean, x.var(axis=0)


def mean_gone(x):
    total = x.mean(axis=0).sum()
    return total, x.var(axis=0, ddof=1)


def with_kept_axes(x):
    return x.mean(axis=0, keepdims=True) + x.std(axis=0, keepdims=True), x.var(axis=0)


def along_two_axes(x):
    stacked = x[:, None, :]
    return stacked.mean(axis=(0, 1)), stacked.var(axis=(0, 1))


@pytest.mark.parametrize(
    "function",
    [mean_kept, mean_changed, elements_changed, mean_gone, with_kept_axes, along_two_axes],
)
@pytest.mark.parametrize("shape", [(7, 5), (12, 8), (1, 3), (0, 3), (40, 64)])
def test_variances_start_from_means_that_are_known(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    for dtype in (np.float32, np.float64):
        x = np.random.default_rng(3).normal(size=shape).astype(dtype)
        for one in (x, np.asfortranarray(x), x[:, ::-1]):
            check(function, one, reduction=True)


def test_a_known_mean_is_not_computed_again() -> None:
    compiled = script(mean_kept)
    compiled(np.ones((8, 6)))
    assert "means" not in compiled.kernels[0].source


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 7, 8, 9, 31])
def test_column_sums_have_numpys_bits(rows: int) -> None:
    x = np.random.default_rng(rows).normal(size=(rows, 11)).astype(np.float32)
    compiled = script(lambda x: (x.sum(axis=0), x.min(axis=0), x.prod(axis=0)))
    for got, wanted in zip(
        compiled(x), (x.sum(axis=0), x.min(axis=0), x.prod(axis=0)), strict=True
    ):
        np.testing.assert_array_equal(got, wanted)


def extrema(x):
    return x.min(axis=0), x.max(axis=0)


def flags(x):
    return (x > 0).any(axis=0), (x < 90).all(axis=0), np.count_nonzero(x > 3, axis=0)


def of_whole_numbers(x):
    return x.sum(axis=0), x.prod(axis=0)


def over_two_axes(x):
    stacked = x.reshape(-1, 1, x.shape[1])
    return stacked.max(axis=(0, 1)), stacked.min(axis=(0, 1))


def over_the_first_of_three(x):
    cubes = x[:, None, :] + np.arange(4).astype(x.dtype)[:, None]
    return cubes.max(axis=0), cubes.any(axis=0), np.ascontiguousarray(cubes).min(axis=0)


def of_differences(x):
    return (x[1:] - x[:-1]).max(axis=0), (x - x[0]).min(axis=0)


NARROW = [(0, 3), (1, 2), (31, 3), (32, 3), (33, 3), (200, 5), (97, 16), (64, 24), (20000, 3)]


@pytest.mark.parametrize("shape", NARROW)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "uint16", "bool"])
def test_narrow_rows_that_are_joined_in_any_order(shape: tuple[int, int], dtype: str) -> None:
    x = np.random.default_rng(shape[0]).integers(-99, 99, shape).astype(dtype)
    is_float = x.dtype.kind == "f"
    functions = [extrema, flags, over_two_axes, over_the_first_of_three]
    functions += [of_differences] if is_float else []
    for function in [*functions, *([] if is_float or dtype == "bool" else [of_whole_numbers])]:
        for one in (x, np.asfortranarray(x), x[:, ::-1], x[::2]):
            check(function, one)


@pytest.mark.parametrize("place", [0, 5, 95, 96, 97, 199])
def test_narrow_rows_with_nan_and_infinities(place: int) -> None:
    for dtype in (np.float32, np.float64):
        x = np.random.default_rng(place).normal(size=(200, 3)).astype(dtype)
        x[place] = (np.nan, np.inf, -np.inf)
        check(extrema, x)


def test_narrow_rows_of_any_number() -> None:
    before = set_fusion_strategy([("DYNAMIC", 1)])
    try:
        compiled = script(extrema)
        for rows in (5, 64, 96, 97, 9000):
            x = np.random.default_rng(rows).normal(size=(rows, 3))
            for got, wanted in zip(compiled(x), extrema(x), strict=True):
                np.testing.assert_array_equal(got, wanted)
    finally:
        set_fusion_strategy(before)
