"""The dtypes that arrays surely have, where inputs and constants have one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.interpreter import evaluate
from jitcore.ir.ops import TABLE
from jitcore.ir.passes.frozen.arrays import array_of, number_of
from jitcore.ir.passes.frozen.ranks import is_rearranging, keeps_rank, takes_weights
from jitcore.ir.types import TensorType

__all__ = ["known_dtypes"]

DType = np.dtype[Any]

_ARITHMETIC = frozenset(f"prim::{name}" for name in ("add", "sub", "mul", "truediv", "neg"))
_PRODUCTS = ("prim::matmul", "np::matmul")


def known_dtypes(graph: Graph) -> dict[Value, DType]:
    """The dtypes of inputs, constants and results, as far as they are known."""
    found: dict[Value, DType] = {}
    for value in graph.inputs:
        array = array_of(value)
        if isinstance(value.type, TensorType) and value.type.dtype is not None:
            found[value] = value.type.dtype
        elif array is not None:
            found[value] = array.dtype
    for node in graph.nodes():
        dtype = _of_result(node, found) if len(node.outputs) == 1 and not node.blocks else None
        if dtype is not None:
            found[node.output] = dtype
    return found


def _of_result(node: Node, known: Mapping[Value, DType]) -> DType | None:
    held = array_of(node.output)
    if held is not None:
        return held.dtype
    if not node.inputs:
        return None
    if takes_weights(node):
        return known.get(node.inputs[1])
    if keeps_rank(node):
        return known.get(node.inputs[0])
    if is_rearranging(node):
        return None if node.attributes["name"] == "astype" else known.get(node.inputs[0])
    return _of_operation(node, known)


def _of_operation(node: Node, known: Mapping[Value, DType]) -> DType | None:
    """What an operator or an elementwise function gives: it is done to arrays without elements."""
    row = TABLE.get(node.kind)
    is_elementwise = node.kind in _ARITHMETIC or (row is not None and row.scalar is not None)
    if node.keywords or not (is_elementwise or node.kind in _PRODUCTS):
        return None
    operands: list[Any] = []
    for value in node.inputs:
        number, dtype = number_of(value), known.get(value)
        if number is None and dtype is None:
            return None
        operands.append(np.empty((0, 0), dtype) if number is None else number)
    try:
        with np.errstate(all="ignore"):
            dtype = getattr(evaluate(node, operands), "dtype", None)
    except (TypeError, OverflowError):  # the program raises it, if it gets here
        return None
    return dtype if isinstance(dtype, np.dtype) else None
