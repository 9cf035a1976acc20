"""Large functions are cut into small ones before LLVM sees them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from checking import check, function_from_source
from jitcore.codegen.loop_passes.outline import MIN_STATEMENTS, outline
from jitcore.codegen.loop_passes.traversal import has_loops
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
TOTAL, SUM = Var("total", "float64"), Var("sum", "float64")


def _element() -> Load:
    return Load(X, PLACE, "float64", "x")


def _adding(number: float, pointer: Var = X, place: Var = PLACE) -> For:
    element = Load(pointer, place, "float64", pointer.name)
    body: list[Stmt] = [
        Let(SUM, Binary("add", element, Const(number, "float64"), "float64")),
        Store(pointer, place, SUM, pointer.name),
    ]
    return For(place, Const(0, "int64"), N, body)


def _large(statements: list[Stmt]) -> Function:
    filling: list[Stmt] = [_adding(number + 0.5) for number in range(MIN_STATEMENTS)]
    return Function("f", [X, N], [*statements, *filling])


def test_small_functions_are_left_alone() -> None:
    function = Function("f", [X, N], [_adding(0.5)])
    assert outline(function) == [function]


def test_nests_take_what_they_read_as_parameters() -> None:
    *nests, rest = outline(_large([]))
    assert len(nests) == MIN_STATEMENTS
    assert nests[0] == Function("f_nest1", (N, X), [_adding(0.5)], "void", internal=True)
    assert rest.body[0] == Do(Call("f_nest1", (N, X), "void", external=True))
    assert (rest.name, rest.params, rest.result) == ("f", [X, N], "int64")


def test_equal_nests_are_one_function() -> None:
    other, place = Var("y", "ptr"), Var("j", "int64")
    *nests, rest = outline(_large([_adding(0.25), _adding(0.25, other, place)]))
    assert len(nests) == MIN_STATEMENTS + 1
    calls = [Call("f_nest1", (N, array), "void", external=True) for array in (X, other)]
    assert rest.body[:2] == [Do(call) for call in calls]


def _crossed(first: Var, second: Var) -> For:
    """A nest that writes to one array what it loads from another."""
    return For(PLACE, Const(0, "int64"), N, [Store(first, PLACE, _loaded(second), first.name)])


def _loaded(pointer: Var) -> Load:
    return Load(pointer, PLACE, "float64", pointer.name)


def test_nests_that_differ_in_more_than_names_are_not() -> None:
    y = Var("y", "ptr")
    unknown = For(PLACE, Const(0, "int64"), N, [Store(X, PLACE, Load(y, PLACE, "float64"))])
    single = For(PLACE, Const(0, "int64"), N, [Store(X, PLACE, Load(y, PLACE, "float32"))])
    shorter = For(PLACE, Const(0, "int64"), N, [Store(X, PLACE, _loaded(y), "x")], step=2)
    nests: list[Stmt] = [_adding(number) for number in (0.0, -0.0, math.nan, -math.nan)]
    nests += [_crossed(X, y), _crossed(X, X)]
    made = outline(_large([*nests, unknown, single, shorter]))
    assert len(made) == MIN_STATEMENTS + 9 + 1


def test_no_loop_stays_that_changes_something_outside_or_leaves() -> None:
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
    first, second, *_, rest = outline(_large([start, summing, failing]))
    assert (first.result, second.result) == ("void", "int64")
    assert summing in first.body
    assert second.body == [failing]
    assert not has_loops(rest.body)


def _functions(lines: list[str], times: int) -> str:
    """A program with so many copies of a statement, in which ``{k}`` is the number of the copy."""
    body = [line.format(k=k) for k in range(times) for line in lines]
    return "\n".join(["def f(x, y, places):", "    total = 0.0", "    count = 0", *body, ""])


CHANGES = [
    "    for i in range(x.shape[0] - {k}):",
    "        if x[i] > {k}.5 or x[i] < -0.25:",
    "            total += x[i] * {k}.0",
    "            count += i",
    "    y[{k}] = total + x[{k} % 3 :].sum()",
    "    for i in range(places.shape[0]):",
    "        y[places[i]] = y[places[i]] * 0.5 + {k}.0",
]


def test_variables_that_nests_change() -> None:
    source = _functions(CHANGES, 30) + "    return total, count\n"
    function = function_from_source(source, "f")
    x, y = np.random.default_rng(1).normal(size=(2, 43))
    places = np.array([3, 41, 3, 0], np.int64)
    (kernel,) = check(function, x, y, places).kernels
    assert "_nest30(" in kernel.llvm


@pytest.mark.parametrize("wrong", [0, 2, 3])
def test_errors_in_nests(wrong: int) -> None:
    source = _functions(CHANGES, 30) + "    return total, count\n"
    function = function_from_source(source, "f")
    x, y = np.random.default_rng(2).normal(size=(2, 43))
    places = np.array([3, 41, 3, 0], np.int64)
    places[wrong] = 43
    check(function, x, y, places)


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
    # They differ in which arrays they read, and in numbers that are computed before.
    assert "_nest1(" in kernel.llvm
    assert kernel.llvm.count("define void @f_0_nest") < 30
    assert "_nest" not in kernel.source


def test_what_is_behind_a_sure_return_takes_no_parameter() -> None:
    never = Store(X, PLACE, Var("undeclared", "float64"), "x")
    leaving = For(PLACE, Const(0, "int64"), N, [Return(Const(5, "int64")), never])
    nest, *_ = outline(_large([leaving]))
    assert "undeclared" not in {var.name for var in nest.params}
    assert nest.body == [For(PLACE, Const(0, "int64"), N, [Return(Const(5, "int64"))])]


def _part_of_program(x: Any, y: Any) -> Any:
    z = np.exp(-np.abs(x[:, None] - y)) * 0.5
    z[z > 0.4] = z[z > 0.4] ** 1.5
    rows = np.tanh(z @ x) + np.cumsum(y)
    total = 0.0
    for i in range(len(x)):
        if x[i] > y[i]:
            total += np.sin(x[i]) * rows[i]
    for i in range(1, len(x)):
        rows[i] = 0.5 * rows[i - 1] + x[i]
    return rows / rows.std(), total + z.sum() + np.hypot(z, 1.0).max()


def test_a_function_that_is_called_several_times() -> None:
    def program(x: Any, y: Any) -> Any:
        first, a = _part_of_program(x, y)
        second, b = _part_of_program(y, first)
        third, c = _part_of_program(second, first)
        fourth, d = _part_of_program(third, second)
        return third, fourth, a, b, c, d

    def once(x: Any, y: Any) -> Any:
        return _part_of_program(x, y)

    x, y = np.random.default_rng(3).normal(size=(2, 37))
    texts = []
    for function in (once, program):
        (kernel,) = check(function, x, y, reduction=True, ulp=64).kernels
        source = kernel.module._source
        assert source is not None
        texts.append([source.text, *(text for text, _ in source.beside)])
    alone, together = ("\n".join(one) for one in texts)
    assert together.count("\ndefine") < 2 * alone.count("\ndefine") + 8
    # Two threads write their code.
    assert sum("_nest" in one and "define i64 @program_0(" not in one for one in texts[1]) > 1


@pytest.mark.parametrize("size", [5, 100_000])
def test_loops_that_differ_in_the_sign_of_nan(size: int) -> None:
    """The large ones have a function each for their parts."""

    def signed(x: Any, y: Any) -> Any:
        return np.copysign(x, np.nan), np.copysign(y, -np.nan)

    x = np.linspace(-1.0, 1.0, size)
    check(signed, x, x[1:].copy())


def _texts(kernel: Any) -> list[str]:
    source = kernel.module._source
    assert source is not None
    return [source.text, *(text for text, _ in source.beside)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("parts", [1, 6])
def test_small_bodies_of_parallel_loops_share_texts(dtype: type, parts: int) -> None:
    """To begin with a text takes LLVM longer than to compile such a body."""
    lines = [f"    a{place} = np.maximum(x[{place}:], {place}) - 1" for place in range(parts)]
    results = ", ".join(f"a{place}" for place in range(parts))
    function = function_from_source(
        "\n".join(["def program(x):", *lines, f"    return ({results},)"]), "program"
    )
    x: Any = np.random.default_rng(4).integers(-9, 9, 100_000).astype(dtype)
    if dtype is not np.int64:
        x[[3, 50, -1]] = np.nan, -np.inf, -0.0
    (kernel,) = check(function, x).kernels
    with_bodies = [one for one in _texts(kernel) if "_part" in one and "define void" in one]
    assert sum(one.count("define void") for one in with_bodies) == parts
    assert len(with_bodies) < max(parts, 2)


@pytest.mark.parametrize("size", [0, 1, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_chains_are_several_texts(dtype: type, size: int) -> None:
    """Two threads write their code."""
    lines = [f"    x = x * {1 - place * 1e-5} + y" for place in range(300)]
    function = function_from_source(
        "\n".join(["def program(x, y):", *lines, "    return x"]), "program"
    )
    x, y = np.random.default_rng(5).normal(size=(2, size)).astype(dtype)
    x[:2], y[-2:] = np.nan, -np.inf
    (kernel,) = check(function, x, y).kernels
    assert max(one.count("\n") for one in _texts(kernel)) < 1500
