# mypy: allow-untyped-defs, allow-untyped-calls
"""Reductions of many rows over leading axes, which are cut into parts of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import Tolerance, check, check_within
from jitcore import fusion_strategy, script
from jitcore.codegen.loop_passes.parallel import work_of
from jitcore.codegen.loop_passes.traversal import walk
from jitcore.codegen.loops import For
from jitcore.codegen.lowering.leading_axes import LEAST_DIVIDED, LEAST_ROWS


def totals(x):
    return x.sum(axis=0), x.mean(axis=0), np.count_nonzero(x, axis=0)


def extrema(x):
    return x.min(axis=0), x.max(axis=0), x.min(axis=0, keepdims=True)


def flags(x):
    return (x > 0).any(axis=0), (x < 90).all(axis=0)


def spread(x):
    return x.var(axis=0), x.std(axis=0, ddof=1)


def products(x):
    return x.prod(axis=0)


def of_computed(x):
    return np.exp(-(x * x)).sum(axis=0), (x * x).max(axis=0)


def normalized(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def over_two_axes(x):
    return x.sum(axis=(0, 2)), x.max(axis=(0, 1)), x.mean(axis=(0, 1)), x.sum(axis=(1, 2))


def over_an_inner_axis(x):
    return x.sum(axis=1), x.min(axis=1), x.var(axis=1)


def in_a_loop(x):
    found = np.zeros(x.shape[1], x.dtype)
    for i in range(3):
        found = found + (x * i).sum(axis=0)
    return found


SHAPES = [(256, 256), (257, 300), (1031, 64), (5003, 14), (9001, 8), (22000, 3), (300, 1500)]


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    random = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind in "iub":
        return random.integers(0, 99, shape).astype(dtype)
    x = random.normal(size=shape) + (1j * random.normal(size=shape) if dtype[0] == "c" else 0)
    return (x * 3).astype(dtype)


def check_sums(function: Callable[..., Any], x: Any) -> None:
    """Compare with NumPy's sums, whose own errors grow with the number of rows."""
    largest = float(np.abs(x).max(initial=0.0, where=np.isfinite(x)))
    tolerance = Tolerance(scale=largest * len(x))
    check_within(function, (x,), script, tolerance)


def layouts(x: Any) -> Iterator[Any]:
    yield x
    yield np.asfortranarray(x)
    yield x[:, ::-1]
    yield x[::-1, ::2]
    yield np.repeat(x, 2, axis=0)[::2]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool", "complex64"])
def test_kinds_and_dtypes(shape: tuple[int, int], dtype: str) -> None:
    x = numbers(shape, dtype)
    check_sums(totals, x)
    if dtype[0] != "c":
        check(extrema, x)
        check(flags, x)
    if dtype[0] == "f":
        check_sums(spread, x)
        check_sums(of_computed, x)
        check_sums(products, (1 + x / len(x)).astype(dtype))


@pytest.mark.parametrize("shape", [(600, 250), (22000, 6)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_layouts(shape: tuple[int, int], dtype: str) -> None:
    for x in layouts(numbers(shape, dtype)):
        check_sums(totals, x)
        check(extrema, x)


@pytest.mark.parametrize("shape", [(4, 300, 70), (300, 4, 70), (2, 3, 20000), (70, 300, 4)])
def test_several_axes(shape: tuple[int, int, int]) -> None:
    x = numbers(shape, "float64")
    for one in (x, x[:, ::-1], x[::-1, :, ::2], x.transpose(1, 0, 2)):
        check_sums(over_two_axes, one)
        check_sums(over_an_inner_axis, one)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
@pytest.mark.parametrize("row", [0, 63, 64, 255, 256, 699])
def test_special_numbers_in_one_part(row: int, value: float) -> None:
    for dtype in ("float32", "float64"):
        x = numbers((700, 100), dtype)
        x[row, ::3] = value
        check(extrema, x)
        check_sums(totals, x)
        x[:] = value
        check(extrema, x)
        check_sums(totals, x)


def test_sums_of_opposite_infinities_in_two_parts() -> None:
    x = np.ones((700, 100))
    x[3], x[600] = np.inf, -np.inf
    assert np.isnan(script(totals)(x)[0]).all()


def bits(result: Any) -> list[bytes]:
    values = result if isinstance(result, tuple) else (result,)
    return [np.asarray(value).tobytes() for value in values]


@pytest.mark.parametrize("function", [totals, spread, products, of_computed, normalized, in_a_loop])
@pytest.mark.parametrize("shape", [(700, 300), (2501, 32), (22000, 3), (256, 3999), (255, 999)])
def test_neither_threads_nor_the_kind_of_kernel_change_a_bit(
    function: Callable[..., Any], shape: tuple[int, int]
) -> None:
    x = numbers(shape, "float64")
    before = jitcore.get_num_threads()
    found = []
    try:
        for kind in ("STATIC", "DYNAMIC"):
            with fusion_strategy([(kind, 1)]):
                compiled = script(function)
                for count in (1, 2, 3, 7):
                    jitcore.set_num_threads(count)
                    found.append(bits(compiled(x)))
    finally:
        jitcore.set_num_threads(before)
    assert all(one == found[0] for one in found)


def test_a_dynamic_kernel_takes_few_rows_and_many() -> None:
    with fusion_strategy([("DYNAMIC", 1)]):
        compiled = script(totals)
        for shape in ((5, 8), (0, 8), (700, 300), (3, 100_000), (9000, 9), (300, 1)):
            x = numbers(shape, "float64")
            for got, wanted in zip(compiled(x), totals(x), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-10)


def in_other_order(x):
    return x.sum(axis=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4096, 40), (70_000, 2)])
def test_sums_of_parts_are_no_less_accurate_than_numpys(shape: tuple[int, int], dtype: str) -> None:
    random = np.random.default_rng(4)
    x = (random.uniform(size=shape) * 10.0 ** random.integers(-6, 6, shape)).astype(dtype)
    exact = np.array([math.fsum(column) for column in x.T.astype(np.float64)])
    got, numpys = script(in_other_order)(x), in_other_order(x)
    assert abs(got - exact).max() <= abs(numpys - exact).max()


def test_sums_of_float16_are_rounded_as_numpys() -> None:
    x = np.random.default_rng(9).uniform(0, 2, (3000, 40)).astype(np.float16)
    np.testing.assert_array_equal(script(in_other_order)(x), in_other_order(x))


@pytest.mark.parametrize("shape", [(255, 1900), (900, 72), (LEAST_ROWS, LEAST_DIVIDED)])
def test_sums_of_few_rows_or_elements_have_numpys_bits(shape: tuple[int, int]) -> None:
    x = numbers(shape, "float64")
    assert bits(script(in_other_order)(x)) == bits(in_other_order(x))


@pytest.mark.parametrize("shape", [(512, 512), (4096, 256), (1024, 1024), (100_000, 8)])
@pytest.mark.parametrize("function", [in_other_order, normalized])
def test_threads_share_rows_where_columns_are_few(
    function: Callable[..., Any], shape: tuple[int, int]
) -> None:
    compiled = script(function)
    compiled(numbers(shape, "float64"))
    body = compiled.kernels[0].lowered.function.body
    shared = [one for one in walk(body) if isinstance(one, For) and work_of(one) is not None]
    assert len(shared) >= (1 if function is in_other_order else 3)


def complex_products(x):
    return x.prod(axis=0), x[:, None].prod(axis=(0, 1)), (x * 1j).prod(axis=0, keepdims=True)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 5, 8, 9, 5000])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_both_parts_of_complex_products(dtype: str, rows: int) -> None:
    x = np.exp(1j * np.random.default_rng(rows).normal(size=(rows, 14))).astype(dtype)
    for one in (x, x[:, ::-1], x[::-1]):
        check_sums(complex_products, one)
