# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows whose length only a run tells, and that are printed as loops over vectors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import jitcore
from checking import check
from jitcore import script
from jitcore.codegen.engine import vector_bits
from jitcore.codegen.loop_passes.row_turns import ROWS

WITH_MASKS = pytest.mark.skipif(vector_bits() != 512, reason="the processor has no masks")

LENGTHS = (
    *range(1, 35), 47, 63, 64, 65, 95, 127, 129, 255, 256, 257, 288, 319, 511, 512, 513, 1000
)  # fmt: skip
"""Around vectors and blocks of them, and around those of a sum."""


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x):
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


def sums(x):
    return x.sum(axis=1), (x * x).sum(axis=1), x.std(axis=1, ddof=1)


def extrema(x):
    return x.min(axis=1), x.max(axis=1), x - x.min(axis=1, keepdims=True)


def places(x):
    return x.argmax(axis=1), x.argmin(axis=1)


def quotients(x):
    low = x.min(axis=1, keepdims=True)
    return (x - low) / (x.max(axis=1, keepdims=True) - low + 1)


def outer(x, y):
    return (x - y[:, None]) * y[:, None] + x


def softmax_gradient(x):
    return x * (x - (x * x).sum(axis=1, keepdims=True))


def row_totals(x):
    return x.sum(axis=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [softmax, layer_norm, sums, quotients])
def test_rows_of_all_lengths(function: Callable[..., Any], dtype: str) -> None:
    compiled = script(function)
    random = np.random.default_rng(5)
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        for length in LENGTHS[1:]:
            x = random.normal(size=(7, length)).astype(dtype)
            wide = x.astype(np.float64)
            found, expected = compiled(x), function(wide)
            if not isinstance(found, tuple):
                found, expected = (found,), (expected,)
            for one, other in zip(found, expected, strict=True):
                assert one.dtype == x.dtype
                limit = 1e-5 if dtype == "float32" else 1e-13
                np.testing.assert_allclose(one, other, rtol=limit, atol=limit * length**0.5)
    assert len(compiled.specializations) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "uint16"])
@pytest.mark.parametrize("function", [extrema, places])
def test_what_is_exact(function: Callable[..., Any], dtype: str) -> None:
    """Bit for bit, with NaN, infinities and equal elements among the others."""
    compiled = script(function)
    random = np.random.default_rng(6)
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        for length in LENGTHS:
            x = random.integers(-90, 90, (9, length)).astype(dtype)
            if x.dtype.kind == "f":
                x[2, random.integers(length)] = np.nan
                x[3, random.integers(length)] = np.inf
                x[4] = -np.inf
                x[5, random.integers(length, size=2)] = np.nan
                x[6] = np.nan
            for one, other in zip(compiled(x), function(x), strict=True):
                np.testing.assert_array_equal(one, other, strict=True)
    assert len(compiled.specializations) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int16", "complex128"])
def test_elements_of_rows(dtype: str) -> None:
    random = np.random.default_rng(7)
    compiled = script(outer)
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        for length in LENGTHS:
            x, y = (random.integers(-9, 9, shape).astype(dtype) for shape in ((5, length), 5))
            np.testing.assert_array_equal(compiled(x, y), outer(x, y), strict=True)


@pytest.mark.parametrize("rows", [0, 1, 3, ROWS, 2 * ROWS + 5])
@pytest.mark.parametrize("function", [softmax, layer_norm, sums])
def test_any_number_of_rows(function: Callable[..., Any], rows: int) -> None:
    with jitcore.fusion_strategy([("DYNAMIC", 4)]):
        for length in (5, 40, 700):
            x = np.random.default_rng(rows).normal(size=(rows, length))
            check(function, x, ulp=8, reduction=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [12, 40, 200, 256, 300, 1000, 5000])
def test_sums_are_as_accurate(length: int, dtype: str) -> None:
    """What rounding loses of a row is about what it loses in NumPy's pairwise sums, or less."""
    x = np.random.default_rng(length).uniform(0.1, 1, (300, length)).astype(dtype)
    compiled = script(row_totals)
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        found = compiled(x)
    exact = np.array([math.fsum(row) for row in x.tolist()])

    def error(sums: npt.NDArray[Any]) -> float:
        return float(np.abs(sums.astype(np.float64) - exact).mean())

    assert error(found) <= 1.5 * error(row_totals(x)) + np.finfo(dtype).eps * 0.02 * exact.mean()


def test_sums_of_infinities_and_zeros() -> None:
    compiled = script(row_totals)
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        for length in (3, 20, 300, 600):
            x = np.ones((6, length))
            x[0, 1], x[1, 2], x[1, 0] = np.inf, np.inf, -np.inf
            x[2, -1], x[3] = np.nan, -0.0
            x[4, :2] = 1e308, 1e308
            np.testing.assert_array_equal(compiled(x), row_totals(x), strict=True)


def test_variances_of_one_element_and_of_none() -> None:
    def variances(x):
        return x.var(axis=1), x.var(axis=1, ddof=1), x.var(axis=1, ddof=3)

    for strategy in ("STATIC", "DYNAMIC"):
        compiled = script(variances)
        with jitcore.fusion_strategy([(strategy, 9)]), np.errstate(all="ignore"):
            for length in (1, 2, 3, 4):
                x = np.random.default_rng(3).normal(size=(5, length)).astype(np.float32)
                for one, other in zip(compiled(x), variances(x), strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-5)


@WITH_MASKS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [softmax, layer_norm, row_totals, places])
def test_what_is_left_is_masked(function: Callable[..., Any], dtype: str) -> None:
    """No loop over single elements is left to LLVM."""
    compiled = script(function)
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        compiled(np.ones((4, 9), dtype))
    (kernel,) = compiled.kernels
    text = kernel.llvm
    assert "llvm.masked.load" in text
    if function is not places:
        assert "llvm.loop.interleave.count" not in text


@WITH_MASKS
@pytest.mark.parametrize("function", [row_totals, softmax_gradient])
def test_masks_are_the_same_in_all_rows(function: Callable[..., Any]) -> None:
    """The last vector of a row is masked, and the mask is there before the first row."""
    compiled = script(function)
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        compiled(np.ones((4, 9), np.float32))
    (kernel,) = compiled.kernels
    blocks = re.split(r"^\S+:", kernel.llvm, flags=re.MULTILINE)
    masked = [one for one in blocks if "= tail call" in one and "@llvm.masked.load" in one]
    assert masked and not any("icmp ugt <" in one for one in masked)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_some_whole_vectors(dtype: str) -> None:
    """Blocks, then single vectors, then one that is masked: each of them may be missing."""
    random = np.random.default_rng(11)
    compiled = script(softmax_gradient)
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        for length in (1, 7, 8, 15, 16, 17, 31, 32, 40, 48, 63, 64, 72, 80, 95, 128, 257, 272, 300):
            whole = random.integers(-8, 8, size=(5, length)).astype(dtype)
            np.testing.assert_array_equal(compiled(whole), softmax_gradient(whole), strict=True)
