"""A constant that is added to what a convolution gives goes into its bias."""

from __future__ import annotations

from jitcore.ir.graph import Graph, Node
from jitcore.ir.passes.frozen.convolutions import convolution_and_constant
from jitcore.ir.passes.frozen.weights import fold_each, replace_layer

__all__ = ["fold_conv_add"]

_ADDITIONS = frozenset({"prim::add", "prim::iadd", "np::add"})
_SUBTRACTIONS = frozenset({"prim::sub", "prim::isub", "np::subtract"})


def fold_conv_add(graph: Graph) -> bool:
    """Add a constant to a convolution's bias instead of its results, or subtract it.

    Before, with constant weights ``%w``::

        graph(%x : Float32[n, 3, h, k], %w : Float32[8, 3, 3, 3]):
          %none : None = prim::Constant[value=None]()
          %1 : int = prim::Constant[value=1]()
          %0 : int = prim::Constant[value=0]()
          %c : float = prim::Constant[value=2.5]()
          %y : Any = nn::conv2d(%x, %w, %none, %1, %0, %1, %1)
          %z : Any = prim::sub(%y, %c)
          return (%z)

    After::

        graph(%x : Float32[n, 3, h, k],
              %w : Float32[8, 3, 3, 3],
              %w.1 : Float32[8, 3, 3, 3],
              %bias : Float32[8]):
          %none : None = prim::Constant[value=None]()
          %1 : int = prim::Constant[value=1]()
          %0 : int = prim::Constant[value=0]()
          %c : float = prim::Constant[value=2.5]()
          %z.1 : Any = nn::conv2d(%x, %w.1, %bias, %1, %0, %1, %1)
          return (%z.1)

    The constant is a number, or an array of the weights' dtype with one number for each channel.
    Not where anything else reads what the convolution gives.
    """
    return fold_each(graph, _ADDITIONS | _SUBTRACTIONS, _fold)


def _fold(node: Node) -> bool:
    pair = convolution_and_constant(node, commutes=node.kind in _ADDITIONS - {"prim::iadd"})
    if pair is None:
        return False
    found, constant = pair
    shift = -constant if node.kind in _SUBTRACTIONS else constant
    return replace_layer(found, node, found.weight, found.shift + shift, "fold_conv_add")
