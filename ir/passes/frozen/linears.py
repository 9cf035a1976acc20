"""Linear maps with constant weights."""

from __future__ import annotations

from jitcore.ir.graph import Node, Value
from jitcore.ir.passes.frozen.readers import is_only_reader
from jitcore.ir.passes.frozen.weights import Weighted, weighted

__all__ = ["linear_at", "linear_of"]


def linear_of(value: Value, reader: Node) -> Weighted | None:
    """The linear map with constant weights that gives a value which only one node reads."""
    node = value.node
    if node is None or not is_only_reader(reader, value):
        return None
    return linear_at(node)


def linear_at(node: Node) -> Weighted | None:
    """The linear map that a node is, where its weights and bias are constants that fit."""
    return weighted(node, 2) if node.kind == "nn::linear" else None
