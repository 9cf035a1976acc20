"""Lists as subscripts of arrays."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitcore import script
from jitcore.execution.plans import NativePlan


def taken(a, i, values):
    return a[values]


def displayed(a, i, values):
    return a[[1, 0, i]], a[:, [i, 0]], a[[i, 1], [0, 1]], a[..., [0, 1]]


def put(a, i, values):
    a[values] = 5.0
    return a[0, 0]


def added(a, i, values):
    a[values] += 1.5
    return a[0, 0]


def in_tuples(a, i, values):
    a[values, 1] *= 2.0
    return a[values, 0], a[values, values]


def exchanged(a, i, values):
    a[[i, 0]] = a[[0, i]]
    return a[i, 0], a[0, 2]


def built(a, i, values):
    rows = []
    for number in range(i + 1):
        rows.append(number)
    return a[rows], a[sorted(values)], a[list(range(i))]


def masked(a, i, values):
    above = [a[number, 0] > 0.5 for number in range(6)]
    return a[above]


def of_rows(a, i, values):
    groups = [[0, 1], [i]]
    groups[1].append(2)
    total = 0.0
    for group in groups:
        total += a[group].max()
    return total


PROGRAMS = [taken, displayed, put, added, in_tuples, exchanged, built, masked, of_rows]
LISTS: list[list[Any]] = [[0, 2, 1], [1], [], [-1, 0, 0], [0, 9], [True, False, True], [1.0]]


def seen(function: Any, a: Any, i: int, values: list[Any]) -> Any:
    """What a call gives, or raises, and what is in the array afterwards."""
    try:
        found = function(a, i, values)
    except Exception as error:
        return type(error), str(error), a.tolist()
    found = found if isinstance(found, tuple) else (found,)
    return [(type(one), one.dtype, one.shape, one.tolist()) for one in found], a.tolist()


@pytest.mark.parametrize("program", PROGRAMS)
def test_lists_select_what_they_select_in_numpy(program: Any) -> None:
    scripted = script(program)
    array = np.random.default_rng(0).random((6, 3))
    for i in (2, 1, -1, 9):
        for values in LISTS:
            expected = seen(program, array.copy(), i, list(values))
            assert seen(scripted, array.copy(), i, list(values)) == expected


@pytest.mark.parametrize("program", PROGRAMS)
def test_they_are_native(program: Any) -> None:
    scripted = script(program)
    scripted(np.random.default_rng(0).random((6, 3)), 2, [0, 2, 1])
    (found,) = scripted.specializations
    assert isinstance(found.plan, NativePlan)


def of_lists(values, index):
    return values[index]


def test_lists_of_lists_do_not_take_them() -> None:
    with pytest.raises(TypeError, match="list indices must be integers or slices, not list"):
        script(of_lists)([1, 2], [0])


def of_dicts(names, index):
    index.append(1)
    return names[index]


def test_neither_do_dicts() -> None:
    with pytest.raises(TypeError, match="unhashable type"):
        script(of_dicts)({0: 1}, [0])
