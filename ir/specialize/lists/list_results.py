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

So does a list of tuples, with a column for each number in them (``prim::ListMakeRows``); the entry
makes named tuples of them where the list has such.  A list of elements that are known one by one
becomes a tuple whose class is ``list``.  All this is done only where the function does nothing with
a list but return it, perhaps in a tuple.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Block, Graph, Node, Use, Value
from jitcore.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    REFERENCE,
    TENSOR,
    ListType,
    PrimType,
    TensorType,
    TupleType,
    Type,
)

__all__ = ["ColumnKind", "list_results"]

ColumnKind = int | str | tuple[int, ...]
"""What is in a column: the name of a type, the number of the part of a heap where lists are, or,
of mixed numbers, how many columns further their ints, floats and bools are."""

_ELEMENTS: dict[Any, PrimType] = {
    np.dtype(np.int64): INT,
    np.dtype(np.float64): FLOAT,
    np.dtype(bool): BOOL,
    np.dtype(np.complex128): COMPLEX,
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

_LITERAL = re.compile(r":\d+")
"""The first elements of an array, where it is known how many these are."""

MOST_COLUMNS = 8
"""How many numbers a tuple may have; longer ones are Python's."""


def list_results(graph: Graph) -> bool:
    """Have compiled code make the lists that are returned."""
    changed = False
    for node in list(graph.block.nodes):
        if node.kind == "prim::Call" and _is_returned(node):
            changed = _make(node) or _make_rows(node) or _make_named(node) or changed
        elif node.kind == "prim::ListConstruct" and _is_returned(node, once=True):
            types = tuple(value.type for value in node.inputs)
            _replace(node, "prim::TupleConstruct", node.inputs, TupleType(types, list))
            changed = True
    return changed


def _is_returned(node: Node, *, once: bool = False) -> bool:
    """Whether nothing but results of the function has this, by itself or in tuples.

    With ``once``, there is one place for it: what the entry makes is made anew for each place.
    """
    uses = node.output.uses
    return bool(uses) and not (once and len(uses) > 1) and all(_ends(use, once) for use in uses)


def _ends(use: Use, once: bool) -> bool:
    user = use.user
    if isinstance(user, Block):
        return user.owner is None
    return user.kind == "prim::TupleConstruct" and _is_returned(user, once=once)


def _make(call: Node) -> bool:
    """Make the list of the first numbers of an array."""
    convert = call.inputs[0].constant_value
    if convert is not reference.numbers_of and convert is not reference.scalars_of:
        return False
    found, view = _first_elements(call.inputs[1]), call.inputs[1].node
    if found is None or view is None:
        return False
    type_ = found[0].type
    of = _ELEMENTS if convert is reference.numbers_of else _OBJECTS
    element = of.get(type_.dtype) if isinstance(type_, TensorType) else None
    if element is None:
        return False
    _replace(call, "prim::ListMake", [*found], ListType(element))
    if not view.output.uses:
        view.destroy()
    return True


def _make_rows(call: Node) -> bool:
    """Make a list of tuples, or of NumPy's scalars, of the first elements of some columns."""
    of_tuples = call.inputs[0].constant_value is reference.tuples_of
    parts = [value.node for value in call.inputs[1:]] if of_tuples else [call]
    rows = _Rows(len(parts) if of_tuples else 0)
    if not all(part is not None and rows.add(part) for part in parts):
        return False
    columns = [*rows.columns, *rows.more]
    if not 0 < len(columns) <= MOST_COLUMNS:
        return False
    kinds, arrays, counts = zip(*columns, strict=True)
    if any(not _are_same(count, counts[0]) for count in counts[1:]):
        return False
    kinds = (rows.width, *kinds)
    _replace(call, "prim::ListMakeRows", [*arrays, counts[0]], ListType(ANY), kinds=kinds)
    for node in rows.read:
        if node is not call and not node.output.uses:
            node.destroy()
    return True


def _make_named(call: Node) -> bool:
    """Make a list of named tuples, of the tuples with the same elements."""
    if call.inputs[0].constant_value is not reference.named_rows:
        return False
    class_, rows = call.inputs[1].constant_value, call.inputs[2].node
    if rows is None or rows.kind != "prim::Call" or not _make_rows(rows):
        return False
    made = call.inputs[2]
    made.type = ListType(TupleType((), class_))
    call.output.replace_all_uses_with(made)
    _retype(made)
    call.destroy()
    return True


_Column = tuple[ColumnKind, Value, Value]
"""The kind of what is in an array, that array, and how many of its elements count."""


class _Rows:
    """The columns that a list is made of: one for each number, then those of mixed numbers."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.columns: list[_Column] = []
        self.more: list[_Column] = []
        self.read: list[Node] = []

    def add(self, part: Node) -> bool:
        """Add a call that makes a list of numbers; gives whether compiled code can do that."""
        is_mixed = part.kind == "prim::Call" and part.inputs[0].constant_value is reference.mixed_of
        found = self._mixed(part) if is_mixed else self._plain(part)
        if found is not None:
            self.columns.append(found)
        return found is not None

    def _plain(self, part: Node) -> _Column | None:
        found = _column(part)
        if found is not None:
            self.read += [part, *filter(None, [part.inputs[1].node])]
        return found

    def _mixed(self, part: Node) -> _Column | None:
        """The array of codes; where the numbers are is counted from it on."""
        codes, *lists = part.inputs[2:]
        view = _first_elements(codes)
        if view is None:
            return None
        self.read += [part, *filter(None, [codes.node, part.inputs[1].node])]
        places: dict[np.dtype[Any], int] = {}
        own = len(self.columns)
        for one in lists:
            column = None if one.node is None else self._plain(one.node)
            type_ = None if column is None else column[1].type
            dtype = type_.dtype if isinstance(type_, TensorType) else None
            if column is None or dtype is None or dtype not in _ELEMENTS:
                return None
            if dtype not in places:
                places[dtype] = max(self.width, 1) + len(self.more) - own
                self.more.append((_ELEMENTS[dtype].name, *column[1:]))
        return tuple(places.get(one, 0) for one in _ELEMENTS), *view


def _column(call: Node) -> tuple[str, Value, Value] | None:
    """The kind of the elements that a call makes a list of, their array and their number."""
    convert = call.inputs[0].constant_value if call.kind == "prim::Call" else None
    view = _first_elements(call.inputs[1]) if len(call.inputs) == 2 else None
    if view is None:
        return None
    array, count = view
    dtype = array.type.dtype if isinstance(array.type, TensorType) else None
    kinds = (kind for key, kind in _KINDS.items() if key[0] is convert and key[1] == dtype)
    kind = next(kinds, None)
    return None if kind is None else (kind, array, count)


def _first_elements(value: Value) -> tuple[Value, Value] | None:
    """The array whose first elements a value is, and their number."""
    view = value.node
    if view is None or view.kind != "np::view":
        return None
    index = view.attributes["index"]
    if index == ":$0":
        array, count = view.inputs
        return array, count
    if not _LITERAL.fullmatch(index):
        return None
    attributes = {"value": int(index[1:])}
    known = view.insert_before("prim::Constant", [], attributes, outputs=(INT,))
    return view.inputs[0], known.output


def _are_same(count: Value, other: Value) -> bool:
    known = count.constant_value
    return count is other or (known is not None and known == other.constant_value)


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
