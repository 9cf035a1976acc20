"""Convolutions and pooling become products and reductions of windows, for machines without kernels.

A transposed convolution is an ordinary one of images with zeros between their elements.

A window is a view, ``sliding_window_view`` of the images with what is around them.  A convolution
is a product of matrices: a row of weights for each channel, and a column for each window.  Where
the images' extents are known only when the program runs, so are the number of windows, and whether
one fits at all: the definition says what is wrong if none does.
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
    insert,
    known_extents,
    require_extent,
    reshaped,
    size_of,
    transposed,
    view,
    with_bias,
)
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import INT, NONE, Dim, TensorType

__all__ = ["use_plain_windows"]

Extent = int | Value
"""An extent: a number, or what will be one."""


def use_plain_windows(graph: Graph) -> bool:
    """Replace convolutions and pooling of batches of images.

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
    """Whether images are a batch of floats, with elements as far as that is known."""
    x = node.inputs[0]
    is_float = isinstance(x.type, TensorType) and x.type.dtype is not None
    dims = dims_of(x)
    has_elements = all(isinstance(extent, str) or extent > 0 for extent in dims[1:])
    return is_float and len(dims) == _rank(node) + 2 and has_elements


def _are_known(dims: Sequence[Dim]) -> bool:
    return all(isinstance(extent, int) and extent > 0 for extent in dims)


# Convolutions -----------------------------------------------------------------------------


def _convolution(node: Node) -> Value | None:
    x, weight, bias = node.inputs[:3]
    shape, out = dims_of(weight), dims_of(node.output)
    if not (_are_known(shape) and _are_known(out[1:2])):
        return None
    kernel = known_extents(shape[2:])
    dilation = node.attributes["dilation"]
    geometry = Geometry(kernel, node.attributes["stride"], _around(node, kernel), dilation)
    return _product(node, _windows(node, x, geometry, 0.0), weight, bias)


def _transposed_convolution(node: Node) -> Value | None:
    """A convolution of what has as many zeros between its elements as the stride has steps more."""
    x, weight, bias = node.inputs[:3]
    shape, extents = dims_of(weight), dims_of(x)[1:]
    if not (_are_known(shape) and _are_known(extents)):
        return None
    rank, groups, dilation = _rank(node), node.attributes["groups"], node.attributes["dilation"]
    kernel = known_extents(shape[2:])
    spans = (d * (k - 1) for k, d in zip(kernel, dilation, strict=True))
    before = [span - cut for span, cut in zip(spans, node.attributes["padding"], strict=True)]
    extra = node.attributes["output_padding"]
    around = [(one, one + more) for one, more in zip(before, extra, strict=True)]
    if min(before) < 0:
        return None
    spread = _framed(node, x, around, 0.0, node.attributes["stride"])
    geometry = Geometry(kernel, (1,) * rank, ((0, 0),) * rank, dilation)
    windows = _windows(node, spread, geometry, 0.0)
    return _product(node, windows, _turned(node, weight, groups), bias)


def _turned(node: Node, weight: Value, groups: int) -> Value:
    """The weights of the convolution that a transposed one is: output channels first, mirrored."""
    inside, out, *kernel = known_extents(dims_of(weight))
    spatial = range(3, 3 + len(kernel))
    split = reshaped(node, weight, (groups, inside // groups, out, *kernel))
    swapped = transposed(node, split, (0, 2, 1, *spatial))
    mirrored = view(node, swapped, (":", ":", ":", *["::-1"] * len(kernel)), dims_of(swapped))
    return reshaped(node, mirrored, (groups * out, inside // groups, *kernel))


def _product(node: Node, windows: Value, weight: Value, bias: Value) -> Value:
    """The convolution of these windows."""
    x, shape, out = node.inputs[0], dims_of(weight), dims_of(node.output)
    rank, groups = _rank(node), node.attributes["groups"]
    inside = (1, *range(2 + rank, 2 + 2 * rank))
    columns = transposed(node, windows, (0, *inside, *range(2, 2 + rank)))
    terms = math.prod(known_extents(shape[1:]))
    channels, positions = known_extents(shape[:1])[0], _positions(node, windows)
    if groups == 1:
        columns = _reshaped(node, columns, (terms, positions))
        rows = reshaped(node, weight, (channels, terms))
        parts: tuple[Dim, ...] = (channels, _dim(node, positions))
    else:
        columns = _reshaped(node, columns, (groups, terms, positions))
        rows = reshaped(node, weight, (groups, channels // groups, terms))
        parts = (groups, channels // groups, _dim(node, positions))
    product = insert(node, "np::matmul", [rows, columns], {}, x, (out[0], *parts))
    spatial = [_extent(node, windows, axis) for axis in range(2, 2 + rank)]
    result = _reshaped(node, product, (channels, *spatial), out[2:])
    if bias.type == NONE:
        # A view cannot be a result.
        return copied(node, result)
    return with_bias(node, result, bias)


def _positions(node: Node, windows: Value) -> Extent:
    """How many windows an image has."""
    extents = [_extent(node, windows, axis) for axis in range(2, 2 + _rank(node))]
    whole: Extent = math.prod(one for one in extents if isinstance(one, int))
    for one in extents:
        if isinstance(one, Value):
            operands = [one, _number(node, whole)]
            whole = node.value_before("prim::mul", operands, INT)
    return whole


def _dim(node: Node, extent: Extent) -> Dim:
    """A number of windows in a type."""
    return extent if isinstance(extent, int) else f"windows.{node.output.name}"


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
    if set(dims_of(node.output)[2:]) == {1}:
        whole = {"axis": tuple(range(2, 2 + rank)), "keepdims": True}
        return insert(node, "np::mean", [x], whole, x, dims_of(node.output))
    if not _are_known(dims_of(x)[1:]):
        return None
    inner, outer = (known_extents(dims_of(one)[2:]) for one in (x, node.output))
    pairs = list(zip(inner, outer, strict=True))
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
    dims, places = dims_of(padded), dims_of(node.output)[2:]
    for axis, (extent, span) in enumerate(zip(dims[2:], spans, strict=True), start=2):
        if isinstance(extent, str):
            require_extent(node, padded, axis, span)
    is_plain = set(geometry.stride) == set(geometry.dilation) == {1}
    counts = places if is_plain else tuple(map(_count, dims[2:], spans))
    attributes = {"window_shape": spans, "axis": tuple(range(2, 2 + rank))}
    made = insert(
        node, "np::sliding_window_view", [padded], attributes, x, (*dims[:2], *counts, *spans)
    )
    if is_plain:
        return made
    steps = [f"::{step}" for step in (*geometry.stride, *geometry.dilation)]
    return view(node, made, (":", ":", *steps), (*dims[:2], *places, *geometry.kernel))


def _count(extent: Dim, span: int) -> Dim:
    """How many places a window has along an axis."""
    return extent - span + 1 if isinstance(extent, int) else f"{extent}.places.{span}"


def _has_frame(geometry: Geometry) -> bool:
    return any(one for pair in geometry.padding for one in pair)


def _framed(
    node: Node,
    x: Value,
    around: Sequence[tuple[int, int]],
    value: float,
    steps: Sequence[int] | None = None,
) -> Value:
    """A copy of images with a value around each, and between elements that lie ``steps`` apart.

    Steps are for images whose extents are known.
    """
    dims = dims_of(x)
    extents: list[Value] = [_number(node, _extent(node, x, axis)) for axis in range(2)]
    framed, inside, ends = list[Dim](), list[str](), list[Value]()
    for axis, (low, high) in enumerate(around, start=2):
        extent, step = dims[axis], 1 if steps is None else steps[axis - 2]
        if isinstance(extent, int):
            stop = low + step * (extent - 1) + 1
            framed.append(stop + high)
            extents.append(constant(node, framed[-1], INT))
            inside.append(f"{low}:{stop}:{step}" if step > 1 else f"{low}:{stop}")
            continue
        framed.append(f"{extent}.framed.{low}.{high}")
        end = _sum(node, size_of(node, x, axis), low)
        extents.append(_sum(node, end, high))
        inside.append(f"{low}:${len(ends)}")
        ends.append(end)
    assert isinstance(x.type, TensorType)
    attributes = {"dtype": x.type.dtype}
    operands = [_scalar(node, x, value), *extents]
    made = insert(node, "np::full", operands, attributes, x, (*dims[:2], *framed))
    index = {"index": ", ".join((":", ":", *inside))}
    target = insert(node, "np::view", [made, *ends], index, x, dims)
    node.value_before("np::store", [target, x], NONE)
    return made


def _sum(node: Node, extent: Value, more: int) -> Value:
    return node.value_before("prim::add", [extent, constant(node, more, INT)], INT)


def _scalar(node: Node, like: Value, value: float) -> Value:
    """A number of an array's dtype."""
    assert isinstance(like.type, TensorType) and like.type.dtype is not None
    dtype = like.type.dtype
    return constant(node, dtype.type(value), TensorType(dtype, (), scalar=True))


def _extent(node: Node, x: Value, axis: int) -> Extent:
    found = dims_of(x)[axis]
    return found if isinstance(found, int) else size_of(node, x, axis)


def _number(node: Node, extent: Extent) -> Value:
    return constant(node, extent, INT) if isinstance(extent, int) else extent


def _reshaped(
    node: Node, x: Value, extents: Sequence[Extent], spatial: Sequence[Dim] = ()
) -> Value:
    """An array with other axes after the first one; the last of them may have names."""
    first = dims_of(x)[0]
    numbers = [_number(node, one) for one in (_extent(node, x, 0), *extents)]
    dims = [_dim(node, one) for one in extents[: len(extents) - len(spatial)]]
    return insert(node, "np::reshape", [x, *numbers], {}, x, (first, *dims, *spatial))


_PLAIN: dict[str, Callable[[Node], Value | None]] = {
    **{f"nn::conv{rank}d": _convolution for rank in (1, 2, 3)},
    **{f"nn::conv_transpose{rank}d": _transposed_convolution for rank in (1, 2, 3)},
    **{f"nn::max_pool{rank}d": _max_pool for rank in (1, 2, 3)},
    **{f"nn::avg_pool{rank}d": _avg_pool for rank in (1, 2, 3)},
    **{f"nn::adaptive_avg_pool{rank}d": _adaptive for rank in (1, 2, 3)},
}
