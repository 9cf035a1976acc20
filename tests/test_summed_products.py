# mypy: allow-untyped-defs, allow-untyped-calls
"""Large matrices and vectors that are computed for the one product that reads them."""

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


def shoelace(x, y):
    return 0.5 * np.abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))


def squares_of_differences(x, y):
    d = x - y
    return d @ d


def of_a_reversed_difference(x, y):
    return np.dot(x[::-1], np.abs(y) - 1)


def written_between(x, y):
    d = x * y
    x[1:] = 3.0
    return d @ x


def rows_of_rolls(x, y):
    a, b = x[:1024].reshape(16, 64), y[:1024].reshape(16, 64)
    return (a * np.roll(b, 3, axis=1)).sum(axis=1) - (b * np.roll(a, -2, axis=1)).sum(axis=1)


def a_roll_read_again(x, y):
    r = np.roll(y, 5)
    return np.dot(x, r), r


def of_arrays(x, y):
    return x @ y + x[1:] @ y[:-1]


def in_steps(x, y):
    for _ in range(3):
        x = x - 0.25 * np.dot(x, y * 2) * y
    return x


SUMMED_VECTORS = [shoelace, squares_of_differences, of_a_reversed_difference, written_between]
VECTORS = [a_roll_read_again, of_arrays, in_steps]


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


def _vectors(count: int, dtype: str = "float64") -> tuple[Any, ...]:
    return tuple(np.random.default_rng(count).normal(size=(2, count)).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1027, 40_000])
@pytest.mark.parametrize("function", [*SUMMED_VECTORS, *VECTORS, rows_of_rolls])
def test_vectors(function: Callable[..., Any], count: int, dtype: str) -> None:
    check(function, *_vectors(count, dtype), reduction=True)


@pytest.mark.parametrize("function", [*SUMMED_VECTORS, *VECTORS])
def test_which_vectors_are_added_up_as_they_are_computed(function: Callable[..., Any]) -> None:
    assert (_products(function, *_vectors(1027)) == 0) == (function in SUMMED_VECTORS)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 77, 128])
def test_products_of_short_vectors_have_the_bits_of_numpy(count: int) -> None:
    for function in SUMMED_VECTORS:
        args = _vectors(count)
        expected = function(*(one.copy() for one in args))
        assert script(function)(*args).tobytes() == expected.tobytes()


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
def test_special_numbers_in_vectors(special: float) -> None:
    for function in SUMMED_VECTORS:
        x, y = _vectors(300)
        x[[0, 7]] = y[-1] = special
        check(function, x, y, reduction=True)


def test_an_error_of_vectors_that_do_not_fit() -> None:
    x, y = _vectors(300)
    with pytest.raises(ValueError, match="size 299 is different from 300|not aligned"):
        script(lambda x, y: (x * 2) @ (y + 1))(x, y[1:])


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
