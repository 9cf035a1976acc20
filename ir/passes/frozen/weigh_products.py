"""Products with constant matrices are functions of layers, so that their weights can be packed."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node
from jitcore.ir.passes.frozen.arrays import array_of, insert_layer
from jitcore.ir.passes.frozen.dtypes import DType, known_dtypes

__all__ = ["PRODUCTS", "weigh_products"]

PRODUCTS = ("prim::matmul", "np::matmul")


def weigh_products(graph: Graph) -> bool:
    """Make a node of its own of each product of an array with a constant matrix.

    Before, with constant weights::

        graph(%x : Float32[*], %w : Float32[6, 8]):
          %y : Any = prim::matmul(%x, %w)
          return (%y)

    After::

        graph(%x : Float32[*], %w : Float32[6, 8]):
          %y.1 : Any = nn::matmul(%x, %w)
          return (%y.1)

    Only where the array surely is one, of the matrix's dtype: kernels take no other.
    """
    dtypes = known_dtypes(graph)
    found = [
        node
        for kind in PRODUCTS
        for node in graph.find_all_nodes(kind)
        if _fits(node, dtypes.get(node.inputs[0]))
    ]
    for node in found:
        _replace(node)
    return bool(found)


def _replace(node: Node) -> None:
    log.update("weigh_products", lambda: f"{node!r} has constant weights")
    made = insert_layer(node, "nn::matmul", list(node.inputs))
    node.output.replace_all_uses_with(made.output)
    node.destroy()


def _fits(node: Node, dtype: DType | None) -> bool:
    if len(node.inputs) != 2 or node.keywords or array_of(node.inputs[0]) is not None:
        return False
    weight = array_of(node.inputs[1])
    is_matrix = weight is not None and weight.ndim == 2 and weight.dtype.kind == "f"
    return weight is not None and is_matrix and weight.dtype == dtype
