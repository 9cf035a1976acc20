"""Lists that a program may change after it has made them.

The elements of a list display are known for as long as nobody changes the list. Where somebody
may, and somebody reads it, the list gets a name of which nothing is known:

    %x : List[int] = prim::ListConstruct(%a)        %1 : List[int] = prim::ListConstruct(%a)
    prim::CallMethod[name=append](%x, %b)      ->   %x : List[int] = prim::same(%1)
    %y = np::array(%x)                              prim::CallMethod[name=append](%x, %b)
                                                    %y = np::array(%x)
"""

from __future__ import annotations

from jitcore.ir.graph import Block, Graph, Node, Use, Value
from jitcore.ir.types import ListType

__all__ = ["READERS", "forget_names", "is_changing"]

READERS = (print, format, str, repr, sorted, list, set, frozenset, dict)
"""Python's functions that only read a list they are given, or copy it."""

_READING_METHODS = frozenset({"copy", "count", "index"})
_READING_KINDS = frozenset(
    f"prim::{name}"
    for name in (
        *("len", "bool", "not_", "in_", "notin", "sum", "min", "max", "any", "all", "tuple"),
        *("zip", "enumerate", "reversed", "getitem", "Unpack", "add", "mul", "FormatString"),
        *("eq", "ne", "lt", "le", "gt", "ge", "is_", "isnot", "isinstance", "list", "set", "same"),
    )
)
_SUBSCRIPTS = frozenset({"prim::getitem", "prim::setitem", "prim::delitem"})
_DISPLAYS = frozenset({"prim::ListConstruct", "prim::ListValue", "prim::TupleConstruct"})
_LIST_WRITES = frozenset(f"prim::List{name}" for name in ("Repeat", "Append", "Extend", "Set"))


def is_changing(display: Value) -> bool:
    """Whether a list has readers, and anything else that may change it."""
    inside = any(_is_display(use.user) for use in display.uses)
    return (inside or len(display.uses) > 1) and not all(map(_only_reads, display.uses))


def forget_names(graph: Graph) -> None:
    """Take the names away from a graph that is specialized once more, which gives them anew."""
    for node in list(graph.nodes()):
        if node.kind == "prim::same" and isinstance(node.output.type, ListType):
            node.output.replace_all_uses_with(node.inputs[0])
            node.destroy()


def _only_reads(use: Use) -> bool:
    """Whether what gets a list neither changes it nor keeps it."""
    node = use.user
    if isinstance(node, Block):
        # Nothing of this function runs after it returns.
        return node.owner is None
    if node.kind == "prim::For":
        return use.index == 0
    if node.kind in _SUBSCRIPTS and use.index == 1:
        return True
    if _is_display(node):
        outer = node.output.uses
        return all(map(_keeps_inside, outer)) or (len(outer) == 1 and _is_returned(outer[0]))
    if node.kind == "prim::CallMethod":
        return node.attributes["name"] in _READING_METHODS and use.index == 0
    if node.kind == "prim::Call":
        callee = node.inputs[0].constant_value
        return any(callee is one for one in READERS)
    return node.kind in _READING_KINDS or _takes_numbers(node)


def _is_display(user: Node | Block) -> bool:
    return isinstance(user, Node) and user.kind in _DISPLAYS | _LIST_WRITES


def _is_returned(use: Use) -> bool:
    return isinstance(use.user, Block) and use.user.owner is None


def _keeps_inside(use: Use) -> bool:
    """Whether lists inside a list or a tuple are only read by what gets it."""
    node = use.user
    if isinstance(node, Block):
        return False
    if node.kind == "prim::For":
        return use.index == 0 and all(map(_only_reads, node.blocks[0].params[0].uses))
    if _is_display(node):
        return all(map(_keeps_inside, node.output.uses))
    if node.kind in _SUBSCRIPTS and use.index == 1:
        return True
    if node.kind in ("prim::getitem", "prim::Unpack"):
        return all(_only_reads(one) for part in node.outputs for one in part.uses)
    return node.kind == "prim::len" or _takes_numbers(node)


def _takes_numbers(node: Node) -> bool:
    """Whether what gets a list looks at the numbers in it, at all depths, and at nothing else."""
    is_known = node.kind.startswith(("np::", "math::", "special::", "nn::"))
    return is_known and node.kind != "np::call"
