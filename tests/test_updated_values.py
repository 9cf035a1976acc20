# mypy: allow-untyped-defs, allow-untyped-calls
"""New arrays that are updated in place: the values that NumPy has at each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from argument_copies import copy_arguments
from pass_checking import check_pass, check_unchanged, examples

from jitcore import script
from jitcore.ir.passes.updated_values import use_updated_values

RNG = np.random.default_rng(22)
X = RNG.normal(size=(37, 50))
Y = RNG.normal(size=(37, 50))


def summed_shifts(x, y):
    total = -4.0 * x
    total += np.roll(x, 1, 0)
    total += np.roll(x, -1, 0)
    total += np.roll(np.roll(y, 1, 1), 2, 0)
    return x + 0.1 * total


def counted(x, y):
    count = np.zeros(x.shape, np.int64)
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            count += np.roll(np.roll((x > 0).astype(np.int64), i, 0), j, 1)
    return (count == 3) | ((y > 0) & (count == 2))


def returned(x, y):
    s = np.zeros_like(x)
    s += x * y
    s -= y
    s *= 0.5
    return s


def read_in_between(x, y):
    s = x * 2.0
    before = s + 1.0
    s += y
    middle = s * s
    s /= 3.0
    return before, middle, s - x


def viewed_before(x, y):
    s = x * 2.0
    top = s[:5]
    s += y
    seen = top * 3.0
    s -= 1.0
    return seen, top, s


def viewed_after(x, y):
    s = x * 2.0
    s += y
    s += x
    top = s[1:]
    s *= 2.0
    return top, s.sum()


def part_written(x, y):
    s = x * 2.0
    s += y
    s[3] = 0.0
    s += x
    s[:, 2] += 1.0
    s -= y
    return s * 1.0


def stored_argument(x, y):
    s = np.empty_like(x)
    s[...] = y
    y += 1.0
    s += x
    s += y
    return s - 1.0


def two_names(x, y):
    s = x + y
    t = s
    s += 1.0
    t *= 2.0
    s = s - t
    t += x
    return s, t


def spread_rows(x, y):
    s = np.zeros_like(x)
    s += y[0]
    s += y[:, :1]
    s[...] = s * s
    s += 2
    return s + x


def in_branches(x, y):
    s = x * 2.0
    s += y
    if y[0, 0] > 0:
        s += 1.0
    else:
        s *= 3.0
    s -= x
    return s + y


def in_loops(x, y):
    for i in range(3):
        s = x + i
        s += y
        for _ in range(i):
            s *= 0.5
        s += 1.0
        x = s * 0.1
        s -= y
    return x, s


def of_itself(x, y):
    s = x * 1.0
    s += s
    s *= s - y
    t = s + 0.0
    t += s
    s += t
    return s, t


def mixed_orders(x, y):
    a = x.T * 1.0
    b = np.zeros_like(a)
    b += a
    b += y.T
    c = a + 0.0
    c += np.ones(a.shape)
    c += y.T
    d = np.empty(a.shape)
    d[...] = a
    d += a
    return b * 2.0, c * 2.0, d * 2.0, b, c


def read_by_sums(x, y):
    s = x * y
    s += x
    first = s.sum(axis=0)
    s -= first
    second = s.max()
    s /= second
    return first, second, s.mean(axis=1)


ALL = [summed_shifts, counted, returned, read_in_between, viewed_before, viewed_after]
ALL += [part_written, stored_argument, two_names, spread_rows, in_branches, in_loops]
ALL += [of_itself, mixed_orders, read_by_sums]


@pytest.mark.parametrize("f", ALL)
def test_updates(f):
    for x, y in ((X, Y), (np.asfortranarray(X), Y), (X, np.asfortranarray(Y))):
        _check(f, x, y)
    _check(f, X[::-1, ::2], Y[:, 25:])
    if f not in (stored_argument, spread_rows, counted):
        _check(f, X.astype(np.float32), Y.astype(np.float32))


def test_what_is_read_in_place_of_an_updated_array():
    check_pass(use_updated_values, *examples(use_updated_values))


def test_an_array_with_another_name_keeps_its_stores():
    before = """
graph(%x : Float64[64], %y : Float64[64]):
  %0 : Float64[64] = np::multiply(%x, %x)
  %1 : Float64[63] = np::view[index="1:"](%0)
  %2 : Float64[64] = np::add(%0, %y)
  %3 : None = np::store[in_place=True](%0, %2)
  %4 : Float64[64] = np::subtract(%0, %x)
  %5 : None = np::store[in_place=True](%0, %4)
  return (%1)
"""
    check_unchanged(use_updated_values, before)


def shifts_of_one(x):
    total = np.zeros(x.shape)
    total += np.roll(x, 1, 0)
    total += np.roll(x, -1, 0)
    total -= 2.0 * x
    return total + x


def test_sums_of_shifted_arrays_are_one_loop():
    x = RNG.normal(size=(90, 110))
    function = script(shifts_of_one)
    np.testing.assert_array_equal(function(x), shifts_of_one(x))
    source = function.kernels[0].source
    assert "malloc(" not in source
    assert source.count(" store(") == 2  # the result's elements, and the result


def _check(f: Callable[..., Any], *args: Any) -> None:
    given, expected_args = copy_arguments(args), copy_arguments(args)
    expected, found = f(*expected_args), script(f)(*given)
    for one, other in zip(given, expected_args, strict=True):
        np.testing.assert_array_equal(one, other)
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4 if one.dtype == np.float32 else 1e-11)
        assert (type(one), one.dtype) == (type(other), other.dtype)
        assert getattr(one, "strides", ()) == getattr(other, "strides", ())
