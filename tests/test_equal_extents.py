# mypy: allow-untyped-defs, allow-untyped-calls
"""Extents that are equal by the way they come about, and operations before a reshape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import Pass, check_pass, examples

from checking import check
from jitcore import script
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.common_reshapes import read_stored_values, reshape_results
from jitcore.ir.passes.equal_extents import join_equal_extents
from jitcore.ir.passes.same_extents import same_extents

X = np.random.default_rng(5).normal(size=40)
Y = X[::-1] * 2


def selections(x, y):
    inside = x > 0
    return x[inside] + y[inside]


def survivors(x, y):
    values, weights = x.copy(), y.copy()
    for _ in range(5):
        if not len(values):
            break
        np.add(values, weights, values)
        small = np.abs(values) < 3
        values, weights = values[small], weights[small]
    return values * weights


def branches(x, y):
    if x[0] > 0:
        inside = x > 0
    else:
        inside = y > 0
    kept, other = x[inside], y[inside]
    if len(kept) > 3:
        kept, other = kept[1:], other[1:]
    return kept + other


def of_one_number(x, y):
    n = int(y[0] > 100) + 7
    first = np.zeros(n)
    first[:] = x[:n]
    second = y[:n]
    return first + second


EQUAL = [selections, survivors, branches, of_one_number]


def changed_mask(x, y):
    inside = x > 0
    first = x[inside]
    inside[:] = y > -1
    second = y[inside]
    return first, second, len(first) == len(second)


def exchanged(x, y):
    first, second = x[x > 0], y[y > 1]
    third = first
    for _ in range(3):
        first, second, third = second, first, first
    return first, second, third


def shrinking(x, y):
    first, second = x.copy(), y.copy()
    for i in range(4):
        first = first[1:]
        if i < 2:
            second = second[1:]
    return first[:10], second, len(first), len(second)


def grown_in_one_branch(x, y):
    first, second = x[:5], y[:5]
    if x[1] > 100:
        first = x
    return first, second


DIFFERENT = [changed_mask, exchanged, shrinking, grown_in_one_branch]


@pytest.mark.parametrize("function", EQUAL + DIFFERENT)
def test_equal_extents(function: Callable[..., Any]) -> None:
    check(function, X, Y)
    check(function, -X, Y[:3].repeat(14)[:40])


@pytest.mark.parametrize("function", [join_equal_extents, read_stored_values, reshape_results])
def test_docstring(function: Pass) -> None:
    check_pass(function, *examples(function))


def lengths_of_selections(x, y):
    inside = x > 0
    first, second = x[inside], y[inside]
    return first.size, (first * second).sum(), first, second


def test_one_symbol_for_what_one_mask_selects() -> None:
    compiled = script(lengths_of_selections)
    check(lengths_of_selections, X, Y, reduction=True)
    compiled(X, Y)
    text = str(compiled.graph_for(X, Y))
    assert text.count("np::compress") == 2
    # One count for both selections, and no comparison of their lengths.
    source = compiled.kernels[0].source
    assert source is not None
    assert source.count("count = 0") + source.count("count: int64 = 0") == 1


def butterfly(x, n):
    parts = np.reshape(x, (n, 2, -1))
    turned = np.transpose(parts, axes=(1, 0, 2))
    factors = np.empty((2, n, x.size // (2 * n)), x.dtype)
    factors[:] = np.repeat(np.reshape(np.arange(2 * n) * 0.5, (2, n, 1)), x.size // (2 * n), axis=2)
    product = np.reshape(turned, (x.size,)) * np.reshape(factors, (x.size,))
    return product + 1


def flat_sum(x, n):
    table = np.reshape(x, (n, -1))
    return (np.reshape(table.T, (x.size,)) - np.reshape(table.T, (x.size,)) * 2).sum()


def written_between(x, n):
    table = np.reshape(x, (n, -1)).copy()
    first = np.reshape(table.T, (x.size,))
    table[0] = 7
    return (first + np.reshape(table.T, (x.size,))) * 2


def returned_as_it_is(x, n):
    table = np.reshape(x, (n, -1))
    return np.reshape(table.T, (x.size,)) * 3


def stored_twice(x, n):
    made = np.empty((n, x.size // n))
    made[:] = 2
    first = np.reshape(made, (x.size,)) + x
    made[:] = np.reshape(x, (n, -1))
    return first, np.reshape(made, (x.size,)) * 1


def read_before(x, n):
    made = np.empty((n, x.size // n))
    made[:] = 1
    made[:] = np.reshape(made, (n, -1)) + np.reshape(x, (n, -1))
    return np.reshape(made, (x.size,)) * 2, made


@pytest.mark.parametrize(
    "function",
    [butterfly, flat_sum, written_between, returned_as_it_is, stored_twice, read_before],
)
@pytest.mark.parametrize("dtype", ["float64", "complex128", "int32"])
def test_operations_before_a_reshape(function: Callable[..., Any], dtype: str) -> None:
    x = np.arange(96).astype(dtype)
    for n in (4, 48):
        check(function, x, n, reduction=True)


def test_a_transposed_product_makes_one_pass() -> None:
    compiled = script(butterfly)
    compiled(np.arange(96.0), 4)
    notes = compiled.kernels[0].lowered.notes
    assert sum("3 nested loops" in note for note in notes) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64"])
@pytest.mark.parametrize("rows, terms", [(2, 2), (3, 1), (9, 4), (64, 3), (5, 5)])
@pytest.mark.parametrize("columns", [3, 200])
def test_products_of_few_terms(dtype: str, rows: int, terms: int, columns: int) -> None:
    random = np.random.default_rng(7)
    x, y = random.normal(size=(rows, terms)) * 5, random.normal(size=(terms, columns)) * 5

    def product(x, y):
        return x @ y

    imaginary = 1j if dtype.startswith("c") else 0
    left, right = (x * (1 + imaginary)).astype(dtype), (y * (1 - imaginary)).astype(dtype)
    check(product, left, right, reduction=True)
    check(product, np.stack([left] * 3), right, reduction=True)
    check(product, left, right[:, ::-1], reduction=True)
    transposed = np.ascontiguousarray(right.T).T
    check(product, left, transposed, reduction=True)
    check(product, np.stack([left] * 3), transposed, reduction=True)


def moved(points, matrix, offset):
    return points @ matrix.T + offset


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("terms, columns", [(3, 3), (2, 2), (4, 3), (3, 9)])
def test_points_times_small_matrices(dtype: str, terms: int, columns: int) -> None:
    random = np.random.default_rng(8)
    points = random.standard_normal((2001, terms)).astype(dtype)
    points[5], points[6], points[7] = np.inf, np.nan, -0.0
    both = random.standard_normal((columns, terms + 1)).astype(dtype)
    matrix, offset = both[:, :terms].copy(), both[:, terms].copy()
    compiled = script(moved)
    compiled(points, matrix, offset)
    assert "jc_gemm" not in (source := compiled.kernels[0].source)
    assert "few_rows" not in source and "jc_matmul" not in source
    check(moved, points, matrix, offset, reduction=True)
    check(moved, points[::-3], matrix[:, ::-1], offset, reduction=True)


def relaxed(a, b, steps):
    for _ in range(steps):
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, 2:] + a[1:-1, ::1][:, :-2])
        a[1:-1, 1:-1] = b[1:-1, 1:-1] - b[:-2, :-2]


def every_other(a, b):
    a[::2] = b[::2] * 2
    b[1::2] -= a[:-1:2]


SHAPES = [(20, 30), (21, 31), (33, 9), (4, 40)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *((shape, shape) for shape in SHAPES),
        # One row of the one fits all rows of the other, which is no error.
        ((3, 30), (12, 30)),
        ((12, 3), (12, 30)),
        ((9, 30), (12, 30)),
        ((12, 30), (12, 29)),
        ((2, 2), (2, 2)),
        ((1, 5), (1, 5)),
    ],
)
def test_slices_of_one_length(first: tuple[int, int], second: tuple[int, int]) -> None:
    random = np.random.default_rng(7)
    compiled, of_steps = script(relaxed), script(every_other)
    for shape in SHAPES:
        compiled(np.ones(shape), np.ones(shape), 1)
        of_steps(np.ones(shape[0]), np.ones(shape[0]))
    a, b = random.normal(size=first), random.normal(size=second)
    check(relaxed, a, b, 3, script=lambda _: compiled)
    check(every_other, a[:, 0].copy(), b[:, 0].copy(), script=lambda _: of_steps)


def test_stores_of_slices_need_no_memory_between() -> None:
    compiled = script(relaxed)
    for shape in SHAPES:
        compiled(np.ones(shape), np.ones(shape), 1)
    made = compiled.specializations[-1]
    assert made.kind == "DYNAMIC"
    first, second = made.plan.graph.inputs[:2]
    assert first.type == second.type
    assert str(made.plan.graph).count(" = prim::FusionGroup_") == 0
    (kernel,) = compiled.kernels[-1:]
    assert "jc_malloc" not in kernel.source


def test_slices_of_other_lengths_say_nothing() -> None:
    graph = parse_graph("""graph(%x : Float64[n], %y : Float64[m]):
  %0 : Float64[s] = np::view[index="1:-1"](%x)
  %1 : Float64[t] = np::view[index="1:"](%y)
  %2 : Float64[u] = np::add(%0, %1)
  %3 : Float64[v] = np::view[index=":4"](%x)
  %4 : Float64[w] = np::view[index=":4"](%y)
  %5 : Float64[z] = np::add(%3, %4)
  return (%2, %5)
""")
    assert not same_extents(graph)
