"""Sums of few numbers have NumPy's bits, whatever they are computed from."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math

import numpy as np
import pytest

from jitcore import script


def products(x, y, mask):
    return np.sum(x * y)


def differences(x, y, mask):
    return (x - 3 * y).mean()


def reversed_elements(x, y, mask):
    return (x[::-1] * y).sum()


def selected(x, y, mask):
    return x[mask].sum()


def mean_of_selected(x, y, mask):
    return x[mask].mean()


def in_a_loop(x, y, mask):
    total = 0.0
    for k in range(3):
        total = total / 3 + np.sum(x * y + total * k)
    return total


FUNCTIONS = [products, differences, reversed_elements, selected, mean_of_selected, in_a_loop]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("length", [1, 7, 8, 9, 40, 127, 128])
def test_bits(function, length):
    scripted = script(function)
    generator = np.random.default_rng(length)
    for _ in range(20):
        x, y = generator.standard_normal((2, length)) * 10.0 ** generator.integers(-3, 4)
        mask = generator.random(length) < 0.6
        mask[0] = True
        assert scripted(x, y, mask) == function(x, y, mask)


def test_special_values():
    for values in ([np.inf, 1.0, -np.inf], [np.nan] * 9, [-0.0] * 9, [1e308] * 9):
        x = np.array(values)
        mask = np.ones(x.size, bool)
        for function in (products, selected):
            with np.errstate(all="ignore"):
                expected = function(x, np.ones_like(x), mask)
            result = script(function)(x, np.ones_like(x), mask)
            np.testing.assert_array_equal(result, expected)
            assert np.signbit(result) == np.signbit(expected) or np.isnan(expected)


def best_split(x, y, weights):
    best, place = np.inf, 0.0
    for k in range(x.shape[0]):
        predicted = np.ones(x.shape[0])
        predicted[x < x[k]] = -1
        error = weights[predicted != y].sum()
        if error < best:
            best, place = error, x[k]
    return best, place


def test_comparisons_of_sums_that_are_equal_but_for_their_order():
    generator = np.random.default_rng(1)
    for _ in range(20):
        x, y = generator.random(30), np.sign(generator.standard_normal(30))
        weights = np.full(30, 0.1)
        assert script(best_split)(x, y, weights) == best_split(x, y, weights)


@pytest.mark.parametrize("draw", ["uniform", "normal", "lognormal"])
@pytest.mark.parametrize("length", [256, 384, 512, 600, 768, 1000])
def test_rows_of_known_lengths_are_as_exact_as_pairwise_sums(length, draw):
    x = getattr(np.random.default_rng(length), draw)(size=(2000, length))
    exact = np.array([math.fsum(row) for row in x.tolist()])
    found, expected = (np.abs(f(x) - exact).mean() for f in (script(by_row), by_row))
    assert found <= 1.2 * expected


def by_row(x):
    return x.sum(axis=1)
