"""What lowering knows of a value before its users are lowered: does it leave, when does it end."""

from __future__ import annotations

from jitcore.ir.graph import Block, Graph, Node, Use, Value

__all__ = ["FUSED", "WRITING", "Escapes", "is_written_while_used", "last_uses"]

FUSED = "prim::FusionGroup"
"""The kind of nodes whose attribute ``graph`` is lowered as one group."""

WRITING = frozenset({"np::store", "np::scatter", "np::put_mask"})
"""The kinds that write to an array."""

_PASSING = frozenset(
    [
        "np::view",
        "np::transpose",
        "np::ravel",
        "np::reshape",
        "np::broadcast_to",
        "np::real",
        "np::imag",
        "prim::TupleConstruct",
        "prim::Unpack",
        "prim::CheckBound",
    ]
)
"""Kinds whose result may share the memory of input 0 (of any input, for tuples)."""


class Escapes:
    """Which arrays may leave their block: returned, merged or carried, by themselves or as views.

    Such an array is an ``ndarray`` with a reference count from the start.
    """

    def __init__(self, graph: Graph) -> None:
        self._owners: dict[Graph, Node] = {}
        self._known: dict[Value, bool] = {}
        self._register(graph)

    def _register(self, graph: Graph) -> None:
        for node in graph.nodes():
            if node.kind == FUSED:
                self._owners[node.attributes["graph"]] = node
                self._register(node.attributes["graph"])

    def __call__(self, value: Value) -> bool:
        """Whether ``value`` may leave the block that makes it."""
        if value not in self._known:
            self._known[value] = False  # while its users are looked at
            self._known[value] = any(self._leaves_by(use) for use in value.uses)
        return self._known[value]

    def _leaves_by(self, use: Use) -> bool:
        user = use.user
        if isinstance(user, Block):
            outer = self._owners.get(user.graph) if user.owner is None else None
            return True if outer is None else self(outer.outputs[use.index])
        if user.kind == FUSED:
            return self(user.attributes["graph"].inputs[use.index])
        if user.kind == "prim::Loop":
            return use.index >= 2
        return user.kind in _PASSING and any(self(output) for output in user.outputs)


def is_written_while_used(value: Value) -> bool:
    """Whether anything writes to any array between a value's node and the end of its last use.

    Writes to the value itself count, and so does all that is done with views of it.
    """
    assert value.node is not None and value.node.block is not None
    nodes = value.node.block.nodes
    position = nodes.index(value.node)
    last = last_uses(value.node.block)
    same = {value}
    end = position
    for number in range(position + 1, len(nodes)):
        node = nodes[number]
        if number > max(last.get(one, position) for one in same):
            break
        if node.kind in WRITING and node.inputs[0] in same:
            return True
        if node.kind in _PASSING and same & set(node.inputs):
            same.update(node.outputs)
        end = number
    between, final = nodes[position + 1 : end], nodes[end]
    return any(map(_writes, between)) or (bool(final.blocks) and _writes(final))


def _writes(node: Node) -> bool:
    """Whether a node, or one inside it, writes to an array."""
    if node.kind == FUSED:
        return any(map(_writes, node.attributes["graph"].block.nodes))
    return node.kind in WRITING or any(_writes(n) for block in node.blocks for n in block.nodes)


def last_uses(block: Block) -> dict[Value, int]:
    """The number of the node of this block that reads each value last, nested reads included."""
    found: dict[Value, int] = {}

    def read(inner: Block, position: int) -> None:
        for node in inner.nodes:
            found.update(dict.fromkeys(node.inputs, position))
            for nested in node.blocks:
                read(nested, position)
        found.update(dict.fromkeys(inner.returns, position))

    for position, node in enumerate(block.nodes):
        found.update(dict.fromkeys(node.inputs, position))
        for nested in node.blocks:
            read(nested, position)
    found.update(dict.fromkeys(block.returns, len(block.nodes)))
    return found
