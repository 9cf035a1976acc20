"""Large functions are cut into small ones before LLVM sees them."""

from __future__ import annotations

import numpy as np

from checking import check, function_from_source
from jitcore.codegen.loop_passes.outline import MIN_STATEMENTS, outline
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Const,
    Do,
    For,
    Function,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
)

X, N, PLACE = Var("x", "ptr"), Var("n", "int64"), Var("i", "int64")
TOTAL, DOUBLED = Var("total", "float64"), Var("doubled", "float64")


def _element() -> Load:
    return Load(X, PLACE, "float64", "x")


def _doubling() -> For:
    body: list[Stmt] = [
        Let(DOUBLED, Binary("add", _element(), _element(), "float64")),
        Store(X, PLACE, DOUBLED, "x"),
    ]
    return For(PLACE, Const(0, "int64"), N, body)


def _large(statements: list[Stmt]) -> Function:
    filling: list[Stmt] = [_doubling() for _ in range(MIN_STATEMENTS)]
    return Function("f", [X, N], [*statements, *filling])


def test_small_functions_are_left_alone() -> None:
    function = Function("f", [X, N], [_doubling()])
    assert outline(function) == [function]


def test_nests_take_what_they_read_as_parameters() -> None:
    *nests, rest = outline(_large([]))
    assert len(nests) == MIN_STATEMENTS
    assert nests[0] == Function("f_nest1", (N, X), [_doubling()], "void")
    assert rest.body[0] == Do(Call("f_nest1", (N, X), "void", external=True))
    assert (rest.name, rest.params, rest.result) == ("f", [X, N], "int64")


def test_loops_that_leave_or_change_something_outside_stay() -> None:
    summing = For(
        PLACE, Const(0, "int64"), N, [Assign(TOTAL, Binary("add", TOTAL, _element(), "float64"))]
    )
    failing = For(
        PLACE,
        Const(0, "int64"),
        N,
        [If(Binary("lt", _element(), Const(0.0, "float64"), "bool"), [Return(Const(1, "int64"))])],
    )
    start = Let(TOTAL, Const(0.0, "float64"), mutable=True)
    *_, rest = outline(_large([start, summing, failing]))
    assert rest.body[:3] == [start, summing, failing]


def test_a_program_of_many_stencils() -> None:
    lines = ["def f(u, v, w, steps):", "    total = 0.0", "    for t in range(steps):"]
    for number in range(30):
        a, b, c = [("u", "v", "w"), ("v", "w", "u"), ("w", "u", "v")][number % 3]
        lines.append(
            f"        {a}[1:-1, 1:-1] = 0.05 * ({b}[1:-1, :-2] + {b}[1:-1, 2:] + {c}[2:, 1:-1]"
            f" + {c}[:-2, 1:-1] - {number + 1}.0 * t * {a}[1:-1, 1:-1])"
        )
        lines.append(f"        total += {a}[{number % 5}, 2]")
    lines.append("    return total")
    function = function_from_source("\n".join(lines) + "\n", "f")
    u, v, w = np.random.default_rng(0).normal(size=(3, 9, 11))
    compiled = check(function, u, v, w, 3)
    (kernel,) = compiled.kernels
    assert "_nest30(" in kernel.llvm
    assert "_nest" not in kernel.source
