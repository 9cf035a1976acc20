"""``nn::interpolate``: images in another size, one axis after the other, as loops over pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.layer_loops import require_pixels
from jitcore.ir.ops.op import Builder, Call, Untypable, tensor
from jitcore.ir.ops.pixel_weights import mixed_pixels, nearest_pixels, nearest_ratio
from jitcore.ir.ops.shaping import array_operand

__all__ = ["interpolate_rule"]

_AXES = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
_ANY = ("nearest", "nearest-exact", "area")
_LINEAR = ("linear", "bilinear", "trilinear")
"""The modes that leave an axis as it is where its extent stays the same."""

_EMPTY = (
    "interpolate: expected input of shape (N, C, ...) with 1 to 3 spatial axes that are "
    "not empty, found {}"
)


def interpolate_rule(b: Builder, call: Call) -> Value:
    """Of images of any extents, without a filter against aliasing."""
    x, mode = array_operand(call.value("input")), call.static("mode")
    rank = _checked_rank(x, mode)
    aligned = call.static("align_corners")
    if call.static("antialias") is not False or (mode in _ANY and aligned is not None):
        raise Untypable("a filter, or corners that are aligned in this mode")
    lengths = [b.size(x, axis) for axis in range(2, 2 + rank)]
    require_pixels(b, x, rank, _EMPTY)
    sizes, factors = _target(rank, call.static("size"), call.static("scale_factor"))
    if sizes is not None:
        extents = [b.constant(one) for one in sizes]
    else:
        extents = [b.define(_scaled, *pair) for pair in zip(lengths, factors, strict=True)]
        _require_something(b, x, extents, call.static("scale_factor"))
    if mode == "area":
        return b.op(f"nn::adaptive_avg_pool{rank}d", x, b.make_tuple(extents))
    kept = [mode in _LINEAR and _is_kept(*pair) for pair in zip(lengths, extents, strict=True)]
    if all(kept):
        return b.op("np::copy", x, order="C")
    if call.static("recompute_scale_factor"):
        factors = []
    result = x
    for axis, (length, extent) in enumerate(zip(lengths, extents, strict=True)):
        if kept[axis]:
            continue
        if not factors:
            ratio = b.op("prim::truediv", length, extent)
        elif mode == "nearest" and rank == 2:
            ratio = b.define(nearest_ratio, length, extent, 1 / factors[axis])
        else:
            ratio = b.constant(1 / factors[axis])
        result = _along(b, result, 2 + axis, (extent, ratio), mode, bool(aligned))
    return result


def _checked_rank(x: Value, mode: Any) -> int:
    """How many spatial axes images have, which have to be as many as the mode is for."""
    dims, dtype = tensor(x).dims or (), tensor(x).dtype
    rank = len(dims) - 2
    if dtype is None or dtype.char not in "fd" or not dtype.isnative or rank not in (1, 2, 3):
        raise Untypable("no images of floats")
    if 0 in dims[2:]:
        raise Untypable("empty images")
    if mode not in _ANY and _AXES.get(mode) != rank:
        raise Untypable(f"mode {mode!r} of {rank} axes")
    return rank


def _require_something(b: Builder, x: Value, extents: Sequence[Value], factor: Any) -> None:
    message = f"interpolate: scale_factor {factor} leaves nothing of input {{}}"
    for extent in extents:
        is_some = b.op("prim::gt", extent, b.constant(0))
        if is_some.constant is None:
            b.op("prim::require_shape", is_some, x, message=message)
        elif not is_some.constant.attributes["value"]:
            raise Untypable("a factor that leaves nothing")


def _is_kept(length: Value, extent: Value) -> bool:
    if length.constant is None or extent.constant is None:
        return False
    return bool(length.constant.attributes["value"] == extent.constant.attributes["value"])


def _target(rank: int, size: Any, scale_factor: Any) -> tuple[list[int] | None, list[float]]:
    """The new extents, or the factors where those were given."""
    if (size is None) == (scale_factor is None):
        raise Untypable("neither or both of a size and a factor")
    given = scale_factor if size is None else size
    several = list(given) if isinstance(given, tuple | list) else [given] * rank
    kinds = (int,) if size is not None else (int, float)
    if len(several) != rank or any(type(one) not in kinds for one in several):
        raise Untypable(f"{given!r} for {rank} axes")
    if not all(0 < one < math.inf for one in several):
        raise Untypable("a size that leaves nothing")
    return (several, []) if size is not None else (None, [float(one) for one in several])


def _along(
    b: Builder, x: Value, axis: int, target: tuple[Value, Value], mode: str, aligned: bool
) -> Value:
    """One axis in another extent, whose pixels are so far apart."""
    extent, ratio = target
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
        taps = 4 if mode == "bicubic" else 2
        mixed = _mixed_lines if is_last else _mixed_planes
        found = b.define(mixed, flat, extent, ratio, taps, aligned)
    return b.op("np::reshape", found, *sizes[:axis], extent, *sizes[axis + 1 :])


# Extents ----------------------------------------------------------------------------------


def _scaled(length: int, factor: float) -> int:
    return math.floor(length * factor)


# Loops ------------------------------------------------------------------------------------


def _picked_lines(x: Any, extent: int, ratio: float, shift: float) -> Any:
    outer, length = x.shape
    result = np.empty((outer, extent), x.dtype)
    places = nearest_pixels(extent, length, ratio, shift)
    for one in range(outer):
        for i in range(extent):
            result[one, i] = x[one, places[i]]
    return result


def _picked_planes(x: Any, extent: int, ratio: float, shift: float) -> Any:
    outer, length, inner = x.shape
    result = np.empty((outer, extent, inner), x.dtype)
    places = nearest_pixels(extent, length, ratio, shift)
    for one in range(outer):
        for i in range(extent):
            result[one, i] = x[one, places[i]]
    return result


def _mixed_lines(x: Any, extent: int, ratio: float, taps: int, aligned: bool) -> Any:
    outer, length = x.shape
    result = np.empty((outer, extent), x.dtype)
    places, weights = mixed_pixels(extent, length, ratio, taps, aligned, x.dtype)
    stays = taps == 2 and extent == length
    for one in range(outer):
        for i in range(extent):
            if stays:
                result[one, i] = x[one, i]
                continue
            total = x[one, places[i, 0]] * weights[i, 0]
            for tap in range(1, taps):
                total += x[one, places[i, tap]] * weights[i, tap]
            result[one, i] = total
    return result


def _mixed_planes(x: Any, extent: int, ratio: float, taps: int, aligned: bool) -> Any:
    outer, length, inner = x.shape
    result = np.empty((outer, extent, inner), x.dtype)
    places, weights = mixed_pixels(extent, length, ratio, taps, aligned, x.dtype)
    stays = taps == 2 and extent == length
    for one in range(outer):
        for i in range(extent):
            if stays:
                result[one, i] = x[one, i]
                continue
            first = x[one, places[i, 0]] * weights[i, 0]
            total = first + x[one, places[i, 1]] * weights[i, 1]
            if taps == 4:
                total = total + x[one, places[i, 2]] * weights[i, 2]
                total = total + x[one, places[i, 3]] * weights[i, 3]
            result[one, i] = total
    return result
