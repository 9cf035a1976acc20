"""Reductions of threads: the loops that only join elements to variables, and how they are shared.

A total has nothing around it: every block makes its part, and the last one joins the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen.cuda.kernels import (
    BLOCK,
    PARTS,
    Launch,
    Mapped,
    Scope,
    Team,
    ThreadFor,
    by_first_thread,
)
from jitcore.codegen.cuda.linear import depends_on
from jitcore.codegen.cuda.nests import (
    blocks_for,
    chain,
    check_nest,
    collapsed,
    extent_of,
    flat,
    jumps,
)
from jitcore.codegen.cuda.tuning import DEFAULT
from jitcore.codegen.cuda.vectors import by_elements, by_vectors
from jitcore.codegen.loop_passes.rewriting import numbered, with_blocks
from jitcore.codegen.loop_passes.traversal import bound_names, expressions, variables, walk
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Expr,
    For,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.accumulators import ASSOCIATIVE, identity
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer
from jitcore.ir.dataclass import dataclass

__all__ = [
    "Parts",
    "Reduced",
    "map_total",
    "reductions_of",
    "share",
    "share_reduction",
    "with_end",
]

TOTAL_BLOCKS = 1024
"""The most parts of a total: enough to fill a large device."""

ROWS = 8
"""Elements of a column that a thread asks for before it waits: those of others are neighbours.
Of vectors it asks for half as many, and twice as many bytes."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """A variable that a loop only ever joins something to."""

    var: Var
    op: str


def share(loop: For, scope: Scope) -> ThreadFor:
    """The loop with its iterations shared out."""
    return ThreadFor(loop.var, loop.start, loop.stop, list(loop.body), scope=scope)


# Reductions -------------------------------------------------------------------------------


def reductions_of(loop: For) -> tuple[Reduced, ...]:
    """The variables from outside that a loop joins elements to; nothing where it does else."""
    bound = bound_names([loop])
    found: dict[str, Reduced] = {}
    for statement in walk(loop.body):
        if not isinstance(statement, Assign) or statement.var.name in bound:
            continue
        step = statement.value
        name = statement.var.name
        if not isinstance(step, Binary) or step.x != statement.var or not _may_reorder(step):
            return ()
        this = Reduced(statement.var, step.op)
        if depends_on(step.y, name) or found.setdefault(name, this) != this:
            return ()
    reads = [
        name
        for statement in walk(loop.body)
        for x in _read(statement, found)
        for name in variables(x)
    ]
    return () if any(name in found for name in reads) else tuple(found.values())


def _read(statement: Stmt, steps: dict[str, Reduced]) -> tuple[Expr, ...]:
    """What a statement reads, but for the variable that a step joins to."""
    if isinstance(statement, Assign) and statement.var.name in steps:
        assert isinstance(statement.value, Binary)
        return (statement.value.y,)
    return expressions(statement)


def _may_reorder(step: Binary) -> bool:
    is_float = np.dtype(step.dtype).kind == "f"
    return step.op in ASSOCIATIVE and (step.reassoc or not is_float)


def share_reduction(
    loop: For,
    team: Team,
    names: set[str],
    scope: Scope | None = None,
    own_loops: Callable[[ThreadFor], list[Stmt]] | None = None,
) -> list[Stmt]:
    """A reduction of which each thread does a part; then all threads of the team have the whole.

    The loop may be shared by more than the team, which then has its part of the whole.  The
    variables keep what they had before, joined with that.  ``own_loops`` writes what a thread does
    of the shared loop; by vectors by default.
    """
    parts = {
        one.var.name: (one, Var(numbered(f"{one.var.name}_part", names), one.var.dtype))
        for one in reductions_of(loop)
    }

    def renamed(statements: Sequence[Stmt]) -> list[Stmt]:
        return [own(one) for one in statements]

    def own(statement: Stmt) -> Stmt:
        if isinstance(statement, Assign) and statement.var.name in parts:
            _, part = parts[statement.var.name]
            assert isinstance(statement.value, Binary)
            return Assign(part, replace(statement.value, x=part))
        return with_blocks(statement, renamed)

    shared = share(loop, scope or team.scope)
    shared.body = renamed(shared.body)
    begin: list[Stmt] = [
        Let(part, identity(one.op, np.dtype(part.dtype)), mutable=True)
        for one, part in parts.values()
    ]
    end: list[Stmt] = []
    for one, part in parts.values():
        whole = Call(f"{team.joins}{one.op}", (part,), part.dtype)
        end.append(Assign(part, whole))
        is_float = np.dtype(part.dtype).kind == "f"
        end.append(Assign(one.var, Binary(one.op, one.var, part, part.dtype, reassoc=is_float)))
    if own_loops is not None:
        return [*begin, *own_loops(shared), *end]
    if team == PARTS:
        rows = ROWS // 2 if any(map(_loads_vector, shared.body)) else ROWS
        return [*begin, *by_elements(shared, names, rows), *end]
    return [*begin, *by_vectors(shared, names)[0], *end]


def _loads_vector(statement: Stmt) -> bool:
    call = statement.value if isinstance(statement, Let) else None
    return isinstance(call, Call) and call.name == "cuda.load_vector"


def map_total(
    loop: For,
    initial: Sequence[Expr],
    scratch: Var,
    new_slots: Callable[[int], int],
    names: set[str],
    threads: int = DEFAULT.element_threads,
) -> Mapped:
    """The kernel of a reduction with nothing around it.

    Each block makes its part, and the one that is done last joins all of them, always in the same
    order.  `with_end` adds what one thread does after that.

    Parameters
    ----------
    loop : For
        A reduction.
    initial : sequence of Expr
        What the variables are before it.
    scratch : Var
        Memory of the device, in slots of 8 bytes, which begins with the counter of blocks.
    new_slots : callable
        Takes so many slots, and gives the number of the first.
    names : set of str
        The names that are taken; gets the new ones.
    threads : int
        Of a block.
    """
    found = reductions_of(loop)
    check_nest(loop)
    loop = _as_one_loop(loop, names)
    blocks = blocks_for(extent_of(loop), threads * 4, TOTAL_BLOCKS)
    parts = Parts(scratch, blocks, tuple(new_slots(TOTAL_BLOCKS) for _ in found))
    body: list[Stmt] = [
        Let(one.var, identity(one.op, np.dtype(one.var.dtype)), mutable=True) for one in found
    ]
    body += share_reduction(loop, BLOCK, names, "grid")
    block = Call("cuda.block", (), "int64")
    stores: list[Stmt] = [
        Store(scratch, parts.place(number, one.var, block), one.var, scratch.name)
        for number, one in enumerate(found)
    ]
    body.append(by_first_thread(stores))
    is_last = Call("cuda.is_last_block", (scratch,), "bool")
    body.append(If(is_last, _joined(parts, found, initial, names)))
    return Mapped(
        body, Launch(blocks, integer(threads)), "a total, the last block joining the parts"
    )


def with_end(total: Mapped, end: list[Stmt]) -> Mapped:
    """The kernel of a total, and what one thread does when all is joined."""
    *body, joining = total.body
    assert isinstance(joining, If)
    joining = replace(joining, then=[*joining.then, by_first_thread(end)])
    return replace(total, body=[*body, joining])


def _as_one_loop(loop: For, names: set[str]) -> For:
    """Loops that hold nothing but each other, as one loop."""
    loops, body = collapsed(*chain(loop, lambda inner: inner.step == 1 and not jumps(inner.body)))
    size, counter, bindings = flat(loops, names)
    return For(counter, ZERO, size, [*bindings, *body])


@dataclass(frozen=True, slots=True)
class Parts:
    """Where the parts of totals are: one array for each variable, one part for each block."""

    scratch: Var
    blocks: Expr
    slots: tuple[int, ...]

    def place(self, number: int, var: Var, block: Expr) -> Expr:
        """The index of a block's part."""
        first = self.slots[number] * 8 // np.dtype(var.dtype).itemsize
        return add(block, integer(first))


def _joined(
    parts: Parts, found: Sequence[Reduced], initial: Sequence[Expr], names: set[str]
) -> list[Stmt]:
    """What one block does to join the parts with what the variables had before."""
    counter = Var(numbered("part", names), "int64")
    steps: list[Stmt] = []
    for number, one in enumerate(found):
        place = parts.place(number, one.var, counter)
        part = Load(parts.scratch, place, one.var.dtype, parts.scratch.name)
        is_float = np.dtype(one.var.dtype).kind == "f"
        step = Binary(one.op, one.var, part, one.var.dtype, reassoc=is_float)
        steps.append(Assign(one.var, step))
    begin = [Assign(one.var, value) for one, value in zip(found, initial, strict=True)]
    return [*begin, *share_reduction(For(counter, ZERO, parts.blocks, steps), BLOCK, names)]
