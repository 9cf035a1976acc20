"""Python's ``round`` of numbers and of NumPy's scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import outcome
from jitcore import script


def to_int(x: Any) -> Any:
    return round(x)


def with_none(x: Any) -> Any:
    return round(x, None)


def to_digits(x: Any) -> Any:
    return round(x, 2), round(x, -1), round(x, ndigits=0)


def at(x: Any, i: int) -> Any:
    return round(x[i] * np.cos(x[i]))


NUMBERS = [0.5, 1.5, 2.5, -0.4, -0.0, 123.456, 2.675, 15.0, 25.0, 2.0**62, 1e300, np.nan, np.inf]


@pytest.mark.parametrize("function", [to_int, with_none, to_digits])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "uint64"])
def test_scalars(function: Callable[..., Any], dtype: str) -> None:
    compiled = script(function)
    with np.errstate(all="ignore"):
        numbers = [np.array(one).astype(dtype)[()] for one in NUMBERS]
    for number in numbers:
        assert outcome(compiled, (number,)) == outcome(function, (number,)), number


def test_elements_are_rounded_in_native_code() -> None:
    values = np.random.default_rng(0).normal(0, 50, 40)
    compiled = script(at)
    assert [compiled(values, i) for i in range(40)] == [at(values, i) for i in range(40)]
    assert compiled.kernels
