"""Joins and rearrangements: concatenate, the stack family, roll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.bfloat16 import is_stored
from jitcore.ir.graph import Value
from jitcore.ir.ops.array_lists import joined, long_list, rank_in, stacked
from jitcore.ir.ops.conversion import as_array, default_dtype
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, common_dtype, tensor
from jitcore.ir.ops.shaping import array_operand, checked_axis, rank_of, row
from jitcore.ir.types import INT, SUPPORTED, Dim, ListType, TensorType, TupleType

__all__ = ["OPS"]


def _common(b: Builder, values: Sequence[Value]) -> list[Value]:
    dtypes = [tensor(value).dtype for value in values]
    dtype = common_dtype(*[one for one in dtypes if one is not None])
    if not is_stored(dtype):
        raise Untypable(f"dtype {dtype} is not compiled")
    return [cast_to(b, value, dtype) for value in values]


def _concatenate_rule(b: Builder, call: Call) -> Value:
    arrays: list[Value] = call.bound["arrays"]
    if len(arrays) == 1 and not isinstance(arrays[0].type, TensorType):
        arrays = b.elements(arrays[0])
    if not arrays:
        raise Untypable("need at least one array to concatenate")
    axis = call.static("axis")
    if axis is None:
        arrays, axis = [b.op("np::ravel", one) for one in arrays], 0
    arrays = [array_operand(one) for one in _common(b, arrays)]
    rank = rank_of(arrays[0])
    axis = checked_axis(axis, rank)
    if any(rank_of(one) != rank for one in arrays):
        raise Untypable("all the input array dimensions must match")
    return b.emit("np::concatenate", arrays, {"axis": axis}, _joined(b, arrays, axis))


def _joined(b: Builder, arrays: Sequence[Value], axis: int) -> TensorType:
    shapes = [tensor(one).dims or () for one in arrays]
    dims: list[Dim] = []
    for number in range(len(shapes[0])):
        column = [shape[number] for shape in shapes]
        if number == axis:
            known = [dim for dim in column if isinstance(dim, int)]
            dims.append(
                sum(known) if len(known) == len(column) else b.fresh_dim(("join", tuple(column)))
            )
            continue
        numbers = {dim for dim in column if isinstance(dim, int)}
        if len(numbers) > 1:
            raise Untypable(
                "all the input array dimensions except the concatenation axis must match"
            )
        dims.append(numbers.pop() if numbers else column[0])
    return TensorType(tensor(arrays[0]).dtype, tuple(dims))


def _concatenate_function_rule(b: Builder, call: Call) -> Value:
    given = call.value("arrays")
    if isinstance(given.type, TensorType):
        raise Untypable("an array is taken apart to be joined")
    items = long_list(call, "arrays")
    if items is not None:
        axis = call.static("axis")
        if axis is None:
            raise Untypable("a list of arrays becomes one axis")
        return b.define(joined, items, checked_axis(axis, rank_in(items)))
    return b.op("np::concatenate", *_arrays(b, call, "arrays"), axis=call.static("axis"))


def _stack_rule(b: Builder, call: Call) -> Value:
    items = long_list(call, "arrays")
    if items is not None:
        return b.define(stacked, items, checked_axis(call.static("axis"), rank_in(items) + 1))
    arrays = _arrays(b, call, "arrays")
    rank = rank_of(arrays[0])
    axis = checked_axis(call.static("axis"), rank + 1)
    if any(rank_of(one) != rank for one in arrays):
        raise Untypable("arrays of different shapes are stacked")
    _require_one_shape(b, arrays)
    index = ", ".join([":"] * axis + ["None"] + [":"] * (rank - axis))
    opened = [b.op("np::view", one, index=index) for one in arrays]
    return b.op("np::concatenate", *opened, axis=axis)


def _arrays(b: Builder, call: Call, name: str) -> list[Value]:
    """The arrays in a list, in the dtype that is asked for; numbers are arrays of no axes."""
    found = [
        one if isinstance(one.type, TensorType) and not one.type.scalar else b.op("np::array", one)
        for one in b.elements(call.value(name))
    ]
    if not found:
        raise Untypable("need at least one array")
    asked = call.static("dtype") if any(one.name == "dtype" for one in call.parameters) else None
    if asked is None:
        return found
    dtype = np.dtype(asked)
    own = [default_dtype(one) for one in found]
    if dtype.char not in SUPPORTED or not all(np.can_cast(one, dtype, "same_kind") for one in own):
        raise Untypable(f"arrays are joined in {dtype}")
    return [cast_to(b, one, dtype) for one in found]


def _require_one_shape(b: Builder, arrays: Sequence[Value]) -> None:
    """Raise as ``np.stack`` does where shapes differ."""
    first = tensor(arrays[0]).dims or ()
    for one in arrays[1:]:
        for axis, (own, other) in enumerate(zip(tensor(one).dims or (), first, strict=True)):
            if own != other:
                same = b.op("prim::eq", b.size(one, axis), b.size(arrays[0], axis))
                message = "all input arrays must have the same shape"
                b.op("prim::require", same, exception="ValueError", message=message)


def _at_least(b: Builder, value: Value, rank: int) -> Value:
    have = rank_of(array_operand(value))
    if have >= rank:
        return value
    if have == 0:
        return b.op("np::reshape", value, *([1] * rank))
    if rank == 3:
        text = "None, :, None" if have == 1 else ":, :, None"
    else:
        text = "None, :"
    return b.op("np::view", value, index=text)


def _stacked_rule(rank: int, axis: Any) -> Any:
    def rule(b: Builder, call: Call) -> Value:
        items = long_list(call, "tup")
        if items is not None and rank < 3:
            return _stacked_items(b, items, rank)
        arrays = [_at_least(b, one, rank) for one in _arrays(b, call, "tup")]
        along = axis(arrays[0]) if callable(axis) else axis
        return b.op("np::concatenate", *arrays, axis=along)

    return rule


def _stacked_items(b: Builder, items: Value, rank: int) -> Value:
    """``np.vstack`` of a long list for rank 2, and ``np.hstack`` for rank 1."""
    if rank_in(items) == 0:
        raise Untypable("a list of arrays of no axes becomes one")
    if rank == 2:
        return b.define(stacked if rank_in(items) == 1 else joined, items, 0)
    return b.define(joined, items, min(rank_in(items) - 1, 1))


def _column_stack_rule(b: Builder, call: Call) -> Value:
    items = long_list(call, "tup")
    if items is not None:
        return b.define(stacked if rank_in(items) == 1 else joined, items, 1)
    columns = []
    for one in _arrays(b, call, "tup"):
        if rank_of(one) == 0:
            one = b.op("np::view", one, index="None")
        columns.append(b.op("np::view", one, index=":, None") if rank_of(one) == 1 else one)
    return b.op("np::concatenate", *columns, axis=1)


def _roll_rule(b: Builder, call: Call) -> Value:
    x, shift, axis = array_operand(call.value("a")), call.value("shift"), call.static("axis")
    if axis is None:
        if not isinstance(shift.type, TensorType) and shift.type != INT:
            raise Untypable("np.roll by several shifts")
        return _rolled(b, x, shift, 0) if rank_of(x) == 1 else _rolled_flat(b, x, shift)
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] if shift.type == INT else b.elements(shift)
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    if len(axes) == 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes) or not axes:
        raise Untypable("np.roll by several shifts")
    for one, number in zip(shifts, axes, strict=True):
        x = _rolled(b, x, one, checked_axis(number, rank_of(x)))
    return x


def _rolled(b: Builder, x: Value, shift: Value, axis: int) -> Value:
    if shift.type != INT:
        raise Untypable("np.roll by something else than an int")
    extent = b.size(x, axis)
    # The cut is where the part that comes first begins: (-shift) mod n, and n for an empty axis.
    divisor = b.op("prim::max", extent, 1)
    cut = b.op("prim::mod", b.op("prim::neg", shift), divisor)
    before, after = [":"] * axis, [":"] * (rank_of(x) - axis - 1)
    tail = b.op("np::view", x, cut, index=", ".join([*before, "$0:", *after]))
    head = b.op("np::view", x, cut, index=", ".join([*before, ":$0", *after]))
    rolled = b.op("np::concatenate", tail, head, axis=axis)
    rolled.type = TensorType(tensor(x).dtype, tensor(x).dims)
    return rolled


def _shifted_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("x"))
    return b.emit("np::rolled", [x], {"shifts": call.static("shifts")}, x.type)


def _rolled_flat(b: Builder, x: Value, shift: Value) -> Value:
    """The elements in their order, whatever the shape."""
    extents = [b.size(x, one) for one in range(rank_of(x))]
    result = b.op("np::empty", *extents, dtype=tensor(x).dtype)
    flat = b.op("np::reshape", result, -1)
    b.op("np::store", flat, _rolled(b, b.op("np::ravel", x), shift, 0))
    return result


def _append_rule(b: Builder, call: Call) -> Value:
    axis = call.static("axis")
    parts = [as_array(b, one) if _is_sequence(one) else one for one in _given(call)]
    arrays = [
        one if isinstance(one.type, TensorType) and not one.type.scalar else b.op("np::array", one)
        for one in parts
    ]
    if axis is None:
        arrays = [one if rank_of(one) == 1 else b.op("np::ravel", one) for one in arrays]
    return b.op("np::concatenate", *arrays, axis=0 if axis is None else axis)


def _given(call: Call) -> list[Value]:
    return [call.value("arr"), call.value("values")]


def _is_sequence(value: Value) -> bool:
    return isinstance(value.type, (TupleType, ListType))


OPS: tuple[Op, ...] = (
    row(
        "concatenate",
        reference.concatenate,
        _concatenate_rule,
        "*arrays, axis=0",
        "Arrays one after the other.",
        functions=(),
    ),
    row(
        "concatenate_function",
        np.concatenate,
        _concatenate_function_rule,
        "arrays, axis=0, out!=None, *, dtype=None, casting!='same_kind'",
        "Arrays one after the other.",
        functions=(np.concatenate, np.concat),
    ),
    row(
        "stack",
        np.stack,
        _stack_rule,
        "arrays, axis=0, out!=None, *, dtype=None, casting!='same_kind'",
        "Arrays side by side along a new axis.",
    ),
    row(
        "vstack",
        np.vstack,
        _stacked_rule(2, 0),
        "tup, *, dtype=None, casting!='same_kind'",
        "Arrays below each other.",
    ),
    row(
        "hstack",
        np.hstack,
        _stacked_rule(1, lambda x: 0 if rank_of(x) == 1 else 1),
        "tup, *, dtype=None, casting!='same_kind'",
        "Arrays beside each other.",
    ),
    row("dstack", np.dstack, _stacked_rule(3, 2), "tup", "Arrays behind each other."),
    row(
        "column_stack",
        np.column_stack,
        _column_stack_rule,
        "tup",
        "Vectors as columns.",
    ),
    row(
        "append",
        np.append,
        _append_rule,
        "arr, values, axis=None",
        "An array with others after it.",
    ),
    row(
        "rolled",
        reference.rolled,
        _shifted_rule,
        "x, shifts=()",
        "Shifted around the end along each axis by so many places.",
        functions=(),
    ),
    row("roll", np.roll, _roll_rule, "a, shift, axis=None", "Shifted around the end."),
)
