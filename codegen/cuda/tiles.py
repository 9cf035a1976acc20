"""Transposes: nests that write along one axis and read along another, by tiles in shared memory.

Neighbouring threads that write neighbouring elements of ``y`` in ``y[i, j] = x[j, i]`` would read
elements of ``x`` that lie a row apart, each from a line of memory of its own.  A block therefore
takes a tile of 32 by 32 elements, or 64 by 64 small ones.  Its threads bring those of ``x`` to
shared memory, neighbours reading neighbours; when all are there each thread takes the elements it
needs out of the tile.  Rows of tiles have one element more than they need, so that a column lies in
as many banks of the shared memory as a row; the way is that of G. Ruetsch and P. Micikevicius,
"Optimizing matrix transpose in CUDA", NVIDIA, 2009.

Where all lines begin at multiples of 16 bytes, whole tiles are read and written by vectors.  Those
of a warp are a small tile themselves: 32 elements along the lines, and as many lines as a vector
has elements.  So they lie in 32 banks both when they are brought and when they are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jitcore.codegen.cuda.kernels import (
    WARP,
    Launch,
    Mapped,
    ThreadFor,
    barrier,
    vector_width,
)
from jitcore.codegen.cuda.linear import depends_on, stride_along
from jitcore.codegen.cuda.nests import MAX_BLOCKS, extent_of, flat
from jitcore.codegen.cuda.vectors import Place, are_aligned, constant_part, is_straight
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, simplified, with_expressions
from jitcore.codegen.loop_passes.traversal import loads_in, variables
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

LARGE_TILE = 64
"""The same where a vector has eight elements: less would be too few bytes under way."""

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
    side : int
        Elements along each axis of a tile.
    """

    row: For
    column: For
    turned: list[Load]
    early: list[Load]
    side: int = TILE


@dataclass(frozen=True, slots=True)
class _Whole:
    """How whole tiles are moved by vectors.

    Parameters
    ----------
    width : int
        Elements of a vector.
    may : Expr
        Whether all vectors begin at multiples of their size.
    straight : list of Load
        What lies along the columns.
    """

    width: int
    may: Expr
    straight: list[Load]


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
    plan, whole = _with_side(plan, _by_vectors(loops, body, plan))
    others = [one for one in loops if one is not plan.row and one is not plan.column]
    row = Var(numbered("tile_row", names), "int64")
    column = Var(numbered("tile_column", names), "int64")
    side = plan.side
    tiles = [
        For(row, ZERO, _tiles(plan.row, side), []),
        For(column, ZERO, _tiles(plan.column, side), []),
    ]
    size, counter, bindings = flat([*others, *tiles], names)
    tile = _Tile(plan, row, column, names)
    begin = tile.begin()
    inside = [*tile.brought(), barrier(), *tile.computed(body), barrier()]
    if whole is not None:
        vectors = _VectorTile(plan, whole, tile, names)
        by_vectors = [*vectors.brought(), barrier(), *vectors.computed(body), barrier()]
        aligned = Var(numbered("aligned", names), "bool")
        begin.append(Let(aligned, whole.may))
        inside = [If(both(aligned, tile.is_whole()), by_vectors, inside)]
    loop = ThreadFor(counter, ZERO, size, [*bindings, *inside], scope="blocks")
    launch = Launch(minimum(maximum(size, ONE), integer(MAX_BLOCKS)), integer(WARP * GROUPS))
    return Mapped([*begin, loop], launch, f"a block per tile of {side} by {side} elements")


def _tiles(loop: For, side: int) -> Expr:
    extent = extent_of(loop)
    if isinstance(extent, Const):
        return integer(-(-extent.value // side))
    return Binary("quot", add(extent, integer(side - 1)), integer(side), "int64")


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


@dataclass(frozen=True, slots=True)
class _Walk:
    """An access that walks lines of elements.

    Parameters
    ----------
    place : Place
        Where the first line begins.
    steps : list of Expr
        How many elements lie between lines.
    """

    place: Place
    steps: list[Expr]

    def takes(self, width: int) -> bool:
        """Whether lines may begin at multiples of so many elements, as far as that is known."""
        numbers = [one.value for one in self.steps if isinstance(one, Const)]
        return not any(one % width for one in [constant_part(self.place.offset), *numbers])


def _walk(access: Load | Store, along: For, loops: Sequence[For], own: set[str]) -> _Walk | None:
    """What an access walks where a loop goes along its lines; None where it does something else.

    Its index may not depend on the names in ``own``.
    """
    counters = {one.var.name for one in loops}
    steps = [stride_along(access.index, one.var.name) for one in loops if one is not along]
    used = {*variables(access.pointer), *(name for one in steps if one for name in variables(one))}
    if None in steps or used & counters or own & {*used, *variables(access.index)}:
        return None
    if stride_along(access.index, along.var.name) != ONE:
        return None
    begins: dict[Expr, Expr] = {one.var: one.start for one in loops}
    offset = simplified(replaced(access.index, begins.get))
    dtype = access.value.dtype if isinstance(access, Store) else access.dtype
    return _Walk(Place(access.pointer, offset, dtype), [one for one in steps if one is not None])


def _by_vectors(loops: Sequence[For], body: Sequence[Stmt], plan: _Plan) -> _Whole | None:
    """How whole tiles are moved by vectors; None where not all that is written lies so."""
    own = {one.var.name for one in body if isinstance(one, Let)}
    needed = [_walk(one, plan.row, loops, own) for one in plan.turned]
    needed += [_walk(one, plan.column, loops, own) for one in body if isinstance(one, Store)]
    walks = [one for one in needed if one is not None]
    if len(walks) < len(needed) or not is_straight(body):
        return None
    width = vector_width(max(one.place.itemsize for one in walks))
    while width > 1 and not all(one.takes(width) for one in walks):
        width //= 2
    if width < 2:
        return None
    straight: list[Load] = []
    for load in dict.fromkeys(loads_in(body)):
        walk = None if load in plan.turned else _walk(load, plan.column, loops, own)
        if walk is not None and walk.takes(width) and width <= vector_width(walk.place.itemsize):
            straight.append(load)
            walks.append(walk)
    steps = dict.fromkeys(step for one in walks for step in one.steps)
    places = dict.fromkeys(one.place for one in walks)
    return _Whole(width, are_aligned(list(places), width, list(steps)), straight)


def _with_side(plan: _Plan, whole: _Whole | None) -> tuple[_Plan, _Whole | None]:
    """Have tiles of small elements be larger where there is room: each thread has a vector."""
    if whole is None or whole.width * WARP * GROUPS <= TILE * TILE:
        return plan, whole
    if LARGE_TILE * (LARGE_TILE + 1) * 4 * len(plan.turned) <= SHARED_BYTES:
        return replace(plan, side=LARGE_TILE), whole
    return plan, replace(whole, width=TILE * TILE // (WARP * GROUPS))


class _Tile:
    """Writes what a block does with one tile, element by element."""

    def __init__(self, plan: _Plan, row: Var, column: Var, names: set[str]) -> None:
        self._plan, self._names = plan, names
        self.first_row = add(plan.row.start, multiply(row, integer(plan.side)))
        self.first_column = add(plan.column.start, multiply(column, integer(plan.side)))
        self.lane = Var(numbered("lane", names), "int64")
        self.warp = Var(numbered("warp", names), "int64")
        self.tiles: dict[Load, Var] = {}
        for load in plan.turned:
            name = load.pointer.name if isinstance(load.pointer, Var) else "memory"
            dtype = f"{load.dtype}x{plan.side}x{plan.side + 1}"
            self.tiles[load] = Var(numbered(f"{name}_tile", names), dtype)
        self._early: dict[tuple[Load, int, int], Var] = {}

    def begin(self) -> list[Stmt]:
        """The tiles, and where in them a thread is."""
        sides = (integer(self._plan.side), integer(self._plan.side + 1))
        return [
            *(Let(one, Call("cuda.shared", sides, one.dtype)) for one in self.tiles.values()),
            Let(self.lane, Call("cuda.lane_in_warp", (), "int64")),
            Let(self.warp, Call("cuda.warp", (), "int64")),
        ]

    def is_whole(self) -> Expr:
        """Whether all of the tile's elements are there."""
        side = integer(self._plan.side)
        rows = compare("le", add(self.first_row, side), self._plan.row.stop)
        return both(rows, compare("le", add(self.first_column, side), self._plan.column.stop))

    def _parts(self) -> Iterator[tuple[int, int]]:
        """A thread's elements: the row of its warp, and how far they are from the first lane's."""
        for part in range(self._plan.side // GROUPS):
            for lanes in range(0, self._plan.side, WARP):
                yield part, lanes

    def _own(self, part: int) -> Expr:
        """The rows of a tile that a thread's warp takes."""
        return add(self.warp, integer(part * GROUPS))

    def brought(self) -> Iterator[Stmt]:
        """Every load is under way before the first is waited for.

        Threads beyond the last element read that one.
        """
        puts: list[Stmt] = []
        for part, lanes in self._parts():
            own, lane = self._own(part), add(self.lane, integer(lanes))
            turned = self._clamped(add(self.first_row, lane), add(self.first_column, own))
            for load, tile in self.tiles.items():
                var = Var(numbered(f"{tile.name}_element", self._names), load.dtype)
                yield Let(var, replaced(load, turned.get))
                puts.append(Do(Call("cuda.put", (tile, own, lane, var), "void")))
            straight = self._clamped(add(self.first_row, own), add(self.first_column, lane))
            for load in self._plan.early:
                var = Var(numbered("early", self._names), load.dtype)
                yield Let(var, replaced(load, straight.get))
                self._early[load, part, lanes] = var
        yield from puts

    def _clamped(self, row: Expr, column: Expr) -> dict[Expr, Expr]:
        """What stands for the loops' counters."""
        pairs = ((self._plan.row, row), (self._plan.column, column))
        return {loop.var: minimum(place, subtract(loop.stop, ONE)) for loop, place in pairs}

    def computed(self, body: Sequence[Stmt]) -> Iterator[Stmt]:
        """The nest's statements for each of a thread's elements."""
        row, column = self._plan.row, self._plan.column
        for part, lanes in self._parts():
            own_row = Var(numbered(row.var.name, self._names), "int64")
            own_column = Var(numbered(column.var.name, self._names), "int64")
            known: dict[Expr, Expr] = {row.var: own_row, column.var: own_column}
            lane = add(self.lane, integer(lanes))
            for load, tile in self.tiles.items():
                known[load] = Call("cuda.taken", (tile, lane, self._own(part)), load.dtype)
            for load in self._plan.early:
                known[load] = self._early[load, part, lanes]
            is_real = both(compare("lt", own_row, row.stop), compare("lt", own_column, column.stop))
            yield Let(own_row, add(self.first_row, self._own(part)))
            yield Let(own_column, add(self.first_column, lane))
            yield If(is_real, list(_renamed(body, known, self._names)))


def _renamed(body: Sequence[Stmt], known: dict[Expr, Expr], names: set[str]) -> Iterator[Stmt]:
    """A copy of the statements, with other names and values."""
    for statement in body:
        changed = with_expressions(statement, lambda x: replaced(x, known.get))
        if isinstance(changed, Let):
            var = Var(numbered(changed.var.name, names), changed.var.dtype)
            known[changed.var] = var
            changed = replace(changed, var=var)
        yield changed


class _VectorTile:
    """Writes what a block does with a tile that is there as a whole, by vectors."""

    def __init__(self, plan: _Plan, whole: _Whole, tile: _Tile, names: set[str]) -> None:
        self._plan, self._whole, self._tile, self._names = plan, whole, tile, names
        self._line = Var(numbered("line", names), "int64")
        self._first = Var(numbered("first", names), "int64")
        self._lanes: dict[tuple[Load, int], Var] = {}

    def _units(self) -> Iterator[tuple[int, Expr, Expr]]:
        """A thread's vectors: a number, and the line and the place in it where each begins."""
        side, width = self._plan.side, self._whole.width
        across = side // WARP
        for number in range(side * side // (WARP * width * GROUPS)):
            unit = add(self._tile.warp, integer(number * GROUPS))
            line = add(multiply(_quotient(unit, across), integer(width)), self._line)
            first = add(multiply(_rest(unit, across), integer(WARP)), self._first)
            yield number, line, first

    def brought(self) -> Iterator[Stmt]:
        """Every load is under way before the first is waited for."""
        width = self._whole.width
        vectors = WARP // width
        yield Let(self._line, _quotient(self._tile.lane, vectors))
        yield Let(self._first, multiply(_rest(self._tile.lane, vectors), integer(width)))
        puts: list[Stmt] = []
        for number, line, first in self._units():
            turned = self._at(first, line)
            for load, tile in self._tile.tiles.items():
                var = Var(numbered(f"{tile.name}_lanes", self._names), f"{load.dtype}x{width}")
                yield self._loaded(var, load, turned)
                for lane in range(width):
                    element = Call("cuda.lane", (var, integer(lane)), load.dtype)
                    place = (tile, line, add(first, integer(lane)), element)
                    puts.append(Do(Call("cuda.put", place, "void")))
            early = [one for one in self._whole.straight if one in self._plan.early]
            yield from self._straight(early, number, self._at(line, first))
        yield from puts

    def computed(self, body: Sequence[Stmt]) -> Iterator[Stmt]:
        """The nest's statements for each of a thread's elements."""
        width, row, column = self._whole.width, self._plan.row.var, self._plan.column.var
        late = [one for one in self._whole.straight if one not in self._plan.early]
        for number, line, first in self._units():
            stored: list[tuple[Store, list[Expr]]] = [
                (one, []) for one in body if isinstance(one, Store)
            ]
            at: dict[Expr, Expr] = {}
            for counter, value in self._at(line, first).items():
                at[counter] = own = Var(numbered(counter.name, self._names), "int64")
                yield Let(own, value)
            yield from self._straight(late, number, at)
            for lane in range(width):
                place = add(first, integer(lane))
                known: dict[Expr, Expr] = {row: at[row], column: add(at[column], integer(lane))}
                for load, tile in self._tile.tiles.items():
                    known[load] = Call("cuda.taken", (tile, place, line), load.dtype)
                for load in self._whole.straight:
                    vector = self._lanes[load, number]
                    known[load] = Call("cuda.lane", (vector, integer(lane)), load.dtype)
                values = iter(stored)
                for one in _renamed(body, known, self._names):
                    if not isinstance(one, Store):
                        yield one
                        continue
                    value = one.value
                    if not isinstance(value, Var | Const):
                        value = Var(numbered("stored", self._names), value.dtype)
                        yield Let(value, one.value)
                    next(values)[1].append(value)
            for store, lanes in stored:
                args = (store.pointer, replaced(store.index, at.get), *lanes)
                yield Do(Call("cuda.store_vector", args, "void"))

    def _at(self, row: Expr, column: Expr) -> dict[Var, Expr]:
        """What stands for the loops' counters at an element of the tile."""
        return {
            self._plan.row.var: add(self._tile.first_row, row),
            self._plan.column.var: add(self._tile.first_column, column),
        }

    def _straight(
        self, loads: Sequence[Load], number: int, at: Mapping[Any, Expr]
    ) -> Iterator[Stmt]:
        for load in loads:
            var = Var(numbered("lanes", self._names), f"{load.dtype}x{self._whole.width}")
            yield self._loaded(var, load, at)
            self._lanes[load, number] = var

    def _loaded(self, var: Var, load: Load, at: Mapping[Any, Expr]) -> Let:
        args = (load.pointer, replaced(load.index, at.get))
        return Let(var, Call("cuda.load_vector", args, var.dtype))


def _quotient(x: Expr, power: int) -> Expr:
    """A count divided by a power of two."""
    return Binary("shr", x, integer(power.bit_length() - 1), "int64") if power > 1 else x


def _rest(x: Expr, power: int) -> Expr:
    """What a division of a count by a power of two leaves."""
    return Binary("and", x, integer(power - 1), "int64") if power > 1 else ZERO
