"""Stores of a fused group that wait for its end, so that one nest does the work of all of them.

Of a group like this one, where ``c`` and ``d`` are columns of arrays::

    c[...] = 0.5 * w
    q = 1.0 / (b - c)
    c[...] = c * q
    d[...] = (d - e) * q

the loop loads ``w``, ``b``, ``d`` and ``e`` at a place, computes, and stores to ``c`` and ``d``
once.  A store that waits is what its target stands for from there on: later nodes read the value,
and a second store to the same target takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jitcore.codegen.lowering.disjoint import are_apart
from jitcore.codegen.lowering.elements import NotByRows
from jitcore.codegen.lowering.elementwise import allocate_result
from jitcore.codegen.lowering.facts import last_uses
from jitcore.codegen.lowering.kinds import SCALARS
from jitcore.codegen.lowering.nest import write
from jitcore.codegen.lowering.operands import ArrayRef, Lazy, Operand, arrays_in, owners_in
from jitcore.codegen.lowering.orders import order_of
from jitcore.codegen.lowering.state import Lowering
from jitcore.codegen.lowering.stores import fit_value, overwrites_itself
from jitcore.ir.graph import Graph, Node, Value

__all__ = ["DelayedStores", "StoresOfWalk"]


class DelayedStores:
    """The stores of one group that have not been written yet.

    Parameters
    ----------
    lowering : Lowering
    graph : Graph
        The group's.  `position` is the number of the node that is being lowered.
    """

    def __init__(self, lowering: Lowering, graph: Graph) -> None:
        self.lowering = lowering
        self.nodes = list(graph.block.nodes)
        end = len(self.nodes)
        self.last = last_uses(graph.block) | dict.fromkeys(graph.outputs, end)
        self.position = 0
        self.waiting: dict[Value, ArrayRef] = {}

    def put_off(self, node: Node) -> bool:
        """Have a store wait; False, with nothing waiting, where it has to be done now."""
        target = self._target(node)
        for value in list(self._lazies(needed_at=self.position + 1)):
            if overwrites_itself(self.lowering, self.lowering.operand(value), target):
                self._compute(value)
        if not self._may_wait(node, target):
            self.write()
            self._compute_what_reads(target)
            return False
        # A check of the shapes writes what waits, so the value is looked up after it.
        lazy = fit_value(self.lowering, node, target)
        lazy.order = order_of(target)
        self.waiting[node.inputs[0]] = target
        self.lowering.bind(node.inputs[0], lazy)
        self.lowering.mark_written(target)
        return True

    def before(self, node: Node) -> None:
        """Write what waits where a node reads the same memory by another name."""
        if not self.waiting:
            return
        operands = [self.lowering.operand(value) for value in node.inputs]
        arrays = [one for one in operands if isinstance(one, ArrayRef)]
        targets = self.waiting.values()
        if any(self._may_meet(array, target) for array in arrays for target in targets):
            self.write()

    def write(self) -> None:
        """Write all that waits in one nest, with what could not be computed afterwards.

        At the end of the group that is all results of the same extents.
        """
        if not self.waiting:
            return
        is_end = self.position == len(self.nodes)
        lowering = self.lowering
        waiting, self.waiting = self.waiting, {}
        dims = next(iter(waiting.values())).dims
        pairs = {value: (target, lowering.operand(value)) for value, target in waiting.items()}
        others = [one for one in self._lazies(needed_at=self.position) if one not in waiting]
        for value in others:
            lazy = lowering.operand(value)
            is_read = _reads(lazy, waiting.values())
            if lazy.dims == dims and (is_read or is_end):
                pairs[value] = allocate_result(lowering, value, lazy), lazy
            elif is_read:
                self._compute(value)
        write(lowering, list(pairs.values()))
        for value, (target, lazy) in pairs.items():
            lowering.bind(value, target)
            _now_lies_in(lazy, target)

    def _compute(self, value: Value) -> None:
        lazy = self.lowering.operand(value)
        _now_lies_in(lazy, self.lowering.array(value))

    def _target(self, node: Node) -> ArrayRef:
        """The array that is written; one of this group's own gets memory without its values.

        Only what is written from itself needs them.
        """
        value = node.inputs[0]
        if value in self.waiting:
            return self.waiting[value]
        operand = self.lowering.operand(value)
        is_replaced = node.inputs[1] is not value
        if is_replaced and isinstance(operand, Lazy) and operand.kind in SCALARS:
            self.lowering.bind(value, allocate_result(self.lowering, value, operand))
        return self.lowering.array(value)

    def _may_wait(self, node: Node, target: ArrayRef) -> bool:
        lowering = self.lowering
        value = lowering.operand(node.inputs[1])
        if target.rank > 1 and target.order is None:
            return False
        if overwrites_itself(lowering, value, target):
            return False
        return all(
            one is node.inputs[0]
            or (
                other.dims == target.dims
                and not self._may_meet(other, target)
                and not overwrites_itself(lowering, lowering.operand(one), target)
            )
            for one, other in self.waiting.items()
        )

    def _may_meet(self, x: ArrayRef, y: ArrayRef) -> bool:
        return x.may_overlap(y) and not are_apart(self.lowering, x, y)

    def _lazies(self, needed_at: int) -> Iterator[Value]:
        """The values met so far that are not computed yet, and that a node from there on needs."""
        for node in self.nodes[: self.position]:
            for value in node.outputs:
                is_needed = self.last.get(value, -1) >= needed_at and value not in self.waiting
                if is_needed and isinstance(self.lowering.operand(value), Lazy):
                    yield value

    def _compute_what_reads(self, target: ArrayRef) -> None:
        """Compute lazy values that read what is about to change, and that are needed afterwards."""
        for value in list(self._lazies(needed_at=self.position + 1)):
            if _reads(self.lowering.operand(value), [target]):
                self._compute(value)


class StoresOfWalk(DelayedStores):
    """Stores that all wait for the walk of a group's reductions; `NotByRows` where one cannot."""

    def write(self) -> None:
        """Refuse to write what waits before the walk."""
        if self.waiting:
            raise NotByRows

    def _compute(self, value: Value) -> None:
        raise NotByRows


def _reads(operand: Operand, targets: Iterable[ArrayRef]) -> bool:
    written = list(targets)
    return any(array.may_overlap(target) for array in arrays_in(operand) for target in written)


def _now_lies_in(lazy: Lazy, array: ArrayRef) -> None:
    """Have all that is made of a lazy value read the memory it was written to."""
    lazy.operands, lazy.modes = (array,), ((None,) * array.rank,)
    lazy.owners = tuple(owners_in(array))
    lazy.as_kind, lazy.order = "np::copy", array.order
    lazy.detail, lazy.is_reduction = None, False
