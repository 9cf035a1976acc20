"""Running sums, products and extrema along one axis, in NumPy's order."""

from __future__ import annotations

from collections.abc import Callable
from math import nan

import numpy as np

from jitcore.codegen.loops import Expr, Var
from jitcore.codegen.lowering.accumulators import identity, neutral
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    ZERO,
    compare,
    constant,
    either,
    expression_dtype,
    select,
    subtract,
)
from jitcore.codegen.lowering.elements import Elements, Index, load, store, uncollapsed
from jitcore.codegen.lowering.nest import nest
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Element,
    Lazy,
    NotNative,
    Operand,
    Pair,
)
from jitcore.codegen.lowering.orders import iterated_order, order_of
from jitcore.codegen.lowering.pairs import combined
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node

__all__ = ["RULES"]

_OPS = {
    "np::cumsum": "add",
    "np::cumprod": "mul",
    "np::maximum_accumulate": "max",
    "np::minimum_accumulate": "min",
}


def _scan(lowering: Lowering, node: Node) -> Operand:
    operand = lowering.operand(node.inputs[0])
    if not isinstance(operand, (ArrayRef, Lazy)):
        raise NotNative(f"{node.kind} of a scalar")
    axis = node.attributes["axis"]
    escapes = lowering.escapes(node.output)
    target = lowering.allocate(
        node.output.name,
        operand.dims,
        operand.dtype,
        escapes=escapes,
        order=iterated_order([order_of(operand)], operand.rank),
    )
    op = _OPS[node.kind]
    if axis == operand.rank - 1 or lowering.target.is_device:
        _by_variables(lowering, operand, target, op, axis)
    else:
        _along(lowering, operand, target, op, axis)
    return target


def _by_variables(
    lowering: Lowering, operand: Operand, target: ArrayRef, op: str, axis: int
) -> None:
    """The running value stays in a variable.

    It begins as the first element itself, or on devices, whose threads share all elements alike, as
    what changes no element.
    """
    elements = Elements(lowering)
    emitter = lowering.emitter
    length = target.dims[axis]
    others = [dim for number, dim in enumerate(target.dims) if number != axis]

    def at(outer: Index, place: Expr) -> Index:
        return uncollapsed([*outer.entries[:axis], place, *outer.entries[axis:]])

    with nest(lowering, others, parallel=True) as outer:
        if _is_float_extremum(lowering, target, op):
            _running_extremum(lowering, operand, target, op, lambda place: at(outer, place), length)
            return
        begin = _neutral(lowering, target, op)
        running = _variables(lowering, target, begin)
        if begin is None:
            with emitter.branch(compare("gt", length, ZERO)):
                first = at(outer, ZERO)
                value = Elements(lowering)(operand, first)
                _assign(lowering, running, value)
                store(lowering, target, first, value)
        with emitter.loop("k", ONE if begin is None else ZERO, length) as k:
            index = at(outer, k)
            value = combined(op, _value(running), elements(operand, index), target.dtype)
            bound = elements.bind("running", value, "")
            _assign(lowering, running, bound)
            store(lowering, target, index, bound)


def _is_float_extremum(lowering: Lowering, target: ArrayRef, op: str) -> bool:
    is_float = target.dtype.name in ("float32", "float64")
    return op in ("min", "max") and is_float and not lowering.target.is_device


def _running_extremum(
    lowering: Lowering,
    operand: Operand,
    target: ArrayRef,
    op: str,
    at: Callable[[Expr], Index],
    length: Expr,
) -> None:
    """The extremum of numbers, and beside it whether a NaN has been met.

    Each element waits for one instruction on the one before it, and not for a comparison, a choice,
    and the same again for NaN.
    """
    emitter, elements = lowering.emitter, Elements(lowering)
    dtype, better = target.dtype, {"min": "lt", "max": "gt"}[op]
    best = emitter.mutable("best", identity(op, dtype))
    is_spoilt = emitter.mutable("is_spoilt", FALSE)
    with emitter.loop("k", ZERO, length) as k:
        element = emitter.let("element", elements(operand, at(k)))
        # Of two equal numbers NumPy takes the second.
        emitter.assign(best, select(compare(better, best, element), best, element))
        emitter.assign(is_spoilt, either(is_spoilt, compare("ne", element, element)))
        value = select(is_spoilt, constant(nan, dtype), best)
        store(lowering, target, at(k), value)


def _neutral(lowering: Lowering, target: ArrayRef, op: str) -> Expr | None:
    """What a scan on a device begins with; None where the first element has to be that."""
    is_complex = target.dtype.kind == "c"
    if not lowering.target.is_device or (is_complex and op != "add"):
        return None
    return neutral(op, np.dtype(expression_dtype(target.dtype)))


def _variables(lowering: Lowering, target: ArrayRef, begin: Expr | None) -> tuple[Var, ...]:
    value = constant(0, expression_dtype(target.dtype)) if begin is None else begin
    mutable = lowering.emitter.mutable
    if target.dtype.kind == "c":
        return mutable("running_re", value), mutable("running_im", value)
    return (mutable("running", value),)


def _value(variables: tuple[Var, ...]) -> Element:
    return Pair(*variables) if len(variables) == 2 else variables[0]


def _assign(lowering: Lowering, variables: tuple[Var, ...], value: Element) -> None:
    parts = (value.re, value.im) if isinstance(value, Pair) else (value,)
    for var, part in zip(variables, parts, strict=True):
        lowering.emitter.assign(var, part)


def _along(lowering: Lowering, operand: Operand, target: ArrayRef, op: str, axis: int) -> None:
    """Each row is the row before it and one more of the operand's."""
    elements = Elements(lowering)
    dims = target.dims

    def index(outer: Index, place: Expr, inner: Index) -> Index:
        return uncollapsed([*outer.entries, place, *inner.entries])

    rows = dims[axis + 1 :]
    emitter = lowering.emitter
    with nest(lowering, dims[:axis], parallel=True) as outer:
        with emitter.branch(compare("gt", dims[axis], ZERO)), nest(lowering, rows) as inner:
            here = index(outer, ZERO, inner)
            store(lowering, target, here, Elements(lowering)(operand, here))
        with emitter.loop("k", ONE, dims[axis]) as k, nest(lowering, rows) as inner:
            here = index(outer, k, inner)
            before = load(target, index(outer, subtract(k, ONE), inner))
            value = combined(op, before, elements(operand, here), target.dtype)
            store(lowering, target, here, value)


RULES: dict[str, Rule] = dict.fromkeys(_OPS, _scan)
