"""Lowering of reductions, scans and matrix products, against NumPy and ``math.fsum``."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lowering import check, compile_graph, fuse_all, lowered, native, outcome, same, typed

from jitcore import script

rng = np.random.default_rng(2)
X = rng.standard_normal((5, 7))
LONG = rng.standard_normal(3000)
BIG = rng.standard_normal((30, 700)).astype(np.float32)
INTEGERS = rng.integers(-9, 9, (5, 7))
CUBE = rng.standard_normal((3, 4, 5))
STACK = rng.standard_normal((3, 4, 5, 2))
COMPLEX = X + 1j * X[::-1]
WITH_NAN = np.where(X > 1, np.nan, X)
EMPTY = np.zeros((0, 3))


def totals(x):
    return x.sum(), x.mean(), x.prod()


def spread(x):
    return x.var(), x.std(), x.var(ddof=1)


def extrema(x):
    return x.min(), x.max(), x.argmin(), x.argmax()


def flags(x):
    return np.any(x), np.all(x), np.count_nonzero(x)


def over_first(x):
    return x.sum(axis=0), x.mean(axis=0), x.min(axis=0), x.argmin(axis=0), x.var(axis=0)


def over_last(x):
    return (
        x.sum(axis=1),
        x.mean(axis=-1, keepdims=True),
        x.max(axis=1, keepdims=True),
        x.std(axis=1),
    )


def flags_by_axis(x):
    return np.any(x > 0, axis=0), np.all(x > -2, axis=1), np.count_nonzero(x, axis=0)


def many_axes(x):
    return x.sum(axis=(0, 2)), x.sum(axis=(1, 3)), x.max(axis=(1, 2)), x.sum(axis=1)


LAYOUTS = [X, X.T, X[::2, ::-1], INTEGERS, WITH_NAN]


@pytest.mark.parametrize("x", [X, LONG, X.T, X[:, ::2], BIG, INTEGERS, COMPLEX])
def test_totals(x: Any) -> None:
    check(totals, x, exact=False)


@pytest.mark.parametrize("x", [X, LONG, BIG, INTEGERS])
def test_variance(x: Any) -> None:
    check(spread, x, exact=False)


@pytest.mark.parametrize("x", [*LAYOUTS, LONG, X > 0, INTEGERS.astype(np.uint8)])
def test_extrema_and_flags(x: Any) -> None:
    check(extrema, x)
    check(flags, x)


@pytest.mark.parametrize("x", [*LAYOUTS, BIG])
def test_axes(x: Any) -> None:
    check(over_first, x, exact=False)
    check(over_last, x, exact=False)
    check(flags_by_axis, x)


def test_many_axes() -> None:
    check(many_axes, STACK, exact=False)


def test_leading_axes_add_in_numpys_order() -> None:
    def f(x):
        return x.sum(axis=0), (x * 2).mean(axis=0)

    check(f, BIG)


def least(x):
    return x.min()


def least_of_columns(x):
    return x.min(axis=0)


def least_of_rows(x):
    return x.min(axis=1)


def place_in_columns(x):
    return x.argmax(axis=0)


def sums(x):
    return x.sum(axis=0), x.sum(), x.prod(axis=1)


@pytest.mark.parametrize("f", [least, least_of_columns, least_of_rows, place_in_columns, sums])
def test_empty(f: Callable[..., Any]) -> None:
    check(f, EMPTY)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, w):
    m = x.mean(axis=-1, keepdims=True)
    d = x - m
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * w


def test_rows() -> None:
    check(softmax, X, exact=False)
    check(softmax, BIG, exact=False)
    check(softmax, CUBE, exact=False)
    check(layer_norm, X, X[0], exact=False)


def means_and_rows(x, w):
    m = x.mean(axis=-1)
    v = x.var(axis=-1)
    return (x - m[:, None]) / np.sqrt(v[:, None] + 1e-5) * w, m, v


def log_sum_exp(x):
    m = x.max(axis=1)
    return np.log(np.exp(x - m[:, None]).sum(axis=1)) + m, m


def several_results(q):
    s = q.sum(axis=-1, keepdims=True)
    t = q.max(axis=-1)
    return q / s, t, np.exp(q) - t[:, :, None]


def along_another_axis(x):
    return x + x.sum(axis=1)


@pytest.mark.parametrize(
    ("f", "args", "by_rows"),
    [
        (softmax, (X,), True),
        (softmax, (BIG,), True),
        (softmax, (CUBE,), True),
        (softmax, (X[:, ::2],), True),
        (softmax, (X[:0],), True),
        (softmax, (X[:, :0],), True),
        (layer_norm, (X, X[0]), True),
        (means_and_rows, (X, X[0]), True),
        (log_sum_exp, (BIG,), True),
        (several_results, (CUBE,), True),
        (along_another_axis, (X[:, :5],), False),
    ],
)
def test_groups_by_rows(f: Callable[..., Any], args: tuple[Any, ...], by_rows: bool) -> None:
    graph = fuse_all(typed(f, *args))
    made = lowered(graph, *args)
    assert any("by rows" in note for note in made.notes) == by_rows
    assert not by_rows or not any("temporary" in note for note in made.notes)
    compiled = compile_graph(graph, *args)
    same(outcome(lambda: compiled(*args)), outcome(lambda: f(*args)), exact=False)


def test_columns_of_fortran_ordered_arrays() -> None:
    x = np.asfortranarray(X)

    def f(x, y):
        return np.sqrt(np.abs(x)) * y + 1

    found = native(f, x, x)
    assert found.flags.f_contiguous and not found.flags.c_contiguous
    same(found, f(x, x))
    check(f, x, X)
    check(f, x, X[:, :1])
    check(over_first, x, exact=False)
    check(over_last, x, exact=False)


def total(x):
    return x.sum()


@pytest.mark.parametrize("scale", [1.0, 1e16])
def test_sums_are_as_accurate_as_pairwise(scale: float) -> None:
    errors = np.zeros((2, 2))
    for _ in range(30):
        x = rng.standard_normal(100_003)
        x[::2] *= scale
        for number, dtype in enumerate((np.float64, np.float32)):
            values = x.astype(dtype)
            exact = math.fsum(values)
            found = float(native(total, values)), float(values.sum())
            errors[number] += [abs(one - exact) for one in found]
    assert (errors[:, 0] <= 1.25 * errors[:, 1]).all()


def test_infinite_sums() -> None:
    for values in ([np.inf, 1.0], [np.inf, -np.inf], [np.nan, 1.0], [1e308, 1e308]):
        check(total, np.array(values * 300))


def running(x):
    return np.cumsum(x), np.cumprod(x)


def running_along(x):
    return np.cumsum(x, axis=0), np.cumprod(x, axis=1), np.cumsum(x * 2, axis=1)


def test_scans() -> None:
    check(running, LONG[:50])
    check(running, INTEGERS[0])
    check(running_along, X)
    check(running_along, EMPTY)
    check(running_along, COMPLEX, exact=False)


def product(x, y):
    return x @ y


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (X, X.T),
        (X, X.T.copy()),
        (X, X[0]),
        (X[:, 0], X),
        (LONG, LONG),
        (CUBE, CUBE[0].T),
        (CUBE, CUBE.transpose(0, 2, 1)),
        (CUBE, CUBE[:1].transpose(0, 2, 1).copy()),
        (COMPLEX, COMPLEX.T),
        (X > 0, X.T > 0),
        (INTEGERS, INTEGERS.T),
        (BIG[:, :50], BIG[:, :50].T),
        (X, X),
        (EMPTY, np.ones((3, 4))),
        (EMPTY.T, EMPTY),
    ],
)
def test_matmul(x: Any, y: Any) -> None:
    check(product, x, y, exact=False)


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), (1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_results_of_arrays_in_fortran_order(axis: Any, keepdims: bool) -> None:
    x = np.asfortranarray(CUBE)
    check(lambda x: x.max(axis=axis, keepdims=keepdims), x)
    check(lambda x: x.sum(axis=axis, keepdims=keepdims), x, exact=False)
    check(lambda x: x.std(axis=axis, keepdims=keepdims), x, exact=False)
    check(lambda x: x.argmax(axis=1), x)
    made = native(lambda x: x.min(axis=axis, keepdims=keepdims), x)
    assert made.strides == x.min(axis=axis, keepdims=keepdims).strides


@pytest.mark.parametrize("fuse", [False, True])
def test_a_softmax_of_columns_keeps_their_order(fuse: bool) -> None:
    def softmax(x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    x = np.asfortranarray(X)
    check(softmax, x, exact=False)
    assert native(softmax, x, fuse=fuse).strides == softmax(x).strides


# Places along leading axes ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_places_along_an_axis(dtype: str, axis: int) -> None:
    numbers = np.random.default_rng(3).integers(0, 5, (7, 6, 5)).astype(dtype)
    if numbers.dtype.kind == "f":
        numbers[3:5, 2] = np.nan
        numbers[:, 3, 1] = -0.0
    for x in (numbers, numbers.transpose(2, 0, 1), np.asfortranarray(numbers), numbers[::-1, ::2]):
        for find in (np.argmax, np.argmin):
            found = script(lambda a, find=find: find(a, axis=axis))(x)
            np.testing.assert_array_equal(found, find(x, axis=axis))
