"""The number of axes is known of many values whose extents are not."""

from __future__ import annotations

from jitcore.ir.graph import Graph, Node
from jitcore.ir.passes.frozen.arrays import replace_by_constant
from jitcore.ir.passes.frozen.ranks import is_array, rank_of
from jitcore.ir.types import TensorType

__all__ = ["fold_ranks"]


def fold_ranks(graph: Graph) -> bool:
    """Replace ``x.ndim`` by a constant where it is known.

    Before::

        graph(%x : Float32[n, m]):
          %false : bool = prim::Constant[value=False]()
          %0 : Any = nn::relu(%x, %false)
          %1 : Any = prim::GetAttr[name="ndim"](%0)
          return (%1)

    After::

        graph(%x : Float32[n, m]):
          %false : bool = prim::Constant[value=False]()
          %0 : Any = nn::relu(%x, %false)
          %2 : int = prim::Constant[value=2]()
          return (%2)

    A check such as ``if x.ndim != 4: raise`` is no knowledge for itself.
    """
    changed = False
    for node in list(graph.nodes()):
        if node.kind != "prim::GetAttr" or node.attributes.get("name") != "ndim":
            continue
        rank = _known_rank(node)
        if rank is None:
            continue
        replace_by_constant(node, rank)
        changed = True
    return changed


def _known_rank(node: Node) -> int | None:
    """The rank, found without the check that this very node may be a part of."""
    value = node.inputs[0]
    known = isinstance(value.type, TensorType) and value.type.rank is not None
    if not known and not is_array(value):
        return None
    return rank_of(value, but=node)
