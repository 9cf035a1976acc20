"""Walks over large arrays that each iteration of a loop makes: taken in parts, by all iterations.

A loop that reduces the same large arrays in each iteration reads all of them from memory each time.
Lowering cuts such a walk into parts with accumulators of their own (`lowering.walks`).  A part that
stays in the cache can be walked by many iterations before the next one; and parts are shared by
threads once for all of these iterations.

Before::

    for i in range(n):
        low = i * width
        count_parts = malloc(8 * 25)
        for part in range(25):                      # parallel
            count = 0
            for k in range(part * 16384, part * 16384 + 16384):
                count += low < x[k]
            count_parts[part] = count
        ...                                         # adds up count_parts
        free(count_parts)

After::

    count_parts = jc_malloc(8 * 25 * 64)
    for first in range(0, n, 64):
        last = min(first + 64, n)
        for part in range(25):                      # parallel
            for i in range(first, last):
                low = i * width
                ...
                count_parts[(i - first) * 25 + part] = count
        for i in range(first, last):
            ...                                     # adds up count_parts[(i - first) * 25 + ...]
    jc_free(count_parts)

All parts are added up as before, so results keep their bits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.rewriting import (
    replaced,
    unused_name,
    with_blocks,
    with_expressions,
)
from jitcore.codegen.loop_passes.traversal import (
    RELEASES,
    blocks,
    bound_names,
    children,
    expressions,
    free_variables,
    has_effect,
    loads,
    loads_in,
    reads_by_call,
    variables,
    walk,
    written_roots,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Break,
    Call,
    Const,
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
)
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, minimum, multiply, subtract
from jitcore.ir.dataclass import dataclass

__all__ = ["share_walks"]

TOGETHER = 64
"""So many iterations take a part while it is in the cache; more would gain little."""


def share_walks(statements: Sequence[Stmt], notes: list[str]) -> list[Stmt]:
    """The statements with the walks of loops' iterations taken together.

    Parameters
    ----------
    statements : sequence of Stmt
        The body of a function.
    notes : list of str
        Takes a line for each loop that is changed.
    """
    names = bound_names(statements)
    chosen = {
        one.var.name
        for one in walk(statements)
        if isinstance(one, Let) and one.mutable and one.var.dtype == "ptr"
    }

    def block(inside: Sequence[Stmt]) -> list[Stmt]:
        found: list[Stmt] = []
        for one in inside:
            changed = with_blocks(one, block)
            walks = _walks(changed, chosen) if isinstance(changed, For) else []
            if isinstance(changed, For) and walks:
                notes.append(
                    f"{TOGETHER} iterations of the loop over {changed.var.name} take each part "
                    "of the arrays that they reduce"
                )
                found += _Sharing(changed, walks, names).statements()
            else:
                found.append(changed)
        return found

    return block(statements)


@dataclass(frozen=True, slots=True)
class _Walk:
    """One walk in parts: its loop, what it needs of the iteration, and the arrays of its results.

    Parameters
    ----------
    loop : For
        Over parts.
    lets : list of Let
        Pure values of the iteration, in their order.
    arrays : frozenset of str
        The names of the arrays that hold a number for each part.
    """

    loop: For
    lets: list[Let]
    arrays: frozenset[str]

    @property
    def parts(self) -> int:
        """How many parts there are."""
        assert isinstance(self.loop.stop, Const)
        return int(self.loop.stop.value)


# Which walks ------------------------------------------------------------------------------


def _walks(loop: For, chosen: Collection[str]) -> list[_Walk]:
    """The walks of a loop that do not depend on what its iterations write; maybe none.

    ``chosen`` are variables that hold addresses, or null where what they are for has no value.
    """
    if loop.parallel or loop.step != 1:
        return []
    has_walks = any(isinstance(one, For) and one.parallel for one in loop.body)
    if not has_walks or not _only_computes(loop.body):
        return []
    changing = {one.var.name for one in walk(loop.body) if isinstance(one, Assign)}
    pure: dict[str, Let] = {}
    arrays: set[str] = set()
    for one in loop.body:
        match one:
            case Let(var, Call("malloc" | "jc_malloc", (Const(),), external=True)):
                arrays.add(var.name)
            case Let(var, value, mutable):
                needs_changing = not changing.isdisjoint(variables(value))
                if not (mutable or needs_changing or has_effect(value)):
                    pure[var.name] = one
    found: list[_Walk] = []
    is_guarded = False
    for number, one in enumerate(loop.body):
        is_guarded |= isinstance(one, If) and not _looks_for_memory(one, arrays)
        if isinstance(one, For) and one.parallel and one.start == ZERO and one.step == 1:
            made = _walk_of(one, loop, number, pure, arrays)
            if made is not None and not (is_guarded and _chooses_places(made, loop, chosen)):
                found.append(made)
    written = written_roots(loop.body) - {name for one in found for name in one.arrays}
    return [] if "" in written else [one for one in found if not _reads(one, written, changing)]


def _only_computes(body: Sequence[Stmt]) -> bool:
    """Whether no C function is called that writes memory, and nothing ends the loop early."""
    for one in walk(body):
        if isinstance(one, Break | Continue):
            return False
        if isinstance(one, Do) and one.call.name not in RELEASES:
            return False
    return True


def _looks_for_memory(statement: If, arrays: Iterable[str]) -> bool:
    """Whether a branch leaves where there was no memory for an array."""
    read = set(variables(statement.condition))
    return len(read) == 1 and read <= set(arrays) and not statement.orelse


def _walk_of(
    loop: For, around: For, number: int, pure: dict[str, Let], arrays: Iterable[str]
) -> _Walk | None:
    """A walk, if it stores numbers of its parts alone, and all else it needs are pure values."""
    stores = [one for one in walk(loop.body) if isinstance(one, Store)]
    own = frozenset(one.root for one in stores)
    if not isinstance(loop.stop, Const) or not own <= set(arrays):
        return None
    if any(one.pointer != Var(one.root, "ptr") or one.index != loop.var for one in stores):
        return None
    if not all(_only_numbers(around, name, loop) for name in own):
        return None
    lets = _needed(loop, around, number, pure, own)
    return None if lets is None else _Walk(loop, lets, own)


def _only_numbers(around: For, name: str, loop: For) -> bool:
    """Whether an array is only allocated, looked for, stored to by a loop, read and released."""
    pointer = Var(name, "ptr")
    stores = {id(one) for one in walk(loop.body) if isinstance(one, Store)}
    for one in walk(around.body):
        if isinstance(one, Do | If) or (isinstance(one, Store) and id(one) in stores):
            continue
        found = [load for x in expressions(one) for load in loads(x) if load.pointer == pointer]
        named = sum(name == read for x in expressions(one) for read in variables(x))
        if named != len(found) or any(load.root != name for load in found):
            return False
    return True


def _needed(
    loop: For, around: For, number: int, pure: dict[str, Let], own: frozenset[str]
) -> list[Let] | None:
    """The pure values of an iteration that a walk depends on; None where there are others."""
    bound = bound_names(around.body)
    waiting = [var.name for var in free_variables([loop]) if var.name not in own]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in found or name not in bound:
            continue
        if name not in pure:
            return None
        found.add(name)
        waiting += variables(pure[name].value)
    before = around.body[:number]
    return [one for one in before if isinstance(one, Let) and one.var.name in found]


def _chooses_places(one: _Walk, around: For, chosen: Collection[str]) -> bool:
    """Whether only a test before a walk may tell that its iteration reads and divides nothing bad.

    Numbers of the iteration harm nobody, unless they say where something lies.
    """
    numbers = {around.var.name, *(let.var.name for let in one.lets), *chosen}
    naming = [each for each in walk(one.loop.body) if isinstance(each, Let | Assign | For)]
    known = 0
    while known < len(numbers):
        known = len(numbers)
        numbers |= {
            each.var.name
            for each in naming
            if any(not numbers.isdisjoint(variables(x)) for x in expressions(each))
        }
    inside: list[Stmt] = [*one.lets, one.loop]
    if any(map(_divides_integers, (x for each in walk(inside) for x in expressions(each)))):
        return True
    return any(not numbers.isdisjoint(variables(load)) for load in loads_in(inside))


def _divides_integers(x: Expr) -> bool:
    is_quotient = isinstance(x, Binary) and x.op in ("quot", "rem")
    return is_quotient or any(map(_divides_integers, children(x)))


def _reads(one: _Walk, written: set[str], changing: set[str]) -> bool:
    """Whether a walk reads memory that iterations write, or a variable that they change."""
    inside: list[Stmt] = [*one.lets, one.loop]
    if any(load.root in written or not load.root for load in loads_in(inside)):
        return True
    if any(reads_by_call(x) for each in walk(inside) for x in expressions(each)):
        return True
    return any(var.name in changing for var in free_variables(inside))


# The loops --------------------------------------------------------------------------------


class _Sharing:
    """The loops that one loop becomes."""

    def __init__(self, loop: For, walks: Sequence[_Walk], names: set[str]) -> None:
        self.loop = loop
        self.walks = walks
        self.names = names
        self.parts = {name: one.parts for one in walks for name in one.arrays}
        self.first, self.last = (
            Var(unused_name(f"{loop.var.name}_{part}", names), "int64")
            for part in ("first", "last")
        )

    def statements(self) -> list[Stmt]:
        """The arrays, the loop over so many iterations at a time, and the arrays' release."""
        taken = [self._taken(parts) for parts in dict.fromkeys(one.parts for one in self.walks)]
        inside = [*self._rest(self.loop.body)]
        size = integer(TOGETHER)
        body: list[Stmt] = [
            Let(self.last, minimum(add(self.first, size), self.loop.stop)),
            *taken,
            For(self.loop.var, self.first, self.last, inside),
        ]
        around = For(self.first, self.loop.start, self.loop.stop, body, step=TOGETHER)
        return [*self._allocations(), around, *self._releases(self.parts)]

    def _taken(self, parts: int) -> For:
        """The loop over parts, each of them for several iterations."""
        walks = [one for one in self.walks if one.parts == parts]
        part = walks[0].loop.var
        lets: dict[str, Let] = {let.var.name: let for one in walks for let in one.lets}
        body: list[Stmt] = list(lets.values())
        for one in walks:
            body += self._renamed(self._rest(one.loop.body), {one.loop.var.name: part})
        counter = Var(unused_name(f"{self.loop.var.name}_", self.names), "int64")
        new = {
            name: Var(unused_name(f"{name}_", self.names), let.var.dtype)
            for name, let in lets.items()
        }
        body = self._renamed(body, {**new, self.loop.var.name: counter})
        body = [
            replace(one, var=new[one.var.name])
            if isinstance(one, Let) and one.var.name in new
            else one
            for one in body
        ]
        each = For(counter, self.first, self.last, body)
        return For(part, ZERO, integer(parts), [each], parallel=True)

    def _renamed(self, statements: Sequence[Stmt], new: dict[str, Var]) -> list[Stmt]:
        def change(x: Expr) -> Expr | None:
            return new.get(x.name) if isinstance(x, Var) else None

        return [with_expressions(one, lambda x: replaced(x, change)) for one in statements]

    def _rest(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """What stays of statements, with places of the iteration's own in the arrays."""
        kept: list[Stmt] = []
        taken = {id(one.loop) for one in self.walks}
        for one in statements:
            if id(one) in taken or self._is_about_memory(one):
                continue
            if isinstance(one, Return):
                kept += self._releases(self.parts)
            kept.append(self._own_places(with_blocks(one, self._rest)))
        return kept

    def _is_about_memory(self, statement: Stmt) -> bool:
        """Whether a statement allocates or releases one of the arrays, or looks for memory."""
        match statement:
            case Let(var):
                return var.name in self.parts
            case Do(call):
                return any(isinstance(arg, Var) and arg.name in self.parts for arg in call.args)
            case If():
                return _looks_for_memory(statement, self.parts)
        return False

    def _own_places(self, statement: Stmt) -> Stmt:
        """A statement (its blocks are done) that uses the iteration's own part of the arrays."""

        def place(name: str, index: Expr) -> Expr:
            number = subtract(self.loop.var, self.first)
            return add(multiply(number, integer(self.parts[name])), index)

        def change(x: Expr) -> Expr | None:
            if isinstance(x, Load) and x.root in self.parts:
                return replace(x, index=place(x.root, replaced(x.index, change)))
            return None

        if blocks(statement):
            return statement
        changed = with_expressions(statement, lambda x: replaced(x, change))
        if isinstance(changed, Store) and changed.root in self.parts:
            return replace(changed, index=place(changed.root, changed.index))
        return changed

    def _allocations(self) -> list[Stmt]:
        """The arrays, with room for all iterations that are taken together."""
        made: list[Stmt] = []
        before: list[str] = []
        bound = bound_names(self.loop.body)
        for one in self.loop.body:
            match one:
                case Let(var, Call(_, (Const(size),))) if var.name in self.parts:
                    room = integer(int(size) * TOGETHER)
                    made.append(Let(var, Call("jc_malloc", (room,), "ptr", external=True)))
                    before.append(var.name)
                case If() if _looks_for_memory(one, self.parts):
                    kept = [inner for inner in one.then if not _is_call_on(inner, bound)]
                    releases = self._releases(before[:-1])
                    made.append(replace(one, then=[*releases, *kept]))
        return made

    def _releases(self, names: Iterable[str]) -> list[Stmt]:
        return [Do(Call("jc_free", (Var(name, "ptr"),), "void", external=True)) for name in names]


def _is_call_on(statement: Stmt, names: Collection[str]) -> bool:
    """Whether a statement calls a function with one of the variables."""
    return isinstance(statement, Do) and any(x in names for x in variables(statement.call))
