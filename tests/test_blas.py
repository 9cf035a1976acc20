"""Products large enough for BLAS have NumPy's own bits; large temporaries are used again."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import fusion_strategy, script, set_num_threads
from jitcore.codegen.engine import has_feature
from jitcore.codegen.runtime.blas import ensure_blas
from jitcore.execution.plans import NativePlan

Array = np.ndarray[Any, Any]
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]

needs_blas = pytest.mark.skipif(
    ensure_blas("float64") is None, reason="NumPy was built without a BLAS library"
)


def numbers(*shape: int, dtype: Any = np.float64) -> Array:
    rng = np.random.default_rng(len(shape))
    parts = rng.standard_normal((2, *shape))
    made: Array = parts[0] + (1j * parts[1] if np.dtype(dtype).kind == "c" else 0)
    return made.astype(dtype)


def product(x, y):
    return x @ y


@needs_blas
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
def test_products_of_matrices_have_the_bits_of_numpy(dtype: Any, kind: str) -> None:
    x, y = numbers(40, 48, dtype=dtype), numbers(48, 56, dtype=dtype)
    pairs = [
        (x, y),
        (x.T.copy().T, y),
        (x, y.T.copy().T),
        (x[:, 8:], y[8:]),
        (x[::2], y[:, :31]),
    ]
    with fusion_strategy([(kind, 20)]):
        compiled = script(product)
        for left, right in pairs:
            result = compiled(left, right)
            assert result.dtype == dtype
            np.testing.assert_array_equal(result, left @ right)


def square(x):
    return x @ x.T


@needs_blas
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 500), (17, 33), (40, 100)])
def test_a_matrix_with_its_transpose_has_the_bits_of_numpy(dtype: Any, shape: Any) -> None:
    x = numbers(*shape, dtype=dtype)
    compiled = script(square)
    for one in (x, np.asfortranarray(x), x[1:, 3:]):
        result = compiled(one)
        np.testing.assert_array_equal(result, one @ one.T)
        np.testing.assert_array_equal(result, result.T)


@needs_blas
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [2, 3, 8, 9])
def test_few_rows_times_a_large_matrix(dtype: Any, rows: int) -> None:
    x, y = numbers(rows, 700, dtype=dtype), numbers(700, 901, dtype=dtype)
    compiled = script(product)
    for left, right in ((x, y), (x.T.copy().T, y), (x, y.T.copy().T), (x, y[:, 3:])):
        result, expected = compiled(left, right), left @ right
        assert result.dtype == dtype
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)


@needs_blas
@pytest.mark.parametrize(
    ("rows", "terms", "columns", "is_ours"),
    [(8, 700, 901, True), (9, 700, 901, False), (8, 30, 901, False), (8, 70_000, 9, False)],
)
def test_only_products_with_few_rows_need_a_kernel_of_ours(
    rows: int, terms: int, columns: int, is_ours: bool
) -> None:
    x, y = numbers(rows, terms), numbers(terms, columns)
    compiled = script(product)
    np.testing.assert_allclose(compiled(x, y), x @ y, rtol=1e-4, atol=1e-3)
    (made,) = compiled.specializations
    assert isinstance(made.plan, NativePlan)
    may_be_ours = has_feature("avx512f")
    assert ("jc_few_rows" in made.plan.kernel.module.llvm) == (is_ours and may_be_ours)


@needs_blas
@pytest.mark.skipif(not has_feature("avx512f"), reason="few rows are left to BLAS")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 7, 38_000), (3, 300, 4500), (8, 9000, 67), (5, 515, 517)])
def test_how_few_rows_are_divided_depends_on_extents_alone(shape: Any, dtype: Any) -> None:
    rows, terms, columns = shape
    x, y = numbers(rows, terms, dtype=dtype), numbers(terms, columns, dtype=dtype)
    wide = np.concatenate([y, np.full_like(y[:, :5], np.nan)], axis=1)
    expected = x.astype(np.float64) @ y.astype(np.float64)
    bound = np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64)
    results = []
    for kind in ("STATIC", "DYNAMIC"):
        with fusion_strategy([(kind, 20)]):
            compiled = script(product)
            # The second matrix makes the extents unknown, and has other numbers behind the last.
            results += [compiled(x, y), compiled(np.asfortranarray(x), wide[:, :columns])]
    before = set_num_threads(1)
    try:
        results.append(compiled(x, y))
    finally:
        set_num_threads(before)
    assert np.max(np.abs(results[0] - expected) / bound) < 4 * np.finfo(dtype).eps
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


@needs_blas
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_matrices_and_vectors_have_the_bits_of_numpy(dtype: Any) -> None:
    x, v, w = (numbers(*shape, dtype=dtype) for shape in ((150, 170), (170,), (150,)))
    compiled = script(product)
    for left, right in [(x, v), (w, x), (x.T, w), (x, v[:, None]), (w[None], x), (x[:, ::-1], v)]:
        result, expected = compiled(left, right), left @ right
        assert result.shape == expected.shape
        if min(left.strides) > 0:
            np.testing.assert_array_equal(result, expected)
        np.testing.assert_allclose(result, expected, rtol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts_that_blas_does_not_read(dtype: Any) -> None:
    x, y = numbers(40, 48, dtype=dtype), numbers(48, 56, dtype=dtype)
    wide = numbers(80, 96, dtype=dtype)
    for left, right in [
        (x[::-1], y),
        (wide[::2, ::2], y),
        (x, np.broadcast_to(y[:, :1], (48, 56))),
        (np.broadcast_to(x[0], (40, 48)), y),
    ]:
        result, expected = script(product)(left, right), left @ right
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_stacks() -> None:
    cube = numbers(5, 40, 48)
    for left, right in [
        (cube, numbers(48, 33)),
        (cube.reshape(5, 40, 1, 48), numbers(48, 33)),
        (cube, cube.transpose(0, 2, 1)),
        (cube[:1], cube.transpose(0, 2, 1)),
        (cube.transpose(1, 0, 2), numbers(48, 33)),
        (cube, numbers(48)),
    ]:
        check(product, left, right, reduction=True)


def test_extents_of_zero_and_one() -> None:
    for rows, terms, columns in [(0, 300, 300), (300, 0, 300), (300, 300, 0), (1, 900, 900)]:
        check(product, numbers(rows, terms), numbers(terms, columns), reduction=True)


def test_operands_that_do_not_fit() -> None:
    check(product, numbers(40, 48), numbers(47, 56))


def dot(x, y):
    return np.dot(x, y), x @ y, np.dot(x[::-1], y)


@needs_blas
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [0, 1, 7, 15, 16, 17, 100, 1001])
def test_products_of_vectors_have_the_bits_of_numpy(length: int, dtype: Any) -> None:
    x, y = numbers(length, dtype=dtype), numbers(1, length, dtype=dtype)[0]
    check(dot, x, y, ulp=0 if dtype == np.float64 else 4, reduction=dtype == np.float32)
    check(product, np.repeat(x, 3)[::3], y, ulp=0, reduction=dtype == np.float32)
    check(product, np.repeat(x, 3)[::-3], y, ulp=0, reduction=True)


def recurrence(r):
    y = np.zeros_like(r)
    scale = 1.0
    for k in range(1, len(r)):
        step = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / (scale + 2.0)
        y[:k] += step * np.flip(y[:k])
        y[k] = step
        scale *= 1.0 - step * step
    return y


def test_errors_do_not_grow_in_recurrences() -> None:
    check(recurrence, numbers(300))


def residual(a, x, b):
    for _ in range(3):
        x = x - 0.01 * (a.T @ (a @ x - b) + (2.0 * a).T @ b)
    return x


def test_temporaries_in_several_threads() -> None:
    a, x, b = numbers(200, 160), numbers(160), numbers(200)
    compiled = script(residual)
    expected = compiled(a, x, b)
    np.testing.assert_allclose(expected, residual(a, x, b), rtol=1e-9)
    results: list[bool] = []

    def work() -> None:
        results.append(all(np.array_equal(compiled(a, x, b), expected) for _ in range(50)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 4


def scaled_product(a, x):
    return (2.0 * a) @ x


def test_temporaries_of_changing_sizes() -> None:
    with fusion_strategy([("DYNAMIC", 20)]):
        compiled = script(scaled_product)
        for size in (10, 500, 90, 1200, 700, 1200, 3, 2500):
            a, x = numbers(size, size), numbers(size)
            np.testing.assert_allclose(compiled(a, x), scaled_product(a, x), rtol=1e-8)
