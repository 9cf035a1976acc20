"""Transposed convolutions become ordinary ones, each of which gives some of the pixels.

With a stride of 2, say, even pixels read other taps of the kernel than odd ones do: along every
axis there are as many phases as the stride has steps, and each is a convolution with stride 1.  How
the phases lie does not depend on the image's extent, so that need not be known.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Any

from jitcore.ir import log
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops.layer_kernels import NO_LIMITS, is_depthwise, transposed_excess
from jitcore.ir.passes.layer_nodes import (
    Geometry,
    Sizes,
    insert,
    none,
    packed_weights,
    reshaped,
    transposed,
    view,
)
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import Dim

__all__ = ["KIND", "Phase", "expand_transposed", "phases_of"]

KIND = "nn::transposed_product"

MAX_KERNEL = 4096
"""Larger ones are left to the definition."""


@dataclass(frozen=True, slots=True)
class Phase:
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


def expand_transposed(graph: Graph, kept: Collection[Node] = ()) -> bool:
    """Replace transposed convolutions by their phases, but for those that are ``kept``.

    Before::

        graph(%x : Float32[2, 5, 4], %w : Float32[4, 3, 2], %b : Float32[3]):
          %0 : Float32[2, 10, 3] = nn::transposed_product[stride=(2,), padding=(0,), \
output_padding=(0,), groups=1, dilation=(1,)](%x, %w, %b)
          return (%0)

    After::

        graph(%x : Float32[2, 5, 4], %w : Float32[4, 3, 2], %b : Float32[3]):
          %1 : Float32[3, 4, 2] = np::transpose[axes=(1, 0, 2)](%w)
          %2 : Float32[3, 4, 1] = np::view[index=":, :, 0:1"](%1)
          %3 : Float32[1, panels.2.1, 1, 4, width.2.1] = nn::packed[groups=1](%2)
          %4 : None = prim::Constant[value=None]()
          %5 : Float32[2, 5, 3] = nn::product[kernel=(1,), stride=(1,), padding=((0, 0),), \
dilation=(1,), columns=3, low=-inf, high=inf](%x, %3, %b, %4)
          %6 : Float32[3, 4, 1] = np::view[index=":, :, 1:2"](%1)
          %7 : Float32[1, panels.6.1, 1, 4, width.6.1] = nn::packed[groups=1](%6)
          %8 : None = prim::Constant[value=None]()
          %9 : Float32[2, 5, 3] = nn::product[kernel=(1,), stride=(1,), padding=((0, 0),), \
dilation=(1,), columns=3, low=-inf, high=inf](%x, %7, %b, %8)
          %10 : Float32[2, 10, 3] = nn::interleaved[excess=(0,), stride=(2,), \
starts=((0,), (1,)), has_gaps=False](%x, %b, %5, %9)
          return (%10)
    """
    nodes = [node for node in graph.nodes() if node.kind == KIND and node not in kept]
    for node in nodes:
        _expand(node)
    return bool(nodes)


def _expand(node: Node) -> None:
    log.update("expand_transposed", lambda: f"{node!r} becomes its phases")
    node.output.replace_all_uses_with(_expanded(node))
    node.destroy()


def phases_of(
    attributes: Mapping[str, Any], shape: Sequence[Dim], extents: Sequence[Dim]
) -> list[list[Phase]] | None:
    """The phases of each axis; None where no kernel takes them.

    Parameters
    ----------
    attributes : mapping
        Of the transposed convolution.
    shape : sequence of Dim
        That of the weights, (in, out / groups, ...).
    extents : sequence of Dim
        Those of the image.
    """
    known = [extent for extent in shape if isinstance(extent, int) and extent > 0]
    if len(known) < len(shape) or math.prod(known[2:]) > MAX_KERNEL:
        return None
    axes = []
    for axis, (taps, extent) in enumerate(zip(known[2:], extents, strict=True)):
        found = _phases(attributes, taps, axis)
        if isinstance(extent, int):
            found = [one for one in found if extent + one.more > 0]
        axes.append(found)
    is_cut = any(min(one.padding) < 0 for phase in product(*axes) for one in phase)
    return None if is_cut else axes


def _expanded(node: Node) -> Value:
    images, weight, bias = node.inputs
    shape = tuple(extent for extent in dims_of(weight) if isinstance(extent, int))
    extents, wanted = dims_of(images)[1:-1], dims_of(node.output)[1:-1]
    axes = phases_of(node.attributes, shape, extents)
    assert axes is not None
    groups, phases = node.attributes["groups"], list(product(*axes))
    turned = _exchanged(node, weight, shape, groups)
    parts = [phase for phase in phases if all(len(one.taps) for one in phase)]
    dims = [wanted if len(phases) == 1 else _dims(extents, phase) for phase in parts]
    results = [
        _convolved(node, images, turned, (bias, groups), phase, one)
        for phase, one in zip(parts, dims, strict=True)
    ]
    if len(phases) == 1 and results:
        return results[0]
    attributes = {
        "excess": tuple(
            transposed_excess(node.attributes, taps, axis) for axis, taps in enumerate(shape[2:])
        ),
        "stride": node.attributes["stride"],
        "starts": tuple(tuple(one.start for one in phase) for phase in parts),
        "has_gaps": len(parts) < len(phases),
    }
    operands = [images, bias, *results]
    return insert(node, "nn::interleaved", operands, attributes, images, dims_of(node.output))


def _dims(extents: Sequence[Dim], phase: Sequence[Phase]) -> tuple[Dim, ...]:
    """How many pixels a phase has; of an extent that is not known, a symbol named after it."""
    return tuple(
        n + one.more if isinstance(n, int) else f"{n}.more.{one.start}.{one.more}"
        for n, one in zip(extents, phase, strict=True)
    )


def _phases(attributes: Mapping[str, Any], kernel: int, axis: int) -> list[Phase]:
    """The phases of one axis, as far as the image is large enough for them.

    Before the padding is cut off, pixel ``i * stride + t * dilation`` reads ``x[i] * w[t]``.
    """
    stride, cut, dilation = (attributes[name][axis] for name in ("stride", "padding", "dilation"))
    excess = transposed_excess(attributes, kernel, axis)
    common = math.gcd(stride, dilation)
    found = []
    for rest in range(stride):
        start = (rest - cut) % stride
        more = -((start - excess) // stride)
        first = next((t for t in range(stride) if t * dilation % stride == rest), kernel)
        taps = range(first, kernel, stride // common)[::-1]
        if not taps:
            found.append(Phase(start, more, taps, (0, 0), 1))
            continue
        # A tap reads the pixel so many before the one that stands where its result does.
        offsets = [(tap * dilation - rest) // stride for tap in taps]
        place = (start + cut - rest) // stride
        around = (offsets[0] - place, place + more - offsets[-1])
        found.append(Phase(start, more, taps, around, dilation // common))
    return found


def _convolved(
    node: Node,
    images: Value,
    weight: Value,
    more: tuple[Value, int],
    phase: Sequence[Phase],
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
