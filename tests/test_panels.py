# mypy: allow-untyped-defs, allow-untyped-calls
"""Large matrices that are computed panel by panel, for the one product that reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_blas import needs_blas

from checking import check
from jitcore import script

ROWS, COLUMNS = 2080, 1100


def scaled(a, b, x):
    return 2.5 * a @ x


def two_products(a, b, x):
    return 2.0 * a @ x + 0.5 * b @ x


def rows_of_a_stencil(a, b, x):
    return (a[16:] - a[:-16]) @ x


def written_afterwards(a, b, x):
    y = (a * b) @ x
    a[0] = 1.0
    return y, a


def in_a_loop(a, b, x):
    for k in range(3):
        x = (a * 0.001 + k) @ x[: a.shape[1]]
        x = x[:1100]
    return x


BY_PANELS = [scaled, two_products, rows_of_a_stencil, written_afterwards]


def read_again(a, b, x):
    c = a + b
    return c @ x, c


def read_twice(a, b, x):
    c = a + b
    return c @ x, c @ x[::-1].copy()


def transposed(a, b, x):
    return (a.T + 1) @ x[:1] if a.shape[0] == 1 else a[:, 0] @ (a * 2)


def written_before(a, b, x):
    c = a + b
    a[:, 0] = 7.0
    return c @ x, a


AS_A_WHOLE = [read_again, read_twice, transposed, written_before]


def _arguments(dtype: str = "float64", rows: int = ROWS, columns: int = COLUMNS) -> tuple[Any, ...]:
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(2, rows, columns)).astype(dtype)
    return a, b, rng.normal(size=columns).astype(dtype)


@pytest.mark.parametrize("function", [*BY_PANELS, *AS_A_WHOLE])
def test_products(function: Callable[..., Any]) -> None:
    check(function, *_arguments(), reduction=True)


@needs_blas
@pytest.mark.parametrize("function", [*BY_PANELS, *AS_A_WHOLE])
def test_what_needs_the_matrix_as_a_whole(function: Callable[..., Any]) -> None:
    compiled = script(function)
    compiled(*_arguments())
    source = "".join(kernel.source for kernel in compiled.kernels)
    assert "gemv" in source
    assert ("_panel in range" in source) == (function in BY_PANELS)


@pytest.mark.parametrize("rows", [1216, 2032, 4000])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_numbers_of_rows(rows: int, dtype: str) -> None:
    check(scaled, *_arguments(dtype, rows, 2011), reduction=True)


@needs_blas
def test_rows_that_blas_would_take_in_another_order_stay_together() -> None:
    compiled = script(scaled)
    compiled(*_arguments(rows=ROWS + 1))
    (kernel,) = compiled.kernels
    assert "_panel in range" not in kernel.source


@needs_blas
def test_small_matrices_stay_whole() -> None:
    compiled = script(scaled)
    compiled(*_arguments(rows=300))
    (kernel,) = compiled.kernels
    assert "_panel in range" not in kernel.source


@needs_blas
def test_explain_names_the_panels() -> None:
    compiled = script(scaled)
    compiled(*_arguments())
    assert "is computed in panels of" in str(compiled.explain(*_arguments()))


def test_carried_vectors() -> None:
    check(in_a_loop, *_arguments(), reduction=True)
