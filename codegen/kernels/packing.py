"""Matrices in the panels that kernels of products read: ``jc_packed_<dtype>_<vectors>``.

Rows of the weights become columns of panels.  Blocks of as many rows and elements as vectors have
lanes are transposed in registers, so that every number is read and written once, in whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from jitcore.codegen.engine import add_library
from jitcore.codegen.kernels.assembler import (
    Function,
    Number,
    Word,
    array_parameters,
    split,
)
from jitcore.codegen.kernels.tiles import Lanes, Tile, declarations, lanes_of

__all__ = ["pack_panel", "symbol"]

ARRAYS = ("weight", "packed")

NUMBERS = ("i64 %groups", "i64 %columns", "i64 %channels", "i64 %taps")
"""The parameters after those of the arrays.

``weight`` is (groups * columns, channels, taps) without gaps, and ``packed`` gets (groups, panels,
taps, channels, width), with zeros for the columns that the last panel of a group has not.
"""


def symbol(dtype: str, vectors: int) -> str:
    """The name of the function for panels of so many vectors."""
    return f"jc_packed_{dtype}_{vectors}"


def _module_text(dtype: str, vectors: int) -> str:
    lanes = lanes_of(dtype)
    tile = Tile(lanes, lanes.tiles[vectors][0], vectors)
    name = symbol(dtype, vectors)
    texts = [
        declarations(lanes),
        "declare void @jc_parallel(ptr, ptr, i64, i64, i64)\n",
        _write_tasks(f"{name}_tasks", tile),
        _write_packing(name, tile),
    ]
    return "\n".join(texts)


def _context() -> list[tuple[str, Word]]:
    words = (*(f"ptr %{name}" for name in ARRAYS), *NUMBERS, "i64 %panels", "i64 %length")
    return [split(one) for one in words]


def _write_packing(name: str, tile: Tile) -> str:
    """The function that others call."""
    function = Function(name, (*array_parameters(*ARRAYS), *NUMBERS))
    function.open_arrays(tile.lanes.number, *ARRAYS)
    panels = function.quotient("%columns", tile.width)
    length = function.mul("%channels", "%taps")
    known = {"%panels": str(panels), "%length": str(length)}
    context = function.context([(type_, known.get(word, word)) for type_, word in _context()])
    tasks = function.mul("%groups", panels)
    work = function.mul("%groups", "%columns", length)
    function.do(
        f"call void @jc_parallel(ptr @{name}_tasks, ptr {context}, i64 0, i64 {tasks}, i64 {work})"
    )
    return function.text()


def _write_tasks(name: str, tile: Tile) -> str:
    """The body of the loop over panels."""
    number = tile.lanes.number
    function = Function(name, ("ptr %context", "i64 %first", "i64 %last"), "internal")
    function.open_context(_context())
    with function.loop("%first", "%last") as task:
        group = function.binary("sdiv", task, "%panels")
        column = function.mul(function.binary("srem", task, "%panels"), tile.width)
        row = function.add(function.mul(group, "%columns"), column)
        first = function.place("%weight", function.mul(row, "%length"), number)
        target = function.place("%packed", function.mul(task, "%length", tile.width), number)
        rows = function.sub("%columns", column)
        pack_panel(function, tile, (first, "%length", rows), "%length", target, _by_taps)
    return function.text()


def _by_taps(function: Function, element: Number) -> Number:
    """Where an element of a row of the weights goes: channels of one tap side by side."""
    tap = function.binary("urem", element, "%taps")
    return function.add(function.mul(tap, "%channels"), function.binary("udiv", element, "%taps"))


def pack_panel(
    function: Function,
    tile: Tile,
    matrix: tuple[Word, Number, Number],
    length: Number,
    target: Word,
    place: Callable[[Function, Number], Number],
) -> None:
    """Write the transpose of some rows of a matrix, as many as a panel has columns.

    Parameters
    ----------
    function : Function
    tile : Tile
        Says how wide the panel is.
    matrix : tuple
        The first row, how many elements rows are apart, and how many there are; where those are
        too few, the panel has zeros.
    length : Number
        How many elements a row has.
    target : Word
        The panel.
    place : callable
        Gives the row of the panel that an element goes to.
    """
    first, apart, count = matrix
    lanes = tile.lanes
    final = function.sub(count, 1)
    rows = [
        function.place(first, function.mul(function.smaller(number, final), apart), lanes.number)
        for number in range(tile.width)
    ]
    masks = [
        lanes.below(function, function.sub(count, vector * lanes.count))
        for vector in range(tile.vectors)
    ]
    with function.loop(0, length, lanes.count) as start:
        left = function.sub(length, start)
        mask = lanes.below(function, left)
        places = [place(function, function.add(start, lane)) for lane in range(lanes.count)]
        for vector, columns in enumerate(masks):
            own = rows[vector * lanes.count : (vector + 1) * lanes.count]
            block = [
                lanes.load(function, function.place(row, start, lanes.number), mask) for row in own
            ]
            for lane, column in enumerate(_transposed(function, lanes, block)):
                entry = function.mul(places[lane], tile.width)
                here = function.add(entry, vector * lanes.count)
                with function.when(function.compare("sgt", left, lane)):
                    found = function.let(
                        f"select <{lanes.count} x i1> {columns}, {lanes.vector} {column}, "
                        f"{lanes.vector} zeroinitializer"
                    )
                    lanes.store(function, found, function.place(target, here, lanes.number))


def _transposed(function: Function, lanes: Lanes, rows: Sequence[Word]) -> list[Word]:
    """As many vectors as they have lanes, transposed: blocks of 2, 4 and so on change places."""
    vectors, step = list(rows), 1
    while step < lanes.count:
        every = range(lanes.count)
        upper = [lane + lanes.count - step if lane & step else lane for lane in every]
        lower = [lane + lanes.count if lane & step else lane + step for lane in every]
        for number in (one for one in every if not one & step):
            pair = vectors[number], vectors[number + step]
            vectors[number] = _shuffled(function, lanes, pair, upper)
            vectors[number + step] = _shuffled(function, lanes, pair, lower)
        step *= 2
    return vectors


def _shuffled(
    function: Function, lanes: Lanes, pair: tuple[Word, Word], places: Sequence[int]
) -> Word:
    """Lanes of two vectors by their number in both."""
    mask = ", ".join(f"i32 {one}" for one in places)
    operands = ", ".join(f"{lanes.vector} {one}" for one in pair)
    return function.let(f"shufflevector {operands}, <{lanes.count} x i32> <{mask}>")


for _dtype in ("float32", "float64"):
    for _vectors in (1, 2, 3, 4):
        _text = partial(_module_text, _dtype, _vectors)
        add_library(symbol(_dtype, _vectors), _text, "registers")
