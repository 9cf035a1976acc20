"""Which views of one array surely have no element in common: columns ``k`` and ``k - 1``, say."""

from __future__ import annotations

from jitcore.ir.graph import Value
from jitcore.ir.reference import IndexOperand, IndexPart, parse_index
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
    """Whether two entries of an index are different places, whatever the extent is."""
    if isinstance(x, int) and isinstance(y, int):
        return x != y and (x < 0) == (y < 0)
    if not isinstance(x, IndexOperand) or not isinstance(y, IndexOperand):
        return False
    one, two = x_operands[x.number], y_operands[y.number]
    # A negative place counts from the end.
    return bool(difference(one, two)) and is_nonnegative(one) and is_nonnegative(two)
