"""Arguments with arrays in lists, tuples and dicts, as their arrays and what is around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Value
from jitcore.ir.types import is_named_tuple, type_of_constant

__all__ = ["LEAF", "Tree", "holds_containers", "tree_of"]


@dataclass(frozen=True, slots=True)
class Tree:
    """What is around the leaves of an argument.

    Parameters
    ----------
    kind : type or None
        ``list``, ``tuple``, a NamedTuple or ``dict``; None for a leaf.
    keys : tuple
        The keys of a dict.
    parts : tuple of Tree
    """

    kind: type | None = None
    keys: tuple[Any, ...] = ()
    parts: tuple[Tree, ...] = ()

    def leaves(self, value: Any) -> Iterator[Any]:
        """The leaves of a value that has this form."""
        if self.kind is None:
            yield value
            return
        items = value.values() if self.kind is dict else value
        for part, item in zip(self.parts, items, strict=True):
            yield from part.leaves(item)

    def filled(self, leaves: Iterator[Any]) -> Any:
        """A value of this form with other leaves."""
        if self.kind is None:
            return next(leaves)
        items = [part.filled(leaves) for part in self.parts]
        if self.kind is dict:
            return dict(zip(self.keys, items, strict=True))
        return self.kind(*items) if is_named_tuple(self.kind) else self.kind(items)

    def add_inputs(self, block: Block, name: str) -> Value:
        """Give a graph an input for each leaf; what compiled code has instead of the argument.

        The elements of a list are known there (``known_lists``), as are the items of a dict
        (``known_dicts``).
        """
        if self.kind is None:
            return block.add_param(name=name)
        parts = [part.add_inputs(block, name) for part in self.parts]
        if self.kind is not dict:
            named = {} if self.kind is tuple else {"named": self.kind}
            return block.append("prim::TupleConstruct", parts, named).output
        inputs = list[Value]()
        for key, part in zip(self.keys, parts, strict=True):
            inputs += [block.constant(key, type_of_constant(key)), part]
        return block.append("prim::DictConstruct", inputs, {"known": True}).output


LEAF = Tree()


def tree_of(value: Any) -> Tree:
    """The form of a value: its lists, tuples and dicts, as deep as there are any."""
    kind = type(value)
    if kind is dict:
        return Tree(dict, tuple(value), tuple(map(tree_of, value.values())))
    if kind in (list, tuple) or is_named_tuple(kind):
        return Tree(kind, (), tuple(map(tree_of, value)))
    return LEAF


def holds_containers(value: Any) -> bool:
    """Whether a value is a list, a dict or a NamedTuple, or a tuple with such in it."""
    kind = type(value)
    if kind is tuple:
        return any(map(holds_containers, value))
    return kind in (list, dict) or is_named_tuple(kind)
