"""Long scans with nothing around them, by all blocks, in one kernel that reads memory once.

A block takes the next tile of the elements, and what its threads hold stays in registers until they
know what is before it (`codegen.cuda.scan_primitives`).  A thread has several vectors of a tile,
which lie a warp apart: neighbours load neighbours, and many bytes are under way.  What is joined in
which order depends on the extent alone, and so does the result.

Tiles leave their sums in memory whose words are 0 before; the last block leaves them so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from jitcore.codegen.cuda.kernels import (
    LANES,
    WARP,
    Launch,
    Mapped,
    ThreadFor,
    barrier,
    by_first_thread,
)
from jitcore.codegen.cuda.linear import depends_on
from jitcore.codegen.cuda.nests import blocks_for, extent_of
from jitcore.codegen.cuda.scans import Step, Tile, joined, steps_of, vectors_of
from jitcore.codegen.cuda.vectors import are_aligned, by_vectors
from jitcore.codegen.loop_passes.rewriting import numbered
from jitcore.codegen.loop_passes.traversal import loads_in, variables, walk
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.accumulators import neutral
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    TRUE,
    ZERO,
    add,
    both,
    compare,
    integer,
    maximum,
    multiply,
    subtract,
)
from jitcore.codegen.lowering.walks import multiple_of
from jitcore.ir.dataclass import dataclass

__all__ = ["Zeros", "may_be_one_pass", "scan_in_one_pass", "zeros_for"]

VECTORS, ELEMENTS = 4, 16
"""The most vectors, and the most elements, that a thread has of a tile."""

RECORD = 16
"""Bytes in which a tile leaves a sum.  As many come before: the count of blocks, that of tiles."""

THREADS = 256
"""Of a block; a power of two."""

SHORTEST = 4096
"""One block is as fast for fewer elements."""

MOST_BLOCKS = (1 << 31) - 1


def may_be_one_pass(loop: For) -> bool:
    """Whether a scan is worth many blocks, and elements do not depend on what is before them."""
    extent = extent_of(loop)
    if isinstance(extent, Const) and extent.value < SHORTEST:
        return False
    steps = steps_of(loop) or []
    bounds = [step.bound.name for step in steps]
    elements = _elements(loop, steps)
    if any(depends_on(one.value, name) for one in elements for name in bounds):
        return False
    if any(depends_on(step.element, name) for step in steps for name in bounds):
        return False
    stores = [one for one in walk(loop.body) if isinstance(one, Store)]
    return all(_are_apart(load, store) for load in loads_in(loop.body) for store in stores)


def _are_apart(load: Load, store: Store) -> bool:
    """Whether no other iteration writes what one reads."""
    if load.root and store.root and load.root != store.root:
        return True
    return (load.pointer, load.index) == (store.pointer, store.index)


def _elements(loop: For, steps: Sequence[Step]) -> list[Let]:
    """The statements that make what is scanned, and not what is made of it."""
    needed = {name for step in steps for name in variables(step.element)}
    found: list[Let] = []
    for statement in reversed(loop.body):
        if isinstance(statement, Let) and statement.var.name in needed:
            found.append(statement)
            needed |= set(variables(statement.value))
    return found[::-1]


def scan_in_one_pass(
    loop: For, initial: Sequence[Expr], memory: Zeros, end: Sequence[Stmt], names: set[str]
) -> Mapped:
    """The kernel of a scan that has nothing around it.

    Parameters
    ----------
    loop : For
        A scan that may be one (`may_be_one_pass`).
    initial : sequence of Expr
        What the scanned variables are before it.
    memory : Zeros
        Of `zeros_for`.
    end : sequence of Stmt
        What one thread does with what the variables are after it.
    names : set of str
        The names that are taken; gets the new ones.
    """
    steps, tiling = steps_of(loop) or [], _Tiling(loop)
    tile, base = (Var(numbered(name, names), "int64") for name in ("tile", "base"))
    records = {step.var: memory.records(number) for number, step in enumerate(steps)}
    begin: list[Stmt] = [
        Let(tile, Call("cuda.next_tile", (memory.at(integer(4)),), "int64")),
        Let(base, add(tiling.origin, multiply(tile, tiling.size))),
    ]
    left: list[Stmt] = []
    for step, value in zip(steps, initial, strict=True):
        begin.append(Let(step.var, value, mutable=True))
        kept = Call(f"cuda.of_last_tile_{step.op}", (records[step.var],), step.var.dtype)
        left.append(Assign(step.var, kept))
    elements = _elements_of_tile(tiling, tile, base, records, names)
    is_last = Call("cuda.is_last_block", (memory.pointer,), "bool")
    has_any = compare("lt", tiling.origin, loop.stop)
    joining = [
        *(left if has_any == TRUE else [If(has_any, left)]),
        by_first_thread([*end]),
        barrier(),
        *memory.cleared(names),
    ]
    body = [*begin, If(compare("lt", base, loop.stop), elements), If(is_last, joining)]
    return Mapped(
        body, Launch(memory.tiles, integer(THREADS)), "a scan in one pass, a tile a block"
    )


def zeros_for(loop: For, pointer: Var) -> Zeros:
    """The memory that a scan needs."""
    return Zeros(pointer, _Tiling(loop).count, len(steps_of(loop) or ()))


@dataclass(frozen=True, slots=True)
class Zeros:
    """Memory that is 0 before and after: a count of blocks, one of tiles, and their records.

    Parameters
    ----------
    pointer : Var
    tiles : Expr
        How many there are.
    steps : int
        How many records each has.
    """

    pointer: Var
    tiles: Expr
    steps: int

    @property
    def size(self) -> Expr:
        """In bytes."""
        return multiply(add(multiply(self.tiles, integer(self.steps)), ONE), integer(RECORD))

    def at(self, place: Expr) -> Expr:
        """An address."""
        return add(Cast(self.pointer, "int64"), place)

    def records(self, number: int) -> Expr:
        """Where those of a variable begin."""
        before = add(multiply(Call("cuda.blocks", (), "int64"), integer(number)), ONE)
        return self.at(multiply(before, integer(RECORD)))

    def cleared(self, names: set[str]) -> list[Stmt]:
        """What the threads of a block do so that all is 0 again."""
        word = Var(numbered("word", names), "int64")
        records = multiply(Call("cuda.blocks", (), "int64"), integer(self.steps))
        words = multiply(add(records, ONE), integer(RECORD // 8))
        store = Store(self.pointer, word, ZERO, self.pointer.name)
        return by_vectors(ThreadFor(word, ZERO, words, [store], scope="block"), names)[0]


class _Tiling:
    """How the elements of a scan are shared out.

    Parameters
    ----------
    loop : For
    """

    def __init__(self, loop: For) -> None:
        self.loop = loop
        self.places, width = vectors_of(loop, LANES)
        self.width = width if self.places else LANES // 2
        self.groups = min(VECTORS, ELEMENTS // self.width)
        self.origin = multiple_of(loop.start, WARP)
        self.elements = THREADS * self.groups * self.width
        self.size = integer(self.elements)

    @property
    def count(self) -> Expr:
        """How many tiles there are."""
        extent = subtract(self.loop.stop, self.origin)
        extent = extent if isinstance(extent, Const) else maximum(extent, ZERO)
        return blocks_for(extent, self.elements, MOST_BLOCKS)


def _elements_of_tile(
    tiling: _Tiling, tile: Var, base: Var, records: Mapping[Var, Expr], names: set[str]
) -> list[Stmt]:
    """What a thread does with its elements, by vectors where all of a tile are there."""
    loop, width, groups = tiling.loop, tiling.width, tiling.groups
    lane, warp = (Call(f"cuda.{name}", (), "int64") for name in ("lane_in_warp", "warp"))
    row = WARP * width
    first = add(add(base, multiply(warp, integer(row * groups))), multiply(lane, integer(width)))
    begin: list[Stmt] = []
    lanes: list[Expr] = []
    for group in range(groups):
        var = Var(numbered("first", names), "int64")
        begin.append(Let(var, add(lanes[0], integer(group * row)) if lanes else first))
        lanes += [add(var, integer(lane)) for lane in range(width)]
    written = partial(_Tile, loop, lanes, names, groups=groups)
    own = list(written(tile=tile, records=records).statements())
    if not tiling.places:
        return [*begin, *own]
    whole = list(written(tiling.places, width, tile=tile, records=records).statements())
    is_begun = TRUE if loop.start == ZERO else compare("ge", base, loop.start)
    is_whole = both(is_begun, compare("le", add(base, tiling.size), loop.stop))
    return [*begin, If(both(are_aligned(tiling.places, width), is_whole), whole, own)]


class _Tile(Tile):
    """A thread's elements of a tile, behind what the tiles before it hold.

    Parameters
    ----------
    tile : Var
        Its number.
    records : dict of Var to Expr
        Where tiles leave the sums of a variable.
    """

    def __init__(self, *args: Any, tile: Var, records: Mapping[Var, Expr], **others: Any) -> None:
        super().__init__(*args, **others)
        self._tile, self._records = tile, records

    def _before(self, step: Step, owns: Sequence[Expr]) -> Generator[Stmt, None, Sequence[Expr]]:
        dtype, op, name = step.var.dtype, step.op, step.var.name
        absent = neutral(op, np.dtype(dtype))

        def bound(called: str, value: Expr) -> Let:
            return Let(Var(numbered(f"{name}_{called}", self._names), dtype), value)

        def call(function: str, *args: Expr) -> Call:
            return Call(f"cuda.{function}", args, dtype)

        befores, totals = list[Expr](), list[Expr]()
        for own in owns:
            yield (held := bound("held", own))
            yield (before := bound("lanes", call(f"before_lanes_{op}", held.var, absent)))
            total = Binary(op, before.var, held.var, dtype)
            yield (of_all := bound("total", call("of_last_lane", total)))
            befores.append(before.var)
            totals.append(of_all.var)
        yield (warp := bound("warp", joined(step, totals)))
        yield (warps := bound("warps", call(f"before_warps_{op}", warp.var, absent)))
        of_warps = Binary(op, warps.var, warp.var, dtype)
        yield (whole := bound("whole", call("of_last_thread", of_warps)))
        record = self._records[step.var]
        args = (whole.var, step.var, absent, self._tile, record)
        yield (tiles := bound("tiles", call(f"before_tiles_{op}", *args)))
        yield (begun := bound("begun", Binary(op, tiles.var, warps.var, dtype)))
        begins = list[Expr]()
        for before_lanes, total_of in zip(befores, totals, strict=True):
            begins.append(Binary(op, begun.var, before_lanes, dtype))
            yield (begun := bound("begun", Binary(op, begun.var, total_of, dtype)))
        return begins

    def _after(self, step: Step, own: Expr) -> Iterator[Stmt]:
        return iter(())
