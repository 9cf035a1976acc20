"""A constant that multiplies what a convolution gives goes into its weights."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node
from jitcore.ir.passes.frozen.convolutions import (
    convolution_of,
    loop_until_stable,
    per_channel,
    replace_convolution,
    scaled,
    shift_of,
)

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
    return loop_until_stable(graph, _fold, _PRODUCTS | _QUOTIENTS)


def _fold(node: Node) -> bool:
    if len(node.inputs) != 2 or node.keywords:
        return False
    first, second = node.inputs
    found = convolution_of(first, node)
    if found is None and node.kind in _PRODUCTS - {"prim::imul"}:
        first, second = second, first
        found = convolution_of(first, node)
    divides = node.kind in _QUOTIENTS
    constant = per_channel(second, found, nonzero=divides) if found is not None else None
    if found is None or constant is None:
        return False
    log.update("fold_conv_multiply", lambda: f"fold {node!r} into {found.node!r}")
    factor = 1 / constant if divides else constant
    replace_convolution(found, node, scaled(found.weight, factor), shift_of(found) * factor)
    return True
