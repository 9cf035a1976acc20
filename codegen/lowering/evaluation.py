"""The value of one result of a reduction: its walks over elements, and what comes between them.

A rule asks for a walk and goes on with what that gives, so that several rules may take one walk.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from jitcore.codegen.loops import Binary, Expr, Unary
from jitcore.codegen.lowering.accumulator_kinds import accumulator
from jitcore.codegen.lowering.accumulators import Accumulator
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    cast,
    compare,
    constant,
    expression_dtype,
    not_,
    product,
    select,
)
from jitcore.codegen.lowering.elements import scalar_result
from jitcore.codegen.lowering.float_sums import FloatSum, moments
from jitcore.codegen.lowering.operands import ArrayRef, Element, Lazy, Pair
from jitcore.codegen.lowering.short_sums import short_sum
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Node

__all__ = ["Evaluation", "Reduction", "Walk", "as_it_is", "divided", "freedom_of"]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction of one operand.

    Parameters
    ----------
    node : Node
    operand : ArrayRef or Lazy
    reduced : frozenset of int
        The axes that disappear.
    dtype : numpy.dtype
        Of the result.
    """

    node: Node
    operand: ArrayRef | Lazy
    reduced: frozenset[int]
    dtype: np.dtype[Any]

    @property
    def kind(self) -> str:
        """The node's kind."""
        return self.node.kind

    def reduced_size(self, lowering: Lowering) -> Expr:
        """How many elements go into one result."""
        dims = [dim for axis, dim in enumerate(self.operand.dims) if axis in self.reduced]
        return lowering.emitter.shared("count", product(dims))


def as_it_is(element: Element) -> Element:
    """What a walk does to elements that an accumulator takes as they are."""
    return element


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk over the elements of one result, each changed by a function, with an accumulator."""

    taker: Accumulator
    change: Callable[[Element], Element] = as_it_is


Steps = Generator[Walk, Element, Element]
"""A rule on the way to a result: it yields the walks it needs, and is sent what they give."""


class Evaluation:
    """The value of one result, whatever the kind, computed up to the next walk it needs.

    Parameters
    ----------
    lowering : Lowering
    reduction : Reduction

    Attributes
    ----------
    reduction : Reduction
    asked : Walk or None
        What has to be walked next; None where the value is there.
    """

    def __init__(self, lowering: Lowering, reduction: Reduction) -> None:
        self.reduction = reduction
        self.asked: Walk | None = None
        self._value: Element = None
        rule = _ELEMENT_RULES.get(reduction.kind, _plain_element)
        self._steps = rule(lowering, reduction)
        self.go_on(None)

    @property
    def shares_walks(self) -> bool:
        """Whether others may take the elements of the next walk, too."""
        return self.asked is not None and self.asked.taker.shares_walks

    @property
    def plain_sum(self) -> FloatSum | None:
        """The accumulator, where the next walk only adds up the elements as they are."""
        if self.asked is None or self.asked.change is not as_it_is:
            return None
        return self.asked.taker if isinstance(self.asked.taker, FloatSum) else None

    def go_on(self, result: Element) -> None:
        """Take the result of the walk that was asked for."""
        try:
            self.asked = self._steps.send(result)
        except StopIteration as end:
            self.asked, self._value = None, end.value

    def value(self, walk: Callable[[Walk], Element]) -> Element:
        """The value, after all the walks that are left."""
        while self.asked is not None:
            self.go_on(walk(self.asked))
        return self._value


def _plain_element(lowering: Lowering, reduction: Reduction) -> Steps:
    return (yield Walk(accumulator(lowering, reduction.kind, reduction.operand.dtype)))


def _sum_element(lowering: Lowering, reduction: Reduction) -> Steps:
    if len(reduction.reduced) == reduction.operand.rank:
        total = short_sum(lowering, reduction.operand)
        if total is not None:
            return total
    return (yield Walk(accumulator(lowering, "np::sum", reduction.operand.dtype)))


def _mean_element(lowering: Lowering, reduction: Reduction) -> Steps:
    total = yield from _sum_element(lowering, reduction)
    count = cast(reduction.reduced_size(lowering), expression_dtype(reduction.dtype))
    return divided(total, count, reduction.dtype)


def divided(element: Element, divisor: Expr, dtype: np.dtype[Any]) -> Element:
    """An element divided by a real number; NumPy makes that a complex number for complex ones."""
    part = expression_dtype(dtype)
    if isinstance(element, Pair):
        return scalar_result("np::divide", [element, Pair(divisor, constant(0, part))], dtype)
    return Binary("div", element, divisor, part)


def _variance_element(lowering: Lowering, reduction: Reduction) -> Steps:
    """In two passes, as NumPy: the mean, then the squares of the deviations from it.

    Where one pass sees enough of the squares, the second one is only made if that is too little.
    """
    emitter = lowering.emitter
    dtype = reduction.operand.dtype
    totals = moments(lowering, dtype)
    wide = totals.wide
    count = cast(reduction.reduced_size(lowering), wide)
    yield Walk(totals)

    def quotient(x: Expr, divisor: Expr) -> Expr:
        if reduction.dtype.name == wide or lowering.target.is_device:
            return Binary("div", x, divisor, wide)
        # Its last digits are lost when it is rounded, and rows share the inverse.
        inverse = Binary("div", constant(1.0, wide), divisor, wide)
        return Binary("mul", x, emitter.copy("inverse", inverse), wide)

    mean = emitter.copy("mean", quotient(totals.wide_result(), count))

    def deviation(element: Element) -> Element:
        difference = Binary("sub", cast(element, wide), mean, wide)
        bound = emitter.copy("deviation", difference)
        return Binary("mul", bound, bound, wide)

    second_pass = Walk(FloatSum(lowering, np.dtype(wide), dtype), deviation)
    first_squares, is_exact = totals.deviations(mean)
    squares: Element
    if is_exact != FALSE:
        squares = emitter.mutable("squares", first_squares)
        with emitter.branch(not_(is_exact), unlikely=True):
            emitter.assign(squares, (yield second_pass))
    else:
        squares = yield second_pass
    divisor = emitter.copy("divisor", freedom_of(lowering, reduction, wide))
    variance = quotient(squares, divisor)
    if reduction.kind == "np::std":
        variance = Unary("sqrt", variance, wide)
    return cast(variance, reduction.dtype.name)


def freedom_of(lowering: Lowering, reduction: Reduction, dtype: str) -> Expr:
    """The number of elements less ``ddof``, and not below 0."""
    count = cast(reduction.reduced_size(lowering), dtype)
    ddof = constant(float(reduction.node.attributes.get("ddof", 0)), dtype)
    freedom = lowering.emitter.copy("freedom", Binary("sub", count, ddof, dtype))
    zero = constant(0.0, dtype)
    return select(compare("gt", freedom, zero), freedom, zero)


_ELEMENT_RULES: dict[str, Callable[[Lowering, Reduction], Steps]] = {
    "np::sum": _sum_element,
    "np::mean": _mean_element,
    "np::var": _variance_element,
    "np::std": _variance_element,
}
