"""``nn::pad``: frames around the last axes of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand
from jitcore.ir.types import SUPPORTED, TensorType

__all__ = ["pad_rule"]

_MODES = ("reflect", "replicate", "circular")

MAX_AXES = 3
"""So many of the last axes may get frames here."""


def pad_rule(b: Builder, call: Call) -> Value:
    """Where nothing is cut off."""
    x = array_operand(call.value("input"))
    dims, dtype = tensor(x).dims, tensor(x).dtype
    if dims is None or dtype is None or dtype.char not in SUPPORTED:
        raise Untypable("an array of unknown rank or dtype")
    pairs = _pairs(call.static("pad"), len(dims))
    mode, value = call.static("mode"), call.static("value")
    if mode == "constant":
        return _filled(b, x, pairs, _filling(dtype, value))
    if mode not in _MODES or (value is not None and value != 0):
        raise Untypable(f"mode {mode!r} with the value {value!r}")
    result = x
    for axis, (before, after) in enumerate(pairs, len(dims) - len(pairs)):
        if before == after == 0:
            continue
        _require_elements(b, x, axis, mode, (before, after))
        result = _along(b, result, axis, before, after, _MODES.index(mode))
    if result is x:
        raise Untypable("an array that is given back as it is")
    return result


def _require_elements(b: Builder, x: Value, axis: int, mode: str, frame: tuple[int, int]) -> None:
    """Refuse an axis that has too few elements for its frame."""
    least = 1 if mode == "replicate" else max(frame) + (mode == "reflect")
    is_enough = b.op("prim::ge", b.size(x, axis), b.constant(least))
    if is_enough.constant is None:
        message = (
            f"pad: {mode} padding by {frame[0]} and {frame[1]} needs more elements than axis "
            f"{axis} of input of shape {{}} has"
        )
        b.op("prim::require_shape", is_enough, x, message=message)
    elif not is_enough.constant.attributes["value"]:
        raise Untypable("an axis that has too few elements")


def _pairs(given: Any, rank: int) -> list[tuple[int, int]]:
    """What is added before and after each of the last axes, in their order."""
    numbers = list(given) if isinstance(given, tuple | list) else []
    if len(numbers) % 2 or not 2 <= len(numbers) <= 2 * min(rank, MAX_AXES):
        raise Untypable(f"{given!r} for {rank} axes")
    if any(type(one) is not int or one < 0 for one in numbers):
        raise Untypable("numbers that cut something off")
    return list(zip(numbers[-2::-2], numbers[-1::-2], strict=True))


def _filling(dtype: np.dtype[Any], value: Any) -> np.generic:
    if value is not None and type(value) not in (int, float, bool):
        raise Untypable(f"the value {value!r}")
    try:
        found: np.generic = dtype.type(0 if value is None else value)
    except (OverflowError, ValueError):
        raise Untypable(f"the value {value!r} in {dtype}") from None
    return found


def _filled(b: Builder, x: Value, pairs: Sequence[tuple[int, int]], value: np.generic) -> Value:
    """A new array full of a value, and ``x`` in the middle of it."""
    dims = tensor(x).dims or ()
    frame = [(0, 0)] * (len(dims) - len(pairs)) + list(pairs)
    sizes = [b.size(x, axis) for axis in range(len(dims))]
    wide = [
        b.op("prim::add", size, b.constant(before + after)) if before + after else size
        for size, (before, after) in zip(sizes, frame, strict=True)
    ]
    filling = b.constant(value, TensorType(value.dtype, (), True))
    made = b.op("np::full", filling, *wide, dtype=value.dtype, like=x, order="A")
    index, operands = [], []
    for size, (before, after) in zip(sizes, frame, strict=True):
        if not before and not after:
            index.append(":")
            continue
        operands.append(b.op("prim::add", size, b.constant(before)))
        index.append(f"{before}:${len(operands) - 1}")
    inner = b.op("np::view", made, *operands, index=", ".join(index))
    b.op("np::store", inner, x)
    return made


def _along(b: Builder, x: Value, axis: int, before: int, after: int, mode: int) -> Value:
    """A frame around one axis."""
    sizes = [b.size(x, number) for number in range(len(tensor(x).dims or ()))]
    outer = inner = b.constant(1)
    for size in sizes[:axis]:
        outer = b.op("prim::mul", outer, size)
    for size in sizes[axis + 1 :]:
        inner = b.op("prim::mul", inner, size)
    is_last = axis == len(sizes) - 1
    flat = b.op("np::reshape", x, outer, sizes[axis], *([] if is_last else [inner]))
    found = b.define(_framed_lines if is_last else _framed_planes, flat, before, after, mode)
    wide = b.op("prim::add", sizes[axis], b.constant(before + after))
    return b.op("np::reshape", found, *sizes[:axis], wide, *sizes[axis + 1 :])


# Loops ------------------------------------------------------------------------------------


def _source(place: int, extent: int, mode: int) -> int:
    """Which element stands at a place, counted from the first one of the array."""
    if mode == 0:
        return extent - 1 - abs(extent - 1 - abs(place))
    if mode == 1:
        return min(max(place, 0), extent - 1)
    return place % extent


def _framed_lines(x: Any, before: int, after: int, mode: int) -> Any:
    outer, extent = x.shape
    result = np.empty((outer, before + extent + after), x.dtype)
    for one in range(outer):
        for i in range(before):
            result[one, i] = x[one, _source(i - before, extent, mode)]
        result[one, before : before + extent] = x[one]
        for i in range(after):
            result[one, before + extent + i] = x[one, _source(extent + i, extent, mode)]
    return result


def _framed_planes(x: Any, before: int, after: int, mode: int) -> Any:
    outer, extent, inner = x.shape
    result = np.empty((outer, before + extent + after, inner), x.dtype)
    for one in range(outer):
        for i in range(before + extent + after):
            result[one, i] = x[one, _source(i - before, extent, mode)]
    return result
