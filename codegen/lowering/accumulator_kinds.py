"""Which accumulator a reduction has."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.codegen.lowering.accumulators import (
    Accumulator,
    All,
    Any_,
    ComplexProduct,
    Count,
    IntegerSum,
    Maximum,
    Minimum,
    Product,
)
from jitcore.codegen.lowering.float_sums import ComplexSum, FloatSum
from jitcore.codegen.lowering.positions import GreatestPosition, Position
from jitcore.codegen.lowering.state import Lowering

__all__ = ["accumulator"]

_ACCUMULATORS: dict[str, type[Accumulator]] = {
    "np::min": Minimum,
    "np::max": Maximum,
    "np::any": Any_,
    "np::all": All,
    "np::count_nonzero": Count,
    "np::argmin": Position,
    "np::argmax": GreatestPosition,
}
_BY_KIND: dict[str, dict[str, type[Accumulator]]] = {
    "np::sum": {"f": FloatSum, "c": ComplexSum, "": IntegerSum},
    "np::prod": {"c": ComplexProduct, "": Product},
}


def accumulator(lowering: Lowering, kind: str, dtype: np.dtype[Any]) -> Accumulator:
    """The accumulator of a reduction of elements of this dtype."""
    if kind in _BY_KIND:
        found = _BY_KIND[kind]
        return found.get(dtype.kind, found[""])(lowering, dtype)
    return _ACCUMULATORS[kind](lowering, dtype)
