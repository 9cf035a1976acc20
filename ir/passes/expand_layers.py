"""Convolutions, pooling and packed linear layers become kernels over channels-last images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops.layer_kernels import MAX_TAPS, NO_LIMITS, is_depthwise
from jitcore.ir.types import BOOL, INT, NONE, Dim, TensorType, Type

__all__ = ["expand_layers"]

Sizes = tuple[int, ...]


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
padding=((0, 0), (0, 0)), dilation=(1, 1)](%2)
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


@dataclass(frozen=True, slots=True)
class _Geometry:
    """How a window moves: one number for each spatial axis, and two for what is around it."""

    kernel: Sizes
    stride: Sizes
    padding: tuple[tuple[int, int], ...]
    dilation: Sizes

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
        }

    @property
    def has_kernel(self) -> bool:
        return math.prod(self.kernel) <= MAX_TAPS


# Layers -----------------------------------------------------------------------------------


def _convolution(node: Node) -> Value | None:
    weight, bias, groups = node.inputs[1], node.inputs[2], node.attributes["groups"]
    shape = _dims(weight)
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
    geometry = _Geometry(kernel, node.attributes["stride"], around, dilation)
    if not geometry.has_kernel:
        return None
    packed = node.inputs[3] if node.keywords else _packed(node, weight, groups)
    if is_depthwise(shape, groups):
        return _over_images(node, "nn::window_sum", [packed, bias], geometry, NO_LIMITS)
    attributes = {"columns": sizes[0], **NO_LIMITS}
    operands = [packed, bias, _none(node)]
    return _over_images(node, "nn::product", operands, geometry, attributes)


def _packed(node: Node, weight: Value, groups: int) -> Value:
    """The weights as the kernel reads them."""
    shape, rank = _dims(weight), len(_dims(weight))
    if is_depthwise(shape, groups):
        moved = _transposed(node, weight, (1, *range(2, rank), 0))
        return _view(node, _copy(node, moved), ("0", *":" * (rank - 1)), _dims(moved)[1:])
    # The machine's lowering knows how wide panels are, so their number is a symbol here.
    names = [f"{name}.{weight.name}.{groups}" for name in ("panels", "width")]
    dims = (groups, names[0], *shape[2:], shape[1], names[1])
    return _insert(node, "nn::packed", [weight], {"groups": groups}, weight, dims)


def _transposed_convolution(node: Node) -> Value | None:
    """The convolution with the turned kernel of images with zeros between their pixels."""
    x, weight, bias = node.inputs[:3]
    groups, dilation = node.attributes["groups"], node.attributes["dilation"]
    shape = tuple(extent for extent in _dims(weight) if isinstance(extent, int) and extent > 0)
    rank = len(dilation)
    extents = tuple(extent for extent in _dims(x)[-rank:] if isinstance(extent, int))
    if len(shape) < rank + 2 or len(extents) < rank or len(_dims(x)) == rank + 1:
        return None
    kernel = shape[2:]
    spans = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    around = tuple(
        (span - cut, span - cut + more)
        for span, cut, more in zip(
            spans, node.attributes["padding"], node.attributes["output_padding"], strict=True
        )
    )
    geometry = _Geometry(kernel, (1,) * rank, around, dilation)
    if min(min(pair) for pair in around) < 0 or not geometry.has_kernel:
        return None
    images = _spread(node, _transposed(node, x, (0, *range(2, rank + 2), 1)), extents)
    turned = _view(node, weight, (":", ":", *("::-1",) * rank), shape)
    packed = _packed(node, _exchanged(node, turned, shape, groups), groups)
    dims = _dims(node.output)
    columns = shape[1] * groups
    moved = (dims[0], *dims[2:], columns)
    attributes = {**geometry.attributes, "columns": columns, **NO_LIMITS}
    operands = [images, packed, bias, _none(node)]
    result = _insert(node, "nn::product", operands, attributes, x, moved)
    return _copy(node, _transposed(node, result, (0, rank + 1, *range(1, rank + 1))))


def _spread(node: Node, images: Value, extents: Sizes) -> Value:
    """Channels-last images with zeros between their pixels, as many as the stride leaves out."""
    stride = node.attributes["stride"]
    if max(stride) == 1:
        return _copy(node, images)
    type_ = images.type
    assert isinstance(type_, TensorType) and type_.dtype is not None
    wide = tuple((n - 1) * s + 1 for n, s in zip(extents, stride, strict=True))
    dims = (type_.dims or ())[:1] + wide + (type_.dims or ())[-1:]
    zero = _constant(node, type_.dtype.type(0), TensorType(type_.dtype, (), True))
    sizes = [
        _constant(node, dim, INT) if isinstance(dim, int) else _size(node, images, axis)
        for axis, dim in enumerate(dims)
    ]
    made = _insert(node, "np::full", [zero, *sizes], {"dtype": type_.dtype}, images, dims)
    steps = (":", *(f"::{one}" if one > 1 else ":" for one in stride), ":")
    places = _view(node, made, steps, _dims(images))
    _insert_value(node, "np::store", [places, images], {}, NONE)
    return made


def _exchanged(node: Node, weight: Value, shape: Sizes, groups: int) -> Value:
    """(in, out / groups, ...) as (out, in / groups, ...)."""
    rank = len(shape)
    if groups == 1:
        return _transposed(node, weight, (1, 0, *range(2, rank)))
    apart = (groups, shape[0] // groups, *shape[1:])
    moved = _transposed(node, _reshaped(node, weight, apart), (0, 2, 1, *range(3, rank + 1)))
    return _reshaped(node, moved, (groups * shape[1], shape[0] // groups, *shape[2:]))


def _linear(node: Node) -> Value | None:
    if not node.keywords:
        return None
    x, _, bias, packed = node.inputs
    dims = _dims(node.output)
    nothing = _Geometry((), (), (), ())
    attributes = {**nothing.attributes, "columns": dims[-1], **NO_LIMITS}
    return _insert(node, "nn::product", [x, packed, bias, _none(node)], attributes, x, dims)


def _max_pool(node: Node) -> Value | None:
    geometry = _pool_geometry(node, node.attributes["dilation"])
    return _over_images(node, "nn::window_max", [], geometry, {}) if geometry else None


def _avg_pool(node: Node) -> Value | None:
    kernel = node.attributes["kernel_size"]
    geometry = _pool_geometry(node, (1,) * len(kernel))
    if geometry is None:
        return None
    counted = node.attributes["padding"] if node.attributes["count_include_pad"] else (0,) * 3
    border = tuple((one, one) for one in counted[: len(kernel)])
    divisor = node.attributes.get("divisor_override")
    more = {"border": border, "divisor": divisor}
    return _over_images(node, "nn::window_mean", [], geometry, more)


def _adaptive(node: Node) -> Value | None:
    """Boxes of equal extents, or the mean of each whole image."""
    rank = int(node.kind[-2])
    if all(extent == 1 for extent in _dims(node.output)[-rank:]):
        return _mean(node, rank)
    pairs = zip(_dims(node.inputs[0])[-rank:], _dims(node.output)[-rank:], strict=True)
    box = tuple(
        n // e for n, e in pairs if isinstance(n, int) and isinstance(e, int) and e and n % e == 0
    )
    if len(box) < rank:
        return None
    around = ((0, 0),) * rank
    geometry = _Geometry(box, box, around, (1,) * rank)
    more = {"border": around, "divisor": math.prod(box)}
    return (
        _over_images(node, "nn::window_mean", [], geometry, more) if geometry.has_kernel else None
    )


def _mean(node: Node, rank: int) -> Value:
    """The mean along the last axes, which must not be empty."""
    x = node.inputs[0]
    first = len(_dims(x)) - rank
    for axis, extent in enumerate(_dims(x)[first:], first):
        if not isinstance(extent, int):
            operands = [_size(node, x, axis), _constant(node, 0, INT)]
            is_some = _insert_value(node, "prim::ne", operands, {}, BOOL)
            error = {"exception": "ValueError", "message": "an empty image"}
            _insert_value(node, "prim::require", [is_some], error, NONE)
    axes = tuple(range(first, first + rank))
    return _insert(node, "np::mean", [x], {"axis": axes, "keepdims": True}, x, _dims(node.output))


def _pool_geometry(node: Node, dilation: Sizes) -> _Geometry | None:
    """With ``ceil_mode`` there is more around the ends."""
    kernel, stride = node.attributes["kernel_size"], node.attributes["stride"]
    rank = len(kernel)
    around = []
    pairs = zip(_dims(node.inputs[0])[-rank:], _dims(node.output)[-rank:], strict=True)
    for axis, (n, count) in enumerate(pairs):
        before = after = node.attributes["padding"][axis]
        if node.attributes["ceil_mode"]:
            if not isinstance(n, int) or not isinstance(count, int):
                return None
            end = (count - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1) + 1
            after = max(after, end - n - before)
        around.append((before, after))
    geometry = _Geometry(kernel, stride, tuple(around), dilation)
    return geometry if geometry.has_kernel else None


def _over_images(
    node: Node, kind: str, operands: list[Value], geometry: _Geometry, more: dict[str, Any]
) -> Value:
    """A kernel on channels-last images, and the layout changed back."""
    x, dims, rank = node.inputs[0], _dims(node.output), len(geometry.kernel)
    is_single = len(dims) == rank + 1
    if is_single:
        x = _view(node, x, ("None", *":" * len(dims)), (1, *_dims(x)))
        dims = (1, *dims)
    last = (0, *range(2, rank + 2), 1)
    images = _copy(node, _transposed(node, x, last))
    moved = tuple(dims[axis] for axis in last)
    attributes = {**geometry.attributes, **more}
    result = _insert(node, kind, [images, *operands], attributes, x, moved)
    result = _copy(node, _transposed(node, result, (0, rank + 1, *range(1, rank + 1))))
    return _view(node, result, ("0", *":" * (rank + 1)), dims[1:]) if is_single else result


# Nodes ------------------------------------------------------------------------------------


def _dims(value: Value) -> tuple[Dim, ...]:
    return (value.type.dims or ()) if isinstance(value.type, TensorType) else ()


def _insert(
    node: Node,
    kind: str,
    inputs: Sequence[Value],
    attributes: dict[str, Any],
    like: Value,
    dims: tuple[Dim, ...],
) -> Value:
    """An array of the dtype of ``like``, made before ``node``."""
    assert isinstance(like.type, TensorType)
    return _insert_value(node, kind, inputs, attributes, TensorType(like.type.dtype, dims))


def _insert_value(
    node: Node, kind: str, inputs: Sequence[Value], attributes: dict[str, Any], type_: Type
) -> Value:
    made = node.insert_before(kind, inputs, attributes, outputs=(type_,))
    made.origin = node.origin
    return made.output


def _constant(node: Node, value: Any, type_: Type) -> Value:
    return _insert_value(node, "prim::Constant", [], {"value": value}, type_)


def _size(node: Node, x: Value, axis: int) -> Value:
    return _insert_value(node, "prim::size", [x], {"dim": axis}, INT)


def _reshaped(node: Node, x: Value, dims: Sizes) -> Value:
    extents = [_constant(node, extent, INT) for extent in dims]
    return _insert(node, "np::reshape", [x, *extents], {}, x, dims)


def _none(node: Node) -> Value:
    return _constant(node, None, NONE)


def _transposed(node: Node, x: Value, axes: Sequence[int]) -> Value:
    dims = tuple(_dims(x)[axis] for axis in axes)
    return _insert(node, "np::transpose", [x], {"axes": tuple(axes)}, x, dims)


def _copy(node: Node, x: Value) -> Value:
    return _insert(node, "np::copy", [x], {"order": "C"}, x, _dims(x))


def _view(node: Node, x: Value, index: Sequence[str], dims: tuple[Dim, ...]) -> Value:
    return _insert(node, "np::view", [x], {"index": ", ".join(index)}, x, dims)


_EXPANSIONS: dict[str, Callable[[Node], Value | None]] = {
    "nn::linear": _linear,
    "nn::transposed_linear": _linear,
    **{f"nn::conv{rank}d": _convolution for rank in (1, 2, 3)},
    **{f"nn::conv_transpose{rank}d": _transposed_convolution for rank in (1, 2, 3)},
    **{f"nn::max_pool{rank}d": _max_pool for rank in (1, 2, 3)},
    **{f"nn::avg_pool{rank}d": _avg_pool for rank in (1, 2, 3)},
    **{f"nn::adaptive_avg_pool{rank}d": _adaptive for rank in (1, 2, 3)},
}
