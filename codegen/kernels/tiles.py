"""The innermost kernel of products: some rows of a matrix by a panel of another, in registers.

A row is a list of pieces, one for each tap of a convolution's kernel, of as many channels.  All
accumulators stay in registers while the channels of all taps pass: each step loads one row of the
panel, and multiplies it by one number of each piece.  This is how Goto and van de Geijn's matrix
product ends ("Anatomy of High-Performance Matrix Multiplication", 2008), with the pieces found by
way of a table as in Dukhan's "The Indirect Convolution Algorithm" (2019).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from jitcore.codegen.engine import has_feature
from jitcore.codegen.kernels.assembler import Function, Number, Word
from jitcore.ir.dataclass import dataclass

__all__ = [
    "declarations",
    "Lanes",
    "Tile",
    "call_tile",
    "fill_table",
    "lanes_of",
    "panel_vectors",
    "panel_width",
    "write_tile",
]

_BITS = {"float32": 32, "float64": 64}
_TYPES = {"float32": "float", "float64": "double"}

_WIDE_TILES: Mapping[int, tuple[int, ...]] = {
    4: (6, 4, 2, 1),
    3: (8, 4, 2, 1),
    2: (12, 8, 4, 1),
    1: (12, 8, 4, 1),
}
"""How many rows a tile may have, by the vectors in a row of its panel, with 32 registers."""

_NARROW_TILES: Mapping[int, tuple[int, ...]] = {3: (4, 2, 1), 2: (6, 3, 1), 1: (8, 4, 1)}
"""With 16 registers."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The machine's vectors of one dtype."""

    dtype: str
    count: int
    tiles: Mapping[int, tuple[int, ...]]

    @property
    def number(self) -> str:
        """The LLVM type of an element."""
        return _TYPES[self.dtype]

    @property
    def vector(self) -> str:
        """The LLVM type of a vector."""
        return f"<{self.count} x {self.number}>"

    @property
    def suffix(self) -> str:
        """How intrinsics name the vector."""
        return f"v{self.count}f{_BITS[self.dtype]}"

    @property
    def itemsize(self) -> int:
        """Bytes in an element."""
        return _BITS[self.dtype] // 8

    def filled(self, function: Function, number: str) -> Word:
        """A vector of equal numbers."""
        first = function.let(f"insertelement {self.vector} poison, {self.number} {number}, i64 0")
        mask = f"<{self.count} x i32> zeroinitializer"
        return function.let(f"shufflevector {self.vector} {first}, {self.vector} poison, {mask}")

    def below(self, function: Function, count: Number) -> Word:
        """A mask of the first ``count`` lanes."""
        if has_feature("avx512f"):
            # Masks are registers of bits, which are quicker to make than to compare lanes.
            left = function.smaller(function.larger(count, 0), self.count)
            others = function.let(f"shl i64 -1, {left}")
            bits = function.let(f"xor i64 {others}, -1")
            mask = function.let(f"trunc i64 {bits} to i{self.count}")
            return function.let(f"bitcast i{self.count} {mask} to <{self.count} x i1>")
        steps = ", ".join(f"i64 {lane}" for lane in range(self.count))
        type_ = f"<{self.count} x i64>"
        first = function.let(f"insertelement {type_} poison, i64 {count}, i64 0")
        mask = f"<{self.count} x i32> zeroinitializer"
        limit = function.let(f"shufflevector {type_} {first}, {type_} poison, {mask}")
        return function.let(f"icmp slt {type_} <{steps}>, {limit}")

    def load(self, function: Function, pointer: Word, mask: Word = "") -> Word:
        """A vector, with zeros where the mask is false."""
        if not mask:
            return function.load(self.vector, pointer, self.itemsize)
        call = f"call {self.vector} @llvm.masked.load.{self.suffix}.p0"
        lanes = f"<{self.count} x i1> {mask}, {self.vector} zeroinitializer"
        return function.let(f"{call}(ptr align {self.itemsize} {pointer}, {lanes})")

    def store(self, function: Function, value: Word, pointer: Word, mask: Word = "") -> None:
        """Write a vector, where the mask is true."""
        if not mask:
            function.store(self.vector, value, pointer, self.itemsize)
            return
        call = f"call void @llvm.masked.store.{self.suffix}.p0"
        where = f"ptr align {self.itemsize} {pointer}, <{self.count} x i1> {mask}"
        function.do(f"{call}({self.vector} {value}, {where})")

    def multiply_add(self, function: Function, x: Word, y: Word, z: Word) -> Word:
        """``x * y + z``, rounded once where the machine does that."""
        operands = ", ".join(f"{self.vector} {one}" for one in (x, y, z))
        return function.let(f"call {self.vector} @llvm.fmuladd.{self.suffix}({operands})")

    def clamp(self, function: Function, value: Word, low: Word, high: Word) -> Word:
        """Between two vectors; NaN stays."""
        for relation, limit in (("ole", low), ("oge", high)):
            beyond = function.let(f"fcmp {relation} {self.vector} {value}, {limit}")
            value = function.let(
                f"select <{self.count} x i1> {beyond}, {self.vector} {limit}, {self.vector} {value}"
            )
        return value


@cache
def lanes_of(dtype: str) -> Lanes:
    """What this machine has for ``"float32"`` or ``"float64"``."""
    if has_feature("avx512f"):
        bits, tiles = 512, _WIDE_TILES
    elif has_feature("avx"):
        bits, tiles = 256, _NARROW_TILES
    elif has_feature("neon"):
        bits, tiles = 128, _WIDE_TILES
    else:
        bits, tiles = 128, _NARROW_TILES
    return Lanes(dtype, bits // _BITS[dtype], tiles)


def panel_vectors(columns: int, lanes: Lanes) -> int:
    """How many vectors wide the panels of a matrix are best, so that little of the last is idle."""
    vectors = -(-columns // lanes.count)
    # A narrow panel reads more for each multiplication: worth it where it saves work.
    cost = {v: -(-vectors // v) * v * (1 + 0.06 / v) for v in lanes.tiles}
    return min(lanes.tiles, key=lambda v: (cost[v], -v))


def panel_width(columns: int, dtype: str) -> int:
    """How many columns wide the panels of a matrix are best."""
    lanes = lanes_of(dtype)
    return panel_vectors(columns, lanes) * lanes.count


@dataclass(frozen=True, slots=True)
class Tile:
    """The name of a tile's function, and what it covers."""

    lanes: Lanes
    rows: int
    vectors: int

    @property
    def name(self) -> str:
        """The symbol."""
        return f"tile_{self.rows}_{self.vectors}"

    @property
    def width(self) -> int:
        """The columns of its panel."""
        return self.vectors * self.lanes.count

    @property
    def pairs(self) -> Iterable[tuple[int, int]]:
        """The accumulators: row and vector."""
        return ((row, vector) for row in range(self.rows) for vector in range(self.vectors))


PARAMETERS = (
    "ptr %table",
    "ptr %panel",
    "ptr %bias",
    "ptr %residual",
    "ptr %out",
    "i64 %apart",
    "i64 %taps",
    "i64 %channels",
    "i64 %first_channel",
    "i64 %rows",
    "i64 %columns",
)
"""Of a tile's function, then the limits of the result, ``low`` and ``high``.

``table`` has the address of each row's piece, ``largest`` addresses for every tap; ``panel`` is
(taps, channels, width); ``bias`` and ``residual`` may be null, ``residual`` lies as ``out`` does,
whose rows are ``apart`` elements apart; only ``rows`` and ``columns`` are written.
"""


def write_tile(tile: Tile, largest: int) -> str:
    """The text of a tile's function.

    Parameters
    ----------
    tile : Tile
    largest : int
        How many addresses the table has for each tap.
    """
    lanes = tile.lanes
    limits = (f"{lanes.number} %low", f"{lanes.number} %high")
    function = Function(tile.name, (*PARAMETERS, *limits), "internal")
    masks = [
        lanes.below(function, function.sub("%columns", vector * lanes.count))
        for vector in range(tile.vectors)
    ]
    sums = _start(function, tile, masks)
    _accumulate(function, tile, largest, sums)
    is_whole = function.compare("eq", "%columns", tile.width)
    with function.when(is_whole):
        _finish(function, tile, sums, [""] * tile.vectors)
        function.leave()
    _finish(function, tile, sums, masks)
    return function.text()


def _start(function: Function, tile: Tile, masks: list[Word]) -> dict[tuple[int, int], Word]:
    """Accumulators that begin with the bias."""
    lanes = tile.lanes
    sums = {pair: function.slot(lanes.vector, "zeroinitializer") for pair in tile.pairs}
    with function.when(function.let("icmp ne ptr %bias, null")):
        for vector, mask in enumerate(masks):
            place = function.place("%bias", vector * lanes.count, lanes.number)
            bias = lanes.load(function, place, mask)
            for row in range(tile.rows):
                function.store(lanes.vector, bias, sums[row, vector])
    return sums


def _accumulate(
    function: Function, tile: Tile, largest: int, sums: dict[tuple[int, int], Word]
) -> None:
    lanes = tile.lanes
    panel = function.slot("ptr", "%panel")
    with function.loop(0, "%taps") as tap:
        entry = function.place("%table", function.mul(tap, largest), "ptr")
        pieces = []
        for row in range(tile.rows):
            piece = function.load("ptr", function.place(entry, row, "ptr"))
            pieces.append(function.place(piece, "%first_channel", lanes.number))
        with function.loop(0, "%channels") as channel:
            here = function.load("ptr", panel)
            columns = [
                lanes.load(function, function.place(here, vector * lanes.count, lanes.number))
                for vector in range(tile.vectors)
            ]
            for row, piece in enumerate(pieces):
                place = function.place(piece, channel, lanes.number)
                factor = lanes.filled(function, function.load(lanes.number, place))
                for vector, column in enumerate(columns):
                    total = sums[row, vector]
                    before = function.load(lanes.vector, total)
                    after = lanes.multiply_add(function, factor, column, before)
                    function.store(lanes.vector, after, total)
            function.store("ptr", function.place(here, tile.width, lanes.number), panel)


def _finish(
    function: Function, tile: Tile, sums: dict[tuple[int, int], Word], masks: list[Word]
) -> None:
    """Add the residual, clamp, and write."""
    lanes = tile.lanes
    low, high = lanes.filled(function, "%low"), lanes.filled(function, "%high")
    adds = function.let("icmp ne ptr %residual, null")
    for row in range(tile.rows):
        function.leave_when(function.compare("sle", "%rows", row))
        start = function.mul("%apart", row)
        for vector, mask in enumerate(masks):
            place = function.add(start, vector * lanes.count)
            total = sums[row, vector]
            with function.when(adds):
                more = lanes.load(function, function.place("%residual", place, lanes.number), mask)
                before = function.load(lanes.vector, total)
                after = function.let(f"fadd {lanes.vector} {before}, {more}")
                function.store(lanes.vector, after, total)
            value = function.load(lanes.vector, total)
            value = lanes.clamp(function, value, low, high)
            lanes.store(function, value, function.place("%out", place, lanes.number), mask)


def fill_table(
    function: Function, tile: Tile, table: Word, matrix: tuple[Word, Number, Number]
) -> None:
    """Enter the addresses of a matrix's rows; the last one's fill the table up.

    Parameters
    ----------
    function : Function
    tile : Tile
        The largest one.
    table : Word
    matrix : tuple
        Its first row, how many elements rows are apart, and how many there are.
    """
    first, apart, rows = matrix
    for lane in range(tile.rows):
        number = function.smaller(lane, function.sub(rows, 1))
        place = function.place(first, function.mul(number, apart), tile.lanes.number)
        function.store("ptr", place, function.place(table, lane, "ptr"))


def call_tile(function: Function, tiles: Sequence[Tile], rows: Number, args: str) -> None:
    """Call the smallest of the tiles that has as many rows; the largest one comes first."""
    for tile, smaller in zip(tiles, [*tiles[1:], None], strict=True):
        fits = function.compare("sle", rows, tile.rows)
        if smaller is not None:
            more = function.compare("sgt", rows, smaller.rows)
            fits = function.let(f"and i1 {fits}, {more}")
        with function.when(fits):
            function.do(f"call void @{tile.name}({args})")


def declarations(lanes: Lanes) -> str:
    """What the functions here need."""
    vector, suffix = lanes.vector, lanes.suffix
    mask = f"<{lanes.count} x i1>"
    return (
        f"declare {vector} @llvm.fmuladd.{suffix}({vector}, {vector}, {vector})\n"
        f"declare {vector} @llvm.masked.load.{suffix}.p0(ptr, {mask}, {vector})\n"
        f"declare void @llvm.masked.store.{suffix}.p0({vector}, ptr, {mask})\n"
        "declare i64 @llvm.smin.i64(i64, i64)\n"
        "declare i64 @llvm.smax.i64(i64, i64)\n"
    )
