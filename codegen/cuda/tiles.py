"""Transposes: nests that write along one axis and read along another, by tiles in shared memory.

Neighbouring threads that write neighbouring elements of ``y`` in ``y[i, j] = x[j, i]`` would read
elements of ``x`` that lie a row apart, each from a line of memory of its own.  A block therefore
takes 32 by 32 elements.  Its threads bring those of ``x`` to a tile in shared memory, neighbours
reading neighbours; when all are there each thread takes the elements it needs out of the tile.
Rows of tiles have one element more than they need, so that a column lies in as many banks of the
shared memory as a row; the way is that of G. Ruetsch and P. Micikevicius, "Optimizing matrix
transpose in CUDA", NVIDIA, 2009.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen.cuda.kernels import WARP, Launch, Mapped, ThreadFor, barrier
from jitcore.codegen.cuda.linear import depends_on, stride_along
from jitcore.codegen.cuda.nests import MAX_BLOCKS, extent_of, flat
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, with_expressions
from jitcore.codegen.loop_passes.traversal import loads_in
from jitcore.codegen.loops import (
    Binary,
    Call,
    Comment,
    Const,
    Do,
    Expr,
    For,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    both,
    compare,
    integer,
    maximum,
    minimum,
    multiply,
    subtract,
)
from jitcore.ir.dataclass import dataclass

__all__ = ["by_tiles"]

TILE = 32
"""Elements along each axis of a tile: those that a warp reads."""

GROUPS = 8
"""Warps of a block; each takes every eighth row of a tile."""

SHARED_BYTES = 32 * 1024
"""What the tiles of a block may take: more would leave a processor with few blocks."""

EARLY_LOADS = 4
"""So many of the other loads are under way, too, while the block waits for its tiles."""

SHORTEST = 16
"""Along an axis of fewer elements, most threads of a tile would have nothing to do."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is read how.

    Parameters
    ----------
    row, column : For
        The loops over the rows and columns of a tile; what is stored lies along the columns.
    turned : list of Load
        What lies along the rows.
    early : list of Load
        What else can be read before the block has met.
    """

    row: For
    column: For
    turned: list[Load]
    early: list[Load]


def by_tiles(loops: Sequence[For], body: Sequence[Stmt], names: set[str]) -> Mapped | None:
    """Map a nest to blocks that take a tile each; None where there is nothing to gain by that.

    Parameters
    ----------
    loops : sequence of For
        Independent loops, each of which holds nothing but the next.
    body : sequence of Stmt
        What the innermost holds.
    names : set of str
        The names that are taken; gets the new ones.
    """
    plan = _plan(loops, body)
    if plan is None:
        return None
    others = [one for one in loops if one is not plan.row and one is not plan.column]
    row = Var(numbered("tile_row", names), "int64")
    column = Var(numbered("tile_column", names), "int64")
    tiles = [For(row, ZERO, _tiles(plan.row), []), For(column, ZERO, _tiles(plan.column), [])]
    size, counter, bindings = flat([*others, *tiles], names)
    tile = _Tile(plan, row, column, names)
    inside = [*bindings, *tile.brought(), barrier(), *tile.computed(body), barrier()]
    loop = ThreadFor(counter, ZERO, size, inside, scope="blocks")
    launch = Launch(minimum(maximum(size, ONE), integer(MAX_BLOCKS)), integer(WARP * GROUPS))
    return Mapped([*tile.begin(), loop], launch, f"a block per tile of {TILE} by {TILE} elements")


def _tiles(loop: For) -> Expr:
    extent = extent_of(loop)
    if isinstance(extent, Const):
        return integer(-(-extent.value // TILE))
    return Binary("quot", add(extent, integer(TILE - 1)), integer(TILE), "int64")


def _plan(loops: Sequence[For], body: Sequence[Stmt]) -> _Plan | None:
    if len(loops) < 2 or not all(map(_is_straight, body)):
        return None
    column = loops[-1]
    stores = [one for one in body if isinstance(one, Store)]
    if not all(_is_along(one.index, column) for one in stores) or _is_short(column):
        return None
    changed = {one.var.name for one in body if isinstance(one, Let)}
    written = {one.root for one in stores}
    fixed = [one for one in dict.fromkeys(loads_in(body)) if _is_fixed(one, changed, written)]
    plans = [_rows_of(row, column, fixed) for row in loops[:-1] if not _is_short(row)]
    best = max(plans, key=lambda plan: len(plan.turned), default=None)
    return best if best is not None and best.turned else None


def _is_straight(statement: Stmt) -> bool:
    is_let = isinstance(statement, Let) and not statement.mutable
    return is_let or isinstance(statement, Store | Comment)


def _is_short(loop: For) -> bool:
    extent = extent_of(loop)
    return isinstance(extent, Const) and extent.value < SHORTEST


def _is_along(index: Expr, loop: For) -> bool:
    """Whether neighbouring iterations access neighbouring elements."""
    return stride_along(index, loop.var.name) in (ONE, integer(-1))


def _is_fixed(load: Load, changed: set[str], written: set[str]) -> bool:
    """Whether what it reads only depends on the loops' counters, and on no statement before."""
    if not load.root or load.root in written or "" in written:
        return False
    return not any(depends_on(x, name) for x in (load.pointer, load.index) for name in changed)


def _rows_of(row: For, column: For, fixed: Sequence[Load]) -> _Plan:
    """The plan for tiles with such rows."""
    turned: list[Load] = []
    size = 0
    for load in fixed:
        step = stride_along(load.index, column.var.name)
        is_turned = _is_along(load.index, row) and step not in (None, ZERO, ONE, integer(-1))
        bytes_ = TILE * (TILE + 1) * max(np.dtype(load.dtype).itemsize, 4)
        if is_turned and size + bytes_ <= SHARED_BYTES:
            turned.append(load)
            size += bytes_
    early = [one for one in fixed if one not in turned][:EARLY_LOADS]
    return _Plan(row, column, turned, early)


class _Tile:
    """Writes what a block does with one tile."""

    def __init__(self, plan: _Plan, row: Var, column: Var, names: set[str]) -> None:
        self._plan, self._names = plan, names
        self._first_row = add(plan.row.start, multiply(row, integer(TILE)))
        self._first_column = add(plan.column.start, multiply(column, integer(TILE)))
        self._lane = Var(numbered("lane", names), "int64")
        self._warp = Var(numbered("warp", names), "int64")
        self._tiles: dict[Load, Var] = {}
        for load in plan.turned:
            name = load.pointer.name if isinstance(load.pointer, Var) else "memory"
            dtype = f"{load.dtype}x{TILE}x{TILE + 1}"
            self._tiles[load] = Var(numbered(f"{name}_tile", names), dtype)
        self._early: dict[tuple[Load, int], Var] = {}

    def begin(self) -> list[Stmt]:
        """The tiles, and where in them a thread is."""
        sides = (integer(TILE), integer(TILE + 1))
        return [
            *(Let(one, Call("cuda.shared", sides, one.dtype)) for one in self._tiles.values()),
            Let(self._lane, Call("cuda.lane_in_warp", (), "int64")),
            Let(self._warp, Call("cuda.warp", (), "int64")),
        ]

    def _own(self, part: int) -> Expr:
        """The rows of a tile that a thread's warp takes."""
        return add(self._warp, integer(part * GROUPS))

    def brought(self) -> Iterator[Stmt]:
        """Every load is under way before the first is waited for.

        Threads beyond the last element read that one.
        """
        puts: list[Stmt] = []
        for part in range(TILE // GROUPS):
            own = self._own(part)
            turned = self._clamped(add(self._first_row, self._lane), add(self._first_column, own))
            for load, tile in self._tiles.items():
                var = Var(numbered(f"{tile.name}_element", self._names), load.dtype)
                yield Let(var, replaced(load, turned.get))
                puts.append(Do(Call("cuda.put", (tile, own, self._lane, var), "void")))
            straight = self._clamped(add(self._first_row, own), add(self._first_column, self._lane))
            for load in self._plan.early:
                var = Var(numbered("early", self._names), load.dtype)
                yield Let(var, replaced(load, straight.get))
                self._early[load, part] = var
        yield from puts

    def _clamped(self, row: Expr, column: Expr) -> dict[Expr, Expr]:
        """What stands for the loops' counters."""
        pairs = ((self._plan.row, row), (self._plan.column, column))
        return {loop.var: minimum(place, subtract(loop.stop, ONE)) for loop, place in pairs}

    def computed(self, body: Sequence[Stmt]) -> Iterator[Stmt]:
        """The nest's statements for each of a thread's elements."""
        row, column = self._plan.row, self._plan.column
        for part in range(TILE // GROUPS):
            own_row = Var(numbered(row.var.name, self._names), "int64")
            own_column = Var(numbered(column.var.name, self._names), "int64")
            known: dict[Expr, Expr] = {row.var: own_row, column.var: own_column}
            for load, tile in self._tiles.items():
                known[load] = Call("cuda.taken", (tile, self._lane, self._own(part)), load.dtype)
            for load in self._plan.early:
                known[load] = self._early[load, part]
            is_real = both(compare("lt", own_row, row.stop), compare("lt", own_column, column.stop))
            yield Let(own_row, add(self._first_row, self._own(part)))
            yield Let(own_column, add(self._first_column, self._lane))
            yield If(is_real, list(self._renamed(body, known)))

    def _renamed(self, body: Sequence[Stmt], known: dict[Expr, Expr]) -> Iterator[Stmt]:
        """A copy of the statements, with other names and values."""
        for statement in body:
            changed = with_expressions(statement, lambda x: replaced(x, known.get))
            if isinstance(changed, Let):
                var = Var(numbered(changed.var.name, self._names), changed.var.dtype)
                known[changed.var] = var
                changed = replace(changed, var=var)
            yield changed
