"""Matrix products: calls that lowering leaves as such, and the kernel that computes them."""

from __future__ import annotations

from jitcore.codegen.cuda.kernels import Launch, Mapped
from jitcore.codegen.loops import Binary, Call, Do, Expr
from jitcore.codegen.lowering.arithmetic import add, integer, maximum, multiply

__all__ = ["MATMUL", "THREADS", "TILE", "map_product"]

MATMUL = "cuda.matmul_"
"""What the names of products begin with; the dtype follows.

The arguments are, for ``x``, ``y`` and the result in turn, the pointer, where the first matrix
begins, and the strides of the batch, of rows and of columns in elements; then the extents: rows,
columns, terms, and matrices of the batch."""

TILE = 64
"""Rows and columns of the part that one block computes."""

THREADS = 256


def map_product(call: Call) -> Mapped:
    """The kernel of a product: one block for each tile of each matrix."""
    *_, rows, columns, _, batch = call.args
    tiles = multiply(multiply(_tiles(rows), _tiles(columns)), batch)
    launch = Launch(maximum(tiles, integer(1)), integer(THREADS))
    return Mapped([Do(call)], launch, "a block per tile of a matrix product")


def _tiles(extent: Expr) -> Expr:
    return Binary("quot", add(extent, integer(TILE - 1)), integer(TILE), "int64")
