"""Walks over syntax trees that are quicker than those of ``ast``, which look at each field."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

__all__ = ["child_nodes", "inner_statements", "nodes_in", "statements_in"]

_WITHOUT_NAMES: Final = frozenset({"attr", "ctx", "id", "kind", "op", "ops", "type_comment"})
"""Fields that hold texts and operators."""

_BLOCKS: Final = frozenset({"body", "cases", "finalbody", "handlers", "orelse"})
"""Fields that hold statements, or parts of a statement that do."""


_LEAVES: Final = frozenset({ast.Constant, ast.Name})
"""The kinds of nodes that most are of, which have none inside."""


def child_nodes(node: ast.AST) -> list[ast.AST]:
    """The nodes directly inside of a node, in the order of their fields, but for operators."""
    found: list[ast.AST] = []
    if type(node) in _LEAVES:
        return found
    for name in _parts(type(node)):
        held = getattr(node, name, None)
        if isinstance(held, ast.AST):
            found.append(held)
        elif isinstance(held, list):
            found += [one for one in held if isinstance(one, ast.AST)]
    return found


def nodes_in(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all nodes inside of it, each before its own, but for operators."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        inner = child_nodes(one)
        inner.reverse()
        waiting += inner


def inner_statements(node: ast.AST) -> list[ast.AST]:
    """The statements directly inside of a statement, and its parts (handlers, cases)."""
    found: list[ast.AST] = []
    for name in _blocks(type(node)):
        held = getattr(node, name, None)
        if isinstance(held, list):
            found += held
    return found


def statements_in(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements of some nodes, those of functions and classes too, and their parts.

    No statement is inside of an expression, and most nodes are expressions.
    """
    waiting = list(nodes)
    waiting.reverse()
    while waiting:
        one = waiting.pop()
        yield one
        inner = inner_statements(one)
        inner.reverse()
        waiting += inner


def _parts(kind: type[ast.AST]) -> tuple[str, ...]:
    if kind not in _PARTS_OF:
        _PARTS_OF[kind] = tuple(name for name in kind._fields if name not in _WITHOUT_NAMES)
    return _PARTS_OF[kind]


def _blocks(kind: type[ast.AST]) -> tuple[str, ...]:
    if kind not in _BLOCKS_OF:
        fields = () if issubclass(kind, ast.expr) else kind._fields
        _BLOCKS_OF[kind] = tuple(name for name in fields if name in _BLOCKS)
    return _BLOCKS_OF[kind]


_PARTS_OF: dict[type[ast.AST], tuple[str, ...]] = {}
_BLOCKS_OF: dict[type[ast.AST], tuple[str, ...]] = {}
