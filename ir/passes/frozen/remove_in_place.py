"""Activations that write into an array nobody else reads need not."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node
from jitcore.ir.ops import TABLE
from jitcore.ir.passes.frozen.ranks import is_array
from jitcore.ir.passes.frozen.readers import is_only_reader
from jitcore.ir.types import BOOL

__all__ = ["remove_in_place"]


def remove_in_place(graph: Graph) -> bool:
    """Let an activation give a new array instead of writing into what it reads.

    Before, with constant weights::

        graph(%x : Float32[n, 3], %w : Float32[8, 3]):
          %none : None = prim::Constant[value=None]()
          %true : bool = prim::Constant[value=True]()
          %y : Any = nn::linear(%x, %w, %none)
          %z : Any = nn::relu(%y, %true)
          return (%z)

    After::

        graph(%x : Float32[n, 3], %w : Float32[8, 3]):
          %none : None = prim::Constant[value=None]()
          %true : bool = prim::Constant[value=True]()
          %y : Any = nn::linear(%x, %w, %none)
          %0 : bool = prim::Constant[value=False]()
          %z : Any = nn::relu(%y, %0)
          return (%z)

    Only where the array is new, made by another function of layers or by adding arrays.
    """
    nodes = [node for node in graph.find_all_nodes("nn::relu") if _is_needless(node)]
    for node in nodes:
        log.update("remove_in_place", f"{node!r} gives a new array")
        constant = node.insert_before("prim::Constant", (), {"value": False}, outputs=[BOOL])
        node.set_input(1, constant.output)
    return bool(nodes)


def _is_needless(node: Node) -> bool:
    made = node.inputs[0].node
    if node.inputs[1].constant_value is not True or made is None:
        return False
    return _makes_array(made) and made.block is node.block and is_only_reader(node, node.inputs[0])


def _makes_array(node: Node) -> bool:
    """Whether the result is a new array, whatever the operands are."""
    row = TABLE.get(node.kind)
    if row is not None and node.kind.startswith("nn::"):
        return not row.view
    return node.kind in _SUMS and all(map(is_array, node.inputs))


_SUMS = ("prim::add", "prim::sub", "prim::mul", "np::add", "np::subtract", "np::multiply")
