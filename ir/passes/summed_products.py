"""Large matrices that are computed for one product with a vector: sums of rows."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node
from jitcore.ir.ops import TABLE
from jitcore.ir.types import TensorType

__all__ = ["LEAST_BYTES", "sum_computed_products"]

LEAST_BYTES = 16 * 1024 * 1024
"""Smaller matrices stay in some cache, where BLAS finds them."""


def sum_computed_products(graph: Graph) -> bool:
    """Have a matrix that only one product reads computed and added up in one loop.

    Before::

        graph(%x : Float64[2000, 2000], %v : Float64[2000]):
          %0 : Float64[2000, 2000] = np::exp(%x)
          %1 : Float64[2000] = np::matmul(%0, %v)
          return (%1)

    After::

        graph(%x : Float64[2000, 2000], %v : Float64[2000]):
          %0 : Float64[2000, 2000] = np::exp(%x)
          %2 : Float64[2000, 2000] = np::multiply(%0, %v)
          %3 : Float64[2000] = np::sum[axis=(1,), keepdims=False](%2)
          return (%3)

    BLAS would need the matrix in memory, which takes longer than all of the arithmetic.
    """
    products = [node for node in graph.find_all_nodes("np::matmul") if _is_computed_for(node)]
    for product in products:
        _replace(product)
    return bool(products)


def _is_computed_for(product: Node) -> bool:
    """Whether a product is all that reads a large matrix, which is computed elementwise."""
    matrix, vector = product.inputs
    made_by = matrix.node
    if made_by is None or made_by.block is not product.block or len(matrix.uses) != 1:
        return False
    op = TABLE.get(made_by.kind)
    if op is None or op.scalar is None:
        return False
    type_, other = matrix.type, vector.type
    if not isinstance(type_, TensorType) or not isinstance(other, TensorType):
        return False
    if type_.dtype is None or type_.dtype.name not in ("float32", "float64"):
        return False
    rows, columns = type_.dims if type_.dims and len(type_.dims) == 2 else (None, None)
    if not isinstance(rows, int) or not isinstance(columns, int) or other.dims != (columns,):
        return False
    return rows * columns * type_.dtype.itemsize >= LEAST_BYTES


def _replace(product: Node) -> None:
    log.update("summed_products", lambda: f"add up {product!r} as its matrix is computed")
    matrix, vector = product.inputs
    terms = product.insert_before("np::multiply", [matrix, vector], outputs=(matrix.type,))
    attributes = {"axis": (1,), "keepdims": False}
    total = product.insert_before(
        "np::sum", [terms.output], attributes, outputs=(product.output.type,)
    )
    for node in (terms, total):
        node.origin = product.origin
    product.output.replace_all_uses_with(total.output)
    product.destroy()
