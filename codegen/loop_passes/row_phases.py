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

    for block in range(0, (n + 63) / 64):
        first = block * 64
        rows = min(64, n - first)
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

from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import groupby

from jitcore.codegen.loop_passes.accesses import Accesses
from jitcore.codegen.loop_passes.parallel import work_of
from jitcore.codegen.loop_passes.rewriting import (
    numbered,
    renamed,
    with_expressions,
    with_loops,
)
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
    walk,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Const,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
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

ROWS = 64
"""How many rows a block has at most: what they wait for each other is then a small part."""

LEAST_ROWS = 16
"""Fewer rows than this, where that is known, are reduced and used one by one."""

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
        if length is None or (trips is not None and trips < LEAST_ROWS):
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
            own = _by_elements(phase, loop.var, add(first, turn))
            if own is None:
                body.append(For(turn, ZERO, rows, [Let(loop.var, add(first, turn)), *phase]))
            else:
                body.append(For(turn, ZERO, minimum(rows, integer(ROWS)), own))
        blocks = quotient_above(subtract(loop.stop, loop.start), most)
        return [Let(most, rows_of_block), For(block, ZERO, blocks, body, parallel=loop.parallel)]


def _length(loop: For) -> Expr | None:
    """How long the rows are that a loop reduces and then walks again, where only a run tells."""
    loops = [one for one in loop.body if isinstance(one, For)]
    if not loops or loop.step != 1 or any(has_loops(one.body) for one in loops):
        return None
    inside = bound_names([loop])
    stops = [one.stop for one in walk(loop.body) if isinstance(one, For)]
    stops = [one for one in stops if inside.isdisjoint(variables(one))]
    return None if not stops or isinstance(stops[-1], Const) else stops[-1]


def _phases(loop: For) -> list[list[Stmt]] | None:
    """The loops that reduce a row, what is computed of that, the loops that use it, and so on.

    None where nothing dear comes behind a loop: such rows wait for nothing.
    """
    if work_of(replace(loop, parallel=True)) is None or any(jumps(loop.body)):
        return None
    phases, of_rows = list[list[Stmt]]([[]]), _names_of_rows(loop)
    is_begun = is_over = False
    for is_walked, found in groupby(loop.body, lambda one: has_loops([one])):
        run = list(found)
        # Behind all loops nothing waits for one quotient.
        least = 2 if run[-1] is loop.body[-1] else 1
        is_computed = is_begun and not is_walked and _dear_parts(run, of_rows) >= least
        if is_computed or is_over:
            phases.append([])
        phases[-1] += run
        is_begun, is_over = is_begun or is_walked, is_computed
    return phases if len(phases) > 1 else None


def _by_elements(phase: Sequence[Stmt], var: Var, row: Expr) -> list[Stmt] | None:
    """A phase without loops as one over elements that lie side by side; None for others."""
    if any(has_loops([one]) or isinstance(one, Assign | If) for one in phase):
        return None
    own = {var.name: row}
    steps = [with_expressions(one, lambda x: renamed(x, own)) for one in phase]
    return [replace(one, mutable=False) if isinstance(one, Let) else one for one in steps]


def _dear_parts(statements: Sequence[Stmt], of_rows: Set[str]) -> int:
    """How many quotients and roots there are in statements without loops, of each row its own."""
    parts = (part for one in statements for x in expressions(one) for part in subexpressions(x))
    return sum(
        isinstance(part, Binary | Unary)
        and part.op in ("div", "sqrt")
        and not of_rows.isdisjoint(variables(part))
        for part in parts
    )


def _names_of_rows(loop: For) -> set[str]:
    """The variables of an iteration that may have other values in the next one."""
    names = {loop.var.name}
    for one in walk(loop.body):
        is_read = isinstance(one, Let) and any(
            isinstance(part, Load) or (isinstance(part, Var) and part.name in names)
            for part in subexpressions(one.value)
        )
        if isinstance(one, For) or (isinstance(one, Let) and (one.mutable or is_read)):
            names.add(one.var.name)
    return names


def _rows_of_a_block(loop: For, length: Expr) -> Expr:
    found = Accesses()
    found.block(loop.body)
    size = sum({one.root: memory_bytes(one.dtype) for one in found.found}.values())
    bytes_ = maximum(multiply(length, integer(max(size, 1))), ONE)
    rows = maximum(Binary("quot", integer(BLOCK_BYTES), bytes_, "int64"), ONE)
    return minimum(rows, integer(ROWS))
