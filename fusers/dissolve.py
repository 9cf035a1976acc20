"""Regions that turned out to be of no use, as what they were before."""

from __future__ import annotations

from jitcore.ir.graph import Node, Value, copy_node

__all__ = ["dissolve"]


def dissolve(region: Node) -> list[Node]:
    """Put what is in a region into the host program, in the region's place; gives those nodes."""
    block, graph = region.block, region.attributes["graph"]
    assert block is not None
    count = len(block.nodes)
    mapping: dict[Value, Value] = dict(zip(graph.inputs, region.inputs, strict=True))
    for node in graph.block.nodes:
        copy_node(node, block, mapping)
    made = block.nodes[count:]
    del block.nodes[count:]
    place = block.nodes.index(region)
    block.nodes[place:place] = made
    (result,) = graph.block.returns
    result = mapping.get(result, result)
    _forward_elements(region.output, result)
    region.output.replace_all_uses_with(result)
    region.destroy()
    if result.node is not None and result.node.kind == "prim::TupleConstruct" and not result.uses:
        made.remove(result.node)
        result.node.destroy()
    return made


def _forward_elements(output: Value, result: Value) -> None:
    """Where several results came out as a tuple, its elements are at hand now."""
    if result.node is None or result.node.kind != "prim::TupleConstruct":
        return
    users = {use.user for use in output.uses if isinstance(use.user, Node)}
    for user in (one for one in users if one.kind == "prim::Unpack"):
        for unpacked, element in zip(user.outputs, result.node.inputs, strict=True):
            unpacked.replace_all_uses_with(element)
        user.destroy()
