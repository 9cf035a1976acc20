"""Walks over reduced axes: the loops around an accumulator, in blocks where it wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitcore.codegen.loops import Binary, Break, Const, Expr, If
from jitcore.codegen.lowering.accumulators import Accumulator
from jitcore.codegen.lowering.arithmetic import FALSE, ZERO, add, integer, minimum, multiply, select
from jitcore.codegen.lowering.nest import INDEX_NAMES
from jitcore.codegen.lowering.operands import Element, Pair
from jitcore.codegen.lowering.state import Lowering

__all__ = ["ElementAt", "multiple_of", "reduce_elements"]

ElementAt = Callable[[Sequence[Expr]], Element]
"""Gives the element at an entry for each reduced axis."""


def reduce_elements(
    lowering: Lowering, taker: Accumulator, extents: Sequence[Expr], element: ElementAt
) -> Element:
    """Walk the reduced axes with an accumulator; gives the result, bound to variables."""
    taker.open()
    _Walk(lowering, taker, extents, element).along([])
    result = taker.result()
    copy = lowering.emitter.copy
    if isinstance(result, Pair):
        return Pair(copy("result_re", result.re), copy("result_im", result.im))
    return copy("result", result)


NOWHERE = integer(2**63 - 1)
"""A place behind all others."""


class _Walk:
    """One walk: nested loops, and for the last axis one loop, or blocks of a loop."""

    def __init__(
        self,
        lowering: Lowering,
        taker: Accumulator,
        extents: Sequence[Expr],
        element: ElementAt,
    ) -> None:
        self.emitter = lowering.emitter
        self.taker = taker
        self.extents = extents
        self.element = element

    def along(self, entries: list[Expr]) -> None:
        """Walk the axes that have no entry yet."""
        if len(self.extents) - len(entries) == 1:
            self.along_last(entries)
            return
        name = INDEX_NAMES[min(len(entries), len(INDEX_NAMES) - 1)]
        with self.emitter.loop(name, ZERO, self.extents[len(entries)]) as entry:
            self.along([*entries, entry])
            self.stop_when_done()

    def along_last(self, entries: list[Expr]) -> None:
        """Walk the last axis."""
        extent, block = self.extents[-1], self.taker.block
        if block is None:
            self.run(entries, ZERO, extent)
            return
        whole = self.emitter.let("whole", multiple_of(extent, self.taker.tail))
        if isinstance(whole, Const) and whole.value <= block:
            self.run(entries, ZERO, whole)
        else:
            with self.emitter.loop("block", ZERO, whole, step=block) as start:
                stop = minimum(add(start, integer(block)), whole)
                self.run(entries, start, self.emitter.copy("stop", stop))
                self.stop_when_done()
        if whole != extent:
            self.run(entries, whole, extent)

    def run(self, entries: list[Expr], start: Expr, stop: Expr) -> None:
        """Take the elements of a part of the last axis."""
        if start == stop:
            return
        self.taker.open_block()
        with self.emitter.loop("k", start, stop) as entry:
            place = _place(self.extents, [*entries, entry])
            self.taker.add(self.element([*entries, entry]), place)
        self.taker.close_block()
        if self.taker.improved() != FALSE:
            self.search(entries, start, stop)

    def search(self, entries: list[Expr], start: Expr, stop: Expr) -> None:
        """Find the element of a block that made the result better, in a loop without branches."""
        emitter = self.emitter
        improved = emitter.copy("improved", self.taker.improved())
        with emitter.branch(improved):
            first = emitter.mutable("first", NOWHERE)
            with emitter.loop("k", start, stop) as entry:
                matches = self.taker.matches(self.element([*entries, entry]))
                place = _place(self.extents, [*entries, entry])
                emitter.assign(first, minimum(first, select(matches, place, NOWHERE)))
            self.taker.found(first)

    def stop_when_done(self) -> None:
        """Leave the loop early where nothing can change any more."""
        done = self.taker.done()
        if done != FALSE:
            self.emitter.emit(If(done, [Break()]))


def multiple_of(extent: Expr, size: int) -> Expr:
    """The largest multiple of a power of two that an extent holds."""
    if size == 1:
        return extent
    if isinstance(extent, Const):
        return integer(extent.value - extent.value % size)
    return Binary("and", extent, integer(-size), "int64")


def _place(extents: Sequence[Expr], entries: Sequence[Expr]) -> Expr:
    place: Expr = ZERO
    for extent, entry in zip(extents, entries, strict=True):
        place = add(multiply(place, extent), entry)
    return place
