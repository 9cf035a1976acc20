# mypy: allow-untyped-defs, allow-untyped-calls
"""Sums of products: one rounding for a product and its addition, and none for the product's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from jitcore import script
from jitcore.codegen.loop_passes.fused_sums import LEAST_TERMS, fuse_products
from jitcore.codegen.loop_passes.traversal import expressions, subexpressions, walk
from jitcore.codegen.loops import Binary


def products(x, y):
    return (x * y).sum()


def squares(x, y):
    return np.sum((x - y) ** 2)


def by_rows(x, y):
    return (x.reshape(8, -1) * y.reshape(8, -1)).sum(axis=1)


def sums(x, y):
    return (x + y).sum()


def product(x, y):
    return (x * y).prod()


def steps(x, y):
    total = 0.0
    for k in range(x.size):
        total = total + x[k] * y[k]
    return total


def kept(x, y):
    z = x * y
    return z, z.sum(), (z * x).sum()


def fused_in(function, *arguments):
    """How many products of a function's kernels may become one with an addition."""
    compiled = script(function)
    compiled(*arguments)
    found = 0
    for kernel in compiled.kernels:
        before, after = kernel.lowered.function, fuse_products(kernel.lowered.function)
        found += _loose_products(after) - _loose_products(before)
    return found


def _loose_products(function):
    return sum(
        isinstance(x, Binary) and x.op == "mul" and x.contract
        for statement in walk(function.body)
        for expression in expressions(statement)
        for x in subexpressions(expression)
    )


@pytest.mark.parametrize(
    ("function", "count"),
    [(products, 1), (squares, 1), (kept, 2), (sums, 0), (product, 0), (steps, 0)],
)
def test_which_products_are_fused(function, count):
    x = np.linspace(0, 1, 4096)
    assert fused_in(function, x, x) == count
    x = x.astype(np.float32)
    assert fused_in(function, x, x) == 0


def test_long_rows_are_fused():
    for columns in (8, LEAST_TERMS // 2, LEAST_TERMS, 4 * LEAST_TERMS):
        x = np.ones((40, columns))
        expected = columns >= LEAST_TERMS
        assert fused_in(lambda x, y: (x * y).sum(axis=1), x, x) == expected


@pytest.mark.parametrize("length", [8, 56, 1000, 4096, 40_008])
@pytest.mark.parametrize("function", [products, squares, by_rows])
def test_error_is_that_of_the_additions(function, length):
    random = np.random.default_rng(length)
    x, y = random.standard_normal((2, length)) * 10.0 ** random.integers(-3, 4, length)
    found = np.atleast_1d(script(function)(x, y))
    for result, part in zip(found, np.split(np.arange(length), len(found)), strict=True):
        if function is squares:
            terms = [Fraction(float(one)) ** 2 for one in (x - y)[part]]
        else:
            terms = [Fraction(a) * Fraction(b) for a, b in zip(x[part], y[part], strict=True)]
        exact = sum(terms)
        # Each term takes part in the additions of a register, of the registers and of blocks.
        bound = (256 + 16) * Fraction(2) ** -53 * sum(map(abs, terms))
        assert abs(Fraction(float(result)) - exact) <= bound


@pytest.mark.parametrize("length", [1, 7, 64, 1000, 65_536])
def test_products_by_themselves_have_their_bits(length):
    x, y = np.random.default_rng(length).standard_normal((2, length))
    z, total, weighted = script(kept)(x, y)
    np.testing.assert_array_equal(z, x * y)
    np.testing.assert_allclose((total, weighted), kept(x, y)[1:], rtol=1e-9, atol=1e-9)


def scaled(x, first, second):
    y = x * first
    return y.sum(), (y * second).sum()


def in_steps(x):
    y = x * 1e-318
    return y.sum(), (y * 1e300).sum()


@pytest.mark.parametrize("length", [200, 300, 5000])
def test_factors_in_a_row_stay_apart(length):
    x = np.random.default_rng(length).random(length)
    np.testing.assert_allclose(script(in_steps)(x), in_steps(x), rtol=1e-12)
    for factors in [(1e-318, 1e300), (1e300, 1e-300), (1e-200, 1e-200)]:
        expected = scaled(1e9 * x, *factors)
        np.testing.assert_allclose(script(scaled)(1e9 * x, *factors), expected, rtol=1e-12)


def test_special_numbers():
    for special in (np.inf, -np.inf, np.nan, 1e200, -0.0):
        x = np.full(300, special)
        with np.errstate(all="ignore"):
            np.testing.assert_equal(script(products)(x, x), products(x, x))
