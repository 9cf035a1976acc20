"""Host programs: variables, regions, calls, size and tracebacks, and random programs."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import gc
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from control_flow_programs import random_program
from graph_checking import compiled_graph
from host_checking import (
    expected,
    graph_of,
    noting,
    same_as_graph,
    same_as_python,
    source_of,
)

from checking import function_from_source
from jitcore.codegen.host import build_host, print_host
from jitcore.ir.graph import Capture, Graph
from jitcore.ir.interpreter import run
from jitcore.ir.types import ANY, INT

# Assignments of loops and branches


def test_variables_that_swap() -> None:
    def f(a, b, n):
        c = 0
        for _ in range(n):
            a, b, c = b, a + c, a
        return a, b, c

    source = source_of(f)
    assert "for" in source
    for n in range(4):
        same_as_python(f, 3, 5, n)


def test_parallel_assignment_needs_no_more_variables_than_it_must() -> None:
    graph = graph_of(
        """
        graph(%a : int, %b : int, %n : int):
          %t : bool = prim::Constant[value=True]()
          %p : int, %q : int = prim::Loop(%n, %t, %a, %b)
            block0(%i : int, %x : int, %y : int):
              -> (%t, %y, %x)
          return (%p, %q)
        """
    )
    assert "p, q = q, p" in print_host(graph).source
    for n in range(3):
        same_as_graph(graph, 1, 2, n)


def test_conditions_that_read_what_the_iteration_assigns() -> None:
    graph = graph_of(
        """
        graph(%a : int, %n : int):
          %max : int = prim::Constant[value=9223372036854775807]()
          %t : bool = prim::Constant[value=True]()
          %one : int = prim::Constant[value=1]()
          %p : int, %q : int = prim::Loop(%max, %t, %a, %a)
            block0(%i : int, %x : int, %y : int):
              %z : int = prim::add(%x, %one)
              %c : bool = prim::lt(%x, %n)
              -> (%c, %z, %x)
          return (%p, %q)
        """
    )
    for n in (-1, 0, 4):
        same_as_graph(graph, 0, n)


def test_loops_with_a_trip_count_and_a_condition() -> None:
    graph = graph_of(
        """
        graph(%n : int, %c : Any, %x : Any):
          %one : int = prim::Constant[value=1]()
          %s : Any = prim::Loop(%n, %c, %x)
            block0(%i : int, %a : Any):
              %b : Any = prim::add(%a, %i)
              %d : bool = prim::lt(%b, %n)
              -> (%d, %b)
          return (%s)
        """
    )
    for n in (0, 3, 10):
        firsts: list[Any] = [True, False, [], "x"]
        for first in firsts:
            same_as_graph(graph, n, first, 0)


def test_a_loop_over_the_variable_that_it_assigns() -> None:
    graph = graph_of(
        """
        graph(%x : Any, %n : int):
          %t : bool = prim::Constant[value=True]()
          %e : Any = prim::ListConstruct()
          %r : Any = prim::Loop(%n, %t, %x)
            block0(%i : int, %0 : Any):
              %1 : Any = prim::For(%0, %e)
                block0(%item : Any, %2 : Any):
                  %3 : Any = prim::ListConstruct(%item)
                  %4 : Any = prim::add(%2, %3)
                  -> (%t, %4)
              -> (%t, %1)
          return (%r)
        """
    )
    same_as_graph(graph, (1, 2, 3), 2)


def test_both_operands_of_and_and_or_are_evaluated_once() -> None:
    def f(log, a, b):
        c = (log(a) and log(b)) or log(a + b)
        if log(a) and not log(b):
            c += 1
        return c, (log(1) if log(b) else log(2)), log(0) < log(a) < log(b)

    for a in (0, 1):
        for b in (0, 2):
            found: list[Any] = []
            wanted: list[Any] = []
            result = build_host(compiled_graph(f))(noting(found), a, b)
            assert result == f(noting(wanted), a, b)
            assert found == wanted


def test_errors_come_in_pythons_order() -> None:
    def f(x, y, z):
        return (x + 1, y[0], z.real, x[y])

    for args in ((1, [1], 2), ("a", 1, 2), (1, [], 2), (1, [2], 1j)):
        same_as_python(f, *args)


def test_unbound_variables() -> None:
    def f(n):
        for i in range(n):
            last = i
        return last, i

    for n in (0, 2):
        same_as_python(f, n)


def test_calls_with_all_kinds_of_arguments() -> None:
    graph = Graph("g")
    args, keywords, f = (graph.block.add_param(ANY, name) for name in ("args", "kw", "f"))
    node = graph.block.append(
        "prim::Call", [f, args, args, args, keywords], {"starred": (1,)}, keywords=["k", "**"]
    )
    graph.block.add_return(node.output)
    assert "f(*args, args, k=args, **kw)" in print_host(graph).source
    found = build_host(graph)((1, 2), {"z": 3}, lambda *a, **k: (a, k))
    assert found == ((1, 2, (1, 2)), {"k": (1, 2), "z": 3})


# Regions and called functions


REGIONS = """
graph(%x : Float64[n], %k : int):
  %1 : Float64[n], %2 : Float64 = prim::FusionGroup_0(%x)
  %3 : Float64[n] = prim::FusionGroup_1(%1)
  %4 : int = prim::CallFunction[name="twice"](%k)
  return (%3, %2, %4)
with prim::FusionGroup_0 = graph(%x : Float64[n]):
  %1 : Float64[n] = np::multiply(%x, %x)
  %2 : Float64 = np::sum[axis=(0,), keepdims=False](%1)
  return (%1, %2)
with prim::FusionGroup_1 = graph(%x : Float64[n]):
  %1 : Float64[n] = np::negative(%x)
  return (%1)
with function twice = graph(%k : int):
  %1 : int = prim::add(%k, %k)
  return (%1)
"""


def test_regions_are_called() -> None:
    graph = graph_of(REGIONS)
    first, second = graph.find_all_nodes("prim::FusionGroup")
    regions = {first: lambda x: (x + 1, 7.0), second: lambda x: x * 2}
    host = print_host(graph, name="f", regions=regions)
    assert host.source == expected(
        """
        def f(x, k):
            t1, t2 = FusionGroup_0(x)
            return FusionGroup_1(t1), t2, twice(k)


        def twice(k):
            return k + k
        """
    )
    array, number, count = build_host(graph, regions=regions)(np.ones(2), 4)
    np.testing.assert_array_equal(array, [4.0, 4.0])
    assert (number, count) == (7.0, 8)


def test_graphs_without_a_region_are_functions() -> None:
    graph = graph_of(REGIONS)
    assert "def FusionGroup_0(x):" in print_host(graph).source
    same_as_graph(graph, np.arange(3.0), 2)


def test_captures_of_a_called_graph_are_read() -> None:
    held = [5]
    graph = graph_of(
        """
        graph(%x : int):
          %1 : Any = prim::CallFunction[name="g"](%x)
          return (%1)
        with function g = graph(%x : int, %held : Any):
          %1 : Any = prim::getitem(%held, %x)
          return (%1)
        """
    )
    callee = graph.find_all_nodes("prim::CallFunction")[0].attributes["graph"]
    callee.captures.append(Capture("m.held", lambda: held, held, callee.inputs[1]))
    assert build_host(graph)(0) == 5


def test_recursive_graphs() -> None:
    graph = Graph("factorial")
    n = graph.block.add_param(INT, "n")
    one = graph.block.constant(1, INT)
    test = graph.block.append("prim::gt", [n, one])
    branch = graph.block.append("prim::If", test.outputs)
    then, orelse = branch.add_block(), branch.add_block()
    less = then.append("prim::sub", [n, one])
    rest = then.append("prim::CallFunction", less.outputs, {"graph": graph})
    then.add_return(then.append("prim::mul", [n, rest.output]).output)
    orelse.add_return(one)
    graph.block.add_return(branch.output)
    assert build_host(graph)(5) == 120


def test_a_graph_with_no_or_several_results() -> None:
    graph = graph_of("graph(%x : Any, %y : Any):\n  return (%y, %x)")
    assert build_host(graph)(1, 2) == (2, 1)
    assert build_host(graph_of("graph():\n  return ()"))() == ()


# Size


def test_long_graphs() -> None:
    graph = Graph("long")
    x = value = graph.block.add_param(INT, "x")
    for _ in range(10_000):
        value = graph.block.append("prim::sub", [x, value]).output
    graph.block.add_return(value)
    assert build_host(graph)(7) == run(graph, [7])


def test_wide_graphs() -> None:
    graph = Graph("wide")
    x = graph.block.add_param(INT, "x")
    values = [graph.block.append("prim::neg", [x]).output for _ in range(3000)]
    graph.block.add_return(graph.block.append("prim::TupleConstruct", values).output)
    assert build_host(graph)(7) == (-7,) * 3000


def nested(graph: Graph, kind: str, depth: int) -> Graph:
    """Blocks in blocks; each adds 1 to the innermost one's value before and after it."""
    x = graph.block.add_param(INT, "x")
    block, value = graph.block, x
    true = block.constant(True, ANY)
    one = block.constant(1, INT)
    for _ in range(depth):
        value = block.append("prim::add", [value, one]).output
        inputs = [x] if kind == "prim::If" else [one, true, value]
        node = block.append(kind, inputs)
        inner = node.add_block()
        if kind == "prim::Loop":
            inner.add_param(INT, "i")
            value = inner.add_param(INT, "x")
        else:
            node.add_block().add_return(one)
        after = block.append("prim::add", [node.output, one]).output
        for returned in ([true] if kind == "prim::Loop" and block.owner else []) + [after]:
            block.add_return(returned)
        block = inner
    for returned in ([true] if kind == "prim::Loop" else []) + [value]:
        block.add_return(returned)
    return graph


@pytest.mark.parametrize(("kind", "depth"), [("prim::Loop", 60), ("prim::If", 200)])
def test_deep_graphs(kind: str, depth: int) -> None:
    graph = nested(Graph("deep"), kind, depth)
    function = build_host(graph)
    assert function(1) == 1 + 2 * depth
    if kind == "prim::If":
        assert function(0) == 2


def test_very_deep_branches() -> None:
    assert build_host(nested(Graph("deep"), "prim::If", 800))(0) == 2


def test_long_chains_of_returns() -> None:
    lines = ["def f(x):"]
    for number in range(150):
        lines += [f"    if x == {number}:", f"        return {number * 2}"]
    function = function_from_source("\n".join([*lines, "    return -1", ""]))
    host = build_host(compiled_graph(function))
    assert [host(x) for x in (0, 77, 149, 150)] == [0, 154, 298, -1]
    assert "            " not in source_of(function)


# Text


_VALUES = ("a", "b + 1", "t[0]", "a * 2", "a if b else text", "len(t)", "text", "str(b)", "y")
_SPECIFICATIONS = (
    "",
    "",
    ":>9",
    ":{w}",
    ":^{w}",
    ":{mark}>{w}",
    ":0{w}",
    ":.{w}",
    ":%",
    ":{w + 1}",
)
_SINGLE, _TRIPLE = "'", '"' * 3
_LITERALS = ("", "x = ", "{{}}", "{{", "'", "'\"", r"\n", r"\\", "ä", ", ")


def random_format(rng: np.random.Generator, quotes: str, depth: int = 1) -> str:
    parts = []
    for _ in range(rng.integers(1, 5)):
        parts.append(_LITERALS[rng.integers(len(_LITERALS))] if depth else "-")
        value = str(rng.choice(_VALUES))
        if depth and rng.random() < 0.3:
            value = f"part({random_format(rng, _SINGLE, 0)}, b)"
        conversion, form = rng.choice(["", "", "!r", "!s"]), rng.choice(_SPECIFICATIONS)
        parts.append(f"{{({value}){conversion}{form}}}")
    return f"f{quotes}{''.join(parts)} {quotes}"


@pytest.mark.parametrize("seed", range(40))
def test_random_formats(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lines = ["def part(x, b):", "    return f'{x}<{b:03}>'", "def f(a, b, t, text):"]
    lines += ["    w, mark, y = len(t) + 4, '*', 'it'", f"    y = {random_format(rng, _TRIPLE)}"]
    lines += [f"    return y, {random_format(rng, _TRIPLE)}, f'{{y}}|{{b:{{w}}d}}'", ""]
    plain = function_from_source("\n".join(lines))
    host = build_host(compiled_graph(plain))
    for args in ((1.5, 3, (7, 8), "s'"), ("q", 0, ("",), ""), (None, True, (np.float32(2),), "{}")):
        assert call_any(host, args) == call_any(plain, args), source_of(plain)


def call_any(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    try:
        return repr(function(*args))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def test_formats_are_written_as_such() -> None:
    def f(width, x):
        side = "N" if x >= 0 else "S"
        inner = f"{x:0{width}d}{side!r}"
        return f"{inner},{'a' if width else 'b'},{x}{inner:>{width}}"

    same_as_python(f, 3, 5)
    assert "format_string" not in source_of(f)


# Tracebacks


def test_the_source_is_known_while_the_function_lives() -> None:
    def f(x):
        t = x + 1
        return t[0]

    function = build_host(compiled_graph(f))
    assert inspect.getsource(function) == source_of(f)
    with pytest.raises(TypeError) as caught:
        function(1)
    text = "".join(traceback.format_exception(caught.value))
    assert "<jitcore host f " in text and "return t[0]" in text
    file = function.__code__.co_filename
    linecache.checkcache()
    assert file in linecache.cache
    del function, caught
    gc.collect()
    assert file not in linecache.cache


# Random programs against Python


# CPython 3.11.2 runs some of these programs otherwise than later versions do, and otherwise than
# the language says; there the interpreter alone is the judge.
IS_TRUSTED = sys.version_info >= (3, 11, 7)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    plain = function_from_source(random_program(seed))
    graph = compiled_graph(plain)
    host = build_host(graph)
    function = plain if IS_TRUSTED else lambda *args: run(graph, list(args))
    for a, b in ((0, 1), (3, -2)):
        found: tuple[list[int], list[Any]] = ([1, -2, 3], [])
        wanted: tuple[list[int], list[Any]] = ([1, -2, 3], [])
        assert call(host, a, b, *found) == call(function, a, b, *wanted), print_host(graph).source
        assert found == wanted


def call(function: Callable[..., Any], a: int, b: int, items: list[int], logged: list[Any]) -> str:
    def log(x: Any) -> Any:
        logged.append(x)
        if len(logged) > 100:
            raise OverflowError("too long")
        return x

    try:
        return repr(function(a, b, items, log))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
