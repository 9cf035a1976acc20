"""Dead code elimination: only what the caller can see is computed."""

from __future__ import annotations

from collections.abc import Iterable

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis, Location
from jitcore.ir.graph import LOOPS, Block, Graph, Node, Use, Value
from jitcore.ir.may_raise import raises_itself

__all__ = ["dead_code_elimination"]

_ENDLESS = 2**63 - 1


def dead_code_elimination(graph: Graph, analysis: AliasAnalysis | None = None) -> bool:
    """Remove nodes, block returns and loop variables that no result, effect or exception needs.

    Before::

        graph(%x : Float32[n], %y : Float32[n]):
          %0 : Float32[n] = np::multiply(%x, %y)
          %1 : Float32[n] = np::add(%x, %y)
          %2 : int = prim::size[dim=0](%x)
          %t : Float32[n] = np::empty[dtype=dtype("float32")](%2)
          np::store(%t, %1)
          np::store(%y, %x)
          return (%0)

    After::

        graph(%x : Float32[n], %y : Float32[n]):
          %0 : Float32[n] = np::multiply(%x, %y)
          np::store(%y, %x)
          return (%0)

    A node that may raise stays, as does a write to memory that is read later or that the caller
    knows.  Graphs that nodes hold are left alone.

    Parameters
    ----------
    graph : Graph
    analysis : AliasAnalysis, optional
        Of the graph as it is, where that is at hand.
    """
    live = _Liveness(graph, analysis or AliasAnalysis(graph))
    changed = _sweep(graph.block, live)
    if changed:
        _record_uses(graph.block)
    return changed


class _Liveness:
    """The nodes and values that are needed, found from those that surely are."""

    def __init__(self, graph: Graph, analysis: AliasAnalysis) -> None:
        self.graph = graph
        self.analysis = analysis
        self._has_writes = self.analysis.has_writes
        self.nodes: set[Node] = set()
        self.values: set[Value] = set()
        self._locations: set[Location] = set()
        self._holders = _holders(graph)
        self._waiting: list[Node | Value] = list(graph.outputs)
        self._waiting += (node for node in graph.nodes() if self._is_root(node))
        while self._waiting:
            item = self._waiting.pop()
            if isinstance(item, Value):
                self._reach_value(item)
            else:
                self._reach_node(item)

    def _is_root(self, node: Node) -> bool:
        if raises_itself(node):
            return True
        if node.blocks:
            return node.kind == "prim::Loop" and _may_be_endless(node)
        written = self.analysis.writes(node)
        return self.analysis.is_observable(node) or any(one.escapes for one in written)

    def _reach_node(self, node: Node) -> None:
        if node in self.nodes:
            return
        self.nodes.add(node)
        if node.kind not in LOOPS:
            self._waiting += node.inputs
        else:
            self._waiting += node.inputs[: _first_carried(node)]
            self._waiting.append(node.blocks[0].returns[0])
        assert node.block is not None
        owner = node.block.owner
        if owner is not None:
            self._waiting.append(owner)
        elif node.block is not self.graph.block:
            self._waiting += self._holders[node.block]

    def _reach_value(self, value: Value) -> None:
        if value in self.values:
            return
        self.values.add(value)
        if self._has_writes:
            self._reach_memory(value)
        if value.node is not None:
            self._waiting.append(value.node)
            if value.node.blocks:
                self._reach_carried(value.node, value.node.outputs.index(value))
        elif value.block is not None and value.block.owner is not None:
            self._waiting.append(value.block.owner)
            number = value.block.params.index(value)
            if number > 0:
                self._reach_carried(value.block.owner, number - 1)

    def _reach_carried(self, node: Node, number: int) -> None:
        """Output ``number`` of an ``If``, or variable ``number`` of a loop, is needed."""
        if node.kind not in LOOPS:
            self._waiting += (block.returns[number] for block in node.blocks)
        else:
            self._waiting.append(node.inputs[_first_carried(node) + number])
            self._waiting.append(node.blocks[0].returns[1 + number])

    def _reach_memory(self, value: Value) -> None:
        new = self.analysis.reachable(value) - self._locations
        self._locations |= new
        self._waiting += self.analysis.writers_of(new)


def _first_carried(node: Node) -> int:
    return 2 if node.kind == "prim::Loop" else 1


def _may_be_endless(node: Node) -> bool:
    trips = node.inputs[0].constant
    return trips is not None and trips.attributes["value"] == _ENDLESS


def _holders(graph: Graph) -> dict[Block, list[Node]]:
    """The nodes of ``graph`` that hold each other graph, directly or through a third one."""
    holders: dict[Block, list[Node]] = {}
    for node in graph.nodes():
        waiting = [node]
        seen: set[Block] = set()
        while waiting:
            body = waiting.pop().attributes.get("graph")
            if isinstance(body, Graph) and body.block not in seen:
                seen.add(body.block)
                holders.setdefault(body.block, []).append(node)
                waiting.extend(body.nodes())
    return holders


def _sweep(block: Block, live: _Liveness) -> bool:
    """Drop what is not needed from a block and from those inside; use lists are left stale."""
    kept = [node for node in block.nodes if node in live.nodes]
    changed = len(kept) < len(block.nodes)
    for node in block.nodes:
        if node not in live.nodes:
            _log_removal(node)
            node.block = None
    block.nodes = kept
    for node in kept:
        if node.blocks:
            changed = _sweep_outputs(node, live) or changed
            for inner in node.blocks:
                changed = _sweep(inner, live) or changed
    return changed


def _log_removal(node: Node) -> None:
    log.update("dce", lambda: f"remove {node!r}")


def _sweep_outputs(node: Node, live: _Liveness) -> bool:
    is_loop = node.kind in LOOPS
    if not is_loop:
        needed = [output in live.values for output in node.outputs]
    else:
        params = node.blocks[0].params[1:]
        needed = [
            output in live.values or param in live.values
            for output, param in zip(node.outputs, params, strict=True)
        ]
    if all(needed):
        return False
    node.outputs = _chosen(node.outputs, needed)
    first = 1 if is_loop else 0
    for block in node.blocks:
        block.inputs = block.inputs[:first] + _chosen(block.inputs[first:], needed)
        if is_loop:
            block.params = block.params[:first] + _chosen(block.params[first:], needed)
    if is_loop:
        start = _first_carried(node)
        node.inputs = node.inputs[:start] + _chosen(node.inputs[start:], needed)
    return True


def _chosen(values: Iterable[Value], needed: list[bool]) -> list[Value]:
    return [value for value, keep in zip(values, needed, strict=False) if keep]


def _record_uses(block: Block) -> None:
    """Record all uses anew, which takes linear time where removing them one by one does not."""
    for param in block.params:
        param.uses = []
    for node in block.nodes:
        for output in node.outputs:
            output.uses = []
        for index, value in enumerate(node.inputs):
            value.uses.append(Use(node, index))
        for inner in node.blocks:
            _record_uses(inner)
    for index, value in enumerate(block.inputs):
        value.uses.append(Use(block, index))
