"""NumPy's integers as subscripts of lists, compared with plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from language_checking import is_native

from checking import observed
from jitcore import script


def counted(places, n):
    counts = [0] * n
    for place in places:
        counts[place] += 1
    return counts


def grouped(places, n):
    groups: list[list[int]] = [[] for _ in range(n)]
    for number, place in enumerate(places):
        groups[place].append(number)
    total = 0
    for group in groups:
        for number in group:
            total += number * len(group)
    return groups, total


def replaced(places, n):
    rows = [[number] for number in range(n)]
    for place in places:
        rows[place] = [*rows[place - 1], 7]
    return rows


def sliced(places, n):
    numbers = list(range(n))
    parts = []
    for place in places:
        parts += numbers[place : place + 2]
        parts += numbers[::-1][:place]
    return parts


def moved(places, n):
    numbers = [0.5 * number for number in range(n)]
    for place in places:
        last = numbers.pop(place)
        numbers.insert(place, last + 1.0)
        numbers.append(last)
        del numbers[place]
    return numbers


def read(numbers, places):
    total = 0.0
    for place in places:
        total += numbers[place]
        numbers[place] = total
    return total


def caught(places, n):
    numbers, missed = [1] * n, 0
    for place in places:
        try:
            numbers[place] += 1
        except IndexError:
            missed += 1
    return numbers, missed


FUNCTIONS = [counted, grouped, replaced, sliced, moved, caught]
CASES = [(one, np.int64) for one in FUNCTIONS] + [(counted, np.int8), (grouped, np.uint16)]


@pytest.mark.parametrize(("function", "dtype"), CASES)
def test_places_from_arrays(function: Callable[..., Any], dtype: type) -> None:
    numbers = np.random.default_rng(5)
    compiled = script(function)
    for n, count in ((6, 9), (9, 4), (3, 0)):
        places: np.ndarray[Any, Any] = numbers.integers(0, n - 1, count).astype(dtype)
        assert observed(compiled, (places, n)) == observed(function, (places, n))
    assert is_native(compiled)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_places_outside(function: Callable[..., Any]) -> None:
    compiled = script(function)
    for wrong in (-1, -4, -5, 4, 100):
        for places in ([1, 2], [1, wrong, 0], [wrong]):
            args = np.array(places, np.int32), 4
            assert observed(compiled, args) == observed(function, args)


def test_places_that_no_list_has() -> None:
    compiled = script(counted)
    for places in (
        np.array([2, 3], np.uint64),
        np.array([2**63 + 1], np.uint64),
        np.array([True, False]),
        np.array([1.0]),
        np.array([[1, 2]]),
        np.array([1, 0]),
    ):
        assert observed(compiled, (places, 4)) == observed(counted, (places, 4))


def test_lists_that_are_arguments() -> None:
    compiled = script(read)
    for places in (np.array([0, 3, 0]), np.array([-1], np.int8), np.array([1, 9])):
        args = [1.0, 2.0, 4.0, 8.0], places
        assert observed(compiled, args) == observed(read, args)
    assert is_native(compiled)
