"""Functions that NumPy itself runs, whose results have types that are known.

They have no native form, because NumPy's own is as fast as it gets (sorting); what follows them is
compiled all the same.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.factorizations import matrix_dtype
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand, checked_axis, rank_of, row
from jitcore.ir.shapes import BroadcastError, normalize_axes
from jitcore.ir.types import FLOAT, INT, SUPPORTED, Dim, TensorType, TupleType

__all__ = ["OPS"]


def _dtype(value: Value) -> np.dtype[Any]:
    dtype = tensor(array_operand(value)).dtype
    if dtype is None or dtype.char not in SUPPORTED or not dtype.isnative:
        raise Untypable(f"dtype {dtype} is not compiled")
    return dtype


def _sorted_rule(kind: str) -> Rule:
    """``sort`` and ``argsort``."""

    def rule(b: Builder, call: Call) -> Value:
        x, axis, order = call.value("a"), call.static("axis"), call.static("kind")
        dtype = np.dtype(np.intp) if kind == "np::argsort" else _dtype(x)
        dims = tensor(array_operand(x)).dims or ()
        if axis is None:
            size: Dim = 1
            for dim in dims:
                both = isinstance(size, int) and isinstance(dim, int)
                size = size * dim if both else b.fresh_dim(("size", dims))  # type: ignore[operator]
            dims = (size,)
        else:
            axis = checked_axis(axis, rank_of(x))
        attributes = {"axis": axis} if order is None else {"axis": axis, "kind": order}
        return b.emit(kind, [x], attributes, TensorType(dtype, dims))

    return rule


def _quantile_rule(kind: str, function: Any) -> Rule:
    """``median``, and ``quantile`` and ``percentile`` of one number."""

    def rule(b: Builder, call: Call) -> Value:
        x, axis, keepdims = call.value("a"), call.static("axis"), bool(call.static("keepdims"))
        dtype, dims = _dtype(x), tensor(x).dims or ()
        if dtype.kind in "bc" or (axis is not None and not isinstance(axis, int | tuple)):
            raise Untypable(f"{kind} of {dtype}")
        inputs, more = [x], []
        if "q" in call.bound:
            if call.value("q").type not in (INT, FLOAT):
                raise Untypable(f"{kind} at several places")
            inputs, more = [x, call.value("q")], [0.5]
        try:
            axes = normalize_axes(axis, len(dims))
        except BroadcastError as error:
            raise Untypable(str(error)) from None
        kept = [
            1 if one in axes else dim for one, dim in enumerate(dims) if keepdims or one not in axes
        ]
        result = function(np.zeros(1, dtype), *more).dtype
        type_ = TensorType(result, tuple(kept), not kept)
        return b.emit(kind, inputs, {"axis": axis, "keepdims": keepdims}, type_)

    return rule


def _unique_rule(b: Builder, call: Call) -> Value:
    x = call.value("ar")
    dtype, dims = _dtype(x), tensor(x).dims or ()
    count = (b.fresh_dim(),)
    more = {"return_index": count, "return_inverse": dims, "return_counts": count}
    asked = {name: True for name in more if call.static(name)}
    if "return_inverse" in asked and not dims:
        raise Untypable("the places of a single number in what np.unique gives")
    places = [TensorType(np.dtype(np.intp), more[name]) for name in asked]
    values = TensorType(dtype, count)
    return b.emit("np::unique", [x], asked, TupleType((values, *places)) if places else values)


def _determinant_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    dims = tensor(array_operand(x)).dims or ()
    if len(dims) < 2:
        raise Untypable("the determinant of something else than matrices")
    dtype = matrix_dtype(np.linalg.det, x)
    return b.emit("np::det", [x], {}, TensorType(dtype, dims[:-2], not dims[:-2]))


_SORT = "a, axis=-1, kind=None, order!=None, *, stable!=None"
_QUANTILE = (
    "a, q, axis=None, out!=None, overwrite_input!=False, method!='linear', keepdims=False, *, "
    "weights!=None"
)

_hosted_row = functools.partial(row, hosted=True)

OPS: tuple[Op, ...] = (
    _hosted_row("sort", np.sort, _sorted_rule("np::sort"), _SORT, "Sorted along an axis."),
    _hosted_row(
        "argsort",
        np.argsort,
        _sorted_rule("np::argsort"),
        _SORT,
        "The places of the elements in order.",
        methods={"argsort": "axis=-1, kind=None, order!=None, *, stable!=None"},
    ),
    _hosted_row(
        "median",
        np.median,
        _quantile_rule("np::median", np.median),
        "a, axis=None, out!=None, overwrite_input!=False, keepdims=False",
        "The middle of the sorted elements.",
    ),
    _hosted_row(
        "percentile",
        np.percentile,
        _quantile_rule("np::percentile", np.percentile),
        _QUANTILE,
        "What so many percent of the elements do not exceed.",
    ),
    _hosted_row(
        "quantile",
        np.quantile,
        _quantile_rule("np::quantile", np.quantile),
        _QUANTILE,
        "What such a part of the elements does not exceed.",
    ),
    _hosted_row(
        "unique",
        np.unique,
        _unique_rule,
        "ar, return_index=False, return_inverse=False, return_counts=False, axis!=None, *, "
        "equal_nan!=True, sorted!=True",
        "The different elements, sorted.",
    ),
    _hosted_row("det", np.linalg.det, _determinant_rule, "a", "The determinant of matrices."),
)
