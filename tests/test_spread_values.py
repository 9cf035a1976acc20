"""One number for each row, computed of a column, is computed in the loops over the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitcore

Program = Callable[[Any, Any], Any]


def blended(x: Any, y: Any) -> Any:
    a = x[:, -1:]
    return x[:, :-1] * a + y[:, :-1] * (1 - a)


def weighted(x: Any, y: Any) -> Any:
    w = 1 - 2 * y[:, 0]
    return x * w[:, None]


def several(x: Any, y: Any) -> Any:
    a, b = x[:, :1] * y[:, :1], x[:, 1:2] - y[:, 1:2]
    return x * a - y * (a + b)


def also_returned(x: Any, y: Any) -> Any:
    a = 1 - x[:, :1]
    return a, a * y


def reduced(x: Any, y: Any) -> Any:
    a = 1 - x[:, :1]
    return (a * y).sum(axis=1)


def stored(x: Any, y: Any) -> Any:
    a = 1 - x[:, :1]
    y -= a * x
    x[:, 0] = 3
    return y * a


def outer(x: Any, y: Any) -> Any:
    return (x[:, 0] - 1)[:, None] * (y[:, 1] + 2)[None, :]


FUSED = (blended, weighted, several)
PROGRAMS = (*FUSED, also_returned, reduced, stored, outer)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_values_are_those_of_numpy(program: Program, dtype: str) -> None:
    generator = np.random.default_rng(3)
    compiled = jitcore.script(program)
    for shape in ((40, 4), (0, 4), (1, 2), (9, 33)):
        x, y = (generator.uniform(-9, 9, shape).astype(dtype) for _ in range(2))
        for a, b in ((x, y), (x[::-1], np.asfortranarray(y))):
            own, others = [(a.copy("K"), b.copy("K")) for _ in range(2)]
            expected, got = program(*own), compiled(*others)
            pairs = (
                [(expected, got)]
                if isinstance(expected, np.ndarray)
                else list(zip(expected, got, strict=True))
            )
            tolerance = 1e-5 if program is reduced else 0
            for one, other in pairs:
                assert one.dtype == other.dtype and one.strides == other.strides
                np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)
            for one, other in zip(own, others, strict=True):
                np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("program", FUSED, ids=lambda one: one.__name__)
def test_there_is_no_array_between(program: Program) -> None:
    compiled = jitcore.script(program)
    compiled(np.ones((50, 5)), np.ones((50, 5)))
    assert "malloc" not in compiled.kernels[0].source
