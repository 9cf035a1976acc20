# mypy: allow-untyped-defs, allow-untyped-calls
"""Reductions over leading axes: NumPy's bits, and variances that start from known means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script


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
