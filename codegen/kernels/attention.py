"""Attention, some rows of one head at a time: ``jc_attention_<dtype>_<mask>``.

Keys and values are packed first, as panels of the kernels for products (`tiles`): keys transposed,
so that scores are a product of the queries with them.  Then tasks of some queries by all keys
follow, which threads share: the scores of one tile's rows, their softmax, and the product with the
values, all out of the cache.  So scores are never in memory as a whole (Dao et al.,
"FlashAttention", 2022, which also cuts the rows of scores; here a row fits the cache).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jitcore.codegen.engine import add_library
from jitcore.codegen.kernels import softmax
from jitcore.codegen.kernels.assembler import (
    Function,
    Number,
    Word,
    array_parameters,
    split,
)
from jitcore.codegen.kernels.packing import pack_panel
from jitcore.codegen.kernels.tiles import (
    Lanes,
    Tile,
    call_tile,
    declarations,
    fill_table,
    lanes_of,
    write_tile,
)
from jitcore.ir.dataclass import dataclass

__all__ = ["symbol", "width"]

ARRAYS = ("query", "key", "value", "packed", "out")

MASK = "mask"

NUMBERS = (
    "i64 %heads",
    "i64 %inner",
    "i64 %shared",
    "i64 %queries",
    "i64 %keys",
    "i64 %features",
    "i64 %columns",
    *(f"i64 %{name}.{axis}" for name in (*ARRAYS[:3], MASK) for axis in ("outer", "inner", "row")),
    "i64 %causal",
)
"""The parameters after those of the arrays and the mask; then comes the factor of the scores.

Heads are numbered along two axes, ``inner`` of them along the second; ``shared`` of the queries'
heads side by side have one head of the keys and values.  The strides of these axes and of the rows
are in elements, and the last axis has no gaps.  ``packed`` has room for `width` times as many
elements as the panels of keys have features and those of values have keys, for each head of those.
With ``causal`` query ``i`` sees the first ``i + 1`` keys.  The mask has a row of as many numbers as
there are keys for each query, and strides of zero where queries or heads share one.  The scores of
one tile's rows lie on the stack, so there must not be very many keys.
"""

_VECTORS = 2
"""In a row of a panel: its tiles have many rows, and little of the last panel is idle."""

_TILES_PER_TASK = 2

_OPERATIONS_PER_STEP = 16
"""So many multiplications take about as long as an operation on one element takes elsewhere."""

_SOFTMAX_WORK = 8
"""Operations for one score."""


def symbol(dtype: str, mask: str) -> str:
    """The name of the function for a dtype and one of `softmax.MASKS`."""
    return f"jc_attention_{dtype}_{mask}"


def width(dtype: str) -> int:
    """How many columns a panel has."""
    return lanes_of(dtype).count * _VECTORS


def _module_text(dtype: str, mask: str) -> str:
    lanes = lanes_of(dtype)
    tiles = [Tile(lanes, rows, _VECTORS) for rows in lanes.tiles[_VECTORS]]
    name = symbol(dtype, mask)
    masking = _Masking(softmax.symbol(dtype, mask), "i8" if mask == "chosen" else lanes.number)
    texts = [
        declarations(lanes),
        "declare void @jc_parallel(ptr, ptr, i64, i64, i64)\n",
        f"declare i64 @{masking.symbol}(ptr, i64, i64, i64, i64, i64, ptr, i64, {lanes.number})\n",
        *(write_tile(tile, tiles[0].rows) for tile in tiles),
        _write_packing(f"{name}_heads", tiles[0]),
        _write_tasks(f"{name}_tasks", tiles, masking),
        _write_attention(name, tiles[0], masking),
    ]
    return "\n".join(texts)


@dataclass(frozen=True, slots=True)
class _Masking:
    """The function for the softmax, and the LLVM type of a mask's elements."""

    symbol: str
    element: str


def _context(lanes: Lanes) -> list[tuple[str, str]]:
    words = (*(f"ptr %{name}" for name in (*ARRAYS, MASK)), *NUMBERS, f"{lanes.number} %scale")
    return [split(one) for one in words]


_DERIVED = ("%key.panels", "%value.panels", "%key.size", "%head.size", "%blocks")
"""What all tasks use, worked out once: panels, elements of packed keys, and of keys and values, and
how many tasks a head is."""


def _write_attention(name: str, tile: Tile, masking: _Masking) -> str:
    """The function that others call."""
    lanes = tile.lanes
    params = (*array_parameters(*ARRAYS, MASK), *NUMBERS, f"{lanes.number} %scale")
    function = Function(name, params)
    function.open_arrays(lanes.number, *ARRAYS)
    function.open_arrays(masking.element, MASK)
    key_panels = function.quotient("%keys", tile.width)
    value_panels = function.quotient("%columns", tile.width)
    key_size = function.mul(key_panels, "%features", tile.width)
    head_size = function.add(key_size, function.mul(value_panels, "%keys", tile.width))
    blocks = function.quotient("%queries", tile.rows * _TILES_PER_TASK)
    words: list[tuple[str, Number]] = list(_context(lanes))
    words += [("i64", one) for one in (key_panels, value_panels, key_size, head_size, blocks)]
    context = function.context(words)
    groups = function.binary("sdiv", "%heads", "%shared")
    numbers = function.mul("%keys", function.add("%features", "%columns"), "%heads")
    steps = function.binary("sdiv", function.mul(numbers, "%queries"), _OPERATIONS_PER_STEP)
    scores = function.mul("%heads", "%queries", "%keys", _SOFTMAX_WORK)
    for body, count, work in (
        ("heads", groups, numbers),
        ("tasks", function.mul("%heads", blocks), function.add(steps, scores)),
    ):
        function.do(
            f"call void @jc_parallel(ptr @{name}_{body}, ptr {context}, i64 0, i64 {count}, "
            f"i64 {work})"
        )
    return function.text()


def _start_body(name: str, lanes: Lanes) -> Function:
    """A body of a parallel loop, with all names that its context holds."""
    function = Function(name, ("ptr %context", "i64 %first", "i64 %last"), "internal")
    function.open_context([*_context(lanes), *(("i64", one) for one in _DERIVED)])
    return function


def _head(
    function: Function, element: str, array: str, head: Number, heads: Number = "%inner"
) -> Word:
    """The address of a head's first row; there are ``heads`` along the second axis."""
    outer = function.mul(function.binary("sdiv", head, heads), f"%{array}.outer")
    inner = function.mul(function.binary("srem", head, heads), f"%{array}.inner")
    return function.place(f"%{array}", function.add(outer, inner), element)


# Packing ----------------------------------------------------------------------------------


def _write_packing(name: str, tile: Tile) -> str:
    """The body of the loop over the keys' heads that packs them and their values."""
    lanes = tile.lanes
    function = _start_body(name, lanes)
    heads = function.binary("sdiv", "%inner", "%shared")
    with function.loop("%first", "%last") as head:
        target = function.place("%packed", function.mul(head, "%head.size"), lanes.number)
        keys, values = (
            _head(function, lanes.number, array, head, heads) for array in ("key", "value")
        )
        _pack_keys(function, tile, keys, target)
        _pack_values(function, tile, values, function.place(target, "%key.size", lanes.number))
    return function.text()


def _pack_keys(function: Function, tile: Tile, keys: Word, target: Word) -> None:
    """(keys, features) as (panels, features, width), with zeros in the last panel."""
    number = tile.lanes.number
    with function.loop(0, "%key.panels") as panel:
        key = function.mul(panel, tile.width)
        first = function.place(keys, function.mul(key, "%key.row"), number)
        rows = (first, "%key.row", function.sub("%keys", key))
        packed = function.place(target, function.mul(key, "%features"), number)
        pack_panel(function, tile, rows, "%features", packed, lambda _, feature: feature)


def _pack_values(function: Function, tile: Tile, values: Word, target: Word) -> None:
    """(keys, columns) as (panels, keys, width), with zeros in the last panel."""
    lanes = tile.lanes
    with function.loop(0, "%value.panels") as panel:
        first = function.mul(panel, tile.width)
        masks = [
            lanes.below(function, function.sub("%columns", function.add(first, start)))
            for start in range(0, tile.width, lanes.count)
        ]
        with function.loop(0, "%keys") as key:
            row = function.add(function.mul(key, "%value.row"), first)
            entry = function.mul(function.add(function.mul(panel, "%keys"), key), tile.width)
            for vector, mask in enumerate(masks):
                start = vector * lanes.count
                place = function.place(values, function.add(row, start), lanes.number)
                value = lanes.load(function, place, mask)
                place = function.place(target, function.add(entry, start), lanes.number)
                lanes.store(function, value, place)


# Tasks ------------------------------------------------------------------------------------


def _write_tasks(name: str, tiles: Sequence[Tile], masking: _Masking) -> str:
    """The body of the loop over tasks: some queries of one head."""
    tile = tiles[0]
    lanes, step = tile.lanes, tile.rows * _TILES_PER_TASK
    function = _start_body(name, lanes)
    padded = function.mul("%key.panels", tile.width)
    scores = function.let(f"alloca {lanes.number}, i64 {function.mul(padded, tile.rows)}, align 64")
    table = function.slot(f"[{tile.rows} x ptr]")
    with function.loop("%first", "%last") as task:
        head = function.binary("sdiv", task, "%blocks")
        start = function.mul(function.binary("srem", task, "%blocks"), step)
        end = function.smaller(function.add(start, step), "%queries")
        with function.loop(start, end, tile.rows) as row:
            _attend(function, tiles, masking, (table, scores, padded), (head, row, end))
    return function.text()


def _attend(
    function: Function,
    tiles: Sequence[Tile],
    masking: _Masking,
    memory: tuple[Word, Word, Number],
    place: tuple[Number, Number, Number],
) -> None:
    """The results of one tile's rows: a head, the first row, and the end of the rows."""
    table, scores, padded = memory
    head, row, end = place
    lanes = tiles[0].lanes
    rows = function.smaller(tiles[0].rows, function.sub(end, row))
    seen = function.smaller("%keys", function.add(row, rows))
    is_causal = function.compare("ne", "%causal", 0)
    keys = function.let(f"select i1 {is_causal}, i64 {seen}, i64 %keys")
    queries = function.place(
        _head(function, lanes.number, "query", head), function.mul(row, "%query.row"), lanes.number
    )
    group = function.binary("sdiv", head, "%shared")
    packed = function.place("%packed", function.mul(group, "%head.size"), lanes.number)
    values = function.place(packed, "%key.size", lanes.number)
    out = function.mul(function.add(function.mul(head, "%queries"), row), "%columns")

    fill_table(function, tiles[0], table, (queries, "%query.row", rows))
    sizes = (rows, "%features", keys, "%features")
    _multiply(function, tiles, table, (packed, scores, padded), sizes)
    numbers = ", ".join(f"i64 {one}" for one in (rows, padded, keys, row, "%causal"))
    masks = _head(function, masking.element, MASK, head)
    mask = function.place(masks, function.mul(row, f"%{MASK}.row"), masking.element)
    rest = f"ptr {mask}, i64 %{MASK}.row, {lanes.number} %scale"
    function.let(f"call i64 @{masking.symbol}(ptr {scores}, {numbers}, {rest})")
    fill_table(function, tiles[0], table, (scores, padded, rows))
    sizes = (rows, keys, "%columns", "%keys")
    results = function.place("%out", out, lanes.number)
    _multiply(function, tiles, table, (values, results, "%columns"), sizes)


def _multiply(
    function: Function,
    tiles: Sequence[Tile],
    table: Word,
    arrays: tuple[Word, Word, Number],
    sizes: tuple[Number, Number, Number, Number],
) -> None:
    """Write the product of some rows with a packed matrix.

    Parameters
    ----------
    function : Function
    tiles : sequence of Tile
    table : Word
        The addresses of the rows.
    arrays : tuple
        The packed matrix, where to write, and how many elements rows are apart there.
    sizes : tuple of Number
        How many rows, terms and columns there are, and how many terms the panels have room for.
    """
    packed, out, apart = arrays
    rows, terms, columns, room = sizes
    tile = tiles[0]
    number = tile.lanes.number
    with function.loop(0, function.quotient(columns, tile.width)) as panel:
        first = function.mul(panel, tile.width)
        args = [
            f"ptr {table}",
            f"ptr {function.place(packed, function.mul(first, room), number)}",
            "ptr null",
            "ptr null",
            f"ptr {function.place(out, first, number)}",
            f"i64 {apart}",
            "i64 1",
            f"i64 {terms}",
            "i64 0",
            f"i64 {rows}",
            f"i64 {function.smaller(tile.width, function.sub(columns, first))}",
            f"{number} 0xFFF0000000000000",
            f"{number} 0x7FF0000000000000",
        ]
        call_tile(function, tiles, rows, ", ".join(args))


for _dtype in ("float32", "float64"):
    for _mask in softmax.MASKS:
        add_library(symbol(_dtype, _mask), partial(_module_text, _dtype, _mask), "registers")
