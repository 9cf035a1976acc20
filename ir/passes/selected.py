"""Selected elements, where they are: updates under a mask without compressing anything."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.types import Dim, TensorType, Type

__all__ = ["compute_selected_in_place"]

_CHEAP = frozenset(
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


def compute_selected_in_place(graph: Graph) -> bool:
    """Compute cheap expressions of ``x[mask]`` at all elements, and choose afterwards.

    Before::

        graph(%x : Float32[n], %y : Float32[n], %m : Bool[n]):
          %0 : Float32[a] = np::compress(%y, %m)
          %1 : Float32[b] = np::compress(%x, %m)
          %2 : Float32[c] = np::add(%0, %1)
          np::put_mask(%x, %m, %2)
          return (%x)

    After::

        graph(%x : Float32[n], %y : Float32[n], %m : Bool[n]):
          %5 : Float32[n] = np::add(%y, %x)
          %6 : Float32[n] = np::where(%m, %5, %x)
          np::store(%x, %6)
          return (%x)

    Only for code that cannot warn: NumPy would warn of what happens at elements nobody selected.
    A single number for all selected elements is chosen in the same way.
    """
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    updates = [_Update(analysis, node) for node in graph.find_all_nodes("np::put_mask")]
    # The analysis knows the nodes there are now, so all is planned before anything is changed.
    possible = [update for update in updates if update.is_possible()]
    for update in possible:
        update.rewrite()
    return bool(possible)


class _Update:
    """One write to the elements under a mask."""

    def __init__(self, analysis: AliasAnalysis, update: Node) -> None:
        assert update.block is not None
        self.analysis = analysis
        self.update = update
        self.target, self.mask, self.value = update.inputs
        self.dims = _dims(self.target)
        self.block: Block = update.block
        self.store: Node | None = None
        self.tree: list[Node] = []
        self.made: dict[Value, Value] = {}

    def is_possible(self) -> bool:
        """Whether the value is computed from elements of the same places."""
        if self.dims is None or _dims(self.mask) != self.dims:
            return False
        if self.mask is not self.target and self.analysis.may_alias(self.mask, self.target):
            return False
        if self.dims and _is_scalar(self.value.type):
            return self.value.type == _element_type(self.target)
        self.store = self._store_before()
        if self.store is not None:
            self.value = self.store.inputs[1]
        return self._is_selected(self.value)

    def _store_before(self) -> Node | None:
        """What ``x[mask] += y`` writes to the selected elements before they go back."""
        writers = self.analysis.writers(self.value)
        if len(writers) != 1 or writers[0].kind != "np::store":
            return None
        (store,) = writers
        if store.block is not self.block or store.inputs[0] is not self.value:
            return None
        position = self.block.nodes.index(store)
        users = [use.user for use in self.value.uses if use.user not in (store, self.update)]
        known = all(user in self.block.nodes[:position] for user in users)
        return store if known else None

    def rewrite(self) -> None:
        """Write all elements, those that are not selected as they are."""
        log.update("selected", lambda: f"compute {self.update!r} at all elements")
        operands = [self.mask, self._at_all(self.value), self.target]
        chosen = self._emit("np::where", operands, self.target.type)
        self._emit("np::store", [self.target, chosen], self.update.output.type)
        self.update.destroy()
        if self.store is not None:
            self.store.destroy()
        for node in reversed(self.tree):
            if not node.output.uses:
                node.destroy()

    def _is_selected(self, value: Value) -> bool:
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
            if mask is not self.mask or _dims(base) != self.dims or self._is_stale(node):
                return False
        elif (
            node.kind not in _CHEAP
            or len(_dims(value) or ()) != 1
            or not all(_is_scalar(one.type) or self._is_selected(one) for one in node.inputs)
        ):
            return False
        self.tree.append(node)
        return True

    def _is_stale(self, node: Node) -> bool:
        """Whether something between a selection and its update writes what was selected from."""
        start = self.block.nodes.index(node) + 1
        between = self.block.nodes[start : self.block.nodes.index(self.update)]
        return any(self.analysis.conflict(node, one) for one in between)

    def _at_all(self, value: Value) -> Value:
        """The same computed at all elements."""
        node = value.node
        if node is None or node not in self.tree:
            return value
        if value not in self.made:
            if node.kind == "np::compress":
                self.made[value] = node.inputs[0]
            else:
                inputs = [self._at_all(one) for one in node.inputs]
                type_ = value.type
                assert isinstance(type_, TensorType)
                at_all = TensorType(type_.dtype, self.dims)
                self.made[value] = self._emit(node.kind, inputs, at_all, node.attributes)
        return self.made[value]

    def _emit(
        self,
        kind: str,
        inputs: Sequence[Value],
        type_: Type,
        attributes: dict[str, object] | None = None,
    ) -> Value:
        node = self.update.insert_before(kind, inputs, attributes, outputs=(type_,))
        node.origin = self.update.origin
        return node.output


def _dims(value: Value) -> tuple[Dim, ...] | None:
    return value.type.dims if isinstance(value.type, TensorType) else None


def _element_type(value: Value) -> TensorType:
    type_ = value.type
    assert isinstance(type_, TensorType)
    return TensorType(type_.dtype, (), scalar=True)


def _is_scalar(type_: Type) -> bool:
    return not isinstance(type_, TensorType) or type_.scalar
