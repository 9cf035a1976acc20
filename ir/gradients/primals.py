"""How the backward part gets at the values of the forward part.

What lies in no loop and no branch is read where it is.  What a loop has computed is written to a
**tape**, an array with a place for each iteration; what a branch has computed becomes a result of
the branch.  Views, elements of arrays that nobody overwrites, and integer arithmetic are computed
anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jitcore.ir.gradients.activity import NotDifferentiable, dtype_of, is_view, rank_of
from jitcore.ir.gradients.tapes import GrowingTape, IndexedTape, Tape, is_before
from jitcore.ir.graph import Block, Node, Value
from jitcore.ir.nesting import block_of, enclosing
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import ANY, INT, is_number

if TYPE_CHECKING:
    from jitcore.ir.gradients.reverse import Reverse

__all__ = ["Primals"]

_COMPUTED_ANEW = frozenset(
    {"np::item", "np::cast", "prim::size", "prim::bool", "prim::not_", "prim::neg"}
) | {f"prim::{name}" for name in ("add", "sub", "mul", "floordiv", "mod", "lt", "le", "gt", "ge")}
"""What costs no more than to read it from a tape."""

UNLIMITED = 2**62
"""A loop with as many iterations has no limit: that of a ``while`` is 2**63 - 1."""


class Primals:
    """The values of the forward part, for the backward part that a `Reverse` emits."""

    def __init__(self, reverse: Reverse) -> None:
        self.reverse = reverse
        self.activity = reverse.activity
        self._kept: dict[Value, Value] = {}
        self._copies: dict[tuple[Value, Node], Value] = {}
        self._counts: dict[Node, Value] = {}
        self._tapes: dict[Value, Tape] = {}

    def read(self, value: Value, reader: Node) -> Value:
        """A value as a node of the forward part has read it, at the place of emission."""
        is_kept = block_of(value).owner is not None and self.activity.is_written(value)
        if is_kept or self.activity.is_overwritten(value, reader):
            value = self._copied(value, reader)
        return self.at_hand(value)

    def _copied(self, value: Value, reader: Node) -> Value:
        """A copy of an array that is overwritten later; a result of a node is copied behind it."""
        key = (value, reader)
        if key not in self._copies:
            made = reader.insert_before("np::copy", [value], outputs=(value.type,))
            if value.node is reader:
                _move_behind(made, reader)
            self._copies[key] = made.output
        return self._copies[key]

    def at_hand(self, value: Value) -> Value:
        """A value that nobody overwrites, at the place of emission."""
        reverse = self.reverse
        if value.constant is not None:
            return reverse.constant(value.constant_value, value.type)
        block = block_of(value)
        if block.owner is None:
            return value
        for scope in reverse.scopes():
            if value in scope.known:
                return scope.known[value]
            if scope.forward is block:
                break
        made = self._anew(value)
        if made is None:
            made = self._from_outside(value, block)
        reverse.scope.known[value] = made
        return made

    def _anew(self, value: Value) -> Value | None:
        """A value that is cheaper to compute once more than to keep, or None."""
        node = value.node
        if node is None or not self._is_cheap(node):
            return None
        inputs = [self.at_hand(one) for one in node.inputs]
        return self.reverse.emit(node.kind, inputs, node.attributes)

    def _is_cheap(self, node: Node) -> bool:
        if node.kind != "np::item" and not is_view(node):
            of_ints = all(is_number(one.type) for one in node.inputs)
            if node.kind == "prim::size":
                return self._can_be_read(node.inputs[0])
            return node.kind in _COMPUTED_ANEW and of_ints and node.output.type != ANY
        if self.activity.is_overwritten(node.inputs[0], node):
            return False
        return self._can_be_read(node.inputs[0])

    def _can_be_read(self, value: Value) -> bool:
        """Whether no tape of arrays is needed for a value."""
        block = block_of(value)
        if block.owner is None or value.constant is not None:
            return True
        if self.activity.is_written(value):
            return False
        if value in self._kept:
            return True
        return value.node is not None and is_view(value.node) and self._is_cheap(value.node)

    def _from_outside(self, value: Value, block: Block) -> Value:
        """What a value of a loop or a branch was, from what that has kept of it.

        Inside of loops branches keep nothing: a branch that was not taken has no such value.
        """
        loops = [one for one in _owners(block) if one.kind == "prim::Loop"]
        if not loops:
            if value not in self._kept:
                owner = block.owner
                assert owner is not None
                self._kept[value] = self._keep_in_branch(value, owner, block)
            return self.at_hand(self._kept[value])
        if value not in self._tapes:
            self._tapes[value] = self._tape(value, loops)
        return self._tapes[value].read(self, value)

    def _keep_in_branch(self, value: Value, owner: Node, block: Block) -> Value:
        for one in owner.blocks:
            other = one.append("prim::Uninitialized", outputs=(ANY,)).output
            one.add_return(value if one is block else other)
        return owner.add_output(value.type)

    def _tape(self, value: Value, loops: Sequence[Node]) -> Tape:
        """Have loops, from the inside, write a value to a tape, which is made before them."""
        dtype = dtype_of(value)
        if dtype is None:
            raise NotDifferentiable(
                f"the gradient of this loop would have to keep a value of type {value.type} of "
                "each iteration",
                loops[0].source if value.node is None else value.node.source,
                "Keep arrays and numbers in variables of the loop.",
            )
        first = loops[-1]
        extents = [self._extent_before(value, axis, first) for axis in range(rank_of(value))]
        if all(_is_limited(one) and is_before(one.inputs[0], first) for one in loops):
            trips = [self._most_trips(one, first) for one in reversed(loops)]
            return IndexedTape(value, dtype, list(reversed(loops)), trips, extents)
        return GrowingTape(value, dtype, first, extents)

    def _extent_before(self, value: Value, axis: int, loop: Node) -> Value:
        """An extent of an array in a loop, known before the loop."""
        dim = dims_of(value)[axis]
        if isinstance(dim, int):
            return loop.value_before("prim::Constant", [], INT, {"value": dim})
        found = self.reverse.with_extent(dim, loop)
        if found is None:
            raise NotDifferentiable(
                "the gradient of this loop has to keep an array of each iteration, whose extents "
                "change from one to the next",
                loop.source if value.node is None else value.node.source,
                "Make arrays of one shape in each iteration.",
            )
        source, number = found
        return loop.value_before("prim::size", [source], INT, {"dim": number})

    def _most_trips(self, loop: Node, before: Node) -> Value:
        """How many iterations a loop has at most."""
        limit = loop.inputs[0]
        if limit.constant is not None:
            count = max(limit.constant_value, 0)
            return before.value_before("prim::Constant", [], INT, {"value": count})
        zero = before.value_before("prim::Constant", [], INT, {"value": 0})
        return before.value_before("prim::max", [limit, zero], INT)

    def trips(self, loop: Node) -> Value:
        """How many iterations a loop has had, at the place of emission."""
        if loop not in self._counts:
            is_counted = _goes_on(loop.inputs[1]) and _goes_on(loop.blocks[0].returns[0])
            self._counts[loop] = self._most_trips(loop, loop) if is_counted else _counted(loop)
        return self.at_hand(self._counts[loop])


def _owners(block: Block) -> Iterator[Node]:
    """The loops and branches around a block, from the inside."""
    return (one.owner for one in enclosing(block) if one.owner is not None)


def _is_limited(loop: Node) -> bool:
    limit = loop.inputs[0]
    return limit.constant is None or limit.constant_value < UNLIMITED


def _goes_on(condition: Value) -> bool:
    return condition.constant is not None and bool(condition.constant_value)


def _counted(loop: Node) -> Value:
    """Have a loop count its iterations."""
    (body,) = loop.blocks
    loop.add_input(loop.value_before("prim::Constant", [], INT, {"value": 0}))
    count = body.add_param(INT, "count")
    one = body.constant(1, INT)
    body.add_return(body.append("prim::add", [count, one], outputs=(INT,)).output)
    return loop.add_output(INT, "count")


def _move_behind(node: Node, other: Node) -> None:
    block = other.block
    assert block is not None
    block.nodes.remove(node)
    block.nodes.insert(block.nodes.index(other) + 1, node)
