"""Convolutions with constant weights, and the constants that are combined with their results."""

from __future__ import annotations

import numpy as np

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Node, Value
from jitcore.ir.passes.frozen.arrays import array_of, number_of
from jitcore.ir.passes.frozen.ranks import rank_of
from jitcore.ir.passes.frozen.readers import is_only_reader
from jitcore.ir.passes.frozen.weights import Array, Weighted, weighted

__all__ = ["Convolution", "convolution_and_constant", "convolution_of"]

_TRANSPOSED = {f"nn::conv_transpose{rank}d": rank for rank in (1, 2, 3)}
_SPATIAL = {**{f"nn::conv{rank}d": rank for rank in (1, 2, 3)}, **_TRANSPOSED}


@dataclass(frozen=True, slots=True)
class Convolution(Weighted):
    """A convolution whose weights and bias are constants."""

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
    groups = _transposed_groups(node) if node.kind in _TRANSPOSED else None
    found = weighted(node, _SPATIAL[node.kind] + 2, groups) if groups != 0 else None
    return None if found is None else Convolution(node, found.weight, found.bias, groups)


def _transposed_groups(node: Node) -> int:
    """How many groups a transposed convolution has; 0 where they do not divide its channels."""
    weight, groups = array_of(node.inputs[1]), number_of(node.inputs[6])
    if not isinstance(groups, int) or groups < 1 or weight is None or not weight.ndim:
        return 0
    return 0 if len(weight) % groups else groups


def convolution_and_constant(
    node: Node, *, commutes: bool, nonzero: bool = False
) -> tuple[Convolution, Array] | None:
    """The convolution and the constant that a node combines; see `_per_channel` for the latter.

    With ``commutes`` they may come in either order.
    """
    if len(node.inputs) != 2 or node.keywords:
        return None
    first, second = node.inputs
    found = convolution_of(first, node)
    if found is None and commutes:
        first, second = second, first
        found = convolution_of(first, node)
    constant = _per_channel(second, found, nonzero) if found is not None else None
    return None if found is None or constant is None else (found, constant)


def _per_channel(value: Value, found: Convolution, nonzero: bool) -> Array | None:
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
        held = value.constant_value
        array = np.asarray(held) if isinstance(held, np.generic) else None
    if array is None or (number is None and array.dtype != found.weight.dtype):
        return None
    channels = found.channels
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
