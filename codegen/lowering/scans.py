"""Running sums, products and extrema along one axis, in NumPy's order."""

from __future__ import annotations

from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.arithmetic import ONE, ZERO, compare, subtract
from jitcore.codegen.lowering.elements import Elements, Index, load, store, uncollapsed
from jitcore.codegen.lowering.kinds import JOINS
from jitcore.codegen.lowering.nest import nest
from jitcore.codegen.lowering.operands import ArrayRef, Lazy, NotNative, Operand
from jitcore.codegen.lowering.orders import iterated_order, order_of
from jitcore.codegen.lowering.pairs import combined
from jitcore.codegen.lowering.running import running
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node
from jitcore.ir.ops import SCANS

__all__ = ["RULES"]


def _scan(lowering: Lowering, node: Node) -> Operand:
    operand = lowering.operand(node.inputs[0])
    if not isinstance(operand, (ArrayRef, Lazy)):
        raise NotNative(f"{node.kind} of a scalar")
    axis = node.attributes["axis"]
    order = iterated_order([order_of(operand)], operand.rank)
    if lowering.scans_lazily:
        return Lazy(node, (operand,), operand.dims, operand.dtype, order=order)
    escapes = lowering.escapes(node.output)
    target = lowering.allocate(
        node.output.name, operand.dims, operand.dtype, escapes=escapes, order=order
    )
    if axis == operand.rank - 1 or lowering.target.is_device:
        _by_variables(lowering, node, operand, target, axis)
    else:
        _along(lowering, operand, target, JOINS[node.kind], axis)
    return target


def _by_variables(
    lowering: Lowering, node: Node, operand: ArrayRef | Lazy, target: ArrayRef, axis: int
) -> None:
    """The running value stays in a variable.

    It begins as what changes no element; where there is no such number, as the first element.
    """
    elements = Elements(lowering)
    emitter = lowering.emitter
    length = target.dims[axis]
    others = [dim for number, dim in enumerate(target.dims) if number != axis]
    begins_with_first = target.dtype.kind == "c" and JOINS[node.kind] == "mul"

    def at(outer: Index, place: Expr) -> Index:
        return uncollapsed([*outer.entries[:axis], place, *outer.entries[axis:]])

    with nest(lowering, others, parallel=True) as outer:
        state = running(lowering, node, target.dtype)
        if begins_with_first:
            with emitter.branch(compare("gt", length, ZERO)):
                first = at(outer, ZERO)
                value = Elements(lowering)(operand, first)
                state.begin(value)
                store(lowering, target, first, value)
        with emitter.loop("k", ONE if begins_with_first else ZERO, length) as k:
            index = at(outer, k)
            store(lowering, target, index, state.take(elements(operand, index)))


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


RULES: dict[str, Rule] = dict.fromkeys(sorted(SCANS), _scan)
