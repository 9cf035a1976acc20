"""Put layers, and what is done between them, into groups that oneDNN computes.

Before::

    graph(%x : Float32[5, 4], %p : Float32[1, 1, 4, 16], %y : Float32[5, 16]):
      %0 : None = prim::Constant[value=None]()
      %1 : Float32[5, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%x, %p, %0, %0)
      %2 : Float32[5, 16] = np::multiply(%1, %y)
      return (%2)

After::

    graph(%x : Float32[5, 4], %p : Float32[1, 1, 4, 16], %y : Float32[5, 16]):
      %0 : None = prim::Constant[value=None]()
      %3 : Float32[5, 16] = prim::oneDNNFusionGroup_0(%x, %p, %y)
      return (%3)
    with prim::oneDNNFusionGroup_0 = graph(%x : Float32[5, 4],
          %p : Float32[1, 1, 4, 16],
          %y : Float32[5, 16]):
      %0 : None = prim::Constant[value=None]()
      %1 : Float32[5, 16] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=16, low=-inf, high=inf](%x, %p, %0, %0)
      %2 : Float32[5, 16] = np::multiply(%1, %y)
      return (%2)

A layer takes in the layers before it, and copies that only change the order of its operand's axes.
Elementwise operations join what they follow, and never stand at a group's beginning.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from jitcore.fusers.clusters import BlockClusters, Cluster, Decision, inner_first, make_group
from jitcore.ir import log
from jitcore.ir.activations import find_activations
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.ops.layer_kernels import transposed_excess
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import Dim, TensorType

__all__ = ["KIND", "LAYERS", "fuse_onednn_groups", "whole_deconvolutions"]

KIND = "prim::oneDNNFusionGroup"

LAYERS = frozenset(
    {
        *("nn::product", "nn::window_sum", "nn::transposed_product"),
        *("nn::window_max", "nn::window_mean", "np::matmul"),
    }
)

_ELEMENTWISE = frozenset({"np::add", "np::subtract", "np::multiply", "np::maximum", "np::minimum"})

LEAST_PRODUCT = 2**18
"""Multiplications: a smaller product of matrices takes less than to call for it."""

MAX_ARRAYS = 400
"""Arrays that a group may read: Python's callbacks take about a thousand numbers."""

Refusal = tuple[str, Callable[[Node], bool]]


def whole_deconvolutions(graph: Graph) -> list[Node]:
    """The transposed convolutions that oneDNN computes as one; the others are better as phases."""
    return [one for one in graph.find_all_nodes("nn::transposed_product") if not _refusal(one)]


def fuse_onednn_groups(graph: Graph, decisions: list[Decision] | None = None) -> bool:
    """Form groups in all blocks; notes what is in them in ``decisions``."""
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    fusers = [_BlockFuser(block, analysis) for block in inner_first(graph.block)]
    for fuser in fusers:
        fuser.plan()
    changed = [fuser.rebuild(decisions) for fuser in fusers]
    return any(changed)


class _BlockFuser(BlockClusters):
    def __init__(self, block: Block, analysis: AliasAnalysis) -> None:
        super().__init__(block, analysis)
        self.activations = find_activations(block.nodes)
        members = {node for one in self.activations.values() for node in one.nodes}
        self.inside_activations = members - self.activations.keys()

    def plan(self) -> None:
        """Form clusters around layers."""
        for node in self.block.nodes:
            cluster = self.add(node, fusible=False)
            if node.kind in LAYERS:
                self._add_layer(node, cluster)
            elif node in self.activations:
                self._add_activation(node, cluster)
            elif self._is_elementwise(node):
                self._join(node.inputs, cluster)

    def _add_layer(self, node: Node, cluster: Cluster) -> None:
        reason = _refusal(node) or ("" if self._is_free(node) else "something writes to an array")
        if reason:
            log.update("onednn", lambda: f"{node!r} is in no group: {reason}")
            return
        for value in node.inputs:
            if self._is_head(value):
                before = self.cluster(value)
                assert before is not None
                cluster = self.merge(before, cluster)
        cluster.fusible = True
        self._join([value for one in cluster.nodes for value in one.inputs], cluster)

    def _add_activation(self, node: Node, cluster: Cluster) -> None:
        found = self.activations[node]
        before = self.cluster(found.argument)
        if before is None or not before.fusible or not all(map(self._is_free, found.nodes)):
            return
        if dims_of(found.argument) != dims_of(node.output) or not _is_float32(node.output):
            return
        for inner in found.nodes - {node}:
            cluster = self.merge(self.cluster_of[self.order[inner]], cluster)
        self._join([found.argument], cluster)

    def _is_elementwise(self, node: Node) -> bool:
        """Whether it is a post-op by itself."""
        is_part = node in self.inside_activations
        return (
            node.kind in _ELEMENTWISE and not is_part and _broadcasts(node) and self._is_free(node)
        )

    def _join(self, values: list[Value], cluster: Cluster) -> None:
        """Join the groups of what is read."""
        for value in values:
            other = self.cluster(value)
            if other is None or other is cluster or not other.fusible:
                continue
            arrays = sum(len(node.inputs) for node in (*other.nodes, *cluster.nodes))
            if arrays <= MAX_ARRAYS and self.stays_convex(other, cluster):
                cluster = self.merge(other, cluster)
                cluster.fusible = True

    def _is_head(self, value: Value) -> bool:
        """Whether a layer's operand is only made for it, by a copy or by packing weights."""
        node = value.node
        if node is None or node not in self.order or len(value.uses) > 1:
            return False
        is_copy = node.kind == "np::copy" and node.attributes.get("order") == "C"
        return (is_copy or node.kind == "nn::packed") and self._is_free(node)

    def _is_free(self, node: Node) -> bool:
        """Whether nothing writes to what a node reads or gives."""
        return not any(self.analysis.writers(value) for value in (*node.inputs, *node.outputs))

    def rebuild(self, decisions: list[Decision] | None) -> bool:
        """Write the block anew, clusters in an order that keeps all dependencies."""
        clusters = self.schedule()
        if not any(one.fusible for one in clusters):
            return False
        self.block.nodes = []
        for cluster in clusters:
            if cluster.fusible:
                self._append_group(cluster, decisions)
            else:
                self.block.nodes.extend(cluster.nodes)
        return True

    def _append_group(self, cluster: Cluster, decisions: list[Decision] | None) -> None:
        made = make_group(self.block, cluster.nodes, KIND)
        log.update("onednn", lambda: f"{made!r} is computed by oneDNN")
        if decisions is None:
            return
        name = f"{KIND}({made.outputs[0].name})"
        decisions += [
            Decision(one.kind, str(one.source or ""), name, None) for one in cluster.nodes
        ]


# What is taken ----------------------------------------------------------------------------


def _is_float32(value: Value) -> bool:
    type_ = value.type
    return isinstance(type_, TensorType) and not type_.scalar and type_.dtype == np.float32


def _has_other_dtypes(node: Node) -> bool:
    arrays = [value for value in (*node.inputs, *node.outputs) if dims_of(value)]
    return not all(map(_is_float32, arrays))


def _is_other_product(node: Node) -> bool:
    if node.kind != "np::matmul":
        return False
    return any(len(dims_of(value)) != 2 for value in node.inputs)


def _is_small(node: Node) -> bool:
    if node.kind != "np::matmul":
        return False
    extents = [*dims_of(node.inputs[0]), dims_of(node.inputs[1])[-1]]
    known = [extent for extent in extents if isinstance(extent, int)]
    return len(known) < len(extents) or math.prod(known) < LEAST_PRODUCT


def _is_better_in_phases(node: Node) -> bool:
    """Whether oneDNN's own kernel is slow or missing: then it reverses an ordinary convolution.

    With a stride of 2 and 64 channels that took twice as long as the phases, and ten times as long
    with a ReLU; with 4 groups its own kernel took 1.5 times as long.
    """
    if node.kind != "nn::transposed_product":
        return False
    shape, attributes = dims_of(node.inputs[1]), node.attributes
    steps = attributes["stride"]
    taps = [extent for extent in shape[2:] if isinstance(extent, int)]
    excess = [transposed_excess(attributes, one, axis) for axis, one in enumerate(taps)]
    return (
        attributes["groups"] > 1
        or max(steps) == 1
        or max(attributes["dilation"]) > 1
        or any(more % step for more, step in zip(excess, steps, strict=True))
    )


REFUSALS: tuple[Refusal, ...] = (
    ("arrays of another dtype than float32", _has_other_dtypes),
    ("a transposed convolution that is better done in phases", _is_better_in_phases),
    ("a product of other than two matrices", _is_other_product),
    ("a product that is small, or whose extents are not known", _is_small),
)


def _refusal(node: Node) -> str:
    for reason, predicate in REFUSALS:
        if predicate(node):
            return reason
    return ""


def _broadcasts(node: Node) -> bool:
    """Whether each operand has the result's extents, or one number for each channel or for all.

    One of them has the result's extents, as the types say it.
    """
    dims = dims_of(node.output)
    if len(dims) < 2 or not _is_float32(node.output) or dims not in map(dims_of, node.inputs):
        return False
    channels = dims[-1:]
    return all(
        _is_number(value)
        or (_is_float32(value) and (dims_of(value) == dims or _without_ones(value) == channels))
        for value in node.inputs
    )


def _without_ones(value: Value) -> tuple[Dim, ...]:
    """The extents after the first axes, if those have one element."""
    dims = dims_of(value)
    return dims[-1:] if all(dim == 1 for dim in dims[:-1]) else dims


def _is_number(value: Value) -> bool:
    held = value.constant_value
    return isinstance(held, float | np.floating) and math.isfinite(held)
