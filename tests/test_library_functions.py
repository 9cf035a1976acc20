"""Functions of Python's ``heapq`` and ``bisect`` in native code."""

from __future__ import annotations

import bisect
import collections
import copy
import heapq
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import observed
from jitcore import script


def sorted_by_heap(values: list[float]) -> Any:
    heap: list[float] = []
    for value in values:
        heapq.heappush(heap, value)
    steps = list(heap)
    return steps, [heapq.heappop(heap) for _ in range(len(values))], heap


def smallest(values: list[float], count: int) -> Any:
    heap = values.copy()
    heapq.heapify(heap)
    first = heap.copy()
    found = [heapq.heapreplace(heap, value) for value in values[:count]]
    more = [heapq.heappushpop(heap, 0.5 * value) for value in values[:count]]
    return first, found, more, heap


def pairs(values: list[float], keys: list[int]) -> Any:
    heap: list[tuple[float, int]] = []
    for number in range(len(values)):
        heapq.heappush(heap, (values[number], keys[number]))
    found = []
    while heap:
        value, key = heapq.heappop(heap)
        found.append((key, value))
    return found


def shortest(table: list[list[tuple[int, float]]], source: int) -> list[float]:
    distances = [math.inf] * len(table)
    distances[source] = 0.0
    heap = [(0.0, source)]
    while heap:
        distance, place = heapq.heappop(heap)
        if distance > distances[place]:
            continue
        for other, length in table[place]:
            if distance + length < distances[other]:
                distances[other] = distance + length
                heapq.heappush(heap, (distances[other], other))
    return distances


def in_place(heap: list[float], values: list[float]) -> Any:
    """The heap is the caller's."""
    found = 0.0
    for value in values:
        heapq.heappush(heap, value)
        found += heapq.heappop(heap)
    return found


def emptied(values: list[float]) -> Any:
    heap = values.copy()
    heapq.heapify(heap)
    total = 0.0
    while True:
        total += heapq.heappop(heap)


def places(values: list[float], wanted: list[float]) -> Any:
    ordered = sorted(values)
    found = []
    for one in wanted:
        left = bisect.bisect_left(ordered, one)
        right = bisect.bisect(ordered, one, 1, len(ordered) - 1)
        found.append((left, right, bisect.bisect_right(ordered, one, hi=3)))
        all_of_it = bisect.bisect_left(ordered, one, 2, -1)
        found.append((all_of_it, bisect.bisect_right(ordered, one, 0, -2), 0))
    return found


def kept_in_order(values: list[float]) -> Any:
    ordered: list[float] = []
    for value in values:
        bisect.insort(ordered, value)
        bisect.insort_left(ordered, -value)
    return ordered


def longest(values: list[int]) -> int:
    tails: list[int] = []
    for value in values:
        place = bisect.bisect_left(tails, value)
        if place == len(tails):
            tails.append(value)
        else:
            tails[place] = value
    return len(tails)


def in_an_array(values: np.ndarray, wanted: np.ndarray) -> Any:
    total = 0
    for one in wanted:
        total += bisect.bisect_left(values, one)
    return total


def refused(values: list[float], low: int) -> Any:
    total = 0
    for value in values:
        total += bisect.bisect_left(values, value, low)
    return total


DRAW = np.random.default_rng(11)
FLOATS = [round(one, 1) for one in DRAW.normal(size=60).tolist()]
INTS = DRAW.integers(-9, 9, 60).tolist()
TABLE = [
    [
        (int(one), float(length))
        for one, length in zip(DRAW.integers(0, 20, 4), DRAW.random(4), strict=True)
    ]
    for _ in range(20)
]

PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (sorted_by_heap, (FLOATS,)),
    (sorted_by_heap, (INTS,)),
    (sorted_by_heap, ([0.0, -0.0, math.nan, 1.0, -math.inf, math.nan, 0.5],)),
    (smallest, (FLOATS, 7)),
    (pairs, (FLOATS, INTS)),
    (pairs, ([1.0, 1.0, -0.0, 0.0, 1.0], [3, -1, 2, 1, 2])),
    (shortest, (TABLE, 3)),
    (in_place, ([0.5, 1.0, 4.0], FLOATS)),
    (places, (FLOATS, [*FLOATS[:9], math.inf, -math.inf, math.nan])),
    (kept_in_order, (FLOATS,)),
    (kept_in_order, ([0.0, -0.0, 0.0],)),
    (longest, (INTS,)),
    (in_an_array, (np.sort(np.array(FLOATS)), np.array(FLOATS))),
]


@pytest.mark.parametrize(("function", "args"), PROGRAMS)
def test_functions_on_lists(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    compiled = script(function)
    for _ in range(2):
        given, others = copy.deepcopy(args), copy.deepcopy(args)
        assert repr(compiled(*given)) == repr(function(*others))
        assert repr(given) == repr(others)
    assert compiled.kernels


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (emptied, (FLOATS,)),
        (emptied, ([],)),
        (refused, (FLOATS, -1)),
        (pairs, ([math.nan, 1.0, math.nan, 0.0], [1, 2, 3, 4])),
        (pairs, ([math.nan] * 4, [1, 3, 2, 4])),
        (in_place, (["b", "c"], ["a", "d"])),
        (sorted_by_heap, ([1, 2.5, True],)),
        (sorted_by_heap, ([1, None],)),
        (places, (FLOATS, [1, 2.5])),
        (places, ([2**70, 1], [1])),
    ],
)
def test_errors_and_what_is_python_s(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    compiled = script(function)
    wanted = observed(function, args)
    assert [observed(compiled, args) for _ in range(3)] == [wanted] * 3


def named(values: list[float], names: dict[int, str]) -> Any:
    """A dict makes all of it Python's."""
    heap: list[float] = []
    for value in values:
        heapq.heappush(heap, value)
    return names, heapq.heappop(heap)


def test_python_s_own_functions_run_where_python_does() -> None:
    compiled = script(named)
    assert compiled(FLOATS, {1: "one"}) == named(FLOATS, {1: "one"})
    assert not compiled.kernels
    assert compiled.specializations[0].plan.is_plain  # type: ignore[union-attr]


def levels(rows: list[list[int]], start: int) -> list[int]:
    found = [-1] * len(rows)
    found[start] = 0
    waiting = collections.deque([start])
    while waiting:
        one = waiting.popleft()
        for other in rows[one]:
            if found[other] < 0:
                found[other] = found[one] + 1
                waiting.append(other)
    return found


def filled(walls: np.ndarray) -> int:
    table = walls.copy()
    waiting: collections.deque[tuple[int, int]]
    waiting = collections.deque()
    waiting.append((0, 0))
    count = 0
    while len(waiting) > 0:
        i, j = waiting.popleft()
        if 0 <= i < table.shape[0] and 0 <= j < table.shape[1] and table[i, j] == 0:
            table[i, j] = 2
            count += 1
            waiting.extend([(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)])
    return count


def largest_in_windows(values: list[float], width: int) -> list[float]:
    places: collections.deque[int] = collections.deque()
    found = []
    for i in range(len(values)):
        while places and values[places[-1]] <= values[i]:
            places.pop()
        places.append(i)
        if places[0] <= i - width:
            places.popleft()
        found.append(values[places[0]])
    return found


def means(values: list[float], width: int) -> list[float]:
    window: collections.deque[float] = collections.deque(maxlen=width)
    found = []
    for value in values:
        window.append(value)
        found.append((window[0] + window[-1]) / len(window))
    return found


def both_ends(values: list[float], count: int) -> Any:
    ends = collections.deque(values[:2])
    seen = []
    for number in range(count):
        ends.appendleft(values[number])
        ends.append(-values[number])
        if number % 3 == 2:
            seen.append(ends.pop() + ends.popleft())
        ends[1] = float(number)
    if not ends:
        return seen, [], -1
    first = [ends[number] for number in range(len(ends))]
    ends.clear()
    return seen, first, len(ends)


def left_alone(values: list[float], width: int) -> Any:
    found = 0.0
    window: collections.deque[float] = collections.deque(values, maxlen=width)
    while True:
        found += window.popleft()


def kept(values: list[float]) -> Any:
    window = collections.deque(values)
    window.append(1.0)
    return window, isinstance(window, collections.deque)


def out_of_range(values: list[float], place: int) -> Any:
    window = collections.deque(values)
    window[0] = 5.0
    return window[place] + window[-place]


ROWS = [
    DRAW.integers(0, 15, count).tolist() for count in [3, 1, 4, 2, 2, 3, 1, 5, 2, 1, 3, 2, 4, 2, 3]
]

DEQUES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (levels, (ROWS, 3)),
    (filled, (DRAW.integers(0, 4, (9, 12)) // 3,)),
    (largest_in_windows, (FLOATS, 5)),
    (means, (FLOATS, 4)),
    (means, (FLOATS, 1)),
    (both_ends, (FLOATS, 20)),
    (both_ends, (FLOATS, 0)),
]


@pytest.mark.parametrize(("function", "args"), DEQUES)
def test_deques(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    test_functions_on_lists(function, args)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (left_alone, (FLOATS, 3)),
        (left_alone, (FLOATS, -3)),
        (left_alone, ([], 3)),
        (means, (FLOATS, 0)),
        (kept, (FLOATS,)),
        (out_of_range, (FLOATS, 3)),
        (out_of_range, (FLOATS, 60)),
        (out_of_range, ([], 0)),
    ],
)
def test_deques_that_are_python_s(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    test_errors_and_what_is_python_s(function, args)


class Shelf:
    """Python's protocols of a class."""

    def __init__(self, count: int) -> None:
        self.items = [float(number) for number in range(count)]

    def __len__(self) -> int:
        return len(self.items) - 2

    def __getitem__(self, place: int) -> float:
        return self.items[place] * 2

    def __setitem__(self, place: int, value: float) -> None:
        self.items[place] = value + 1


def shelved(shelf: Shelf, count: int) -> Any:
    total = 0.0
    for place in range(count):
        shelf[place] = 0.5 * place
        if shelf:
            total += shelf[place] * len(shelf)
    return total, not shelf


@pytest.mark.parametrize(("size", "count"), [(5, 3), (2, 2), (3, 0)])
def test_protocols_of_objects(size: int, count: int) -> None:
    compiled, shelf, other = script(shelved), Shelf(size), Shelf(size)
    for _ in range(2):
        assert compiled(shelf, count) == shelved(other, count)
        assert shelf.items == other.items
    assert compiled.kernels


@pytest.mark.parametrize("size", [1, 0])
def test_a_negative_length(size: int) -> None:
    compiled = script(shelved)
    for function in (compiled, shelved, compiled):
        with pytest.raises((ValueError, IndexError)) as caught:
            function(Shelf(size), 1)
        assert str(caught.value) in (
            "__len__() should return >= 0",
            "list assignment index out of range",
        )
