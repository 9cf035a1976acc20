"""Batch normalization after a linear map goes into its weights."""

from __future__ import annotations

import numpy as np

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node
from jitcore.ir.names import base_name
from jitcore.ir.passes.frozen.arrays import add_array, insert_before
from jitcore.ir.passes.frozen.linears import linear_of
from jitcore.ir.passes.frozen.normalization import normalization_of
from jitcore.ir.passes.frozen.ranks import rank_of

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
    changed = False
    for node in graph.find_all_nodes("nn::batch_norm"):
        changed = _fold(node) or changed
    return changed


def _fold(node: Node) -> bool:
    found = linear_of(node.inputs[0], node)
    if found is None or rank_of(found.node.output) != 2:
        return False
    affine = normalization_of(node, found.weight.shape[0], found.weight.dtype)
    if affine is None:
        return False
    log.update("fold_linear_batch_norm", lambda: f"fold {node!r} into {found.node!r}")
    weight = found.weight.astype(np.float64) * affine.scale[:, None]
    bias = np.zeros(len(weight)) if found.bias is None else found.bias.astype(np.float64)
    bias = (bias - affine.mean) * affine.scale + affine.shift
    old, graph, dtype = found.node, node.graph, found.weight.dtype
    inputs = [
        old.inputs[0],
        add_array(graph, weight.astype(dtype), base_name(old.inputs[1].name)),
        add_array(graph, bias.astype(dtype), "bias"),
    ]
    made = insert_before(old, old.kind, inputs, old, base_name(node.output.name))
    node.output.replace_all_uses_with(made.output)
    node.destroy()
    old.output.replace_all_uses_with(made.output)
    old.destroy()
    return True
