"""Reductions over leading axes: each row of the operand is joined to a row of the result.

Where the columns are many, threads share blocks of them, and each takes all rows, in NumPy's own
order of additions.  Few columns of many rows are cut into parts of rows instead.  Each part has a
row of sums of its own, and these are joined in their order.  Where the cuts are depends on the
extents alone, so neither the number of threads nor the kind of kernel ever changes a bit; and sums
of parts are more accurate than NumPy's, which are one long chain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from jitcore.codegen.loops import Const, Expr, If, Stmt
from jitcore.codegen.lowering.accumulators import combine, identity
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    add,
    both,
    cast,
    compare,
    constant,
    expression_dtype,
    integer,
    maximum,
    minimum,
    multiply,
    product,
    quotient_above,
    subtract,
)
from jitcore.codegen.lowering.elements import Elements, Index, load, store, uncollapsed
from jitcore.codegen.lowering.evaluation import Reduction
from jitcore.codegen.lowering.kinds import JOINS
from jitcore.codegen.lowering.narrow_rows import are_lanes, join_by_lanes
from jitcore.codegen.lowering.nest import COLUMN_BYTES, blocks_of_columns, nest
from jitcore.codegen.lowering.operands import ArrayRef, Element, Pair
from jitcore.codegen.lowering.pairs import combined
from jitcore.codegen.lowering.reduced_axes import group_axes
from jitcore.codegen.lowering.state import Lowering
from jitcore.codegen.lowering.walks import FEW_ROWS, PART, multiple_of
from jitcore.ir.dataclass import dataclass

__all__ = ["Change", "reduce_leading"]

ROWS_AT_ONCE = 4

MOST_PARTS = 16
"""More than this would not wait any less for memory."""

LEAST_ROWS = 64
"""What a part has at least, so that to join its sums takes little beside them."""

LEAST_DIVIDED = 4 * PART
"""How many elements are worth waking threads for."""

FEW_BLOCKS = 8
"""Fewer blocks of columns than this keep no threads busy, or not for the same time."""

Change = Callable[[Elements, Index, Element], Element]
"""What is joined of an element, at the index of its result."""

Along = Callable[[], AbstractContextManager[Index]]
"""Makes the loops over a row, or over a block's part of it."""


def reduce_leading(
    lowering: Lowering, reduction: Reduction, target: ArrayRef, change: Change
) -> None:
    """Write the results of a reduction, not all of whose last axes are reduced."""
    walk = _Rows(lowering, reduction, target, change)
    is_divided = walk.is_divided()
    if is_divided == TRUE:
        walk.in_parts()
    elif is_divided == FALSE:
        walk.in_blocks()
    else:
        parts: list[Stmt] = []
        blocks: list[Stmt] = []
        with lowering.scope(parts, hoist=True):
            walk.in_parts()
        with lowering.scope(blocks, hoist=True):
            walk.in_blocks()
        lowering.emitter.emit(If(is_divided, parts, blocks, unlikely=True))


@dataclass(frozen=True, slots=True)
class _Results:
    """Rows that the elements are joined to: one for each entry of the axes before."""

    array: ArrayRef
    before: tuple[Expr, ...]
    groups: tuple[int, ...]

    def at(self, inner: Index) -> Index:
        """The place of a column in the row."""
        return Index((*self.before, *inner.entries), self.groups)


class _Rows:
    """Takes one row after the other.

    Some rows are taken at once, so that the result's row is read and written less often.
    """

    def __init__(
        self, lowering: Lowering, reduction: Reduction, target: ArrayRef, change: Change
    ) -> None:
        self.lowering = lowering
        self.emitter = lowering.emitter
        self.operand = reduction.operand
        self.target = target
        self.change = change
        self.op = JOINS[reduction.kind]
        self.axes = group_axes(lowering, reduction.operand, reduction.reduced, target)
        last = max(number for number, one in enumerate(self.axes.is_reduced) if one)
        self.row = self.axes.extents[last + 1 :]
        self.around = [self.axes.extents[n] for n in range(last) if not self.axes.is_reduced[n]]
        self.reduced = self.axes.of(reduced=True)
        self.elements = Elements(lowering)

    # Which way ----------------------------------------------------------------------------

    def is_divided(self) -> Expr:
        """Whether threads share the rows: where these are many, and the columns few."""
        if not self.may_be_divided():
            return FALSE
        shared = self.emitter.shared
        rows, width = shared("rows", product(self.reduced)), shared("width", product(self.row))
        around = shared("around", product(self.around))
        least = multiply(around, integer(LEAST_DIVIDED))
        found = compare("ge", shared("size", multiply(rows, width)), least)
        found = both(found, compare("ge", rows, integer(4 * LEAST_ROWS)))
        found = both(found, compare("lt", around, integer(FEW_ROWS)))
        if len(self.row) == 1:
            most = FEW_BLOCKS * COLUMN_BYTES // self.target.dtype.itemsize
            found = both(found, compare("lt", width, integer(most)))
        return found

    def may_be_divided(self) -> bool:
        """Whether elements may be joined in parts, where they are not joined by lanes already.

        Each sum of float16 is rounded to it, so that those of parts would be other numbers.
        """
        kind = self.target.dtype.kind
        if self.is_in_any_order():
            return not self.takes_lanes()
        return self.op == "add" if kind == "c" else self.target.dtype.itemsize > 2

    def is_in_any_order(self) -> bool:
        """Whether the order of elements changes no more than the sign of a zero."""
        kind = self.target.dtype.kind
        return kind != "c" and (self.op in ("min", "max", "or", "and") or kind != "f")

    def takes_lanes(self) -> bool:
        """Whether vectors hold several rows."""
        is_matrix = self.axes.is_reduced == (True, False)
        extents, dtype = self.axes.extents, self.target.dtype
        return is_matrix and are_lanes(self.lowering, self.operand, extents, dtype)

    # In blocks of columns -----------------------------------------------------------------

    def in_blocks(self) -> None:
        """Take all rows, in blocks of columns, which stay in the cache."""
        lowering, groups = self.lowering, self.axes.kept_groups
        self.elements = Elements(lowering)
        itemsize = self.target.dtype.itemsize
        blocks = blocks_of_columns(lowering, self.around, self.row, itemsize)
        with nest(lowering, self.around, parallel=True) as outer, blocks as along:
            results = _Results(self.target, outer.entries, groups)
            self.begin(results, along)
            *slower, rows = self.reduced
            taken = self.by_lanes() if self.is_in_any_order() and self.takes_lanes() else ZERO
            with nest(lowering, slower) as places:
                self.take(results, along, outer.entries, places.entries, (taken, rows))

    def by_lanes(self) -> Expr:
        """Join most rows in vectors that hold several; gives how many."""
        return join_by_lanes(
            self.lowering,
            self.operand,
            self.axes.extents,
            self.target,
            self.axes.kept_groups,
            self.start(),
            self.joined,
        )

    # In parts of rows ---------------------------------------------------------------------

    def in_parts(self) -> None:
        """Take parts of the first reduced axis, each with sums of its own, and join these."""
        emitter, lowering = self.emitter, self.lowering
        self.elements = Elements(lowering)
        first, *rest = self.reduced
        # What is left beside whole steps is no part.
        whole = first if rest else emitter.let("whole", multiple_of(first, ROWS_AT_ONCE))
        length = emitter.let("length", self.length_of_a_part(whole, rest))
        count = emitter.let("parts", quotient_above(whole, length))
        sums = lowering.allocate("sums", [count, *self.row], self.target.dtype, escapes=False)

        def along() -> AbstractContextManager[Index]:
            return nest(lowering, self.row)

        with nest(lowering, self.around) as outer:
            with emitter.loop("part", ZERO, count, parallel=True) as part:
                start = emitter.copy("start", multiply(part, length))
                stop = emitter.copy("stop", minimum(add(start, length), whole))
                own = _Results(sums, (part,), (1,) * sums.rank)
                self.begin(own, along)
                self.take_part(own, along, outer.entries, (start, stop))
            results = _Results(self.target, outer.entries, self.axes.kept_groups)
            self.join(results, along, sums, count)
            if whole != first:
                self.take_steps(results, along, outer.entries, (), (whole, first), 1)

    def length_of_a_part(self, whole: Expr, rest: Sequence[Expr]) -> Expr:
        """How many entries of the first reduced axis make a part."""
        inner = maximum(product(rest), ONE)
        width = maximum(product(self.row), ONE)
        least = maximum(integer(LEAST_ROWS), quotient_above(integer(PART), width))
        length = maximum(quotient_above(least, inner), quotient_above(whole, integer(MOST_PARTS)))
        return length if rest else multiple_of(add(length, integer(ROWS_AT_ONCE - 1)), ROWS_AT_ONCE)

    def take_part(
        self, own: _Results, along: Along, outer: Sequence[Expr], bounds: tuple[Expr, Expr]
    ) -> None:
        """Take the rows of a part: whole steps of them, where no other axis is reduced."""
        if len(self.reduced) == 1:
            self.take_steps(own, along, outer, (), bounds, ROWS_AT_ONCE)
            return
        _, *slower, rows = self.reduced
        with self.emitter.loop("i", *bounds) as entry, nest(self.lowering, slower) as places:
            self.take(own, along, outer, (entry, *places.entries), (ZERO, rows))

    def join(self, results: _Results, along: Along, sums: ArrayRef, count: Expr) -> None:
        """Write the results, of the sums of parts in their order."""

        def joined(x: Element, part: Expr, inner: Index) -> Element:
            return self.joined(x, load(sums, uncollapsed([part, *inner.entries])))

        if isinstance(count, Const):
            with along() as inner:
                found = self.start()
                for part in range(int(count.value)):
                    found = joined(found, integer(part), inner)
                store(self.lowering, results.array, results.at(inner), found)
            return
        self.begin(results, along)
        with self.emitter.loop("part", ZERO, count) as number, along() as inner:
            found = joined(load(results.array, results.at(inner)), number, inner)
            store(self.lowering, results.array, results.at(inner), found)

    # Rows ---------------------------------------------------------------------------------

    def begin(self, results: _Results, along: Along) -> None:
        """Write what changes nothing."""
        with along() as inner:
            store(self.lowering, results.array, results.at(inner), self.start())

    def take(
        self,
        results: _Results,
        along: Along,
        outer: Sequence[Expr],
        places: Sequence[Expr],
        bounds: tuple[Expr, Expr],
    ) -> None:
        """Join rows of the last reduced axis; `outer` and `places` are the other axes' entries."""
        start, stop = bounds
        whole = add(start, multiple_of(subtract(stop, start), ROWS_AT_ONCE))
        self.take_steps(results, along, outer, places, (start, whole), ROWS_AT_ONCE)
        self.take_steps(results, along, outer, places, (whole, stop), 1)

    def take_steps(
        self,
        results: _Results,
        along: Along,
        outer: Sequence[Expr],
        places: Sequence[Expr],
        bounds: tuple[Expr, Expr],
        step: int,
    ) -> None:
        """Join so many rows at once, of which the bounds hold a multiple."""
        start, stop = bounds
        if start == stop:
            return
        with self.emitter.loop("k", start, stop, step=step) as first, along() as inner:
            kept = (*outer, *inner.entries)
            index = Index(kept, self.axes.kept_groups)
            joined = load(results.array, results.at(inner))
            for number in range(step):
                reduced = (*places, add(first, integer(number)))
                element = self.elements(self.operand, self.axes.entries(kept, reduced))
                joined = self.joined(joined, self.change(self.elements, index, element))
            store(self.lowering, results.array, results.at(inner), joined)

    def start(self) -> Element:
        """What changes nothing."""
        dtype = self.target.dtype
        if dtype.kind == "c":
            part = expression_dtype(dtype)
            return Pair(constant(int(self.op == "mul"), part), constant(0, part))
        return identity(self.op, dtype)

    def joined(self, x: Element, y: Element) -> Element:
        """A result and one more element."""
        op, dtype = self.op, self.target.dtype
        if isinstance(x, Pair):
            found = combined(op, x, y, dtype)
            assert isinstance(found, Pair)
            # Both parts are known before one is written: each part of a product needs both.
            copy = self.emitter.copy
            return Pair(copy("re", found.re), copy("im", found.im)) if op == "mul" else found
        if x.dtype != y.dtype:  # count_nonzero
            y = cast(cast(y, "bool"), x.dtype)
        return combine(op, x, y, dtype, reassoc=op in ("min", "max"))
