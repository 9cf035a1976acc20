"""Accumulators: what a reduction keeps in variables while it walks the elements of one result.

Those of floating-point sums are in `float_sums`.  On a device thousands of threads have a short sum
each, which are then added up as a tree, and no walk there ends early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    "Count",
    "IntegerSum",
    "Maximum",
    "Minimum",
    "Product",
    "Several",
    "combine",
    "identity",
    "take_extremum",
    "is_better",
    "kept_in",
    "neutral",
]

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
    looks_twice = False
    """Whether the elements of a part are taken once more, by what `look_again` gives.

    What parts leave is then joined twice: `join` takes all of it before `join_again` does.
    """

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

    def of_part(self) -> Self:
        """Another one for a part of a long walk."""
        return self.another()

    def look_once(self) -> None:
        """Take no element of a part again."""
        self.looks_twice = False

    def open_parts(self, looks_twice: Expr) -> None:
        """Declare what a walk in parts needs besides, which may look at each part twice."""

    def look_again(self, size: Expr) -> Accumulator | None:
        """What takes the elements of a part once more, which has so many; None if nothing does."""
        return None

    def left_by_parts(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        """The name and dtype of all that a part leaves."""
        return tuple((_name(one), np.dtype(one.dtype)) for one in self.taken())

    def taken(self) -> tuple[Expr, ...]:
        """What holds what was taken; nothing where parts cannot be joined."""
        return ()

    def join(self, values: Sequence[Expr]) -> None:
        """Take what another accumulator of this kind has taken of the elements after these."""
        raise NotImplementedError

    def begin_again(self, size: Expr) -> None:
        """All parts have been joined once, and have so many elements."""

    def join_again(self, values: Sequence[Expr], size: Expr) -> None:
        """Take what a part of so many elements has left once more."""


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

    def of_part(self) -> Self:
        other = copy(self)
        other.parts = tuple(one.of_part() for one in self.parts)
        other.take_blocks()
        return other

    @property
    def looks_twice(self) -> bool:  # type: ignore[override]
        return any(one.looks_twice for one in self.parts)

    def look_once(self) -> None:
        for one in self.parts:
            one.look_once()

    def open_parts(self, looks_twice: Expr) -> None:
        for one in self.parts:
            one.open_parts(looks_twice)

    def look_again(self, size: Expr) -> Accumulator | None:
        again = [one.look_again(size) for one in self.parts]
        if not any(again):
            return None
        return Several(self.lowering, [one or Idle(self.lowering, self.dtype) for one in again])

    def left_by_parts(self) -> tuple[tuple[str, np.dtype[Any]], ...]:
        return tuple(chain.from_iterable(one.left_by_parts() for one in self.parts))

    def taken(self) -> tuple[Expr, ...]:
        found = [one.taken() for one in self.parts]
        return tuple(chain.from_iterable(found)) if all(found) else ()

    def join(self, values: Sequence[Expr]) -> None:
        for one, own in self.own_of(values):
            one.join(own)

    def begin_again(self, size: Expr) -> None:
        for one in self.parts:
            one.begin_again(size)

    def join_again(self, values: Sequence[Expr], size: Expr) -> None:
        for one, own in self.own_of(values):
            one.join_again(own, size)

    def own_of(self, values: Sequence[Expr]) -> Iterator[tuple[Accumulator, list[Expr]]]:
        """The accumulators, each with what is for it."""
        rest = iter(values)
        for one in self.parts:
            yield one, list(islice(rest, len(one.left_by_parts())))

    def result(self) -> Element:
        return tuple(one.result() for one in self.parts)


class Idle(Accumulator):
    """Takes no element, where others do."""

    def open(self) -> None:
        pass

    def add(self, element: Element, place: Expr) -> None:
        pass

    def result(self) -> Element:
        return FALSE


class Plain(Accumulator):
    """One variable and one primitive: integer sums, products, minimum, maximum."""

    op = "add"

    def open(self) -> None:
        self.wide = kept_in(self.dtype)
        self.value = self.emitter.mutable("result", identity(self.op, self.wide))

    def add(self, element: Element, place: Expr) -> None:
        wide = cast(element, self.wide.name)
        self.emitter.assign(self.value, combine(self.op, self.value, wide, self.wide))

    def taken(self) -> tuple[Expr, ...]:
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

    def taken(self) -> tuple[Expr, ...]:
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


def _name(variable: Expr) -> str:
    assert isinstance(variable, Var)
    return variable.name


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
