"""Fields of structured arrays: views that go from record to record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.arithmetic import add, integer, multiply
from jitcore.codegen.lowering.operands import Operand
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.structured import field_place

if TYPE_CHECKING:
    from jitcore.ir.graph import Node

__all__ = ["RULES"]


def _field(lowering: Lowering, node: Node) -> Operand:
    base = lowering.array(node.inputs[0])
    name = node.attributes["name"]
    place = field_place(base.dtype, name)
    assert place is not None
    let, step = lowering.emitter.shared, integer(place.step)
    lowering.has_packed |= place.unit > 0
    inside: list[Expr] = [integer(place.size)] * len(place.shape)
    for axis in reversed(range(len(inside) - 1)):
        inside[axis] = multiply(inside[axis + 1], integer(place.shape[axis + 1]))
    order = base.order
    if order is not None:
        # Within a record the axes are in C order, and each step is smaller than all outside.
        count = len(inside)
        own = [0 if extent == 1 else count - n for n, extent in enumerate(place.shape)]
        order = (*(number and number + count for number in order), *own)
    return lowering.view(
        base,
        dtype=place.dtype,
        dims=(*base.dims, *map(integer, place.shape)),
        offset=let("offset", add(multiply(base.offset, step), integer(place.start))),
        strides=(*(let("stride", multiply(one, step)) for one in base.strides), *inside),
        order=order,
        unit=place.unit,
        roots=frozenset(_root(lowering, root, name) for root in base.roots),
    )


def _root(lowering: Lowering, root: str, name: str) -> str:
    """The memory of one field: that of all others is apart from it, in whatever records."""
    number = lowering.input_roots.get(root)
    if number is None:
        return root
    if (root, name) not in lowering.field_roots:
        made = lowering.emitter.unique(f"{root}_{name}")
        lowering.field_roots[root, name] = made
        lowering.input_roots[made] = number
    return lowering.field_roots[root, name]


def _record(lowering: Lowering, node: Node) -> Operand:
    return lowering.view(lowering.array(node.inputs[0]))


RULES: dict[str, Rule] = {"np::field": _field, "np::record": _record}
