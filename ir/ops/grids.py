"""Arrays of places: ``linspace``, ``mgrid``, ``indices``; places and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import default_dtype
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable
from jitcore.ir.reference import require
from jitcore.ir.types import FLOAT, INT, SUPPORTED, TensorType, is_scalar_tensor

__all__ = ["OPS", "grid", "grid_of_one"]

_DOUBLE = np.dtype(np.float64)
_SINGLE = np.dtype(np.float32)
_LONG = np.dtype(np.int64)
_PLACE = np.dtype(np.intp)
_OUT_OF_BOUNDS = "index {} is out of bounds for array with size {}"


# Lines ------------------------------------------------------------------------------------


def _linspace_rule(b: Builder, call: Call) -> Value:
    bounds = [call.value("start"), call.value("stop")]
    number = call.value("num") if isinstance(call.bound.get("num"), Value) else b.constant(50)
    if number.type != INT:
        raise Untypable(f"np.linspace of {number.type} samples")
    if call.static("endpoint") is not True:
        raise Untypable("np.linspace without its endpoint")
    own = _dtype_of_line(bounds)
    line = b.define(_line, *(cast_to(b, bound, own) for bound in bounds), number, own)
    dtype = np.dtype(call.static("dtype") or own)
    if dtype.char not in SUPPORTED:
        raise Untypable(f"dtype {dtype} is not compiled")
    if dtype.kind in "iu":
        line = b.op("np::floor", line)
    return line if dtype == own else b.op("np::cast", line, dtype=dtype)


def _dtype_of_line(bounds: Sequence[Value]) -> np.dtype[Any]:
    """What NumPy computes a line in."""
    if all(_is_real(bound) for bound in bounds):
        return _DOUBLE
    types = [bound.type for bound in bounds]
    if all(isinstance(one, TensorType) and one.scalar and one.dtype == _SINGLE for one in types):
        return _SINGLE
    raise Untypable("np.linspace between something else than float64 or float32 numbers")


def _is_real(value: Value) -> bool:
    """Whether NumPy computes a line from here on in float64."""
    type_ = value.type
    if isinstance(type_, TensorType):
        wide = type_.dtype is not None and (type_.dtype.kind in "iu" or type_.dtype == _DOUBLE)
        return type_.scalar and wide
    return type_ in (INT, FLOAT)


def _line(start: Any, stop: Any, number: int, dtype: Any) -> Any:
    """As NumPy computes it: a multiple of the step, and at the end exactly ``stop``."""
    require(number >= 0, "ValueError", "Number of samples, {}, must be non-negative.", number)
    last = number - 1
    parts = last if last > 0 else 1
    delta = stop - start
    step = delta / parts
    count = np.arange(0, number, dtype=dtype)
    # A step that is too small for a float is not multiplied but divided.
    scaled = np.where(step == 0, count / parts * delta, count * step)
    return np.where((count == last) & (last > 0), stop, scaled + start)


# Grids ------------------------------------------------------------------------------------


def grid(b: Builder, slices: Sequence[Sequence[Value | None]]) -> Value:
    """``np.mgrid[start:stop:step, …]`` of integers: a stack of one array for each axis."""
    lines = [_grid_line(b, *parts) for parts in slices]
    counts = [b.size(line, 0) for line in lines]
    stack = b.op("np::empty", b.constant(len(lines)), *counts, dtype=_LONG)
    return _stacked(b, stack, lines)


def _stacked(b: Builder, stack: Value, lines: Sequence[Value]) -> Value:
    """Fill a stack of arrays: the places of each change along its own axis only."""
    for axis, line in enumerate(lines):
        entries = b.op("np::view", line, index=f":{', None' * (len(lines) - 1 - axis)}")
        part = b.op("np::view", stack, index=f"{axis}{', :' * len(lines)}")
        b.op("np::store", part, entries)
    return stack


def _indices_rule(b: Builder, call: Call) -> Value:
    extents = b.elements(call.value("dimensions"))
    dtype = np.dtype(call.static("dtype"))
    if not extents or any(one.type != INT for one in extents):
        raise Untypable("np.indices of something else than some ints")
    if dtype.kind not in "iuf" or dtype.char not in SUPPORTED:
        raise Untypable(f"np.indices of {dtype}")
    stack = b.op("np::empty", b.constant(len(extents)), *extents, dtype=dtype)
    zero, one = b.constant(0), b.constant(1)
    return _stacked(b, stack, [b.op("np::iota", zero, one, n, dtype=dtype) for n in extents])


def grid_of_one(b: Builder, parts: Sequence[Value | None]) -> Value:
    """``np.mgrid[start:stop:step]``, which is ``np.arange``."""
    start, stop, step = _integers(b, *parts)
    return b.op("np::iota", start, step, b.op("prim::range_length", start, stop, step), dtype=_LONG)


def _grid_line(b: Builder, *parts: Value | None) -> Value:
    start, stop, step = _integers(b, *parts)
    # The quotient is rounded up; where it is negative, that is an error.
    quotient = b.op("prim::floordiv", b.op("prim::sub", start, stop), step)
    return b.op("np::iota", start, step, b.op("prim::neg", quotient), dtype=_LONG)


def _integers(
    b: Builder, start: Value | None, stop: Value | None, step: Value | None
) -> tuple[Value, Value, Value]:
    start, step = start or b.constant(0), step or b.constant(1)
    if stop is None or not start.type == stop.type == step.type == INT:
        raise Untypable("np.mgrid of something else than integers")
    if step.constant is None or step.constant.attributes["value"] <= 0:
        raise Untypable("np.mgrid with a step that is not a known number")
    return start, stop, step


# Places and their numbers -----------------------------------------------------------------


def _unravel_rule(b: Builder, call: Call) -> Value:
    number = _place(b, call.value("indices"))
    return b.define(_place_of_number, number, _extents(b, call))


def _ravel_rule(b: Builder, call: Call) -> Value:
    place = [_place(b, one) for one in b.elements(call.value("multi_index"))]
    extents = _extents(b, call)
    if not place or len(place) != len(b.elements(extents)):
        raise Untypable("places along other axes than there are")
    return b.define(_number_of_place, b.make_tuple(place), extents)


def _extents(b: Builder, call: Call) -> Value:
    extents = b.elements(call.value("shape" if "shape" in call.bound else "dims"))
    if call.static("order") != "C" or any(one.type != INT for one in extents):
        raise Untypable("places in another order than C, or along axes whose extents are no ints")
    return b.make_tuple(extents)


def _place(b: Builder, value: Value) -> Value:
    """A single place as NumPy counts them; those in an array it gives as views of one array."""
    is_single = value.type == INT or is_scalar_tensor(value.type)
    if not (is_single and np.can_cast(default_dtype(value), _PLACE)):
        raise Untypable(f"a place of type {value.type}")
    return cast_to(b, value, _PLACE)


def _place_of_number(number: Any, extents: Any) -> Any:
    size = 1
    for extent in extents:
        size *= extent
    require(0 <= number < size, "ValueError", _OUT_OF_BOUNDS, number, size)
    place: tuple[Any, ...] = ()
    for extent in reversed(extents):
        # As C divides: NumPy takes an even number of negative extents, too.
        rest = np.fmod(number, extent)
        place = (rest,) + place  # noqa: RUF005  # a display with a star is a list
        number = (number - rest) // extent
    return place


def _number_of_place(place: Any, extents: Any) -> Any:
    size = 1
    for extent in extents:
        size *= extent
    require(size != 0, "ValueError", "cannot unravel if shape has zero entries (is empty).")
    number = np.intp(0)
    for one, extent in zip(place, extents, strict=True):
        require(0 <= one < extent, "ValueError", "invalid entry in coordinates array")
        number = number * extent + one
    return number


OPS: tuple[Op, ...] = (
    Op(
        "np::linspace",
        np.linspace,
        _linspace_rule,
        "start, stop, num=50, endpoint=True, retstep!=False, dtype=None, axis!=0, *, device!=None",
        functions=(np.linspace,),
        doc="Equal steps from start to stop.",
    ),
    Op(
        "np::indices",
        np.indices,
        _indices_rule,
        "dimensions, dtype=int, sparse!=False",
        functions=(np.indices,),
        doc="The places along each axis of an array of this shape.",
    ),
    Op(
        "np::unravel_index",
        np.unravel_index,
        _unravel_rule,
        "indices, shape, order='C'",
        functions=(np.unravel_index,),
        sampled=True,
        doc="The place along each axis of the element with this number.",
    ),
    Op(
        "np::ravel_multi_index",
        np.ravel_multi_index,
        _ravel_rule,
        "multi_index, dims, mode!='raise', order='C'",
        functions=(np.ravel_multi_index,),
        sampled=True,
        doc="The number of the element at this place along each axis.",
    ),
)
