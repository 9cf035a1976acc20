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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from jitcore.codegen.loops import (
    Assign,
    Call,
    Comment,
    Do,
    Expr,
    For,
    Function,
    If,
    Let,
    Return,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.lowering.arithmetic import children

__all__ = ["outline"]

MIN_STATEMENTS = 300
"""Functions with fewer statements are left whole."""

MAX_NEST = 120
"""Loops with more statements are not moved as they are, but looked into."""


def outline(function: Function) -> list[Function]:
    """The functions that the loop nests of a large function became, and then the function."""
    if _size(function.body) < MIN_STATEMENTS:
        return [function]
    outliner = _Outliner(function.name)
    body = outliner.block(function.body)
    rest = Function(function.name, function.params, body, function.result, function.doc)
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
        match statement:
            case For():
                if _size(statement.body) <= MAX_NEST and _stands_alone(statement):
                    return self.call(statement)
                body = self.block(statement.body)
                return For(
                    statement.var,
                    statement.start,
                    statement.stop,
                    body,
                    statement.step,
                    statement.parallel,
                )
            case While(head, condition, body):
                return While(self.block(head), condition, self.block(body))
            case If(condition, then, orelse, unlikely):
                return If(condition, self.block(then), self.block(orelse), unlikely)
            case _:
                return statement

    def call(self, nest: For) -> Do:
        """Move a nest into a function of its own; what it reads become parameters."""
        params = tuple(_free([nest]).values())
        name = f"{self.name}_nest{len(self.nests) + 1}"
        self.nests.append(Function(name, params, [nest], "void"))
        return Do(Call(name, params, "void", external=True))


def _size(statements: Sequence[Stmt]) -> int:
    return sum(1 for one in _walk(statements) if not isinstance(one, Comment))


def _walk(statements: Sequence[Stmt]) -> Iterator[Stmt]:
    for statement in statements:
        yield statement
        for block in _blocks(statement):
            yield from _walk(block)


def _blocks(statement: Stmt) -> Sequence[list[Stmt]]:
    match statement:
        case For():
            return (statement.body,)
        case While():
            return statement.head, statement.body
        case If():
            return statement.then, statement.orelse
        case _:
            return ()


def _expressions(statement: Stmt) -> tuple[Expr, ...]:
    match statement:
        case Let() | Assign() | Return():
            return (statement.value,)
        case Store():
            return statement.pointer, statement.index, statement.value
        case For():
            return statement.start, statement.stop
        case While() | If():
            return (statement.condition,)
        case Do():
            return (statement.call,)
        case _:
            return ()


def _stands_alone(loop: For) -> bool:
    """Whether control leaves the loop only at its end, and no variable outside is changed."""
    inside = list(_walk([loop]))
    bound = {one.var.name for one in inside if isinstance(one, Let)}
    return not any(
        isinstance(one, Return) or (isinstance(one, Assign) and one.var.name not in bound)
        for one in inside
    )


def _free(statements: Sequence[Stmt]) -> dict[str, Var]:
    """The variables that statements read and do not bind, by name."""
    found: dict[str, Var] = {}
    bound: set[str] = set()
    for statement in _walk(statements):
        for expression in _expressions(statement):
            for var in _variables(expression):
                found.setdefault(var.name, var)
        if isinstance(statement, Let | For):
            bound.add(statement.var.name)
    return {name: var for name, var in found.items() if name not in bound}


def _variables(expression: Expr) -> Iterator[Var]:
    if isinstance(expression, Var):
        yield expression
    for child in children(expression):
        yield from _variables(child)
