"""Products with packed matrices: linear layers and convolutions, ``jc_product_<dtype>_<vectors>``.

A convolution over channels-last images is a product of its windows with the kernel, and a linear
layer is the convolution whose kernel is a single tap.  The matrix comes packed in panels, (groups,
panels, taps, channels, width): it was a constant once, or is read so often that it pays.  The work
is cut into tasks of some tiles of rows by one panel, which threads take one after the other.
"""

from __future__ import annotations

from functools import partial

from jitcore.codegen.engine import add_library
from jitcore.codegen.kernels.assembler import (
    Function,
    Number,
    Word,
    array_parameters,
    split,
)
from jitcore.codegen.kernels.tiles import (
    Lanes,
    Tile,
    call_tile,
    declarations,
    lanes_of,
    write_tile,
)
from jitcore.codegen.kernels.windows import AXES, GEOMETRY, Pixels, zeros

__all__ = ["MAX_TAPS", "symbol"]

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

_OPERATIONS_PER_ADDRESS = 2
"""To find the place of a piece takes about as long as so many operations."""

_ADDRESSES = 8
"""So many are entered in the table at once."""

_VECTOR, _SUFFIX = f"<{_ADDRESSES} x i64>", f"v{_ADDRESSES}i64"

_OPERATIONS_PER_STEP = 16
"""So many multiplications take about as long as an operation on one element takes elsewhere."""


def symbol(dtype: str, vectors: int) -> str:
    """The name of the function for panels of so many vectors."""
    return f"jc_product_{dtype}_{vectors}"


def _module_text(dtype: str, vectors: int) -> str:
    lanes = lanes_of(dtype)
    tiles = [Tile(lanes, rows, vectors) for rows in lanes.tiles[vectors]]
    largest = tiles[0].rows
    body = f"{symbol(dtype, vectors)}_tasks"
    texts = [
        declarations(lanes),
        "declare void @jc_parallel(ptr, ptr, i64, i64, i64)\n",
        f"declare {_VECTOR} @llvm.smin.{_SUFFIX}({_VECTOR}, {_VECTOR})\n",
        f"declare void @llvm.masked.store.{_SUFFIX}.p0({_VECTOR}, ptr, <{_ADDRESSES} x i1>)\n",
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
    panels = function.quotient("%columns", tile.width)
    tiles = function.quotient("%pixels", tile.rows)
    per_task = _tiles_per_task(function, tile, taps, tiles, panels)
    tasks = function.mul(function.quotient(tiles, per_task), "%groups", panels)
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

    Pixels of one tile whose windows only move along a line are done together.  The last tile is
    filled up with its last pixel.
    """
    pixels = Pixels.at(function, lanes.number, start)
    names = ("row", "tile", "inside", "before", "done")
    slots = {name: function.slot("i64", 0) for name in names}
    run = function.slot("i64", -1)
    step = function.mul(f"%stride.{AXES[2]}", "%pixel.apart", lanes.itemsize)
    with function.while_below(slots["row"], count) as row:
        tile, inside = (function.load("i64", slots[name]) for name in ("tile", "inside"))
        place = function.add(tile, inside)
        # Addresses of the windows before, moved on, or found anew.
        moved = function.mul(function.load("i64", slots["done"]), step)
        source = function.load("i64", slots["before"])
        is_start = function.compare("slt", function.load("i64", run), 0)
        with function.when(is_start):
            _find_pieces(function, pixels, table, place, rows)
            function.store("i64", pixels.longest_run(), run)
        shift = function.let(f"select i1 {is_start}, i64 0, i64 {moved}")
        source = function.let(f"select i1 {is_start}, i64 {place}, i64 {source}")
        room = function.sub(rows, inside)
        left = function.load("i64", run)
        wanted = function.smaller(room, function.sub(count, row))
        length = function.smaller(function.add(left, 1), wanted)
        _lay_pieces(function, table, (source, place), (shift, step), rows, room, length)
        pixels.advance(length)
        ends = function.compare("eq", room, length)
        after = function.let(f"select i1 {ends}, i64 0, i64 {function.add(inside, length)}")
        following = function.add(tile, function.mul("%taps", rows))
        next_tile = function.let(f"select i1 {ends}, i64 {following}, i64 {tile}")
        function.store("i64", function.sub(left, length), run)
        for name, value in (
            ("row", function.add(row, length)),
            ("tile", next_tile),
            ("inside", after),
            ("before", place),
            ("done", length),
        ):
            function.store("i64", value, slots[name])


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


def _lay_pieces(
    function: Function,
    table: Word,
    places: tuple[Number, Number],
    steps: tuple[Number, Number],
    rows: int,
    room: Number,
    length: Number,
) -> None:
    """Enter the addresses for pixels side by side in one tile, and the last one's in what is left.

    Parameters
    ----------
    function : Function
    table : Word
    places : tuple of Number
        Where the addresses of a pixel's first tap are, and where to enter those.
    steps : tuple of Number
        Bytes from that pixel to the first of these, and from each of these to the next.
    rows : int
        Of a tile.
    room, length : Number
        How many entries the tile has left, and how many pixels there are.
    """
    source, target = places
    shift, step = steps
    lanes = [
        "<" + ", ".join(f"i64 {first + lane}" for lane in range(_ADDRESSES)) + ">"
        for first in range(0, rows, _ADDRESSES)
    ]
    last, apart, limit = (_filled(function, one) for one in (function.sub(length, 1), step, room))
    offsets = [
        function.let(
            f"mul {_VECTOR} {apart}, "
            + function.let(
                f"call {_VECTOR} @llvm.smin.{_SUFFIX}({_VECTOR} {one}, {_VECTOR} {last})"
            )
        )
        for one in lanes
    ]
    masks = [function.let(f"icmp slt {_VECTOR} {one}, {limit}") for one in lanes]
    with function.loop(0, "%taps") as tap:
        skipped = function.mul(tap, rows)
        piece = function.load("ptr", function.place(table, function.add(source, skipped), "ptr"))
        moved = function.place(piece, shift, "i8")
        is_outside = function.let(f"icmp eq ptr {piece}, @zeros")
        first = function.let(f"select i1 {is_outside}, ptr @zeros, ptr {moved}")
        base = _filled(function, function.let(f"ptrtoint ptr {first} to i64"))
        entry = function.add(target, skipped)
        for number, (offset, mask) in enumerate(zip(offsets, masks, strict=True)):
            ahead = function.let(
                f"select i1 {is_outside}, {_VECTOR} zeroinitializer, {_VECTOR} {offset}"
            )
            addresses = function.let(f"add {_VECTOR} {base}, {ahead}")
            place = function.place(table, function.add(entry, number * _ADDRESSES), "ptr")
            function.do(
                f"call void @llvm.masked.store.{_SUFFIX}.p0({_VECTOR} {addresses}, "
                f"ptr align 8 {place}, <{_ADDRESSES} x i1> {mask})"
            )


def _filled(function: Function, number: Number) -> Word:
    """A vector of equal int64 numbers."""
    first = function.let(f"insertelement {_VECTOR} poison, i64 {number}, i64 0")
    mask = f"<{_ADDRESSES} x i32> zeroinitializer"
    return function.let(f"shufflevector {_VECTOR} {first}, {_VECTOR} poison, {mask}")


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
    bias = function.place_unless_null("%bias", first_column, lanes.number)
    first_channel = function.mul(group, "%channels")
    with function.loop(0, count, largest.rows) as row:
        rows = function.smaller(largest.rows, function.sub(count, row))
        entry = function.place(table, function.mul(row, "%taps"), "ptr")
        place = function.add(function.mul(function.add(start, row), apart), first_column)
        args = [
            f"ptr {entry}",
            f"ptr {packed}",
            f"ptr {bias}",
            f"ptr {function.place_unless_null('%residual', place, lanes.number)}",
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
        call_tile(function, tiles, rows, ", ".join(args))


for _dtype in ("float32", "float64"):
    for _vectors in (1, 2, 3, 4):
        _text = partial(_module_text, _dtype, _vectors)
        add_library(symbol(_dtype, _vectors), _text, "registers")
