"""Results that may be an argument itself, or a view: the same objects as in NumPy."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import sys

import numpy as np
import pytest

from jitcore import script
from jitcore.pipeline import NativePlan


def written_and_returned(x, y, n):
    y[0] = 5
    for _ in range(n):
        x = x + y
    return x, y


def in_one_branch(x, y, n):
    y += 1
    return x * 2 if n else x


def left_from_a_loop(x, y, n):
    y[:] = n
    while n > 0:
        x = x[::-1] * 1
        n -= 1
        if n == 3:
            return x
    return x


def exchanged(x, y, n):
    for _ in range(n):
        x, y = y, x + 1
    return x, y


@pytest.mark.parametrize(
    "function", [written_and_returned, in_one_branch, left_from_a_loop, exchanged]
)
def test_arguments_come_back_as_themselves(function):
    scripted = script(function)
    for n in (0, 1, 2, 5, 0):
        ours, theirs = (([np.arange(3.0), np.ones(3)]) for _ in range(2))
        found, expected = scripted(*ours, n), function(*theirs, n)
        if isinstance(expected, np.ndarray):
            found, expected = (found,), (expected,)
        for one, two in zip([*found, *ours], [*expected, *theirs], strict=True):
            np.testing.assert_array_equal(one, two)
        for one, two in zip(found, expected, strict=True):
            assert [one is given for given in ours] == [two is given for given in theirs]
    assert all(isinstance(one.plan, NativePlan) for one in scripted.specializations)


def test_references_are_counted():
    scripted = script(written_and_returned)
    x, y = np.arange(3.0), np.ones(3)
    scripted(x, y, 0)
    before = sys.getrefcount(x), sys.getrefcount(y)
    for n in (0, 1, 0, 2) * 20:
        scripted(x, y, n)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


def row_of_the_last(x, steps):
    first = x[0]
    total = 0.0
    for step in range(steps):
        table = np.zeros_like(x)
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                table[i, j] = x[i, j] * (step + 1) + first[j]
                total += table[i, j]
        first = table[0]
    return first, total


def test_a_loop_that_ends_with_a_view_has_native_parts():
    scripted = script(row_of_the_last)
    x = np.arange(12.0).reshape(3, 4)
    for steps in (0, 1, 4):
        (found, total), (expected, same) = scripted(x, steps), row_of_the_last(x, steps)
        np.testing.assert_array_equal(found, expected)
        assert total == same
        assert np.shares_memory(found, x) == (steps == 0)
    assert any("for " in kernel.source for kernel in scripted.kernels)
