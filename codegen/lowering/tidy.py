"""Drops bindings that nothing reads, so that the printed source shows only what matters."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.loop_passes.rewriting import with_blocks
from jitcore.codegen.loop_passes.traversal import expressions, has_effect, variables
from jitcore.codegen.loops import Comment, Let, Stmt

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
        kept.append(with_blocks(statement, lambda block: _swept(block, read)))
    return _without_idle_comments(list(reversed(kept)))


def _is_idle(statement: Let, read: set[str]) -> bool:
    is_read = statement.var.name in read or statement.mutable
    # Other C functions are mathematical ones.
    return not is_read and not has_effect(statement.value)


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
