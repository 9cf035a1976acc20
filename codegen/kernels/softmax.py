"""Softmax of some rows in place, with their scale and mask: ``jc_softmax_<dtype>_<mask>``.

The function takes the rows' memory, how many there are and how many elements they are apart; how
many scores each has; the number of the first row, and whether row ``i`` has only the first
``i + 1`` scores; the first row's mask, and how many elements the rows of that are apart; and the
factor of all scores.  Weights that a row has not are zeros, as are all of a row whose scores are
minus infinity.
"""

from __future__ import annotations

from functools import partial

from jitcore.codegen.engine import add_library, vector_bits
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

__all__ = ["MASKS", "symbol"]

SCORES, ROWS, APART, COUNT, FIRST, CAUSAL, MASK, MASK_APART = (
    Var("scores", "ptr"),
    *(Var(name, "int64") for name in ("rows", "apart", "count", "first", "causal")),
    Var("mask", "ptr"),
    Var("mask_apart", "int64"),
)

MASKS = ("none", "added", "chosen")
"""No mask, numbers that are added to the scores, or bools that say which scores there are."""


def symbol(dtype: str, mask: str) -> str:
    """The name of the function for a dtype and a kind of mask."""
    return f"jc_softmax_{dtype}_{mask}"


def _module_text(dtype: str, mask: str) -> str:
    return print_module([_function(dtype, mask)], vector_bits=vector_bits())


def _function(dtype: str, mask: str) -> Function:
    row, known, scale = Var("row", "int64"), Var("known", "int64"), Var("scale", dtype)
    own = minimum(COUNT, add(add(FIRST, row), ONE))
    body: list[Stmt] = [
        Let(known, Select(compare("ne", CAUSAL, ZERO), own, COUNT, "int64")),
        *_row(dtype, mask, row, known, scale),
    ]
    params = (SCORES, ROWS, APART, COUNT, FIRST, CAUSAL, MASK, MASK_APART, scale)
    return Function(symbol(dtype, mask), params, [For(row, ZERO, ROWS, body), Return(ZERO)])


def _masked(dtype: str, mask: str, row: Var, place: Var, score: Expr) -> Expr:
    """A score, with what the mask says of it."""
    if mask == "none":
        return score
    place_there = add(multiply(row, MASK_APART), place)
    if mask == "added":
        return Binary("add", score, Load(MASK, place_there, dtype, "mask"), dtype)
    is_there = Load(MASK, place_there, "bool", "mask")
    return Select(is_there, score, constant(float("-inf"), dtype), dtype)


def _row(dtype: str, mask: str, row: Var, known: Var, scale: Var) -> list[Stmt]:
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
                Let(value, _masked(dtype, mask, row, place, Binary("mul", load(), scale, dtype))),
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
    for _mask in MASKS:
        add_library(symbol(_dtype, _mask), partial(_module_text, _dtype, _mask))
