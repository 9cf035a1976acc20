"""Copies of loops: each has names of its own, and changes no variable of another one."""

from __future__ import annotations

from jitcore.codegen.loop_passes.range_cuts import cut_ranges
from jitcore.codegen.loop_passes.rewriting import copied
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Const,
    For,
    Function,
    Let,
    Select,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer

J, OUTER, INNER = (Var(name, "int64") for name in ("j", "outer", "inner"))
X = Var("x", "ptr")


def body() -> list[Stmt]:
    first = Binary("lt", J, integer(1), "bool")
    return [
        Let(INNER, Select(first, add(J, integer(7)), J, "int64"), mutable=True),
        Assign(INNER, add(INNER, integer(1))),
        Assign(OUTER, add(OUTER, INNER)),
        Store(X, J, INNER),
    ]


def test_a_copy_renames_what_it_binds_and_assigns() -> None:
    loop = For(J, ZERO, integer(4), body())
    copy = copied(loop, {"j", "inner", "outer", "x"}, {})
    assert isinstance(copy, For)
    let, inside, outside, store = copy.body
    assert isinstance(let, Let) and isinstance(inside, Assign) and isinstance(outside, Assign)
    assert let.var == inside.var != INNER
    assert outside.var == OUTER
    assert isinstance(store, Store) and store.value == let.var and store.index == copy.var != J


def test_the_parts_of_a_cut_loop_assign_their_own_variables() -> None:
    begin = Let(OUTER, ZERO, mutable=True)
    function = Function("f", [X], [begin, For(J, ZERO, integer(4), body())])
    parts = [one for one in cut_ranges(function).body if isinstance(one, For)]
    assert len(parts) == 2
    bound = [one.body[0] for one in parts]
    assert isinstance(bound[0], Let) and isinstance(bound[1], Let)
    assert bound[0].var != bound[1].var
    for one in parts:
        let, inside, outside, _ = one.body
        assert isinstance(let, Let) and isinstance(inside, Assign) and isinstance(outside, Assign)
        assert let.var == inside.var and outside.var == OUTER
        assert not isinstance(let.value, Const | Select)
