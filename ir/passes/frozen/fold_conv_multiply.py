"""A constant that multiplies what a convolution gives goes into its weights."""

from __future__ import annotations

from jitcore.ir.graph import Graph, Node
from jitcore.ir.passes.frozen.convolutions import convolution_and_constant
from jitcore.ir.passes.frozen.weights import fold_each, replace_layer

__all__ = ["fold_conv_multiply"]

_PRODUCTS = frozenset({"prim::mul", "prim::imul", "np::multiply"})
_QUOTIENTS = frozenset({"prim::truediv", "prim::itruediv", "np::divide", "np::true_divide"})


def fold_conv_multiply(graph: Graph) -> bool:
    """Multiply a convolution's weights and bias by a constant instead of its results, or divide.

    Before, with constant weights ``%w`` and bias ``%b``::

        graph(%x : Float32[n, 3, h, k], %w : Float32[8, 3, 3, 3], %b : Float32[8]):
          %1 : int = prim::Constant[value=1]()
          %0 : int = prim::Constant[value=0]()
          %c : float = prim::Constant[value=2.5]()
          %y : Any = nn::conv2d(%x, %w, %b, %1, %0, %1, %1)
          %z : Any = np::multiply(%c, %y)
          return (%z)

    After::

        graph(%x : Float32[n, 3, h, k],
              %w : Float32[8, 3, 3, 3],
              %b : Float32[8],
              %w.1 : Float32[8, 3, 3, 3],
              %bias : Float32[8]):
          %1 : int = prim::Constant[value=1]()
          %0 : int = prim::Constant[value=0]()
          %c : float = prim::Constant[value=2.5]()
          %z.1 : Any = nn::conv2d(%x, %w.1, %bias, %1, %0, %1, %1)
          return (%z.1)

    The constant is a number, or an array of the weights' dtype with one number for each channel;
    none of them is zero where it divides.  Not where anything else reads what the convolution
    gives.
    """
    return fold_each(graph, _PRODUCTS | _QUOTIENTS, _fold)


def _fold(node: Node) -> bool:
    divides, commutes = node.kind in _QUOTIENTS, node.kind in _PRODUCTS - {"prim::imul"}
    pair = convolution_and_constant(node, commutes=commutes, nonzero=divides)
    if pair is None:
        return False
    found, constant = pair
    factor = 1 / constant if divides else constant
    weight, bias = found.scaled(factor), found.shift * factor
    return replace_layer(found, node, weight, bias, "fold_conv_multiply")
