"""Arrays whose shape, strides or dtype the program sets in place.

A value has one type wherever it is used, so an array that changes its own has none:

    %x : Float64[6] = np::ones(%6)                  %1 : Float64[6] = np::ones(%6)
     = prim::SetAttr[name=shape](%x, %shape)   ->   %x : Any = prim::same(%1)
                                                     = prim::SetAttr[name=shape](%x, %shape)
"""

from __future__ import annotations

from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node, Value

__all__ = ["METADATA", "changing_arrays"]

METADATA = frozenset({"shape", "strides", "dtype"})
"""The attributes of arrays that say what lies in their memory."""


def changing_arrays(graph: Graph) -> set[Value]:
    """The values that may be an array whose metadata some node sets."""
    owners = [node.inputs[0] for node in graph.find_all_nodes("prim::SetAttr") if _changes(node)]
    if not owners:
        return set()
    alias = AliasAnalysis(graph)
    return {
        value
        for value in _values(graph)
        if not _is_renamed(value)
        and any(value is owner or alias.may_contain_alias(value, owner) for owner in owners)
    }


def _is_renamed(value: Value) -> bool:
    """Whether nobody reads a value but the ``prim::same`` that takes its type away."""
    users = [use.user for use in value.uses]
    return bool(users) and all(isinstance(one, Node) and one.kind == "prim::same" for one in users)


def _changes(node: Node) -> bool:
    return node.attributes["name"] in METADATA


def _values(graph: Graph) -> list[Value]:
    found = list(graph.inputs)
    for node in graph.nodes():
        if node.kind != "prim::Constant":
            found.extend(node.outputs)
        for block in node.blocks:
            found.extend(block.params)
    return found
