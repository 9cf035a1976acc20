"""Batch normalization after a convolution goes into its weights."""

from __future__ import annotations

from jitcore.ir.graph import Graph, Node
from jitcore.ir.passes.frozen.convolutions import convolution_of
from jitcore.ir.passes.frozen.normalization import normalized
from jitcore.ir.passes.frozen.weights import fold_each, replace_layer

__all__ = ["fold_conv_batch_norm"]


def fold_conv_batch_norm(graph: Graph) -> bool:
    """Scale and shift a convolution's weights instead of its results.

    Before, with constant weights ``%w`` and statistics ``%m`` and ``%v``::

        graph(%x : Float32[n, 3, h, k], %w : Float32[8, 3, 3, 3], %m : Float32[8], %v : Float32[8]):
          %none : None = prim::Constant[value=None]()
          %1 : int = prim::Constant[value=1]()
          %0 : int = prim::Constant[value=0]()
          %false : bool = prim::Constant[value=False]()
          %eps : float = prim::Constant[value=1e-05]()
          %y : Any = nn::conv2d(%x, %w, %none, %1, %0, %1, %1)
          %z : Any = nn::batch_norm(%y, %m, %v, %none, %none, %false, %eps, %eps)
          return (%z)

    After::

        graph(%x : Float32[n, 3, h, k],
              %w : Float32[8, 3, 3, 3],
              %m : Float32[8],
              %v : Float32[8],
              %w.1 : Float32[8, 3, 3, 3],
              %bias : Float32[8]):
          %none : None = prim::Constant[value=None]()
          %1 : int = prim::Constant[value=1]()
          %0 : int = prim::Constant[value=0]()
          %false : bool = prim::Constant[value=False]()
          %eps : float = prim::Constant[value=1e-05]()
          %z.1 : Any = nn::conv2d(%x, %w.1, %bias, %1, %0, %1, %1)
          return (%z.1)

    Transposed convolutions are folded likewise.  Not where anything else reads what the convolution
    gives, where the batch's own statistics are used, where there surely is no batch axis, where
    dtypes or channels differ, or where the dtype has no room for the new weights.
    """
    return fold_each(graph, ("nn::batch_norm",), _fold)


def _fold(node: Node) -> bool:
    found = convolution_of(node.inputs[0], node)
    if found is None or not found.is_batched:
        return False
    new = normalized(found, node)
    return new is not None and replace_layer(found, node, *new, "fold_conv_batch_norm")
