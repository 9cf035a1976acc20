"""Loops whose iterations follow one another, by one kernel: no element has to come to the host.

One block runs such a loop.  Its threads all compute the same scalars, share the loops inside that
can be shared, and wait for each other in between; where there is none to share, the block has one
thread.  What is long is left to the host, which takes such iterations faster by far.

A loop may end in an error.  The kernel leaves the number of the **exit** in a device scalar, and
beside it what the error says, and the host looks there behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from jitcore.codegen.cuda.host_part import is_element
from jitcore.codegen.cuda.kernels import BLOCK, by_first_thread
from jitcore.codegen.cuda.nests import ELEMENT_THREADS, extent_of
from jitcore.codegen.cuda.teams import TeamWork, is_shareable
from jitcore.codegen.loop_passes.rewriting import with_blocks
from jitcore.codegen.loop_passes.traversal import bound_names, calls_c, expressions, loads, walk
from jitcore.codegen.loops import (
    Assign,
    Comment,
    Const,
    Do,
    Expr,
    For,
    If,
    Let,
    Return,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.lowering.arithmetic import ZERO
from jitcore.codegen.lowering.operands import NotNative
from jitcore.codegen.lowering.state import RESULTS
from jitcore.ir.dataclass import dataclass

__all__ = ["Exits", "assigned_variables", "may_run_in_order", "reads_single", "run_in_order"]

MOST_STEPS = 4096
"""A step is taken to cost a microsecond, mostly to wait for memory; beyond, copies to the host pay.

That is an estimate, which no device has confirmed."""


def may_run_in_order(loop: For) -> bool:
    """Whether a loop reads single elements, and is short enough for one block."""
    if not reads_single(loop.body) or any(isinstance(one, While) for one in walk([loop])):
        return False
    steps = _steps(loop)
    return steps is not None and steps <= MOST_STEPS


def reads_single(statements: Sequence[Stmt]) -> bool:
    """Whether statements outside of loops that are shared read elements."""
    for one in statements:
        if isinstance(one, For) and is_shareable(one):
            continue
        if any(is_element(load) for x in expressions(one) for load in loads(x)):
            return True
        if isinstance(one, For) and reads_single(one.body):
            return True
        if isinstance(one, If) and reads_single([*one.then, *one.orelse]):
            return True
    return False


def _steps(loop: For) -> int | None:
    """How many iterations one thread, or one team, has to go through; None where that is unknown.

    What is in branches counts as if all were taken.
    """
    extent = extent_of(loop)
    if not isinstance(extent, Const):
        return None
    inside = [one for one in walk(loop.body) if isinstance(one, For)]
    shared = {id(each) for one in inside if is_shareable(one) for each in walk([one])}
    found = [_steps(one) for one in inside if id(one) not in shared]
    if None in found:
        return None
    return int(extent.value) * max([1, *(one for one in found if one is not None)])


def assigned_variables(loop: For) -> list[Var]:
    """The variables from outside that a loop assigns to."""
    bound = bound_names([loop])
    found = {one.var.name: one.var for one in walk([loop]) if isinstance(one, Assign)}
    return [var for name, var in found.items() if name not in bound]


def run_in_order(loop: For, names: set[str]) -> tuple[list[Stmt], int]:
    """The statements of a kernel of one block that runs a loop, and how many threads it has.

    Raises
    ------
    NotNative
        It does what no kernel can.
    """
    for one in walk([loop]):
        is_other = isinstance(one, Do) or (isinstance(one, Store) and one.pointer == RESULTS)
        if is_other or any(map(calls_c, expressions(one))):
            raise NotNative("a C function in a loop whose iterations read single elements")
    if not any(isinstance(one, For) and is_shareable(one) for one in walk(loop.body)):
        return [loop], 1
    return TeamWork(names, BLOCK, takes_turns=True).statements([loop]), ELEMENT_THREADS


@dataclass(slots=True)
class Exits:
    """The places where a kernel may end with an error.

    Parameters
    ----------
    scratch : Var
        The memory of device scalars.
    new_slot : callable
        Gives the number of a new one.

    Attributes
    ----------
    status : int
        The slot for the number of the exit, which is 0 where all went well.
    found : list
        For each exit what the host does: statements whose stores read the slots beside them.
    """

    scratch: Var
    new_slot: Callable[[], int]
    status: int = -1
    found: list[list[tuple[Stmt, int]]] = field(default_factory=list)

    def taken(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """Statements for a kernel, which leaves the errors in them to the host."""
        if statements and isinstance(statements[-1], Return):
            return self._exit(statements)
        return [with_blocks(one, self.taken) for one in statements]

    def begin(self) -> list[Stmt]:
        """What a kernel with exits begins with."""
        return [by_first_thread([self._put(self.status, ZERO)])] if self.found else []

    def _exit(self, statements: Sequence[Stmt]) -> list[Stmt]:
        if self.status < 0:
            self.status = self.new_slot()
        made: list[Stmt] = []
        host: list[tuple[Stmt, int]] = []
        for one in statements:
            slot = -1
            match one:
                case Store(pointer=pointer) if pointer == RESULTS:
                    slot = self.new_slot()
                    made.append(self._put(slot, one.value))
                case Do() | Comment() | Return():
                    pass
                case Let() | Assign() | Store() | If() | For():
                    raise NotNative("an error that does more than say what is wrong")
            host.append((one, slot))
        self.found.append(host)
        number = Const(len(self.found), "int64")
        return [*made, self._put(self.status, number), statements[-1]]

    def _put(self, slot: int, value: Expr) -> Store:
        if value.dtype != "int64":
            raise NotNative(f"an error that says a {value.dtype}")
        return Store(self.scratch, Const(slot, "int64"), value, self.scratch.name)
