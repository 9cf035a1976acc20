"""Dead code elimination: what goes, and what has to stay."""

from __future__ import annotations

import pytest
from pass_checking import check_pass, check_unchanged

from jitcore.ir.graph import Graph
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.types import ANY
from jitcore.ir.verifier import verify


def test_dce_drops_a_chain() -> None:
    check_pass(
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
    check_pass(
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
    check_pass(
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
    check_pass(
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
    check_pass(
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
    check_pass(
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
    check_pass(
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
