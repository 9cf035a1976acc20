"""Cut a large function into small ones, so that compiling it takes time in proportion.

Several of LLVM's passes take more than twice as long on a function twice as large: a time loop of
80 stencil statements took three times what its halves took.  Loop nests depend on little around
them, so in a large function each becomes a function of its own, which LLVM does not inline again.

Before::

    for t in range(steps):
        for i in range(n):
            for j in range(m): ...
        for i in range(n):
            for j in range(m): ...

After::

    for t in range(steps):
        f_nest1(x, y, n, m)
        f_nest2(x, y, n, m)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from jitcore.codegen.loop_passes.rewriting import with_blocks
from jitcore.codegen.loop_passes.traversal import bound_names, free_variables, walk
from jitcore.codegen.loops import (
    Assign,
    Call,
    Comment,
    Do,
    For,
    Function,
    Return,
    Stmt,
    While,
)
from jitcore.ir.dataclass import dataclass

__all__ = ["outline"]

MIN_STATEMENTS = 300
"""Functions with fewer statements are left whole."""

MAX_NEST = 120
"""Loops with more statements are not moved as they are, but looked into where they hold others."""

MAX_OPTIMIZED = 3000
"""What has more statements, outside of the nests, and no loops left is not optimized: each
statement runs once, and LLVM looks at all the conditions before it with the same variables."""


def outline(function: Function) -> list[Function]:
    """The functions that the loop nests of a large function became, and then the function."""
    if _size(function.body) < MIN_STATEMENTS:
        return [function]
    outliner = _Outliner(function.name)
    body = outliner.block(function.body)
    optimized = _size(body) < MAX_OPTIMIZED or any(map(_loops, walk(body)))
    rest = Function(function.name, function.params, body, function.result, function.doc, optimized)
    return [*outliner.nests, rest]


@dataclass(slots=True)
class _Outliner:
    name: str
    nests: list[Function] = field(default_factory=list)

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """The statements, with calls in the place of the loops that could be moved."""
        return [self.statement(one) for one in statements]

    def statement(self, statement: Stmt) -> Stmt:
        """A statement, or the call that does the same."""
        if isinstance(statement, For) and _is_movable(statement):
            return self.call(statement)
        return with_blocks(statement, self.block)

    def call(self, nest: For) -> Do:
        """Move a nest into a function of its own; what it reads become parameters."""
        params = free_variables([nest])
        name = f"{self.name}_nest{len(self.nests) + 1}"
        self.nests.append(Function(name, params, [nest], "void"))
        return Do(Call(name, params, "void", external=True))


def _loops(statement: Stmt) -> bool:
    return isinstance(statement, For | While)


def _size(statements: Sequence[Stmt]) -> int:
    return sum(1 for one in walk(statements) if not isinstance(one, Comment))


def _is_movable(loop: For) -> bool:
    is_innermost = not any(map(_loops, walk(loop.body)))
    return (is_innermost or _size(loop.body) <= MAX_NEST) and _stands_alone(loop)


def _stands_alone(loop: For) -> bool:
    """Whether control leaves the loop only at its end, and no variable outside is changed."""
    bound = bound_names([loop])
    return not any(
        isinstance(one, Return) or (isinstance(one, Assign) and one.var.name not in bound)
        for one in walk([loop])
    )
