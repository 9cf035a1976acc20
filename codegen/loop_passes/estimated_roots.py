"""Loops over vectors compute square roots from an estimate.

The bits are those of the processor's instruction, which takes longer, and keeps it from dividing
(`vecmath.roots`).

Before::

    for j in range(0, n):
        y[j] = sqrt(x[j])

After::

    for j in range(0, n):
        y[j] = root(x[j])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.rewriting import replaced, with_blocks, with_expressions
from jitcore.codegen.loop_passes.traversal import expressions, known_trips, subexpressions
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Const,
    Expr,
    For,
    Function,
    Stmt,
    Store,
    Unary,
)
from jitcore.codegen.printers.vector_calls import REGISTERS
from jitcore.codegen.printers.vector_loops import is_vector_loop

__all__ = ["estimate_roots", "takes_roots"]


def estimate_roots(function: Function, vector_bits: int) -> Function:
    """The function with loops over vectors that estimate roots.

    Parameters
    ----------
    function : Function
    vector_bits : int
        The size of a vector register.  Processors with 512 have the estimate.
    """
    if vector_bits != 512:
        return function

    def block(statements: Sequence[Stmt]) -> list[Stmt]:
        return [changed(one) for one in statements]

    def changed(one: Stmt) -> Stmt:
        if isinstance(one, For) and takes_roots(one, vector_bits) and is_vector_loop(one):
            return with_blocks(one, estimated)
        return with_blocks(one, block)

    return replace(function, body=block(function.body))


def estimated(statements: Sequence[Stmt]) -> list[Stmt]:
    """The body of a loop over vectors with its roots estimated."""
    return [with_expressions(one, lambda x: replaced(x, _estimated)) for one in statements]


def _estimated(x: Expr) -> Expr | None:
    if not isinstance(x, Unary) or not _is_root(x):
        return None
    return Call("root", (replaced(x.x, _estimated),), x.dtype)


def takes_roots(loop: For, vector_bits: int) -> bool:
    """Whether a loop has roots to estimate, and enough iterations for a few registers.

    Those of float32 alone take an instruction hardly longer; divisions would wait for it.  Loops
    of float32 with several results wait for memory, and four registers of each at a time make
    them slower (a step of Adam takes 1.4 times as long out of the second cache).
    """
    trips = known_trips(loop)
    if trips is not None and trips < REGISTERS * vector_bits // 32:
        return False
    parts = [part for one in loop.body for x in expressions(one) for part in subexpressions(x)]
    roots = {x.dtype for x in parts if _is_root(x)}
    results = sum(isinstance(one, Store | Assign) for one in loop.body)
    divides = results == 1 and any(map(_is_quotient, parts))
    return "float64" in roots or ("float32" in roots and divides)


def _is_root(x: Expr) -> bool:
    return isinstance(x, Unary) and x.op == "sqrt" and x.dtype in ("float32", "float64")


def _is_quotient(x: Expr) -> bool:
    """Whether an expression is a division, which one by a constant is not in the end."""
    return isinstance(x, Binary) and x.op == "div" and not isinstance(x.y, Const)
