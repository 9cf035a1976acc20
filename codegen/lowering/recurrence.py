"""Recurrent layers by their own kernel, which walks the input's terms by their strides."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.kernels import recurrence
from jitcore.codegen.kernels.tiles import lanes_of
from jitcore.codegen.loops import Call, Const, Do, Expr
from jitcore.codegen.lowering.arithmetic import ONE, compare, integer, multiply
from jitcore.codegen.lowering.layers import addresses, contiguous
from jitcore.codegen.lowering.operands import ArrayRef, NotNative, Operand
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.recurrence import GATES, WEIGHT
from jitcore.ir.types import TensorType, TupleType, Type

__all__ = ["RULES"]

_CELLS = {"nn::lstm_states": "lstm", "nn::gru_states": "gru"}


def _states(lowering: Lowering, node: Node) -> Operand:
    place = WEIGHT[node.kind]
    if len(node.inputs) < place + 3:
        raise NotNative("weights that no pass has packed")
    projected, hidden, *cells = (lowering.array(value) for value in node.inputs[:place])
    packed = contiguous(lowering, lowering.array(node.inputs[place + 2]))
    steps, rows, terms = projected.dims
    width = packed.dims[-2]
    vectors = _vectors(packed)
    lowering.fail(compare("lt", steps, ONE), None)
    lowering.fail(compare("ne", terms, multiply(integer(GATES[node.kind]), width)), None)
    for state in (hidden, *cells):
        lowering.fail(compare("ne", state.dims[0], rows), None)
        lowering.fail(compare("ne", state.dims[1], width), None)
    if projected.strides[-1] != ONE:
        projected = contiguous(lowering, projected)
    hidden = contiguous(lowering, hidden)
    bias = _bias(lowering, node.inputs[place + 1], projected)
    target, *last = (
        _allocated(lowering, node, type_, dims)
        for type_, dims in zip(_types(node), ((steps, rows, width), (rows, width)), strict=False)
    )
    cell = contiguous(lowering, cells[0]) if cells else None
    spare = lowering.allocate("spare", cell.dims, cell.dtype, escapes=False) if cell else None
    arrays = (projected, hidden, cell, packed, bias, target, spare, last[0] if last else None)
    numbers = (steps, rows, width, *projected.strides[:2])
    reverse = integer(int(node.attributes["reverse"]))
    kind = _CELLS.get(node.kind) or node.attributes["nonlinearity"]
    symbol = recurrence.symbol(kind, projected.dtype.name, vectors)
    call = Call(symbol, (*addresses(arrays), *numbers, reverse), "void", external=True)
    lowering.emitter.emit(Do(call))
    return (target, *last) if last else target


def _types(node: Node) -> tuple[Type, ...]:
    """Those of the results: the states of all times, and the last ones of the cell."""
    type_ = node.output.type
    return type_.elements if isinstance(type_, TupleType) else (type_,)


def _allocated(lowering: Lowering, node: Node, type_: Type, dims: Sequence[Expr]) -> ArrayRef:
    assert isinstance(type_, TensorType) and type_.dtype is not None
    extents = [lowering.define(*pair) for pair in zip(type_.dims or (), dims, strict=True)]
    escapes = lowering.escapes(node.output)
    return lowering.allocate(node.output.name, extents, type_.dtype, escapes=escapes)


def _vectors(packed: ArrayRef) -> int:
    """How many vectors wide the panels are."""
    width, lanes = packed.dims[-1], lanes_of(packed.dtype.name)
    if not isinstance(width, Const):
        raise NotNative("packed weights whose panels only the run shows")
    vectors: int = width.value // lanes.count
    if width.value % lanes.count or vectors not in lanes.tiles:
        raise NotNative(f"panels of {width.value} columns, which this machine has no kernel for")
    return vectors


def _bias(lowering: Lowering, value: Value, projected: ArrayRef) -> ArrayRef | None:
    if value.constant is not None:
        return None
    bias = lowering.array(value)
    lowering.fail(compare("ne", bias.dims[0], projected.dims[-1]), None)
    return contiguous(lowering, bias)


RULES: dict[str, Rule] = dict.fromkeys(GATES, _states)
