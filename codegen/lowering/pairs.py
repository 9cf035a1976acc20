"""Sums and products of elements, real or complex."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.codegen.loops import Binary, Expr
from jitcore.codegen.lowering.arithmetic import expression_dtype
from jitcore.codegen.lowering.operands import Element, Pair

__all__ = ["combined"]


def combined(op: str, x: Element, y: Element, dtype: np.dtype[Any]) -> Element:
    """``x + y`` for the op ``"add"``, ``x * y`` for ``"mul"``; of bools ``or`` and ``and``.

    ``"max"`` and ``"min"`` are for real numbers only.
    """
    part = expression_dtype(dtype)
    if dtype.kind == "b":
        return Binary("or" if op in ("add", "max") else "and", x, y, "bool")
    if not isinstance(x, Pair) or not isinstance(y, Pair):
        return Binary(op, x, y, part)
    if op == "add":
        return Pair(Binary("add", x.re, y.re, part), Binary("add", x.im, y.im, part))

    def times(a: Expr, b: Expr) -> Expr:
        return Binary("mul", a, b, part)

    re = Binary("sub", times(x.re, y.re), times(x.im, y.im), part)
    return Pair(re, Binary("add", times(x.re, y.im), times(x.im, y.re), part))
