"""Long scans with nothing around them, by all blocks, in two kernels.

Blocks do not wait for each other.  So every block of the first kernel joins a chunk of the
elements, and the last one scans what they made; in the second every block scans its chunk,
beginning with what is before that.  How long the chunks are depends on the extent alone, and so
does the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen.cuda.kernels import (
    BLOCK,
    MAX_THREADS,
    WARP,
    Launch,
    Mapped,
    by_first_thread,
)
from jitcore.codegen.cuda.linear import depends_on
from jitcore.codegen.cuda.nests import ELEMENT_THREADS, blocks_for, extent_of
from jitcore.codegen.cuda.reductions import Parts, share_reduction
from jitcore.codegen.cuda.scans import Step, share_scan, steps_of
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, with_expressions
from jitcore.codegen.loop_passes.traversal import loads_in, variables, walk
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
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
from jitcore.codegen.lowering.accumulators import identity
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    integer,
    maximum,
    minimum,
    multiply,
    subtract,
)
from jitcore.codegen.lowering.walks import multiple_of
from jitcore.ir.dataclass import dataclass

__all__ = ["CHUNKS", "can_chunk", "scan_by_chunks"]

CHUNKS = 1024
"""The most chunks of a scan: those that one block scans are few."""

EACH = 8
"""Elements of a chunk that a thread asks for at once: with 4, too few bytes are under way."""

SHORTEST = 4096
"""One block is as fast for fewer elements."""


def can_chunk(loop: For) -> bool:
    """Whether a scan is worth three kernels, and elements do not depend on what is before them."""
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


@dataclass(frozen=True, slots=True)
class _Chunks:
    """How the elements are shared out: so many blocks, and so many elements for each."""

    loop: For

    @property
    def blocks(self) -> Expr:
        """How many chunks there are."""
        return blocks_for(extent_of(self.loop), MAX_THREADS, CHUNKS)

    def own(self, names: set[str]) -> tuple[list[Stmt], For]:
        """The part of the loop that is the work of the block that runs it."""
        place = Var(numbered("place", names), "int64")
        first = Var(numbered("first", names), "int64")
        last = Var(numbered("last", names), "int64")
        start, stop = self.loop.start, self.loop.stop
        # Vectors of each dtype begin at the multiples of a warp.
        origin = multiple_of(start, WARP)
        whole = add(maximum(subtract(stop, origin), ZERO), integer(-1))
        least = add(Binary("quot", whole, self.blocks, "int64"), integer(WARP))
        each = multiple_of(least, WARP)
        block = Call("cuda.block", (), "int64")
        begin: list[Stmt] = [
            Let(place, add(origin, multiply(block, each))),
            Let(first, maximum(place, start)),
            Let(last, minimum(add(place, each), stop)),
        ]
        return begin, replace(self.loop, start=first, stop=last)


def scan_by_chunks(
    loop: For, initial: Sequence[Expr], parts: Parts, end: Sequence[Stmt], names: set[str]
) -> Iterator[Mapped]:
    """The kernels of a scan that has nothing around it.

    Parameters
    ----------
    loop : For
        A scan that can be had by chunks.
    initial : sequence of Expr
        What the scanned variables are before it.
    parts : Parts
        Room for a value of each variable for each of ``CHUNKS`` blocks, and one more.
    end : sequence of Stmt
        What one thread does with what the variables are after it.
    names : set of str
        The names that are taken; gets the new ones.
    """
    chunks = _Chunks(loop)
    steps = steps_of(loop) or []
    launch = Launch(chunks.blocks, integer(ELEMENT_THREADS))
    scanned = _scan_parts(chunks, steps, initial, parts, names)
    is_last = Call("cuda.is_last_block", (parts.scratch,), "bool")
    joined = [
        *_join(chunks, steps, parts, names),
        If(is_last, [*scanned, by_first_thread([*end])]),
    ]
    yield Mapped(joined, launch, "parts of a scan, a chunk a block, the last one scanning them")
    yield Mapped(_scan_own(chunks, steps, parts, names), launch, "a scan, a chunk a block")


def _join(chunks: _Chunks, steps: Sequence[Step], parts: Parts, names: set[str]) -> list[Stmt]:
    """What a block's elements make together goes to the place after its own."""
    begin, own = chunks.own(names)
    joins: list[Stmt] = []
    for step in steps:
        is_float = np.dtype(step.var.dtype).kind == "f"
        value = Binary(step.op, step.var, step.element, step.var.dtype, reassoc=is_float)
        begin.append(Let(step.var, identity(step.op, np.dtype(step.var.dtype)), mutable=True))
        joins.append(Assign(step.var, value))
    place: dict[Expr, Expr] = {own.var: add(own.start, own.var)}
    body = [*_elements(chunks.loop, steps), *joins]
    own = replace(
        own,
        start=ZERO,
        stop=maximum(subtract(own.stop, own.start), ZERO),
        body=[with_expressions(one, lambda x: replaced(x, place.get)) for one in body],
    )
    after = add(Call("cuda.block", (), "int64"), ONE)
    stores: list[Stmt] = [
        _store(parts, number, step.var, after, step.var) for number, step in enumerate(steps)
    ]
    return [*begin, *share_reduction(own, BLOCK, names), by_first_thread(stores)]


def _scan_parts(
    chunks: _Chunks,
    steps: Sequence[Step],
    initial: Sequence[Expr],
    parts: Parts,
    names: set[str],
) -> list[Stmt]:
    """What is before each chunk; at last the variables are what they are after all."""
    counter = Var(numbered("part", names), "int64")
    begin: list[Stmt] = []
    first: list[Stmt] = []
    body: list[Stmt] = []
    for number, (step, value) in enumerate(zip(steps, initial, strict=True)):
        part = _load(parts, number, step.var, counter)
        begin.append(Assign(step.var, value))
        first.append(_store(parts, number, step.var, ZERO, step.var))
        body.append(Let(step.bound, Binary(step.op, step.var, part, step.var.dtype)))
        body.append(Assign(step.var, step.bound))
        body.append(_store(parts, number, step.var, counter, step.bound))
    loop = For(counter, ONE, add(chunks.blocks, ONE), body)
    return [*begin, by_first_thread(first), *share_scan(loop, names)]


def _scan_own(chunks: _Chunks, steps: Sequence[Step], parts: Parts, names: set[str]) -> list[Stmt]:
    begin, own = chunks.own(names)
    block = Call("cuda.block", (), "int64")
    for number, step in enumerate(steps):
        begin.append(Let(step.var, _load(parts, number, step.var, block), mutable=True))
    return [*begin, *share_scan(own, names, EACH)]


def _load(parts: Parts, number: int, var: Var, block: Expr) -> Load:
    return Load(parts.scratch, parts.place(number, var, block), var.dtype, parts.scratch.name)


def _store(parts: Parts, number: int, var: Var, block: Expr, value: Expr) -> Store:
    return Store(parts.scratch, parts.place(number, var, block), value, parts.scratch.name)
