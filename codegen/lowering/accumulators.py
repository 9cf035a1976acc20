"""Accumulators: what a reduction keeps in variables while it walks the elements of one result.

Sums of floats are at least as accurate as NumPy's pairwise sums: short blocks are added up in
several partial sums, which is what lets them be vectorized, and the blocks' sums are added with
compensation (Neumaier, ZAMM 54, 1974).  Sums of float32 are kept in float64, to which several
elements are converted together where these are cheap (`loop_passes.lane_sums`).

On a device thousands of threads have a short sum each, which are then added up as a tree: nothing
of this is needed, and each sum is of its elements' own dtype, or of float32 where that is float16,
as NumPy's are.  No walk there ends early.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import chain, islice
from typing import Any, Self

import numpy as np

from jitcore.codegen.loops import Binary, Expr, Var
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    TRUE,
    ZERO,
    both,
    cast,
    compare,
    constant,
    either,
    expression_dtype,
    not_,
    select,
)
from jitcore.codegen.lowering.emitter import Emitter
from jitcore.codegen.lowering.operands import Element, Pair
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.bfloat16 import computed_in

__all__ = [
    "ASSOCIATIVE",
    "ENDING_EARLY",
    "Accumulator",
    "All",
    "Any_",
    "ComplexProduct",
    "ComplexSum",
    "Count",
    "FloatSum",
    "IntegerSum",
    "Maximum",
    "Minimum",
    "Moments",
    "Product",
    "Several",
    "combine",
    "identity",
    "take_extremum",
    "is_better",
    "kept_in",
    "neutral",
]

SUM_BLOCK = 256
"""Elements added up before compensation: about eight in each of a vector loop's partial sums."""

SUM_TAIL = 32
"""What a vector loop takes at a time; the rest is added up apart, in no long chain."""

MOST_CANCELLED = 2.0**16
"""By what factor squares may exceed those of deviations: of 53 bits enough are left for float32."""

FLOAT_ZERO = constant(0.0, "float64")

FLAG_BLOCK = 2048
"""Elements looked at before ``any`` and ``all`` ask whether they are done."""

ENDING_EARLY = frozenset({"np::any", "np::all"})
"""The kinds whose walk need not see all elements."""


class Accumulator:
    """Starts with nothing, takes elements, and gives a result.

    With ``block`` elements come in runs of at most that many, between ``open_block`` and
    ``close_block``; ``done`` is then a flag that ends the walk early.  With ``tail`` the elements
    beyond the last multiple of it come in a run of their own, the first one.  On a device there are
    no runs.
    """

    block: int | None = None
    tail = 1
    asks_for_nan = False
    """Whether an element that nothing matches may be searched for, which is NaN."""
    searches = False
    """Whether a block is looked through again: `improved` says when."""
    shares_walks = True
    """Whether others may take a walk's elements too: no walk ends early or is made again."""

    def __init__(self, lowering: Lowering, dtype: np.dtype[Any]) -> None:
        self.lowering = lowering
        self.emitter = lowering.emitter
        self.dtype = dtype
        self.is_device = lowering.target.is_device
        if self.is_device:
            self.block = None

    def open(self) -> None:
        """Declare the variables."""
        raise NotImplementedError

    def add(self, element: Element, place: Expr) -> None:
        """Take the element at this place (counted in C order over the reduced axes)."""
        raise NotImplementedError

    def result(self) -> Element:
        """The result of everything taken."""
        raise NotImplementedError

    def open_block(self) -> None:
        """Begin a run of elements."""

    def close_block(self) -> None:
        """End a run of elements."""

    def close_first(self) -> None:
        """End a run of elements before which there was none."""
        self.close_block()

    def settle(self) -> None:
        """End all runs, where there was more than one."""

    def done(self) -> Expr:
        """Whether no further element can change the result."""
        return FALSE

    def improved(self) -> Expr:
        """Whether the block must be searched for the element that made it better."""
        return FALSE

    def matches(self, element: Element) -> Expr:
        """Whether this is the element that is searched for."""
        return FALSE

    def is_nan(self, element: Element) -> Expr:
        """Whether this is the element, where nothing matches."""
        return FALSE

    def suited_to(self, count: int) -> Accumulator:
        """One of the same kind for so many elements, where that is known."""
        return self

    def one_by_one(self) -> None:
        """Take elements each of which waits for the one before it, as little as it has to."""

    def found(self, place: Expr) -> None:
        """Take the place of the element that was searched for."""

    def another(self) -> Self:
        """An accumulator of the same kind with variables of its own."""
        return copy(self)

    def taken(self) -> tuple[Var, ...]:
        """The variables that hold what was taken; none where parts cannot be joined."""
        return ()

    def join(self, values: Sequence[Expr]) -> None:
        """Take what another accumulator of this kind has taken of the elements after these."""
        raise NotImplementedError


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
            self.block = SUM_BLOCK
            self.tail = SUM_TAIL

    def suited_to(self, count: int) -> Self:
        """The same, without compensation where one block holds all elements."""
        if count <= SUM_BLOCK:
            self.is_compensated = False
            if count < SUM_TAIL or count % SUM_TAIL == 0:
                self.block, self.tail = None, 1
        return self

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

    def taken(self) -> tuple[Var, ...]:
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
    """The sum, and the sum of squares, of elements whose squares float64 holds exactly."""

    @classmethod
    def fit(cls, lowering: Lowering, dtype: np.dtype[Any]) -> bool:
        """Whether they are used for elements of a dtype."""
        return dtype == np.float32 and not lowering.target.is_device

    def open(self) -> None:
        super().open()
        self.squares = self.emitter.mutable("squares", FLOAT_ZERO)

    def share(self, other: FloatSum) -> None:
        assert isinstance(other, Moments)
        super().share(other)
        self.squares = other.squares

    def add(self, element: Element, place: Expr) -> None:
        wide = self.emitter.copy("wide", cast(element, "float64"))
        super().add(wide, place)
        square = Binary("mul", wide, wide, "float64", reassoc=True)
        self.emitter.assign(self.squares, Binary("add", self.squares, square, "float64", True))

    def taken(self) -> tuple[Var, ...]:
        return (self.total, self.squares)

    def join(self, values: Sequence[Expr]) -> None:
        super().join(values)
        self.emitter.assign(self.squares, Binary("add", self.squares, values[1], "float64"))

    def deviations(self, mean: Expr) -> tuple[Expr, Expr]:
        """The sum of the squares of the deviations from the mean, and whether it is exact enough.

        It is a difference of two sums, which leaves too few of their digits where the mean is much
        larger than the deviations.
        """
        part = Binary("mul", self.total, mean, "float64")
        squares = self.emitter.copy("deviations", Binary("sub", self.squares, part, "float64"))
        most = Binary("mul", squares, constant(MOST_CANCELLED, "float64"), "float64")
        return squares, compare("ge", most, self.squares)


def _lost(x: Expr, y: Expr, total: Expr) -> Expr:
    """What rounding lost in ``x + y``: Knuth's two-sum (TAOCP 2, 4.2.2, theorem B)."""

    def minus(a: Expr, b: Expr) -> Expr:
        return Binary("sub", a, b, "float64")

    from_y = minus(total, x)
    from_x = minus(total, from_y)
    return Binary("add", minus(x, from_x), minus(y, from_y), "float64")


class Several(Accumulator):
    """Accumulators that share a walk: an element is a tuple, with one for each of them."""

    def __init__(self, lowering: Lowering, parts: Sequence[Accumulator]) -> None:
        super().__init__(lowering, parts[0].dtype)
        self.parts = tuple(parts)
        self.take_blocks()

    def take_blocks(self) -> None:
        """Take elements in the blocks that the parts take them in."""
        blocks = {one.block for one in self.parts if one.block is not None}
        assert len(blocks) <= 1
        self.block = next(iter(blocks), None)
        self.tail = max(one.tail for one in self.parts)

    def suited_to(self, count: int) -> Self:
        self.parts = tuple(one.suited_to(count) for one in self.parts)
        self.take_blocks()
        return self

    def open(self) -> None:
        for one in self.parts:
            one.open()

    def open_block(self) -> None:
        for one in self.parts:
            one.open_block()

    def add(self, element: Element, place: Expr) -> None:
        for one, own in zip(self.parts, element, strict=True):
            one.add(own, place)

    def close_block(self) -> None:
        for one in self.parts:
            one.close_block()

    def close_first(self) -> None:
        for one in self.parts:
            one.close_first()

    def settle(self) -> None:
        for one in self.parts:
            one.settle()

    def another(self) -> Self:
        other = copy(self)
        other.parts = tuple(one.another() for one in self.parts)
        return other

    def taken(self) -> tuple[Var, ...]:
        found = [one.taken() for one in self.parts]
        return tuple(chain.from_iterable(found)) if all(found) else ()

    def join(self, values: Sequence[Expr]) -> None:
        rest = iter(values)
        for one in self.parts:
            one.join(list(islice(rest, len(one.taken()))))

    def result(self) -> Element:
        return tuple(one.result() for one in self.parts)


class ComplexSum(Several):
    """The sums of the two parts."""

    def __init__(self, lowering: Lowering, dtype: np.dtype[Any]) -> None:
        part = np.dtype(expression_dtype(dtype))
        super().__init__(lowering, [FloatSum(lowering, part), FloatSum(lowering, part)])

    def add(self, element: Element, place: Expr) -> None:
        super().add((element.re, element.im), place)

    def result(self) -> Element:
        return Pair(*super().result())


class Plain(Accumulator):
    """One variable and one primitive: integer sums, products, minimum, maximum."""

    op = "add"

    def open(self) -> None:
        self.wide = kept_in(self.dtype)
        self.value = self.emitter.mutable("result", identity(self.op, self.wide))

    def add(self, element: Element, place: Expr) -> None:
        wide = cast(element, self.wide.name)
        self.emitter.assign(self.value, combine(self.op, self.value, wide, self.wide))

    def taken(self) -> tuple[Var, ...]:
        return (self.value,)

    def join(self, values: Sequence[Expr]) -> None:
        self.add(values[0], ZERO)

    def result(self) -> Element:
        return cast(self.value, self.dtype.name)


class IntegerSum(Plain):
    """A sum that wraps."""


class Product(Plain):
    """A product."""

    op = "mul"


class Minimum(Plain):
    """The least element; NaN wins."""

    op = "min"
    spoilt: Var | None = None
    """Where elements come one by one: the last NaN, and before there is one -0.0."""

    def one_by_one(self) -> None:
        if self.dtype.kind == "f":
            self.spoilt = self.emitter.mutable("spoilt", neutral("add", kept_in(self.dtype)))

    def add(self, element: Element, place: Expr) -> None:
        if self.spoilt is None:
            super().add(element, place)
            return
        wide = self.emitter.let("element", cast(element, self.wide.name))
        take_extremum(self.emitter, self.op, self.value, self.spoilt, wide)

    def result(self) -> Element:
        if self.spoilt is None:
            return super().result()
        value = Binary("add", self.value, self.spoilt, self.wide.name)
        return cast(value, self.dtype.name)


class Maximum(Minimum):
    """The greatest element; NaN wins."""

    op = "max"


class ComplexProduct(Accumulator):
    """A product of complex numbers."""

    def open(self) -> None:
        part = expression_dtype(self.dtype)
        self.re = self.emitter.mutable("re", constant(1, part))
        self.im = self.emitter.mutable("im", constant(0, part))

    def add(self, element: Element, place: Expr) -> None:
        part = expression_dtype(self.dtype)

        def times(x: Expr, y: Expr) -> Expr:
            return Binary("mul", x, y, part)

        re = Binary("sub", times(self.re, element.re), times(self.im, element.im), part)
        im = Binary("add", times(self.re, element.im), times(self.im, element.re), part)
        new_re, new_im = self.emitter.copy("re", re), self.emitter.copy("im", im)
        self.emitter.assign(self.re, new_re)
        self.emitter.assign(self.im, new_im)

    def result(self) -> Element:
        return Pair(self.re, self.im)


class Any_(Accumulator):
    """Whether an element is true."""

    block = FLAG_BLOCK
    shares_walks = False
    op = "or"

    def open(self) -> None:
        self.flag = self.emitter.mutable("flag", identity(self.op, self.dtype))

    def add(self, element: Element, place: Expr) -> None:
        self.emitter.assign(self.flag, Binary(self.op, self.flag, cast(element, "bool"), "bool"))

    def result(self) -> Element:
        return self.flag

    def done(self) -> Expr:
        return FALSE if self.is_device else self.decided()

    def decided(self) -> Expr:
        """Whether the flag can no longer change."""
        return self.flag


class All(Any_):
    """Whether all elements are true."""

    op = "and"

    def decided(self) -> Expr:
        return not_(self.flag)


class Count(Accumulator):
    """How many elements are not zero."""

    def open(self) -> None:
        self.count = self.emitter.mutable("count", ZERO)

    def add(self, element: Element, place: Expr) -> None:
        one = cast(cast(element, "bool"), "int64")
        self.emitter.assign(self.count, Binary("add", self.count, one, "int64"))

    def taken(self) -> tuple[Var, ...]:
        return (self.count,)

    def join(self, values: Sequence[Expr]) -> None:
        self.emitter.assign(self.count, Binary("add", self.count, values[0], "int64"))

    def result(self) -> Element:
        return self.count


def is_better(comparison: str, new: Expr, old: Expr, dtype: np.dtype[Any]) -> Expr:
    """Whether an element takes the place of the extremum so far; the first NaN does."""
    better = compare(comparison, new, old)
    if dtype.kind != "f":
        return better
    is_new_nan = both(compare("eq", old, old), compare("ne", new, new))
    return either(better, is_new_nan)


def kept_in(dtype: np.dtype[Any] | str) -> np.dtype[Any]:
    """The dtype of a variable that takes elements of a dtype: float32 for those of two bytes."""
    found = np.dtype(dtype)
    return np.dtype(np.float32) if found == np.float16 else computed_in(found)


ASSOCIATIVE = frozenset({"add", "mul", "min", "max", "and", "or"})
"""The operations that have an identity, and whose order does not matter but for rounding."""

_IDENTITIES: dict[str, Any] = {"add": 0, "mul": 1, "or": False, "and": True}


def identity(op: str, dtype: np.dtype[Any]) -> Expr:
    """What changes nothing under ``op``."""
    if op in _IDENTITIES:
        return constant(_IDENTITIES[op], dtype)
    if dtype.kind == "b":
        return TRUE if op == "min" else FALSE
    if dtype.kind == "f":
        return constant(np.inf if op == "min" else -np.inf, dtype)
    limits = np.iinfo(dtype)
    return constant(limits.max if op == "min" else limits.min, dtype)


def take_extremum(emitter: Emitter, op: str, best: Var, spoilt: Var, element: Expr) -> None:
    """Take an element into the best number so far, and beside it the last NaN, before that -0.0.

    Their sum is the extremum of all elements.  Each waits for one instruction on the one before it,
    and not for a comparison, a choice, and the same again for NaN.
    """
    # Of two equal numbers NumPy takes the second.
    better = compare({"min": "lt", "max": "gt"}[op], best, element)
    emitter.assign(best, select(better, best, element))
    emitter.assign(spoilt, select(compare("ne", element, element), element, spoilt))


def neutral(op: str, dtype: np.dtype[Any]) -> Expr:
    """What changes nothing under ``op``, to the bit: adding 0.0 would change -0.0."""
    is_sum = op == "add" and dtype.kind == "f"
    return constant(-0.0, dtype) if is_sum else identity(op, dtype)


def combine(op: str, x: Expr, y: Expr, dtype: np.dtype[Any], *, reassoc: bool = True) -> Expr:
    """``x op y``, with ``reassoc`` in an order that may be changed."""
    if dtype.kind == "b":
        op = {"add": "or", "mul": "and", "min": "and", "max": "or"}.get(op, op)
        return Binary(op, x, y, "bool")
    return Binary(op, x, y, dtype.name, reassoc=reassoc and dtype.kind == "f")
