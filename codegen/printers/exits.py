"""The ends of a function behind its errors, which have in common what they drop.

An error drops all that the function holds by then, the youngest first: a function with many errors
and many lists would consist of little else.  Here each thing is dropped in a block of its own,
which goes on to the block for the next older one, and errors that hold the same share the blocks.
What an older block drops was there before each of the errors that get to it, so that its operand
dominates the block.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import takewhile

from jitcore.codegen.loops import Call, Const, Do, Return, Stmt, Var
from jitcore.codegen.printers.llvm_instructions import Instructions
from jitcore.ir.dataclass import dataclass

__all__ = ["Drop", "Exits", "drops_at_end"]

# No parameter has a dot in its name.
_STATUS = "%leave.slot"
_END = "leave.end"


@dataclass(frozen=True, slots=True)
class Drop:
    """A call that drops what a variable holds.

    Parameters
    ----------
    function : str
        The function that is called.
    name : str
        The variable.
    """

    function: str
    name: str


def drops_at_end(statements: Sequence[Stmt]) -> list[Drop]:
    """What some statements drop right before they return a constant, in their order."""
    if not statements or not isinstance(statements[-1], Return):
        return []
    if not isinstance(statements[-1].value, Const):
        return []
    found = takewhile(bool, map(_drop, statements[-2::-1]))
    return [one for one in found if one is not None][::-1]


def _drop(statement: Stmt) -> Drop | None:
    match statement:
        case Do(Call(name, (Var(var, "ptr"),), "void", True)):
            return Drop(name, var)
    return None


class Exits:
    """The blocks at the end of a function that drop things and return its status.

    Parameters
    ----------
    code : Instructions
        Of the function.

    Attributes
    ----------
    lines : list of str
        The blocks' text.
    allocas : list of str
        What they need at the function's beginning.
    """

    def __init__(self, code: Instructions) -> None:
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self._code = code
        self._blocks: dict[tuple[str, str, bool, str], str] = {}

    def leave(
        self, drops: Sequence[Drop], held: Sequence[str], slots: Container[str], end: Stmt
    ) -> str:
        """Store the status that ``end`` returns; gives the jump to the block of the first drop.

        The operands ``held`` are what is dropped, or slots that hold it.
        """
        assert isinstance(end, Return)
        assert isinstance(end.value, Const)
        if not self.lines:
            self.allocas.append(f"  {_STATUS} = alloca i64")
            status = f"  %leave.status = load i64, ptr {_STATUS}"
            self.lines += [f"{_END}:", status, "  ret i64 %leave.status"]
        self._code.effect(f"store i64 {end.value.value}, ptr {_STATUS}")
        label = _END
        for drop, operand in zip(reversed(drops), reversed(held), strict=True):
            key = drop.function, operand, operand in slots, label
            label = self._blocks.get(key) or self._add(*key)
        return f"br label %{label}"

    def _add(self, function: str, operand: str, is_slot: bool, following: str) -> str:
        label = f"leave.{len(self._blocks)}"
        self._blocks[function, operand, is_slot, following] = label
        self._code.declare(function, "void", "ptr")
        self.lines.append(f"{label}:")
        if is_slot:
            self.lines.append(f"  %{label}.held = load ptr, ptr {operand}")
            operand = f"%{label}.held"
        self.lines.append(f"  call void @{function}(ptr {operand})")
        self.lines.append(f"  br label %{following}")
        return label
