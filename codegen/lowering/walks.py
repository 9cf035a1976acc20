"""Walks over reduced axes: the loops around an accumulator, in blocks where it wants them.

A long walk that has no other walk beside it is cut into parts, which several threads may share.
Each part has an accumulator of its own, and these are joined in their order.  Where the cuts are
depends on the extents alone, so the number of threads never changes a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jitcore.codegen.loops import Binary, Break, Const, Expr, If, Stmt
from jitcore.codegen.lowering.accumulators import Accumulator
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    add,
    cast,
    compare,
    integer,
    maximum,
    minimum,
    multiply,
    product,
    quotient_above,
    select,
    subtract,
)
from jitcore.codegen.lowering.elements import load, store, uncollapsed
from jitcore.codegen.lowering.nest import INDEX_NAMES
from jitcore.codegen.lowering.operands import Element, Pair
from jitcore.codegen.lowering.state import Lowering

__all__ = [
    "FEW_ROWS",
    "LEAST_DIVIDED",
    "LEAST_LOOKED_AT_TWICE",
    "PART",
    "ElementAt",
    "are_divided",
    "multiple_of",
    "reduce_elements",
]

ElementAt = Callable[[Sequence[Expr]], Element]
"""Gives the element at an entry for each reduced axis."""


PART = 2**14
"""How many elements a part has: several microseconds of work."""

LEAST_DIVIDED = 2 * PART

FEW_ROWS = 8
"""Fewer rows than this keep no threads busy, or not for the same time."""

LONG_ROW = 2**18
"""From this length on a row is worth waking threads for."""

LEAST_LOOKED_AT_TWICE = 3 * 2**20
"""How many elements are too many to be walked twice: caches that the cores share lose them.

The parts of fewer are looked at once, which takes 0.85 of the time where they are in those caches
(and up to 1.9 times that where they are not).
"""

SEARCHED = 256
"""How many elements a search looks at before it asks whether one of them was it."""


def are_divided(rows: Sequence[Expr], row: Sequence[Expr]) -> bool:
    """Whether threads share the elements of each row, and not the rows: those are few and long."""
    count, length = product(rows), product(row)
    if count == ONE:
        return True
    if not isinstance(count, Const) or not isinstance(length, Const):
        return False
    return bool(count.value < FEW_ROWS and length.value >= LONG_ROW)


def reduce_elements(
    lowering: Lowering,
    taker: Accumulator,
    extents: Sequence[Expr],
    element: ElementAt,
    *,
    alone: bool = False,
) -> Element:
    """Walk the reduced axes with an accumulator; gives the result, bound to variables.

    With ``alone`` no loop around the walk has work for several threads.
    """
    count = product(extents)
    if isinstance(count, Const):
        taker = taker.suited_to(count.value)
    taker.open()
    if alone and taker.taken() and not taker.is_device:
        _walk_in_parts(lowering, taker, extents, element)
    else:
        _Walk(lowering, taker, extents, element, alone=alone).along([])
    return _bound(lowering, taker.result())


def _bound(lowering: Lowering, result: Element) -> Element:
    copy = lowering.emitter.copy
    if isinstance(result, tuple):
        return tuple(_bound(lowering, one) for one in result)
    if isinstance(result, Pair):
        return Pair(copy("result_re", result.re), copy("result_im", result.im))
    return copy("result", result)


def _walk_in_parts(
    lowering: Lowering, taker: Accumulator, extents: Sequence[Expr], element: ElementAt
) -> None:
    """Walk long axes in parts, and short ones in one.

    What loops of the program reduce is taken to be short where that is not known: the code is there
    once then, and closer to what is around it.
    """
    is_long = compare("ge", lowering.size(extents), integer(LEAST_DIVIDED))
    if lowering.loops_around and not isinstance(is_long, Const):
        is_long = FALSE
    parts: list[Stmt] = []
    whole: list[Stmt] = []
    if is_long != FALSE:
        looks_twice = compare("ge", lowering.size(extents), integer(LEAST_LOOKED_AT_TWICE))
        if looks_twice == FALSE:
            taker.look_once()
        looks_twice = lowering.emitter.let("looks_twice", looks_twice)
        taker.open_parts(looks_twice)
        with lowering.scope(parts, hoist=True):
            _Parts(lowering, taker, extents, element, looks_twice).walk()
    if is_long != TRUE:
        with lowering.scope(whole, hoist=True):
            _Walk(lowering, taker, extents, element).along([])
    if isinstance(is_long, Const):
        lowering.emitter.extend([*parts, *whole])
    else:
        # For short ones it counts how many instructions are on the way.
        lowering.emitter.emit(If(is_long, parts, whole, unlikely=True))


class _Parts:
    """A walk in parts along the first axis."""

    def __init__(
        self,
        lowering: Lowering,
        taker: Accumulator,
        extents: Sequence[Expr],
        element: ElementAt,
        looks_twice: Expr,
    ) -> None:
        self.lowering = lowering
        self.emitter = lowering.emitter
        self.taker = taker
        self.extents = extents
        self.element = element
        self.looks_twice = looks_twice

    def walk(self) -> None:
        """Walk the parts, join them, and take what no part has."""
        emitter, (first, *rest) = self.emitter, self.extents
        length = emitter.let("length", _rows_of_a_part(rest))
        # What is left beside whole vectors is no part, but where parts are looked at twice.
        whole = first
        if not rest:
            vectors = multiple_of(first, self.taker.tail)
            whole = select(self.looks_twice, first, vectors) if self.taker.looks_twice else vectors
            whole = emitter.let("whole", whole)
        count = emitter.let("parts", quotient_above(whole, length))
        found = [
            self.lowering.allocate(f"{name}_parts", [count], dtype, escapes=False)
            for name, dtype in self.taker.left_by_parts()
        ]

        def bounds(part: Expr) -> tuple[Expr, Expr]:
            start = emitter.copy("start", multiply(part, length))
            return start, emitter.copy("stop", minimum(add(start, length), whole))

        def left_by(part: Expr) -> list[Expr]:
            return [load(array, uncollapsed([part])) for array in found]

        with emitter.loop("part", ZERO, count, parallel=True) as part:
            own = self.take(bounds(part))
            for array, value in zip(found, own.taken(), strict=True):
                store(self.lowering, array, uncollapsed([part]), value)
        with emitter.loop("part", ZERO, count) as part:
            self.taker.join(left_by(part))
        if whole != first:
            _Walk(self.lowering, self.taker, self.extents, self.element).run([], whole, first)
        if self.taker.looks_twice:
            with emitter.branch(self.looks_twice):
                self.taker.begin_again(product(self.extents))
                with emitter.loop("part", ZERO, count) as part:
                    self.taker.join_again(left_by(part), self.size(bounds(part)))

    def take(self, bounds: tuple[Expr, Expr]) -> Accumulator:
        """Take a part with an accumulator of its own."""
        own = self.taker.of_part()
        own.open()
        _Walk(self.lowering, own, self.extents, self.element, bounds).along([])
        again = own.look_again(self.size(bounds))
        if again is not None:
            again.open()
            with self.emitter.branch(self.looks_twice):
                _Walk(self.lowering, again, self.extents, self.element, bounds).along([])
        return own

    def size(self, bounds: tuple[Expr, Expr]) -> Expr:
        """How many elements a part has."""
        start, stop = bounds
        return product([subtract(stop, start), *self.extents[1:]])


def _rows_of_a_part(rest: Sequence[Expr]) -> Expr:
    """How many entries of the first axis make a part."""
    if not rest:
        return integer(PART)
    inner = maximum(product(rest), ONE)
    if isinstance(inner, Const):
        return integer(max(PART // inner.value, 1))
    return maximum(Binary("quot", integer(PART), inner, "int64"), ONE)


class _Walk:
    """One walk: nested loops, and for the last axis one loop, or blocks of a loop."""

    def __init__(
        self,
        lowering: Lowering,
        taker: Accumulator,
        extents: Sequence[Expr],
        element: ElementAt,
        bounds: tuple[Expr, Expr] | None = None,
        *,
        alone: bool = True,
    ) -> None:
        self.alone = alone
        self.emitter = lowering.emitter
        self.taker = taker
        self.extents = extents
        self.element = element
        self.bounds = bounds

    def bounds_of(self, axis: int) -> tuple[Expr, Expr]:
        """Where the walk begins and ends along an axis."""
        if axis == 0 and self.bounds is not None:
            return self.bounds
        return ZERO, self.extents[axis]

    def along(self, entries: list[Expr]) -> None:
        """Walk the axes that have no entry yet."""
        if len(self.extents) - len(entries) == 1:
            self.along_last(entries)
            return
        if len(self.extents) - len(entries) == 2 and self.rows_of_a_block() > 1:
            self.along_short_rows(entries)
            return
        name = INDEX_NAMES[min(len(entries), len(INDEX_NAMES) - 1)]
        with self.emitter.loop(name, *self.bounds_of(len(entries))) as entry:
            self.along([*entries, entry])
            self.stop_when_done()

    def rows_of_a_block(self) -> int:
        """How many rows of the last axis a block holds: none where that is not known."""
        row, block = self.extents[-1], self.taker.block
        if block is None or not isinstance(row, Const) or self.taker.searches:
            return 0
        return block // max(int(row.value), 1)

    def along_short_rows(self, entries: list[Expr]) -> None:
        """Walk the last two axes with many rows to a block."""
        emitter, rows = self.emitter, self.rows_of_a_block()
        first, last = self.bounds_of(len(entries))
        with emitter.loop("block", first, last, step=rows) as start:
            stop = emitter.copy("stop", minimum(add(start, integer(rows)), last))
            self.taker.open_block()
            width = self.extents[-1]
            with emitter.loop("row", start, stop) as row, emitter.loop("k", ZERO, width) as entry:
                own = [*entries, row, entry]
                self.taker.add(self.element(own), _place(self.extents, own))
            self.taker.close_block()
            self.stop_when_done()

    def along_last(self, entries: list[Expr]) -> None:
        """Walk the last axis."""
        (first, last), block = self.bounds_of(len(entries)), self.taker.block
        if block is None:
            self.run(entries, first, last)
            return
        if first != ZERO:
            # A part, which holds no rest.
            self.in_blocks(entries, first, last, block)
            return
        if self.taker.tail > 1 and not (entries or self.alone or isinstance(last, Const)):
            self.along_open_row(entries, last, block)
            return
        whole = self.emitter.let("whole", multiple_of(last, self.taker.tail))
        if whole != last:
            # Short rows have nothing else, and then there is nothing to join it with.
            self.run(entries, whole, last, is_first=not entries)
        if isinstance(whole, Const) and whole.value <= block:
            self.run(entries, ZERO, whole)
        else:
            self.in_blocks(entries, ZERO, whole, block)

    def along_open_row(self, entries: list[Expr], last: Expr, block: int) -> None:
        """Walk an axis of unknown length: first what is left beside whole blocks, or a block.

        Rows that fit in a block are this run only.
        """
        emitter = self.emitter
        left = Binary("and", subtract(last, ONE), integer(block - 1), "int64")
        head = emitter.let("head", minimum(add(left, ONE), last))
        self.run(entries, ZERO, head, is_first=True)
        with emitter.branch(compare("lt", head, last)):
            with emitter.loop("block", head, last, step=block) as start:
                self.run(entries, start, add(start, integer(block)))
            self.taker.settle()

    def in_blocks(self, entries: list[Expr], first: Expr, last: Expr, block: int) -> None:
        """Take a part of the last axis in runs of a block."""
        with self.emitter.loop("block", first, last, step=block) as start:
            stop = minimum(add(start, integer(block)), last)
            self.run(entries, start, self.emitter.copy("stop", stop))
            self.stop_when_done()

    def run(self, entries: list[Expr], start: Expr, stop: Expr, *, is_first: bool = False) -> None:
        """Take the elements of a part of the last axis."""
        if start == stop:
            return
        self.taker.open_block()
        with self.emitter.loop("k", start, stop) as entry:
            place = _place(self.extents, [*entries, entry])
            self.taker.add(self.element([*entries, entry]), place)
        if is_first:
            self.taker.close_first()
        else:
            self.taker.close_block()
        if self.taker.improved() != FALSE:
            self.search(entries, start, stop)

    def search(self, entries: list[Expr], start: Expr, stop: Expr) -> None:
        """Find the element of a block that made the result better, in loops without branches."""
        emitter, taker = self.emitter, self.taker
        # In a block, whose places are numbers of the elements' own size or shorter.
        dtype = "int64" if taker.block is None else "int32"
        nowhere = Const(np.iinfo(dtype).max, dtype)

        def look(begin: Expr, end: Expr, is_it: Callable[[Element], Expr]) -> None:
            with emitter.loop("k", begin, end) as entry:
                place = cast(subtract(entry, start), dtype)
                place = select(is_it(self.element([*entries, entry])), place, nowhere)
                emitter.assign(first, Binary("min", first, place, dtype))

        with emitter.branch(emitter.let("improved", taker.improved())):
            first = emitter.mutable("first", nowhere)
            if taker.block is None:
                look(start, stop, taker.matches)
            else:
                with emitter.loop("searched", start, stop, step=SEARCHED) as begin:
                    end = emitter.copy("end", minimum(add(begin, integer(SEARCHED)), stop))
                    look(begin, end, taker.matches)
                    emitter.emit(If(compare("lt", first, nowhere), [Break()]))
            if taker.asks_for_nan:
                with emitter.branch(compare("eq", first, nowhere), unlikely=True):
                    look(start, stop, taker.is_nan)
            found = emitter.copy("found", add(start, cast(first, "int64")))
            taker.found(_place(self.extents, [*entries, found]))

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
