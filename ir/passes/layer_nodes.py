"""Nodes that passes over layers put before others; they keep the place of those in the source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.layer_kernels import MAX_TAPS, is_depthwise
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import BOOL, INT, NONE, Dim, TensorType, Type

__all__ = [
    "Geometry",
    "Sizes",
    "constant",
    "copied",
    "insert",
    "known_extents",
    "none",
    "packed_matrix",
    "packed_weights",
    "require_extent",
    "require_extent_of",
    "reshaped",
    "size_of",
    "transposed",
    "view",
    "with_bias",
]

Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Geometry:
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


def known_extents(dims: Sequence[Dim]) -> Sizes:
    """Those of some extents that are numbers."""
    return tuple(extent for extent in dims if isinstance(extent, int))


def insert(
    node: Node,
    kind: str,
    inputs: Sequence[Value],
    attributes: dict[str, Any],
    like: Value,
    dims: tuple[Dim, ...],
) -> Value:
    """An array of the dtype of ``like``, made before ``node``."""
    assert isinstance(like.type, TensorType)
    return node.value_before(kind, inputs, TensorType(like.type.dtype, dims), attributes)


def constant(node: Node, value: Any, type_: Type) -> Value:
    return node.value_before("prim::Constant", [], type_, {"value": value})


def size_of(node: Node, x: Value, axis: int) -> Value:
    return node.value_before("prim::size", [x], INT, {"dim": axis})


def require_extent(node: Node, x: Value, axis: int, least: int) -> None:
    """Leave to the definition what has fewer elements along an axis."""
    operands = [size_of(node, x, axis), constant(node, least, INT)]
    is_enough = node.value_before("prim::ge", operands, BOOL)
    error = {"exception": "ValueError", "message": f"fewer than {least} elements along an axis"}
    node.value_before("prim::require", [is_enough], NONE, error)


def require_extent_of(node: Node, x: Value, axis: int, count: int) -> None:
    """Leave to the definition what has another number of elements along an axis."""
    if isinstance(dims_of(x)[axis], int):
        return
    operands = [size_of(node, x, axis), constant(node, count, INT)]
    is_right = node.value_before("prim::eq", operands, BOOL)
    error = {"exception": "ValueError", "message": f"other than {count} elements along an axis"}
    node.value_before("prim::require", [is_right], NONE, error)


def with_bias(node: Node, images: Value, bias: Value) -> Value:
    """Images, whose number of channels is known, plus a number for each channel."""
    dims = dims_of(images)
    channels, rank = dims[1], len(dims) - 2
    assert isinstance(channels, int)
    require_extent_of(node, bias, 0, channels)
    along = view(node, bias, (":", *["None"] * rank), (channels, *(1,) * rank))
    return insert(node, "np::add", [images, along], {}, images, dims)


def reshaped(node: Node, x: Value, dims: Sizes) -> Value:
    extents = [constant(node, extent, INT) for extent in dims]
    return insert(node, "np::reshape", [x, *extents], {}, x, dims)


def none(node: Node) -> Value:
    return constant(node, None, NONE)


def transposed(node: Node, x: Value, axes: Sequence[int]) -> Value:
    dims = tuple(dims_of(x)[axis] for axis in axes)
    return insert(node, "np::transpose", [x], {"axes": tuple(axes)}, x, dims)


def copied(node: Node, x: Value) -> Value:
    return insert(node, "np::copy", [x], {"order": "C"}, x, dims_of(x))


def view(node: Node, x: Value, index: Sequence[str], dims: tuple[Dim, ...]) -> Value:
    return insert(node, "np::view", [x], {"index": ", ".join(index)}, x, dims)


def packed_weights(node: Node, weight: Value, groups: int) -> Value:
    """The weights as the kernel reads them."""
    shape, rank = dims_of(weight), len(dims_of(weight))
    if is_depthwise(shape, groups):
        moved = transposed(node, weight, (1, *range(2, rank), 0))
        return view(node, copied(node, moved), ("0", *":" * (rank - 1)), dims_of(moved)[1:])
    return packed_matrix(node, weight, groups)


def packed_matrix(node: Node, weight: Value, groups: int) -> Value:
    """The matrix of a product in panels, those of each group by themselves."""
    shape = dims_of(weight)
    # The machine's lowering knows how wide panels are, so their number is a symbol here.
    names = [f"{name}.{weight.name}.{groups}" for name in ("panels", "width")]
    dims = (groups, names[0], *shape[2:], shape[1], names[1])
    return insert(node, "nn::packed", [weight], {"groups": groups}, weight, dims)
