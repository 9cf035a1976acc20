"""The last of each running sum, product or extremum is a reduction: there is no array of all."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops import REDUCTIONS, SCANS, is_elementwise
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import BOOL, INT, NONE, TensorType

__all__ = ["reduce_to_last"]

_REDUCED = {
    "np::cumsum": "np::sum",
    "np::cumprod": "np::prod",
    "np::maximum_accumulate": "np::max",
    "np::minimum_accumulate": "np::min",
}


def reduce_to_last(graph: Graph) -> bool:
    """Reduce along an axis where all that is read of a scan is its last element.

    Before::

        graph(%x : Int64[n, 9], %y : Int64[n]):
          %0 : Int64[n, 9] = np::cumsum[axis=1](%x)
          %1 : Int64[n] = np::view[index=":, -1"](%0)
          %2 : Int64[n] = np::add(%1, %y)
          return (%2)

    After::

        graph(%x : Int64[n, 9], %y : Int64[n]):
          %3 : Int64[n] = np::sum[axis=(1,), keepdims=False](%x)
          %2 : Int64[n] = np::add(%3, %y)
          return (%2)

    So the last prices of many paths are no more work than the sums of their steps.  A view that is
    a result, or that is written to, stays: it shows the array that it lies in.
    """
    found = [node for node in graph.nodes() if node.kind in SCANS and _views(node)]
    if not found:
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    changed = False
    for node in found:
        views = _views(node)
        may_wait = not any(analysis.is_written_between(node.inputs, node, one) for one in views)
        if not may_wait or analysis.has_writers(node.output):
            continue
        for view in views:
            _Last(node, view).rewrite()
        node.destroy()
        changed = True
    return changed


def _views(scan: Node) -> list[Node]:
    """The views of a scan's last elements, where nothing else of it is read; else none."""
    type_ = scan.output.type
    if not isinstance(type_, TensorType) or type_.dtype is None or type_.dims is None:
        return []
    if type_.dtype.kind not in "iuf" or type_.dtype.name == "float16":
        return []
    users = [use.user for use in scan.output.uses]
    views = [one for one in users if isinstance(one, Node) and _is_last(one, scan)]
    return views if len(views) == len(users) else []


def _is_last(view: Node, scan: Node) -> bool:
    """Whether a node takes the last elements along the axis of a scan, to compute with them."""
    if view.kind != "np::view" or view.block is not scan.block:
        return False
    dims = dims_of(scan.output)
    index = [":"] * len(dims)
    index[scan.attributes["axis"]] = "-1"
    if view.attributes["index"] != ", ".join(index) or dims[scan.attributes["axis"]] == 0:
        return False
    return all(
        isinstance(use.user, Node) and _computes(use.user, len(dims)) for use in view.output.uses
    )


def _computes(user: Node, rank: int) -> bool:
    if rank == 1:
        return user.kind == "np::item"
    return user.kind in REDUCTIONS or (is_elementwise(user) and bool(dims_of(user.output)))


class _Last:
    """What gives the last elements of a scan in the place of a view of them."""

    def __init__(self, scan: Node, view: Node) -> None:
        (self.terms,) = scan.inputs
        self.scan = scan
        self.view = view
        self.axis: int = scan.attributes["axis"]
        type_, self.dims = scan.output.type, dims_of(view.output)
        assert isinstance(type_, TensorType) and type_.dtype is not None
        self.dtype = type_.dtype

    def rewrite(self) -> None:
        log.update("last_of_scans", lambda: f"reduce to the last element of {self.scan!r}")
        self.require_some()
        total = self.reduced(_REDUCED[self.scan.kind], self.terms, self.dtype)
        if self.scan.kind == "np::cumsum" and self.dtype.kind == "f":
            total = self.with_sign(total)
        self.replace(total)

    def require_some(self) -> None:
        """Raise NumPy's error where there is no last element."""
        if isinstance(dims_of(self.terms)[self.axis], int):
            return
        size = self.view.value_before("prim::size", [self.terms], INT, {"dim": self.axis})
        none = self.view.value_before("prim::Constant", [], INT, {"value": 0})
        some = self.view.value_before("prim::gt", [size, none], BOOL)
        message = f"index -1 is out of bounds for axis {self.axis} with size 0"
        error = {"exception": "IndexError", "message": message}
        self.view.value_before("prim::require", [some], NONE, error)

    def with_sign(self, total: Value) -> Value:
        """A running sum is -0.0 where all elements are; a sum begins with 0.0."""
        zero = {"value": self.dtype.type(0)}
        nothing = self.view.value_before(
            "prim::Constant", [], TensorType(self.dtype, (), True), zero
        )
        negative = self.view.value_before("np::signbit", [self.terms], _like(self.terms, "bool"))
        all_negative = self.reduced("np::all", negative, "bool")
        is_zero = self.view.value_before("np::equal", [total, nothing], _like(total, "bool"))
        both = self.view.value_before(
            "np::logical_and", [is_zero, all_negative], _like(total, "bool")
        )
        other = self.view.value_before("np::negative", [total], total.type)
        result = TensorType(self.dtype, self.dims)
        return self.view.value_before("np::where", [both, other, total], result)

    def reduced(self, kind: str, value: Value, dtype: Any) -> Value:
        attributes = {"axis": (self.axis,), "keepdims": False}
        type_ = _like(value, dtype)
        made = TensorType(type_.dtype, self.dims, not self.dims)
        return self.view.value_before(kind, [value], made, attributes)

    def replace(self, total: Value) -> None:
        type_ = total.type
        assert isinstance(type_, TensorType)
        if self.dims or not type_.scalar:
            self.view.output.replace_all_uses_with(total)
        else:
            for use in list(self.view.output.uses):
                assert isinstance(use.user, Node)
                use.user.output.replace_all_uses_with(total)
                use.user.destroy()
        self.view.destroy()


def _like(value: Value, dtype: Any) -> TensorType:
    type_ = value.type
    assert isinstance(type_, TensorType)
    return TensorType(np.dtype(dtype), type_.dims, type_.scalar)
