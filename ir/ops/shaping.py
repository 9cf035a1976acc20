"""Shapes: views, joins, splits and rearrangements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Value
from jitcore.ir.ops.elementwise import SUPPORTED, cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, static_value, tensor
from jitcore.ir.shapes import BroadcastError, normalize_axes, normalize_axis
from jitcore.ir.types import INT, NONE, Dim, TensorType, TupleType

__all__ = ["OPS", "dims_of_values", "shape_values"]


def _rank(value: Value) -> int:
    return len(tensor(value).dims or ())


def _array(value: Value) -> Value:
    type_ = tensor(value)
    if type_.scalar:
        raise Untypable("a NumPy scalar where an array is meant")
    return value


def _axis(axis: Any, rank: int) -> int:
    if not isinstance(axis, (int, np.integer)):
        raise Untypable(f"axis {axis!r}")
    try:
        return normalize_axis(int(axis), rank)
    except BroadcastError as error:
        raise Untypable(str(error)) from None


def shape_values(b: Builder, shape: Value) -> list[Value]:
    """The extents in a shape argument (an int or a tuple of ints) as ``int`` values."""
    if shape.type == INT:
        return [shape]
    if isinstance(shape.type, TensorType) and shape.type.dims == ():
        return [b.op("prim::int", shape)]
    found = []
    for one in b.elements(shape):
        found.append(one if one.type == INT else b.op("prim::int", one))
    return found


def dims_of_values(b: Builder, values: Sequence[Value]) -> tuple[Dim, ...]:
    """The dims that these extents make: numbers, the symbol they are the size of, or new symbols."""
    dims: list[Dim] = []
    for value in values:
        node = value.node
        if value.constant is not None:
            extent = int(value.constant.attributes["value"])
            if extent < 0:
                raise Untypable("negative dimensions are not allowed")
            dims.append(extent)
        elif node is not None and node.kind == "prim::size":
            type_ = node.inputs[0].type
            assert isinstance(type_, TensorType) and type_.dims is not None
            dims.append(type_.dims[node.attributes["dim"]])
        else:
            dims.append(b.fresh_dim(("extent", value)))
    return tuple(dims)


def _transpose_rule(b: Builder, call: Call) -> Value:
    x = _array(call.value("a"))
    rank = _rank(x)
    axes = call.static("axes")
    if isinstance(axes, (list, tuple)) and len(axes) == 1 and isinstance(axes[0], (tuple, list)):
        axes = axes[0]
    if axes is None or (axes == () and rank != 0):
        axes = tuple(reversed(range(rank)))
    order = tuple(_axis(axis, rank) for axis in axes)
    if sorted(order) != list(range(rank)):
        raise Untypable("axes do not match the array")
    type_ = tensor(x)
    assert type_.dims is not None
    dims = tuple(type_.dims[axis] for axis in order)
    return b.emit("np::transpose", [x], {"axes": order}, TensorType(type_.dtype, dims))


def _transpose_method_rule(b: Builder, call: Call) -> Value:
    values: list[Value] = call.bound.get("axes", [])
    if len(values) == 1 and values[0].type == NONE:
        values = []
    if len(values) == 1 and isinstance(values[0].type, TupleType):
        values = b.elements(values[0])
    axes = tuple(static_value(value, "an axis") for value in values) or None
    return b.op("np::transpose", call.value("a"), axes=axes)


def _swapaxes_rule(b: Builder, call: Call) -> Value:
    x = _array(call.value("a"))
    order = list(range(_rank(x)))
    one, two = (_axis(call.static(name), len(order)) for name in ("axis1", "axis2"))
    order[one], order[two] = order[two], order[one]
    return b.op("np::transpose", x, axes=tuple(order))


def _moveaxis_rule(b: Builder, call: Call) -> Value:
    x = _array(call.value("a"))
    rank = _rank(x)

    def axes(name: str) -> list[int]:
        value = call.static(name)
        return [
            _axis(one, rank) for one in (value if isinstance(value, (tuple, list)) else [value])
        ]

    source, destination = axes("source"), axes("destination")
    if len(source) != len(destination) or len(set(source)) != len(source):
        raise Untypable("moveaxis: source and destination do not fit")
    order = [axis for axis in range(rank) if axis not in source]
    for target, axis in sorted(zip(destination, source, strict=True)):
        order.insert(target, axis)
    return b.op("np::transpose", x, axes=tuple(order))


def _reshape_rule(b: Builder, call: Call) -> Value:
    x = _array(call.value("a"))
    if call.static("order") != "C":
        raise Untypable("reshape in another order than C")
    values: list[Value] = call.bound.get("shape", [])
    if len(values) == 1 and isinstance(values[0].type, TupleType):
        values = b.elements(values[0])
    extents: list[Value] = []
    for value in values:
        extents.extend(shape_values(b, value))
    return _reshape_to(b, x, _resolve_unknown(b, x, extents))


def _resolve_unknown(b: Builder, x: Value, extents: list[Value]) -> list[Value]:
    """Replace the -1 of a reshape by the extent that is left."""
    unknown = [
        n for n, one in enumerate(extents) if _constant(one) is not None and _constant(one) < 0
    ]
    if not unknown:
        return extents
    if len(unknown) > 1:
        raise Untypable("can only specify one unknown dimension")
    total, others = b.constant(1), b.constant(1)
    remaining = list(tensor(x).dims or ())
    known: list[Value] = [one for n, one in enumerate(extents) if n != unknown[0]]
    for axis in range(_rank(x)):
        total = b.op("prim::mul", total, b.size(x, axis))
    for one in known:
        others = b.op("prim::mul", others, one)
    if _constant(others) == 0:
        raise Untypable("cannot reshape into an unknown dimension")
    left = _cancelled(b, x, remaining, known)
    if left is None:
        if _constant(total) is not None and _constant(others) is not None:
            if _constant(total) % _constant(others):
                raise Untypable("cannot reshape array")
        left = b.op("prim::floordiv", total, others)
    extents = list(extents)
    extents[unknown[0]] = left
    return extents


def _cancelled(b: Builder, x: Value, dims: list[Dim], known: list[Value]) -> Value | None:
    """The extent left for -1 where the known extents are all extents of the array."""
    axes = list(range(len(dims)))
    for value, dim in zip(known, dims_of_values(b, known), strict=True):
        match = next((axis for axis in axes if dims[axis] == dim), None)
        if match is None and dim != 1:
            return None
        if match is not None:
            axes.remove(match)
    result = b.constant(1)
    for axis in axes:
        result = b.op("prim::mul", result, b.size(x, axis))
    return result


def _constant(value: Value) -> Any:
    return None if value.constant is None else value.constant.attributes["value"]


def _reshape_to(b: Builder, x: Value, extents: list[Value]) -> Value:
    dims = dims_of_values(b, extents)
    source = tensor(x)
    if all(isinstance(dim, int) for dim in (*dims, *(source.dims or ()))):
        if int(np.prod([int(d) for d in dims])) != int(
            np.prod([int(d) for d in source.dims or ()])
        ):
            raise Untypable("cannot reshape array")
    return b.emit("np::reshape", [x, *extents], {}, TensorType(source.dtype, dims))


def _reshape_function_rule(b: Builder, call: Call) -> Value:
    if call.optional("order") is not None and call.static("order") != "C":
        raise Untypable("reshape in another order than C")
    return b.op("np::reshape", call.value("a"), call.value("shape"))


def _ravel_rule(b: Builder, call: Call) -> Value:
    if call.static("order") != "C":
        raise Untypable("ravel in another order than C")
    x = call.value("a")
    if tensor(x).scalar:
        raise Untypable("ravel of a NumPy scalar")
    return b.op("np::reshape", x, -1)


def _flatten_rule(b: Builder, call: Call) -> Value:
    if call.static("order") != "C":
        raise Untypable("flatten in another order than C")
    return b.op("np::reshape", b.op("np::copy", _array(call.value("a"))), -1)


def _index_rule(text_of: Any) -> Any:
    def rule(b: Builder, call: Call) -> Value:
        x = _array(call.value("a"))
        entries = text_of(call, x)
        if not entries:
            # NumPy indexes a 0-d array with (), which gives the scalar in it.
            return b.op("np::item", x)
        return b.op("np::view", x, index=", ".join(entries))

    return rule


def _expand_dims_text(call: Call, x: Value) -> list[str]:
    axis = call.static("axis")
    axes = [axis] if isinstance(axis, int) else list(axis)
    rank = _rank(x) + len(axes)
    new = {_axis(one, rank) for one in axes}
    if len(new) != len(axes):
        raise Untypable("repeated axis")
    return ["None" if number in new else ":" for number in range(rank)]


def _squeeze_rule(b: Builder, call: Call) -> Value:
    x = _array(call.value("a"))
    entries = _squeeze_text(call, x)
    # Where there is nothing to squeeze, NumPy gives the array itself.
    return b.op("np::view", x, index=", ".join(entries)) if "0" in entries else x


def _squeeze_text(call: Call, x: Value) -> list[str]:
    dims = tensor(x).dims or ()
    axis = call.static("axis")
    if axis is None:
        if not all(isinstance(dim, int) for dim in dims):
            raise Untypable("squeeze of extents not known")
        axes = {number for number, dim in enumerate(dims) if dim == 1}
    else:
        axes = {_axis(one, len(dims)) for one in (axis if isinstance(axis, tuple) else (axis,))}
    if any(dims[number] != 1 for number in axes):
        raise Untypable("cannot select an axis to squeeze out")
    return ["0" if number in axes else ":" for number in range(len(dims))]


def _flip_text(call: Call, x: Value) -> list[str]:
    rank = _rank(x)
    axis = call.static("axis")
    try:
        axes = normalize_axes(axis, rank)
    except BroadcastError as error:
        raise Untypable(str(error)) from None
    return ["::-1" if number in axes else ":" for number in range(rank)]


def _flip_axis(axis: int) -> Any:
    def rule(b: Builder, call: Call) -> Value:
        if _rank(call.value("a")) <= axis:
            raise Untypable("too few dimensions to flip")
        return b.op("np::flip", call.value("a"), axis=axis)

    return rule


def _broadcast_to_rule(b: Builder, call: Call) -> Value:
    x = call.value("array")
    extents = shape_values(b, call.value("shape"))
    return _broadcast(b, x, extents)


def _broadcast(b: Builder, x: Value, extents: list[Value]) -> Value:
    dims = dims_of_values(b, extents)
    type_ = tensor(x)
    source = type_.dims or ()
    if len(source) > len(dims):
        raise Untypable("input operand has more dimensions than allowed")
    for one, two in zip(reversed(source), reversed(dims), strict=False):
        if isinstance(one, int) and one != 1 and isinstance(two, int) and one != two:
            raise Untypable("operands could not be broadcast together")
    return b.emit("np::broadcast_to", [x, *extents], {}, TensorType(type_.dtype, dims))


def _broadcast_typed_rule(b: Builder, call: Call) -> Value:
    values: list[Value] = call.bound["shape"]
    if len(values) == 1 and values[0].type != INT:
        return _broadcast(b, call.value("array"), shape_values(b, values[0]))
    return _broadcast(b, call.value("array"), values)


def _copy_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    type_ = tensor(x)
    if call.static("order") not in ("C", "K"):
        raise Untypable("a copy in another order than C")
    if type_.dtype is None or type_.dtype.char not in SUPPORTED:
        raise Untypable(f"dtype {type_.dtype} is not compiled")
    if type_.scalar:
        raise Untypable("a copy of a NumPy scalar")
    return b.emit("np::copy", [x], {}, TensorType(type_.dtype, type_.dims))


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
    arrays = [_array(one) for one in _common(b, arrays)]
    rank = _rank(arrays[0])
    axis = _axis(axis, rank)
    if any(_rank(one) != rank for one in arrays):
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
    axis = _axis(call.static("axis"), _rank(arrays[0]) + 1)
    if any(tensor(one).dims != tensor(arrays[0]).dims for one in arrays):
        raise Untypable("arrays of different shapes are stacked")
    if all(tensor(one).scalar for one in arrays):
        raise Untypable("NumPy scalars are stacked")
    opened = [b.op("np::expand_dims", one, axis=axis) for one in arrays]
    return b.op("np::concatenate", *opened, axis=axis)


def _at_least(b: Builder, value: Value, rank: int) -> Value:
    have = _rank(_array(value))
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
        columns.append(b.op("np::view", one, index=":, None") if _rank(_array(one)) == 1 else one)
    return b.op("np::concatenate", *columns, axis=1)


def _roll_rule(b: Builder, call: Call) -> Value:
    x = _array(call.value("a"))
    shift, axis = call.static("shift"), call.static("axis")
    if axis is None and _rank(x) == 1:
        axis = 0
    if not isinstance(shift, int) or not isinstance(axis, int):
        raise Untypable("np.roll by several shifts")
    axis = _axis(axis, _rank(x))
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
    return [":"] * (_rank(x) - axis - 1)


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


def _transpose_method(x: Any, *axes: Any) -> Any:
    return x.transpose(*axes)


def _flatten(x: Any, order: str = "C") -> Any:
    return x.flatten(order)


def _row(kind: str, function: Any, rule: Any, parameters: str, doc: str, **more: Any) -> Op:
    functions = more.pop("functions", (function,))
    return Op(f"np::{kind}", function, rule, parameters, functions=functions, doc=doc, **more)


OPS: tuple[Op, ...] = (
    _row(
        "transpose",
        np.transpose,
        _transpose_rule,
        "a, axes=None",
        "Axes in another order, a view.",
        view=True,
        functions=(np.transpose, np.permute_dims),
    ),
    _row(
        "transpose_method",
        _transpose_method,
        _transpose_method_rule,
        "a, *axes",
        "The method ``transpose``.",
        view=True,
        methods={"transpose": "*axes"},
        functions=(),
    ),
    _row(
        "swapaxes",
        np.swapaxes,
        _swapaxes_rule,
        "a, axis1, axis2",
        "Two axes exchanged, a view.",
        view=True,
        methods={"swapaxes": None},
    ),
    _row(
        "moveaxis",
        np.moveaxis,
        _moveaxis_rule,
        "a, source, destination",
        "Axes moved, a view.",
        view=True,
    ),
    _row(
        "reshape",
        reference.reshape,
        _reshape_rule,
        "a, *shape, order='C'",
        "Another shape in C order, a view if possible.",
        view=True,
        methods={"reshape": "*shape, order='C'"},
        functions=(),
    ),
    _row(
        "reshape_function",
        np.reshape,
        _reshape_function_rule,
        "a, shape, order='C', copy!=None",
        "Another shape in C order, a view if possible.",
        view=True,
    ),
    _row(
        "ravel",
        np.ravel,
        _ravel_rule,
        "a, order='C'",
        "One axis, a view if possible.",
        view=True,
        methods={"ravel": None},
    ),
    _row(
        "flatten",
        _flatten,
        _flatten_rule,
        "a, order='C'",
        "One axis, a copy.",
        methods={"flatten": None},
        functions=(),
    ),
    _row(
        "expand_dims",
        np.expand_dims,
        _index_rule(_expand_dims_text),
        "a, axis",
        "New axes of extent 1, a view.",
        view=True,
    ),
    _row(
        "squeeze",
        np.squeeze,
        _squeeze_rule,
        "a, axis=None",
        "Without axes of extent 1, a view.",
        view=True,
        methods={"squeeze": None},
    ),
    _row(
        "flip",
        np.flip,
        _index_rule(_flip_text),
        "a, axis=None",
        "Reversed along axes, a view.",
        view=True,
    ),
    _row("flipud", np.flipud, _flip_axis(0), "a", "Rows reversed, a view.", view=True),
    _row("fliplr", np.fliplr, _flip_axis(1), "a", "Columns reversed, a view.", view=True),
    _row(
        "broadcast_to",
        reference.broadcast_to,
        _broadcast_typed_rule,
        "array, *shape",
        "Repeated without copying, read-only.",
        view=True,
        functions=(),
    ),
    _row(
        "broadcast_to_function",
        np.broadcast_to,
        _broadcast_to_rule,
        "array, shape, subok!=False",
        "Repeated without copying, read-only.",
        view=True,
    ),
    _row(
        "copy",
        reference.copy,
        _copy_rule,
        "a, order='K'",
        "A fresh array.",
        methods={"copy": "order='C'"},
        functions=(np.copy,),
    ),
    _row(
        "concatenate",
        reference.concatenate,
        _concatenate_rule,
        "*arrays, axis=0",
        "Arrays one after the other.",
        functions=(),
    ),
    _row(
        "concatenate_function",
        np.concatenate,
        _concatenate_function_rule,
        "arrays, axis=0, out!=None, dtype!=None, casting!='same_kind'",
        "Arrays one after the other.",
        functions=(np.concatenate, np.concat),
    ),
    _row(
        "stack",
        np.stack,
        _stack_rule,
        "arrays, axis=0, out!=None, dtype!=None, casting!='same_kind'",
        "Arrays side by side along a new axis.",
    ),
    _row(
        "vstack",
        np.vstack,
        _stacked_rule(2, 0),
        "tup, dtype!=None, casting!='same_kind'",
        "Arrays below each other.",
    ),
    _row(
        "hstack",
        np.hstack,
        _stacked_rule(1, lambda x: 0 if _rank(x) == 1 else 1),
        "tup, dtype!=None, casting!='same_kind'",
        "Arrays beside each other.",
    ),
    _row("dstack", np.dstack, _stacked_rule(3, 2), "tup", "Arrays behind each other."),
    _row("column_stack", np.column_stack, _column_stack_rule, "tup", "Vectors as columns."),
    _row("roll", np.roll, _roll_rule, "a, shift, axis=None", "Shifted around the end."),
)
