"""Nests whose rows are all divided by one row multiply by its inverses, and correct the products.

A processor takes 16 cycles for eight quotients of float64, and about five for three products with
their tests.  The quotients are the same (`shared_divisors`).

Before::

    for i in range(0, 512):
        for j in range(0, 512):
            y[i * 512 + j] = x[i * 512 + j] / s[j]

After::

    for k in range(0, 512):
        inverses[k] = 1.0 / s[k]
    for i in range(0, 512):
        for j in range(0, 512):
            y[i * 512 + j] = divide(x[i * 512 + j], s[j], inverses[j])
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jitcore.codegen.loop_passes.rewriting import (
    numbered,
    renamed,
    replaced,
    with_expressions,
    with_loops,
)
from jitcore.codegen.loop_passes.shared_divisors import is_quotient
from jitcore.codegen.loop_passes.traversal import (
    PREFETCH,
    STACK,
    bound_names,
    expressions,
    known_trips,
    names_in,
    reads_by_call,
    subexpressions,
    variables,
    walk,
)
from jitcore.codegen.loops import (
    Binary,
    Call,
    Const,
    Do,
    Expr,
    For,
    Function,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import ZERO, integer
from jitcore.codegen.printers.vector_forms import is_vector_loop

__all__ = ["share_divisor_rows"]

LEAST_ROWS = 16
"""From so many rows on the inverses take little time beside them."""

LEAST_COLUMNS = 64
"""Loops over fewer have little but a rest, which divides."""

MOST_COLUMNS = 2048
"""The stack and the first cache have room for the inverses of so many."""


MOST_SINGLE = 2**18
"""Nests over more elements of float32 wait for memory longer than for their divisions."""


def share_divisor_rows(function: Function, vector_bits: int) -> Function:
    """The function with nests that divide by a row by its inverses.

    Parameters
    ----------
    function : Function
    vector_bits : int
        The size of a vector register.  Loops are printed as loops over vectors where it is 512.
    """
    if vector_bits != 512:
        return function
    return replace(function, body=with_loops(function.body, _Sharing(function).loop))


class _Sharing:
    def __init__(self, function: Function) -> None:
        self.names = names_in(function)

    def loop(self, loop: For) -> list[Stmt] | None:
        if not _has_many_rows(loop):
            return None
        nest = _Nest(loop, self.names)
        shared = replace(loop, body=[nest.row(inner) for inner in loop.body])
        return [*nest.before, shared] if nest.before else None


def _has_many_rows(loop: For) -> bool:
    """Whether a loop is over enough rows, and nothing but stores writes to memory in it."""
    if (known_trips(loop) or 0) < LEAST_ROWS:
        return False
    inside = list(walk(loop.body))
    if any(isinstance(one, Do) and one.call.name != PREFETCH for one in inside):
        return False
    return not any(reads_by_call(x) for one in inside for x in expressions(one))


class _Nest:
    """A loop over rows, and what comes before it."""

    def __init__(self, loop: For, names: set[str]) -> None:
        self.names = names
        self.rows = known_trips(loop) or 0
        self.inside = bound_names([loop])
        self.written = {one.root for one in walk(loop.body) if isinstance(one, Store)}
        self.before: list[Stmt] = []

    def row(self, loop: Stmt) -> Stmt:
        """The loop along a row, with products where it divides by what all rows share."""
        if not isinstance(loop, For) or not self.is_suitable(loop):
            return loop
        rows = {
            one.var: one.value
            for one in loop.body
            if isinstance(one, Let) and self.is_shared(one.value, loop)
        }
        inverses: dict[Expr, Load] = {}

        def by_inverse(x: Expr) -> Expr | None:
            if not isinstance(x, Binary) or not self.is_slow(x, loop):
                return None
            divisor = rows.get(x.y, x.y) if isinstance(x.y, Var) else x.y
            if not isinstance(divisor, Load) or not self.is_shared(divisor, loop):
                return None
            if divisor not in inverses:
                inverses[divisor] = self.inverses(divisor, loop)
            return Call("divide", (replaced(x.x, by_inverse), x.y, inverses[divisor]), x.dtype)

        return with_expressions(loop, lambda x: replaced(x, by_inverse))

    def is_suitable(self, loop: For) -> bool:
        """Whether a loop over vectors divides, along a row of a suitable length."""
        trips = known_trips(loop) or 0
        divides = any(
            self.is_slow(part, loop)
            for one in loop.body
            for x in expressions(one)
            for part in subexpressions(x)
        )
        is_of_size = LEAST_COLUMNS <= trips <= MOST_COLUMNS
        return divides and is_of_size and loop.start == ZERO and is_vector_loop(loop)

    def is_slow(self, x: Expr, loop: For) -> bool:
        """Whether an expression is a quotient that products are faster than."""
        is_in_cache = self.rows * (known_trips(loop) or 0) <= MOST_SINGLE
        return is_quotient(x) and (x.dtype == "float64" or is_in_cache)

    def is_shared(self, x: Expr, loop: For) -> bool:
        """Whether an element is the same in all rows, and is read along the row."""
        if not isinstance(x, Load) or not x.root or x.root in self.written:
            return False
        names = set(variables(x))
        return loop.var.name in names and self.inside.isdisjoint(names - {loop.var.name})

    def inverses(self, divisor: Load, loop: For) -> Load:
        """An element of a new row of inverses."""
        row, root = Var(numbered("inverses", self.names), "ptr"), numbered("inverses", self.names)
        column = Var(numbered("column", self.names), "int64")
        trips = known_trips(loop)
        assert trips is not None
        size = trips * np.dtype(divisor.dtype).itemsize
        own = renamed(divisor, {loop.var.name: column})
        inverse = Binary("div", Const(1.0, divisor.dtype), own, divisor.dtype)
        room = Call(STACK, (integer(size),), "ptr", external=True)
        filled = For(column, ZERO, integer(trips), [Store(row, column, inverse, root)])
        self.before += [Let(row, room), filled]
        return Load(row, loop.var, divisor.dtype, root)
