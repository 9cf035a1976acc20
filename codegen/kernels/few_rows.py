"""Products of few rows and a large matrix: ``jc_few_rows_<dtype>``, and one for each count of rows.

The matrix is read once, and as it lies: to pack it would take most of the time.  A tile has all of
the rows and some vectors of columns; a few terms pass, and it adds to the result.  While it does,
its columns in the rows that follow are asked for, since no core foresees loads of so many rows.

Memory is fast where it is read from end to end, so each task has many columns and some of the
terms.  Its sums are its own.  They are added up in the end, in order, and the extents alone say how
the terms are divided: the number of threads changes no bit.
"""

from __future__ import annotations

from functools import partial, reduce

from jitcore.codegen.engine import add_library
from jitcore.codegen.kernels.assembler import Function, Number, Word, split
from jitcore.codegen.kernels.gemm import (
    DTYPES,
    PARAMETERS,
    call_blas,
    open_matrices,
    rounded,
    run,
)
from jitcore.codegen.kernels.gemm import declarations as shared_declarations
from jitcore.codegen.kernels.tiles import Lanes, declarations, lanes_of
from jitcore.codegen.runtime.blas import ensure_blas

__all__ = ["are_never_few", "most_rows", "symbol"]

_LEAST_NUMBERS = 1 << 18
_LEAST_VECTORS = 3
"""In ``y``, and in a row of it, for that to pay."""

_LEAST_DEPTH = 8
"""Rows of ``y`` that a tile reads, or twice its own, as high tiles take longer to write.  Numbers
are asked for as many rows before their use."""

_SECOND_CACHE = 2
"""How ``llvm.prefetch`` names it."""

_BLOCK_BYTES = 1 << 13
"""Of a row of ``y`` in one task, so that few pages are read, and sums stay in the second cache."""

_TASKS = 16
_LEAST_TERMS = 32
"""In a task: less would be spent on adding up."""

_KNOWN = (
    "ptr %x",
    "i64 %x.rows",
    "i64 %x.columns",
    "ptr %y",
    "i64 %y.rows",
    "ptr %z",
    "ptr %others",
    "i64 %m",
    "i64 %n",
    "i64 %k",
    "i64 %depth",
    "i64 %parts",
    "i64 %terms.per.part",
    "i64 %blocks",
    "i64 %columns.per.block",
)
"""What all tasks know: the matrices, where the sums of all parts of the terms but the first are,
how many terms a tile takes, and how terms and columns are divided."""


def symbol(dtype: str, rows: int | None) -> str:
    """The name of the function for a number of rows, or for any that are few."""
    return f"jc_few_rows_{dtype}" + ("" if rows is None else f"_{rows}")


def most_rows(lanes: Lanes) -> int:
    """How many rows are few: as many as a tile of the least width has."""
    return lanes.tiles[_LEAST_VECTORS][0]


def are_never_few(dtype: str, rows: int | None, terms: int | None, columns: int | None) -> bool:
    """Whether known extents say that the product is left to BLAS."""
    lanes = lanes_of(dtype)
    if rows is not None and not 1 < rows <= most_rows(lanes):
        return True
    if columns is not None and columns < _LEAST_VECTORS * lanes.count:
        return True
    return columns is not None and terms is not None and columns * terms < _LEAST_NUMBERS


def _tile(lanes: Lanes, rows: int | None) -> tuple[int, int]:
    """How many rows and columns a tile has."""
    height = most_rows(lanes) if rows is None else rows
    vectors = max(one for one, heights in lanes.tiles.items() if heights[0] >= height)
    return height, vectors * lanes.count


def _module_text(dtype: str, rows: int | None) -> str:
    lanes = lanes_of(dtype)
    blas = ensure_blas(dtype)
    other = "matmul" if blas is not None and blas.is_narrow else "gemm"
    texts = [
        declarations(lanes),
        shared_declarations(dtype, other),
        _write_tasks(lanes, rows),
        _write_sums(lanes),
        _write_product(lanes, rows, other),
    ]
    return "\n".join(texts)


def _write_product(lanes: Lanes, rows: int | None, other: str) -> str:
    """The function that others call."""
    function = Function(symbol(lanes.dtype, rows), PARAMETERS)
    open_matrices(function, lanes)
    numbers = function.mul("%n", "%k")
    suits = [
        function.compare("sge", "%n", _LEAST_VECTORS * lanes.count),
        function.compare("eq", "%y.columns", 1),
        function.compare("sge", numbers, _LEAST_NUMBERS),
    ]
    if rows is None:
        suits.append(function.compare("sgt", "%m", 1))
        suits.append(function.compare("sle", "%m", most_rows(lanes)))
    is_left = function.let(f"xor i1 {reduce(lambda x, y: _both(function, x, y), suits)}, true")
    with function.when(is_left):
        call_blas(function, lanes, other)
        function.leave()
    _divide(function, lanes, _tile(lanes, rows)[1])
    sums = function.mul("%m", "%n")
    more = function.mul(function.sub("%parts", 1), sums)
    size = function.larger(function.mul(more, lanes.itemsize), 1)
    function.do(f"%others = call ptr @jc_malloc(i64 {size})")
    with function.when(function.let("icmp eq ptr %others, null")):
        call_blas(function, lanes, other)
        function.leave()
    context = function.context(list(map(split, _KNOWN)))
    run(function, "tasks", context, function.mul("%parts", "%blocks"), numbers)
    with function.when(function.compare("sgt", "%parts", 1)):
        run(function, "sums", context, function.quotient(sums, lanes.count), more)
    function.do("call void @jc_free(ptr %others)")
    return function.text()


def _both(function: Function, x: Word, y: Word) -> Word:
    return function.let(f"and i1 {x}, {y}")


def _divide(function: Function, lanes: Lanes, width: int) -> None:
    """Define how terms and columns are divided; neither the tile nor the threads change a sum."""
    blocks = function.quotient("%n", _BLOCK_BYTES // lanes.itemsize)
    parts = function.smaller(
        function.quotient(_TASKS, blocks), function.quotient("%k", _LEAST_TERMS)
    )
    depth = function.larger(function.mul("%m", 2), _LEAST_DEPTH)
    columns = rounded(function, function.quotient("%n", blocks), width)
    terms = rounded(function, function.quotient("%k", parts), depth)
    for name, value in (
        ("depth", depth),
        ("parts", function.quotient("%k", terms)),
        ("terms.per.part", terms),
        ("blocks", function.quotient("%n", columns)),
        ("columns.per.block", columns),
    ):
        function.do(f"%{name} = add i64 {value}, 0")


def _task(name: str) -> Function:
    function = Function(name, ("ptr %context", "i64 %first", "i64 %last"), "internal")
    function.open_context(list(map(split, _KNOWN)))
    return function


def _write_tasks(lanes: Lanes, rows: int | None) -> str:
    """Some tasks: a few terms of all columns of a block, and then the next terms."""
    function = _task("tasks")
    height, width = _tile(lanes, rows)
    final = function.sub("%m", 1)
    # Where there are less rows, the last one is multiplied several times.
    places = [function.mul(function.smaller(row, final), "%x.rows") for row in range(height)]
    ahead = function.mul("%y.rows", "%depth")
    with function.loop("%first", "%last") as task:
        part = function.binary("sdiv", task, "%blocks")
        block = function.sub(task, function.mul(part, "%blocks"))
        start = function.mul(part, "%terms.per.part")
        stop = function.smaller(function.add(start, "%terms.per.part"), "%k")
        left = function.mul(block, "%columns.per.block")
        right = function.smaller(function.add(left, "%columns.per.block"), "%n")
        sums = _sums_of(function, lanes, part)
        with function.loop(start, stop, "%depth") as term:
            terms = function.smaller("%depth", function.sub(stop, term))
            adds = function.compare("ne", term, start)
            x = function.place("%x", function.mul(term, "%x.columns"), lanes.number)
            lines = [function.place(x, place, lanes.number) for place in places]
            y = function.place("%y", function.mul(term, "%y.rows"), lanes.number)
            with function.loop(left, right, width) as column:
                masks = [
                    lanes.below(function, function.sub(right, function.add(column, vector)))
                    for vector in range(0, width, lanes.count)
                ]
                panel = function.place(y, column, lanes.number)
                tile = _multiply(function, lanes, lines, panel, masks, terms, ahead)
                for number, row in enumerate(tile):
                    place = function.add(function.mul("%n", number), column)
                    target = function.place(sums, place, lanes.number)
                    with function.when(function.compare("slt", number, "%m")):
                        _write(function, lanes, row, target, masks, adds)
    return function.text()


def _sums_of(function: Function, lanes: Lanes, part: Number) -> Word:
    """Where a part's sums are: those of the first part are the result's."""
    before = function.mul(function.sub(part, 1), "%m", "%n")
    other = function.place("%others", before, lanes.number)
    is_first = function.compare("eq", part, 0)
    return function.let(f"select i1 {is_first}, ptr %z, ptr {other}")


def _multiply(
    function: Function,
    lanes: Lanes,
    lines: list[Word],
    panel: Word,
    masks: list[Word],
    terms: Number,
    ahead: Number,
) -> list[list[Word]]:
    """The variables with a tile's sums, by row and vector."""
    tile = [[function.slot(lanes.vector, "zeroinitializer") for _ in masks] for _ in lines]
    with function.loop(0, terms) as term:
        here = function.place(panel, function.mul(term, "%y.rows"), lanes.number)
        next_rows = function.place(here, ahead, lanes.number)
        columns = []
        for vector, mask in enumerate(masks):
            place = function.place(next_rows, vector * lanes.count, lanes.number)
            function.do(
                f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 {_SECOND_CACHE}, i32 1)"
            )
            place = function.place(here, vector * lanes.count, lanes.number)
            columns.append(lanes.load(function, place, mask))
        for line, row in zip(lines, tile, strict=True):
            place = function.place(line, function.mul(term, "%x.columns"), lanes.number)
            factor = lanes.filled(function, function.load(lanes.number, place))
            for total, column in zip(row, columns, strict=True):
                before = function.load(lanes.vector, total)
                after = lanes.multiply_add(function, factor, column, before)
                function.store(lanes.vector, after, total)
    return tile


def _write(
    function: Function,
    lanes: Lanes,
    row: list[Word],
    target: Word,
    masks: list[Word],
    adds: Word,
) -> None:
    """Write a row of a tile, or add it to what is there."""
    mask_type = f"<{lanes.count} x i1>"
    for vector, (total, mask) in enumerate(zip(row, masks, strict=True)):
        place = function.place(target, vector * lanes.count, lanes.number)
        is_added = function.let(
            f"select i1 {adds}, {mask_type} {mask}, {mask_type} zeroinitializer"
        )
        before = lanes.load(function, place, is_added)
        more = function.load(lanes.vector, total)
        after = function.let(f"fadd {lanes.vector} {before}, {more}")
        lanes.store(function, after, place, mask)


def _write_sums(lanes: Lanes) -> str:
    """Add all parts to the first one, some vectors of it."""
    function = _task("sums")
    count = function.mul("%m", "%n")
    with function.loop("%first", "%last") as vector:
        place = function.mul(vector, lanes.count)
        mask = lanes.below(function, function.sub(count, place))
        target = function.place("%z", place, lanes.number)
        total = function.slot(lanes.vector, lanes.load(function, target, mask))
        with function.loop(1, "%parts") as part:
            other = function.place(_sums_of(function, lanes, part), place, lanes.number)
            more = lanes.load(function, other, mask)
            before = function.load(lanes.vector, total)
            after = function.let(f"fadd {lanes.vector} {before}, {more}")
            function.store(lanes.vector, after, total)
        lanes.store(function, function.load(lanes.vector, total), target, mask)
    return function.text()


for _dtype in DTYPES:
    for _rows in (None, *range(2, most_rows(lanes_of(_dtype)) + 1)):
        add_library(symbol(_dtype, _rows), partial(_module_text, _dtype, _rows), "registers")
