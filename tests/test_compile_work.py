"""How much work it is to compile: function calls of Python, which grow as the program does."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

from checking import function_from_source
from jitcore import script
from jitcore.codegen.loop_passes.traversal import (
    STACK,
    calls_c,
    children,
    has_effect,
    loads,
    loads_in,
    reads_by_call,
    subexpressions,
    variables,
)
from jitcore.codegen.loops import (
    Binary,
    Call,
    Const,
    Expr,
    For,
    Let,
    Load,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops.op import Parameter, Untypable, bind, parse_parameters
from jitcore.ir.parser import parse_graph
from jitcore.ir.types import INT


def chain(operations: int) -> Callable[..., Any]:
    lines = [f"    x = x * {1.0 - place * 1e-4:.4f} + y" for place in range(operations // 2)]
    return function_from_source("\n".join(["def f(x, y):", *lines, "    return x"]))


def calls_of_compiling(operations: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    x, y = np.linspace(0, 1, 50, dtype=np.float32), np.linspace(1, 2, 50, dtype=np.float32)
    function, count = chain(operations), 0

    def note(_: FrameType, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = script(function)(x, y)
    finally:
        sys.setprofile(before)
    np.testing.assert_array_equal(result, function(x, y))
    return count


def test_calls_for_each_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is imported first counts for itself.
    calls_of_compiling(100, monkeypatch)
    few, many = (calls_of_compiling(count, monkeypatch) for count in (200, 800))
    assert few < 200 * 1450
    assert many < 4.1 * few


def some_expression(choose: random.Random, depth: int) -> Expr:
    names, dtype = ("a", "b", "c"), "float64"
    if depth == 0:
        leaves: list[Expr] = [Var(choose.choice(names), dtype), Const(1.5, dtype)]
        return choose.choice(leaves)
    parts = [some_expression(choose, choose.randrange(depth)) for _ in range(3)]
    called = choose.choice(["exp", "fma", STACK, "malloc", "jc_draw_normal"])
    pointer = Var("p", "ptr")
    kinds: list[Expr] = [
        Unary("sqrt", parts[0], dtype),
        Binary("add", parts[0], parts[1], dtype),
        Select(parts[0], parts[1], parts[2], dtype),
        Load(pointer, parts[0], dtype, choose.choice(["x", "y"])),
        Call(called, (parts[0], parts[1]), dtype, external=choose.random() < 0.5),
        Call(called, (pointer, parts[1]), choose.choice(["ptr", dtype]), external=True),
    ]
    return choose.choice(kinds)


def plain_subexpressions(x: Expr) -> Iterator[Expr]:
    yield x
    for one in children(x):
        yield from plain_subexpressions(one)


@pytest.mark.parametrize("seed", range(40))
def test_walks_over_expressions(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(25):
        x = some_expression(choose, choose.randrange(6))
        every = [*plain_subexpressions(x)]
        assert [*subexpressions(x)] == every
        assert loads(x) == [one for one in every if isinstance(one, Load)]
        assert variables(x) == [one.name for one in every if isinstance(one, Var)]
        external = [one for one in every if isinstance(one, Call) and one.external]
        others = [one for one in external if one.name != STACK]
        assert calls_c(x) == bool(external)
        assert reads_by_call(x) == any(arg.dtype == "ptr" for one in others for arg in one.args)
        assert has_effect(x) == any(
            one.dtype == "ptr" or one.name.startswith("jc_draw_") for one in others
        )
        target, place = Var("q", "ptr"), Var("i", "int64")
        stored = Store(target, some_expression(choose, 2), x, "q")
        body: list[Stmt] = [Let(Var("t", "float64"), x), stored]
        loop = For(place, Const(0, "int64"), Const(9, "int64"), body)
        assert loads_in([loop]) == [*loads(x), *loads(stored.index), *loads(x)]


def test_walks_over_long_sums() -> None:
    x: Expr = Var("a", "float64")
    for _ in range(20_000):
        x = Binary("add", x, Var("b", "float64"), "float64")
    assert variables(x) == ["a", *["b"] * 20_000]
    assert not has_effect(x)


def bound_plainly(
    signature: tuple[Parameter, ...], values: list[Value], names: list[str]
) -> dict[str, Any] | None:
    """What an argument list binds, by Python's rules; None where there is no compiled form."""
    bound, rest = dict[str, Any](), values[: len(values) - len(names)]
    for one in signature:
        if one.variadic:
            bound[one.name], rest = rest, []
            break
        if one.keyword_only or not rest:
            break
        bound[one.name], rest = rest[0], rest[1:]
    known = {one.name: one for one in signature}
    for name, value in zip(names, values[len(values) - len(names) :], strict=True):
        if name in bound or name not in known:
            return None
        bound[name] = value
    return None if rest or any(not known[name].compiled for name in bound) else bound


@pytest.mark.parametrize(
    "text", ["x", "x, y", "x, y=1, out!=2", "x, *rest", "*all", "x, *, y=1, z!=2", "x!=3, y=1"]
)
def test_arguments_of_operations(text: str) -> None:
    signature, graph = parse_parameters(text), Graph()
    values = [graph.block.add_param(INT, f"v{number}") for number in range(5)]
    outcomes = set()
    for count in range(len(values) + 1):
        for names in ([], ["y"], ["z"], ["y", "out"], ["nobody"]):
            given = values[:count]
            if len(names) > count:
                continue
            expected = bound_plainly(signature, given, names)
            outcomes.add(expected is None)
            if expected is None:
                with pytest.raises(Untypable):
                    bind(signature, given, names, {})
            else:
                assert bind(signature, given, names, {}) == expected
    assert outcomes == {False, True}


def written(graph: Graph) -> tuple[bool, list[Node]]:
    analysis = AliasAnalysis(graph)
    return analysis.has_writes, [one for one in graph.nodes() if analysis.writes(one)]


def test_whether_anything_writes() -> None:
    text = """graph(%x : Float32[n], %y : Float32[n]):
      %0 : Float32[n] = np::add(%x, %y)
      np::store(%x, %0)
      return (%0)
    """
    has_writes, writers = written(parse_graph(text))
    assert has_writes and [one.kind for one in writers] == ["np::store"]
    assert written(parse_graph(text.replace("np::store(%x, %0)", ""))) == (False, [])
    unknown = """graph(%f : Any, %x : Float32[n]):
      %0 : Any = prim::Call(%f, %x)
      return (%0)
    """
    assert written(parse_graph(unknown))[0]


def test_new_arrays_point_to_memory_of_their_own() -> None:
    graph = parse_graph("""graph(%x : Float32[n], %y : Float32[n]):
      %0 : Float32[n] = np::add(%x, %y)
      %1 : Float32[n] = np::add(%0, %y)
      %2 : Float32[n] = np::view[index="::-1"](%1)
      return (%0, %1, %2)
    """)
    analysis = AliasAnalysis(graph)
    first, second, view = graph.outputs
    assert len(analysis.points_to(first)) == 1
    assert not analysis.may_alias(first, second) and not analysis.escapes(first)
    assert analysis.may_alias(second, view) and not analysis.may_alias(graph.inputs[0], first)
