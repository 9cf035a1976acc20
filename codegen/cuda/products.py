"""Matrix products: calls that lowering leaves as such, and the kernel and library for them."""

from __future__ import annotations

from dataclasses import replace

from jitcore.codegen.cuda.cublas import DTYPES, gemm_symbol
from jitcore.codegen.cuda.kernels import Launch, Mapped
from jitcore.codegen.loops import Binary, Call, Do, Expr, Stmt
from jitcore.codegen.lowering.arithmetic import add, integer, maximum, multiply

__all__ = ["MATMUL", "THREADS", "TILE", "call_of_library", "is_product", "map_product"]

MATMUL = "cuda.matmul_"
"""What the names of products begin with; the dtype follows.

The arguments are, for ``x``, ``y`` and the result in turn, the pointer, where the first matrix
begins, and the strides of the batch, of rows and of columns in elements; then the extents: rows,
columns, terms, and matrices of the batch."""

TILE = 64
"""Rows and columns of the part that one block computes."""

THREADS = 256


def is_product(statement: Stmt) -> bool:
    """Whether a statement is a product."""
    return isinstance(statement, Do) and statement.call.name.startswith(MATMUL)


def call_of_library(call: Call) -> Call | None:
    """cuBLAS's function in the place of a product; None where it has none for the dtype."""
    dtype = call.name.removeprefix(MATMUL)
    if dtype not in DTYPES:
        return None
    return replace(call, name=gemm_symbol(dtype), dtype="int64", external=True)


def map_product(call: Call, library: str = "") -> Mapped:
    """The kernel of a product: one block for each tile of each matrix.

    Parameters
    ----------
    call : Call
    library : str
        Who computes the product where it can read the matrices; for reports.
    """
    *_, rows, columns, _, batch = call.args
    tiles = multiply(multiply(_tiles(rows), _tiles(columns)), batch)
    launch = Launch(maximum(tiles, integer(1)), integer(THREADS))
    mapping = "a block per tile of a matrix product"
    if library:
        mapping += f", where {library} does not take its layout"
    return Mapped([Do(call)], launch, mapping)


def _tiles(extent: Expr) -> Expr:
    return Binary("quot", add(extent, integer(TILE - 1)), integer(TILE), "int64")
