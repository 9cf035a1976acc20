"""Tuples of which the program asks whether they are one object.

Compiled code has the elements of a tuple, and puts them into a new tuple for Python.  So what may
be such a tuple has no type where somebody asks:

    %x : Tuple[int, int] = prim::TupleConstruct(%a, %b)         %1 = prim::TupleConstruct(%a, %b)
    %y : Any = prim::is_(%x, %z)                           ->   %x : Any = prim::same(%1)
                                                                %y : Any = prim::is_(%x, %z)
"""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.specialize.metadata import aliases_of
from jitcore.ir.types import ANY, TupleType

__all__ = [
    "IDENTITIES",
    "TuplesAreCompared",
    "compared_tuples",
    "makers_of_compared",
    "require_no_tuples",
]

IDENTITIES = frozenset({"prim::is_", "prim::isnot"})


class TuplesAreCompared(Exception):
    """The program asks whether two tuples are one object."""


def require_no_tuples(inputs: Sequence[Value]) -> None:
    """Raise `TuplesAreCompared` where both of these may be one tuple."""
    types = [value.type for value in inputs]
    has_tuple = any(isinstance(one, TupleType) for one in types)
    if has_tuple and all(isinstance(one, TupleType) or one == ANY for one in types):
        raise TuplesAreCompared


def compared_tuples(graph: Graph) -> set[Value]:
    """What may be compared by identity, here and in the functions that are called."""
    found: set[Value] = set()
    graphs = _called(graph)
    asking = {one for one in graphs if any(map(_asks, _called(one)))}
    for one in graphs:
        owners = [value for node in one.nodes() for value in _compared(node, asking)]
        found |= aliases_of(one, owners)
    return found


def makers_of_compared(graph: Graph) -> set[Node]:
    """The nodes of a typed graph that give what may be a tuple that is compared by identity."""
    questions = [node for kind in IDENTITIES for node in graph.find_all_nodes(kind)]
    owners = [value for node in questions for value in node.inputs if value.type == ANY]
    return {value.node for value in aliases_of(graph, owners) if value.node is not None}


def _called(graph: Graph) -> set[Graph]:
    """A function, and those that it calls."""
    graphs, waiting = {graph}, [graph]
    while waiting:
        for node in waiting.pop().nodes():
            callee = node.attributes.get("graph")
            if isinstance(callee, Graph) and callee not in graphs:
                graphs.add(callee)
                waiting.append(callee)
    return graphs


def _asks(graph: Graph) -> bool:
    return any(map(_is_question, graph.nodes()))


def _is_question(node: Node) -> bool:
    return node.kind in IDENTITIES and all(one.constant is None for one in node.inputs)


def _compared(node: Node, asking: set[Graph]) -> list[Value]:
    """The operands of a node that may be compared."""
    if not _is_question(node) and node.attributes.get("graph") not in asking:
        return []
    return [one for one in node.inputs if one.constant is None]
