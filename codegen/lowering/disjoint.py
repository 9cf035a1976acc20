"""Whether two views of one array surely have no element in common."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jitcore.codegen.loops import Const, Expr
from jitcore.codegen.lowering.operands import ArrayRef
from jitcore.codegen.lowering.state import Lowering

__all__ = ["are_apart"]


def are_apart(lowering: Lowering, x: ArrayRef, y: ArrayRef) -> bool:
    """Whether two arrays are different columns, rows or planes of one, such as ``k`` and ``k-1``.

    It is so where the distance of their first elements is known and no sum of steps makes up for
    it.  And whether one was made when the other was there already.
    """
    if lowering.is_newer(x, y) or lowering.is_newer(y, x):
        return True
    if x.pointer != y.pointer or x.dtype != y.dtype or x.roots != y.roots:
        return False
    ranges = lowering.ranges
    distance = ranges.form(x.offset).plus(ranges.form(y.offset), -1)
    if distance.terms:
        return False
    if x.strides == y.strides:
        dims = [max(pair, key=_extent) for pair in zip(x.dims, y.dims, strict=True)]
        steps = [*zip(x.strides, dims, strict=True)]
    else:
        steps = [*zip(x.strides, x.dims, strict=True), *zip(y.strides, y.dims, strict=True)]
    known = [
        (abs(stride.value), dim.value - 1)
        for stride, dim in steps
        if isinstance(stride, Const) and isinstance(dim, Const)
    ]
    if len(known) < len(steps):
        return False
    moving = sorted((step for step in known if step[0] and step[1] > 0), reverse=True)
    return not _is_reached(distance.constant, moving)


def _extent(dim: Expr) -> float:
    return dim.value if isinstance(dim, Const) else math.inf


def _is_reached(distance: int, steps: Sequence[tuple[int, int]]) -> bool:
    """Whether ``sum(stride * n)`` may be a distance, with each ``n`` within ``-count .. count``."""
    if distance == 0 or not steps:
        return distance == 0
    if distance % math.gcd(*(stride for stride, _ in steps)):
        return False
    (stride, count), *smaller = steps
    reach = sum(one * most for one, most in smaller)
    first = max(-((reach - distance) // stride), -count)
    last = min((distance + reach) // stride, count)
    if last - first > len(steps):  # too many to try: the axes run into each other
        return True
    return any(_is_reached(distance - n * stride, smaller) for n in range(first, last + 1))
