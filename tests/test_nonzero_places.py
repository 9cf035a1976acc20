# mypy: allow-untyped-defs, allow-untyped-calls
"""``np.nonzero`` of matrices and stacks gives columns of one array, as NumPy's does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from checking import check
from jitcore import fusion_strategy, script


def places(m):
    return np.nonzero(m)


def where_true(m):
    return np.where(m)


def written_flat(m):
    first, *_ = np.nonzero(m)
    flat = np.ravel(first)
    flat += 100
    return first, flat


def seen_as_others(m):
    return m.nonzero()[-1].view(np.int32)


def laid_out(m):
    first = np.nonzero(m)[0]
    return first.flags.c_contiguous, first.strides, first.shape


SHAPES = [(7, 9), (3, 4, 5), (1, 1), (2, 1), (0, 4), (4, 0), (1, 300), (300, 1), (2, 0, 3)]


@pytest.mark.parametrize("function", [places, where_true, written_flat, seen_as_others, laid_out])
@pytest.mark.parametrize("strategy", ["STATIC", "DYNAMIC"])
def test_places_are_columns(function: Callable[..., object], strategy: str) -> None:
    random = np.random.default_rng(53)
    with fusion_strategy([(strategy, 20)]):
        compiled = script(function)
        for shape in SHAPES:
            m = random.random(shape) < 0.5
            check(function, m, script=lambda _: compiled)
            check(function, np.asfortranarray(m)[::-1], script=lambda _: compiled)


def test_strides_are_numpys() -> None:
    random = np.random.default_rng(54)
    for shape in [(7, 9), (3, 4, 5), (12,)]:
        x = random.integers(-1, 2, shape) * np.float32(np.nan)
        x[random.random(shape) < 0.5] = -0.0
        for found, expected in zip(script(places)(x), places(x), strict=True):
            assert found.strides == expected.strides
            np.testing.assert_array_equal(found, expected)


def test_no_more_places_than_there_are() -> None:
    for shape in [(40, 50), (3, 5, 7)]:
        for value in (0.0, 1.0):
            check(places, np.full(shape, value))
