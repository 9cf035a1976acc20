# mypy: allow-untyped-defs, allow-untyped-calls
"""Extents that have to be equal: kernels take them for equal, and leave other calls to Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import check_pass, examples

from jitcore import ScriptFunction, fusion_strategy, script
from jitcore.codegen.loop_passes.near_values import compute_near_values
from jitcore.codegen.loop_passes.traversal import free_variables, walk
from jitcore.codegen.loops import For, Function
from jitcore.codegen.lower import Lowered
from jitcore.execution.plans import NativePlan
from jitcore.ir.passes.assumed_extents import assume_equal_extents

RANDOM = np.random.default_rng(8)


def test_docstring() -> None:
    check_pass(assume_equal_extents, *examples(assume_equal_extents))


def haar(x):
    return (x[::2] + x[1::2]) * 0.5, (x[::2] - x[1::2]) * 0.5


def quarters(x):
    return (x[::2, ::2] + x[1::2, ::2] + x[::2, 1::2] + x[1::2, 1::2]) / 4


def filtered(x, taps):
    n = len(x) - len(taps) + 1
    y = np.zeros(n)
    for k in range(len(taps)):
        y += taps[k] * x[k : k + n]
    return y


def exchanged_in_place(x):
    x[::2], x[1::2] = x[1::2] * 2, x[::2] - 1
    return x[::2] + x[1::2]


def in_a_branch(x, flag):
    if flag:
        return x[::2] * x[1::2]
    return x[::3] + 1


def steps(x, count):
    total = np.zeros(count)
    for i in range(len(x) - count + 1):
        part = x[i : i + count]
        if i % 2:
            part = x[i : i + count] * part[0]
        total += part
    return total


def rows_of_pairs(x):
    return np.stack([x[::2], x[1::2]], axis=1)


def widened(x, k):
    return x[k : k + 1] * x[1:] + x[k + 1 : k + 2]


def cut_off(x, k, n):
    y = x[:n].copy()
    y += x[k : k + n]
    return y


def written_first(x, y, k, n):
    y[0] = 3
    x[k : k + n] += y[:n]
    return x[:n] + y[k : k + n]


def of_two_bounds(x, a, b, c, d):
    return x[a:b] + x[c:d]


def called(function, *args):
    """What a function gives and leaves behind, or raises."""
    own = [one.copy() if isinstance(one, np.ndarray) else one for one in args]
    try:
        result = function(*own)
    except ValueError as error:
        return str(error), own
    return result, own


def check_calls(function, *calls):
    """Compare a compiled function with NumPy, argument by argument."""
    compiled = script(function)
    for args in calls:
        (result, own), (expected, others) = called(compiled, *args), called(function, *args)
        if isinstance(expected, str):
            assert result == expected
        else:
            pairs = zip(np.atleast_1d(result), np.atleast_1d(expected), strict=True)
            for one, other in pairs:
                np.testing.assert_array_equal(one, other, strict=True)
        for one, other in zip(own, others, strict=True):
            np.testing.assert_array_equal(one, other)
    return compiled


VECTORS = [RANDOM.normal(size=n) for n in (4, 6, 8, 40, 3, 7, 0, 1, 2, 100, 33, 3, 3, 3, 8, 3)]


@pytest.mark.parametrize("function", [haar, exchanged_in_place, rows_of_pairs])
def test_halves_of_vectors(function: Callable[..., Any]) -> None:
    check_calls(function, *((x,) for x in VECTORS))


def test_quarters_of_matrices() -> None:
    shapes = [(4, 6), (8, 2), (20, 30), (2, 2), (3, 4), (4, 3), (3, 3), (0, 4), (64, 64), (1, 2)]
    check_calls(quarters, *((RANDOM.normal(size=shape),) for shape in shapes))


def test_lengths_that_ints_tell() -> None:
    for function in (filtered, cut_off, steps, written_first):
        calls: list[tuple[Any, ...]] = []
        for x in VECTORS:
            n = min(len(x), 3)
            taps = RANDOM.normal(size=n)
            more: dict[Callable[..., Any], list[tuple[Any, ...]]] = {
                filtered: [(x, taps)] if len(x) > 3 else [],
                cut_off: [(x, k, m) for k in (0, 2, -1, 50) for m in (n, 1, 2, 0)],
                steps: [(x, m) for m in (n, 1, 2)],
                written_first: [(x, x * 2, k, m) for k in (0, 1, 2) for m in (1, 2, n) if len(x)],
            }
            calls += more[function]
        check_calls(function, *calls)


def test_branches_that_do_not_run_do_not_matter() -> None:
    compiled = check_calls(in_a_branch, *((x, flag) for x in VECTORS for flag in (False, True)))
    assert len(compiled.specializations) <= 8


def test_slices_of_one_element_are_stretched() -> None:
    compiled = check_calls(widened, *((x, k) for x in VECTORS for k in (0, 1, -1, 5)))
    assert compiled._executor.assumes


def test_calls_in_which_they_differ_get_other_code() -> None:
    compiled = script(of_two_bounds)
    x = np.arange(20.0)
    for a, b, c, d in [(0, 5, 3, 8), *[(0, 1, 3, 8), (0, 5, 3, 4), (1, 6, 2, 7)] * 5]:
        expected = of_two_bounds(x, a, b, c, d)
        np.testing.assert_array_equal(compiled(x, a, b, c, d), expected, strict=True)
    assert not compiled._executor.assumes
    (only,) = compiled.specializations
    assert "assume_equal" not in str(only.plan.graph)
    with pytest.raises(ValueError, match=r"\(5,\) \(2,\)"):
        compiled(x, 0, 5, 3, 5)


def test_calls_that_raise_are_no_reason_for_other_code() -> None:
    compiled = script(haar)
    with fusion_strategy([("DYNAMIC", 3)]):
        for n in (8, 7, 9, 11, 13, 15, 17, 8):
            x = np.arange(float(n))
            if n % 2:
                with pytest.raises(ValueError, match="could not be broadcast"):
                    compiled(x)
            else:
                np.testing.assert_array_equal(compiled(x), haar(x))
    (only,) = compiled.specializations
    assert "assume_equal" in str(only.plan.graph)


def lowered(compiled: ScriptFunction, number: int = 0) -> Lowered:
    """The loop nests of a specialization."""
    plan = compiled.specializations[number].plan
    assert isinstance(plan, NativePlan)
    return plan.kernel.lowered


@pytest.mark.parametrize(("function", "nests"), [(haar, 1), (quarters, 1), (rows_of_pairs, 2)])
def test_one_loop_for_all(function: Callable[..., Any], nests: int) -> None:
    compiled = script(function)
    with fusion_strategy([("DYNAMIC", 1)]):
        compiled(RANDOM.normal(size=(10, 12)))
    notes = lowered(compiled).notes
    assert sum("loop" in one for one in notes) == nests
    assert not any("temporary" in one for one in notes)


def stacked(x, y):
    return np.stack([x + y, x - y, x * y], axis=-1)


def joined(x, y):
    return np.concatenate([np.sqrt(x), x[:, :2] * y[:, :2]], axis=1)


@pytest.mark.parametrize("function", [stacked, joined])
def test_stacks_are_computed_in_place(function: Callable[..., Any]) -> None:
    compiled = script(function)
    with fusion_strategy([("DYNAMIC", 2)]):
        for n in (7, 1, 0, 30):
            x, y = RANDOM.uniform(1, 2, (2, n, 4))
            np.testing.assert_array_equal(compiled(x, y), function(x, y), strict=True)
            selected = x[:, 0] > 1.5
            x, y = x[selected], y[selected]
            np.testing.assert_array_equal(compiled(x, y), function(x, y), strict=True)
    for number in range(len(compiled.specializations)):
        notes = lowered(compiled, number).notes
        assert function is joined or not any("temporary" in note for note in notes)


def test_places_that_are_a_known_distance_apart() -> None:
    compiled = script(quarters)
    with fusion_strategy([("DYNAMIC", 1)]):
        compiled(RANDOM.normal(size=(10, 12)))
    function = lowered(compiled).function
    before, after = (loop_variables(one) for one in (function, compute_near_values(function)))
    assert any(name.startswith("offset") for name in before)
    assert not any(name.startswith(("offset", "stride")) for name in after)


def loop_variables(function: Function) -> set[str]:
    """What a loop that threads share gets from around it."""
    (loop,) = (one for one in walk(function.body) if isinstance(one, For) and one.parallel)
    return {var.name for var in free_variables(loop.body)}
