"""What the uses of a list do to it: questions of the passes that make values of lists."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jitcore.ir.graph import Block, Node, Use, Value
from jitcore.ir.passes.changing_lists import READERS

__all__ = [
    "MEMBERSHIP",
    "METHODS",
    "OF_ALL_ELEMENTS",
    "READING_KINDS",
    "is_copied",
    "is_local",
    "is_only_read",
    "is_protected",
    "is_read",
    "is_slice",
    "is_write",
    "makes_copy",
    "owners",
    "place_of",
]

_LISTS = frozenset({"prim::ListConstruct", "prim::ListArgument"})
_READS = frozenset({"prim::getitem", "prim::len", "prim::bool", "prim::not_", "prim::For"})
OF_ALL_ELEMENTS = frozenset(
    f"prim::{name}" for name in ("sum", "min", "max", "any", "all", "tuple")
)
MEMBERSHIP = frozenset({"prim::in_", "prim::notin"})
_ITERATORS = frozenset({"prim::zip", "prim::enumerate", "prim::reversed"})
READING_KINDS = _ITERATORS | {
    f"np::{name}"
    for name in ("array", "asarray", "sum", "prod", "mean", "std", "var", "min", "max", "argmin")
}
METHODS = {"append": "prim::ListAppend", "extend": "prim::ListExtend", "pop": "prim::ListPop"}
"""Methods that change a list, and what they are for a value."""


def place_of(use: Use, made: Node) -> int | None:
    """The position of a use in the block of the list; None where a branch or a loop returns it."""
    assert made.block is not None
    if isinstance(use.user, Block):
        is_last = use.user is made.block and use.user.owner is None
        return len(made.block.nodes) if is_last else None
    node = use.user
    while node.block is not made.block:
        assert node.block is not None and node.block.owner is not None
        node = node.block.owner
    return made.block.nodes.index(node)


def is_write(use: Use) -> bool:
    """Whether it changes the list, in a way that a value has a form of."""
    node = use.user
    if not isinstance(node, Node) or use.index != 0:
        return False
    if node.kind == "prim::CallMethod":
        return _is_plain_call(node)
    return node.kind == "prim::setitem"


def _is_plain_call(node: Node) -> bool:
    """Whether a method that changes a list is called in the way that it is meant."""
    if node.keywords or "starred" in node.attributes:
        return False
    if node.attributes["name"] == "pop":
        return len(node.inputs) <= 2
    known = node.attributes["name"] in METHODS
    # Else the list is extended by itself.
    others = node.inputs[0] not in node.inputs[1:]
    return known and others and len(node.inputs) == 2 and not node.output.uses


def is_read(use: Use, made: Node) -> bool:
    """Whether it reads the list and is done with it."""
    node = use.user
    if not isinstance(node, Node):
        return False
    if node.kind in MEMBERSHIP:
        return use.index == 1
    if node.kind in _ITERATORS:
        loops = [one.user for one in node.output.uses]
        return all(_is_loop_over(node.output, loop, made) for loop in loops)
    if use.index != 0:
        return _is_extension(node, use.index)
    if node.kind in OF_ALL_ELEMENTS:
        is_sum = node.kind == "prim::sum"
        is_one = len(node.inputs) - len(node.keywords) == 1
        return (is_one or is_sum) and set(node.keywords) <= {"default", "start"}
    if node.kind == "prim::getitem":
        return not is_slice(node) or is_only_read(node)
    if node.kind == "prim::For":
        return _is_loop_over(made.output, node, made)
    return node.kind in _READS


def _is_extension(node: Node, index: int) -> bool:
    """Whether a list is what another one is extended by."""
    if node.kind != "prim::CallMethod" or node.attributes["name"] != "extend" or index != 1:
        return False
    extended = node.inputs[0].node
    return extended is not None and extended.kind in _LISTS and _is_plain_call(node)


def is_slice(node: Node) -> bool:
    """Whether a subscript is ``values[i:j]``, a new list."""
    index = node.inputs[1].node
    return index is not None and index.kind == "prim::slice"


def is_only_read(made: Node) -> bool:
    """Whether nobody changes a list, or has it but for reading it at once."""
    return all(isinstance(use.user, Node) and is_read(use, made) for use in made.output.uses)


def _is_loop_over(iterable: Value, loop: Node | Block, made: Node) -> bool:
    """Whether a loop visits a list that does not change meanwhile: Python sees that it does."""
    if not isinstance(loop, Node) or loop.kind != "prim::For" or loop.inputs[0] is not iterable:
        return False
    return not any(
        is_write(other) and isinstance(other.user, Node) and _is_inside(other.user, loop)
        for other in made.output.uses
    )


def is_protected(use: Use, made: Node) -> bool:
    """Whether a write lies in a ``try`` that the list was made outside of."""
    node = use.user
    assert isinstance(node, Node)
    return any(owner.kind == "prim::Try" for owner in owners(node, made))


def owners(node: Node, made: Node) -> Iterator[Node]:
    """The nodes around a node, up to the block in which the list is made."""
    while node.block is not made.block:
        assert node.block is not None and node.block.owner is not None
        node = node.block.owner
        yield node


def _is_inside(node: Node, outer: Node) -> bool:
    while node is not outer:
        if node.block is None or node.block.owner is None:
            return False
        node = node.block.owner
    return True


def is_local(node: Node, *, only_written: bool = False) -> bool:
    """Whether a list is complete before anything but this function's own code may know it."""
    reads, writes, leaves = [], [], []
    changed_from = math.inf
    for use in node.output.uses:
        place = place_of(use, node)
        if place is None:
            return False
        if is_write(use):
            writes.append(place)
            if is_protected(use, node):
                return False
        elif is_read(use, node) or is_copied(use):
            reads.append(place)
        else:
            leaves.append(place)
            if not _is_harmless(use):
                changed_from = min(changed_from, place)
    if reads and max(reads) >= changed_from:
        # Something may have changed the list that Python knows.
        return False
    if not writes and not makes_copy(node):
        # A list that is never written, and known elsewhere, is as well made at once.
        return bool(node.output.uses) and not leaves and not only_written
    return not leaves or max(writes, default=-1) < min(leaves)


def _is_harmless(use: Use) -> bool:
    """Whether what gets a list neither changes it nor keeps it."""
    node = use.user
    if isinstance(node, Block) or node.kind in OF_ALL_ELEMENTS | MEMBERSHIP:
        return True
    if node.kind == "prim::Call":
        callee = node.inputs[0].constant_value
        return any(callee is one for one in READERS)
    return node.kind in READING_KINDS


def makes_copy(node: Node) -> bool:
    """Whether a node is ``list(x)``, ``x.copy()`` or ``x[i:j]``, a new list where x is one."""
    if node.kind == "prim::CallMethod":
        return node.attributes["name"] == "copy" and len(node.inputs) == 1
    if node.kind == "prim::Call":
        is_plain = len(node.inputs) == 2 and not node.keywords and "starred" not in node.attributes
        return is_plain and node.inputs[0].constant_value is list
    return node.kind == "prim::getitem" and is_slice(node)


def is_copied(use: Use) -> bool:
    """Whether a use makes a copy that is a list of its own for this function."""
    node = use.user
    if not isinstance(node, Node) or not makes_copy(node):
        return False
    return use.index == (1 if node.kind == "prim::Call" else 0) and is_local(node)
