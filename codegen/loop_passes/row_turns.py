"""Rows that are reduced and then read again take turns: the next one is reduced before one is read.

What a row is reduced to is known some hundred cycles after its last element: vectors of sums are
added up, then their lanes, and a square root and a quotient follow.  A processor looks a few
hundred instructions ahead, which is less than the rest of the row.  So it waits, unless other work
comes first.  And to reduce a row waits for memory, to write it for divisions: side by side both
take little longer than one of them.

Before::

    for i in range(0, n):
        total = 0.0
        for k in range(0, 512):
            total = total + load(x, i * 512 + k)
        for k in range(0, 512):
            store(result, i * 512 + k, load(x, i * 512 + k) / total)

After::

    for block in range(0, (n + 15) / 16):
        first = block * 16
        last = min(first + 16, n)
        totals = stack(16)
        for turn in range(0, last - first + 1):
            if turn < last - first:
                i = first + turn
                total = 0.0
                for k in range(0, 512):
                    total = total + load(x, i * 512 + k)
                store(totals, i & 1, total)
            if turn >= 1:
                i = first + turn - 1
                total = load(totals, i & 1)
                for k in range(0, 512):
                    store(result, i * 512 + k, load(x, i * 512 + k) / total)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from jitcore.codegen.loop_passes.accesses import Accesses
from jitcore.codegen.loop_passes.independence import writes_apart
from jitcore.codegen.loop_passes.parallel import work_of
from jitcore.codegen.loop_passes.rewriting import numbered, with_blocks
from jitcore.codegen.loop_passes.traversal import (
    STACK,
    bound_names,
    expressions,
    known_trips,
    names_in,
    subexpressions,
    variables,
    walk,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Break,
    Call,
    Const,
    Continue,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Select,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    TRUE,
    ZERO,
    add,
    both,
    compare,
    integer,
    minimum,
    multiply,
    quotient_above,
    subtract,
)
from jitcore.codegen.printers.llvm_instructions import memory_bytes

__all__ = ["is_independent", "jumps", "kept_between", "let_rows_take_turns", "with_rooms"]

LEAST_ROW, MOST_ROW = 128, 8 * 1024
"""Bytes of a row, read and written.  Shorter ones are made vectors of side by side; longer ones
wait for a small part of their time, and several of them take much of the first cache."""

MOST_FAR_ROW = 3 * 1024
"""Bytes of a row of arrays that the caches do not hold: longer ones took 1.1 to 1.4 times as long,
since what a row has brought has left the first cache when it has its next turn."""

FAR = 8 * 1024 * 1024
"""So many bytes of all rows together the caches hold."""

ROWS = 16
"""How many rows a block has.  Nothing is side by side with its first and its last."""


def let_rows_take_turns(function: Function) -> Function:
    """The function with its loops over rows that are reduced and then read again in turns."""
    return replace(function, body=_RowTurns(function).block(function.body))


class _RowTurns:
    def __init__(self, function: Function) -> None:
        self.function = function

    @cached_property
    def names(self) -> set[str]:
        return names_in(self.function)

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        return [self.statement(one) for one in statements]

    def statement(self, statement: Stmt) -> Stmt:
        if isinstance(statement, For) and _has_rows(statement):
            pieces = _pieces(statement)
            kept = kept_between(pieces)
            # What a pointer leads to, on the stack, is there for one row only.
            are_values = kept and all(var.dtype != "ptr" for var in kept)
            if are_values and _is_of_size(statement):
                return self.in_turns(statement, pieces, kept, integer(ROWS))
            most = _open_rows(statement) if are_values else None
            if most is not None:
                return self.in_turns(statement, pieces, kept, most)
        return with_blocks(statement, self.block)

    def variable(self, name: str, dtype: str = "int64") -> Var:
        return Var(numbered(name, self.names), dtype)

    def in_turns(
        self, loop: For, pieces: Sequence[Sequence[Stmt]], kept: Sequence[Var], most: Expr
    ) -> For:
        """The loop over blocks of rows, in which each turn does every piece, for a row each.

        Blocks have ``most`` rows.
        """
        block, first, last, turn = map(self.variable, ("block", "first", "last", "turn"))
        rows = subtract(last, first)
        places = 1 << (len(pieces) - 1).bit_length()
        rooms = {var.name: self.variable(f"{var.name}_by_row", "ptr") for var in kept}
        room = Call(STACK, (integer(8 * places),), "ptr", external=True)
        turns: list[Stmt] = []
        place = Binary("and", loop.var, integer(places - 1), "int64")
        for number, piece in enumerate(with_rooms(pieces, rooms, place)):
            row = subtract(turn, integer(number))
            is_begun = compare("ge", turn, integer(number)) if number else TRUE
            is_there = both(is_begun, compare("lt", row, rows))
            turns.append(If(is_there, [Let(loop.var, add(first, row)), *piece]))
        body: list[Stmt] = [
            Let(first, add(loop.start, multiply(block, most))),
            Let(last, minimum(add(first, most), loop.stop)),
            *(Let(pointer, room) for pointer in rooms.values()),
            For(turn, ZERO, add(rows, integer(len(pieces) - 1)), turns),
        ]
        blocks = quotient_above(subtract(loop.stop, loop.start), most)
        return For(block, ZERO, blocks, body, parallel=loop.parallel)


def _has_rows(loop: For) -> bool:
    """Whether iterations, which may run in any order, have more than one loop each."""
    if sum(isinstance(one, For) for one in loop.body) < 2:
        return False
    return loop.parallel or is_independent(loop)


def is_independent(loop: For) -> bool:
    """Whether the iterations of a loop that does not say so may run in any order.

    Of the loops around a row only one says so itself, since threads share no more than one.
    """
    return not any(isinstance(one, While) for one in walk(loop.body)) and writes_apart(loop)


def _pieces(loop: For) -> list[list[Stmt]]:
    """The statements of an iteration, cut behind each loop that reduces what is read again."""
    if work_of(replace(loop, parallel=True)) is None or any(jumps(loop.body)):
        return [loop.body]
    pieces: list[list[Stmt]] = [[]]
    for number, one in enumerate(loop.body):
        pieces[-1].append(one)
        rest = loop.body[number + 1 :]
        if isinstance(one, For) and any(isinstance(later, For) for later in rest):
            given = _assigned([one]) - bound_names([one])
            if given - _assigned(rest[:1]):
                pieces.append([])
    return pieces


def jumps(statements: Sequence[Stmt]) -> Iterator[Stmt]:
    """The statements that leave an iteration of the loop around."""
    for one in statements:
        if isinstance(one, Break | Continue):
            yield one
        elif isinstance(one, If):
            yield from jumps([*one.then, *one.orelse])


def with_rooms(
    pieces: Sequence[Sequence[Stmt]], rooms: Mapping[str, Var], place: Expr
) -> Iterator[list[Stmt]]:
    """Each piece, with loads of what earlier ones have left and stores of what later ones take."""
    bound: dict[str, Let] = {}
    for number, piece in enumerate(pieces):
        used, later = _used([piece]), _used(pieces[number + 1 :])
        taken = [
            replace(let, value=Load(rooms[name], place, let.var.dtype, rooms[name].name))
            for name, let in bound.items()
            if name in used
        ]
        own = {one.var.name: one for one in piece if isinstance(one, Let)}
        bound |= own
        left = [
            Store(rooms[name], place, let.var, rooms[name].name)
            for name, let in bound.items()
            if name in later and name in own.keys() | _assigned(piece)
        ]
        yield [*taken, *piece, *left]


def kept_between(pieces: Sequence[Sequence[Stmt]]) -> list[Var]:
    """The variables that one piece binds and a later one uses."""
    return [
        one.var
        for number, piece in enumerate(pieces)
        for one in piece
        if isinstance(one, Let) and one.var.name in _used(pieces[number + 1 :])
    ]


def _used(pieces: Sequence[Sequence[Stmt]]) -> set[str]:
    """The names that statements read or assign to."""
    every = [one for piece in pieces for one in walk(piece)]
    read = {name for one in every for x in expressions(one) for name in variables(x)}
    return read | _assigned(every)


def _assigned(statements: Sequence[Stmt]) -> set[str]:
    return {one.var.name for one in walk(statements) if isinstance(one, Assign)}


def _is_of_size(loop: For) -> bool:
    """Whether rows are so long that they gain from taking turns, and the first cache has room."""
    size = _row_bytes(loop)
    is_far = size * (known_trips(loop) or 1) > FAR
    return LEAST_ROW <= size <= (MOST_FAR_ROW if is_far else MOST_ROW)


def _row_bytes(loop: For) -> int:
    """The bytes of a row in all arrays; 0 where they are not known."""
    found = Accesses()
    found.block(loop.body)
    sizes: dict[str, int] = {}
    for access in found.found:
        if access.place is not None:
            low, high = access.reach
            is_of_row = any(name == loop.var.name for name, _ in access.place.terms)
            size = (high - low + 1) * memory_bytes(access.dtype) if is_of_row else 0
            sizes[access.root] = max(size, sizes.get(access.root, 0))
    are_known = all(access.root in sizes for access in found.found)
    return sum(sizes.values()) if are_known else 0


def _open_rows(loop: For) -> Expr | None:
    """How many rows of unknown length a block has: one where they are long; None if unknown.

    Turns of rows without functions take longer than what they save.
    """
    inside = bound_names([loop])
    loops = [one for one in loop.body if isinstance(one, For)]
    if not loops or not any(map(_calls_functions, loops)):
        return None
    stop = loops[-1].stop
    if isinstance(stop, Const) or not inside.isdisjoint(variables(stop)):
        return None
    found = Accesses()
    found.block(loop.body)
    size = sum({one.root: memory_bytes(one.dtype) for one in found.found}.values())
    return Select(
        compare("le", stop, integer(MOST_FAR_ROW // max(size, 1))), integer(ROWS), ONE, "int64"
    )


def _calls_functions(loop: For) -> bool:
    """Whether a loop calls functions of vector math."""
    parts = (part for one in loop.body for x in expressions(one) for part in subexpressions(x))
    return any(isinstance(x, Call) and x.name != "fma" and not x.external for x in parts)
