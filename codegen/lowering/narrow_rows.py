"""Reductions over the rows of a matrix of few columns: vectors that hold several rows.

A row of three coordinates fills no vector, and each row has to wait for the one before.  What may
be joined in any order, such as extrema, flags and sums of whole numbers, is joined in *lanes*: as
many elements as some whole vectors hold and some whole rows, so that an element of each lane is
always of the same column.  At the end the lanes of each column are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm
from typing import Any

import numpy as np

from jitcore.codegen.loops import Binary, Const, Expr
from jitcore.codegen.lowering.arithmetic import (
    ZERO,
    add,
    integer,
    minimum,
    multiply,
)
from jitcore.codegen.lowering.elements import Elements, Index, load, store, uncollapsed
from jitcore.codegen.lowering.nest import collapse
from jitcore.codegen.lowering.operands import ArrayRef, Element, Lazy
from jitcore.codegen.lowering.state import Lowering

__all__ = ["are_lanes", "join_by_lanes"]

VECTOR_BYTES = 64

WAITING = 8
"""As many vectors are joined side by side, because each waits for the one before."""

MOST_VECTORS = 16
"""More than this are not kept in registers."""

PART_BYTES = 2**16
"""What one of several threads takes at a time: some microseconds of work."""

Join = Callable[[Element, Element], Element]


def are_lanes(
    lowering: Lowering, operand: ArrayRef | Lazy, extents: Sequence[Expr], dtype: np.dtype[Any]
) -> bool:
    """Whether `join_by_lanes` takes the rows of a matrix that is walked as such extents."""
    has_lanes = _lanes(extents[1], dtype) is not None
    return has_lanes and len(collapse(lowering, operand.dims, [operand])) == 1


def join_by_lanes(
    lowering: Lowering,
    operand: ArrayRef | Lazy,
    extents: Sequence[Expr],
    target: ArrayRef,
    groups: tuple[int, ...],
    start: Element,
    join: Join,
) -> Expr:
    """Join most rows to what the results are already; gives how many.

    Parameters
    ----------
    lowering : Lowering
    operand : ArrayRef or Lazy
    extents : sequence of Expr
        The numbers of rows and of columns, as which the operand's axes are walked.
    target : ArrayRef
    groups : tuple of int
        The target's axes, which are walked as one.
    start : Element
        What changes nothing.
    join : callable
        Joins an element to a result, in any order.
    """
    rows, columns = extents
    count = _lanes(columns, target.dtype)
    walked = collapse(lowering, operand.dims, [operand])
    assert isinstance(columns, Const) and count is not None and len(walked) == 1
    step = count // int(columns.value)
    whole = _multiple(rows, step)
    if whole == ZERO:
        return ZERO
    emitter = lowering.emitter
    length = max(PART_BYTES // (target.dtype.itemsize * count), 1) * step
    parts = emitter.let("parts", _quotient(add(whole, integer(length - 1)), length))
    lanes = lowering.allocate("lanes", [parts, integer(count)], target.dtype, escapes=False)
    with emitter.loop("part", ZERO, parts, parallel=True) as part:
        first = emitter.copy("first", multiply(part, integer(length)))
        last = emitter.copy("last", minimum(add(first, integer(length)), whole))
        with emitter.loop("lane", ZERO, integer(count)) as lane:
            store(lowering, lanes, uncollapsed([part, lane]), start)
        with (
            emitter.loop("k", first, last, step=step) as row,
            emitter.loop("lane", ZERO, integer(count)) as lane,
        ):
            flat = Index((add(multiply(row, columns), lane),), walked)
            own = uncollapsed([part, lane])
            element = Elements(lowering)(operand, flat)
            store(lowering, lanes, own, join(load(lanes, own), element))
    with (
        emitter.loop("part", ZERO, parts) as part,
        emitter.loop("k", ZERO, integer(count), step=int(columns.value)) as lane,
        emitter.loop("column", ZERO, columns) as column,
    ):
        own, place = uncollapsed([part, add(lane, column)]), Index((column,), groups)
        store(lowering, target, place, join(load(target, place), load(lanes, own)))
    return whole


def _lanes(columns: Expr, dtype: np.dtype[Any]) -> int | None:
    """How many elements of several rows are joined side by side; None where that is no gain."""
    in_vector = VECTOR_BYTES // dtype.itemsize
    if not isinstance(columns, Const) or not 2 <= columns.value <= 4 * in_vector:
        return None
    period = lcm(int(columns.value), in_vector)
    if period > MOST_VECTORS * in_vector:
        return None
    return period * max(WAITING * in_vector // period, 1)


def _multiple(rows: Expr, step: int) -> Expr:
    return multiply(_quotient(rows, step), integer(step))


def _quotient(x: Expr, y: int) -> Expr:
    if isinstance(x, Const):
        return integer(x.value // y)
    return Binary("quot", x, integer(y), "int64")
