"""Layers with constant weights, and giving them others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitcore.ir.graph import Graph, Node
from jitcore.ir.names import base_name
from jitcore.ir.passes.frozen.arrays import add_array, array_of, insert_layer

__all__ = ["Array", "Weighted", "fold_each", "replace_layer", "scaled", "weighted"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Weighted:
    """A layer whose weights and bias are constants.

    Parameters
    ----------
    node : Node
    weight : (out, in, *kernel) array
    bias : (out,) array or None
    """

    node: Node
    weight: Array
    bias: Array | None

    @property
    def shift(self) -> Array:
        """The bias in double precision; zeros where there is none."""
        return np.zeros(len(self.weight)) if self.bias is None else self.bias.astype(np.float64)


def weighted(node: Node, axes: int) -> Weighted | None:
    """A layer whose weights have so many axes, where they and its bias are constants that fit."""
    weight, bias = array_of(node.inputs[1]), array_of(node.inputs[2])
    absent = node.inputs[2].constant
    has_bias = absent is None or absent.attributes["value"] is not None
    if weight is None or weight.ndim != axes or weight.dtype.kind != "f":
        return None
    if has_bias and (bias is None or bias.dtype != weight.dtype or bias.shape != weight.shape[:1]):
        return None
    return Weighted(node, weight, bias)


def replace_layer(found: Weighted, reader: Node, weight: Array, bias: Array) -> None:
    """Put a layer with other weights in the place of one and of what reads it."""
    node, graph = found.node, reader.graph
    dtype = found.weight.dtype
    new_weight = add_array(graph, weight.astype(dtype), base_name(node.inputs[1].name))
    new_bias = add_array(graph, bias.astype(dtype), "bias")
    inputs = [node.inputs[0], new_weight, new_bias, *node.inputs[3:]]
    made = insert_layer(node, node.kind, inputs, base_name(reader.output.name))
    reader.output.replace_all_uses_with(made.output)
    reader.destroy()
    node.output.replace_all_uses_with(made.output)
    node.destroy()


def scaled(weight: Array, scale: Array) -> Array:
    """Weights with every output channel multiplied by its own number, in double precision."""
    return weight.astype(np.float64) * scale.reshape(-1, *(1,) * (weight.ndim - 1))


def fold_each(graph: Graph, kinds: Collection[str], fold: Callable[[Node], bool]) -> bool:
    """Fold the nodes of some kinds in order, so that each finds what became of those before."""
    changed = False
    for node in list(graph.nodes()):
        if node.kind in kinds:
            changed = fold(node) or changed
    return changed
