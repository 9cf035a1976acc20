"""Stores of values that read neighbours of what they write: each block waits for the next one.

``u[1:-1] = u[1:-1] + k * (u[2:] - 2 * u[1:-1] + u[:-2])`` reads elements that are written before
and after.  A copy of all values would go through memory once more.  So the new rows of a block go
to a small buffer, and from there to the array when the block behind has been computed, which reads
the last rows as they were.  Threads have parts of their own.  The first and the last rows of a
part, which its neighbours read, are written when all parts are done.

The loops::

    for part in range(parts):                      # parallel
        compute the first and the last rows of the part to edges
        for block in range(blocks + 1):
            if block < blocks: compute the rows of the block to buffer[block % 2]
            if block > 0: copy buffer[(block - 1) % 2] to the rows of the block before
    copy all edges to their rows
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jitcore.codegen.loops import Binary, Const, Expr
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    compare,
    integer,
    minimum,
    multiply,
    subtract,
)
from jitcore.codegen.lowering.elements import Elements, load, store, uncollapsed
from jitcore.codegen.lowering.nest import nest
from jitcore.codegen.lowering.operands import ArrayRef, Lazy
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.dataclass import dataclass

__all__ = ["store_lagging"]

BLOCK_BYTES = 2**12
"""What a block has at least: two of them, and what they read, stay in the first cache."""

PART_BYTES = 2**16
"""What a part has at least: several microseconds of work."""

MOST_PARTS = 16


@dataclass(frozen=True, slots=True)
class _Plan:
    """How rows are cut: so many parts of so many rows, blocks of rows, and how far reads go."""

    rows: int
    part: int
    block: int
    reach: int

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return -(-self.rows // self.part)


def store_lagging(
    lowering: Lowering, value: Lazy, target: ArrayRef, reads: Sequence[ArrayRef]
) -> bool:
    """Write a value that reads its target's memory at fixed distances; False where it does not.

    Parameters
    ----------
    lowering : Lowering
    value : Lazy
        What is written, in the extents of the target.
    target : ArrayRef
    reads : sequence of ArrayRef
        The arrays that the value reads at the place that is written, and that may change.
    """
    plan = None if lowering.target.is_device else _plan(target, reads)
    if plan is None:
        return False
    _LaggingStore(lowering, value, target, plan).emit()
    return True


def _plan(target: ArrayRef, reads: Sequence[ArrayRef]) -> _Plan | None:
    """The cuts, where all numbers are known and a part is longer than what is read beside it."""
    dims, strides = _numbers(target.dims), _numbers(target.strides)
    if not dims or not strides or min(strides) <= 0 or min(dims) < 1:
        return None
    (rows, *row), (step, *inner) = dims, strides
    span = sum((extent - 1) * stride for extent, stride in zip(row, inner, strict=True))
    distances = [_distance(read, target) for read in reads]
    if span >= step or not all(distances):
        return None
    farthest = max(abs(one) for one in distances if one is not None)
    reach = max((farthest + span) // step, 1)
    row_bytes = target.dtype.itemsize
    for extent in row:
        row_bytes *= extent
    block = max(-(-BLOCK_BYTES // row_bytes), reach)
    least = max(-(-PART_BYTES // row_bytes), 4 * block)
    part = max(-(-rows // MOST_PARTS), least)
    # The last part is the shortest one.
    is_long = rows >= 4 * block and (rows - 1) % part + 1 > 2 * reach
    return _Plan(rows, part, block, reach) if is_long else None


def _numbers(exprs: Sequence[Expr]) -> list[int] | None:
    found = [int(one.value) for one in exprs if isinstance(one, Const)]
    return found if len(found) == len(exprs) else None


def _distance(read: ArrayRef, target: ArrayRef) -> int | None:
    """How many elements after the place that is written one reads; None where that varies."""
    is_alike = (
        read.roots == target.roots
        and read.pointer == target.pointer
        and read.dims == target.dims
        and read.strides == target.strides
        and read.dtype == target.dtype
    )
    places = _numbers([read.offset, target.offset])
    return places[0] - places[1] if is_alike and places is not None else None


class _LaggingStore:
    """One such store being lowered."""

    def __init__(self, lowering: Lowering, value: Lazy, target: ArrayRef, plan: _Plan) -> None:
        self.lowering = lowering
        self.emitter = lowering.emitter
        self.value = value
        self.target = target
        self.plan = plan

    def emit(self) -> None:
        """Emit all loops."""
        plan, emitter = self.plan, self.emitter
        edges = self.room("edges", 2 * plan.reach)
        buffers = self.room("buffer", 2 * plan.block)
        with emitter.loop("part", ZERO, integer(plan.parts), parallel=True) as part:
            with self.edge(part) as (first, last, place):
                self.compute(first, last, edges, part, place)
            self.inside(part, buffers)
        with (
            emitter.loop("part", ZERO, integer(plan.parts)) as part,
            self.edge(part) as (first, last, place),
        ):
            self.copy(first, last, edges, part, place)

    def room(self, name: str, rows: int) -> ArrayRef:
        """Memory for some rows of each part."""
        dims = [integer(self.plan.parts), integer(rows), *self.target.dims[1:]]
        return self.lowering.allocate(name, dims, self.target.dtype, escapes=False)

    def bounds(self, part: Expr) -> tuple[Expr, Expr]:
        """The rows of a part."""
        start = self.emitter.copy("start", multiply(part, integer(self.plan.part)))
        stop = minimum(add(start, integer(self.plan.part)), integer(self.plan.rows))
        return start, self.emitter.copy("stop", stop)

    @contextmanager
    def edge(self, part: Expr) -> Iterator[tuple[Expr, Expr, Expr]]:
        """A loop over the first and the last rows of a part, with their place among its edges."""
        emitter, reach = self.emitter, integer(self.plan.reach)
        start, stop = self.bounds(part)
        length = subtract(subtract(stop, start), reach)
        with emitter.loop("edge", ZERO, integer(2)) as edge:
            first = emitter.copy("first", add(start, multiply(edge, length)))
            yield first, emitter.copy("last", add(first, reach)), multiply(edge, reach)

    def inside(self, part: Expr, buffers: ArrayRef) -> None:
        """All other rows, a block after the other."""
        emitter = self.emitter
        start, stop = self.bounds(part)
        size = integer(self.plan.block)
        first = emitter.copy("first", add(start, integer(self.plan.reach)))
        last = emitter.copy("last", subtract(stop, integer(self.plan.reach)))

        def rows(block: Expr) -> tuple[Expr, Expr, Expr]:
            begin = emitter.copy("begin", add(first, multiply(block, size)))
            end = emitter.copy("end", minimum(add(begin, size), last))
            return begin, end, multiply(Binary("and", block, ONE, "int64"), size)

        length = add(subtract(last, first), subtract(size, ONE))
        blocks = emitter.copy("blocks", Binary("quot", length, size, "int64"))
        with emitter.loop("block", ZERO, add(blocks, ONE)) as block:
            with emitter.branch(compare("lt", block, blocks)):
                begin, end, place = rows(block)
                self.compute(begin, end, buffers, part, place)
            with emitter.branch(compare("gt", block, ZERO)):
                begin, end, place = rows(subtract(block, ONE))
                self.copy(begin, end, buffers, part, place)

    def compute(self, first: Expr, last: Expr, rows: ArrayRef, part: Expr, place: Expr) -> None:
        """Put the new values of some rows at a place."""
        elements = Elements(self.lowering)
        with (
            self.emitter.nest(),
            self.emitter.loop("i", first, last) as i,
            nest(self.lowering, self.target.dims[1:]) as inner,
        ):
            own = [part, add(place, subtract(i, first)), *inner.entries]
            element = elements(self.value, uncollapsed([i, *inner.entries]))
            store(self.lowering, rows, uncollapsed(own), element)

    def copy(self, first: Expr, last: Expr, rows: ArrayRef, part: Expr, place: Expr) -> None:
        """Write what is there to the target."""
        with (
            self.emitter.nest(),
            self.emitter.loop("i", first, last) as i,
            nest(self.lowering, self.target.dims[1:]) as inner,
        ):
            own = [part, add(place, subtract(i, first)), *inner.entries]
            places = uncollapsed([i, *inner.entries])
            store(self.lowering, self.target, places, load(rows, uncollapsed(own)))
