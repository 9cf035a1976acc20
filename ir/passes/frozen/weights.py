"""Layers with constant weights, and giving them others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from jitcore.ir import log
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, Node
from jitcore.ir.names import base_name
from jitcore.ir.passes.frozen.arrays import add_array, array_of, insert_layer

__all__ = ["Array", "Weighted", "fold_each", "replace_layer", "weighted"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Weighted:
    """A layer whose weights and bias are constants.

    Parameters
    ----------
    node : Node
    weight : (out, in / groups, *kernel) or (in, out / groups, *kernel) array
    bias : (out,) array or None
    transposed_groups : int or None
        How many groups a transposed convolution has, whose weights have the second shape.
    """

    node: Node
    weight: Array
    bias: Array | None
    transposed_groups: int | None = None

    @property
    def channels(self) -> int:
        """How many channels or features the result has."""
        groups = self.transposed_groups
        return len(self.weight) if groups is None else self.weight.shape[1] * groups

    @property
    def shift(self) -> Array:
        """The bias in double precision; zeros where there is none."""
        return np.zeros(self.channels) if self.bias is None else self.bias.astype(np.float64)

    def scaled(self, scale: Array) -> Array:
        """The weights with every output channel multiplied by its own number, in doubles."""
        weight, groups = self.weight.astype(np.float64), self.transposed_groups
        kernel = (1,) * (weight.ndim - 2)
        if groups is None:
            return weight * scale.reshape(-1, 1, *kernel)
        apart = weight.reshape(groups, -1, *weight.shape[1:])
        return (apart * scale.reshape(groups, 1, -1, *kernel)).reshape(weight.shape)


def weighted(node: Node, axes: int, transposed_groups: int | None = None) -> Weighted | None:
    """A layer whose weights have so many axes, where they and its bias are constants that fit."""
    weight, bias = array_of(node.inputs[1]), array_of(node.inputs[2])
    absent = node.inputs[2].constant
    has_bias = absent is None or absent.attributes["value"] is not None
    if weight is None or weight.ndim != axes or weight.dtype.kind != "f":
        return None
    found = Weighted(node, weight, bias, transposed_groups)
    if has_bias and (bias is None or bias.dtype != weight.dtype or bias.shape != (found.channels,)):
        return None
    return found


def replace_layer(
    found: Weighted, reader: Node, weight: Array, bias: Array, pass_name: str
) -> bool:
    """Put a layer with other weights in the place of one and of what reads it.

    Not where their dtype does not hold the weights: they would be infinite, or lose digits because
    they are subnormal, where the results are neither.
    """
    node, graph = found.node, reader.graph
    dtype = found.weight.dtype
    if not _holds(dtype, found.weight, weight) or not _holds(dtype, found.shift, bias):
        return False
    log.update(pass_name, lambda: f"fold {reader!r} into {node!r}")
    new_weight = add_array(graph, weight.astype(dtype), base_name(node.inputs[1].name))
    new_bias = add_array(graph, bias.astype(dtype), "bias")
    inputs = [node.inputs[0], new_weight, new_bias, *node.inputs[3:]]
    made = insert_layer(node, node.kind, inputs, base_name(reader.output.name))
    reader.output.replace_all_uses_with(made.output)
    reader.destroy()
    node.output.replace_all_uses_with(made.output)
    node.destroy()
    return True


def _holds(dtype: np.dtype[Any], old: Array, new: Array) -> bool:
    """Whether a dtype has room for numbers that others become, where it had for those."""
    limits = np.finfo(dtype)
    magnitude = np.abs(new)
    too_large = magnitude > limits.max
    too_small = (magnitude < limits.tiny) & (magnitude > 0) & (np.abs(old) >= limits.tiny)
    return not (too_large & np.isfinite(old)).any() and not too_small.any()


def fold_each(graph: Graph, kinds: Collection[str], fold: Callable[[Node], bool]) -> bool:
    """Fold the nodes of some kinds in order, so that each finds what became of those before."""
    changed = False
    for node in list(graph.nodes()):
        if node.kind in kinds:
            changed = fold(node) or changed
    return changed
