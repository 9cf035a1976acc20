"""Matrices that are computed for one product with a vector, a few rows at a time.

``alpha * A @ x`` needs the matrix ``alpha * A`` once.  Where that is larger than the caches it
would be written to memory and read again; in panels of rows it stays in the cache.

Before::

    for i in range(m * k):                      # parallel
        t[i] = alpha * A[i]
    gemv(m, k, t, x, z)

After::

    for panel in range((m + 15) // 16):
        first = panel * (16 * k)
        last = min(first + 16 * k, m * k)
        for i in range(first, last):            # parallel
            t[i - first] = alpha * A[i]
        gemv((last - first) // k, k, t, x, z + panel * 16)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jitcore.codegen.loops import (
    Binary,
    Call,
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
)
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, minimum, multiply, subtract
from jitcore.codegen.rewriting import unused_name, with_blocks
from jitcore.codegen.traversal import (
    bound_names,
    calls_c,
    expressions,
    loads_in,
    variables,
    walk,
)

__all__ = ["LEAST_BYTES", "PANEL_BYTES", "multiply_by_panels"]

LEAST_BYTES = 16 * 1024 * 1024
"""Smaller matrices stay in some cache as a whole."""

PANEL_BYTES = 4 * 1024 * 1024
"""Part of a third-level cache.  BLAS wakes its threads for each panel, so there should be few."""

ROWS = 16
"""BLAS takes so many rows together, and adds up the rest of a matrix in another order: panels and
whole matrices give the same bits where there is no rest."""

_RELEASES = frozenset({"free", "jc_free", "jc_decref"})


def multiply_by_panels(statements: Sequence[Stmt], notes: list[str]) -> list[Stmt]:
    """The statements with matrices that only one product reads computed panel by panel.

    Parameters
    ----------
    statements : sequence of Stmt
        The body of a function.
    notes : list of str
        Takes a line for each of the matrices.
    """
    return _Panels(bound_names(statements), notes).block(statements)


@dataclass(slots=True)
class _Panels:
    names: set[str]
    notes: list[str]

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """The statements of one block."""
        found = [with_blocks(one, self.block) for one in statements]
        for place in reversed(range(len(found))):
            product = _product(found[place])
            if product is None:
                continue
            source = _source(found, place, product)
            if source is not None:
                rows, name = product.panel_rows, product.matrix.name
                self.notes.append(f"{name} is computed in panels of {rows} rows, for one product")
                loop = self.by_panels(found[source], product)
                found[place : place + 1] = [loop]
                del found[source]
        return found

    def by_panels(self, nest: Stmt, product: _Product) -> For:
        """The loop over panels."""
        assert isinstance(nest, For)
        name = nest.var.name
        panel, first, last = (
            Var(unused_name(f"{name}_{part}", self.names), "int64")
            for part in ("panel", "first", "last")
        )
        size = integer(product.panel_rows * product.columns)
        end = integer(product.rows * product.columns)
        inner = [_moved(one, first) for one in nest.body]
        rows = Binary("quot", subtract(last, first), integer(product.columns), "int64")
        body: list[Stmt] = [
            Let(first, multiply(panel, size)),
            Let(last, minimum(add(first, size), end)),
            For(nest.var, first, last, inner, parallel=True),
            Do(product.call_of(rows, multiply(panel, integer(product.panel_rows)))),
        ]
        return For(panel, ZERO, integer(-(-product.rows // product.panel_rows)), body)


@dataclass(frozen=True, slots=True)
class _Product:
    """A matrix in C order times a vector, by BLAS."""

    call: Call
    matrix: Var
    rows: int
    columns: int

    @property
    def panel_rows(self) -> int:
        """How many rows a panel has; the last one may have fewer."""
        itemsize = np.dtype(self.call.name.rpartition("_")[2]).itemsize
        return max(PANEL_BYTES // (itemsize * self.columns) // ROWS, 1) * ROWS

    def call_of(self, rows: Expr, first_row: Expr) -> Call:
        """The product of some rows, at the beginning of the matrix's memory."""
        *before, place = self.call.args
        return replace(self.call, args=(rows, *before[1:], add(place, first_row)))


def _product(statement: Stmt) -> _Product | None:
    match statement:
        case Do(
            Call(
                name,
                (
                    Const(rows),
                    Const(columns),
                    Var() as matrix,
                    Const(0),
                    Const(apart),
                    Const(1),
                    *_,
                ),
            ) as call
        ) if name.startswith("jc_gemv_") and apart == columns:
            product = _Product(call, matrix, rows, columns)
            itemsize = np.dtype(name.rpartition("_")[2]).itemsize
            is_large = rows * columns * itemsize >= LEAST_BYTES
            return product if is_large and rows % ROWS == 0 else None
    return None


def _source(statements: Sequence[Stmt], place: int, product: _Product) -> int | None:
    """The nest that computes the matrix, and which nothing keeps from waiting for the product."""
    name = product.matrix.name
    users = [number for number, one in enumerate(statements) if _uses(one, name)]
    nests = [number for number in users if isinstance(statements[number], For)]
    if len(nests) != 1 or nests[0] > place:
        return None
    (source,) = nests
    others = (statements[number] for number in users if number not in (source, place))
    nest = statements[source]
    assert isinstance(nest, For)
    if not _computes(nest, product) or not all(map(_only_manages, others)):
        return None
    between = statements[source + 1 : place]
    return source if all(_may_be_first(one, nest) for one in between) else None


def _uses(statement: Stmt, name: str) -> bool:
    every = [statement] if not isinstance(statement, For | If) else list(walk([statement]))
    return any(name in variables(x) for one in every for x in expressions(one)) or any(
        isinstance(one, Let) and one.var.name == name for one in every
    )


def _only_manages(statement: Stmt) -> bool:
    """Whether a statement allocates memory, looks whether there was any, or gives it back."""
    match statement:
        case Let(_, Call(_, _, "ptr", external=True)):
            return True
        case If(_, then, []):
            return all(not isinstance(one, For) for one in walk(then))
        case Do(Call(name)):
            return name in _RELEASES
    return False


def _computes(nest: For, product: _Product) -> bool:
    """Whether a nest writes one element of the matrix after the other, and nothing else."""
    end = integer(product.rows * product.columns)
    if (nest.start, nest.stop, nest.step, nest.parallel) != (ZERO, end, 1, True):
        return False
    stores = [one for one in nest.body if isinstance(one, Store)]
    if len(stores) != 1 or not all(isinstance(one, Let | Store | Comment) for one in nest.body):
        return False
    (store,) = stores
    name = product.matrix.name
    is_read = any(load.root in (name, "") for load in loads_in([nest]))
    return store.pointer == product.matrix and store.index == nest.var and not is_read


def _may_be_first(statement: Stmt, nest: For) -> bool:
    """Whether a statement after the nest may run before it."""
    read = {load.root for load in loads_in([nest])}
    match statement:
        case Comment():
            return True
        case Let(_, Call(external=True, dtype="ptr")):
            return True
        case Let():
            return not any(map(calls_c, expressions(statement)))
        case If(_, then, []):
            return _leaves(then)
        case Do(Call(name, args)):
            given = {arg.name for arg in args if isinstance(arg, Var)}
            return name in _RELEASES and not given & read
        case For():
            inside = list(walk([statement]))
            written = {one.root for one in inside if isinstance(one, Store)}
            return not written & (read | {""}) and all(
                isinstance(one, For | Let | Store | Comment | If) for one in inside
            )
    return False


def _leaves(statements: Sequence[Stmt]) -> bool:
    return bool(statements) and isinstance(statements[-1], Return)


def _moved(statement: Stmt, first: Var) -> Stmt:
    """A store to the place of a panel's element at the beginning of the memory."""
    if not isinstance(statement, Store):
        return statement
    return replace(statement, index=subtract(statement.index, first))
