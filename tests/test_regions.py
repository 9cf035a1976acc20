"""Where native regions end: results that are views, or may be, are the host program's to make."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
import pytest

from checking import function_from_source
from jitcore import script
from jitcore.pipeline import HostPlan


def flat_columns(x, rows):
    table = np.reshape(x * 2, (rows, -1)).copy()
    flat = np.reshape(table.T, (x.size,))
    table[0] = 7
    return flat, table


def flat_in_a_loop(x, rows):
    parts = []
    for _ in range(2):
        table = (x.reshape(rows, -1) + 1).T
        flat = table.reshape(-1)
        table += 5
        parts.append(flat)
    return parts


@pytest.mark.parametrize("function", [flat_columns, flat_in_a_loop])
@pytest.mark.parametrize("rows", [1, 2, 3, 6])
def test_what_may_be_a_copy_is_made_before_the_next_write(function, rows):
    scripted = script(function)
    x = np.arange(6.0)
    expected = function(x, rows)
    for _ in range(2):
        found = scripted(x, rows)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        shared = [np.shares_memory(a, b) for a in found for b in found]
        assert shared == [np.shares_memory(a, b) for a in expected for b in expected]
    plan = scripted.specializations[0].plan
    assert isinstance(plan, HostPlan)
    assert plan.regions


@pytest.mark.slow
def test_many_copies_between_writes() -> None:
    count = 1100
    steps = "".join(
        f"    flat{n} = np.reshape(table.T, (x.size,))\n    table[0] = {n}\n" for n in range(count)
    )
    source = (
        "def f(x, rows):\n    table = np.reshape(x * 2, (rows, -1)).copy()\n"
        f"{steps}    return [{', '.join(f'flat{n}' for n in range(count))}]\n"
    )
    function = function_from_source(source)
    x = np.arange(6.0)
    for one, other in zip(script(function)(x, 2), function(x, 2), strict=True):
        np.testing.assert_array_equal(one, other)
