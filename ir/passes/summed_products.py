"""Large matrices, and vectors, that are computed for one product with a vector: sums."""

from __future__ import annotations

from math import prod

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.nesting import enclosing
from jitcore.ir.ops import is_elementwise
from jitcore.ir.passes.rolls import is_roll
from jitcore.ir.passes.selected_reductions import MOST_IN_ORDER
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import TensorType

__all__ = ["LEAST_BYTES", "sum_computed_products"]

LEAST_BYTES = 16 * 1024 * 1024
"""Smaller matrices stay in some cache, where BLAS finds them."""


def sum_computed_products(graph: Graph) -> bool:
    """Have a matrix or a vector that only one product reads computed and added up in one loop.

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

    BLAS would need the matrix in memory, which takes longer than all of the arithmetic.  Vectors
    that are rolled are computed, too.  Products of vectors in loops of the program, and of as few
    elements as sums add up in NumPy's order, stay BLAS's, whose last digits NumPy has.
    """
    products = [node for node in graph.find_all_nodes("np::matmul") if _is_computed_for(node)]
    for product in products:
        _replace(product)
    return bool(products)


def _is_computed_for(product: Node) -> bool:
    """Whether a product is all that reads one of its operands, which is computed elementwise."""
    type_ = product.output.type
    dtype = type_.dtype if isinstance(type_, TensorType) else None
    if dtype is None or dtype.name not in ("float32", "float64"):
        return False
    left, right = (_extents(value) for value in product.inputs)
    if len(left) == 2:
        is_large = prod(left) * dtype.itemsize >= LEAST_BYTES
        return is_large and right == left[1:] and _is_only_read_by(product, product.inputs[0])
    if len(left) != 1 or left != right or left[0] <= MOST_IN_ORDER or _is_repeated(product):
        return False
    return any(_is_only_read_by(product, value) for value in product.inputs)


def _extents(value: Value) -> tuple[int, ...]:
    """The extents of an array that are numbers; none where one of them is not."""
    dims = dims_of(value)
    known = tuple(dim for dim in dims if isinstance(dim, int))
    return known if len(known) == len(dims) else ()


def _is_only_read_by(product: Node, value: Value) -> bool:
    """Whether a value is computed by elements, or rolled, and nothing else reads it."""
    made_by = value.node
    if made_by is None or made_by.block is not product.block:
        return False
    is_computed = is_elementwise(made_by) or is_roll(made_by)
    return is_computed and all(use.user is product for use in value.uses)


def _is_repeated(product: Node) -> bool:
    """Whether a loop of the program is around a product: differences may grow from step to step."""
    owners = (block.owner for block in enclosing(product.block))
    return any(owner is not None and owner.kind == "prim::Loop" for owner in owners)


def _replace(product: Node) -> None:
    log.update("summed_products", lambda: f"add up {product!r} as its operand is computed")
    left, right = product.inputs
    terms = product.insert_before("np::multiply", [left, right], outputs=(left.type,))
    attributes = {"axis": (len(_extents(left)) - 1,), "keepdims": False}
    total = product.insert_before(
        "np::sum", [terms.output], attributes, outputs=(product.output.type,)
    )
    for node in (terms, total):
        node.origin = product.origin
    product.output.replace_all_uses_with(total.output)
    product.destroy()
