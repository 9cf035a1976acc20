"""Alias analysis: what may share memory, what writes to it, and what may change places."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any

import numpy as np
import pytest

from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.effects import node_effects
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.interpreter import run
from jitcore.ir.may_raise import may_raise
from jitcore.ir.parser import parse_graph
from jitcore.ir.types import ANY


def parse(text: str) -> Graph:
    return parse_graph(textwrap.dedent(text).strip())


def values(graph: Graph) -> dict[str, Value]:
    found = {value.name: value for value in graph.inputs}
    for node in graph.nodes():
        found.update((value.name, value) for value in node.outputs)
        for block in node.blocks:
            found.update((value.name, value) for value in block.params)
    return found


def one_node(line: str, params: str) -> Node:
    return parse(f"graph({params}):\n  {line}\n  return ()").block.nodes[0]


VIEWS = """
graph(%x : Float32[n, 4], %y : Float32[n, 4], %i : int):
  %v : Float32[4] = np::view[index="$0"](%x, %i)
  %w : Float32[2] = np::view[index="::2"](%v)
  %t : Float32[4, n] = np::transpose[axes=(1, 0)](%x)
  %r : Float32[4, n] = np::reshape(%x, %i, %i)
  %s : Float32[n, 4] = np::sin(%x)
  %c : Float32[n, 4] = np::copy(%x)
  %k : Float32 = np::sum[axis=(0, 1), keepdims=False](%x)
  np::store(%w, %k)
  return (%s)"""


def test_views() -> None:
    graph = parse(VIEWS)
    v = values(graph)
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    for name in "vwtr":
        assert analysis.may_alias(v[name], v["x"])
        assert not analysis.may_alias(v[name], v["y"])
    for name in "sc":
        assert not analysis.may_alias(v[name], v["x"])
    assert not analysis.may_alias(v["s"], v["c"])
    assert not analysis.points_to(v["k"])
    assert not analysis.points_to(v["i"])


def test_inputs_may_overlap_unless_they_are_distinct() -> None:
    graph = parse(VIEWS)
    v = values(graph)
    assert AliasAnalysis(graph).may_alias(v["x"], v["y"])
    assert not AliasAnalysis(graph, distinct_inputs=True).may_alias(v["x"], v["y"])


def test_writers() -> None:
    graph = parse(VIEWS)
    v = values(graph)
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    store = graph.find_all_nodes("np::store")[0]
    assert analysis.writers(v["x"]) == [store]
    assert analysis.writers(v["t"]) == [store]
    assert not analysis.has_writers(v["y"])
    assert not analysis.has_writers(v["s"])
    assert AliasAnalysis(graph).has_writers(v["y"])
    assert analysis.has_effects(store)
    assert not analysis.has_effects(graph.find_all_nodes("np::sin")[0])


def test_branches_and_loops_alias_what_they_return() -> None:
    graph = parse("""
    graph(%x : Float32[n], %y : Float32[n], %c : bool, %n : int):
      %a : Float32[n] = prim::If(%c)
        block0():
          -> (%x)
        block1():
          %0 : Float32[n] = np::sin(%y)
          -> (%0)
      %b : Float32[n], %d : Float32[n] = prim::Loop(%n, %c, %x, %y)
        block0(%i : int, %p : Float32[n], %q : Float32[n]):
          -> (%c, %q, %p)
      %s : Float32[n] = np::sin(%b)
      return (%a, %b)
    """)
    v = values(graph)
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    assert analysis.may_alias(v["a"], v["x"])
    assert not analysis.may_alias(v["a"], v["y"])
    for loop, given in itertools.product("bdpq", "xy"):
        assert analysis.may_alias(v[loop], v[given])
    assert not analysis.may_alias(v["s"], v["b"])


def test_containers_keep_their_elements() -> None:
    graph = parse("""
    graph(%x : Float32[n], %y : Float32[n], %i : int):
      %l : List[Float32[n]] = prim::ListConstruct(%x)
      %t : Tuple[Any, Any] = prim::TupleConstruct(%l, %i)
      %e : Any = prim::getitem(%l, %i)
      %u : Any, %k : int = prim::Unpack[count=2](%t)
      %f : Any = prim::getitem(%u, %i)
      prim::setitem(%u, %i, %y)
      return (%f)
    """)
    v = values(graph)
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    assert not analysis.may_alias(v["l"], v["x"])
    assert analysis.may_contain_alias(v["l"], v["x"])
    assert analysis.may_alias(v["e"], v["x"])
    assert analysis.may_alias(v["u"], v["l"])
    assert analysis.may_alias(v["f"], v["x"])
    # The list was changed through another name.
    assert analysis.may_alias(v["e"], v["y"])
    assert analysis.has_writers(v["l"])
    assert not analysis.writers_of(analysis.points_to(v["x"]))


def test_a_view_of_elements_is_none_of_them() -> None:
    graph = parse("""
    graph(%x : Float32[n], %i : int):
      %l : Array<|O>[m] = prim::ListRoom(%i)
      %k : None = prim::ListPut(%l, %i, %x)
      %v : Array<|O>[p] = np::view[index=":$0"](%l, %i)
      %e : Float32[n] = prim::ListGet(%v, %i)
      return (%e)
    """)
    v = values(graph)
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    assert analysis.may_alias(v["v"], v["l"])
    assert not analysis.may_alias(v["v"], v["x"])
    assert analysis.may_contain_alias(v["v"], v["x"])
    assert analysis.may_alias(v["e"], v["x"])


def test_unknown_code_knows_what_it_was_given() -> None:
    graph = parse("""
    graph(%x : Float32[n], %f : Any):
      %a : Float32[n] = np::sin(%x)
      %b : Float32[n] = np::cos(%x)
      %r : Any = prim::Call(%f, %a)
      %s : Any = prim::Call(%f)
      return (%r)
    """)
    v = values(graph)
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    assert analysis.may_alias(v["r"], v["a"])
    assert analysis.may_alias(v["s"], v["a"])
    assert not analysis.may_alias(v["s"], v["b"])
    assert len(analysis.writers(v["a"])) == 2
    assert not analysis.has_writers(v["b"])
    assert analysis.has_writers(v["x"])


def test_held_graphs_are_looked_into() -> None:
    graph = parse("""
    graph(%x : Float32[n], %y : Float32[n]):
      %a : Float32[n], %b : Float32[n] = prim::NativeGroup_0(%x, %y)
      return (%a)
    with prim::NativeGroup_0 = graph(%p : Float32[n], %q : Float32[n]):
      np::store(%p, %q)
      %0 : Float32[n] = np::sin(%q)
      return (%p, %0)
    """)
    v = values(graph)
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    (group,) = graph.block.nodes
    assert analysis.may_alias(v["a"], v["x"])
    assert not analysis.may_alias(v["b"], v["x"])
    assert analysis.writes(group) == analysis.points_to(v["x"])
    assert analysis.reads(group) >= analysis.points_to(v["y"])
    assert analysis.has_effects(group)


@pytest.mark.parametrize(
    ("line", "writes"),
    [
        ("prim::setitem(%x, %k, %y)", (0,)),
        ("%r : Any = prim::iadd(%x, %y)", (0,)),
        ("%r : Any = prim::iadd(%k, %y)", ()),
        ("%r : Any = np::add(%x, %y, out=%z)", (2,)),
        ("%r : Any = np::add(%x, %y, %z)", (2,)),
        ("%r : Any = np::add(%x, %y)", ()),
        ("%r : Any = np::sum(%x, %k, %k, %z)", (3,)),
        ('%r : Any = np::call[name="copyto"](%x, %y)', (0,)),
        ('%r : Any = np::call[name="linalg.norm"](%x, %y)', ()),
        ('%r : Any = np::call[name="random.shuffle"](%x)', (0,)),
        ('%r : Any = np::call[name="median"](%x, overwrite_input=%k)', (0,)),
        ('%r : Any = prim::CallMethod[name="fill"](%x, %k)', (0,)),
        ('%r : Any = prim::CallMethod[name="sort"](%x)', (0,)),
        ('%r : Any = prim::CallMethod[name="sum"](%x, out=%z)', (1,)),
        ('%r : Any = prim::CallMethod[name="mean"](%x)', ()),
        ('%r : Any = prim::CallMethod[name="append"](%l, %x)', (0,)),
        ('%r : Any = prim::CallMethod[name="index"](%l, %k)', ()),
        ("np::store(%x, %y)", (0,)),
        ("np::put_mask(%x, %y, %k)", (0,)),
        ("%r : Any = np::concatenate[axis=0](%x, %y, %z)", ()),
    ],
)
def test_what_nodes_write(line: str, writes: tuple[int, ...]) -> None:
    params = "%x : Float32[n], %y : Float32[n], %z : Float32[n], %k : int, %l : List[Float32[n]]"
    effects = node_effects(one_node(line, params))
    assert effects.writes == writes
    assert not effects.wildcard


@pytest.mark.parametrize(
    "line",
    [
        "%r : Any = prim::Call(%f, %x)",
        '%r : Any = prim::CallMethod[name="f"](%f, %x)',
        '%r : Any = np::call[name="apply_along_axis"](%f, %k, %x)',
        "prim::Raise(%f)",
        '%r : Any = np::call[name="random.rand"](%k)',
        '%r : Any = np::call[name="save"](%f, %x)',
        "%r : Any = prim::print(%x)",
        "%r : Any = np::of_no_such_name(%x)",
    ],
)
def test_observable_nodes(line: str) -> None:
    assert node_effects(one_node(line, "%x : Float32[n], %k : int, %f : Any")).observable


MOVES = """
graph(%x : Float32[n], %y : Float32[n], %z : Float32[m]):
  %a : Float32[n] = np::sin(%x)
  %b : Float32[n] = np::cos(%a)
  np::store(%y, %a)
  %d : Float32[n] = np::exp(%y)
  %e : Float32[s] = np::add(%x, %z)
  %t : Float32[n] = np::copy(%x)
  np::store(%t, %x)
  return (%b, %d, %e, %t)"""


def test_moves() -> None:
    graph = parse(MOVES)
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    sin, cos, store, exp, add, copy, local = graph.block.nodes
    # Data.
    assert not analysis.can_move_before(cos, sin)
    assert analysis.can_move_after(cos, store)
    assert analysis.can_move_after(cos, local)
    # Memory.
    assert not analysis.can_move_before(exp, store)
    assert analysis.can_move_before(exp, add)
    assert not analysis.can_move_after(store, exp)
    assert not analysis.can_move_before(store, sin)
    # The exception of the sum must find y written.
    assert not analysis.can_move_before(add, store)
    assert analysis.can_move_before(add, exp)
    # Nobody sees a write to local memory when there is an exception.
    assert analysis.can_move_before(copy, add)
    assert analysis.can_move_after(add, local)
    assert not analysis.can_move_before(local, copy)
    assert not AliasAnalysis(graph).can_move_after(sin, store)


def test_moves_stay_in_one_block() -> None:
    graph = parse("""
    graph(%x : Any, %c : bool):
      %a : Any = prim::If(%c)
        block0():
          %0 : Any = prim::neg(%x)
          -> (%0)
        block1():
          -> (%x)
      %b : Any = prim::neg(%x)
      return (%a)
    """)
    analysis = AliasAnalysis(graph)
    inner = graph.find_all_nodes("prim::neg")[0]
    assert not analysis.can_move_before(graph.block.nodes[1], inner)


def test_allowed_moves_do_not_change_results() -> None:
    """Every move of one node that the analysis allows, tried with real arrays."""
    text = """
    graph(%x : Float64[4], %y : Float64[4]):
      %v : Float64[2] = np::view[index="1:3"](%x)
      %a : Float64[4] = np::add(%x, %y)
      %w : Float64[2] = np::view[index="2:"](%y)
      np::store(%v, %w)
      %c : Float64[4] = np::copy(%x)
      %u : Float64[2] = np::view[index=":2"](%c)
      np::store(%u, %v)
      %d : Float64[4] = np::multiply(%c, %a)
      np::store(%w, %u)
      %s : Float64 = np::sum[axis=(0,), keepdims=False](%y)
      return (%a, %c, %d, %s)
    """
    count = len(parse(text).block.nodes)

    def outcome(graph: Graph, overlapping: bool) -> list[Any]:
        memory = np.arange(8.0)
        x, y = (memory[:4], memory[2:6]) if overlapping else (memory[:4], memory[4:])
        return [*(np.array(part) for part in run(graph, [x, y])), memory]

    tried = 0
    for distinct, source, target in itertools.product((True, False), range(count), range(count)):
        graph = parse(text)
        nodes = graph.block.nodes
        node, other = nodes[source], nodes[target]
        analysis = AliasAnalysis(graph, distinct_inputs=distinct)
        if node is other or not analysis.can_move_before(node, other):
            continue
        nodes.remove(node)
        nodes.insert(nodes.index(other), node)
        tried += 1
        for found, expected in zip(
            outcome(graph, not distinct), outcome(parse(text), not distinct), strict=True
        ):
            np.testing.assert_array_equal(found, expected)
    assert tried > 30


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%r : Float32[n] = np::add(%x, %x)", False),
        ("%r : Float32[s] = np::add(%x, %y)", True),
        ("%r : Float32[n] = np::add(%x, %o)", False),
        ("%r : Float32[s] = np::add(%x, %f)", True),
        ("%r : Int64[n] = np::power(%i, %i)", True),
        ("%r : Float32[n] = np::power(%x, %x)", False),
        ('%r : Float32[s] = np::view[index="1:, None"](%x)', False),
        ('%r : Float32[] = np::view[index="0"](%x)', True),
        ('%r : Float32[] = np::view[index="-4"](%f)', False),
        ('%r : Float32[] = np::view[index="4"](%f)', True),
        ('%r : Float32[s] = np::view[index="::$0"](%x, %k)', True),
        ("%r : Float32 = np::max[axis=(0,), keepdims=False](%x)", True),
        ("%r : Float32 = np::max[axis=(0,), keepdims=False](%f)", False),
        ("%r : Float32 = np::sum[axis=(0,), keepdims=False](%x)", False),
        ("np::store(%x, %o)", False),
        ("np::store(%o, %x)", True),
        ("%r : Float32[2, 2] = np::reshape(%f, %k, %k)", False),
        ("%r : Float32[3, 2] = np::reshape(%f, %k, %k)", True),
        ("%r : Float32 = np::matmul(%x, %x)", False),
        ("%r : Float32 = np::matmul(%x, %y)", True),
        ('%r : Float32[s] = np::empty[dtype=dtype("float32")](%k)', True),
        ("%r : int = prim::add(%k, %k)", False),
        ("%r : int = prim::floordiv(%k, %k)", True),
        ("%r : Any = prim::add(%a, %a)", True),
        ("%r : Any = prim::TupleConstruct(%a)", False),
        ("%r : Any = prim::getitem(%a, %k)", True),
        ("%r : float = math::sqrt(%k)", True),
    ],
)
def test_may_raise(line: str, expected: bool) -> None:
    params = (
        "%x : Float32[n], %y : Float32[m], %o : Float32[1], %f : Float32[4], %i : Int64[n], "
        "%k : int, %a : Any"
    )
    assert may_raise(one_node(line, params)) is expected


def test_dump() -> None:
    graph = parse(VIEWS)
    text = AliasAnalysis(graph, distinct_inputs=True).dump()
    assert text.startswith("===1. GRAPH===\ngraph(")
    assert "%w points to: %x" in text
    assert "%c points to: %c" in text
    assert "===3. WRITES===\nnp::store(%w, %k)\n  %x" in text


@pytest.mark.parametrize("kind", ["np::add", "prim::add", "prim::TupleConstruct", "prim::getitem"])
def test_long_graphs(kind: str) -> None:
    graph = Graph()
    x = graph.block.add_param(ANY, "x")
    value = x
    for _ in range(10_000):
        value = graph.block.append(kind, [value, x]).output
    graph.block.add_return(value)
    assert not AliasAnalysis(graph).has_writers(value)
