"""Linear maps with constant weights."""

from __future__ import annotations

from jitcore.ir.graph import Node, Value
from jitcore.ir.passes.frozen.arrays import array_of
from jitcore.ir.passes.frozen.readers import is_only_reader
from jitcore.ir.passes.frozen.weights import Weighted, weighted

__all__ = ["linear_at", "linear_of", "product_at"]


def linear_of(value: Value, reader: Node) -> Weighted | None:
    """The linear map with constant weights that gives a value which only one node reads."""
    node = value.node
    if node is None or not is_only_reader(reader, value):
        return None
    return linear_at(node)


def linear_at(node: Node) -> Weighted | None:
    """The linear map that a node is, where its weights and bias are constants that fit."""
    return weighted(node, 2) if node.kind == "nn::linear" else None


def product_at(node: Node) -> Weighted | None:
    """The product with a constant matrix that a node is, as a linear map without a bias."""
    weight = array_of(node.inputs[1]) if node.kind == "nn::matmul" else None
    return None if weight is None else Weighted(node, weight.T, None)
