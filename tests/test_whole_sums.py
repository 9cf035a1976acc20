# mypy: allow-untyped-defs, allow-untyped-calls
"""Sums and means of bools and of small integers as floats: NumPy's values, without a rounding."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from pass_checking import apply, examples

from checking import check
from jitcore import script, set_fusion_strategy
from jitcore.ir.passes.whole_sums import sum_whole_numbers


def share_above(x, bound):
    return (x > bound).mean()


def shares_of_columns(x, bound):
    above = x > bound
    return above.mean(axis=0), above.mean(axis=1, keepdims=True), above.mean(axis=(0, 1))


def added_as_floats(x, bound):
    return (x > bound).astype(np.float64).sum(), (x > bound).astype(np.float32).sum()


def centred(x, bound):
    above = x > bound
    return above - above.mean(), above.sum()


@pytest.mark.parametrize("function", [share_above, shares_of_columns, added_as_floats, centred])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 3), (130, 5), (33, 70)])
def test_shares_are_numpys(function, shape):
    x = np.random.default_rng(len(shape)).normal(size=shape)
    x[::3] = np.nan
    for one in (x, x.astype(np.float32), np.asfortranarray(x), x[::-1, ::-1]):
        check(function, one, 0.1)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "bool"])
def test_means_of_small_integers_are_numpys(dtype):
    x = np.random.default_rng(5).integers(0, 120, (301, 3)).astype(dtype)
    for function in (lambda x: x.mean(), lambda x: x.mean(axis=0), lambda x: x - x.mean()):
        check(function, x)
        check(function, x[::2, 1:])


def converted_then_written(x):
    y = x.astype(np.float64)
    x[:] = 0
    return y.sum(), y.mean(axis=0), x.mean()


def written_in_loop(x):
    y = x[1:].astype(np.float64)
    total = 0.0
    for k in range(3):
        total += y.sum()
        x[k] = 0
    return total


def result_written(x):
    y = x.astype(np.float64)
    y[0] = 2.5
    return y.sum(), y.mean()


@pytest.mark.parametrize("function", [converted_then_written, written_in_loop, result_written])
def test_terms_that_are_written_before_they_are_added(function):
    x = np.random.default_rng(6).integers(0, 2, (30, 4))
    for dtype in (np.bool_, np.uint8, np.int16):
        check(function, x.astype(dtype))


def test_extents_that_vary():
    compiled = script(share_above)
    before = set_fusion_strategy([("DYNAMIC", 1)])
    try:
        for rows in (5, 64, 0, 1001):
            x = np.random.default_rng(rows).normal(size=(rows, 4))
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                np.testing.assert_array_equal(compiled(x, 0.2), share_above(x, 0.2))
    finally:
        set_fusion_strategy(before)


def test_the_example():
    before, after = examples(sum_whole_numbers)
    graph, changed = apply(sum_whole_numbers, before)
    assert graph == after and changed
    assert not apply(sum_whole_numbers, after)[1]
