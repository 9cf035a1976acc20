"""Structured arrays in ``specialize``: subscripts by names are views of fields.

A record, ``a[i]``, is a view without axes until something asks for one of its fields, or for all of
it.  What else is done with records is Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitcore.ir.graph import ITERATORS, Node, Value
from jitcore.ir.ops.assigning import goes_without_error
from jitcore.ir.ops.indexing import read
from jitcore.ir.ops.op import Untypable, tensor
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.structured import VoidType, field_place, is_structured
from jitcore.ir.types import INT, STR, TupleType

__all__ = ["apply_to_structured"]

_ATTRIBUTES = frozenset({"shape", "ndim", "size", "dtype", "itemsize", "nbytes", "T"})
_CARRYING = frozenset(
    f"prim::{name}" for name in ("TupleConstruct", "UnionConstruct", "CheckBound", "CallFunction")
)
"""What passes such arrays, and records of them, on."""

_PASSING = _CARRYING | frozenset(
    {
        *("prim::len", "prim::size", *ITERATORS),
        *("prim::is_", "prim::isnot", "prim::isinstance", "prim::same"),
        *("np::view", "np::field", "np::record", "np::transpose", "np::copy", "np::compress"),
        *("np::gather",),
    }
)
"""What takes such an array as any other."""


def apply_to_structured(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that has such an operand; None where it is as for any other array.

    Raises
    ------
    Untypable
        It is Python's.
    """
    has_record = any(map(_is_record, inputs))
    if node.kind in (_CARRYING if has_record else _PASSING):
        return None
    is_plain = node.kind == "prim::GetAttr" and node.attributes["name"] in _ATTRIBUTES
    if is_plain and not has_record:
        return None
    rule = _RULES.get(node.kind)
    if rule is None:
        raise Untypable(_REASON)
    return rule(worker, inputs)


_REASON = "of records, compiled code has only the fields"


def _is_record(value: Value) -> bool:
    return isinstance(value.type, VoidType)


def _getitem(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    x, index = inputs
    if _is_record(x):
        field = _field_of_record(worker, x, index)
        return field if tensor(field).dims else worker.op("np::item", field)
    if not is_structured(x.type):
        raise Untypable(_REASON)
    if index.type == STR:
        return worker.op("np::field", x, name=index.constant_value)
    return read(worker, x, index)


def _field_of_record(worker: BranchBuilder, record: Value, index: Value) -> Value:
    """The view of a field of a record."""
    name = index.constant_value
    assert isinstance(record.type, VoidType)
    names = record.type.dtype.names or ()
    if index.type == INT and isinstance(name, int) and -len(names) <= name < len(names):
        name = names[name]
    if not isinstance(name, str):
        raise Untypable("a field whose name is not known")
    return worker.op("np::field", _memory(record), name=name)


def _memory(record: Value) -> Value:
    """The array without axes that a record is."""
    node = record.node
    if node is None or node.kind != "np::record":
        raise Untypable("a record that may be one of several")
    return node.inputs[0]


def _setitem(worker: BranchBuilder, inputs: Sequence[Value]) -> Value:
    x, index, value = inputs
    if _is_record(x):
        return _store(worker, _field_of_record(worker, x, index), value)
    if not is_structured(x.type):
        raise Untypable(_REASON)
    if index.type == STR:
        field = worker.op("np::field", x, name=index.constant_value)
        if _is_same_field(value, field):
            return worker.constant(None)
        return _store(worker, field, value)
    place = read(worker, x, index)
    if not _is_record(place):
        raise Untypable("several records are written")
    return _store_record(worker, _memory(place), value)


def _is_same_field(value: Value, field: Value) -> bool:
    """``x["a"] = x["a"]`` after an in-place operation, with which augmented assignment ends."""
    one, other = value.node, field.node
    if one is None or other is None or one.kind != "np::field":
        return False
    return one.inputs == other.inputs and one.attributes == other.attributes


def _store(worker: BranchBuilder, field: Value, value: Value) -> Value:
    if is_structured(value.type):
        raise Untypable(_REASON)
    return worker.op("prim::setitem", field, worker.constant(Ellipsis), value)


def _store_record(worker: BranchBuilder, place: Value, value: Value) -> Value:
    """``x[i] = a, b`` and ``x[i] = y[j]``, where all fields are numbers and nothing can fail."""
    dtype = tensor(place).dtype
    assert dtype is not None
    parts = _parts_of(worker, dtype, value)
    for name, part in zip(dtype.names or (), parts, strict=True):
        _store(worker, worker.op("np::field", place, name=name), part)
    return worker.constant(None)


def _parts_of(worker: BranchBuilder, dtype: np.dtype[Any], value: Value) -> list[Value]:
    """What each field of a record becomes."""
    names = dtype.names or ()
    places = [field_place(dtype, name) for name in names]
    if any(place is None or place.shape for place in places):
        raise Untypable("a record with fields that are no numbers")
    if isinstance(value.type, VoidType):
        known = [place for place in places if place is not None]
        if value.type.dtype != dtype or sum(one.dtype.itemsize for one in known) < dtype.itemsize:
            raise Untypable("a record of another dtype, or one with gaps")
        fields = [worker.op("np::field", _memory(value), name=name) for name in names]
        return [worker.op("np::item", field) for field in fields]
    if not isinstance(value.type, TupleType) or value.type.named is not None:
        raise Untypable(_REASON)
    parts = worker.elements(value)
    if len(parts) != len(names):
        raise Untypable("a record gets more or fewer numbers than it has fields")
    for part, place in zip(parts, places, strict=True):
        if not goes_without_error(part, None if place is None else place.dtype):
            raise Untypable(f"{part.type} goes into a field of {place and place.dtype}")
    return parts


_RULES: dict[str, Callable[[BranchBuilder, Sequence[Value]], Value]] = {
    "prim::getitem": _getitem,
    "prim::setitem": _setitem,
}
