# mypy: allow-untyped-defs, allow-untyped-calls
"""Long reductions, which are cut into parts; variances of one pass; column sums in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import check
from jitcore import fusion_strategy, script
from jitcore.codegen.lowering.walks import LEAST_DIVIDED, LEAST_LOOKED_AT_TWICE, PART

LENGTHS = [LEAST_DIVIDED - 1, LEAST_DIVIDED, LEAST_DIVIDED + 33, 3 * PART + 5]


def totals(x):
    return x.sum(), x.mean(), np.count_nonzero(x)


def extrema(x):
    return x.min(), x.max(), x.argmin(), x.argmax()


def normalized(x):
    return (x - x.mean()) / x.std()


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def one_row(x):
    return x[None].sum(axis=1), x[None].max(axis=-1, keepdims=True)


def columns(x):
    return x.sum(axis=0), x.max(axis=0), x.mean(axis=0), np.exp(x).min(axis=0)


def bits(result: Any) -> list[bytes]:
    values = result if isinstance(result, tuple) else (result,)
    return [np.asarray(value).tobytes() for value in values]


def bits_by_threads(compiled: Callable[..., Any], *args: Any) -> list[list[bytes]]:
    before = jitcore.get_num_threads()
    found = []
    for count in (1, 2, 3, 7):
        jitcore.set_num_threads(count)
        found.append(bits(compiled(*args)))
    jitcore.set_num_threads(before)
    return found


REAL = ("float32", "float64", "int32")
CASES = [
    *((totals, dtype) for dtype in (*REAL, "complex128", "bool")),
    *((extrema, dtype) for dtype in (*REAL, "bool")),
    *((one_row, dtype) for dtype in REAL),
]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("function", "dtype"), CASES)
def test_kinds_and_dtypes(function: Callable[..., Any], dtype: str, length: int) -> None:
    random = np.random.default_rng(length)
    x = (random.normal(size=length) * 5).astype(dtype)
    check(function, x, reduction=True, ulp=8)


@pytest.mark.parametrize("function", [normalized, softmax])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_groups_of_one_row(function: Callable[..., Any], dtype: str) -> None:
    x = np.random.default_rng(5).normal(2, 3, LENGTHS[-1]).astype(dtype)
    check(function, x, reduction=True, ulp=64)


@pytest.mark.parametrize("function", [totals, extrema, normalized, softmax, one_row, columns])
@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
def test_neither_threads_nor_the_kind_of_kernel_change_a_bit(
    function: Callable[..., Any], kind: Any
) -> None:
    shape = (70, 2500) if function is columns else (LENGTHS[-1],)
    x = np.random.default_rng(1).normal(size=shape)
    with fusion_strategy([(kind, 2)]):
        found = bits_by_threads(script(function), x)
    assert all(one == found[0] for one in found)
    with fusion_strategy([("STATIC", 1)]):
        assert bits(script(function)(x)) == found[0]


def test_axes_that_are_not_walked_as_one() -> None:
    x = np.random.default_rng(3).normal(size=(300, 7, 90))[:, 1:6, ::3]
    for array in (x, x[::-1], x.transpose(2, 0, 1)):
        check(totals, array, reduction=True)
        check(extrema, array)


def test_the_first_of_equal_places_wins_and_the_first_nan() -> None:
    x = np.zeros(5 * PART)
    check(extrema, x)
    x[3 * PART] = x[PART + 1] = 1
    check(extrema, x)
    x[4 * PART] = x[2 * PART + 7] = np.nan
    check(extrema, x)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinities_in_one_part(value: float) -> None:
    x = np.ones(3 * PART)
    x[PART] = value
    check(totals, x)


def test_long_sums_are_nearly_exact() -> None:
    random = np.random.default_rng(11)
    x = random.normal(size=10 * PART) * 10.0 ** random.integers(-12, 12, 10 * PART)
    assert abs(script(totals)(x)[0] - math.fsum(x)) <= np.spacing(abs(math.fsum(x)))


# Variances --------------------------------------------------------------------------------


def spread(x):
    return x.var(axis=1), x.std(axis=1, ddof=1), x.mean(axis=1)


def layer(x):
    mean = x.mean(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("mean", [0.0, 1.0, 300.0, 2000.0, 1e6, -3e7, 1e-30])
@pytest.mark.parametrize("columns", [2, 7, 33, 512, 3000])
def test_variances_of_float32_are_exact_but_for_rounding(mean: float, columns: int) -> None:
    scale = abs(mean) * 1e-3 if mean < 1e-10 else 1.0
    x = (mean + scale * np.random.default_rng(columns).normal(size=(4, columns))).astype("f4")
    wide = x.astype(np.longdouble)
    for found, exact in zip(script(spread)(x), spread(wide), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, exact.astype(np.float64), rtol=1.5e-7, atol=1e-38)


def test_variances_of_equal_and_of_strange_numbers() -> None:
    for row in ([0.1] * 100, [1e30] * 100, [np.nan, 1.0], [np.inf, 1.0], [0.0, -0.0]):
        x = np.array([row, row], np.float32)
        variances, deviations, _ = script(spread)(x)
        expected = 0.0 if len(set(row)) == 1 or row[0] == 0 else np.nan
        np.testing.assert_array_equal(variances, expected)
        np.testing.assert_array_equal(deviations, expected)


@pytest.mark.parametrize("offset", [0.0, 5000.0])
def test_a_layer_norm_in_both_ways(offset: float) -> None:
    x = (offset + np.random.default_rng(2).normal(size=(9, 333))).astype(np.float32)
    exact = layer(x.astype(np.float64))
    np.testing.assert_allclose(script(layer)(x), exact, rtol=0, atol=1e-6 * (1 + offset))


# Variances of float64, whose parts are looked at twice where they are too many for a cache ---


def moments(x):
    return x.mean(), x.var(), x.std(ddof=1), x.min(), x.max()


def scaled(x):
    y = x * 0.5
    return y, y.std(), y.mean()


def halves(x):
    return x.reshape(2, -1).std(axis=1)


LOOKED_AT = [LEAST_LOOKED_AT_TWICE - 1, LEAST_LOOKED_AT_TWICE, LEAST_LOOKED_AT_TWICE + 33]


def variance_in_long_doubles(x: np.ndarray[Any, Any]) -> Any:
    wide = x.astype(np.longdouble)
    return np.square(wide - wide.mean()).mean()


@pytest.mark.parametrize("mean", [0.0, 3.0, -1e6, 1e9])
@pytest.mark.parametrize("length", [LENGTHS[-1], *LOOKED_AT])
def test_variances_of_float64_are_nearly_exact(mean: float, length: int) -> None:
    x = mean + np.random.default_rng(length).normal(size=length)
    # Parts whose means differ.
    x[length // 3 :] += 4.0
    exact = variance_in_long_doubles(x)
    # Where every part is looked at once, deviations are from a rounded mean, as NumPy's.
    allowed = 2 * np.spacing(float(exact)) + np.spacing(mean + 4.0) ** 2
    assert abs(script(moments)(x)[1] - exact) <= allowed


@pytest.mark.parametrize("length", LOOKED_AT)
@pytest.mark.parametrize("function", [moments, normalized, scaled])
def test_long_variances_beside_others(function: Callable[..., Any], length: int) -> None:
    x = np.random.default_rng(length).normal(2, 3, length)
    check(function, x, reduction=True, ulp=64)


def test_long_variances_of_few_rows_and_of_what_is_not_contiguous() -> None:
    x = np.random.default_rng(9).normal(1, 2, 2 * LEAST_LOOKED_AT_TWICE)
    for array in (x, x[::2], x[::-1]):
        check(halves, array, reduction=True, ulp=16)
        check(moments, array, reduction=True, ulp=16)
    check(moments, x.reshape(8, -1, 4)[:, ::2, :3], reduction=True, ulp=16)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e200])
def test_long_variances_of_what_is_not_finite(value: float) -> None:
    x = np.random.default_rng(4).normal(size=LOOKED_AT[-1])
    x[LOOKED_AT[-1] // 2 + 5] = value
    check(moments, x, reduction=True, ulp=16)


def test_long_variances_of_numbers_whose_squares_are_nearly_too_large() -> None:
    x = np.full(LOOKED_AT[-1], 1e150)
    x[::3] = -1e150
    check(moments, x, reduction=True, ulp=16)


def test_threads_and_the_kind_of_kernel_change_no_bit_of_a_long_variance() -> None:
    for length in LOOKED_AT:
        x = np.random.default_rng(1).normal(7, 2, length)
        for function in (moments, normalized):
            with fusion_strategy([("DYNAMIC", 2)]):
                found = bits_by_threads(script(function), x)
            assert all(one == found[0] for one in found)
            with fusion_strategy([("STATIC", 1)]):
                assert bits(script(function)(x)) == found[0]


# Columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4096), (70, 2500), (9, 1023), (5, 1024), (4, 6, 5000)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "complex64"])
def test_columns_have_numpys_bits(shape: tuple[int, ...], dtype: str) -> None:
    x = (np.random.default_rng(7).normal(size=shape) * 90).astype(dtype)
    compiled = script(lambda x: x.sum(axis=0))
    assert {bits(compiled(x))[0]} == {one[0] for one in bits_by_threads(compiled, x)}
    assert bits(compiled(x)) == bits(x.sum(axis=0))
