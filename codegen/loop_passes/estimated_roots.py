"""Loops over vectors that wait for square roots compute them from an estimate.

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
from typing import Final

from jitcore.codegen.loop_passes.rewriting import replaced, with_blocks, with_expressions
from jitcore.codegen.loop_passes.traversal import known_trips, subexpressions
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Const,
    Expr,
    For,
    Function,
    Let,
    Stmt,
    Store,
    Unary,
)
from jitcore.codegen.printers.side_by_side import operations
from jitcore.codegen.printers.vector_calls import REGISTERS
from jitcore.codegen.printers.vector_forms import is_vector_loop

__all__ = ["estimate_roots", "takes_roots"]

MOST_BESIDE: Final = {"float32": 4, "float64": 12}
"""Other operations for each root and division.  With more of them, as in a filter of an image or
beside functions, a loop hardly waits for its roots, and estimates only take longer to compile."""

MOST_BESIDE_IN_HALVES: Final = 2
"""The same where vectors are computed in halves.  There the products take as long as the root, and
only leave the processor time to divide: an N-body step takes 1.15 times as long with them."""


def estimate_roots(function: Function, vector_bits: int, in_halves: bool = False) -> Function:
    """The function with loops over vectors that estimate roots.

    Parameters
    ----------
    function : Function
    vector_bits : int
        The size of a vector register.  Processors with 512 have the estimate.
    in_halves : bool
        Whether the processor computes such a vector as two halves.
    """
    if vector_bits != 512:
        return function

    def block(statements: Sequence[Stmt]) -> list[Stmt]:
        return [changed(one) for one in statements]

    def takes(loop: For) -> bool:
        return takes_roots(loop, vector_bits, in_halves)

    def changed(one: Stmt) -> Stmt:
        if isinstance(one, For) and is_vector_loop(one) and takes(one):
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


def takes_roots(loop: For, vector_bits: int, in_halves: bool) -> bool:
    """Whether a loop waits for its roots, and has enough iterations for a few registers.

    Roots of float32 alone take an instruction hardly longer; divisions would wait for it.  Loops
    of float32 with several results wait for memory, and four registers of each at a time make
    them slower (a step of Adam takes 1.4 times as long out of the second cache).
    """
    trips = known_trips(loop)
    if trips is not None and trips < REGISTERS * vector_bits // 32:
        return False
    values = [one.value for one in loop.body if isinstance(one, Let | Store | Assign)]
    parts = [part for x in values for part in subexpressions(x)]
    roots = [x.dtype for x in parts if _is_root(x)]
    divisions = sum(map(_is_quotient, parts))
    if not roots:
        return False
    results = sum(isinstance(one, Store | Assign) for one in loop.body)
    if "float64" not in roots and (results > 1 or not divisions):
        return False
    slow = len(roots) + divisions
    beside = sum(map(operations, values)) - slow
    most = MOST_BESIDE["float64" if "float64" in roots else "float32"]
    return beside <= slow * (MOST_BESIDE_IN_HALVES if in_halves else most)


def _is_root(x: Expr) -> bool:
    return isinstance(x, Unary) and x.op == "sqrt" and x.dtype in ("float32", "float64")


def _is_quotient(x: Expr) -> bool:
    """Whether an expression is a division, which one by a constant is not in the end."""
    return isinstance(x, Binary) and x.op == "div" and not isinstance(x.y, Const)
