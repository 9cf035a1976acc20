"""``nn::interpolate``: images in another size, one axis after the other, as loops over pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand

__all__ = ["interpolate_rule"]

_AXES = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_ANY = ("nearest", "nearest-exact", "area")

_SHARP = -0.75
"""The parameter of Keys' cubic convolution, as in the function itself."""


def interpolate_rule(b: Builder, call: Call) -> Value:
    """Of images whose extents are known, without a filter against aliasing."""
    x, mode = array_operand(call.value("input")), call.static("mode")
    dims, dtype = tensor(x).dims or (), tensor(x).dtype
    rank = len(dims) - 2
    if dtype is None or dtype.char not in "fd" or not dtype.isnative or rank not in (1, 2, 3):
        raise Untypable("no images of floats")
    lengths = [n for n in dims[2:] if isinstance(n, int) and n > 0]
    if len(lengths) < rank:
        raise Untypable("extents that are not known")
    aligned = call.static("align_corners")
    if mode not in _ANY and _AXES.get(mode) != rank:
        raise Untypable(f"mode {mode!r} of {rank} axes")
    if call.static("antialias") is not False or (mode in _ANY and aligned is not None):
        raise Untypable("a filter, or corners that are aligned in this mode")
    extents, factors = _target(lengths, call.static("size"), call.static("scale_factor"))
    if mode == "area":
        return b.op(f"nn::adaptive_avg_pool{rank}d", x, tuple(extents))
    if call.static("recompute_scale_factor"):
        factors = None
    result = x
    for axis, (length, extent) in enumerate(zip(lengths, extents, strict=True)):
        ratio = length / extent if factors is None else 1 / factors[axis]
        if extent == length and mode in ("linear", "bilinear", "trilinear"):
            continue
        if mode == "nearest" and rank == 2 and extent in (length, 2 * length):
            ratio = length / extent
        result = _along(b, result, 2 + axis, extent, ratio, mode, bool(aligned))
    if result is x:
        raise Untypable("an array that is given back as it is")
    return result


def _target(
    lengths: Sequence[int], size: Any, scale_factor: Any
) -> tuple[list[int], list[float] | None]:
    """The new extents, and the factors where those were given."""
    if (size is None) == (scale_factor is None):
        raise Untypable("neither or both of a size and a factor")
    given = scale_factor if size is None else size
    several = list(given) if isinstance(given, tuple | list) else [given] * len(lengths)
    kinds = (int,) if size is not None else (int, float)
    if len(several) != len(lengths) or any(type(one) not in kinds for one in several):
        raise Untypable(f"{given!r} for {len(lengths)} axes")
    if size is not None:
        extents, factors = several, None
    elif all(math.isfinite(one) for one in several):
        factors = [float(one) for one in several]
        extents = [math.floor(n * one) for n, one in zip(lengths, factors, strict=True)]
    if not all(math.isfinite(one) for one in several) or min(extents) < 1:
        raise Untypable("a size that leaves nothing")
    return extents, factors


def _along(
    b: Builder, x: Value, axis: int, extent: int, ratio: float, mode: str, aligned: bool
) -> Value:
    """One axis in another extent."""
    dims = tensor(x).dims or ()
    sizes = [b.size(x, number) for number in range(len(dims))]
    outer = inner = b.constant(1)
    for size in sizes[:axis]:
        outer = b.op("prim::mul", outer, size)
    for size in sizes[axis + 1 :]:
        inner = b.op("prim::mul", inner, size)
    is_last = axis == len(dims) - 1
    flat = b.op("np::reshape", x, outer, sizes[axis], *([] if is_last else [inner]))
    if mode in _ANY:
        shift = 0.5 if mode == "nearest-exact" else 0.0
        found = b.define(_picked_lines if is_last else _picked_planes, flat, extent, ratio, shift)
    else:
        length, taps = dims[axis], 4 if mode == "bicubic" else 2
        assert isinstance(length, int)
        if aligned:
            ratio = (length - 1) / (extent - 1) if extent > 1 else 0.0
        mixed = _mixed_lines if is_last else _mixed_planes
        found = b.define(mixed, flat, extent, float(ratio), taps, aligned)
    return b.op("np::reshape", found, *sizes[:axis], b.constant(extent), *sizes[axis + 1 :])


# Loops ------------------------------------------------------------------------------------


def _picked(i: int, length: int, ratio: float, shift: float) -> int:
    """The nearest pixel; in single precision, where rounding decides between neighbours."""
    place = np.floor((np.float32(i) + np.float32(shift)) * np.float32(ratio))
    return min(int(place), length - 1)


def _picked_lines(x: Any, extent: int, ratio: float, shift: float) -> Any:
    outer, length = x.shape
    result = np.empty((outer, extent), x.dtype)
    places = np.empty(extent, np.int64)
    for i in range(extent):
        places[i] = _picked(i, length, ratio, shift)
    for one in range(outer):
        for i in range(extent):
            result[one, i] = x[one, places[i]]
    return result


def _picked_planes(x: Any, extent: int, ratio: float, shift: float) -> Any:
    outer, length, inner = x.shape
    result = np.empty((outer, extent, inner), x.dtype)
    for one in range(outer):
        for i in range(extent):
            result[one, i] = x[one, _picked(i, length, ratio, shift)]
    return result


def _table(extent: int, length: int, ratio: float, taps: int, aligned: bool, dtype: Any) -> Any:
    """The pixels that every new one is mixed of, and their weights."""
    places = np.empty((extent, taps), np.int64)
    weights = np.empty((extent, taps), dtype)
    for i in range(extent):
        place = i * ratio if aligned else (i + 0.5) * ratio - 0.5
        if taps == 2:
            place = max(place, 0.0)
        floor = math.floor(place)
        part = place - floor
        if taps == 2:
            weights[i, 0] = 1 - part
            weights[i, 1] = part
            places[i, 0] = min(max(floor, 0), length - 1)
            places[i, 1] = min(max(floor + 1, 0), length - 1)
        else:
            rest = 1 - part
            weights[i, 0] = _outer(part + 1)
            weights[i, 1] = _inner(part)
            weights[i, 2] = _inner(rest)
            weights[i, 3] = _outer(rest + 1)
            for tap in range(4):
                places[i, tap] = min(max(floor + tap - 1, 0), length - 1)
    return places, weights


def _inner(x: float) -> float:
    return ((_SHARP + 2) * x - (_SHARP + 3)) * x * x + 1


def _outer(x: float) -> float:
    return ((x - 5) * x + 8) * x * _SHARP - 4 * _SHARP


def _mixed_lines(x: Any, extent: int, ratio: float, taps: int, aligned: bool) -> Any:
    outer, length = x.shape
    result = np.empty((outer, extent), x.dtype)
    places, weights = _table(extent, length, ratio, taps, aligned, x.dtype)
    for one in range(outer):
        for i in range(extent):
            total = x[one, places[i, 0]] * weights[i, 0]
            for tap in range(1, taps):
                total += x[one, places[i, tap]] * weights[i, tap]
            result[one, i] = total
    return result


def _mixed_planes(x: Any, extent: int, ratio: float, taps: int, aligned: bool) -> Any:
    outer, length, inner = x.shape
    result = np.empty((outer, extent, inner), x.dtype)
    places, weights = _table(extent, length, ratio, taps, aligned, x.dtype)
    for one in range(outer):
        for i in range(extent):
            first = x[one, places[i, 0]] * weights[i, 0]
            total = first + x[one, places[i, 1]] * weights[i, 1]
            if taps == 4:
                total = total + x[one, places[i, 2]] * weights[i, 2]
                total = total + x[one, places[i, 3]] * weights[i, 3]
            result[one, i] = total
    return result
