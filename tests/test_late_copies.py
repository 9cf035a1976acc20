# mypy: allow-untyped-defs, allow-untyped-calls
"""Arrays of the step before: copies that are read until the array is written, and new arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from argument_copies import copy_arguments
from pass_checking import check_pass, check_unchanged, examples

from jitcore import script, set_fusion_strategy
from jitcore.ir.passes.late_copies import read_copied_arrays

RNG = np.random.default_rng(21)
LINE = RNG.normal(size=4000)
PLANE = RNG.normal(size=(90, 70))


def diffused(u, n):
    for _ in range(n):
        before = u.copy()
        u[1:-1] = before[1:-1] + 0.2 * (before[2:] - 2.0 * before[1:-1] + before[:-2])
        u[0] = u[-2]
    return u


def in_a_plane(u, n):
    for _ in range(n):
        w = u.copy()
        u[1:-1, 1:-1] = 0.25 * (w[2:, 1:-1] + w[:-2, 1:-1] + w[1:-1, 2:] + w[1:-1, :-2])
    return u


def read_after_the_write(u, n):
    for _ in range(n):
        w = u.copy()
        u[1:] = w[:-1] * 0.5
        u[0] = 1.0
        u[2:] = u[2:] + w[:-2]
    return u


def written_before_it_is_read(u, n):
    for _ in range(n):
        w = u.copy()
        u[3] = 7.0
        u[1:] = w[:-1] - w[1:]
    return u


def copy_changed(u, n):
    for _ in range(n):
        w = u.copy()
        w[0] = 2.0
        u[1:] = w[:-1] * 0.5 + w[1:]
    return u


def copy_kept(u, n):
    w = u.copy()
    for _ in range(n):
        w = u.copy()
        u[1:] = w[:-1] * 0.5 + w[1:]
    return u, w


def order_shows(u, n):
    w = u.copy()
    r = w * 2.0
    u[1:] = w[:-1]
    return r, u


def two_fields(u, n):
    v = u * 0.5
    for _ in range(n):
        a, b = u.copy(), v.copy()
        u[1:-1] = a[1:-1] - 0.1 * a[1:-1] * (a[1:-1] - a[:-2]) + b[2:]
        v[1:-1] = b[1:-1] - 0.1 * a[1:-1] * (b[1:-1] - b[:-2])
    return u, v


def wave(u, n):
    v = u * 0.9
    for _ in range(n):
        w = 2.0 * u - v
        w[1:-1] += 0.2 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
        v = u
        u = w
    return u, v


def relaxed(u, n):
    error = 1.0
    while error > 1e-3 and n > 0:
        w = u.copy()
        w[1:-1] = 0.5 * (u[2:] + u[:-2])
        error = np.abs(w - u).max()
        u = w
        n -= 1
    return u, error


def of_two_steps(u, n):
    v = u
    for i in range(n):
        w = u + 1.0
        if i % 2:
            w[1:] += v[:-1]
        else:
            w[:-1] -= v[1:]
        u, v = w, u
    return u, v


def inner_steps(u, n):
    v = u
    for i in range(n):
        w = v * 0.5
        for _ in range(i):
            x = w + v
            x[1:] += w[:-1] - u[1:]
            w[2:] += x[:-2]
            u = x
        v = w
    return u, v


STEPS = [diffused, read_after_the_write, written_before_it_is_read, copy_changed, copy_kept]
NEW_ARRAYS = [two_fields, wave, relaxed, of_two_steps, inner_steps]


@pytest.mark.parametrize("f", [*STEPS, *NEW_ARRAYS])
def test_steps_along_a_line(f):
    for count in (0, 1, 5):
        _check(f, LINE, count)
    _check(f, LINE[::-2], 3)
    _check(f, LINE.astype(np.float32)[:40], 3)


@pytest.mark.parametrize("f", [in_a_plane, order_shows, relaxed, wave])
def test_steps_in_a_plane(f):
    for u in (PLANE, np.asfortranarray(PLANE), PLANE[::-1, ::2]):
        _check(f, u, 4)


@pytest.mark.parametrize("f", [diffused, two_fields, wave, inner_steps])
def test_extents_that_are_not_known(f):
    function = script(f)
    before = set_fusion_strategy([("DYNAMIC", 4)])
    try:
        for size in (3, 40, 4000):
            _compare(function, f, LINE[:size], 3)
    finally:
        set_fusion_strategy(before)


def test_what_is_read_in_place_of_a_copy():
    check_pass(read_copied_arrays, *examples(read_copied_arrays))


def test_copies_that_several_stores_read_stay():
    before = """
graph(%u : Float64[64]):
  %0 : Float64[64] = np::copy[order="C"](%u)
  %1 : Float64[63] = np::view[index="1:"](%u)
  %2 : Float64[63] = np::view[index=":-1"](%0)
  %3 : None = np::store(%1, %2)
  %4 : None = np::store(%1, %2)
  return ()
"""
    check_unchanged(read_copied_arrays, before)


def test_a_step_writes_each_element_once():
    function = script(wave)
    function(LINE, 3)
    steps = function.kernels[0].source
    assert "_new" not in steps  # a copy of the values, where memory might be shared


def _check(f: Callable[..., Any], *args: Any) -> None:
    _compare(script(f), f, *args)


def _compare(function: Callable[..., Any], f: Callable[..., Any], *args: Any) -> None:
    given, expected_args = copy_arguments(args), copy_arguments(args)
    expected, found = f(*expected_args), function(*given)
    np.testing.assert_array_equal(given[0], expected_args[0])
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert type(one) is type(other)
        assert getattr(one, "strides", ()) == getattr(other, "strides", ())
