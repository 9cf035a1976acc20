"""Clusters of nodes that run together: what all fusers of groups share.

Clusters are convex: no value leaves one and comes back into it.  The order of conflicting memory
accesses counts as a dependency, so a cluster never moves a read across a write; nor does it move a
write, where others know the memory, before what may raise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import cached_property

from jitcore.ir.alias import AliasAnalysis, Locations
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Graph, Node, Value, copy_node
from jitcore.ir.may_raise import may_raise
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import Dim, is_ndarray

__all__ = ["BlockClusters", "Cluster", "Decision", "inner_first", "make_group"]

_NOTHING: Locations = frozenset()


@dataclass(slots=True)
class Decision:
    """What happened to one node: the group it is in, or why it is in none."""

    node: str
    source: str
    group: str | None
    reason: str | None


@dataclass(eq=False, slots=True)
class Cluster:
    """Nodes that will run together: a group in the making, or a node by itself.

    ``predecessors`` are the numbers of nodes outside that must run before it, and ``successors`` of
    those after it.  ``latest`` is the highest number of all that has to be done when it has run.
    ``space`` is what all nodes iterate over, where each only computes elements.
    """

    nodes: list[Node]
    first: int
    last: int
    latest: int
    predecessors: set[int] = field(default_factory=set)
    successors: set[int] = field(default_factory=set)
    fusible: bool = False
    space: tuple[Dim, ...] | None = None


class BlockClusters:
    """The clusters of one block, in the making; at first there are none.

    Parameters
    ----------
    block : Block
    analysis : AliasAnalysis
        Of the block's graph as it is.
    """

    def __init__(self, block: Block, analysis: AliasAnalysis) -> None:
        self.block = block
        self.analysis = analysis
        self.order = {node: number for number, node in enumerate(block.nodes)}
        self.cluster_of: list[Cluster] = []
        self.edges = self._dependencies()

    def add(self, node: Node, *, fusible: bool, space: tuple[Dim, ...] | None = None) -> Cluster:
        """A cluster of the next node alone."""
        number = len(self.cluster_of)
        before = set(self.edges[number])
        cluster = Cluster([node], number, number, number, before, fusible=fusible, space=space)
        for one in before:
            self.cluster_of[one].successors.add(number)
        self.cluster_of.append(cluster)
        return cluster

    def cluster(self, value: Value) -> Cluster | None:
        """That of the node of this block which makes a value."""
        if value.node is None or value.node not in self.order:
            return None
        return self.cluster_of[self.order[value.node]]

    def _dependencies(self) -> list[set[int]]:
        """For each node the numbers of the nodes of this block that must run before it."""
        edges: list[set[int]] = []
        last_write: dict[object, int] = {}
        readers: dict[object, set[int]] = {}
        last_effect: int | None = None
        raising = _Raising()
        has_writes = self.analysis.has_writes
        for number, node in enumerate(self.block.nodes):
            before = {self.order[d] for d in self._producers(node)}
            reads = self._places(self.analysis.reads(node)) if has_writes else _NOTHING
            writes = self._places(self.analysis.writes(node)) if has_writes else _NOTHING
            for place in reads:
                if place in last_write:
                    before.add(last_write[place])
                readers.setdefault(place, set()).add(number)
            for place in writes:
                before |= readers.pop(place, set()) - {number}
                if place in last_write:
                    before.add(last_write[place])
                last_write[place] = number
            raising.add(number, node, before, writes)
            if self.analysis.has_effects(node) and not writes:
                if last_effect is not None:
                    before.add(last_effect)
                last_effect = number
            edges.append(before)
        return edges

    @cached_property
    def _escaping(self) -> Locations:
        """The memory outside that nodes of the block read or write."""
        found = self.analysis
        touched = (found.reads(node) | found.writes(node) for node in self.block.nodes)
        return frozenset(one for places in touched for one in places if one.escapes)

    def _places(self, places: Locations) -> Locations:
        """What is in lists that are arguments may be any other argument."""
        return places | self._escaping if self.analysis.wildcard in places else places

    def _producers(self, node: Node) -> Iterable[Node]:
        for value in _all_inputs(node):
            producer = value.node
            if producer is not None and producer in self.order:
                yield producer

    def stays_convex(self, first: Cluster, second: Cluster) -> bool:
        """Whether nothing outside lies on a path from one cluster to the other."""
        start = min(first.first, second.first)
        seen = {id(first), id(second)}
        waiting = [first.predecessors | second.predecessors]
        is_outside = False
        while waiting:
            for number in waiting.pop():
                one = self.cluster_of[number]
                if is_outside and (one is first or one is second):
                    return False
                # What comes after nothing, as constants do, comes after neither cluster.
                if one.latest >= start and one.predecessors and id(one) not in seen:
                    seen.add(id(one))
                    waiting.append(one.predecessors)
            is_outside = True
        return True

    def merge(self, first: Cluster, second: Cluster) -> Cluster:
        """One cluster of two."""
        first.nodes = sorted([*first.nodes, *second.nodes], key=self.order.__getitem__)
        first.first = min(first.first, second.first)
        first.last = max(first.last, second.last)
        first.space = first.space if first.space == second.space else None
        for node in second.nodes:
            self.cluster_of[self.order[node]] = first
        before = first.predecessors | second.predecessors
        after = first.successors | second.successors
        first.predecessors = {one for one in before if self.cluster_of[one] is not first}
        first.successors = {one for one in after if self.cluster_of[one] is not first}
        first.latest = max(first.latest, second.latest)
        self._delay_successors(first)
        return first

    def _delay_successors(self, cluster: Cluster) -> None:
        """Tell the clusters that come after one, however early their nodes are, how late it is."""
        waiting = [cluster]
        while waiting:
            one = waiting.pop()
            for other in map(self.cluster_of.__getitem__, one.successors):
                if other.latest < one.latest:
                    other.latest = one.latest
                    waiting.append(other)

    def schedule(self) -> list[Cluster]:
        """Clusters after all they depend on, otherwise in the order of their last nodes."""
        done: set[int] = set()
        result: list[Cluster] = []
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


_OF_SOME = frozenset(f"np::{name}" for name in ("min", "max", "argmin", "argmax"))
"""Reductions that raise where there are no elements."""


class _Raising:
    """In which order nodes that may raise and those that write to memory outside have to stay."""

    def __init__(self) -> None:
        self.checks: list[int] = []
        self.written: list[int] = []
        self.after_writes: set[int] = set()

    def add(self, number: int, node: Node, before: set[int], writes: Locations) -> None:
        """Add to what a node waits for, which is the next one, and note it."""
        escapes = any(place.escapes for place in writes)
        if escapes:
            # Where a node raises, nothing that comes after it is written yet.
            before.update(self.checks)
        # Of what depends on numbers, nothing is asked before its turn: where it comes between two
        # writes, the program cannot be run once more.  Extents are wrong the first time.
        raises = may_raise(node)
        in_turn = raises and (not _has_dims(node) or node.kind in _OF_SOME)
        is_late = (in_turn and bool(self.written)) or not self.after_writes.isdisjoint(before)
        if raises and (is_late or (escapes and node.blocks)):
            # Where something may be written by then, all is that comes before it.
            before.update(self.written)
            self.written = [number]
        elif escapes:
            self.written.append(number)
        if escapes or is_late:
            self.after_writes.add(number)
        if raises:
            self.checks = [one for one in self.checks if one not in before]
            self.checks.append(number)


def _has_dims(node: Node) -> bool:
    """Whether a node computes with arrays, or parts of them."""
    return any(map(dims_of, [*node.inputs, *node.outputs]))


def inner_first(block: Block) -> Iterable[Block]:
    """A block and all blocks inside, each after those inside of it."""
    for node in list(block.nodes):
        for inner in node.blocks:
            yield from inner_first(inner)
    yield block


def _all_inputs(node: Node) -> Iterable[Value]:
    yield from node.inputs
    for block in node.blocks:
        yield from block.returns
        for inner in block.nodes:
            yield from _all_inputs(inner)


def make_group(block: Block, nodes: list[Node], kind: str) -> Node:
    """Append a node of this kind whose attribute ``graph`` holds these nodes."""
    inside = set(nodes)
    views = _views_beside(block, nodes)
    graph = Graph()
    mapping: dict[Value, Value] = {}
    inputs: list[Value] = []
    for node in nodes:
        for value in node.inputs:
            if value.node in inside or value in mapping:
                continue
            if value.constant is not None and not is_ndarray(value.type):
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
        kind,
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
