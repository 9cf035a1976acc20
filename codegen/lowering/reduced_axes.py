"""The axes of a reduction's operand, in groups that are walked as one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.arithmetic import product
from jitcore.codegen.lowering.elements import Index
from jitcore.codegen.lowering.nest import collapse
from jitcore.codegen.lowering.operands import ArrayRef, Lazy
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.dataclass import dataclass

__all__ = ["Axes", "group_axes"]


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of a reduction's operand, in groups that are walked as one."""

    groups: tuple[int, ...]
    extents: tuple[Expr, ...]
    is_reduced: tuple[bool, ...]

    def entries(self, kept: Sequence[Expr], reduced: Sequence[Expr]) -> Index:
        """The index of an element, from the entries of the kept and of the reduced groups."""
        kept_entries, reduced_entries = iter(kept), iter(reduced)
        found = (next(reduced_entries if one else kept_entries) for one in self.is_reduced)
        return Index(tuple(found), self.groups)

    @property
    def kept_groups(self) -> tuple[int, ...]:
        """How many axes of the results each kept group has."""
        pairs = zip(self.groups, self.is_reduced, strict=True)
        return tuple(size for size, one in pairs if not one)

    def of(self, *, reduced: bool) -> tuple[Expr, ...]:
        """The extents of the reduced groups, or of the others."""
        pairs = zip(self.extents, self.is_reduced, strict=True)
        return tuple(extent for extent, one in pairs if one == reduced)


def group_axes(
    lowering: Lowering,
    operand: ArrayRef | Lazy,
    reduced: frozenset[int],
    results: ArrayRef | None = None,
    *,
    apart: int = 0,
) -> Axes:
    """Group adjacent axes that are all kept or all reduced, where operand and results allow it.

    ``results`` have the kept axes.  The first axes, ``apart`` of them, are not grouped.
    """
    dims = operand.dims
    borders = {
        axis
        for axis in range(len(dims) - 1)
        if axis < apart or (axis in reduced) != (axis + 1 in reduced)
    }
    if results is not None:
        kept = [axis for axis in range(len(dims)) if axis not in reduced]
        ends = itertools.accumulate(collapse(lowering, results.dims, [results]))
        borders.update(kept[end - 1] for end in ends)
    groups = collapse(lowering, dims, [operand], frozenset(borders))
    extents: list[Expr] = []
    flags: list[bool] = []
    axis = 0
    for size in groups:
        extents.append(lowering.emitter.shared("size", product(dims[axis : axis + size])))
        flags.append(axis in reduced)
        axis += size
    return Axes(groups, tuple(extents), tuple(flags))
