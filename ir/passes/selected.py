"""Selected elements, where they are: updates and sums under a mask without compressing anything."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.shapes import known_dims
from jitcore.ir.types import TensorType, Type

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

MOST_IN_ORDER = 128
"""So many float64 numbers are added up in NumPy's order."""


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
    A single number for all selected elements is chosen in the same way.  In a sum or a mean, 0
    stands for the elements that are not selected.
    """
    updates = graph.find_all_nodes("np::put_mask")
    totals = [
        (node, selection)
        for kind in _TOTALS
        for node in graph.find_all_nodes(kind)
        if (selection := _first_selection(node)) is not None
    ]
    if not updates and not totals:
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    found: list[_Update | _Total] = [
        *(_Update(analysis, node) for node in updates),
        *(_Total(analysis, node, selection) for node, selection in totals),
    ]
    # The analysis knows the nodes there are now, so all is planned before anything is changed.
    possible = [one for one in found if one.is_possible()]
    for one in possible:
        one.rewrite()
    return bool(possible)


class _Selection:
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
            if mask is not self.mask or known_dims(base) != self.dims or self._is_stale(node):
                return False
        elif (
            node.kind not in _CHEAP
            or len(known_dims(value) or ()) != 1
            or not all(_is_scalar(one.type) or self._is_selected(one) for one in node.inputs)
        ):
            return False
        self.tree.append(node)
        return True

    def _is_stale(self, node: Node) -> bool:
        """Whether something between a selection and its user writes what was selected from."""
        start = self.block.nodes.index(node) + 1
        between = self.block.nodes[start : self.block.nodes.index(self.user)]
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
                self.made[value] = self.user.value_before(
                    node.kind, inputs, at_all, node.attributes
                )
        return self.made[value]

    def _remove(self, nodes: Iterable[Node | None]) -> None:
        """Remove nodes, and what nobody reads any more of the tree."""
        for node in nodes:
            if node is not None:
                node.destroy()
        for node in reversed(self.tree):
            if not node.output.uses:
                node.destroy()


class _Update(_Selection):
    """One write to the elements under a mask."""

    def __init__(self, analysis: AliasAnalysis, update: Node) -> None:
        self.target, mask, self.value = update.inputs
        super().__init__(analysis, update, self.target, mask)

    def is_possible(self) -> bool:
        """Whether the value is computed from elements of the same places."""
        if self.dims is None or known_dims(self.mask) != self.dims:
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
        users = [use.user for use in self.value.uses if use.user not in (store, self.user)]
        known = all(user in self.block.nodes[:position] for user in users)
        return store if known else None

    def rewrite(self) -> None:
        """Write all elements, those that are not selected as they are."""
        log.update("selected", lambda: f"compute {self.user!r} at all elements")
        operands = [self.mask, self._at_all(self.value), self.target]
        chosen = self.user.value_before("np::where", operands, self.target.type)
        self.user.value_before("np::store", [self.target, chosen], self.user.output.type)
        self._remove([self.user, self.store])


class _Total(_Selection):
    """One sum or mean of elements under a mask."""

    def __init__(self, analysis: AliasAnalysis, total: Node, selection: Node) -> None:
        super().__init__(analysis, total, *selection.inputs)
        (self.operand,) = total.inputs

    def is_possible(self) -> bool:
        """Whether all is computed from one selection, and only added up."""
        if (
            self.dims is None
            or known_dims(self.mask) != self.dims
            or not _is_plain_total(self.user)
        ):
            return False
        if self._is_in_order():
            return False
        if not self._is_selected(self.operand):
            return False
        return all(self._is_added_up(use.user) for one in self.tree for use in one.output.uses)

    def _is_in_order(self) -> bool:
        """Whether NumPy's order of additions is kept, which goes by those that are selected."""
        is_selection = self.operand.node is not None and self.operand.node.kind == "np::compress"
        size = self.dims[0] if self.dims else None
        is_float64 = _element_type(self.operand).dtype == np.float64
        return is_selection and is_float64 and isinstance(size, int) and size <= MOST_IN_ORDER

    def _is_added_up(self, user: Node | Block) -> bool:
        """Whether a user of the tree goes away together with it."""
        return user in self.tree or (isinstance(user, Node) and user.kind in _TOTALS)

    def rewrite(self) -> None:
        """Add up all elements, with 0 for those that are not selected."""
        log.update("selected", lambda: f"compute {self.user!r} at all elements")
        type_ = self.operand.type
        assert isinstance(type_, TensorType) and type_.dtype is not None and self.dims is not None
        dtype = type_.dtype
        scalar = TensorType(dtype, (), scalar=True)
        zero = self.user.value_before("prim::Constant", [], scalar, {"value": dtype.type(0)})
        at_all = [self.mask, self._at_all(self.operand), zero]
        chosen = self.user.value_before("np::where", at_all, TensorType(dtype, self.dims))
        everywhere = {"axis": tuple(range(len(self.dims))), "keepdims": False}
        total = self.user.value_before("np::sum", [chosen], scalar, everywhere)
        if self.user.kind == "np::mean":
            places = TensorType(np.dtype(np.intp), (), scalar=True)
            count = self.user.value_before(
                "np::count_nonzero", [self.mask], places, dict(everywhere)
            )
            number = self.user.value_before("np::cast", [count], scalar, {"dtype": dtype})
            total = self.user.value_before("np::divide", [total, number], scalar)
        self.user.output.replace_all_uses_with(total)
        self._remove([self.user])


_TOTALS = ("np::sum", "np::mean")


def _first_selection(total: Node) -> Node | None:
    """A selection that the operand of a sum is computed from."""
    node = total.inputs[0].node
    while node is not None and node.kind in _CHEAP and node.block is total.block:
        node = next((one.node for one in node.inputs if not _is_scalar(one.type)), None)
    return node if node is not None and node.kind == "np::compress" else None


def _is_plain_total(node: Node) -> bool:
    """Whether a sum or a mean takes the only axis away, and has one number for a result."""
    type_ = node.output.type
    is_complex = (
        isinstance(type_, TensorType) and type_.dtype is not None and type_.dtype.kind == "c"
    )
    known = {"axis": (0,), "keepdims": False}
    is_mean_of_pairs = node.kind == "np::mean" and is_complex
    return node.attributes == known and _is_scalar(type_) and not is_mean_of_pairs


def _element_type(value: Value) -> TensorType:
    type_ = value.type
    assert isinstance(type_, TensorType)
    return TensorType(type_.dtype, (), scalar=True)


def _is_scalar(type_: Type) -> bool:
    return not isinstance(type_, TensorType) or type_.scalar
