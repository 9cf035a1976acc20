"""Layers: products with packed weights and windows over channels-last arrays, by hand-made kernels.

A kernel takes each array as (memory, offset), and the geometry for three axes: what a graph has
fewer of are axes of extent 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitcore.codegen.kernels import packing, products, reductions
from jitcore.codegen.kernels.tiles import lanes_of, panel_width
from jitcore.codegen.kernels.windows import MAX_CHANNELS
from jitcore.codegen.loop_passes.parallel import UNKNOWN_TRIPS
from jitcore.codegen.loops import Binary, Call, Const, Do, Expr
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    compare,
    constant,
    integer,
    multiply,
    product,
    select,
    subtract,
)
from jitcore.codegen.lowering.broadcasting import define_dims, type_dims
from jitcore.codegen.lowering.elements import load, store, uncollapsed
from jitcore.codegen.lowering.nest import nest, write
from jitcore.codegen.lowering.operands import ArrayRef, NotNative, Operand
from jitcore.codegen.lowering.state import NULL, Lowering, Rule
from jitcore.codegen.targets import CONVOLUTION
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.layer_kernels import transposed_excess

__all__ = ["RULES", "addresses", "contiguous", "result", "result_dims"]

AXES = 3

_FAILED = "the device's library failed in a convolution (status {0})"

FEW_CHANNELS = 16


# Packing ----------------------------------------------------------------------------------


def _packed(lowering: Lowering, node: Node) -> Operand:
    """Zeros stand for the columns that the last panel of a group has not."""
    weight = lowering.array(node.inputs[0])
    groups = node.attributes["groups"]
    columns = _quotient(weight.dims[0], groups)
    if not isinstance(columns, Const):
        raise NotNative("weights whose number of columns only the run shows")
    width = panel_width(columns.value, weight.dtype.name)
    panels = -(-columns.value // width)
    taps, channels = weight.dims[2:], weight.dims[1]
    shape = (integer(groups), integer(panels), *taps, channels, integer(width))
    target = result(lowering, node, weight, shape)
    numbers = (integer(groups), columns, channels, product(taps))
    symbol = packing.symbol(weight.dtype.name, width // lanes_of(weight.dtype.name).count)
    _call(lowering, symbol, (*addresses((contiguous(lowering, weight), target)), *numbers))
    return target


def _quotient(x: Expr, count: int) -> Expr:
    if isinstance(x, Const):
        return integer(x.value // count)
    return x if count == 1 else Binary("quot", x, integer(count), "int64")


# Products ---------------------------------------------------------------------------------


def _product(lowering: Lowering, node: Node) -> Operand:
    x, packed = (contiguous(lowering, lowering.array(value)) for value in node.inputs[:2])
    attributes = node.attributes
    lanes = lanes_of(x.dtype.name)
    groups, width, channels = packed.dims[0], packed.dims[-1], packed.dims[-2]
    if not isinstance(groups, Const) or not isinstance(width, Const):
        raise NotNative("packed weights whose panels only the run shows")
    vectors = width.value // lanes.count
    if width.value % lanes.count or vectors not in lanes.tiles:
        raise NotNative(f"panels of {width.value} columns, which this machine has no kernel for")
    _check_taps(lowering, attributes["kernel"], x)
    lowering.fail(compare("ne", x.dims[-1], multiply(channels, groups)), None)
    geometry, extents = _geometry(lowering, x.dims, attributes)
    apart = x.dims[-1]
    if _is_narrow(attributes["kernel"], channels, groups):
        x, channels, geometry = _with_joined_taps(lowering, x, channels, attributes, geometry)
    rows = x.dims[:1] if attributes["kernel"] else x.dims[:-1]
    columns = attributes["columns"]
    target = result(lowering, node, x, [*rows, *extents, integer(columns)])
    residual = _optional(lowering, node.inputs[3])
    if residual is not None:
        residual = contiguous(lowering, residual)
    arrays = (x, packed, _bias(lowering, node.inputs[2], integer(columns)), residual, target)
    pixels = lowering.size(target.dims[:-1])
    times = integer(UNKNOWN_TRIPS if lowering.loop_depth else 1)
    numbers = (pixels, channels, apart, groups, integer(columns // groups.value), times)
    args = (*addresses(arrays), *numbers, *geometry, *_limits(attributes, x))
    _call(lowering, products.symbol(x.dtype.name, vectors), args)
    return target


def _is_narrow(kernel: Sequence[int], channels: Expr, groups: Const) -> bool:
    """Whether a tap has so few channels that finding it takes longer than multiplying it."""
    is_few = isinstance(channels, Const) and channels.value <= FEW_CHANNELS
    return is_few and groups == ONE and bool(kernel) and kernel[-1] > 1


def _with_joined_taps(
    lowering: Lowering,
    x: ArrayRef,
    channels: Expr,
    attributes: dict[str, Any],
    geometry: list[Expr],
) -> tuple[ArrayRef, Expr, list[Expr]]:
    """The taps along the last axis as one: in memory they are neighbours.

    There must be zeros around that axis for those that lie outside.
    """
    before, after = attributes["padding"][-1]
    if attributes["dilation"][-1] > 1:
        return x, channels, geometry
    if before or after:
        x = _padded_along(lowering, x, before, after)
    changed = list(geometry)
    for place, value in ((0, x.dims[-2]), (2, ONE), (4, ZERO)):
        changed[place * AXES + AXES - 1] = value
    return x, multiply(channels, integer(attributes["kernel"][-1])), changed


def _padded_along(lowering: Lowering, x: ArrayRef, before: int, after: int) -> ArrayRef:
    """A copy with zeros around the last axis but one."""
    width = add(x.dims[-2], integer(before + after))
    dims = (*x.dims[:-2], width, x.dims[-1])
    padded = lowering.allocate("padded", dims, x.dtype, escapes=False)
    zero = constant(0, x.dtype.name)
    source, target = _joined_pixels(lowering, x), _joined_pixels(lowering, padded)
    first = multiply(integer(before), x.dims[-1])
    last = add(first, source.dims[-1])
    with nest(lowering, dims[:-2], parallel=True) as outer:
        for start, stop in ((ZERO, first), (first, last), (last, target.dims[-1])):
            with lowering.emitter.loop("element", start, stop) as element:
                value: Expr = zero
                if start is first:
                    inner = subtract(element, first)
                    value = load(source, uncollapsed([*outer.entries, inner]))
                store(lowering, target, uncollapsed([*outer.entries, element]), value)
    return padded


def _joined_pixels(lowering: Lowering, x: ArrayRef) -> ArrayRef:
    """A line of an array in C order, with the channels of all its pixels, as one axis."""
    dims = (*x.dims[:-2], multiply(x.dims[-2], x.dims[-1]))
    return lowering.view(x, dims=dims, strides=(*x.strides[:-2], ONE))


def _window(kind: str) -> Rule:
    def rule(lowering: Lowering, node: Node) -> Operand:
        x = contiguous(lowering, lowering.array(node.inputs[0]))
        attributes = node.attributes
        _check_taps(lowering, attributes["kernel"], x)
        geometry, extents = _geometry(lowering, x.dims, attributes)
        channels = x.dims[-1]
        target = result(lowering, node, x, [x.dims[0], *extents, channels])
        weight: ArrayRef | None = None
        bias: ArrayRef | None = None
        if kind == "sum":
            weight = contiguous(lowering, lowering.array(node.inputs[1]))
            lowering.fail(compare("ne", weight.dims[-1], channels), None)
            bias = _bias(lowering, node.inputs[2], channels)
        numbers = (lowering.size(target.dims[:-1]), channels)
        border = [integer(n) for pair in _padded(attributes.get("border", ())) for n in pair]
        divisor = constant(attributes.get("divisor") or 0, x.dtype.name)
        args = (*addresses((x, weight, bias, target)), *numbers, *geometry, *border, divisor)
        _call(lowering, reductions.symbol(kind, x.dtype.name), (*args, *_limits(attributes, x)))
        return target

    return rule


def _library_convolution(lowering: Lowering, node: Node) -> Operand:
    attributes, groups = node.attributes, integer(node.attributes["groups"])
    x, weight = (contiguous(lowering, lowering.array(value)) for value in node.inputs[:2])
    target = lowering.array(node.inputs[2])
    batch, channels, *extents = x.dims
    geometry, _ = _geometry(lowering, [batch, *extents, channels], attributes)
    numbers = (batch, channels, target.dims[1], groups, integer(len(extents)))
    args = (*addresses((x, weight, target)), *numbers, *geometry)
    call = Call(f"{CONVOLUTION}{x.dtype.name}", args, "int64", external=True)
    status = lowering.emitter.copy("status", call)
    lowering.fail(compare("gt", status, ONE), RuntimeError, _FAILED, [status])
    return compare("eq", status, ZERO)


# Operands ---------------------------------------------------------------------------------


def contiguous(lowering: Lowering, array: ArrayRef) -> ArrayRef:
    """The array, or a copy of it in C order."""
    if lowering.is_contiguous(array):
        return array
    copy = lowering.allocate("contiguous", array.dims, array.dtype, escapes=False)
    write(lowering, [(copy, array)])
    return copy


def _optional(lowering: Lowering, value: Value) -> ArrayRef | None:
    if value.constant is not None and value.constant.attributes["value"] is None:
        return None
    return lowering.array(value)


def _bias(lowering: Lowering, value: Value, columns: Expr) -> ArrayRef | None:
    bias = _optional(lowering, value)
    if bias is None:
        return None
    lowering.fail(compare("ne", bias.dims[0], columns), None)
    return contiguous(lowering, bias)


def result(lowering: Lowering, node: Node, like: ArrayRef, dims: Sequence[Expr]) -> ArrayRef:
    extents = define_dims(lowering, node.output, dims)
    escapes = lowering.escapes(node.output)
    return lowering.allocate(node.output.name, extents, like.dtype, escapes=escapes)


def addresses(arrays: Sequence[ArrayRef | None]) -> list[Expr]:
    pairs = [(NULL, ZERO) if one is None else (one.pointer, one.offset) for one in arrays]
    return [part for pair in pairs for part in pair]


def _limits(attributes: dict[str, Any], x: ArrayRef) -> tuple[Expr, Expr]:
    infinity = float("inf")
    low, high = attributes.get("low", -infinity), attributes.get("high", infinity)
    return constant(low, x.dtype.name), constant(high, x.dtype.name)


def _call(lowering: Lowering, symbol: str, args: Sequence[Expr]) -> None:
    lowering.emitter.emit(Do(Call(symbol, tuple(args), "void", external=True)))


# Geometry ---------------------------------------------------------------------------------


def _check_taps(lowering: Lowering, kernel: Sequence[int], x: ArrayRef) -> None:
    taps = 1
    for extent in kernel:
        taps *= extent
    if taps > min(products.MAX_TAPS, reductions.MAX_TAPS):
        raise NotNative(f"a kernel of {taps} taps")
    if kernel:
        lowering.fail(compare("gt", x.dims[-1], integer(MAX_CHANNELS)), None)


def result_dims(lowering: Lowering, node: Node, dims: Sequence[Expr]) -> list[Expr]:
    """The extents of what a product or a window makes of images with these."""
    attributes = node.attributes
    if node.kind == "nn::transposed_product":
        return _spread_dims(node, dims)
    _, extents = _geometry(lowering, dims, attributes)
    rows = dims[:1] if attributes["kernel"] else dims[:-1]
    columns = integer(attributes["columns"]) if "columns" in attributes else dims[-1]
    return [*rows, *extents, columns]


def _spread_dims(node: Node, dims: Sequence[Expr]) -> list[Expr]:
    """The extents of what a transposed convolution makes of images with these."""
    attributes, shape = node.attributes, [int(n) for n in type_dims(node.inputs[1])]
    extents = [
        add(multiply(n, integer(stride)), integer(transposed_excess(attributes, taps, axis)))
        for axis, (n, stride, taps) in enumerate(
            zip(dims[1:-1], attributes["stride"], shape[2:], strict=True)
        )
    ]
    return [dims[0], *extents, integer(shape[1] * attributes["groups"])]


def _geometry(
    lowering: Lowering, dims: Sequence[Expr], attributes: dict[str, Any]
) -> tuple[list[Expr], list[Expr]]:
    """The kernel's arguments, and the extents of the result that windows move along."""
    kernel = attributes["kernel"]
    if not kernel:
        rows = product(dims[:-1])
        one = [ONE] * AXES
        pixels: list[Expr] = [*one[1:], rows]
        return [*pixels, *pixels, *one, *one, *[ZERO] * AXES, *one], []
    extents = dims[1:-1]
    found = []
    for number, extent in enumerate(extents):
        before, after = attributes["padding"][number]
        span = attributes["dilation"][number] * (kernel[number] - 1) + 1
        room = subtract(add(extent, integer(before + after)), integer(span))
        stride = attributes["stride"][number]
        if attributes.get("ceil_mode"):
            found.append(_count_over_end(lowering, room, stride, add(extent, integer(before))))
        else:
            lowering.fail(compare("lt", room, ZERO), None)
            found.append(add(_quotient(room, stride), ONE))
    missing = AXES - len(kernel)
    ones, zeros = (1,) * missing, (0,) * missing
    before = tuple(pair[0] for pair in attributes["padding"])
    lists: list[Sequence[Expr]] = [[ONE] * missing + [*extents], [ONE] * missing + found]
    for numbers in (
        (*ones, *kernel),
        (*ones, *attributes["stride"]),
        (*zeros, *before),
        (*ones, *attributes["dilation"]),
    ):
        lists.append([integer(number) for number in numbers])
    return [one for numbers in lists for one in numbers], found


def _count_over_end(lowering: Lowering, room: Expr, stride: int, end: Expr) -> Expr:
    """How many windows there are where the last may reach over the end, but not begin there.

    Parameters
    ----------
    lowering : Lowering
    room : Expr
        How far the first window can move.
    stride : int
    end : Expr
        Where the frame behind the image begins, counted from where that before it does.
    """
    lowering.fail(compare("le", room, integer(-stride)), None)
    lowering.fail(compare("lt", end, ONE), None)
    moves = _quotient(add(room, integer(stride - 1)), stride)
    begins_behind = compare("ge", multiply(moves, integer(stride)), end)
    return select(begins_behind, moves, add(moves, ONE))


def _padded(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(0, 0)] * (AXES - len(pairs)) + list(pairs)


RULES: dict[str, Rule] = {
    "nn::packed": _packed,
    "nn::product": _product,
    "nn::library_convolution": _library_convolution,
    **{f"nn::window_{kind}": _window(kind) for kind in reductions.KINDS},
}
