"""Stores: a value is written as if all of it were computed first."""

from __future__ import annotations

from collections.abc import Iterator

from jitcore.codegen.loops import Expr, If, Stmt
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    add,
    both,
    cast,
    compare,
    either,
    integer,
    maximum,
    minimum,
    multiply,
    subtract,
)
from jitcore.codegen.lowering.broadcasting import Modes, fit_dims, shape_template
from jitcore.codegen.lowering.disjoint import are_apart
from jitcore.codegen.lowering.elementwise import as_copy
from jitcore.codegen.lowering.lagging_stores import store_lagging
from jitcore.codegen.lowering.nest import write
from jitcore.codegen.lowering.operands import ArrayRef, Lazy, Operand, operand_dims
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node

__all__ = ["RULES", "fit_value", "overwrites_itself"]


def conflicts(
    lowering: Lowering, value: Operand, target: ArrayRef, *, in_place: bool = True
) -> Iterator[ArrayRef]:
    """The arrays a value reads that may change while it is written, element by element.

    ``in_place`` says that the value is read at the place that is being written.
    """
    return (read for read, _ in _conflicts(lowering, value, target, in_place=in_place))


def _conflicts(
    lowering: Lowering, value: Operand, target: ArrayRef, *, in_place: bool
) -> Iterator[tuple[ArrayRef, bool]]:
    """The same arrays, each with whether it is read at the place that is being written."""
    waiting = [(value, in_place)]
    seen: set[tuple[int, bool]] = set()
    while waiting:
        value, in_place = waiting.pop()
        if (id(value), in_place) in seen:
            continue
        seen.add((id(value), in_place))
        if isinstance(value, ArrayRef):
            is_same = in_place and value.same_place(target)
            if value.may_overlap(target) and not is_same and not are_apart(lowering, value, target):
                yield value, in_place
        elif isinstance(value, Lazy):
            waiting.extend(reversed(list(_parts(value, in_place))))


def _parts(value: Lazy, in_place: bool) -> Iterator[tuple[Operand, bool]]:
    """The operands of a lazy value, and whether each is read at the place that is written."""
    for number, one in enumerate(value.operands):
        is_same = in_place and value.is_aligned
        yield one, is_same and _is_identity(value.modes[number], value.rank)


def overwrites_itself(lowering: Lowering, value: Operand, target: ArrayRef) -> bool:
    """Whether writing a value could change elements it still has to read."""
    return any(True for _ in conflicts(lowering, value, target))


def _is_identity(modes: Modes, rank: int) -> bool:
    return len(modes) == rank and all(mode is None for mode in modes)


def _store(lowering: Lowering, node: Node) -> Operand:
    if lowering.put_off is not None and lowering.put_off(node):
        return ()
    target = lowering.array(node.inputs[0])
    value = lowering.operand(node.inputs[1])
    modes = fit_dims(lowering, operand_dims(value), target.dims, _message(node, value, target))
    found = list(_conflicts(lowering, value, target, in_place=True))
    reads = [read for read, _ in found]
    is_at_place = all(in_place for _, in_place in found) and _is_identity(modes, target.rank)
    if not reads:
        write(lowering, [(target, _broadcast(node, value, target, modes))])
    elif is_at_place and store_lagging(
        lowering, _broadcast(node, value, target, modes), target, reads
    ):
        pass
    elif all(_may_be_apart(read, target) for read in reads):
        _store_checked(lowering, node, value, target, modes, reads)
    else:
        _store_by_copy(lowering, node, value, target, modes)
    lowering.mark_written(target)
    return ()


def fit_value(lowering: Lowering, node: Node, target: ArrayRef) -> Lazy:
    """What a store writes, in the extents of its target."""
    value = lowering.operand(node.inputs[1])
    modes = fit_dims(lowering, operand_dims(value), target.dims, _message(node, value, target))
    # Looked up once more: a check of the extents may have computed it.
    return _broadcast(node, lowering.operand(node.inputs[1]), target, modes)


def _broadcast(node: Node, value: Operand, target: ArrayRef, modes: Modes) -> Lazy:
    return Lazy(node, (value,), target.dims, target.dtype, (modes,), as_kind="np::store")


def _store_by_copy(
    lowering: Lowering, node: Node, value: ArrayRef | Lazy, target: ArrayRef, modes: Modes
) -> None:
    name = f"{target.root or 'array'}_new"
    temporary = lowering.allocate(name, value.dims, value.dtype, escapes=False)
    write(lowering, [(temporary, as_copy(node, value))])
    write(lowering, [(target, _broadcast(node, temporary, target, modes))])


def _may_be_apart(read: ArrayRef, target: ArrayRef) -> bool:
    """Whether it is worth asking, at run time, if two arrays share memory after all.

    It is for variables that hold one of several arrays, and for rows of one array.
    """
    return len(read.roots) > 1 or len(target.roots) > 1 or target.rank == 1


def _store_checked(
    lowering: Lowering,
    node: Node,
    value: Operand,
    target: ArrayRef,
    modes: Modes,
    reads: list[ArrayRef],
) -> None:
    overlaps: Expr = FALSE
    for read in reads:
        overlaps = either(overlaps, _share_memory(lowering, read, target))
    if overlaps == TRUE:
        _store_by_copy(lowering, node, value, target, modes)
        return
    shared: list[Stmt] = []
    apart: list[Stmt] = []
    with lowering.scope(shared):
        _store_by_copy(lowering, node, value, target, modes)
    with lowering.scope(apart):
        write(lowering, [(target, _broadcast(node, value, target, modes))])
    lowering.emitter.emit(If(overlaps, shared, apart))


def _share_memory(lowering: Lowering, x: ArrayRef, y: ArrayRef) -> Expr:
    """Whether any byte between the first and the last one of two arrays belongs to both."""
    if x.pointer == y.pointer and x.dtype == y.dtype:
        (low_x, high_x), (low_y, high_y) = _span(lowering, x), _span(lowering, y)
        return both(compare("le", low_x, high_y), compare("le", low_y, high_x))
    (start_x, stop_x), (start_y, stop_y) = _extent(lowering, x), _extent(lowering, y)
    return both(compare("lt", start_x, stop_y), compare("lt", start_y, stop_x))


def _span(lowering: Lowering, array: ArrayRef) -> tuple[Expr, Expr]:
    """The places of the elements of an array that come first and last in memory."""
    low: Expr = array.offset
    high: Expr = array.offset
    for dim, stride in zip(array.dims, array.strides, strict=True):
        span = lowering.emitter.shared("span", multiply(subtract(dim, ONE), stride))
        low = add(low, minimum(span, ZERO))
        high = add(high, maximum(span, ZERO))
    return low, high


def _extent(lowering: Lowering, array: ArrayRef) -> tuple[Expr, Expr]:
    """The addresses of the first byte of an array and of the one after its last."""
    low, high = _span(lowering, array)
    itemsize = array.dtype.itemsize
    unit, size = integer(array.unit or itemsize), integer(itemsize)
    base = lowering.emitter.shared("address", cast(array.pointer, "int64"))
    let = lowering.emitter.shared
    start = let("start", add(base, multiply(low, unit)))
    return start, let("stop", add(base, add(multiply(high, unit), size)))


def _message(node: Node, value: Operand, target: ArrayRef) -> str:
    rank = len(operand_dims(value))
    if node.attributes.get("in_place"):
        return (
            f"non-broadcastable output operand with shape {shape_template(target.rank, rank)} "
            f"doesn't match the broadcast shape {shape_template(rank)}"
        )
    return (
        f"could not broadcast input array from shape {shape_template(rank)} "
        f"into shape {shape_template(target.rank, rank)}"
    )


RULES: dict[str, Rule] = {"np::store": _store}
