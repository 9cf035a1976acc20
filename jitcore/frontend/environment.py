"""What each local variable is bound to at one point of the function."""

from __future__ import annotations

from enum import Enum

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Value

__all__ = ["Binding", "Environment", "Reach", "is_hidden"]


class Reach(Enum):
    """How far the code at the end of a block can be reached."""

    FALLS = "falls"
    """The block runs on."""
    RETURNED = "returned"
    """The function has returned, and no ``finally`` follows: only hidden variables are read."""
    RAISED = "raised"
    """An exception was raised: nothing is read."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A variable's value, and whether it has one.

    Parameters
    ----------
    value : Value
    bound : Value or None
        A bool that says at run time whether the variable is bound; None where it surely is.
    """

    value: Value
    bound: Value | None = None


class Environment:
    """The bindings of all local variables; a name that is absent is surely unbound."""

    __slots__ = ("bindings", "reach")

    def __init__(self, bindings: dict[str, Binding] | None = None) -> None:
        self.bindings: dict[str, Binding] = dict(bindings or {})
        self.reach = Reach.FALLS

    def copy(self) -> Environment:
        """An environment with the same bindings, for a block that is reached."""
        return Environment(self.bindings)

    def ignores(self, name: str) -> bool:
        """Whether nobody reads this variable after the point that this environment describes."""
        if self.reach is Reach.RAISED:
            return True
        return self.reach is Reach.RETURNED and not is_hidden(name)


def is_hidden(name: str) -> bool:
    """Whether a variable is a flag or the result rather than one of the user's."""
    return name.startswith(".")
