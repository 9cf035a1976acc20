"""Dropout outside of training does nothing."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node
from jitcore.ir.ops.layers import DROPOUTS
from jitcore.ir.passes.frozen.arrays import number_of
from jitcore.ir.passes.frozen.ranks import rank_of

__all__ = ["remove_dropout"]

_KINDS = {f"nn::{name}": ranks for name, ranks in DROPOUTS.items()}


def remove_dropout(graph: Graph) -> bool:
    """Read what goes into dropout instead of what comes out of it.

    Before::

        graph(%x : Float32[n, m]):
          %p : float = prim::Constant[value=0.5]()
          %false : bool = prim::Constant[value=False]()
          %0 : Float32[n, m] = nn::dropout(%x, %p, %false, %false)
          %1 : Any = nn::relu(%0, %false)
          return (%1)

    After::

        graph(%x : Float32[n, m]):
          %p : float = prim::Constant[value=0.5]()
          %false : bool = prim::Constant[value=False]()
          %1 : Any = nn::relu(%x, %false)
          return (%1)

    Not in training, with no probability, or where an input of that rank would be an error.
    """
    nodes = [node for node in graph.nodes() if node.kind in _KINDS and _does_nothing(node)]
    for node in nodes:
        _remove(node)
    return bool(nodes)


def _remove(node: Node) -> None:
    log.update("remove_dropout", lambda: f"remove {node!r}")
    node.output.replace_all_uses_with(node.inputs[0])
    node.destroy()


def _does_nothing(node: Node) -> bool:
    if node.inputs[2].constant_value is not False:
        return False
    p = number_of(node.inputs[1])
    ranks = _KINDS[node.kind]
    fits = ranks is None or rank_of(node.inputs[0]) in ranks
    return fits and p is not None and 0 <= p <= 1
