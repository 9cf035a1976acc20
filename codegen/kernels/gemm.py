"""What functions in the place of BLAS's ``gemm`` share: ``z = x @ y`` of matrices in memory."""

from __future__ import annotations

from jitcore.codegen.kernels.assembler import Function, Number, Word
from jitcore.codegen.kernels.tiles import Lanes

__all__ = ["DTYPES", "PARAMETERS", "call_blas", "declarations", "open_matrices", "rounded", "run"]

DTYPES = ("float32", "float64")

_MATRICES = tuple(
    parameter
    for name in ("x", "y")
    for parameter in (
        f"ptr %{name}.memory",
        f"i64 %{name}.offset",
        f"i64 %{name}.rows",
        f"i64 %{name}.columns",
    )
)
PARAMETERS = ("i64 %m", "i64 %n", "i64 %k", *_MATRICES, "ptr %z.memory", "i64 %z.offset")
"""Those of ``jc_gemm_<dtype>``."""


def declarations(dtype: str, name: str = "gemm") -> str:
    """What the functions here call, and another one of those with these parameters."""
    types = ", ".join(one.split()[0] for one in PARAMETERS)
    return (
        "declare void @jc_parallel(ptr, ptr, i64, i64, i64)\n"
        "declare ptr @jc_malloc(i64)\n"
        "declare void @jc_free(ptr)\n"
        "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n"
        f"declare void @jc_{name}_{dtype}({types})\n"
    )


def open_matrices(function: Function, lanes: Lanes) -> None:
    """Define where the matrices begin: ``%x``, ``%y`` and ``%z``."""
    for name in ("x", "y", "z"):
        place = f"ptr %{name}.memory, i64 %{name}.offset"
        function.do(f"%{name} = getelementptr {lanes.number}, {place}")


def call_blas(function: Function, lanes: Lanes, name: str = "gemm") -> None:
    """Leave the product to BLAS, or to another function with these parameters."""
    function.do(f"call void @jc_{name}_{lanes.dtype}({', '.join(PARAMETERS)})")


def run(function: Function, body: str, context: Word, count: Number, work: Number) -> None:
    """Run a body over so many tasks, on several threads where the work is large."""
    function.do(
        f"call void @jc_parallel(ptr @{body}, ptr {context}, i64 0, i64 {count}, i64 {work})"
    )


def rounded(function: Function, x: Number, step: Number) -> Number:
    """``x``, rounded up to a multiple of ``step``."""
    return function.mul(function.quotient(x, step), step)
