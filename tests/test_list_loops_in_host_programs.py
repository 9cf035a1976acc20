"""Loops over lists that are arguments, in functions of which Python runs another part."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitcore import script
from jitcore.execution.plans import HostPlan, NativePlan


def observed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """What a call gives or raises, and what it has made of its arguments."""
    try:
        result = function(*arguments)
    except Exception as error:
        result = error
    return repr((result, arguments))


def check(function: Callable[..., Any], *calls: tuple[Any, ...]) -> Any:
    """Compare calls, each of them three times, with Python; all loops must be machine code."""
    scripted = script(function)
    for arguments in calls:
        for _ in range(3):
            own, wanted = copy.deepcopy(arguments), copy.deepcopy(arguments)
            assert observed(scripted, own) == observed(function, wanted), arguments
    plan = scripted.specializations[0].plan
    assert isinstance(plan, HostPlan)
    regions = [one.specializations for one in plan.regions.values()]
    assert any(isinstance(one.plan, NativePlan) for found in regions for one in found)
    return scripted


def total(values, log):
    found = 0.0
    for v in values:
        found += v * v
    log["total"] = found
    return found


def by_index(values, log):
    found = 0
    for i in range(len(values)):
        if values[i] > i:
            found += values[i] * i
    log["found"] = found
    return log


def changed(values, log):
    for i in range(len(values)):
        values[i] = values[i] * 2 + 1
    log["n"] = len(values)
    return values


def together(one, other, log):
    found = 0.0
    for i, (x, y) in enumerate(zip(one, other, strict=False)):
        found += x * y * i
    log["found"] = found


def rows(table, log):
    found = 0
    for row in table:
        for v in row:
            found += v
    log["found"] = found
    return found


def of_arrays(arrays, log):
    found = 0.0
    for a in arrays:
        for v in a:
            found += v
    log["found"] = found
    return log


def raises(values, log):
    log["before"] = 1
    found = 0
    for v in values:
        found += 10 // v
    log["after"] = found


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (total, [([1.5, 2.5, -1.0], {}), ([0.5] * 100, {})]),
        (by_index, [([1, 5, 2, 9], {}), ([3] * 50, {})]),
        (changed, [([1, 2, 3], {}), ([2**62, 1], {})]),
        (together, [([1.5, 2.5], [2.0, 0.5, 1.0], {})]),
        (rows, [([[1, 2], [], [3]], {}), ([[4]], {})]),
        (of_arrays, [([np.arange(3.0), np.ones(2)], {})]),
        (raises, [([1, 2, 5], {}), ([1, 0], {})]),
    ],
)
def test_loops(function, calls) -> None:
    check(function, *calls)


def test_lists_of_other_things() -> None:
    scripted = check(total, ([1.5, 2.5], {}))
    for values in (
        [1, 2],
        [],
        [1.5, 2],
        [2**70],
        ["a"],
        [1.5, None],
        [np.float32(2)],
        "ab",
        {1: 2},
    ):
        assert observed(scripted, (values, {})) == observed(total, (values, {}))


def test_one_list_twice() -> None:
    def moved(one, other, log):
        for i in range(len(one)):
            one[i] = other[i - 1] + 1
        log["n"] = len(one)

    scripted = script(moved)
    for _ in range(3):
        values, wanted = [1, 2, 3], [1, 2, 3]
        scripted(values, values, {})
        moved(wanted, wanted, {})
        assert values == wanted


def test_references_are_counted() -> None:
    scripted, values = script(total), [1234.5, 5678.5]
    for _ in range(5):
        scripted(values, {})
    counts = [sys.getrefcount(one) for one in (*values, values)]
    for _ in range(50):
        scripted(values, {})
    assert [sys.getrefcount(one) for one in (*values, values)] == counts


def sorted_and_found(x, n):
    values, text = [1.0], str(n)
    for i in range(len(x)):
        values.append(float(x[i]))
    place = values.index(values[2])
    values.sort()
    return text, place, values[0]


def test_a_nan_is_sorted_and_found_where_python_cannot_begin_anew():
    x = np.array([3.0, np.nan, 0.5])
    assert script(sorted_and_found)(x, 3) == sorted_and_found(x, 3)
