"""Products of points and small matrices, whose elements the group that reads them computes."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node
from jitcore.ir.ops import is_elementwise
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import TensorType

__all__ = ["multiply_where_read"]

_MOST_TERMS = 4
"""With so many terms a sum is computed at once (`codegen.lowering.matmul`)."""


def multiply_where_read(graph: Graph) -> bool:
    """Give products with few terms and few columns a node that a group may have.

    Before::

        graph(%x : Float32[n, 3], %m : Float32[3, 3], %b : Float32[3]):
          %0 : Float32[n, 3] = np::matmul(%x, %m)
          %1 : Float32[n, 3] = np::add(%0, %b)
          return (%1)

    After::

        graph(%x : Float32[n, 3], %m : Float32[3, 3], %b : Float32[3]):
          %2 : Float32[n, 3] = np::narrow_product(%x, %m)
          %1 : Float32[n, 3] = np::add(%2, %b)
          return (%1)

    So an affine map is one loop, without an array of what there is before the offset is added.
    """
    found = [node for node in graph.find_all_nodes("np::matmul") if _is_narrow(node)]
    for node in found:
        _replace(node)
    return bool(found)


def _replace(node: Node) -> None:
    log.update("narrow_products", lambda: f"multiply where {node!r} is read")
    product = node.value_before("np::narrow_product", node.inputs, node.output.type)
    node.output.replace_all_uses_with(product)
    node.destroy()


def _is_narrow(node: Node) -> bool:
    """Whether a product has few terms, few columns and more rows, and is read by element."""
    x, y = map(dims_of, node.inputs)
    type_ = node.output.type
    if not isinstance(type_, TensorType) or type_.dtype is None or len(x) < 2 or len(y) != 2:
        return False
    terms, columns = y
    are_few = all(isinstance(one, int) and 0 < one <= _MOST_TERMS for one in (terms, columns))
    is_low = isinstance(x[-2], int) and x[-2] <= _MOST_TERMS
    if not are_few or terms != x[-1] or columns == 1 or is_low:
        return False
    return type_.dtype.name in ("float32", "float64") and _is_read_by_element(node)


def _is_read_by_element(node: Node) -> bool:
    users = [use.user for use in node.output.uses]
    nodes = (one for one in users if isinstance(one, Node) and is_elementwise(one))
    return any(dims_of(one.output) == dims_of(node.output) for one in nodes)
