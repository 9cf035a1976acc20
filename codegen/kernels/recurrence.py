"""Recurrent layers: ``jc_recurrence_<cell>_<dtype>_<vectors>``, all times of one direction.

At each time a product of the states with packed weights is followed by what the cell does with the
gates (`cells`).  Each gate has panels of its own, so that a task does both for some rows and the
columns of one panel: the gates of a tile never leave the first cache.  Threads share the tasks of
one time, and wait for each other before the next.
"""

from __future__ import annotations

from functools import partial

from jitcore.codegen.engine import add_library
from jitcore.codegen.kernels import cells
from jitcore.codegen.kernels.assembler import (
    Function,
    Number,
    Word,
    array_parameters,
    split,
)
from jitcore.codegen.kernels.tiles import (
    Tile,
    call_tile,
    declarations,
    fill_table,
    lanes_of,
    write_tile,
)

__all__ = ["symbol"]

ARRAYS = ("projected", "hidden", "cell", "packed", "bias", "out", "spare", "last")

NUMBERS = (
    "i64 %steps",
    "i64 %rows",
    "i64 %width",
    "i64 %time.apart",
    "i64 %row.apart",
    "i64 %reverse",
)
"""The parameters after those of the arrays.

``projected`` are the input's terms of all gates, (steps, rows, gates * width), whose first two axes
have strides, in elements; ``hidden`` and ``cell`` are the states to start from, (rows, width);
``packed`` are the weights, (gates, panels, width, columns of a panel); ``bias`` may be null.
``out`` gets the states of all times, and ``last`` the last ones of the cell, where that has any;
``spare`` is memory for as many, so that no time writes the states it reads.
"""

_OPERATIONS_PER_STEP = 16
"""So many multiplications take about as long as an operation on one element takes elsewhere."""

_CELL_WORK = 16
"""Operations for one element of the states."""

_LEAST_SHARED = 30_000
"""A time with less work is done by the caller alone, however many times there are."""


def symbol(cell: str, dtype: str, vectors: int) -> str:
    """The name of the function for a kind of cell and panels of so many vectors."""
    return f"jc_recurrence_{cell}_{dtype}_{vectors}"


def _module_text(cell: str, dtype: str, vectors: int) -> str:
    lanes = lanes_of(dtype)
    tiles = [Tile(lanes, rows, vectors) for rows in lanes.tiles[vectors]]
    name = symbol(cell, dtype, vectors)
    finish = "ptr, i64, i64, i64, i64, ptr, i64, ptr, ptr, ptr, ptr, i64"
    texts = [
        declarations(lanes),
        "declare void @jc_parallel(ptr, ptr, i64, i64, i64)\n",
        f"declare i64 @{cells.symbol(cell, dtype)}({finish})\n",
        *(write_tile(tile, tiles[0].rows) for tile in tiles),
        _write_tasks(f"{name}_tasks", tiles, cell),
        _write_recurrence(name, tiles[0], cells.GATES[cell]),
    ]
    return "\n".join(texts)


_CONTEXT = (
    *("ptr %now", "ptr %before", "ptr %after", "ptr %cell.before", "ptr %cell.after"),
    *("ptr %packed", "ptr %bias"),
    *("i64 %rows", "i64 %width", "i64 %row.apart", "i64 %panels", "i64 %chunks", "i64 %backwards"),
)
"""What the tasks of one time know: the input's terms, states before and those to write, weights."""


def _write_recurrence(name: str, tile: Tile, gates: int) -> str:
    """The function that others call."""
    number = tile.lanes.number
    function = Function(name, (*array_parameters(*ARRAYS), *NUMBERS))
    function.open_arrays(number, *ARRAYS)
    panels = function.quotient("%width", tile.width)
    chunks = function.quotient("%rows", tile.rows)
    size = function.mul("%rows", "%width")
    work = _work(function, size, gates)
    before, cell_before = function.slot("ptr", "%hidden"), function.slot("ptr", "%cell")
    is_reverse = function.compare("ne", "%reverse", 0)
    with function.loop(0, "%steps") as step:
        left = function.sub(function.sub("%steps", 1), step)
        time = function.let(f"select i1 {is_reverse}, i64 {left}, i64 {step}")
        now = function.place("%projected", function.mul(time, "%time.apart"), number)
        after = function.place("%out", function.mul(time, size), number)
        # The last time writes what is given back, and the others to both places in turn.
        is_odd = function.let(f"trunc i64 {left} to i1")
        cell_after = function.let(f"select i1 {is_odd}, ptr %spare, ptr %last")
        known = {
            "%now": now,
            "%before": function.load("ptr", before),
            "%after": after,
            "%cell.before": function.load("ptr", cell_before),
            "%cell.after": cell_after,
            "%panels": str(panels),
            "%chunks": str(chunks),
            "%backwards": function.binary("and", left, 1),
        }
        words = [(type_, known.get(word, word)) for type_, word in map(split, _CONTEXT)]
        context = function.context(words)
        function.do(
            f"call void @jc_parallel(ptr @{name}_tasks, ptr {context}, i64 0, "
            f"i64 {function.mul(panels, chunks)}, i64 {work})"
        )
        function.store("ptr", after, before)
        function.store("ptr", cell_after, cell_before)
    return function.text()


def _work(function: Function, size: Number, gates: int) -> Number:
    """That of all times, because threads stay awake between them; little is not shared at all.

    Multiplications; every number of the weights, however few rows there are; every state.
    """
    weights = function.mul("%width", "%width", gates)
    steps = function.binary("sdiv", function.mul(weights, "%rows"), _OPERATIONS_PER_STEP)
    once = function.add(weights, steps, function.mul(size, _CELL_WORK * gates))
    pays = function.compare("sge", once, _LEAST_SHARED)
    return function.let(f"select i1 {pays}, i64 {function.mul(once, '%steps')}, i64 0")


def _write_tasks(name: str, tiles: list[Tile], cell: str) -> str:
    """The body of the loop over tasks: some rows, and the columns of one panel of each gate."""
    tile, gates = tiles[0], cells.GATES[cell]
    lanes = tile.lanes
    function = Function(name, ("ptr %context", "i64 %first", "i64 %last"), "internal")
    function.open_context(list(map(split, _CONTEXT)))
    apart = tile.rows * tile.width
    scratch = function.let(f"alloca {lanes.number}, i64 {gates * apart}, align 64")
    table = function.slot(f"[{tile.rows} x ptr]")
    with function.loop("%first", "%last") as task:
        panel = function.binary("sdiv", task, "%chunks")
        # Every other time begins with the weights that the one before has left in the cache.
        opposite = function.sub(function.sub("%panels", 1), panel)
        is_backwards = function.compare("ne", "%backwards", 0)
        panel = function.let(f"select i1 {is_backwards}, i64 {opposite}, i64 {panel}")
        row = function.mul(function.binary("srem", task, "%chunks"), tile.rows)
        rows = function.smaller(tile.rows, function.sub("%rows", row))
        column = function.mul(panel, tile.width)
        columns = function.smaller(tile.width, function.sub("%width", column))
        first = function.place("%before", function.mul(row, "%width"), lanes.number)
        fill_table(function, tile, table, (first, "%width", rows))
        for gate in range(gates):
            out = function.place(scratch, gate * apart, lanes.number)
            place = (function.add(function.mul(gate, "%panels"), panel), gate, column)
            _multiply(function, tiles, (table, out), place, (rows, columns))
        _finish(function, tile, cell, scratch, (row, column, rows, columns))
    return function.text()


def _multiply(
    function: Function,
    tiles: list[Tile],
    memory: tuple[Word, Word],
    place: tuple[Number, int, Number],
    sizes: tuple[Number, Number],
) -> None:
    """The recurrent terms of one gate.

    Parameters
    ----------
    function : Function
    tiles : list of Tile
    memory : tuple
        The addresses of the rows, and where to write.
    place : tuple
        The number of the panel, the gate, and the first column.
    sizes : tuple of Number
        How many rows and columns are written.
    """
    table, out = memory
    panel, gate, column = place
    rows, columns = sizes
    tile, number = tiles[0], tiles[0].lanes.number
    packed = function.mul(panel, "%width", tile.width)
    shift = function.add(function.mul(gate, "%width"), column)
    bias = function.place_unless_null("%bias", shift, number)
    args = [
        f"ptr {table}",
        f"ptr {function.place('%packed', packed, number)}",
        f"ptr {bias}",
        "ptr null",
        f"ptr {out}",
        f"i64 {tile.width}",
        "i64 1",
        "i64 %width",
        "i64 0",
        f"i64 {rows}",
        f"i64 {columns}",
        f"{number} 0xFFF0000000000000",
        f"{number} 0x7FF0000000000000",
    ]
    call_tile(function, tiles, rows, ", ".join(args))


def _finish(
    function: Function,
    tile: Tile,
    cell: str,
    scratch: Word,
    block: tuple[Number, Number, Number, Number],
) -> None:
    """What the cell does with the gates: of a first row and column, and so many of both."""
    row, column, rows, columns = block
    lanes = tile.lanes
    inside = function.add(function.mul(row, "%width"), column)
    states = [
        f"ptr {function.place(pointer, inside, lanes.number)}"
        for pointer in ("%before", "%after", "%cell.before", "%cell.after")
    ]
    start = function.add(function.mul(row, "%row.apart"), column)
    args = [
        f"ptr {scratch}",
        f"i64 {tile.rows * tile.width}",
        f"i64 {tile.width}",
        f"i64 {rows}",
        f"i64 {columns}",
        f"ptr {function.place('%now', start, lanes.number)}",
        "i64 %row.apart",
        *states,
        "i64 %width",
    ]
    function.let(f"call i64 @{cells.symbol(cell, lanes.dtype)}({', '.join(args)})")


for _cell in cells.GATES:
    for _dtype in ("float32", "float64"):
        for _vectors in (1, 2, 3, 4):
            text = partial(_module_text, _cell, _dtype, _vectors)
            add_library(symbol(_cell, _dtype, _vectors), text, "registers")
