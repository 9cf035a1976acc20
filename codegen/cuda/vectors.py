"""Loops of threads over neighbouring elements, several at a time: by instructions of 16 bytes.

Memory answers late, so many bytes have to be on their way.  Where a thread of the grid reads
little, it therefore takes several vectors, and asks for all before it waits for the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen.cuda.kernels import WARP, Scope, ThreadFor, vector_width
from jitcore.codegen.cuda.linear import depends_on, offset_from, stride_along
from jitcore.codegen.cuda.nests import extent_of
from jitcore.codegen.cuda.tuning import DEFAULT
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, simplified
from jitcore.codegen.loop_passes.traversal import expressions, loads, overlap, variables
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
    TRUE,
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

__all__ = [
    "Lines",
    "Place",
    "are_aligned",
    "by_elements",
    "by_vectors",
    "constant_part",
    "is_straight",
    "place_in",
    "place_of",
    "places_of",
]

FEW_LOADS = 2
"""A thread that loads from more places has enough bytes on their way with one vector of each."""

TOGETHER: Mapping[Scope, int] = {"grid": WARP, "block": DEFAULT.row_threads}
"""Who may take several vectors at once, and for how many threads there has to be so much."""

SINGLES = 4
"""Elements that a thread takes at once where no vectors lie."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where what a loop walks element by element begins."""

    pointer: Expr
    offset: Expr
    dtype: str

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Lines:
    """Loops, one in the other, that have one count of elements.

    Parameters
    ----------
    outer : sequence of For
    inner : For
        The innermost, with what is done for an element.
    bindings : sequence of Let
        What the count means for the loops' counters.
    """

    outer: Sequence[For]
    inner: For
    bindings: Sequence[Let]


def by_vectors(
    loop: ThreadFor,
    names: set[str],
    vectors_each: int = DEFAULT.vectors,
    lines: Lines | None = None,
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
    lines : Lines, optional
        Where the loop is over the count of several loops: these.  No vector has elements of two
        lines.

    Notes
    -----
    Whether all arrays, and all lines, begin at multiples of a vector's size only shows when the
    kernel runs; where one does not, all elements are taken one by one.  What is known to begin
    between two vectors is loaded element by element; where that is written, or nothing lies as
    vectors do, a thread of the grid takes several elements that lie a warp apart.
    """
    lines = lines or Lines([], loop, [])
    if loop.start != ZERO or lines.inner.start != ZERO or not is_straight(lines.inner.body):
        return [loop], 1
    taken = _whole_vectors(loop, lines, vectors_each) or _single_elements(loop)
    return ([loop], 1) if taken is None else (_written(loop, lines, taken, names), taken.each)


def by_elements(loop: ThreadFor, names: set[str], count: int) -> list[Stmt]:
    """The loop, and before it one in which a thread takes so many elements that follow another.

    All of them are under way at once, wherever they lie.
    """
    while isinstance(loop.stop, Const) and loop.stop.value < count * WARP:
        count //= 2
    if loop.start != ZERO or count < 2 or not is_straight(loop.body):
        return [loop]
    return _written(loop, Lines([], loop, []), _Taken(count, 1, []), names)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a thread takes at once.

    Parameters
    ----------
    width : int
        Elements that follow another.
    count : int
        Of such groups, which lie a warp apart.
    places : sequence of Place
        What is loaded and stored by vectors.
    may : Expr
        Whether all of it begins where vectors do.
    """

    width: int
    count: int
    places: Sequence[Place]
    may: Expr = TRUE

    @property
    def each(self) -> int:
        """How many elements that are."""
        return self.width * self.count


def _whole_vectors(loop: ThreadFor, lines: Lines, vectors_each: int) -> _Taken | None:
    places = places_of(lines.inner)
    steps = _steps(places, lines)
    if not places or steps is None:
        return None
    width = vector_width(max(place.itemsize for place in places))
    while any(isinstance(one, Const) and one.value % width for one in steps):
        width //= 2
    begins: dict[Expr, Expr] = {one.var: one.start for one in lines.outer}
    first = {
        place: replace(place, offset=simplified(replaced(place.offset, begins.get)))
        for place in places
    }
    vectors = [one for one in places if constant_part(first[one].offset) % width == 0]
    if not vectors or not _stored(lines.inner) <= set(vectors):
        return None
    count = vectors_each if loop.scope in TOGETHER and _reads_little(lines.inner) else 1
    if not _has_whole(loop, width, count):
        count = 1
    if width < 2 or not _has_whole(loop, width, count):
        return None
    return _Taken(width, count, vectors, are_aligned([first[one] for one in vectors], width, steps))


def _single_elements(loop: ThreadFor) -> _Taken | None:
    is_long = loop.scope == "grid" and _has_whole(loop, 1, SINGLES)
    return _Taken(1, SINGLES, []) if is_long else None


def _written(loop: ThreadFor, lines: Lines, taken: _Taken, names: set[str]) -> list[Stmt]:
    """Both loops."""
    whole = Var(numbered("whole", names), "int64")
    # Several groups of a thread lie a warp apart.
    most = multiple_of(loop.stop, taken.each * (WARP if taken.count > 1 else 1))
    vectors = _Vectors(loop, lines, taken, names)
    shift = integer(taken.each.bit_length() - 1)
    return [
        Let(whole, select(taken.may, most, ZERO)),
        ThreadFor(
            vectors.number,
            ZERO,
            Binary("shr", whole, shift, "int64"),
            vectors.body(),
            scope=loop.scope,
        ),
        replace(loop, start=whole),
    ]


def is_straight(body: Sequence[Stmt]) -> bool:
    """Whether the loads of several iterations may come before their stores."""
    written: set[str] = set()
    for statement in body:
        is_plain = isinstance(statement, Assign | Store | Comment)
        if not is_plain and not (isinstance(statement, Let) and not statement.mutable):
            return False
        read = {load.root for load in _loads(statement)}
        if overlap(read, written):
            return False
        if isinstance(statement, Store):
            written.add(statement.root)
    return True


def constant_part(x: Expr) -> int:
    """What is known of an index at the end of a sum."""
    match x:
        case Const(value) | Binary("add", _, Const(value)):
            return int(value)
    return 0


def _stored(loop: For) -> set[Place | None]:
    """The places that a loop writes to; None for what is no place."""
    return {place_in(loop, one) for one in loop.body if isinstance(one, Store)}


def place_in(loop: For, access: Load | Store) -> Place | None:
    """The place of an access in a loop; None for one that does not step along."""
    dtype = access.value.dtype if isinstance(access, Store) else access.dtype
    inner = {one.var.name for one in loop.body if isinstance(one, Let)}
    return place_of(access.pointer, access.index, dtype, loop.var.name, inner)


def _steps(places: Sequence[Place], lines: Lines) -> list[Expr] | None:
    """How many elements lie between lines, and how many are in one; None where that changes."""
    found: dict[Expr, None] = {}
    for loop in lines.outer:
        found[extent_of(lines.inner)] = None
        for place in places:
            step = stride_along(place.offset, loop.var.name)
            if step is None or depends_on(place.pointer, loop.var.name):
                return None
            found[step] = None
    counters = {one.var.name for one in lines.outer}
    fixed = not any(counters & set(variables(one)) for one in found)
    return [one for one in found if one != ZERO] if fixed else None


def _reads_little(loop: For) -> bool:
    """Whether a thread needs more than a vector of each place to have enough bytes on their way."""
    read = {place_in(loop, load) for statement in loop.body for load in _loads(statement)}
    return 0 < len(read - {None}) <= FEW_LOADS


def _has_whole(loop: ThreadFor, width: int, count: int) -> bool:
    """Whether there may be so many elements as a thread takes, or several threads, at once."""
    least = width * count * (TOGETHER.get(loop.scope, 1) if count > 1 else 1)
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


def are_aligned(places: Sequence[Place], width: int, steps: Sequence[Expr] = ()) -> Expr:
    """Whether each of the vectors begins at a multiple of its size.

    ``steps`` are numbers of elements after which others begin.
    """
    bits: Expr = ZERO
    numbers: list[tuple[Expr, int]] = [(one, width) for one in steps if not isinstance(one, Const)]
    for place in places:
        address = add(Cast(place.pointer, "int64"), multiply(place.offset, integer(place.itemsize)))
        numbers.append((address, width * place.itemsize))
    for number, multiple in numbers:
        low = Binary("and", number, integer(multiple - 1), "int64")
        bits = low if bits == ZERO else Binary("or", bits, low, "int64")
    return compare("eq", bits, ZERO)


class _Vectors:
    """Writes the loop in which a thread takes several elements at once."""

    def __init__(self, loop: ThreadFor, lines: Lines, taken: _Taken, names: set[str]) -> None:
        self._loop, self._bindings = lines.inner, lines.bindings
        self._width, self._places, self._names = taken.width, taken.places, names
        self.number = Var(numbered("vector", names), "int64")
        count = range(taken.count)
        self._firsts = [Var(numbered("first", names), "int64") for _ in count]
        self._known: list[dict[Expr, Expr]] = [{loop.var: first} for first in self._firsts]
        """The loops' counters at the first element of each vector."""
        self._lanes: list[dict[Place, Var]] = [{} for _ in count]
        self._stored: list[dict[Place, list[Expr]]] = [{} for _ in count]
        self._singly: list[Stmt] = []

    def body(self) -> list[Stmt]:
        """One iteration: loads, each lane's statements, stores."""
        loaded = {p for s in self._loop.body for load in _loads(s) if (p := self._of(load))}
        made: list[Stmt] = []
        for number, first in enumerate(self._firsts):
            made.append(Let(first, multiply(self._vector(number), integer(self._width))))
            made += self._bound(number)
            made += self._loaded(number, [one for one in self._places if one in loaded])
        for number in range(len(self._firsts)):
            for lane in range(self._width):
                made += self._lane(number, lane)
        for number, stored in enumerate(self._stored):
            for place, values in stored.items():
                args = (place.pointer, self._index(number, place), *values)
                made.append(Do(Call("cuda.store_vector", args, "void")))
        return [*made, *self._singly]

    def _vector(self, number: int) -> Expr:
        """Which vector a thread's ``number``-th is: a warp's first ones are neighbours."""
        if len(self._firsts) == 1:
            return self.number
        lane = Binary("and", self.number, integer(WARP - 1), "int64")
        warps = multiply(subtract(self.number, lane), integer(len(self._firsts)))
        return add(add(warps, lane), integer(number * WARP))

    def _bound(self, number: int) -> Iterator[Stmt]:
        """What the loops' counters are where a vector begins."""
        known = self._known[number]
        for one in self._bindings:
            var = Var(numbered(one.var.name, self._names), one.var.dtype)
            yield Let(var, replaced(one.value, known.get))
            known[one.var] = var

    def _index(self, number: int, place: Place) -> Expr:
        """Where a vector lies."""
        known = self._known[number]
        return add(replaced(place.offset, known.get), known[self._loop.var])

    def _loaded(self, number: int, places: Sequence[Place]) -> Iterator[Stmt]:
        for place in places:
            dtype = f"{place.dtype}x{self._width}"
            var = Var(numbered(f"{_name(place.pointer)}_lanes", self._names), dtype)
            args = (place.pointer, self._index(number, place))
            yield Let(var, Call("cuda.load_vector", args, dtype))
            self._lanes[number][place] = var

    def _of(self, access: Load | Store) -> Place | None:
        """The place of an access that vectors make; None for any other."""
        place = place_in(self._loop, access)
        return place if place in self._places else None

    def _lane(self, number: int, lane: int) -> Iterator[Stmt]:
        lanes = self._lanes[number]
        known = dict(self._known[number])
        known[self._loop.var] = add(known[self._loop.var], integer(lane))

        def change(x: Expr) -> Expr | None:
            if isinstance(x, Load):
                place = self._of(x)
                if place is not None:
                    return Call("cuda.lane", (lanes[place], Const(lane, "int64")), x.dtype)
            return known.get(x)

        for statement in self._loop.body:
            match statement:
                case Let(var, value):
                    new = Var(numbered(f"{var.name}_{lane}", self._names), var.dtype)
                    yield Let(new, replaced(value, change))
                    known[var] = new
                case Assign(var, value):
                    yield Assign(var, replaced(value, change))
                case Store():
                    value = replaced(statement.value, change)
                    if not isinstance(value, Var | Const):
                        value = Var(numbered("stored", self._names), value.dtype)
                        yield Let(value, replaced(statement.value, change))
                    self._store(number, replace(statement, value=value), change)
                case Comment() if number == lane == 0:
                    yield statement

    def _store(self, number: int, store: Store, change: Callable[[Expr], Expr | None]) -> None:
        """Note what is to be stored at the end."""
        place = self._of(store)
        if place is not None:
            self._stored[number].setdefault(place, []).append(store.value)
            return
        pointer, index = (replaced(x, change) for x in (store.pointer, store.index))
        self._singly.append(replace(store, pointer=pointer, index=index))


def _name(pointer: Expr) -> str:
    return pointer.name if isinstance(pointer, Var) else "memory"
