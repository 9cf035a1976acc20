"""Large matrices that several products with vectors read, a few rows at a time.

``A @ p`` and ``r @ A`` each read the whole of ``A``.  Where that is larger than the caches it comes
from memory each time; in panels of rows it comes once.  The second product may even be of the
first one's result: ``(A @ x) @ A`` needs of that only the panel's own part.

Before::

    gemv(m, k, A, p, t)              # A @ p
    gemv(k, m, A.T, r, z)            # r @ A

After::

    for panel in range(16):          # parallel
        sums[panel, :] = 0
        for i in range(panel * rows, min((panel + 1) * rows, m), 4):
            t[i : i + 4] = A[i : i + 4] @ p
            sums[panel, :] += r[i : i + 4] @ A[i : i + 4]
    z[:] = sums[0, :] + sums[1, :] + ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen.loop_passes.matrix_panels import (
    PANELS,
    PanelProduct,
    panel_loops,
    rows_of_panel,
)
from jitcore.codegen.loop_passes.rewriting import with_blocks
from jitcore.codegen.loop_passes.traversal import (
    RELEASES,
    bound_names,
    calls_c,
    expressions,
    loads_in,
    variables,
    walk,
    written_roots,
)
from jitcore.codegen.loops import (
    Call,
    Comment,
    Const,
    Do,
    For,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
)
from jitcore.ir.dataclass import dataclass

__all__ = ["LEAST_BYTES", "share_matrices"]

LEAST_BYTES = 16 * 1024 * 1024
"""Smaller matrices stay in some cache as a whole."""


def share_matrices(statements: Sequence[Stmt], notes: list[str]) -> list[Stmt]:
    """The statements with products of one large matrix taken together.

    Parameters
    ----------
    statements : sequence of Stmt
        The body of a function.
    notes : list of str
        Takes a line for each of the matrices.
    """
    lets = [one for one in walk(statements) if isinstance(one, Let)]
    pointers = {one.var.name for one in lets if _copies_pointer(one)}
    return _Sharing(bound_names(statements), pointers, notes).block(statements)


def _copies_pointer(statement: Let) -> bool:
    """Whether a variable of a loop or a branch holds the address of memory with another name."""
    is_new = isinstance(statement.value, Call | Load)
    return statement.var.dtype == "ptr" and (statement.mutable or not is_new)


def _is_large(product: PanelProduct) -> bool:
    """Whether the matrix is larger than the caches, and all panels have rows."""
    size = np.dtype(product.dtype).itemsize * product.rows * product.columns
    return size >= LEAST_BYTES and product.rows >= PANELS * rows_of_panel(1)


def _may_follow(product: PanelProduct, others: Sequence[PanelProduct]) -> bool:
    """Whether it may be computed panel by panel together with earlier ones."""
    matrix = (product.dtype, product.matrix, product.rows, product.columns)
    return all(
        matrix == (one.dtype, one.matrix, one.rows, one.columns)
        and product.target not in (one.matrix, one.vector, one.target)
        and (product.vector != one.target or _continues(product, one))
        for one in others
    )


def _continues(product: PanelProduct, other: PanelProduct) -> bool:
    """Whether it needs only the part of the vector that the same panel has made."""
    is_whole = (product.offset, product.stride) == (0, 1)
    return other.by_rows and not product.by_rows and is_whole


def _pointers(product: PanelProduct) -> tuple[str, str, str]:
    """The names of the memory it reads and writes."""
    return product.matrix.name, product.vector.name, product.target.name


def _product(statement: Stmt) -> PanelProduct | None:
    match statement:
        case Do(
            Call(
                name,
                (
                    Const(extent),
                    Const(terms),
                    Var() as matrix,
                    Const(0),
                    Const(row_stride),
                    Const(column_stride),
                    Var() as vector,
                    Const(offset),
                    Const(stride),
                    Var() as target,
                    Const(0),
                ),
            )
        ) if name in ("jc_gemv_float32", "jc_gemv_float64"):
            dtype = name.rpartition("_")[2]
            shape = {(terms, 1): (extent, terms), (1, extent): (terms, extent)}
            found = shape.get((row_stride, column_stride))
            if found is None or matrix in (vector, target) or vector == target:
                return None
            by_rows = column_stride == 1
            made = PanelProduct(dtype, matrix, *found, by_rows, vector, offset, stride, target)
            return made if _is_large(made) else None
    return None


@dataclass(slots=True)
class _Sharing:
    names: set[str]
    copied_pointers: set[str]
    notes: list[str]

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """The statements of one block."""
        found = [with_blocks(one, self.block) for one in statements]
        for place in reversed(range(len(found))):
            product = self.product(found[place])
            if product is not None:
                found[place:] = self.joined(product, found[place:])
        return found

    def product(self, statement: Stmt) -> PanelProduct | None:
        """The large product that a statement is, of memory whose names are its only ones."""
        found = _product(statement)
        if found is None or not self.copied_pointers.isdisjoint(_pointers(found)):
            return None
        return found

    def joined(self, product: PanelProduct, statements: Sequence[Stmt]) -> Sequence[Stmt]:
        """The statements with the first one, a product, and later ones of its matrix together."""
        products, before, after = [product], list[Stmt](), list[Stmt]()
        whole = [statements[0]]
        for statement in statements[1:]:
            other = self.product(statement)
            if other is not None and _may_follow(other, products):
                moved = _divided(after, other)
                if moved is not None:
                    products.append(other)
                    whole.append(statement)
                    before += moved[0]
                    after = moved[1]
                    continue
            after.append(statement)
        if len(products) == 1:
            return statements
        rows, name = rows_of_panel(product.rows), product.matrix.name
        self.notes.append(f"{len(products)} products read {name} in panels of {rows} rows")
        return [*before, *panel_loops(products, whole, self.names), *after]


def _divided(
    statements: Sequence[Stmt], product: PanelProduct
) -> tuple[list[Stmt], list[Stmt]] | None:
    """What has to stand before a product that comes after these statements, and what may follow.

    None where it cannot be moved before the others.
    """
    needed = set(_pointers(product))
    provides: list[bool] = []
    for statement in reversed(statements):
        provides.append(_provides(statement, needed))
        if provides[-1]:
            needed.update(*map(variables, expressions(statement)))
        elif not _may_wait(statement, needed):
            return None
    earlier: list[Stmt] = []
    later: list[Stmt] = []
    for statement, is_needed in zip(statements, reversed(provides), strict=True):
        if is_needed:
            earlier.append(_releasing(statement, later))
        else:
            later.append(statement)
    return earlier, later


def _provides(statement: Stmt, needed: set[str]) -> bool:
    """Whether a statement allocates what is needed, or looks whether there was memory."""
    match statement:
        case Let(var, Call(external=True, dtype="ptr")):
            return var.name in needed
        case Let(var, Load(Var())) if not statement.mutable:
            return var.name in needed and var.dtype == "ptr"
        case If(condition, [*_, Return()], []):
            return not needed.isdisjoint(variables(condition))
    return False


def _may_wait(statement: Stmt, needed: set[str]) -> bool:
    """Whether a statement may come after a product instead of before it."""
    match statement:
        case Comment():
            return True
        case Do(Call(name, args)):
            given = {arg.name for arg in args if isinstance(arg, Var)}
            return name in RELEASES and needed.isdisjoint(given)
        case Let(var):
            is_plain = not statement.mutable and not calls_c(statement.value)
            return is_plain and var.name not in needed and not any(loads_in([statement]))
        case For():
            inside = list(walk([statement]))
            return (
                written_roots([statement]).isdisjoint({*needed, ""})
                and all(isinstance(one, For | Let | Store | Comment | If) for one in inside)
                and not any(calls_c(x) for one in inside for x in expressions(one))
            )
    return False


def _releasing(statement: Stmt, passed: Sequence[Stmt]) -> Stmt:
    """A branch that leaves, with the releases that no longer come before it."""
    if not isinstance(statement, If):
        return statement
    releases = [one for one in passed if isinstance(one, Do)]
    return replace(statement, then=[*releases, *statement.then])
