# mypy: allow-untyped-defs, allow-untyped-calls
"""Short rows of unknown length, reduced and used in phases: which, and that all is equal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitcore
from jitcore import script
from jitcore.codegen.loop_passes.lane_sums import add_by_lanes
from jitcore.codegen.loop_passes.row_phases import BLOCK_BYTES, ROWS, walk_in_phases
from jitcore.codegen.loop_passes.shared_divisors import share_divisors

LONG = BLOCK_BYTES // 8


def rms_norm(x, w):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * w


def layer_norm(x, w):
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * w


def extrema(x, w):
    low, high = x.min(axis=-1, keepdims=True), x.max(axis=-1, keepdims=True)
    return (x - low) / (high - low + 1) * w


def norms_too(x, w):
    norm = np.sqrt((x * x).sum(axis=-1, keepdims=True))
    return x / norm * w, norm


def angles(x, w):
    return (x * w).sum(axis=-1) / np.sqrt((x * x).sum(axis=-1) + 1)


def in_place(x, w):
    for _ in range(3):
        x /= np.sqrt((x * x).sum(axis=-1, keepdims=True) + 1)
        x += w
    return x


def centred(x, w):
    return (x - x.max(axis=-1, keepdims=True)) * w


def means(x, w):
    return (x * w).mean(axis=-1)


def weighted_by_length(x, w):
    """One quotient of a row, and one that all rows share."""
    return (x * w).sum(axis=-1) / (1 / np.sqrt(np.float64(x.shape[-1])))


FUNCTIONS = (rms_norm, layer_norm, extrema, norms_too, angles, in_place)


def of_any_shape(function: Callable[..., Any], dtype: str) -> Any:
    """A compiled function that knows no extents."""
    compiled = script(function)
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        compiled(np.ones((5, 7), dtype), np.ones(7, dtype))
    return compiled


def are_in_phases(compiled: Any) -> list[bool]:
    """Whether the pass changes a function's kernels."""
    nests = [
        share_divisors(add_by_lanes(kernel.lowered.function), 512) for kernel in compiled.kernels
    ]
    return [walk_in_phases(one) != one for one in nests]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_of_all_numbers_of_rows(function: Callable[..., Any], dtype: str) -> None:
    compiled = of_any_shape(function, dtype)
    random = np.random.default_rng(8)
    limit = 1e-4 if dtype == "float32" else 1e-12
    for rows in (0, 1, 3, ROWS - 1, ROWS, ROWS + 1, 5 * ROWS + 7):
        for length in (1, 2, 15, 17, 64, 70, 300, LONG // 3, LONG + 1):
            x, w = random.normal(size=(rows, length)), random.normal(size=length)
            with jitcore.fusion_strategy([("DYNAMIC", 9)]):
                found = compiled(x.astype(dtype), w.astype(dtype))
            expected = function(x.astype(dtype).astype(float), w.astype(dtype).astype(float))
            if not isinstance(found, tuple):
                found, expected = (found,), (expected,)
            for one, other in zip(found, expected, strict=True):
                assert one.dtype == dtype
                np.testing.assert_allclose(one, other, rtol=limit, atol=limit)
    assert {one.kind for one in compiled.specializations} == {"DYNAMIC"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_are_exact(dtype: str) -> None:
    """Bit for bit where nothing is added up, with NaN and infinities in rows of a block."""
    compiled = of_any_shape(extrema, dtype)
    random = np.random.default_rng(9)
    for rows, length in ((40, 5), (33, 40), (70, 16), (65, 33), (17, 500)):
        x, w = random.normal(size=(rows, length)).astype(dtype), np.ones(length, dtype)
        x[3, 2], x[4, 1], x[5], x[6, 0] = np.nan, np.inf, -0.0, -np.inf
        with np.errstate(all="ignore"), jitcore.fusion_strategy([("DYNAMIC", 1)]):
            np.testing.assert_array_equal(compiled(x, w), extrema(x, w), strict=True)


def test_rows_of_several_leading_axes() -> None:
    compiled = script(rms_norm)
    random = np.random.default_rng(10)
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        for shape in ((3, 20, 9), (2, 16, 33), (40, 1, 5)):
            x, w = random.normal(size=shape), random.normal(size=shape[-1])
            np.testing.assert_allclose(compiled(x, w), rms_norm(x, w), rtol=1e-12)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_which_rows(function: Callable[..., Any]) -> None:
    assert any(are_in_phases(of_any_shape(function, "float32")))


def test_numbers_of_rows_are_vectors_at_once() -> None:
    """What a variance may need a loop for comes between two phases without one."""
    (kernel,) = of_any_shape(layer_norm, "float32").kernels
    roots = [line for line in kernel.llvm.splitlines() if "= tail call" in line and "sqrt" in line]
    assert roots and all(re.search(r"<\d+ x float> @llvm.sqrt", line) for line in roots)


def test_which_not() -> None:
    """Nothing dear between the loops, one quotient behind all, or rows of a known length."""
    for function in (centred, means, weighted_by_length):
        assert not any(are_in_phases(of_any_shape(function, "float32")))
    compiled = script(rms_norm)
    with jitcore.fusion_strategy([("STATIC", 1)]):
        compiled(np.ones((50, 20)), np.ones(20))
    assert not any(are_in_phases(compiled))
