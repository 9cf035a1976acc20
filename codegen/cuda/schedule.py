"""Which threads run which iterations of a loop nest.

Six mappings:

elements
    Independent loops, one in the other, become one count of elements; the threads of the whole grid
    share them, neighbours taking neighbours.  Loops inside are each thread's own.
tiles
    The same, where what neighbours write together is read from far apart: a block takes a square of
    elements, and brings what lies across to shared memory.
lines
    Rows that are known to be short are the work of one warp each.
rows
    Each iteration of the independent loops is the work of one block: its threads share the loops
    inside, reductions among them, so that a softmax is one kernel and reads neighbours together.
    As far as they fit, the elements of rows and lines stay in registers between these loops.
columns
    The same for rows that lie across in memory: neighbouring threads take neighbouring rows
    (`codegen.cuda.columns`).
total
    A reduction with nothing around it: every block makes its part, and one more block joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitcore.codegen.cuda.columns import map_columns
from jitcore.codegen.cuda.kernels import (
    BLOCK,
    LINE,
    MAX_THREADS,
    WARP,
    Launch,
    Mapped,
    ThreadFor,
)
from jitcore.codegen.cuda.linear import stride_along
from jitcore.codegen.cuda.nests import (
    ELEMENT_THREADS,
    MAX_BLOCKS,
    blocks_for,
    chain,
    check_nest,
    collapsed,
    extent_of,
    flat,
    is_independent,
)
from jitcore.codegen.cuda.reductions import reductions_of
from jitcore.codegen.cuda.resident import ResidentRow, resident_row
from jitcore.codegen.cuda.scans import is_scan
from jitcore.codegen.cuda.teams import TeamWork, has_order, is_shareable, meets_inside
from jitcore.codegen.cuda.tiles import by_tiles
from jitcore.codegen.cuda.tuning import DEFAULT, Tuning
from jitcore.codegen.cuda.vectors import Lines, by_vectors
from jitcore.codegen.loop_passes.rewriting import numbered
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    loads_in,
    variables,
    walk,
)
from jitcore.codegen.loops import (
    Binary,
    Call,
    Const,
    Expr,
    For,
    Let,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    compare,
    integer,
    maximum,
    minimum,
    multiply,
    subtract,
)

__all__ = ["is_by_columns", "map_elements", "map_nest"]

LINES = 8
"""Warps of a block that takes a row with each."""

LINE_EXTENT = 256
"""A warp takes rows of at most this many elements: eight for each of its threads."""

SERIAL_EXTENT = 16
"""Rows of at most this many elements are one thread's work."""


def map_nest(nest: For, names: set[str], tuning: Tuning = DEFAULT) -> Mapped | None:
    """Map an independent loop nest to threads; None where it is not independent.

    Parameters
    ----------
    nest : For
    names : set of str
        The names that are taken; gets the new ones.
    tuning : Tuning

    Raises
    ------
    NotNative
        It does what no kernel can.
    """
    if not is_independent(nest):
        return None
    check_nest(nest)
    loops, body = collapsed(*chain(nest, is_independent))
    if not _has_shared_loops(body):
        return by_tiles(loops, body, names) or _elements(loops, body, names, tuning)
    inner = [one for one in body if isinstance(one, For)]
    if any(is_by_columns(loops[-1], one) for one in inner):
        # A branch may go another way in each column.
        if any(is_scan(one) for one in inner) or any(map(meets_inside, body)):
            return _elements(loops, body, names, tuning)
        if not any(reductions_of(one) and _writes(one) for one in inner):
            return map_columns(loops, body, names, tuning)
    if _are_short_rows(body):
        return _lines(loops, body, names)
    return _rows(loops, body, names, tuning)


# Elements ---------------------------------------------------------------------------------


def map_elements(loop: For, names: set[str], tuning: Tuning = DEFAULT) -> Mapped:
    """Have each thread run whole iterations of a loop, which is known to be independent."""
    return _elements([loop], list(loop.body), names, tuning)


def _elements(loops: Sequence[For], body: list[Stmt], names: set[str], tuning: Tuning) -> Mapped:
    size, counter, bindings = flat(loops, names)
    loop = ThreadFor(counter, ZERO, size, [*bindings, *body], scope="grid")
    lines = Lines(loops[:-1], replace(loops[-1], body=body), bindings) if bindings else None
    statements, width = by_vectors(loop, names, tuning.vectors, lines)
    threads = tuning.element_threads
    launch = Launch(blocks_for(size, threads * width), integer(threads))
    each = "a thread per element" if width == 1 else f"a thread per {width} elements"
    return Mapped(statements, launch, each)


# Rows -------------------------------------------------------------------------------------


def _has_shared_loops(body: Sequence[Stmt]) -> bool:
    """Whether the threads of a block should share the loops inside."""
    inner = [one for one in body if isinstance(one, For)]
    if not inner or not all(map(is_shareable, inner)) or any(map(has_order, body)):
        return False
    return not all(_is_short(one) for one in inner)


def _writes(loop: For) -> bool:
    return any(isinstance(one, Store) for one in walk(loop.body))


def _is_short(loop: For) -> bool:
    extent = extent_of(loop)
    return isinstance(extent, Const) and extent.value <= SERIAL_EXTENT


def is_by_columns(outer: For, inner: For) -> bool:
    """Whether the neighbours in memory are the outer loop's, and not the inner one's."""
    strides = [
        (stride_along(load.index, outer.var.name), stride_along(load.index, inner.var.name))
        for load in loads_in([inner])
    ]
    return any(one == ONE and two != ONE for one, two in strides)


def _rows(loops: Sequence[For], body: list[Stmt], names: set[str], tuning: Tuning) -> Mapped:
    rows, counter, bindings = flat(loops, names)
    row = resident_row(body, _counters(loops), BLOCK, names, few_threads=tuning.row_threads)
    inside = TeamWork(names, BLOCK, row=row).statements(body)
    loop = ThreadFor(counter, ZERO, rows, [*bindings, *inside], scope="blocks")
    blocks = minimum(maximum(rows, ONE), integer(MAX_BLOCKS))
    threads = _row_threads(loops, body, tuning.row_threads) if row is None else row.threads
    return Mapped([loop], Launch(blocks, threads), f"a block per row{_kept(row)}")


def _counters(loops: Sequence[For]) -> set[str]:
    return {loop.var.name for loop in loops}


def _kept(row: ResidentRow | None) -> str:
    """For reports."""
    return "" if row is None else ", which stays in registers"


def _are_short_rows(body: Sequence[Stmt]) -> bool:
    """Whether a warp is enough for a row, and nothing keeps its threads from the block's others."""
    inner = [one for one in walk(body) if isinstance(one, For)]
    own = [one for one in body if isinstance(one, For)]
    if any(map(is_scan, inner)) or any(map(meets_inside, body)):
        return False
    extents = map(extent_of, own)
    return all(isinstance(one, Const) and one.value <= LINE_EXTENT for one in extents)


def _lines(loops: Sequence[For], body: list[Stmt], names: set[str]) -> Mapped:
    """Each warp of a block takes a row.

    Warps beyond the last row read what that of the last one does, and write nothing: the threads of
    a block always meet all together.
    """
    rows, counter, bindings = flat(loops, names)
    own = Var(numbered("own_row", names), "int64")
    groups = Var(numbered("group", names), "int64")
    is_real = compare("lt", own, rows)
    row = resident_row(body, _counters(loops), LINE, names, is_real)
    inside = TeamWork(names, LINE, is_real, row).statements(body)
    body = [
        Let(own, add(multiply(groups, integer(LINES)), Call("cuda.warp", (), "int64"))),
        Let(counter, minimum(own, subtract(rows, ONE))),
        *bindings,
        *inside,
    ]
    count = Binary("quot", add(rows, integer(LINES - 1)), integer(LINES), "int64")
    loop = ThreadFor(groups, ZERO, count, body, scope="blocks")
    launch = Launch(blocks_for(rows, LINES), integer(LINES * WARP))
    return Mapped([loop], launch, f"a warp per row{_kept(row)}")


def _row_threads(loops: Sequence[For], body: Sequence[Stmt], few: int) -> Expr:
    """Whole warps, with four to sixteen elements of the longest loop for each thread.

    Blocks have few threads before these have more elements: a row that is read once asks for
    several vectors at once, and fewer threads have to meet.
    """
    inner = _counters(loops) | bound_names(body)
    longest: Expr = ZERO
    for one in body:
        if isinstance(one, For):
            extent = extent_of(one)
            if inner & set(variables(extent)):
                return integer(ELEMENT_THREADS)
            longest = maximum(longest, extent)
    warps = maximum(minimum(_warps_for(longest, 4), integer(few)), _warps_for(longest, 16))
    return minimum(maximum(warps, integer(WARP)), integer(MAX_THREADS))


def _warps_for(count: Expr, each: int) -> Expr:
    """The threads of so many warps that each thread has at most so many elements."""
    if isinstance(count, Const):
        return integer((-(-count.value // each) + WARP - 1) & -WARP)
    threads = Binary("quot", add(count, integer(each - 1)), integer(each), "int64")
    return Binary("and", add(threads, integer(WARP - 1)), integer(-WARP), "int64")
