"""Slices whose step is a variable: NumPy's places for every step, in machine code."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jitcore import script
from jitcore.pipeline import NativePlan

STEPS = (1, 2, 3, 7, -1, -2, -5, 100, -100, 2**62, -(2**62), 2**63 - 1, -(2**63))
BOUNDS = (0, 2, -1, -3, 20, -20, 2**63 - 1, -(2**63))


def part(x, start, stop, step):
    return x[start:stop:step] * 1


def open_parts(x, step):
    return x[::step] + 0, x[2::step] + 0, x[:-2:step] + 0


def written(x, start, stop, step):
    x[start:stop:step] -= 7
    return x


def rows_and_columns(x, step):
    y = x.reshape(-1, 2)
    return y[::step, 1] + 0, y[:, ::step] + 0, y[::step].sum()


def sieve(x, n):
    is_prime = np.ones(n, bool)
    for i in range(2, n):
        if is_prime[i]:
            is_prime[i * i :: i] = False
    return np.flatnonzero(is_prime)


def native(function):
    """The scripted function, which has to be machine code once it was called."""
    scripted = script(function)

    def call(*args):
        result = scripted(*args)
        assert all(isinstance(one.plan, NativePlan) for one in scripted.specializations)
        return result

    return call


@pytest.mark.parametrize("length", [0, 1, 4, 10])
@pytest.mark.parametrize("function", [part, written])
def test_bounds_and_steps(function, length):
    scripted = native(function)
    for start, stop, step in itertools.product(BOUNDS, BOUNDS, STEPS):
        found = scripted(np.arange(length), start, stop, step)
        expected = function(np.arange(length), start, stop, step)
        np.testing.assert_array_equal(found, expected, f"{start}:{stop}:{step}")


@pytest.mark.parametrize("function", [open_parts, rows_and_columns])
def test_absent_bounds(function):
    scripted = native(function)
    for length, step in itertools.product((0, 2, 10), STEPS):
        found, expected = (one(np.arange(length), step) for one in (scripted, function))
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, two, f"::{step} of {length}")


def test_steps_of_a_loop():
    for n in (1, 2, 50):
        np.testing.assert_array_equal(native(sieve)(None, n), sieve(None, n))


@pytest.mark.parametrize("function", [open_parts, rows_and_columns])
def test_a_step_of_zero(function):
    scripted = script(function)
    for step in (1, 0):
        if step:
            scripted(np.arange(4), step)
            continue
        with pytest.raises(ValueError, match="^slice step cannot be zero$"):
            scripted(np.arange(4), step)


def overwritten(x, step):
    x[0] = 5
    x[::step] = 1
    return x


def test_a_step_of_zero_after_a_write():
    scripted = native(overwritten)
    scripted(np.arange(4), 2)
    x = np.arange(4)
    with pytest.raises(ValueError, match="^slice step cannot be zero$"):
        scripted(x, 0)
    assert x.tolist() == [5, 1, 2, 3]


def made_slices(x, n):
    parts = slice(None), slice(n), slice(n, None), slice(1, n), slice(None, n, 2)
    return tuple(x[part] * 2 for part in parts), x[(slice(n),)] + 1


@pytest.mark.parametrize("n", [0, 3, -2, 40])
def test_slices_of_one_two_and_three_numbers(n):
    x = np.arange(9.0)
    found, wanted = native(made_slices)(x, n), made_slices(x, n)
    for one, two in zip((*found[0], found[1]), (*wanted[0], wanted[1]), strict=True):
        np.testing.assert_array_equal(one, two)
