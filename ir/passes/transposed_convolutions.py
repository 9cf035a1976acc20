"""Transposed convolutions become ordinary ones, each of which gives some of the pixels.

With a stride of 2, say, even pixels read other taps of the kernel than odd ones do: along every
axis there are as many phases as the stride has steps, and each is a convolution with stride 1.  How
the phases lie does not depend on the image's extent, so that need not be known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.layer_kernels import NO_LIMITS, is_depthwise
from jitcore.ir.passes.layer_nodes import (
    Geometry,
    Sizes,
    copied,
    dims_of,
    insert,
    none,
    packed_weights,
    require_extent,
    reshaped,
    transposed,
    view,
)
from jitcore.ir.types import Dim

__all__ = ["expand_transposed"]


@dataclass(frozen=True, slots=True)
class _Phase:
    """The pixels of one axis that read the same taps.

    Parameters
    ----------
    start : int
        The first of them; the others follow in steps of the stride.
    more : int
        How many more of them there are than the image has pixels.
    taps : range
        In the order of the pixels that they read; empty where the kernel leaves gaps.
    padding : (int, int)
        How far the taps reach beyond both ends of the image.
    dilation : int
        How far apart the pixels are that they read.
    """

    start: int
    more: int
    taps: range
    padding: tuple[int, int]
    dilation: int


def expand_transposed(node: Node) -> Value | None:
    """The kernels for an ``nn::conv_transpose2d`` or its like; None where none takes it."""
    x, weight, bias = node.inputs[:3]
    groups, rank = node.attributes["groups"], len(node.attributes["dilation"])
    shape = tuple(extent for extent in dims_of(weight) if isinstance(extent, int) and extent > 0)
    if len(shape) < rank + 2 or len(dims_of(x)) == rank + 1:
        return None
    extents, wanted = dims_of(x)[-rank:], dims_of(node.output)[-rank:]
    excess = tuple(_excess(node, shape[2 + axis], axis) for axis in range(rank))
    axes = [_phases(node, shape[2 + axis], excess[axis], axis) for axis in range(rank)]
    for axis, (extent, found) in enumerate(zip(extents, axes, strict=True)):
        if not isinstance(extent, int):
            require_extent(node, x, 2 + axis, max(1, *(1 - one.more for one in found)))
    axes = [
        [one for one in found if not isinstance(extent, int) or extent + one.more > 0]
        for extent, found in zip(extents, axes, strict=True)
    ]
    phases = list(product(*axes))
    if any(min(one.padding) < 0 for phase in phases for one in phase) or (
        math.prod(shape[2:]) > MAX_KERNEL
    ):
        return None
    images = copied(node, transposed(node, x, (0, *range(2, rank + 2), 1)))
    turned = _exchanged(node, weight, shape, groups)
    parts = [phase for phase in phases if all(len(one.taps) for one in phase)]
    dims = [wanted if len(phases) == 1 else _dims(extents, phase) for phase in parts]
    results = [
        _convolved(node, images, turned, (bias, groups), phase, one)
        for phase, one in zip(parts, dims, strict=True)
    ]
    moved = (dims_of(node.output)[0], *wanted, shape[1] * groups)
    if len(phases) == 1 and results:
        result = results[0]
    else:
        attributes = {
            "excess": excess,
            "stride": node.attributes["stride"],
            "starts": tuple(tuple(one.start for one in phase) for phase in parts),
            "has_gaps": len(parts) < len(phases),
        }
        result = insert(node, "nn::interleaved", [images, bias, *results], attributes, x, moved)
    return copied(node, transposed(node, result, (0, rank + 1, *range(1, rank + 1))))


MAX_KERNEL = 4096
"""Larger ones are left to the definition."""


def _excess(node: Node, kernel: int, axis: int) -> int:
    """How many pixels more there are along an axis than the stride makes of the image's."""
    stride, dilation, cut, extra = (
        node.attributes[name][axis] for name in ("stride", "dilation", "padding", "output_padding")
    )
    return int(dilation * (kernel - 1) + 1 + extra - 2 * cut - stride)


def _dims(extents: Sequence[Dim], phase: Sequence[_Phase]) -> tuple[Dim, ...]:
    """How many pixels a phase has; of an extent that is not known, a symbol named after it."""
    return tuple(
        n + one.more if isinstance(n, int) else f"{n}.more.{one.start}.{one.more}"
        for n, one in zip(extents, phase, strict=True)
    )


def _phases(node: Node, kernel: int, excess: int, axis: int) -> list[_Phase]:
    """The phases of one axis, as far as the image is large enough for them.

    Before the padding is cut off, pixel ``i * stride + t * dilation`` reads ``x[i] * w[t]``.
    """
    stride, cut = node.attributes["stride"][axis], node.attributes["padding"][axis]
    dilation = node.attributes["dilation"][axis]
    common = math.gcd(stride, dilation)
    found = []
    for rest in range(stride):
        start = (rest - cut) % stride
        more = -((start - excess) // stride)
        first = next((t for t in range(stride) if t * dilation % stride == rest), kernel)
        taps = range(first, kernel, stride // common)[::-1]
        if not taps:
            found.append(_Phase(start, more, taps, (0, 0), 1))
            continue
        # A tap reads the pixel so many before the one that stands where its result does.
        offsets = [(tap * dilation - rest) // stride for tap in taps]
        place = (start + cut - rest) // stride
        around = (offsets[0] - place, place + more - offsets[-1])
        found.append(_Phase(start, more, taps, around, dilation // common))
    return found


def _convolved(
    node: Node,
    images: Value,
    weight: Value,
    more: tuple[Value, int],
    phase: Sequence[_Phase],
    extents: tuple[Dim, ...],
) -> Value:
    """The pixels of one phase, channels-last; weights are (out, in / groups, ...).

    What is more are the bias and the number of groups.
    """
    bias, groups = more
    index = (":", ":", *(_slice(one.taps) for one in phase))
    kernel = tuple(len(one.taps) for one in phase)
    shape = (*dims_of(weight)[:2], *kernel)
    taps = view(node, weight, index, shape)
    rank = len(phase)
    geometry = Geometry(
        kernel, (1,) * rank, tuple(one.padding for one in phase), tuple(p.dilation for p in phase)
    )
    columns = shape[0]
    dims = (dims_of(images)[0], *extents, columns)
    packed = packed_weights(node, taps, groups)
    if is_depthwise(shape, groups):
        attributes = {**geometry.attributes, **NO_LIMITS}
        return insert(node, "nn::window_sum", [images, packed, bias], attributes, images, dims)
    attributes = {**geometry.attributes, "columns": columns, **NO_LIMITS}
    operands = [images, packed, bias, none(node)]
    return insert(node, "nn::product", operands, attributes, images, dims)


def _slice(taps: range) -> str:
    """Some taps of an axis in descending order, as a slice."""
    return f"{taps[0]}::{taps.step}" if len(taps) > 1 else f"{taps[0]}:{taps[0] + 1}"


def _exchanged(node: Node, weight: Value, shape: Sizes, groups: int) -> Value:
    """(in, out / groups, ...) as (out, in / groups, ...)."""
    rank = len(shape)
    if groups == 1:
        return transposed(node, weight, (1, 0, *range(2, rank)))
    apart = (groups, shape[0] // groups, *shape[1:])
    moved = transposed(node, reshaped(node, weight, apart), (0, 2, 1, *range(3, rank + 1)))
    return reshaped(node, moved, (groups * shape[1], shape[0] // groups, *shape[2:]))
