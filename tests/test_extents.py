# mypy: allow-untyped-defs, allow-untyped-calls
"""Ints that decide how large arrays are: known to the first specializations, as extents are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.ir.extent_inputs import extent_inputs
from jitcore.ir.parser import parse_graph


def diffused(u, n, steps):
    for _ in range(steps):
        u[1 : n - 1] = 0.5 * (u[: n - 2] + u[2:n])
    return u


def made(n, steps):
    total = np.zeros((n, n + 1))
    for step in range(steps):
        total += step
    return total


def without_loops(x, n):
    return x[:n] * 2 + x[1 : n + 1]


def picked(x, i):
    total = 0.0
    for _ in range(3):
        total += x[i]
    return total


def _kinds(compiled: Any) -> list[str]:
    return [one.kind for one in compiled.specializations]


def _key(compiled: Any) -> Any:
    return [one[0] for one in compiled.specializations[0].key]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 50, 70, -4])
def test_any_extent_gives_what_numpy_gives(n: int) -> None:
    check(diffused, np.arange(50.0) ** 2, n, 4)
    check(made, n, 3)


def test_the_first_specializations_know_extents_and_no_numbers_of_steps() -> None:
    compiled = script(diffused)
    compiled(np.ones(50), 50, 3)
    assert _key(compiled) == ["array", "constant", "int"]
    compiled(np.ones(50), 50, 4)
    assert _kinds(compiled) == ["STATIC"]
    (kernel,) = compiled.kernels
    assert "malloc" in kernel.source or "range(48)" in kernel.source


def test_later_ones_take_any_extent() -> None:
    compiled = script(diffused)
    for n in range(10, 30):
        u = np.arange(30.0)
        expected = diffused(u.copy(), n, 3)
        assert np.array_equal(compiled(u, n, 3), expected)
    assert _kinds(compiled) == ["STATIC", "STATIC", "DYNAMIC"]
    assert "n  20" not in str(compiled.explain(np.ones(30), 20, 3))


def test_explain_says_which_number_it_was_compiled_for() -> None:
    compiled = script(diffused)
    compiled(np.ones(30), 20, 3)
    report = str(compiled.explain(np.ones(30), 21, 3))
    assert "n" in report and "20" in report.partition("not specialization 1")[2]


def one_by_one(x, n):
    for i in range(1, n):
        x[i] += x[i - 1] * 0.5
    return x


def test_ends_of_counters_that_are_indices_count_as_extents() -> None:
    compiled = script(one_by_one)
    compiled(np.ones(30), 30)
    assert _key(compiled) == ["array", "constant"]
    (kernel,) = compiled.kernels
    assert "if " not in kernel.source.partition("for i")[2]
    for n in (0, 7, 30, 31, -3):
        check(one_by_one, np.arange(30.0), n)


@pytest.mark.parametrize("arguments", [(np.arange(20.0), 7), (np.arange(20.0), 9)])
def test_other_ints_are_not_part_of_the_key(arguments: tuple[Any, ...]) -> None:
    for function in (without_loops, picked):
        compiled = script(function)
        compiled(*arguments)
        assert _key(compiled) == ["array", "int"]
        check(function, *arguments)


def test_ints_behind_arithmetic_are_found() -> None:
    graph = parse_graph("""\
graph(%x : Float64[a], %n : int, %m : int, %k : int):
  %0 : int = prim::Constant[value=2]()
  %1 : bool = prim::Constant[value=True]()
  %2 : int = prim::sub(%n, %0)
  %3 : int = prim::mul(%2, %m)
  prim::Loop(%k, %1)
    block0(%i : int):
      %4 : Float64[b] = np::view[index="$0:"](%x, %3)
      %5 : Float64[] = np::view[index="$0"](%x, %k)
      -> (%1)
  return (%x)
""")
    assert extent_inputs(graph) == {1, 2}
