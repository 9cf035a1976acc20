"""Sums of float32 convert what several elements add up to.

They are kept in float64, and a conversion takes longer than an addition: of the time for adding up
an array in the cache it is three quarters.  So eight elements, which lie a vector apart, are added
in float32 first, four in short rows, and fewer in rows of one vector or two.  Each has three
roundings to float32 on its way then, where NumPy's pairwise sums of as many elements have ten and
more.  Memory is read from one end to the other: what the vectors of a block add up to goes to sums
of their own, the lanes, which LLVM keeps in registers.  A row that has no second block joins its
lanes in float32, too, as a tree with seven roundings at most, and converts one number.

What is left beside whole blocks is converted element by element, and so are elements that take
longer to compute than to convert.  What is counted beside a sum, such as the elements of which a
mean is taken, has lanes as well: eight of int32 are added before they become an int64.  So have
extrema of float32 beside a sum, or LLVM would give the whole loop vectors as for float64.

Eight numbers of more than 4e37 may overflow here, and those of a block of more than 2e36 in a row
that has no other.  In NumPy's sums as many may and more, in another order, so a sum of such numbers
may be infinite, or NaN, in one of the two and not in the other.

Before::

    for k in range(0, n):
        t1 = load(x, k)
        total = total + float64(t1)

After::

    lanes = stack(128)
    for lane in range(16):
        lanes[lane] = 0.0
    for first in range(0, n & -128, 128):
        for lane in range(16):
            t1, ..., t1_8 = (load(x, first + lane + 16 * j) for j in range(8))
            lanes[lane] = lanes[lane] + float64(((t1 + t1_2) + (t1_3 + t1_4)) + ...)
    for lane in range(16):
        total = total + lanes[lane]
    for k in range(n & -128, n):
        t1 = load(x, k)
        total = total + float64(t1)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from jitcore.codegen.loop_passes.rewriting import numbered, renamed, with_loops
from jitcore.codegen.loop_passes.traversal import (
    STACK,
    children,
    expressions,
    known_trips,
    loads_in,
    names_in,
    overlap,
    read_roots,
    variables,
    written_roots,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Cast,
    Comment,
    Const,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from jitcore.codegen.lowering.arithmetic import TRUE, ZERO, add, both, compare, integer, subtract
from jitcore.ir.dataclass import dataclass

__all__ = ["add_by_lanes"]

TOGETHER, TOGETHER_IN_ROWS = 8, 4
"""How many elements are added in float32: with eight, sums of squares in the cache take five sixths
of their time."""

LANES = 16
"""The elements of a vector of 64 bytes."""

SHORT_ROWS = (LANES, 2 * LANES)
"""Lengths of rows that are one vector, or two: such sums take 0.55 to 0.7 of the time.

Of other short rows so much is left over that converting all elements takes no longer.
"""

MOST_STORED = 12
"""Operations on an element that is also written."""

MOST_OPERATIONS = 32
"""Of elements that are cheap: a conversion and an addition are a part of their time."""


def add_by_lanes(function: Function) -> Function:
    """The function with its sums of float32 and float16 in lanes."""
    return replace(function, body=with_loops(function.body, _LaneSums(function).loop))


class _LaneSums:
    def __init__(self, function: Function) -> None:
        self.names = names_in(function)
        self.root = numbered("lanes", self.names)

    def loop(self, loop: For) -> list[Stmt] | None:
        return self.of_any_strides(loop) if _is_sum(loop) else None

    def of_any_strides(self, loop: For) -> list[Stmt]:
        """Strides that only a run tells are mostly one: then, and only then, vectors are loaded."""
        strides = _strides(loop)
        if not strides:
            return self.by_lanes(loop)
        are_one: Expr = TRUE
        for stride in strides:
            are_one = both(are_one, compare("eq", stride, integer(1)))
        own = {stride.name: integer(1) for stride in strides}
        dense = replace(loop, body=[_with_values(one, own) for one in loop.body])
        return [If(are_one, self.by_lanes(dense), self.by_lanes(loop))]

    def variable(self, name: str, dtype: str = "int64") -> Var:
        return Var(numbered(name, self.names), dtype)

    def by_lanes(self, loop: For) -> list[Stmt]:
        """The loop over whole blocks, and the one over the rest."""
        together = _together(loop)
        size = LANES * together
        length = subtract(loop.stop, loop.start)
        whole = _multiple(length, size)
        joins = [_Join.of(one) for one in loop.body if isinstance(one, Assign)]
        rooms = [self.variable("lanes", "ptr") for _ in joins]
        lanes = list(zip(joins, rooms, strict=True))
        first = self.variable("first")

        def over_lanes(body: Callable[[Var], list[Stmt]]) -> For:
            lane = self.variable("lane")
            return For(lane, ZERO, integer(LANES), body(lane))

        def step(start: Expr, into: Callable[[_Join, Var, Var, Expr], Store]) -> For:
            def of_lane(lane: Var) -> list[Stmt]:
                found, values = self.step(loop, add(start, lane), joins, together)
                return [
                    *found,
                    *(into(*one, lane, value) for one, value in zip(lanes, values, strict=True)),
                ]

            return over_lanes(of_lane)

        rest = [] if whole == length else [replace(loop, start=add(loop.start, whole))]
        by_lanes: list[Stmt] = [Let(room, _room()) for room in rooms]
        if whole == integer(size):
            sums = [self.variable("sum", join.narrow) for join in joins]
            joined = over_lanes(
                lambda lane: [
                    Assign(sum_, join(sum_, Load(room, lane, sum_.dtype, self.root)))
                    for sum_, (join, room) in zip(sums, lanes, strict=True)
                ]
            )
            by_lanes += [step(loop.start, self.put)]
            by_lanes += [
                Let(sum_, join.nothing(join.narrow), mutable=True)
                for sum_, join in zip(sums, joins, strict=True)
            ]
            by_lanes += [joined, *(join.take(sum_) for join, sum_ in zip(joins, sums, strict=True))]
            return [*by_lanes, *rest]
        by_lanes += [
            over_lanes(
                lambda lane: [
                    self.put(join, room, lane, join.nothing(join.total.dtype))
                    for join, room in lanes
                ]
            )
        ]
        steps = step(add(loop.start, first), self.join_to)
        joined = over_lanes(
            lambda lane: [
                join.take(Load(room, lane, join.total.dtype, self.root)) for join, room in lanes
            ]
        )
        by_lanes += [For(first, ZERO, whole, [steps], step=size), joined]
        is_long = compare("ge", length, integer(size))
        return [*(by_lanes if is_long == TRUE else [If(is_long, by_lanes)]), *rest]

    def step(
        self, loop: For, place: Expr, joins: Sequence[_Join], together: int
    ) -> tuple[list[Stmt], list[Expr]]:
        """What joins the elements that lie a vector apart, and what they are for each sum."""
        found: list[Stmt] = []
        stores: list[Stmt] = []
        terms: list[list[Expr]] = [[] for _ in joins]
        values = _values(loop)
        for number in range(together):
            entry = self.variable(loop.var.name)
            found.append(Let(entry, add(place, integer(number * LANES))))
            own: dict[str, Var] = {loop.var.name: entry}
            for one in loop.body:
                if isinstance(one, Let):
                    var = self.variable(one.var.name, one.var.dtype)
                    found.append(Let(var, renamed(one.value, own)))
                    own[one.var.name] = var
                elif isinstance(one, Store):
                    index, value = renamed(one.index, own), renamed(one.value, own)
                    stores.append(replace(one, index=index, value=value))
            for join, of_sum in zip(joins, terms, strict=True):
                of_sum.append(renamed(_as_narrow(join.term, values), own))
        trees = [join.tree(of_sum) for join, of_sum in zip(joins, terms, strict=True)]
        return [*found, *stores], trees

    def join_to(self, join: _Join, room: Var, lane: Var, value: Expr) -> Store:
        """Join a float32 or an int32 to a lane."""
        before = Load(room, lane, join.total.dtype, self.root)
        return self.put(join, room, lane, join(before, join.widened(value)))

    def put(self, join: _Join, room: Var, lane: Var, value: Expr) -> Store:
        return Store(room, lane, value, self.root)


@dataclass(frozen=True, slots=True)
class _Join:
    """A step that joins a term to a total: a sum, a count or an extremum."""

    total: Var
    op: str
    term: Expr

    @classmethod
    def of(cls, step: Assign) -> _Join:
        assert isinstance(step.value, Binary)
        return cls(step.var, step.value.op, step.value.y)

    @property
    def narrow(self) -> str:
        """The dtype in which terms are joined before they are joined to a total."""
        return _NARROW.get(self.total.dtype, self.total.dtype)

    def __call__(self, x: Expr, y: Expr) -> Binary:
        return Binary(self.op, x, y, x.dtype, reassoc=x.dtype.startswith("float"))

    def nothing(self, dtype: str) -> Const:
        """What changes nothing."""
        if self.op == "add":
            return Const(0.0 if dtype.startswith("float") else 0, dtype)
        return Const(inf if self.op == "min" else -inf, dtype)

    def widened(self, term: Expr) -> Expr:
        return term if term.dtype == self.total.dtype else Cast(term, self.total.dtype)

    def take(self, term: Expr) -> Assign:
        """Join a term to the total itself."""
        return Assign(self.total, self(self.total, self.widened(term)))

    def tree(self, terms: Sequence[Expr]) -> Expr:
        """A power of two of terms joined."""
        if len(terms) == 1:
            return terms[0]
        half = len(terms) // 2
        x, y = self.tree(terms[:half]), self.tree(terms[half:])
        return self(x, y) if self.op != "add" else Binary("add", x, y, x.dtype)


_NARROW = {"float64": "float32", "int64": "int32"}


def _is_sum(loop: For) -> bool:
    """Whether a loop adds up cheap elements of float32 or float16, and at most writes such.

    It may count beside that, and take extrema of float32.
    """
    trips = known_trips(loop)
    is_short = trips is not None and trips < LANES * TOGETHER_IN_ROWS and trips not in SHORT_ROWS
    lets = [one for one in loop.body if isinstance(one, Let) and not one.mutable]
    steps = [one for one in loop.body if isinstance(one, Assign)]
    stores = [one for one in loop.body if isinstance(one, Store)]
    comments = sum(isinstance(one, Comment) for one in loop.body)
    is_plain = len(lets) + len(steps) + len(stores) + comments == len(loop.body)
    if is_short or loop.step != 1 or not steps or not is_plain or _reads_back(loop, stores):
        return False
    values = [one.value for one in lets] + [one.value for one in stores]
    read = {name for value in values for name in variables(value)}
    read |= {name for one in steps for name in variables(_term(one))}
    if not any(map(_is_narrow, steps)) or read & {one.var.name for one in steps}:
        return False
    known = _values(loop)
    if not all(_is_narrow(one) or _counts(one, known) or _is_extremum(one) for one in steps):
        return False
    # What also writes waits for memory, and long steps would be copied for little.
    return sum(_operations_of(loop)) <= (MOST_STORED if stores else MOST_OPERATIONS)


def _reads_back(loop: For, stores: Sequence[Store]) -> bool:
    """Whether a step may read what another one has written: lanes take them in another order."""
    written = written_roots(stores)
    if "" in written or not overlap(written, read_roots(loop.body)):
        return "" in written
    if "" in read_roots(loop.body):
        return True
    places: dict[str, set[tuple[Expr, Expr, int]]] = {}
    accesses: list[Store | Load] = [*stores, *loads_in(loop.body)]
    for one in accesses:
        places.setdefault(one.root, set()).add((one.pointer, one.index, one.unit))
    return any(len(places[root]) > 1 for root in written)


def _is_narrow(step: Assign) -> bool:
    """Whether a step adds what is converted to float64."""
    term = _term(step)
    return (
        step.value == _sum(step.var, term)
        and isinstance(term, Cast)
        and not term.bits
        and term.x.dtype in ("float16", "float32")
    )


def _counts(step: Assign, values: Mapping[str, Expr]) -> bool:
    """Whether a step adds one or nothing to an int64."""
    term = _term(step)
    return _flag(term, values) is not None and step.value == _sum(step.var, term)


def _is_extremum(step: Assign) -> bool:
    """Whether a step takes the greatest or least float32, in any order."""
    value = step.value
    return (
        isinstance(value, Binary)
        and value.op in ("min", "max")
        and value.reassoc
        and value.dtype == "float32"
        and value.x == step.var
    )


def _flag(term: Expr, values: Mapping[str, Expr]) -> Expr | None:
    """The bool that a term was before it became an int64."""
    value = values.get(term.name, term) if isinstance(term, Var) else term
    if not isinstance(value, Cast) or value.dtype != "int64" or value.x.dtype != "bool":
        return None
    return value.x


def _values(loop: For) -> dict[str, Expr]:
    """What the names that a loop binds stand for."""
    return {one.var.name: one.value for one in loop.body if isinstance(one, Let)}


def _term(step: Assign) -> Expr:
    return step.value.y if isinstance(step.value, Binary) else step.value


def _sum(x: Expr, y: Expr) -> Binary:
    return Binary("add", x, y, x.dtype, reassoc=x.dtype.startswith("float"))


def _together(loop: For) -> int:
    """How many elements of a lane are added in float32.

    Of loops whose length is not known, those that are parts of a longer one are long.
    """
    trips = known_trips(loop)
    if trips in SHORT_ROWS:
        return trips // LANES
    is_long = loop.start != ZERO if trips is None else trips >= LANES * TOGETHER
    return TOGETHER if is_long else TOGETHER_IN_ROWS


def _operations_of(loop: For) -> Iterator[float]:
    """The operations of each expression of a step, but for those on places."""
    return (_operations(x) for one in loop.body for x in expressions(one))


def _operations(x: Expr) -> float:
    if isinstance(x, Call):
        return inf
    is_one = isinstance(x, Unary | Binary | Select) and x.dtype != "int64"
    return is_one + sum(map(_operations, children(x)))


def _as_narrow(term: Expr, values: Mapping[str, Expr]) -> Expr:
    """A term in half of the bits: what it was before it became a float64, or an int32."""
    flag = _flag(term, values)
    if flag is not None:
        return Cast(flag, "int32")
    if term.dtype == "float32":
        return term
    assert isinstance(term, Cast)
    return term.x if term.x.dtype == "float32" else Cast(term.x, "float32")


def _strides(loop: For) -> list[Var]:
    """The variables that the loop's own is multiplied by where elements are loaded."""
    found: dict[str, Var] = {}
    waiting: list[Expr] = [load.index for load in loads_in(loop.body)]
    while waiting:
        x = waiting.pop()
        if isinstance(x, Binary) and x.op == "mul" and x.x == loop.var and isinstance(x.y, Var):
            found[x.y.name] = x.y
        waiting += children(x)
    return list(found.values())


def _with_values(one: Stmt, own: Mapping[str, Expr]) -> Stmt:
    return replace(one, value=renamed(one.value, own)) if isinstance(one, Let | Assign) else one


def _multiple(length: Expr, size: int) -> Expr:
    """The largest multiple of a power of two that a length holds."""
    if isinstance(length, Const):
        return integer(length.value - length.value % size)
    return Binary("and", length, integer(-size), "int64")


def _room() -> Call:
    return Call(STACK, (integer(LANES * 8),), "ptr", external=True)
