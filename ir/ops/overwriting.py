"""Writes into all of an array: copyto, fill, putmask."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import check_scalar_fits
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand, rank_of, row
from jitcore.ir.types import BOOL, COMPLEX, FLOAT, INT, NONE, TensorType

__all__ = ["OPS", "goes_into"]


def goes_into(value: Value, dtype: np.dtype[Any]) -> bool:
    """Whether NumPy's rule of the same kind lets this be written."""
    if value.type == BOOL:
        return True
    if value.type == INT:
        return dtype.kind in "iufc" and (
            value.constant is None or dtype.kind in "fc" or _fits(value, dtype)
        )
    if value.type in (FLOAT, COMPLEX):
        return dtype.kind in ("fc" if value.type == FLOAT else "c")
    source = tensor(value).dtype
    return source is not None and np.can_cast(source, dtype, "same_kind")


def _fits(value: Value, dtype: np.dtype[Any]) -> bool:
    assert value.constant is not None
    number = value.constant.attributes["value"]
    return bool(np.iinfo(dtype).min <= number <= np.iinfo(dtype).max)


def _copyto_rule(b: Builder, call: Call) -> Value:
    target, value = array_operand(call.value("dst")), call.value("src")
    dtype = tensor(target).dtype
    assert dtype is not None
    if not goes_into(value, dtype):
        raise Untypable(f"a copy of {value.type} into {dtype}")
    if isinstance(value.type, TensorType) and rank_of(value) > rank_of(target):
        raise Untypable("a copy of more dimensions than there are")
    value = cast_to(b, value, dtype)
    where = call.bound.get("where", True)
    if isinstance(where, Value) and not _is_true(where):
        if not isinstance(where.type, TensorType) or where.type.dtype != np.dtype(bool):
            raise Untypable("np.copyto where something else than booleans hold")
        value = b.op("np::where", where, value, target)
    if rank_of(value) > rank_of(target):
        raise Untypable("a copy of more dimensions than there are")
    b.op("np::store", target, value)
    return b.constant(None, NONE)


def _is_true(value: Value) -> bool:
    return value.constant is not None and value.constant.attributes["value"] is True


def _fill_rule(b: Builder, call: Call) -> Value:
    target, value = array_operand(call.value("a")), call.value("value")
    dtype = tensor(target).dtype
    assert dtype is not None
    if isinstance(value.type, TensorType) and not value.type.scalar:
        raise Untypable("fill with an array")
    if not goes_into(value, dtype):
        raise Untypable(f"fill of {dtype} with {value.type}")
    check_scalar_fits(value, dtype)
    b.op("np::store", target, cast_to(b, value, dtype))
    return b.constant(None, NONE)


def _fill(x: Any, value: Any) -> None:
    x.fill(value)


def _putmask_rule(b: Builder, call: Call) -> Value:
    x, mask, values = (call.value(name) for name in ("a", "mask", "values"))
    is_number = values.type in (INT, FLOAT)
    if not is_number and tensor(values).dims not in ((), tensor(x).dims):
        raise Untypable("np.putmask of values of another shape")
    if not is_number and not _is_safe(values, x):
        raise Untypable("np.putmask of values of another dtype")
    if tensor(mask).dims != tensor(x).dims:
        raise Untypable("np.putmask with a mask of another shape")
    if tensor(mask).dtype != np.dtype(bool):
        mask = b.op("np::cast", mask, dtype=np.dtype(bool))
    return b.op("np::copyto", x, values, where=mask)


def _is_safe(values: Value, x: Value) -> bool:
    source, target = tensor(values).dtype, tensor(x).dtype
    return source is not None and target is not None and np.can_cast(source, target, "safe")


OPS: tuple[Op, ...] = (
    row(
        "copyto",
        np.copyto,
        _copyto_rule,
        "dst, src, casting!='same_kind', where=True",
        "Write to all of an array, or where a mask holds.",
        writes=(0,),
        pure=False,
    ),
    row(
        "fill",
        _fill,
        _fill_rule,
        "a, value",
        "The method ``fill``.",
        writes=(0,),
        pure=False,
        functions=(),
        methods={"fill": None},
    ),
    row(
        "putmask",
        np.putmask,
        _putmask_rule,
        "a, mask, values",
        "Write where a mask holds.",
        writes=(0,),
        pure=False,
    ),
)
