"""Linear equations, inverses and Cholesky's factors: LAPACK's work, always in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand, rank_of, row
from jitcore.ir.types import SUPPORTED, Dim, TensorType

__all__ = ["OPS", "matrix_dtype"]


def matrix_dtype(function: Any, *values: Value) -> np.dtype[Any]:
    """The dtype a function of LAPACK gives, asked of NumPy itself."""
    dtypes = [tensor(array_operand(value)).dtype for value in values]
    for dtype in dtypes:
        if dtype is None or dtype.char not in SUPPORTED or not dtype.isnative:
            raise Untypable(f"dtype {dtype} is not compiled")
    try:
        found: np.dtype[Any] = np.asarray(function(*[np.ones((1, 1), one) for one in dtypes])).dtype
    except TypeError as error:
        raise Untypable(str(error)) from None
    return found


def _in_double(
    b: Builder, kind: str, function: Any, operands: tuple[Value, ...], dims: tuple[Dim, ...]
) -> Value:
    """The node, on operands in double precision, and its result in the dtype NumPy gives."""
    dtype = matrix_dtype(function, *operands)
    wide = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
    inputs = [cast_to(b, value, wide) for value in operands]
    return cast_to(b, b.emit(kind, inputs, {}, TensorType(wide, dims)), dtype)


def _matrix_dims(value: Value) -> tuple[Dim, ...]:
    dims = tensor(array_operand(value)).dims or ()
    if len(dims) < 2:
        raise Untypable("the factors of something else than matrices")
    return dims


def _inverse_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    return _in_double(b, "np::inv", np.linalg.inv, (x,), _matrix_dims(x))


def _cholesky_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    if call.static("upper"):
        raise Untypable("the upper factor")
    return _in_double(b, "np::cholesky", np.linalg.cholesky, (x,), _matrix_dims(x))


def _solve_rule(b: Builder, call: Call) -> Value:
    a, y = call.value("a"), call.value("b")
    if rank_of(array_operand(a)) != 2 or rank_of(array_operand(y)) not in (1, 2):
        raise Untypable("np.linalg.solve of stacks")
    rows = _matrix_dims(a)[:1]
    dims = (*rows, *(tensor(y).dims or ())[1:])
    return _in_double(b, "np::solve", np.linalg.solve, (a, y), dims)


OPS: tuple[Op, ...] = (
    row("inv", np.linalg.inv, _inverse_rule, "a", "The inverse of matrices."),
    row("solve", np.linalg.solve, _solve_rule, "a, b", "The solution of linear equations."),
    row(
        "cholesky",
        np.linalg.cholesky,
        _cholesky_rule,
        "a, *, upper=False",
        "The lower triangular factor of positive definite matrices.",
    ),
)
