"""Comparisons of whole arrays: isclose, allclose, array_equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, common_dtype, tensor
from jitcore.ir.ops.shaping import array_operand, row
from jitcore.ir.types import FLOAT, INT, TensorType

__all__ = ["OPS"]


def _are_close(x: Any, y: Any, relative: Any, absolute: Any, equal_nan: Any) -> Any:
    close = (abs(x - y) <= absolute + relative * abs(y)) & np.isfinite(y) | (x == y)
    if equal_nan:
        close = close | np.isnan(x) & np.isnan(y)
    return close


def _all_are_close(x: Any, y: Any, relative: Any, absolute: Any, equal_nan: Any) -> Any:
    return bool(np.all(np.isclose(x, y, relative, absolute, equal_nan)))


def _are_equal(x: Any, y: Any) -> Any:
    if x.shape != y.shape:
        return False
    return bool((x == y).all())


def _are_equal_with_nan(x: Any, y: Any) -> Any:
    if x.shape != y.shape:
        return False
    return bool(((x == y) | np.isnan(x) & np.isnan(y)).all())


def _tolerances(call: Call) -> list[Any]:
    found: list[Any] = []
    for name, default in (("rtol", 1e-05), ("atol", 1e-08)):
        value = call.bound.get(name, default)
        if isinstance(value, Value) and value.type not in (INT, FLOAT):
            raise Untypable(f"np.isclose with an {name} that is no number")
        found.append(value)
    return [*found, bool(call.static("equal_nan"))]


def _isclose_rule(b: Builder, call: Call) -> Value:
    x, y = call.value("a"), call.value("b")
    if not isinstance(x.type, TensorType) and not isinstance(y.type, TensorType):
        raise Untypable("np.isclose of Python numbers")
    if isinstance(y.type, TensorType):
        dtype = tensor(y).dtype
        assert dtype is not None
        y = cast_to(b, y, common_dtype(dtype, 1.0))
    elif y.type == INT:
        y = b.op("prim::float", y)
    return b.define(_are_close, x, y, *_tolerances(call))


def _allclose_rule(b: Builder, call: Call) -> Value:
    return b.define(_all_are_close, call.value("a"), call.value("b"), *_tolerances(call))


def _array_equal_rule(b: Builder, call: Call) -> Value:
    x, y = (array_operand(call.value(name)) for name in ("a1", "a2"))
    exact = not call.static("equal_nan")
    return b.define(_are_equal if exact else _are_equal_with_nan, x, y)


_CLOSE = "a, b, rtol=1e-05, atol=1e-08, equal_nan=False"

OPS: tuple[Op, ...] = (
    row("isclose", np.isclose, _isclose_rule, _CLOSE, "Where two arrays are nearly equal."),
    row("allclose", np.allclose, _allclose_rule, _CLOSE, "Whether two arrays are nearly equal."),
    row(
        "array_equal",
        np.array_equal,
        _array_equal_rule,
        "a1, a2, equal_nan=False",
        "Whether two arrays have one shape and equal elements.",
    ),
)
