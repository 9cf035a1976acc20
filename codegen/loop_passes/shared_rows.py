"""Rows that read the same elements are computed several at a time.

A stencil reads each row for its own result, and again for those of the rows beside it.  From the
first cache a vector takes a cycle to load, and two where it lies in two lines of the cache, as most
vectors of a stencil do.  So four rows side by side, which load what they share once, take 0.7 to
0.9 of the time.

Before::

    for i in range(0, 510):
        for j in range(0, 510):
            t = load(x, i * 512 + j + 1)
            t_2 = load(x, i * 512 + j + 1025)
            store(result, i * 510 + j, t + t_2)

After::

    for step in range(0, 128):
        row = min(step * 4, 506)
        for j in range(0, 510):
            t = load(x, row * 512 + j + 1)
            t_2 = load(x, row * 512 + j + 1025)
            t_3 = load(x, row * 512 + j + 513)
            t_4 = load(x, row * 512 + j + 1537)
            t_5 = load(x, row * 512 + j + 2049)
            t_6 = load(x, row * 512 + j + 2561)
            store(result, row * 510 + j, t + t_2)
            store(result, row * 510 + j + 510, t_3 + t_4)
            store(result, row * 510 + j + 1020, t_2 + t_5)
            store(result, row * 510 + j + 1530, t_4 + t_6)

The last rows may be computed twice, which changes nothing, since they read nothing that is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.accesses import Accesses
from jitcore.codegen.loop_passes.independence import writes_apart
from jitcore.codegen.loop_passes.rewriting import copied, numbered, with_blocks
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    expressions,
    known_trips,
    loads,
    names_in,
    subexpressions,
    variables,
)
from jitcore.codegen.loops import Call, Comment, Expr, For, Function, Let, Load, Stmt, Store, Var
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, minimum, multiply
from jitcore.codegen.lowering.ranges import Linear

__all__ = ["share_rows"]

ROWS = 4
"""How many rows are computed side by side."""

LEAST_ROWS = 32
"""Of fewer rows threads would not have enough parts, and the last ones take their time twice."""

LEAST_ROW = 32
"""Elements of a row; of shorter rows most are in what is left beside whole vectors."""

LEAST_LOADS = 4
"""Rows that load less wait for memory, or for their stores: two or three loads took as long."""

MOST_SHARED = 0.75
"""The part of the loads that may be left for the rows to gain."""

MOST_LOADS = 24
"""What four rows load of elements that differ; registers hold no more of them."""

MOST_NESTS = 8
"""Nests of a function that are changed: more take longer to compile than they save."""

Place = tuple[str, Expr, str, Linear]


def share_rows(function: Function) -> Function:
    """The function with nests whose rows read the same elements computed four rows at a time."""
    return replace(function, body=_Rows(function).block(function.body))


class _Rows:
    def __init__(self, function: Function) -> None:
        self.names = names_in(function)
        self.left = MOST_NESTS

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        return [self.statement(one) for one in statements]

    def statement(self, statement: Stmt) -> Stmt:
        row_walk = _walk_of(statement) if isinstance(statement, For) else None
        if not isinstance(statement, For) or row_walk is None:
            return with_blocks(statement, self.block)
        places = _places(statement, row_walk) if self.left else None
        if places is None or not _gains(places):
            return statement
        self.left -= 1
        return self.together(statement, row_walk)

    def together(self, loop: For, row_walk: For) -> For:
        """The loop over blocks of rows."""
        rows = known_trips(loop)
        assert rows is not None
        step, row = self.variable("step"), self.variable(loop.var.name)
        last = integer(rows - ROWS)
        body: list[Stmt] = [Let(row, add(loop.start, minimum(multiply(step, integer(ROWS)), last)))]
        owns: list[dict[str, Expr]] = [
            {loop.var.name: add(row, integer(number))} for number in range(ROWS)
        ]
        for one in loop.body[:-1]:
            body += [copied(one, self.names, own) for own in owns]
        walked = self.walked(loop, row_walk, owns)
        body.append(replace(row_walk, body=walked))
        return For(step, ZERO, integer(-(-rows // ROWS)), body, parallel=loop.parallel)

    def walked(self, loop: For, row_walk: For, owns: Sequence[dict[str, Expr]]) -> list[Stmt]:
        """An iteration along the rows: what they load, compute and then store."""
        found = _Forms(loop)
        shared: dict[Place, Var] = {}
        computed: list[Stmt] = []
        stored: list[Stmt] = []
        for number, own in enumerate(owns):
            for one in row_walk.body:
                place = found.place(one, number)
                if isinstance(one, Comment) and number:
                    continue
                if isinstance(one, Let) and place is not None and place in shared:
                    own[one.var.name] = shared[place]
                    continue
                new = copied(one, self.names, own)
                (stored if isinstance(one, Store) else computed).append(new)
                if isinstance(new, Let) and place is not None:
                    shared[place] = new.var
        return computed + stored

    def variable(self, name: str) -> Var:
        return Var(numbered(name, self.names), "int64")


class _Forms:
    """The places that the statements of a nest load from, in each of its rows."""

    def __init__(self, loop: For) -> None:
        self.row = loop.var.name
        self.accesses = Accesses()
        self.accesses.block(loop.body)
        self.inside = bound_names([loop])

    def place(self, statement: Stmt, number: int) -> Place | None:
        """What a statement loads ``number`` rows later; None where that is not plain."""
        if not isinstance(statement, Let) or not isinstance(statement.value, Load):
            return None
        load = statement.value
        form = self.accesses.linear(load.index)
        if form is None or not self.inside.isdisjoint(variables(load.pointer)):
            return None
        rows = dict(form.terms).get(self.row, 0)
        later = form.plus(Linear((), rows * number))
        return load.root, load.pointer, load.dtype, later

    def varies(self, place: Place) -> bool:
        """Whether each row has another element there."""
        return any(name == self.row for name, _ in place[-1].terms)


def _walk_of(loop: For) -> For | None:
    """The loop over a row's elements, which is as long in all rows; None where there is more."""
    row_walk = loop.body[-1] if loop.body else None
    if not isinstance(row_walk, For) or loop.step != 1 or row_walk.step != 1:
        return None
    if (known_trips(loop) or 0) < LEAST_ROWS or (known_trips(row_walk) or 0) < LEAST_ROW:
        return None
    before = loop.body[:-1]
    are_plain = all(map(_is_plain, [*before, *row_walk.body]))
    return row_walk if are_plain and not any(isinstance(x, Store) for x in before) else None


def _is_plain(statement: Stmt) -> bool:
    """Whether a statement computes or stores an element, without a function that takes longer."""
    if isinstance(statement, Let) and statement.mutable:
        return False
    if not isinstance(statement, Let | Store):
        return isinstance(statement, Comment)
    parts = (part for x in expressions(statement) for part in subexpressions(x))
    return not any(isinstance(part, Call) for part in parts)


def _places(loop: For, row_walk: For) -> list[list[Place]] | None:
    """What is loaded in each of the rows; None where they have to do with each other."""
    steps = [*loop.body[:-1], *row_walk.body]
    read = {one.root for step in steps for x in expressions(step) for one in loads(x)}
    written = {one.root for one in row_walk.body if isinstance(one, Store)}
    if "" in read | written or read & written or not written:
        return None
    if not loop.parallel and not writes_apart(loop):
        return None
    forms = _Forms(loop)
    rows = [[forms.place(one, number) for one in row_walk.body] for number in range(ROWS)]
    return [[place for place in row if place is not None and forms.varies(place)] for row in rows]


def _gains(places: Sequence[Sequence[Place]]) -> bool:
    """Whether rows load much of what the others load."""
    together = len({place for row in places for place in row})
    most = min(MOST_SHARED * sum(map(len, places)), MOST_LOADS)
    return len(places[0]) >= LEAST_LOADS and together <= most
