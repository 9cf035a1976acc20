"""Advanced indexing by integer arrays, and concatenation."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    TRUE,
    ZERO,
    add,
    both,
    compare,
    either,
    integer,
    multiply,
    negate,
    product,
    select,
)
from jitcore.codegen.lowering.broadcasting import (
    Modes,
    broadcast_extents,
    define_dims,
    fit_dims,
    shape_template,
    type_dims,
)
from jitcore.codegen.lowering.elements import (
    Elements,
    Index,
    load,
    operand_index,
    store,
    uncollapsed,
)
from jitcore.codegen.lowering.elementwise import as_copy, begun_result
from jitcore.codegen.lowering.nest import nest, write
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Lazy,
    NewAxis,
    NotNative,
    Operand,
    Order,
    Slice,
    arrays_in,
    operand_dims,
    row_major,
)
from jitcore.codegen.lowering.orders import (
    aligned_order,
    is_row_major,
    iterated_order,
    joined_order,
    order_of,
)
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.codegen.lowering.views import checked_index, slice_axis
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Node, Value
from jitcore.ir.reference import IndexOperand, IndexSlice, parse_index
from jitcore.ir.types import Dim

__all__ = ["RULES"]


# Concatenation ----------------------------------------------------------------------------


def _concatenate(lowering: Lowering, node: Node) -> Operand:
    axis = node.attributes["axis"]
    operands = [lowering.operand(value) for value in node.inputs]
    if not all(isinstance(one, (ArrayRef, Lazy)) for one in operands):
        raise NotNative("concatenation of scalars")
    dims = list(operands[0].dims)
    for number, operand in enumerate(operands[1:], 1):
        _check_piece(lowering, dims, operand.dims, axis, number)
    length: Expr = ZERO
    starts = []
    for operand in operands:
        starts.append(length)
        length = lowering.emitter.shared("length", add(length, operand.dims[axis]))
    dims[axis] = length
    extents = define_dims(lowering, node.output, dims)
    order = joined_order(operands, len(extents))
    target = begun_result(lowering, node) if is_row_major(order) else None
    if target is None:
        escapes = lowering.escapes(node.output)
        target = lowering.allocate(
            node.output.name, extents, operands[0].dtype, escapes=escapes, order=order
        )
    for operand, start in zip(operands, starts, strict=True):
        piece = _piece(lowering, target, operand, axis, start)
        if not (isinstance(operand, ArrayRef) and operand.roots == target.roots):
            write(lowering, [(piece, operand)])
    return target


def _check_piece(
    lowering: Lowering, first: Sequence[Expr], own: Sequence[Expr], axis: int, number: int
) -> None:
    for other, (one, two) in enumerate(zip(first, own, strict=True)):
        if other == axis:
            continue
        message = (
            "all the input array dimensions except for the concatenation axis must match exactly, "
            f"but along dimension {other}, the array at index 0 has size {{0}} and the array at "
            f"index {number} has size {{1}}"
        )
        lowering.fail(compare("ne", one, two), ValueError, message, [one, two])


def _piece(
    lowering: Lowering, target: ArrayRef, operand: ArrayRef | Lazy, axis: int, start: Expr
) -> ArrayRef:
    """The part of the result that one operand fills."""
    dims = [*target.dims]
    dims[axis] = operand.dims[axis]
    offset = add(target.offset, multiply(start, target.strides[axis]))
    return lowering.view(target, dims=tuple(dims), offset=lowering.emitter.shared("offset", offset))


# Integer arrays ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Advanced:
    """One axis indexed by an integer array, or by a number among such arrays."""

    operand: Operand
    modes: Modes
    extent: Expr


@dataclass(frozen=True, slots=True)
class Indexing:
    """An index with integer arrays.

    Parameters
    ----------
    axes : tuple
        ``Advanced``, ``Slice`` or ``NewAxis`` for each part of the index.
    dims : tuple of Expr
        The extents of what is selected.
    first : int
        The place of the index arrays' own axes in ``dims``.
    shared : int
        How many those are.
    """

    axes: tuple[Advanced | Slice | NewAxis, ...]
    dims: tuple[Expr, ...]
    first: int
    shared: int

    def places(self, elements: Elements, entries: Sequence[Expr]) -> Index:
        """The place in the base of the element selected at ``entries``."""
        arrays = uncollapsed(entries[self.first : self.first + self.shared])
        others = iter([*entries[: self.first], *entries[self.first + self.shared :]])
        found: list[Expr] = []
        emitter = elements.lowering.emitter
        for axis in self.axes:
            if isinstance(axis, Advanced):
                place = elements(axis.operand, operand_index(arrays, axis.modes))
                if isinstance(axis.operand, (ArrayRef, Lazy)):
                    wrapped = select(compare("lt", place, ZERO), add(place, axis.extent), place)
                    place = emitter.hoisted("place", wrapped)
                found.append(place)
                continue
            entry = next(others)
            if isinstance(axis, Slice):
                found.append(add(axis.start, multiply(entry, axis.step)))
        return uncollapsed(found)


def _indexing(
    lowering: Lowering,
    node: Node,
    base: ArrayRef,
    operands: Sequence[Value],
    dims: Sequence[Dim | None],
) -> Indexing:
    """Understand an index and check its numbers.

    ``dims`` are those of what is selected, None where no value has that shape.
    """
    parts = parse_index(node.attributes["index"])
    values = [
        lowering.operand(operands[part.number]) if isinstance(part, IndexOperand) else part
        for part in parts
    ]
    advanced = [
        number for number, part in enumerate(parts) if isinstance(part, (IndexOperand, int))
    ]
    arrays = [operand_dims(values[number]) for number in advanced]
    shared = max(map(len, arrays), default=0)
    together = advanced[-1] - advanced[0] + 1 == len(advanced)
    first = advanced[0] if together else 0
    message = "shape mismatch: indexing arrays could not be broadcast together with shapes "
    own = dims[first : first + shared]
    common, modes = broadcast_extents(lowering, arrays, own, message, exception=IndexError)
    # NumPy does not look at arrays of places where none of these is read.
    is_read = compare("ne", product(common), ZERO) if len(advanced) > 1 else TRUE
    by_part = dict(zip(advanced, modes, strict=True))
    scalars = [_scalar(lowering, value) for value in operands]
    axes: list[Advanced | Slice | NewAxis] = []
    selected: list[Expr] = []
    axis = 0
    for number, (part, value) in enumerate(zip(parts, values, strict=True)):
        if part is None:
            axes.append(NewAxis())
            selected.append(integer(1))
            continue
        extent = base.dims[axis]
        if isinstance(part, IndexSlice):
            found = slice_axis(lowering, part, scalars, extent)
            axes.append(found)
            selected.append(found.length)
        else:
            checked = _checked(lowering, value, extent, axis, is_read)
            axes.append(Advanced(checked, by_part[number], extent))
        axis += 1
    selected[first:first] = common
    return Indexing(tuple(axes), tuple(selected), first, shared)


def _scalar(lowering: Lowering, value: Value) -> Expr:
    """A slice bound; operands that are arrays are no bounds."""
    operand = lowering.operand(value)
    return ZERO if isinstance(operand, (ArrayRef, Lazy)) else lowering.scalar(value)


def _checked(lowering: Lowering, index: Operand, extent: Expr, axis: int, is_read: Expr) -> Operand:
    """An index all of whose numbers lie in the axis, where elements at these places are read."""
    if isinstance(index, int):
        index = integer(index)
    if not isinstance(index, (ArrayRef, Lazy)):
        return checked_index(lowering, index, extent, axis)
    # In a group, no later node reads an index that was written since.
    checked = lowering.checked if lowering.checked is not None else {}
    key = id(index), extent, is_read
    if key not in checked:
        _check(lowering, index, extent, axis, is_read)
        checked[key] = index
    return index


def _check(
    lowering: Lowering, index: ArrayRef | Lazy, extent: Expr, axis: int, is_read: Expr
) -> None:
    """Fail where one of an index's numbers is outside of the axis."""
    emitter = lowering.emitter
    elements = Elements(lowering)
    # The first pass vectorizes; the second one only runs to find which number is wrong.
    wrong = emitter.mutable("wrong", FALSE)
    with nest(lowering, index.dims) as place:
        emitter.assign(wrong, either(wrong, _is_outside(elements(index, place), extent)))
    is_error = both(wrong, is_read)
    if lowering.target.is_device:
        message = f"an index is out of bounds for axis {axis} with size {{0}}"
        lowering.fail(is_error, IndexError, message, [extent])
        return
    with emitter.branch(is_error, unlikely=True):
        again = Elements(lowering)
        with nest(lowering, index.dims) as place:
            number = again(index, place)
            message = f"index {{0}} is out of bounds for axis {axis} with size {{1}}"
            lowering.fail(_is_outside(number, extent), IndexError, message, [number, extent])


def _is_outside(number: Expr, extent: Expr) -> Expr:
    return either(compare("lt", number, negate(extent)), compare("ge", number, extent))


def _gather(lowering: Lowering, node: Node) -> Operand:
    base = lowering.array(node.inputs[0])
    indexing = _indexing(lowering, node, base, node.inputs[1:], type_dims(node.output))
    dims = define_dims(lowering, node.output, indexing.dims)
    escapes = lowering.escapes(node.output)
    in_c_order = node.attributes.get("order") == "C"
    order = None if in_c_order else _gathered_order(base, indexing)
    if lowering.is_lazy and not lowering.target.is_device:
        read = (base, *(axis.operand for axis in indexing.axes if isinstance(axis, Advanced)))
        detail = (base, indexing.places)
        return Lazy(
            node, read, dims, base.dtype, detail=detail, order=order or row_major(len(dims))
        )
    target = lowering.allocate(node.output.name, dims, base.dtype, escapes=escapes, order=order)
    elements = Elements(lowering)
    with nest(lowering, dims, parallel=True) as index:
        place = indexing.places(elements, index.entries)
        store(lowering, target, index, elements.bind("value", load(base, place), ""))
    return target


def _gathered_order(base: ArrayRef, indexing: Indexing) -> Order:
    """The order of what is selected: the index arrays' axes, in C order, go before all others.

    Where there are no others they have the order that an iteration over the arrays has.
    """
    numbers = iter(order_of(base))
    others: list[int] = []
    arrays: list[Order] = []
    for axis in indexing.axes:
        number = 0 if isinstance(axis, NewAxis) else next(numbers)
        if not isinstance(axis, Advanced):
            others.append(number)
        elif isinstance(axis.operand, (ArrayRef, Lazy)):
            arrays.append(aligned_order(order_of(axis.operand), axis.modes, indexing.shared))
    kept = iterated_order([tuple(others)], len(others))
    shared = row_major(indexing.shared) if others else iterated_order(arrays, indexing.shared)
    order = [*kept]
    order[indexing.first : indexing.first] = [one + len(kept) for one in shared]
    return tuple(order)


def _scatter(lowering: Lowering, node: Node) -> Operand:
    base = lowering.array(node.inputs[0])
    *operands, value = node.inputs[1:]
    for operand in operands:
        if any(array.may_overlap(base) for array in arrays_in(lowering.operand(operand))):
            raise NotNative("index arrays that share memory with what they index")
    rank = _selected_rank(lowering, node, operands)
    indexing = _indexing(lowering, node, base, operands, [None] * rank)
    source = lowering.operand(value)
    if any(array.may_overlap(base) for array in arrays_in(source)):
        source = _temporary(lowering, node, source)
    own = len(operand_dims(source))
    message = (
        f"shape mismatch: value array of shape {shape_template(own)} could not be broadcast "
        f"to indexing result of shape {shape_template(rank, own)}"
    )
    modes = fit_dims(lowering, operand_dims(source), indexing.dims, message)
    elements = Elements(lowering)
    # Not parallel: where a place comes twice, the last value stays.
    with nest(lowering, indexing.dims, ordered=True) as index:
        place = indexing.places(elements, index.entries)
        store(lowering, base, place, elements(source, operand_index(index, modes)))
    lowering.mark_written(base)
    return ()


def _selected_rank(lowering: Lowering, node: Node, operands: Sequence[Value]) -> int:
    parts = parse_index(node.attributes["index"])
    arrays = [
        len(operand_dims(lowering.operand(operands[part.number])))
        for part in parts
        if isinstance(part, IndexOperand)
    ]
    plain = sum(part is None or isinstance(part, IndexSlice) for part in parts)
    return plain + max(arrays, default=0)


def _temporary(lowering: Lowering, node: Node, source: ArrayRef | Lazy) -> ArrayRef:
    target = lowering.allocate("value", source.dims, source.dtype, escapes=False)
    write(lowering, [(target, as_copy(node, source))])
    return target


RULES: dict[str, Rule] = {
    "np::concatenate": _concatenate,
    "np::gather": _gather,
    "np::scatter": _scatter,
}
