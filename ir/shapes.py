"""Extents: NumPy's broadcasting over known and symbolic dims, and lengths of slices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jitcore.ir.types import Dim, TensorType

if TYPE_CHECKING:
    from jitcore.ir.graph import Node, Value

__all__ = [
    "BroadcastError",
    "broadcast_dims",
    "dims_of",
    "is_respaced",
    "known_dims",
    "normalize_axes",
    "normalize_axis",
    "slice_length",
]


def known_dims(value: Value) -> tuple[Dim, ...] | None:
    """The extents of an array or NumPy scalar; None of what is neither or has an unknown rank."""
    return value.type.dims if isinstance(value.type, TensorType) else None


def dims_of(value: Value) -> tuple[Dim, ...]:
    """The extents of an array; none of a scalar, of what is no array, and of an unknown rank."""
    return known_dims(value) or ()


def is_respaced(node: Node) -> bool:
    """Whether a view only adds axes of extent 1, or takes the first place of axes."""
    if node.kind != "np::view":
        return False
    return set(node.attributes["index"].split(", ")) <= {":", "None", "0"}


class BroadcastError(ValueError):
    """Known extents that do not fit together; NumPy raises when the program gets there."""


def broadcast_dims(
    shapes: Sequence[tuple[Dim, ...]],
    fresh: Callable[[object], Dim],
    never_one: Collection[Dim] = frozenset(),
) -> tuple[Dim, ...]:
    """The dims of operands broadcast together.

    What is not 1, a number or one of the symbols ``never_one``, is the extent of the result.  Of
    other symbols, any of which may be 1, different ones give the symbol that ``fresh(key)`` makes.
    Whether extents really fit is checked when the program runs.

    Examples
    --------
    >>> broadcast_dims([("n", 1), (4,)], lambda key: "s")
    ('n', 4)
    >>> broadcast_dims([("n",), ("m",)], lambda key: "s")
    ('s',)
    >>> broadcast_dims([("n",), ("m",)], lambda key: "s", never_one={"n"})
    ('n',)
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Dim] = []
    for axis in range(rank):
        found: list[Dim] = []
        for shape in shapes:
            position = axis - rank + len(shape)
            if position >= 0 and shape[position] != 1 and shape[position] not in found:
                found.append(shape[position])
        result.append(_join(found, fresh, never_one))
    return tuple(result)


def _join(dims: list[Dim], fresh: Callable[[object], Dim], never_one: Collection[Dim]) -> Dim:
    if not dims:
        return 1
    if len(dims) == 1:
        return dims[0]
    numbers = [dim for dim in dims if isinstance(dim, int)]
    if len(numbers) > 1:
        raise BroadcastError(f"operands of extents {numbers[0]} and {numbers[1]}")
    if numbers:
        return numbers[0]
    known = [str(dim) for dim in dims if dim in never_one]
    if known:
        return min(known)
    return fresh(("broadcast", tuple(sorted(map(str, dims)))))


def normalize_axis(axis: int, rank: int) -> int:
    """A non-negative axis.

    Raises
    ------
    BroadcastError
        It is out of range; NumPy's own error appears when the program gets there.
    """
    if not -rank <= axis < rank:
        raise BroadcastError(f"axis {axis} is out of bounds for {rank} dimensions")
    return axis % rank


def normalize_axes(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Sorted non-negative axes; all of them for None."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    if not all(isinstance(one, int | np.integer) for one in axes):
        raise BroadcastError("an axis that is no integer")
    found = tuple(sorted(normalize_axis(int(one), rank) for one in axes))
    if len(set(found)) != len(found):
        raise BroadcastError("duplicate axis")
    return found


def slice_length(dim: int, start: int | None, stop: int | None, step: int | None) -> int:
    """How many elements a slice of an axis has."""
    return len(range(*slice(start, stop, step).indices(dim)))
