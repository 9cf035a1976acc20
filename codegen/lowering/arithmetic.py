"""Expressions of loop IR with constants folded: the arithmetic of extents, strides and indices."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from jitcore.codegen.loops import (
    Binary,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
)
from jitcore.ir.bfloat16 import is_bfloat16

__all__ = [
    "FALSE",
    "ONE",
    "TRUE",
    "ZERO",
    "add",
    "both",
    "cast",
    "compare",
    "constant",
    "either",
    "expression_dtype",
    "integer",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not_",
    "product",
    "quotient_above",
    "select",
    "subtract",
]

ZERO = Const(0, "int64")
ONE = Const(1, "int64")
TRUE = Const(True, "bool")
FALSE = Const(False, "bool")

_COMPARISONS = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


def integer(value: int) -> Const:
    """An int64 literal."""
    return Const(int(value), "int64")


def constant(value: Any, dtype: np.dtype[Any] | str) -> Const:
    """A literal of a real dtype, converted to the Python type the dtype stands for."""
    kind = np.dtype(dtype)
    convert = float if is_bfloat16(kind) else {"b": bool, "f": float}.get(kind.kind, int)
    return Const(convert(value), kind.name)


@cache
def expression_dtype(dtype: np.dtype[Any]) -> str:
    """The dtype name of an expression that holds an element; of a part, for complex dtypes."""
    if dtype.kind == "c":
        return "float32" if dtype.itemsize == 8 else "float64"
    return dtype.name


def add(x: Expr, y: Expr) -> Expr:
    """``x + y`` of int64."""
    if isinstance(x, Const) and isinstance(y, Const):
        return integer(x.value + y.value)
    if x == ZERO:
        return y
    if y == ZERO:
        return x
    if isinstance(x, Const):
        x, y = y, x
    match x, y:
        case Binary(op="add", x=first, y=Const(value=inner)), Const(value=outer):
            return add(first, integer(inner + outer))
    return Binary("add", x, y, "int64")


def subtract(x: Expr, y: Expr) -> Expr:
    """``x - y`` of int64."""
    if isinstance(x, Const) and isinstance(y, Const):
        return integer(x.value - y.value)
    if y == ZERO:
        return x
    if x == y:
        return ZERO
    if isinstance(y, Const):
        return add(x, integer(-y.value))
    return Binary("sub", x, y, "int64")


def negate(x: Expr) -> Expr:
    """``-x`` of int64."""
    return subtract(ZERO, x)


def multiply(x: Expr, y: Expr) -> Expr:
    """``x * y`` of int64."""
    if isinstance(x, Const):
        x, y = y, x
    if isinstance(y, Const):
        if isinstance(x, Const):
            return integer(x.value * y.value)
        if y.value == 0:
            return ZERO
        if y.value == 1:
            return x
    return Binary("mul", x, y, "int64")


def quotient_above(x: Expr, y: Expr) -> Expr:
    """``x / y``, rounded up."""
    if isinstance(x, Const) and isinstance(y, Const):
        return integer(-(-x.value // y.value))
    return Binary("quot", add(x, subtract(y, ONE)), y, "int64")


def product(factors: Iterable[Expr]) -> Expr:
    """The product of int64 factors, 1 for none."""
    result: Expr = ONE
    for factor in factors:
        result = multiply(result, factor)
    return result


def minimum(x: Expr, y: Expr) -> Expr:
    """The lesser of two int64."""
    if isinstance(x, Const) and isinstance(y, Const):
        return integer(min(x.value, y.value))
    return x if x == y else Binary("min", x, y, "int64")


def maximum(x: Expr, y: Expr) -> Expr:
    """The greater of two int64."""
    if isinstance(x, Const) and isinstance(y, Const):
        return integer(max(x.value, y.value))
    return x if x == y else Binary("max", x, y, "int64")


def compare(op: str, x: Expr, y: Expr) -> Expr:
    """A comparison of two operands of one dtype."""
    if isinstance(x, Const) and isinstance(y, Const):
        return Const(bool(_COMPARISONS[op](x.value, y.value)), "bool")
    if x == y and x.dtype == "int64":
        return Const(op in ("eq", "le", "ge"), "bool")
    return Binary(op, x, y, "bool")


def both(x: Expr, y: Expr) -> Expr:
    """``x and y`` of bools."""
    if x == TRUE or y == FALSE:
        return y
    if y == TRUE or x == FALSE:
        return x
    return Binary("and", x, y, "bool")


def either(x: Expr, y: Expr) -> Expr:
    """``x or y`` of bools."""
    if x == FALSE or y == TRUE:
        return y
    if y == FALSE or x == TRUE:
        return x
    return Binary("or", x, y, "bool")


def not_(x: Expr) -> Expr:
    """``not x`` of a bool."""
    if isinstance(x, Const):
        return Const(not x.value, "bool")
    return Unary("not", x, "bool")


def select(condition: Expr, x: Expr, y: Expr) -> Expr:
    """``x if condition else y``; both are evaluated."""
    if isinstance(condition, Const):
        return x if condition.value else y
    return x if x == y else Select(condition, x, y, x.dtype)


def cast(x: Expr, dtype: str) -> Expr:
    """``x`` in another real dtype, with ``astype``'s meaning."""
    if x.dtype == dtype:
        return x
    if isinstance(x, Const) and x.dtype != "ptr":
        with np.errstate(all="ignore"):
            return constant(np.array(x.value, x.dtype).astype(dtype)[()], dtype)
    return Cast(x, dtype)
