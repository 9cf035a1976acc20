"""Drops bindings that nothing reads, so that the printed source shows only what matters."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.loops import (
    Call,
    Comment,
    Expr,
    For,
    If,
    Let,
    Stmt,
    While,
)
from jitcore.codegen.traversal import children, expressions, variables

__all__ = ["tidy"]


def tidy(statements: Sequence[Stmt]) -> list[Stmt]:
    """The statements without bindings of pure values that are never read."""
    read: set[str] = set()
    return _swept(statements, read)


def _swept(statements: Sequence[Stmt], read: set[str]) -> list[Stmt]:
    """Walk backwards; ``read`` collects the names read by what comes later or is nested."""
    kept: list[Stmt] = []
    for statement in reversed(statements):
        if isinstance(statement, Let) and _is_idle(statement, read):
            continue
        for expression in expressions(statement):
            read.update(variables(expression))
        kept.append(_nested(statement, read))
    return _without_idle_comments(list(reversed(kept)))


def _is_idle(statement: Let, read: set[str]) -> bool:
    return statement.var.name not in read and not statement.mutable and is_pure(statement.value)


def _without_idle_comments(statements: Sequence[Stmt]) -> list[Stmt]:
    """Drop comments that are followed by another one, or by nothing."""
    kept: list[Stmt] = []
    for statement in statements:
        if isinstance(statement, Comment) and kept and isinstance(kept[-1], Comment):
            kept.pop()
        kept.append(statement)
    if kept and isinstance(kept[-1], Comment):
        kept.pop()
    return kept


def _nested(statement: Stmt, read: set[str]) -> Stmt:
    """The statement with its blocks swept."""
    match statement:
        case For():
            body = _swept(statement.body, read)
            return For(
                statement.var,
                statement.start,
                statement.stop,
                body,
                statement.step,
                statement.parallel,
            )
        case While():
            return While(
                _swept(statement.head, read), statement.condition, _swept(statement.body, read)
            )
        case If():
            orelse = _swept(statement.orelse, read)
            then = _swept(statement.then, read)
            return If(statement.condition, then, orelse, statement.unlikely)
    return statement


def is_pure(expression: Expr) -> bool:
    """Whether an expression may be dropped: it calls no C function but mathematical ones."""
    if isinstance(expression, Call) and expression.external and expression.dtype == "ptr":
        return False
    return all(is_pure(child) for child in children(expression))
