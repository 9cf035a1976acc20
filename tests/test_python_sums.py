"""``sum`` of Python's and NumPy's numbers, which adds floats in its own way since Python 3.12."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from checking import function_from_source
from jitcore import script

FLOATS = [0.1, 1e100, -1e100, 1.0, -0.0, 3.5e-5, 1e308, float("inf"), float("-inf"), float("nan")]
OTHERS = [7, True, -3, 1j, np.float64(0.3), np.float32(0.1), np.int64(4)]
STARTS = [None, 0, 0.0, 1e100, -0.0, True, 3, 0.25, np.float64(0.1)]


def total(x):
    return sum(x)


def total_from(x, start):
    return sum(x, start)


def _check(scripted: Any, *args: Any) -> None:
    with np.errstate(all="ignore"):
        expected, found = scripted.__wrapped__(*args), scripted(*args)
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("seed", range(60))
def test_sums_of_tuples(seed: int) -> None:
    """Each of another length, and with other types."""
    choose = random.Random(seed)
    items = [choose.choice(FLOATS + OTHERS) for _ in range(choose.randrange(6))]
    start = choose.choice(STARTS)
    names = "".join(f"x{i}, " for i in range(len(items)))
    last = "" if start is None else ", start"
    source = f"def f({names}start):\n    return sum(({names}){last})\n"
    _check(script(function_from_source(source)), *items, start)


def test_sums_of_lists() -> None:
    plain, started = script(total), script(total_from)
    choose = random.Random(7)
    for _ in range(200):
        items = [choose.choice(FLOATS) for _ in range(choose.randrange(9))]
        _check(plain, items)
        _check(started, items, choose.choice(STARTS[1:]))


def test_sums_of_lists_are_native() -> None:
    @script
    def inner(n):
        return sum([0.1 * i for i in range(n)]), sum([0.1 for _ in range(n)], 0.5)

    for n in (0, 1, 10, 1000):
        _check(inner, n)
    assert "without Python" in str(inner.explain(10))
