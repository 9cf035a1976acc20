"""Who reads a value."""

from __future__ import annotations

from jitcore.ir.effects import node_effects
from jitcore.ir.graph import Block, Node, Value
from jitcore.ir.ops import METHODS, TABLE, Op
from jitcore.ir.passes.frozen.ranks import METADATA, is_array

__all__ = ["is_only_read", "is_only_reader", "method_of", "writes_nothing"]


def is_only_reader(reader: Node, value: Value) -> bool:
    """Whether one node alone reads what an array holds, and that once.

    What asks for the array's shape or dtype reads nothing.
    """
    readers = [use.user for use in value.uses if not _asks_for_metadata(use.user)]
    return readers == [reader]


def _asks_for_metadata(user: object) -> bool:
    return (
        isinstance(user, Node)
        and user.kind == "prim::GetAttr"
        and user.attributes.get("name") in METADATA
    )


def is_only_read(value: Value) -> bool:
    """Whether an array is read by nodes that neither write it nor pass it on to anybody.

    It may then be shared between calls, and be another object than the program's own.
    """
    waiting, seen = [value], {value}
    while waiting:
        for use in waiting.pop().uses:
            if isinstance(use.user, Block) or not _reads(use.user, use.index):
                return False
            passed_on = set(use.user.outputs) if _may_give_back(use.user, use.index) else set()
            waiting += passed_on - seen
            seen |= passed_on
    return True


def _reads(node: Node, index: int) -> bool:
    """Whether a node reads an operand and does nothing else with it."""
    if node.blocks:
        # What decides about a branch is only asked for its truth.
        return node.kind == "prim::If"
    if node.kind in _ARITHMETIC or _asks_for_metadata(node) or method_of(node) is not None:
        return True
    if _is_pure_function(node):
        return True
    effects = node_effects(node)
    others = (*effects.writes, *effects.keeps, *effects.stores, *effects.passes)
    return not effects.wildcard and not effects.observable and index not in others


def _is_pure_function(node: Node) -> bool:
    """Whether a function of NumPy surely writes nothing."""
    row = TABLE.get(node.kind)
    known = row is not None and row.pure and not row.writes and node.kind.startswith("np::")
    return known and "out" not in node.keywords and "starred" not in node.attributes


def method_of(node: Node) -> Op | None:
    """The pure operation that a call of an array's method is; None of all else."""
    if node.kind != "prim::CallMethod" or not is_array(node.inputs[0]):
        return None
    found, _ = METHODS.get(node.attributes["name"], (None, None))
    plain = found is not None and found.pure and not found.writes and "out" not in node.keywords
    return found if plain else None


def writes_nothing(node: Node) -> bool:
    """Whether a node, with all inside it, surely writes no array."""
    inner = (one for block in node.blocks for one in block.nodes)
    if not all(map(writes_nothing, inner)):
        return False
    if node.blocks or node.kind in _ARITHMETIC or method_of(node) is not None:
        return True
    if _is_pure_function(node):
        return True
    effects = node_effects(node)
    return not (effects.writes or effects.wildcard)


def _may_give_back(node: Node, index: int) -> bool:
    """Whether the result may be an operand, or a view of it."""
    if node.kind in _ARITHMETIC or _asks_for_metadata(node):
        return False
    method = method_of(node)
    if method is not None:
        return method.view and index == 0
    row = TABLE.get(node.kind)
    if row is not None and node.kind.startswith(("np::", "nn::")) and not row.view:
        return False
    return index in node_effects(node).aliases


_ARITHMETIC = frozenset(
    f"prim::{name}"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "neg", "invert"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor"),
        *("is_", "isnot", "in_", "notin", "not_", "bool"),
    )
)
"""Python's operators, which make new arrays of arrays, or say something about them."""
