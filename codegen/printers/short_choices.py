"""Branches that do so little that both sides are computed, and one result is taken.

Where data decide, a processor guesses wrong half of the time, and each time loses more than a few
whole numbers cost.  LLVM chooses without a jump, too, but makes a jump of it again where an
iteration waits for the choice, unless it is told that nothing can foretell it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from jitcore.codegen.loop_passes.traversal import children, expressions
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Cast,
    Comment,
    Const,
    Expr,
    If,
    Let,
    Select,
    Stmt,
    Unary,
    Var,
)
from jitcore.codegen.printers.llvm_instructions import FLOATS

__all__ = ["is_short_choice"]

MOST_OPERATIONS: Final = 6
"""Of both sides together: as many as a processor does in a fraction of a wrong guess."""

DEAR: Final = frozenset({"div", "quot", "rem", "frem"})

SHIFTS: Final = frozenset({"shift_left", "shift_right"})
"""NumPy's, whose counts may be too large; no other call is short."""


def is_short_choice(statement: If) -> bool:
    """Whether both sides do no more than a few steps with whole numbers."""
    sides = [*statement.then, *statement.orelse]
    if not all(isinstance(one, Let | Assign | Comment) for one in sides):
        return False
    found = list(_parts(sides))
    operations = sum(not isinstance(one, Const | Var) for one in found)
    return operations <= MOST_OPERATIONS and all(map(_is_cheap, found))


def _parts(statements: Sequence[Stmt]) -> Iterator[Expr]:
    waiting = [one for statement in statements for one in expressions(statement)]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += children(part)


def _is_cheap(part: Expr) -> bool:
    if part.dtype in FLOATS or part.dtype == "ptr":
        return False
    match part:
        case Const() | Var() | Unary() | Cast() | Select():
            return True
        case Binary(op):
            return op not in DEAR
        case Call(name):
            return name in SHIFTS
    return False
