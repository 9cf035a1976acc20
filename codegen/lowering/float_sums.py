"""Accumulators of floating-point sums.

Sums of floats are at least as accurate as NumPy's pairwise sums: short blocks are added up in
several partial sums, which is what lets them be vectorized, and the blocks' sums are added with
compensation (Neumaier, ZAMM 54, 1974).  Sums of float32 are kept in float64, to which several
elements are converted together where these are cheap (`loop_passes.lane_sums`).

On a device thousands of threads have a short sum each, which are then added up as a tree: nothing
of this is needed, and each sum is of its elements' own dtype, or of float32 where that is float16,
as NumPy's are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from jitcore.codegen.engine import vector_bits
from jitcore.codegen.loops import Binary, Expr, Var
from jitcore.codegen.lowering.accumulators import Accumulator, Several, kept_in
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    both,
    cast,
    compare,
    constant,
    expression_dtype,
    select,
)
from jitcore.codegen.lowering.operands import Element, Pair
from jitcore.codegen.lowering.state import Lowering

__all__ = ["SUM_TAIL", "ComplexSum", "FloatSum", "Moments", "moments"]

LONGEST_CHAIN = 16
"""Elements that a partial sum takes before compensation: NumPy's pairwise sums take as many."""

PARTIAL_SUMS = 4
"""Vectors of partial sums that most loops keep (`printers.loop_hints`)."""

SUM_TAIL = 32
"""What a vector loop takes at a time; the rest is added up apart, in no long chain."""

MOST_CANCELLED = 2.0**16
"""By what factor squares may exceed those of deviations: of 53 bits enough are left for float32."""

FLOAT_ZERO = constant(0.0, "float64")


class FloatSum(Accumulator):
    """The sum of float32 or float64, kept in float64.

    Terms that come of float32 need no compensation, even where they are float64 themselves.
    """

    is_settled = False
    """Whether what rounding has lost is in the total."""

    def __init__(
        self, lowering: Lowering, dtype: np.dtype[Any], source: np.dtype[Any] | None = None
    ) -> None:
        super().__init__(lowering, dtype)
        self.wide = kept_in(dtype).name if self.is_device else "float64"
        self.is_compensated = (source or dtype) == np.float64 and not self.is_device
        if self.is_compensated:
            # Blocks of unknown sums are not all as long: NumPy's partial sums of those have less.
            self.block = _longest_block() // 2
            self.tail = SUM_TAIL

    def suited_to(self, count: int) -> Self:
        """The same, without compensation where one block holds all elements.

        Others are cut into blocks of the same length, the last of which may be shorter.
        """
        if not self.is_compensated:
            return self
        longest = _longest_block()
        if count <= longest:
            self.is_compensated = False
            if count < SUM_TAIL or count % SUM_TAIL == 0:
                self.block, self.tail = None, 1
        else:
            whole = count // SUM_TAIL
            self.block = SUM_TAIL * -(-whole // -(-count // longest))
        return self

    def of_part(self) -> Self:
        # The same for lengths that are known and unknown: most parts are whole blocks.
        other = super().of_part()
        if other.is_compensated:
            other.block = _longest_block()
        return other

    def open(self) -> None:
        self.total = self.emitter.mutable("total", constant(0.0, self.wide))
        if self.is_compensated:
            self.error = self.emitter.mutable("error", FLOAT_ZERO)

    def open_block(self) -> None:
        if self.block is not None:
            self.partial = self.emitter.mutable("partial", FLOAT_ZERO)

    def share(self, other: FloatSum) -> None:
        """Have the sum of the same elements that another one has taken."""
        self.total, self.is_compensated = other.total, other.is_compensated
        self.is_settled = other.is_settled
        if self.is_compensated:
            self.error = other.error

    def add(self, element: Element, place: Expr) -> None:
        target = self.total if self.block is None else self.partial
        wide = cast(element, self.wide)
        self.emitter.assign(target, Binary("add", target, wide, self.wide, reassoc=True))

    def close_block(self) -> None:
        if self.is_compensated:
            self.add_compensated(self.partial)
        elif self.block is not None:
            self.emitter.assign(self.total, Binary("add", self.total, self.partial, self.wide))

    def close_first(self) -> None:
        if self.block is not None:
            self.emitter.assign(self.total, self.partial)

    def add_compensated(self, value: Expr) -> None:
        """Add a sum to the total, and what rounding loses to the error."""
        emitter = self.emitter
        old, term = emitter.copy("old", self.total), emitter.copy("term", value)
        new = emitter.copy("sum", Binary("add", old, term, "float64"))
        error = Binary("add", self.error, _lost(old, term, new), "float64")
        emitter.assign(self.error, error)
        emitter.assign(self.total, new)

    def settle(self) -> None:
        self.emitter.assign(self.total, self.wide_result())
        self.is_settled = True

    def taken(self) -> tuple[Expr, ...]:
        return (self.total, self.error) if self.is_compensated else (self.total,)

    def join(self, values: Sequence[Expr]) -> None:
        if not self.is_compensated:
            self.emitter.assign(self.total, Binary("add", self.total, values[0], self.wide))
            return
        self.add_compensated(values[0])
        self.emitter.assign(self.error, Binary("add", self.error, values[1], "float64"))

    def wide_result(self) -> Expr:
        """The sum in the dtype it is kept in, before it is rounded."""
        if not self.is_compensated or self.is_settled:
            return self.total
        compensated = Binary("add", self.total, self.error, "float64")
        # Infinite sums leave NaN for an error.
        is_usable = compare("eq", self.error, self.error)
        return select(is_usable, compensated, self.total)

    def result(self) -> Element:
        return cast(self.wide_result(), self.dtype.name)


class Moments(FloatSum):
    """The sum of elements, and what the squares of their deviations from the mean add up to."""

    def deviations(self, mean: Expr) -> tuple[Expr, Expr]:
        """The sum of the squares of the deviations from the mean, and whether it is good enough.

        Where it is not, the elements have to be walked once more.
        """
        return FLOAT_ZERO, FALSE


class Squares(Moments):
    """The sum, and the sum of squares, of elements whose squares float64 holds exactly."""

    def open(self) -> None:
        super().open()
        self.squares = self.emitter.mutable("squares", FLOAT_ZERO)

    def share(self, other: FloatSum) -> None:
        assert isinstance(other, Squares)
        super().share(other)
        self.squares = other.squares

    def add(self, element: Element, place: Expr) -> None:
        wide = self.emitter.copy("wide", cast(element, "float64"))
        super().add(wide, place)
        square = Binary("mul", wide, wide, "float64", contract=True)
        self.emitter.assign(self.squares, Binary("add", self.squares, square, "float64", True))

    def taken(self) -> tuple[Expr, ...]:
        return (self.total, self.squares)

    def join(self, values: Sequence[Expr]) -> None:
        super().join(values)
        self.emitter.assign(self.squares, Binary("add", self.squares, values[1], "float64"))

    def deviations(self, mean: Expr) -> tuple[Expr, Expr]:
        # A difference of two sums, which leaves too few of their digits where the mean is much
        # larger than the deviations.
        part = Binary("mul", self.total, mean, "float64")
        squares = self.emitter.copy("deviations", Binary("sub", self.squares, part, "float64"))
        most = Binary("mul", squares, constant(MOST_CANCELLED, "float64"), "float64")
        return squares, compare("ge", most, self.squares)


class Deviations(Moments):
    """The sum, and for walks in parts the squares of the deviations from the mean.

    A part is looked at twice while it is in the cache: for a mean m of its own, and for the squares
    of the deviations from that.  With M the mean of all elements ::

        sum((x - M)**2) == sum((x - m)**2) + (m - M) * (2 * sum(x - m) + count * (m - M))

    for whatever numbers m and M are, so that their rounding loses nothing.  It is what Chan, Golub
    and LeVeque's updating formula ("Algorithms for computing the sample variance", The American
    Statistician 37, 1983) is before the sums of deviations are taken to vanish.
    """

    looks_twice = True
    is_known: Expr = FALSE
    """Whether the squares are there: the parts of the walk were looked at twice."""
    squares: FloatSum | None = None

    def open_parts(self, looks_twice: Expr) -> None:
        if self.looks_twice:
            self.is_known = looks_twice
            self.squares = FloatSum(self.lowering, self.dtype)
            self.squares.open()

    def share(self, other: FloatSum) -> None:
        assert isinstance(other, Deviations)
        super().share(other)
        self.is_known, self.squares = other.is_known, other.squares

    def look_again(self, size: Expr) -> Accumulator | None:
        if not self.looks_twice:
            return None
        self.squares = _Deviations(self, self.mean_of(self.wide_result(), size))
        return self.squares

    def left_by_parts(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        more = ("squares", "rest") if self.looks_twice else ()
        return (*super().left_by_parts(), *((name, self.dtype) for name in more))

    def taken(self) -> tuple[Expr, ...]:
        if not isinstance(self.squares, _Deviations):
            return super().taken()
        return (*super().taken(), self.squares.wide_result(), self.squares.rest)

    def join(self, values: Sequence[Expr]) -> None:
        super().join(values[:2])

    def begin_again(self, size: Expr) -> None:
        self.mean = self.mean_of(self.wide_result(), size)

    def join_again(self, values: Sequence[Expr], size: Expr) -> None:
        total, error, squares, rest = values

        def add(x: Expr, y: Expr) -> Expr:
            return Binary("add", x, y, "float64")

        def multiply(x: Expr, y: Expr) -> Expr:
            return Binary("mul", x, y, "float64")

        mean = self.mean_of(add(total, error), size)
        distance = self.emitter.copy("distance", Binary("sub", mean, self.mean, "float64"))
        assert self.squares is not None
        between = add(add(rest, rest), multiply(cast(size, "float64"), distance))
        self.squares.add_compensated(add(squares, multiply(distance, between)))

    def mean_of(self, total: Expr, size: Expr) -> Var:
        """The mean of so many elements."""
        mean = Binary("div", total, cast(size, "float64"), "float64")
        return self.emitter.copy("mean", mean)

    def deviations(self, mean: Expr) -> tuple[Expr, Expr]:
        if self.squares is None:
            return FLOAT_ZERO, FALSE
        # Sums of parts may be too large where one of all elements, in NumPy's order, is not.
        found = self.emitter.copy("deviations", self.squares.wide_result())
        is_finite = compare("lt", found, constant(np.inf, "float64"))
        return found, both(self.is_known, is_finite)


class _Deviations(FloatSum):
    """The sums of the deviations from the mean of a part, and of their squares."""

    def __init__(self, part: FloatSum, mean: Var) -> None:
        super().__init__(part.lowering, part.dtype)
        self.block, self.mean = part.block, mean

    def open(self) -> None:
        super().open()
        self.rest = self.emitter.mutable("rest", FLOAT_ZERO)

    def add(self, element: Element, place: Expr) -> None:
        difference = Binary("sub", element, self.mean, "float64")
        deviation = self.emitter.copy("deviation", difference)
        self.emitter.assign(self.rest, Binary("add", self.rest, deviation, "float64", True))
        super().add(Binary("mul", deviation, deviation, "float64"), place)


class ComplexSum(Several):
    """The sums of the two parts."""

    def __init__(self, lowering: Lowering, dtype: np.dtype[Any]) -> None:
        part = np.dtype(expression_dtype(dtype))
        super().__init__(lowering, [FloatSum(lowering, part), FloatSum(lowering, part)])

    def add(self, element: Element, place: Expr) -> None:
        super().add((element.re, element.im), place)

    def result(self) -> Element:
        return Pair(*super().result())


def moments(lowering: Lowering, dtype: np.dtype[Any]) -> Moments:
    """Those that suit elements of a dtype."""
    if lowering.target.is_device:
        return Moments(lowering, dtype)
    fitting = {"float32": Squares, "float64": Deviations}
    return fitting.get(dtype.name, Moments)(lowering, dtype)


def _longest_block() -> int:
    """How many elements of float64 are added up before compensation."""
    return LONGEST_CHAIN * PARTIAL_SUMS * vector_bits() // 64


def _lost(x: Expr, y: Expr, total: Expr) -> Expr:
    """What rounding lost in ``x + y``: Knuth's two-sum (TAOCP 2, 4.2.2, theorem B)."""

    def minus(a: Expr, b: Expr) -> Expr:
        return Binary("sub", a, b, "float64")

    from_y = minus(total, x)
    from_x = minus(total, from_y)
    return Binary("add", minus(x, from_x), minus(y, from_y), "float64")
