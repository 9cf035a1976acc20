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

from jitcore.codegen.loop_passes.accesses import Accesses
from jitcore.codegen.loop_passes.independence import writes_apart
from jitcore.codegen.loop_passes.parallel import work_of
from jitcore.codegen.loop_passes.rewriting import numbered, with_blocks
from jitcore.codegen.loop_passes.traversal import (
    STACK,
    bound_names,
    expressions,
    names_in,
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
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.lowering.arithmetic import (
    TRUE,
    ZERO,
    add,
    both,
    compare,
    integer,
    minimum,
    multiply,
    subtract,
)
from jitcore.codegen.printers.llvm_instructions import memory_bytes

__all__ = ["let_rows_take_turns"]

LEAST_ROW, MOST_ROW = 128, 8 * 1024
"""Bytes of a row, read and written.  Shorter ones are made vectors of side by side; longer ones
wait for a small part of their time, and several of them take much of the first cache."""

ROWS = 16
"""How many rows a block has.  Nothing is side by side with its first and its last."""


def let_rows_take_turns(function: Function) -> Function:
    """The function with its loops over rows that are reduced and then read again in turns."""
    return replace(function, body=_RowTurns(function).block(function.body))


class _RowTurns:
    def __init__(self, function: Function) -> None:
        self.names = names_in(function)

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        return [self.statement(one) for one in statements]

    def statement(self, statement: Stmt) -> Stmt:
        if isinstance(statement, For) and (statement.parallel or _is_independent(statement)):
            pieces = _pieces(statement)
            kept = _kept(pieces)
            # What a pointer leads to, on the stack, is there for one row only.
            are_values = kept and all(var.dtype != "ptr" for var in kept)
            if are_values and LEAST_ROW <= _row_bytes(statement) <= MOST_ROW:
                return self.in_turns(statement, pieces, kept)
        return with_blocks(statement, self.block)

    def variable(self, name: str, dtype: str = "int64") -> Var:
        return Var(numbered(name, self.names), dtype)

    def in_turns(self, loop: For, pieces: Sequence[Sequence[Stmt]], kept: Sequence[Var]) -> For:
        """The loop over blocks of rows, in which each turn does every piece, for a row each."""
        block, first, last, turn = map(self.variable, ("block", "first", "last", "turn"))
        rows = subtract(last, first)
        places = 1 << (len(pieces) - 1).bit_length()
        rooms = {var.name: self.variable(f"{var.name}_by_row", "ptr") for var in kept}
        room = Call(STACK, (integer(8 * places),), "ptr", external=True)
        turns: list[Stmt] = []
        for number, piece in enumerate(_with_rooms(pieces, rooms, loop.var, places)):
            row = subtract(turn, integer(number))
            is_begun = compare("ge", turn, integer(number)) if number else TRUE
            is_there = both(is_begun, compare("lt", row, rows))
            turns.append(If(is_there, [Let(loop.var, add(first, row)), *piece]))
        body: list[Stmt] = [
            Let(first, add(loop.start, multiply(block, integer(ROWS)))),
            Let(last, minimum(add(first, integer(ROWS)), loop.stop)),
            *(Let(pointer, room) for pointer in rooms.values()),
            For(turn, ZERO, add(rows, integer(len(pieces) - 1)), turns),
        ]
        blocks = _quotient_above(subtract(loop.stop, loop.start), ROWS)
        return For(block, ZERO, blocks, body, parallel=loop.parallel)


def _is_independent(loop: For) -> bool:
    """Whether the iterations of a loop that does not say so may run in any order.

    Of the loops around a row only one says so itself, since threads share no more than one.
    """
    return not any(isinstance(one, While) for one in walk(loop.body)) and writes_apart(loop)


def _pieces(loop: For) -> list[list[Stmt]]:
    """The statements of an iteration, cut behind each loop that reduces what is read again."""
    if work_of(replace(loop, parallel=True)) is None or any(_jumps(loop.body)):
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


def _jumps(statements: Sequence[Stmt]) -> Iterator[Stmt]:
    """The statements that leave an iteration of the loop around."""
    for one in statements:
        if isinstance(one, Break | Continue):
            yield one
        elif isinstance(one, If):
            yield from _jumps([*one.then, *one.orelse])


def _with_rooms(
    pieces: Sequence[Sequence[Stmt]], rooms: Mapping[str, Var], row: Var, places: int
) -> Iterator[list[Stmt]]:
    """Each piece, with loads of what earlier ones have left and stores of what later ones take."""
    place = Binary("and", row, integer(places - 1), "int64")
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


def _kept(pieces: Sequence[Sequence[Stmt]]) -> list[Var]:
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


def _quotient_above(length: Expr, size: int) -> Expr:
    if isinstance(length, Const):
        return integer(-(-length.value // size))
    return Binary("quot", add(length, integer(size - 1)), integer(size), "int64")
