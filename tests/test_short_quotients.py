# mypy: allow-untyped-defs, allow-untyped-calls
"""Short rows divided by one number each: the bits of divisions, by products where these pay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitcore import script


def quotients(x, s):
    return x / s[:, None]


def normalized(x, s):
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


def numbers(dtype: str, shape: tuple[int, int]) -> Any:
    """Rows of usual numbers, then some of all bit patterns, and special ones among them."""
    random = np.random.default_rng(shape[1])
    limits = np.finfo(dtype)
    bits = np.dtype(f"u{limits.bits // 8}")
    x = random.standard_normal(shape).astype(dtype)
    x[1::3] = random.integers(0, 2**limits.bits - 1, x[1::3].shape, bits, endpoint=True).view(dtype)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, limits.tiny, limits.max, 1.0], dtype)
    is_special = random.random(shape) < 0.05
    x[is_special] = random.choice(special, is_special.sum())
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [5, 8, 12, 15, 16, 17, 24, 32, 40, 63])
def test_bits_are_those_of_divisions(dtype: str, columns: int) -> None:
    compiled = script(quotients)
    x, other = numbers(dtype, (200, columns)), numbers(dtype, (200, 7))
    for s in (other[:, 0], np.abs(other[:, 1]), np.full(200, 3.0, dtype)):
        with np.errstate(all="ignore"):
            expected = quotients(x, s)
        found = compiled(x, s)
        unsigned = f"u{x.itemsize}"
        is_same = found.view(unsigned) == expected.view(unsigned)
        assert (is_same | (np.isnan(found) & np.isnan(expected))).all()


@pytest.mark.parametrize(
    ("dtype", "columns", "expected"),
    [
        ("float64", 16, True),
        ("float64", 40, True),
        ("float64", 8, True),
        ("float64", 7, False),
        ("float32", 16, False),
        ("float32", 64, True),
    ],
)
def test_where_products_pay(dtype: str, columns: int, expected: bool) -> None:
    compiled = script(normalized)
    compiled(np.ones((300, columns), dtype), np.ones(300, dtype))
    code = compiled.kernels[-1].llvm
    if "<16 x float>" in code or "<8 x double>" in code:
        assert ("moderate" in code) is expected
