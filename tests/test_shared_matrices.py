# mypy: allow-untyped-defs, allow-untyped-calls
"""Large matrices that several products read in one pass, panel by panel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_blas import needs_blas

from checking import check
from jitcore import script

ROWS, COLUMNS = 2085, 1100


def both_sides(a, x, y):
    return y @ a, a @ x


def one_side(a, x, y):
    z = x + 1
    return a @ x, a @ z


def one_after_the_other(a, x, y):
    return (a @ x) @ a


def in_place(a, x, y):
    first = y @ a
    y *= 2
    return first, a @ x, y


def three(a, x, y):
    return a @ x, y @ a, (a @ x) @ a


def with_a_step(a, x, y):
    long = np.concatenate((y, y))
    return a @ x, long[1::2] @ a


SHARED = [both_sides, one_side, one_after_the_other, in_place, three, with_a_step]


def needs_all_of_the_first(a, x, y):
    return a @ (y @ a)


def written_between(a, x, y):
    first = a @ x
    a[3] = 0.5
    return first, y @ a


def vector_written_between(a, x, y):
    first = a @ x
    y += first
    return y @ a


def of_parts(a, x, y):
    return a[1:] @ x, y @ a


def computed_between(a, x, y):
    first = a @ x
    return first, (y + 1) @ a


def carried(a, x, y):
    for _ in range(2):
        x, y = y @ a / 1000, a @ x / 1000
    return x, y


APART = [
    needs_all_of_the_first,
    written_between,
    vector_written_between,
    computed_between,
    of_parts,
]


def _arguments(dtype: str = "float64", rows: int = ROWS) -> tuple[Any, ...]:
    rng = np.random.default_rng(8)
    a = rng.normal(size=(rows, COLUMNS)).astype(dtype)
    return a, rng.normal(size=COLUMNS).astype(dtype), rng.normal(size=rows).astype(dtype)


@pytest.mark.parametrize("function", [*SHARED, *APART, carried])
def test_products(function: Callable[..., Any]) -> None:
    check(function, *_arguments(), reduction=True)


def test_a_transposed_matrix() -> None:
    a, x, y = _arguments()
    check(both_sides, np.asfortranarray(a), x, y, reduction=True)
    check(both_sides, a.T, y, x, reduction=True)


def _reads_in_panels(function: Callable[..., Any], *args: Any) -> bool:
    compiled = script(function)
    compiled(*args)
    source = "".join(kernel.source for kernel in compiled.kernels)
    in_panels = "_panel in range" in source
    assert in_panels or "gemv" in source
    return in_panels


@needs_blas
@pytest.mark.parametrize("function", [*SHARED, *APART])
def test_what_can_wait_for_the_same_rows(function: Callable[..., Any]) -> None:
    assert _reads_in_panels(function, *_arguments()) == (function in SHARED)


@needs_blas
def test_small_matrices_and_complex_ones_stay_whole() -> None:
    assert not _reads_in_panels(both_sides, *_arguments(rows=300))
    assert not _reads_in_panels(both_sides, *_arguments("complex128"))


@needs_blas
def test_explain_names_the_panels() -> None:
    compiled = script(both_sides)
    compiled(*_arguments())
    assert "2 products read a in panels of" in str(compiled.explain(*_arguments()))
