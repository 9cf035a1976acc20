"""Products that are large enough for BLAS, where it can read the operands' layouts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from typing import Any

import numpy as np

from jitcore.codegen.engine import has_feature
from jitcore.codegen.loops import Binary, Call, Const, Do, Expr
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    TRUE,
    both,
    cast,
    compare,
    constant,
    either,
    integer,
)
from jitcore.codegen.lowering.state import Lowering
from jitcore.codegen.runtime.blas import Blas, ensure_blas
from jitcore.ir.dataclass import dataclass

__all__ = ["Matrix", "blas_pays", "call_blas", "dot_by_blas", "has_wide_kernels"]

LEAST_MATRIX_TERMS = 16**3
"""So many multiplications cost more than a call: two matrices."""

LEAST_VECTOR_TERMS = 16**2
"""The same for a matrix and a vector: a call costs little more than the loops would."""


_REAL = ("float32", "float64")
"""The dtypes of our own kernels, which take time to import; products of others need none."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in memory; its strides count elements."""

    pointer: Expr
    offset: Expr
    dims: tuple[Expr, Expr]
    strides: tuple[Expr, Expr]
    dtype: np.dtype[Any]

    @property
    def transposed(self) -> Matrix:
        """The same memory with its axes exchanged."""
        (rows, columns), (row_stride, column_stride) = self.dims, self.strides
        return Matrix(
            self.pointer, self.offset, (columns, rows), (column_stride, row_stride), self.dtype
        )

    @property
    def parameters(self) -> tuple[Expr, ...]:
        """What a function of BLAS gets to know."""
        return self.pointer, self.offset, *self.strides


def blas_pays(x: Matrix, y: Matrix) -> Expr:
    """Whether ``x @ y`` is large enough for BLAS and in a layout it reads, as a bool."""
    blas = ensure_blas(x.dtype.name)
    if blas is None:
        return FALSE
    rows, terms, columns = x.dims[0], x.dims[1], y.dims[1]
    if columns == ONE:
        suits = both(_suits_matrix(x, blas), _suits_vector(y, blas))
    elif rows == ONE:
        suits = both(_suits_matrix(y, blas), _suits_vector(x.transposed, blas))
    else:
        suits = both(_suits_matrix(x, blas), _suits_matrix(y, blas))
    least = LEAST_VECTOR_TERMS if ONE in (rows, columns) else LEAST_MATRIX_TERMS
    return both(suits, _is_large([rows, terms, columns], least))


def call_blas(lowering: Lowering, x: Matrix, y: Matrix, z: Matrix) -> None:
    """Write ``x @ y`` to ``z``, which is in C order; `blas_pays` holds."""
    rows, terms, columns = x.dims[0], x.dims[1], y.dims[1]
    dtype = x.dtype.name
    args: tuple[Expr, ...]
    name = f"jc_gemv_{dtype}"
    if columns == ONE:
        args = (rows, terms, *x.parameters, *_vector(y))
    elif rows == ONE:
        args = (columns, terms, *y.transposed.parameters, *_vector(x.transposed))
    else:
        name = _matrix_product(dtype, rows, terms, columns)
        args = (rows, columns, terms, *x.parameters, *y.parameters)
    args = (*args, z.pointer, z.offset)
    lowering.emitter.emit(Do(Call(name, args, "void", external=True)))


def _matrix_product(dtype: str, *extents: Expr) -> str:
    """The function for a product of matrices; few rows are ours wherever vectors are wide."""
    name = "gemm"
    if has_wide_kernels(dtype):
        name = "matmul"
        import_module("jitcore.codegen.kernels.matrices")
    if dtype in _REAL and has_feature("avx512f"):
        few_rows: Any = import_module("jitcore.codegen.kernels.few_rows")
        known = [one.value if isinstance(one, Const) else None for one in extents]
        # Where they are never few, there is no need to compile that.
        if not few_rows.are_never_few(dtype, *known):
            return str(few_rows.symbol(dtype, known[0]))
    return f"jc_{name}_{dtype}"


def has_wide_kernels(dtype: str) -> bool:
    """Whether products of large matrices are faster by our own kernels than by BLAS's."""
    blas = ensure_blas(dtype)
    return blas is not None and blas.is_narrow and dtype in _REAL


def dot_by_blas(x: Matrix, y: Matrix) -> tuple[Expr, Call] | None:
    """The product of a row and a column: when BLAS computes it, and its call.

    It adds in the order in which NumPy's product of vectors does.
    """
    blas = ensure_blas(x.dtype.name)
    if blas is None or x.dtype.kind != "f":
        return None
    terms, column = x.dims[1], x.transposed
    suits = both(_suits_vector(column, blas), _suits_vector(y, blas))
    args = (terms, *_vector(column), *_vector(y))
    call = Call(f"jc_dot_{x.dtype.name}", args, x.dtype.name, external=True)
    # However short it is: each CPU has a kernel of its own, with its own order of additions.
    return suits, call


def _vector(column: Matrix) -> tuple[Expr, Expr, Expr]:
    return column.pointer, column.offset, column.strides[0]


def _suits_matrix(matrix: Matrix, blas: Blas) -> Expr:
    """One axis is contiguous, and the other steps over it in memory."""
    (rows, columns), (row_stride, column_stride) = matrix.dims, matrix.strides
    by_rows = both(compare("eq", column_stride, ONE), compare("ge", row_stride, columns))
    by_columns = both(compare("eq", row_stride, ONE), compare("ge", column_stride, rows))
    return both(either(by_rows, by_columns), _within(blas, [*matrix.dims, *matrix.strides]))


def _suits_vector(column: Matrix, blas: Blas) -> Expr:
    stride = column.strides[0]
    return both(compare("ge", stride, ONE), _within(blas, [column.dims[0], stride]))


def _within(blas: Blas, numbers: Sequence[Expr]) -> Expr:
    """Whether BLAS's integers hold these."""
    if blas.largest == np.iinfo(np.int64).max:
        return TRUE
    return reduce(both, (compare("le", number, integer(blas.largest)) for number in numbers))


def _is_large(extents: Sequence[Expr], least: int) -> Expr:
    """Whether a product of extents, which int64 may not hold, is at least a number."""
    known = 1.0
    size: Expr | None = None
    for extent in extents:
        if isinstance(extent, Const):
            known *= float(extent.value)
            continue
        wide = cast(extent, "float64")
        size = wide if size is None else Binary("mul", size, wide, "float64")
    limit = constant(least, "float64")
    if size is None:
        return compare("ge", constant(known, "float64"), limit)
    return compare("ge", Binary("mul", size, constant(known, "float64"), "float64"), limit)
