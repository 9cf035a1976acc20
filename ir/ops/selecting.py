"""Elements chosen by conditions or places: select, take_along_axis, extract, delete, insert."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import as_array
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, common_dtype, tensor
from jitcore.ir.ops.shaping import array_operand, checked_axis, rank_of, row
from jitcore.ir.reference import require
from jitcore.ir.types import COMPLEX, FLOAT, INT, SUPPORTED, TensorType

__all__ = ["OPS"]

_PLACE = np.dtype(np.intp)


def _select_rule(b: Builder, call: Call) -> Value:
    conditions, choices = (b.elements(call.value(one)) for one in ("condlist", "choicelist"))
    default = call.bound.get("default", 0)
    values = [*choices, default if isinstance(default, Value) else b.constant(default)]
    if len(conditions) != len(choices) or not conditions:
        raise Untypable("np.select of lists of unequal lengths")
    for one in conditions:
        if tensor(array_operand(one)).dtype != np.dtype(bool):
            raise Untypable("np.select where something else than booleans hold")
    dtype = common_dtype(*map(_sample, values))
    if dtype.char not in SUPPORTED:
        raise Untypable(f"np.select of {dtype}")
    result = cast_to(b, values[-1], dtype)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = b.op("np::where", condition, cast_to(b, choice, dtype), result)
    # NumPy fills a new array, which is in C order.
    return b.op("np::copy", result, order="C") if rank_of(result) > 1 else result


def _sample(value: Value) -> Any:
    """Something that decides on a dtype as this operand does."""
    weak = {INT: 0, FLOAT: 0.0, COMPLEX: 0j}
    return weak[value.type] if value.type in weak else tensor(value).dtype


def _axis_index(b: Builder, x: Value, places: Value, axis: int) -> tuple[list[Value], str]:
    """The index arrays that take elements along an axis, and the index's text."""
    rank = rank_of(x)
    if rank_of(places) != rank or tensor(places).dtype.kind not in "iu":  # type: ignore[union-attr]
        raise Untypable("places along an axis that are no integers of as many dimensions")
    operands = []
    for other in range(rank):
        if other == axis:
            operands.append(b.op("np::cast", places, dtype=_PLACE))
            continue
        line = b.op("np::arange", b.size(x, other))
        entries = ", ".join(":" if one == other else "None" for one in range(rank))
        operands.append(b.op("np::view", line, index=entries))
    return operands, ", ".join(f"${number}" for number in range(rank))


def _take_along_axis_rule(b: Builder, call: Call) -> Value:
    x, places = (array_operand(call.value(name)) for name in ("arr", "indices"))
    axis = call.static("axis")
    if axis is None:
        if rank_of(places) != 1:
            raise Untypable("np.take_along_axis of a flattened array by a matrix")
        x, axis = b.op("np::ravel", x), 0
    operands, index = _axis_index(b, x, places, checked_axis(axis, rank_of(x)))
    return b.op("np::gather", x, *operands, index=index)


def _put_along_axis_rule(b: Builder, call: Call) -> Value:
    x, places = (array_operand(call.value(name)) for name in ("arr", "indices"))
    axis = call.static("axis")
    if axis is None:
        raise Untypable("np.put_along_axis in a flattened array")
    operands, _ = _axis_index(b, x, places, checked_axis(axis, rank_of(x)))
    return b.op("prim::setitem", x, b.make_tuple(operands), call.value("values"))


def _extracted(condition: Any, x: Any) -> Any:
    return _kept_rows(condition, x.ravel())


def _extract_rule(b: Builder, call: Call) -> Value:
    condition, x = array_operand(call.value("condition")), array_operand(call.value("arr"))
    return b.define(_extracted, condition, x)


def _without(x: Any, place: Any, axis: Any) -> Any:
    rows = np.moveaxis(x, axis, 0)
    count = len(rows)
    rows[place]  # raises NumPy's own error
    if place < 0:
        place += count
    return np.concatenate((rows[:place], rows[place + 1 :]))


def _delete_rule(b: Builder, call: Call) -> Value:
    x, place, axis = as_array(b, call.value("arr")), call.value("obj"), call.static("axis")
    if place.type != INT:
        raise Untypable("np.delete of several elements")
    if axis is None:
        x, axis = x if rank_of(x) == 1 else b.op("np::ravel", x), 0
    if checked_axis(axis, rank_of(x)) != 0:
        raise Untypable("np.delete along another axis than the first")
    return b.define(_without, x, place, 0)


def _with_inserted(x: Any, place: Any, value: Any) -> Any:
    count = len(x)
    if place != count:
        x[place]  # raises NumPy's own error
    if place < 0:
        place += count
    return np.concatenate((x[:place], value, x[place:]))


def _insert_rule(b: Builder, call: Call) -> Value:
    x, place, value = as_array(b, call.value("arr")), call.value("obj"), call.value("values")
    if place.type != INT or rank_of(x) != 1 or call.static("axis") not in (None, 0, -1):
        raise Untypable("np.insert of something else than a number at one place of a vector")
    if isinstance(value.type, TensorType) and not value.type.scalar:
        raise Untypable("np.insert of an array")
    dtype = tensor(x).dtype
    if isinstance(value.type, TensorType) and value.type.dtype != dtype:
        raise Untypable("np.insert of a number of another dtype")
    if value.type == FLOAT and dtype is not None and dtype.kind not in "fc":
        raise Untypable("np.insert of a float between integers")
    if not isinstance(value.type, TensorType) and value.type not in (INT, FLOAT):
        raise Untypable(f"np.insert of {value.type}")
    assert dtype is not None
    one = b.op("np::full", cast_to(b, value, dtype), 1, dtype=dtype)
    return b.define(_with_inserted, x, place, one)


def _compress_rule(b: Builder, call: Call) -> Value:
    condition, x = as_array(b, call.value("condition")), array_operand(call.value("a"))
    axis = call.static("axis")
    if rank_of(condition) != 1:
        raise Untypable("np.compress by something else than a vector")
    if axis is None:
        return b.define(_extracted, condition, x)
    if checked_axis(axis, rank_of(x)) != 0:
        raise Untypable("np.compress along another axis than the first")
    return b.define(_kept_rows, condition, x)


def _kept_rows(condition: Any, x: Any) -> Any:
    places = np.flatnonzero(condition)
    message = "cannot do a non-empty take from an empty axes."
    require(places.size == 0 or x.shape[0] > 0, "IndexError", message)
    return x[places]


OPS: tuple[Op, ...] = (
    row(
        "select",
        np.select,
        _select_rule,
        "condlist, choicelist, default=0",
        "The choice of the first condition that holds.",
    ),
    row(
        "take_along_axis",
        np.take_along_axis,
        _take_along_axis_rule,
        "arr, indices, axis=-1",
        "One element for each place, along an axis.",
    ),
    row(
        "put_along_axis",
        np.put_along_axis,
        _put_along_axis_rule,
        "arr, indices, values, axis",
        "Write one element for each place, along an axis.",
        writes=(0,),
        pure=False,
    ),
    row("extract", np.extract, _extract_rule, "condition, arr", "Elements where a mask holds."),
    row(
        "compress_function",
        np.compress,
        _compress_rule,
        "condition, a, axis=None, out!=None",
        "Parts where a mask holds.",
    ),
    row("delete", np.delete, _delete_rule, "arr, obj, axis=None", "Without an element."),
    row("insert", np.insert, _insert_rule, "arr, obj, values, axis=None", "With another element."),
)
