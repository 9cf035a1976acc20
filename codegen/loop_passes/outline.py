"""Cut a large function into small ones, so that compiling it takes time in proportion.

Several of LLVM's passes take more than twice as long on a function twice as large: a time loop of
80 stencil statements took three times what its halves took.  Loop nests depend on little around
them, so in a large function each becomes a function of its own, which LLVM does not inline again.

Before::

    for t in range(steps):
        for i in range(n):
            for j in range(m): ...
        for i in range(n):
            for j in range(m): ...

After::

    for t in range(steps):
        f_nest1(x, y, n, m)
        f_nest2(x, y, n, m)

Variables that a nest changes, such as the sum of a reduction, are passed in memory.  A nest that
may leave the whole function, because of an error, gives the status.  Nests that are equal but for
the names in them are one function, such as those of a function that the program calls twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field

from jitcore.codegen.loop_passes.equal_forms import form_of
from jitcore.codegen.loop_passes.parallel import slot_index
from jitcore.codegen.loop_passes.rewriting import with_blocks
from jitcore.codegen.loop_passes.traversal import STACK, bound_names, free_variables, walk
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Break,
    Call,
    Comment,
    Const,
    Continue,
    Do,
    For,
    Function,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.ir.dataclass import dataclass

__all__ = ["outline"]

MIN_STATEMENTS = 300
"""Functions with fewer statements are left whole."""

MAX_NEST = 120
"""Loops with more statements are not moved as they are, but looked into where they hold others."""

MAX_OPTIMIZED = 3000
"""What has more statements, outside of the nests, and no loops left is not optimized: each
statement runs once, and LLVM looks at all the conditions before it with the same variables."""


# No variable of a loop has a dot in its name.
CHANGED = Var("nest.changed", "ptr")
"""Where the variables lie that a nest changes, a word for each."""


def outline(function: Function) -> list[Function]:
    """The functions that the loop nests of a large function became, and then the function."""
    if _size(function.body) < MIN_STATEMENTS:
        return [function]
    outliner = _Outliner(function.name)
    body = outliner.function(_reached(function.body))
    optimized = _size(body) < MAX_OPTIMIZED or any(map(_loops, walk(body)))
    rest = Function(function.name, function.params, body, function.result, function.doc, optimized)
    return [*outliner.nests, rest]


@dataclass(slots=True)
class _Outliner:
    name: str
    nests: list[Function] = field(default_factory=list)
    known: dict[Hashable, str] = field(default_factory=dict)
    words: int = 0

    def function(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """The function's body, with room for what nests change."""
        body = self.block(statements)
        if not self.words:
            return body
        room = Call(STACK, (Const(8 * self.words, "int64"),), "ptr", external=True)
        return [Let(CHANGED, room), *body]

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """The statements, with calls in the place of the loops that could be moved."""
        return [part for one in statements for part in self.statement(one)]

    def statement(self, statement: Stmt) -> list[Stmt]:
        """A statement, or those that call what does the same."""
        if _is_movable(statement):
            return self.moved(statement)
        return [with_blocks(statement, self.block)]

    def moved(self, nest: Stmt) -> list[Stmt]:
        """Move a nest into a function of its own; what it reads become parameters."""
        changed = _changed(nest)
        names = {var.name for var in changed}
        self.words = max(self.words, len(changed))
        params = tuple(var for var in free_variables([nest]) if var.name not in names)
        params += (CHANGED,) * bool(changed)
        start = [Let(var, value, mutable=True) for var, value in _loads(changed)]
        body = [*start, nest, *_stores(changed)]
        result = "int64" if any(isinstance(one, Return) for one in walk([nest])) else "void"
        own = f"{self.name}_nest{len(self.nests) + 1}"
        made = Function(own, params, body, result, internal=True)
        name = self.known.setdefault(form_of(made), own)
        if name == own:
            self.nests.append(made)
        call = Call(name, params, result, external=True)
        end = [Assign(var, value) for var, value in _loads(changed)]
        return [*_stores(changed), *self.called(call), *end]

    def called(self, call: Call) -> list[Stmt]:
        """Call a nest, and leave where it asks for that."""
        if call.dtype == "void":
            return [Do(call)]
        status = Var(f"status.{len(self.nests)}", "int64")
        failed = Binary("ne", status, Const(0, "int64"), "bool")
        return [Let(status, call), If(failed, [Return(status)], unlikely=True)]


def _reached(statements: Sequence[Stmt]) -> list[Stmt]:
    """Those that may run: behind a sure error there are some whose variables nobody declares."""
    kept: list[Stmt] = []
    for one in statements:
        kept.append(with_blocks(one, _reached))
        if isinstance(one, Return | Break | Continue):
            break
    return kept


def _changed(nest: Stmt) -> tuple[Var, ...]:
    """The variables of the function around that a nest gives new values, each once."""
    bound = bound_names([nest])
    assigned = (one.var for one in walk([nest]) if isinstance(one, Assign))
    return tuple({var.name: var for var in assigned if var.name not in bound}.values())


def _stores(changed: Sequence[Var]) -> list[Stmt]:
    return [
        Store(CHANGED, slot_index(number, var.dtype), var, CHANGED.name)
        for number, var in enumerate(changed)
    ]


def _loads(changed: Sequence[Var]) -> list[tuple[Var, Load]]:
    return [
        (var, Load(CHANGED, slot_index(number, var.dtype), var.dtype, CHANGED.name))
        for number, var in enumerate(changed)
    ]


def _loops(statement: Stmt) -> bool:
    return isinstance(statement, For | While)


def _size(statements: Sequence[Stmt]) -> int:
    return sum(1 for one in walk(statements) if not isinstance(one, Comment))


def _is_movable(statement: Stmt) -> bool:
    """Whether a statement is a loop that holds no others, or a nest that is not too large."""
    if not isinstance(statement, For | While):
        return False
    inside = [one for one in walk([statement]) if one is not statement]
    return not any(map(_loops, inside)) or len(inside) <= MAX_NEST
