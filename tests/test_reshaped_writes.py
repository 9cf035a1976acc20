# mypy: allow-untyped-defs, allow-untyped-calls
"""Writes to arrays in another shape: they are seen where NumPy makes a view, and only there.

One specialization serves strided arrays of many layouts, and some of them have a view where the
others are copied; so each function meets all layouts, in several orders.
"""

from __future__ import annotations

import numpy as np
import pytest

from jitcore import script


def flattened(x):
    v = x.reshape(-1)
    v += 1


def raveled(x):
    v = x.ravel()
    v += 1


def raveled_part(x):
    np.ravel(x)[1:] = 0


def every_second(x):
    x.ravel()[::2] += 1


def in_a_loop(x):
    v = x.reshape(x.size)
    for i in range(v.shape[0]):
        v[i] = v[i] * 2 + i


def of_rows(x):
    v = x.reshape(2, -1)
    v[0] += v[1]
    v[1] = v[0] - 1


def read_again(x):
    v = x.reshape(-1)
    x[...] = x * 3
    x += v.reshape(x.shape)


def transposed(x):
    v = x.T.reshape(-1)
    v *= 2
    w = x[::-1].reshape(-1)
    w += 1
    return v


def kept(x):
    v = x.ravel()
    v += 1
    return v


FUNCTIONS = [
    flattened,
    raveled,
    raveled_part,
    every_second,
    in_a_loop,
    of_rows,
    read_again,
    transposed,
    kept,
]


def numbers(*shape):
    return np.arange(np.prod(shape)).reshape(shape)


LINES = [
    lambda: numbers(12)[::-1],
    lambda: numbers(24)[::2],
    lambda: numbers(12),
    lambda: numbers(12, 1)[:, 0],
]
TABLES = [
    lambda: numbers(4, 6)[::-1],
    lambda: numbers(8, 6)[::2],
    lambda: numbers(4, 6),
    lambda: numbers(6, 4).T,
    lambda: numbers(4, 12)[:, ::2],
    lambda: numbers(4, 6)[:, ::-1],
    lambda: numbers(4, 7)[:, :6],
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("layouts", [LINES, LINES[::-1], TABLES, TABLES[::-1]])
def test_writes_are_seen_in_views_alone(function, layouts):
    scripted = script(function)
    for make in layouts * 2:
        expected, found = make(), make()
        result, other = function(expected), scripted(found)
        np.testing.assert_array_equal(found, expected)
        if result is not None:
            np.testing.assert_array_equal(other, result)
            assert other.strides == result.strides
            assert np.shares_memory(other, found) == np.shares_memory(result, expected)


def of_zeros(rows, columns):
    made = np.zeros((rows, columns)).T
    v = made.ravel()
    v += 1
    w = made.reshape(-1)
    w *= 3
    return made


def of_reversed_zeros(rows, columns):
    made = np.zeros((rows, columns))[::-1]
    v = made.reshape(-1)
    v += 1
    return made


@pytest.mark.parametrize("function", [of_zeros, of_reversed_zeros])
def test_axes_of_one_element_that_only_a_run_knows(function):
    scripted = script(function)
    for extents in [(3, 4), (2, 5), (4, 3), (3, 1), (1, 4), (1, 1), (0, 3)]:
        np.testing.assert_array_equal(scripted(*extents), function(*extents))


def test_a_reshape_of_a_strided_array_costs_no_copy():
    scripted = script(flattened)
    x = numbers(12)[::-1]
    scripted(x)
    assert "temporary" not in str(scripted.explain(x))
