"""Loops of threads over neighbouring elements, several at a time: by instructions of 16 bytes.

Memory answers late, so many bytes have to be on their way.  Where a thread of the grid reads
little, it therefore takes several vectors, and asks for all before it waits for the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen.cuda.kernels import WARP, ThreadFor, vector_width
from jitcore.codegen.cuda.linear import depends_on, offset_from
from jitcore.codegen.cuda.tuning import DEFAULT
from jitcore.codegen.loop_passes.rewriting import numbered, replaced
from jitcore.codegen.loop_passes.traversal import expressions, loads
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Cast,
    Comment,
    Const,
    Do,
    Expr,
    For,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import (
    ZERO,
    add,
    compare,
    integer,
    multiply,
    select,
    subtract,
)
from jitcore.codegen.lowering.walks import multiple_of
from jitcore.ir.dataclass import dataclass

__all__ = ["Place", "are_aligned", "by_vectors", "place_of", "places_of"]


FEW_LOADS = 2
"""A thread that loads from more places has enough bytes on their way with one vector of each."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where what a loop walks element by element begins."""

    pointer: Expr
    offset: Expr
    dtype: str

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize


def by_vectors(
    loop: ThreadFor, names: set[str], vectors_each: int = DEFAULT.vectors
) -> tuple[list[Stmt], int]:
    """The loop, and before it one that takes several elements at once, where that can be.

    Also gives how many elements that takes, which is 1 where there is none.

    Parameters
    ----------
    loop : ThreadFor
        Its iterations are independent, but for the steps of reductions.
    names : set of str
        The names that are taken; gets the new ones.
    vectors_each : int
        Vectors of each place that a thread takes at once where there are few places.

    Notes
    -----
    Whether all arrays begin at multiples of a vector's size only shows when the kernel runs; where
    one does not, all elements are taken one by one.
    """
    places = places_of(loop)
    if loop.start != ZERO or not places:
        return [loop], 1
    width = vector_width(max(place.itemsize for place in places))
    count = vectors_each if _reads_little(loop) else 1
    if not _has_whole(loop, width, count):
        count = 1
    if width < 2 or not _has_whole(loop, width, count):
        return [loop], 1
    whole = Var(numbered("whole", names), "int64")
    # Several vectors of a thread lie a warp apart.
    most = multiple_of(loop.stop, width * count * (WARP if count > 1 else 1))
    vectors = _Vectors(loop, width, count, places, names)
    made: list[Stmt] = [
        Let(whole, select(are_aligned(places, width), most, ZERO)),
        ThreadFor(
            vectors.number,
            ZERO,
            Binary("shr", whole, integer((width * count).bit_length() - 1), "int64"),
            vectors.body(),
            scope=loop.scope,
            once=loop.once,
        ),
        replace(loop, start=whole),
    ]
    return made, width * count


def _reads_little(loop: ThreadFor) -> bool:
    """Whether a thread needs more than a vector of each place to have enough bytes on their way."""
    name = loop.var.name
    inner = {one.var.name for one in loop.body if isinstance(one, Let)}
    read = (
        place_of(load.pointer, load.index, load.dtype, name, inner)
        for statement in loop.body
        for load in _loads(statement)
    )
    loaded = len({place for place in read if place is not None})
    return loop.scope == "grid" and 0 < loaded <= FEW_LOADS


def _has_whole(loop: ThreadFor, width: int, count: int) -> bool:
    """Whether there may be so many elements as a warp takes, or a thread, at once."""
    least = width * count * (WARP if count > 1 else 1)
    return not isinstance(loop.stop, Const) or loop.stop.value >= least


def places_of(loop: For) -> list[Place]:
    """The memory that the loop walks element by element; nothing where it does more than that."""
    name = loop.var.name
    inner = {one.var.name for one in loop.body if isinstance(one, Let)}
    found: dict[Place, None] = {}
    for statement in loop.body:
        if not isinstance(statement, Let | Assign | Store | Comment):
            return []
        if isinstance(statement, Let) and statement.mutable:
            return []
        if isinstance(statement, Store):
            place = place_of(statement.pointer, statement.index, statement.value.dtype, name, inner)
            if place is None:
                return []
            found[place] = None
        for load in _loads(statement):
            place = place_of(load.pointer, load.index, load.dtype, name, inner)
            if place is not None:
                found[place] = None
    return list(found)


def _loads(statement: Stmt) -> Iterator[Load]:
    return (load for x in expressions(statement) for load in loads(x))


def place_of(pointer: Expr, index: Expr, dtype: str, name: str, inner: set[str]) -> Place | None:
    """Where an access begins that steps along with the counter ``name``; None for any other.

    What a loop binds itself, the names in ``inner``, may have no part in it.
    """
    offset = offset_from(index, name)
    if offset is None or any(depends_on(x, one) for x in (pointer, offset) for one in inner):
        return None
    return Place(pointer, offset, dtype)


def are_aligned(places: Sequence[Place], width: int) -> Expr:
    """Whether each of the vectors begins at a multiple of its size."""
    bits: Expr = ZERO
    for place in places:
        address = add(Cast(place.pointer, "int64"), multiply(place.offset, integer(place.itemsize)))
        low = Binary("and", address, integer(width * place.itemsize - 1), "int64")
        bits = low if bits == ZERO else Binary("or", bits, low, "int64")
    return compare("eq", bits, ZERO)


class _Vectors:
    """Writes the loop over vectors."""

    def __init__(
        self,
        loop: ThreadFor,
        width: int,
        count: int,
        places: Sequence[Place],
        names: set[str],
    ) -> None:
        self._loop, self._width, self._places, self._names = loop, width, places, names
        self.number = Var(numbered("vector", names), "int64")
        self._firsts = [Var(numbered("first", names), "int64") for _ in range(count)]
        self._lanes: list[dict[Place, Var]] = [{} for _ in range(count)]
        self._stored: list[dict[Place, list[Expr]]] = [{} for _ in range(count)]

    def body(self) -> list[Stmt]:
        """One iteration: loads, each lane's statements, stores."""
        loaded = {p for s in self._loop.body for load in _loads(s) if (p := self._of(load))}
        made: list[Stmt] = []
        for number, first in enumerate(self._firsts):
            made.append(Let(first, multiply(self._vector(number), integer(self._width))))
            made += self._loaded(number, [one for one in self._places if one in loaded])
        for number, first in enumerate(self._firsts):
            for lane in range(self._width):
                made += self._lane(number, lane)
            for place, values in self._stored[number].items():
                args = (place.pointer, add(place.offset, first), *values)
                made.append(Do(Call("cuda.store_vector", args, "void")))
        return made

    def _vector(self, number: int) -> Expr:
        """Which vector a thread's ``number``-th is: a warp's first ones are neighbours."""
        if len(self._firsts) == 1:
            return self.number
        lane = Binary("and", self.number, integer(WARP - 1), "int64")
        warps = multiply(subtract(self.number, lane), integer(len(self._firsts)))
        return add(add(warps, lane), integer(number * WARP))

    def _loaded(self, number: int, places: Sequence[Place]) -> Iterator[Stmt]:
        for place in places:
            dtype = f"{place.dtype}x{self._width}"
            var = Var(numbered(f"{_name(place.pointer)}_lanes", self._names), dtype)
            args = (place.pointer, add(place.offset, self._firsts[number]))
            yield Let(var, Call("cuda.load_vector", args, dtype))
            self._lanes[number][place] = var

    def _of(self, access: Load | Store) -> Place | None:
        dtype = access.value.dtype if isinstance(access, Store) else access.dtype
        inner = {one.var.name for one in self._loop.body if isinstance(one, Let)}
        return place_of(access.pointer, access.index, dtype, self._loop.var.name, inner)

    def _lane(self, number: int, lane: int) -> Iterator[Stmt]:
        counter = add(self._firsts[number], integer(lane))
        lanes, stored = self._lanes[number], self._stored[number]
        renamed: dict[str, Var] = {}

        def change(x: Expr) -> Expr | None:
            if isinstance(x, Load):
                place = self._of(x)
                if place in lanes and place is not None:
                    return Call("cuda.lane", (lanes[place], Const(lane, "int64")), x.dtype)
            if isinstance(x, Var):
                return counter if x.name == self._loop.var.name else renamed.get(x.name)
            return None

        for statement in self._loop.body:
            match statement:
                case Let(var, value):
                    new = Var(numbered(f"{var.name}_{lane}", self._names), var.dtype)
                    yield Let(new, replaced(value, change))
                    renamed[var.name] = new
                case Assign(var, value):
                    yield Assign(var, replaced(value, change))
                case Store():
                    place = self._of(statement)
                    assert place is not None
                    stored.setdefault(place, []).append(replaced(statement.value, change))
                case Comment() if number == lane == 0:
                    yield statement


def _name(pointer: Expr) -> str:
    return pointer.name if isinstance(pointer, Var) else "memory"
