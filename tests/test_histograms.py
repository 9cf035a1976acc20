"""Histograms of equal bins: NumPy's own counts and edges, to the last bit."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
import pytest

from checking import check
from jitcore.execution.strategy import fusion_strategy
from jitcore.script import script


def counted(x, bins):
    return np.histogram(x, bins)


def weighted(x, bins, weights):
    return np.histogram(x, bins, weights=weights)


def in_range(x, bins, low, high, weights=None):
    return np.histogram(x, bins, (low, high), None, weights)


def dense(x, bins):
    return np.histogram(x, bins=bins, density=True)


def samples(dtype, size, number):
    """Normal numbers; some ties, some far from zero, some that are no numbers."""
    random = np.random.default_rng(number)
    x = (random.normal(size=size) * 10).astype(dtype)
    if dtype == "i8" and number % 3 == 0:
        x += 1_700_000_000_000_000_000
    if size and number % 5 == 0:
        x[:] = x[0]
    if size and dtype[0] == "f" and number % 4 == 1:
        x[0] = (np.nan, np.inf, -np.inf)[number % 3]
    return x


RANGES = ((-5.0, 5.0), (-3, 4), (0.1, 0.7), (2, 2), (3.0, 1.0), (0.0, np.inf))


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1"])
def test_counts_and_edges_are_numpys_to_the_last_bit(dtype):
    with fusion_strategy([("DYNAMIC", 8)]):
        compiled = {one: script(one) for one in (counted, weighted, in_range)}
        for number, size in enumerate((0, 1, 2, 7, 12, 30, 31, 100)):
            x = samples(dtype, size, number)
            random = np.random.default_rng(size)
            bins = int(random.integers(0, 60))
            check(counted, x, bins, script=compiled.get)
            check(weighted, x, bins, random.random(size), script=compiled.get)
            for low, high in RANGES:
                check(in_range, x, bins, low, high, script=compiled.get)


@pytest.mark.parametrize("weights", ["f4", "f8", "i8"])
def test_weights_are_added_up_block_by_block(weights):
    random = np.random.default_rng(3)
    x = random.random(200_000)
    check(weighted, x, 100, (random.random(x.size) * 1e3).astype(weights))
    check(in_range, x, 100, 0.25, 0.75, random.random(x.size).astype(weights))


def test_numbers_at_an_edge_are_in_the_bin_above_it_and_the_last_edge_is_in_the_last_bin():
    edges = np.linspace(0.1, 0.7, 38)
    check(counted, np.concatenate((edges, np.nextafter(edges, 1), np.nextafter(edges, 0))), 37)


def test_densities():
    check(dense, np.random.default_rng(0).normal(size=500), 12, ulp=4)


def test_histograms_of_matrices_are_native():
    def program(x, weights):
        return np.histogram(x, weights=weights)[0] / np.histogram(x)[0]

    x = np.arange(12.0).reshape(3, 4)
    check(program, x.T, x)
    check(program, x, x.T)
    assert "np::histogram" not in str(script(program).graph_for(x, x))


@pytest.mark.parametrize("bins", [np.array([0.0, 1.0, 3.0]), "auto", 2.5, True, np.int64(3)])
def test_other_bins_are_numpys_business(bins):
    check(counted, np.arange(5.0), bins)


def test_errors_after_a_write():
    def program(x, bins):
        x[0] = 7
        return np.histogram(x, bins)[0]

    check(program, np.arange(4.0), 0)
    check(program, np.arange(4.0), 2)


def test_a_float32_line_is_computed_in_float32():
    def line(x, number):
        return np.linspace(x[0], x[1], number)

    for number in (0, 1, 2, 50):
        check(line, np.array([0.1, 7.3], np.float32), number)
