"""Lists whose elements a graph says, and which nobody changes: tuples of the class ``list``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize.chosen_elements import chosen_element
from jitcore.ir.types import INT, NONE, TupleType

if TYPE_CHECKING:
    from jitcore.ir.specialize.specializer import Specializer

__all__ = ["apply_to_known_list"]


def apply_to_known_list(worker: Specializer, node: Node, inputs: Sequence[Value]) -> Value | None:
    """What is done with a known list, by its elements; None of all else, and where tuples do.

    Before::

        %l = prim::TupleConstruct[named=list](%w, %b)
        %1 = prim::getitem(%l, -1)

    After, ``%1`` is ``%b``.
    """
    lists = [number for number, value in enumerate(inputs) if _is_known_list(value)]
    if not lists or node.kind in _AS_TUPLES or not node.kind.startswith("prim::"):
        return None
    elements = worker.elements(inputs[lists[0]])
    if node.kind == "prim::getitem" and lists == [0]:
        part = _slice_of(inputs[1])
        if part is not None:
            return worker.make_tuple(elements[part], list)
        if inputs[1].type == INT:
            try:
                return chosen_element(worker, elements, inputs[1], "list index out of range")
            except Untypable:
                return None  # As of a tuple, whose index has to be known.
    if node.kind == "prim::add" and lists == [0, 1]:
        return worker.make_tuple([*elements, *worker.elements(inputs[1])], list)
    name = node.attributes.get("name", node.kind.partition("::")[2])
    return worker.generic(node, inputs, f"{name!r} of a list in an argument")


def _is_known_list(value: Value) -> bool:
    return isinstance(value.type, TupleType) and value.type.named is list


def _slice_of(index: Value) -> slice | None:
    """The slice that an index is, where its parts are known."""
    if index.node is None or index.node.kind != "prim::slice":
        return None
    parts = index.node.inputs
    if any(one.type not in (INT, NONE) or one.constant is None for one in parts):
        return None
    return slice(*(one.constant_value for one in parts))


_AS_TUPLES = frozenset(
    f"prim::{name}"
    for name in (
        *("len", "bool", "not_", "in_", "notin", "is_", "isnot", "isinstance", "same", "require"),
        *("sum", "min", "max", "any", "all", "tuple", "zip", "enumerate", "reversed"),
        *("TupleConstruct", "ListConstruct", "DictConstruct", "UnionConstruct"),
        *("Unpack", "Call", "CallFunction", "CheckBound", "eq", "ne"),
    )
)
"""What lists are asked that has the answer of tuples."""
