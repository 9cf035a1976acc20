"""Kernels: loop nests whose iterations the threads of a device share.

A kernel is a list of statements that every thread of every block runs.  Its IR is that of
``codegen.loops`` with one statement more, ``ThreadFor``, and with these calls:

=============================  ===================================================================
``cuda.block_add(x)`` ...      what all threads of the block hold of a sum, product, minimum ...,
                               joined as a tree; every thread gets the result
``cuda.column_add(x)`` ...     the same for the threads with the same place in their warps
``cuda.warp_add(x)`` ...       the same for the threads of a warp
``cuda.before_add(x)`` ...     what the threads before the thread in the block hold, joined; for
                               the first thread it is any value
``cuda.of_last_thread(x)``     what the last thread of the block holds
``cuda.before_lanes_add(x, a)`` ...  what the lanes before the thread hold; the first gets ``a``
``cuda.of_last_lane(x)``       what the last lane of the warp holds
``cuda.before_warps_add(x, a)`` ...  what the warps before the thread's hold, whose lanes have the
                               same; the first gets ``a``
``cuda.next_tile(p)``          the number of the block's tile, which ``p`` counts
``cuda.before_tiles_add(…)``   what the tiles before the block's own hold (``scan_primitives``)
``cuda.of_last_tile_add(p)``   what the last one has left
``cuda.thread()``, ``threads()``  the thread's number in its block, and how many there are
``cuda.barrier()``             the threads of the block wait for each other, and see what the
                               others have written
``cuda.is_first()``            whether this is the first thread of its block
``cuda.is_in_first_warp()``    whether it is in its block's first warp
``cuda.is_first_lane()``       whether this is the first thread of its warp
``cuda.lane_in_warp()``        the thread's place in its warp
``cuda.warp()``                the number of its warp in the block
``cuda.block()``, ``blocks()``  the number of the thread's block, and how many there are
``cuda.is_last_block(p)``      whether the block is the last of all to come here, and sees what the
                               first threads of the others have written; ``p`` is a counter, which
                               is 0 before the kernel and after it
``cuda.load_vector(p, i)``     neighbouring elements by one instruction of at most 16 bytes, as a
                               value of a dtype like ``float32x4``
``cuda.lane(v, k)``            one of these
``cuda.store_vector(p, i, …)``  the same for writing
``cuda.shared(rows, columns)``  an array in the memory that the threads of a block share, of a dtype
                               like ``float32x32x33``
``cuda.taken(a, row, column)``  one of its elements
``cuda.put(a, row, column, x)``  a new value for that; a statement
=============================  ===================================================================

Reductions are deterministic: how elements are shared out depends on extents and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from jitcore.codegen.loops import Binary, Call, Const, Do, Expr, For, If, Stmt, Var
from jitcore.ir.dataclass import dataclass

__all__ = [
    "BLOCK",
    "IS_FIRST",
    "LANES",
    "LINE",
    "MAX_THREADS",
    "PARTS",
    "WARP",
    "Kernel",
    "Launch",
    "Mapped",
    "Scope",
    "Team",
    "ThreadFor",
    "barrier",
    "by_first_thread",
    "most_threads",
    "vector_width",
]

Scope = Literal["grid", "blocks", "block", "parts", "warp"]
"""Who shares a loop: all threads; the blocks, whose threads do the same iteration together; the
threads of one block; its warps; the threads of one warp."""

MAX_THREADS = 1024
"""The most threads a block can have, on every device there is."""

VECTOR_BYTES = 16
LANES = 8
"""The most elements of a vector: more would only take registers."""

WARP = 32
"""The threads that run in step."""

IS_FIRST = Call("cuda.is_first", (), "bool")


@dataclass(frozen=True, slots=True)
class Team:
    """Threads that share loops.

    Parameters
    ----------
    scope : Scope
        Of the loops.
    joins : str
        What the calls that join parts of a reduction begin with.
    is_first : Call
        Whether a thread is to do what need be done once.
    """

    scope: Scope
    joins: str
    is_first: Call


BLOCK = Team("block", "cuda.block_", IS_FIRST)
"""All threads of a block."""

PARTS = Team("parts", "cuda.column_", Call("cuda.is_in_first_warp", (), "bool"))
"""The threads with the same place in their warps: each place is a column."""

LINE = Team("warp", "cuda.warp_", Call("cuda.is_first_lane", (), "bool"))
"""The threads of one warp, of several in a block: each warp has a row."""


@dataclass(slots=True)
class ThreadFor(For):
    """A ``For`` of step 1 whose iterations are shared out.

    Attributes
    ----------
    scope : Scope
    """

    scope: Scope = "grid"


@dataclass(frozen=True, slots=True)
class Launch:
    """How many blocks, of how many threads: int64 expressions of the host's variables."""

    blocks: Expr
    threads: Expr


@dataclass(frozen=True, slots=True)
class Mapped:
    """The statements of a kernel, and how many threads run them."""

    body: list[Stmt]
    launch: Launch
    mapping: str


@dataclass(slots=True)
class Kernel:
    """One kernel.

    Parameters
    ----------
    name : str
    params : sequence of Var
        What it reads from the host.
    body : list of Stmt
    launch : Launch
    mapping : str
        How its loops became threads, for reports.
    """

    name: str
    params: Sequence[Var]
    body: list[Stmt]
    launch: Launch
    mapping: str

    @property
    def launch_symbol(self) -> str:
        """The host function that launches it: takes its parameters, then blocks and threads."""
        return f"launch_{self.name}"


def most_threads(kernel: Kernel) -> int:
    """The most threads that one of the kernel's blocks may have."""
    match kernel.launch.threads:
        case Const(value=count) | Binary(op="min", y=Const(value=count)):
            return int(count)
    return MAX_THREADS


def barrier() -> Stmt:
    """Where the threads of a block wait for each other."""
    return Do(Call("cuda.barrier", (), "void"))


def by_first_thread(body: list[Stmt]) -> Stmt:
    """Statements for the first thread of each block."""
    return If(IS_FIRST, body)


def vector_width(itemsize: int) -> int:
    """How many elements of this size one instruction moves."""
    return min(VECTOR_BYTES // itemsize, LANES)
