"""Which views of one array surely have no element in common: columns ``k`` and ``k - 1``, say.

So have every other column and those between, and the columns before one and those from it on.
"""

from __future__ import annotations

import math

from jitcore.ir.graph import Value
from jitcore.ir.reference import IndexOperand, IndexPart, IndexSlice, parse_index
from jitcore.ir.signs import difference, is_nonnegative

__all__ = ["are_apart"]


def are_apart(x: Value, y: Value) -> bool:
    """Whether two views of the same array take different places of one of its axes."""
    one, two = x.node, y.node
    if one is None or two is None or not one.kind == two.kind == "np::view":
        return False
    if one.inputs[0] is not two.inputs[0]:
        return False
    parts = [
        [part for part in parse_index(node.attributes["index"]) if part is not None]
        for node in (one, two)
    ]
    return any(
        _are_different(first, one.inputs[1:], second, two.inputs[1:])
        for first, second in zip(*parts, strict=False)
    )


def _are_different(
    x: IndexPart, x_operands: list[Value], y: IndexPart, y_operands: list[Value]
) -> bool:
    """Whether two entries of an index have no place in common, whatever the extent is."""
    if isinstance(x, IndexSlice) and isinstance(y, IndexSlice):
        return (
            _alternate(x, y)
            or _ends_before(x, x_operands, y, y_operands)
            or _ends_before(y, y_operands, x, x_operands)
        )
    if isinstance(x, int) and isinstance(y, int):
        return x != y and (x < 0) == (y < 0)
    if not isinstance(x, IndexOperand) or not isinstance(y, IndexOperand):
        return False
    one, two = x_operands[x.number], y_operands[y.number]
    # A negative place counts from the end.
    return bool(difference(one, two)) and is_nonnegative(one) and is_nonnegative(two)


def _alternate(x: IndexSlice, y: IndexSlice) -> bool:
    """Whether one slice steps over what the other one takes, as ``::2`` and ``1::2`` do."""
    first, second = (0 if one.start is None else one.start for one in (x, y))
    steps = [1 if one.step is None else one.step for one in (x, y)]
    if not isinstance(first, int) or not isinstance(second, int) or min(first, second) < 0:
        return False
    known = [step for step in steps if isinstance(step, int) and step > 0]
    return len(known) == 2 and (first - second) % math.gcd(*known) != 0


def _ends_before(
    x: IndexSlice, x_operands: list[Value], y: IndexSlice, y_operands: list[Value]
) -> bool:
    """Whether one slice ends where the other begins, or before, as ``:h`` and ``h:`` do.

    Places that count from the end are only compared with such, and values of unknown sign only
    with themselves.
    """
    if not _goes_up(x) or not _goes_up(y):
        return False
    end, begin = x.stop, y.start
    if isinstance(end, int) and isinstance(begin, int):
        return end <= begin and (end < 0) == (begin < 0)
    if not isinstance(end, IndexOperand) or not isinstance(begin, IndexOperand):
        return False
    one, two = x_operands[end.number], y_operands[begin.number]
    distance = difference(one, two)
    if distance is None:
        return False
    return distance == 0 or (distance < 0 and is_nonnegative(one))


def _goes_up(part: IndexSlice) -> bool:
    return part.step is None or (isinstance(part.step, int) and part.step > 0)
