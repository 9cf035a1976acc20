"""Views: new offsets, extents and strides over the same memory, or over a lazy value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitcore.codegen.loops import Binary, Const, Expr, Var
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    ZERO,
    add,
    compare,
    either,
    expression_dtype,
    integer,
    maximum,
    minimum,
    multiply,
    select,
    subtract,
)
from jitcore.codegen.lowering.broadcasting import (
    define_dims,
    fit_dims,
    shape_template,
    stretched,
)
from jitcore.codegen.lowering.elementwise import new_dims
from jitcore.codegen.lowering.nest import write
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Axis,
    Element,
    Lazy,
    NewAxis,
    NotNative,
    Operand,
    Pair,
    Point,
    Slice,
)
from jitcore.codegen.lowering.orders import aligned_order
from jitcore.codegen.lowering.ranges import Linear
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node
from jitcore.ir.reference import IndexOperand, IndexSlice, parse_index
from jitcore.ir.types import TensorType

__all__ = ["RULES", "checked_index", "index_axes", "slice_axis"]


_LARGEST_LITERAL = 2**31
"""A start that may be further away from an array's first element than its end, at most."""


def checked_index(lowering: Lowering, index: Expr, extent: Expr, axis: int) -> Expr:
    """A place of an axis from a Python index: checked, and counted from the end if negative."""
    ranges = lowering.ranges
    if isinstance(index, Const) and index.value < 0:
        lowering.fail(
            compare("gt", integer(-index.value), extent), IndexError, *_bounds(index, extent, axis)
        )
        return lowering.emitter.shared("last", add(extent, index))
    is_low = FALSE if ranges.is_nonnegative(ranges.form(index)) else compare("lt", index, ZERO)
    wrapped = index
    if is_low != FALSE:
        wrapped = lowering.emitter.let("index", select(is_low, add(index, extent), index))
    if is_low == FALSE and ranges.is_below(index, extent):
        return wrapped
    if is_low == FALSE:
        wrong = compare("ge", wrapped, extent)
    else:
        wrong = either(compare("lt", wrapped, ZERO), compare("ge", wrapped, extent))
    lowering.fail(wrong, IndexError, *_bounds(index, extent, axis))
    return wrapped


def _bounds(index: Expr, extent: Expr, axis: int) -> tuple[str, list[Expr]]:
    return f"index {{0}} is out of bounds for axis {axis} with size {{1}}", [index, extent]


def index_axes(
    lowering: Lowering, text: str, operands: Sequence[Expr], dims: Sequence[Expr]
) -> list[Axis]:
    """What an index text means for an array of these dims."""
    axes: list[Axis] = []
    position = 0
    for part in parse_index(text):
        if part is None:
            axes.append(NewAxis())
            continue
        extent = dims[position]
        if isinstance(part, IndexSlice):
            axes.append(slice_axis(lowering, part, operands, extent))
        else:
            index = operands[part.number] if isinstance(part, IndexOperand) else integer(part)
            axes.append(Point(checked_index(lowering, index, extent, position)))
        position += 1
    axes.extend(Slice(ZERO, extent, ONE) for extent in dims[position:])
    return axes


def slice_axis(
    lowering: Lowering, part: IndexSlice, operands: Sequence[Expr], extent: Expr
) -> Slice:
    """The places a slice selects, clamped as ``slice.indices`` does (CPython, sliceobject.c).

    Of a slice without elements nobody looks at the start, so that a literal one stays what it is.
    """

    def bound(given: int | IndexOperand | None) -> Expr | None:
        if given is None or isinstance(given, int):
            return None if given is None else integer(given)
        return operands[given.number]

    step = bound(part.step) or ONE
    start, stop = bound(part.start), bound(part.stop)
    if not isinstance(step, Const):
        return _slice_of_any_step(lowering, start, stop, step, extent)
    let = lowering.emitter.shared
    if step.value > 0:
        first = ZERO if start is None else start
        is_literal = isinstance(first, Const) and 0 <= first.value <= _LARGEST_LITERAL
        if not is_literal:
            first = let("start", _clamp(lowering, first, extent, ZERO))
        last = extent
        if is_literal and isinstance(stop, Const) and stop.value < 0:
            last = add(extent, stop)  # which is not negative where there are elements
        elif stop is not None:
            last = let("stop", _clamp(lowering, stop, extent, ZERO))
        span = subtract(last, first)
    else:
        end = subtract(extent, ONE)
        first = end if start is None else let("start", _clamp(lowering, start, end, integer(-1)))
        last = integer(-1)
        if stop is not None:
            last = let("stop", _clamp(lowering, stop, end, integer(-1)))
        span = subtract(first, last)
    return Slice(let("start", first), _length(lowering, span, abs(step.value)), step)


def _slice_of_any_step(
    lowering: Lowering, start: Expr | None, stop: Expr | None, step: Expr, extent: Expr
) -> Slice:
    """The places that a slice selects whose step is a variable."""
    let, ranges = lowering.emitter.shared, lowering.ranges
    lowering.fail(compare("eq", step, ZERO), ValueError, "slice step cannot be zero")
    is_back = compare("lt", step, ZERO)
    if ranges.is_nonnegative(ranges.form(step)):
        is_back = FALSE
    low = select(is_back, integer(-1), ZERO)
    high = select(is_back, subtract(extent, ONE), extent)

    def place(bound: Expr) -> Expr:
        wrapped = select(compare("lt", bound, ZERO), add(bound, extent), bound)
        return minimum(maximum(wrapped, low), high)

    first = let("start", select(is_back, high, low) if start is None else place(start))
    last = let("stop", select(is_back, low, high) if stop is None else place(stop))
    span = select(is_back, subtract(first, last), subtract(last, first))
    # No step leads further than out of the axis; the largest ints are so kept from overflowing.
    most = maximum(extent, ONE)
    back = subtract(ZERO, maximum(step, subtract(ZERO, most)))
    size = let("step", select(is_back, back, minimum(step, most)))
    count = add(Binary("quot", subtract(span, ONE), size, "int64"), ONE)
    length = let("length", select(compare("gt", span, ZERO), count, ZERO))
    return Slice(first, length, let("step", select(is_back, subtract(ZERO, size), size)))


def _clamp(lowering: Lowering, index: Expr, high: Expr, low: Expr) -> Expr:
    """A slice bound limited to ``low .. high``; negative ones count from the end."""
    extent = high if low == ZERO else add(high, ONE)
    ranges = lowering.ranges
    if isinstance(index, Const):
        if index.value < 0:
            return maximum(add(extent, index), low)
        return minimum(index, high)
    if ranges.is_nonnegative(ranges.form(index)):
        is_small = ranges.is_nonnegative(ranges.form(high).plus(ranges.form(index), -1))
        return index if is_small else minimum(index, high)
    wrapped = select(compare("lt", index, ZERO), add(index, extent), index)
    return minimum(maximum(wrapped, low), high)


def _length(lowering: Lowering, span: Expr, step: int) -> Expr:
    """``ceil(max(span, 0) / step)``."""
    if isinstance(span, Const):
        return integer(max(0, -(-span.value // step)))
    positive = maximum(span, ZERO)
    if step > 1:
        positive = Binary("quot", add(positive, integer(step - 1)), integer(step), "int64")
    return lowering.emitter.shared("length", positive)


def _view(lowering: Lowering, node: Node) -> Operand:
    base = lowering.operand(node.inputs[0])
    operands = [lowering.scalar(value) for value in node.inputs[1:]]
    if not isinstance(base, (ArrayRef, Lazy)):
        raise NotNative("a view of a scalar")
    axes = index_axes(lowering, node.attributes["index"], operands, base.dims)
    dims: list[Expr] = []
    for axis in axes:
        if isinstance(axis, Slice):
            dims.append(axis.length)
        elif isinstance(axis, NewAxis):
            dims.append(ONE)
    defined = define_dims(lowering, node.output, dims)
    if isinstance(base, Lazy):
        return Lazy(node, (base,), defined, base.dtype, detail=tuple(axes))
    return _array_view(lowering, base, axes, defined)


def _array_view(
    lowering: Lowering, base: ArrayRef, axes: Sequence[Axis], dims: tuple[Expr, ...]
) -> ArrayRef:
    offset = base.offset
    form: Linear | None = lowering.ranges.form(offset)
    strides: list[Expr] = []
    remaining = iter(base.strides)
    numbers = iter(base.order or ())
    order: list[int] = []
    for axis in axes:
        if isinstance(axis, NewAxis):
            strides.append(ZERO)
            order.append(0)
            continue
        stride = next(remaining)
        number = next(numbers, 0)
        place = axis.index if isinstance(axis, Point) else axis.start
        offset = add(offset, multiply(place, stride))
        form = _moved(lowering, form, place, stride)
        if isinstance(axis, Slice):
            strides.append(lowering.emitter.shared("stride", multiply(stride, axis.step)))
            order.append(number)
    first = lowering.emitter.shared("offset", offset)
    if form is not None:
        # The place of an element is no number that overflows.
        lowering.ranges.define(first, form)
    return lowering.view(
        base,
        offset=first,
        dims=dims,
        strides=tuple(strides),
        order=None if base.order is None else tuple(order),
    )


def _moved(lowering: Lowering, form: Linear | None, place: Expr, stride: Expr) -> Linear | None:
    """``form + place * stride`` as a linear form, where it is one."""
    if form is None or not isinstance(place, (Const, Var)) or not isinstance(stride, Const):
        return None
    return form.plus(lowering.ranges.form(place), stride.value)


def _transpose(lowering: Lowering, node: Node) -> Operand:
    base = lowering.operand(node.inputs[0])
    if not isinstance(base, (ArrayRef, Lazy)):
        return base
    axes = tuple(node.attributes["axes"])
    dims = define_dims(lowering, node.output, [base.dims[axis] for axis in axes])
    if isinstance(base, Lazy):
        return Lazy(node, (base,), dims, base.dtype, detail=axes)
    return lowering.view(
        base,
        dims=dims,
        strides=tuple(base.strides[axis] for axis in axes),
        order=None if base.order is None else tuple(base.order[axis] for axis in axes),
    )


def _diagonal(lowering: Lowering, node: Node) -> Operand:
    base = lowering.array(node.inputs[0])
    offset = node.attributes["offset"]
    one, two = node.attributes["axis1"], node.attributes["axis2"]
    let = lowering.emitter.shared
    rows = subtract(base.dims[one], integer(max(-offset, 0)))
    columns = subtract(base.dims[two], integer(max(offset, 0)))
    others = [axis for axis in range(base.rank) if axis not in (one, two)]
    length = let("length", maximum(minimum(rows, columns), ZERO))
    start = multiply(integer(abs(offset)), base.strides[two if offset > 0 else one])
    order = base.order
    if order is not None:
        order = (*(order[axis] for axis in others), max(order[one], order[two]))
    return lowering.view(
        base,
        offset=let("offset", add(base.offset, start)),
        dims=define_dims(lowering, node.output, [*(base.dims[axis] for axis in others), length]),
        strides=(
            *(base.strides[axis] for axis in others),
            let("stride", add(base.strides[one], base.strides[two])),
        ),
        order=order,
    )


def _sliding_window_view(lowering: Lowering, node: Node) -> Operand:
    base = lowering.array(node.inputs[0])
    axes, extents = node.attributes["axis"], node.attributes["window_shape"]
    dims = list(base.dims)
    for axis, extent in zip(axes, extents, strict=True):
        less = subtract(base.dims[axis], integer(extent - 1))
        dims[axis] = lowering.emitter.shared("positions", less)
    order = base.order
    return lowering.view(
        base,
        dims=define_dims(lowering, node.output, [*dims, *map(integer, extents)]),
        strides=(*base.strides, *(base.strides[axis] for axis in axes)),
        order=None if order is None else (*order, *(order[axis] for axis in axes)),
    )


def _in_memory(lowering: Lowering, node: Node, element: Element) -> ArrayRef:
    """A 0-d array of a scalar."""
    type_ = node.output.type
    assert isinstance(type_, TensorType) and type_.dtype is not None
    escapes = lowering.escapes(node.output)
    target = lowering.allocate(node.output.name, (), type_.dtype, escapes=escapes)
    write(lowering, [(target, element)])
    return target


def _broadcast_to(lowering: Lowering, node: Node) -> Operand:
    base = lowering.operand(node.inputs[0])
    wanted = tuple(lowering.scalar(value) for value in node.inputs[1:])
    message = "all elements of broadcast shape must be non-negative"
    dims = new_dims(lowering, node, wanted, message)
    if not isinstance(base, (ArrayRef, Lazy)):
        base = _in_memory(lowering, node, base)
    message = (
        f"operands could not be broadcast together with remapped shapes [original->remapped]: "
        f"{shape_template(base.rank)}  and requested shape {shape_template(len(dims), base.rank)}"
    )
    modes = fit_dims(lowering, base.dims, dims, message)
    if isinstance(base, Lazy):
        return Lazy(node, (base,), dims, base.dtype, (modes,))
    missing = len(dims) - base.rank
    strides: list[Expr] = [ZERO] * missing
    for stride, mode in zip(base.strides, modes, strict=True):
        strides.append(lowering.emitter.shared("stride", stretched(stride, mode)))
    is_known = all(mode is None or mode == ZERO for mode in modes)
    order = base.order if is_known else None
    return lowering.view(
        base,
        dims=dims,
        strides=tuple(strides),
        order=None if order is None else aligned_order(order, modes, len(dims)),
    )


def _part(lowering: Lowering, node: Node) -> Operand:
    """``np::real`` and ``np::imag``."""
    is_imaginary = node.kind == "np::imag"
    base = lowering.operand(node.inputs[0])
    if isinstance(base, Pair):
        return base.im if is_imaginary else base.re
    if isinstance(base, Lazy):
        dtype = np.dtype(expression_dtype(base.dtype))
        return Lazy(node, (base,), base.dims, dtype, detail=is_imaginary)
    if not isinstance(base, ArrayRef):
        raise NotNative(f"{node.kind} of {node.inputs[0].type}")
    two = integer(2)
    let = lowering.emitter.shared
    return lowering.view(
        base,
        dtype=np.dtype(expression_dtype(base.dtype)),
        offset=let("offset", add(multiply(base.offset, two), integer(int(is_imaginary)))),
        strides=tuple(let("stride", multiply(stride, two)) for stride in base.strides),
        order=base.order,
    )


def _size(lowering: Lowering, node: Node) -> Operand:
    base = lowering.operand(node.inputs[0])
    if not isinstance(base, (ArrayRef, Lazy)):
        raise NotNative("the extent of an axis of a scalar")
    return base.dims[node.attributes["dim"]]


def _slice_length(lowering: Lowering, node: Node) -> Operand:
    extent, *operands = map(lowering.scalar, node.inputs)
    (part,) = parse_index(node.attributes["index"])
    assert isinstance(part, IndexSlice)
    return slice_axis(lowering, part, operands, extent).length


RULES: dict[str, Rule] = {
    "np::view": _view,
    "np::transpose": _transpose,
    "np::diagonal": _diagonal,
    "np::sliding_window_view": _sliding_window_view,
    "np::broadcast_to": _broadcast_to,
    "np::real": _part,
    "np::imag": _part,
    "prim::size": _size,
    "prim::slice_length": _slice_length,
}
