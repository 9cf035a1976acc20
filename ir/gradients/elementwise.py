"""Partial derivatives of elementwise ops, one function for each operand.

Each takes the derivative with respect to the result, the result and the operands.  At ties the
conventions are JAX's: `maximum` and its like give each operand half, the derivative of the
absolute value at 0 is 0, and that of a power with the exponent 0 is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jitcore.ir.gradients.expressions import Expression, function

__all__ = ["PARTIALS", "Partial"]

Partial = Callable[..., Expression]

sqrt, exp, log = function("np::sqrt"), function("np::exp"), function("np::log")
log1p = function("np::log1p")
sin, cos, sinh, cosh = (function(f"np::{name}") for name in ("sin", "cos", "sinh", "cosh"))
sign, power = function("np::sign"), function("np::power")
floor_divide, trunc = function("np::floor_divide"), function("np::trunc")
copysign, hypot, where = (function(f"np::{name}") for name in ("copysign", "hypot", "where"))
expm1 = function("np::expm1")

E = Expression


def _chosen(g: E, y: E, x: E, other: E) -> E:
    """What an operand of a choice between two gets: half of it where they are equal."""
    return where(x.equals(other), g * 0.5, where(x.equals(y), g, 0.0))


def _first(g: E, y: E, x1: E, x2: E) -> E:
    return _chosen(g, y, x1, x2)


def _second(g: E, y: E, x1: E, x2: E) -> E:
    return _chosen(g, y, x2, x1)


def _power_base(g: E, y: E, x: E, p: E) -> E:
    known = p.known
    if known is not None:
        if known == 2:
            return g * 2.0 * x
        return g * (known * power(x, known - 1)) if known else g * 0.0
    return g * where(p.equals(0.0), 0.0, p * power(x, where(p.equals(0.0), 1.0, p - 1.0)))


def _power_exponent(g: E, y: E, x: E, p: E) -> E:
    return g * y * log(where(x.equals(0.0), 1.0, x))


def _hypot_part(g: E, y: E, x: E) -> E:
    return g * x / where(y.equals(0.0), 1.0, y)


def _absolute(g: E, y: E, x: E) -> E:
    return g * sign(x)


def _remainder_divisor(g: E, y: E, x1: E, x2: E) -> E:
    return -g * floor_divide(x1, x2)


def _fmod_divisor(g: E, y: E, x1: E, x2: E) -> E:
    return -g * trunc(x1 / x2)


def _log_factor(g: E, y: E, x1: E, x2: E) -> E:
    return g * where(x2.equals(0.0), 1.0, log(x2))


_LN2, _LN10 = math.log(2), math.log(10)
_ERF = 2 / math.sqrt(math.pi)
_GAUSSIAN = 1 / math.sqrt(2 * math.pi)

_ONE_OPERAND: dict[str, Partial] = {
    "negative": lambda g, y, x: -g,
    "positive": lambda g, y, x: g,
    "absolute": _absolute,
    "fabs": _absolute,
    "sqrt": lambda g, y, x: g * 0.5 / y,
    "cbrt": lambda g, y, x: g / (3.0 * y * y),
    "square": lambda g, y, x: g * 2.0 * x,
    "reciprocal": lambda g, y, x: -g * y * y,
    "exp": lambda g, y, x: g * y,
    "exp2": lambda g, y, x: g * y * _LN2,
    "expm1": lambda g, y, x: g * (y + 1.0),
    "log": lambda g, y, x: g / x,
    "log2": lambda g, y, x: g / (x * _LN2),
    "log10": lambda g, y, x: g / (x * _LN10),
    "log1p": lambda g, y, x: g / (x + 1.0),
    "sin": lambda g, y, x: g * cos(x),
    "cos": lambda g, y, x: -g * sin(x),
    "tan": lambda g, y, x: g * (1.0 + y * y),
    "arcsin": lambda g, y, x: g / sqrt(1.0 - x * x),
    "arccos": lambda g, y, x: -g / sqrt(1.0 - x * x),
    "arctan": lambda g, y, x: g / (1.0 + x * x),
    "sinh": lambda g, y, x: g * cosh(x),
    "cosh": lambda g, y, x: g * sinh(x),
    "tanh": lambda g, y, x: g * (1.0 - y * y),
    "arcsinh": lambda g, y, x: g / sqrt(x * x + 1.0),
    "arccosh": lambda g, y, x: g / sqrt(x * x - 1.0),
    "arctanh": lambda g, y, x: g / (1.0 - x * x),
    "degrees": lambda g, y, x: g * (180.0 / math.pi),
    "radians": lambda g, y, x: g * (math.pi / 180.0),
}

_TWO_OPERANDS: dict[str, tuple[Partial | None, Partial | None]] = {
    "add": (lambda g, y, a, b: g, lambda g, y, a, b: g),
    "subtract": (lambda g, y, a, b: g, lambda g, y, a, b: -g),
    "multiply": (lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    "divide": (lambda g, y, a, b: g / b, lambda g, y, a, b: -g * y / b),
    "power": (_power_base, _power_exponent),
    "float_power": (_power_base, _power_exponent),
    "hypot": (lambda g, y, a, b: _hypot_part(g, y, a), lambda g, y, a, b: _hypot_part(g, y, b)),
    "arctan2": (
        lambda g, y, a, b: g * (b / hypot(a, b)) / hypot(a, b),
        lambda g, y, a, b: -g * (a / hypot(a, b)) / hypot(a, b),
    ),
    "logaddexp": (lambda g, y, a, b: g * exp(a - y), lambda g, y, a, b: g * exp(b - y)),
    "logaddexp2": (
        lambda g, y, a, b: g * exp((a - y) * _LN2),
        lambda g, y, a, b: g * exp((b - y) * _LN2),
    ),
    "maximum": (_first, _second),
    "minimum": (_first, _second),
    "fmax": (_first, _second),
    "fmin": (_first, _second),
    "copysign": (
        lambda g, y, a, b: g * copysign(1.0, a) * copysign(1.0, b),
        None,
    ),
    "floor_divide": (None, None),
    "heaviside": (None, lambda g, y, a, b: where(a.equals(0.0), g, 0.0)),
    "nextafter": (lambda g, y, a, b: g, None),
    "remainder": (lambda g, y, a, b: g, _remainder_divisor),
    "fmod": (lambda g, y, a, b: g, _fmod_divisor),
}

_SPECIAL: dict[str, tuple[Partial | None, ...]] = {
    "erf": (lambda g, y, x: g * exp(-x * x) * _ERF,),
    "erfc": (lambda g, y, x: -g * exp(-x * x) * _ERF,),
    "expit": (lambda g, y, x: g * y * (1.0 - y),),
    "logit": (lambda g, y, x: g / (x * (1.0 - x)),),
    "log_expit": (lambda g, y, x: g * -expm1(y),),
    "ndtr": (lambda g, y, x: g * exp(x * x * -0.5) * _GAUSSIAN,),
    "log_ndtr": (lambda g, y, x: g * exp(x * x * -0.5 - y) * _GAUSSIAN,),
    "erfcx": (lambda g, y, x: g * (2.0 * x * y - _ERF),),
    "entr": (lambda g, y, x: -g * (log(x) + 1.0),),
    "xlogy": (_log_factor, lambda g, y, a, b: g * a / b),
    "xlog1py": (lambda g, y, a, b: g * log1p(b), lambda g, y, a, b: g * a / (1.0 + b)),
    "rel_entr": (lambda g, y, a, b: g * (log(a / b) + 1.0), lambda g, y, a, b: -g * a / b),
    "exp10": (lambda g, y, x: g * y * _LN10,),
    **{name: (_ONE_OPERAND[name],) for name in ("exp2", "expm1", "log1p", "cbrt")},
}

_OF_PYTHON: dict[str, str] = {
    "prim::add": "add",
    "prim::sub": "subtract",
    "prim::mul": "multiply",
    "prim::truediv": "divide",
    "prim::pow": "power",
    "prim::mod": "remainder",
    "prim::floordiv": "floor_divide",
    "prim::neg": "negative",
    "prim::pos": "positive",
    "prim::abs": "absolute",
    "prim::min": "minimum",
    "prim::max": "maximum",
    "math::asin": "arcsin",
    "math::acos": "arccos",
    "math::atan": "arctan",
    "math::asinh": "arcsinh",
    "math::acosh": "arccosh",
    "math::atanh": "arctanh",
    "math::atan2": "arctan2",
    "math::nextafter": "nextafter",
    "math::pow": "power",
    **{
        f"math::{name}": name
        for name in (*_ONE_OPERAND, "hypot", "fmod", "copysign")
        if name not in ("negative", "positive", "absolute", "square", "reciprocal")
    },
}
"""Python's operators and functions, and the ufuncs whose derivatives they have."""

_UFUNCS: dict[str, tuple[Partial | None, ...]] = {
    **{name: (partial,) for name, partial in _ONE_OPERAND.items()},
    **_TWO_OPERANDS,
}

PARTIALS: dict[str, tuple[Partial | None, ...]] = {
    **{f"np::{name}": partials for name, partials in _UFUNCS.items()},
    **{kind: _UFUNCS[name] for kind, name in _OF_PYTHON.items()},
    **{f"special::{name}": partials for name, partials in _SPECIAL.items()},
    "math::erf": _SPECIAL["erf"],
    "math::erfc": _SPECIAL["erfc"],
    "np::where": (
        None,
        lambda g, y, c, a, b: where(c, g, 0.0),
        lambda g, y, c, a, b: where(c, 0.0, g),
    ),
}
"""The partial derivatives of elementwise ops, by kind; None where one is 0 or is not defined."""
