"""The state of a running sum, product or extremum: what it takes from one element to the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.codegen.loops import Binary, Var
from jitcore.codegen.lowering.accumulators import identity, neutral, take_extremum
from jitcore.codegen.lowering.arithmetic import expression_dtype
from jitcore.codegen.lowering.kinds import JOINS
from jitcore.codegen.lowering.operands import Element, Pair
from jitcore.codegen.lowering.pairs import combined
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.graph import Node

__all__ = ["Running", "running"]


def running(lowering: Lowering, node: Node, dtype: np.dtype[Any]) -> Running:
    """The state of a scan, with variables that are declared here."""
    op = JOINS[node.kind]
    is_float = dtype.name in ("float32", "float64") and not lowering.target.is_device
    kind = RunningExtremum if op in ("min", "max") and is_float else Running
    return kind(lowering, op, dtype)


class Running:
    """One variable, or two for complex numbers."""

    def __init__(self, lowering: Lowering, op: str, dtype: np.dtype[Any]) -> None:
        self.emitter = lowering.emitter
        self.op = op
        self.dtype = dtype
        self.declare()

    def declare(self) -> None:
        """Declare the variables, with what the first element changes to itself."""
        begin = neutral(self.op, np.dtype(expression_dtype(self.dtype)))
        names = ("running_re", "running_im") if self.dtype.kind == "c" else ("running",)
        self.variables = tuple(self.emitter.mutable(name, begin) for name in names)

    @property
    def value(self) -> Element:
        """What has been taken so far."""
        return Pair(*self.variables) if len(self.variables) == 2 else self.variables[0]

    def begin(self, element: Element) -> None:
        """Start anew with a first element."""
        parts = (element.re, element.im) if isinstance(element, Pair) else (element,)
        for var, part in zip(self.variables, parts, strict=True):
            self.emitter.assign(var, part)

    def take(self, element: Element) -> Element:
        """The next result."""
        value = combined(self.op, self.value, element, self.dtype)
        copy = self.emitter.copy
        if isinstance(value, Pair):
            value = Pair(copy("running_re", value.re), copy("running_im", value.im))
        else:
            value = copy("running", value)
        self.begin(value)
        return value


class RunningExtremum(Running):
    """The extremum of numbers, and beside it the last NaN, or -0.0, which changes no sum."""

    def declare(self) -> None:
        self.best: Var = self.emitter.mutable("best", identity(self.op, self.dtype))
        self.spoilt: Var = self.emitter.mutable("spoilt", neutral("add", self.dtype))

    def take(self, element: Element) -> Element:
        element = self.emitter.let("element", element)
        take_extremum(self.emitter, self.op, self.best, self.spoilt, element)
        value = Binary("add", self.best, self.spoilt, self.dtype.name)
        return self.emitter.copy("value", value)
