"""Reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from jitcore.ir.bfloat16 import computed_in, is_bfloat16
from jitcore.ir.graph import Value
from jitcore.ir.ops.array_sequences import of_sequences
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor, tensor_dtype
from jitcore.ir.ops.partial_reductions import (
    chosen,
    extreme_identity,
    initial_value,
    is_given,
    mask_of,
)
from jitcore.ir.reference import argmax, argmin
from jitcore.ir.shapes import BroadcastError, normalize_axes
from jitcore.ir.types import SUPPORTED, Dim, TensorType

__all__ = ["OPS"]

_COMMON = "axis=None, dtype=None, out!=None, keepdims=False, initial=NOVALUE, where=NOVALUE"
_NO_DTYPE = "axis=None, out!=None, keepdims=False, initial=NOVALUE, where=NOVALUE"
_LOGICAL = "axis=None, out!=None, keepdims=False, *, where=NOVALUE"
_LOGICAL_METHOD = "axis=None, dtype!=None, out!=None, keepdims=False, *, where=NOVALUE"
"""The methods take a dtype as well, in the place where the functions take ``out``."""
_MEAN = "axis=None, dtype=None, out!=None, keepdims=False, *, where=NOVALUE"
_VARIANCE = "axis=None, dtype=None, out!=None, ddof=0, keepdims=False, *, where=NOVALUE"
_NAN_SUM = "axis=None, dtype=None, out!=None, keepdims=False, initial!=NOVALUE, where!=NOVALUE"
_NAN_MEAN = "axis=None, dtype=None, out!=None, keepdims=False, *, where!=NOVALUE"
_NAN_VARIANCE = (
    "axis=None, dtype=None, out!=None, ddof=0, keepdims=False, *, where!=NOVALUE, "
    "mean!=NOVALUE, correction!=NOVALUE"
)
_SCAN = "axis=None, dtype=None, out!=None"


def _array(b: Builder, call: Call) -> Value:
    value = call.value("a")
    type_ = tensor(value)
    assert type_.dtype is not None
    if type_.dtype.char not in SUPPORTED or not type_.dtype.isnative:
        raise Untypable(f"dtype {type_.dtype} is not compiled")
    return value


def _in_float32(rule: Rule) -> Rule:
    """A rule that has bfloat16 reduced in float32; what NumPy gives in bfloat16 is rounded once."""

    def reduced(b: Builder, call: Call) -> Value:
        x = call.value("a")
        dtype = tensor(x).dtype
        if dtype is None or not is_bfloat16(dtype):
            return rule(b, call)
        asked = call.bound.get("dtype") is not None and call.static("dtype") is not None
        if is_given(call, "initial") or (asked and is_bfloat16(np.dtype(call.static("dtype")))):
            raise Untypable("a reduction that begins, or is added up, in bfloat16")
        wide = cast_to(b, x, computed_in(dtype))
        result = rule(b, replace(call, bound={**call.bound, "a": wide}))
        stays = asked or tensor(result).dtype != computed_in(dtype)
        return result if stays else cast_to(b, result, dtype)

    return reduced


def _axes(call: Call, rank: int) -> tuple[int, ...]:
    axis = call.static("axis")
    if isinstance(axis, bool) or not isinstance(axis, (int, tuple, np.integer, type(None))):
        raise Untypable(f"axis {axis!r}")
    try:
        return normalize_axes(int(axis) if isinstance(axis, np.integer) else axis, rank)
    except BroadcastError as error:
        raise Untypable(str(error)) from None


def keeps_dims(call: Call) -> bool:
    """Whether reduced axes stay, with one element; NumPy takes integers for the answer."""
    found = call.static("keepdims")
    if not isinstance(found, int | np.bool_):
        raise Untypable(f"keepdims={found!r}")
    return bool(found)


def _reduced(type_: TensorType, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> TensorType:
    dims: list[Dim] = []
    for axis, dim in enumerate(type_.dims or ()):
        if axis not in axes:
            dims.append(dim)
        elif keepdims:
            dims.append(1)
    return TensorType(np.dtype(dtype), tuple(dims), not dims)


def _emit(b: Builder, call: Call, x: Value, dtype: Any, name: str, /, **extra: Any) -> Value:
    type_ = tensor(x)
    axes = _axes(call, len(type_.dims or ()))
    keepdims = keeps_dims(call)
    result = _reduced(type_, axes, keepdims, dtype)
    if not axes:
        if type_.dims == ():
            return _of_single(b, x, name, np.dtype(dtype))
        raise Untypable("a reduction over no axes")
    return b.emit(f"np::{name}", [x], {"axis": axes, "keepdims": keepdims, **extra}, result)


def _of_single(b: Builder, x: Value, name: str, dtype: np.dtype[Any]) -> Value:
    """A reduction of an array without axes, or of a NumPy scalar."""
    single = b.op("np::item", x)
    if name in ("all", "any", "min", "max"):
        return single
    if name == "count_nonzero":
        return cast_to(b, single, dtype)
    if name in ("sum", "mean"):
        # These begin with 0, which makes 0.0 of -0.0.
        return b.op("np::add", single, b.constant(dtype.type(0)))
    raise Untypable(f"{name} over no axes")


def _accumulator(call: Call, function: Callable[..., Any], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype NumPy accumulates in, asked of NumPy itself."""
    asked = call.static("dtype")
    result: np.dtype[Any] = function(np.zeros(1, dtype)).dtype if asked is None else np.dtype(asked)
    return result


def _stated(function: Callable[..., Any], accumulator: np.dtype[Any]) -> dict[str, Any]:
    """The attribute of a node whose operand, already in the accumulator's dtype, does not show it.

    NumPy adds up short integers in the default one, unless another dtype is asked for.
    """
    return {} if function(np.zeros(1, accumulator)).dtype == accumulator else {"dtype": accumulator}


def _sum_rule(name: str, function: Callable[..., Any]) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = _array(b, call)
        dtype = tensor(x).dtype
        assert dtype is not None
        accumulator = _accumulator(call, function, dtype)
        if accumulator.char not in SUPPORTED:
            raise Untypable(f"{name} in {accumulator}")
        stated = _stated(function, accumulator)
        x = chosen(b, call, cast_to(b, x, accumulator), int(name == "prod"))
        found = _emit(b, call, x, accumulator, name, **stated)
        initial = initial_value(b, call, accumulator)
        if initial is None:
            return found
        if accumulator.kind == "f" and not _is_known_to_count(initial):
            raise Untypable("a sum that may begin with -0.0")
        return b.op("np::add" if name == "sum" else "np::multiply", found, initial)

    return rule


def _is_known_to_count(initial: Value) -> bool:
    """Whether the first element of a sum is not -0.0, which alone leaves a sum of -0.0 as it is."""
    constant = initial.constant
    return constant is not None and not (
        constant.attributes["value"] == 0 and np.signbit(constant.attributes["value"])
    )


def _extremum_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = _array(b, call)
        dtype = tensor(x).dtype
        assert dtype is not None
        if dtype.kind == "c":
            raise Untypable(f"{name} of complex numbers")
        if not is_given(call, "initial"):
            if is_given(call, "where"):
                raise Untypable(f"{name} of chosen elements without a first one")
            return _emit(b, call, x, dtype, name)
        identity = extreme_identity(name, dtype)
        found = _emit(b, call, chosen(b, call, x, identity), dtype, name, initial=identity)
        if not isinstance(call.bound["initial"], Value):
            return found
        initial = initial_value(b, call, dtype)
        assert initial is not None
        return b.op("np::minimum" if name == "min" else "np::maximum", found, initial)

    return rule


def _logical_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = cast_to(b, _array(b, call), np.dtype(bool))
        return _emit(b, call, chosen(b, call, x, name == "all"), bool, name)

    return rule


def _position_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = _array(b, call)
        type_ = tensor(x)
        assert type_.dtype is not None
        if type_.dtype.kind == "c":
            raise Untypable(f"{name} of complex numbers")
        axis = call.static("axis")
        if isinstance(axis, tuple) and isinstance(call.bound.get("axis"), Value):
            # Typed nodes have such; of a program NumPy takes one axis, or None.
            raise Untypable(f"{name} over a tuple of axes")
        return _emit(b, call, x, np.intp, name)

    return rule


def _count_rule(b: Builder, call: Call) -> Value:
    x = cast_to(b, _array(b, call), np.dtype(bool))
    return _emit(b, call, x, np.intp, "count_nonzero")


def _mean_rule(b: Builder, call: Call) -> Value:
    x = _array(b, call)
    dtype = tensor(x).dtype
    assert dtype is not None
    result = _accumulator(call, np.mean, dtype)
    if result.kind not in "fc" or result.char not in SUPPORTED:
        raise Untypable(f"mean in {result}")
    if result == np.float16:
        if call.static("dtype") is not None:
            raise Untypable("a mean that is added up in float16")
        # NumPy takes it in float32.
        return cast_to(b, _mean_in(b, call, x, np.dtype(np.float32)), result)
    return _mean_in(b, call, x, result)


def _mean_in(b: Builder, call: Call, x: Value, result: np.dtype[Any]) -> Value:
    x = cast_to(b, x, result)
    mask = mask_of(b, call, x)
    if mask is None:
        return _emit(b, call, x, result, "mean")
    if result.char not in "fd":
        raise Untypable(f"mean of chosen elements in {result}")
    return _mean_where(b, x, b.op("np::logical_not", mask), _over(call), 0)


def _variance_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = _array(b, call)
        dtype = tensor(x).dtype
        assert dtype is not None
        if dtype.kind == "c" or call.static("dtype") is not None:
            raise Untypable(f"{name} of complex numbers or in a given dtype")
        result = dtype if dtype.kind == "f" else np.dtype(np.float64)
        ddof = call.static("ddof")
        if not isinstance(ddof, (int, float)):
            raise Untypable("ddof that is not a number")
        x = cast_to(b, x, result)
        mask = mask_of(b, call, x)
        if mask is None and result != np.float16:
            return _emit(b, call, x, result, name, ddof=ddof)
        # NumPy rounds each step of a variance of float16, where sums soon become infinite.
        missing = None if mask is None else b.op("np::logical_not", mask)
        variance = _variance_where(b, x, missing, _over(call), (ddof, 0.0))
        return b.op("np::sqrt", variance) if name == "std" else variance

    return rule


def _over(call: Call) -> tuple[Any, bool]:
    return call.static("axis"), keeps_dims(call)


def _ptp_rule(b: Builder, call: Call) -> Value:
    x = _array(b, call)
    axis, keepdims = call.static("axis"), call.static("keepdims")
    high = b.op("np::max", x, axis=axis, keepdims=keepdims)
    return b.op("np::subtract", high, b.op("np::min", x, axis=axis, keepdims=keepdims))


def _nan_rule(kind: str, fill: Any) -> Rule:
    """A reduction that skips NaN: put the identity where NaN is."""

    def rule(b: Builder, call: Call) -> Value:
        x = _array(b, call)
        dtype = tensor(x).dtype
        assert dtype is not None
        if dtype.kind == "f":
            x = b.op("np::where", b.op("np::isnan", x), fill, x)
        elif dtype.kind == "c":
            raise Untypable("NaN reductions of complex numbers")
        static = {name: call.static(name) for name in ("axis", "dtype", "keepdims")}
        return b.op(
            kind, x, **{k: v for k, v in static.items() if not (k == "dtype" and v is None)}
        )

    return rule


def _nan_mean_rule(b: Builder, call: Call) -> Value:
    x = _array(b, call)
    axis, keepdims = call.static("axis"), call.static("keepdims")
    dtype = _nan_dtype(call, x)
    if dtype.kind != "f":
        return b.op("np::mean", x, axis=axis, keepdims=keepdims)
    return _mean_where(b, x, b.op("np::isnan", x), (axis, keepdims), 0)


def _nan_dtype(call: Call, x: Value) -> np.dtype[Any]:
    dtype = tensor(x).dtype
    assert dtype is not None
    if dtype.kind == "c" or call.static("dtype") is not None:
        raise Untypable("NaN reductions of complex numbers or in a given dtype")
    return dtype


def _mean_where(
    b: Builder,
    x: Value,
    missing: Value | None,
    over: tuple[Any, bool],
    ddof: float,
    nothing: float = np.nan,
) -> Value:
    """The sum of what is not missing, divided by how many these are less ``ddof``.

    The division is in double precision, as NumPy's is, and by ``nothing`` where no more are left.
    """
    axis, keepdims = over
    if missing is None:
        total = b.op("np::sum", x, axis=axis, keepdims=keepdims)
        count = _count_along(b, x, axis)
    else:
        total = b.op("np::sum", b.op("np::where", missing, 0, x), axis=axis, keepdims=keepdims)
        present = b.op("np::logical_not", missing)
        count = b.op("np::count_nonzero", present, axis=axis, keepdims=keepdims)
    wide = np.dtype(np.float64)
    freedom = b.op("np::cast", count, dtype=wide)
    if ddof:
        freedom = b.op("np::subtract", freedom, float(ddof))
        freedom = _number_where(b, b.op("np::greater", freedom, 0.0), freedom, nothing)
    mean = b.op("np::divide", b.op("np::cast", total, dtype=wide), freedom)
    return b.op("np::cast", mean, dtype=tensor(x).dtype)


def _count_along(b: Builder, x: Value, axis: Any) -> Value:
    """How many elements lie along the axes of a reduction."""
    count = b.constant(1)
    for one in normalize_axes(axis, len(tensor(x).dims or ())):
        count = b.op("prim::mul", count, b.size(x, one))
    return b.op("np::cast", count, dtype=np.dtype(np.int64))


def _number_where(b: Builder, condition: Value, x: Value, other: float) -> Value:
    """``np.where``, with a scalar for scalars."""
    chosen = b.op("np::where", condition, x, other)
    return b.op("np::item", chosen) if tensor(x).scalar else chosen


def _nan_variance_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = _array(b, call)
        axis, keepdims, ddof = (call.static(one) for one in ("axis", "keepdims", "ddof"))
        dtype = _nan_dtype(call, x)
        if not isinstance(ddof, (int, float)):
            raise Untypable("ddof that is not a number")
        if dtype.kind != "f":
            return b.op(f"np::{name}", x, axis=axis, keepdims=keepdims, ddof=ddof)
        missing = b.op("np::isnan", x)
        variance = _variance_where(b, x, missing, (axis, keepdims), (ddof, np.nan))
        return b.op("np::sqrt", variance) if name == "std" else variance

    return rule


def _variance_where(
    b: Builder,
    x: Value,
    missing: Value | None,
    over: tuple[Any, bool],
    freedom: tuple[float, float],
) -> Value:
    """The variance of what is not missing; ``freedom`` is as for the mean of the squares."""
    mean = _mean_where(b, x, missing, (over[0], True), 0)
    squares = b.op("np::square", b.op("np::subtract", x, mean))
    return _mean_where(b, squares, missing, over, *freedom)


def _scan_rule(name: str, function: Callable[..., Any]) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, axis = _array(b, call), call.static("axis")
        if axis is None:
            if tensor(x).scalar:
                raise Untypable(f"{name} of a NumPy scalar")
            x = x if len(tensor(x).dims or ()) == 1 else b.op("np::reshape", x, -1)
            axis = 0
        dtype = _accumulator(call, function, tensor_dtype(x))
        return _scan(b, x, axis, dtype, name, _stated(function, dtype))

    return rule


def _scan(
    b: Builder, x: Value, axis: int, dtype: np.dtype[Any], name: str, stated: Mapping[str, Any]
) -> Value:
    """What ``name`` makes of each element and those before it along an axis, in a dtype."""
    dims = tensor(x).dims or ()
    if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
        raise Untypable(f"axis {axis!r}")
    try:
        (axis,) = normalize_axes(axis, len(dims))
    except BroadcastError as error:
        raise Untypable(str(error)) from None
    if dtype.char not in SUPPORTED:
        raise Untypable(f"{name} in {dtype}")
    attributes = {"axis": axis, **stated}
    return b.emit(f"np::{name}", [cast_to(b, x, dtype)], attributes, TensorType(dtype, dims))


def _extremum_scan_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, axis, asked = _array(b, call), call.static("axis"), call.static("dtype")
        dtype = tensor_dtype(x) if asked is None else np.dtype(asked)
        if dtype.kind == "c" or not isinstance(axis, int):
            raise Untypable(f"{name} of complex numbers or along no axis")
        return _scan(b, x, axis, dtype, name, {})

    return rule


def _row(
    name: str,
    parameters: str,
    rule: Rule,
    doc: str,
    *,
    aliases: tuple[Any, ...] = (),
    method: Mapping[str, str | None] | None = None,
    reference: Callable[..., Any] | None = None,
    joins: str = "",
) -> Op:
    function = getattr(np, name)
    scans = parameters == _SCAN
    return Op(
        f"np::{name}",
        reference or function,
        # Each step of a running sum is rounded.
        of_sequences(name, rule if scans else _in_float32(rule)),
        f"a, {parameters}",
        scans=scans,
        joins=joins,
        methods={name: None} if method is None else method,
        functions=(function, *aliases),
        doc=doc,
    )


def _reduction(name: str, parameters: str, rule: Rule, doc: str, **columns: Any) -> Op:
    return replace(_row(name, parameters, rule, doc, **columns), reduces=True)


_NO_METHOD: Mapping[str, str | None] = {}

OPS: tuple[Op, ...] = (
    _reduction("sum", _COMMON, _sum_rule("sum", np.sum), "Sum.", joins="np::add"),
    _reduction("prod", _COMMON, _sum_rule("prod", np.prod), "Product.", joins="np::multiply"),
    _reduction(
        "min",
        _NO_DTYPE,
        _extremum_rule("min"),
        "Smallest; NaN wins.",
        aliases=(np.amin,),
        joins="np::minimum",
    ),
    _reduction(
        "max",
        _NO_DTYPE,
        _extremum_rule("max"),
        "Largest; NaN wins.",
        aliases=(np.amax,),
        joins="np::maximum",
    ),
    _reduction(
        "all",
        _LOGICAL,
        _logical_rule("all"),
        "Whether all are true.",
        method={"all": _LOGICAL_METHOD},
        joins="np::logical_and",
    ),
    _reduction(
        "any",
        _LOGICAL,
        _logical_rule("any"),
        "Whether one is true.",
        method={"any": _LOGICAL_METHOD},
        joins="np::logical_or",
    ),
    _reduction(
        "argmin",
        "axis=None, out!=None, *, keepdims=False",
        _position_rule("argmin"),
        "Place of the smallest.",
        reference=argmin,
    ),
    _reduction(
        "argmax",
        "axis=None, out!=None, *, keepdims=False",
        _position_rule("argmax"),
        "Place of the largest.",
        reference=argmax,
    ),
    _reduction(
        "count_nonzero",
        "axis=None, *, keepdims=False",
        _count_rule,
        "How many are not zero.",
        method=_NO_METHOD,
        joins="np::add",
    ),
    _reduction("mean", _MEAN, _mean_rule, "Arithmetic mean.", joins="np::add"),
    _reduction("var", _VARIANCE, _variance_rule("var"), "Variance.", joins="np::add"),
    _reduction("std", _VARIANCE, _variance_rule("std"), "Standard deviation.", joins="np::add"),
    _row(
        "ptp",
        "axis=None, out!=None, keepdims=False",
        _ptp_rule,
        "Range of values.",
        method=_NO_METHOD,
    ),
    _row(
        "nansum",
        _NAN_SUM,
        _nan_rule("np::sum", 0),
        "Sum of all that are not NaN.",
        method=_NO_METHOD,
    ),
    _row(
        "nanprod",
        _NAN_SUM,
        _nan_rule("np::prod", 1),
        "Product of all that are not NaN.",
        method=_NO_METHOD,
    ),
    _row("nanmean", _NAN_MEAN, _nan_mean_rule, "Mean of all that are not NaN.", method=_NO_METHOD),
    _row(
        "nanvar",
        _NAN_VARIANCE,
        _nan_variance_rule("var"),
        "Variance of all that are not NaN.",
        method=_NO_METHOD,
    ),
    _row(
        "nanstd",
        _NAN_VARIANCE,
        _nan_variance_rule("std"),
        "Standard deviation of all that are not NaN.",
        method=_NO_METHOD,
    ),
    _row("cumsum", _SCAN, _scan_rule("cumsum", np.cumsum), "Running sum.", joins="np::add"),
    _row(
        "cumprod",
        _SCAN,
        _scan_rule("cumprod", np.cumprod),
        "Running product.",
        joins="np::multiply",
    ),
    Op(
        "np::maximum_accumulate",
        np.maximum.accumulate,
        _extremum_scan_rule("maximum_accumulate"),
        "a, axis=0, dtype=None, out!=None",
        scans=True,
        joins="np::maximum",
        functions=(np.maximum.accumulate,),
        doc="Greatest so far; NaN wins.",
    ),
    Op(
        "np::minimum_accumulate",
        np.minimum.accumulate,
        _extremum_scan_rule("minimum_accumulate"),
        "a, axis=0, dtype=None, out!=None",
        scans=True,
        joins="np::minimum",
        functions=(np.minimum.accumulate,),
        doc="Least so far; NaN wins.",
    ),
)
