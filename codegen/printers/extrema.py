"""Instructions for NumPy's minimum and maximum of floats: NaN wins, and of equal ones the second.

An instruction of x86 gives the larger of two numbers, and the second operand where they are equal
or one of them is NaN, so the first operand being NaN is all that is left to look at.  LLVM would
make a second comparison of it, and no such instruction, if the operand itself were chosen then.
The operand is added to itself instead, which leaves a NaN as it is.

Of ``min(max(x, y), z)`` one comparison looks at x and y.  A constant that is not zero is no NaN,
and no other number is equal to it: the instruction has it first, and no look is needed.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["Extrema"]

_PREDICATES: Final = {"min": "lt", "max": "gt"}
_NUMBER: Final = re.compile(r"\b0x([0-9A-F]{16})\b")


class _Extremum(NamedTuple):
    """The operands of an extremum, and its register where no operand but the last is NaN."""

    x: str
    y: str
    plain: str


class Extrema:
    """Appends instructions, and knows which registers are extrema of what.

    Parameters
    ----------
    value : function
        Appends an instruction and gives its register.
    """

    def __init__(self, value: Callable[[str], str]) -> None:
        self._value = value
        self._known: dict[str, _Extremum] = {}

    def rename(self, register: str, name: str) -> None:
        """Tell that a register has another name from here on."""
        if register in self._known:
            self._known[name] = self._known.pop(register)

    def of(self, op: str, x: str, y: str, type_: str, truth: str) -> str:
        """The extremum of two operands of a type; ``truth`` is the type of comparisons of them."""
        number = _constant(y)
        if number is not None and number == number:
            if number == 0:
                above = self._value(f"fcmp u{_PREDICATES[op]} {type_} {x}, {y}")
                return self._value(f"select {truth} {above}, {type_} {x}, {type_} {y}")
            return self._plain(op, y, x, type_, truth)
        before = self._known.get(x)
        if before is None:
            plain = self._plain(op, x, y, type_, truth)
            found = self._unless_nan(x, x, plain, type_, truth)
            self._known[found] = _Extremum(x, y, plain)
            return found
        plain = self._plain(op, before.plain, y, type_, truth)
        return self._unless_nan(before.x, before.y, plain, type_, truth)

    def _plain(self, op: str, x: str, y: str, type_: str, truth: str) -> str:
        """The instruction: the second operand where they are equal or not to be compared."""
        above = self._value(f"fcmp o{_PREDICATES[op]} {type_} {x}, {y}")
        return self._value(f"select {truth} {above}, {type_} {x}, {type_} {y}")

    def _unless_nan(self, x: str, y: str, plain: str, type_: str, truth: str) -> str:
        is_nan = self._value(f"fcmp uno {type_} {x}, {y}")
        nan = self._value(f"fadd {type_} {x}, {y}")
        return self._value(f"select {truth} {is_nan}, {type_} {nan}, {type_} {plain}")


def _constant(operand: str) -> float | None:
    """The number that the text of a float operand stands for."""
    found = None if operand.startswith("%") else _NUMBER.search(operand)
    return None if found is None else struct.unpack(">d", bytes.fromhex(found[1]))[0]
