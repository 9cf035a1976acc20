"""The ``math`` module."""

from __future__ import annotations

import math

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor
from jitcore.ir.ops.operators import is_tensor
from jitcore.ir.types import (
    BOOL,
    FLOAT,
    INT,
    Type,
)

__all__ = ["OPS"]


_MATH_DOMAIN = (
    "sqrt",
    "exp",
    "log",
    "log2",
    "log10",
    "log1p",
    "expm1",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "fabs",
    "erf",
    "erfc",
    "gamma",
    "lgamma",
    "degrees",
    "radians",
    "cbrt",
    "exp2",
)


def _as_float(b: Builder, value: Value) -> Value:
    if value.type == FLOAT:
        return value
    if value.type in (INT, BOOL) or (is_tensor(value) and tensor(value).dims == ()):
        return b.op("prim::float", value)
    raise Untypable(f"the math module on {value.type}")


def _math_rule(name: str, arguments: tuple[str, ...], result: Type) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        values = [_as_float(b, call.value(argument)) for argument in arguments]
        return b.emit(f"math::{name}", values, {}, result)

    return rule


def _math_integer_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        if x.type == INT:
            return x
        if name == "trunc" and is_tensor(x) and tensor(x).dtype != np.dtype(np.float64):
            raise Untypable("of NumPy's scalars only float64 has a __trunc__")
        return b.emit(f"math::{name}", [_as_float(b, x)], {}, INT)

    return rule


def _math_host_rule(b: Builder, call: Call) -> Value:
    raise Untypable("runs in the host program")


def _math_op(name: str, parameters: str, rule: Rule) -> Op:
    f = getattr(math, name)
    doc = (f.__doc__ or name).strip().split("\n")[0]
    return Op(f"math::{name}", f, rule, parameters, functions=(f,), doc=doc)


OPS: tuple[Op, ...] = (
    *(_math_op(name, "x", _math_rule(name, ("x",), FLOAT)) for name in _MATH_DOMAIN),
    *(
        _math_op(name, "x, y", _math_rule(name, ("x", "y"), FLOAT))
        for name in ("pow", "atan2", "copysign", "fmod", "remainder")
    ),
    *(
        _math_op(name, "x", _math_rule(name, ("x",), BOOL))
        for name in ("isnan", "isinf", "isfinite")
    ),
    *(_math_op(name, "x", _math_integer_rule(name)) for name in ("floor", "ceil", "trunc")),
    *(
        _math_op(name, "*values", _math_host_rule)
        for name in (
            "hypot",
            "gcd",
            "lcm",
            "factorial",
            "comb",
            "perm",
            "isqrt",
            "ldexp",
            "frexp",
            "modf",
            "fsum",
            "prod",
            "dist",
            "isclose",
            "nextafter",
            "ulp",
        )
    ),
)
