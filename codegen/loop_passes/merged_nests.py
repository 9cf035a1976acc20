"""Nests that write an array and then parts of it become one nest.

The first loops over all elements are cut where a part begins and ends.  In between, each element
is computed and changed at once, so that it is written once and never read again.  The loops that
come of it may be cut by the next part.

Before::

    for i in range(0, n):
        x[i] = a[i] + b[i]
    for i in range(0, n - 2):
        x[i + 1] = x[i + 1] + c[i]

After::

    for i in range(0, 1):
        x[i] = a[i] + b[i]
    for i in range(1, n - 1):
        t = a[i] + b[i]
        x[i] = t + c[i - 1]
    for i in range(n - 1, n):
        x[i] = a[i] + b[i]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.accesses import Access, Accesses
from jitcore.codegen.loop_passes.rewriting import (
    copied,
    numbered,
    replaced,
    with_blocks,
    with_expressions,
)
from jitcore.codegen.loop_passes.traversal import (
    STACK,
    bound_names,
    calls_c,
    expressions,
    known_trips,
    walk,
)
from jitcore.codegen.loops import (
    Binary,
    Call,
    Comment,
    Const,
    Do,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, multiply
from jitcore.ir.dataclass import dataclass

__all__ = ["merge_nests"]

MOST_STATEMENTS = 48
"""Of both nests: those of the first one are there up to five times then."""


_ALLOCATORS = frozenset({"jc_empty", "jc_malloc", "malloc", STACK})


def merge_nests(function: Function) -> Function:
    """The function with nests merged that follow each other and change the same elements."""
    return replace(function, body=_Merging(function).block(function.body))


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops of known extents, each around the next one only, with what they bind before it."""

    loops: tuple[For, ...]
    accesses: tuple[Access, ...]

    @property
    def body(self) -> list[Stmt]:
        """The statements of the innermost loop."""
        return self.loops[-1].body


class _Merging:
    def __init__(self, function: Function) -> None:
        self.names = bound_names(function.body) | {param.name for param in function.params}
        self.addresses = _Addresses()

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        found: list[Stmt] = []
        pieces: list[Nest] = []
        for one in statements:
            self.addresses.note(one)
            nest = _nest(one)
            merged = self.merged(pieces, nest) if pieces and nest else None
            if merged is not None:
                loops = [place for place, each in enumerate(found) if isinstance(each, For)]
                place = loops[-len(pieces)]
                between = [each for each in found[place:] if not isinstance(each, For)]
                found[place:] = [*between, *merged]
                nests = list(map(_nest, merged))
                pieces = [each for each in nests if each] if all(nests) else []
                continue
            if not isinstance(one, Comment) and not _allocates(one):
                pieces = [nest] if nest else []
            found.append(one if nest else with_blocks(one, self.block))
        return found

    def merged(self, pieces: Sequence[Nest], second: Nest) -> list[Stmt] | None:
        """Nests that follow each other, with another one that follows them, where it is possible.

        The pieces are parts of one range of their outermost loops, in its order.
        """
        if len(pieces) == 1 and len(pieces[0].loops) == 1 and len(second.loops) == 2:
            pieces = [self.in_rows(pieces[0], second)]
        found = {_shifts(first, second, self.addresses) for first in pieces}
        shifts = found.pop()
        statements = sum(len(first.body) + len(second.body) for first in pieces)
        if shifts is None or found or statements > MOST_STATEMENTS:
            return None
        bounds = [
            (start + shift, stop + shift)
            for (start, stop), shift in zip(map(_bounds, second.loops), shifts, strict=True)
        ]
        start, stop = bounds[0]
        if start < _bounds(pieces[0].loops[0])[0] or stop > _bounds(pieces[-1].loops[0])[1]:
            return None
        merged: list[Stmt] = []
        for first in pieces:
            low, high = _bounds(first.loops[0])
            part = (max(low, start), min(high, stop))
            inner = zip(map(_bounds, first.loops[1:]), bounds[1:], strict=True)
            if part[0] >= part[1]:
                merged.append(first.loops[0])
            elif all(own[0] <= other[0] <= other[1] <= own[1] for own, other in inner):
                merged += self.parts(first, second, shifts, [part, *bounds[1:]], 0, {})
            else:
                return None
        return merged

    def in_rows(self, first: Nest, second: Nest) -> Nest:
        """Elements that are walked as one line, by the rows that another nest takes them in."""
        (loop,), written = first.loops, {one.root for one in first.accesses if one.is_write}
        steps = {_factors(one, second)[0][0] for one in second.accesses
                 if one.root in written and one.place is not None}  # fmt: skip
        width, trips = max(steps, default=0), known_trips(loop) or 0
        if width < 2 or trips % width or loop.start != ZERO:
            return first
        row, column = (Var(numbered(name, self.names), "int64") for name in ("row", "column"))
        names: dict[str, Expr] = {loop.var.name: add(multiply(row, integer(width)), column)}
        inner = For(
            column, ZERO, integer(width), [copied(one, self.names, names) for one in loop.body]
        )
        rows = For(row, ZERO, integer(trips // width), [inner], parallel=loop.parallel)
        return _nest(rows) or first

    def parts(
        self,
        first: Nest,
        second: Nest,
        shifts: Sequence[int],
        bounds: Sequence[tuple[int, int]],
        level: int,
        own: dict[str, Expr],
    ) -> Iterator[Stmt]:
        """The loops of a level: of the first nest alone, of both, and of the first one alone."""
        loop, other = first.loops[level], second.loops[level]
        (low, high), (start, stop) = _bounds(loop), bounds[level]
        if low < start:
            yield copied(replace(loop, stop=integer(start)), self.names, own)
        var = replace(loop.var, name=numbered(loop.var.name, self.names))
        names: dict[str, Expr] = {
            **own,
            loop.var.name: var,
            other.var.name: add(var, integer(-shifts[level])),
        }
        if level + 1 == len(first.loops):
            body = self.both(first, second, names)
        else:
            body = [*self.bound(loop, names), *self.bound(other, names)]
            body += self.parts(first, second, shifts, bounds, level + 1, names)
        is_parallel = loop.parallel and other.parallel
        yield For(var, integer(start), integer(stop), body, parallel=is_parallel)
        if stop < high:
            yield copied(replace(loop, start=integer(stop)), self.names, own)

    def bound(self, loop: For, names: dict[str, Expr]) -> Iterator[Stmt]:
        """What a loop binds before the next one."""
        plain = (one for one in loop.body if not isinstance(one, For))
        return (copied(one, self.names, names) for one in plain)

    def both(self, first: Nest, second: Nest, names: dict[str, Expr]) -> list[Stmt]:
        """The steps of both nests: what the first one stores, the second one need not load."""
        stored: dict[str, Expr] = {}
        overwritten = {one.root for one in second.body if isinstance(one, Store)}
        body: list[Stmt] = []
        for one in first.body:
            step = copied(one, self.names, names)
            if not isinstance(step, Store):
                body.append(step)
                continue
            value = step.value
            if not isinstance(value, Var | Const):
                var = Var(numbered("value", self.names), value.dtype)
                body.append(Let(var, value))
                value = var
            stored[step.root] = value
            if step.root not in overwritten:
                body.append(replace(step, value=value))

        def known(x: Expr) -> Expr | None:
            return stored.get(x.root) if isinstance(x, Load) else None

        for one in second.body:
            changed = with_expressions(one, lambda x: replaced(x, known))
            step = copied(changed, self.names, names)
            body.append(step)
            if isinstance(step, Store):
                stored.pop(step.root, None)
        return body


def _allocates(one: Stmt) -> bool:
    """Whether a statement takes memory, or ends the function where there is none."""
    if isinstance(one, Let):
        # Other functions, such as those that make lists, read what nests have written.
        reads = isinstance(one.value, Call) and one.value.name not in _ALLOCATORS
        return one.var.dtype == "ptr" and not one.mutable and not reads
    match one:
        case If(condition=Binary(op="eq", x=Var(dtype="ptr")), then=[*_, Return()], orelse=[]):
            return all(isinstance(each, Do | Return) for each in one.then)
    return False


def _nest(statement: Stmt) -> Nest | None:
    """A statement as a nest of plain loops of known extents."""
    loops: list[For] = []
    one: Stmt | None = statement
    while isinstance(one, For):
        if one.step != 1 or not known_trips(one):
            return None
        loops.append(one)
        inner = [each for each in one.body if isinstance(each, For)]
        if inner and one.body[-1] is not inner[0]:
            return None
        one = inner[0] if inner else None
    if not loops or len(loops[-1].body) > MOST_STATEMENTS or not all(map(_is_plain, walk(loops))):
        return None
    collected = Accesses()
    for loop in loops:
        collected.block([each for each in loop.body if not isinstance(each, For)])
    return Nest(tuple(loops), tuple(collected.found))


def _is_plain(one: Stmt) -> bool:
    if isinstance(one, Let) and one.mutable:
        return False
    is_known = isinstance(one, Let | Store | Comment | For)
    return is_known and not any(map(calls_c, expressions(one)))


def _bounds(loop: For) -> tuple[int, int]:
    assert isinstance(loop.start, Const) and isinstance(loop.stop, Const)
    return int(loop.start.value), int(loop.stop.value)


class _Addresses:
    """When addresses were known first, and memory was taken, along the way through a function.

    In each iteration of a loop that is so again: what was there before memory was taken is apart
    from it.
    """

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.taken: dict[str, int] = {}

    def note(self, one: Stmt) -> None:
        """Note what a statement binds."""
        if not isinstance(one, Let) or one.var.dtype != "ptr" or one.mutable:
            return
        name = one.var.name
        self.known[name] = moment = len(self.known)
        match one.value:
            case Call(name=function) if function in _ALLOCATORS:
                self.taken[name] = moment
            case Load(Var(name=array), index=Const(value=2)) if array in self.taken:
                # The data of an ndarray.
                self.taken[name] = self.taken[array]

    def are_apart(self, read: Expr, root: str) -> bool:
        """Whether the memory at an address was there before that of a root was taken."""
        known = self.known.get(read.name) if isinstance(read, Var) else None
        return known is not None and known < self.taken.get(root, -1)


def _shifts(first: Nest, second: Nest, addresses: _Addresses) -> tuple[int, ...] | None:
    """How far the counters of the first nest are ahead where both touch an element.

    None where that is not the same for all elements of arrays that one of them changes.
    """
    if len(first.loops) != len(second.loops):
        return None
    accesses = (*first.accesses, *second.accesses)
    changed = {one.root for one in accesses if one.is_write}
    for one in accesses:
        if not one.root and not all(addresses.are_apart(one.pointer, root) for root in changed):
            return None
    shared = changed & _roots(first.accesses) & _roots(second.accesses)
    written = {one.root for one in first.accesses if one.is_write}
    read = {one.root for one in first.accesses if not one.is_write}
    if not shared & written or read & written:
        return None
    found = {
        _shift(one, two, first, second)
        for one in first.accesses
        for two in second.accesses
        if one.root == two.root and one.root in shared
    }
    return found.pop() if len(found) == 1 else None


def _roots(accesses: Iterable[Access]) -> set[str]:
    return {one.root for one in accesses}


def _shift(one: Access, two: Access, first: Nest, second: Nest) -> tuple[int, ...] | None:
    """The shift at which two accesses are to the same element, one for each loop."""
    if one.place is None or two.place is None:
        return None
    if (one.pointer, one.dtype) != (two.pointer, two.dtype):
        return None
    factors, rest = _factors(one, first)
    if (factors, rest) != _factors(two, second) or 0 in factors:
        return None
    # Each element is touched in one iteration only.
    lengths = [high for _, high in map(_bounds, first.loops)]
    spans = [factor * length for factor, length in zip(factors, lengths, strict=True)]
    if factors[-1] <= 0 or any(x < y for x, y in zip(factors, spans[1:], strict=False)):
        return None
    left = two.place.constant - one.place.constant
    shifts = []
    for factor in factors:
        # From the longest step to the shortest: what is left is less than half of a step.
        shift = (2 * left + factor) // (2 * factor)
        shifts.append(shift)
        left -= shift * factor
    return tuple(shifts) if left == 0 else None


def _factors(access: Access, nest: Nest) -> tuple[tuple[int, ...], frozenset[tuple[str, int]]]:
    """What the counters of the loops are multiplied by, and the terms of other variables."""
    assert access.place is not None
    terms = dict(access.place.terms)
    factors = tuple(terms.pop(loop.var.name, 0) for loop in nest.loops)
    return factors, frozenset(terms.items())
