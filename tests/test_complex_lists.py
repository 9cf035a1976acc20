# mypy: allow-untyped-defs, allow-untyped-calls
"""Lists of complex numbers: made, changed, passed and returned."""

from __future__ import annotations

import cmath
import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitcore import script


def transform(x):
    n = len(x)
    values = [complex(x[i], 0) for i in range(n)]
    found = [0j] * n
    for k in range(n):
        total = 0j
        for j in range(n):
            total += values[j] * cmath.exp(-2j * cmath.pi * k * j / n)
        found[k] = total
    return np.array(found), any(values), all(values)


def stack(n):
    waiting, total = [1j], 0j
    while waiting and n > 0:
        z = waiting.pop()
        total += z
        waiting.append(z * 2)
        waiting.append(z / 2)
        n -= 1
    return total, len(waiting)


def in_tuples(n):
    pairs = [(i, complex(i, 1)) for i in range(n)]
    total = 0j
    for i, z in pairs:
        total += i * z
    return total


def in_rows(n):
    rows = []
    for i in range(n):
        row = []
        for j in range(i):
            row.append(complex(i, j))
        rows.append(row)
    total = 0j
    for row in rows:
        for z in row:
            total += z
    rows[2][0] *= 2
    return total, rows[2][0], np.array(rows[2])


def farthest(zs):
    best = None
    for z in zs:
        if best is None or abs(z) > abs(best):
            best = z
    return best, sum(zs)


def doubled(zs):
    return [z * 2 for z in zs]


def weighted(pairs):
    total = 0j
    for weight, z in pairs:
        total += weight * z
    return total


def changed(zs):
    for i in range(len(zs)):
        zs[i] = zs[i] * 1j
    zs.append(5j)
    del zs[0]
    return zs[0], np.array(zs)


ZS = [1.5 - 2j, -0.0 + 0.0j, complex(math.nan, -math.inf), 1e300j]


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (transform, np.arange(6.0)),
        (stack, 40),
        (in_tuples, 5),
        (in_rows, 4),
        (farthest, ZS[:2]),
        (doubled, ZS),
        (weighted, [(2, 1j), (3, 2 - 1j)]),
        (changed, ZS),
    ],
)
def test_complex_lists_are_native(function: Callable[..., Any], given: Any) -> None:
    scripted = script(function)
    for argument in (given, given):
        mine, yours = copy.deepcopy(argument), copy.deepcopy(argument)
        assert repr(scripted(mine)) == repr(function(yours))
        assert repr(mine) == repr(yours)
    assert f"one native function, {function.__name__}_0" in str(scripted.explain(given))


def looked_for(zs):
    return zs[0] in zs, zs.count(zs[0]), zs.index(zs[-1])


def mixed(n):
    found: list[Any] = []
    for i in range(n):
        if i % 2:
            found.append(1.5)
        else:
            found.append(2j)
    return found, sum(found)


def shared(zs, ws):
    lists = [zs, ws]
    lists[1][0] = 7j
    return lists[0] is lists[1], sum(zs)


@pytest.mark.parametrize("zs", [ZS, [], [1j, 2.0, 3], [2j, None]])
@pytest.mark.parametrize("function", [farthest, doubled, changed, looked_for])
def test_lists_of_other_things_are_python_s(function: Callable[..., Any], zs: list[Any]) -> None:
    scripted = script(function)
    scripted([1j, 2j])
    outcomes = []
    for one in (function, scripted):
        given = list(zs)
        try:
            outcomes.append(repr((one(given), given)))
        except (TypeError, IndexError) as error:
            outcomes.append(repr((error, given)))
    assert outcomes[0] == outcomes[1]


def test_what_is_not_native_is_the_same() -> None:
    assert script(mixed)(4) == mixed(4)
    for other in ([1j], None):
        first, second = [2j], [2j]
        mine, yours = (first, other or first), (second, other or second)
        assert script(shared)(*mine) == shared(*yours)
