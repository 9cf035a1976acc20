"""Products with packed matrices: linear layers and convolutions, ``jc_product_<dtype>_<vectors>``.

A convolution over channels-last images is a product of its windows with the kernel, and a linear
layer is the convolution whose kernel is a single tap.  The matrix comes packed in panels, (groups,
panels, taps, channels, width): it was a constant once, or is read so often that it pays.  The work
is cut into tasks of some tiles of rows by one panel, which threads take one after the other.
"""

from __future__ import annotations

from functools import cache, partial

from jitcore.codegen.engine import CompiledModule, add_maker, add_symbol, compile_module
from jitcore.codegen.kernels.assembler import (
    Function,
    Number,
    Word,
    array_parameters,
    split,
)
from jitcore.codegen.kernels.tiles import Lanes, Tile, declarations, lanes_of, write_tile
from jitcore.codegen.kernels.windows import AXES, GEOMETRY, Pixels, zeros

__all__ = ["MAX_TAPS", "compiled", "symbol"]

ARRAYS = ("x", "packed", "bias", "residual", "out")

NUMBERS = (
    "i64 %pixels",
    "i64 %channels",
    "i64 %pixel.apart",
    "i64 %groups",
    "i64 %columns",
    "i64 %times",
    *GEOMETRY,
)
"""The parameters after those of the arrays; then come the limits of the result.

``pixels`` are those of all results, ``channels`` those of a piece, which are ``pixel.apart`` apart
in memory; ``columns`` are the result's channels in one group; ``times`` says how often in a row it
is likely to be called, because threads that sleep are not woken for little.  The memory of ``bias``
and ``residual`` may be null.
"""

_TILES_PER_TASK = 8
_TASKS = 8
"""At least, so that threads that were slowed down do not hold up the others."""

_TABLE_WORDS = 4096
"""The table of a task's addresses lies on the stack."""

MAX_TAPS = 4096
"""So that it is never much longer."""

_CACHED_BYTES = 1 << 18
"""What a task reads of the images stays in a core's second cache."""

_OPERATIONS_PER_ADDRESS = 10
"""To find the place of a piece takes about as long as so many operations."""

_OPERATIONS_PER_STEP = 16
"""So many multiplications take about as long as an operation on one element takes elsewhere."""


def symbol(dtype: str, vectors: int) -> str:
    """The name of the function for panels of so many vectors."""
    return f"jc_product_{dtype}_{vectors}"


@cache
def compiled(dtype: str, vectors: int) -> CompiledModule:
    """The function's machine code, made once."""
    module = compile_module(_module_text(dtype, vectors), name=symbol(dtype, vectors))
    add_symbol(symbol(dtype, vectors), module.address(symbol(dtype, vectors)))
    return module


def _module_text(dtype: str, vectors: int) -> str:
    lanes = lanes_of(dtype)
    tiles = [Tile(lanes, rows, vectors) for rows in lanes.tiles[vectors]]
    largest = tiles[0].rows
    body = f"{symbol(dtype, vectors)}_tasks"
    texts = [
        declarations(lanes),
        "declare void @jc_parallel(ptr, ptr, i64, i64, i64)\n",
        zeros(lanes.number),
        *(write_tile(tile, largest) for tile in tiles),
        _write_tasks(body, lanes, tiles),
        _write_product(symbol(dtype, vectors), body, lanes, tiles[0]),
    ]
    return "\n".join(texts)


def _numbers(lanes: Lanes) -> tuple[str, ...]:
    return (*NUMBERS, f"{lanes.number} %low", f"{lanes.number} %high")


def _context(lanes: Lanes) -> tuple[str, ...]:
    return (*(f"ptr %{name}" for name in ARRAYS), *_numbers(lanes))


_DERIVED = ("i64 %taps", "i64 %tiles.per.task", "i64 %panels")
"""What all tasks use, worked out once."""


def _write_product(name: str, body: str, lanes: Lanes, tile: Tile) -> str:
    """The function that others call: it puts all it knows in a context, and starts the tasks."""
    function = Function(name, (*array_parameters(*ARRAYS), *_numbers(lanes)))
    function.open_arrays(lanes.number, *ARRAYS)
    taps = function.mul(*(f"%kernel.{axis}" for axis in AXES))
    panels = _quotient(function, "%columns", tile.width)
    tiles = _quotient(function, "%pixels", tile.rows)
    per_task = _tiles_per_task(function, tile, taps, tiles, panels)
    tasks = function.mul(_quotient(function, tiles, per_task), "%groups", panels)
    work = function.mul(_work(function, taps), "%times")
    words: list[tuple[str, Number]] = [*map(split, _context(lanes))]
    words += [("i64", one) for one in (taps, per_task, panels)]
    context = function.context(words)
    function.do(
        f"call void @jc_parallel(ptr @{body}, ptr {context}, i64 0, i64 {tasks}, i64 {work})"
    )
    return function.text()


def _work(function: Function, taps: Number) -> Number:
    """Multiplications; every number of the matrix, however few rows there are; every address."""
    numbers = function.mul(taps, "%channels", "%columns", "%groups")
    steps = function.binary("sdiv", function.mul("%pixels", numbers), _OPERATIONS_PER_STEP)
    addresses = function.mul("%pixels", taps, _OPERATIONS_PER_ADDRESS)
    return function.add(numbers, steps, addresses)


def _quotient(function: Function, x: Number, y: Number) -> Number:
    """``x / y``, rounded up."""
    return function.binary("sdiv", function.sub(function.add(x, y), 1), y)


def _tiles_per_task(
    function: Function, tile: Tile, taps: Number, tiles: Number, panels: Number
) -> Number:
    """As many as share what the caches hold, and fewer where there would be few tasks."""
    row_bytes = function.mul(taps, "%channels", tile.lanes.itemsize * tile.rows)
    count: Number = _TILES_PER_TASK
    for limit in (
        function.binary("sdiv", _CACHED_BYTES, function.add(row_bytes, 1)),
        function.binary("sdiv", _TABLE_WORDS, function.mul(taps, tile.rows)),
        function.binary("sdiv", function.mul(tiles, panels, "%groups"), _TASKS),
    ):
        count = function.smaller(count, limit)
    return function.larger(count, 1)


def _write_tasks(name: str, lanes: Lanes, tiles: list[Tile]) -> str:
    """The body of the parallel loop: tasks, all panels of some rows before the next rows."""
    function = Function(name, ("ptr %context", "i64 %first", "i64 %last"), "internal")
    function.open_context(list(map(split, (*_context(lanes), *_DERIVED))))
    largest = tiles[0]
    entries = function.mul("%taps", largest.rows)
    table_words = function.mul(entries, "%tiles.per.task")
    table = function.let(f"alloca ptr, i64 {table_words}")
    panels = function.mul("%groups", "%panels")
    known = function.slot("i64", -1)
    with function.loop("%first", "%last") as task:
        chunk = function.binary("sdiv", task, panels)
        start = function.mul(chunk, "%tiles.per.task", largest.rows)
        count = function.smaller(
            function.mul("%tiles.per.task", largest.rows), function.sub("%pixels", start)
        )
        with function.when(function.compare("ne", chunk, function.load("i64", known))):
            function.store("i64", chunk, known)
            _fill_table(function, lanes, table, start, count, largest.rows)
        panel = function.sub(task, function.mul(chunk, panels))
        _run_tiles(function, tiles, table, start, count, panel)
    return function.text()


def _fill_table(
    function: Function, lanes: Lanes, table: Word, start: Number, count: Number, rows: int
) -> None:
    """The addresses of all pieces of some pixels: by tile, then tap, then row.

    The last tile is filled up with its last pixel.
    """
    pixels = Pixels.at(function, lanes.number, start)
    last = function.sub(count, 1)
    run, before = function.slot("i64", -1), function.slot("i64", 0)
    step = function.mul(f"%stride.{AXES[2]}", "%pixel.apart")
    with function.loop(0, function.mul(_quotient(function, count, rows), rows)) as row:
        tile = function.binary("sdiv", row, rows)
        inside = function.binary("srem", row, rows)
        place = function.add(function.mul(tile, "%taps", rows), inside)
        is_start = function.compare("slt", function.load("i64", run), 0)
        with function.when(is_start):
            _find_pieces(function, pixels, table, place, rows)
            function.store("i64", pixels.longest_run(), run)
        with function.when(function.let(f"xor i1 {is_start}, true")):
            shift = function.let(
                f"select i1 {function.compare('sle', row, last)}, i64 {step}, i64 0"
            )
            _move_pieces(function, lanes, table, (function.load("i64", before), place), rows, shift)
        function.store("i64", place, before)
        with function.when(function.compare("slt", row, last)):
            pixels.advance()
            function.store("i64", function.sub(function.load("i64", run), 1), run)


def _find_pieces(function: Function, pixels: Pixels, table: Word, place: Number, rows: int) -> None:
    """Enter the addresses for one pixel."""
    entry = function.slot("i64", place)
    with (
        function.loop(0, f"%kernel.{AXES[0]}") as depth,
        function.loop(0, f"%kernel.{AXES[1]}") as height,
        function.loop(0, f"%kernel.{AXES[2]}") as width,
    ):
        piece = pixels.tap((depth, height, width))
        here = function.load("i64", entry)
        function.store("ptr", piece, function.place(table, here, "ptr"))
        function.store("i64", function.add(here, rows), entry)


def _move_pieces(
    function: Function,
    lanes: Lanes,
    table: Word,
    places: tuple[Number, Number],
    rows: int,
    shift: Number,
) -> None:
    """Enter the addresses for the next pixel on a line: those of the one before, moved on."""
    with function.loop(0, "%taps") as tap:
        offset = function.mul(tap, rows)
        old, new = (function.place(table, function.add(one, offset), "ptr") for one in places)
        piece = function.load("ptr", old)
        moved = function.place(piece, shift, lanes.number)
        is_outside = function.let(f"icmp eq ptr {piece}, @zeros")
        following = function.let(f"select i1 {is_outside}, ptr @zeros, ptr {moved}")
        function.store("ptr", following, new)


def _run_tiles(
    function: Function, tiles: list[Tile], table: Word, start: Number, count: Number, panel: Number
) -> None:
    """All tiles of one task."""
    largest, lanes = tiles[0], tiles[0].lanes
    size = function.mul("%taps", "%channels", largest.width)
    packed = function.place("%packed", function.mul(panel, size), lanes.number)
    group = function.binary("sdiv", panel, "%panels")
    inside = function.mul(function.binary("srem", panel, "%panels"), largest.width)
    columns = function.smaller(largest.width, function.sub("%columns", inside))
    first_column = function.add(function.mul(group, "%columns"), inside)
    apart = function.mul("%groups", "%columns")
    bias = _unless_null(function, "%bias", first_column, lanes)
    first_channel = function.mul(group, "%channels")
    with function.loop(0, count, largest.rows) as row:
        rows = function.smaller(largest.rows, function.sub(count, row))
        entry = function.place(table, function.mul(row, "%taps"), "ptr")
        place = function.add(function.mul(function.add(start, row), apart), first_column)
        args = [
            f"ptr {entry}",
            f"ptr {packed}",
            f"ptr {bias}",
            f"ptr {_unless_null(function, '%residual', place, lanes)}",
            f"ptr {function.place('%out', place, lanes.number)}",
            f"i64 {apart}",
            "i64 %taps",
            "i64 %channels",
            f"i64 {first_channel}",
            f"i64 {rows}",
            f"i64 {columns}",
            f"{lanes.number} %low",
            f"{lanes.number} %high",
        ]
        _call_tile(function, tiles, rows, ", ".join(args))


def _unless_null(function: Function, pointer: Word, index: Number, lanes: Lanes) -> Word:
    """The address of an element, or null for a null pointer."""
    place = function.place(pointer, index, lanes.number)
    is_null = function.let(f"icmp eq ptr {pointer}, null")
    return function.let(f"select i1 {is_null}, ptr null, ptr {place}")


def _call_tile(function: Function, tiles: list[Tile], rows: Number, args: str) -> None:
    """The smallest tile that has as many rows; the table's last rows are not all filled."""
    for tile, smaller in zip(tiles, (*tiles[1:], None), strict=True):
        fits = function.compare("sle", rows, tile.rows)
        if smaller is not None:
            more = function.compare("sgt", rows, smaller.rows)
            fits = function.let(f"and i1 {fits}, {more}")
        with function.when(fits):
            function.do(f"call void @{tile.name}({args})")


for _dtype in ("float32", "float64"):
    for _vectors in (1, 2, 3, 4):
        add_maker(symbol(_dtype, _vectors), partial(compiled, _dtype, _vectors))
