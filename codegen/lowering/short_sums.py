"""Sums of few elements in NumPy's order of additions.

Recurrences make the smallest differences grow, and comparisons of sums that are nearly equal turn
on the last digit: the best split of a tree, the nearest centre, the violated constraint.
"""

from __future__ import annotations

import numpy as np

from jitcore.codegen.loops import Call, Const, Expr
from jitcore.codegen.lowering.arithmetic import product
from jitcore.codegen.lowering.elements import Elements, scans_in, store
from jitcore.codegen.lowering.nest import nest
from jitcore.codegen.lowering.operands import ArrayRef, Lazy
from jitcore.codegen.lowering.state import Lowering
from jitcore.codegen.runtime.numpy_loops import MOST_SUMMED

__all__ = ["short_sum"]


def short_sum(lowering: Lowering, operand: ArrayRef | Lazy) -> Expr | None:
    """The sum of all elements in NumPy's order, where they are surely few; else None.

    Parameters
    ----------
    lowering : Lowering
    operand : ArrayRef or Lazy
        What is added up.  What is not in memory yet is written there first.
    """
    if operand.dtype != np.float64 or lowering.target.is_device or not _are_few(operand):
        return None
    array = operand if isinstance(operand, ArrayRef) else _in_memory(lowering, operand)
    if array is None or not lowering.is_contiguous(array):
        return None
    args = (array.pointer, array.offset, product(array.dims))
    call = Call("jc_sum_float64", args, "float64", external=True)
    return lowering.emitter.copy("total", call)


def _are_few(operand: ArrayRef | Lazy) -> bool:
    size = product(operand.dims)
    if isinstance(size, Const):
        return bool(size.value <= MOST_SUMMED)
    if not isinstance(operand, ArrayRef) or operand.owner is None or not operand.whole:
        return False
    most = operand.owner.most
    return most is not None and most <= MOST_SUMMED


def _in_memory(lowering: Lowering, operand: Lazy) -> ArrayRef | None:
    """The elements of one axis, written to memory of their own."""
    if len(operand.dims) != 1 or _needs_reduction(operand):
        return None
    terms = lowering.allocate("terms", operand.dims, operand.dtype, escapes=False)
    elements = Elements(lowering)
    elements.begin_scans(scans_in(lowering, [operand]))
    with nest(lowering, operand.dims) as index:
        store(lowering, terms, index, elements(operand, index))
    return terms


def _needs_reduction(operand: Lazy) -> bool:
    """Whether elements are computed from a reduction that is only known in its row."""
    waiting, seen = [operand], {id(operand)}
    while waiting:
        lazy = waiting.pop()
        if lazy.is_reduction:
            return True
        found = [one for one in lazy.operands if isinstance(one, Lazy) and id(one) not in seen]
        seen.update(map(id, found))
        waiting += found
    return False
