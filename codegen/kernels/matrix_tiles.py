"""The innermost kernels of products of large matrices: one tile of the result, in registers.

The operands are packed, so that each term's numbers lie side by side.  The function is ``tile``.
"""

from __future__ import annotations

from jitcore.codegen.kernels.assembler import Function, Word
from jitcore.codegen.kernels.tiles import Lanes

__all__ = ["tile_rows", "tile_width", "write_tile"]

_VECTORS = 3
"""A panel's width."""

_TERMS_AHEAD = 8
"""How long before its use a row of a panel is asked for: what the second cache takes."""


def tile_rows(lanes: Lanes) -> int:
    """How many rows a tile has."""
    return lanes.tiles[_VECTORS][0]


def tile_width(lanes: Lanes) -> int:
    """How many columns a tile and a panel have."""
    return _VECTORS * lanes.count


_RESULT = ("ptr noalias %z", "i64 %apart", "i64 %terms", "i64 %rows", "i64 %columns", "i1 %adds")
"""Parameters of tiles: where one is written, whose rows are ``apart``, and what of it; it is added
to what is there where ``adds``."""


def write_tile(lanes: Lanes) -> str:
    """One tile of the result, from a packed tile of rows and a packed panel."""
    function = Function("tile", ("ptr noalias %x", "ptr noalias %y", *_RESULT), "internal")
    rows = tile_rows(lanes)
    for row in range(rows):
        line = function.place("%z", function.mul("%apart", row), lanes.number)
        for vector in range(_VECTORS):
            place = function.place(line, vector * lanes.count, lanes.number)
            _prefetch(function, place, is_written=True)
    sums = _zeros(function, lanes)
    whole = [""] * _VECTORS
    with function.loop(0, "%terms") as term:
        first = function.place("%x", function.mul(term, rows), lanes.number)
        panel = function.place("%y", function.mul(term, tile_width(lanes)), lanes.number)
        for vector in range(_VECTORS):
            ahead = _TERMS_AHEAD * tile_width(lanes) + vector * lanes.count
            _prefetch(function, function.place(panel, ahead, lanes.number), is_written=False)
        factors = [function.place(first, row, lanes.number) for row in range(rows)]
        _multiply(function, lanes, factors, panel, whole, sums)
    with function.when(function.compare("eq", "%columns", tile_width(lanes))):
        _finish(function, lanes, sums, whole)
        function.leave()
    _finish(function, lanes, sums, _masks(function, lanes))
    return function.text()


_Sums = dict[tuple[int, int], Word]
"""The accumulators of a tile, by row and vector."""


def _zeros(function: Function, lanes: Lanes) -> _Sums:
    return {
        (row, vector): function.slot(lanes.vector, "zeroinitializer")
        for row in range(tile_rows(lanes))
        for vector in range(_VECTORS)
    }


def _masks(function: Function, lanes: Lanes) -> list[Word]:
    """Which lanes of a panel's vectors are columns of the result."""
    return [
        lanes.below(function, function.sub("%columns", vector * lanes.count))
        for vector in range(_VECTORS)
    ]


def _prefetch(function: Function, place: Word, *, is_written: bool) -> None:
    function.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 {int(is_written)}, i32 3, i32 1)")


def _multiply(
    function: Function,
    lanes: Lanes,
    factors: list[Word],
    panel: Word,
    masks: list[Word],
    sums: _Sums,
) -> None:
    """Add one term to all sums: a number of each row times a row of the panel."""
    columns = [
        lanes.load(function, function.place(panel, vector * lanes.count, lanes.number), mask)
        for vector, mask in enumerate(masks)
    ]
    for row, place in enumerate(factors):
        factor = lanes.filled(function, function.load(lanes.number, place))
        for vector, column in enumerate(columns):
            total = sums[row, vector]
            before = function.load(lanes.vector, total)
            after = lanes.multiply_add(function, factor, column, before)
            function.store(lanes.vector, after, total)


def _finish(function: Function, lanes: Lanes, sums: _Sums, masks: list[Word]) -> None:
    """Write a tile."""
    for row in range(tile_rows(lanes)):
        function.leave_when(function.compare("sle", "%rows", row))
        line = function.place("%z", function.mul("%apart", row), lanes.number)
        for vector, mask in enumerate(masks):
            total = sums[row, vector]
            place = function.place(line, vector * lanes.count, lanes.number)
            with function.when("%adds"):
                before = lanes.load(function, place, mask)
                more = function.load(lanes.vector, total)
                after = function.let(f"fadd {lanes.vector} {before}, {more}")
                function.store(lanes.vector, after, total)
            lanes.store(function, function.load(lanes.vector, total), place, mask)
