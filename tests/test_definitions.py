"""Ops that are defined by Python functions: searches step by step, and what cannot be typed."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore.execution.strategy import fusion_strategy
from jitcore.ir.ops import TABLE
from jitcore.script import script

Array = np.ndarray[Any, Any]


def searched(samples, keys):
    return np.searchsorted(samples, keys), np.searchsorted(samples, keys, side="right")


def interpolated(keys, samples, values):
    return np.interp(keys, samples, values)


def digitized(keys, bins):
    return np.digitize(keys, bins), np.digitize(keys, bins, right=True)


def counted(places, weights):
    return np.bincount(places), np.bincount(places, weights)


def cases() -> Iterator[tuple[Array, Array, Array]]:
    """Samples, values at them and keys: sorted or not, with NaN and infinities or without."""
    random = np.random.default_rng(7)
    for number in range(120):
        samples = random.integers(0, 12, random.integers(1, 40)) / 2
        keys = random.integers(-2, 30, random.integers(0, 30)) / 4
        values = random.random(samples.size)
        for place, wrong in enumerate((np.nan, np.inf, -np.inf)):
            if number % 4 == place:
                samples[random.integers(samples.size)] = wrong
            if number % 5 == place and keys.size:
                keys[random.integers(keys.size)] = wrong
            if number % 7 == place:
                values[random.integers(values.size)] = wrong
        if number % 3 == 0:
            samples.sort()
        yield samples, values, keys


def test_searches_end_where_numpy_does_even_in_arrays_that_are_not_sorted():
    with fusion_strategy([("DYNAMIC", 20)]):
        compiled = {one: script(one) for one in (searched, interpolated, digitized, counted)}
        for samples, values, keys in cases():
            for function, args in (
                (searched, (samples, keys)),
                (interpolated, (keys, samples, values)),
                (digitized, (keys, np.sort(samples)[::-1])),
                (digitized, (keys, samples)),
                (counted, (np.arange(samples.size) % 5, values)),
            ):
                check(function, *args, script=compiled.get)


def test_a_definition_that_cannot_be_typed_leaves_nothing_behind():
    def program(places, x):
        return np.bincount(places.astype(np.float64)) + x

    def mixed(x, weights):
        return np.average(x, weights=weights) + x

    with pytest.raises(TypeError):
        script(program)(np.arange(3), np.ones(3))
    graph = script(mixed).graph_for(np.ones((2, 3)), np.ones((2, 1, 3)))
    assert [node.kind for node in graph.nodes() if node.host_reason] == ["np::average", "prim::add"]


@pytest.mark.parametrize("name", ["searchsorted", "interp", "bincount", "digitize"])
def test_searches_are_native(name):
    def program(x, y, k):
        return {
            "searchsorted": np.searchsorted(x, y),
            "interp": np.interp(x, y, y),
            "bincount": np.bincount(k),
            "digitize": np.digitize(x, y),
        }

    assert f"np::{name}" in TABLE
    graph = script(program).graph_for(np.arange(4.0), np.arange(4.0), np.arange(4))
    assert f"np::{name}" not in str(graph)


def test_errors_of_definitions_are_numpys_own():
    def after_a_write(x, places):
        x[0] = 7
        return np.bincount(places)

    for places in (np.array([1, -1]), np.array([2, 0])):
        check(after_a_write, np.zeros(3), places)


def counted_with_weights(places, weights):
    return np.bincount(places, weights)


def counted_where_positive(places, weights):
    return np.bincount(places[weights > 0], weights[weights > 0], minlength=2) * 2


def counted_beside_python(places, weights):
    return {"counts": np.bincount(places, weights), "sum": weights.sum() + 1}


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize(
    "function", [counted_with_weights, counted_where_positive, counted_beside_python]
)
def test_counts_of_no_elements_are_ints_whatever_weights_they_have(function, dtype):
    compiled = script(function)
    for sizes in ((3, 3), (0, 0), (5, 5), (0, 2), (1, 1), (0, 0), (4, 3), (0, 0)):
        for sign in (1.0, -1.0):
            places = np.arange(sizes[0]).astype(dtype)
            weights = sign * (np.arange(sizes[1]) + 0.5)
            check(function, places, weights, script=lambda _: compiled)


@pytest.mark.parametrize("bits", [8, 31, 52, 61, 62, 63, 64, 80, 333, 1200])
def test_whole_roots_beside_squares_of_any_size(bits):
    def root(n):
        return math.isqrt(n)

    def beside_python(n, places):
        # Python's integers are too large for the native part, which Python runs then.
        root = math.isqrt(n * 10 ** (2 * places))
        return {"root": root}

    number = random.Random(bits).getrandbits(bits) | 1 << bits - 1
    script_root = script(root)
    for square in (number, number**2, 2**bits):
        for n in (square - 1, square, square + 1):
            assert script_root(n) == math.isqrt(n)
    compiled = script(beside_python)
    for places in (1, 5, 12, 200):
        assert compiled(number, places) == beside_python(number, places)


def test_arrangements_of_more_than_there_are():
    def arrangements(n, k):
        return math.perm(n, k)

    compiled = script(arrangements)
    assert (
        compiled(3, 10**12) == 0 and compiled(5, 5) == 120 and compiled(30, 28) == math.perm(30, 28)
    )
