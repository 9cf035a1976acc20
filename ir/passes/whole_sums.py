"""Sums and means of small whole numbers as floats: sums of whole numbers."""

from __future__ import annotations

from math import prod

import numpy as np

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops import is_elementwise
from jitcore.ir.shapes import known_dims
from jitcore.ir.types import INT, TensorType, scalar_type

__all__ = ["sum_whole_numbers"]

_MOST_BITS = 16
"""Of these numbers 2**37 have a sum that float64 holds, which is then the same in any order."""


def sum_whole_numbers(graph: Graph) -> bool:
    """Convert the sum in place of its terms, where float64 would hold that of any array.

    Before::

        graph(%x : Bool[n]):
          %0 : Float64[n] = np::cast[dtype=dtype("float64")](%x)
          %1 : Float64 = np::mean[axis=(0,), keepdims=False](%0)
          return (%1)

    After::

        graph(%x : Bool[n]):
          %0 : Float64[n] = np::cast[dtype=dtype("float64")](%x)
          %2 : Int64[n] = np::cast[dtype=dtype("int64")](%x)
          %3 : Int64 = np::sum[axis=(0,), keepdims=False](%2)
          %4 : Float64 = np::cast[dtype=dtype("float64")](%3)
          %5 : Float64 = prim::Constant[value=np.float64(1.0)]()
          %6 : int = prim::size[dim=0](%x)
          %7 : Float64 = np::cast[dtype=dtype("float64")](%6)
          %8 : Float64 = np::multiply(%5, %7)
          %9 : Float64 = np::divide(%4, %8)
          return (%9)

    Whole numbers are added up in any order, and without compensation: the share of the elements
    above a bound takes half to a third of the time.
    """
    kinds = ("np::sum", "np::mean")
    found = [node for kind in kinds for node in graph.find_all_nodes(kind) if _is_of_whole(node)]
    if not found:
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    kept = [node for node in found if _terms_stay(analysis, node)]
    for node in kept:
        _rewrite(node)
    return bool(kept)


def _terms_stay(analysis: AliasAnalysis, node: Node) -> bool:
    """Whether nothing writes to the terms, nor to what was made of them, before they are added."""
    made = node.inputs[0].node
    assert made is not None
    return not analysis.is_written_between([made.inputs[0], made.output], made, node)


def _is_of_whole(node: Node) -> bool:
    """Whether a reduction adds up small whole numbers that were made float64."""
    made = node.inputs[0].node
    if made is None or made.kind != "np::cast" or made.attributes["dtype"] != np.float64:
        return False
    type_ = made.inputs[0].type
    if not isinstance(type_, TensorType) or type_.dtype is None or "initial" in node.attributes:
        return False
    is_small = type_.dtype.kind in "biu" and 8 * type_.dtype.itemsize <= _MOST_BITS
    return is_small and (node.kind == "np::sum" or _same_extents(made.inputs[0]) is not None)


def _rewrite(node: Node) -> None:
    log.update("whole_sums", lambda: f"add up whole numbers in {node!r}")
    made, type_ = node.inputs[0].node, node.output.type
    assert made is not None and isinstance(type_, TensorType)
    (terms,) = made.inputs
    whole = TensorType(np.dtype(np.int64), type_.dims, type_.scalar)
    total = node.value_before("np::sum", [_cast(node, terms, "int64")], whole, node.attributes)
    result = _cast(node, total, "float64")
    if node.kind == "np::mean":
        result = node.value_before("np::divide", [result, _count(node, terms)], type_)
    node.output.replace_all_uses_with(result)
    node.destroy()


def _cast(node: Node, value: Value, name: str) -> Value:
    """An array, a scalar or an int in another dtype."""
    type_, dtype = value.type, np.dtype(name)
    made = scalar_type(dtype)
    if isinstance(type_, TensorType):
        made = TensorType(dtype, type_.dims, type_.scalar)
    return node.value_before("np::cast", [value], made, {"dtype": dtype})


def _count(node: Node, terms: Value) -> Value:
    """How many elements a mean is of."""
    type_, source = scalar_type(np.float64), _same_extents(terms)
    assert source is not None and isinstance(terms.type, TensorType) and terms.type.dims is not None
    extents = [(axis, terms.type.dims[axis]) for axis in node.attributes["axis"]]
    known = prod(extent for _, extent in extents if isinstance(extent, int))
    value = {"value": np.float64(known)}
    count = node.value_before("prim::Constant", [], type_, value)
    for axis in (axis for axis, extent in extents if not isinstance(extent, int)):
        size = node.value_before("prim::size", [source], INT, {"dim": axis})
        count = node.value_before("np::multiply", [count, _cast(node, size, "float64")], type_)
    return count


def _same_extents(value: Value) -> Value | None:
    """An array of the same extents that is not computed from others."""
    found: Value | None = value
    while found is not None and found.node is not None and is_elementwise(found.node):
        operands = found.node.inputs
        found = next((one for one in operands if known_dims(one) == known_dims(value)), None)
    return found
