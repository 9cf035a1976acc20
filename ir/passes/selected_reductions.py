"""Reductions of selected elements to a number, over all elements.

What changes nothing stands for the elements that are not selected: 0 in a sum, the least value in a
maximum.  A variance is the mean of the squares of the selected deviations, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from math import prod
from typing import Any

import numpy as np

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops.partial_reductions import extreme_identity
from jitcore.ir.passes.selection import CHEAP, Selection, element_type, is_scalar
from jitcore.ir.shapes import known_dims
from jitcore.ir.types import BOOL, NONE, TensorType

__all__ = ["MOST_IN_ORDER", "SelectedReduction", "reductions_of_selected", "replaced_together"]

MOST_IN_ORDER = 128
"""So many float64 numbers are added up in NumPy's order."""

_COUNT = TensorType(np.dtype(np.intp), (), scalar=True)

_AVERAGES = ("np::mean", "np::var", "np::std")
_EXTREMA = {"np::max": "maximum", "np::min": "minimum"}
_JOINED = {"np::sum": 0, "np::count_nonzero": 0, "np::any": 0, "np::all": 1}
"""What changes nothing in reductions that may have no elements."""

_KINDS = (*_JOINED, *_EXTREMA, *_AVERAGES)


def reductions_of_selected(graph: Graph) -> list[tuple[Node, Node]]:
    """Reductions of expressions of selected elements, each with a selection."""
    return [
        (node, selection)
        for kind in _KINDS
        for node in graph.find_all_nodes(kind)
        if (selection := _first_selection(node)) is not None
    ]


def replaced_together(reductions: Iterable[SelectedReduction]) -> list[SelectedReduction]:
    """Those that are possible, and leave nobody who reads what is selected."""
    left = [one for one in reductions if one.is_possible()]
    while True:
        nodes = {one.user for one in left}
        kept = [one for one in left if one.is_replaced_with(nodes)]
        if len(kept) == len(left):
            return left
        left = kept


class SelectedReduction(Selection):
    """One reduction of elements under a mask to a number.

    Parameters
    ----------
    analysis : AliasAnalysis
        Of the graph before any change.
    reduction : Node
    selection : Node
        The ``np::compress`` that its operand is computed from.
    """

    def __init__(self, analysis: AliasAnalysis, reduction: Node, selection: Node) -> None:
        super().__init__(analysis, reduction, *selection.inputs)
        (self.operand,) = reduction.inputs

    def is_possible(self) -> bool:
        """Whether all is computed from one selection."""
        if self.dims is None or known_dims(self.mask) != self.dims or not _is_plain(self.user):
            return False
        return not self._is_in_order() and self.is_selected(self.operand)

    def is_replaced_with(self, reductions: Set[Node]) -> bool:
        """Whether nobody reads what is selected any more when some reductions are replaced."""
        uses = [use for one in self.tree for use in one.output.uses]
        while uses:
            user = uses.pop().user
            if user in reductions:
                continue
            if not isinstance(user, Node) or user.kind not in CHEAP or user.block is not self.block:
                return False
            uses += user.output.uses
        return True

    def _is_in_order(self) -> bool:
        """Whether NumPy's order of additions is kept, which goes by those that are selected."""
        is_selection = self.operand.node is not None and self.operand.node.kind == "np::compress"
        is_float64 = element_type(self.operand).dtype == np.float64
        adds = self.user.kind not in _EXTREMA
        return is_selection and is_float64 and adds and self._is_short()

    def _is_short(self) -> bool:
        extents = [extent for extent in self.dims or () if isinstance(extent, int)]
        return len(extents) == len(self.dims or ()) and prod(extents) <= MOST_IN_ORDER

    def rewrite(self) -> None:
        """Reduce all elements."""
        log.update("selected", lambda: f"compute {self.user!r} at all elements")
        kind, values = self.user.kind, self.at_all(self.operand)
        if kind in _EXTREMA:
            result = self._extremum(values)
        elif kind in _AVERAGES:
            result = self._average(values)
        else:
            result = self._reduced(kind, values, _JOINED[kind])
        self.user.output.replace_all_uses_with(result)
        self.remove([self.user])

    def _extremum(self, values: Value) -> Value:
        """The greatest or least one; NumPy's error where none is selected."""
        kind, name = self.user.kind, self.user.kind.removeprefix("np::")
        dtype = element_type(self.operand).dtype
        assert dtype is not None
        identity = extreme_identity(name, dtype)
        found = self._reduced(kind, values, identity, initial=identity)
        some = self._node("np::greater", [self._count(), self._number(np.intp, 0)], np.bool_)
        is_some = self.user.value_before("prim::bool", [some], BOOL)
        message = f"zero-size array to reduction operation {_EXTREMA[kind]} which has no identity"
        error = {"exception": "ValueError", "message": message}
        self.user.value_before("prim::require", [is_some], NONE, error)
        return found

    def _average(self, values: Value) -> Value:
        """The mean, or how far elements are from it."""
        dtype = element_type(self.operand).dtype
        count = self._node("np::cast", [self._count()], dtype, {"dtype": dtype})
        total = self._reduced("np::sum", values, 0)
        mean = self._node("np::divide", [total, count], dtype)
        if self.user.kind == "np::mean":
            return mean
        deviations = self.user.value_before("np::subtract", [values, mean], values.type)
        squares = self.user.value_before("np::square", [deviations], values.type)
        ddof = self._number(dtype, self.user.attributes.get("ddof", 0))
        freedom = self._node("np::subtract", [count, ddof], dtype)
        freedom = self._node("np::maximum", [freedom, self._number(dtype, 0)], dtype)
        variance = self._node("np::divide", [self._reduced("np::sum", squares, 0), freedom], dtype)
        if self.user.kind == "np::std":
            return self._node("np::sqrt", [variance], dtype)
        return variance

    def _count(self) -> Value:
        """How many elements are selected."""
        return self.user.value_before("np::count_nonzero", [self.mask], _COUNT, self._everywhere())

    def _reduced(self, kind: str, values: Value, identity: Any, **attributes: Any) -> Value:
        """The reduction of values where they are selected."""
        type_ = element_type(values)
        assert type_.dtype is not None
        operands = [self.mask, values, self._number(type_.dtype, identity)]
        chosen = self.user.value_before("np::where", operands, TensorType(type_.dtype, self.dims))
        result = {"np::count_nonzero": np.intp, "np::any": np.bool_, "np::all": np.bool_}
        return self._node(
            kind, [chosen], result.get(kind, type_.dtype), self._everywhere() | attributes
        )

    def _everywhere(self) -> dict[str, Any]:
        assert self.dims is not None
        return {"axis": tuple(range(len(self.dims))), "keepdims": False}

    def _number(self, dtype: Any, value: Any) -> Value:
        return self._node("prim::Constant", [], dtype, {"value": np.dtype(dtype).type(value)})

    def _node(
        self, kind: str, inputs: list[Value], dtype: Any, attributes: dict[str, Any] | None = None
    ) -> Value:
        """A number that a new node gives."""
        type_ = TensorType(np.dtype(dtype), (), scalar=True)
        return self.user.value_before(kind, inputs, type_, attributes or {})


def _first_selection(reduction: Node) -> Node | None:
    """A selection that the operand of a reduction is computed from."""
    node = reduction.inputs[0].node
    while node is not None and node.kind in CHEAP and node.block is reduction.block:
        node = next((one.node for one in node.inputs if not is_scalar(one.type)), None)
    return node if node is not None and node.kind == "np::compress" else None


def _is_plain(node: Node) -> bool:
    """Whether a node takes the only axis away, and has one number for a result."""
    known = {"axis": (0,), "keepdims": False}
    attributes = {name: value for name, value in node.attributes.items() if name != "ddof"}
    if node.kind not in _KINDS or attributes != known or not is_scalar(node.output.type):
        return False
    dtype = element_type(node.inputs[0]).dtype
    is_of_pairs = dtype is not None and dtype.kind == "c"
    return not is_of_pairs or node.kind in _JOINED
