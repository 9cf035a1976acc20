"""Elementwise functions that are no ufuncs: clip, round, nan_to_num, angle, tests of signs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.elementwise import cast_to, operand_dims, operand_dtype, with_output
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor
from jitcore.ir.types import TensorType

__all__ = ["OPS"]


def _clip_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    given = [name for name in ("a_min", "a_max", "min", "max") if name in call.bound]
    both = ["a_min", "a_max"]
    if given != both and not set(given).isdisjoint(both):
        raise Untypable("np.clip with bounds that NumPy does not take together")
    low = call.optional("a_min") or call.optional("min")
    high = call.optional("a_max") or call.optional("max")
    if low is None and high is None:
        raise Untypable("np.clip without bounds")
    if not isinstance(x.type, TensorType):
        raise Untypable("np.clip of a Python number")
    # NumPy's clip is minimum(maximum(x, low), high) in one common dtype.
    bounds = [value for value in (low, high) if value is not None]
    dtype = _clip_dtype(*(operand_dtype(value) for value in (x, *bounds)))
    if not np.can_cast(dtype, dtype) or dtype.kind == "c":
        raise Untypable(f"np.clip of {dtype}")
    result = cast_to(b, x, dtype)
    # Of two zeros that differ in sign NumPy's maximum gives the second, or the first of float16.
    # np.clip between two numbers keeps the element then, and always in float16; otherwise it gives
    # the bound.
    keeps_element = len(bounds) == 2 and all(not any(operand_dims(bound)) for bound in bounds)
    is_second = keeps_element and dtype != np.float16
    for kind, bound in (("np::maximum", low), ("np::minimum", high)):
        if bound is not None:
            pair = [result, cast_to(b, bound, dtype)]
            result = b.op(kind, *(reversed(pair) if is_second else pair))
    return result


@cache
def _clip_dtype(x: Any, *bounds: Any) -> np.dtype[Any]:
    def sample(one: Any) -> Any:
        return one(0) if isinstance(one, type) else np.zeros((), one)[()]

    low = sample(bounds[0])
    high = sample(bounds[1]) if len(bounds) > 1 else None
    result: np.dtype[Any] = np.clip(np.zeros(1, x), low, high).dtype
    return result


def _round_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    type_ = tensor(x)
    assert type_.dtype is not None
    decimals = call.static("decimals")
    if decimals != 0 or type_.dtype.kind == "b":
        raise Untypable("np.round to decimals")
    if type_.dtype.kind in "iu":
        return x if type_.scalar else b.op("np::copy", x, order="K")
    return b.op("np::rint", x)


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


def _signed_infinity_rule(infinity: float) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        dtype = tensor(x).dtype
        if dtype is None or dtype.kind not in "f":
            raise Untypable(f"np.isposinf of {dtype}")
        return b.op("np::equal", x, infinity)

    return rule


def _has_part_rule(negated: bool) -> Rule:
    """``iscomplex`` and ``isreal`` of complex arrays."""

    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        dtype = tensor(x).dtype
        if dtype is None or dtype.kind != "c":
            raise Untypable(f"np.isreal of {dtype}")
        return b.op("np::equal" if negated else "np::not_equal", b.op("np::imag", x), 0)

    return rule


def _divmod_rule(b: Builder, call: Call) -> Value:
    x, y = call.value("x"), call.value("y")
    if not isinstance(x.type, TensorType) and not isinstance(y.type, TensorType):
        raise Untypable("np.divmod of Python numbers")
    return b.make_tuple([b.op("np::floor_divide", x, y), b.op("np::remainder", x, y)])


OPS: tuple[Op, ...] = (
    Op(
        "np::clip",
        np.clip,
        with_output(_clip_rule),
        "a, a_min=None, a_max=None, out=None, *, min=None, max=None, where=True",
        methods={"clip": "min=None, max=None, out=None"},
        functions=(np.clip,),
        doc="Limit to an interval.",
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
    *(
        Op(
            f"np::{name}",
            getattr(np, name),
            rule,
            "x, out!=None",
            functions=(getattr(np, name),),
            doc=doc,
        )
        for name, rule, doc in (
            ("isposinf", _signed_infinity_rule(np.inf), "Where positive infinity is."),
            ("isneginf", _signed_infinity_rule(-np.inf), "Where negative infinity is."),
        )
    ),
    *(
        Op(f"np::{name}", getattr(np, name), rule, "x", functions=(getattr(np, name),), doc=doc)
        for name, rule, doc in (
            ("iscomplex", _has_part_rule(False), "Where the imaginary part is not zero."),
            ("isreal", _has_part_rule(True), "Where the imaginary part is zero."),
        )
    ),
    Op(
        "np::divmod",
        np.divmod,
        _divmod_rule,
        "x, y, out!=None, *, where!=True, casting!='same_kind', order!='K', dtype!=None, "
        "subok!=True",
        functions=(np.divmod,),
        doc="Quotients rounded down, and remainders.",
    ),
)
