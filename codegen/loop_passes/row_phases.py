"""Rows of unknown length, some at a time: all are reduced, then what they are reduced to is used.

Between the last element of a row and the first quotient lie a hundred cycles: lanes are added up,
then a quotient, a root and an inverse wait for one another.  A processor begins the next rows
meanwhile, but has room for a few dozen operations that wait, which are two or three short rows.
Here what several rows are reduced to lies in memory, and the numbers between the loops are computed
for these rows side by side, in vectors.

Before::

    for i in range(0, n):
        total = 0.0
        for k in range(0, m):
            total = total + load(x, i * m + k)
        root = sqrt(total)
        for k in range(0, m):
            store(result, i * m + k, load(x, i * m + k) / root)

After::

    for block in range(0, (n + 15) / 16):
        first = block * 16
        rows = min(16, n - first)
        for turn in range(0, rows):
            total = 0.0
            for k in range(0, m):
                total = total + load(x, (first + turn) * m + k)
            store(totals, turn, total)
        for turn in range(0, rows):
            store(roots, turn, sqrt(load(totals, turn)))
        for turn in range(0, rows):
            root = load(roots, turn)
            for k in range(0, m):
                store(result, (first + turn) * m + k, load(x, (first + turn) * m + k) / root)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.accesses import Accesses
from jitcore.codegen.loop_passes.parallel import work_of
from jitcore.codegen.loop_passes.rewriting import numbered, with_loops
from jitcore.codegen.loop_passes.row_turns import (
    is_independent,
    jumps,
    kept_between,
    with_rooms,
)
from jitcore.codegen.loop_passes.traversal import (
    STACK,
    bound_names,
    expressions,
    has_loops,
    known_trips,
    names_in,
    subexpressions,
    variables,
)
from jitcore.codegen.loops import (
    Binary,
    Call,
    Const,
    Expr,
    For,
    Function,
    Let,
    Stmt,
    Unary,
    Var,
)
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    integer,
    maximum,
    minimum,
    multiply,
    quotient_above,
    subtract,
)
from jitcore.codegen.printers.llvm_instructions import memory_bytes

__all__ = ["ROWS", "walk_in_phases"]

ROWS = 16
"""How many rows a block has: a vector of float32, or two of float64."""

BLOCK_BYTES = 24 * 1024
"""Bytes of a block's rows in all arrays, which stay in the first cache."""


def walk_in_phases(function: Function) -> Function:
    """The function with its loops over short rows of unknown length in phases."""
    return replace(function, body=with_loops(function.body, _Phases(function).loop))


class _Phases:
    def __init__(self, function: Function) -> None:
        self.names = names_in(function)

    def variable(self, name: str, dtype: str = "int64") -> Var:
        return Var(numbered(name, self.names), dtype)

    def loop(self, loop: For) -> list[Stmt] | None:
        trips, length = known_trips(loop), _length(loop)
        if length is None or (trips is not None and trips < ROWS):
            return None
        phases = _phases(loop) if loop.parallel or is_independent(loop) else None
        kept = kept_between(phases) if phases else []
        # What a pointer leads to, on the stack, is there for one row only.
        if phases is None or not kept or any(var.dtype == "ptr" for var in kept):
            return None
        return self.in_phases(loop, phases, kept, _rows_of_a_block(loop, length))

    def in_phases(
        self, loop: For, phases: Sequence[Sequence[Stmt]], kept: Sequence[Var], rows_of_block: Expr
    ) -> list[Stmt]:
        """The loop over blocks of rows, with a loop over the rows of a block for each phase."""
        names = ("most", "block", "first", "rows", "turn")
        most, block, first, rows, turn = map(self.variable, names)
        rooms = {var.name: self.variable(f"{var.name}_by_row", "ptr") for var in kept}
        room = Call(STACK, (integer(8 * ROWS),), "ptr", external=True)
        body: list[Stmt] = [
            Let(first, add(loop.start, multiply(block, most))),
            Let(rows, subtract(minimum(add(first, most), loop.stop), first)),
            *(Let(pointer, room) for pointer in rooms.values()),
        ]
        for phase in with_rooms(phases, rooms, turn):
            body.append(For(turn, ZERO, rows, [Let(loop.var, add(first, turn)), *phase]))
        blocks = quotient_above(subtract(loop.stop, loop.start), most)
        return [Let(most, rows_of_block), For(block, ZERO, blocks, body, parallel=loop.parallel)]


def _length(loop: For) -> Expr | None:
    """How long the rows are that a loop reduces and then walks again, where only a run tells."""
    loops = [one for one in loop.body if isinstance(one, For)]
    if len(loops) < 2 or loop.step != 1 or any(has_loops(one.body) for one in loops):
        return None
    stop = loops[-1].stop
    is_inside = not bound_names([loop]).isdisjoint(variables(stop))
    return None if isinstance(stop, Const) or is_inside else stop


def _phases(loop: For) -> list[list[Stmt]] | None:
    """The loops that reduce a row, what is computed of that, and the loops that use it.

    None where nothing dear lies between: rows that are written one after another wait for nothing.
    """
    if work_of(replace(loop, parallel=True)) is None or any(jumps(loop.body)):
        return None
    loops = [number for number, one in enumerate(loop.body) if has_loops([one])]
    dear = [number for number, one in enumerate(loop.body) if _is_dear(one)]
    dear = [number for number in dear if loops[0] < number < loops[-1]]
    if not dear:
        return None
    head = max(number for number in loops if number < dear[0]) + 1
    tail = min(number for number in loops if number > dear[-1])
    return [loop.body[:head], loop.body[head:tail], loop.body[tail:]]


def _is_dear(statement: Stmt) -> bool:
    """Whether a statement has a quotient or a root, and no loop."""
    return not has_loops([statement]) and any(
        (isinstance(part, Binary) and part.op == "div")
        or (isinstance(part, Unary) and part.op == "sqrt")
        for x in expressions(statement)
        for part in subexpressions(x)
    )


def _rows_of_a_block(loop: For, length: Expr) -> Expr:
    found = Accesses()
    found.block(loop.body)
    size = sum({one.root: memory_bytes(one.dtype) for one in found.found}.values())
    bytes_ = maximum(multiply(length, integer(max(size, 1))), ONE)
    rows = maximum(Binary("quot", integer(BLOCK_BYTES), bytes_, "int64"), ONE)
    return minimum(rows, integer(ROWS))
