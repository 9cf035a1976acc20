"""Gradients of what moves elements: casts, views, copies, indexing, joining and writes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from jitcore.ir.gradients.activity import NotDifferentiable, dtype_of, rank_of
from jitcore.ir.gradients.expressions import Expression, Operand
from jitcore.ir.graph import Node, Value
from jitcore.ir.reference import IndexOperand, parse_index
from jitcore.ir.shapes import dims_of

if TYPE_CHECKING:
    from jitcore.ir.gradients.reverse import Reverse

__all__ = ["RULES"]

_INT64 = np.dtype("int64")


def _same(r: Reverse, node: Node, g: Expression) -> None:
    r.contribute(node.inputs[0], g)


def _cast(r: Reverse, node: Node, g: Expression) -> None:
    r.contribute(node.inputs[0], g.apply("np::cast", g, dtype=dtype_of(node.inputs[0])))


def _view(r: Reverse, node: Node, g: Expression) -> None:
    """Of a whole array: axes are added, or reversed."""
    parts = [one.strip() for one in node.attributes["index"].split(",")]
    kept = [one for one in parts if one != "None"]
    back = ", ".join("0" if one == "None" else ":" for one in parts)
    given = g.apply("np::view", g, index=back) if len(kept) < len(parts) else g
    if "::-1" in kept:
        given = given.apply("np::view", given, index=", ".join(kept))
    r.contribute(node.inputs[0], given)


def _transpose(r: Reverse, node: Node, g: Expression) -> None:
    axes = node.attributes["axes"]
    back = tuple(axes.index(axis) for axis in range(len(axes)))
    r.contribute(node.inputs[0], g.apply("np::transpose", g, axes=back))


def _reshape(r: Reverse, node: Node, g: Expression) -> None:
    x = node.inputs[0]
    r.contribute(x, g.apply("np::reshape", g, *r.extents(x)))


def _broadcast(r: Reverse, node: Node, g: Expression) -> None:
    r.contribute_broadcast(node.inputs[0], g, node.output)


def _concatenate(r: Reverse, node: Node, g: Expression) -> None:
    axis, start = node.attributes["axis"], r.constant(0)
    parts = [":"] * rank_of(node.output)
    parts[axis] = "$0:$1"
    for value in node.inputs:
        stop = r.emit("prim::add", [start, r.extent(value, axis)])
        part = g.apply("np::view", g, start, stop, index=", ".join(parts))
        r.contribute(value, part)
        start = stop


def _windows(r: Reverse, node: Node, g: Expression) -> None:
    """Each place of a window adds what it gets to the elements it has been at."""
    x = node.inputs[0]
    axes, shape = node.attributes["axis"], node.attributes["window_shape"]
    rank = rank_of(x)
    total = r.zeros(x)
    positions = _sizes(r, g.value, rank)
    with ExitStack() as loops:
        places = [loops.enter_context(r.loop(r.constant(count))) for count in shape]
        index, operands = [], list[Value]()
        for axis in range(rank):
            own = [place for place, one in zip(places, axes, strict=True) if one == axis]
            if not own:
                index.append(":")
                continue
            start = reduce(lambda one, two: r.emit("prim::add", [one, two]), own)
            index.append(f"${len(operands)}:${len(operands) + 1}")
            operands += [start, r.emit("prim::add", [positions[axis], start])]
        part = r.emit("np::view", [total, *operands], {"index": ", ".join(index)})
        chosen = ", ".join([*[":"] * rank, *(f"${number}" for number in range(len(places)))])
        term = r.emit("np::view", [g.value, *places], {"index": chosen})
        r.emit("np::store", [part, r.emit("np::add", [part, term])])
    r.contribute(x, total)


def _diagonal(r: Reverse, node: Node, g: Expression) -> None:
    x, offset = node.inputs[0], node.attributes["offset"]
    if rank_of(x) != 2:
        raise r.refusal(node)
    axes = node.attributes["axis1"], node.attributes["axis2"]
    offset = offset if axes == (0, 1) else -offset
    count = r.emit("prim::size", [g.value], {"dim": 0})
    place = r.emit("np::iota", [r.constant(0), r.constant(1), count], {"dtype": _INT64})
    rows = r.apply("np::add", place, max(-offset, 0))
    columns = r.apply("np::add", place, max(offset, 0))
    total = r.zeros(x)
    r.emit("np::scatter", [total, rows.value, columns.value, g.value], {"index": "$0, $1"})
    r.contribute(x, total)


def _compress(r: Reverse, node: Node, g: Expression) -> None:
    x, mask = node.inputs
    total = r.zeros(x)
    r.emit("np::put_mask", [total, r.primals.read(mask, node), g.value])
    r.contribute(x, total)


def _gather(r: Reverse, node: Node, g: Expression) -> None:
    """What is read several times gets all of its contributions."""
    x, *operands = node.inputs
    buffer = r.buffer(x)
    places = [r.primals.read(one, node) for one in operands]
    parts = parse_index(node.attributes["index"])
    axes = [axis for axis, one in enumerate(parts) if isinstance(one, IndexOperand)]
    whole = all(isinstance(one, IndexOperand) or _is_whole(one) for one in parts)
    if not whole or axes != list(range(axes[0], axes[0] + len(axes))) or len(axes) > 2:
        raise r.refusal(node)
    rank, count = rank_of(x), len(axes)
    index_rank = max(rank_of(one) for one in operands)
    if any(rank_of(one) != index_rank for one in operands):
        raise r.refusal(node)
    order = (*axes, *(axis for axis in range(rank) if axis not in axes))
    target = r.emit("np::transpose", [buffer], {"axes": order})
    moved = (*range(axes[0], axes[0] + index_rank), *range(axes[0]))
    result_rank = rank - count + index_rank
    moved += tuple(range(axes[0] + index_rank, result_rank))
    values = g.apply("np::transpose", g, axes=moved).value
    if index_rank != 1:
        places = [_flat(r, one, index_rank, 0) for one in places]
        values = _flat(r, values, index_rank, result_rank - index_rank)
    where = places[0] if count == 1 else r.emit("prim::TupleConstruct", places)
    r.emit("np::add_at", [target, where, values])


def _flat(r: Reverse, value: Value, rank: int, rest: int) -> Value:
    """An array whose first axes are one."""
    sizes = _sizes(r, value, rank + rest)
    return r.emit("np::reshape", [value, _product(r, sizes[:rank]), *sizes[rank:]])


def _sizes(r: Reverse, value: Value, rank: int) -> list[Value]:
    """The extents of a value of the backward part."""
    return [r.emit("prim::size", [value], {"dim": axis}) for axis in range(rank)]


def _product(r: Reverse, numbers: Sequence[Value]) -> Value:
    return reduce(lambda one, two: r.emit("prim::mul", [one, two]), numbers, r.constant(1))


def _is_whole(part: Any) -> bool:
    return part is not None and str(part) == str(parse_index(":")[0])


def _iota(r: Reverse, node: Node, g: Expression) -> None:
    """``start + i * step``."""
    start, step, count = node.inputs
    all_axes = {"axis": (0,), "keepdims": False}
    if r.activity.is_active(start):
        r.contribute(start, g.apply("np::sum", g, **all_axes))
    if r.activity.is_active(step):
        length = r.primals.read(count, node)
        places = r.apply("np::iota", 0.0, 1.0, length, dtype=dtype_of(node.output))
        r.contribute(step, g.apply("np::sum", g * places, **all_axes))


def _union(r: Reverse, node: Node, g: Expression) -> None:
    """Of one of several values, the one that the tag says gets all."""
    tag, *values = node.inputs
    for number, value in enumerate(values):
        if r.activity.is_active(value):
            chosen = g.apply("prim::eq", r.primals.read(tag, node), number)
            r.contribute(value, g.apply("np::where", chosen, g, 0.0))


def _sort(r: Reverse, node: Node, g: Expression) -> None:
    """Each element gets what the place has got that it came to."""
    value, axis = node.inputs[0], node.attributes["axis"]
    x: Expression = Operand(r, value, node)
    if axis is None:
        x, axis = x.apply("np::ravel", x), 0
    places = x.apply("np::argsort", x, axis=axis)
    back = x.apply("np::argsort", places, axis=axis)
    found = x.apply("np::take_along_axis", g, back, axis=axis)
    if rank_of(value) != rank_of(node.output):
        found = x.apply("np::reshape", found, *r.extents(value))
    r.contribute(value, found)


# Writes


def _store(r: Reverse, node: Node, _: Any) -> None:
    """What was written gets the derivative with respect to the target, whose old value had none."""
    target, value = node.inputs
    buffer = r.buffer(target)
    taken = r.emit("np::copy", [buffer]) if dims_of(target) else r.emit("np::item", [buffer])
    r.emit("np::store", [buffer, r.constant(_zero(target))])
    r.contribute_broadcast(value, taken, target)


def _zero(value: Value) -> Any:
    return dtype_of(value).type(0)


def _put_mask(r: Reverse, node: Node, _: Any) -> None:
    target, mask, value = node.inputs
    buffer, holds = r.buffer(target), r.primals.read(mask, node)
    taken = r.emit("np::compress", [buffer, holds])
    r.emit("np::put_mask", [buffer, holds, r.constant(_zero(target))])
    if not r.activity.is_active(value):
        return
    rank = rank_of(target) - rank_of(mask) + 1
    if not dims_of(value):
        axes = {"axis": tuple(range(rank)), "keepdims": False}
        r.contribute(value, r.emit("np::sum", [taken], axes))
    elif rank_of(value) == rank:
        r.contribute(value, taken)
    else:
        raise r.refusal(node)


def _scatter(r: Reverse, node: Node, _: Any) -> None:
    """Of values that are written to one place, the last one stays and has a derivative."""
    target, *operands, value = node.inputs
    buffer, index = r.buffer(target), {"index": node.attributes["index"]}
    places = [r.primals.read(one, node) for one in operands]
    taken = r.emit("np::gather", [buffer, *places], index)
    # Before the value gets anything, which may be a view of the target.
    r.emit("np::scatter", [buffer, *places, r.constant(_zero(target))], index)
    if r.activity.is_active(value):
        numbers = _numbered(r, taken, node)
        writers = r.emit("np::full", [r.constant(0), *r.extents(target)], {"dtype": _INT64})
        r.emit("np::scatter", [writers, *places, numbers], index)
        last = r.emit("np::equal", [r.emit("np::gather", [writers, *places], index), numbers])
        mine = r.apply("np::where", last, taken, r.constant(_zero(target)))
        r.contribute(value, _as_written(mine, value, node))


def _numbered(r: Reverse, like: Value, node: Node) -> Value:
    """An array of the shape of another one whose elements are all different ints."""
    sizes = _sizes(r, like, _gathered_rank(node))
    count = _product(r, sizes)
    flat = r.emit("np::iota", [r.constant(0), r.constant(1), count], {"dtype": _INT64})
    return r.emit("np::reshape", [flat, *sizes])


def _gathered_rank(node: Node) -> int:
    """The number of axes of what an index selects, whose operands are arrays or ints."""
    target, *operands, _ = node.inputs
    parts = parse_index(node.attributes["index"])
    chosen = sum(isinstance(one, IndexOperand) for one in parts)
    ranks = [rank_of(one) for one in operands]
    return rank_of(target) - chosen + max(ranks, default=0)


def _as_written(term: Expression, value: Value, node: Node) -> Expression:
    """What a value of an assignment to selected elements gets of the term for these."""
    if not dims_of(value):
        axes = tuple(range(_gathered_rank(node)))
        return term.apply("np::sum", term, axis=axes, keepdims=False)
    if rank_of(value) != _gathered_rank(node) or 1 in dims_of(value):
        raise NotDifferentiable(
            "there is no gradient of an assignment that broadcasts to selected elements",
            node.source,
            "Broadcast the value first, with np.broadcast_to.",
        )
    return term


RULES = {
    "np::cast": _cast,
    "prim::float": _cast,
    "np::from_int": _cast,
    "np::item": _same,
    "prim::CheckBound": _same,
    "np::copy": _same,
    "np::conjugate": _same,
    "np::iota": _iota,
    "np::view": _view,
    "np::transpose": _transpose,
    "np::reshape": _reshape,
    "np::ravel": _reshape,
    "np::broadcast_to": _broadcast,
    "np::concatenate": _concatenate,
    "np::sliding_window_view": _windows,
    "np::diagonal": _diagonal,
    "np::full": _broadcast,
    "np::compress": _compress,
    "np::gather": _gather,
    "prim::UnionConstruct": _union,
    "np::sort": _sort,
    "np::store": _store,
    "np::put_mask": _put_mask,
    "np::scatter": _scatter,
}
