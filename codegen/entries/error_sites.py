"""Error sites: the places where native code stops, and the exceptions Python raises for them.

A native function that meets an error returns the number of a site (1-based) and leaves the site's
payload, a few int64 numbers such as an index and an extent, in its result slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import SourceRange

__all__ = ["ASSUMED", "MAX_PAYLOAD", "ErrorSite"]

ASSUMED: Final = "extents that were taken for equal and are not"
"""What sites of calls say that other code, which takes less for granted, may be compiled for."""

MAX_PAYLOAD: Final = 16
"""How many numbers a payload has at most: the result slots every entry has."""


@dataclass(frozen=True, slots=True)
class ErrorSite:
    """One way of leaving a native function without a result.

    Parameters
    ----------
    exception : type or None
        The class of the exception; None where nothing is wrong, but only the host code can go on
        (``message`` says from what).
    message : str
        A ``str.format`` template over the payload: ``"index {0} is out of bounds"``.
    payload : int
        How many int64 numbers lie in the result slots.
    source : SourceRange or None
        The statement that was being executed.
    after_write : bool
        An argument may have been written before; otherwise the host code can start anew.
    repeats : bool
        The host code can start anew all the same, where arguments share no memory: nothing of what
        was written is read.
    """

    exception: type[BaseException] | None
    message: str = ""
    payload: int = 0
    source: SourceRange | None = None
    after_write: bool = True
    repeats: bool = False

    @property
    def is_assumed(self) -> bool:
        """Whether other code that takes less for granted could go on."""
        return self.message == ASSUMED

    def make(self, payload: Sequence[int]) -> BaseException:
        """The exception to raise, given the site's payload."""
        if self.exception is None:
            return NotImplementedError(
                f"compiled code met {self.message} after it had written to its arguments; "
                "run this call without compiling the function"
            )
        if not self.message:
            return self.exception()
        return self.exception(self.message.format(*payload[: self.payload]))
