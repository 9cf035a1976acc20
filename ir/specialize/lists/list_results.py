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

So does a list of tuples, with a column for each number in them (``prim::ListMakeRows``).  A list of
elements that are known one by one becomes a tuple whose class is ``list``.  All this is done only
where the function does nothing with a list but return it, perhaps in a tuple.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Block, Graph, Node, Use, Value
from jitcore.ir.types import (
    ANY,
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

_KINDS: dict[tuple[Any, Any], str] = {
    (reference.numbers_of, np.dtype(np.int64)): "int",
    (reference.numbers_of, np.dtype(np.float64)): "float",
    (reference.numbers_of, np.dtype(bool)): "bool",
    (reference.scalars_of, np.dtype(np.float64)): "numpy.float64",
    (reference.scalars_of, np.dtype(np.int64)): "numpy.int64",
    (reference.scalars_of, np.dtype(bool)): "numpy.bool",
    (reference.scalars_of, REFERENCE): "array",
}
"""What compiled code makes of the elements of an array that is a column."""

MOST_COLUMNS = 8
"""How many numbers a tuple may have; longer ones are Python's."""


def list_results(graph: Graph) -> bool:
    """Have compiled code make the lists that are returned."""
    changed = False
    for node in list(graph.block.nodes):
        if node.kind == "prim::Call" and _is_returned(node):
            changed = _make(node) or _make_rows(node) or changed
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


def _make_rows(call: Node) -> bool:
    """Make a list of tuples, or of NumPy's scalars, of the first elements of some columns."""
    of_tuples = call.inputs[0].constant_value is reference.tuples_of
    parts = [value.node for value in call.inputs[1:]] if of_tuples else [call]
    columns = [column for part in parts if part is not None and (column := _column(part))]
    if len(columns) < len(parts) or not 0 < len(columns) <= MOST_COLUMNS:
        return False
    kinds, arrays, counts = zip(*columns, strict=True)
    if any(count is not counts[0] for count in counts[1:]):
        return False
    views = [part.inputs[1].node for part in parts if part is not None]
    width = len(columns) if of_tuples else 0
    _replace(call, "prim::ListMakeRows", [*arrays, counts[0]], ListType(ANY), kinds=(width, *kinds))
    unused = [part for part in parts if of_tuples and part is not None]
    for node in (*unused, *filter(None, views)):
        if not node.output.uses:
            node.destroy()
    return True


def _column(call: Node) -> tuple[str, Value, Value] | None:
    """The kind of the elements that a call makes a list of, their array and their number."""
    convert = call.inputs[0].constant_value if call.kind == "prim::Call" else None
    view = call.inputs[1].node if len(call.inputs) == 2 else None
    if view is None or view.kind != "np::view" or view.attributes["index"] != ":$0":
        return None
    array, count = view.inputs
    dtype = array.type.dtype if isinstance(array.type, TensorType) else None
    kinds = (kind for key, kind in _KINDS.items() if key[0] is convert and key[1] == dtype)
    kind = next(kinds, None)
    return None if kind is None else (kind, array, count)


def _replace(
    node: Node, kind: str, inputs: list[Value], type_: ListType | TupleType, **attributes: Any
) -> None:
    made = node.insert_before(kind, inputs, attributes, outputs=(type_,), source=node.source)
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
