"""Averages, covariances and norms, reductions that skip NaN, and the reducing methods of ufuncs."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import as_array
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, common_dtype, tensor, tensor_dtype
from jitcore.ir.ops.shaping import array_operand, checked_axis, rank_of, row
from jitcore.ir.reference import require
from jitcore.ir.shapes import BroadcastError, normalize_axes
from jitcore.ir.types import ListType, TupleType

__all__ = ["OPS"]

_DOUBLE = np.dtype(np.float64)


# Averages ---------------------------------------------------------------------------------


def _weighted(a: Any, weights: Any, axis: Any, keepdims: Any) -> Any:
    scale = weights.sum(axis=axis, keepdims=keepdims)
    nonzero = np.all(scale != 0.0)
    require(nonzero, "ZeroDivisionError", "Weights sum to zero, can't be normalized")
    return (a * weights).sum(axis=axis, keepdims=keepdims) / scale


_SHAPES_DIFFER = "Axis must be specified when shapes of a and weights differ."
_INCONSISTENT = "Shape of weights must be consistent with shape of a along specified axis."


def normalized_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """The axes an argument means; Untypable where NumPy raises."""
    if not isinstance(axis, (int, tuple)):
        raise Untypable(f"axis {axis!r}")
    try:
        return normalize_axes(axis, rank)
    except BroadcastError as error:
        raise Untypable(str(error)) from None


def _average_rule(b: Builder, call: Call) -> Value:
    a, weights = as_array(b, call.value("a")), call.optional("weights")
    axis, keepdims = call.static("axis"), call.static("keepdims")
    keepdims = False if keepdims is np._NoValue else bool(keepdims)
    if axis is not None:
        normalized_axes(axis, rank_of(a))
    if call.static("returned"):
        raise Untypable("np.average that returns the sum of the weights")
    if weights is None:
        result = b.op("np::mean", a, axis=axis, keepdims=keepdims)
        for one in range(rank_of(result)):
            # NumPy finds out of how many elements each mean is.
            some = b.op("prim::gt", b.size(result, one), 0)
            message = "division by zero"
            b.op("prim::require", some, exception="ZeroDivisionError", message=message)
        return result
    weights = as_array(b, weights)
    wide = (_DOUBLE,) if tensor_dtype(a).kind in "iub" else ()
    dtype = common_dtype(tensor_dtype(a), tensor_dtype(weights), *wide)
    weights = _fitted(b, a, weights, axis)
    operands = (cast_to(b, one, dtype) for one in (a, weights))
    return b.define(_weighted, *operands, axis, keepdims)


def _fitted(b: Builder, a: Value, weights: Value, axis: Any) -> Value:
    """The weights with one axis for each of the array's."""
    if rank_of(a) == rank_of(weights):
        for one, (own, other) in enumerate(
            zip(tensor(a).dims or (), tensor(weights).dims or (), strict=True)
        ):
            if own != other:
                same = b.op("prim::eq", b.size(a, one), b.size(weights, one))
                error = ("TypeError", _SHAPES_DIFFER) if axis is None else _wrong_shape()
                b.op("prim::require", same, exception=error[0], message=error[1])
        return weights
    if rank_of(weights) != 1 or not isinstance(axis, int):
        raise Untypable("np.average with weights of another rank")
    axis = checked_axis(axis, rank_of(a))
    same = b.op("prim::eq", b.size(a, axis), b.size(weights, 0))
    exception, message = _wrong_shape()
    b.op("prim::require", same, exception=exception, message=message)
    index = ", ".join(":" if one == axis else "None" for one in range(rank_of(a)))
    return b.op("np::view", weights, index=index)


def _wrong_shape() -> tuple[str, str]:
    return "ValueError", _INCONSISTENT


# Covariances ------------------------------------------------------------------------------


def _covariances(variables: Any, ddof: Any) -> Any:
    deviations = variables - variables.mean(axis=1, keepdims=True)
    return (deviations @ deviations.T) * np.true_divide(1, variables.shape[1] - ddof)


def _correlations(variables: Any) -> Any:
    covariances = _covariances(variables, 1)
    deviations = np.sqrt(np.diagonal(covariances))
    return np.clip(covariances / deviations[:, None] / deviations[None, :], -1, 1)


def _cov_rule(b: Builder, call: Call) -> Value:
    ddof = call.static("ddof")
    if ddof is None:
        ddof = 0 if call.static("bias") else 1
    if not isinstance(ddof, int):
        raise Untypable(f"ddof={ddof!r}")
    return b.define(_covariances, _variables(b, call, "m", ddof), ddof)


def _corrcoef_rule(b: Builder, call: Call) -> Value:
    return b.define(_correlations, _variables(b, call, "x", 1))


def _variables(b: Builder, call: Call, name: str, ddof: int) -> Value:
    """The variables of `np.cov`, a row for each."""
    by_row = bool(call.static("rowvar"))
    first, other = as_array(b, call.value(name)), call.optional("y")
    operands = [first] if other is None else [first, as_array(b, other)]
    if any(tensor_dtype(one).kind not in "biuf" or rank_of(one) not in (1, 2) for one in operands):
        raise Untypable("covariances of anything but real vectors and matrices")
    dtype = common_dtype(*map(tensor_dtype, operands), _DOUBLE)
    rows = [
        b.op("np::view", one, index="None, :") if rank_of(one) == 1 else one for one in operands
    ]
    for place, one in enumerate(operands):
        # NumPy takes a second matrix of a single row for one variable in any case.
        is_row = place == 1 and (tensor(one).dims or ())[0] == 1
        if rank_of(one) == 2 and not by_row and not is_row:
            rows[place] = b.op("np::transpose", one)
    dims = [tensor(one).dims or () for one in rows]
    counts = [dim for dim, _ in dims if isinstance(dim, int)]
    samples = {dim for _, dim in dims}
    (extent,) = samples if len(samples) == 1 else (None,)
    if len(counts) < len(rows) or not all(counts) or not isinstance(extent, int):
        raise Untypable("covariances of variables that are not counted, or of none")
    if sum(counts) == 1 or extent <= ddof:
        raise Untypable("the covariance of a single variable, or without degrees of freedom")
    rows = [cast_to(b, one, dtype) for one in rows]
    return rows[0] if len(rows) == 1 else b.op("np::concatenate", *rows, axis=0)


# Norms ------------------------------------------------------------------------------------


def _length(x: Any, axis: Any, keepdims: Any) -> Any:
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


def _complex_length(x: Any, axis: Any, keepdims: Any) -> Any:
    squares = x.real * x.real + x.imag * x.imag
    return np.sqrt(np.sum(squares, axis=axis, keepdims=keepdims))


def _sum_of_sizes(x: Any, axis: Any, keepdims: Any) -> Any:
    return np.sum(np.abs(x), axis=axis, keepdims=keepdims)


def _norm_rule(b: Builder, call: Call) -> Value:
    x = as_array(b, call.value("x"))
    order, axis, keepdims = call.static("ord"), call.static("axis"), call.static("keepdims")
    if tensor_dtype(x).kind not in "fc":
        x = cast_to(b, x, _DOUBLE)
    axes = axis if isinstance(axis, tuple) else (axis,)
    count = rank_of(x) if axis is None else len(axes)
    euclidean = (None, 2) if count == 1 else (None, "fro", "f") if count == 2 else (None,)
    if axis is not None and count not in (1, 2):
        raise Untypable("a norm over so many axes")
    if axis is None and order is not None and count > 2:
        raise Untypable("a norm over so many axes")
    if any(order is one or (one is not None and order == one) for one in euclidean):
        definition = _complex_length if tensor_dtype(x).kind == "c" else _length
    elif order == 1 and count == 1:
        definition = _sum_of_sizes
    else:
        raise Untypable(f"a norm of order {order!r}")
    return b.define(definition, x, axis, bool(keepdims))


# Without NaN ------------------------------------------------------------------------------


def _real_array(call: Call) -> Value:
    x = array_operand(call.value("a"))
    if tensor_dtype(x).kind == "c":
        raise Untypable("NaN reductions of complex numbers")
    return x


def _smallest(x: Any, axis: Any, keepdims: Any) -> Any:
    found = np.where(np.isnan(x), np.inf, x).min(axis=axis, keepdims=keepdims)
    if (found == np.inf).any():
        # Other than isnan(x), which would be kept in memory for this rare case.
        missing = np.logical_not(x == x)
        found = _nan_where(missing.all(axis=axis, keepdims=keepdims), found)
    return found


def _largest(x: Any, axis: Any, keepdims: Any) -> Any:
    found = np.where(np.isnan(x), -np.inf, x).max(axis=axis, keepdims=keepdims)
    if (found == -np.inf).any():
        missing = np.logical_not(x == x)
        found = _nan_where(missing.all(axis=axis, keepdims=keepdims), found)
    return found


def _nan_where(nothing: Any, rest: Any) -> Any:
    """The rest, and NaN where there is nothing."""
    if rest.ndim == 0:
        return rest * np.nan if nothing else rest
    return np.where(nothing, np.nan, rest)


def _place_of_smallest(x: Any, axis: Any, keepdims: Any) -> Any:
    # A sum is fast, and NaN where one element is.
    if not np.isnan(np.sum(x)):
        return np.argmin(x, axis=axis, keepdims=keepdims)
    missing = np.isnan(x)
    require(not missing.all(axis=axis).any(), "ValueError", "All-NaN slice encountered")
    return np.argmin(np.where(missing, np.inf, x), axis=axis, keepdims=keepdims)


def _place_of_largest(x: Any, axis: Any, keepdims: Any) -> Any:
    # A sum is fast, and NaN where one element is.
    if not np.isnan(np.sum(x)):
        return np.argmax(x, axis=axis, keepdims=keepdims)
    missing = np.isnan(x)
    require(not missing.all(axis=axis).any(), "ValueError", "All-NaN slice encountered")
    return np.argmax(np.where(missing, -np.inf, x), axis=axis, keepdims=keepdims)


def _nan_search_rule(kind: str, definition: Any) -> Rule:
    """``nanmin`` and its kin; of integers they are what their names say without ``nan``."""

    def rule(b: Builder, call: Call) -> Value:
        x, axis = _real_array(call), call.static("axis")
        keepdims = call.static("keepdims") is True
        if tensor_dtype(x).kind != "f":
            return b.op(kind, x, axis=axis, keepdims=keepdims)
        return b.define(definition, x, axis, keepdims)

    return rule


def _nan_scan_rule(kind: str, fill: int) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = _real_array(call)
        if tensor_dtype(x).kind == "f":
            x = b.op("np::where", b.op("np::isnan", x), fill, x)
        return b.op(kind, x, axis=call.static("axis"), dtype=call.static("dtype"))

    return rule


# Methods of ufuncs ------------------------------------------------------------------------


def _reduce_rule(kind: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        over = {name: call.static(name) for name in ("axis", "keepdims")}
        if kind in ("np::sum", "np::prod"):
            over["dtype"] = call.static("dtype")
        elif call.static("dtype") is not None:
            raise Untypable("a reduction in a given dtype")
        over |= {name: call.bound[name] for name in ("initial", "where") if name in call.bound}
        x = call.value("array")
        is_sequence = isinstance(x.type, TupleType | ListType)
        rows = b.elements(x) if is_sequence else [array_operand(x)]
        if kind in ("np::all", "np::any") and any(tensor_dtype(row).kind != "b" for row in rows):
            raise Untypable("a logical reduction of numbers")
        return b.op(kind, x if is_sequence else rows[0], **over)

    return rule


def _accumulate_rule(kind: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        over = {name: call.static(name) for name in ("axis", "dtype")}
        return b.op(kind, array_operand(call.value("array")), **over)

    return rule


_REDUCTIONS = {
    "add": "np::sum",
    "multiply": "np::prod",
    "maximum": "np::max",
    "minimum": "np::min",
    "logical_and": "np::all",
    "logical_or": "np::any",
}
_REDUCE = "array, axis=0, dtype=None, out!=None, keepdims=False, initial=NOVALUE, where=NOVALUE"


def _method_row(name: str, method: str, rule: Rule, parameters: str, doc: str) -> Op:
    function = getattr(getattr(np, name), method)
    return row(f"{name}_{method}", function, rule, parameters, doc)


_NAN = "a, axis=None, out!=None, keepdims=NOVALUE"
_NAN_PLACE = "a, axis=None, out!=None, *, keepdims=NOVALUE"

OPS: tuple[Op, ...] = (
    row(
        "average",
        np.average,
        _average_rule,
        "a, axis=None, weights=None, returned=False, *, keepdims=NOVALUE",
        "Weighted mean.",
    ),
    row(
        "cov",
        np.cov,
        _cov_rule,
        "m, y=None, rowvar=True, bias=False, ddof=None, fweights!=None, aweights!=None, *, "
        "dtype!=None",
        "Covariances of variables.",
    ),
    row(
        "corrcoef",
        np.corrcoef,
        _corrcoef_rule,
        "x, y=None, rowvar=True, *, dtype!=None",
        "Correlations of variables.",
    ),
    row(
        "norm",
        np.linalg.norm,
        _norm_rule,
        "x, ord=None, axis=None, keepdims=False",
        "Length of vectors, size of matrices.",
    ),
    row(
        "nanmin",
        np.nanmin,
        _nan_search_rule("np::min", _smallest),
        f"{_NAN}, initial!=NOVALUE, where!=NOVALUE",
        "Smallest of all that are not NaN.",
    ),
    row(
        "nanmax",
        np.nanmax,
        _nan_search_rule("np::max", _largest),
        f"{_NAN}, initial!=NOVALUE, where!=NOVALUE",
        "Largest of all that are not NaN.",
    ),
    row(
        "nanargmin",
        np.nanargmin,
        _nan_search_rule("np::argmin", _place_of_smallest),
        _NAN_PLACE,
        "Place of the smallest that is not NaN.",
    ),
    row(
        "nanargmax",
        np.nanargmax,
        _nan_search_rule("np::argmax", _place_of_largest),
        _NAN_PLACE,
        "Place of the largest that is not NaN.",
    ),
    row(
        "nancumsum",
        np.nancumsum,
        _nan_scan_rule("np::cumsum", 0),
        "a, axis=None, dtype=None, out!=None",
        "Running sum, in which NaN count as zero.",
    ),
    row(
        "nancumprod",
        np.nancumprod,
        _nan_scan_rule("np::cumprod", 1),
        "a, axis=None, dtype=None, out!=None",
        "Running product, in which NaN count as one.",
    ),
    *(
        _method_row(name, "reduce", _reduce_rule(kind), _REDUCE, f"What {kind} does, along axis 0.")
        for name, kind in _REDUCTIONS.items()
    ),
    *(
        _method_row(
            name,
            "accumulate",
            _accumulate_rule(kind),
            "array, axis=0, dtype=None, out!=None",
            f"What {kind} does, along axis 0.",
        )
        for name, kind in (("add", "np::cumsum"), ("multiply", "np::cumprod"))
    ),
)
