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

from collections.abc import Iterable, Iterator, Sequence
from math import prod

from jitcore.fusers.clusters import (
    BlockClusters,
    Cluster,
    Decision,
    inner_first,
    make_group,
)
from jitcore.fusers.elementwise import (
    PRODUCERS,
    counts,
    goes_over_memory,
    is_lookup,
    is_on_scalars,
    iteration_dims,
    refusal,
    takes_rows_of,
)
from jitcore.fusers.rows import fits_one_nest
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.disjoint import are_apart
from jitcore.ir.graph import Block, Graph, Node, Value, copy_node
from jitcore.ir.ops import REDUCTIONS, is_cheap, is_elementwise
from jitcore.ir.running import is_running, keep_step
from jitcore.ir.shapes import is_respaced
from jitcore.ir.types import Dim, is_ndarray

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


def fuse_groups(
    graph: Graph, decisions: list[Decision] | None = None, *, on_device: bool = False
) -> bool:
    """Form fusion groups in all blocks; notes what became of each node in ``decisions``.

    On devices, whose threads take elements side by side, what is computed once for each row stays
    by itself.
    """
    # The analysis knows the nodes there are now, so all is planned before anything is changed.
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    fusers = [_BlockFuser(block, analysis, on_device) for block in inner_first(graph.block)]
    for fuser in fusers:
        fuser.plan()
    changed = [fuser.rebuild(decisions) for fuser in fusers]
    return any(changed)


class _BlockFuser(BlockClusters):
    def __init__(self, block: Block, analysis: AliasAnalysis, on_device: bool) -> None:
        super().__init__(block, analysis)
        self.on_device = on_device
        self.scans = {node for node in block.nodes if is_running(node)}
        self.readers: dict[Value, list[Cluster]] = {}
        self.refused: dict[Node, str | None] = {}
        self.has_lookups = any(map(is_lookup, block.nodes))
        self.recomputed: list[tuple[Node, list[Cluster]]] = []

    def plan(self) -> None:
        """Form clusters of nodes that can run together."""
        for node in self.block.nodes:
            reason = refusal(node)
            self.refused[node] = reason
            fusible = reason is None or is_on_scalars(node) or is_respaced(node)
            if self.on_device and takes_rows_of(node):
                # Each kernel of a device copies rows by itself.
                fusible = False
            has_space = is_elementwise(node) or is_lookup(node) or node in self.scans
            space = iteration_dims(node) if has_space else None
            cluster = self.add(node, fusible=fusible, space=space)
            if fusible:
                self._join_others(cluster, node)
        if not self.on_device:
            for cluster in dict.fromkeys(self.cluster_of):
                self._compute_where_spread(cluster)
            self.recomputed = list(self._recomputed())

    def _recomputed(self) -> Iterator[tuple[Node, list[Cluster]]]:
        """What is cheap and read by groups beside its own, each of which then computes it."""
        for node in self.block.nodes:
            if not is_cheap(node) or not iteration_dims(node):
                continue
            own = self.cluster_of[self.order[node]]
            readers = [
                self.cluster_of[self.order[use.user]] if use.user in self.order else None
                for use in node.output.uses
            ]
            apart = [one for one in dict.fromkeys(readers) if one is not own]
            if len(apart) < len(readers) and apart and self._may_recompute(node, own, apart):
                yield node, [one for one in apart if one is not None]

    def _may_recompute(self, node: Node, own: Cluster, readers: Sequence[Cluster | None]) -> bool:
        """Whether all readers compute elements of its shape, of operands that nobody writes to."""
        dims, inside = iteration_dims(node), set(own.nodes)
        bases = [base for value in node.inputs for base in self._bases(value)]
        return (
            all(one is not None and _computes_elements(one, dims) for one in readers)
            and all(one is not None and self._is_group(one) for one in (own, *readers))
            and not any(base.node in inside and base.constant is None for base in bases)
            and not any(
                map(
                    self.analysis.has_writers,
                    [*(one for one in bases if is_ndarray(one.type)), node.output],
                )
            )
        )

    def _bases(self, value: Value) -> Iterator[Value]:
        """What a value is a view of, and what tells of which part."""
        view = self._view(value)
        if view is None:
            yield value
            return
        for one in view.inputs:
            yield from self._bases(one)

    def _view(self, value: Value) -> Node | None:
        is_view = value.node in self.order and value.node.kind == "np::view"
        return value.node if is_view else None

    def _recompute(self, node: Node, reader: Cluster) -> None:
        """Compute in a group what it reads of another one."""
        copies: list[Node] = []
        mapping: dict[Value, Value] = {}

        def copy(one: Node) -> None:
            for view in filter(None, map(self._view, one.inputs)):
                if view.output not in mapping:
                    copy(view)
            copies.append(copy_node(one, self.block, mapping))

        copy(node)
        del self.block.nodes[-len(copies) :]
        inside = set(reader.nodes)
        for use in list(node.output.uses):
            if use.user in inside and isinstance(use.user, Node):
                use.user.set_input(use.index, mapping[node.output])
        reader.nodes = [*copies, *reader.nodes]

    def _compute_where_spread(self, cluster: Cluster) -> None:
        """Have one number for each row be computed in the loops over the rows that read it."""
        if not cluster.space or cluster.space[-1] != 1 or not all(map(is_cheap, cluster.nodes)):
            return
        inside = set(cluster.nodes)
        uses = (use for node in cluster.nodes for use in node.output.uses)
        users = dict.fromkeys(use.user for use in uses if use.user not in inside)
        readers = dict.fromkeys(
            self.cluster_of[self.order[one]] if one in self.order else None for one in users
        )
        reader = next(iter(readers), None)
        if len(readers) == 1 and reader is not None and self._spreads_to(cluster, reader):
            self.merge(cluster, reader)

    def _spreads_to(self, cluster: Cluster, reader: Cluster) -> bool:
        """Whether a cluster only computes elements, in rows for each of which another has one."""
        narrow, wide = cluster.space or (), reader.space or ()
        kept = len([dim for dim in narrow if dim != 1])
        return (
            cluster.fusible
            and reader.fusible
            and all(map(is_elementwise, reader.nodes))
            and len(narrow) == len(wide)
            and narrow == wide[:kept] + (1,) * (len(wide) - kept)
            and 1 not in wide[kept:]
            and len(cluster.nodes) + len(reader.nodes) <= _limit(reader.nodes[0])
            and self.stays_convex(cluster, reader)
        )

    def _join_others(self, cluster: Cluster, node: Node) -> None:
        arrays = list(dict.fromkeys(one for one in node.inputs if is_ndarray(one.type)))
        for candidate in self._candidates(node, arrays):
            if candidate is not cluster and self._may_merge(candidate, cluster):
                cluster = self.merge(candidate, cluster)
        for value in arrays:
            self.readers[value].append(cluster)

    def _candidates(self, node: Node, arrays: Iterable[Value]) -> list[Cluster]:
        """Clusters of producers first, then those that read the same arrays."""
        found = [one for one in map(self.cluster, node.inputs) if one is not None]
        for value in arrays:
            readers = (self.cluster_of[one.last] for one in self.readers.get(value, ()))
            near = [one for one in dict.fromkeys(readers) if len(one.nodes) < _limit(one.nodes[0])]
            self.readers[value] = near[-MAX_NEIGHBOURS:]
            found += self.readers[value]
        return [one for one in dict.fromkeys(found) if one.fusible]

    def _may_merge(self, first: Cluster, second: Cluster) -> bool:
        if len(first.nodes) + len(second.nodes) > _limit(first.nodes[0]):
            return False
        if not self._lookups_fit([*first.nodes, *second.nodes]):
            return False
        if not self._scans_fit([*first.nodes, *second.nodes]):
            return False
        # Clusters are merged node by node, so what is easily seen is not looked for in all nodes.
        is_one_space = bool(first.space) and first.space == second.space
        if not is_one_space and not fits_one_nest([*first.nodes, *second.nodes]):
            return False
        if not is_one_space and not self._stores_fit(first, second):
            return False
        return self.stays_convex(first, second)

    def _lookups_fit(self, nodes: Sequence[Node]) -> bool:
        """What is looked up is there as a whole before the group, and changes after it only."""
        lookups = [node for node in nodes if is_lookup(node)] if self.has_lookups else []
        if not lookups:
            return True
        inside = set(nodes)
        may_reduce = all(node.kind == "np::rolled" for node in lookups)
        takes_rows = all(map(takes_rows_of, lookups))
        is_plain = all(
            is_elementwise(node)
            or is_lookup(node)
            or node.kind in PRODUCERS
            or (node.kind in REDUCTIONS and (may_reduce or (takes_rows and _reads_once(node))))
            for node in nodes
        )
        tables = (value for node in lookups for value in node.inputs[: 1 + _is_product(node)])
        return is_plain and all(table.node not in inside for table in tables)

    def _scans_fit(self, nodes: Sequence[Node]) -> bool:
        """Beside a running sum there is only what goes along with it.

        Threads of a device join what they have before they know what is before that.
        """
        if self.scans.isdisjoint(nodes):
            return True
        return keep_step(nodes) and (not self.on_device or _scans_are_apart(nodes))

    def _stores_fit(self, first: Cluster, second: Cluster) -> bool:
        """No later node may read memory that a store of the same group writes, but the stored view.

        After the store that view stands for the stored value.  Reductions to rows do not read that.
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
        target, value = store.inputs
        if self.order[node] < self.order[store] and len(value.uses) == 1:
            # Written behind what is still read, or by way of a copy (`lowering.lagging_stores`).
            return False
        is_later = self.order[node] > self.order[store] and target.node not in inside
        if is_later and target in node.inputs and _reduces_to_rows(node):
            return True
        return any(
            value is not target
            and value.node not in inside
            and is_ndarray(value.type)
            and self._may_meet(value, target)
            for value in node.inputs
        )

    def _may_meet(self, x: Value, y: Value) -> bool:
        """Whether two arrays may have elements in common; of those in lists a run tells."""
        if all(one.node is not None and one.node.kind == "prim::ListGet" for one in (x, y)):
            return False
        return self.analysis.may_alias(x, y) and not are_apart(x, y)

    def rebuild(self, decisions: list[Decision] | None) -> bool:
        """Write the block anew, clusters in an order that keeps all dependencies."""
        changed = False
        ordered = self.schedule()
        for node, readers in self.recomputed:
            for reader in readers:
                self._recompute(node, reader)
        self.block.nodes = []
        for cluster in ordered:
            if self._is_group(cluster):
                made = make_group(self.block, cluster.nodes, "prim::FusionGroup")
                changed = True
                _note(decisions, cluster.nodes, made, self.refused)
            else:
                self.block.nodes.extend(cluster.nodes)
                _note(decisions, cluster.nodes, None, self.refused)
        return changed

    @staticmethod
    def _is_group(cluster: Cluster) -> bool:
        """Whether it computes twice, or would go over memory twice, as for a cast or a store."""
        if not cluster.fusible or all(node.kind in PRODUCERS for node in cluster.nodes):
            return False
        passes = sum(map(goes_over_memory, cluster.nodes))
        return passes >= MIN_NODES or sum(map(counts, cluster.nodes)) >= MIN_NODES


def _computes_elements(cluster: Cluster, dims: tuple[Dim, ...] | None) -> bool:
    """Whether a group computes and stores elements of one shape, and does no more."""
    return all(
        iteration_dims(node) == dims and (is_elementwise(node) or node.kind == "np::store")
        for node in cluster.nodes
    )


def _reduces_to_rows(node: Node) -> bool:
    """Whether a node reduces some axes, and leaves others."""
    return node.kind in REDUCTIONS and len(node.attributes["axis"]) < len(
        iteration_dims(node) or ()
    )


def _is_product(node: Node) -> bool:
    return node.kind == "np::narrow_product"


def _limit(node: Node) -> int:
    """How many nodes a group with this one may have."""
    dims = iteration_dims(node) or ()
    extents = [dim for dim in dims if isinstance(dim, int)]
    is_large = len(extents) == len(dims) and prod(extents) >= LEAST_LARGE
    return MAX_NODES_OF_LARGE if is_large else MAX_NODES


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


def _reads_once(reduction: Node) -> bool:
    """Whether rows come from memory once: a second walk over one finds it in the cache."""
    dims = iteration_dims(reduction)
    is_along_rows = dims is not None and len(dims) - 1 in reduction.attributes["axis"]
    return is_along_rows or reduction.kind not in ("np::var", "np::std")


def _scans_are_apart(nodes: Sequence[Node]) -> bool:
    """Whether no scan takes what is made of another one, and nothing is reduced."""
    made = set[Value]()
    for node in nodes:
        takes = any(value in made for value in node.inputs)
        if node.kind in REDUCTIONS or (takes and is_running(node)):
            return False
        if takes or is_running(node):
            made.update(node.outputs)
    return True
