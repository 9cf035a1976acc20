"""Reductions of whole arrays whose rows are short and lie apart in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitcore

Program = Callable[[Any, Any], Any]
SHAPES = [
    (0, 3),
    (1, 3),
    (84, 3),
    (85, 3),
    (86, 3),
    (1000, 3),
    (700, 7),
    (130, 128),
    (20, 300),
    (6000, 9),
]


def weighted(x: Any, m: Any) -> Any:
    return (m * x * x).sum()


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_as_exact_as_compensated_ones(shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(shape[0])
    x = generator.normal(size=shape) * np.exp(generator.normal(0, 9, shape))
    m = generator.normal(size=(shape[0], 1))
    terms = (m * x * x).ravel().tolist()
    exact, size = math.fsum(terms), math.fsum(map(abs, terms))
    for a, b in ((x, m), (x[::-1], m[::-1]), (np.asfortranarray(x), m)):
        got = jitcore.script(weighted)(a, b)
        # Within a block of 256 elements sums are not compensated.
        assert abs(got - exact) <= 256 * np.finfo(np.float64).eps * size


def others(x: Any, m: Any) -> Any:
    return (m * x).max(), (m * x).argmin(), (x > m).any(), (x < 9 + m).all(), (x > m).sum()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(1, 3), (900, 3), (40, 100)])
def test_other_reductions_are_those_of_numpy(shape: tuple[int, int], dtype: str) -> None:
    generator = np.random.default_rng(5)
    x = generator.integers(-50, 50, shape).astype(dtype)
    m = generator.integers(-5, 5, (shape[0], 1)).astype(dtype)
    assert jitcore.script(others)(x, m) == others(x, m)
    if dtype != "int32":
        x[-1, 1] = np.nan
        got, expected = jitcore.script(others)(x, m), others(x, m)
        np.testing.assert_array_equal(np.array(got, float), np.array(expected, float))
