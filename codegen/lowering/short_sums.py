"""Sums of few elements in NumPy's order of additions, which recurrences may start from."""

from __future__ import annotations

import numpy as np

from jitcore.codegen.loops import Call, Const, Expr
from jitcore.codegen.lowering.arithmetic import product
from jitcore.codegen.lowering.operands import ArrayRef, Operand
from jitcore.codegen.lowering.state import Lowering
from jitcore.codegen.runtime.numpy_loops import MOST_SUMMED

__all__ = ["short_sum"]


def short_sum(lowering: Lowering, array: Operand) -> Expr | None:
    """The sum of all elements of a small array in memory, by NumPy's own loop; else None."""
    if not isinstance(array, ArrayRef) or lowering.target.is_device:
        return None
    size = product(array.dims)
    is_short = isinstance(size, Const) and size.value <= MOST_SUMMED
    if array.dtype != np.float64 or not is_short or not lowering.is_contiguous(array):
        return None
    args = (array.pointer, array.offset, size)
    call = Call("jc_sum_float64", args, "float64", external=True)
    return lowering.emitter.copy("total", call)
