"""Products of large matrices with the machine's widest vectors: ``jc_matmul_<dtype>``.

The loops around the innermost kernel are Goto and van de Geijn's ("Anatomy of High-Performance
Matrix Multiplication", 2008): a block of ``y`` is packed in panels that the last cache holds, rows
of ``x`` are packed for a core's second cache, and a tile of the result stays in registers while the
terms of a chunk pass.  A block's rows take a few panels at a time, which the second cache
holds, too.  Each sum adds the terms of a chunk one after the other and then the chunks,
whose length is that of OpenBLAS's AVX2 kernels; so as a rule float64 has their bits.

Where ``x`` has no more rows than a tile, ``y`` is read only once, and packing it would take most of
the time.  Tiles then read a few of its rows side by side, and add to the result more often.
"""

from __future__ import annotations

from functools import partial, reduce

from jitcore.codegen.engine import add_library
from jitcore.codegen.kernels.assembler import Function, Number, Word, split
from jitcore.codegen.kernels.matrix_tiles import (
    tile_rows,
    tile_width,
    write_tile,
    write_unpacked_tile,
)
from jitcore.codegen.kernels.tiles import Lanes, declarations, lanes_of

__all__ = ["DTYPES", "symbol"]

DTYPES = ("float32", "float64")

_CHUNK = {"float32": 384, "float64": 256}
"""Terms that are added in registers."""

_FEW_TERMS = 16
"""Rows of ``y`` that are read side by side."""

_LEAST_NUMBERS = 1 << 18
"""In ``y``, for that to pay."""

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

_MATRICES = tuple(
    parameter
    for name in ("x", "y")
    for parameter in (
        f"ptr %{name}.memory",
        f"i64 %{name}.offset",
        f"i64 %{name}.rows",
        f"i64 %{name}.columns",
    )
)
_PARAMETERS = ("i64 %m", "i64 %n", "i64 %k", *_MATRICES, "ptr %z.memory", "i64 %z.offset")
"""Those of ``jc_gemm_<dtype>``."""

_GIVEN = (
    "ptr %x",
    "i64 %x.rows",
    "i64 %x.columns",
    "ptr %y",
    "i64 %y.rows",
    "i64 %y.columns",
    "ptr %z",
    "i64 %m",
    "i64 %n",
)
_KNOWN = (*_GIVEN, "ptr %left", "ptr %right", "i64 %rows.per.block", "i64 %is.symmetric")
"""What all tasks know: the matrices, where parts of ``x`` and ``y`` are packed, how many rows a
block has, and whether the product is that of a matrix and its transpose."""

_PACKED = ("i64 %first.term", "i64 %terms", "i64 %first.column", "i64 %columns")
"""What changes: which terms are packed, and which columns of ``y``."""


def symbol(dtype: str, *, has_tiles: bool = True) -> str:
    """The name of the function; without tiles it leaves all but few rows to BLAS."""
    return f"jc_{'matmul' if has_tiles else 'few_rows'}_{dtype}"


def are_never_few_rows(
    dtype: str, rows: int | None, terms: int | None, columns: int | None
) -> bool:
    """Whether known extents say that the function without tiles leaves a product to BLAS."""
    lanes = lanes_of(dtype)
    if rows is not None and not 1 < rows <= tile_rows(lanes):
        return True
    if columns is not None and columns < tile_width(lanes):
        return True
    return columns is not None and terms is not None and columns * terms < _LEAST_NUMBERS


def _module_text(dtype: str, has_tiles: bool) -> str:
    lanes = lanes_of(dtype)
    types = ", ".join(one.split()[0] for one in _PARAMETERS)
    texts = [
        declarations(lanes),
        "declare void @jc_parallel(ptr, ptr, i64, i64, i64)\n",
        "declare ptr @jc_malloc(i64)\n",
        "declare void @jc_free(ptr)\n",
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n",
        f"declare void @jc_gemm_{dtype}({types})\n",
        write_unpacked_tile(lanes),
        _write_few_rows(lanes),
    ]
    if has_tiles:
        others = write_tile, _write_right_panels, _write_row_blocks, _write_mirror, _write_product
        texts += [write(lanes) for write in others]
    else:
        texts.append(_write_product_of_few_rows(lanes))
    return "\n".join(texts)


def _product_function(lanes: Lanes, *, has_tiles: bool) -> Function:
    """The beginning of a function that others call, which returns where the rows are few."""
    function = Function(symbol(lanes.dtype, has_tiles=has_tiles), _PARAMETERS)
    for name in ("x", "y", "z"):
        place = f"ptr %{name}.memory, i64 %{name}.offset"
        function.do(f"%{name} = getelementptr {lanes.number}, {place}")
    _multiply_few_rows(function, lanes)
    return function


def _write_product_of_few_rows(lanes: Lanes) -> str:
    """The function for machines on which BLAS uses all of the vectors."""
    function = _product_function(lanes, has_tiles=False)
    _call_blas(function, lanes)
    return function.text()


def _write_product(lanes: Lanes) -> str:
    """The function that others call: chunks of terms of blocks of columns."""
    rows, width = tile_rows(lanes), tile_width(lanes)
    chunk = _CHUNK[lanes.dtype]
    function = _product_function(lanes, has_tiles=True)
    _leave_to_blas(function, lanes)
    blocks = function.quotient("%n", _PACKED_BYTES // (chunk * lanes.itemsize))
    columns_at_once = _rounded(function, function.quotient("%n", blocks), width)
    many = function.mul(function.quotient("%m", _BLOCKS * _ROWS_PER_BLOCK), _BLOCKS)
    per_block = _rounded(function, function.quotient("%m", many), rows)
    row_blocks = function.quotient("%m", per_block)
    left_numbers = function.mul(row_blocks, per_block, chunk)
    numbers = function.add(left_numbers, function.mul(columns_at_once, chunk))
    size = function.mul(numbers, lanes.itemsize)
    function.do(f"%left = call ptr @jc_malloc(i64 {size})")
    with function.when(function.let("icmp eq ptr %left, null")):
        _call_blas(function, lanes)
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
            _run(function, "pack_right", context, panels, function.mul(terms, columns))
            multiplications = function.mul("%m", terms, columns)
            work = function.binary("sdiv", multiplications, _MULTIPLICATIONS_PER_STEP)
            _run(function, "row_blocks", context, row_blocks, work)
            function.store("i64", function.add(term, terms), done)
    with function.when(function.compare("ne", "%is.symmetric", 0)):
        _run(function, "mirror", context, row_blocks, function.mul("%m", "%n"))
    function.do("call void @jc_free(ptr %left)")
    return function.text()


def _multiply_few_rows(function: Function, lanes: Lanes) -> None:
    """Return with the product where one tile has all of its rows, and ``y`` lies by rows."""
    numbers = function.mul("%n", "%k")
    suits = [
        function.compare("sgt", "%m", 1),
        function.compare("sle", "%m", tile_rows(lanes)),
        function.compare("sge", "%n", tile_width(lanes)),
        function.compare("eq", "%y.columns", 1),
        function.compare("sge", numbers, _LEAST_NUMBERS),
    ]
    with function.when(reduce(lambda x, y: function.let(f"and i1 {x}, {y}"), suits)):
        absent: list[tuple[str, Number]] = [("i64", 0)] * (len(_KNOWN) + len(_PACKED) - len(_GIVEN))
        context = function.context([*map(split, _GIVEN), *absent])
        packed: tuple[Number, ...] = (0, "%k", 0, "%n")
        for word, value in enumerate(packed, len(_KNOWN)):
            function.store("i64", value, function.place(context, word))
        _run(function, "few_rows", context, function.quotient("%n", tile_width(lanes)), numbers)
        function.leave()


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
            _call_blas(function, lanes)
            function.leave()


def _call_blas(function: Function, lanes: Lanes) -> None:
    function.do(f"call void @jc_gemm_{lanes.dtype}({', '.join(_PARAMETERS)})")


def _chunk_length(function: Function, left: Number, chunk: int) -> Number:
    """A whole chunk, or half of what is left where that would be less than another one."""
    half = function.binary("sdiv", function.add(left, 1), 2)
    is_long = function.compare("sge", left, 2 * chunk)
    is_short = function.compare("sle", left, chunk)
    last = function.let(f"select i1 {is_short}, i64 {left}, i64 {half}")
    return function.let(f"select i1 {is_long}, i64 {chunk}, i64 {last}")


def _rounded(function: Function, x: Number, step: int) -> Number:
    """``x``, rounded up to a multiple of ``step``."""
    return function.mul(function.quotient(x, step), step)


def _run(function: Function, body: str, context: Word, count: Number, work: Number) -> None:
    function.do(
        f"call void @jc_parallel(ptr @{body}, ptr {context}, i64 0, i64 {count}, i64 {work})"
    )


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


def _write_few_rows(lanes: Lanes) -> str:
    """Some panels of columns of a product with few rows: a few rows of ``y`` after the other."""
    rows, width = tile_rows(lanes), tile_width(lanes)
    function = _task("few_rows")
    with (
        function.loop(0, "%terms", _FEW_TERMS) as term,
        function.loop("%first", "%last") as panel,
    ):
        column = function.mul(panel, width)
        x = function.place("%x", function.mul(term, "%x.columns"), lanes.number)
        y = function.place("%y", function.add(function.mul(term, "%y.rows"), column), lanes.number)
        args = [
            f"ptr {x}",
            "i64 %x.rows",
            "i64 %x.columns",
            f"ptr {y}",
            "i64 %y.rows",
            f"ptr {function.place('%z', column, lanes.number)}",
            "i64 %n",
            f"i64 {function.smaller(_FEW_TERMS, function.sub('%terms', term))}",
            f"i64 {function.smaller(rows, '%m')}",
            f"i64 {function.smaller(width, function.sub('%n', column))}",
            f"i1 {function.compare('ne', term, 0)}",
        ]
        function.do(f"call void @unpacked_tile({', '.join(args)})")
    return function.text()


for _dtype in DTYPES:
    for _has_tiles in (False, True):
        _name = symbol(_dtype, has_tiles=_has_tiles)
        add_library(_name, partial(_module_text, _dtype, _has_tiles), "registers")
