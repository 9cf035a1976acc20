"""Joins and rearrangements: concatenate, the stack family, roll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Value
from jitcore.ir.ops.elementwise import SUPPORTED, cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand, checked_axis, rank_of, row
from jitcore.ir.types import Dim, TensorType

__all__ = ["OPS"]


def _common(b: Builder, values: Sequence[Value]) -> list[Value]:
    dtypes = [tensor(value).dtype for value in values]
    dtype = np.result_type(*[one for one in dtypes if one is not None])
    if dtype.char not in SUPPORTED:
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
    return b.op("np::concatenate", call.value("arrays"), axis=call.static("axis"))


def _stack_rule(b: Builder, call: Call) -> Value:
    arrays = b.elements(call.value("arrays"))
    if not arrays:
        raise Untypable("need at least one array to stack")
    axis = checked_axis(call.static("axis"), rank_of(arrays[0]) + 1)
    if any(tensor(one).dims != tensor(arrays[0]).dims for one in arrays):
        raise Untypable("arrays of different shapes are stacked")
    if all(tensor(one).scalar for one in arrays):
        raise Untypable("NumPy scalars are stacked")
    opened = [b.op("np::expand_dims", one, axis=axis) for one in arrays]
    return b.op("np::concatenate", *opened, axis=axis)


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
        arrays = [_at_least(b, one, rank) for one in b.elements(call.value("tup"))]
        along = axis(arrays[0]) if callable(axis) else axis
        return b.op("np::concatenate", *arrays, axis=along)

    return rule


def _column_stack_rule(b: Builder, call: Call) -> Value:
    columns = []
    for one in b.elements(call.value("tup")):
        columns.append(
            b.op("np::view", one, index=":, None") if rank_of(array_operand(one)) == 1 else one
        )
    return b.op("np::concatenate", *columns, axis=1)


def _roll_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("a"))
    shift, axis = call.static("shift"), call.static("axis")
    if axis is None and rank_of(x) == 1:
        axis = 0
    if not isinstance(shift, int) or not isinstance(axis, int):
        raise Untypable("np.roll by several shifts")
    axis = checked_axis(axis, rank_of(x))
    extent = (tensor(x).dims or ())[axis]
    if not isinstance(extent, int):
        return _roll_symbolic(b, x, shift, axis)
    if extent == 0 or shift % extent == 0:
        return b.op("np::copy", x)
    cut = extent - shift % extent
    before = [":"] * axis
    tail = b.op("np::view", x, index=", ".join([*before, f"{cut}:", *_rest(x, axis)]))
    head = b.op("np::view", x, index=", ".join([*before, f":{cut}", *_rest(x, axis)]))
    return _with_type(b.op("np::concatenate", tail, head, axis=axis), tensor(x))


def _with_type(value: Value, type_: TensorType) -> Value:
    value.type = TensorType(type_.dtype, type_.dims)
    return value


def _rest(x: Value, axis: int) -> list[str]:
    return [":"] * (rank_of(x) - axis - 1)


def _roll_symbolic(b: Builder, x: Value, shift: int, axis: int) -> Value:
    extent = b.size(x, axis)
    # The cut is where the part that comes first begins: (-shift) mod n, and n for an empty axis.
    divisor = b.op("prim::max", extent, 1)
    cut = b.op("prim::mod", b.constant(-shift), divisor)
    before = [":"] * axis
    head_text = ", ".join([*before, ":$0", *_rest(x, axis)])
    tail_text = ", ".join([*before, "$0:", *_rest(x, axis)])
    tail = b.op("np::view", x, cut, index=tail_text)
    head = b.op("np::view", x, cut, index=head_text)
    return _with_type(b.op("np::concatenate", tail, head, axis=axis), tensor(x))


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
        "arrays, axis=0, out!=None, dtype!=None, casting!='same_kind'",
        "Arrays one after the other.",
        functions=(np.concatenate, np.concat),
    ),
    row(
        "stack",
        np.stack,
        _stack_rule,
        "arrays, axis=0, out!=None, dtype!=None, casting!='same_kind'",
        "Arrays side by side along a new axis.",
    ),
    row(
        "vstack",
        np.vstack,
        _stacked_rule(2, 0),
        "tup, dtype!=None, casting!='same_kind'",
        "Arrays below each other.",
    ),
    row(
        "hstack",
        np.hstack,
        _stacked_rule(1, lambda x: 0 if rank_of(x) == 1 else 1),
        "tup, dtype!=None, casting!='same_kind'",
        "Arrays beside each other.",
    ),
    row("dstack", np.dstack, _stacked_rule(3, 2), "tup", "Arrays behind each other."),
    row("column_stack", np.column_stack, _column_stack_rule, "tup", "Vectors as columns."),
    row("roll", np.roll, _roll_rule, "a, shift, axis=None", "Shifted around the end."),
)
