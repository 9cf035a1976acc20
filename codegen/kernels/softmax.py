"""Softmax of some rows in place, with their scale: ``jc_softmax_<dtype>``.

The function takes the rows' memory, how many there are and how many elements they are apart; how
many scores each has; the number of the first row, and whether row ``i`` has only the first
``i + 1`` scores; and the factor of all scores.  Weights that a row has not are zeros, as are all
of a row whose scores are minus infinity.
"""

from __future__ import annotations

from functools import cache, partial

from jitcore.codegen.engine import CompiledModule, add_maker, add_symbol, compile_module
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Expr,
    For,
    Function,
    Let,
    Load,
    Return,
    Select,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    compare,
    constant,
    minimum,
    multiply,
)
from jitcore.codegen.printers.llvm import print_module

__all__ = ["symbol"]

SCORES, ROWS, APART, COUNT, FIRST, CAUSAL = (
    Var("scores", "ptr"),
    *(Var(name, "int64") for name in ("rows", "apart", "count", "first", "causal")),
)


def symbol(dtype: str) -> str:
    """The name of the function for a dtype."""
    return f"jc_softmax_{dtype}"


@cache
def _compiled(dtype: str) -> CompiledModule:
    name = symbol(dtype)
    module = compile_module(print_module([_function(dtype)]), name=name)
    add_symbol(name, module.address(name))
    return module


def _function(dtype: str) -> Function:
    row, known, scale = Var("row", "int64"), Var("known", "int64"), Var("scale", dtype)
    own = minimum(COUNT, add(add(FIRST, row), ONE))
    body: list[Stmt] = [
        Let(known, Select(compare("ne", CAUSAL, ZERO), own, COUNT, "int64")),
        *_row(dtype, row, known, scale),
    ]
    params = (SCORES, ROWS, APART, COUNT, FIRST, CAUSAL, scale)
    return Function(symbol(dtype), params, [For(row, ZERO, ROWS, body), Return(ZERO)])


def _row(dtype: str, row: Var, known: Var, scale: Var) -> list[Stmt]:
    """The softmax of one row."""
    start, place = Var("start", "int64"), Var("place", "int64")
    top, total, shift = (Var(name, dtype) for name in ("top", "total", "shift"))
    value, power, divisor = (Var(name, dtype) for name in ("value", "power", "divisor"))
    lowest, zero = constant(float("-inf"), dtype), constant(0, dtype)

    def over(stop: Expr, body: list[Stmt], first: Expr = ZERO) -> For:
        return For(place, first, stop, body)

    def load() -> Load:
        return Load(SCORES, add(start, place), dtype, "scores")

    def store(x: Expr) -> Store:
        return Store(SCORES, add(start, place), x, "scores")

    return [
        Let(start, multiply(row, APART)),
        Let(top, lowest, mutable=True),
        over(
            known,
            [
                Let(value, Binary("mul", load(), scale, dtype)),
                store(value),
                Assign(top, Binary("max", top, value, dtype, reassoc=True)),
            ],
        ),
        Let(shift, Select(compare("eq", top, lowest), zero, top, dtype)),
        Let(total, zero, mutable=True),
        over(
            known,
            [
                Let(power, Call("exp", (Binary("sub", load(), shift, dtype),), dtype)),
                store(power),
                Assign(total, Binary("add", total, power, dtype, reassoc=True)),
            ],
        ),
        Let(divisor, Binary("max", total, constant(1, dtype), dtype)),
        over(known, [store(Binary("div", load(), divisor, dtype))]),
        over(COUNT, [store(zero)], known),
    ]


for _dtype in ("float32", "float64"):
    add_maker(symbol(_dtype), partial(_compiled, _dtype))
