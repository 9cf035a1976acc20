"""Constant weights are stored as the machine's kernels read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.names import base_name
from jitcore.ir.ops.layer_kernels import LINEARS, is_depthwise, pack
from jitcore.ir.ops.recurrence import GATES, WEIGHT
from jitcore.ir.passes.frozen.arrays import add_array, array_of, number_of

__all__ = ["pack_weights"]

Array = np.ndarray[Any, np.dtype[Any]]

PanelWidth = Callable[[int, str], int]
"""How many columns wide the panels of a matrix of so many are, in a dtype."""

_CONVOLUTIONS = ("nn::conv1d", "nn::conv2d", "nn::conv3d")


def pack_weights(graph: Graph, panel_width: PanelWidth) -> bool:
    """Give convolutions, linear maps and recurrent layers their constant weights packed as well.

    Before, with constant weights and panels 16 wide::

        graph(%x : Float32[n, 3], %w : Float32[20, 3]):
          %none : None = prim::Constant[value=None]()
          %y : Any = nn::linear(%x, %w, %none)
          return (%y)

    After::

        graph(%x : Float32[n, 3], %w : Float32[20, 3], %w.1 : Float32[1, 2, 3, 16]):
          %none : None = prim::Constant[value=None]()
          %y : Any = nn::linear(%x, %w, %none, packed=%w.1)
          return (%y)
    """
    changed = False
    for node in list(graph.nodes()):
        packed = None if node.keywords else _packed(node, panel_width)
        if packed is not None:
            _add(node, packed)
            changed = True
    return changed


def _add(node: Node, packed: Array) -> None:
    log.update("pack_weights", lambda: f"pack the weights of {node!r}")
    node.add_input(add_array(node.graph, packed, base_name(_weight(node).name)))
    node.keywords = ("packed",)


def _weight(node: Node) -> Value:
    return node.inputs[WEIGHT.get(node.kind, 1)]


def _packed_gates(weight: Array, gates: int, panel_width: PanelWidth) -> Array | None:
    if weight.ndim != 2 or len(weight) % gates:
        return None
    return np.asarray(pack(weight, gates, panel_width(len(weight) // gates, weight.dtype.name)))


def _packed(node: Node, panel_width: PanelWidth) -> Array | None:
    if node.kind not in (*_CONVOLUTIONS, *LINEARS, *WEIGHT):
        return None
    weight = array_of(_weight(node))
    if weight is None or weight.dtype.char not in "fd" or not weight.size:
        return None
    if node.kind in GATES:
        return _packed_gates(weight, GATES[node.kind], panel_width)
    if node.kind in LINEARS:
        if weight.ndim != 2:
            return None
        rows = weight if node.kind == "nn::linear" else weight.T
        return np.asarray(pack(rows, 1, panel_width(len(rows), weight.dtype.name)))
    groups = number_of(node.inputs[6])
    if not isinstance(groups, int) or groups < 1 or len(weight) % groups:
        return None
    if is_depthwise(weight.shape, groups):
        return np.ascontiguousarray(np.moveaxis(weight[:, 0], 0, -1))
    return np.asarray(pack(weight, groups, panel_width(len(weight) // groups, weight.dtype.name)))
