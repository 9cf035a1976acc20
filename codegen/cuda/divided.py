"""Reductions of few long lines, for which there would be too few blocks: parts first.

Before, where there are ``n`` lines of ``m`` elements::

    for i in range(n):
        total = 0.0
        for k in range(m): total += x[i * m + k]
        y[i] = total / m

After, with ``count`` parts of ``length`` elements, each of which has threads of its own::

    for part in range(count):
        for i in range(n):
            total = 0.0
            for k in range(min(length, m - part * length)): total += x[i * m + part * length + k]
            parts[part * n + i] = total
    for i in range(n):
        total = 0.0
        for part in range(count): total += parts[part * n + i]
        y[i] = total / m

How many parts there are depends on extents only, so results do too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen.cuda.kernels import WARP
from jitcore.codegen.cuda.linear import stride_along
from jitcore.codegen.cuda.nests import chain, extent_of, is_independent, nest_of
from jitcore.codegen.cuda.reductions import Reduced, reductions_of
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, with_expressions
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    overlap,
    read_roots,
    variables,
    written_roots,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Comment,
    Const,
    Expr,
    For,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.accumulators import identity
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    compare,
    integer,
    maximum,
    minimum,
    multiply,
    product,
    subtract,
)
from jitcore.ir.dataclass import dataclass

__all__ = ["Several", "divided", "is_reduction", "least_part", "line_blocks", "line_number"]

ENOUGH_BLOCKS, ENOUGH_COLUMN_BLOCKS = 512, 2048
"""What keeps a large device busy; a block of columns may take those of four (`columns`)."""

LEAST_ROW, LEAST_COLUMN = 16384, 512
"""Elements of a part, to read which takes about as long as to launch the kernel that joins them."""


@dataclass(frozen=True, slots=True)
class Several:
    """Several nests in the place of one.

    Parameters
    ----------
    bindings : list of Let
        Numbers that the host needs.
    pays : Expr
        Whether they are better than the one.
    memory : list of (Var, Expr)
        What they leave for each other lies in, and how many bytes that takes.
    nests : list
        Nests, each with what it does, and what is several nests itself.
    """

    bindings: list[Let]
    pays: Expr
    memory: list[tuple[Var, Expr]]
    nests: list[tuple[For, str] | Several]

    def needed(self) -> Iterator[Expr]:
        """What the host computes to launch them."""
        yield self.pays
        yield from (one.value for one in self.bindings)
        for one in self.nests:
            if isinstance(one, Several):
                yield from one.needed()


def divided(nest: For, is_column: Callable[[For, For], bool], names: set[str]) -> Several | None:
    """A nest that reduces lines, in two; None where that is not all it does, or never pays.

    Parameters
    ----------
    nest : For
    is_column : callable
        Whether the neighbours in memory are the iterations of the first loop, not of the second.
    names : set of str
        The names that are taken; gets the new ones.
    """
    if not is_independent(nest):
        return None
    loops, body = chain(nest, is_independent)
    inner = [one for one in body if isinstance(one, For)]
    if len(inner) != 1 or not _is_plain(loops, body, inner[0]):
        return None
    found = reductions_of(inner[0]) if is_reduction(inner[0]) else ()
    begun = {one.var.name: one for one in body if isinstance(one, Let) and one.mutable}
    if not found or any(one.var.name not in begun for one in found):
        return None
    made = _Division(loops, body, inner[0], found, is_column(loops[-1], inner[0]), names)
    return None if made.pays == Const(False, "bool") else made.result()


def is_reduction(loop: For) -> bool:
    """Whether a loop reduces what iterations have apart, each of which may write elements, too."""
    stores = (one for one in loop.body if isinstance(one, Store))
    steps = (stride_along(one.index, loop.var.name) for one in stores)
    return bool(reductions_of(loop)) and all(step not in (None, ZERO) for step in steps)


def line_blocks(lines: Expr, is_column: bool) -> Expr:
    """How many blocks there are where each takes a row, or as many columns as a warp has lanes."""
    return _quotient(add(lines, integer(WARP - 1)), WARP) if is_column else lines


def least_part(is_column: bool) -> int:
    """How many elements of a line are worth blocks of their own."""
    return LEAST_COLUMN if is_column else LEAST_ROW


def line_number(loops: Sequence[For]) -> Expr:
    """The number of a line."""
    line: Expr = ZERO
    for loop in loops:
        line = add(multiply(line, extent_of(loop)), _counted(loop))
    return line


def _is_plain(loops: Sequence[For], body: Sequence[Stmt], inner: For) -> bool:
    """Whether extents are the host's, and the inner loop does nothing but reduce.

    What comes before it is done for each part, and once more in the end.
    """
    if not all(isinstance(one, Let | Assign | Store | Comment | For) for one in body):
        return False
    if not all(isinstance(one, Let | Assign | Store | Comment) for one in inner.body):
        return False
    before = body[: body.index(inner)]
    read, again = read_roots(before), written_roots(before)
    written = written_roots([inner])
    if overlap(read, again | written) or overlap(again, written):
        return False
    own = bound_names([*body, *loops]) | {one.var.name for one in loops}
    return inner.step == 1 and not own & {*variables(inner.start), *variables(inner.stop)}


class _Division:
    """Writes both nests."""

    def __init__(
        self,
        loops: Sequence[For],
        body: Sequence[Stmt],
        inner: For,
        found: Sequence[Reduced],
        is_column: bool,
        names: set[str],
    ) -> None:
        self._loops, self._body, self._inner, self._found = loops, body, inner, found
        self._names = names
        self._lines = product(map(extent_of, loops))
        blocks = line_blocks(self._lines, is_column)
        extent = extent_of(inner)
        most = _quotient(extent, least_part(is_column))
        enough = ENOUGH_COLUMN_BLOCKS if is_column else ENOUGH_BLOCKS
        wanted = _quotient_of(integer(enough), maximum(blocks, ONE))
        parts = maximum(minimum(wanted, most), ONE)
        # Whole vectors of each dtype begin at the multiples of this.
        length = multiply(_quotient_up(_quotient_up(extent, parts), integer(WARP)), integer(WARP))
        self.pays = compare("gt", parts, ONE)
        self._bindings: list[Let] = []
        self._length = self._bound("length", maximum(length, ONE))
        self._count = self._bound("parts", _quotient_up(extent, self._length))

    def _bound(self, name: str, value: Expr) -> Expr:
        """A number of the host's, which kernels get as it is where it is known."""
        if isinstance(value, Const):
            return value
        var = Var(numbered(name, self._names), "int64")
        self._bindings.append(Let(var, value))
        return var

    def result(self) -> Several:
        """Both nests."""
        memory = {
            one.var.name: Var(numbered(f"{one.var.name}_parts", self._names), "ptr")
            for one in self._found
        }
        sizes = [
            (
                memory[one.var.name],
                multiply(
                    multiply(self._count, self._lines), integer(np.dtype(one.var.dtype).itemsize)
                ),
            )
            for one in self._found
        ]
        nests: list[tuple[For, str] | Several] = [
            (self._nest_of_parts(memory), "a part of each line"),
            (self._nest_of_wholes(memory), "joining the parts"),
        ]
        return Several(self._bindings, self.pays, sizes, nests)

    def _part(self, memory: dict[str, Var], one: Reduced, part: Expr) -> tuple[Var, Expr]:
        return memory[one.var.name], add(multiply(part, self._lines), line_number(self._loops))

    def _nest_of_parts(self, memory: dict[str, Var]) -> For:
        part = Var(numbered("part", self._names), "int64")
        begin = multiply(part, self._length)
        inner = self._inner
        place: dict[Expr, Expr] = {inner.var: add(add(inner.start, begin), inner.var)}
        body = [with_expressions(one, lambda x: replaced(x, place.get)) for one in inner.body]
        left = subtract(extent_of(inner), begin)
        shorter = replace(inner, start=ZERO, stop=minimum(self._length, left), body=body)
        at = self._body.index(inner)
        reduced = {one.var.name: one.op for one in self._found}
        before: list[Stmt] = [
            replace(one, value=identity(reduced[one.var.name], np.dtype(one.var.dtype)))
            if isinstance(one, Let) and one.var.name in reduced
            else one
            for one in self._body[:at]
        ]
        stores: list[Stmt] = []
        for one in self._found:
            pointer, index = self._part(memory, one, part)
            stores.append(Store(pointer, index, one.var, pointer.name))
        nest = nest_of(self._loops, [*before, shorter, *stores])
        return For(part, ZERO, self._count, [nest], parallel=True)

    def _nest_of_wholes(self, memory: dict[str, Var]) -> For:
        part = Var(numbered("part", self._names), "int64")
        steps: list[Stmt] = []
        for one in self._found:
            pointer, index = self._part(memory, one, part)
            value = Load(pointer, index, one.var.dtype, pointer.name)
            is_float = np.dtype(one.var.dtype).kind == "f"
            step = Binary(one.op, one.var, value, one.var.dtype, reassoc=is_float)
            steps.append(Assign(one.var, step))
        at = self._body.index(self._inner)
        joined = For(part, ZERO, self._count, steps)
        return nest_of(self._loops, [*self._body[:at], joined, *self._body[at + 1 :]])


def _counted(loop: For) -> Expr:
    return loop.var if loop.start == ZERO else subtract(loop.var, loop.start)


def _quotient(x: Expr, y: int) -> Expr:
    return _quotient_of(x, integer(y))


def _quotient_up(x: Expr, y: Expr) -> Expr:
    return _quotient_of(add(x, subtract(y, ONE)), y)


def _quotient_of(x: Expr, y: Expr) -> Expr:
    if isinstance(x, Const) and isinstance(y, Const):
        return integer(x.value // y.value)
    return Binary("quot", x, y, "int64")
