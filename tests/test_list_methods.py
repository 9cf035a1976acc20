"""Methods and slices of lists in native code, and lists of other values, as Python has them."""

# mypy: allow-untyped-defs, allow-untyped-calls

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from language_checking import check_calls

from jitcore import script


def sorted_in_place(values):
    values.sort()


def sorted_backwards(values):
    values.sort(reverse=True)
    return values


def sorted_copies(values):
    low = sorted(values)
    high = sorted(values, reverse=True)
    return low, high


def reversed_in_place(values):
    values.reverse()


def ordered(values):
    kept: list[Any] = []
    for value in values:
        place = 0
        while place < len(kept) and kept[place] < value:
            place += 1
        kept.insert(place, value)
    return kept


def inserted(values, place, value):
    values.insert(place, value)


def removed(values, value):
    values.remove(value)


def deleted(values, place):
    del values[place]


def cut(values, start, stop):
    del values[start:stop]


def put(values, start, stop, count):
    values[start:stop] = [7] * count


def put_steps(values, start, stop, step, count):
    values[start:stop:step] = [7] * count


def taken(values, start, stop, step):
    total = 0
    for value in values[start:stop:step]:
        total = total * 10 + value
    return total


def searched(values, value):
    return values.index(value), values.count(value)


def emptied(values, n):
    values.clear()
    for i in range(n):
        values.append(i)


def joined(values, count):
    longer = values + [1] * count
    longer[0] = -1
    return longer, len(values)


def rotated(n, step):
    people = list(range(n))
    place = 0
    while len(people) > 1:
        place = (place + step - 1) % len(people)
        del people[place]
    return people[0]


def binomials(n):
    row = [1]
    for _ in range(n):
        following = [1] * (len(row) + 1)
        for k in range(1, len(row)):
            following[k] = row[k - 1] + row[k]
        row = following
    return row


def smoothed(values, rounds):
    row = values[:]
    for _ in range(rounds):
        new = row[:]
        for i in range(1, len(row) - 1):
            new[i] = row[i - 1] + row[i + 1]
        row = new
    return row


def with_other_name(n):
    row = [0] * n
    last = row
    for i in range(n):
        row[i] = i
    return last[n - 1]


def changed_under_another_name(n):
    row = [0] * n
    other = row
    for i in range(n):
        fresh = [i] * n
        row = fresh
        row[0] = -1
    return other[0], row[0], row


def returned_twice(n):
    row, last = [0] * n, [1] * n
    for i in range(n):
        new = [i] * n
        last = row
        row = new
    return row, last


def swapped(n):
    row, last = [1] * n, [0] * n
    for i in range(n):
        for j in range(n):
            row[j] = last[j] + i
        last, row = row, last
    return last


def greatest_row(n):
    top, total = [0] * n, 0
    for i in range(n):
        row = [i] * n
        row[0] = n - i
        if row[0] > top[0]:
            top = row
        total += top[-1]
    return total, top


def is_still_the_same(n):
    row = [1] * n
    first = row
    for _ in range(n):
        row = [2] * n
    return row is first, len(row)


def grown_rows(n):
    row = [1]
    while len(row) < n:
        longer = [1]
        for k in range(len(row)):
            longer.append(row[k] + k)
        row = longer
    return row


def random_lists(kind: Callable[[int], Any]) -> list[list[Any]]:
    generator = random.Random(3)
    sizes = (1, 2, 15, 16, 17, 100, 1000)
    return [[kind(generator.randrange(size + 3)) for _ in range(size)] for size in sizes]


@pytest.mark.parametrize("function", [sorted_in_place, sorted_backwards, sorted_copies])
@pytest.mark.parametrize("kind", [int, float, bool])
def test_sort(function, kind):
    calls = [(one,) for one in random_lists(kind)]
    check_calls(function, *calls, ([],))


def test_sort_is_stable():
    check_calls(sorted_in_place, ([0.0, -0.0, 1.0, -0.0, 0.0, -1.0],))
    check_calls(sorted_backwards, ([0.0, -0.0, 1.0, -0.0, 0.0, -1.0],))


def test_sort_of_nans():
    nan = float("nan")
    values = [3.0, nan, 1.0, nan, 2.0, 0.5]
    check_calls(sorted_in_place, (values,))
    check_calls(searched, ([1.0, 2.0], 2.0), ([1.0, nan], 1.0))
    assert script(searched)([1.0, nan], nan) == searched([1.0, nan], nan)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_reverse(size):
    check_calls(reversed_in_place, (list(range(size)),), ([],))


def test_insert():
    check_calls(ordered, ([3, 1, 2, 5, 4] * 5,), ([2.5, 0.5],), ([],))
    places = [0, 2, -1, 3, 99, -99]
    check_calls(inserted, *[([1, 2, 3], place, 7) for place in places], ([], 1, 7), ([1], 0, 1.5))


def test_remove_and_delete():
    check_calls(removed, ([1, 2, 3, 2], 2), ([1, 2], 5), ([1.5, 2.5], 2.5))
    check_calls(deleted, *[([1, 2, 3], place) for place in (0, 2, -1, -3, 3, -4)])
    check_calls(emptied, ([1, 2], 20), ([1, 2], 0), ([], 3))


BOUNDS = (0, 1, 3, 9, -1, -4, -9)


def test_slices_are_deleted():
    check_calls(cut, *[([1, 2, 3, 4, 5], *pair) for pair in itertools.product(BOUNDS, repeat=2)])


def test_slices_are_replaced():
    pairs = itertools.product(BOUNDS, BOUNDS, (0, 1, 3, 40))
    check_calls(put, *[([1, 2, 3, 4, 5], *pair) for pair in pairs])


def test_slices_with_steps():
    parts = list(itertools.product(BOUNDS, BOUNDS, (1, 2, -1, -2, 0)))
    check_calls(taken, *[([1, 2, 3, 4, 5], *part) for part in parts])
    check_calls(put_steps, *[([1, 2, 3, 4, 5], *part, len(range(0, 5, 2))) for part in parts])


def test_searches():
    check_calls(searched, ([1, 2, 3, 2], 2), ([1, 2], 5), ([True, False], False), ([1.0, 2.0], 2))


def test_lists_of_lists_and_ranges():
    check_calls(joined, ([1, 2], 3), ([1, 2], 50), ([], 1), ([1], 0))
    check_calls(rotated, (41, 3), (1, 1), (0, 3))


def test_lists_that_become_the_next_ones():
    check_calls(binomials, (0,), (1,), (20,), (61,), (70,))
    check_calls(smoothed, ([1, 2, 3, 4], 3), ([1, 2, 3, 4], 0), ([], 2))


def test_names_of_one_list():
    check_calls(with_other_name, (5,), (1,))
    check_calls(changed_under_another_name, (3,), (1,))
    check_calls(returned_twice, (3,), (1,))
    check_calls(swapped, (4,), (0,))
    check_calls(is_still_the_same, (3,), (0,))
    check_calls(greatest_row, (5,), (40,))
    check_calls(grown_rows, (50,), (1,))


def single_tuples(n):
    found = []
    for i in range(n):
        found.append((i,))
    return found, np.array(found)


def test_tuples_of_one_element():
    check_calls(single_tuples, (3,), (50,), native=False)
