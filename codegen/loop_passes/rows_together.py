"""Rows whose elements wait for each other are walked several at a time.

Each element of a running sum waits some four cycles for the one before it, and a processor does
not look as far ahead as to the next row.  Rows have nothing to do with each other, so four of them
side by side take little longer than one.  They are rows of four parts of the range: each part is
read and written from its first row to its last one, which is what processors foresee.

Before::

    for i in range(0, n):
        running = -0.0
        for k in range(0, 512):
            t = load(x, i * 512 + k)
            running = running + t
            store(result, i * 512 + k, running)

After::

    part = n / 4
    for step in range(0, part):
        i, i_2, ... = step, part + step, ...
        running, running_2, ... = -0.0, -0.0, ...
        for k in range(0, 512):
            t, t_2, ... = load(x, i * 512 + k), load(x, i_2 * 512 + k), ...
            running = running + t
            store(result, i * 512 + k, running)
            running_2 = running_2 + t_2
            store(result, i_2 * 512 + k, running_2)
            ...
    for i in range(part * 4, n):
        ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.independence import writes_apart
from jitcore.codegen.loop_passes.rewriting import copied, numbered, with_loops
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    expressions,
    known_trips,
    names_in,
    variables,
    walk,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Comment,
    Expr,
    For,
    Function,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, multiply, subtract

__all__ = ["walk_rows_together"]

ROWS = 4
"""How many rows are walked side by side: as many as the cycles that an addition takes."""

LEAST_ROW = 8
"""Of shorter rows a processor sees several at once."""

MOST_STEPS = 16
"""The statements of a step: with more of them a processor has enough to do in a row."""


def walk_rows_together(function: Function) -> Function:
    """The function with rows that wait for their own elements walked several at a time."""
    return replace(function, body=with_loops(function.body, _Rows(function).loop))


class _Rows:
    def __init__(self, function: Function) -> None:
        self.names = names_in(function)

    def loop(self, loop: For) -> list[Stmt] | None:
        return self.together(loop) if _gains(loop) else None

    def together(self, loop: For) -> list[Stmt]:
        """The loop over blocks of rows, and the one over the rows that are left."""
        step, part = self.variable("step"), self.variable("part")
        # Nothing is walked, and no row left, where the range ends before it begins.
        length = Binary("quot", subtract(loop.stop, loop.start), integer(ROWS), "int64")
        row_walk = _walk_of(loop)
        assert row_walk is not None
        place = loop.body.index(row_walk)
        before, behind = loop.body[:place], loop.body[place + 1 :]
        firsts = [add(loop.start, multiply(part, integer(number))) for number in range(ROWS)]
        rows = [self.variable(loop.var.name) for _ in firsts]
        owns: list[dict[str, Expr]] = [{loop.var.name: row} for row in rows]
        together = [
            *(Let(row, add(first, step)) for row, first in zip(rows, firsts, strict=True)),
            *self.copies(before, owns),
            replace(row_walk, body=self.copies(row_walk.body, owns)),
            *self.copies(behind, owns),
        ]
        start = add(loop.start, multiply(part, integer(ROWS)))
        left = copied(replace(loop, start=start, parallel=False), self.names, {})
        return [
            Let(part, length),
            For(step, ZERO, part, together, parallel=loop.parallel),
            left,
        ]

    def copies(self, statements: Sequence[Stmt], owns: Sequence[dict[str, Expr]]) -> list[Stmt]:
        """The statements for each row, after what all of them read first."""
        shown = [one for one in statements if not isinstance(one, Comment)]
        first = _first_loads(shown)
        rest = [one for one in shown if one not in first]
        found = [copied(one, self.names, own) for one in first for own in owns]
        return found + [copied(one, self.names, own) for own in owns for one in rest]

    def variable(self, name: str) -> Var:
        return Var(numbered(name, self.names), "int64")


def _gains(loop: For) -> bool:
    """Whether the rows of a loop have nothing to do with each other, and wait for themselves."""
    row_walk = _walk_of(loop)
    if row_walk is None or loop.step != 1 or not (loop.parallel or writes_apart(loop)):
        return False
    rows, length = known_trips(loop), known_trips(row_walk)
    is_short = (rows is not None and rows < ROWS) or (length is not None and length < LEAST_ROW)
    return not is_short and len(row_walk.body) <= MOST_STEPS and _waits(row_walk)


def _first_loads(statements: Sequence[Stmt]) -> list[Stmt]:
    """The loads before all stores whose places nothing among the statements decides."""
    found: list[Stmt] = []
    others = set[str]()
    for one in statements:
        if isinstance(one, Store):
            break
        if not isinstance(one, Let | Assign):
            continue
        if isinstance(one, Let) and isinstance(one.value, Load) and not one.mutable:
            if others.isdisjoint(variables(one.value)):
                found.append(one)
                continue
        others.add(one.var.name)
    return found


def _walk_of(loop: For) -> For | None:
    """The loop over a row's elements, which is as long in all rows; None where there is more."""
    loops = [one for one in loop.body if isinstance(one, For)]
    others = [one for one in loop.body if not isinstance(one, For)]
    if len(loops) != 1 or not _is_flat([*others, *loops[0].body]):
        return None
    inside = bound_names(loop.body)
    given = {one.var.name for one in walk(loop.body) if isinstance(one, Assign)}
    if not given <= inside:
        return None
    own = {loop.var.name, *inside}
    bounds = {name for x in expressions(loops[0]) for name in variables(x)}
    return loops[0] if own.isdisjoint(bounds) else None


def _is_flat(statements: Sequence[Stmt]) -> bool:
    return all(isinstance(one, Let | Assign | Store | Comment) for one in statements)


def _waits(row_walk: For) -> bool:
    """Whether each step needs a float of the one before it, in this order."""
    read = {name for one in row_walk.body for x in expressions(one) for name in variables(x)}
    return any(
        isinstance(one, Assign)
        and one.var.dtype in ("float32", "float64")
        and one.var.name in read
        and not (isinstance(one.value, Binary) and one.value.reassoc)
        for one in row_walk.body
    )
