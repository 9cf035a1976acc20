# mypy: allow-untyped-defs, allow-untyped-calls
"""Extrema of what is chosen where the others are infinite: loops stay vectors."""

from __future__ import annotations

import numpy as np
import pytest

from checking import check
from jitcore import script


def largest(x, m):
    return np.where(m, x, -np.inf).max(), np.where(m, -np.inf, x).max(axis=1)


def least(x, m):
    return np.where(m, x, np.inf).min(), np.where(m, np.inf, x).min(axis=0)


def without_nan(x, m):
    x = np.where(m, x, np.nan)
    return np.nanmax(x), np.nanmin(x), np.nanmax(x, axis=1), np.nanmin(x, axis=0, keepdims=True)


@pytest.mark.parametrize("function", [largest, least, without_nan])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.filterwarnings("ignore:All-NaN")
def test_numpy_gives_the_same(function, dtype):
    random = np.random.default_rng(1)
    x = random.normal(size=(30, 70)).astype(dtype)
    for part in (0.0, 0.1, 0.9, 1.0):
        mask = random.random(x.shape) < part
        check(function, x, mask)
        check(function, np.where(mask, x, -np.inf).astype(dtype), ~mask)
        check(function, np.where(x > 1, np.nan, x).astype(dtype), mask)


def largest_chosen(x):
    return np.where(x < 1, -np.inf, x).max()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_loop_is_made_vectors_of(dtype):
    compiled = script(largest_chosen)
    compiled(np.ones(2048, dtype))
    (kernel,) = compiled.kernels
    assert f" x {'float' if dtype == 'float32' else 'double'}> @llvm.maximum" in kernel.llvm
