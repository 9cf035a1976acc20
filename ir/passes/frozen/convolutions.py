"""Convolutions with constant weights, and giving them others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.names import base_name
from jitcore.ir.passes.frozen.arrays import add_array, array_of, insert_before, number_of
from jitcore.ir.passes.frozen.ranks import rank_of
from jitcore.ir.passes.frozen.readers import is_only_reader

__all__ = [
    "Convolution",
    "convolution_of",
    "loop_until_stable",
    "per_channel",
    "replace_convolution",
    "scaled",
    "shift_of",
]

Array = np.ndarray[Any, np.dtype[Any]]

_SPATIAL = {f"nn::conv{rank}d": rank for rank in (1, 2, 3)}


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution whose weights and bias are constants.

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
    def rank(self) -> int:
        """How many axes its result has at least: channels and positions."""
        return rank_of(self.node.output) or _SPATIAL[self.node.kind] + 1

    @property
    def is_batched(self) -> bool:
        """Whether the result surely has a batch axis."""
        return rank_of(self.node.output) == _SPATIAL[self.node.kind] + 2


def convolution_of(value: Value, reader: Node) -> Convolution | None:
    """The convolution with constant weights that gives a value which only one node reads.

    What asks for the value's shape or dtype is no reader.
    """
    node = value.node
    if node is None or node.kind not in _SPATIAL:
        return None
    if not is_only_reader(reader, value):
        return None
    weight, bias = array_of(node.inputs[1]), array_of(node.inputs[2])
    absent = node.inputs[2].constant
    has_bias = absent is None or absent.attributes["value"] is not None
    if weight is None or weight.ndim != _SPATIAL[node.kind] + 2 or weight.dtype.kind != "f":
        return None
    if has_bias and (bias is None or bias.dtype != weight.dtype or bias.shape != weight.shape[:1]):
        return None
    return Convolution(node, weight, bias)


def replace_convolution(found: Convolution, reader: Node, weight: Array, bias: Array) -> None:
    """Put a convolution with other weights in the place of one and of what reads it."""
    node, graph = found.node, reader.graph
    dtype = found.weight.dtype
    new_weight = add_array(graph, weight.astype(dtype), base_name(node.inputs[1].name))
    new_bias = add_array(graph, bias.astype(dtype), "bias")
    inputs = [node.inputs[0], new_weight, new_bias, *node.inputs[3:]]
    made = insert_before(node, node.kind, inputs, node, base_name(reader.output.name))
    reader.output.replace_all_uses_with(made.output)
    reader.destroy()
    node.output.replace_all_uses_with(made.output)
    node.destroy()


def per_channel(value: Value, found: Convolution, *, nonzero: bool = False) -> Array | None:
    """A constant operand as one number for each output channel, in double precision.

    Parameters
    ----------
    value : Value
    found : Convolution
        What the operand is combined with.
    nonzero : bool
        Take no zeros, by which nothing can be divided.

    Returns
    -------
    array or None
        None where it is no constant, would change dtype or shape of the result, differs between
        positions, or is not finite.
    """
    number = number_of(value)
    array = array_of(value) if number is None else np.asarray(number, np.float64)
    if array is None:
        held = value.constant.attributes["value"] if value.constant else None
        array = np.asarray(held) if isinstance(held, np.generic) else None
    if array is None or (number is None and array.dtype != found.weight.dtype):
        return None
    channels = found.weight.shape[0]
    if not _fits(array.shape, channels, found):
        return None
    numbers = np.broadcast_to(array.reshape(-1), (channels,)).astype(np.float64)
    with np.errstate(over="ignore"):
        finite = bool(np.isfinite(numbers.astype(found.weight.dtype)).all())
    usable = finite and not (nonzero and (numbers == 0).any())
    return numbers if usable else None


def _fits(shape: tuple[int, ...], channels: int, found: Convolution) -> bool:
    """Whether an operand of this shape has one number, or one for each channel."""
    if len(shape) > found.rank:
        return False
    spatial = _SPATIAL[found.node.kind]
    padded = (1,) * (spatial + 2 - len(shape)) + shape
    return all(
        extent == 1 or (axis == 1 and extent == channels) for axis, extent in enumerate(padded)
    )


def scaled(weight: Array, scale: Array) -> Array:
    """Weights with every output channel multiplied by its own number."""
    return weight.astype(np.float64) * scale.reshape(-1, *(1,) * (weight.ndim - 1))


def shift_of(found: Convolution) -> Array:
    """The bias in double precision; zeros where there is none."""
    if found.bias is None:
        return np.zeros(found.weight.shape[0])
    return found.bias.astype(np.float64)


def loop_until_stable(graph: Graph, fold: Callable[[Node], bool], kinds: frozenset[str]) -> bool:
    """Fold the nodes of some kinds as long as one of them can be."""
    changed = False
    while any(fold(node) for node in list(graph.nodes()) if node.kind in kinds and node.block):
        changed = True
    return changed
