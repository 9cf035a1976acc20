"""How oneDNN computes each operation.

Each chooses the format of its arrays, and the next one takes the result as it is or has it copied.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from jitcore.codegen.onednn import library as api
from jitcore.codegen.onednn.planner import Operand, Planner, Refused, image_order
from jitcore.codegen.onednn.post_ops import (
    FULL,
    After,
    Change,
    change_by,
    changes_of,
    described,
    fitting,
)
from jitcore.codegen.onednn.program import Operation
from jitcore.ir.ops.layer_kernels import transposed_excess, window_count

__all__ = ["rule_of"]

Rule = Callable[[Planner, Operation, After], Operand]
"""Plans an operation, with what is done afterwards, and gives the result."""


def rule_of(kind: str) -> Rule:
    """How operations of a kind are planned."""
    return _RULES.get(kind, _elementwise)


# Convolutions -----------------------------------------------------------------------------


def _product(planner: Planner, operation: Operation, after: After) -> Operand:
    if not operation["kernel"]:
        return _linear(planner, operation, after)
    x = _operand(planner, operation, 0)
    weights, groups, channels = _weights(planner, operation)
    if x.dims[-1] != channels * groups:
        raise Refused("weights for other channels")
    terms = channels * math.prod(operation["kernel"])
    return _convolution(planner, operation, after, x, weights, operation["columns"], terms)


def _depthwise(planner: Planner, operation: Operation, after: After) -> Operand:
    x = _operand(planner, operation, 0)
    number = operation.operands[1]
    assert isinstance(number, int)
    *kernel, channels = planner.in_c_order(number)
    if tuple(kernel) != operation["kernel"] or channels != x.dims[-1]:
        raise Refused("weights for other channels")
    taps = math.prod(kernel)
    strides = [math.prod(kernel[axis + 1 :]) * channels for axis in range(len(kernel))]
    steps = (1, taps * channels, taps * channels, *strides)
    shape = (channels, 1, 1, *kernel)
    weights = planner.given(number, planner.library.strided(shape, steps), shape)
    return _convolution(planner, operation, after, x, weights, channels, taps)


def _convolution(
    planner: Planner,
    operation: Operation,
    after: After,
    x: Operand,
    weights: Operand,
    columns: int,
    terms: int,
) -> Operand:
    """A convolution, whose weights are in the order of the library."""
    window, extents = _window(operation, x)
    shape = (columns, terms // math.prod(window.kernel), *window.kernel)
    groups = x.dims[-1] // shape[1]
    if groups > 1:
        shape = (groups, columns // groups, *shape[1:])
    describe = partial(planner.library.convolution, window=window)
    operands = (x, weights, _bias(planner, operation, columns))
    dims = (x.dims[0], *extents, columns)
    return _convolved(planner, operation, after, operands, shape, dims, describe)


def _deconvolution(planner: Planner, operation: Operation, after: After) -> Operand:
    x, number = _operand(planner, operation, 0), operation.operands[1]
    if not isinstance(number, int) or number >= len(planner.shapes):
        raise Refused("weights that are computed")
    (channels, columns, *kernel), strides = planner.shape(number)
    if channels != x.dims[-1] or operation["groups"] != 1:
        raise Refused("weights for other channels")
    shape, steps = (columns, channels, *kernel), (strides[1], strides[0], *strides[2:])
    weights = planner.given(number, planner.library.strided(shape, steps), shape)
    window, extents = _spread(operation, x, kernel)
    describe = partial(planner.library.deconvolution, window=window)
    operands = (x, weights, _bias(planner, operation, columns))
    dims = (x.dims[0], *extents, columns)
    return _convolved(planner, operation, after, operands, shape, dims, describe)


def _spread(
    operation: Operation, x: Operand, kernel: Sequence[int]
) -> tuple[api.Window, tuple[int, ...]]:
    """How a window moves over the result of a transposed convolution, and the result's extents."""
    names = ("stride", "dilation", "padding", "output_padding")
    stride, dilation, before, more = (operation[name] for name in names)
    after = tuple(cut - extra for cut, extra in zip(before, more, strict=True))
    attributes = dict(operation.attributes)
    extents = tuple(
        n * stride[axis] + transposed_excess(attributes, kernel[axis], axis)
        for axis, n in enumerate(x.dims[1:-1])
    )
    if min(extents) < 1:
        raise Refused("a result without pixels")
    return api.Window(tuple(kernel), stride, dilation, before, after), extents


class _Describe(Protocol):
    """`Library.convolution` or its like, with a window."""

    def __call__(
        self,
        arrays: tuple[api.Owned, api.Owned, api.Owned | None, api.Owned],
        *,
        post_ops: Sequence[api.PostOp],
    ) -> api.Description: ...


def _convolved(
    planner: Planner,
    operation: Operation,
    after: After,
    operands: tuple[Operand, Operand, Operand | None],
    shape: tuple[int, ...],
    dims: tuple[int, ...],
    describe: _Describe,
) -> Operand:
    """Images, weights of a shape and a bias to images; weights are in the order of the library."""
    library = planner.library
    x, weights, bias = operands
    source, wanted = _any(planner, x.dims), library.tagged(shape, "any")

    def described_with(result: api.Owned, post_ops: Sequence[api.PostOp]) -> api.Description:
        return describe((source, wanted, _descriptor(bias), result), post_ops=post_ops)

    given = [x, weights, *([bias] if bias else [])]
    terms = math.prod(shape) // dims[-1]
    changes = after.changes(planner, operation)
    result = _any(planner, dims)
    made = described(planner, dims, result, given, _sum(terms), changes, described_with)
    arrays = {
        api.SOURCE: planner.moved(x, library.argument(made.description, api.SOURCE)),
        api.WEIGHTS: planner.moved(weights, library.argument(made.description, api.WEIGHTS)),
        api.RESULT: made.result,
    }
    if bias:
        arrays[api.BIAS] = bias
    planner.execute(made.description, arrays, made.added)
    return made.result


def _sum(terms: int) -> Callable[[Sequence[float]], float]:
    """How large a sum of products is at most, with a bias."""

    def bound(sizes: Sequence[float]) -> float:
        x, weights, *bias = sizes
        return terms * x * weights + sum(bias)

    return bound


def _window(operation: Operation, x: Operand) -> tuple[api.Window, tuple[int, ...]]:
    """How a window moves over images, and how many places it has along each axis."""
    kernel, stride, dilation = (operation[name] for name in ("kernel", "stride", "dilation"))
    before = tuple(pair[0] for pair in operation["padding"])
    after, places = [], []
    axes = zip(x.dims[1:-1], kernel, stride, dilation, operation["padding"], strict=True)
    reaches_over = dict(operation.attributes).get("ceil_mode", False)
    for extent, taps, step, apart, around in axes:
        span = apart * (taps - 1) + 1
        count = window_count(extent, span, step, around, reaches_over)
        if count < 1:
            raise Refused("a window that has no place")
        places.append(count)
        after.append((count - 1) * step + span - extent - around[0])
    return api.Window(kernel, stride, dilation, before, tuple(after)), tuple(places)


def _weights(planner: Planner, operation: Operation) -> tuple[Operand, int, int]:
    """The weights of a product, how many groups they have, and the channels of one."""
    number = operation.operands[1]
    assert isinstance(number, int)
    if number >= len(planner.shapes):
        maker = planner.program.operations[number - len(planner.shapes)]
        weights = planner.operands[number]
        if weights.dims[0] != operation["columns"] or weights.dims[2:] != operation["kernel"]:
            raise Refused("weights of another shape")
        return weights, maker["groups"], weights.dims[1]
    groups, panels, *kernel, channels, width = planner.in_c_order(number)
    columns = operation["columns"] // groups
    if tuple(kernel) != operation["kernel"] or panels != -(-columns // width):
        raise Refused("weights of another shape")
    # A linear map is described as a convolution along one axis.
    kernel = kernel or [1]
    shape, axes = (columns, channels, *kernel), len(kernel)
    tag = f"A{'cde'[:axes]}b{width}a"
    if groups > 1:
        shape, tag = (groups, *shape), f"aB{'def'[:axes]}c{width}b"
    weights = planner.given(number, planner.library.tagged(shape, tag), shape)
    return weights, groups, channels


def _unpacked(planner: Planner, operation: Operation, after: After) -> Operand:
    """Weights that are to be packed: the library takes them as they are."""
    number, groups = operation.operands[0], operation["groups"]
    if not isinstance(number, int) or number >= len(planner.shapes):
        raise Refused("weights that are computed")
    dims, strides = planner.shape(number)
    if dims[0] % groups:
        raise Refused("groups that do not divide the columns")
    if groups > 1:
        columns = dims[0] // groups
        dims, strides = (groups, columns, *dims[1:]), (columns * strides[0], *strides)
    weights = planner.given(number, planner.library.strided(dims, strides), dims)
    return Operand(planner.shapes[number][0], weights.descriptor, weights.buffer, weights.bound)


# Products of matrices ---------------------------------------------------------------------


def _linear(planner: Planner, operation: Operation, after: After) -> Operand:
    library = planner.library
    x = _operand(planner, operation, 0)
    packed, groups, terms = _weights(planner, operation)
    columns = operation["columns"]
    if groups != 1 or x.dims[-1] != terms:
        raise Refused("weights for other channels")
    flat = library.reshaped(packed.descriptor, (columns, terms))
    by_rows = library.permuted(flat, (1, 0))
    weights = Operand((terms, columns), by_rows, packed.buffer, packed.bound)
    bias = _bias(planner, operation, columns)
    return _multiplied(planner, operation, after, x, weights, bias)


def _matmul(planner: Planner, operation: Operation, after: After) -> Operand:
    x, weights = (_operand(planner, operation, place) for place in (0, 1))
    if len(x.dims) != 2 or len(weights.dims) != 2 or x.dims[1] != weights.dims[0]:
        raise Refused("matrices that do not fit")
    return _multiplied(planner, operation, after, x, weights, None)


def _multiplied(
    planner: Planner,
    operation: Operation,
    after: After,
    x: Operand,
    weights: Operand,
    bias: Operand | None,
) -> Operand:
    """The rows of an array times a matrix; results are in C order."""
    library = planner.library
    terms, columns = weights.dims
    dims = (*x.dims[:-1], columns)
    rows = x if len(x.dims) == 2 else _matrix(planner, x)
    is_constant = weights.buffer.constant is not None
    wanted = library.tagged(weights.dims, "any") if is_constant else weights.descriptor
    if bias:
        descriptor = library.strided((1, columns), (columns, 1))
        bias = Operand((1, columns), descriptor, bias.buffer, bias.bound)
    extents = (rows.dims[0], columns)

    def describe(result: api.Owned, post_ops: Sequence[api.PostOp]) -> api.Description:
        arrays = (rows.descriptor, wanted, _descriptor(bias), result)
        return library.matmul(arrays, post_ops)

    operands = [x, weights, *([bias] if bias else [])]
    changes = [
        one
        if one.operand is None or one.operand.dims != dims
        else replace(one, operand=_matrix(planner, one.operand))
        for one in after.changes(planner, operation)
    ]
    result = planner.row_major(extents)
    made = described(planner, extents, result, operands, _sum(terms), changes, describe)
    arrays = {
        api.SOURCE: rows,
        api.WEIGHTS: planner.moved(weights, library.argument(made.description, api.WEIGHTS)),
        api.RESULT: made.result,
    }
    if bias:
        arrays[api.BIAS] = bias
    planner.execute(made.description, arrays, made.added)
    return Operand(dims, planner.row_major(dims), made.result.buffer, made.result.bound)


def _matrix(planner: Planner, x: Operand) -> Operand:
    """An array in C order as a matrix of its rows."""
    plain = planner.moved(x, planner.row_major(x.dims))
    dims = (math.prod(x.dims[:-1]), x.dims[-1])
    return Operand(dims, planner.row_major(dims), plain.buffer, plain.bound)


# Pooling and elementwise operations -------------------------------------------------------


def _pooled(planner: Planner, operation: Operation, after: After) -> Operand:
    library = planner.library
    x = _operand(planner, operation, 0)
    window, extents = _window(operation, x)
    if not _has_elements(window):
        raise Refused("windows without elements")
    dims = (x.dims[0], *extents, x.dims[-1])
    changes: list[Change] = []
    algorithm = "pooling_max"
    if operation.kind == "nn::window_mean":
        algorithm, factor = _mean(operation, window)
        if factor != 1:
            changes.append(change_by(planner, "np::multiply", factor))

    def describe(result: api.Owned, post_ops: Sequence[api.PostOp]) -> api.Description:
        return library.pooling(algorithm, (x.descriptor, result), window, post_ops)

    made = described(planner, dims, _any(planner, dims), [x], _first, changes, describe)
    arrays = {api.SOURCE: x, api.RESULT: made.result}
    planner.execute(made.description, arrays, made.added)
    return made.result


def _first(sizes: Sequence[float]) -> float:
    return sizes[0]


def _has_elements(window: api.Window) -> bool:
    """Whether every place of a window has an element of the image, as is easily seen."""
    if all(one <= 0 for one in (*window.before, *window.after)):
        return True
    is_dense = all(one == 1 for one in window.dilation)
    around = zip(window.kernel, window.before, window.after, strict=True)
    return is_dense and all(max(before, after) < taps for taps, before, after in around)


def _mean(operation: Operation, window: api.Window) -> tuple[str, float]:
    """The library's mean that is this one, and what its results are multiplied by.

    It counts either all taps or those in the image.
    """
    divisor, border, padding = (operation[name] for name in ("divisor", "border", "padding"))
    if divisor is not None:
        return "pooling_avg_include_padding", math.prod(operation["kernel"]) / divisor
    if all(one == 0 for pair in border for one in pair):
        return "pooling_avg_exclude_padding", 1.0
    ends = zip(window.after, border, strict=True)
    if border == padding and all(after <= pair[1] for after, pair in ends):
        return "pooling_avg_include_padding", 1.0
    raise Refused("a mean that counts some of the border")


def _elementwise(planner: Planner, operation: Operation, after: After) -> Operand:
    """An operation on an array by itself; whatever else it does becomes a post-op."""
    library = planner.library
    own = dict(operation.attributes).get(FULL, (True,)).index(True)
    x = _operand(planner, operation, own)
    change, *rest = changes_of(planner, operation, own)
    changes = [*rest, *after.changes(planner, operation)]
    y = change.operand and fitting(planner, change.operand, x.dims, x.descriptor)
    wanted = _any(planner, x.dims)

    def describe(result: api.Owned, post_ops: Sequence[api.PostOp]) -> api.Description:
        if isinstance(change.post_op, api.Eltwise):
            return library.eltwise(change.post_op, (x.descriptor, result), post_ops)
        assert y is not None
        return library.binary(change.post_op, (x.descriptor, y.descriptor, result), post_ops)

    def bound(sizes: Sequence[float]) -> float:
        return change.bound(sizes[0], sizes[1] if y else 0.0)

    operands = [x, *([y] if y else [])]
    made = described(planner, x.dims, wanted, operands, bound, changes, describe)
    arrays = {api.SOURCE: x, api.RESULT: made.result}
    if y:
        arrays[api.SECOND_SOURCE] = y
    planner.execute(made.description, arrays, made.added)
    return made.result


def _copy(planner: Planner, operation: Operation, after: After) -> Operand:
    """Arrays have no order here, so their copy is the same."""
    return _operand(planner, operation, 0)


# Operands ---------------------------------------------------------------------------------


def _operand(planner: Planner, operation: Operation, place: int) -> Operand:
    number = operation.operands[place]
    assert isinstance(number, int)
    return planner.operand(number)


def _bias(planner: Planner, operation: Operation, columns: int) -> Operand | None:
    if operation.operands[2] is None:
        return None
    bias = _operand(planner, operation, 2)
    if bias.dims != (columns,):
        raise Refused("a bias of another length")
    return bias


def _descriptor(operand: Operand | None) -> api.Owned | None:
    return None if operand is None else operand.descriptor


def _any(planner: Planner, dims: Sequence[int]) -> api.Owned:
    """Images in whatever format the library likes."""
    return planner.library.tagged(image_order(dims), "any")


_RULES: dict[str, Rule] = {
    "np::copy": _copy,
    "nn::packed": _unpacked,
    "nn::product": _product,
    "nn::window_sum": _depthwise,
    "nn::transposed_product": _deconvolution,
    "nn::window_max": _pooled,
    "nn::window_mean": _pooled,
    "np::matmul": _matmul,
}
"""What is in no row is elementwise."""
