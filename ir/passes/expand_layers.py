"""Convolutions, pooling and packed linear layers become kernels over channels-last images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops.layer_kernels import NO_LIMITS, is_depthwise
from jitcore.ir.ops.recurrence import GATES, WEIGHT
from jitcore.ir.passes.layer_nodes import (
    Geometry,
    Sizes,
    copied,
    insert,
    none,
    packed_matrix,
    packed_weights,
    require_extent,
    transposed,
    view,
)
from jitcore.ir.passes.transposed_convolutions import KIND as TRANSPOSED
from jitcore.ir.passes.transposed_convolutions import phases_of
from jitcore.ir.shapes import dims_of

__all__ = ["expand_layers"]


def expand_layers(graph: Graph) -> bool:
    """Replace functions of layers by kernels, between changes of the images' layout.

    Before::

        graph(%x : Float32[2, 8, 7, 7]):
          %0 : Float32[2, 8, 5, 5] = nn::max_pool2d[kernel_size=(3, 3), stride=(1, 1), \
padding=(0, 0), ceil_mode=False, dilation=(1, 1)](%x)
          return (%0)

    After::

        graph(%x : Float32[2, 8, 7, 7]):
          %1 : Float32[2, 7, 7, 8] = np::transpose[axes=(0, 2, 3, 1)](%x)
          %2 : Float32[2, 7, 7, 8] = np::copy[order="C"](%1)
          %3 : Float32[2, 5, 5, 8] = nn::window_max[kernel=(3, 3), stride=(1, 1), \
padding=((0, 0), (0, 0)), dilation=(1, 1), ceil_mode=False](%2)
          %4 : Float32[2, 8, 5, 5] = np::transpose[axes=(0, 3, 1, 2)](%3)
          %5 : Float32[2, 8, 5, 5] = np::copy[order="C"](%4)
          return (%5)

    What no kernel takes stays: very large windows, and weights whose extents only a run shows.
    """
    changed = False
    for node in list(graph.nodes()):
        changed = _expand(node) or changed
    return changed


def _expand(node: Node) -> bool:
    expansion = _EXPANSIONS.get(node.kind)
    result = expansion(node) if expansion is not None else None
    if result is None:
        return False
    log.update("expand_layers", lambda: f"{node!r} becomes a kernel")
    node.output.replace_all_uses_with(result)
    node.destroy()
    return True


# Layers -----------------------------------------------------------------------------------


def _convolution(node: Node) -> Value | None:
    weight, bias, groups = node.inputs[1], node.inputs[2], node.attributes["groups"]
    shape = dims_of(weight)
    sizes = tuple(extent for extent in shape if isinstance(extent, int) and extent > 0)
    if len(sizes) < len(shape):
        return None
    dilation, kernel = node.attributes["dilation"], sizes[2:]
    padding = node.attributes["padding"]
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        around = tuple((total // 2, total - total // 2) for total in totals)
    else:
        around = tuple((one, one) for one in padding)
    geometry = Geometry(kernel, node.attributes["stride"], around, dilation)
    if not geometry.has_kernel:
        return None
    packed = node.inputs[3] if node.keywords else packed_weights(node, weight, groups)
    if is_depthwise(shape, groups):
        attributes = {**geometry.attributes, **NO_LIMITS}
        return _over_images(node, "nn::window_sum", [packed, bias], attributes)
    attributes = {**geometry.attributes, "columns": sizes[0], **NO_LIMITS}
    return _over_images(node, "nn::product", [packed, bias, none(node)], attributes)


def _transposed(node: Node) -> Value | None:
    x, weight, bias = node.inputs[:3]
    names = ("stride", "padding", "output_padding", "groups", "dilation")
    attributes = {name: node.attributes[name] for name in names}
    shape = dims_of(weight)
    first = len(dims_of(x)) - len(shape) + 2
    extents = dims_of(x)[first:]
    axes = phases_of(attributes, shape, extents)
    if axes is None:
        return None
    for axis, (extent, phases) in enumerate(zip(extents, axes, strict=True), first):
        if not isinstance(extent, int):
            require_extent(node, x, axis, max(1, *(1 - one.more for one in phases)))
    return _over_images(node, TRANSPOSED, [weight, bias], attributes)


def _linear(node: Node) -> Value | None:
    if not node.keywords:
        return None
    x, _, *biases, packed = node.inputs
    bias, dims = biases[0] if biases else none(node), dims_of(node.output)
    nothing = Geometry((), (), (), ())
    attributes = {**nothing.attributes, "columns": dims[-1], **NO_LIMITS}
    return insert(node, "nn::product", [x, packed, bias, none(node)], attributes, x, dims)


def _recurrence(node: Node) -> Value | None:
    """The same node with its weights packed: that is done once for all times."""
    if node.keywords:
        return None
    packed = packed_matrix(node, node.inputs[WEIGHT[node.kind]], GATES[node.kind])
    inputs = [*node.inputs, packed]
    result = node.value_before(node.kind, inputs, node.output.type, node.attributes)
    assert result.node is not None
    result.node.keywords = ("packed",)
    return result


def _max_pool(node: Node) -> Value | None:
    geometry = _pool_geometry(node, node.attributes["dilation"])
    if geometry is None:
        return None
    attributes = {**geometry.attributes, "ceil_mode": node.attributes["ceil_mode"]}
    return _over_images(node, "nn::window_max", [], attributes)


def _avg_pool(node: Node) -> Value | None:
    kernel = node.attributes["kernel_size"]
    geometry = _pool_geometry(node, (1,) * len(kernel))
    if geometry is None:
        return None
    counted = node.attributes["padding"] if node.attributes["count_include_pad"] else (0,) * 3
    border = tuple((one, one) for one in counted[: len(kernel)])
    divisor = node.attributes.get("divisor_override")
    ceil_mode = node.attributes["ceil_mode"]
    more = {"ceil_mode": ceil_mode, "border": border, "divisor": divisor}
    return _over_images(node, "nn::window_mean", [], {**geometry.attributes, **more})


def _adaptive(node: Node) -> Value | None:
    """Boxes of equal extents, or the mean of each whole image."""
    rank = int(node.kind[-2])
    if all(extent == 1 for extent in dims_of(node.output)[-rank:]):
        return _mean(node, rank)
    pairs = zip(dims_of(node.inputs[0])[-rank:], dims_of(node.output)[-rank:], strict=True)
    box = tuple(
        n // e for n, e in pairs if isinstance(n, int) and isinstance(e, int) and e and n % e == 0
    )
    if len(box) < rank:
        return None
    around = ((0, 0),) * rank
    geometry = Geometry(box, box, around, (1,) * rank)
    if not geometry.has_kernel:
        return None
    more = {"ceil_mode": False, "border": around, "divisor": math.prod(box)}
    return _over_images(node, "nn::window_mean", [], {**geometry.attributes, **more})


def _mean(node: Node, rank: int) -> Value:
    """The mean along the last axes, which must not be empty."""
    x = node.inputs[0]
    first = len(dims_of(x)) - rank
    for axis, extent in enumerate(dims_of(x)[first:], first):
        if not isinstance(extent, int):
            require_extent(node, x, axis, 1)
    axes = tuple(range(first, first + rank))
    return insert(node, "np::mean", [x], {"axis": axes, "keepdims": True}, x, dims_of(node.output))


def _pool_geometry(node: Node, dilation: Sizes) -> Geometry | None:
    kernel, stride = node.attributes["kernel_size"], node.attributes["stride"]
    around = tuple((one, one) for one in node.attributes["padding"])
    geometry = Geometry(kernel, stride, around, dilation)
    return geometry if geometry.has_kernel else None


def _over_images(node: Node, kind: str, operands: list[Value], attributes: dict[str, Any]) -> Value:
    """A kernel on channels-last images, and the layout changed back."""
    x, dims, rank = node.inputs[0], dims_of(node.output), len(attributes["stride"])
    is_single = len(dims) == rank + 1
    if is_single:
        x = view(node, x, ("None", *":" * len(dims)), (1, *dims_of(x)))
        dims = (1, *dims)
    last = (0, *range(2, rank + 2), 1)
    images = copied(node, transposed(node, x, last))
    moved = tuple(dims[axis] for axis in last)
    result = insert(node, kind, [images, *operands], attributes, x, moved)
    result = copied(node, transposed(node, result, (0, rank + 1, *range(1, rank + 1))))
    return view(node, result, ("0", *":" * (rank + 1)), dims[1:]) if is_single else result


_EXPANSIONS: dict[str, Callable[[Node], Value | None]] = {
    "nn::linear": _linear,
    "nn::transposed_linear": _linear,
    "nn::matmul": _linear,
    **dict.fromkeys(GATES, _recurrence),
    **{f"nn::conv{rank}d": _convolution for rank in (1, 2, 3)},
    **{f"nn::conv_transpose{rank}d": _transposed for rank in (1, 2, 3)},
    **{f"nn::max_pool{rank}d": _max_pool for rank in (1, 2, 3)},
    **{f"nn::avg_pool{rank}d": _avg_pool for rank in (1, 2, 3)},
    **{f"nn::adaptive_avg_pool{rank}d": _adaptive for rank in (1, 2, 3)},
}
