"""Arrays that a loop carries in room of their own (``small_variables``)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jitcore.codegen.loops import Expr, Var
from jitcore.codegen.lowering.elementwise import as_copy
from jitcore.codegen.lowering.merging import is_placeholder
from jitcore.codegen.lowering.nest import write
from jitcore.codegen.lowering.operands import ArrayRef, Operand, row_major
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.graph import Node, Value

__all__ = ["CopiedArray", "OtherOrder", "settle"]


class OtherOrder(Exception):
    """A variable that was to be copied is an array of another form than its room.

    Its axes are not in C order, or it leaves the function and is part of another array.

    Parameters
    ----------
    param : Value
        The parameter of the loop's block.
    """

    def __init__(self, param: Value) -> None:
        super().__init__()
        self.param = param


class CopiedArray:
    """One variable that a loop carries by copying its elements.

    Parameters
    ----------
    lowering : Lowering
    loop : Node
    param : Value
        The parameter of the loop's block.
    initial : ArrayRef
        What the variable is at first; it may be a placeholder.
    """

    def __init__(self, lowering: Lowering, loop: Node, param: Value, initial: ArrayRef) -> None:
        self.lowering = lowering
        self.loop = loop
        self.param = param
        self.room = lowering.allocate(param.name, initial.dims, initial.dtype, escapes=False)
        self.next: ArrayRef | None = None
        number = loop.blocks[0].params.index(param) - 1
        self.leaves = lowering.escapes(loop.outputs[number])
        first = self._checked(initial)
        if first is not None:
            self._take(first)

    def current(self, value: Value) -> Operand:
        """The variable's value in an iteration, or that behind the loop."""
        if value is self.param or not self.leaves:
            return self.room
        room = self.room
        found = self.lowering.allocate(value.name, room.dims, room.dtype, escapes=True)
        write(self.lowering, [(found, as_copy(self.loop, room))])
        return found

    def prepare(self, operand: Operand) -> list[tuple[Var, Expr]]:
        """Note what an iteration returns, which ``settle`` copies."""
        self.next = self._checked(operand) if isinstance(operand, ArrayRef) else None
        return []

    def drop_old(self) -> None:
        """Nothing is counted."""

    def set_apart(self, rooms: Collection[str]) -> None:
        """Copy the next value elsewhere where other variables' room, or its own, is part of it."""
        value = self.next
        if value is None or value.same_place(self.room) or not value.roots & set(rooms):
            return
        dims, dtype = value.dims, value.dtype
        apart = self.lowering.allocate(f"next_{self.param.name}", dims, dtype, escapes=False)
        write(self.lowering, [(apart, as_copy(self.loop, value))])
        self.next = apart

    def take_next(self) -> None:
        """Copy the next value to the variable's room."""
        if self.next is not None and not self.next.same_place(self.room):
            self._take(self.next)

    def _checked(self, value: ArrayRef) -> ArrayRef | None:
        """An array that has the form of the room; None for a placeholder."""
        if is_placeholder(value):
            return None
        is_alike = value.rank == 1 or value.order == row_major(value.rank)
        if not is_alike or (self.leaves and not value.whole):
            raise OtherOrder(self.param)
        return value

    def _take(self, value: ArrayRef) -> None:
        write(self.lowering, [(self.room, as_copy(self.loop, value))])


def settle(variables: Sequence[object]) -> None:
    """Give all copied variables of a loop the values that an iteration returns."""
    copied = [one for one in variables if isinstance(one, CopiedArray)]
    rooms = {root for one in copied for root in one.room.roots}
    for one in copied:
        one.set_apart(rooms)
    for one in copied:
        one.take_next()
