"""Linear equations, inverses and Cholesky's factors, by the LAPACK functions that NumPy calls.

LAPACK reads matrices in Fortran order, and writes over them.  So they are copied, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from jitcore.codegen.loops import Call, Expr
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    compare,
    constant,
    expression_dtype,
    integer,
    minimum,
)
from jitcore.codegen.lowering.broadcasting import define_dims
from jitcore.codegen.lowering.elements import choose, load, store, uncollapsed
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Element,
    NotNative,
    Operand,
    Pair,
    column_major,
)
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.codegen.runtime.lapack import ensure_lapack
from jitcore.ir.graph import Node

__all__ = ["RULES"]

ROWS_AT_ONCE = 16
"""Of a matrix that is copied to the other order: their cache lines stay in the first cache while
all of the elements in them are taken."""

NOT_SQUARE = "Last 2 dimensions of the array must be square"
SINGULAR = "Singular matrix"
NOT_POSITIVE = "Matrix is not positive definite"
MISMATCH = (
    "{function}: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
    "{signature} (size {{0}} is different from {{1}})"
)
MISMATCHES = {
    1: MISMATCH.format(function="solve1", signature="(m,m),(m)->(m)"),
    2: MISMATCH.format(function="solve", signature="(m,m),(m,n)->(m,n)"),
}
"""By the rank of the right side."""

Value = Callable[[Expr, Expr], Element]
"""An element by its row and column."""


def _solve(lowering: Lowering, node: Node) -> Operand:
    a, b = (_operand(lowering, node, number) for number in range(2))
    size = _square(lowering, a)
    lowering.fail(compare("ne", b.dims[0], size), ValueError, MISMATCHES[b.rank], [b.dims[0], size])
    factored = _by_columns(lowering, "factored", a)
    target = _target(lowering, node, b.dims)
    if b.rank == 1:
        with lowering.emitter.loop("row", ZERO, size) as row:
            store(lowering, target, uncollapsed([row]), load(b, uncollapsed([row])))
        _call_gesv(lowering, factored, target, ONE)
        return target
    columns = _by_columns(lowering, "columns", b)
    _call_gesv(lowering, factored, columns, b.dims[1])
    _fill(lowering, target, _elements(columns))
    return target


def _inverse(lowering: Lowering, node: Node) -> Operand:
    a = _operand(lowering, node, 0)
    size = _square(lowering, a)
    factored = _by_columns(lowering, "factored", a)
    target = _target(lowering, node, a.dims)
    columns = _column_major(lowering, "columns", a)
    one, zero = _number(a, 1), _number(a, 0)
    _fill(lowering, columns, lambda i, j: choose(compare("eq", i, j), one, zero))
    _call_gesv(lowering, factored, columns, size)
    _fill(lowering, target, _elements(columns))
    return target


def _call_gesv(lowering: Lowering, a: ArrayRef, b: ArrayRef, columns: Expr) -> None:
    """Replace ``b``, in Fortran order as ``a`` is, by the solution."""
    size = a.dims[0]
    pivots = lowering.allocate("pivots", [size], np.dtype(np.int64), escapes=False)
    _call(lowering, "gesv", a, (columns, a.pointer, b.pointer, pivots.pointer), SINGULAR)


def _cholesky(lowering: Lowering, node: Node) -> Operand:
    a = _operand(lowering, node, 0)
    _square(lowering, a)
    factor = _column_major(lowering, "factor", a)
    _fill(lowering, factor, _elements(a), is_lower=True)
    target = _target(lowering, node, a.dims)
    _call(lowering, "potrf", factor, (factor.pointer,), NOT_POSITIVE)
    below, zero = _elements(factor), _number(a, 0)

    def element(row: Expr, column: Expr) -> Element:
        return choose(compare("le", column, row), below(row, column), zero)

    _fill(lowering, target, element, is_lower=True)
    _fill_above(lowering, target, zero)
    return target


def _call(lowering: Lowering, name: str, a: ArrayRef, args: tuple[Expr, ...], message: str) -> None:
    call = Call(f"jc_{name}_{a.dtype.name}", (a.dims[0], *args), "int64", external=True)
    status = lowering.emitter.copy("status", call)
    lowering.fail(compare("ne", status, ZERO), np.linalg.LinAlgError, message)


# Operands ---------------------------------------------------------------------------------


def _operand(lowering: Lowering, node: Node, number: int) -> ArrayRef:
    array = lowering.array(node.inputs[number])
    if lowering.target.is_device:
        raise NotNative("LAPACK works in the host's memory")
    if array.rank > 2:
        raise NotNative("LAPACK takes one matrix at a time: NumPy takes stacks of them")
    if not ensure_lapack(array.dtype.name):
        raise NotNative("NumPy's LAPACK is its own")
    return array


def _square(lowering: Lowering, a: ArrayRef) -> Expr:
    """The extent of both axes."""
    rows, columns = a.dims
    lowering.fail(compare("ne", rows, columns), np.linalg.LinAlgError, NOT_SQUARE)
    return rows


def _target(lowering: Lowering, node: Node, extents: tuple[Expr, ...]) -> ArrayRef:
    """The memory of the result, in C order."""
    output = node.output
    dims = define_dims(lowering, output, extents)
    dtype = lowering.array(node.inputs[0]).dtype
    return lowering.allocate(output.name, dims, dtype, escapes=lowering.escapes(output))


def _column_major(lowering: Lowering, name: str, like: ArrayRef) -> ArrayRef:
    """New memory in Fortran order."""
    order = column_major(like.rank)
    return lowering.allocate(name, like.dims, like.dtype, escapes=False, order=order)


def _by_columns(lowering: Lowering, name: str, source: ArrayRef) -> ArrayRef:
    """A copy in Fortran order."""
    copy = _column_major(lowering, name, source)
    _fill(lowering, copy, _elements(source))
    return copy


def _elements(array: ArrayRef) -> Value:
    return lambda row, column: load(array, uncollapsed([row, column]))


def _fill(lowering: Lowering, target: ArrayRef, value: Value, *, is_lower: bool = False) -> None:
    """Write all elements of a matrix, some rows at a time, or those on and below the diagonal.

    In the latter case those above it are written up to the last column that these rows have.
    """
    columns = target.dims[1]
    with (
        _some_rows(lowering, target) as (first, last),
        lowering.emitter.loop("column", ZERO, last if is_lower else columns) as column,
        lowering.emitter.loop("row", first, last) as row,
    ):
        store(lowering, target, uncollapsed([row, column]), value(row, column))


def _fill_above(lowering: Lowering, target: ArrayRef, value: Element) -> None:
    """Write the elements above the diagonal that `_fill` leaves out."""
    columns = target.dims[1]
    with (
        _some_rows(lowering, target) as (first, last),
        lowering.emitter.loop("row", first, last) as row,
        lowering.emitter.loop("column", last, columns) as column,
    ):
        store(lowering, target, uncollapsed([row, column]), value)


@contextmanager
def _some_rows(lowering: Lowering, matrix: ArrayRef) -> Iterator[tuple[Expr, Expr]]:
    """A loop over the rows of a matrix, some at a time: the first one, and the one behind them."""
    rows, emitter = matrix.dims[0], lowering.emitter
    with emitter.nest(), emitter.loop("first", ZERO, rows, step=ROWS_AT_ONCE) as first:
        last = emitter.copy("last", minimum(rows, add(first, integer(ROWS_AT_ONCE))))
        yield first, last


def _number(like: ArrayRef, value: int) -> Element:
    part = expression_dtype(like.dtype)
    number = constant(value, part)
    return Pair(number, constant(0, part)) if like.dtype.kind == "c" else number


RULES: dict[str, Rule] = {
    "np::solve": _solve,
    "np::inv": _inverse,
    "np::cholesky": _cholesky,
}
