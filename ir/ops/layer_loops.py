"""Functions of layers that are loops over pixels when they are compiled.

Their code in NumPy, in ``jitcore.nn.functional``, gathers whole arrays for each neighbour of a
pixel.  What is here does the same arithmetic in the same order, one pixel after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Rule, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand
from jitcore.ir.reference import require
from jitcore.ir.types import TensorType

__all__ = [
    "adaptive_maximum_rule",
    "adaptive_mean",
    "embedding_bag_rule",
    "float_dims",
    "require_pixels",
]


def _volumes(b: Builder, x: Value, rank: int) -> Value:
    """Images with one to three spatial axes as (images, depth, height, width)."""
    outer = b.constant(1)
    dims = tensor(x).dims or ()
    for axis in range(len(dims) - rank):
        outer = b.op("prim::mul", outer, b.size(x, axis))
    spatial = [b.size(x, axis) for axis in range(len(dims) - rank, len(dims))]
    ones = [b.constant(1)] * (3 - rank)
    return b.op("np::reshape", x, outer, *ones, *spatial)


def _images(b: Builder, x: Value, result: Value, extents: Sequence[int]) -> Value:
    """(images, depth, height, width) with the leading axes of ``x`` and these spatial ones."""
    leading = len(tensor(x).dims or ()) - len(extents)
    sizes = [b.size(x, axis) for axis in range(leading)]
    return b.op("np::reshape", result, *sizes, *(b.constant(extent) for extent in extents))


# Adaptive pooling -------------------------------------------------------------------------


def adaptive_mean(b: Builder, x: Value, extents: Sequence[int]) -> Value:
    """``adaptive_avg_pool2d`` and its like, to extents above zero."""
    _require_poolable(b, x, f"adaptive_avg_pool{len(extents)}d", extents)
    missing = (1,) * (3 - len(extents))
    result = b.define(_means, _volumes(b, x, len(extents)), *missing, *extents)
    return _images(b, x, result, extents)


def adaptive_maximum_rule(rank: int) -> Rule:
    """``adaptive_max_pool1d`` and its like, without indices."""

    def rule(b: Builder, call: Call) -> Value:
        x = array_operand(call.value("input"))
        if call.static("return_indices") is not False:
            raise Untypable("pooling that gives indices, too")
        dims, asked = float_dims(x), call.static("output_size")
        if len(dims) not in (rank + 1, rank + 2):
            raise Untypable(f"an input with {len(dims)} axes")
        sizes = tuple(asked) if isinstance(asked, tuple | list) else (asked,) * rank
        if asked is None or len(sizes) != rank:
            raise Untypable("an output size that does not fit")
        extents = [n if size is None else size for size, n in zip(sizes, dims[-rank:], strict=True)]
        if any(type(one) is not int or one < 1 for one in extents) or 0 in dims[-rank:]:
            raise Untypable("extents of a result that are not known")
        _require_poolable(b, x, f"adaptive_max_pool{rank}d", extents)
        missing = (1,) * (3 - rank)
        result = b.define(_maxima, _volumes(b, x, rank), *missing, *extents)
        return _images(b, x, result, extents)

    return rule


def _require_poolable(b: Builder, x: Value, what: str, extents: Sequence[int]) -> None:
    require_pixels(
        b, x, len(extents), f"{what}: cannot pool input of shape {{}} to {tuple(extents)}"
    )


def require_pixels(b: Builder, x: Value, rank: int, message: str) -> None:
    """Refuse images without pixels, with the shape in the message."""
    dims = tensor(x).dims or ()
    for axis in range(len(dims) - rank, len(dims)):
        if not isinstance(dims[axis], int):
            is_some = b.op("prim::gt", b.size(x, axis), b.constant(0))
            b.op("prim::require_shape", is_some, x, message=message)


def float_dims(x: Value) -> tuple[Any, ...]:
    """The extents of an array of float32 or float64; others have no form as loops."""
    type_ = x.type
    if not isinstance(type_, TensorType) or type_.dims is None:
        raise Untypable("an array of unknown rank")
    if type_.dtype is None or type_.dtype.char not in "fd" or not type_.dtype.isnative:
        raise Untypable(f"dtype {type_.dtype} has no compiled form here")
    return type_.dims


def _means(x: Any, depth: int, height: int, width: int) -> Any:
    """Means of rows, then of columns, then of planes, as the function takes them."""
    images, planes, rows, columns = x.shape
    result = np.empty((images, depth, height, width), x.dtype)
    for image in range(images):
        for d in range(depth):
            first, last = d * planes // depth, -(-(d + 1) * planes // depth)
            for h in range(height):
                top, bottom = h * rows // height, -(-(h + 1) * rows // height)
                line = np.zeros(columns, x.dtype)
                for row in range(top, bottom):
                    for plane in range(first, last):
                        line += x[image, plane, row]
                for w in range(width):
                    left, right = w * columns // width, -(-(w + 1) * columns // width)
                    total = x.dtype.type(0)
                    for column in range(left, right):
                        total += line[column]
                    count = (last - first) * (bottom - top) * (right - left)
                    result[image, d, h, w] = total / x.dtype.type(count)
    return result


def _maxima(x: Any, depth: int, height: int, width: int) -> Any:
    images, planes, rows, columns = x.shape
    result = np.empty((images, depth, height, width), x.dtype)
    for image in range(images):
        for d in range(depth):
            first, last = d * planes // depth, -(-(d + 1) * planes // depth)
            for h in range(height):
                top, bottom = h * rows // height, -(-(h + 1) * rows // height)
                line = np.full(columns, -np.inf, x.dtype)
                for row in range(top, bottom):
                    for plane in range(first, last):
                        line[:] = np.maximum(line, x[image, plane, row])
                for w in range(width):
                    left, right = w * columns // width, -(-(w + 1) * columns // width)
                    largest = line[left]
                    for column in range(left + 1, right):
                        largest = np.maximum(largest, line[column])
                    result[image, d, h, w] = largest
    return result


# Tables -----------------------------------------------------------------------------------


def embedding_bag_rule(b: Builder, call: Call) -> Value:
    """``embedding_bag`` of a matrix of row numbers, all of which count."""
    numbers, weight = (array_operand(call.value(name)) for name in ("input", "weight"))
    others = ("offsets", "per_sample_weights")
    if any(call.optional(name) is not None for name in others):
        raise Untypable("bags of different lengths, or factors")
    mode = call.static("mode")
    if mode not in ("sum", "mean") or call.static("padding_idx") is not None:
        raise Untypable(f"mode {mode!r}, or rows that do not count")
    dtype = tensor(numbers).dtype
    if dtype is None or dtype.kind not in "iu" or not dtype.isnative:
        raise Untypable("row numbers that are no ints")
    if len(tensor(numbers).dims or ()) != 2 or len(float_dims(weight)) != 2:
        raise Untypable("operands that are no matrices")
    return b.define(_bags, numbers, weight, mode == "mean")


def _bags(numbers: Any, weight: Any, is_mean: bool) -> Any:
    count, members = numbers.shape
    result = np.empty((count, weight.shape[1]), weight.dtype)
    for bag in range(count):
        total = np.zeros(weight.shape[1], weight.dtype)
        for k in range(members):
            number = numbers[bag, k]
            require(number >= 0, "IndexError", "a row below 0")
            total += weight[number]
        if is_mean:
            total /= weight.dtype.type(max(members, 1))
        result[bag] = total
    return result
