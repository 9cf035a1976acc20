"""What LLVM is told about a loop, where its own choice is bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitcore.codegen.loops import Assign, Binary, Const, For, While
from jitcore.codegen.traversal import walk

__all__ = ["MASKED", "UNMASKED", "loop_hints"]

MASKED: Final = '!{!"llvm.loop.vectorize.predicate.enable", i1 true}'
"""Has the rest of a short loop computed as a part of a vector."""

UNMASKED: Final = MASKED.replace("true", "false")
"""What stands in its place for processors without masks."""

_NOT_UNROLLED: Final = '!{!"llvm.loop.unroll.disable"}'
_SEVERAL_SUMS: Final = '!{!"llvm.loop.interleave.count", i32 4}'
# What the vectorizer makes of a loop has these hints in place of the others.
_AFTERWARDS: Final = '!{!"llvm.loop.vectorize.followup_all", !{!"llvm.loop.isvectorized", i32 1}}'

SHORT_STEP: Final = 8
"""Statements of a step that is little work."""

LANES: Final = 8
LEAST_MASKED: Final = 6
MOST_MASKED: Final = 256


def loop_hints(loop: For, metadata: Callable[[str], str]) -> str:
    """The name of a loop's metadata, or nothing.

    Parameters
    ----------
    loop : For
    metadata : callable
        Adds a node of metadata, in which ``{self}`` stands for itself, and gives its name.
    """
    hints = _sum_hints(loop) if _adds_up(loop) else []
    if _has_short_rest(loop):
        hints.append(MASKED)
    if not hints:
        return ""
    names = ", ".join(map(metadata, hints))
    return metadata(f"distinct !{{{{self}}, {names}}}")


def _adds_up(loop: For) -> bool:
    """Whether a loop's own statements are steps of a reduction."""
    values = [one.value for one in loop.body if isinstance(one, Assign)]
    return any(isinstance(value, Binary) and value.reassoc for value in values)


def _sum_hints(loop: For) -> list[str]:
    """What keeps a loop that adds up from being unrolled before it is vectorized.

    Short sums would become chains of additions, which are not made vectors of again.  Where a step
    is little work, several sums are kept, so that none waits for the one before.
    """
    several = [_SEVERAL_SUMS] if len(loop.body) <= SHORT_STEP else []
    return [_NOT_UNROLLED, *several, _AFTERWARDS]


def _has_short_rest(loop: For) -> bool:
    """Whether a loop has few iterations, and some of them do not fill a vector."""
    if not (isinstance(loop.start, Const) and isinstance(loop.stop, Const)) or loop.step != 1:
        return False
    trips = loop.stop.value - loop.start.value
    is_innermost = not any(isinstance(one, For | While) for one in walk(loop.body))
    return is_innermost and LEAST_MASKED <= trips <= MOST_MASKED and trips % LANES != 0
