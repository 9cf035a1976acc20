"""Shapes: views, joins, splits and rearrangements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.bfloat16 import is_stored
from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, static_value, tensor
from jitcore.ir.shapes import BroadcastError, normalize_axes, normalize_axis
from jitcore.ir.types import INT, NONE, Dim, ListType, TensorType, TupleType

__all__ = ["OPS", "dims_of_values", "shape_values"]


def rank_of(value: Value) -> int:
    return len(tensor(value).dims or ())


def array_operand(value: Value) -> Value:
    type_ = tensor(value)
    if type_.scalar:
        raise Untypable("a NumPy scalar where an array is meant")
    return value


def checked_axis(axis: Any, rank: int) -> int:
    if not isinstance(axis, (int, np.integer)):
        raise Untypable(f"axis {axis!r}")
    try:
        return normalize_axis(int(axis), rank)
    except BroadcastError as error:
        raise Untypable(str(error)) from None


def index_along(rank: int, axis: int, entry: str) -> str:
    """An index that is ``entry`` at one axis and takes all of the others."""
    return ", ".join(entry if number == axis else ":" for number in range(rank))


def shape_values(b: Builder, shape: Value) -> list[Value]:
    """The extents in a shape argument (an int or a tuple of ints) as ``int`` values."""
    if isinstance(shape.type, TupleType | ListType):
        return [_extent(b, one) for one in b.elements(shape)]
    return [_extent(b, shape)]


def _extent(b: Builder, value: Value) -> Value:
    """An extent as an ``int``; NumPy takes no other numbers than integers, and no bools."""
    if value.type == INT:
        return value
    dtype = value.type.dtype if isinstance(value.type, TensorType) else None
    if dtype is None or dtype.kind not in "iu" or rank_of(value):
        raise Untypable(f"an extent of type {value.type}")
    return b.op("prim::int", value)


def dims_of_values(b: Builder, values: Sequence[Value]) -> tuple[Dim, ...]:
    """The dims these extents make: numbers, symbols they are the size of, or new symbols."""
    dims: list[Dim] = []
    for value in values:
        if value.constant is not None:
            extent = int(value.constant.attributes["value"])
            if extent < 0:
                raise Untypable("negative dimensions are not allowed")
            dims.append(extent)
        else:
            known = _dim_of_size(value)
            dims.append(b.fresh_dim(("extent", value)) if known is None else known)
    return tuple(dims)


def _dim_of_size(value: Value) -> Dim | None:
    """The dim that a value is the size of, where the array's dims are known."""
    node = value.node
    if node is None or node.kind != "prim::size":
        return None
    type_ = node.inputs[0].type
    if not isinstance(type_, TensorType) or type_.dims is None:
        return None
    axis: int = node.attributes["dim"]
    return type_.dims[axis]


def _transpose_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("a"))
    rank = rank_of(x)
    axes = call.static("axes")
    if isinstance(axes, (list, tuple)) and len(axes) == 1 and isinstance(axes[0], (tuple, list)):
        axes = axes[0]
    if axes is None or (axes == () and rank != 0):
        axes = tuple(reversed(range(rank)))
    if not isinstance(axes, tuple | list):
        raise Untypable("axes that are no tuple")
    order = tuple(checked_axis(axis, rank) for axis in axes)
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
    x = array_operand(call.value("a"))
    order = list(range(rank_of(x)))
    one, two = (checked_axis(call.static(name), len(order)) for name in ("axis1", "axis2"))
    order[one], order[two] = order[two], order[one]
    return b.op("np::transpose", x, axes=tuple(order))


def _moveaxis_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("a"))
    rank = rank_of(x)

    def axes(name: str) -> list[int]:
        value = call.static(name)
        return [
            checked_axis(one, rank)
            for one in (value if isinstance(value, (tuple, list)) else [value])
        ]

    source, destination = axes("source"), axes("destination")
    if len(source) != len(destination) or len(set(source)) != len(source):
        raise Untypable("moveaxis: source and destination do not fit")
    order = [axis for axis in range(rank) if axis not in source]
    for target, axis in sorted(zip(destination, source, strict=True)):
        order.insert(target, axis)
    return b.op("np::transpose", x, axes=tuple(order))


def _reshape_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("a"))
    if call.static("order") != "C":
        raise Untypable("reshape in another order than C")
    values: list[Value] = call.bound.get("shape", [])
    extents = shape_values(b, values[0]) if len(values) == 1 else [_extent(b, v) for v in values]
    return _reshape_to(b, x, _resolve_unknown(b, x, extents))


def _resolve_unknown(b: Builder, x: Value, extents: list[Value]) -> list[Value]:
    """Replace the -1 of a reshape by the extent that is left."""
    unknown = [
        n
        for n, one in enumerate(extents)
        if one.constant_value is not None and one.constant_value < 0
    ]
    if not unknown:
        return extents
    if len(unknown) > 1:
        raise Untypable("can only specify one unknown dimension")
    total, others = b.constant(1), b.constant(1)
    remaining = list(tensor(x).dims or ())
    known: list[Value] = [one for n, one in enumerate(extents) if n != unknown[0]]
    for axis in range(rank_of(x)):
        total = b.op("prim::mul", total, b.size(x, axis))
    for one in known:
        others = b.op("prim::mul", others, one)
    if others.constant_value == 0:
        raise Untypable("cannot reshape into an unknown dimension")
    left = _cancelled(b, x, remaining, known)
    if others.constant_value is None or (left is None and total.constant_value is None):
        # NumPy refuses to find an extent beside one of 0, and says so where the others do not fit.
        b.emit("np::check_reshape", [x, *extents], {}, NONE)
    if left is None:
        if total.constant_value is not None and others.constant_value is not None:
            if total.constant_value % others.constant_value:
                raise Untypable("cannot reshape array")
        left = b.op("prim::floordiv", total, others)
    extents = list(extents)
    extents[unknown[0]] = left
    return extents


def _cancelled(b: Builder, x: Value, dims: list[Dim], known: list[Value]) -> Value | None:
    """The extent left for -1 where the known extents are all extents of the array."""
    axes = list(range(len(dims)))
    for dim in dims_of_values(b, known):
        match = next((axis for axis in axes if dims[axis] == dim), None)
        if match is None and dim != 1:
            return None
        if match is not None:
            axes.remove(match)
    result = b.constant(1)
    for axis in axes:
        result = b.op("prim::mul", result, b.size(x, axis))
    return result


def _reshape_to(b: Builder, x: Value, extents: list[Value]) -> Value:
    dims = dims_of_values(b, extents)
    source = tensor(x)
    if all(isinstance(dim, int) for dim in (*dims, *(source.dims or ()))):
        if int(np.prod([int(d) for d in dims])) != int(
            np.prod([int(d) for d in source.dims or ()])
        ):
            raise Untypable("cannot reshape array")
    return b.emit("np::reshape", [x, *extents], {}, TensorType(source.dtype, dims))


def _set_shape(x: Any, *shape: Any) -> Any:
    x.shape = shape if len(shape) != 1 else shape[0]
    return x


def _set_shape_rule(b: Builder, call: Call) -> Value:
    made = b.op("np::reshape", call.value("x"), *call.bound["shape"])
    assert made.node is not None
    made.node.kind = "np::set_shape"
    return made


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
    type_ = tensor(x)
    size = b.constant(1)
    for axis in range(len(type_.dims or ())):
        size = b.op("prim::mul", size, b.size(x, axis))
    # Not a reshape: a strided vector comes back as a copy.
    return b.emit("np::ravel", [x], {}, TensorType(type_.dtype, dims_of_values(b, [size])))


def _flatten_rule(b: Builder, call: Call) -> Value:
    if call.static("order") != "C":
        raise Untypable("flatten in another order than C")
    return b.op("np::reshape", b.op("np::copy", array_operand(call.value("a")), order="C"), -1)


def _index_rule(text_of: Any, name: str = "a") -> Any:
    def rule(b: Builder, call: Call) -> Value:
        x = array_operand(call.value(name))
        entries = text_of(call, x)
        if not entries:
            # NumPy indexes a 0-d array with (), which gives the scalar in it.
            return b.op("np::item", x)
        return b.op("np::view", x, index=", ".join(entries))

    return rule


def _expand_dims_text(call: Call, x: Value) -> list[str]:
    axis = call.static("axis")
    axes = [axis] if isinstance(axis, int) else list(axis)
    rank = rank_of(x) + len(axes)
    new = {checked_axis(one, rank) for one in axes}
    if len(new) != len(axes):
        raise Untypable("repeated axis")
    return ["None" if number in new else ":" for number in range(rank)]


def _squeeze_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("a"))
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
        axes = {
            checked_axis(one, len(dims)) for one in (axis if isinstance(axis, tuple) else (axis,))
        }
    if any(dims[number] != 1 for number in axes):
        raise Untypable("cannot select an axis to squeeze out")
    return ["0" if number in axes else ":" for number in range(len(dims))]


def _flip_text(call: Call, x: Value) -> list[str]:
    rank = rank_of(x)
    axis = call.static("axis")
    try:
        axes = normalize_axes(axis, rank)
    except BroadcastError as error:
        raise Untypable(str(error)) from None
    return ["::-1" if number in axes else ":" for number in range(rank)]


def _flip_axis(axis: int) -> Any:
    def rule(b: Builder, call: Call) -> Value:
        if rank_of(call.value("m")) <= axis:
            raise Untypable("too few dimensions to flip")
        return b.op("np::flip", call.value("m"), axis=axis)

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
    order = call.static("order")
    if order not in ("C", "K"):
        raise Untypable(f"a copy in order {order!r}")
    if type_.dtype is None or not is_stored(type_.dtype):
        raise Untypable(f"dtype {type_.dtype} is not compiled")
    if type_.scalar:
        raise Untypable("a copy of a NumPy scalar")
    attributes = {"order": order} if rank_of(x) > 1 else {}
    return b.emit("np::copy", [x], attributes, TensorType(type_.dtype, type_.dims))


def _transpose_method(x: Any, *axes: Any) -> Any:
    return x.transpose(*axes)


def _flatten(x: Any, order: str = "C") -> Any:
    return x.flatten(order)


def row(kind: str, function: Any, rule: Any, parameters: str, doc: str, **more: Any) -> Op:
    functions = more.pop("functions", (function,))
    return Op(f"np::{kind}", function, rule, parameters, functions=functions, doc=doc, **more)


def _check_reshape(x: Any, *extents: int) -> None:
    x.reshape(extents)


def _check_reshape_rule(b: Builder, call: Call) -> Value:
    return b.emit("np::check_reshape", [call.value("x"), *call.bound["extents"]], {}, NONE)


OPS: tuple[Op, ...] = (
    Op(
        "np::check_reshape",
        _check_reshape,
        _check_reshape_rule,
        "x, *extents",
        doc="Raise where an extent of -1 cannot be found.",
    ),
    Op(
        "np::set_shape",
        _set_shape,
        _set_shape_rule,
        "x, *shape",
        pure=False,
        doc="The array itself, once it has another shape; nobody reads it as it was.",
    ),
    row(
        "transpose",
        np.transpose,
        _transpose_rule,
        "a, axes=None",
        "Axes in another order, a view.",
        view=True,
        functions=(np.transpose, np.permute_dims),
    ),
    row(
        "transpose_method",
        _transpose_method,
        _transpose_method_rule,
        "a, *axes",
        "The method ``transpose``.",
        view=True,
        methods={"transpose": "*axes"},
        functions=(),
    ),
    row(
        "swapaxes",
        np.swapaxes,
        _swapaxes_rule,
        "a, axis1, axis2",
        "Two axes exchanged, a view.",
        view=True,
        methods={"swapaxes": None},
    ),
    row(
        "moveaxis",
        np.moveaxis,
        _moveaxis_rule,
        "a, source, destination",
        "Axes moved, a view.",
        view=True,
    ),
    row(
        "reshape",
        reference.reshape,
        _reshape_rule,
        "a, *shape, order='C'",
        "Another shape in C order, a view if possible.",
        view=True,
        methods={"reshape": "*shape, order='C'"},
        functions=(),
    ),
    row(
        "reshape_function",
        np.reshape,
        _reshape_function_rule,
        "a, shape, order='C', *, copy!=None",
        "Another shape in C order, a view if possible.",
        view=True,
    ),
    row(
        "ravel",
        np.ravel,
        _ravel_rule,
        "a, order='C'",
        "One axis, a view if possible.",
        view=True,
        methods={"ravel": None},
    ),
    row(
        "flatten",
        _flatten,
        _flatten_rule,
        "a, order='C'",
        "One axis, a copy.",
        methods={"flatten": None},
        functions=(),
    ),
    row(
        "expand_dims",
        np.expand_dims,
        _index_rule(_expand_dims_text),
        "a, axis",
        "New axes of extent 1, a view.",
        view=True,
    ),
    row(
        "squeeze",
        np.squeeze,
        _squeeze_rule,
        "a, axis=None",
        "Without axes of extent 1, a view.",
        view=True,
        methods={"squeeze": None},
    ),
    row(
        "flip",
        np.flip,
        _index_rule(_flip_text, "m"),
        "m, axis=None",
        "Reversed along axes, a view.",
        view=True,
    ),
    row("flipud", np.flipud, _flip_axis(0), "m", "Rows reversed, a view.", view=True),
    row("fliplr", np.fliplr, _flip_axis(1), "m", "Columns reversed, a view.", view=True),
    row(
        "broadcast_to",
        reference.broadcast_to,
        _broadcast_typed_rule,
        "array, *shape",
        "Repeated without copying, read-only.",
        view=True,
        functions=(),
    ),
    row(
        "broadcast_to_function",
        np.broadcast_to,
        _broadcast_to_rule,
        "array, shape, subok!=False",
        "Repeated without copying, read-only.",
        view=True,
    ),
    row(
        "copy",
        reference.copy,
        _copy_rule,
        "a, order='K', subok!=False",
        "A fresh array.",
        methods={"copy": "order='C'"},
        functions=(np.copy,),
    ),
)
