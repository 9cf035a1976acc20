"""Lists that become values: when they do, when they must not, and what comes of them."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_checking import compiled_graph
from pass_checking import examples

import jitcore
from jitcore import script
from jitcore.ir.parser import parse_graph
from jitcore.ir.specialize.lists import local_lists
from jitcore.ir.specialize.lists.local_lists import with_local_lists
from jitcore.ir.specialize.specialize import specialize
from jitcore.ir.types import COMPLEX, FLOAT, INT, TensorType
from jitcore.ir.verifier import verify
from jitcore.pipeline import NativePlan


def test_docstring() -> None:
    before, after = map(parse_graph, examples(local_lists))
    promoted = with_local_lists(before)
    assert promoted is not None
    assert str(promoted) == str(after)


def complete(n):
    values: list[int] = []
    for i in range(n):
        values.append(i)
    return values


def stored_first(n):
    values: list[int] = []
    kept = {"v": values}
    for i in range(n):
        values.append(i)
    return kept


def chosen_by_a_branch(n):
    values = [1]
    other = values if n else [2]
    other.append(n)
    return values


def iterated_while_it_grows(n):
    values = [n]
    for v in values:
        if v > 0:
            values.append(v - 1)
    return len(values)


def written_in_try(n):
    values = [0]
    try:
        values.append(1 // n)
    except ZeroDivisionError:
        pass
    return len(values)


def never_written(n):
    values = [n, n + 1]
    return values[0] + values[1]


@pytest.mark.parametrize(
    ("function", "promotes"),
    [
        (complete, True),
        (stored_first, False),
        (chosen_by_a_branch, False),
        (iterated_while_it_grows, False),
        (written_in_try, False),
        (never_written, True),
    ],
)
def test_which_lists_become_values(function, promotes) -> None:
    promoted = with_local_lists(compiled_graph(function))
    assert (promoted is not None) is promotes
    for n in (0, 3):
        assert jitcore.script(function)(n) == function(n)


def grown(x):
    values = []
    for i in range(x.shape[0]):
        if x[i] > 0:
            values.append(float(x[i]))
    return np.array(values)


def test_typed_graph_has_arrays_only() -> None:
    typed = specialize(compiled_graph(grown), [TensorType(np.dtype(float), ("n",))])
    verify(typed)
    kinds = {node.kind for node in typed.nodes()}
    assert not [kind for kind in kinds if kind.startswith("prim::List")]
    assert {"np::empty", "np::store", "np::copy"} <= kinds


def test_runs_as_machine_code() -> None:
    scripted = jitcore.script(grown)
    x = np.linspace(-1, 1, 101)
    np.testing.assert_array_equal(scripted(x), grown(x))
    (found,) = scripted.specializations
    assert isinstance(found.plan, NativePlan)


def mixed(n, v):
    values = []
    for i in range(n):
        values.append(i)
    values.append(v)
    return len(values)


@pytest.mark.parametrize(("type_", "stays"), [(INT, False), (FLOAT, False), (COMPLEX, True)])
def test_lists_of_several_types_stay_lists(type_, stays) -> None:
    typed = specialize(compiled_graph(mixed), [INT, type_])
    verify(typed)
    assert bool(typed.find_all_nodes("prim::ListConstruct")) is stays


# Empty lists -------------------------------------------------------------------------------


def float32_numbers(n):
    found = []
    for i in range(n):
        found.append(np.float32(i))
    return np.array(found)


def sum_of_ints(n):
    found = []
    for i in range(n):
        found.append(i)
    return np.sum(found)


def converted(n):
    found = []
    for i in range(n):
        found.append(i)
    return np.array(found, dtype=np.float32)


def after_a_write(n, x):
    x += 1
    found = []
    for i in range(n):
        found.append(i)
    return np.array(found)


@pytest.mark.parametrize("function", [float32_numbers, sum_of_ints, converted, after_a_write])
def test_an_array_of_an_empty_list_is_float64(function: Any) -> None:
    compiled = script(function)
    for n in (3, 0, 2, 0):
        arrays = [(np.zeros(2),) if function is after_a_write else () for _ in range(2)]
        actual, expected = compiled(n, *arrays[0]), function(n, *arrays[1])
        assert type(actual) is type(expected) and actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(arrays[0], arrays[1])
