"""``np.add.at`` and its kin: updates in place, one after the other, at places that may repeat."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor
from jitcore.ir.ops.overwriting import goes_into
from jitcore.ir.ops.shaping import array_operand, rank_of
from jitcore.ir.reference import require
from jitcore.ir.types import FLOAT, INT, TensorType, TupleType

__all__ = ["OPS"]

NAMES = ("add", "subtract", "multiply", "maximum", "minimum")


def _combined(name: Any, x: Any, y: Any) -> Any:
    if name == "add":
        return x + y
    if name == "subtract":
        return x - y
    if name == "multiply":
        return x * y
    return np.maximum(x, y) if name == "maximum" else np.minimum(x, y)


def _update(name: Any, x: Any, places: Any, values: Any, fits: Any) -> None:
    # All places are looked at before anything is written.
    for number in range(places.size):
        x[places[number]]
    require(fits, "ValueError", "array is not broadcastable to correct shape")
    values = np.broadcast_to(values, places.shape + x.shape[1:])
    for number in range(places.size):
        place = places[number]
        x[place] = _combined(name, x[place], values[number])


def _update_pairs(name: Any, x: Any, rows: Any, columns: Any, values: Any, fits: Any) -> None:
    for number in range(rows.size):
        x[rows[number], columns[number]]
    require(fits, "ValueError", "array is not broadcastable to correct shape")
    values = np.broadcast_to(values, rows.shape)
    for number in range(rows.size):
        row, column = rows[number], columns[number]
        x[row, column] = _combined(name, x[row, column], values[number])


_VIEWS = frozenset({"np::view", "np::transpose", "np::reshape", "np::broadcast_to"})
_NEW = frozenset({"np::cast", "np::copy", "np::gather", "np::iota", "np::full", "np::floor_divide"})


def _apart(b: Builder, value: Value, x: Value) -> Value:
    """The value, or a copy of it where it may share memory with ``x``."""
    own, other = _memory(value), _memory(x)
    if tensor(value).scalar:
        return value
    if own is not None and other is not None and own is not other:
        return value
    return b.op("np::copy", value, order="C")


def _memory(value: Value) -> Value | None:
    """The input of the graph or the new array that a value is a view of; None where unknown.

    Inputs of which one is written share no memory: that is checked at the call.
    """
    while value.node is not None and value.node.kind in _VIEWS:
        value = value.node.inputs[0]
    is_input = value.block is not None and value.block.owner is None
    is_new = value.node is not None and value.node.kind in _NEW
    return value if is_input or is_new else None


def _places(b: Builder, value: Value, x: Value) -> Value:
    """Places as a vector that shares no memory with what is written."""
    dtype = tensor(value).dtype
    if rank_of(array_operand(value)) != 1 or dtype is None or dtype.kind not in "iu":
        raise Untypable("places that are no vector of integers")
    if not np.can_cast(dtype, np.intp, "safe"):
        raise Untypable(f"places of {dtype}")
    return _apart(b, cast_to(b, value, np.dtype(np.intp)), x)


def _values(
    b: Builder, call: Call, name: str, x: Value, places: Value, rest: int
) -> tuple[Value, Value]:
    """The values, which share no memory with what is written, and whether their shape fits."""
    value, dtype = call.value("b"), tensor(x).dtype
    if dtype is None or dtype.kind not in "iuf":
        raise Untypable(f"{name} of {dtype}")
    if value.type in (INT, FLOAT):
        is_open = value.type == INT and value.constant is None
        if not goes_into(value, dtype) or (is_open and dtype.itemsize < 8):
            raise Untypable(f"{name} of {dtype} and {value.type}")
        value = cast_to(b, value, dtype)
    kind = tensor(value).dtype
    assert kind is not None
    loop = getattr(np, name).resolve_dtypes((dtype, kind, None))[2]
    if not np.can_cast(loop, dtype, "same_kind"):
        raise Untypable(f"{name} of {kind} into {dtype}")
    extents = [b.size(places, 0), *(b.size(x, axis) for axis in range(rest, rank_of(x)))]
    if rank_of(value) > len(extents):
        raise Untypable(f"{name} of values with too many dimensions")
    fits = b.constant(True)
    for axis, extent in enumerate(extents[len(extents) - rank_of(value) :]):
        own = b.size(value, axis)
        one = b.op("prim::or_", b.op("prim::eq", own, extent), b.op("prim::eq", own, 1))
        fits = b.op("prim::and_", fits, one)
    return _apart(b, value, x), fits


def _rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, indices = array_operand(call.value("a")), call.value("indices")
        if isinstance(indices.type, TupleType):
            pair = [_places(b, one, x) for one in b.elements(indices)]
            if len(pair) != 2 or rank_of(x) != 2 or len({tensor(one).dims for one in pair}) > 1:
                raise Untypable(f"{name} at places of so many axes")
            return b.define(_update_pairs, name, x, *pair, *_values(b, call, name, x, pair[0], 2))
        if not isinstance(indices.type, TensorType) or rank_of(x) not in (1, 2):
            raise Untypable(f"{name} at {indices.type}")
        places = _places(b, indices, x)
        return b.define(_update, name, x, places, *_values(b, call, name, x, places, 1))

    return rule


OPS: tuple[Op, ...] = tuple(
    Op(
        f"np::{name}_at",
        getattr(np, name).at,
        _rule(name),
        "a, indices, b",
        functions=(getattr(np, name).at,),
        writes=(0,),
        pure=False,
        doc=f"``{name}`` in place, once for each time that a place is named.",
    )
    for name in NAMES
)
