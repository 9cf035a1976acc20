"""Programs with lists that only the function knows: stacks, queues, tables, slices, sums."""
# The programs are what people write, and some of them are wrong.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from language_checking import Table

LENGTHS = [(0,), (1,), (3,), (40,)]


def stack(n):
    waiting = [n]
    total = 0
    while waiting:
        v = waiting.pop()
        total += v
        if v > 2:
            waiting.append(v // 2)
            waiting.append(v - 2)
        if total > 500:
            break
    return total


def queue(n):
    waiting = [0.5]
    for i in range(n):
        waiting.append(i * 1.0)
        if len(waiting) > 3:
            waiting.pop(0)
    return sum(waiting), max(waiting), waiting[-1]


def taken_at_any_place(n, k):
    values = [i * 1.5 for i in range(n)]
    v = values.pop(k)
    return v, sum(values)


def taken_from_nothing(n):
    values = [i for i in range(n)]
    return values.pop() + values.pop()


def sieve(n):
    composite = [False] * (n + 1)
    for i in range(2, n + 1):
        if not composite[i]:
            for j in range(i * i, n + 1, i):
                composite[j] = True
    found = [i for i in range(2, n + 1) if not composite[i]]
    return len(found), sum(found), max(found, default=-1)


def primes(n):
    found = []
    for i in range(2, n + 3):
        is_prime = True
        for p in found:
            if i % p == 0:
                is_prime = False
                break
        if is_prime:
            found.append(i)
    return found


def weights(n):
    values = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
    return np.array(values) * n, np.array([n] * 3 + [1])


def joined_then_changed(n):
    values = [1, n] * 2
    more = values + [n]
    values[0] = 9
    return np.array(more), more, values, 2 * [n, 1], [n] * -1


def repeated_by_no_int(times):
    found = []
    for make in (lambda: (1, 2) * 2.5, lambda: (1, 2) * "3", lambda: (1, 2) * None):
        try:
            found.append(make())
        except TypeError as error:
            found.append(str(error))
    return found, (1, 2) * True, (times, 2) * 2, [times] * 2


def repeated_by_a_float(n):
    return (n, 2) * 2.5


def counts(n):
    table = [0] * 5
    for i in range(n):
        table[i * i % 5] += 1
    return table, np.array(table)


def repeated(n):
    values = [1.5] * n
    values.append(2.0)
    pairs = [1, 2] * n
    return sum(values), len(values), pairs


def extended(n):
    values = [1, 2]
    values.extend([3, n])
    values.extend((5,))
    values.extend(range(2))
    return sum(values), values


def windows(n):
    values = [i * 1.0 for i in range(n)]
    total = 0.0
    for a, b in zip(values, values[1:], strict=False):  # noqa: RUF007
        total += a * b
    for i, (a, b) in enumerate(zip(values, reversed(values), strict=True), 3):
        total -= i * a * b
    return total, sum(values[2:5]), max(values[::-1], default=None), len(values[:-1])


def slices_of_few(n):
    values = [1, 2, 3, 4]
    return sum(values[1:3]), sum(values[:n]), max(values[n:], default=-5), values[::-1][0]


def slice_that_grows(n):
    values = [i for i in range(n)]
    rest = values[1:]
    rest.append(5)
    values.append(7)
    return values, rest


def chosen_from_few(n, k):
    weights = [0.25, 0.5, n / 4]
    total = 0.0
    for i in range(n):
        total += weights[(i + k) % 3]
    return total, weights[k]


def changed_in_one_branch(n, b):
    values = [1, 2, n]
    if b:
        values[0] = 9
    else:
        values.append(4)
    return sum(values), values[0], values[-1], values


def other_type_in_one_branch(b):
    values = [1]
    if b:
        values.append(2.5)
    return values


def grows_beyond_64_bits(n):
    values = [1]
    for _ in range(n):
        values.append(values[-1] * 4)
    return values[-1], sum(values)


def arrays(x, k):
    both = [x, x * 2]
    both[0] += 1
    both[k] = both[k] + 5
    return both, x


def changed_by_a_function(n):
    values = [1.0]

    def add(v):
        values.append(v)

    for i in range(n):
        add(i * 0.5)
    return sum(values)


def _push(values, v):
    values.append(v)
    return len(values)


def _swap(values, i, j):
    values[i], values[j] = values[j], values[i]


def _first_above(values, limit):
    for v in values:
        if v > limit:
            return v
    return -1


def passed_to_functions(n):
    values = [i * 7 % 5 for i in range(n)]
    total = _push(values, 1) + _push(values, 2)
    for i in range(len(values)):
        for j in range(len(values) - 1 - i):
            if values[j] > values[j + 1]:
                _swap(values, j, j + 1)
    return total, values[0], values[-1], _first_above(values, 2), _first_above([n, 3], 2)


def heap(n):
    places = [0]

    def rise(i):
        while i > 1 and places[i // 2] > places[i]:
            _swap(places, i // 2, i)
            i //= 2

    for k in range(n):
        places.append((k * 7919) % 31)
        rise(len(places) - 1)
    return places[min(n, 1)], sum(places)


def changed_by_other_methods(n):
    values = [3, 1, 2]
    total = 0
    for _ in range(n):
        total += values[0]
        values.sort()
    values.insert(0, 5)
    del values[-1]
    return total, len(values), values[0], sum(values)


def _append_to(values):
    values.append(99)


def changed_by_those_who_have_it(n):
    values, others = [1], [2]
    for i in range(n):
        values.append(i)
        others.append(i)
    _append_to(values)
    kept = {"a": others}
    kept["a"].append(7)
    return len(values), sum(values), values[-1], sum(others)


def extended_by_itself(n):
    values = [1, n]
    values.extend(values)
    return len(values), sum(values)


def tuples_beside_ranges(n):
    seen = []
    for a, b in zip((1, "x", 2.5), range(n), strict=False):
        seen.append((a, b))
    total = 0.0
    for a, b in zip((1.0, 2.0, 3.0), range(n), strict=False):
        total += a * b
    return seen, total


def membership(n):
    values = [i * 3 % 11 for i in range(n)]
    return 5 in values, 100 not in values, n in values, any(values), all(values), bool(values)


def membership_of_nan(v):
    values = [v, 2.0]
    return v in values, 2.0 in values, float("nan") in values


def sums_of_generators(n):
    return (
        sum(i * i for i in range(n)),
        sum((i / 2 for i in range(n)), 1.5),
        min((i % 7 - 3 for i in range(n)), default=0.5),
        max((i for i in range(n) if i % 2), default=-1),
    )


def shape_by_generators(x):
    others = tuple(i for i in range(x.ndim) if i != 1)
    larger = np.zeros(tuple([extent + 1 for extent in x.shape]))
    return x.sum(axis=others), larger.shape, tuple(v * 2 for v in (1, 2.5))


def tuple_of_unknown_length(n):
    return tuple(i for i in range(n))


def of_arrays(x):
    return sum(x), min(x), max(x), any(x > 2), all(x), sum(v for v in x if v > 1)


def of_ranges(a, b, step):
    total = 0
    for i in range(a, b, step):
        total = total * 3 % 1000 + i
    return total, len(range(a, b, step)), sum(range(a, b, step))


def paths_through_table(n):
    ways = [[1] * n for _ in range(n)]
    for i in range(1, n):
        for j in range(1, n):
            ways[i][j] = ways[i - 1][j] + ways[i][j - 1]
    return ways


def distances(edges, n):
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    found = [-1] * n
    found[0] = 0
    queue = [0]
    for node in queue:
        for other in neighbours[node]:
            if found[other] < 0:
                found[other] = found[node] + 1
                queue.append(other)
    return found, neighbours


def changed_rows(rows, v):
    first = rows[0]
    first.append(v)
    rows.append(first)
    rows[-1][0] = v
    return first is rows[-1], rows.pop(0)


def equal_rows(rows):
    return rows[0] == rows[1], rows == [[1], [1]]


def steps(x, n):
    history = [x]
    for i in range(n):
        x = x * 0.5 + i
        history.append(x)
    history[0] += 1
    return np.array(history), history[-1] - history[0]


def layers(x, weights, biases):
    for w, b in zip(weights, biases):
        x = np.maximum(x * w + b, 0)
    return x


def descend(params, grads, rate):
    for p, g in zip(params, grads):
        p -= rate * g
    return params


def arrays_and_none(x, n):
    found = [x, None]
    for i in range(n):
        found.append(x * i)
    return len(found), found[-1]


PROGRAMS: Table = {
    "lists of arrays in loops": [
        (steps, [(np.arange(3.0), 5), (np.arange(4.0), 0)]),
        (layers, [(np.arange(3.0), [np.ones(3), np.arange(3.0)], [np.zeros(3), np.ones(3)])]),
        (layers, [(np.arange(3.0), [np.ones(3)], [np.ones(2)])]),
        (descend, [([np.ones(3), np.ones(2)], [np.arange(3.0), np.ones(2)], 0.5)]),
        (descend, [([np.ones(3)], [np.ones(2)], 0.5), ([np.ones(3, int)], [np.ones(3)], 0.5)]),
        (arrays_and_none, [(np.arange(3.0), 2)]),
    ],
    "lists of lists in loops": [
        (paths_through_table, [(1,), (5,)]),
        (distances, [([(0, 1), (1, 2), (4, 2)], 5), ([(0, 7)], 2)]),
        (changed_rows, [([[1], [2]], 9), ([[1]], 2), ([[]], 2), ([], 3)]),
        (equal_rows, [([[1], [1]],), ([[1], [1.5]],)]),
    ],
    "lists of numbers in loops": [
        (stack, LENGTHS),
        (queue, LENGTHS),
        (taken_at_any_place, [(3, 1), (3, 2), (3, -3), (3, 3), (3, -4), (0, 0)]),
        (taken_from_nothing, LENGTHS),
        (sieve, [(1,), (2,), (30,), (100,)]),
        (primes, LENGTHS),
        (weights, LENGTHS),
        (joined_then_changed, LENGTHS),
        (repeated_by_no_int, LENGTHS),
        (repeated_by_a_float, LENGTHS),
        (counts, LENGTHS),
        (repeated, [(-2,), *LENGTHS]),
        (extended, LENGTHS),
        (windows, LENGTHS),
        (slices_of_few, [(0,), (2,), (4,), (9,), (-1,)]),
        (slice_that_grows, LENGTHS),
        (chosen_from_few, [(5, 0), (5, -3), (0, 3), (1, -4)]),
        (changed_in_one_branch, [(5, True), (5, False)]),
        (other_type_in_one_branch, [(True,), (False,)]),
        (grows_beyond_64_bits, LENGTHS),
        (arrays, [(np.arange(3.0), 1), (np.arange(3), 0)]),
        (changed_by_a_function, LENGTHS),
        (passed_to_functions, LENGTHS),
        (heap, LENGTHS),
        (changed_by_other_methods, LENGTHS[:3]),
        (changed_by_those_who_have_it, LENGTHS),
        (extended_by_itself, LENGTHS),
        (tuples_beside_ranges, LENGTHS),
        (membership, LENGTHS),
        (membership_of_nan, [(1.0,), (float("nan"),)]),
    ],
    "generator expressions as arguments": [
        (sums_of_generators, LENGTHS),
        (shape_by_generators, [(np.ones((2, 3, 4)),)]),
        (tuple_of_unknown_length, LENGTHS),
    ],
    "`min`, `max`, `sum`, `any`, `all`": [
        (of_arrays, [(np.array([3, 1, 2]),), (np.array([2.5]),), (np.array([1, 0], np.int8),)]),
        (of_arrays, [(np.array([]),), (np.ones((2, 2)),)]),
    ],
    "`range`": [
        (of_ranges, [(1, 10, 3), (10, 1, -3), (1, 10, 0), (5, 5, 1), (-3, 20, 7)]),
    ],
}
