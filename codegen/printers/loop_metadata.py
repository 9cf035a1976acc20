"""The words in which LLVM is told about a loop."""

from __future__ import annotations

from typing import Final

__all__ = [
    "AFTERWARDS",
    "AS_IT_IS",
    "INTERLEAVED",
    "MASKED",
    "NOT_UNROLLED",
    "NOT_UNROLLED_AFTERWARDS",
    "NO_VECTORS",
    "OF_VECTORS",
    "ONE_AT_A_TIME",
    "PARTLY_UNROLLED_AFTERWARDS",
    "SEVERAL_AT_A_TIME",
    "UNMASKED",
    "several_at_a_time",
    "vector_width",
]

MASKED: Final = '!{!"llvm.loop.vectorize.predicate.enable", i1 true}'
"""Has the rest of a short loop computed as a part of a vector."""

UNMASKED: Final = MASKED.replace("true", "false")
"""What stands in its place for processors without masks."""

OF_VECTORS: Final = (
    '!{!"llvm.loop.isvectorized", i32 1}',
    '!{!"llvm.loop.unroll.runtime.disable"}',
)
"""What the vectorizer itself says about the loops that it makes."""

NOT_UNROLLED: Final = '!{!"llvm.loop.unroll.disable"}'
NO_VECTORS: Final = '!{!"llvm.loop.vectorize.enable", i1 false}'
AS_IT_IS: Final = (NOT_UNROLLED, NO_VECTORS)
"""Of loops that hardly ever run."""

# What the vectorizer makes of a loop has these hints in place of the others.
_FOLLOWED = '"llvm.loop.vectorize.followup_all", !{!"llvm.loop.isvectorized", i32 1}'
AFTERWARDS: Final = f"!{{!{_FOLLOWED}}}"
NOT_UNROLLED_AFTERWARDS: Final = f'!{{!{_FOLLOWED}, !{{!"llvm.loop.unroll.runtime.disable"}}}}'
PARTLY_UNROLLED_AFTERWARDS: Final = f'!{{!{_FOLLOWED}, !{{!"llvm.loop.unroll.count", i32 4}}}}'


def several_at_a_time(vectors: int) -> str:
    """Has so many vectors computed side by side."""
    return f'!{{!"llvm.loop.interleave.count", i32 {vectors}}}'


INTERLEAVED: Final = 4
ONE_AT_A_TIME: Final = several_at_a_time(1)
SEVERAL_AT_A_TIME: Final = several_at_a_time(INTERLEAVED)


def vector_width(lanes: int) -> str:
    """Has vectors made of so many iterations."""
    return f'!{{!"llvm.loop.vectorize.width", i32 {lanes}}}'
