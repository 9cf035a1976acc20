"""Loops that only copy one array to another become calls of the C library.

Those of medium size: a call takes as long as a short loop, and several threads share a long one.

Before::

    for i in range(n):
        element = x[i]
        y[i] = element

After::

    if 2**11 <= n * 8 <= 2**24:
        memcpy(y, x, n * 8)
    else:
        for i in range(n):
            element = x[i]
            y[i] = element
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.rewriting import with_blocks
from jitcore.codegen.loops import (
    Call,
    Comment,
    Const,
    Do,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import ZERO, both, compare, integer, multiply
from jitcore.codegen.printers.llvm_instructions import memory_bytes

__all__ = ["copy_by_library"]

LEAST, MOST = 2**11, 2**24
"""How many bytes the C library copies faster than a loop does."""


def copy_by_library(function: Function) -> Function:
    """The function with its copies of medium size left to the C library."""
    return replace(function, body=_block(function.body))


def _block(statements: Sequence[Stmt]) -> list[Stmt]:
    found: list[Stmt] = []
    for one in statements:
        copy = _copy(one) if isinstance(one, For) else None
        found += [with_blocks(one, _block)] if copy is None else _where_it_is_faster(one, copy)
    return found


def _where_it_is_faster(loop: Stmt, copy: Call) -> list[Stmt]:
    size = copy.args[-1]
    is_medium = both(compare("ge", size, integer(LEAST)), compare("le", size, integer(MOST)))
    if isinstance(is_medium, Const):
        return [Do(copy)] if is_medium.value else [loop]
    return [If(is_medium, [Do(copy)], [loop])]


def _copy(loop: For) -> Call | None:
    """The call that does what a loop does, where that copies from one array to another."""
    steps = [one for one in loop.body if not isinstance(one, Comment)]
    last = steps.pop() if steps else None
    if loop.start != ZERO or loop.step != 1 or not isinstance(last, Store):
        return None
    value: Expr = last.value
    for one in steps:
        if not isinstance(one, Let) or one.var != value:
            return None
        value = one.value
    if not isinstance(value, Load) or last.root == value.root or not (last.root and value.root):
        return None
    pointers = (last.pointer, value.pointer)
    is_plain = last.index == value.index == loop.var and all(isinstance(x, Var) for x in pointers)
    if not is_plain:
        return None
    size = multiply(loop.stop, integer(memory_bytes(value.dtype)))
    return Call("memcpy", (*pointers, size), "void", external=True)
