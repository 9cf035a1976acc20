"""How kernels are launched, as far as results leave a choice; and which choices are worth a try.

The values here are a small model's: enough threads to hide how late memory answers, and no more, so
that few have to meet.  `jitcore.cuda.autotune` measures the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from jitcore.ir.dataclass import dataclass

__all__ = ["DEFAULT", "PARAMETERS", "Tuning"]


@dataclass(frozen=True, slots=True)
class Tuning:
    """One configuration.

    Parameters
    ----------
    element_threads : int
        Of a block whose threads take elements of the whole grid.
    vectors : int
        Of 16 bytes, that a thread asks for before it waits, where it reads few arrays.
    row_threads : int
        Threads have several vectors before a block has more of them than this: fewer have to meet.
    column_threads : int
        Of a block that takes 32 columns, whose warps share the rows.
    """

    element_threads: int = 256
    vectors: int = 2
    row_threads: int = 128
    column_threads: int = 512

    def alternatives(self, parameter: str) -> Iterator[Tuning]:
        """The configurations with other values of a parameter."""
        for value in PARAMETERS[parameter]:
            if value != getattr(self, parameter):
                yield replace(self, **{parameter: value})


DEFAULT: Final = Tuning()

PARAMETERS: Final[dict[str, tuple[int, ...]]] = {
    "element_threads": (128, 256, 512, 1024),
    "vectors": (1, 2, 4),
    "row_threads": (64, 128, 256, 512),
    "column_threads": (256, 512, 1024),
}
"""The values that are tried."""
