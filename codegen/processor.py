"""What this processor does in another way than others, by LLVM's name for it."""

from __future__ import annotations

from jitcore.codegen.engine import cpu_name

__all__ = ["computes_in_halves", "gains_by_prefetches", "gathers_slowly"]


def computes_in_halves() -> bool:
    """Whether vectors of 512 bits are computed as two halves, one after the other.

    Divisions and roots take as long as elsewhere then, and all else takes twice as long.
    """
    return cpu_name() == "znver4"


def gains_by_prefetches() -> bool:
    """Whether loops that read memory in order take less time if they ask for it before.

    A Xeon does.  On a Zen 4 they take as long out of the second cache, and out of the third one or
    memory 1.3 to 1.4 times as long.
    """
    return not cpu_name().startswith("znver")


def gathers_slowly() -> bool:
    """Whether a gather takes longer than loads of single elements.

    On a Zen 4 it does, by some 60 instructions of the processor's own for eight elements.
    """
    return cpu_name().startswith("znver")
