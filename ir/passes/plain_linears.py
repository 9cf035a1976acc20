"""Linear maps become products of matrices, for machines without kernels of packed weights."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops.layer_kernels import LINEARS
from jitcore.ir.passes.layer_nodes import insert, transposed
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import NONE

__all__ = ["use_plain_linears"]


def use_plain_linears(graph: Graph) -> bool:
    """Multiply by the weights as they were before they were packed.

    Before::

        graph(%x : Float32[2, 3], %w : Float32[3, 8], %b : Float32[8], \
%p : Float32[1, 1, 3, 16]):
          %0 : Float32[2, 8] = nn::transposed_linear(%x, %w, %b, packed=%p)
          return (%0)

    After::

        graph(%x : Float32[2, 3], %w : Float32[3, 8], %b : Float32[8], \
%p : Float32[1, 1, 3, 16]):
          %1 : Float32[2, 8] = np::matmul(%x, %w)
          %2 : Float32[2, 8] = np::add(%1, %b)
          return (%2)
    """
    found = [
        node
        for kind in LINEARS
        for node in graph.find_all_nodes(kind)
        if len(dims_of(node.inputs[1])) == 2
    ]
    for node in found:
        _replace(node)
    return bool(found)


def _replace(node: Node) -> None:
    log.update("plain_linears", lambda: f"{node!r} becomes a product")
    node.output.replace_all_uses_with(_product(node))
    node.destroy()


def _product(node: Node) -> Value:
    (x, weight, *biases), dims = node.positional, dims_of(node.output)
    if node.kind == "nn::linear":
        weight = transposed(node, weight, (1, 0))
    made = insert(node, "np::matmul", [x, weight], {}, x, dims)
    given = [bias for bias in biases if bias.type != NONE]
    return insert(node, "np::add", [made, *given], {}, x, dims) if given else made
