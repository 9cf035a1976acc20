"""Linear maps with constant weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jitcore.ir.graph import Node, Value
from jitcore.ir.passes.frozen.arrays import array_of
from jitcore.ir.passes.frozen.readers import is_only_reader

__all__ = ["Linear", "linear_at", "linear_of"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear map whose weights and bias are constants.

    Parameters
    ----------
    node : Node
    weight : (out, in) array
    bias : (out,) array or None
    """

    node: Node
    weight: Array
    bias: Array | None


def linear_of(value: Value, reader: Node) -> Linear | None:
    """The linear map with constant weights that gives a value which only one node reads."""
    node = value.node
    if node is None or not is_only_reader(reader, value):
        return None
    return linear_at(node)


def linear_at(node: Node) -> Linear | None:
    """The linear map that a node is, where its weights and bias are constants that fit."""
    if node.kind != "nn::linear":
        return None
    weight, bias = array_of(node.inputs[1]), array_of(node.inputs[2])
    absent = node.inputs[2].constant
    has_bias = absent is None or absent.attributes["value"] is not None
    if weight is None or weight.ndim != 2 or weight.dtype.kind != "f":
        return None
    if has_bias and (bias is None or bias.dtype != weight.dtype or bias.shape != weight.shape[:1]):
        return None
    return Linear(node, weight, bias)
