"""Where the statements of a loop nest read and write, as linear forms of the loops' counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from jitcore.codegen.loop_passes.traversal import blocks, expressions, loads
from jitcore.codegen.loops import Binary, Const, Expr, For, Let, Stmt, Store, Var
from jitcore.codegen.lowering.ranges import Linear
from jitcore.ir.dataclass import dataclass

__all__ = ["ELEMENT", "Access", "Accesses"]

ELEMENT = "the element"
"""The name that the counter of each nest has in linear forms."""


@dataclass(frozen=True, slots=True)
class Access:
    """A load or a store.

    Parameters
    ----------
    root : str
        The memory it lies in; empty where it may be any.
    pointer : Expr
    dtype : str
    is_write : bool
    place : Linear or None
        The number of the element after ``pointer``, without what inner loops add to it; None where
        it is not linear.
    reach : tuple of int
        The least and the largest number that inner loops add.
    """

    root: str
    pointer: Expr
    dtype: str
    is_write: bool
    place: Linear | None
    reach: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Accesses:
    """Collects the accesses of statements; what they do not bind is taken as constant."""

    found: list[Access] = field(default_factory=list)
    _forms: dict[str, Linear | None] = field(default_factory=dict)
    _trips: dict[str, int] = field(default_factory=dict)

    def nest(self, nest: For) -> None:
        """A loop whose counter is the element's number."""
        self._forms[nest.var.name] = Linear(((ELEMENT, 1),))
        self.block(nest.body)

    def block(self, statements: Sequence[Stmt]) -> None:
        """Statements one after the other."""
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Stmt) -> None:
        """A statement and those inside of it."""
        for expression in expressions(statement):
            for load in loads(expression):
                self._note(load.root, load.pointer, load.dtype, load.index)
        match statement:
            case Let(var, value, mutable):
                is_known = var.dtype == "int64" and not mutable
                self._forms[var.name] = self.linear(value) if is_known else None
            case Store(pointer, index, value, root):
                self._note(root, pointer, value.dtype, index, is_write=True)
            case For():
                self._count(statement)
        for inner in blocks(statement):
            self.block(inner)

    def _count(self, loop: For) -> None:
        name = loop.var.name
        start, stop = self.linear(loop.start), self.linear(loop.stop)
        self._forms[name] = None
        if start is None or stop is None or stop.plus(start, -1).terms:
            return
        self._trips[name] = -(-stop.plus(start, -1).constant // loop.step)
        self._forms[name] = start.plus(Linear(((name, loop.step),)))

    def _note(
        self, root: str, pointer: Expr, dtype: str, index: Expr, *, is_write: bool = False
    ) -> None:
        form = self.linear(index)
        if form is None:
            self.found.append(Access(root, pointer, dtype, is_write, None))
            return
        inner = [(name, factor) for name, factor in form.terms if name in self._trips]
        ends = [factor * max(self._trips[name] - 1, 0) for name, factor in inner]
        reach = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
        outer = tuple(term for term in form.terms if term[0] not in self._trips)
        place = Linear(outer, form.constant)
        self.found.append(Access(root, pointer, dtype, is_write, place, reach))

    def linear(self, x: Expr) -> Linear | None:
        """A number as a linear form, where it is one."""
        match x:
            case Const():
                return Linear((), int(x.value))
            case Var():
                return self._forms.get(x.name, Linear(((x.name, 1),)))
            case Binary("add" | "sub" | "mul", left, right, "int64"):
                one, two = self.linear(left), self.linear(right)
                return None if one is None or two is None else _combined(x.op, one, two)
        return None


def _combined(op: str, x: Linear, y: Linear) -> Linear | None:
    if op != "mul":
        return x.plus(y, 1 if op == "add" else -1)
    if x.terms and y.terms:
        return None
    return y.times(x.constant) if not x.terms else x.times(y.constant)
