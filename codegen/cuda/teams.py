"""What the threads of a team do together in one iteration of the loops around: rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jitcore.codegen.cuda.kernels import LINE, PARTS, Team, barrier
from jitcore.codegen.cuda.linear import stride_along
from jitcore.codegen.cuda.nests import is_independent, jumps
from jitcore.codegen.cuda.reductions import reductions_of, share, share_reduction
from jitcore.codegen.cuda.resident import ResidentRow
from jitcore.codegen.cuda.scans import is_scan, share_scan
from jitcore.codegen.cuda.vectors import Place, by_vectors
from jitcore.codegen.loop_passes.rewriting import with_blocks
from jitcore.codegen.loop_passes.traversal import loads_in, overlap, read_roots, walk, written_roots
from jitcore.codegen.loops import Expr, For, If, Stmt, Store, While
from jitcore.codegen.lowering.arithmetic import TRUE, ZERO, both
from jitcore.codegen.lowering.operands import NotNative

__all__ = ["TeamWork", "has_order", "is_shareable", "meets_inside"]

_Access = tuple[str, Place | None]
"""Memory that a statement uses: its root, and the place where each thread uses its own elements."""


def is_shareable(loop: For) -> bool:
    """Whether the threads of a team can share a loop."""
    if loop.step != 1 or jumps(loop.body):
        return False
    if is_independent(loop) or is_scan(loop):
        return True
    return bool(reductions_of(loop)) and _stores_apart(loop)


def has_order(statement: Stmt) -> bool:
    """Whether a statement has a loop that writes, and that threads of a team cannot share."""
    match statement:
        case If(then=then, orelse=orelse):
            return any(map(has_order, [*then, *orelse]))
        case For() | While() if not (isinstance(statement, For) and is_shareable(statement)):
            return bool(written_roots([statement]))
    return False


def meets_inside(statement: Stmt) -> bool:
    """Whether it is a branch in which threads may meet, so that all of them have to take it."""
    if not isinstance(statement, If):
        return False
    inside = [*statement.then, *statement.orelse]
    stores = sum(isinstance(one, Store) for one in walk(inside))
    if stores > 1 or any(isinstance(one, For) for one in walk(inside)):
        return True
    return overlap(read_roots(inside), written_roots(inside))


def _stores_apart(loop: For) -> bool:
    """Whether each iteration of a reduction writes somewhere else."""
    stores = (one for one in walk(loop.body) if isinstance(one, Store))
    return all(stride_along(one.index, loop.var.name) not in (None, ZERO) for one in stores)


class TeamWork:
    """Writes what the threads of a team do.

    Parameters
    ----------
    names : set of str
        The names that are taken; gets the new ones.
    team : Team
    writes : Expr
        Only threads for which this holds write.
    row : ResidentRow or None
        The loops whose elements stay in registers.
    takes_turns : bool
        Threads go through loops whose iterations follow one another together.
    """

    def __init__(
        self,
        names: set[str],
        team: Team,
        writes: Expr = TRUE,
        row: ResidentRow | None = None,
        *,
        takes_turns: bool = False,
    ) -> None:
        self._names = names
        self._team = team
        self._writes = writes
        self._row = row
        self._takes_turns = takes_turns
        self._has_begun = False
        self._read: set[_Access] = set()
        self._written: set[_Access] = set()

    def statements(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """All of a team's statements."""
        return [made for one in statements for made in self._statement(one)]

    def _statement(self, statement: Stmt) -> Iterator[Stmt]:
        reads, writes = self._accesses(statement)
        if self._has_to_meet(reads, writes):
            yield barrier()
            self._have_met()
        match statement:
            case For() if self._row is not None and statement in self._row:
                yield from self._of_row(self._row, statement)
            case For() if is_independent(statement) and not reductions_of(statement):
                yield from self._independent(statement)
            case For() if is_scan(statement):
                yield from share_scan(statement, self._names)
            case For() if is_shareable(statement):
                yield from share_reduction(statement, self._team, self._names)
            case If():
                yield with_blocks(statement, self._inner)
            case Store():
                yield If(both(self._team.is_first, self._writes), [statement])
            case For() if writes and self._takes_turns:
                yield self._in_turn(statement)
            case For() | While() if writes:
                raise NotNative("a loop in which an iteration goes on with the one before")
            case _:
                yield statement
        if self._row is not None and statement not in self._row:
            self._row.forget({root for root, _ in writes})
        self._note(statement, reads, writes)

    def _in_turn(self, loop: For) -> For:
        """A loop whose iterations follow one another: all threads begin each one together."""
        return replace(loop, body=[barrier(), *self._inner(loop.body, have_met=True)])

    def _inner(self, block: Sequence[Stmt], *, have_met: bool = False) -> list[Stmt]:
        """The statements of a block that may not run: then nobody meets in it."""
        before = set(self._read), set(self._written)
        if have_met:
            self._have_met()
        made = self.statements(block)
        self._read, self._written = before
        return made

    def _of_row(self, row: ResidentRow, loop: For) -> list[Stmt]:
        """A loop whose elements stay in registers."""
        begin = [] if self._has_begun else row.begin()
        self._has_begun = True
        if not reductions_of(loop):
            return [*begin, *row.loops(loop, share(loop, self._team.scope))]
        joined = share_reduction(
            loop, self._team, self._names, own_loops=lambda shared: row.loops(loop, shared)
        )
        return [*begin, *joined]

    def _independent(self, loop: For) -> list[Stmt]:
        shared = share(loop, self._team.scope)
        if self._team != PARTS:
            loops = by_vectors(shared, self._names)[0]
            return loops if self._writes == TRUE else [If(self._writes, loops)]
        return [replace(shared, body=[If(self._writes, shared.body)])]

    # Memory -------------------------------------------------------------------------------

    def _accesses(self, statement: Stmt) -> tuple[set[_Access], set[_Access]]:
        """What a statement reads from memory, and what it writes there."""
        if isinstance(statement, For) and self._row is not None and statement in self._row:
            return self._row.reads(statement), self._row.writes(statement)
        read = {(load.root, None) for load in loads_in([statement])}
        written = {(one.root, None) for one in walk([statement]) if isinstance(one, Store)}
        return set(read), set(written)

    def _has_to_meet(self, reads: set[_Access], writes: set[_Access]) -> bool:
        """Whether threads use the same memory since they last met, and one of them writes it."""
        if any(_may_clash(one, two) for one in self._written for two in reads | writes):
            return True
        return any(_may_clash(one, two) for one in self._read for two in writes)

    def _have_met(self) -> None:
        self._read.clear()
        self._written.clear()

    def _note(self, statement: Stmt, reads: set[_Access], writes: set[_Access]) -> None:
        if isinstance(statement, For) and self._team != LINE and reductions_of(statement):
            # To join the parts all have met, after what they read and wrote.
            self._have_met()
            return
        self._read |= reads
        self._written |= writes


def _may_clash(one: _Access, other: _Access) -> bool:
    """Whether different threads may use the same element."""
    if one[0] and other[0] and one[0] != other[0]:
        return False
    return one[1] is None or one[1] != other[1]
