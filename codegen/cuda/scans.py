"""Scans: loops that join elements to a variable and keep what it is after each of them.

The threads of a block take a tile at a time, each of them a few elements that follow another.  Each
joins its own, they scan what they have together, and each goes through its elements once more from
what is before them; sums of floats are therefore added up in another order than on the host, as in
all reductions of threads.  Where memory lies so, a thread loads and stores its elements by vectors.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import partial, reduce
from typing import Final

import numpy as np

from jitcore.codegen.cuda.kernels import IS_FIRST, vector_width
from jitcore.codegen.cuda.vectors import (
    Place,
    are_aligned,
    constant_part,
    is_straight,
    place_in,
    places_of,
)
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, with_expressions
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    expressions,
    loads_in,
    variables,
    walk,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Break,
    Call,
    Comment,
    Continue,
    Do,
    Expr,
    For,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.lowering.accumulators import ASSOCIATIVE, neutral
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    add,
    both,
    compare,
    integer,
    maximum,
    minimum,
    multiply,
    select,
    subtract,
)
from jitcore.codegen.lowering.walks import multiple_of
from jitcore.ir.dataclass import dataclass

__all__ = [
    "Step",
    "Tile",
    "is_scan",
    "joined",
    "scanned_variables",
    "share_scan",
    "steps_of",
    "vectors_of",
]

EACH = 4
"""Elements of a tile for each thread: a vector of float32, and rows have threads for as many."""

_NONE: Final[Mapping[Expr, Expr]] = {}


@dataclass(frozen=True, slots=True)
class Step:
    """``bound = var op element; var = bound``."""

    var: Var
    bound: Var
    op: str
    element: Expr


def is_scan(loop: For) -> bool:
    """Whether all that an iteration takes over from the one before is the variables of scans."""
    return steps_of(loop) is not None


def scanned_variables(loop: For) -> list[Var]:
    """The variables that a scan takes from one iteration to the next."""
    return [step.var for step in steps_of(loop) or ()]


def steps_of(loop: For) -> list[Step] | None:
    """The steps of a scan; None for any other loop."""
    if loop.step != 1:
        return None
    bound = bound_names([loop])
    values = {one.var.name: one.value for one in loop.body if isinstance(one, Let)}
    steps: list[Step] = []
    for statement in loop.body:
        match statement:
            case Assign(var, Var() as value) if var.name not in bound:
                step = values.get(value.name)
                if not isinstance(step, Binary) or step.x != var or step.op not in ASSOCIATIVE:
                    return None
                steps.append(Step(var, value, step.op, step.y))
            case Let(mutable=False) | Store() | Comment():
                continue
            case If() if _is_apart(statement, bound):
                continue
            case _:
                return None
    names = {step.var.name for step in steps}
    own = {id(one) for one in loop.body if isinstance(one, Let | Assign) and _is_own(one, steps)}
    others = [x for one in walk(loop.body) if id(one) not in own for x in expressions(one)]
    read = [name for x in (*others, *(step.element for step in steps)) for name in variables(x)]
    return steps if steps and not names & set(read) else None


def _is_own(statement: Let | Assign, steps: Sequence[Step]) -> bool:
    """Whether a statement is one of the two that make a step."""
    return any(statement.var in (step.var, step.bound) for step in steps)


def _is_apart(branch: If, bound: set[str]) -> bool:
    """Whether a branch only writes, and takes nothing to the next iteration."""
    for one in walk([branch]):
        if isinstance(one, Assign) and one.var.name not in bound:
            return False
        if isinstance(one, Return | Break | Continue | While | Do):
            return False
    return True


def joined(step: Step, values: Sequence[Expr]) -> Expr:
    """Values joined one after the other."""
    first, *others = values
    return reduce(lambda x, y: Binary(step.op, x, y, step.var.dtype), others, first)


def share_scan(loop: For, names: set[str]) -> list[Stmt]:
    """The loop as the work of a block's threads."""
    base = Var(numbered("base", names), "int64")
    first = Var(numbered("first", names), "int64")
    threads = Call("cuda.threads", (), "int64")
    step = multiply(threads, integer(EACH))
    place = add(base, multiply(Call("cuda.thread", (), "int64"), integer(EACH)))
    lanes = [add(first, integer(lane)) for lane in range(EACH)]
    own = list(Tile(loop, lanes, names).statements())
    # A tile begins where vectors do, and where there are no elements none may be read.
    is_empty = FALSE if loop.start == ZERO else compare("ge", loop.start, loop.stop)
    begin = select(is_empty, loop.stop, multiple_of(loop.start, EACH))
    before: list[Stmt] = [Let(base, begin, mutable=True)]
    places, width = vectors_of(loop, EACH)
    if places:
        may = Var(numbered("aligned", names), "bool")
        is_begun = TRUE if loop.start == ZERO else compare("ge", base, loop.start)
        is_left = compare("le", add(base, step), loop.stop)
        before.append(Let(may, are_aligned(places, width)))
        whole = list(Tile(loop, lanes, names, places, width).statements())
        own = [If(both(both(may, is_begun), is_left), whole, own)]
    body = [Let(first, place), *own, Assign(base, add(base, step))]
    return [*before, While([], compare("lt", base, loop.stop), body)]


def vectors_of(loop: For, each: int) -> tuple[list[Place], int]:
    """The places that a thread loads and stores by vectors of so many elements."""
    places = places_of(loop)
    if not places or not is_straight(loop.body):
        return [], 1
    width = min(each, *(vector_width(place.itemsize) for place in places))
    return [place for place in places if constant_part(place.offset) % width == 0], width


class Tile:
    """Writes what a thread does with its elements of a tile: each statement for all of them.

    Parameters
    ----------
    loop : For
    lanes : sequence of Expr
        Which elements a thread has.
    names : set of str
        The names that are taken; gets the new ones.
    places : sequence of Place
        What is loaded and stored by vectors.  With any, all elements are there; without, the ones
        before the begin and beyond the end read another one and have no part in the scan.
    width : int
        Of the vectors.
    groups : int
        Elements follow another in so many groups, of which each lies behind the one before in all
        of a warp's threads.
    """

    def __init__(
        self,
        loop: For,
        lanes: Sequence[Expr],
        names: set[str],
        places: Sequence[Place] = (),
        width: int = 1,
        *,
        groups: int = 1,
    ) -> None:
        self._loop, self._numbers, self._names = loop, lanes, names
        self._places, self._width, self._groups = places, width, groups
        self._each = each = len(lanes)
        self._steps = {step.bound.name: step for step in steps_of(loop) or ()}
        self._known: list[dict[Expr, Expr]] = [{} for _ in range(each)]
        self._lanes: list[dict[Place, Expr]] = [{} for _ in range(each)]
        self._is_real: list[Expr] = [TRUE] * each

    def statements(self) -> Iterator[Stmt]:
        """All of them."""
        for lane in range(self._each):
            place = self._numbers[lane]
            if self._places:
                self._known[lane][self._loop.var] = place
                continue
            start, stop = self._loop.start, self._loop.stop
            counter = self._new(self._loop.var)
            is_begun = TRUE if start == ZERO else compare("ge", place, start)
            known = place if start == ZERO else maximum(place, start)
            yield Let(counter, minimum(known, subtract(stop, ONE)))
            self._known[lane][self._loop.var] = counter
            self._is_real[lane] = both(is_begun, compare("lt", place, stop))
        read = {place_in(self._loop, load) for load in loads_in(self._loop.body)}
        for one in self._places:
            if one in read:
                yield from self._loaded(one)
        for statement in self._loop.body:
            yield from self._statement(statement)

    def _new(self, var: Var) -> Var:
        return Var(numbered(var.name, self._names), var.dtype)

    def _statement(self, statement: Stmt) -> Iterator[Stmt]:
        match statement:
            case Let(var) if var.name in self._steps:
                yield from self._step(self._steps[var.name])
            case Let(var, value):
                for lane in range(self._each):
                    new = self._new(var)
                    yield Let(new, self._of_lane(lane, value))
                    self._known[lane][var] = new
            case Store() if place_in(self._loop, statement) in self._places:
                yield from self._stored(statement)
            case Store() | If():
                for lane, is_real in enumerate(self._is_real):
                    # Elements that are there have kept their numbers, which take no registers.
                    numbers: dict[Expr, Expr] = {self._loop.var: self._numbers[lane]}
                    of_lane = partial(self._of_lane, lane, numbers=numbers)
                    own = with_expressions(statement, of_lane)
                    yield own if is_real == TRUE else If(is_real, [own])
            case Comment():
                yield statement

    def _step(self, step: Step) -> Iterator[Stmt]:
        dtype = step.var.dtype
        elements = [
            Var(numbered(f"{step.var.name}_part", self._names), dtype) for _ in range(self._each)
        ]
        for lane, (element, is_real) in enumerate(zip(elements, self._is_real, strict=True)):
            value = self._of_lane(lane, step.element)
            absent = neutral(step.op, np.dtype(dtype))
            yield Let(element, value if is_real == TRUE else select(is_real, value, absent))
        size = self._each // self._groups
        firsts = range(0, self._each, size)
        befores = yield from self._before(
            step, [joined(step, elements[first : first + size]) for first in firsts]
        )
        before = befores[0]
        for lane, element in enumerate(elements):
            if lane % size == 0:
                before = befores[lane // size]
            bound = self._new(step.bound)
            yield Let(bound, Binary(step.op, before, element, dtype))
            self._known[lane][step.bound] = before = bound
        yield from self._after(step, before)

    def _before(self, step: Step, owns: Sequence[Expr]) -> Generator[Stmt, None, Sequence[Expr]]:
        """What is before a thread's groups, which hold what is given."""
        dtype = step.var.dtype
        before = Var(numbered(f"{step.var.name}_before", self._names), dtype)
        (own,) = owns
        yield Let(before, Call(f"cuda.before_{step.op}", (own,), dtype))
        begun = Var(numbered(step.var.name, self._names), dtype)
        yield Let(begun, select(IS_FIRST, step.var, Binary(step.op, step.var, before, dtype)))
        return [begun]

    def _after(self, step: Step, own: Expr) -> Iterator[Stmt]:
        """Give the variable what it is after the tile: after the last thread's last element."""
        yield Assign(step.var, Call("cuda.of_last_thread", (own,), step.var.dtype))

    def _of_lane(self, lane: int, x: Expr, numbers: Mapping[Expr, Expr] = _NONE) -> Expr:
        known = {**self._known[lane], **numbers}

        def change(one: Expr) -> Expr | None:
            if isinstance(one, Load) and self._lanes[lane]:
                place = place_in(self._loop, one)
                return None if place is None else self._lanes[lane].get(place)
            return known.get(one)

        return replaced(x, change)

    def _loaded(self, place: Place) -> Iterator[Stmt]:
        dtype = f"{place.dtype}x{self._width}"
        for first in range(0, self._each, self._width):
            var = Var(numbered("lanes", self._names), dtype)
            yield Let(var, Call("cuda.load_vector", (place.pointer, self._at(place, first)), dtype))
            for lane in range(self._width):
                loaded = Call("cuda.lane", (var, integer(lane)), place.dtype)
                self._lanes[first + lane][place] = loaded

    def _stored(self, store: Store) -> Iterator[Stmt]:
        place = place_in(self._loop, store)
        assert place is not None
        values = [
            Var(numbered("stored", self._names), store.value.dtype) for _ in range(self._each)
        ]
        for lane, value in enumerate(values):
            yield Let(value, self._of_lane(lane, store.value))
        for first in range(0, self._each, self._width):
            vector = values[first : first + self._width]
            args = (place.pointer, self._at(place, first), *vector)
            yield Do(Call("cuda.store_vector", args, "void"))

    def _at(self, place: Place, lane: int) -> Expr:
        return add(place.offset, self._numbers[lane])
