"""What a node computes from elements under a mask, and the same computed at all elements."""

from __future__ import annotations

from collections.abc import Iterable

from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Block, Node, Value
from jitcore.ir.shapes import known_dims
from jitcore.ir.types import TensorType, Type

__all__ = ["CHEAP", "Selection", "element_type", "is_scalar"]

CHEAP = frozenset(
    f"np::{name}"
    for name in [
        "absolute",
        "add",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "cast",
        "conjugate",
        "equal",
        "greater",
        "greater_equal",
        "invert",
        "less",
        "less_equal",
        "logical_and",
        "logical_not",
        "logical_or",
        "maximum",
        "minimum",
        "multiply",
        "negative",
        "not_equal",
        "square",
        "subtract",
        "where",
    ]
)
"""What costs less at the elements that are not selected than taking out those that are."""

_MAX_NODES = 50


class Selection:
    """What a node computes from elements under a mask."""

    def __init__(self, analysis: AliasAnalysis, user: Node, base: Value, mask: Value) -> None:
        assert user.block is not None
        self.analysis = analysis
        self.user = user
        self.block: Block = user.block
        self.mask = mask
        self.dims = known_dims(base)
        self.store: Node | None = None
        self.tree: list[Node] = []
        self.made: dict[Value, Value] = {}

    def is_selected(self, value: Value) -> bool:
        """Whether a value is computed from elements under the mask; notes what computes it."""
        node = value.node
        if node in self.tree:
            return True
        if node is None or node.block is not self.block or len(self.tree) >= _MAX_NODES:
            return False
        if any(writer is not self.store for writer in self.analysis.writers(value)):
            return False
        if node.kind == "np::compress":
            base, mask = node.inputs
            if mask is not self.mask or known_dims(base) != self.dims or self._is_stale(node):
                return False
        elif (
            node.kind not in CHEAP
            or len(known_dims(value) or ()) != 1
            or not all(is_scalar(one.type) or self.is_selected(one) for one in node.inputs)
        ):
            return False
        self.tree.append(node)
        return True

    def _is_stale(self, node: Node) -> bool:
        """Whether something between a selection and its user writes what was selected from."""
        start = self.block.nodes.index(node) + 1
        between = self.block.nodes[start : self.block.nodes.index(self.user)]
        return any(self.analysis.conflict(node, one) for one in between)

    def at_all(self, value: Value) -> Value:
        """The same computed at all elements."""
        node = value.node
        if node is None or node not in self.tree:
            return value
        if value not in self.made:
            if node.kind == "np::compress":
                self.made[value] = node.inputs[0]
            else:
                inputs = [self.at_all(one) for one in node.inputs]
                type_ = value.type
                assert isinstance(type_, TensorType)
                at_all = TensorType(type_.dtype, self.dims)
                self.made[value] = self.user.value_before(
                    node.kind, inputs, at_all, node.attributes
                )
        return self.made[value]

    def remove(self, nodes: Iterable[Node | None]) -> None:
        """Remove nodes, and what nobody reads any more of the tree."""
        for node in nodes:
            if node is not None:
                node.destroy()
        for node in reversed(self.tree):
            if not node.output.uses:
                node.destroy()


def element_type(value: Value) -> TensorType:
    type_ = value.type
    assert isinstance(type_, TensorType)
    return TensorType(type_.dtype, (), scalar=True)


def is_scalar(type_: Type) -> bool:
    return not isinstance(type_, TensorType) or type_.scalar
