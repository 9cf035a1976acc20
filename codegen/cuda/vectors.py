"""Loops of threads over neighbouring elements, several at a time: by instructions of 16 bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jitcore.codegen.cuda.kernels import ThreadFor, vector_width
from jitcore.codegen.cuda.linear import depends_on, offset_from
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Cast,
    Comment,
    Const,
    Do,
    Expr,
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
)
from jitcore.codegen.lowering.walks import multiple_of
from jitcore.codegen.rewriting import numbered, replaced
from jitcore.codegen.traversal import expressions, loads

__all__ = ["by_vectors"]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a vector begins, but for the loop's counter."""

    pointer: Expr
    offset: Expr
    dtype: str

    @property
    def itemsize(self) -> int:
        return np.dtype(self.dtype).itemsize


def by_vectors(loop: ThreadFor, names: set[str]) -> tuple[list[Stmt], int]:
    """The loop, and before it one that takes several elements at once, where that can be.

    Also gives how many elements that takes, which is 1 where there is none.

    Parameters
    ----------
    loop : ThreadFor
        Its iterations are independent, but for the steps of reductions.
    names : set of str
        The names that are taken; gets the new ones.

    Notes
    -----
    Whether all arrays begin at multiples of a vector's size only shows when the kernel runs; where
    one does not, all elements are taken one by one.
    """
    places = _places(loop)
    if loop.start != ZERO or not places:
        return [loop], 1
    width = vector_width(max(place.itemsize for place in places))
    is_short = isinstance(loop.stop, Const) and loop.stop.value < width
    if width < 2 or is_short:
        return [loop], 1
    whole = Var(numbered("whole", names), "int64")
    most = multiple_of(loop.stop, width)
    vectors = _Vectors(loop, width, places, names)
    made: list[Stmt] = [
        Let(whole, select(_are_aligned(places, width), most, ZERO)),
        ThreadFor(
            vectors.number,
            ZERO,
            Binary("shr", whole, integer(width.bit_length() - 1), "int64"),
            vectors.body(),
            scope=loop.scope,
        ),
        replace(loop, start=whole),
    ]
    return made, width


def _places(loop: ThreadFor) -> list[_Place]:
    """The memory that the loop walks element by element; nothing where it does more than that."""
    name = loop.var.name
    inner = {one.var.name for one in loop.body if isinstance(one, Let)}
    found: dict[_Place, None] = {}
    for statement in loop.body:
        if not isinstance(statement, Let | Assign | Store | Comment):
            return []
        if isinstance(statement, Let) and statement.mutable:
            return []
        if isinstance(statement, Store):
            place = _place(statement.pointer, statement.index, statement.value.dtype, name, inner)
            if place is None:
                return []
            found[place] = None
        for load in _loads(statement):
            place = _place(load.pointer, load.index, load.dtype, name, inner)
            if place is not None:
                found[place] = None
    return list(found)


def _loads(statement: Stmt) -> Iterator[Load]:
    return (load for x in expressions(statement) for load in loads(x))


def _place(pointer: Expr, index: Expr, dtype: str, name: str, inner: set[str]) -> _Place | None:
    offset = offset_from(index, name)
    if offset is None or any(depends_on(x, one) for x in (pointer, offset) for one in inner):
        return None
    return _Place(pointer, offset, dtype)


def _are_aligned(places: Sequence[_Place], width: int) -> Expr:
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
        self, loop: ThreadFor, width: int, places: Sequence[_Place], names: set[str]
    ) -> None:
        self._loop, self._width, self._places, self._names = loop, width, places, names
        self.number = Var(numbered("vector", names), "int64")
        self._first = Var(numbered("first", names), "int64")
        self._lanes: dict[_Place, Var] = {}
        self._stored: dict[_Place, list[Expr]] = {}

    def body(self) -> list[Stmt]:
        """One iteration: loads, each lane's statements, stores."""
        first = Let(self._first, multiply(self.number, integer(self._width)))
        loaded = {p for s in self._loop.body for load in _loads(s) if (p := self._of(load))}
        begin: list[Stmt] = [first]
        for place in self._places:
            if place in loaded:
                dtype = f"{place.dtype}x{self._width}"
                var = Var(numbered(f"{_name(place.pointer)}_lanes", self._names), dtype)
                args = (place.pointer, add(place.offset, self._first))
                begin.append(Let(var, Call("cuda.load_vector", args, dtype)))
                self._lanes[place] = var
        lanes = [one for lane in range(self._width) for one in self._lane(lane)]
        stores = [
            Do(Call("cuda.store_vector", (p.pointer, add(p.offset, self._first), *xs), "void"))
            for p, xs in self._stored.items()
        ]
        return [*begin, *lanes, *stores]

    def _of(self, access: Load | Store) -> _Place | None:
        dtype = access.value.dtype if isinstance(access, Store) else access.dtype
        inner = {one.var.name for one in self._loop.body if isinstance(one, Let)}
        return _place(access.pointer, access.index, dtype, self._loop.var.name, inner)

    def _lane(self, lane: int) -> Iterator[Stmt]:
        counter = add(self._first, integer(lane))
        renamed: dict[str, Var] = {}

        def change(x: Expr) -> Expr | None:
            if isinstance(x, Load):
                place = self._of(x)
                if place in self._lanes and place is not None:
                    return Call("cuda.lane", (self._lanes[place], Const(lane, "int64")), x.dtype)
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
                    self._stored.setdefault(place, []).append(replaced(statement.value, change))
                case Comment() if lane == 0:
                    yield statement


def _name(pointer: Expr) -> str:
    return pointer.name if isinstance(pointer, Var) else "memory"
