"""Tuples: nothing but names for several values."""

from __future__ import annotations

from jitcore.codegen.lowering.operands import NotNative, ObjectRef, Operand
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node

__all__ = ["RULES"]


def _construct(lowering: Lowering, node: Node) -> Operand:
    return tuple(lowering.operand(value) for value in node.inputs)


def _unpack(lowering: Lowering, node: Node) -> Operand:
    operand = lowering.operand(node.inputs[0])
    if isinstance(operand, ObjectRef):
        operand = operand.parts
    if not isinstance(operand, tuple) or len(operand) != len(node.outputs):
        raise NotNative(f"unpacking of {node.inputs[0].type}")
    return operand[0] if len(operand) == 1 else operand


RULES: dict[str, Rule] = {
    "prim::TupleConstruct": _construct,
    "prim::UnionConstruct": _construct,
    "prim::Unpack": _unpack,
}
