"""Views: new offsets, extents and strides over the same memory, or over a lazy value."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen.loops import Binary, Call, Const, Expr, Var
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
    product,
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
from jitcore.codegen.lowering.facts import is_written_while_used
from jitcore.codegen.lowering.nest import write
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Axis,
    Element,
    Lazy,
    NewAxis,
    NotNative,
    Operand,
    Order,
    Pair,
    Point,
    Slice,
    row_major,
)
from jitcore.codegen.lowering.orders import aligned_order
from jitcore.codegen.lowering.ranges import Linear
from jitcore.codegen.lowering.state import MAX_RANK, Lowering, Rule
from jitcore.ir.graph import Node
from jitcore.ir.reference import IndexOperand, IndexSlice, parse_index
from jitcore.ir.types import TensorType

__all__ = ["RULES", "checked_index", "index_axes", "slice_axis"]


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
    """The places a slice selects, clamped as ``slice.indices`` does (CPython, sliceobject.c)."""

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
        first = ZERO if start is None else let("start", _clamp(lowering, start, extent, ZERO))
        last = extent if stop is None else let("stop", _clamp(lowering, stop, extent, ZERO))
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


def _reshape(lowering: Lowering, node: Node) -> Operand:
    base = lowering.array(node.inputs[0])
    wanted = [lowering.scalar(value) for value in node.inputs[1:]]
    size = lowering.size(base.dims)
    message = "cannot reshape array of size {0} into shape " + shape_template(len(wanted), 1)
    differs = compare("ne", lowering.emitter.shared("size", product(wanted)), size)
    for one in wanted:
        # An int that only a run tells may be -1, or one of two negative ones.
        if not isinstance(one, Const) and one not in base.dims:
            differs = either(differs, compare("lt", one, ZERO))
    lowering.fail(differs, ValueError, message, [size, *wanted])
    dims = define_dims(lowering, node.output, wanted)
    if not lowering.is_contiguous(base):
        split = _strides_of_reshape(lowering, base, dims)
        if split is not None:
            strides, order = split
            return lowering.view(base, dims=dims, strides=strides, order=order)
        is_seen = lowering.escapes(node.output) or is_written_while_used(node.output)
        if lowering.writes and is_seen:
            raise NotNative("a reshape of a strided array, where a write could tell view from copy")
        base = _in_order(lowering, node, base)
    return lowering.view(
        base, dims=dims, strides=lowering.strides(dims), order=row_major(len(dims))
    )


def _set_shape(lowering: Lowering, node: Node) -> Operand:
    """The same array with other extents, which an ``ndarray`` has to know itself."""
    base = lowering.array(node.inputs[0])
    if base.input is not None:
        raise NotNative("an argument gets another shape")
    if node.inputs[0] in lowering.listed:
        raise NotNative("an array that may be in a list gets another shape")
    if not lowering.is_contiguous(base):
        raise NotNative("an array gets another shape that is not in C order without gaps")
    view = _reshape(lowering, node)
    assert isinstance(view, ArrayRef)
    if not base.whole:
        return view
    if base.owner is not None and base.owner.is_object:
        padding = [ONE] * (MAX_RANK - view.rank)
        operands = (base.owner.pointer, integer(view.rank), *view.dims, *padding)
        call = Call("jc_set_shape", operands, "int64", external=True)
        status = lowering.emitter.let("status", call)
        lowering.fail(compare("ne", status, ZERO), MemoryError)
    return replace(view, whole=True)


def _strides_of_reshape(
    lowering: Lowering, base: ArrayRef, dims: Sequence[Expr]
) -> tuple[tuple[Expr, ...], Order] | None:
    """The strides of a view in another shape; None where NumPy copies (or only the run shows).

    Each group of axes has a view where it is one axis before, or axes that are adjacent in memory
    (``_attempt_nocopy_reshape`` in NumPy's ``shape.c``).
    """
    places = base.order
    if places is None:
        return None
    old = [axis for axis in range(base.rank) if base.dims[axis] != ONE]
    new = [axis for axis, dim in enumerate(dims) if dim != ONE]
    groups = _groups_of_reshape([base.dims[axis] for axis in old], [dims[axis] for axis in new])
    if groups is None:
        return None
    strides: dict[int, Expr] = {}
    order: dict[int, int] = {}
    let = lowering.emitter.shared
    for few, many in groups:
        axes, parts = old[:few], new[:many]
        del old[:few], new[:many]
        if not _is_one_axis(lowering, base, axes, [dims[axis] for axis in parts], len(dims)):
            return None
        number = places[axes[-1]]
        for place, axis in enumerate(reversed(parts)):
            size = product([dims[one] for one in parts[many - place :]])
            strides[axis] = let("stride", multiply(base.strides[axes[-1]], size))
            order[axis] = number * len(dims) + place if number else 0
    return (
        tuple(strides.get(axis, ZERO) for axis in range(len(dims))),
        tuple(order.get(axis, 0) for axis in range(len(dims))),
    )


def _groups_of_reshape(old: list[Expr], new: list[Expr]) -> list[tuple[int, int]] | None:
    """How many axes of each shape are as large together, from the first on; None of other sizes.

    Where extents are unknown, equal ones are paired from both ends, and the others are one group.
    """
    extents: list[int] = [dim.value for dim in (*old, *new) if isinstance(dim, Const)]
    if len(extents) == len(old) + len(new) and 0 not in extents:
        return _smallest_groups(extents[: len(old)], extents[len(old) :])
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    few, many = len(old) - first - last, len(new) - first - last
    if many and not few:
        return None
    middle = [(few, many)] if few else []
    return [(1, 1)] * first + middle + [(1, 1)] * last


def _smallest_groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]] | None:
    """How many axes of known extents are as large together, in groups as small as can be."""
    if math.prod(old) != math.prod(new):
        return None
    groups: list[tuple[int, int]] = []
    begin, start = 0, 0
    while begin < len(old):
        end, stop = begin + 1, start + 1
        while (before := math.prod(old[begin:end])) != (after := math.prod(new[start:stop])):
            if after < before:
                stop += 1
            else:
                end += 1
        groups.append((end - begin, stop - start))
        begin, start = end, stop
    return groups


def _is_one_axis(
    lowering: Lowering, base: ArrayRef, axes: Sequence[int], parts: Sequence[Expr], rank: int
) -> bool:
    """Whether axes are adjacent that become others, of an array of this rank; else NumPy copies."""
    places = base.order
    assert places is not None
    for place, (one, two) in enumerate(itertools.pairwise(axes)):
        step = lowering.emitter.shared("stride", multiply(base.strides[two], base.dims[two]))
        if base.strides[one] == step:
            continue
        if rank > 1 and not _are_apart(places, one, two):
            _require_gap(lowering, base.strides[one], step)
        before = product([base.dims[axis] for axis in axes[: place + 1]])
        for count in range(1, len(parts)):
            _require_other(lowering, before, product(parts[:count]))
        return False
    return True


def _are_apart(order: Order, one: int, two: int) -> bool:
    """Whether the steps of an axis are surely not as long as all of the next axis."""
    is_between = any(order[two] < number < order[one] for number in order)
    return order[one] <= order[two] or is_between


def _require_gap(lowering: Lowering, stride: Expr, step: Expr) -> None:
    """Go on where NumPy copies: what it makes without a gap is a view in another order."""
    if isinstance(stride, Const) and isinstance(step, Const):
        return
    if lowering.has_written:
        raise NotNative("a reshape of an array that may have no gaps, after a write")
    lowering.fail(compare("eq", stride, step), None, "an array without gaps")


def _require_other(lowering: Lowering, before: Expr, after: Expr) -> None:
    """Go on where axes that are apart in memory stay in one group: where none ends with both."""
    if isinstance(before, Const) and isinstance(after, Const):
        return
    if lowering.has_written:
        raise NotNative("a reshape that may split an array between its axes, after a write")
    lowering.fail(compare("eq", before, after), None, "a shape that keeps an array's first axes")


def _check_reshape(lowering: Lowering, node: Node) -> Operand:
    base = lowering.array(node.inputs[0])
    extents = [lowering.scalar(value) for value in node.inputs[1:]]
    known = [one for one in extents if not _is_unknown(one)]
    numbers = iter(range(1, len(known) + 1))
    texts = ["newaxis" if _is_unknown(one) else f"{{{next(numbers)}}}" for one in extents]
    # NumPy's text leaves out an unknown extent that comes first.
    shape = ",".join(texts[1:] if _is_unknown(extents[0]) else texts)
    message = f"cannot reshape array of size {{0}} into shape ({shape})"
    size = lowering.size(base.dims)
    others = lowering.emitter.shared("size", product(known))
    payload = [size, *known]
    negative: Expr = FALSE
    for one in known:
        negative = either(negative, compare("lt", one, ZERO))
    lowering.fail(negative, ValueError, "can only specify one unknown dimension")
    lowering.fail(compare("eq", others, ZERO), ValueError, message, payload)
    rest = Binary("rem", size, others, "int64")
    lowering.fail(compare("ne", rest, ZERO), ValueError, message, payload)
    return ()


def _is_unknown(extent: Expr) -> bool:
    return isinstance(extent, Const) and bool(extent.value < 0)


def _ravel(lowering: Lowering, node: Node) -> Operand:
    base = lowering.array(node.inputs[0])
    dims = define_dims(lowering, node.output, [lowering.size(base.dims)])
    if not lowering.is_contiguous(base):
        base = _in_order(lowering, node, base)
    return lowering.view(base, dims=dims, strides=(ONE,), order=row_major(1))


def _in_order(lowering: Lowering, node: Node, base: ArrayRef) -> ArrayRef:
    """A copy in C order."""
    escapes = lowering.escapes(node.output)
    target = lowering.allocate(node.output.name, base.dims, base.dtype, escapes=escapes)
    write(lowering, [(target, base)])
    return target


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


RULES: dict[str, Rule] = {
    "np::view": _view,
    "np::transpose": _transpose,
    "np::diagonal": _diagonal,
    "np::sliding_window_view": _sliding_window_view,
    "np::check_reshape": _check_reshape,
    "np::ravel": _ravel,
    "np::reshape": _reshape,
    "np::set_shape": _set_shape,
    "np::broadcast_to": _broadcast_to,
    "np::real": _part,
    "np::imag": _part,
    "prim::size": _size,
}
