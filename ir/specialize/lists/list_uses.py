"""What the uses of a list do to it: questions of the passes that make values of lists."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jitcore.ir.carried import carried_values, is_carried
from jitcore.ir.graph import ITERATORS, Block, Node, Use, Value
from jitcore.ir.nesting import lies_in, place_in
from jitcore.ir.specialize.lists.changing_lists import READERS

__all__ = [
    "AS_ARRAY",
    "CHANGES",
    "JOINING_KINDS",
    "MEMBERSHIP",
    "OF_ALL_ELEMENTS",
    "READING_KINDS",
    "feeds_arrays",
    "is_copied",
    "is_index",
    "is_kept_once",
    "is_local",
    "is_only_read",
    "is_protected",
    "is_read",
    "is_slice",
    "is_write",
    "kept_uses",
    "makes_copy",
    "may_copy_array",
    "owners",
    "place_of",
    "repeated_display",
]

_LISTS = frozenset({"prim::ListConstruct", "prim::ListArgument"})
_READS = frozenset(f"prim::{name}" for name in ("getitem", "len", "bool", "not_", "For", "raises"))
OF_ALL_ELEMENTS = frozenset(
    f"prim::{name}" for name in ("sum", "min", "max", "any", "all", "tuple")
)
MEMBERSHIP = frozenset({"prim::in_", "prim::notin"})
JOINING_KINDS = frozenset(
    f"np::{name}" for name in ("concatenate_function", "stack", "vstack", "hstack", "column_stack")
)
AS_ARRAY = frozenset(
    f"np::{name}"
    for name in (
        *("array", "asarray", "sum", "prod", "mean", "std", "var", "min", "max"),
        *("argmin", "argmax", "cumsum", "any", "all"),
        *("add_reduce", "multiply_reduce", "maximum_reduce", "minimum_reduce"),
        *("logical_and_reduce", "logical_or_reduce"),
    )
)
"""Kinds whose first input, where it is a list, is an array of its elements to them."""

READING_KINDS = ITERATORS | JOINING_KINDS | AS_ARRAY
CHANGES = {
    "prim::setitem": "prim::ListSet",
    "prim::delitem": "prim::ListDelete",
    "append": "prim::ListAppend",
    "extend": "prim::ListExtend",
    "pop": "prim::ListPop",
    "insert": "prim::ListInsert",
    "remove": "prim::ListRemove",
    "clear": "prim::ListClear",
    "reverse": "prim::ListReverse",
    "sort": "prim::ListSort",
}
"""Kinds and methods that change a list, and what they are for a value."""

_DISPLAYS = frozenset({"prim::ListConstruct", "prim::TupleConstruct"})

_ARGUMENTS = {
    **dict.fromkeys(("append", "extend", "remove"), 1),
    **dict.fromkeys(("clear", "reverse", "sort"), 0),
    "insert": 2,
}
_COPYING = (list, sorted)
_COPYING_METHODS = frozenset({"copy", "tolist"})
_SEARCHES = frozenset({"index", "count"})


def place_of(use: Use, made: Node) -> int:
    """The position of a use in the block of the list."""
    assert made.block is not None
    if use.user is made.block:
        return len(made.block.nodes)
    return place_in(made.block, use.user)


def is_write(use: Use) -> bool:
    """Whether it changes the list, in a way that a value has a form of."""
    node = use.user
    if not isinstance(node, Node) or use.index != 0:
        return False
    if node.kind == "prim::CallMethod":
        return _is_plain_call(node)
    return node.kind in CHANGES


def _is_plain_call(node: Node) -> bool:
    """Whether a method that changes a list is called in the way that it is meant."""
    name, arguments = node.attributes["name"], len(node.inputs) - 1
    if "starred" in node.attributes:
        return False
    if name == "pop":
        return not node.keywords and arguments <= 1
    # Else the list is extended by itself.
    others = node.inputs[0] not in node.inputs[1:]
    if name not in _ARGUMENTS or node.output.uses or not others:
        return False
    if name == "sort" and tuple(node.keywords) == ("reverse",):
        return True
    return not node.keywords and arguments == _ARGUMENTS[name]


def is_read(use: Use, value: Value) -> bool:
    """Whether it reads the list and is done with it."""
    node = use.user
    if not isinstance(node, Node):
        return False
    if node.kind in MEMBERSHIP:
        return use.index == 1
    if node.kind in ITERATORS:
        loops = [one.user for one in node.output.uses]
        return all(_is_loop_over(node.output, loop, value) for loop in loops)
    if use.index != 0 or node.kind == "prim::TupleConstruct":
        return is_index(use) or _is_source(node, use.index)
    if node.kind in OF_ALL_ELEMENTS:
        is_sum = node.kind == "prim::sum"
        is_one = len(node.inputs) - len(node.keywords) == 1
        return (is_one or is_sum) and set(node.keywords) <= {"default", "start"}
    if node.kind == "prim::getitem":
        return not is_slice(node) or is_only_read(node)
    if node.kind == "prim::For":
        return _is_loop_over(value, node, value)
    if node.kind == "prim::CallMethod":
        return node.attributes["name"] in _SEARCHES and len(node.inputs) == 2 and not node.keywords
    return node.kind in _READS


def is_index(use: Use) -> bool:
    """Whether a list says which elements of something are meant, by itself or in a tuple."""
    node = use.user
    if not isinstance(node, Node):
        return False
    if node.kind == "prim::TupleConstruct":
        return bool(node.output.uses) and all(
            isinstance(one.user, Node) and _has_index(one.user, one.index)
            for one in node.output.uses
        )
    return _has_index(node, use.index)


def _has_index(node: Node, place: int) -> bool:
    return node.kind in ("prim::getitem", "prim::setitem") and place == 1


def _is_source(node: Node, index: int) -> bool:
    """Whether a list is what another one is extended by, or what a part of it becomes."""
    changed = node.inputs[0].node
    if changed is None or not (changed.kind in _LISTS or repeated_display(changed)):
        return False
    if node.kind == "prim::setitem":
        return index == 2 and is_slice(node)
    is_extension = node.kind == "prim::CallMethod" and node.attributes["name"] == "extend"
    return is_extension and index == 1 and _is_plain_call(node)


def is_slice(node: Node) -> bool:
    """Whether a subscript is ``values[i:j]``, a new list."""
    index = node.inputs[1].node
    return index is not None and index.kind == "prim::slice"


def is_only_read(made: Node) -> bool:
    """Whether nobody changes a list, or has it but for reading it at once."""
    return all(isinstance(use.user, Node) and is_read(use, made.output) for use in made.output.uses)


def _is_loop_over(iterable: Value, loop: Node | Block, value: Value) -> bool:
    """Whether a loop visits a list that does not change meanwhile: Python sees that it does."""
    if not isinstance(loop, Node) or loop.kind != "prim::For" or loop.inputs[0] is not iterable:
        return False
    return not any(is_write(other) and lies_in(other.user, loop) for other in value.uses)


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


def is_local(
    node: Node, *, only_written: bool = False, asked: frozenset[Node] = frozenset()
) -> bool:
    """Whether a list is complete before anything but this function's own code may know it.

    What has been ``asked`` on the way is taken for granted: a list may become the one of the next
    iteration, which is a copy of it.
    """
    reads, writes, leaves = [], [], []
    changed_from = math.inf
    asked |= {node}
    flows = [use for use in node.output.uses if is_carried(use)]
    if flows and not _is_read_downstream(node, asked):
        return False
    for use in node.output.uses:
        place = place_of(use, node)
        if is_write(use):
            writes.append(place)
            if is_protected(use, node):
                return False
        elif use in flows:
            leaves.append(place)
        elif is_read(use, node.output) or is_copied(use, asked) or _is_read_by_numpy(use):
            reads.append(place)
        else:
            leaves.append(place)
            if not _is_harmless(use):
                changed_from = min(changed_from, place)
    if reads and max(reads) >= changed_from:
        # Something may have changed the list that Python knows.
        return False
    if not writes and not flows and not makes_copy(node):
        # A list that is never written, and known elsewhere, is as well made at once.
        is_known_here = bool(node.output.uses) and not leaves
        return is_known_here and not only_written and not feeds_arrays(node)
    return not leaves or max(writes, default=-1) < min(leaves)


def _is_read_by_numpy(use: Use) -> bool:
    """Whether one of NumPy's functions makes something else of the list at once."""
    return isinstance(use.user, Node) and use.user.kind in READING_KINDS and use.index == 0


def kept_uses(node: Node) -> list[Use]:
    """The uses by which something else gets to know a local list."""
    return [use for use in node.output.uses if not _is_used_up(use, node.output)]


def is_kept_once(node: Node) -> bool:
    """Whether a local list goes into at most one container, right where it is made."""
    kept = kept_uses(node)
    if not kept:
        return True
    user = kept[0].user
    if len(kept) > 1 or not isinstance(user, Node) or user.block is not node.block:
        return False
    return user.kind in _DISPLAYS or is_write(Use(user, 0))


def _is_used_up(use: Use, value: Value) -> bool:
    """Whether a use is done with a list, or makes another local list of it."""
    if is_write(use) or is_carried(use) or is_read(use, value) or is_copied(use):
        return True
    return _is_harmless(use)


def feeds_arrays(display: Node) -> bool:
    """Whether a list display is nothing but a way to write an array or an index."""

    def is_taken(use: Use) -> bool:
        user = use.user
        if isinstance(user, Block):
            return False
        if user.kind in _DISPLAYS:
            return feeds_arrays(user)
        return _has_index(user, use.index) or user.kind.startswith(("np::", "nn::"))

    return bool(display.output.uses) and all(map(is_taken, display.output.uses))


def repeated_display(node: Node) -> Node | None:
    """``[x]`` of ``[x] * n``, which nobody else has."""
    display = node.inputs[0].node if node.kind == "prim::mul" else None
    if display is None or display.kind != "prim::ListConstruct" or len(display.output.uses) > 1:
        return None
    return display


def _is_read_downstream(node: Node, asked: frozenset[Node]) -> bool:
    """Whether variables that become this list only read it, and one of them at most returns it."""
    carried = carried_values(node.output)
    if carried is None:
        return False
    uses = [(use, value) for value in carried for use in value.uses if not is_carried(use)]
    returned = sum(isinstance(use.user, Block) for use, _ in uses)
    returned += any(isinstance(use.user, Block) and not is_carried(use) for use in node.output.uses)
    return returned <= 1 and all(
        isinstance(use.user, Block) or is_read(use, value) or is_copied(use, asked)
        for use, value in uses
    )


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
    """Whether a node makes a new list where x is one: ``list(x)``, ``x.copy()``, ``x[i:j]``, …

    So do ``list(x)``, ``sorted(x)`` and ``x.tolist()`` of an array.
    """
    if node.kind == "prim::CallMethod":
        return node.attributes["name"] in _COPYING_METHODS and len(node.inputs) == 1
    if node.kind == "prim::Call":
        return _is_copying_call(node)
    return node.kind == "prim::add" or (node.kind == "prim::getitem" and is_slice(node))


def may_copy_array(node: Node) -> bool:
    """Whether a node makes a list of an array x: ``list(x)``, ``sorted(x)``, ``x.tolist()``."""
    if node.kind == "prim::CallMethod" and node.attributes["name"] != "tolist":
        return False
    return node.kind in ("prim::Call", "prim::CallMethod") and makes_copy(node)


def _is_copying_call(node: Node) -> bool:
    """Whether a call is ``list(x)`` or ``sorted(x)``, perhaps the other way round."""
    if len(node.inputs) - len(node.keywords) != 2 or "starred" in node.attributes:
        return False
    callee = node.inputs[0].constant_value
    if not any(callee is one for one in _COPYING):
        return False
    return not node.keywords or (callee is sorted and tuple(node.keywords) == ("reverse",))


def is_copied(use: Use, asked: frozenset[Node] = frozenset()) -> bool:
    """Whether a use makes a copy that is a list of its own for this function."""
    node = use.user
    if not isinstance(node, Node) or not makes_copy(node):
        return False
    places = {"prim::Call": (1,), "prim::add": (0, 1)}.get(node.kind, (0,))
    return use.index in places and (node in asked or is_local(node, asked=asked))
