"""Lists and heaps of tuples, nested ones and named ones, beside plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from jitcore import script
from jitcore.execution.plans import NativePlan


class Point(NamedTuple):
    x: float
    y: float

    def cross(self, one, two):
        return (one.x - self.x) * (two.y - self.y) - (one.y - self.y) * (two.x - self.x)


class Edge(NamedTuple):
    weight: float
    start: int
    end: int


class Backwards(NamedTuple):
    x: float
    y: float

    def __lt__(self, other):
        return self.x > other.x


class Alike(NamedTuple):
    x: float
    y: float

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


def sorted_pairs(a, b):
    pairs = [(x, int(y * 8)) for x, y in zip(a, b)]  # noqa: B905
    pairs.sort()
    return pairs


def sorted_backwards(a, b):
    pairs = [(int(x * 4), y, x > 0.5) for x, y in zip(a, b)]  # noqa: B905
    return sorted(pairs, reverse=True)


def sorted_by_some(a, b):
    """Which of two equal elements comes first shows in what is beside them."""
    pairs = []
    for number, (x, y) in enumerate(zip(a, b)):  # noqa: B905
        pairs.append((int(x * 3), (int(y * 2), number % 2 == 0)))
    pairs.sort(reverse=True)
    total = 0
    for place, (one, (two, three)) in enumerate(pairs):
        total += place * (one + 10 * two + 100 * three)
    return total


def sorted_points(a, b):
    points = [Point(x, y) for x, y in zip(a, b)]  # noqa: B905
    return sorted(points)


def hull(a, b):
    points = [Point(x, y) for x, y in zip(a, b)]  # noqa: B905
    points.sort()
    made: list[Point] = []
    for point in points:
        while len(made) >= 2 and made[-2].cross(made[-1], point) <= 0:
            made.pop()
        made.append(point)
    return made, len(made)


def spanning_tree(a, b):
    n = len(a)
    edges = [Edge(x, k % 7, (3 * k) % n) for k, x in enumerate(b)]
    edges.sort()
    parent = list(range(n))
    total = 0.0
    for edge in edges:
        one, two = edge.start, edge.end
        while parent[one] != one:
            one = parent[one]
        while parent[two] != two:
            two = parent[two]
        if one != two:
            parent[one] = two
            total += edge.weight
    return total


def shortest_way(a, b):
    """A heap of costs and places, which are tuples in tuples."""
    size = 9
    free = np.array([[(3 * i * i + 5 * j) % 7 != 1 for j in range(size)] for i in range(size)])
    cost = np.full((size, size), np.inf)
    cost[0, 0] = 0.0
    heap = [(0.0, (0, 0))]
    while heap:
        now, (r, c) = heapq.heappop(heap)
        if (r, c) == (size - 1, size - 1):
            break
        for dr, dc in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            i, j = r + dr, c + dc
            if 0 <= i < size and 0 <= j < size and free[i, j]:
                then = now + 1.0 + a[(i * size + j) % len(a)]
                if then < cost[i, j]:
                    cost[i, j] = then
                    heapq.heappush(heap, (then, (i, j)))
    return cost


def compared(a, b):
    made = 0
    for x, y in zip(a, b):  # noqa: B905
        one, two = (int(x * 3), (y, x)), (int(y * 3), (x, y))
        made = 2 * made + (one < two) + (one <= two) + (one == two) + (one > two) + (one >= one)
        made = made % 1000003 + ((x, 1) < (x, 1, 2)) + (() < (1,)) + ((x,) >= (y,))
    return made


PROGRAMS = [
    *(sorted_pairs, sorted_backwards, sorted_by_some, sorted_points, hull, spanning_tree),
    *(shortest_way, compared),
]


def same(one: Any, two: Any) -> bool:
    if type(one) is not type(two):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == two.dtype and np.array_equal(one, two))
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return repr(one) == repr(two)


def columns(seed: int, count: int) -> tuple[list[float], list[float]]:
    chance = random.Random(seed)
    return [chance.random() for _ in range(count)], [chance.random() for _ in range(count)]


@pytest.mark.parametrize("plain", PROGRAMS, ids=lambda one: one.__name__)
def test_native_programs(plain: Callable[..., Any]) -> None:
    compiled = script(plain)
    for seed, count in enumerate((1, 2, 17, 100)):
        args = columns(seed, count)
        assert same(compiled(*args), plain(*args)), (seed, count)
    assert all(isinstance(one.plan, NativePlan) for one in compiled.specializations)


@pytest.mark.parametrize("class_", [Backwards, Alike, Point])
def test_classes_that_compare_by_themselves(class_: Any) -> None:
    def by_sort(a, b):
        return sorted([class_(x, y) for x, y in zip(a, b)])  # noqa: B905

    def by_heap(a, b):
        heap = [class_(x, y) for x, y in zip(a, b)]  # noqa: B905
        heapq.heapify(heap)
        return [heapq.heappop(heap)[1] for _ in range(len(a))]

    def in_tuples(a, b):
        return [(class_(x, y), 1) < (class_(y, x), 2) for x, y in zip(a, b)]  # noqa: B905

    def by_heap_of_tuples(a, b):
        heap: list[Any] = []
        for number, (x, y) in enumerate(zip(a, b)):  # noqa: B905
            heapq.heappush(heap, (class_(x, y), -number))
        return [heapq.heappop(heap)[1] for _ in range(len(a))]

    for plain in (by_sort, by_heap, by_heap_of_tuples, in_tuples):
        args = columns(3, 20)
        assert same(script(plain)(*args), plain(*args))


@pytest.mark.parametrize("plain", [sorted_pairs, sorted_points, compared])
def test_nans(plain: Callable[..., Any]) -> None:
    nan, other = float("nan"), float("nan")
    compiled = script(plain)
    for a in ([nan, 1.0, 0.5, nan], [0.5, nan, other, nan, 0.25], [1.0, 2.0]):
        b = [one if one == one else 0.5 for one in reversed(a)]
        if plain is compared:
            a = [one if one == one else 2.0 for one in a]
        assert same(compiled(a, b), plain(a, b))


def centre(points):
    x = y = 0.0
    for point in points:
        x += point.x
        y += point.y
    return Point(x / len(points), y / len(points))


def longest(points):
    best, place = -1.0, 0
    for number in range(len(points) - 1):
        dx = points[number + 1].x - points[number].x
        length = dx * dx + (points[number + 1].y - points[number].y) ** 2
        if length > best:
            best, place = length, number
    return place, best


@pytest.mark.parametrize("plain", [centre, longest])
def test_named_tuples_that_are_arguments(plain: Callable[..., Any]) -> None:
    compiled = script(plain)
    for count in (3, 40):
        points = [Point(x, y) for x, y in zip(*columns(count, count), strict=True)]
        assert same(compiled(points), plain(points))
    assert all(isinstance(one.plan, NativePlan) for one in compiled.specializations)
    others: list[Any] = [
        [Point(1.0, 2.0), Point(1, 2.0), Point(2.0, 1.0)],
        [Point(1.0, 2.0), Backwards(3.0, 2.5)],
        [Point(np.float64(1.0), 2.0), Point(0.5, 2.0)],
        [Backwards(1.0, 2.0), Backwards(3.0, 2.5)],
    ]
    for points in others:
        assert same(compiled(points), plain(points))


def test_elements_that_are_returned() -> None:
    def first(points):
        return points[0]

    def smallest(points):
        best = points[0]
        for point in points:
            if point.x < best.x:
                best = point
        return best

    points = [Point(x, y) for x, y in zip(*columns(1, 10), strict=True)]
    for plain in (first, smallest):
        compiled = script(plain)
        assert same(compiled(points), plain(points))


def test_lists_of_points_that_change() -> None:
    def plain(points):
        points.append(Point(1.0, 2.0))
        points[0] = Point(points[1].y, 0.0)
        points.sort()
        return len(points)

    made = [[Point(x, y) for x, y in zip(*columns(2, 5), strict=True)] for _ in range(2)]
    kept = list(made[1])
    assert script(plain)(made[1]) == plain(made[0])
    assert same(made[1], made[0])
    assert all(one in kept for one in made[1] if one.x not in (1.0, kept[1].y))


def test_tuples_with_the_same_nan() -> None:
    def equal(values):
        found = []
        for number in range(len(values)):
            first, second = (values[number], number), (values[number], number)
            found.append(1 if first == second else 0)
            found.append(1 if first <= second else 0)
        return found

    def made(x, y):
        product = x * y
        first, second = (product, 1), (product, 1)
        return first == second, first <= second, first != second

    def elements(pairs):
        count = 0
        for one in pairs:
            for other in pairs:
                count += one == other
                count += 10 * (one < other)
        return count

    nan = float("nan")
    calls: list[tuple[Callable[..., Any], list[Any]]] = [
        (equal, [([nan, 1.0],), ([1.0, 2.0],)]),
        (made, [(np.inf, 0.0), (1.0, 2.0)]),
        (elements, [([(nan, 1)] * 3,), ([(nan, 1), (float("nan"), 1)],), ([(1.0, 1)] * 3,)]),
    ]
    for plain, given in calls:
        compiled = script(plain)
        for args in given:
            assert compiled(*args) == plain(*args)
