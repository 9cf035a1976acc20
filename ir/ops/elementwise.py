"""NumPy's ufuncs, ``where`` and casts: one value out of the values at the same place.

The dtypes come from NumPy itself (``ufunc.resolve_dtypes``), with Python numbers passed as
``int``, ``float`` and ``complex`` so that they stay weak (NEP 50).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from jitcore.ir.bfloat16 import computed_in, is_bfloat16, is_stored
from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Scalar, Untypable, tensor
from jitcore.ir.ops.scalars import SCALARS
from jitcore.ir.reference import cast as cast_reference
from jitcore.ir.reference import from_int as from_int_reference
from jitcore.ir.shapes import BroadcastError
from jitcore.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    Dim,
    ListType,
    TensorType,
    TupleType,
    Type,
)

__all__ = [
    "OPS",
    "UFUNC_PARAMETERS",
    "cast_to",
    "elementwise_result",
    "in_array",
    "operand_dims",
    "operand_dtype",
    "ufunc_rule",
    "with_output",
]

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_NOT_IN_FLOAT32 = frozenset({"np::nextafter", "np::sign", "np::spacing", "np::ldexp"})
"""What gives another result in bfloat16 than in float32, rounded: ml_dtypes' sign of -0 is -0."""

_WEAK: dict[Type, Any] = {INT: int, FLOAT: float, COMPLEX: complex, BOOL: np.dtype(bool)}
UFUNC_PARAMETERS = (
    "out=None, *, where=True, casting!='same_kind', order!='K', dtype=None, subok!=True"
)
"""What ufuncs take after their operands."""


def operand_dtype(value: Value) -> Any:
    if value.type in _WEAK:
        return _WEAK[value.type]
    return tensor(value).dtype


def operand_dims(value: Value) -> tuple[Dim, ...]:
    type_ = value.type
    if isinstance(type_, TensorType) and type_.dims is not None:
        return type_.dims
    return ()


@cache
def _resolve(ufunc: np.ufunc, operands: tuple[Any, ...]) -> tuple[np.dtype[Any], ...]:
    nothing = (None,) * ufunc.nout
    return tuple(ufunc.resolve_dtypes((*operands, *nothing)))


def _asked_dtypes(
    ufunc: np.ufunc, values: Sequence[Value], dtype: np.dtype[Any]
) -> tuple[np.dtype[Any], ...]:
    """The dtypes of the loop that gives a dtype; operands must be of the same kind."""
    operands = [operand_dtype(value) for value in values]
    nothing = (None,) * ufunc.nin
    try:
        found = ufunc.resolve_dtypes(
            (*operands, None), signature=(*nothing, dtype), casting="same_kind"
        )
    except (TypeError, ValueError) as error:
        raise Untypable(str(error)) from None
    return tuple(found)


def _loop_dtypes(ufunc: np.ufunc, values: Sequence[Value]) -> tuple[np.dtype[Any], ...]:
    operands = [operand_dtype(value) for value in values]
    if all(isinstance(one, type) for one in operands):
        # A ufunc of Python numbers alone works in their default dtypes.
        operands = [np.dtype(one) for one in operands]
    try:
        return _resolve(ufunc, tuple(operands))
    except (TypeError, ValueError) as error:
        raise Untypable(str(error)) from None


def cast_to(b: Builder, value: Value, dtype: np.dtype[Any], *, exact: bool = True) -> Value:
    """``value`` in ``dtype``: itself, a converted constant, or an ``np::cast`` of it.

    With ``exact`` a Python int that the dtype cannot hold raises OverflowError.
    """
    type_ = value.type
    if isinstance(type_, TensorType):
        return value if type_.dtype == dtype else _converted(b, value, dtype)
    if type_ not in _WEAK:
        raise Untypable(f"{type_} is not a number or an array")
    if is_bfloat16(dtype):
        return _converted(b, _computed(b, value, dtype), dtype)
    node = value.constant
    if node is None:
        if type_ == INT and exact and dtype.kind in "iu" and dtype != np.dtype(np.int64):
            return b.emit("np::from_int", [value], {"dtype": dtype}, TensorType(dtype, (), True))
        return b.emit("np::cast", [value], {"dtype": dtype}, TensorType(dtype, (), True))
    number = node.attributes["value"]
    try:
        with np.errstate(all="ignore"):
            converted = dtype.type(number)
    except OverflowError as error:
        raise Untypable(str(error)) from None
    return b.constant(converted, TensorType(dtype, (), True))


def _computed(b: Builder, value: Value, dtype: np.dtype[Any]) -> Value:
    """``value`` rounded to ``dtype``, in the dtype that its numbers are computed in."""
    own = computed_in(dtype)
    if own == dtype or isinstance(value.type, TensorType):
        return cast_to(b, cast_to(b, value, dtype), own)
    if value.constant is None:
        return _converted(b, _converted(b, cast_to(b, value, _DOUBLE), dtype), own)
    number = own.type(dtype.type(value.constant.attributes["value"]))
    return b.constant(number, TensorType(own, (), True))


def _converted(b: Builder, value: Value, dtype: np.dtype[Any]) -> Value:
    """``np::cast`` of an array or a NumPy scalar; from and to bfloat16 by way of float32."""
    type_ = tensor(value)
    assert type_.dtype is not None
    if any(map(is_bfloat16, (type_.dtype, dtype))) and _SINGLE not in (type_.dtype, dtype):
        value = _converted(b, value, _SINGLE)
    made = TensorType(dtype, type_.dims, type_.scalar)
    return b.emit("np::cast", [value], {"dtype": dtype}, made)


def elementwise_result(b: Builder, values: Sequence[Value], dtype: np.dtype[Any]) -> TensorType:
    """The type of an elementwise result: broadcast dims, a scalar where nothing has an axis."""
    try:
        dims = b.broadcast([operand_dims(value) for value in values])
    except BroadcastError as error:
        raise Untypable(str(error)) from None
    return TensorType(dtype, dims, dims == ())


def _check_supported(dtypes: Sequence[np.dtype[Any]]) -> None:
    for dtype in dtypes:
        if not is_stored(dtype):
            raise Untypable(f"dtype {dtype} is not compiled")


def ufunc_rule(
    kind: str, find: Callable[[], np.ufunc], names: Sequence[str], scalar: Scalar | None
) -> Rule:
    """The rule of a ufunc, which is asked for when it is needed."""
    name = kind.partition("::")[2]

    def rule(b: Builder, call: Call) -> Value:
        values = [in_array(b, call.value(operand)) for operand in names]
        if name in _WHERE_NEGATIVE:
            values = [_any_int(b, value, values) for value in values]
        asked = call.static("dtype")
        if asked is None:
            dtypes = _loop_dtypes(find(), values)
        else:
            dtypes = _asked_dtypes(find(), values, _as_dtype(asked))
        _check_supported(dtypes)
        if any(map(is_bfloat16, dtypes)):
            return _in_float32(b, kind, values, dtypes)
        if scalar is None or scalar.text(dtypes[0].kind) is None:
            raise Untypable(f"{name} of {dtypes[0]} is not compiled")
        operands = [cast_to(b, value, dtype) for value, dtype in zip(values, dtypes, strict=False)]
        if name == "power" and dtypes[0].kind in "iu" and dtypes[1].kind == "i":
            _check_integer_power(b, call, *operands)
        if name in _WHERE_NEGATIVE and dtypes[0] != dtypes[1]:
            return _compare_across_signs(b, name, operands)
        return b.emit(kind, operands, {}, elementwise_result(b, operands, dtypes[-1]))

    return with_output(rule)


def in_array(b: Builder, value: Value) -> Value:
    """Tuples and lists of numbers are arrays to a ufunc and to a reduction."""
    is_sequence = isinstance(value.type, TupleType | ListType)
    return b.op("np::asarray", value) if is_sequence else value


def _in_float32(
    b: Builder, kind: str, values: Sequence[Value], dtypes: Sequence[np.dtype[Any]]
) -> Value:
    """What ml_dtypes does for bfloat16: compute in float32, and round the result."""
    if kind in _NOT_IN_FLOAT32:
        raise Untypable(f"{kind} of bfloat16")
    operands = [_computed(b, value, dtype) for value, dtype in zip(values, dtypes, strict=False)]
    return cast_to(b, b.op(kind, *operands), dtypes[-1])


def with_output(rule: Rule) -> Rule:
    """A rule of a ufunc, with what ``out`` and ``where`` do to the result."""

    def written(b: Builder, call: Call) -> Value:
        target, mask = _output(b, call), _mask(call)
        if target is None:
            if mask is not None:
                raise Untypable("a ufunc with where, but without out, leaves elements undefined")
            return rule(b, call)
        type_ = tensor(target)
        result = rule(b, call)
        computed = tensor(result)
        assert computed.dtype is not None and type_.dtype is not None
        if not np.can_cast(computed.dtype, type_.dtype, "same_kind"):
            raise Untypable(f"{computed.dtype} does not go into {type_.dtype}")
        result = cast_to(b, result, type_.dtype)
        if mask is not None:
            result = b.op("np::where", mask, result, target)
        if len(tensor(result).dims or ()) > len(type_.dims or ()):
            raise Untypable("an output of too few dimensions")
        b.op("np::store", target, result, in_place=True)
        return target

    return written


def _output(b: Builder, call: Call) -> Value | None:
    """The array given for ``out``, alone or in a tuple."""
    out = call.optional("out")
    if out is not None and isinstance(out.type, TupleType):
        elements = b.elements(out)
        if len(elements) != 1:
            raise Untypable("several outputs")
        (out,) = elements
    if out is None or out.type == NONE:
        return None
    if tensor(out).scalar:
        raise Untypable("a NumPy scalar for an output")
    return out


def _mask(call: Call) -> Value | None:
    mask = call.optional("where")
    if mask is None or (mask.constant is not None and mask.constant.attributes["value"] is True):
        return None
    if not isinstance(mask.type, TensorType) or mask.type.dtype != np.dtype(bool):
        raise Untypable("a ufunc where something else than booleans hold")
    return mask


# Whether x op y holds for a negative x and a y without sign, and for a negative y.
_WHERE_NEGATIVE = {
    "less": (True, False),
    "less_equal": (True, False),
    "greater": (False, True),
    "greater_equal": (False, True),
    "equal": (False, False),
    "not_equal": (True, True),
}


def _any_int(b: Builder, value: Value, others: Sequence[Value]) -> Value:
    """An operand of a comparison: Python ints may be out of the range of the other operand."""
    if value.type != INT or value.constant is not None:
        return value
    kinds = {dtype.kind for dtype in map(operand_dtype, others) if isinstance(dtype, np.dtype)}
    return cast_to(b, value, np.dtype(np.int64)) if kinds and kinds <= {"i", "u"} else value


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


def _check_integer_power(b: Builder, call: Call, base: Value, exponent: Value) -> None:
    """Raise as NumPy does where an integer has a negative exponent."""
    node = exponent.constant
    if node is not None:
        if np.any(np.asarray(node.attributes["value"]) < 0):
            raise Untypable("integers to a negative power")
        return
    if _mask(call) is not None or _output(b, call) is not None:
        raise Untypable("integers to a power that may be negative, written as far as NumPy comes")
    # An exponent that is broadcast to no elements at all is not looked at.
    negative = b.op("np::logical_and", b.op("np::less", exponent, 0), b.op("np::equal", base, base))
    allowed = b.op("prim::not_", b.op("np::any", negative))
    message = "Integers to negative integer powers are not allowed."
    b.op("prim::require", allowed, exception="ValueError", message=message)


_WITHOUT_POSITIONAL_OUTPUT = dict.fromkeys(("maximum", "minimum"), ("*",))
"""Ufuncs where NumPy warns of an output that is not given by its name, since 2.4."""


def _ufunc(name: str, scalar: Scalar | None, *, aliases: tuple[Any, ...] = (), doc: str = "") -> Op:
    ufunc: np.ufunc = getattr(np, name)
    names = ["x", "y", "z"][: ufunc.nin]
    return Op(
        kind=f"np::{name}",
        reference=ufunc,
        rule=ufunc_rule(f"np::{name}", lambda: ufunc, names, scalar),
        parameters=", ".join([*names, *_WITHOUT_POSITIONAL_OUTPUT.get(name, ()), UFUNC_PARAMETERS]),
        scalar=scalar,
        functions=(ufunc, *aliases),
        doc=doc or (ufunc.__doc__ or "").split("\n\n")[1].split("\n")[0].strip(),
    )


def _angle_unit(name: str, numerator: float, denominator: float) -> Op:
    """``degrees``, ``radians`` and their synonyms: a multiplication."""

    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        dtypes = _loop_dtypes(getattr(np, name), [x])
        _check_supported(dtypes)
        # NumPy divides in the loop's dtype as well, which is float32 for float16.
        own = dtypes[0] if dtypes[0] != np.float16 else np.dtype(np.float32)
        factor = own.type(numerator) / own.type(denominator)
        product = b.op(
            "np::multiply", cast_to(b, cast_to(b, x, dtypes[0]), own), b.constant(factor)
        )
        return cast_to(b, product, dtypes[0])

    return replace(
        _ufunc(name, None),
        rule=with_output(rule),
        parameters=f"x, {UFUNC_PARAMETERS}".replace("dtype=", "dtype!="),
    )


def _where_rule(b: Builder, call: Call) -> Value:
    condition, x, y = call.value("condition"), call.optional("x"), call.optional("y")
    if "x" not in call.bound and "y" not in call.bound:
        return b.op("np::nonzero", condition)
    if x is None or y is None:
        raise Untypable("np.where of None")
    operands = [operand_dtype(value) for value in (x, y)]
    dtype = _where_dtype(*operands)
    _check_supported([dtype])
    if condition.type in (BOOL, INT, FLOAT) or tensor(condition).dtype != np.dtype(bool):
        condition = cast_to(b, condition, np.dtype(bool))
    own = computed_in(dtype)
    if own != dtype:
        values = [condition, _computed(b, x, dtype), _computed(b, y, dtype)]
        return cast_to(b, b.op("np::where", *values), dtype)
    values = [condition, cast_to(b, x, dtype), cast_to(b, y, dtype)]
    result = elementwise_result(b, values, dtype)
    return b.emit("np::where", values, {}, TensorType(dtype, result.dims, False))


@cache
def _where_dtype(x: Any, y: Any) -> np.dtype[Any]:
    def sample(one: Any) -> Any:
        return one(0) if isinstance(one, type) else np.zeros(1, one)

    result: np.dtype[Any] = np.where(np.zeros(1, bool), sample(x), sample(y)).dtype
    return result


def _from_int_rule(b: Builder, call: Call) -> Value:
    x, dtype = call.value("x"), _as_dtype(call.static("dtype"))
    if x.type != INT or dtype.kind not in "iu":
        raise Untypable(f"{dtype} from {x.type}")
    return cast_to(b, x, dtype)


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
        return _converted(b, x, dtype)
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
        return b.op("np::copy", x, order="K") if copy else x
    return _cast_rule(b, call)


def _scalar_constructor_rule(dtype: np.dtype[Any]) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        if isinstance(x.type, TensorType) and not x.type.scalar:
            raise Untypable(f"np.{dtype.name} of an array")
        if x.type == COMPLEX and dtype.kind not in "cb":
            raise Untypable(f"np.{dtype.name} of a complex number")
        if x.type == FLOAT and dtype.kind in "iu":
            x = b.op("prim::int", x)  # where a cast wraps around, the constructor raises
        return b.op("np::cast", x, dtype=dtype)

    return rule


def _complex_part_rule(part: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("val")
        type_ = tensor(x)
        assert type_.dtype is not None
        if type_.dtype.kind != "c":
            if part == "real":
                return x
            raise Untypable("the imaginary part of a real array is read-only zeros")
        real = np.dtype(np.float32 if type_.dtype == np.complex64 else np.float64)
        return b.emit(f"np::{part}", [x], {}, TensorType(real, type_.dims, type_.scalar))

    return rule


def _part_of_elements(part: str, doc: str) -> Op:
    """A part of complex numbers as an array of its own, which only passes ask for."""
    letter = "re" if part == "real" else "im"
    return Op(
        f"np::{part}_part",
        lambda x: np.copy(getattr(np, part)(x)),
        _complex_part_rule(f"{part}_part"),
        "val",
        Scalar(c=f"x_{letter}", cheap=True),
        functions=(),
        doc=doc,
    )


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
    np.float16,
    np.float32,
    np.float64,
    np.complex64,
    np.complex128,
)


def _conjugate_method_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    dtype = tensor(x).dtype
    # Of a real array it is the array itself, where the function makes a copy.
    return b.op("np::conjugate", x) if dtype is not None and dtype.kind == "c" else x


def _conjugate_method(x: Any) -> Any:
    return x.conjugate()


def _astype(x: Any, dtype: Any, *, copy: bool = True, **keywords: Any) -> Any:
    return np.astype(x, dtype, copy=copy, **keywords)


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
            cheap=True,
        ),
        functions=(np.where,),
        doc="One of two values, element by element.",
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
        "np::from_int",
        from_int_reference,
        _from_int_rule,
        "x, dtype",
        doc="A Python int in an integer dtype; OverflowError where that does not hold it.",
    ),
    Op(
        "np::astype",
        _astype,
        _astype_rule,
        "x, dtype, *, copy=True, device!=None",
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
        "np::conjugate_method",
        _conjugate_method,
        _conjugate_method_rule,
        "x, out!=None",
        methods={"conj": None, "conjugate": None},
        view=True,
        doc="The methods ``conj`` and ``conjugate``: a real array as it is.",
    ),
    Op(
        "np::real",
        np.real,
        _complex_part_rule("real"),
        "val",
        functions=(np.real,),
        view=True,
        doc="The real part, a view.",
    ),
    Op(
        "np::imag",
        np.imag,
        _complex_part_rule("imag"),
        "val",
        functions=(np.imag,),
        view=True,
        doc="The imaginary part, a view.",
    ),
    _part_of_elements("real", "The real part, element by element."),
    _part_of_elements("imag", "The imaginary part, element by element."),
)
