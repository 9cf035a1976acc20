"""Which functions may begin anew after they have written to arguments: they give what they gave."""

from __future__ import annotations

from collections.abc import Iterator

from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.draws import is_draw
from jitcore.ir.effects import node_effects
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.nesting import nodes_with_called

__all__ = ["may_begin_anew"]

_STORES = ("np::store", "np::scatter", "np::put_mask")


def may_begin_anew(graph: Graph) -> bool:
    """Whether a typed graph reads nothing of the arguments that it writes, and draws no numbers.

    Then it writes once more what it has written, as long as its arguments share no memory.
    """
    nodes = list(nodes_with_called(graph))
    if any(map(is_draw, nodes)):
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    written = frozenset().union(*map(analysis.writes, graph.block.nodes))
    given = frozenset().union(*map(analysis.reachable, graph.inputs))
    read = frozenset().union(
        *(analysis.reachable(value) for node in nodes for value in _read_by(node))
    )
    return analysis.wildcard not in written | read and not written & read & given


def _read_by(node: Node) -> Iterator[Value]:
    """What a node itself reads; the elements that it writes it does not ask."""
    for number in node_effects(node).reads:
        if number or node.kind not in _STORES:
            yield node.inputs[number]
