"""Loops for products of one large matrix with vectors on both sides, a panel of rows at a time.

A panel belongs to one thread, which takes four rows after the other: they come from memory for the
first product, and for the others from the cache.  What is added to a row of the result, ``r @ A``,
is added up for each panel by itself, and the panels in their order at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from jitcore.codegen.loop_passes.rewriting import unused_name
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Do,
    Expr,
    For,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import (
    ZERO,
    add,
    compare,
    constant,
    integer,
    maximum,
    minimum,
    multiply,
    subtract,
)
from jitcore.codegen.lowering.state import NULL
from jitcore.ir.dataclass import dataclass

__all__ = ["PANELS", "PanelProduct", "panel_loops", "rows_of_panel"]

PANELS = 16
"""However many threads there are, so that results do not depend on them."""

_ROWS = 4
"""Rows that are added up together, so that vectors and sums are read once for all of them."""


@dataclass(frozen=True, slots=True)
class PanelProduct:
    """A matrix in C order times a vector (``by_rows``), or a vector times the matrix.

    The vector begins at ``offset`` and goes on by ``stride``; the result begins at the target.
    """

    dtype: str
    matrix: Var
    rows: int
    columns: int
    by_rows: bool
    vector: Var
    offset: int
    stride: int
    target: Var

    def element(self, number: Expr) -> Expr:
        """One of the vector."""
        place = add(integer(self.offset), multiply(number, integer(self.stride)))
        return Load(self.vector, place, self.dtype)

    def entry(self, row: Expr, column: Expr) -> Expr:
        """One of the matrix."""
        place = add(multiply(row, integer(self.columns)), column)
        return Load(self.matrix, place, self.dtype)


def rows_of_panel(rows: int) -> int:
    """How many rows a panel has; the last one may have fewer."""
    return -(-rows // (PANELS * _ROWS)) * _ROWS


def panel_loops(
    products: Sequence[PanelProduct], whole: Sequence[Stmt], names: set[str]
) -> list[Stmt]:
    """Compute products of one matrix together.

    Parameters
    ----------
    products : sequence of PanelProduct
        Where one reads the result of another, that one is ``by_rows`` and comes first.
    whole : sequence of Stmt
        The products one after the other, for the case that there is no memory for sums.
    names : set of str
        Those taken; the new ones are added.
    """
    return _Panels(products, names).statements(whole)


class _Panels:
    def __init__(self, products: Sequence[PanelProduct], names: set[str]) -> None:
        self.products = products
        self.names = names
        self.rows, self.columns = products[0].rows, products[0].columns
        self.dtype = products[0].dtype
        self.panel = self.variable("panel")
        self.rows_of_panel = rows_of_panel(self.rows)
        self.panels = -(-self.rows // self.rows_of_panel)
        across = [one for one in products if not one.by_rows]
        self.places = {one.target.name: k * PANELS for k, one in enumerate(across)}
        self.across = across
        self.sums = self.variable("sums", "ptr")

    def variable(self, name: str, dtype: str = "int64") -> Var:
        return Var(unused_name(f"{self.products[0].matrix.name}_{name}", self.names), dtype)

    def statements(self, whole: Sequence[Stmt]) -> list[Stmt]:
        if not self.across:
            return self.loops()
        size = len(self.across) * PANELS * self.columns * np.dtype(self.dtype).itemsize
        memory = Call("jc_malloc", (integer(size),), "ptr", external=True)
        release = Do(Call("jc_free", (self.sums,), "void", external=True))
        is_missing = compare("eq", self.sums, NULL)
        return [Let(self.sums, memory), If(is_missing, list(whole), [*self.loops(), release])]

    def loops(self) -> list[Stmt]:
        first, last, fours = (self.variable(name) for name in ("first_row", "last_row", "fours"))
        step = integer(self.rows_of_panel)
        body: list[Stmt] = [
            Let(first, multiply(self.panel, step)),
            Let(last, minimum(add(first, step), integer(self.rows))),
            *(self.cleared(one) for one in self.across),
            Let(fours, subtract(last, integer(_ROWS - 1))),
            self.some_rows(first, fours, _ROWS),
        ]
        left = self.rows % _ROWS
        if left:
            body.append(self.some_rows(maximum(first, integer(self.rows - left)), last, 1))
        made: list[Stmt] = [For(self.panel, ZERO, integer(self.panels), body, parallel=True)]
        return made + [self.joined(one) for one in self.across]

    def place(self, product: PanelProduct, panel: Expr, column: Expr) -> Expr:
        """Where a panel's sum for a column is."""
        row = add(panel, integer(self.places[product.target.name]))
        return add(multiply(row, integer(self.columns)), column)

    def cleared(self, product: PanelProduct) -> Stmt:
        column = self.variable("column")
        zero = constant(0.0, self.dtype)
        store = Store(self.sums, self.place(product, self.panel, column), zero)
        return For(column, ZERO, integer(self.columns), [store])

    def some_rows(self, start: Expr, stop: Expr, count: int) -> Stmt:
        """All products of ``count`` rows at a time."""
        row = self.variable("row")
        rows = [add(row, integer(number)) for number in range(count)]
        body: list[Stmt] = []
        for product in self.products:
            body += self.along(product, rows) if product.by_rows else self.down(product, rows)
        return For(row, start, stop, body, step=count)

    def along(self, product: PanelProduct, rows: Sequence[Expr]) -> list[Stmt]:
        """Sums over the columns."""
        column = self.variable("column")
        totals = [self.variable("total", self.dtype) for _ in rows]
        steps: list[Stmt] = []
        for total, row in zip(totals, rows, strict=True):
            term = Binary("mul", product.entry(row, column), product.element(column), self.dtype)
            steps.append(Assign(total, Binary("add", total, term, self.dtype, reassoc=True)))
        zero = constant(0.0, self.dtype)
        return [
            *(Let(total, zero, mutable=True) for total in totals),
            For(column, ZERO, integer(self.columns), steps),
            *(Store(product.target, row, total) for total, row in zip(totals, rows, strict=True)),
        ]

    def down(self, product: PanelProduct, rows: Sequence[Expr]) -> list[Stmt]:
        """What these rows add to the panel's sums."""
        column = self.variable("column")
        factors = [self.variable("factor", self.dtype) for _ in rows]
        place = self.place(product, self.panel, column)
        total: Expr = Load(self.sums, place, self.dtype)
        for factor, row in zip(factors, rows, strict=True):
            term = Binary("mul", factor, product.entry(row, column), self.dtype)
            total = Binary("add", total, term, self.dtype)
        return [
            *(Let(factor, product.element(row)) for factor, row in zip(factors, rows, strict=True)),
            For(column, ZERO, integer(self.columns), [Store(self.sums, place, total)]),
        ]

    def joined(self, product: PanelProduct) -> Stmt:
        """The sums of all panels."""
        column = self.variable("column")
        parts: list[Expr] = [
            Load(self.sums, self.place(product, integer(panel), column), self.dtype)
            for panel in range(self.panels)
        ]
        total = reduce(lambda x, y: Binary("add", x, y, self.dtype), parts)
        store = Store(product.target, column, total)
        return For(column, ZERO, integer(self.columns), [store], parallel=True)
