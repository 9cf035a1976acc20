"""The arguments ``initial`` and ``where`` of reductions.

What ``where`` leaves out is replaced by what changes nothing, and ``initial`` is one more element.
A node ``np::max`` with the attribute ``initial``, which is then the least value of its dtype, may
reduce nothing at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Untypable, tensor
from jitcore.ir.types import BOOL, INT, TensorType, is_number

__all__ = ["chosen", "extreme_identity", "initial_value", "is_given", "mask_of"]


def is_given(call: Call, name: str) -> bool:
    """Whether a call says more than NumPy's default."""
    found = call.bound.get(name, np._NoValue)
    if isinstance(found, Value):
        found = found.constant_value
    return found is not np._NoValue


def extreme_identity(name: str, dtype: np.dtype[Any]) -> Any:
    """What changes no ``max`` (or ``min``) of this dtype: its least (or greatest) value."""
    if dtype.kind == "b":
        return name == "min"
    if dtype.kind == "f":
        return np.inf if name == "min" else -np.inf
    limits = np.iinfo(dtype)
    return int(limits.max if name == "min" else limits.min)


def initial_value(b: Builder, call: Call, dtype: np.dtype[Any]) -> Value | None:
    """What a reduction in this dtype begins with, or None."""
    if not is_given(call, "initial"):
        return None
    value = call.value("initial")
    if not is_number(value.type) or dtype.kind not in "iuf":
        raise Untypable(f"a reduction in {dtype} that begins with {value.type}")
    if value.constant is not None:
        return b.constant(_converted(value.constant.attributes["value"], dtype))
    if dtype not in (np.int64, np.float64) or (dtype == np.int64 and value.type not in (INT, BOOL)):
        raise Untypable(f"a reduction in {dtype} that begins with a number not known before")
    return b.op("np::cast", value, dtype=dtype)


def _converted(number: Any, dtype: np.dtype[Any]) -> Any:
    """A number of Python as NumPy makes it one of this dtype."""
    if dtype.kind == "f" and not isinstance(number, complex):
        # NumPy warns of a number that is too large from the caller's line; kernels warn of nothing.
        with np.errstate(over="ignore"):
            return dtype.type(number)
    if isinstance(number, int) and np.iinfo(dtype).min <= number <= np.iinfo(dtype).max:
        return dtype.type(number)
    raise Untypable(f"a reduction in {dtype} that begins with {number!r}")


def mask_of(b: Builder, call: Call, x: Value) -> Value | None:
    """Which elements a reduction of ``x`` takes, an array of its shape, or None for all."""
    if not is_given(call, "where"):
        return None
    value = call.value("where")
    if value.constant_value is True:
        return None
    type_, dims = value.type, tensor(x).dims or ()
    if not isinstance(type_, TensorType) or type_.dtype != np.bool_ or not type_.dims or not dims:
        raise Untypable("where= that is no array of bools")
    own = type_.dims
    if len(own) > len(dims) or any(
        one not in (1, other) for one, other in zip(reversed(own), reversed(dims), strict=False)
    ):
        raise Untypable("where= of another shape")
    if own == dims:
        return value
    extents = [b.size(x, axis) for axis in range(len(dims))]
    return b.op("np::broadcast_to", value, *extents)


def chosen(b: Builder, call: Call, x: Value, fill: Any) -> Value:
    """The operand with ``fill`` in the place of what ``where`` leaves out."""
    mask = mask_of(b, call, x)
    return x if mask is None else b.op("np::where", mask, x, fill)
