"""Loops that threads share though an iteration may end in an error.

A thread that meets one leaves the number of its iteration in a device scalar, where the least
stays.  The host looks there, and has one thread run that iteration again, which says what the error
is: it is the one that the loop would have ended with, an iteration after the other.  What later
iterations have written by then nobody may get to see, so the loop may only write to memory that the
function has made and drops at an error.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from jitcore.codegen.cuda.kernels import Mapped
from jitcore.codegen.cuda.nests import check_nest, with_independence
from jitcore.codegen.cuda.schedule import map_elements
from jitcore.codegen.cuda.sums import is_atomic_sum, without_atomic_sums
from jitcore.codegen.cuda.tuning import Tuning
from jitcore.codegen.loop_passes.rewriting import with_blocks
from jitcore.codegen.loop_passes.traversal import overlap, read_roots, walk, written_roots
from jitcore.codegen.loops import Call, Const, Do, Expr, For, Return, Stmt, Store, Var
from jitcore.ir.dataclass import dataclass

__all__ = ["NO_FAILURE", "Failures", "ends_in_errors", "may_share"]

NO_FAILURE = (1 << 63) - 1
"""No iteration has this number."""


def ends_in_errors(loop: For) -> bool:
    """Whether an iteration may end in an error."""
    return any(isinstance(one, Return) for one in walk(loop.body))


def may_share(loop: For, own_memory: Set[str]) -> bool:
    """Whether threads may share a loop, and find its first error afterwards.

    Parameters
    ----------
    loop : For
    own_memory : set of str
        The variables that point to memory of the function.
    """
    if any(isinstance(one, For) for one in walk(loop.body)):
        return False
    plain = _with_exits([loop], [])
    rest = without_atomic_sums(plain)
    if ends_in_errors(loop):
        targets = filter(None, map(_target, walk(plain)))
        own = all(isinstance(one, Var) and one.name in own_memory for one in targets)
        if not own or overlap(read_roots(rest), written_roots(rest)):
            return False
    return with_independence(_only(rest)).parallel


def _target(statement: Stmt) -> Expr | None:
    """Where a statement writes."""
    if isinstance(statement, Store):
        return statement.pointer
    return statement.call.args[0] if is_atomic_sum(statement) else None


@dataclass(frozen=True, slots=True)
class Failures:
    """Where threads leave the number of the first iteration that ends in an error.

    Parameters
    ----------
    scratch : Var
        The memory of device scalars.
    slot : int
    """

    scratch: Var
    slot: int

    def none(self) -> Store:
        """The statement that comes before the loop."""
        return Store(self.scratch, self._place, Const(NO_FAILURE, "int64"), self.scratch.name)

    def map(self, loop: For, names: set[str], tuning: Tuning) -> Mapped:
        """Threads that share such a loop.

        Raises
        ------
        NotNative
            It does what no kernel can.
        """
        check_nest(_only(_with_exits([loop], [])))
        noted = Call("cuda.note_least", (self.scratch, self._place, loop.var), "void")
        return map_elements(
            _only(_with_exits([loop], [Do(noted), Return(loop.var)])), names, tuning
        )

    @property
    def _place(self) -> Expr:
        return Const(self.slot, "int64")


def _with_exits(statements: Sequence[Stmt], exit: Sequence[Stmt]) -> list[Stmt]:
    """Statements with others where they end in an error."""
    if statements and isinstance(statements[-1], Return):
        return list(exit)
    return [with_blocks(one, lambda block: _with_exits(block, exit)) for one in statements]


def _only(statements: Sequence[Stmt]) -> For:
    (loop,) = statements
    assert isinstance(loop, For)
    return loop
