"""Subscript assignments, and writes to all of an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.bfloat16 import is_bfloat16
from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import check_scalar_fits
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.indexing import (
    TYPED_VIEWS,
    Index,
    expanded,
    index_view,
    is_mask,
    only_mask,
    read,
)
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, tensor
from jitcore.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    ListType,
    TensorType,
    TupleType,
    is_number,
)

__all__ = ["OPS", "goes_without_error"]


def _setitem_rule(b: Builder, call: Call) -> Value:
    x, index, value = call.value("x"), call.value("index"), call.value("value")
    for one in (x, index, value):
        if one.type == ANY:
            raise Untypable("a subscript assignment to or of a value whose type is not known")
    if not isinstance(x.type, TensorType) or x.type.scalar:
        raise Untypable(f"a subscript assignment to {x.type}")
    _check_writable(x)
    target = tensor(x)
    assert target.dtype is not None
    if isinstance(value.type, TupleType | ListType):
        return _write_each(b, x, index, value)
    given = value
    value = _storable(b, value, target.dtype)
    entries = expanded(b, x, index)
    if any(is_mask(entry) for entry in entries):
        return b.op("np::put_mask", x, only_mask(entries), value)
    built = Index(b, x)
    for entry in entries:
        built.add(entry)
    if built.arrays:
        return b.emit("np::scatter", [x, *built.operands, value], {"index": built.text}, NONE)
    if _is_same_place(value, x, built):
        return b.constant(None)
    check_scalar_fits(given, target.dtype)
    view = index_view(b, x, built)
    if not tensor(view).dims and isinstance(value.type, TensorType) and value.type.dims:
        raise Untypable("an array with axes goes where one number does")
    return b.op("np::store", view, value)


def _write_each(b: Builder, x: Value, index: Value, value: Value) -> Value:
    """``x[i] = a, b``: each number goes into its place of a row, as NumPy does it, in turn."""
    numbers = b.elements(value)
    row = read(b, x, index)
    if not isinstance(row.type, TensorType) or row.type.scalar or row.node is None:
        raise Untypable("several numbers go where one does")
    if row.node.kind != "np::view" or tensor(row).dims != (len(numbers),):
        raise Untypable("several numbers go into something else than a row of as many")
    if not all(is_number(one.type) or _is_numpy_scalar(one) for one in numbers):
        raise Untypable(f"{value.type} goes into a row")
    for place, one in enumerate(numbers):
        b.op("prim::setitem", row, b.constant(place), one)
    return b.constant(None)


def _is_numpy_scalar(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.scalar


def goes_without_error(value: Value, dtype: np.dtype[Any] | None) -> bool:
    """Whether every number of this type is one of the dtype, or is rounded to one."""
    if dtype is None:
        return False
    if isinstance(value.type, TensorType):
        return (
            value.type.scalar
            and value.type.dtype is not None
            and (
                (np.can_cast(value.type.dtype, dtype, "same_kind") and dtype.kind == "f")
                or np.can_cast(value.type.dtype, dtype, "safe")
            )
        )
    if dtype.kind == "f":
        return value.type in (BOOL, INT, FLOAT)
    return dtype == np.int64 and value.type in (BOOL, INT)


_READ_ONLY = frozenset({"np::broadcast_to", "np::diagonal", "np::sliding_window_view"})


def _check_writable(target: Value) -> None:
    """NumPy raises where a view is written that is read-only."""
    node = target.node
    while node is not None and node.inputs and (node.kind in TYPED_VIEWS):
        if node.kind in _READ_ONLY:
            raise Untypable("assignment destination is read-only")
        node = node.inputs[0].node


def _is_same_place(value: Value, x: Value, built: Index) -> bool:
    """``x[i] = x[i]`` after an in-place operation, with which augmented assignment ends."""
    node = value.node
    return (
        node is not None
        and node.kind == "np::view"
        and node.inputs == [x, *built.operands]
        and node.attributes["index"] == built.text
    )


def _storable(b: Builder, value: Value, dtype: np.dtype[Any]) -> Value:
    if isinstance(value.type, TensorType):
        source = tensor(value)
        assert source.dtype is not None
        if source.dtype.kind == "c" and dtype.kind != "c":
            raise Untypable("NumPy warns, or raises, when a complex value goes into a real array")
        return b.op("np::cast", value, dtype=dtype) if source.dtype != dtype else value
    if not is_number(value.type):
        raise Untypable(f"{value.type} goes into an array")
    if value.constant is None and (
        (value.type == FLOAT and dtype.kind in "iub")
        or (value.type == COMPLEX and dtype.kind != "c")
    ):
        raise Untypable(f"{value.type} goes into {dtype}")
    if value.constant is not None and not is_bfloat16(dtype):
        return _constant_in(b, value.constant.attributes["value"], dtype)
    return cast_to(b, value, dtype)


def _constant_in(b: Builder, number: Any, dtype: np.dtype[Any]) -> Value:
    holder = np.zeros((), dtype)
    try:
        with np.errstate(all="ignore"):
            holder[()] = number
    except (TypeError, ValueError, OverflowError) as error:
        raise Untypable(str(error)) from None
    return b.constant(holder[()], TensorType(dtype, (), True))


def _store_rule(b: Builder, call: Call) -> Value:
    target, value = tensor(call.value("target")), tensor(call.value("value"))
    _check_writable(call.value("target"))
    if target.dtype != value.dtype:
        raise Untypable(f"{value.dtype} is stored into {target.dtype}")
    left, right = target.dims or (), value.dims or ()
    if len(right) > len(left):
        extra, right = right[: len(right) - len(left)], right[len(right) - len(left) :]
        if any(dim != 1 for dim in extra):
            raise Untypable("more dimensions are stored than there are")
        dims = len(extra)
        index = ", ".join(["0"] * dims + [":"] * len(right))
        value_view = b.op("np::view", call.value("value"), index=index)
        return b.op("np::store", call.value("target"), value_view)
    for one, two in zip(reversed(left), reversed(right), strict=False):
        if isinstance(one, int) and isinstance(two, int) and two not in (1, one):
            raise Untypable("could not broadcast input array")
    attributes = {"in_place": True} if call.static("in_place") else {}
    return b.emit("np::store", [call.value("target"), call.value("value")], attributes, NONE)


OPS: tuple[Op, ...] = (
    Op(
        "prim::setitem",
        reference.setitem,
        _setitem_rule,
        "x, index, value",
        writes=(0,),
        pure=False,
        doc="A subscript assignment.",
    ),
    Op(
        "np::store",
        reference.store,
        _store_rule,
        "target, value, in_place=False",
        writes=(0,),
        pure=False,
        doc="Write to all of an array.",
    ),
)
