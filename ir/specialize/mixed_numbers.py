"""Arithmetic on numbers that are Python's floats or NumPy's, which only a run tells.

Both are the same number, and so is what comes of most operations on them: the operation is done
once, and what it gives is NumPy's where one of its operands is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitcore.ir.graph import Node, Value
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.value_kinds import alternatives_of, converted
from jitcore.ir.types import BOOL, FLOAT, INT, Type, UnionType, scalar_type

__all__ = ["apply_to_mixed"]

_FLOAT64 = scalar_type(np.float64)
_MIXED = UnionType((_FLOAT64, FLOAT))
_TRUTH = UnionType((scalar_type(np.bool_), BOOL))
_OTHERS = (FLOAT, _FLOAT64, INT, BOOL)

_SAME = frozenset(f"prim::{name}" for name in ("add", "sub", "mul", "neg", "pos", "abs"))
_COMPARED = frozenset(f"prim::{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge"))
_DIVIDED = frozenset(f"prim::{name}" for name in ("truediv", "floordiv", "mod"))
"""A division by zero raises in Python, and does not in NumPy."""

_IN_PLACE = {f"prim::i{name}": f"prim::{name}" for name in ("add", "sub", "mul", "truediv")}


def apply_to_mixed(worker: BranchBuilder, node: Node, inputs: Sequence[Value]) -> Value | None:
    """What a node gives for such operands; None where it is to be done for each type."""
    kind = _IN_PLACE.get(node.kind, node.kind)
    if kind in ("prim::bool", "prim::not_") and inputs[0].type == _TRUTH:
        return worker.op(kind, alternatives_of(inputs[0])[1])
    if not any(one.type == _MIXED for one in inputs) or node.keywords:
        return None
    if not all(one.type == _MIXED or one.type in _OTHERS for one in inputs):
        return None
    if kind.startswith("math::") or kind == "prim::float":
        return worker.op(kind, *map(_as_python_s, inputs))
    if kind not in _SAME | _COMPARED | _DIVIDED:
        return None
    if kind in _COMPARED and any(one.type in (INT, BOOL) for one in inputs):
        return None  # Python compares an int with a float exactly
    if any(one.type == _FLOAT64 for one in inputs):
        return worker.op(kind, *map(_as_numpy_s, inputs))
    return _of_either(worker, kind, inputs)


def _of_either(worker: BranchBuilder, kind: str, inputs: Sequence[Value]) -> Value:
    """The result of operands of which nobody is surely NumPy's."""
    is_numpy_s: Value | None = None
    for one in inputs:
        if one.type == _MIXED:
            assert one.node is not None
            own = worker.op("prim::eq", one.node.inputs[0], 0)
            is_numpy_s = own if is_numpy_s is None else worker.op("prim::or_", is_numpy_s, own)
    assert is_numpy_s is not None

    def in_python() -> list[Value]:
        return [worker.op(kind, *map(_as_python_s, inputs))]

    def in_numpy() -> list[Value]:
        return [converted(worker.block, worker.op(kind, *map(_as_numpy_s, inputs)), FLOAT)]

    divides = kind in _DIVIDED and not inputs[1].constant_value
    (number,) = worker.split(is_numpy_s, [in_numpy, in_python]) if divides else in_python()
    union = _TRUTH if kind in _COMPARED else _MIXED
    tag = worker.op("prim::int", worker.op("prim::not_", is_numpy_s))
    as_numpy_s: Type = union.alternatives[0]
    held = [converted(worker.block, number, as_numpy_s), number]
    return worker.emit("prim::UnionConstruct", [tag, *held], {}, union)


def _as_python_s(value: Value) -> Value:
    return alternatives_of(value)[-1]


def _as_numpy_s(value: Value) -> Value:
    return alternatives_of(value)[0]
