"""The order of axes in memory: values of Fortran-ordered arrays are walked along their columns.

NumPy gives the result of an elementwise operation the order of its operands, and so does lowering:
it allocates such a result in Fortran order and walks all operands with their axes reversed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.arithmetic import ONE, ZERO
from jitcore.codegen.lowering.broadcasting import Modes
from jitcore.codegen.lowering.operands import ArrayRef, Lazy, NewAxis, Operand, Slice
from jitcore.codegen.lowering.state import Lowering

__all__ = ["Reverser", "is_by_columns", "prefers_columns"]


def is_by_columns(array: ArrayRef) -> bool:
    """Whether neighbours along the first axis are neighbours in memory, and no others."""
    return array.rank > 1 and array.strides[0] == ONE and array.strides[-1] != ONE


def prefers_columns(operand: Operand) -> bool:
    """Whether all arrays that a value walks along all its axes lie by columns in memory."""
    if not isinstance(operand, (ArrayRef, Lazy)) or operand.rank < 2:
        return False
    orders = [is_by_columns(array) for array in _walked(operand, operand.rank)]
    return bool(orders) and all(orders)


def _walked(operand: Operand, rank: int) -> Iterator[ArrayRef]:
    """The arrays that a value reads at its own place."""
    if isinstance(operand, ArrayRef):
        if operand.rank == rank and any(dim != ONE for dim in operand.dims):
            yield operand
    elif isinstance(operand, Lazy) and operand.is_aligned:
        for one, modes in zip(operand.operands, operand.modes, strict=True):
            if len(modes) == rank and all(mode is None for mode in modes):
                yield from _walked(one, rank)


@dataclass(slots=True)
class Reverser:
    """Gives values with their axes reversed; equal values stay equal."""

    lowering: Lowering
    rank: int
    _known: dict[int, Operand] = field(default_factory=dict)

    def __call__(self, operand: Operand) -> Operand:
        """The operand with axes of extent 1 put before its own, and all axes reversed."""
        if not isinstance(operand, (ArrayRef, Lazy)):
            return operand
        if id(operand) not in self._known:
            self._known[id(operand)] = self._reversed(operand)
        return self._known[id(operand)]

    def _reversed(self, operand: ArrayRef | Lazy) -> Operand:
        missing = self.rank - operand.rank
        dims = tuple(reversed((ONE,) * missing + operand.dims))
        if isinstance(operand, ArrayRef):
            strides = tuple(reversed((ZERO,) * missing + operand.strides))
            return self.lowering.view(operand, dims=dims, strides=strides)
        if operand.is_aligned:
            return self._reversed_aligned(operand, dims)
        if missing:
            axes = (NewAxis(),) * missing + tuple(Slice(ZERO, dim, 1) for dim in operand.dims)
            wide = tuple(reversed(dims))
            operand = Lazy(
                operand.node, (operand,), wide, operand.dtype, detail=axes, as_kind="np::view"
            )
        order = tuple(range(self.rank - 1, -1, -1))
        return Lazy(
            operand.node, (operand,), dims, operand.dtype, detail=order, as_kind="np::transpose"
        )

    def _reversed_aligned(self, lazy: Lazy, dims: tuple[Expr, ...]) -> Lazy:
        modes = tuple(
            self._reversed_modes(one, own)
            for one, own in zip(lazy.operands, lazy.modes, strict=True)
        )
        operands = tuple(self(one) for one in lazy.operands)
        return Lazy(lazy.node, operands, dims, lazy.dtype, modes, lazy.detail, as_kind=lazy.as_kind)

    def _reversed_modes(self, operand: Operand, modes: Modes) -> Modes:
        if not isinstance(operand, (ArrayRef, Lazy)):
            return ()
        return tuple(reversed((ZERO,) * (self.rank - len(modes)) + modes))
