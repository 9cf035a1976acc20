"""Batch normalization after a linear map goes into its weights."""

from __future__ import annotations

from jitcore.ir.graph import Graph, Node
from jitcore.ir.passes.frozen.linears import linear_of
from jitcore.ir.passes.frozen.normalization import normalized
from jitcore.ir.passes.frozen.ranks import rank_of
from jitcore.ir.passes.frozen.weights import fold_each, replace_layer

__all__ = ["fold_linear_batch_norm"]


def fold_linear_batch_norm(graph: Graph) -> bool:
    """Scale and shift a linear map's weights instead of its results.

    Before, with constant weights ``%w`` and statistics ``%m`` and ``%v``::

        graph(%x : Float32[n, 3], %w : Float32[8, 3], %m : Float32[8], %v : Float32[8]):
          %none : None = prim::Constant[value=None]()
          %false : bool = prim::Constant[value=False]()
          %eps : float = prim::Constant[value=1e-05]()
          %y : Any = nn::linear(%x, %w, %none)
          %z : Any = nn::batch_norm(%y, %m, %v, %none, %none, %false, %eps, %eps)
          return (%z)

    After::

        graph(%x : Float32[n, 3],
              %w : Float32[8, 3],
              %m : Float32[8],
              %v : Float32[8],
              %w.1 : Float32[8, 3],
              %bias : Float32[8]):
          %none : None = prim::Constant[value=None]()
          %false : bool = prim::Constant[value=False]()
          %eps : float = prim::Constant[value=1e-05]()
          %z.1 : Any = nn::linear(%x, %w.1, %bias)
          return (%z.1)

    Only where the results surely are a matrix, whose columns are the channels.  Not where anything
    else reads what the linear map gives, where the batch's own statistics are used, or where
    dtypes or channels differ.
    """
    return fold_each(graph, ("nn::batch_norm",), _fold)


def _fold(node: Node) -> bool:
    found = linear_of(node.inputs[0], node)
    if found is None or rank_of(found.node.output) != 2:
        return False
    new = normalized(found, node)
    return new is not None and replace_layer(found, node, *new, "fold_linear_batch_norm")
