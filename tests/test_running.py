"""Running sums, products and extrema in one loop with what they are made of and what reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lowering import fuse_all, typed

import jitcore

Program = Callable[[Any], Any]


def energy(x: Any) -> Any:
    return np.cumsum(x * x, axis=-1)


def returns(x: Any) -> Any:
    return np.cumprod(1 + x, axis=-1) - 1


def deepest(x: Any) -> Any:
    top = np.maximum.accumulate(x, axis=-1)
    return (top - x).max(axis=-1)


def highest(x: Any) -> Any:
    return (x - np.minimum.accumulate(x, axis=-1)).min(axis=-1)


def twice(x: Any) -> Any:
    return np.cumsum(np.cumsum(x, axis=-1) + 1, axis=-1)


def band(x: Any) -> Any:
    top, low = np.maximum.accumulate(x, axis=-1), np.minimum.accumulate(x, axis=-1)
    return top - low, np.where(x > 0, top, low), top


def total(x: Any) -> Any:
    return np.sum(np.cumsum(x, axis=-1) * x, axis=-1)


ONE_LOOP = [energy, returns, deepest, highest, twice, band]


def several_readers(x: Any) -> Any:
    top = np.maximum.accumulate(x, axis=-1)
    return (top - x).max(), (top + x).min(), top


def of_functions(x: Any) -> Any:
    return np.exp(-np.abs(np.cumsum(np.sin(x), axis=-1)))


def centred(x: Any) -> Any:
    return np.cumsum(x - x.mean(axis=-1, keepdims=True), axis=-1)


def down_columns(x: Any) -> Any:
    return np.cumsum(x * 2, axis=0) + 1


PROGRAMS = [*ONE_LOOP, total, several_readers, of_functions, centred, down_columns]


def arrays(dtype: str) -> list[np.ndarray]:
    """Arrays of several shapes and layouts, some with special numbers."""
    generator = np.random.default_rng(7)
    line = (generator.normal(0, 2, 1000) * (10 if dtype[0] == "i" else 1)).astype(dtype)
    table = line[:600].reshape(20, 30)
    found = [line[::-3], table, table.T]
    if dtype.startswith("float"):
        special = line[:60].copy()
        special[[3, 30, 41, 50]] = [-0.0, np.inf, -np.inf, np.nan]
        found += [special, special[:41].reshape(1, 41)]
    else:
        found += [line[:1]]
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_values_are_those_of_numpy(program: Program, dtype: str) -> None:
    compiled = jitcore.script(program)
    loose = {"total": 200, "of_functions": 8, "centred": 4000}.get(program.__name__, 0)
    for x in arrays(dtype):
        with np.errstate(all="ignore"):
            expected, got = program(x), compiled(x.copy("K") if x.flags.c_contiguous else x)
        pairs = zip(expected, got, strict=True) if type(expected) is tuple else [(expected, got)]
        for one, other in pairs:
            assert other.dtype == one.dtype and other.strides == one.strides
            tolerance = loose * np.finfo(one.dtype).eps if one.dtype.kind == "f" else 0
            scale = tolerance * np.nanmax(np.abs(one), initial=1, where=np.isfinite(one))
            np.testing.assert_allclose(other, one, rtol=tolerance, atol=scale)
            signed = ~np.isnan(one) & (not loose)
            np.testing.assert_array_equal(np.signbit(other)[signed], np.signbit(one)[signed])


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("program", [energy, returns, twice, band, total, down_columns])
def test_empty_arrays(program: Program, dtype: str) -> None:
    for shape in ((0,), (3, 0), (0, 3)):
        x = np.empty(shape, dtype)
        expected, got = program(x), jitcore.script(program)(x)
        pairs = zip(expected, got, strict=True) if type(expected) is tuple else [(expected, got)]
        for one, other in pairs:
            assert (other.dtype, other.shape) == (one.dtype, one.shape)
            np.testing.assert_array_equal(other, one)


def test_extrema_of_nothing_are_errors() -> None:
    with pytest.raises(ValueError, match="zero-size array"):
        jitcore.script(deepest)(np.empty(0))


@pytest.mark.parametrize("program", ONE_LOOP, ids=lambda one: one.__name__)
def test_there_is_one_loop_and_no_array_between(program: Program) -> None:
    compiled = jitcore.script(program)
    compiled(np.ones(100))
    source = compiled.kernels[0].source
    assert len(re.findall(r"\bfor \w+ in range", source)) == 1
    assert "malloc" not in source


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_any_group_may_hold_them(program: Program) -> None:
    x = np.random.default_rng(1).normal(size=(7, 9))
    graph = fuse_all(typed(program, x))
    assert "prim::FusionGroup" in str(graph)
