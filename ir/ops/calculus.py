"""Differences and sums of neighbours: diff, gradient, trapezoid; polynomials; convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import as_array, default_dtype
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, common_dtype, tensor
from jitcore.ir.ops.shaping import array_operand, checked_axis, index_along, rank_of, row
from jitcore.ir.reference import require
from jitcore.ir.types import FLOAT, INT, SUPPORTED, ListType, TensorType, TupleType, is_number

__all__ = ["OPS"]

_DOUBLE = np.dtype(np.float64)


# Differences ------------------------------------------------------------------------------


def _diff_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("a"))
    count = call.static("n")
    axis = checked_axis(call.static("axis"), rank_of(x))
    if not isinstance(count, int) or not 0 <= count <= 8:
        raise Untypable("np.diff of an order that is not a small number")
    parts = [_end(b, call, "prepend", x, axis), x, _end(b, call, "append", x, axis)]
    given = [part for part in parts if part is not None]
    if count == 0:
        return x
    if len(given) > 1:
        x = b.op("np::concatenate", *given, axis=axis)
    kind = "np::not_equal" if tensor(x).dtype == np.dtype(bool) else "np::subtract"
    for _ in range(count):
        later = b.op("np::view", x, index=index_along(rank_of(x), axis, "1:"))
        earlier = b.op("np::view", x, index=index_along(rank_of(x), axis, ":-1"))
        x = b.op(kind, later, earlier)
    return x


def _end(b: Builder, call: Call, name: str, x: Value, axis: int) -> Value | None:
    """What ``np.diff`` puts before or after an array: one of as many axes, or a number."""
    end = call.bound.get(name)
    if not isinstance(end, Value):
        return None
    if end.constant is not None and end.constant.attributes["value"] is np._NoValue:
        return None
    if isinstance(end.type, TensorType) and end.type.dims:
        return end
    dtype = default_dtype(end)
    number = cast_to(b, end, dtype)
    extents = [b.size(x, one) for one in range(rank_of(x))]
    extents[axis] = b.constant(1)
    return b.op("np::full", _scalar(b, number), *extents, dtype=dtype)


def _scalar(b: Builder, value: Value) -> Value:
    return value if tensor(value).scalar else b.op("np::item", value)


def _differences_between(x: Any, before: Any, after: Any) -> Any:
    flat = x.ravel()
    inner = flat[1:] - flat[:-1]
    if before is not None:
        inner = np.concatenate((before, inner))
    if after is not None:
        inner = np.concatenate((inner, after))
    return inner


def _ediff1d_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("ary"))
    dtype = tensor(x).dtype
    assert dtype is not None
    ends = [call.optional(name) for name in ("to_begin", "to_end")]
    if dtype.kind == "b":
        raise Untypable("np.ediff1d of booleans")
    return b.define(
        _differences_between, x, *(None if one is None else _edge(b, one, dtype) for one in ends)
    )


def _edge(b: Builder, value: Value, dtype: np.dtype[Any]) -> Value:
    """The elements put before or after, as a vector of the array's dtype."""
    if isinstance(value.type, (TupleType, ListType)):
        value = as_array(b, value)
    source = default_dtype(value)
    if not np.can_cast(source, dtype, "same_kind"):
        raise Untypable(f"{source} beside differences of {dtype}")
    value = cast_to(b, value, dtype)
    if tensor(value).scalar:
        return b.op("np::full", value, 1, dtype=dtype)
    return b.op("np::ravel", value)


# Slopes -----------------------------------------------------------------------------------


def _slopes(f: Any, step: Any, axis: Any, order: Any, dtype: Any) -> Any:
    slopes = np.empty_like(f, dtype)
    x, y = np.moveaxis(f, axis, -1), np.moveaxis(slopes, axis, -1)
    require(x.shape[-1] > order, "ValueError", _TOO_SMALL)
    y[..., 1:-1] = (x[..., 2:] - x[..., :-2]) / (2.0 * step)
    if order == 1:
        y[..., 0] = (x[..., 1] - x[..., 0]) / step
        y[..., -1] = (x[..., -1] - x[..., -2]) / step
    else:
        one, two, three = -1.5 / step, 2.0 / step, -0.5 / step
        y[..., 0] = one * x[..., 0] + two * x[..., 1] + three * x[..., 2]
        one, two, three = 0.5 / step, -2.0 / step, 1.5 / step
        y[..., -1] = one * x[..., -3] + two * x[..., -2] + three * x[..., -1]
    return slopes


def _slopes_between(f: Any, places: Any, axis: Any, order: Any, dtype: Any) -> Any:
    """Slopes where the distances differ: a parabola through three neighbours."""
    require(len(places) == f.shape[axis], "ValueError", _OTHER_LENGTH)
    steps = np.diff(places)
    if (steps == steps[0]).all():
        return _slopes(f, steps[0], axis, order, dtype)
    slopes = np.empty_like(f, dtype)
    x, y = np.moveaxis(f, axis, -1), np.moveaxis(slopes, axis, -1)
    require(x.shape[-1] > order, "ValueError", _TOO_SMALL)
    one, two = steps[:-1], steps[1:]
    before = -two / (one * (one + two))
    here = (two - one) / (one * two)
    after = one / (two * (one + two))
    y[..., 1:-1] = before * x[..., :-2] + here * x[..., 1:-1] + after * x[..., 2:]
    if order == 1:
        y[..., 0] = (x[..., 1] - x[..., 0]) / steps[0]
        y[..., -1] = (x[..., -1] - x[..., -2]) / steps[-1]
    else:
        near, far = steps[0], steps[1]
        first = -(2.0 * near + far) / (near * (near + far))
        second = (near + far) / (near * far)
        third = -near / (far * (near + far))
        y[..., 0] = first * x[..., 0] + second * x[..., 1] + third * x[..., 2]
        far, near = steps[-2], steps[-1]
        first = near / (far * (far + near))
        second = -(near + far) / (far * near)
        third = (2.0 * near + far) / (near * (far + near))
        y[..., -1] = first * x[..., -3] + second * x[..., -2] + third * x[..., -1]
    return slopes


_TOO_SMALL = (
    "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) "
    "elements are required."
)
_OTHER_LENGTH = "when 1d, distances must match the length of the corresponding dimension"


def _gradient_rule(b: Builder, call: Call) -> Value:
    f = array_operand(call.value("f"))
    spacing: list[Value] = call.bound.get("varargs", [])
    order, axis = call.static("edge_order"), call.static("axis")
    dtype = tensor(f).dtype
    if dtype is None or dtype.kind not in "fiuc" or order not in (1, 2):
        raise Untypable(f"np.gradient of {dtype}")
    given = range(rank_of(f)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = [checked_axis(one, rank_of(f)) for one in given]
    if dtype.kind in "iu":
        f, dtype = cast_to(b, f, _DOUBLE), _DOUBLE
    if not spacing:
        steps = [b.constant(1.0)] * len(axes)
    elif len(spacing) == 1 and _is_number(spacing[0]):
        steps = spacing * len(axes)
    else:
        steps = spacing
    if len(steps) != len(axes) or not axes or len(set(axes)) != len(axes):
        raise Untypable("invalid number of arguments")
    found = [_slope(b, f, step, (one, order, dtype)) for one, step in zip(axes, steps, strict=True)]
    return found[0] if len(found) == 1 else b.make_tuple(found)


def _is_number(value: Value) -> bool:
    if isinstance(value.type, TensorType):
        return value.type.scalar
    return value.type in (INT, FLOAT)


def _slope(b: Builder, f: Value, step: Value, how: tuple[int, int, Any]) -> Value:
    if _is_number(step):
        return b.define(_slopes, f, step, *how)
    type_ = tensor(step)
    if type_.dtype is None or len(type_.dims or ()) != 1 or type_.dtype.kind not in "iuf":
        raise Untypable("np.gradient with distances that are no vector of numbers")
    if type_.dtype.kind in "iu":
        step = cast_to(b, step, _DOUBLE)
    return b.define(_slopes_between, f, step, *how)


# Areas and polynomials --------------------------------------------------------------------


def _area(y: Any, step: Any, axis: Any) -> Any:
    x = np.moveaxis(y, axis, -1)
    return (step * (x[..., 1:] + x[..., :-1]) / 2.0).sum(-1)


def _area_between(y: Any, places: Any, axis: Any) -> Any:
    x = np.moveaxis(y, axis, -1)
    steps = np.diff(places if places.ndim == 1 else np.moveaxis(places, axis, -1))
    return (steps * (x[..., 1:] + x[..., :-1]) / 2.0).sum(-1)


def _trapezoid_rule(b: Builder, call: Call) -> Value:
    y, x = array_operand(call.value("y")), call.optional("x")
    axis = checked_axis(call.static("axis"), rank_of(y))
    if x is None:
        step = call.bound.get("dx", 1.0)
        if isinstance(step, Value) and not _is_number(step):
            raise Untypable("np.trapezoid with a dx that is no number")
        return b.define(_area, y, step, axis)
    if rank_of(array_operand(x)) not in (1, rank_of(y)):
        raise Untypable("np.trapezoid between places of another shape")
    return b.define(_area_between, y, x, axis)


def _polynomial(coefficients: Any, x: Any, start: Any) -> Any:
    y = start
    for one in coefficients:
        y = y * x + one
    return y


def _polyval_rule(b: Builder, call: Call) -> Value:
    p, x = call.value("p"), call.value("x")
    p = as_array(b, p)
    if rank_of(p) != 1 or (tensor(p).dims or ())[0] == 0:
        raise Untypable("np.polyval of coefficients that are no vector")
    if is_number(x.type):
        x = cast_to(b, x, default_dtype(x))
    type_ = tensor(x)
    assert type_.dtype is not None
    if not type_.dims:
        x = _scalar(b, x)
        return b.define(_polynomial, p, x, type_.dtype.type(0))
    return b.define(_polynomial, p, x, b.op("np::zeros_like", x))


# Convolution ------------------------------------------------------------------------------


def _convolved(x: Any, y: Any, mode: Any, dtype: Any) -> Any:
    require(len(x) > 0, "ValueError", "a cannot be empty")
    require(len(y) > 0, "ValueError", "v cannot be empty")
    if len(y) > len(x):
        return _slid_over(y, x, mode, dtype)
    return _slid_over(x, y, mode, dtype)


def _slid_over(long: Any, short: Any, mode: Any, dtype: Any) -> Any:
    """The products of the shorter vector with all stretches of the longer one, summed."""
    size, width = len(long), len(short)
    if mode == "valid":
        sums = np.zeros(size - width + 1, dtype)
        for place in range(width):
            sums += long[width - 1 - place : size - place] * short[place]
        return sums
    sums = np.zeros(size + width - 1, dtype)
    for place in range(width):
        sums[place : place + size] += long * short[place]
    if mode == "full":
        return sums
    first = (width - 1) // 2
    return sums[first : first + size].copy()


def _convolve_rule(b: Builder, call: Call) -> Value:
    x, y = (as_array(b, call.value(name)) for name in ("a", "v"))
    mode = call.static("mode")
    one, two = tensor(x).dtype, tensor(y).dtype
    assert one is not None and two is not None
    dtype = common_dtype(one, two)
    if rank_of(x) != 1 or rank_of(y) != 1 or mode not in ("full", "same", "valid"):
        raise Untypable("np.convolve of something else than vectors")
    if dtype.char not in SUPPORTED:
        raise Untypable(f"np.convolve of {dtype}")
    return b.define(_convolved, cast_to(b, x, dtype), cast_to(b, y, dtype), mode, dtype)


OPS: tuple[Op, ...] = (
    row(
        "diff",
        np.diff,
        _diff_rule,
        "a, n=1, axis=-1, prepend=NOVALUE, append=NOVALUE",
        "Differences of neighbours.",
        view=True,
    ),
    row(
        "ediff1d",
        np.ediff1d,
        _ediff1d_rule,
        "ary, to_end=None, to_begin=None",
        "Differences of neighbours in the flattened array.",
    ),
    row(
        "gradient",
        np.gradient,
        _gradient_rule,
        "f, *varargs, axis=None, edge_order=1",
        "Slopes along axes.",
    ),
    row(
        "trapezoid",
        np.trapezoid,
        _trapezoid_rule,
        "y, x=None, dx=1.0, axis=-1",
        "The area below samples.",
    ),
    row("polyval", np.polyval, _polyval_rule, "p, x", "The values of a polynomial."),
    row("convolve", np.convolve, _convolve_rule, "a, v, mode='full'", "Convolution of vectors."),
)
