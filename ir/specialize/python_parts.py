"""What of a typed graph is Python's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitcore.ir.graph import Block, Graph, Node
from jitcore.ir.types import ANY

__all__ = ["is_surely_native", "leaves_to_python", "python_nodes", "python_s_part"]

_PYTHON_KINDS = frozenset({"prim::For", "prim::Try", "prim::With", "prim::Raise"})


def is_surely_native(block: Block) -> bool:
    """Whether nothing in a typed block has to do with Python, but for what raises exceptions."""
    return not any(python_nodes(block.nodes))


def leaves_to_python(graph: Graph) -> bool:
    """Whether Python has to run the function anew for some values: a host program could not."""
    return any(
        node.kind == "prim::require" and node.attributes.get("exception") == "NotImplementedError"
        for node in graph.nodes()
    )


def python_nodes(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes that have to do with Python, but for what raises; those inside others first."""
    for node in nodes:
        for block in node.blocks:
            if not block.raises_in_python:
                yield from python_nodes(block.nodes)
        typed = node.host_reason is None and all(value.type != ANY for value in node.outputs)
        if not typed or node.kind in _PYTHON_KINDS:
            yield node


def python_s_part(block: Block) -> str:
    """What is not native in a program that has to be that as a whole."""
    node = next(python_nodes(block.nodes))
    place = f" in line {node.source.line}" if node.source is not None else ""
    reason = node.host_reason or _difference(node) or node.kind
    return f"Python runs a part of the function{place}: {reason}"


def _difference(node: Node) -> str:
    """Which types a value has on the two paths of an ``If``, if that is why it has none."""
    if node.kind != "prim::If":
        return ""
    for place, value in enumerate(node.outputs):
        one, other = (block.returns[place].type for block in node.blocks)
        if value.type == ANY:
            return f"a value that is {one} on one path and {other} on another"
    return ""
