# mypy: allow-untyped-defs, allow-untyped-calls
"""Reductions over axes of a few elements become elementwise, with NumPy's bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pass_checking import apply, examples

from checking import check
from jitcore import script
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.short_reductions import expand_short_reductions


def of_elements(x):
    return x.sum(axis=1), x.mean(axis=1), x.max(axis=1), x.min(axis=1), x.prod(axis=1)


def of_computed(x):
    return ((x - 1) * (x + 2)).sum(axis=1, keepdims=True), (x * x).mean(axis=1)


def all_or_any(x):
    return (x > 0).all(axis=1), np.any((x > 0.5) | (x < -1), axis=1, keepdims=True)


@pytest.mark.parametrize("function", [of_elements, of_computed, all_or_any])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 7, 8, 9])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
def test_rows_of_few_elements(function, columns, dtype):
    x = (np.random.default_rng(columns).normal(size=(37, columns)) * 9).astype(dtype)
    check(function, x, reduction=columns > 7)
    check(function, np.asfortranarray(x), reduction=columns > 7)
    check(function, x[::-2, ::-1], reduction=columns > 7)


@pytest.mark.parametrize("special", [np.nan, np.inf, -0.0])
def test_special_values(special):
    x = np.random.default_rng(1).normal(size=(40, 3))
    x[np.random.default_rng(2).random(x.shape) < 0.3] = special
    with np.errstate(invalid="ignore"):
        check(of_elements, x)
    check(of_elements, np.full((5, 3), special))


def complex_sums(z):
    return z.sum(axis=1), (z * z).sum(axis=0)


def test_complex_numbers():
    z = np.random.default_rng(3).normal(size=(20, 3, 2)) @ [1, 1j]
    check(complex_sums, z, reduction=True)


def distances(x, y):
    return np.sqrt(((x[:, None, :] - y[None, :, :]) ** 2).sum(-1))


def energies(p):
    d = p[:, None, :] - p
    r = (d * d).sum(axis=2) + 0.5
    return (1 / r**2 - 1 / r).sum(axis=1)


def leading(x):
    return x.sum(axis=0), (x * x).sum(axis=0) + 1, x.max(axis=0, keepdims=True)


def weighted(x, w):
    return (x * w).sum(axis=-1), (w * w * np.ones((2, 1, 1), x.dtype)).sum(axis=2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_coordinates_of_points(dtype):
    random = np.random.default_rng(4)
    x, y = (random.normal(size=(n, 3)).astype(dtype) for n in (50, 33))
    check(distances, x, y)
    check(energies, x, reduction=True)
    check(leading, x[:4])
    check(weighted, x, np.array([0.25, 0.5, 2.0], dtype))


def max_pool(x):
    rows, columns = x.shape
    return x.reshape(rows // 2, 2, columns // 2, 2).max(axis=(1, 3))


def mean_pool(x):
    rows, columns = x.shape
    blocks = x.reshape(rows // 2, 2, columns // 3, 3)
    return blocks.mean(axis=(1, 3)), blocks.sum(axis=(1,)), blocks.sum(axis=(1, 3))


def rows_of_blocks(x):
    return x.sum(axis=(1, 2)), x.sum(axis=(0, 2)), x.mean(axis=(0, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_axes(dtype):
    x = np.random.default_rng(5).normal(size=(12, 36)).astype(dtype)
    check(max_pool, x)
    check(mean_pool, x)
    check(mean_pool, np.asfortranarray(x), reduction=True)
    check(rows_of_blocks, x.reshape(-1, 2, 3), reduction=True)
    check(rows_of_blocks, x[:2].reshape(2, 18, 2), reduction=True)


def written_between(x):
    d = x * 2
    x[:] = 0
    return d.sum(axis=1)


def written_before_it_is_added_up(x):
    d = x * 2
    d[:, 1] = 7
    total = d.sum(axis=1)
    d[:, 2] = -1
    return total, d


def in_a_loop(x, steps):
    for _ in range(steps):
        x = x - x.sum(axis=1, keepdims=True) * 0.1
    return x


def in_a_loop_that_writes(x, steps):
    total = np.zeros(x.shape[0])
    for k in range(steps):
        d = x * k
        total += d.sum(axis=1)
        x[:, 0] += 1
    return total


def test_writes_are_seen():
    x = np.random.default_rng(6).normal(size=(30, 3))
    check(written_between, x, reduction=True)
    check(written_before_it_is_added_up, x, reduction=True)
    check(in_a_loop, x, 4, reduction=True)
    check(in_a_loop_that_writes, x, 4, reduction=True)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_rows_that_are_read_again_stay_together():
    x = np.random.default_rng(7).normal(size=(30, 4))
    check(softmax, x, ulp=4)
    assert "loops by rows" in str(script(softmax).explain(x))


def test_points_are_one_loop():
    x = np.random.default_rng(8).normal(size=(30, 3))
    graph = str(script(energies).graph_for(x))
    assert graph.count("np::sum") == 1 and graph.count("with prim::FusionGroup") == 1


def test_the_pass_does_what_its_docstring_says():
    before, after = examples(expand_short_reductions)
    graph, changed = apply(expand_short_reductions, before)
    assert changed and graph.strip() == str(parse_graph(after)).strip()


def test_what_stays():
    text = """
        graph(%x : Float32[n, 9], %y : Float32[n, k], %z : Float16[n, 3]):
          %0 : Float32[n] = np::sum[axis=(1,), keepdims=False](%x)
          %1 : Float32[n] = np::sum[axis=(1,), keepdims=False](%y)
          %2 : Float16[n] = np::sum[axis=(1,), keepdims=False](%z)
          return (%0, %1, %2)
        """
    _, changed = apply(expand_short_reductions, text)
    assert not changed


def standardized(x):
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt((x * x).sum(axis=1, keepdims=True))


def as_probabilities(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("function", [standardized, as_probabilities])
@pytest.mark.parametrize("columns", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_are_read_again(function, columns, dtype):
    x = np.random.default_rng(4).normal(size=(1003, columns)).astype(dtype)
    x[10], x[11] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        check(function, x, reduction=True, ulp=4)
        check(function, x[::-2, ::-1], reduction=True, ulp=4)


def row_sums(x):
    return x.sum(axis=1)


@pytest.mark.parametrize("columns", [8, 31, 32, 64, 100, 255, 256, 257, 600])
def test_sums_of_short_rows_are_as_accurate_as_those_in_pairs(columns):
    x = np.random.default_rng(5).uniform(0.5, 1.5, size=(200, columns))
    exact = np.array([math.fsum(row) for row in x])

    def error(sums):
        return np.abs(sums - exact).mean()

    found = script(row_sums)(x)
    # Beside pairs of many rows one rounding more or less is chance.
    assert error(found) <= 1.25 * error(row_sums(x))
    x[3, 1], x[4, 2] = np.inf, np.nan
    np.testing.assert_array_equal(np.isfinite(script(row_sums)(x)), np.isfinite(row_sums(x)))
