"""Convolutions and pooling become products and reductions of windows, for machines without kernels.

A window is a view, ``sliding_window_view`` of the images with what is around them.  A convolution
is a product of matrices: a row of weights for each channel, and a column for each window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.passes.layer_nodes import (
    Geometry,
    Sizes,
    constant,
    copied,
    dims_of,
    insert,
    reshaped,
    size_of,
    transposed,
    view,
)
from jitcore.ir.types import INT, NONE, Dim, TensorType

__all__ = ["use_plain_windows"]


def use_plain_windows(graph: Graph) -> bool:
    """Replace convolutions and pooling of images whose extents are known.

    Before::

        graph(%x : Float32[2, 4, 6, 6]):
          %0 : Float32[2, 4, 5, 5] = nn::max_pool2d[kernel_size=(2, 2), stride=(1, 1), \
padding=(0, 0), ceil_mode=False, dilation=(1, 1)](%x)
          return (%0)

    After::

        graph(%x : Float32[2, 4, 6, 6]):
          %1 : Float32[2, 4, 5, 5, 2, 2] = np::sliding_window_view[window_shape=(2, 2), \
axis=(2, 3)](%x)
          %2 : Float32[2, 4, 5, 5] = np::max[axis=(4, 5), keepdims=False](%1)
          return (%2)
    """
    changed = False
    for node in list(graph.nodes()):
        plain = _PLAIN.get(node.kind)
        result = plain(node) if plain is not None and _is_known(node) else None
        if result is not None:
            _log(node)
            node.output.replace_all_uses_with(result)
            node.destroy()
            changed = True
    return changed


def _log(node: Node) -> None:
    log.update("plain_windows", lambda: f"{node!r} becomes plain array work")


def _rank(node: Node) -> int:
    return int(node.kind[-2])


def _is_known(node: Node) -> bool:
    """Whether images are a batch of floats whose extents are known, but for their number."""
    x = node.inputs[0]
    is_float = isinstance(x.type, TensorType) and x.type.dtype is not None
    dims = dims_of(x)
    return is_float and len(dims) == _rank(node) + 2 and _are_known(dims[1:])


def _are_known(dims: Sequence[Dim]) -> bool:
    return all(isinstance(extent, int) and extent > 0 for extent in dims)


# Convolutions -----------------------------------------------------------------------------


def _convolution(node: Node) -> Value | None:
    x, weight, bias = node.inputs[:3]
    shape, out = dims_of(weight), dims_of(node.output)
    if not (_are_known(shape) and _are_known(out[1:])):
        return None
    kernel = _numbers(shape[2:])
    dilation, rank, groups = node.attributes["dilation"], _rank(node), node.attributes["groups"]
    geometry = Geometry(kernel, node.attributes["stride"], _around(node, kernel), dilation)
    windows = _windows(node, x, geometry, 0.0)
    inside = (1, *range(2 + rank, 2 + 2 * rank))
    columns = transposed(node, windows, (0, *inside, *range(2, 2 + rank)))
    terms = math.prod(_numbers(shape[1:]))
    channels, positions = _numbers(out[1:2])[0], math.prod(_numbers(out[2:]))
    if groups == 1:
        columns = _reshaped(node, columns, (terms, positions))
        rows = reshaped(node, weight, (channels, terms))
        parts: tuple[Dim, ...] = (channels, positions)
    else:
        columns = _reshaped(node, columns, (groups, terms, positions))
        rows = reshaped(node, weight, (groups, channels // groups, terms))
        parts = (groups, channels // groups, positions)
    product = insert(node, "np::matmul", [rows, columns], {}, x, (out[0], *parts))
    result = _reshaped(node, product, _numbers(out[1:]))
    if bias.type == NONE:
        # A view cannot be a result.
        return copied(node, result)
    along = view(node, bias, (":", *["None"] * rank), (channels, *(1,) * rank))
    return insert(node, "np::add", [result, along], {}, x, out)


def _around(node: Node, kernel: Sizes) -> tuple[tuple[int, int], ...]:
    """How many zeros are before and after each axis."""
    padding = node.attributes["padding"]
    if padding != "same":
        return tuple((one, one) for one in padding)
    totals = [d * (k - 1) for d, k in zip(node.attributes["dilation"], kernel, strict=True)]
    return tuple((total // 2, total - total // 2) for total in totals)


# Pooling ----------------------------------------------------------------------------------


def _max_pool(node: Node) -> Value | None:
    return _pooled(node, "np::max", node.attributes["dilation"], -np.inf)


def _avg_pool(node: Node) -> Value | None:
    kernel, padding = node.attributes["kernel_size"], node.attributes["padding"]
    if any(padding) and not node.attributes["count_include_pad"]:
        return None
    total = _pooled(node, "np::sum", (1,) * len(kernel), 0.0)
    if total is None:
        return None
    count = node.attributes.get("divisor_override") or math.prod(kernel)
    x = node.inputs[0]
    return insert(node, "np::divide", [total, _scalar(node, x, count)], {}, x, dims_of(node.output))


def _adaptive(node: Node) -> Value | None:
    """Means of boxes of equal extents."""
    x, rank = node.inputs[0], _rank(node)
    pairs = list(zip(_numbers(dims_of(x)[2:]), _numbers(dims_of(node.output)[2:]), strict=True))
    if any(count < 1 or extent % count for extent, count in pairs):
        return None
    box = tuple(extent // count for extent, count in pairs)
    windows = _windows(node, x, Geometry(box, box, ((0, 0),) * rank, (1,) * rank), 0.0)
    attributes = {"axis": tuple(range(2 + rank, 2 + 2 * rank)), "keepdims": False}
    return insert(node, "np::mean", [windows], attributes, x, dims_of(node.output))


def _pooled(node: Node, kind: str, dilation: Sizes, empty: float) -> Value | None:
    """A reduction of each window."""
    if node.attributes["ceil_mode"]:
        return None
    rank = _rank(node)
    around = tuple((one, one) for one in node.attributes["padding"])
    kernel, stride = node.attributes["kernel_size"], node.attributes["stride"]
    x = node.inputs[0]
    windows = _windows(node, x, Geometry(kernel, stride, around, dilation), empty)
    axes = tuple(range(2 + rank, 2 + 2 * rank))
    return insert(node, kind, [windows], {"axis": axes, "keepdims": False}, x, dims_of(node.output))


# Windows ----------------------------------------------------------------------------------


def _windows(node: Node, x: Value, geometry: Geometry, empty: float) -> Value:
    """All windows: a view whose last axes are those of one window."""
    rank = len(geometry.kernel)
    padded = _framed(node, x, geometry.padding, empty) if _has_frame(geometry) else x
    pairs = list(zip(geometry.kernel, geometry.dilation, strict=True))
    spans = tuple(d * (k - 1) + 1 for k, d in pairs)
    dims = dims_of(padded)
    counts = tuple(n - span + 1 for n, span in zip(_numbers(dims[2:]), spans, strict=True))
    attributes = {"window_shape": spans, "axis": tuple(range(2, 2 + rank))}
    made = insert(
        node, "np::sliding_window_view", [padded], attributes, x, (*dims[:2], *counts, *spans)
    )
    if set(geometry.stride) == set(geometry.dilation) == {1}:
        return made
    steps = [f"::{step}" for step in (*geometry.stride, *geometry.dilation)]
    places = (-(-n // s) for n, s in zip(counts, geometry.stride, strict=True))
    return view(node, made, (":", ":", *steps), (*dims[:2], *places, *geometry.kernel))


def _has_frame(geometry: Geometry) -> bool:
    return any(one for pair in geometry.padding for one in pair)


def _framed(node: Node, x: Value, around: tuple[tuple[int, int], ...], value: float) -> Value:
    """A copy of images with a value around each."""
    dims = dims_of(x)
    framed = tuple(
        low + n + high for (low, high), n in zip(around, _numbers(dims[2:]), strict=True)
    )
    extents = [size_of(node, x, 0), *(constant(node, n, INT) for n in (dims[1], *framed))]
    assert isinstance(x.type, TensorType)
    attributes = {"dtype": x.type.dtype}
    operands = [_scalar(node, x, value), *extents]
    made = insert(node, "np::full", operands, attributes, x, (*dims[:2], *framed))
    inside = [f"{low}:{low + n}" for (low, _), n in zip(around, _numbers(dims[2:]), strict=True)]
    target = view(node, made, (":", ":", *inside), dims)
    node.value_before("np::store", [target, x], NONE)
    return made


def _scalar(node: Node, like: Value, value: float) -> Value:
    """A number of an array's dtype."""
    assert isinstance(like.type, TensorType) and like.type.dtype is not None
    dtype = like.type.dtype
    return constant(node, dtype.type(value), TensorType(dtype, (), scalar=True))


def _numbers(dims: Sequence[Dim]) -> Sizes:
    return tuple(extent for extent in dims if isinstance(extent, int))


def _reshaped(node: Node, x: Value, dims: Sizes) -> Value:
    """An array with other axes after the first one."""
    first = dims_of(x)[0]
    count = size_of(node, x, 0) if not isinstance(first, int) else constant(node, first, INT)
    extents = [count, *(constant(node, extent, INT) for extent in dims)]
    return insert(node, "np::reshape", [x, *extents], {}, x, (first, *dims))


_PLAIN: dict[str, Callable[[Node], Value | None]] = {
    **{f"nn::conv{rank}d": _convolution for rank in (1, 2, 3)},
    **{f"nn::max_pool{rank}d": _max_pool for rank in (1, 2, 3)},
    **{f"nn::avg_pool{rank}d": _avg_pool for rank in (1, 2, 3)},
    **{f"nn::adaptive_avg_pool{rank}d": _adaptive for rank in (1, 2, 3)},
}
