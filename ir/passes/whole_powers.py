"""Powers of arrays with small whole exponents: products."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.types import TensorType

__all__ = ["multiply_whole_powers"]

_EXPONENTS = range(3, 6)
"""For larger ones products lose more than four units in the last place: half of one for each of the
roundings, which the next ones may double."""


def multiply_whole_powers(graph: Graph) -> bool:
    """Multiply where the exponent is a small whole number that the program says.

    Before::

        graph(%x : Float64[n]):
          %0 : Float64 = prim::Constant[value=np.float64(5.0)]()
          %1 : Float64[n] = np::power(%x, %0)
          return (%1)

    After::

        graph(%x : Float64[n]):
          %0 : Float64 = prim::Constant[value=np.float64(5.0)]()
          %2 : Float64[n] = np::multiply(%x, %x)
          %3 : Float64[n] = np::multiply(%2, %2)
          %4 : Float64[n] = np::multiply(%3, %x)
          return (%4)

    NumPy calls ``pow``, which takes several times as long, and a hundred times as long for negative
    numbers.  Squares are multiplied by NumPy, too.  float16 is multiplied as float32, as NumPy
    computes its powers: for each of all numbers that gives NumPy's bits.
    """
    found = [node for node in graph.find_all_nodes("np::power") if _is_product(node)]
    for node in found:
        _multiply(node)
    return bool(found)


def _is_product(node: Node) -> bool:
    type_ = node.output.type
    if not isinstance(type_, TensorType) or not type_.dims or node.inputs[0].type != type_:
        return False
    dtype = type_.dtype
    is_computed = dtype is not None and dtype.name in ("float16", "float32", "float64")
    return is_computed and _exponent(node) in _EXPONENTS


def _exponent(node: Node) -> Any:
    """The exponent, where it is a constant number."""
    constant = node.inputs[1].constant
    return None if constant is None else constant.attributes["value"]


def _multiply(node: Node) -> None:
    log.update("whole_powers", lambda: f"multiply in place of {node!r}")
    (base, _), exponent, type_ = node.inputs, int(_exponent(node)), node.output.type
    assert isinstance(type_, TensorType)
    is_half = type_.dtype == np.float16
    if is_half:
        type_ = replace(type_, dtype=np.dtype(np.float32))
        base = _cast(node, base, type_)
    square = node.value_before("np::multiply", [base, base], type_)
    other = base if exponent == 3 else square
    result = node.value_before("np::multiply", [square, other], type_)
    if exponent == 5:
        result = node.value_before("np::multiply", [result, base], type_)
    if is_half:
        result = _cast(node, result, replace(type_, dtype=np.dtype(np.float16)))
    node.output.replace_all_uses_with(result)
    node.destroy()


def _cast(node: Node, value: Value, type_: TensorType) -> Value:
    return node.value_before("np::cast", [value], type_, {"dtype": type_.dtype})
