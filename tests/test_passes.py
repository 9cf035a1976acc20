"""The passes that all graphs go through: their docstrings, names, calls, and random programs."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pass_checking import Pass, apply, check_pass, check_unchanged, examples

from jitcore.ir.graph import Block, Capture, Graph, Value
from jitcore.ir.interpreter import run
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.canonicalize import canonicalize
from jitcore.ir.passes.cse import common_subexpression_elimination
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.passes.inline import inline
from jitcore.ir.passes.unroll import unroll_array_loops
from jitcore.ir.passes.whole_views import use_whole_arrays
from jitcore.ir.types import ANY, BOOL, INT, array_type, scalar_type
from jitcore.ir.verifier import verify


@pytest.mark.parametrize(
    "function",
    [
        dead_code_elimination,
        common_subexpression_elimination,
        canonicalize,
        inline,
        use_whole_arrays,
        unroll_array_loops,
    ],
)
def test_docstring(function: Pass) -> None:
    before, after = examples(function)
    check_pass(function, before, after)
    check_unchanged(function, after)


# Names and calls ---------------------------------------------------------------------------


def test_canonicalize_makes_equal_graphs_equal() -> None:
    first, _ = apply(
        canonicalize,
        """
        graph(%x : Any):
          %7 : Any = prim::neg(%x)
          %y.4 : Any = prim::If(%7)
            block0():
              %9 : Any = prim::neg(%7)
              -> (%9)
            block1():
              -> (%x)
          return (%y.4)
        """,
    )
    check_unchanged(canonicalize, first)
    assert "%0 : Any = prim::neg(%x)" in first
    assert "%y : Any = prim::If(%0)" in first


def test_new_names_after_canonicalize() -> None:
    graph = parse_graph("graph(%x.9 : Any, %4 : Any):\n  return (%4)")
    canonicalize(graph)
    graph.block.append("prim::neg", [graph.inputs[0]], names=("x",))
    graph.block.append("prim::neg", [graph.inputs[0]])
    assert [node.output.name for node in graph.block.nodes] == ["x.1", "1"]
    verify(graph)


def test_inline_nested_calls_and_branches() -> None:
    text = """
    graph(%x : Any, %c : Any):
      %y : Any = prim::If(%c)
        block0():
          %0 : Any = prim::CallFunction[name="f"](%x)
          -> (%0)
        block1():
          %1 : Any = prim::CallFunction[name="g"](%x)
          -> (%1)
      return (%y)
    with function f = graph(%a : Any):
      %0 : Any = prim::CallFunction[name="g"](%a)
      %1 : Any = prim::CallFunction[name="g"](%0)
      return (%1)
    with function g = graph(%b : Any):
      %0 : Any = prim::add(%b, %b)
      return (%0)
    """
    graph = parse_graph(textwrap.dedent(text).strip())
    expected = [run(graph, [3, flag]) for flag in (True, False)]
    assert inline(graph)
    verify(graph)
    assert not graph.find_all_nodes("prim::CallFunction")
    assert [run(graph, [3, flag]) for flag in (True, False)] == expected == [12, 6]


def test_inline_keeps_recursion() -> None:
    text = """
    graph(%x : Any):
      %0 : Any = prim::CallFunction[name="f"](%x)
      return (%0)
    with function f = graph(%n : Any):
      %0 : int = prim::Constant[value=1]()
      %1 : Any = prim::gt(%n, %0)
      %2 : Any = prim::If(%1)
        block0():
          %3 : Any = prim::sub(%n, %0)
          %4 : Any = prim::CallFunction[name="f"](%3)
          %5 : Any = prim::mul(%n, %4)
          -> (%5)
        block1():
          -> (%0)
      return (%2)
    """
    graph = parse_graph(textwrap.dedent(text).strip())
    assert inline(graph)
    verify(graph)
    assert len(graph.find_all_nodes("prim::CallFunction")) == 1
    assert run(graph, [5]) == 120


def test_inline_takes_captures_along() -> None:
    table = np.arange(3.0)

    def callee() -> Graph:
        graph = Graph("f")
        x = graph.block.add_param(ANY, "x")
        captured = graph.block.add_param(ANY, "table")
        graph.captures.append(Capture("table", read, table, captured))
        graph.block.add_return(graph.block.append("prim::add", [x, captured]).output)
        return graph

    def read() -> Any:
        return table

    graph = Graph()
    x = graph.block.add_param(ANY, "x")
    first = graph.block.append("prim::CallFunction", [x], {"graph": callee()}).output
    second = graph.block.append("prim::CallFunction", [first], {"graph": callee()}).output
    graph.block.add_return(second)
    verify(graph)
    np.testing.assert_array_equal(run(graph, [1.0]), 1.0 + table + table)
    assert inline(graph)
    verify(graph)
    assert len(graph.captures) == 1
    np.testing.assert_array_equal(run(graph, [1.0]), 1.0 + table + table)


# Random programs ---------------------------------------------------------------------------

ARRAY = array_type("f8", (4,))
SCALAR = scalar_type("f8")


class ProgramWriter:
    """Writes random typed graphs over arrays of four numbers, with views, writes and branches."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.graph = Graph()
        names = ("x", "y")
        self.arrays = [self.graph.block.add_param(ARRAY, name) for name in names]
        self.flag = self.graph.block.add_param(BOOL, "flag")
        self.count = self.graph.block.add_param(INT, "count")

    def write(self) -> Graph:
        block = self.graph.block
        scalar = block.append("np::sum", self.arrays[:1], FULL_SUM, outputs=(SCALAR,)).output
        self.statements(block, [*self.arrays], [scalar], 8, depth=0)
        return self.graph

    def statements(
        self, block: Block, arrays: list[Value], scalars: list[Value], most: int, depth: int
    ) -> None:
        for _ in range(self.draw(st.integers(0, most))):
            kinds = [*STATEMENTS, *(["if", "loop"] if depth < 2 else [])]
            self.statement(self.draw(st.sampled_from(kinds)), block, arrays, scalars, depth)
        returned = [self.draw(st.sampled_from(arrays)), self.draw(st.sampled_from(arrays))]
        for value in [*returned, self.draw(st.sampled_from(scalars))]:
            block.add_return(value)

    def statement(
        self, kind: str, block: Block, arrays: list[Value], scalars: list[Value], depth: int
    ) -> None:
        def pick(values: list[Value]) -> Value:
            return self.draw(st.sampled_from(values))

        outputs = (ARRAY, ARRAY, SCALAR)
        if kind == "if":
            node = block.append("prim::If", [self.flag], outputs=outputs)
            for _ in range(2):
                self.statements(node.add_block(), [*arrays], [*scalars], 3, depth + 1)
        elif kind == "loop":
            carried = [pick(arrays), pick(arrays), pick(scalars)]
            node = block.append("prim::Loop", [self.count, self.flag, *carried], outputs=outputs)
            body = node.add_block()
            _, a, b, c = (body.add_param(type_) for type_ in (INT, *outputs))
            body.add_return(self.flag)
            self.statements(body, [*arrays, a, b], [*scalars, c], 3, depth + 1)
        elif kind == "np::store":
            value = pick([*arrays, *scalars])
            block.append(kind, [pick(arrays), value], outputs=())
            return
        elif kind == "np::sum":
            node = block.append(kind, [pick(arrays)], FULL_SUM, outputs=(SCALAR,))
        else:
            operands = [pick(arrays)] if kind in UNARY else [pick(arrays), pick(arrays)]
            node = block.append(kind, operands, UNARY.get(kind), outputs=(ARRAY,))
        arrays += [value for value in node.outputs if value.type == ARRAY]
        scalars += [value for value in node.outputs if value.type == SCALAR]


FULL_SUM = {"axis": (0,), "keepdims": False}
UNARY: dict[str, dict[str, Any]] = {
    "np::copy": {},
    "np::view": {"index": "::-1"},
    "np::negative": {},
}
STATEMENTS = ["np::store", "np::sum", "np::add", "np::minimum", *UNARY]


@st.composite
def programs(draw: st.DrawFn) -> Graph:
    return ProgramWriter(draw).write()


def observed(graph: Graph, flag: bool, count: int, overlap: int) -> list[Any]:
    """All that a caller sees: the results, the memory, and which results share memory."""
    memory = np.arange(1.0, 9.0)
    x, y = memory[:4], memory[4 - overlap : 8 - overlap]
    results = run(graph, [x, y, flag, count])
    shared = [np.shares_memory(one, two) for one in results[:2] for two in (x, y, *results[:2])]
    return [*map(np.array, results), memory, shared]


@given(programs(), st.booleans(), st.integers(0, 3), st.sampled_from([0, 1, 4]))
def test_passes_keep_what_the_caller_sees(
    graph: Graph, flag: bool, count: int, overlap: int
) -> None:
    verify(graph)
    text = str(graph)
    assert str(parse_graph(text)) == text
    expected = observed(graph, flag, count, overlap)
    for function in (common_subexpression_elimination, dead_code_elimination, canonicalize):
        function(graph)
        verify(graph)
        found = observed(graph, flag, count, overlap)
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, two)
    assert not dead_code_elimination(graph)


# Whole views ------------------------------------------------------------------------------


def test_a_view_of_all_elements_stays_where_it_is_an_object() -> None:
    check_unchanged(
        use_whole_arrays,
        """
        graph(%x : Float32[n]):
          %0 : Float32[n] = np::view[index=":"](%x)
          %1 : Float32[n, 1] = np::view[index=":, None"](%0)
          %2 : bool = prim::is_(%0, %x)
          return (%0, %1, %2)
        """,
    )


def test_other_views_stay() -> None:
    check_unchanged(
        use_whole_arrays,
        """
        graph(%x : Float32[5]):
          %0 : Float32[5] = np::view[index="::-1"](%x)
          %1 : Float32[5] = np::negative(%0)
          return (%1)
        """,
    )
