"""What a group of layers says to oneDNN: operations on numbered arrays, without any memory.

The arrays that are given have the first numbers, and each operation's result has the next one.
Axes are those of the graph: images are channels-last, and packed weights are panels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from jitcore.ir.dataclass import dataclass

__all__ = ["Numbers", "Operation", "Program", "Shape"]

Shape = tuple[tuple[int, ...], tuple[int, ...]]
"""The extents of an array, and its strides in elements."""

Numbers = tuple[int | None, ...]
"""Those that are known; each call gives the others."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One node or activation: its kind, its arrays, and its attributes in a fixed order.

    A float stands for an operand that is a constant scalar, and None for one that is left out.
    """

    kind: str
    operands: tuple[int | float | None, ...]
    attributes: tuple[tuple[str, Any], ...]

    def __getitem__(self, name: str) -> Any:
        """An attribute."""
        return dict(self.attributes)[name]

    @property
    def arrays(self) -> list[int]:
        """The numbers of its arrays."""
        return [one for one in self.operands if isinstance(one, int)]


@dataclass(frozen=True, slots=True)
class Program:
    """Operations in the order in which they run.

    Parameters
    ----------
    given : tuple of Numbers
        The extents of each array that is given, and then its strides in elements.
    operations : tuple of Operation
    outputs : tuple of int
        The numbers of the results that others read.
    results : tuple of Numbers
        Their extents.
    """

    given: tuple[Numbers, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[int, ...]
    results: tuple[Numbers, ...]

    @property
    def symbol(self) -> str:
        """The name of the function that runs it, the same in each process."""
        digest = hashlib.sha256(repr(self).encode()).hexdigest()
        return f"jc_onednn_{digest[:32]}"

    def users(self, number: int) -> list[int]:
        """The operations that read an array, by place."""
        operations = enumerate(self.operations)
        return [place for place, one in operations for use in one.arrays if use == number]

    def result(self, place: int) -> int:
        """The number of an operation's result."""
        return len(self.given) + place

    def shapes(self, numbers: Sequence[int]) -> tuple[list[Shape], list[tuple[int, ...]]]:
        """The shapes of what is given, and the extents of the results, with those of a call."""
        left = iter(numbers)
        given, results = (
            [tuple(next(left) if one is None else one for one in known) for known in arrays]
            for arrays in (self.given, self.results)
        )
        halves = [len(one) // 2 for one in given]
        return [(one[:k], one[k:]) for one, k in zip(given, halves, strict=True)], results
