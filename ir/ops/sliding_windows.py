"""Sliding windows: each position of a window over some axes, as further axes of a view."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand, checked_axis, rank_of, row
from jitcore.ir.types import Dim, TensorType

__all__ = ["OPS"]


def _numbers(value: object) -> tuple[int, ...]:
    """One number or several, as a tuple."""
    found = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not all(type(one) is int or isinstance(one, np.integer) for one in found):
        raise Untypable("windows whose extents and axes are not known numbers")
    return tuple(int(one) for one in found)


def _sliding_window_view_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("x"))
    rank = rank_of(x)
    extents, axis = _numbers(call.static("window_shape")), call.static("axis")
    axes = tuple(range(rank)) if axis is None else _numbers(axis)
    if len(axes) != len(extents) or not all(-rank <= one < rank for one in axes):
        raise Untypable("windows that do not fit the axes")
    axes = tuple(checked_axis(one, rank) for one in axes)
    if len(set(axes)) != len(axes) or any(extent < 0 for extent in extents):
        raise Untypable("windows of two extents over one axis")
    dims = _positions(b, x, axes, extents)
    attributes = {"window_shape": extents, "axis": axes}
    type_ = TensorType(tensor(x).dtype, (*dims, *extents))
    return b.emit("np::sliding_window_view", [x], attributes, type_)


def _positions(
    b: Builder, x: Value, axes: Sequence[int], extents: Sequence[int]
) -> tuple[Dim, ...]:
    """How many positions a window has along each axis."""
    dims: list[Dim] = list(tensor(x).dims or ())
    for axis, extent in zip(axes, extents, strict=True):
        dim = dims[axis]
        if isinstance(dim, int):
            if dim < extent:
                raise Untypable("a window is larger than the array")
            dims[axis] = dim - extent + 1
            continue
        fits = b.op("prim::ge", b.size(x, axis), extent)
        b.op("prim::require", fits, exception="ValueError", message=_TOO_LARGE)
        if extent != 1:
            dims[axis] = b.fresh_dim(("positions", dim, extent))
    return tuple(dims)


_TOO_LARGE = "window shape cannot be larger than input array shape"

OPS: tuple[Op, ...] = (
    row(
        "sliding_window_view",
        sliding_window_view,
        _sliding_window_view_rule,
        "x, window_shape, axis=None, *, subok!=False, writeable!=False",
        "All positions of a window, a read-only view.",
        view=True,
    ),
)
