"""What passes over loop nests share: statements with other blocks, names nobody has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from jitcore.codegen.loops import For, If, Stmt, While

__all__ = ["unused_name", "with_blocks"]


def with_blocks(statement: Stmt, change: Callable[[Sequence[Stmt]], list[Stmt]]) -> Stmt:
    """The statement with each of the blocks it holds changed."""
    match statement:
        case For():
            return replace(statement, body=change(statement.body))
        case While():
            return replace(statement, head=change(statement.head), body=change(statement.body))
        case If():
            then, orelse = change(statement.then), change(statement.orelse)
            return replace(statement, then=then, orelse=orelse)
    return statement


def unused_name(name: str, names: set[str]) -> str:
    """The name, or a longer one, that is not among ``names``, to which it is added."""
    while name in names:
        name += "_"
    names.add(name)
    return name
