"""Branches on constants are no branches."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node

__all__ = ["remove_dead_branches"]


def remove_dead_branches(graph: Graph) -> bool:
    """Put the nodes of the block that is taken in the place of an ``If`` on a constant.

    Before::

        graph(%x : Float32[n]):
          %c : bool = prim::Constant[value=True]()
          %y : Float32[n] = prim::If(%c)
            block0():
              %0 : Float32[n] = np::sin(%x)
              -> (%0)
            block1():
              -> (%x)
          return (%y)

    After::

        graph(%x : Float32[n]):
          %c : bool = prim::Constant[value=True]()
          %0 : Float32[n] = np::sin(%x)
          return (%0)
    """
    changed = False
    while True:
        node = next((one for one in graph.find_all_nodes("prim::If") if _is_known(one)), None)
        if node is None:
            return changed
        _take(node)
        changed = True


def _is_known(node: Node) -> bool:
    constant = node.inputs[0].constant
    return constant is not None and type(constant.attributes["value"]) in (bool, int, type(None))


def _take(node: Node) -> None:
    log.update("remove_dead_branches", lambda: f"decide {node!r}")
    condition = node.inputs[0].constant
    assert condition is not None and node.block is not None
    taken = node.blocks[0 if condition.attributes["value"] else 1]
    block, start = node.block, node.block.nodes.index(node)
    for output, value in zip(node.outputs, list(taken.returns), strict=True):
        output.replace_all_uses_with(value)
    moved, taken.nodes = taken.nodes, []
    for one in moved:
        one.block = block
    block.nodes[start:start] = moved
    node.destroy()
