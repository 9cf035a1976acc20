"""``grid_sample`` as loops over the places of a grid, when it is compiled.

What pixels a place is mixed of, and how much of each, is worked out once for all channels.  The
arithmetic, and the order of additions, are those of the function in ``jitcore.nn.functional``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.layer_loops import float_dims, require_pixels
from jitcore.ir.ops.op import Builder, Call, Untypable, tensor
from jitcore.ir.ops.pixel_weights import cubic_weights
from jitcore.ir.ops.shaping import array_operand

__all__ = ["grid_sample_rule"]

_PADDINGS = ("zeros", "border", "reflection")
_NEIGHBOURS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
"""How many pixels along each axis a place is mixed of."""


def grid_sample_rule(b: Builder, call: Call) -> Value:
    """``grid_sample`` of images and volumes."""
    x, grid = (array_operand(call.value(name)) for name in ("input", "grid"))
    mode, padding = call.static("mode"), call.static("padding_mode")
    aligned = bool(call.static("align_corners"))
    dims, places = float_dims(x), float_dims(grid)
    rank = len(dims) - 2
    if rank not in (2, 3) or len(places) != rank + 2 or places[-1] != rank:
        raise Untypable("no images with a grid")
    if tensor(x).dtype != tensor(grid).dtype:
        raise Untypable("images with a grid of another dtype")
    if mode not in _NEIGHBOURS or padding not in _PADDINGS or (mode == "bicubic" and rank == 3):
        raise Untypable(f"mode {mode!r} with padding {padding!r}")
    if 0 in dims[2:]:
        raise Untypable("images without pixels")
    require_pixels(b, x, rank, "grid_sample: input of shape {} has no pixels")
    is_for_each = b.op("prim::eq", b.size(grid, 0), b.size(x, 0))
    if is_for_each.constant is None:
        message = "grid_sample: a grid of shape {} has not a part for each image"
        b.op("prim::require_shape", is_for_each, grid, message=message)
    elif not is_for_each.constant.attributes["value"]:
        raise Untypable("more grids than images, or fewer")
    extents = [*[b.constant(1)] * (3 - rank), *(b.size(x, axis) for axis in range(2, rank + 2))]
    lines = b.op("np::reshape", x, b.size(x, 0), b.size(x, 1), _product(b, extents))
    count = _product(b, [b.size(grid, axis) for axis in range(1, rank + 1)])
    flat = b.op("np::reshape", grid, b.size(grid, 0), count, b.constant(rank))
    known = (_NEIGHBOURS[mode], _PADDINGS.index(padding), aligned)
    result = b.define(_sampled, lines, flat, *extents, rank, *known)
    sizes = [b.size(x, 0), b.size(x, 1), *(b.size(grid, axis) for axis in range(1, rank + 1))]
    return b.op("np::reshape", result, *sizes)


def _product(b: Builder, factors: Sequence[Value]) -> Value:
    result = factors[0]
    for one in factors[1:]:
        result = b.op("prim::mul", result, one)
    return result


def _sampled(
    x: Any,
    grid: Any,
    planes: int,
    rows: int,
    columns: int,
    rank: int,
    taps: int,
    padding: int,
    aligned: bool,
) -> Any:
    """(images, channels, places) of (images, channels, pixels) and (images, places, rank)."""
    images, channels, _ = x.shape
    result = np.empty((images, channels, grid.shape[1]), x.dtype)
    # Along each axis, and then those that lie inside the image.
    near, shares = np.zeros((3, taps), np.int64), np.ones((3, taps), x.dtype)
    pixels, weights = np.empty(taps**rank, np.int64), np.empty(taps**rank, x.dtype)
    for image in range(images):
        for place in range(grid.shape[1]):
            at, known = grid[image, place], (padding, aligned)
            is_number = _neighbours(near[0], shares[0], at[0], columns, *known)
            is_number = _neighbours(near[1], shares[1], at[1], rows, *known) and is_number
            if rank == 3:
                is_number = _neighbours(near[2], shares[2], at[2], planes, *known) and is_number
            if not is_number:
                result[image, :, place] = np.nan
                continue
            count = 0
            for z in range(taps if rank == 3 else 1):
                for y in range(taps):
                    for w in range(taps):
                        plane, row, column = near[2, z], near[1, y], near[0, w]
                        if plane >= 0 and row >= 0 and column >= 0:
                            pixels[count] = (plane * rows + row) * columns + column
                            weights[count] = shares[2, z] * shares[1, y] * shares[0, w]
                            count += 1
            for channel in range(channels):
                total = x.dtype.type(0)
                for k in range(count):
                    total += x[image, channel, pixels[k]] * weights[k]
                result[image, channel, place] = total
    return result


def _neighbours(
    near: Any, shares: Any, number: Any, extent: int, padding: int, aligned: bool
) -> bool:
    """Write which pixels of an axis a place is mixed of, -1 for those outside, and their shares.

    False where that is not a number.
    """
    place = _centred(number, extent, aligned)
    if len(near) < 4:
        place = _bounded(place, extent, padding, aligned)
    if len(near) == 1:
        near[0] = _inside(np.rint(place), extent)
        return True
    if not math.isfinite(place):
        return False
    floor = np.floor(place)
    part = place - floor
    if len(near) == 2:
        shares[0], shares[1] = 1 - part, part
        near[0], near[1] = _inside(floor, extent), _inside(floor + 1, extent)
        return True
    shares[0], shares[1], shares[2], shares[3] = cubic_weights(part)
    for k in range(4):
        near[k] = _inside(_bounded(floor + (k - 1), extent, padding, aligned), extent)
    return True


def _inside(place: Any, extent: int) -> int:
    return int(place) if 0 <= place < extent else -1


def _centred(number: Any, extent: int, aligned: bool) -> Any:
    """A number from -1 to 1 as a place among pixels; see ``grid_sample``."""
    if aligned:
        return (number + 1) / 2 * (extent - 1)
    return ((number + 1) * extent - 1) / 2


def _bounded(place: Any, extent: int, padding: int, aligned: bool) -> Any:
    """The place that stands for one outside of the image, unless zeros lie there."""
    if padding == 0:
        return place
    if padding == 2:
        place = _reflected(place, extent, aligned)
    return np.minimum(np.maximum(place, 0), extent - 1)


def _reflected(place: Any, extent: int, aligned: bool) -> Any:
    low = 0.0 if aligned else -0.5
    span = extent - 1.0 if aligned else float(extent)
    if span == 0:
        return place.dtype.type(0)
    distance = np.abs(place - low)
    turns = np.floor(distance / span)
    rest = distance - turns * span
    return rest + low if turns % 2 == 0 else span - rest + low
