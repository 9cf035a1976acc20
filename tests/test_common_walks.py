# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops whose iterations reduce the same large arrays: parts taken by many iterations together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script

LENGTH = 40_001


def means_of_bins(x, y, n):
    result = np.zeros(n)
    for i in range(n):
        inside = np.logical_and(x >= i / n, x < (i + 1) / n)
        result[i] = y[inside].mean()
    return result


def distances(x, y, n):
    result = np.empty((n, 2))
    for i in range(n):
        away = x - i * 0.25
        result[i, 0] = (away * away).sum()
        result[i, 1] = np.max(np.abs(y - i))
    return result


def two_passes(x, y, n):
    result = np.empty(n)
    for i in range(n):
        scaled = x * (i + 1)
        result[i] = ((scaled - scaled.mean()) ** 2).sum() + np.count_nonzero(y > i * 0.01)
    return result


def of_another_extent(x, y, n):
    result = np.empty((3, n))
    for i in range(2, n):
        result[0, i] = (x > i * 0.01).sum()
        result[1, i] = (y[: LENGTH - 7000] * i).min()
        result[2, i] = np.count_nonzero(y[: LENGTH - 7000] < i * 0.01)
    return result[:, 2:]


def some_iterations(x, y, n):
    result = np.zeros(n)
    for i in range(n):
        if i % 3:
            result[i] = (x < i / n).sum()
        else:
            result[i] = -1
    return result


SHARED = [means_of_bins, distances, two_passes, of_another_extent]


def written_by_iterations(x, y, n):
    result = np.empty(n)
    for i in range(n):
        result[i] = (x * i).sum()
        x[i] = result[i]
    return result, x


def carried(x, y, n):
    total = 1.0
    for i in range(n):
        total = (x * total).sum() / (x.size + i)
    return total


def ends_early(x, y, n):
    count = 0
    for i in range(n):
        total = (x + i).sum()
        if total > x.size * 3.2:
            break
        count += 1
    return count


APART = [written_by_iterations, carried, ends_early]


def _arrays() -> tuple[Any, Any]:
    values = np.random.default_rng(3).random((2, LENGTH))
    return values[0], values[1]


def _shares(function: Callable[..., Any], n: int) -> bool:
    compiled = script(function)
    compiled(*_arrays(), n)
    return any("take each part" in note for note in compiled.kernels[0].lowered.notes)


@pytest.mark.parametrize("function", SHARED)
@pytest.mark.parametrize("n", [3, 64, 131])
def test_parts_are_taken_together(function: Callable[..., Any], n: int) -> None:
    check(function, *_arrays(), n, reduction=True)
    assert _shares(function, n)


@pytest.mark.parametrize("function", APART)
def test_iterations_that_depend_on_each_other_stay(function: Callable[..., Any]) -> None:
    check(function, *_arrays(), 70, reduction=True)
    assert not _shares(function, 70)


def gathered(x, y, places):
    result = np.empty(len(places))
    for i in range(len(places)):
        result[i] = (np.abs(x - y[places[i]])).sum()
    return result


def test_an_index_out_of_range_is_found_before_anything_is_read() -> None:
    places = np.arange(100)
    check(gathered, *_arrays(), places, reduction=True)
    places[70] = LENGTH
    check(gathered, *_arrays(), places, reduction=True)


def stored_somewhere(x, y, places):
    result = np.zeros(50)
    for i in range(len(places)):
        result[places[i]] += (x < i * 0.01).sum()
    return result


def guarded(x, y, n):
    result = np.empty(n)
    for i in range(n):
        result[i - 100] = 0
        result[i] = (x - y[i * 8]).max()
    return result


def test_a_test_before_the_walk_keeps_its_meaning() -> None:
    check(guarded, *_arrays(), 100)
    check(guarded, *_arrays(), 101)
    check(some_iterations, *_arrays(), 70)


def sum_of_what_is_written(x, w):
    r = np.zeros(10)
    for i in range(10):
        s = w.sum()
        r[i] = (x > s).sum()
        w[0] = w[0] + 0.1
    return r


def test_a_sum_of_what_iterations_write_is_made_anew() -> None:
    check(sum_of_what_is_written, np.random.default_rng(2).random(3 * 2**18), np.zeros(64))


def test_an_error_after_the_walk_releases_the_arrays() -> None:
    places = np.arange(100) % 50
    check(stored_somewhere, *_arrays(), places)
    places[70] = 50
    check(stored_somewhere, *_arrays(), places)


def test_no_bit_depends_on_the_loop() -> None:
    x, y = _arrays()
    together = script(distances)(x, y, 5)

    def alone(x, y, i):
        away = x - i * 0.25
        return (away * away).sum(), np.max(np.abs(y - i))

    compiled = script(alone)
    assert [compiled(x, y, i) for i in range(5)] == list(map(tuple, together))


def rolled_without_a_value(x, n):
    v0 = np.zeros(1)
    if n < 0:
        v1 = np.isnan(x.astype(np.uint8))
    for _ in range(1, 4):
        v0[:] = np.roll(v1, 1)
    return v0


@pytest.mark.parametrize("size", [1, 2])
def test_what_has_no_value_is_not_read(size):
    x = np.arange(size, dtype=np.int8)
    with pytest.raises(UnboundLocalError, match="v1"):
        script(rolled_without_a_value)(x, 6)
    np.testing.assert_array_equal(
        script(rolled_without_a_value)(x[:1], -6), rolled_without_a_value(x[:1], -6)
    )
