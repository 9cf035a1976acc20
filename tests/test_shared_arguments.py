"""Lists of lists that are arguments: read once, changed in place, and still the same objects."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jitcore import script
from jitcore.pipeline import NativePlan


def form(value: Any, seen: dict[int, int]) -> Any:
    """A value with the types of all that is in it, and with its lists told apart by identity."""
    if not isinstance(value, list | tuple):
        return type(value), repr(value)
    if isinstance(value, list):
        if id(value) in seen:
            return "seen", seen[id(value)]
        seen[id(value)] = len(seen)
    return type(value), [form(part, seen) for part in value]


def observed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What a call gives or raises, and what it has made of its arguments."""
    try:
        result = function(*arguments)
    except Exception as error:
        result = type(error), str(error)
    return form((result, arguments), {})


def check(function: Callable[..., Any], *calls: tuple[Any, ...]) -> Any:
    """Compare calls, each of them twice, with Python; the function must be machine code."""
    scripted = script(function)
    for arguments in calls:
        for _ in range(2):
            own, wanted = copy.deepcopy(arguments), copy.deepcopy(arguments)
            assert observed(scripted, own) == observed(function, wanted), arguments
    assert isinstance(scripted.specializations[0].plan, NativePlan)
    return scripted


def total(grid):
    t = 0
    for row in grid:
        for x in row:
            t += x
    return t


def set00(grid, v):
    grid[0][0] = v
    return len(grid)


def fill(grid):
    for i in range(len(grid)):
        for j in range(len(grid[i])):
            grid[i][j] = i * j
    return grid


def push(grid, n):
    for row in grid:
        row.append(n)
    grid.append([n, n + 1])
    return grid[0]


def swap(grid):
    grid[0], grid[1] = grid[1], grid[0]


def drop(grid):
    x = grid.pop()
    x.append(1)
    return x, grid


def both(a, b):
    a[0].append(5)
    return len(b[0]), a[0] is b[0]


def adjs(adj, s):
    seen = [False] * len(adj)
    seen[s] = True
    q = [s]
    for u in q:
        for v in adj[u]:
            if not seen[v]:
                seen[v] = True
                q.append(v)
    return q


def weights(adj):
    t = 0.0
    for u in range(len(adj)):
        for v, w in adj[u]:
            t += v * w
    return t


def transpose(m):
    return [[m[i][j] for i in range(len(m))] for j in range(len(m[0]))]


def flat_swap(a, b):
    a, b = b, a
    a.append(1)
    return b


def keep(nums):
    out = []
    out.append(nums)
    nums.append(3)
    return out


def deep(c):
    c[0][0][0] += 1
    return c[0]


SHARED = [1, 2]


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (total, [([[1, 2], [3]],), ([[], [1]],), ([[]],), ([],), ([[1.5], [2]],)]),
        (total, [([[True], [False]],), ([[1], (2,)],), ([[2**70]],), ([[1], None],)]),
        (set00, [([[1, 2], [3]], 9), ([[]], 1), ([SHARED, SHARED], 4), ([[1.5]], 2.5)]),
        (fill, [([[1, 2, 3], [3, 4, 5]],), ([[], [1]],)]),
        (push, [([[1], [2]], 3), ([SHARED, [5], SHARED], 3)]),
        (swap, [([[1], [2]],), ([[1]],)]),
        (drop, [([[1], [2]],), ([[1]],), ([],)]),
        (both, [([SHARED, [1]], [SHARED]), ([[1]], [[1]])]),
        (adjs, [([[1, 2], [2], [0], [3]], 0), ([[]], 0)]),
        (weights, [([[(1, 0.5)], [(0, 2.0), (1, 1.0)]],), ([[], []],)]),
        (transpose, [([[1, 2, 3], [4, 5, 6]],), ([[1.0]],)]),
        (flat_swap, [([1], [2]), ([], [2])]),
        (keep, [([1],), ([],)]),
        (deep, [([[[1]]],), ([[[1], []], []],)]),
    ],
)
def test_functions(function, calls) -> None:
    check(function, *calls)


def test_one_list_as_two_arguments() -> None:
    scripted = check(both, ([[1]], [[2]]))
    rows = [[1], [2]]
    assert scripted(rows, rows) == (2, True)
    assert rows == [[1, 5], [2]]


def test_elements_that_stay_are_the_same_objects() -> None:
    first, second = 1000.5, 2000.5
    rows = [[first, second], [second]]
    row = rows[0]
    check(set00, ([[1.5]], 2.5))(rows, 3.5)
    assert rows[0] is row
    assert row[0] == 3.5
    assert row[1] is second and rows[1][0] is second


def test_references_are_given_up() -> None:
    scripted = check(drop, ([[1], [2]],))
    gc.collect()
    row: list[int] = [1]
    count = sys.getrefcount(row)
    for _ in range(5):
        result = scripted([[0], row])
        assert result[0] is row
        del result
    rows = [[2**80]]
    assert script(total)(rows) == 2**80
    assert sys.getrefcount(row) == count


def change_row(row, other, operation, i, j, v):
    """Change one of the rows; ``other`` may be the same one."""
    if operation == 0:
        row.append(v)
    elif operation == 1 and len(row) > 0:
        row[j % len(row)] = v
    elif operation == 2:
        row.extend(other)
    elif operation == 3:
        row.sort()
    elif operation == 4:
        row.insert(j, v)
    elif operation == 5:
        row[j % 3 : j % 3 + i % 3] = [v, v + 1]
    elif operation == 9:
        copy_while_it_grows(row, other)


def shorten_row(row, operation, j):
    if operation == 6:
        del row[j % 4 :]
    elif operation == 7:
        row.reverse()
    elif operation == 8:
        row.clear()


def copy_while_it_grows(row, other):
    for x in row:
        if len(other) < 20:
            other.append(x)


def change_rows(rows, operation, i, j, v):
    """Change the list of rows, which has at least one."""
    n = len(rows)
    if operation == 10:
        rows.append([v, i])
    elif operation == 11:
        rows[i % n] = rows[j % n]
    elif operation == 12:
        rows[i % n], rows[j % n] = rows[j % n], rows[i % n]
    elif operation == 13:
        rows.append(rows[i % n][:])
    elif operation == 14:
        rows[i % n] = rows[i % n] + rows[j % n]
    elif operation == 15:
        rows.reverse()


def interpreted(rows, operations, log):
    others = [[7, 8], [9]]
    for operation, i, j, v in operations:
        n = len(rows)
        if operation == 16:
            rows, others = others, rows
        elif n == 0:
            log.append(operation)
        elif operation == 17:
            log.append(len(rows.pop(i % n)))
        elif operation == 18:
            log.append(int(rows[i % n] is rows[j % n]))
        elif operation == 19:
            others.append(rows[i % n])
        else:
            change_row(rows[i % n], rows[j % n], operation, i, j, v)
            shorten_row(rows[i % n], operation, j)
            change_rows(rows, operation, i, j, v)
    return rows, others, log


OPERATION = st.tuples(st.integers(0, 19), st.integers(0, 5), st.integers(0, 5), st.integers(0, 8))
ROWS = st.lists(st.lists(st.integers(0, 4), max_size=4), min_size=1, max_size=4)
interpreted_natively = script(interpreted)


@given(
    rows=ROWS,
    again=st.lists(st.integers(0, 3), max_size=2),
    operations=st.lists(OPERATION, min_size=1, max_size=25),
    is_same=st.booleans(),
)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_operations(rows, again, operations, is_same) -> None:
    rows = [[1], *rows]
    rows += [rows[number % len(rows)] for number in again]
    arguments = (rows, operations, rows[0] if is_same else [1])
    own = copy.deepcopy(arguments)
    assert observed(interpreted_natively, own) == observed(interpreted, arguments)
    assert isinstance(interpreted_natively.specializations[0].plan, NativePlan)


def given_tuple(rows, pair):
    rows[0].append(pair)
    return len(rows[0])


def test_a_tuple_that_is_an_argument_stays_the_object_that_it_is() -> None:
    rows, pair = [[(1.5, 2.5)], [(0.5, 1.0)]], tuple(float(one) for one in ("9.5", "0.5"))
    assert script(given_tuple)(rows, pair) == 2
    assert rows[0][1] is pair
