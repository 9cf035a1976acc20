"""Lists that a function returns, made by compiled code.

Before::

    graph(%x : Float64[n], %n : int):
      %f : Object = prim::Constant[value=numbers_of]()
      %0 : Float64[s0] = np::view[index=":$0"](%x, %n)
      %l : Any = prim::Call(%f, %0)
      return (%l)

After::

    graph(%x : Float64[n], %n : int):
      %l : List[float] = prim::ListMake(%x, %n)
      return (%l)

A list of elements that are known one by one becomes a tuple whose class is ``list``.  Both are done
only where the function does nothing with a list but return it, perhaps in a tuple.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Block, Graph, Node, Use, Value
from jitcore.ir.types import (
    BOOL,
    FLOAT,
    INT,
    REFERENCE,
    TENSOR,
    ListType,
    TensorType,
    TupleType,
    Type,
)

__all__ = ["list_results"]

_ELEMENTS: dict[Any, Type] = {
    np.dtype(np.int64): INT,
    np.dtype(np.float64): FLOAT,
    np.dtype(bool): BOOL,
}

_OBJECTS: dict[Any, Type] = {REFERENCE: TENSOR}
"""What the elements are of lists of which only references are there."""


def list_results(graph: Graph) -> bool:
    """Have compiled code make the lists that are returned."""
    changed = False
    for node in list(graph.block.nodes):
        if node.kind == "prim::Call" and _is_returned(node):
            changed = _make(node) or changed
        elif node.kind == "prim::ListConstruct" and _is_returned(node):
            types = tuple(value.type for value in node.inputs)
            _replace(node, "prim::TupleConstruct", node.inputs, TupleType(types, list))
            changed = True
    return changed


def _is_returned(node: Node) -> bool:
    return bool(node.output.uses) and all(map(_ends, node.output.uses))


def _ends(use: Use) -> bool:
    """Whether a use returns a value from the function, by itself or in a tuple."""
    user = use.user
    if isinstance(user, Block):
        return user.owner is None
    return user.kind == "prim::TupleConstruct" and _is_returned(user)


def _make(call: Node) -> bool:
    """Make the list of the first numbers of an array."""
    convert = call.inputs[0].constant_value
    if convert is not reference.numbers_of and convert is not reference.scalars_of:
        return False
    view = call.inputs[1].node
    if view is None or view.kind != "np::view" or view.attributes["index"] != ":$0":
        return False
    type_ = view.inputs[0].type
    of = _ELEMENTS if convert is reference.numbers_of else _OBJECTS
    element = of.get(type_.dtype) if isinstance(type_, TensorType) else None
    if element is None:
        return False
    _replace(call, "prim::ListMake", view.inputs, ListType(element))
    if not view.output.uses:
        view.destroy()
    return True


def _replace(node: Node, kind: str, inputs: list[Value], type_: ListType | TupleType) -> None:
    made = node.insert_before(kind, inputs, outputs=(type_,), source=node.source)
    if isinstance(type_, TupleType):
        made.attributes["named"] = type_.named
    made.output.name = made.graph.unique_name(node.output.name)
    node.output.replace_all_uses_with(made.output)
    _retype(made.output)
    node.destroy()


def _retype(value: Value) -> None:
    """Give the tuples that a list is in the types of their elements."""
    for use in value.uses:
        user = use.user
        if isinstance(user, Node) and isinstance(user.output.type, TupleType):
            types = tuple(one.type for one in user.inputs)
            user.output.type = TupleType(types, user.output.type.named)
            _retype(user.output)
