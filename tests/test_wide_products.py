# mypy: allow-untyped-defs, allow-untyped-calls
"""Products of large matrices by kernels of our own, where BLAS's use half of the vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import get_num_threads, script, set_num_threads
from jitcore.codegen.lowering.blas_calls import has_wide_kernels

Array = np.ndarray[Any, Any]

needs_wide_kernels = pytest.mark.skipif(
    not has_wide_kernels("float64"), reason="BLAS uses all of this machine's vectors"
)


def numbers(*shape: int, dtype: Any = np.float64) -> Array:
    made: Array = np.random.default_rng(sum(shape)).standard_normal(shape)
    return made.astype(dtype)


def product(x, y):
    return x @ y


def layouts(x: Array, y: Array) -> list[tuple[Array, Array]]:
    return [
        (x, y),
        (x.T.copy().T, y),
        (x, y.T.copy().T),
        (x.T.copy().T, y.T.copy().T),
        (x[1:, 3:], y[3:, 5:]),
        (np.repeat(x, 2, axis=0)[::2], y),
    ]


@needs_wide_kernels
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "extents",
    [(128, 128, 128), (1100, 131, 257), (9, 2500, 600), (2000, 25, 770), (150, 4200, 300)],
)
def test_layouts_and_edges_of_tiles(dtype: Any, extents: tuple[int, int, int]) -> None:
    rows, columns, terms = extents
    compiled = script(product)
    for x, y in layouts(numbers(rows, terms, dtype=dtype), numbers(terms, columns, dtype=dtype)):
        exact = x.astype("longdouble")[:8] @ y.astype("longdouble")
        found = compiled(x, y)
        assert found.dtype == dtype and found.shape == (x.shape[0], y.shape[1])
        # What rounding may do to a sum of so many terms.
        scale = np.abs(x[:8]).astype("float64") @ np.abs(y).astype("float64")
        assert np.all(np.abs(found[:8] - exact) <= 8 * np.finfo(dtype).eps * scale)
        np.testing.assert_allclose(found, x @ y, rtol=1e-3, atol=1e-3)


@needs_wide_kernels
@pytest.mark.parametrize("terms", [100, 256, 512, 1024])
def test_the_order_of_additions_is_that_of_blas(terms: int) -> None:
    x, y = numbers(300, terms), numbers(terms, 400)
    np.testing.assert_array_equal(script(product)(x, y), x @ y)


def with_its_transpose(x):
    return x.T @ x, x @ x.T


@needs_wide_kernels
@pytest.mark.parametrize("shape", [(260, 301), (1300, 130), (90, 1300)])
def test_a_matrix_with_its_transpose(shape: tuple[int, int]) -> None:
    x = numbers(*shape)
    for one, expected in zip(script(with_its_transpose)(x), with_its_transpose(x), strict=True):
        np.testing.assert_array_equal(one, one.T)
        np.testing.assert_allclose(one, expected, rtol=1e-10, atol=1e-10)


def test_numbers_that_are_not_finite() -> None:
    x, y = numbers(200, 300), numbers(300, 250)
    x[3, 4], x[9, 299], y[17, 100], y[0, 249] = np.nan, np.inf, -np.inf, np.nan
    check(product, x, y, reduction=True)


def test_the_number_of_threads_changes_no_bit() -> None:
    x, y = numbers(1000, 700), numbers(700, 500)
    compiled = script(product)
    before = set_num_threads(1)
    alone = compiled(x, y)
    set_num_threads(3)
    try:
        np.testing.assert_array_equal(compiled(x, y), alone)
    finally:
        set_num_threads(before)
    assert get_num_threads() == before


def test_stacks_and_results_in_place() -> None:
    def into(x, y, z):
        z[:] = 1.5 * x @ y + 0.5 * z
        return np.matmul(np.stack((x, x + 1)), y)

    check(into, numbers(300, 200), numbers(200, 150), numbers(300, 150), reduction=True)
