"""Accumulators that find the place of an extremum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.codegen.loops import Binary, Cast, Const, Expr, Var
from jitcore.codegen.lowering.accumulators import (
    Accumulator,
    combine,
    identity,
    is_better,
    kept_in,
)
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    TRUE,
    ZERO,
    both,
    cast,
    compare,
    constant,
    either,
    integer,
    select,
)
from jitcore.codegen.lowering.operands import Element, NotNative
from jitcore.codegen.lowering.state import Lowering

__all__ = ["GreatestPosition", "Position"]

POSITION_BLOCK = 1024
"""Elements whose extremum is found before its place."""


FEW_ELEMENTS = 8
FEW_BYTES = 64
"""So many elements of less than so many bytes LLVM reads of several rows at once, as vectors."""

SHORT_BYTES = 512
"""Fewer bytes of floats are compared as integers, which takes less time than to ask for NaN."""


class _Place(Accumulator):
    """The first place of the least or the greatest element; the first NaN wins."""

    shares_walks = False
    op, comparison = "min", "lt"

    def __init__(self, lowering: Lowering, dtype: np.dtype[Any]) -> None:
        super().__init__(lowering, dtype)
        if dtype.kind == "c":
            raise NotNative("the place of an extremum of complex numbers")
        self.wide = kept_in(dtype)

    def open(self) -> None:
        self.best = self.emitter.mutable("best", constant(0, self.wide))
        self.place = self.emitter.mutable("place", integer(-1))

    def betters(self, number: Expr) -> Expr:
        """Whether a number takes the place of the best before it, if there is one."""
        better = is_better(self.comparison, number, self.best, self.wide)
        return either(compare("lt", self.place, ZERO), better)

    def taken(self) -> tuple[Var, ...]:
        return (self.best, self.place)

    def join(self, values: Sequence[Expr]) -> None:
        with self.emitter.branch(self.betters(values[0])):
            self.emitter.assign(self.best, values[0])
            self.emitter.assign(self.place, values[1])

    def result(self) -> Element:
        return self.place

    def key(self, element: Element) -> Expr:
        """An integer that is compared in place of an element.

        Those of floats are in the same order, with NaN at its better end.
        """
        if self.dtype.kind != "f":
            return cast(element, self.wide.name)
        number = self.emitter.copy("number", cast(element, kept_in(self.dtype).name))
        # -0.0 becomes 0.0.
        unsigned = Binary("add", number, constant(0.0, number.dtype), number.dtype)
        name, limits = self.wide.name, np.iinfo(self.wide)
        pattern = self.emitter.copy("pattern", Cast(unsigned, name, bits=True))
        # Of negative numbers the larger patterns are those of the lesser ones.
        sign = Binary("shr", pattern, Const(limits.bits - 1, name), name)
        turned = Binary("and", sign, Const(int(limits.max), name), name)
        last = limits.max if self.comparison == "gt" else limits.min
        is_nan = compare("ne", number, number)
        return select(is_nan, Const(int(last), name), Binary("xor", pattern, turned, name))


class Position(_Place):
    """``np::argmin``.

    The extremum of a block is found first, and its place only where it is better than all before.
    Numbers are compared as if there were no NaN, which takes less time, and are asked for it apart.
    """

    block = POSITION_BLOCK
    searches = True

    def __init__(self, lowering: Lowering, dtype: np.dtype[Any]) -> None:
        super().__init__(lowering, dtype)
        self.asks_for_nan = dtype.kind == "f" and not self.is_device

    def open_block(self) -> None:
        self.candidate = self.emitter.mutable("candidate", identity(self.op, self.wide))
        if self.asks_for_nan:
            self.has_nan = self.emitter.mutable("has_nan", FALSE)

    def add(self, element: Element, place: Expr) -> None:
        wide = cast(element, self.wide.name)
        if not self.asks_for_nan:
            self.emitter.assign(self.candidate, combine(self.op, self.candidate, wide, self.wide))
            return
        number = self.emitter.copy("number", wide)
        better = Binary(f"{self.op}num", self.candidate, number, self.wide.name, reassoc=True)
        self.emitter.assign(self.candidate, better)
        self.emitter.assign(self.has_nan, Binary("or", self.has_nan, self.is_nan(number), "bool"))

    def close_block(self) -> None:
        if self.asks_for_nan:
            found = select(self.has_nan, constant(np.nan, self.wide), self.candidate)
            self.emitter.assign(self.candidate, found)

    def improved(self) -> Expr:
        return TRUE if self.is_device else self.betters(self.candidate)

    def matches(self, element: Element) -> Expr:
        element = cast(element, self.wide.name)
        is_same = compare("eq", element, self.candidate)
        if self.asks_for_nan or self.dtype.kind != "f":
            return is_same
        return either(is_same, both(self.is_nan(element), self.is_nan(self.candidate)))

    def is_nan(self, element: Element) -> Expr:
        return compare("ne", element, element)

    def found(self, place: Expr) -> None:
        self.emitter.assign(self.best, self.candidate)
        self.emitter.assign(self.place, place)

    def suited_to(self, count: int) -> Accumulator:
        if self.is_device:
            return self
        if count <= FEW_ELEMENTS and count * self.dtype.itemsize < FEW_BYTES:
            return _OneByOne(self)
        is_short = count * self.dtype.itemsize < SHORT_BYTES
        return _OfKeys(self) if is_short and self.dtype.kind == "f" else self


class GreatestPosition(Position):
    """``np::argmax``."""

    op, comparison = "max", "gt"


def _dtype_of_keys(position: Position) -> np.dtype[Any]:
    wide = position.wide
    return np.dtype(f"int{8 * wide.itemsize}") if position.dtype.kind == "f" else wide


class _OfKeys(Position):
    """The same of floats in short rows, by their keys."""

    def __init__(self, position: Position) -> None:
        super().__init__(position.lowering, position.dtype)
        self.op, self.comparison = position.op, position.comparison
        self.wide = _dtype_of_keys(position)
        self.asks_for_nan = False

    def add(self, element: Element, place: Expr) -> None:
        key = self.key(element)
        self.emitter.assign(self.candidate, combine(self.op, self.candidate, key, self.wide))

    def matches(self, element: Element) -> Expr:
        return compare("eq", self.key(element), self.candidate)


class _OneByOne(_Place):
    """The same of a few elements: each key is compared with the best before it."""

    def __init__(self, position: Position) -> None:
        super().__init__(position.lowering, position.dtype)
        self.comparison = position.comparison
        self.wide = _dtype_of_keys(position)

    def add(self, element: Element, place: Expr) -> None:
        key = self.emitter.copy("key", self.key(element))
        better = either(compare("lt", self.place, ZERO), compare(self.comparison, key, self.best))
        better = self.emitter.copy("better", better)
        self.emitter.assign(self.best, select(better, key, self.best))
        self.emitter.assign(self.place, select(better, place, self.place))
