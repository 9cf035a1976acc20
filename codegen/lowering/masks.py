"""Indexing by boolean masks over the leading axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitcore.codegen.kernels.selection import SIZES, compress_symbol, expand_symbol
from jitcore.codegen.loops import Binary, Call, Const, Do, Expr
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    ZERO,
    add,
    both,
    cast,
    compare,
    integer,
    multiply,
    not_,
    product,
    subtract,
)
from jitcore.codegen.lowering.broadcasting import define_dims, fit_dims, shape_template, type_dims
from jitcore.codegen.lowering.elements import (
    Elements,
    choose,
    load,
    operand_index,
    store,
    uncollapsed,
)
from jitcore.codegen.lowering.elementwise import as_copy
from jitcore.codegen.lowering.nest import collapse, nest, write
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Element,
    Lazy,
    NotNative,
    Operand,
    arrays_in,
)
from jitcore.codegen.lowering.orders import iterated_order, order_of
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.codegen.lowering.stores import overwrites_itself
from jitcore.codegen.targets import FETCH
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Node
from jitcore.ir.ops import is_elementwise

__all__ = ["RULES"]

BLOCK = 64
"""So many elements of a mask are looked at together, because often none of them is true."""


def _check_mask(lowering: Lowering, dims: Sequence[Expr], mask: Sequence[Expr]) -> None:
    for axis, (own, extent) in enumerate(zip(mask, dims, strict=False)):
        message = (
            f"boolean index did not match indexed array along axis {axis}; size of axis is {{0}} "
            f"but size of corresponding boolean axis is {{1}}"
        )
        lowering.fail(compare("ne", own, extent), IndexError, message, [extent, own])


def _count(lowering: Lowering, mask: ArrayRef | Lazy) -> Expr:
    """How many elements of a mask are true."""
    count = lowering.emitter.mutable("count", ZERO)
    elements = Elements(lowering)
    with nest(lowering, mask.dims, collapse(lowering, mask.dims, [mask])) as index:
        one = cast(elements(mask, index), "int64")
        lowering.emitter.assign(count, Binary("add", count, one, "int64"))
    if lowering.target.is_device:
        # What is allocated for it, and what loops over that, is the host's.
        return lowering.emitter.copy("count", Call(FETCH, (count,), "int64"))
    return lowering.emitter.copy("count", count)


def _compress(lowering: Lowering, node: Node) -> Operand:
    base, mask = (lowering.operand(value) for value in node.inputs)
    if not isinstance(base, (ArrayRef, Lazy)) or not isinstance(mask, (ArrayRef, Lazy)):
        raise NotNative("a mask of a scalar")
    _check_mask(lowering, base.dims, mask.dims)
    row = base.dims[mask.rank :]
    # Another selection by the same mask may have counted already.
    count = lowering.symbol(type_dims(node.output)[0]) or _count(lowering, mask)
    dims = define_dims(lowering, node.output, [count, *row])
    escapes = lowering.escapes(node.output)
    inner_order = order_of(base)[mask.rank :]
    order = (len(row) + 1, *iterated_order([inner_order], len(row)))
    target = lowering.allocate(node.output.name, dims, base.dtype, escapes=escapes, order=order)
    if target.owner is not None and isinstance(size := product(base.dims), Const):
        target.owner.most = size.value
    is_device = lowering.target.is_device
    if not row and not is_device and _move_together(lowering, base, mask, target, count):
        return target
    emitter = lowering.emitter

    def take_row(entries: Sequence[Expr], here: Expr) -> None:
        inside = Elements(lowering)
        with nest(lowering, row) as inner:
            index = uncollapsed([*entries, *inner.entries])
            value = inside(base, index)
            store(lowering, target, uncollapsed([here, *inner.entries]), value)

    if is_device:
        _by_scan(lowering, mask, take_row)
        return target
    place = emitter.mutable("place", ZERO)

    def take(entries: Sequence[Expr]) -> None:
        here = emitter.copy("here", place)
        take_row(entries, here)
        emitter.assign(place, Binary("add", here, ONE, "int64"))

    def take_or_not(entries: Sequence[Expr], flag: Expr) -> None:
        """Write the element; where the mask is false the next one goes to the same place."""
        here = emitter.copy("here", place)
        store(lowering, target, uncollapsed([here]), Elements(lowering)(base, uncollapsed(entries)))
        emitter.assign(place, Binary("add", here, cast(flag, "int64"), "int64"))

    _where_true(lowering, mask, take, None if row else Freely(place, count, take_or_not))
    return target


def _move_together(
    lowering: Lowering, base: Operand, mask: Operand, target: ArrayRef, count: Expr
) -> bool:
    """Take vectors out, where both lie in memory in the same order; False where they do not."""
    found = _for_vectors(lowering, base, mask)
    if found is None:
        return False
    _move(lowering, compress_symbol(target.dtype.itemsize), (*found[::-1], target), (count,))
    return True


def _for_vectors(
    lowering: Lowering, base: Operand, mask: Operand
) -> tuple[ArrayRef, ArrayRef] | None:
    """An array and a mask of its shape, where they lie in memory for `kernels.selection`."""
    if not isinstance(base, ArrayRef) or not isinstance(mask, ArrayRef):
        return None
    if not lowering.is_contiguous(base) or not lowering.is_contiguous(mask):
        return None
    return (base, mask) if base.dtype.itemsize in SIZES else None


def _move(
    lowering: Lowering, symbol: str, arrays: Sequence[ArrayRef], rest: Sequence[Expr] = ()
) -> None:
    """Call a function of ``kernels.selection``; the mask is the first array."""
    places = (place for one in arrays for place in (one.pointer, one.offset))
    args = (*places, lowering.size(arrays[0].dims), *rest)
    lowering.emitter.emit(Do(Call(symbol, args, "void", external=True)))


@dataclass(frozen=True, slots=True)
class Freely:
    """What may be done at places where the mask is false too, as long as there is room.

    It needs no branch, which the processor would often guess wrong.

    Parameters
    ----------
    place, count : Expr
        How many places have been taken, and how many there are.
    body : callable
        Takes the place and the mask's value there.
    """

    place: Expr
    count: Expr
    body: Callable[[Sequence[Expr], Expr], None]


def _where_true(
    lowering: Lowering,
    mask: ArrayRef | Lazy,
    body: Callable[[Sequence[Expr]], None],
    freely: Freely | None = None,
) -> None:
    """Run ``body`` at each place where the mask is true, in order; the others cost little."""
    emitter = lowering.emitter

    def look(outer: Sequence[Expr], start: Expr, stop: Expr) -> None:
        with emitter.loop("k", start, stop) as entry:
            flag = Elements(lowering)(mask, uncollapsed([*outer, entry]))
            with emitter.branch(flag):
                body([*outer, entry])

    def take_block(outer: Sequence[Expr], start: Expr, stop: Expr) -> None:
        if freely is None:
            look(outer, start, stop)
            return
        taken = emitter.let("taken", add(freely.place, integer(BLOCK)))
        is_room = emitter.copy("is_room", compare("le", taken, freely.count))
        with emitter.branch(is_room), emitter.loop("k", start, stop) as entry:
            places = [*outer, entry]
            freely.body(places, Elements(lowering)(mask, uncollapsed(places)))
        with emitter.branch(not_(is_room)):
            look(outer, start, stop)

    with nest(lowering, mask.dims[:-1]) as index:
        length = mask.dims[-1]
        whole = Binary("and", length, integer(-BLOCK), "int64")
        whole_blocks = emitter.let("whole", whole)
        with emitter.loop("block", ZERO, whole_blocks, step=BLOCK) as start:
            stop = emitter.let("stop", add(start, integer(BLOCK)))
            some = emitter.mutable("some", FALSE)
            with emitter.loop("k", start, stop) as entry:
                flag = Elements(lowering)(mask, uncollapsed([*index.entries, entry]))
                emitter.assign(some, Binary("or", some, flag, "bool"))
            with emitter.branch(some):
                take_block(index.entries, start, stop)
        look(index.entries, whole_blocks, length)


def _by_scan(
    lowering: Lowering, mask: ArrayRef | Lazy, body: Callable[[Sequence[Expr], Expr], None]
) -> None:
    """Run ``body`` at each place where the mask is true, and tell it how many were before.

    The running count is all that an iteration takes over from the one before, so that the threads
    of a device can share the loop.
    """
    emitter = lowering.emitter
    count = emitter.mutable("count", ZERO)
    with emitter.loop("k", ZERO, lowering.size(mask.dims)) as element:
        entries: list[Expr] = []
        rest: Expr = element
        for dim in mask.dims[:0:-1]:
            rows = emitter.copy("rows", Binary("quot", rest, dim, "int64"))
            entries.insert(0, subtract(rest, multiply(rows, dim)))
            rest = rows
        entries.insert(0, rest)
        flag = emitter.let("flag", Elements(lowering)(mask, uncollapsed(entries)))
        now = emitter.copy("now", Binary("add", count, cast(flag, "int64"), "int64"))
        with emitter.branch(flag):
            body(entries, emitter.copy("here", subtract(now, ONE)))
        emitter.assign(count, now)


def _put_mask(lowering: Lowering, node: Node) -> Operand:
    base = lowering.array(node.inputs[0])
    mask, value = (lowering.operand(one) for one in node.inputs[1:])
    if not isinstance(mask, (ArrayRef, Lazy)):
        raise NotNative("a mask that is a scalar")
    _check_mask(lowering, base.dims, mask.dims)
    _check_apart(value, base)
    if not isinstance(mask, ArrayRef) or not mask.same_place(base):
        _check_apart(mask, base)
    if mask.rank < base.rank or overwrites_itself(lowering, mask, base):
        mask = _apart(lowering, node, mask, base)
    if isinstance(value, (ArrayRef, Lazy)) and value.rank:
        _put_rows(lowering, node, base, mask, _apart(lowering, node, value, base))
    else:
        _put_one(lowering, base, mask, value)
    lowering.mark_written(base)
    return ()


def _check_apart(operand: Operand, base: ArrayRef) -> None:
    """NumPy makes no copy of a view of what it writes, and reads elements it has written."""
    if isinstance(operand, Lazy) and operand.kind in _VIEWS:
        operand = next(arrays_in(operand), operand)
    if isinstance(operand, ArrayRef) and operand.rank and operand.may_overlap(base):
        raise NotNative("a masked assignment of what shares memory with the array")


_VIEWS = frozenset({"np::view", "np::transpose", "np::broadcast_to", "np::real", "np::imag"})


def _apart(lowering: Lowering, node: Node, operand: ArrayRef | Lazy, base: ArrayRef) -> Operand:
    """An operand that does not read what is about to be written."""
    if not any(array.may_overlap(base) for array in arrays_in(operand)):
        return operand
    target = lowering.allocate("apart", operand.dims, operand.dtype, escapes=False)
    write(lowering, [(target, as_copy(node, operand))])
    return target


def _put_one(lowering: Lowering, base: ArrayRef, mask: Operand, value: Operand) -> None:
    """One value wherever the mask is true."""
    _put_element(lowering, base, mask, Elements(lowering)(value, uncollapsed([])))


def _put_element(lowering: Lowering, base: ArrayRef, mask: Operand, element: Element) -> None:
    elements = Elements(lowering)
    row = base.dims[mask.rank :]
    with nest(lowering, mask.dims, parallel=True) as outer:
        flag = elements(mask, outer)
        if not row:
            store(lowering, base, outer, choose(flag, element, load(base, outer)))
            return
        with lowering.emitter.branch(flag), nest(lowering, row) as inner:
            store(lowering, base, uncollapsed([*outer.entries, *inner.entries]), element)


def _put_rows(
    lowering: Lowering, node: Node, base: ArrayRef, mask: ArrayRef | Lazy, value: ArrayRef | Lazy
) -> None:
    """The rows of ``value``, one after the other, where the mask is true."""
    row = base.dims[mask.rank :]
    count = _known_count(lowering, node) or _count(lowering, mask)
    own = value.rank
    if own > len(row) and own == len(row) + 1:
        mismatch = both(compare("ne", value.dims[0], count), compare("ne", value.dims[0], ONE))
        if not row:
            message = (
                "NumPy boolean array indexing assignment cannot assign {0} input values to the "
                "{1} output values where the mask is true"
            )
            lowering.fail(mismatch, ValueError, message, [value.dims[0], count])
    message = (
        f"shape mismatch: value array of shape {shape_template(own)} could not be broadcast to "
        f"indexing result of shape {shape_template(len(row) + 1, own)}"
    )
    modes = fit_dims(lowering, value.dims, [count, *row], message)
    found = None if row or lowering.target.is_device else _for_vectors(lowering, base, mask)
    if found is not None:
        _put_vectors(lowering, *found, value, modes[0])
        return
    emitter = lowering.emitter

    def give_row(entries: Sequence[Expr], here: Expr) -> None:
        inside = Elements(lowering)
        with nest(lowering, row) as inner:
            selected = uncollapsed([here, *inner.entries])
            found = inside(value, operand_index(selected, modes))
            store(lowering, base, uncollapsed([*entries, *inner.entries]), found)

    if lowering.target.is_device:
        _by_scan(lowering, mask, give_row)
        return
    place = emitter.mutable("place", ZERO)

    def give(entries: Sequence[Expr]) -> None:
        here = emitter.copy("here", place)
        give_row(entries, here)
        emitter.assign(place, Binary("add", here, ONE, "int64"))

    _where_true(lowering, mask, give)


def _known_count(lowering: Lowering, update: Node) -> Expr | None:
    """How many elements a selection before has found under a mask that nobody can change."""
    mask = update.inputs[1]
    is_new = mask.node is not None and (
        is_elementwise(mask.node) or mask.node.kind == "prim::FusionGroup"
    )
    readers = [use.user for use in mask.uses if use.index == 1 and isinstance(use.user, Node)]
    if not is_new or len(readers) < len(mask.uses) or any(one.kind not in RULES for one in readers):
        return None
    selections = [one for one in readers if one.kind == "np::compress"]
    counts = [
        lowering.symbol(type_dims(one.output)[0]) for one in selections if one.block is update.block
    ]
    return next((count for count in counts if count is not None), None)


def _put_vectors(
    lowering: Lowering, base: ArrayRef, mask: ArrayRef, value: ArrayRef | Lazy, mode: Expr | None
) -> None:
    """Put elements to their places as vectors; by its mode a value may be a single element."""

    def put_one() -> None:
        first = Elements(lowering)(value, uncollapsed([ZERO]))
        _put_element(lowering, base, mask, first)

    if mode == ZERO:
        put_one()
        return
    if isinstance(value, ArrayRef) and lowering.is_contiguous(value):
        source = value
    else:
        source = lowering.allocate("values", value.dims, value.dtype, escapes=False)
        write(lowering, [(source, value)])
    symbol = expand_symbol(base.dtype.itemsize)
    if mode is None:
        _move(lowering, symbol, (mask, source, base))
        return
    is_one = lowering.emitter.copy("is_one", compare("eq", mode, ONE))
    with lowering.emitter.branch(is_one):
        put_one()
    with lowering.emitter.branch(not_(is_one)):
        _move(lowering, symbol, (mask, source, base))


RULES: dict[str, Rule] = {
    "np::compress": _compress,
    "np::put_mask": _put_mask,
}
