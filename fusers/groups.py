"""Put nodes that one kernel can compute into groups.

Before::

    graph(%x : Float32[n], %y : Float32[n]):
      %1 : Float32[n] = np::add(%x, %y)
      %2 : Float32[n] = np::tanh(%1)
      return (%2)

After::

    graph(%x : Float32[n], %y : Float32[n]):
      %2 : Float32[n] = prim::FusionGroup_0(%x, %y)
      return (%2)
    with prim::FusionGroup_0 = graph(%x : Float32[n], %y : Float32[n]):
      %1 : Float32[n] = np::add(%x, %y)
      %2 : Float32[n] = np::tanh(%1)
      return (%2)

Groups are convex: no value leaves a group and comes back into it.  The order of conflicting memory
accesses counts as a dependency, so a group never moves a read across a write.  The nodes of a block
are visited in order, and each joins the group of one of its producers, or of a node that reads the
same arrays, where the rules allow it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from jitcore.fusers.elementwise import (
    PRODUCERS,
    REDUCTIONS,
    counts,
    goes_over_memory,
    is_elementwise,
    is_on_scalars,
    iteration_dims,
    refusal,
)
from jitcore.fusers.rows import fits_one_nest, is_respaced
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.disjoint import are_apart
from jitcore.ir.graph import Block, Graph, Node, Value, copy_node
from jitcore.ir.types import Dim, TensorType

__all__ = ["MAX_NODES", "Decision", "fuse_groups"]

MAX_NODES = 80
"""Larger groups make LLVM's time grow faster than their own."""

MAX_NODES_OF_LARGE = 320
LEAST_LARGE = 2**15
"""Elements of arrays that no cache near the processor holds: one group more reads and writes all of
its arrays once more, which takes longer than all it computes."""

MAX_NEIGHBOURS = 16
"""How many groups are asked that read the same array, the last ones, so that planning takes time in
proportion to the nodes."""

MIN_NODES = 2


@dataclass(slots=True)
class Decision:
    """What happened to one node: the group it is in, or why it is in none."""

    node: str
    source: str
    group: str | None
    reason: str | None


@dataclass(eq=False, slots=True)
class _Cluster:
    """Nodes that will run together: a group in the making, or a node by itself.

    ``space`` is what all of them iterate over, where each only computes elements.
    """

    nodes: list[Node]
    first: int
    last: int
    predecessors: set[int] = field(default_factory=set)
    fusible: bool = False
    space: tuple[Dim, ...] | None = None


def fuse_groups(graph: Graph, decisions: list[Decision] | None = None) -> bool:
    """Form fusion groups in all blocks; notes what became of each node in ``decisions``."""
    # The analysis knows the nodes there are now, so all is planned before anything is changed.
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    fusers = [_BlockFuser(block, analysis) for block in _blocks(graph.block)]
    for fuser in fusers:
        fuser.plan()
    changed = [fuser.rebuild(decisions) for fuser in fusers]
    return any(changed)


def _blocks(block: Block) -> Iterable[Block]:
    for node in list(block.nodes):
        for inner in node.blocks:
            yield from _blocks(inner)
    yield block


class _BlockFuser:
    def __init__(self, block: Block, analysis: AliasAnalysis) -> None:
        self.block = block
        self.analysis = analysis
        self.order = {node: number for number, node in enumerate(block.nodes)}
        self.cluster_of: list[_Cluster] = []
        self.readers: dict[Value, list[_Cluster]] = {}
        self.refused: dict[Node, str | None] = {}
        self.edges = self._dependencies()

    def _dependencies(self) -> list[set[int]]:
        """For each node the numbers of the nodes of this block that must run before it."""
        edges: list[set[int]] = []
        last_write: dict[object, int] = {}
        readers: dict[object, set[int]] = {}
        last_effect: int | None = None
        for number, node in enumerate(self.block.nodes):
            before = {self.order[d] for d in self._producers(node)}
            reads, writes = self.analysis.reads(node), self.analysis.writes(node)
            for place in reads:
                if place in last_write:
                    before.add(last_write[place])
                readers.setdefault(place, set()).add(number)
            for place in writes:
                before |= readers.pop(place, set()) - {number}
                if place in last_write:
                    before.add(last_write[place])
                last_write[place] = number
            if self.analysis.has_effects(node) and not writes:
                if last_effect is not None:
                    before.add(last_effect)
                last_effect = number
            edges.append(before)
        return edges

    def _producers(self, node: Node) -> Iterable[Node]:
        for value in _all_inputs(node):
            producer = value.node
            if producer is not None and producer in self.order:
                yield producer

    def plan(self) -> None:
        """Form clusters of nodes that can run together."""
        for number, node in enumerate(self.block.nodes):
            reason = refusal(node)
            self.refused[node] = reason
            fusible = reason is None or is_on_scalars(node) or is_respaced(node)
            space = iteration_dims(node) if is_elementwise(node) else None
            cluster = _Cluster([node], number, number, set(self.edges[number]), fusible, space)
            self.cluster_of.append(cluster)
            if fusible:
                self._join_others(cluster, node)

    def _join_others(self, cluster: _Cluster, node: Node) -> None:
        arrays = list(dict.fromkeys(filter(self._is_array, node.inputs)))
        for candidate in self._candidates(node, arrays):
            if candidate is not cluster and self._may_merge(candidate, cluster):
                cluster = self._merge(candidate, cluster)
        for value in arrays:
            self.readers[value].append(cluster)

    def _candidates(self, node: Node, arrays: Iterable[Value]) -> list[_Cluster]:
        """Clusters of producers first, then those that read the same arrays."""
        found: list[_Cluster] = []
        for value in node.inputs:
            if value.node is not None and value.node in self.order:
                found.append(self.cluster_of[self.order[value.node]])
        for value in arrays:
            readers = (self.cluster_of[one.last] for one in self.readers.get(value, ()))
            near = [one for one in dict.fromkeys(readers) if len(one.nodes) < _limit(one.nodes[0])]
            self.readers[value] = near[-MAX_NEIGHBOURS:]
            found += self.readers[value]
        return [one for one in dict.fromkeys(found) if one.fusible]

    def _may_merge(self, first: _Cluster, second: _Cluster) -> bool:
        if len(first.nodes) + len(second.nodes) > _limit(first.nodes[0]):
            return False
        # Clusters are merged node by node, so what is easily seen is not looked for in all nodes.
        is_one_space = bool(first.space) and first.space == second.space
        if not is_one_space and not fits_one_nest([*first.nodes, *second.nodes]):
            return False
        if not is_one_space and not self._stores_fit(first, second):
            return False
        return self._stays_convex(first, second)

    def _stores_fit(self, first: _Cluster, second: _Cluster) -> bool:
        """No node may read memory that a store of the same group writes, but the stored view.

        After the store that view stands for the stored value, which no reduction reads again.
        """
        nodes = [*first.nodes, *second.nodes]
        inside = set(nodes)
        return not any(
            self._disturbs(store, node, inside)
            for store in nodes
            if store.kind == "np::store"
            for node in nodes
        )

    def _disturbs(self, store: Node, node: Node, inside: set[Node]) -> bool:
        """Whether a node reads what a store writes in a way that takes another loop."""
        target = store.inputs[0]
        is_later = self.order[node] > self.order[store] and target.node not in inside
        if is_later and target in node.inputs and node.kind in REDUCTIONS:
            return True
        return any(
            value is not target
            and value.node not in inside
            and self._is_array(value)
            and self._may_meet(value, target)
            for value in node.inputs
        )

    def _may_meet(self, x: Value, y: Value) -> bool:
        """Whether two arrays may have elements in common."""
        return self.analysis.may_alias(x, y) and not are_apart(x, y)

    @staticmethod
    def _is_array(value: Value) -> bool:
        return isinstance(value.type, TensorType) and not value.type.scalar

    def _stays_convex(self, first: _Cluster, second: _Cluster) -> bool:
        """Whether nothing outside lies on a path from one cluster to the other."""
        inside = {id(first), id(second)}
        start = min(first.first, second.first)
        seen: set[int] = set()
        stack = [
            self.cluster_of[p]
            for p in first.predecessors | second.predecessors
            if id(self.cluster_of[p]) not in inside
        ]
        while stack:
            cluster = stack.pop()
            if id(cluster) in seen or cluster.last < start:
                continue
            seen.add(id(cluster))
            for number in cluster.predecessors:
                other = self.cluster_of[number]
                if id(other) in inside:
                    return False
                stack.append(other)
        return True

    def _merge(self, first: _Cluster, second: _Cluster) -> _Cluster:
        first.nodes = sorted([*first.nodes, *second.nodes], key=self.order.__getitem__)
        first.first = min(first.first, second.first)
        first.last = max(first.last, second.last)
        first.predecessors |= second.predecessors
        first.space = first.space if first.space == second.space else None
        for node in second.nodes:
            self.cluster_of[self.order[node]] = first
        return first

    def rebuild(self, decisions: list[Decision] | None) -> bool:
        """Write the block anew, clusters in an order that keeps all dependencies."""
        changed = False
        ordered = self._schedule()
        self.block.nodes = []
        for cluster in ordered:
            if self._is_group(cluster):
                made = _make_group(self.block, cluster.nodes)
                changed = True
                _note(decisions, cluster.nodes, made, self.refused)
            else:
                self.block.nodes.extend(cluster.nodes)
                _note(decisions, cluster.nodes, None, self.refused)
        return changed

    @staticmethod
    def _is_group(cluster: _Cluster) -> bool:
        """Whether it computes twice, or would go over memory twice, as for a cast or a store."""
        if not cluster.fusible or all(node.kind in PRODUCERS for node in cluster.nodes):
            return False
        passes = sum(map(goes_over_memory, cluster.nodes))
        return passes >= MIN_NODES or sum(map(counts, cluster.nodes)) >= MIN_NODES

    def _schedule(self) -> list[_Cluster]:
        """Clusters after all they depend on, otherwise in the order of their last nodes."""
        done: set[int] = set()
        result: list[_Cluster] = []
        for cluster in dict.fromkeys(self.cluster_of):
            stack = [cluster]
            while stack:
                top = stack[-1]
                if id(top) in done:
                    stack.pop()
                    continue
                waiting = [
                    self.cluster_of[number]
                    for number in sorted(top.predecessors)
                    if self.cluster_of[number] is not top
                    and id(self.cluster_of[number]) not in done
                ]
                if waiting:
                    stack.extend(reversed(list(dict.fromkeys(waiting))))
                    continue
                done.add(id(top))
                result.append(top)
                stack.pop()
        return result


def _limit(node: Node) -> int:
    """How many nodes a group with this one may have."""
    dims = iteration_dims(node) or ()
    extents = [dim for dim in dims if isinstance(dim, int)]
    is_large = len(extents) == len(dims) and prod(extents) >= LEAST_LARGE
    return MAX_NODES_OF_LARGE if is_large else MAX_NODES


def _all_inputs(node: Node) -> Iterable[Value]:
    yield from node.inputs
    for block in node.blocks:
        yield from block.returns
        for inner in block.nodes:
            yield from _all_inputs(inner)


def _make_group(block: Block, nodes: list[Node]) -> Node:
    """Append a ``prim::FusionGroup`` that holds these nodes."""
    inside = set(nodes)
    views = _views_beside(block, nodes)
    graph = Graph()
    mapping: dict[Value, Value] = {}
    inputs: list[Value] = []
    for node in nodes:
        for value in node.inputs:
            if value.node in inside or value in mapping:
                continue
            if value.constant is not None and not _is_array_constant(value):
                copied = copy_node(value.constant, graph.block, mapping)
                mapping[value] = copied.output
                continue
            inputs.append(value)
            mapping[value] = graph.block.add_param(value.type, value.name)
    for node in nodes:
        copy_node(node, graph.block, mapping)
    outputs = [
        value
        for node in nodes
        for value in node.outputs
        if any(use.user not in inside for use in value.uses)
    ]
    for value in outputs:
        graph.block.add_return(mapping[value])
    made = block.append(
        "prim::FusionGroup",
        inputs,
        {"graph": graph},
        outputs=[value.type for value in outputs],
        names=[value.name for value in outputs],
        source=nodes[-1].source,
    )
    for old, new in zip(outputs, made.outputs, strict=True):
        outside = [use for use in old.uses if use.user not in inside]
        for use in outside:
            if isinstance(use.user, Node):
                use.user.set_input(use.index, new)
            else:
                use.user.set_return(use.index, new)
    for node in nodes:
        node.drop_inputs()
    block.nodes.extend(views)
    return made


def _views_beside(block: Block, nodes: list[Node]) -> list[Node]:
    """Copies, for the users outside, of the views among the nodes.

    A kernel returns new arrays, so a view that is needed outside is made there.
    """
    inside = set(nodes)
    leaving: list[Node] = []
    for node in reversed(nodes):
        if node.kind == "np::view" and any(
            use.user not in inside or use.user in leaving for use in node.output.uses
        ):
            leaving.append(node)
    mapping: dict[Value, Value] = {}
    copies = []
    for node in reversed(leaving):
        copies.append(copy_node(node, block, mapping))
        for use in list(node.output.uses):
            if use.user in inside or use.user in copies:
                continue
            if isinstance(use.user, Node):
                use.user.set_input(use.index, mapping[node.output])
            else:
                use.user.set_return(use.index, mapping[node.output])
    del block.nodes[len(block.nodes) - len(copies) :]
    return copies


def _is_array_constant(value: Value) -> bool:
    return isinstance(value.type, TensorType) and not value.type.scalar


def _note(
    decisions: list[Decision] | None,
    nodes: list[Node],
    group: Node | None,
    refused: dict[Node, str | None],
) -> None:
    if decisions is None:
        return
    for node in nodes:
        if node.kind.startswith("prim::") or node.kind in PRODUCERS:
            continue
        reason = None
        if group is None:
            reason = refused[node] or "nothing beside it fits into the same kernel"
        name = (
            None
            if group is None
            else f"prim::FusionGroup({group.outputs[0].name if group.outputs else ''})"
        )
        decisions.append(Decision(node.kind, str(node.source or ""), name, reason))
