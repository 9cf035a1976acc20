"""Reductions over the arrays in a list or a tuple: each array is joined to those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import require_one_shape
from jitcore.ir.ops.elementwise import cast_to, in_array
from jitcore.ir.ops.op import Builder, Call, Rule, common_dtype, tensor_dtype
from jitcore.ir.ops.partial_reductions import is_given
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import ListType, TensorType, TupleType

__all__ = ["of_sequences"]

_MOST = 64
"""As many arrays are joined one by one."""

_STEPS = {
    "sum": "np::add",
    "prod": "np::multiply",
    "mean": "np::add",
    "min": "np::minimum",
    "max": "np::maximum",
    "any": "np::logical_or",
    "all": "np::logical_and",
}


def of_sequences(name: str, rule: Rule) -> Rule:
    """A rule of a reduction that also takes a list or a tuple for the array NumPy makes of it.

    Where that is reduced along its first axis, and there are arrays in the list, no such array is
    made: NumPy goes from one row to the next then, and joins each to the result so far.
    """

    def reduced(b: Builder, call: Call) -> Value:
        arrays = _rows(b, call) if name in _STEPS else []
        if arrays:
            return _joined(b, name, arrays)
        return rule(b, replace(call, bound={**call.bound, "a": in_array(b, call.value("a"))}))

    return reduced


def _rows(b: Builder, call: Call) -> Sequence[Value]:
    """The arrays that are reduced; none where the array of them is."""
    value = call.value("a")
    if not isinstance(value.type, TupleType | ListType):
        return []
    rows = b.elements(value)
    if not 0 < len(rows) <= _MOST or not all(map(_is_row, rows)):
        return []
    is_whole = not any(is_given(call, name) for name in ("initial", "where"))
    asked = call.static("dtype") if "dtype" in call.bound else None
    if not is_whole or asked is not None or call.static("keepdims") is not False:
        return []
    axis = call.static("axis")
    is_first = not isinstance(axis, bool) and axis in (0, (0,), -1 - len(dims_of(rows[0])))
    return rows if is_first else []


def _is_row(value: Value) -> bool:
    """Whether a value is an array of at least one axis, with numbers that rows are joined in."""
    if not isinstance(value.type, TensorType) or not value.type.dims:
        return False
    dtype = value.type.dtype
    return dtype is not None and dtype.kind in "biuf" and dtype != np.float16


def _joined(b: Builder, name: str, arrays: Sequence[Value]) -> Value:
    require_one_shape(b, (len(arrays),), arrays)
    dtype = reduce(common_dtype, map(tensor_dtype, arrays))
    if name in ("any", "all"):
        dtype = np.dtype(bool)
    elif name in ("sum", "prod", "mean"):
        dtype = getattr(np, name)(np.ones(1, dtype)).dtype
    rows = [cast_to(b, one, dtype) for one in arrays]
    found = reduce(lambda x, y: b.op(_STEPS[name], x, y), rows)
    if name in ("sum", "mean") and dtype.kind == "f":
        # NumPy begins with 0: the sum of -0.0 and -0.0 is 0.0.
        found = b.op("np::add", found, b.constant(dtype.type(0)))
    if name == "mean":
        return b.op("np::divide", found, b.constant(dtype.type(len(rows))))
    return b.op("np::copy", found) if len(rows) == 1 and found is arrays[0] else found
