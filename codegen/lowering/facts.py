"""What lowering knows of a value before its users are lowered: does it leave, when does it end."""

from __future__ import annotations

from jitcore.ir.graph import Block, Graph, Node, Use, Value

__all__ = ["FUSED", "Escapes", "last_uses"]

FUSED = "prim::FusionGroup"
"""The kind of nodes whose attribute ``graph`` is lowered as one group."""

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
