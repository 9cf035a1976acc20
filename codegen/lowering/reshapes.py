"""The same elements in another shape: a view where NumPy makes one, else a copy in C order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

from jitcore.codegen.loops import Binary, Call, Const, Expr
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    both,
    compare,
    either,
    integer,
    multiply,
    product,
)
from jitcore.codegen.lowering.broadcasting import define_dims, shape_template
from jitcore.codegen.lowering.facts import is_written_while_used
from jitcore.codegen.lowering.nest import write
from jitcore.codegen.lowering.operands import ArrayRef, NotNative, Operand, Order, row_major
from jitcore.codegen.lowering.state import MAX_RANK, Lowering, Rule
from jitcore.ir.graph import Node

__all__ = ["RULES"]


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
        split = _strides_of_reshape(lowering, node, base, dims)
        if split is not None:
            strides, order = split
            return lowering.view(base, dims=dims, strides=strides, order=order)
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
    lowering: Lowering, node: Node, base: ArrayRef, dims: Sequence[Expr]
) -> tuple[tuple[Expr, ...], Order | None] | None:
    """The strides of a view in another shape; None where NumPy copies, or nobody could tell.

    Each group of axes has a view where it is one axis before, or axes that are adjacent in memory
    (``_attempt_nocopy_reshape`` in NumPy's ``shape.c``).
    """
    places = base.order
    old = [axis for axis in range(base.rank) if base.dims[axis] != ONE]
    new = [axis for axis, dim in enumerate(dims) if dim != ONE]
    groups = _groups_of_reshape([base.dims[axis] for axis in old], [dims[axis] for axis in new])
    if groups is None:
        _require_unseen(lowering, node)
        return None
    strides: dict[int, Expr] = {}
    order: dict[int, int] = {}
    let = lowering.emitter.shared
    for few, many in groups:
        axes, parts = old[:few], new[:many]
        del old[:few], new[:many]
        gap = _gap(lowering, base, axes)
        if gap is not None:
            _require_copy(lowering, node, base, axes, gap, [dims[axis] for axis in parts])
            return None
        number = 0 if places is None else places[axes[-1]]
        for place, axis in enumerate(reversed(parts)):
            size = product([dims[one] for one in parts[many - place :]])
            strides[axis] = let("stride", multiply(base.strides[axes[-1]], size))
            order[axis] = number * len(dims) + place if number else 0
    return (
        tuple(strides.get(axis, ZERO) for axis in range(len(dims))),
        None if places is None else tuple(order.get(axis, 0) for axis in range(len(dims))),
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


def _gap(lowering: Lowering, base: ArrayRef, axes: Sequence[int]) -> int | None:
    """Which of these axes may not be adjacent in memory to the next one; None where all are."""
    for place, (one, two) in enumerate(itertools.pairwise(axes)):
        if base.strides[one] != _whole(lowering, base, two):
            return place
    return None


def _whole(lowering: Lowering, base: ArrayRef, axis: int) -> Expr:
    """How far it is to the element after the last one of an axis."""
    return lowering.emitter.shared("stride", multiply(base.strides[axis], base.dims[axis]))


def _require_copy(
    lowering: Lowering,
    node: Node,
    base: ArrayRef,
    axes: Sequence[int],
    gap: int,
    parts: Sequence[Expr],
) -> None:
    """Go on where NumPy copies, as axes with this gap become others, and somebody could tell.

    A view of one axis has the strides of the copy, and only a write tells it from that.
    """
    if base.order is None:
        _require_unseen(lowering, node)
        return
    is_seen = _is_seen(lowering, node)
    one, two = axes[gap : gap + 2]
    for axis in (one, two) if is_seen else ():
        _require_not(lowering, compare("eq", base.dims[axis], ONE), "an axis of one element")
    if (is_seen or len(node.inputs) > 2) and not _are_apart(base.order, one, two):
        is_whole = compare("eq", base.strides[one], _whole(lowering, base, two))
        _require_not(lowering, is_whole, "an array without gaps")
    before = product([base.dims[axis] for axis in axes[: gap + 1]])
    for count in range(1, len(parts)):
        is_split = compare("eq", before, product(parts[:count]))
        _require_not(lowering, is_split, "a shape that keeps an array's first axes")


def _are_apart(order: Order, one: int, two: int) -> bool:
    """Whether the steps of an axis are surely not as long as all of the next axis."""
    is_between = any(order[two] < number < order[one] for number in order)
    return order[one] <= order[two] or is_between


def _is_seen(lowering: Lowering, node: Node) -> bool:
    """Whether somebody could tell a view from a copy: by a write, as long as both are known."""
    is_kept = lowering.writes and lowering.escapes(node.output)
    return is_kept or is_written_while_used(node.output)


def _require_unseen(lowering: Lowering, node: Node) -> None:
    if _is_seen(lowering, node):
        raise NotNative("a reshape of a strided array, where a write could tell view from copy")


def _require_not(lowering: Lowering, condition: Expr, what: str) -> None:
    """Leave where a condition holds, as long as nothing is written."""
    if condition == FALSE:
        return
    if condition == TRUE or lowering.has_written:
        raise NotNative(f"a copy in another shape that may be a view: {what}")
    lowering.fail(condition, None, what)


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
        if _is_seen(lowering, node):
            _require_other_order(lowering, base)
        base = _in_order(lowering, node, base)
    return lowering.view(base, dims=dims, strides=(ONE,), order=row_major(1))


def _require_other_order(lowering: Lowering, base: ArrayRef) -> None:
    """Go on where an array is not in C order without gaps, as only a run tells of some."""
    is_in_order: Expr = TRUE
    for stride, dim, whole in zip(
        base.strides, base.dims, lowering.strides(base.dims), strict=True
    ):
        is_one_step = either(compare("eq", dim, ONE), compare("eq", stride, whole))
        is_in_order = both(is_in_order, is_one_step)
    _require_not(lowering, is_in_order, "an array in C order")


def _in_order(lowering: Lowering, node: Node, base: ArrayRef) -> ArrayRef:
    """A copy in C order."""
    escapes = lowering.escapes(node.output)
    target = lowering.allocate(node.output.name, base.dims, base.dtype, escapes=escapes)
    write(lowering, [(target, base)])
    return target


RULES: dict[str, Rule] = {
    "np::check_reshape": _check_reshape,
    "np::ravel": _ravel,
    "np::reshape": _reshape,
    "np::set_shape": _set_shape,
}
