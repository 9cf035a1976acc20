"""What functions were when code was compiled from them: Python lets it be set in place.

``importlib.reload`` leaves old functions as they are, but notebooks reload by giving them other
code, and so do some tools that patch programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from types import FunctionType, MethodType
from typing import Any

from jitcore.codegen.entries.entry import CaptureGuard
from jitcore.frontend import is_library
from jitcore.frontend.constants import wrapped_function
from jitcore.ir.dataclass import dataclass

__all__ = ["PARTS", "FunctionState", "states_of"]

PARTS = ("__code__", "__defaults__", "__kwdefaults__")
"""What may be set anew in a function, and makes it another one."""

_parts_of = attrgetter(*PARTS)


@dataclass(frozen=True, slots=True)
class FunctionState:
    """A function, and what it was made of.

    Parameters
    ----------
    function : FunctionType
    before : tuple
        Its code and its defaults.
    """

    function: FunctionType
    before: tuple[Any, ...]

    @classmethod
    def of(cls, function: FunctionType) -> FunctionState:
        """What a function is made of now."""
        return cls(function, _parts_of(function))

    def holds(self) -> bool:
        """Whether the function is what it was."""
        code, defaults, keyword_defaults = self.before
        function = self.function
        return (
            function.__code__ is code
            and function.__defaults__ is defaults
            and function.__kwdefaults__ is keyword_defaults
        )

    def guards(self) -> Iterator[CaptureGuard]:
        """The compiled checks of that."""
        for name, value in zip(PARTS, self.before, strict=True):
            yield CaptureGuard(self.function, name, value)


def states_of(values: Iterable[Any]) -> tuple[FunctionState, ...]:
    """What the users' functions among some values, and in methods among them, are made of now."""
    plain = (one.__func__ if type(one) is MethodType else one for one in values)
    found = {id(one): one for one in map(wrapped_function, plain) if one is not None}
    users = [one for one in found.values() if not is_library(one.__code__.co_filename)]
    return tuple(map(FunctionState.of, users))
