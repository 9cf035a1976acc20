"""The passes of the IR, text in and text out."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitcore.ir.graph import Block, Capture, Graph, Value
from jitcore.ir.interpreter import run
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.canonicalize import canonicalize
from jitcore.ir.passes.cse import common_subexpression_elimination, constant_key
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.passes.inline import inline
from jitcore.ir.passes.unroll import MAX_UNROLLED, unroll_array_loops
from jitcore.ir.passes.whole_views import use_whole_arrays
from jitcore.ir.types import ANY, BOOL, INT, array_type, scalar_type
from jitcore.ir.verifier import verify

Pass = Callable[[Graph], bool]


def examples(function: Pass) -> tuple[str, str]:
    """The texts under ``Before::`` and ``After::`` in a docstring."""
    assert function.__doc__ is not None
    doc = textwrap.dedent(" " * 4 + function.__doc__)
    _, _, rest = doc.partition("Before::\n\n")
    before, _, rest = rest.partition("After::\n\n")
    lines = rest.split("\n")
    end = next((k for k, line in enumerate(lines) if line and not line.startswith(" ")), None)
    after = "\n".join(lines[:end])
    return textwrap.dedent(before).strip(), textwrap.dedent(after).strip()


def apply(function: Pass, text: str) -> tuple[str, bool]:
    graph = parse_graph(textwrap.dedent(text).strip())
    verify(graph)
    changed = function(graph)
    verify(graph)
    return str(graph), changed


def check(function: Pass, before: str, after: str) -> None:
    result, changed = apply(function, before)
    assert result == textwrap.dedent(after).strip()
    assert changed


def check_unchanged(function: Pass, text: str) -> None:
    result, changed = apply(function, text)
    assert result == textwrap.dedent(text).strip()
    assert not changed


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
    check(function, before, after)
    check_unchanged(function, after)


# Dead code ---------------------------------------------------------------------------------


def test_dce_drops_a_chain() -> None:
    check(
        dead_code_elimination,
        """
        graph(%x : Float32[n]):
          %0 : Float32[n] = np::sin(%x)
          %1 : Float32[n] = np::cos(%0)
          %2 : Float32[n] = np::tan(%1)
          return (%x)
        """,
        """
        graph(%x : Float32[n]):
          return (%x)
        """,
    )


@pytest.mark.parametrize(
    "dead",
    [
        "%0 : Float32[s0] = np::add(%x, %y)",
        '%0 : Float32[] = np::view[index="0"](%x)',
        "%0 : Float32 = np::max[axis=(0,), keepdims=False](%x)",
        "%0 : int = prim::floordiv(%k, %k)",
        "%0 : Any = prim::getitem(%x, %k)",
        "%0 : Any = prim::Call(%f)",
        '%0 : Any = np::call[name="random.rand"](%k)',
        "%0 : float = math::sqrt(%k)",
        "prim::Raise(%f)",
        '%0 : int = prim::CheckBound[name="k"](%k, %b)',
    ],
)
def test_dce_keeps_what_may_raise_or_has_effects(dead: str) -> None:
    check_unchanged(
        dead_code_elimination,
        f"""
        graph(%x : Float32[n], %y : Float32[m], %k : int, %f : Any, %b : bool):
          {dead}
          return (%x)
        """,
    )


@pytest.mark.parametrize(
    "dead",
    [
        "%0 : Float32[n] = np::add(%x, %x)",
        '%0 : Float32[s] = np::view[index="1:-1"](%x)',
        "%0 : int = prim::mul(%k, %k)",
        "%0 : Tuple[int, int] = prim::TupleConstruct(%k, %k)",
        "%0 : Float32 = np::sum[axis=(0,), keepdims=False](%x)",
        "%0 : float = math::atan(%k)",
        '%0 : Float64[n] = np::cast[dtype=dtype("float64")](%x)',
    ],
)
def test_dce_drops_what_cannot_raise(dead: str) -> None:
    check(
        dead_code_elimination,
        f"""
        graph(%x : Float32[n], %k : int):
          {dead}
          return (%x)
        """,
        """
        graph(%x : Float32[n], %k : int):
          return (%x)
        """,
    )


def test_dce_keeps_a_write_through_a_view_that_is_returned() -> None:
    check_unchanged(
        dead_code_elimination,
        """
        graph(%x : Float32[n], %n : int):
          %c : Float32[n] = np::copy(%x)
          %v : Float32[n] = np::view[index="::-1"](%c)
          np::store(%v, %x)
          return (%c)
        """,
    )


def test_dce_drops_writes_to_memory_nobody_reads() -> None:
    check(
        dead_code_elimination,
        """
        graph(%x : Float32[n]):
          %c : Float32[n] = np::copy(%x)
          %d : Float32[n] = np::copy(%x)
          %v : Float32[n] = np::view[index="::-1"](%c)
          np::store(%v, %x)
          np::store(%d, %x)
          return (%d)
        """,
        """
        graph(%x : Float32[n]):
          %d : Float32[n] = np::copy(%x)
          np::store(%d, %x)
          return (%d)
        """,
    )


def test_dce_drops_outputs_of_branches() -> None:
    check(
        dead_code_elimination,
        """
        graph(%x : Float32[n], %c : bool):
          %a : Float32[n], %b : Float32[n] = prim::If(%c)
            block0():
              %0 : Float32[n] = np::sin(%x)
              %1 : Float32[n] = np::cos(%x)
              -> (%0, %1)
            block1():
              %2 : Float32[n] = np::tan(%x)
              -> (%2, %x)
          return (%b)
        """,
        """
        graph(%x : Float32[n], %c : bool):
          %b : Float32[n] = prim::If(%c)
            block0():
              %1 : Float32[n] = np::cos(%x)
              -> (%1)
            block1():
              -> (%x)
          return (%b)
        """,
    )


def test_dce_drops_carried_values_that_feed_only_themselves() -> None:
    check(
        dead_code_elimination,
        """
        graph(%n : int, %t : bool):
          %a : int, %b : int, %c : int = prim::Loop(%n, %t, %n, %n, %n)
            block0(%i : int, %p : int, %q : int, %r : int):
              %0 : int = prim::add(%p, %i)
              %1 : int = prim::add(%q, %r)
              %2 : int = prim::mul(%r, %i)
              -> (%t, %0, %1, %2)
          return (%b)
        """,
        """
        graph(%n : int, %t : bool):
          %b : int, %c : int = prim::Loop(%n, %t, %n, %n)
            block0(%i : int, %q : int, %r : int):
              %1 : int = prim::add(%q, %r)
              %2 : int = prim::mul(%r, %i)
              -> (%t, %1, %2)
          return (%b)
        """,
    )


def test_dce_drops_a_loop_that_ends_and_keeps_one_that_may_not() -> None:
    check(
        dead_code_elimination,
        """
        graph(%n : int, %t : bool):
          %a : int = prim::Loop(%n, %t, %n)
            block0(%i : int, %p : int):
              %0 : int = prim::add(%p, %i)
              -> (%t, %0)
          return (%n)
        """,
        """
        graph(%n : int, %t : bool):
          return (%n)
        """,
    )
    check(
        dead_code_elimination,
        """
        graph(%n : int, %t : bool):
          %m : int = prim::Constant[value=9223372036854775807]()
          %a : int = prim::Loop(%m, %t, %n)
            block0(%i : int, %p : int):
              %0 : int = prim::add(%p, %i)
              -> (%t, %0)
          return (%n)
        """,
        """
        graph(%n : int, %t : bool):
          %m : int = prim::Constant[value=9223372036854775807]()
          prim::Loop(%m, %t)
            block0(%i : int):
              -> (%t)
          return (%n)
        """,
    )


def test_dce_keeps_a_write_in_a_held_graph() -> None:
    check_unchanged(
        dead_code_elimination,
        """
        graph(%x : Float32[n]):
          %c : Float32[n] = np::copy(%x)
          %d : Float32[n] = prim::NativeGroup_0(%c, %x)
          return (%c)
        with prim::NativeGroup_0 = graph(%a : Float32[n], %b : Float32[n]):
          np::store(%a, %b)
          return (%b)
        """,
    )


def test_dce_is_linear() -> None:
    graph = Graph()
    x = graph.block.add_param(ANY, "x")
    value = x
    for _ in range(5000):
        value = graph.block.append("prim::TupleConstruct", [value, x]).output
    graph.block.add_return(x)
    assert dead_code_elimination(graph)
    assert graph.block.nodes == []
    verify(graph)


# Common subexpressions ---------------------------------------------------------------------


def test_cse_across_blocks() -> None:
    check(
        common_subexpression_elimination,
        """
        graph(%x : Float32[n], %c : bool):
          %0 : Float32 = np::sum[axis=(0,), keepdims=False](%x)
          %a : Float32 = prim::If(%c)
            block0():
              %1 : Float32 = np::sum[axis=(0,), keepdims=False](%x)
              -> (%1)
            block1():
              %2 : Float32 = np::prod[axis=(0,), keepdims=False](%x)
              -> (%2)
          %3 : Float32 = np::prod[axis=(0,), keepdims=False](%x)
          %4 : Float32 = np::add(%a, %3)
          %5 : Float32 = np::add(%4, %0)
          return (%5)
        """,
        """
        graph(%x : Float32[n], %c : bool):
          %0 : Float32 = np::sum[axis=(0,), keepdims=False](%x)
          %a : Float32 = prim::If(%c)
            block0():
              -> (%0)
            block1():
              %2 : Float32 = np::prod[axis=(0,), keepdims=False](%x)
              -> (%2)
          %3 : Float32 = np::prod[axis=(0,), keepdims=False](%x)
          %4 : Float32 = np::add(%a, %3)
          %5 : Float32 = np::add(%4, %0)
          return (%5)
        """,
    )


def test_cse_of_views_in_spite_of_writes() -> None:
    check(
        common_subexpression_elimination,
        """
        graph(%x : Float32[n], %y : Float32[s]):
          %a : Float32[s] = np::view[index="1:"](%x)
          np::store(%a, %y)
          %b : Float32[s] = np::view[index="1:"](%x)
          %c : Float32[s] = np::sin(%b)
          return (%c)
        """,
        """
        graph(%x : Float32[n], %y : Float32[s]):
          %a : Float32[s] = np::view[index="1:"](%x)
          np::store(%a, %y)
          %c : Float32[s] = np::sin(%a)
          return (%c)
        """,
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [("1", "1.0"), ("1", "True"), ("0.0", "-0.0"), ("0", "False"), ('"1"', "1"), ("(1,)", "[1]")],
)
def test_cse_keeps_constants_that_differ(first: str, second: str) -> None:
    check_unchanged(
        common_subexpression_elimination,
        f"""
        graph():
          %0 : float = prim::Constant[value={first}]()
          %1 : float = prim::Constant[value={second}]()
          %2 : Tuple[float, float] = prim::TupleConstruct(%0, %1)
          return (%2)
        """,
    )


@pytest.mark.parametrize("value", ["nan", "-0.0", "1", '"a"', "None", "np.float32(nan)"])
def test_cse_of_equal_constants(value: str) -> None:
    check(
        common_subexpression_elimination,
        f"""
        graph():
          %0 : float = prim::Constant[value={value}]()
          %1 : float = prim::Constant[value={value}]()
          %2 : Tuple[float, float] = prim::TupleConstruct(%0, %1)
          return (%2)
        """,
        f"""
        graph():
          %0 : float = prim::Constant[value={value}]()
          %2 : Tuple[float, float] = prim::TupleConstruct(%0, %0)
          return (%2)
        """,
    )


@pytest.mark.parametrize(
    "text",
    [
        # Uninitialized memory, random numbers, calls.
        """
        graph(%n : int):
          %0 : Float32[m] = np::empty[dtype=dtype("float32")](%n)
          %1 : Float32[m] = np::empty[dtype=dtype("float32")](%n)
          %2 : Float32[m] = np::add(%0, %1)
          return (%2)
        """,
        """
        graph(%n : int):
          %0 : Any = np::call[name="random.rand"](%n)
          %1 : Any = np::call[name="random.rand"](%n)
          %2 : Any = prim::add(%0, %1)
          return (%2)
        """,
        # Two results must be two arrays.
        """
        graph(%x : Float32[n]):
          %0 : Float32[n] = np::sin(%x)
          %1 : Float32[n] = np::sin(%x)
          %2 : Tuple[Float32[n], Float32[n]] = prim::TupleConstruct(%0, %1)
          return (%2)
        """,
        # One of them is written.
        """
        graph(%x : Float32[n]):
          %0 : Float32[n] = np::sin(%x)
          %1 : Float32[n] = np::sin(%x)
          np::store(%0, %x)
          %2 : Float32[n] = np::add(%0, %1)
          return (%2)
        """,
        # A loop writes what it read before.
        """
        graph(%x : Float32[n], %y : Float32[n], %k : int, %t : bool):
          %0 : Float32 = np::sum[axis=(0,), keepdims=False](%x)
          %a : Float32 = prim::Loop(%k, %t, %0)
            block0(%i : int, %b : Float32):
              %1 : Float32 = np::sum[axis=(0,), keepdims=False](%x)
              np::store(%x, %y)
              -> (%t, %1)
          return (%a)
        """,
        # Identity is looked at.
        """
        graph(%x : Float32[n]):
          %0 : Float32[n] = np::view[index=":"](%x)
          %1 : Float32[n] = np::view[index=":"](%x)
          %2 : bool = prim::is_(%0, %1)
          return (%2)
        """,
        # Two iterators.
        """
        graph(%x : List[int]):
          %0 : Any = prim::zip(%x, %x)
          %1 : Any = prim::zip(%x, %x)
          %2 : Any = prim::tuple(%0)
          %3 : Any = prim::tuple(%1)
          %4 : Any = prim::TupleConstruct(%2, %3)
          return (%4)
        """,
    ],
)
def test_cse_must_not_fire(text: str) -> None:
    check_unchanged(common_subexpression_elimination, text)


def test_constant_key() -> None:
    nan = float("nan")
    assert constant_key(nan) == constant_key(nan) != constant_key(float("nan"))
    assert constant_key(np.float64(nan)) == constant_key(np.float64(nan))
    assert constant_key(np.float32(1)) != constant_key(np.float64(1))
    assert constant_key(np.array([0.0])) != constant_key(np.array([-0.0]))
    assert constant_key((1, 2)) != constant_key((1, 2.0))
    assert constant_key(np.dtype("f4")) != constant_key(np.dtype(">f4"))


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


LOOP = """
    graph(%x : Float32[n], %k : int, %c : bool):
      %0 : int = prim::Constant[value=COUNT]()
      %1 : bool = prim::Constant[value=True]()
      %2 : bool = prim::Constant[value=False]()
      %z : Float32[n] = prim::Loop(TRIPS, START, %x)
        block0(%i : int, %a : Float32[n]):
          %b : Float32[n] = BODY
          -> (GO_ON, %b)
      return (%z)
"""
PARTS = {
    "COUNT": "3",
    "TRIPS": "%0",
    "START": "%1",
    "GO_ON": "%1",
    "BODY": "np::multiply(%a, %a)",
}


def loop_text(**parts: str) -> str:
    text = LOOP
    for name, part in (PARTS | parts).items():
        text = text.replace(name, part)
    return text


def test_unroll() -> None:
    result, changed = apply(unroll_array_loops, loop_text())
    assert changed
    assert result.count("np::multiply") == 3
    assert "prim::Loop" not in result


@pytest.mark.parametrize(
    "parts",
    [
        {"COUNT": str(MAX_UNROLLED + 1)},
        {"COUNT": "0"},
        {"TRIPS": "%k"},
        {"START": "%c"},
        {"GO_ON": "%c"},
        {"GO_ON": "%2"},
        {"BODY": "np::cumsum[axis=0](%a)"},
        {"BODY": 'np::call[name="copy"](%a)'},
    ],
)
def test_unroll_must_not_fire(parts: dict[str, str]) -> None:
    check_unchanged(unroll_array_loops, loop_text(**parts))


def test_unroll_reads_numbers_of_arrays_from_outside() -> None:
    text = """
        graph(%x : Float32[n], %c : Float32[3]):
          %0 : int = prim::Constant[value=3]()
          %1 : bool = prim::Constant[value=True]()
          %z : Float32[n] = prim::Loop(%0, %1, %x)
            block0(%i : int, %a : Float32[n]):
              %b : Float32[] = np::view[index="$0"](BASE, %i)
              %d : Float32 = np::item(%b)
              %e : Float32[n] = np::multiply(%a, %d)
              -> (%1, %e)
          return (%z)
        """
    result, changed = apply(unroll_array_loops, text.replace("BASE", "%c"))
    assert changed and result.count("np::item") == 3 and "prim::Loop" not in result
    check_unchanged(unroll_array_loops, text.replace("BASE", "%a"))


def test_unroll_leaves_loops_of_numbers() -> None:
    check_unchanged(
        unroll_array_loops,
        """
        graph(%x : Float32):
          %0 : int = prim::Constant[value=3]()
          %1 : bool = prim::Constant[value=True]()
          %z : Float32 = prim::Loop(%0, %1, %x)
            block0(%i : int, %a : Float32):
              %b : Float32 = np::multiply(%a, %a)
              -> (%1, %b)
          return (%z)
        """,
    )
