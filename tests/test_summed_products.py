# mypy: allow-untyped-defs, allow-untyped-calls
"""Large matrices that are computed for the one product that reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import examples

from checking import check
from jitcore import script
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.summed_products import sum_computed_products

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


def written_before(a, b, x):
    c = a + b
    a[:, 0] = 7.0
    return c @ x, a


SUMMED = [scaled, two_products, rows_of_a_stencil, written_afterwards]


def read_again(a, b, x):
    c = a + b
    return c @ x, c


def read_twice(a, b, x):
    c = a + b
    return c @ x, c @ x[::-1].copy()


def of_matrices(a, b, x):
    return (a + 1) @ x[:, None]


def columns(a, b, x):
    return a[:, 0] @ (a * 2)


def in_a_loop(a, b, x):
    for k in range(3):
        x = (a * 0.001 + k) @ x[: a.shape[1]]
        x = x[:1100]
    return x


PRODUCTS = [read_again, read_twice, of_matrices, columns]


def _arguments(dtype: str = "float64", rows: int = ROWS, columns: int = COLUMNS) -> tuple[Any, ...]:
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(2, rows, columns)).astype(dtype)
    return a, b, rng.normal(size=columns).astype(dtype)


@pytest.mark.parametrize("function", [*SUMMED, *PRODUCTS, written_before, in_a_loop])
def test_products(function: Callable[..., Any]) -> None:
    check(function, *_arguments(), reduction=True)


def _products(function: Callable[..., Any], *args: Any) -> int:
    return str(script(function).graph_for(*args)).count("np::matmul")


@pytest.mark.parametrize("function", [*SUMMED, *PRODUCTS])
def test_what_needs_the_matrix_as_a_whole(function: Callable[..., Any]) -> None:
    assert (_products(function, *_arguments()) == 0) == (function in SUMMED)


@pytest.mark.parametrize("rows", [1216, 2032, 4001])
def test_numbers_of_rows(rows: int) -> None:
    check(scaled, *_arguments(rows=rows, columns=2011), reduction=True)


def test_float32_is_added_up_more_exactly_than_by_blas() -> None:
    args = _arguments("float32", 4001, 2011)
    exact = scaled(*(one.astype("float64") for one in args))
    found = script(scaled)(*args)
    assert found.dtype == np.float32
    ours, theirs = (np.abs(one - exact).max() for one in (found, scaled(*args)))
    assert ours < theirs / 2


def test_small_matrices_and_other_numbers_go_to_blas() -> None:
    assert _products(scaled, *_arguments(rows=300)) == 1
    assert _products(scaled, *_arguments("complex128")) == 1


def test_the_pass_does_what_its_docstring_says() -> None:
    before, after = examples(sum_computed_products)
    graph = parse_graph(before)
    assert sum_computed_products(graph)
    assert str(graph).strip() == str(parse_graph(after)).strip()
    assert not sum_computed_products(graph)
