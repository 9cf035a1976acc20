"""Lists of tuples, and of NumPy's scalars, that a function makes and returns."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import copy
import gc
import sys
from typing import NamedTuple

import numpy as np
import pytest

from jitcore import script

X = np.sin(np.arange(60) * 0.7) * np.arange(60) * 0.1


def edges(x, low, high):
    found = []
    state = False
    for i in range(x.shape[0]):
        if not state and x[i] > high:
            state = True
            found.append((i, 1))
        elif state and x[i] < low:
            state = False
            found.append((i, -1))
    return found


def peaks(x, low, high):
    found = []
    last, place, direction = x[0], 0, 0
    for i in range(1, len(x)):
        if direction >= 0 and x[i] > last:
            last, place, direction = x[i], i, 1
        elif direction <= 0 and x[i] < last:
            last, place, direction = x[i], i, -1
        elif abs(x[i] - last) > high:
            found.append((place, last))
            direction = -direction
            last, place = x[i], i
    return found


def all_kinds(x, low, high):
    rows = []
    for i in range(x.shape[0]):
        rows.append((i, float(x[i]), x[i] > high, bool(x[i] < low), x[i], np.int64(i) * 2))
    return rows


def scalars(x, low, high):
    above = []
    for value in x:
        if value > high:
            above.append(value)
    return above, len(above)


def under_two_names(x, low, high):
    first = [(0, x[0])]
    second = first
    for i in range(x.shape[0]):
        first.append((i, x[i]))
        if x[i] > high:
            second.append((-i, x[i]))
    return first


def none_at_all(x, low, high):
    found = []
    for i in range(x.shape[0]):
        if x[i] > 1e9:
            found.append((i, i))
    return found, low


def single(x, low, high):
    found = []
    for i in range(x.shape[0]):
        found.append((i,))
    return found


def sums(x, low, high):
    state = (1.0, 2.0, 3.0)
    history = [state]
    for _ in range(20):
        a, b, c = state
        state = (a + low * b, b - high * c, c + low)
        history.append(state)
    return history


NATIVE = [edges, peaks, all_kinds, scalars, under_two_names, none_at_all, single, sums]


def float32_scalars(x, low, high):
    found = []
    for value in x.astype(np.float32):
        found.append((value, 1))
    return found


def nested(x, low, high):
    found = []
    for i in range(x.shape[0]):
        found.append(((i, i + 1), x[i]))
    return found


def wide(x, low, high):
    found = []
    for i in range(x.shape[0]):
        found.append((i, 1, 2, 3, 4, 5, 6, 7, 8, 9))
    return found


class Point(NamedTuple):
    x: int
    y: float


def named(x, low, high):
    found = []
    for i in range(x.shape[0]):
        found.append(Point(i, float(x[i])))
    return found


def changed_by_others(x, low, high):
    found = []
    for i in range(x.shape[0]):
        found.append((float(x[i]), i))
    return sorted(found), max(found), found


ANY_FORM = [*NATIVE, float32_scalars, nested, wide, named, changed_by_others]


def _same(one, other):
    assert type(one) is type(other)
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            _same(*pair)
    else:
        assert one == other


@pytest.mark.parametrize("function", ANY_FORM)
def test_what_is_returned(function):
    scripted = script(function)
    for x in (X, X[:1], -X, X[::2]):
        for _ in range(3):
            _same(scripted(x, -0.5, 0.5), function(x, -0.5, 0.5))


@pytest.mark.parametrize("function", NATIVE)
def test_they_are_made_by_compiled_code(function):
    report = str(script(function).explain(X, -0.5, 0.5))
    assert "machine code, without Python" in report


def test_nan_and_large_ints():
    x = np.array([np.nan, np.inf, -0.0, 1e300])
    (_, value, *_), *_ = script(all_kinds)(x, -1.0, 1.0)
    assert np.isnan(value)
    assert str(script(all_kinds)(x, -1.0, 1.0)) == str(all_kinds(x, -1.0, 1.0))


def doubling(n):
    found = []
    value = 1
    for i in range(n):
        found.append((i, value))
        value *= 2
    return found


def test_ints_that_do_not_fit_are_pythons():
    scripted = script(doubling)
    assert scripted(10) == doubling(10)
    assert scripted(80) == doubling(80)


def test_every_call_makes_new_lists_that_are_freed():
    scripted = script(all_kinds)
    first, second = scripted(X, -0.5, 0.5), scripted(X, -0.5, 0.5)
    assert first is not second and first[3] is not second[3]
    kept = copy.deepcopy(second)
    first.clear()
    assert second == kept
    counts = []
    for _ in range(6):
        for _ in range(50):
            scripted(X, -0.5, 0.5)
        gc.collect()
        counts.append(sys.getallocatedblocks())
    assert counts[-1] - counts[2] < 60  # fewer than one list has tuples
    before = sys.getrefcount(np.True_), sys.getrefcount(np.float64)
    for _ in range(100):
        scripted(X, -0.5, 0.5)
    after = sys.getrefcount(np.True_), sys.getrefcount(np.float64)
    assert max(abs(b - a) for a, b in zip(before, after, strict=True)) < 50
