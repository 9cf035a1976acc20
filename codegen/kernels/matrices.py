"""Products of large matrices with the machine's widest vectors: ``jc_matmul_<dtype>``.

The loops around the innermost kernel are Goto and van de Geijn's ("Anatomy of High-Performance
Matrix Multiplication", 2008): a block of ``y`` is packed in panels that the last cache holds, rows
of ``x`` are packed for a core's second cache, and a tile of the result stays in registers while the
terms of a chunk pass.  A block's rows take a few panels at a time, which the second cache
holds, too.  Each sum adds the terms of a chunk one after the other and then the chunks,
whose length is that of OpenBLAS's AVX2 kernels; so as a rule float64 has their bits.
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
from jitcore.codegen.kernels.matrix_tiles import tile_rows, tile_width, write_tile
from jitcore.codegen.kernels.tiles import Lanes, declarations, lanes_of

_CHUNK = {"float32": 384, "float64": 256}
"""Terms that are added in registers."""

_ROWS_PER_BLOCK = 128
_BLOCKS = 8
"""Row blocks at least, so that threads that were slowed down do not hold up the others."""

_PACKED_BYTES = 1 << 22
"""Of a block of ``y``: what the cores' shared cache holds beside other things."""

_GROUP_BYTES = 1 << 19
"""Of the panels that a tile's rows take before the next rows do, out of the second cache: the rows
stay in the first one.  A panel fills that by itself, and where panels stayed while rows passed,
products of 1000 rows took 1.1 (float32) to 1.5 times as long."""

_LEAST_TERMS = 128**3
"""Smaller products are BLAS's, which does not pack them."""

_MULTIPLICATIONS_PER_STEP = 16
"""So many take about as long as an operation on one element takes elsewhere."""

_KNOWN = (
    "ptr %x",
    "i64 %x.rows",
    "i64 %x.columns",
    "ptr %y",
    "i64 %y.rows",
    "i64 %y.columns",
    "ptr %z",
    "i64 %m",
    "i64 %n",
    "ptr %left",
    "ptr %right",
    "i64 %rows.per.block",
    "i64 %is.symmetric",
)
"""What all tasks know: the matrices, where parts of ``x`` and ``y`` are packed, how many rows a
block has, and whether the product is that of a matrix and its transpose."""

_PACKED = ("i64 %first.term", "i64 %terms", "i64 %first.column", "i64 %columns")
"""What changes: which terms are packed, and which columns of ``y``."""


def _module_text(dtype: str) -> str:
    lanes = lanes_of(dtype)
    texts = [
        declarations(lanes),
        shared_declarations(dtype),
        write_tile(lanes),
        _write_right_panels(lanes),
        _write_row_blocks(lanes),
        _write_mirror(lanes),
        _write_product(lanes),
    ]
    return "\n".join(texts)


def _write_product(lanes: Lanes) -> str:
    """The function that others call: chunks of terms of blocks of columns."""
    rows, width = tile_rows(lanes), tile_width(lanes)
    chunk = _CHUNK[lanes.dtype]
    function = Function(f"jc_matmul_{lanes.dtype}", PARAMETERS)
    open_matrices(function, lanes)
    _leave_to_blas(function, lanes)
    blocks = function.quotient("%n", _PACKED_BYTES // (chunk * lanes.itemsize))
    columns_at_once = rounded(function, function.quotient("%n", blocks), width)
    many = function.mul(function.quotient("%m", _BLOCKS * _ROWS_PER_BLOCK), _BLOCKS)
    per_block = rounded(function, function.quotient("%m", many), rows)
    row_blocks = function.quotient("%m", per_block)
    left_numbers = function.mul(row_blocks, per_block, chunk)
    numbers = function.add(left_numbers, function.mul(columns_at_once, chunk))
    size = function.mul(numbers, lanes.itemsize)
    function.do(f"%left = call ptr @jc_malloc(i64 {size})")
    with function.when(function.let("icmp eq ptr %left, null")):
        call_blas(function, lanes)
        function.leave()
    function.do(f"%right = getelementptr {lanes.number}, ptr %left, i64 {left_numbers}")
    function.do(f"%rows.per.block = add i64 {per_block}, 0")
    function.do(f"%is.symmetric = zext i1 {_is_symmetric(function)} to i64")
    nothing: list[tuple[str, Number]] = [("i64", 0)] * len(_PACKED)
    context = function.context([*map(split, _KNOWN), *nothing])
    with function.loop(0, "%n", columns_at_once) as column:
        columns = function.smaller(columns_at_once, function.sub("%n", column))
        done = function.slot("i64", 0)
        with function.while_below(done, "%k") as term:
            terms = _chunk_length(function, function.sub("%k", term), chunk)
            packed = (term, terms, column, columns)
            for word, value in enumerate(packed, len(_KNOWN)):
                function.store("i64", value, function.place(context, word))
            panels = function.quotient(columns, width)
            run(function, "pack_right", context, panels, function.mul(terms, columns))
            multiplications = function.mul("%m", terms, columns)
            work = function.binary("sdiv", multiplications, _MULTIPLICATIONS_PER_STEP)
            run(function, "row_blocks", context, row_blocks, work)
            function.store("i64", function.add(term, terms), done)
    with function.when(function.compare("ne", "%is.symmetric", 0)):
        run(function, "mirror", context, row_blocks, function.mul("%m", "%n"))
    function.do("call void @jc_free(ptr %left)")
    return function.text()


def _is_symmetric(function: Function) -> Word:
    """Whether ``y`` is the transpose of ``x``, in the same memory."""
    same = [
        function.let("icmp eq ptr %x, %y"),
        function.compare("eq", "%m", "%n"),
        function.compare("eq", "%x.rows", "%y.columns"),
        function.compare("eq", "%x.columns", "%y.rows"),
    ]
    return reduce(lambda one, other: function.let(f"and i1 {one}, {other}"), same)


def _leave_to_blas(function: Function, lanes: Lanes) -> None:
    """Return with BLAS's result where tiles would be mostly empty, or packing too much of it."""
    terms = function.mul("%m", "%n", "%k")
    for small in (
        function.compare("slt", "%m", tile_rows(lanes)),
        function.compare("slt", "%n", tile_width(lanes)),
        function.compare("slt", terms, _LEAST_TERMS),
    ):
        with function.when(small):
            call_blas(function, lanes)
            function.leave()


def _chunk_length(function: Function, left: Number, chunk: int) -> Number:
    """A whole chunk, or half of what is left where that would be less than another one."""
    half = function.binary("sdiv", function.add(left, 1), 2)
    is_long = function.compare("sge", left, 2 * chunk)
    is_short = function.compare("sle", left, chunk)
    last = function.let(f"select i1 {is_short}, i64 {left}, i64 {half}")
    return function.let(f"select i1 {is_long}, i64 {chunk}, i64 {last}")


def _task(name: str) -> Function:
    function = Function(name, ("ptr %context", "i64 %first", "i64 %last"), "internal")
    function.open_context([split(one) for one in (*_KNOWN, *_PACKED)])
    return function


def _write_right_panels(lanes: Lanes) -> str:
    """Pack some panels of ``y``: (panels, terms, width), whose last columns may be any numbers."""
    function = _task("pack_right")
    with function.when(function.compare("eq", "%y.columns", 1)):
        _pack_rows(function, lanes)
        function.leave()
    _pack_columns(function, lanes)
    return function.text()


def _panel_start(function: Function, lanes: Lanes, panel: Number) -> tuple[Number, Word]:
    """The first column of a panel in ``y``, and where the panel is packed."""
    inside = function.mul(panel, tile_width(lanes))
    packed = function.place("%right", function.mul(inside, "%terms"), lanes.number)
    return function.add("%first.column", inside), packed


def _pack_rows(function: Function, lanes: Lanes) -> None:
    """By rows, which are read from memory from end to end."""
    width = tile_width(lanes)
    end = function.add("%first.column", "%columns")
    with function.loop(0, "%terms") as term:
        row = function.mul(function.add("%first.term", term), "%y.rows")
        with function.loop("%first", "%last") as panel:
            column, packed = _panel_start(function, lanes, panel)
            source = function.place("%y", function.add(row, column), lanes.number)
            target = function.place(packed, function.mul(term, width), lanes.number)
            left = function.sub(end, column)
            for first in range(0, width, lanes.count):
                mask = lanes.below(function, function.sub(left, first))
                value = lanes.load(function, function.place(source, first, lanes.number), mask)
                lanes.store(function, value, function.place(target, first, lanes.number))


def _pack_columns(function: Function, lanes: Lanes) -> None:
    width = tile_width(lanes)
    final = function.sub(function.add("%first.column", "%columns"), 1)
    with function.loop("%first", "%last") as panel:
        column, packed = _panel_start(function, lanes, panel)
        _gather_lines(
            function,
            lanes,
            [function.smaller(function.add(column, one), final) for one in range(width)],
            ("%y", "%y.columns", "%y.rows"),
            packed,
        )


def _gather_lines(
    function: Function,
    lanes: Lanes,
    numbers: list[Number],
    matrix: tuple[Word, Word, Word],
    packed: Word,
) -> None:
    """Pack some lines of a matrix, given by number, side by side: (terms, lines).

    ``matrix`` is its address, how far lines are apart, and how far the terms in one are.
    """
    memory, apart, step = matrix
    starts = [
        function.place(memory, function.mul(number, apart), lanes.number) for number in numbers
    ]
    with function.loop(0, "%terms") as term:
        place = function.mul(function.add("%first.term", term), step)
        target = function.place(packed, function.mul(term, len(numbers)), lanes.number)
        for number, start in enumerate(starts):
            value = function.load(lanes.number, function.place(start, place, lanes.number))
            function.store(lanes.number, value, function.place(target, number, lanes.number))


def _write_row_blocks(lanes: Lanes) -> str:
    """Some blocks of rows: pack those of ``x``, (tiles, terms, rows), and run all panels."""
    rows, width = tile_rows(lanes), tile_width(lanes)
    function = _task("row_blocks")
    final = function.sub("%m", 1)
    adds = function.compare("ne", "%first.term", 0)
    panels = function.quotient("%columns", width)
    at_once = max(_GROUP_BYTES // (width * _CHUNK[lanes.dtype] * lanes.itemsize), 1)
    with function.loop("%first", "%last") as number:
        start = function.mul(number, "%rows.per.block")
        stop = function.smaller(function.add(start, "%rows.per.block"), "%m")
        with function.loop(start, stop, rows) as row:
            packed = function.place("%left", function.mul(row, "%terms"), lanes.number)
            _gather_lines(
                function,
                lanes,
                [function.smaller(function.add(row, one), final) for one in range(rows)],
                ("%x", "%x.rows", "%x.columns"),
                packed,
            )
        below = function.mul(function.sub(start, "%first.column"), "%is.symmetric")
        first_panel = function.larger(function.binary("sdiv", below, width), 0)
        with (
            function.loop(first_panel, panels, at_once) as group,
            function.loop(start, stop, rows) as row,
            function.loop(group, function.smaller(panels, function.add(group, at_once))) as panel,
        ):
            column, right = _panel_start(function, lanes, panel)
            end = function.add("%first.column", "%columns")
            place = function.add(function.mul(row, "%n"), column)
            args = [
                f"ptr {function.place('%left', function.mul(row, '%terms'), lanes.number)}",
                f"ptr {right}",
                f"ptr {function.place('%z', place, lanes.number)}",
                "i64 %n",
                "i64 %terms",
                f"i64 {function.smaller(rows, function.sub(stop, row))}",
                f"i64 {function.smaller(width, function.sub(end, column))}",
                f"i1 {adds}",
            ]
            function.do(f"call void @tile({', '.join(args)})")
    return function.text()


def _write_mirror(lanes: Lanes) -> str:
    """Fill some blocks of rows of a symmetric product, left of its diagonal, from above that."""
    function = _task("mirror")
    with function.loop("%first", "%last") as number:
        start = function.mul(number, "%rows.per.block")
        stop = function.smaller(function.add(start, "%rows.per.block"), "%m")
        with function.loop(0, stop, lanes.count) as first, function.loop(start, stop) as row:
            end = function.smaller(function.add(first, lanes.count), row)
            with function.loop(first, end) as column:
                above = function.add(function.mul(column, "%n"), row)
                below = function.add(function.mul(row, "%n"), column)
                value = function.load(lanes.number, function.place("%z", above, lanes.number))
                function.store(lanes.number, value, function.place("%z", below, lanes.number))
    return function.text()


for _dtype in DTYPES:
    add_library(f"jc_matmul_{_dtype}", partial(_module_text, _dtype), "registers")
