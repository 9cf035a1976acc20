"""Lists whose elements are Python's numbers or NumPy's, and arithmetic on such numbers."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from jitcore import script
from jitcore.execution.plans import NativePlan

X = np.sin(np.arange(40) * 0.7) * 3.0
K = np.arange(40) * 7 % 11


def chosen(x, k, c):
    """Floats of both kinds in one list."""
    found = [0.0] * len(x)
    for i in range(len(x)):
        if x[i] > c:
            found[i] = x[i]
    return found


def grown(x, k, c):
    found = []
    for i in range(len(x)):
        found.append(x[i])
        found.append(c)
        found[i] *= 2
        found[0] += found[-1]
    found.insert(3, 1.5)
    found.reverse()
    return found, found[2:9], found.pop(), found[::3]


def several(x, k, c):
    """Ints, floats and NumPy's scalars in one list."""
    found = [0] * 5
    for i in range(30):
        found.append(k[i])
        if i % 3 == 0:
            found.append(i)
        elif i % 3 == 1:
            found[i // 2] = c * i
        else:
            found[i] = x[i]
    total = 0
    for one in found:
        total += one
    return found, total


def missing(x, k, c):
    """None for what is not known yet."""
    found: list[Any] = [None if i % 2 else i for i in range(40)]
    count = 0
    for i in range(40):
        if found[i] is None:
            count += 1
        else:
            count += found[i]
    return count


def rows(x, k, c):
    """Lists of lists that get NumPy's scalars."""
    table = [[0.0] * 4 for _ in range(6)]
    for i in range(1, 6):
        for j in range(4):
            best = table[i - 1][j] * c
            if x[4 * i + j] > best:
                best = x[4 * i + j]
            table[i][j] = best + c
    return table, max(table[3]), table[2][1] - table[0][0]


def recurrences(x, k, c):
    """Variables that are of one kind or the other."""
    s, p, m = 0.0, 1.0, -1e9
    for i in range(len(x)):
        if x[i] > c:
            s += x[i]
            p = p * 0.5 - s
        if s > m:
            m = s
    return s, p, m, -s, abs(p), s > m, s == s, s / 2, s // 0.5, s % 2.0, math.sqrt(abs(s)), float(p)


def pairs(x, k, c):
    """Tuples with such numbers in them."""
    found = []
    best = 0.0
    for i in range(len(x)):
        if x[i] > best:
            best = x[i]
        found.append((best, i))
    return found


def as_arrays(x, k, c):
    found = [c]
    table = [[c, x[0]], [x[1], c]]
    for i in range(len(x)):
        found.append(x[i])
    return np.array(found), np.array(table), sum(found)


PROGRAMS = [chosen, grown, several, missing, rows, recurrences, pairs, as_arrays]


def typed(value: Any) -> Any:
    """A value with the types of all that is in it."""
    if isinstance(value, list | tuple):
        return type(value), [typed(one) for one in value]
    return type(value), value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("c", [-10.0, 0.25, 10.0])
@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_their_types_are_pythons(program: Any, c: float) -> None:
    scripted = script(program)
    assert typed(scripted(X, K, c)) == typed(program(X, K, c))
    (found,) = scripted.specializations
    assert isinstance(found.plan, NativePlan)


def quotient(x, c):
    s = 0.0
    for i in range(len(x)):
        if x[i] > c:
            s = x[i] - x[i]
    return 1.0 / s


def test_a_zero_of_numpys_divides() -> None:
    scripted = script(quotient)
    with np.errstate(all="ignore"):
        assert typed(scripted(X, 0.0)) == typed(quotient(X, 0.0))
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        scripted(X, 10.0)


def shared_rows(x, c):
    row = [c, c]
    table = [row, row, [0.0, 1.0]]
    table[0][1] = x[2]
    row.append(x[3])
    return table


def test_rows_stay_one_list() -> None:
    found = script(shared_rows)(X, 0.5)
    assert typed(found) == typed(shared_rows(X, 0.5))
    assert found[0] is found[1]


def written(values, x):
    values[1] = x[0]
    return len(values)


def test_lists_that_are_arguments_get_numpys_scalars() -> None:
    ours, pythons = [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]
    assert script(written)(ours, X) == written(pythons, X)
    assert typed(ours) == typed(pythons)


def given_twice(x):
    found = [0] * 2
    other = found
    for i in range(len(x)):
        found.append(x[i])
    return found, (other, 1)


@pytest.mark.parametrize("count", [1, 3])
def test_a_list_that_is_returned_in_two_places_is_one_list(count: int) -> None:
    found, (other, _) = script(given_twice)(X[:count])
    assert typed(found) == typed(given_twice(X[:count])[0])
    assert found is other


def larger_written(k, n):
    found, text = [1.0] * 3, str(n)
    for i in range(3):
        found[i] = max(k[i], 0.5)
    return text, found


def test_host_programs_take_numbers_of_any_type() -> None:
    assert typed(script(larger_written)(K, 3)) == typed(larger_written(K, 3))


def last_or_c(x, c):
    """Neither the number nor its type is known where the loop does nothing."""
    s = 0
    found = [1, 2.0]
    for _ in range(len(x)):
        s = x[1]
    s = s if s <= 2 else c
    found[-1] = max(found) - c
    return s, found


def added_up(x, c):
    s = 0.0
    for v in x:
        if v > 1:
            s = v
    for value in {"one": 1, "two": 2}.items():
        s = s + value[1] * c
    return s


@pytest.mark.parametrize("program", [last_or_c, added_up])
def test_numbers_that_no_iteration_has_given(program: Any) -> None:
    for x in (X, X[:0]):
        assert typed(script(program)(x, 2.0)) == typed(program(x, 2.0))
