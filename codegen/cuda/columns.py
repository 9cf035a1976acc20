"""Columns: rows of memory that are reduced across, whose neighbours in memory are other columns.

A warp's lanes take neighbouring columns, and the warps of a block share the rows.  Where all rows
begin and end where vectors do, and there are enough columns, a lane takes as many as a vector has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from jitcore.codegen.cuda.kernels import PARTS, WARP, Launch, Mapped, ThreadFor, vector_width
from jitcore.codegen.cuda.linear import depends_on, stride_along
from jitcore.codegen.cuda.nests import blocks_for, extent_of, flat
from jitcore.codegen.cuda.teams import TeamWork
from jitcore.codegen.cuda.tuning import Tuning
from jitcore.codegen.cuda.vectors import Place, are_aligned
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, simplified, with_expressions
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    expressions,
    loads,
    loads_in,
    overlap,
    variables,
    written_roots,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Comment,
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
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    ZERO,
    add,
    both,
    compare,
    integer,
    minimum,
    multiply,
    subtract,
)
from jitcore.ir.dataclass import dataclass

__all__ = ["map_columns"]

WIDE_COLUMNS = 32768
"""So many columns are enough for wide lanes: 256 blocks of float32."""

MOST_LANES = 4
"""Columns of a thread: more rows are under way instead."""


def map_columns(loops: Sequence[For], body: list[Stmt], names: set[str], tuning: Tuning) -> Mapped:
    """The kernel of independent loops whose innermost one walks along columns.

    Parameters
    ----------
    loops : sequence of For
    body : list of Stmt
        What the innermost does: the threads share the loops in it.
    names : set of str
        The names that are taken; gets the new ones.
    tuning : Tuning
    """
    size, counter, bindings = flat(loops, names)
    columns = _Columns(size, counter, bindings)
    statements: list[Stmt] = [columns.shared(1, body, names)]
    mapping = f"a block per {WARP} columns"
    wide = _wide_lanes(loops, body)
    if wide is not None:
        may = both(wide.may, compare("ge", size, integer(WIDE_COLUMNS)))
        if may != FALSE:
            inside = list(_Lanes(loops[-1].var, wide, names).statements(body))
            statements = [If(may, [columns.shared(wide.width, inside, names)], statements)]
            mapping += f", or {WARP * wide.width} by vectors"
    launch = Launch(blocks_for(size, WARP), integer(tuning.column_threads))
    return Mapped(statements, launch, mapping)


@dataclass(frozen=True, slots=True)
class _Columns:
    """All columns, by one count.

    Parameters
    ----------
    size : Expr
        How many there are.
    counter : Var
        A column's number.
    bindings : sequence of Let
        What it means for the loops' counters.
    """

    size: Expr
    counter: Var
    bindings: Sequence[Let]

    def shared(self, width: int, body: Sequence[Stmt], names: set[str]) -> ThreadFor:
        """The loop over groups of columns, of which each lane of a warp takes ``width``.

        Threads beyond the last column read what those of that column do, and write nothing.
        """
        own = Var(numbered("own_column", names), "int64")
        groups = Var(numbered("group", names), "int64")
        is_real = compare("lt", own, self.size)
        lane = multiply(Call("cuda.lane_in_warp", (), "int64"), integer(width))
        statements: list[Stmt] = [
            Let(own, add(multiply(groups, integer(WARP * width)), lane)),
            Let(self.counter, minimum(own, subtract(self.size, integer(width)))),
            *self.bindings,
            *TeamWork(names, PARTS, is_real).statements(body),
        ]
        last = add(self.size, integer(WARP * width - 1))
        count = Binary("quot", last, integer(WARP * width), "int64")
        return ThreadFor(groups, ZERO, count, statements, scope="blocks")


@dataclass(frozen=True, slots=True)
class _Wide:
    """What a lane with several columns loads by vectors.

    Parameters
    ----------
    loads : set of Load
    width : int
        How many columns that are.
    may : Expr
        Whether all vectors begin at multiples of their size, the last ones too.
    """

    loads: set[Load]
    width: int
    may: Expr


def _wide_lanes(loops: Sequence[For], body: Sequence[Stmt]) -> _Wide | None:
    """Whether lanes may take several columns; None where that is not known, or loads no vectors."""
    *outer, last = loops
    inner = [one for one in body if isinstance(one, For)]
    if not all(isinstance(one, Let | Assign | Store | Comment | For) for one in body):
        return None
    if not all(isinstance(one, Let | Assign | Comment) for loop in inner for one in loop.body):
        return None
    own = {last.var.name, *bound_names(body)}
    bounds = [x for loop in (*inner, *loops) for x in (loop.start, loop.stop)]
    if last.start != ZERO or any(own & set(variables(x)) for x in bounds):
        return None
    if any(stride_along(one.index, last.var.name) != ONE for one in body if isinstance(one, Store)):
        return None
    places: dict[Place, None] = {}
    steps: dict[Expr, None] = {extent_of(last): None}
    found = set[Load]()
    for loop in inner:
        counters = [*outer, loop]
        for load in loads_in(loop.body):
            if stride_along(load.index, last.var.name) != ONE:
                continue
            strides = [stride_along(load.index, one.var.name) for one in counters]
            begins: dict[Expr, Expr] = {one.var: one.start for one in counters}
            begins[last.var] = ZERO
            offset = simplified(replaced(load.index, begins.get))
            place = Place(load.pointer, offset, load.dtype)
            read = {*variables(offset), *(name for x in strides if x for name in variables(x))}
            if None in strides or read & own or depends_on(load.pointer, last.var.name):
                return None
            found.add(load)
            places[place] = None
            steps |= dict.fromkeys(x for x in strides if x is not None and x != ZERO)
    if not found or overlap({load.root for load in found}, written_roots(body)):
        return None
    width = min(MOST_LANES, *(vector_width(one.itemsize) for one in places))
    known = [*steps, *(one.offset for one in places)]
    if width < 2 or any(isinstance(one, Const) and one.value % width for one in known):
        return None
    return _Wide(found, width, are_aligned(list(places), width, list(steps)))


class _Lanes:
    """Writes what a thread does with its columns: each statement for all of them.

    Parameters
    ----------
    column : Var
        The first one.
    wide : _Wide
    names : set of str
        The names that are taken; gets the new ones.
    """

    def __init__(self, column: Var, wide: _Wide, names: set[str]) -> None:
        self._wide, self._names = wide, names
        self._known: list[dict[Expr, Expr]] = [
            {column: add(column, integer(lane))} for lane in range(wide.width)
        ]

    def statements(self, body: Sequence[Stmt]) -> Iterator[Stmt]:
        """All of them."""
        for statement in body:
            if isinstance(statement, For):
                inside = list(self.statements(statement.body))
                yield replace(statement, body=inside)
            elif isinstance(statement, Comment):
                yield statement
            else:
                yield from self._of_lanes(statement)

    def _of_lanes(self, statement: Stmt) -> Iterator[Stmt]:
        read = (load for x in expressions(statement) for load in loads(x))
        for load in dict.fromkeys(one for one in read if one in self._wide.loads):
            dtype = f"{load.dtype}x{self._wide.width}"
            vector = Var(numbered("columns", self._names), dtype)
            index = replaced(load.index, self._known[0].get)
            yield Let(vector, Call("cuda.load_vector", (load.pointer, index), dtype))
            for lane, known in enumerate(self._known):
                known[load] = Call("cuda.lane", (vector, integer(lane)), load.dtype)
        for known in self._known:
            made = with_expressions(statement, partial(replaced, change=known.get))
            match made:
                case Let(var, value, mutable):
                    known[var] = own = Var(numbered(var.name, self._names), var.dtype)
                    yield Let(own, value, mutable)
                case Assign(var, value):
                    changed = known[var]
                    assert isinstance(changed, Var)
                    yield Assign(changed, value)
                case _:
                    yield made
