"""Which nodes and blocks lie inside of which others, and which graphs call which."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jitcore.ir.graph import Block, Graph, Node, Value

__all__ = ["block_of", "enclosing", "lies_in", "nodes_with_called", "place_in", "with_inner"]


def block_of(value: Value) -> Block:
    """The block that a value is defined in."""
    if value.block is not None:
        return value.block
    assert value.node is not None and value.node.block is not None
    return value.node.block


def enclosing(block: Block | None) -> Iterator[Block]:
    """A block, and those around it from the inside."""
    while block is not None:
        yield block
        block = None if block.owner is None else block.owner.block


def with_inner(nodes: Sequence[Node]) -> Iterator[Node]:
    """Nodes, each followed by those in its blocks."""
    for node in nodes:
        yield node
        for block in node.blocks:
            yield from with_inner(block.nodes)


def nodes_with_called(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph and of those that it calls, each graph once."""
    waiting, seen = [graph], {graph}
    for one in waiting:
        for node in one.nodes():
            yield node
            called = node.attributes.get("graph")
            if isinstance(called, Graph) and called not in seen:
                seen.add(called)
                waiting.append(called)


def lies_in(user: Node | Block, outer: Node) -> bool:
    """Whether a node or a block lies in one of the blocks of another node, or is that node."""
    if user is outer:
        return True
    block = user.block if isinstance(user, Node) else user
    return any(one.owner is outer for one in enclosing(block))


def place_in(block: Block, user: Node | Block) -> int:
    """The place in a block of the node that a user is, or lies in; -1 where there is none."""
    node = user if isinstance(user, Node) else user.owner
    while node is not None and node.block is not block:
        node = None if node.block is None else node.block.owner
    return -1 if node is None else block.nodes.index(node)
