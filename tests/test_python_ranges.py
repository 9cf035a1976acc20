"""Loops that Python runs go over its own ranges."""
# mypy: allow-untyped-defs, allow-untyped-calls

import itertools
import linecache
from collections.abc import Callable
from typing import Any

import pytest

from jitcore import is_scripting, script
from jitcore.execution.plans import HostPlan
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.python_ranges import use_python_ranges


def multiples(found, start, stop, step):
    """The step is known at run time only."""
    for k in range(start, stop, step):
        found.add(k)
        if k == 11:
            break
    else:
        found.add("all")
    return found


def by_threes(found, start, stop):
    last = None
    for k in range(start, stop, 3):
        if k in found:
            continue
        found.append(k)
        k = -k
        found.append(k)
        last = k
    return found, last


def nested(table, n):
    for i in range(1, n):
        for j in range(i, n + i):
            for k in range(j, i, -1):
                table[i, j] = table.get((j, i), 0) + k
        table.setdefault("after", []).append((i, j))
    return table


def both(found, n):
    """What counts and what the range gives are both used."""
    for number, k in enumerate(range(5, n)):
        found[k] = number
    return found


CASES: list[tuple[Callable[..., Any], Callable[[], Any]]] = [
    (multiples, lambda: (set(), 2, 9, 3)),
    (multiples, lambda: (set(), 1, 30, 5)),
    (multiples, lambda: (set(), 20, -5, -3)),
    (multiples, lambda: (set(), 5, 5, 1)),
    (by_threes, lambda: ([4, 10], 1, 17)),
    (by_threes, lambda: ([], 5, 2)),
    (nested, lambda: ({}, 4)),
    (both, lambda: ({}, 9)),
    (both, lambda: ({}, 2)),
]


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_programs(function, arguments):
    scripted = script(function)
    for _ in range(12):  # regions that are of no use are given up on the way
        assert scripted(*arguments()) == function(*arguments())


def test_a_step_of_zero():
    scripted = script(multiples)
    for _ in range(12):
        found = set[int]()
        with pytest.raises(ValueError, match=r"range\(\) arg 3 must not be zero"):
            scripted(found, 1, 5, 0)
        assert not found
        assert scripted(set(), 0, 4, 2) == {0, 2, "all"}


def asking(n):
    """What asks whether it is compiled is not left to the plain function."""
    composite = set()
    for k in range(2, n):
        if k not in composite:
            for j in range(k * k, n, k):
                composite.add(j)
    return composite, is_scripting()


def test_they_are_written_as_in_python():
    scripted = script(asking)
    for _ in range(12):
        assert scripted(100) == (asking(100)[0], True)
    plan = scripted.specializations[-1].plan
    assert isinstance(plan, HostPlan)
    code = plan.run.__code__
    text = "".join(linecache.getlines(code.co_filename))
    assert "in range(2, n):" in text and text.count(" in range(") == 2
    assert "range_length" not in text


def lengths(start, stop, step):
    total = 0
    for k in range(start, stop, step):
        total += k
        if total > 10**12 or total < -(10**12) or k % 97 == 53:
            break
    return total, len(range(start, stop, step)) if -(10**9) < start < stop < 10**9 else None


def test_steps_of_native_loops_that_vary():
    scripted = script(lengths)
    ends = (0, 1, -1, 2, -7, 13, 2**63 - 1, -(2**63), 2**63 - 2)
    for given in itertools.product(ends, ends, (1, -1, 2, -3, 5, 2**63 - 1, -(2**63))):
        if given[0] == given[1] or (given[1] > given[0]) == (given[2] > 0):
            assert scripted(*given) == lengths(*given), given
    with pytest.raises(ValueError, match=r"range\(\) arg 3 must not be zero"):
        scripted(1, 5, 0)
    assert len(scripted.kernels) == 1


def test_the_pass():
    graph = parse_graph(
        """
        graph(%x : Any, %start : int, %stop : int):
          %true : bool = prim::Constant[value=True]()
          %step : int = prim::Constant[value=2]()
          %n : int = prim::range_length(%start, %stop, %step)
          %all : int = prim::Loop(%n, %true, %start)
            block0(%i : int, %a : int):
              %1 : int = prim::mul(%i, %step)
              %k : int = prim::add(%start, %1)
              %2 : Any = prim::CallMethod[name="append"](%x, %k)
              %b : int = prim::add(%a, %k)
              -> (%true, %b)
          return (%all)
        """
    )
    counting = parse_graph(str(graph).replace("prim::add(%a, %k)", "prim::add(%a, %i)"))
    assert use_python_ranges(graph) and not use_python_ranges(graph)
    (loop,) = graph.find_all_nodes("prim::For")
    assert [node.kind for node in loop.blocks[0].nodes] == ["prim::CallMethod", "prim::add"]
    items = loop.inputs[0].node
    assert items is not None and items.inputs[:2] == graph.inputs[1:]
    assert not graph.find_all_nodes("prim::range_length")
    assert not use_python_ranges(counting)
