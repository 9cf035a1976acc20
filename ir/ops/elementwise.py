"""NumPy's ufuncs, ``where``, ``clip`` and casts: one value out of the values at the same place.

The dtypes come from NumPy itself (``ufunc.resolve_dtypes``), with Python numbers passed as
``int``, ``float`` and ``complex`` so that they stay weak (NEP 50).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Scalar, Untypable, tensor
from jitcore.ir.ops.scalars import SCALARS
from jitcore.ir.reference import cast as cast_reference
from jitcore.ir.shapes import BroadcastError, broadcast_dims
from jitcore.ir.types import BOOL, COMPLEX, FLOAT, INT, Dim, TensorType, Type

__all__ = ["OPS", "SUPPORTED", "cast_to", "elementwise_result"]

SUPPORTED = "?bhilqBHILQfdFD"
"""Type characters of the dtypes that compiled code computes in."""

_WEAK: dict[Type, Any] = {INT: int, FLOAT: float, COMPLEX: complex, BOOL: np.dtype(bool)}
_UFUNC_PARAMETERS = (
    "out!=None, where!=True, casting!='same_kind', order!='K', dtype!=None, subok!=True"
)


def _operand_dtype(value: Value) -> Any:
    if value.type in _WEAK:
        return _WEAK[value.type]
    return tensor(value).dtype


def _dims(value: Value) -> tuple[Dim, ...]:
    type_ = value.type
    if isinstance(type_, TensorType) and type_.dims is not None:
        return type_.dims
    return ()


@cache
def _resolve(name: str, operands: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
    ufunc: np.ufunc = getattr(np, name)
    nothing = (None,) * ufunc.nout
    return tuple(ufunc.resolve_dtypes((*operands, *nothing)))


def _loop_dtypes(name: str, values: Sequence[Value]) -> tuple[np.dtype[Any], ...]:
    operands = [_operand_dtype(value) for value in values]
    if all(isinstance(one, type) for one in operands):
        # A ufunc of Python numbers alone works in their default dtypes.
        operands = [np.dtype(one) for one in operands]
    try:
        return _resolve(name, tuple(operands))
    except (TypeError, ValueError) as error:
        raise Untypable(str(error)) from None


def cast_to(b: Builder, value: Value, dtype: np.dtype[Any], *, exact: bool = True) -> Value:
    """``value`` in ``dtype``: itself, a converted constant, or an ``np::cast`` of it.

    With ``exact`` a Python int that the dtype cannot hold is left to NumPy, which raises.
    """
    type_ = value.type
    if isinstance(type_, TensorType):
        if type_.dtype == dtype:
            return value
        return b.emit(
            "np::cast", [value], {"dtype": dtype}, TensorType(dtype, type_.dims, type_.scalar)
        )
    if type_ not in _WEAK:
        raise Untypable(f"{type_} is not a number or an array")
    node = value.constant
    if node is None:
        if type_ == INT and exact and dtype.kind in "iu" and dtype != np.dtype(np.int64):
            raise Untypable(f"an int that {dtype} may not hold")
        return b.emit("np::cast", [value], {"dtype": dtype}, TensorType(dtype, (), True))
    number = node.attributes["value"]
    try:
        with np.errstate(all="ignore"):
            converted = dtype.type(number)
    except OverflowError as error:
        raise Untypable(str(error)) from None
    return b.constant(converted, TensorType(dtype, (), True))


def elementwise_result(b: Builder, values: Sequence[Value], dtype: np.dtype[Any]) -> TensorType:
    """The type of an elementwise result: broadcast dims, a scalar where nothing has an axis."""
    try:
        dims = broadcast_dims([_dims(value) for value in values], b.fresh_dim)
    except BroadcastError as error:
        raise Untypable(str(error)) from None
    return TensorType(dtype, dims, dims == ())


def _check_supported(dtypes: Sequence[np.dtype[Any]]) -> None:
    for dtype in dtypes:
        if dtype.char not in SUPPORTED or not dtype.isnative:
            raise Untypable(f"dtype {dtype} is not compiled")


def _ufunc_rule(name: str, names: Sequence[str], scalar: Scalar | None) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        values = [call.value(operand) for operand in names]
        dtypes = _loop_dtypes(name, values)
        _check_supported(dtypes)
        if scalar is None or scalar.text(dtypes[0].kind) is None:
            raise Untypable(f"{name} of {dtypes[0]} is not compiled")
        if name == "power" and dtypes[0].kind in "iu" and dtypes[1].kind == "i":
            _check_integer_power(values[1])
        operands = [cast_to(b, value, dtype) for value, dtype in zip(values, dtypes, strict=False)]
        if name in _WHERE_NEGATIVE and dtypes[0] != dtypes[1]:
            return _compare_across_signs(b, name, operands)
        return b.emit(f"np::{name}", operands, {}, elementwise_result(b, operands, dtypes[-1]))

    return rule


# Whether x op y holds for a negative x and a y without sign, and for a negative y.
_WHERE_NEGATIVE = {
    "less": (True, False),
    "less_equal": (True, False),
    "greater": (False, True),
    "greater_equal": (False, True),
    "equal": (False, False),
    "not_equal": (True, True),
}


def _compare_across_signs(b: Builder, name: str, operands: Sequence[Value]) -> Value:
    """A comparison of int64 with uint64, the one case where NumPy's loops have two dtypes."""
    x, y = operands
    unsigned = np.dtype(np.uint64)
    same = b.op(f"np::{name}", cast_to(b, x, unsigned), cast_to(b, y, unsigned))
    x_has_sign = tensor(x).dtype != unsigned
    negative = b.op("np::less", x if x_has_sign else y, 0)
    if _WHERE_NEGATIVE[name][0 if x_has_sign else 1]:
        return b.op("np::logical_or", negative, same)
    return b.op("np::logical_and", b.op("np::logical_not", negative), same)


def _check_integer_power(exponent: Value) -> None:
    node = exponent.constant
    if node is None or np.any(np.asarray(node.attributes["value"]) < 0):
        raise Untypable("integers to a power that may be negative")


def _ufunc(name: str, scalar: Scalar | None, *, aliases: tuple[Any, ...] = (), doc: str = "") -> Op:
    ufunc: np.ufunc = getattr(np, name)
    names = ["x", "y", "z"][: ufunc.nin]
    return Op(
        kind=f"np::{name}",
        reference=ufunc,
        rule=_ufunc_rule(name, names, scalar),
        parameters=", ".join([*names, _UFUNC_PARAMETERS]),
        scalar=scalar,
        functions=(ufunc, *aliases),
        doc=doc or (ufunc.__doc__ or "").split("\n\n")[1].split("\n")[0].strip(),
    )


def _angle_unit(name: str, numerator: float, denominator: float) -> Op:
    """``degrees``, ``radians`` and their synonyms: a multiplication."""

    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        dtypes = _loop_dtypes(name, [x])
        _check_supported(dtypes)
        # NumPy divides in the loop's dtype as well.
        factor = dtypes[0].type(numerator) / dtypes[0].type(denominator)
        return b.op("np::multiply", cast_to(b, x, dtypes[0]), b.constant(factor))

    return replace(_ufunc(name, None), rule=rule)


def _where_rule(b: Builder, call: Call) -> Value:
    condition, x, y = call.value("condition"), call.optional("x"), call.optional("y")
    if x is None or y is None:
        raise Untypable("np.where with one argument")
    operands = [_operand_dtype(value) for value in (x, y)]
    dtype = _where_dtype(*operands)
    _check_supported([dtype])
    if condition.type in (BOOL, INT, FLOAT) or tensor(condition).dtype != np.dtype(bool):
        condition = cast_to(b, condition, np.dtype(bool))
    values = [condition, cast_to(b, x, dtype), cast_to(b, y, dtype)]
    result = elementwise_result(b, values, dtype)
    return b.emit("np::where", values, {}, TensorType(dtype, result.dims, False))


@cache
def _where_dtype(x: Any, y: Any) -> np.dtype[Any]:
    def sample(one: Any) -> Any:
        return one(0) if isinstance(one, type) else np.zeros(1, one)

    result: np.dtype[Any] = np.where(np.zeros(1, bool), sample(x), sample(y)).dtype
    return result


def _clip_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    low = call.optional("a_min") or call.optional("min")
    high = call.optional("a_max") or call.optional("max")
    if low is None and high is None:
        raise Untypable("np.clip without bounds")
    if not isinstance(x.type, TensorType):
        raise Untypable("np.clip of a Python number")
    # NumPy's clip is minimum(maximum(x, low), high) in one common dtype.
    bounds = [value for value in (low, high) if value is not None]
    dtype = _clip_dtype(*(_operand_dtype(value) for value in (x, *bounds)))
    if not np.can_cast(dtype, dtype) or dtype.kind == "c":
        raise Untypable(f"np.clip of {dtype}")
    result = cast_to(b, x, dtype)
    # Of two zeros that differ in sign NumPy's maximum gives the second.  np.clip between two
    # numbers keeps the element then; otherwise it gives the bound.
    keeps_element = len(bounds) == 2 and all(not any(_dims(bound)) for bound in bounds)
    for kind, bound in (("np::maximum", low), ("np::minimum", high)):
        if bound is not None:
            pair = [result, cast_to(b, bound, dtype)]
            result = b.op(kind, *(reversed(pair) if keeps_element else pair))
    return result


@cache
def _clip_dtype(x: Any, *bounds: Any) -> np.dtype[Any]:
    def sample(one: Any) -> Any:
        return one(0) if isinstance(one, type) else np.zeros((), one)[()]

    low = sample(bounds[0])
    high = sample(bounds[1]) if len(bounds) > 1 else None
    result: np.dtype[Any] = np.clip(np.zeros(1, x), low, high).dtype
    return result


def _cast_rule(b: Builder, call: Call) -> Value:
    dtype = _as_dtype(call.static("dtype"))
    _check_supported([dtype])
    x = call.value("x")
    if isinstance(x.type, TensorType):
        source = tensor(x)
        assert source.dtype is not None
        _check_supported([source.dtype])
        if source.dtype.kind == "c" and dtype.kind not in "cb":
            raise Untypable("NumPy warns that a cast drops the imaginary part")
        return b.emit(
            "np::cast", [x], {"dtype": dtype}, TensorType(dtype, source.dims, source.scalar)
        )
    return cast_to(b, x, dtype)


def _as_dtype(value: Any) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except TypeError as error:
        raise Untypable(str(error)) from None
    return dtype


def _astype_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    type_ = tensor(x)
    dtype = _as_dtype(call.static("dtype"))
    copy = call.static("copy")
    if type_.scalar:
        return _cast_rule(b, call)
    if dtype == type_.dtype:
        return b.op("np::copy", x) if copy else x
    return _cast_rule(b, call)


def _scalar_constructor_rule(dtype: np.dtype[Any]) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        if isinstance(x.type, TensorType) and not x.type.scalar:
            raise Untypable(f"np.{dtype.name} of an array")
        if x.type == COMPLEX and dtype.kind not in "cb":
            raise Untypable(f"np.{dtype.name} of a complex number")
        return b.op("np::cast", x, dtype=dtype)

    return rule


def _round_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    type_ = tensor(x)
    assert type_.dtype is not None
    decimals = call.static("decimals")
    if decimals != 0 or type_.dtype.kind == "b":
        raise Untypable("np.round to decimals")
    if type_.dtype.kind in "iu":
        return x if type_.scalar else b.op("np::copy", x)
    return b.op("np::rint", x)


def _complex_part_rule(part: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        type_ = tensor(x)
        assert type_.dtype is not None
        if type_.dtype.kind != "c":
            if part == "real":
                return x
            raise Untypable("the imaginary part of a real array is read-only zeros")
        real = np.dtype(np.float32 if type_.dtype == np.complex64 else np.float64)
        return b.emit(f"np::{part}", [x], {}, TensorType(real, type_.dims, type_.scalar))

    return rule


def _nan_to_num_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    type_ = tensor(x)
    assert type_.dtype is not None
    if type_.dtype.kind != "f":
        raise Untypable(f"np.nan_to_num of {type_.dtype}")
    limits = np.finfo(type_.dtype)
    positive, negative = call.static("posinf"), call.static("neginf")
    result = b.op("np::where", b.op("np::isnan", x), call.static("nan"), x)
    result = b.op(
        "np::where",
        b.op("np::equal", x, np.inf),
        limits.max if positive is None else positive,
        result,
    )
    result = b.op(
        "np::where",
        b.op("np::equal", x, -np.inf),
        limits.min if negative is None else negative,
        result,
    )
    return b.op("np::item", result) if type_.dims == () else result


def _angle_rule(b: Builder, call: Call) -> Value:
    x = call.value("z")
    type_ = tensor(x)
    assert type_.dtype is not None
    if type_.dtype.kind != "c" or call.static("deg"):
        raise Untypable("np.angle of a real array")
    return b.op("np::arctan2", b.op("np::imag", x), b.op("np::real", x))


_SCALAR_TYPES = (
    np.bool_,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.float32,
    np.float64,
    np.complex64,
    np.complex128,
)


def _real(x: Any) -> Any:
    return x.real


def _imag(x: Any) -> Any:
    return x.imag


def _astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    return x.astype(dtype, copy=copy)


OPS: tuple[Op, ...] = (
    *(_ufunc(name, scalar) for name, scalar in SCALARS.items()),
    _angle_unit("degrees", 180, np.pi),
    _angle_unit("rad2deg", 180, np.pi),
    _angle_unit("radians", np.pi, 180),
    _angle_unit("deg2rad", np.pi, 180),
    Op(
        "np::where",
        np.where,
        _where_rule,
        "condition, x=None, y=None",
        Scalar(
            f="select(x, y, z)",
            i="select(x, y, z)",
            u="select(x, y, z)",
            b="select(x, y, z)",
            c=("select(x, y_re, z_re)", "select(x, y_im, z_im)"),
        ),
        functions=(np.where,),
        doc="One of two values, element by element.",
    ),
    Op(
        "np::clip",
        np.clip,
        _clip_rule,
        "a, a_min=None, a_max=None, out!=None, min=None, max=None",
        methods={"clip": "a_min=None, a_max=None, out!=None"},
        functions=(np.clip,),
        doc="Limit to an interval.",
    ),
    Op(
        "np::cast",
        cast_reference,
        _cast_rule,
        "x, dtype",
        Scalar(f="x", i="x", u="x", b="x"),
        doc="Conversion to another dtype with astype's meaning.",
    ),
    Op(
        "np::astype",
        _astype,
        _astype_rule,
        "x, dtype, copy=True",
        methods={"astype": "dtype, order!='K', casting!='unsafe', subok!=True, copy=True"},
        functions=(np.astype,),
        view=True,
        doc="Conversion to another dtype, a copy by default.",
    ),
    *(
        Op(
            f"np::{scalar_type.__name__}",
            scalar_type,
            _scalar_constructor_rule(np.dtype(scalar_type)),
            "x",
            functions=(scalar_type,),
            doc=f"A NumPy scalar of dtype {np.dtype(scalar_type).name}.",
        )
        for scalar_type in _SCALAR_TYPES
    ),
    Op(
        "np::round",
        np.round,
        _round_rule,
        "a, decimals=0, out!=None",
        methods={"round": "decimals=0, out!=None"},
        functions=(np.round, np.around),
        doc="Round half to even.",
    ),
    Op(
        "np::real",
        _real,
        _complex_part_rule("real"),
        "x",
        functions=(np.real,),
        view=True,
        doc="The real part, a view.",
    ),
    Op(
        "np::imag",
        _imag,
        _complex_part_rule("imag"),
        "x",
        functions=(np.imag,),
        view=True,
        doc="The imaginary part, a view.",
    ),
    Op(
        "np::nan_to_num",
        np.nan_to_num,
        _nan_to_num_rule,
        "x, copy!=True, nan=0.0, posinf=None, neginf=None",
        functions=(np.nan_to_num,),
        doc="Replace NaN and infinities by numbers.",
    ),
    Op(
        "np::angle",
        np.angle,
        _angle_rule,
        "z, deg=False",
        functions=(np.angle,),
        doc="The argument of complex numbers.",
    ),
)
