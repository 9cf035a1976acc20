"""The ``cmath`` module, as far as it is arithmetic on the two parts of a number.

The formulas are those of CPython's module, by which its results have their last digits (W. Kahan,
"Branch Cuts for Complex Elementary Functions", 1987, for the square root).  What they give for
infinities and NaN is in tables there, and some versions raise an OverflowError for a phase that is
rounded to zero, so such numbers are Python's.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.list_functions import NOT_FINITE, SMALL_PHASE
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor
from jitcore.ir.ops.operators import is_tensor
from jitcore.ir.reference import require
from jitcore.ir.types import BOOL, COMPLEX, FLOAT, INT, is_number, is_scalar_tensor

__all__ = ["OPS", "complex_rule"]

_COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))

_LARGE = math.log(np.finfo(np.float64).max / 4.0)
"""Where the real part is larger, its exponential is taken in two steps."""

_SMALL = float(np.finfo(np.float64).tiny)
_UP, _DOWN = 2.0**53, 2.0**-27
"""Subnormal numbers are scaled before a square root is taken; the root of one is the other."""


def _require_finite(z: Any) -> None:
    is_finite = math.isfinite(z.real) and math.isfinite(z.imag)
    require(is_finite, "NotImplementedError", NOT_FINITE)


def _require_range(real: Any, imaginary: Any) -> None:
    is_in_range = math.isfinite(real) and math.isfinite(imaginary)
    require(is_in_range, "OverflowError", "math range error")


def _phase(z: Any) -> Any:
    angle = math.atan2(z.imag, z.real)
    is_small = -_SMALL < angle < _SMALL and z.imag != 0.0
    require(not is_small, "NotImplementedError", SMALL_PHASE)
    return angle


def _polar(z: Any) -> Any:
    _require_finite(z)
    size = math.hypot(z.real, z.imag)
    _require_range(size, 0.0)
    return size, math.atan2(z.imag, z.real)


def _rect(size: Any, angle: Any) -> Any:
    _require_finite(complex(size, angle))
    if angle == 0.0:
        return complex(size, size * angle)
    return complex(size * math.cos(angle), size * math.sin(angle))


def _exponential(z: Any) -> Any:
    _require_finite(z)
    if z.real > _LARGE:
        size = math.exp(z.real - 1.0)
        real, imaginary = size * math.cos(z.imag) * math.e, size * math.sin(z.imag) * math.e
    else:
        size = math.exp(z.real)
        real, imaginary = size * math.cos(z.imag), size * math.sin(z.imag)
    _require_range(real, imaginary)
    return complex(real, imaginary)


def _root(z: Any) -> Any:
    _require_finite(z)
    if z.real == 0.0 and z.imag == 0.0:
        return complex(0.0, z.imag)
    real, imaginary = math.fabs(z.real), math.fabs(z.imag)
    if real < _SMALL and imaginary < _SMALL:
        real, imaginary = real * _UP, imaginary * _UP
        larger = math.sqrt(real + math.hypot(real, imaginary)) * _DOWN
    else:
        real = real / 8.0
        larger = 2.0 * math.sqrt(real + math.hypot(real, imaginary / 8.0))
    smaller = math.fabs(z.imag) / (2.0 * larger)
    if z.real >= 0.0:
        return complex(larger, math.copysign(smaller, z.imag))
    return complex(smaller, math.copysign(larger, z.imag))


def _is_nan(z: Any) -> Any:
    return math.isnan(z.real) or math.isnan(z.imag)


def _is_infinite(z: Any) -> Any:
    return math.isinf(z.real) or math.isinf(z.imag)


def _is_finite(z: Any) -> Any:
    return math.isfinite(z.real) and math.isfinite(z.imag)


def complex_rule(b: Builder, call: Call) -> Value:
    """``complex(x)`` and ``complex(x, y)``, of NumPy's scalars too."""
    x, given = call.value("x"), call.bound.get("y")
    y = given if isinstance(given, Value) else None  # None itself is no number
    if x.type == COMPLEX and y is None:
        return x
    if y is None and is_scalar_tensor(x.type) and tensor(x).dtype in _COMPLEX:
        x, y = b.op("np::real", x), b.op("np::imag", x)
    parts = [x, b.constant(0.0) if y is None else y]
    for place, part in enumerate(parts):
        if is_scalar_tensor(part.type) and tensor(part).dtype not in _COMPLEX:
            parts[place] = b.op("prim::float", part)
        elif not is_number(part.type) or part.type == COMPLEX:
            raise Untypable(f"complex() of {part.type}")
    return b.emit("prim::complex", parts, {}, COMPLEX)


def _converted(b: Builder, value: Value, kind: str) -> Value:
    is_scalar = is_tensor(value) and tensor(value).scalar
    if is_scalar and tensor(value).dtype not in (np.dtype(np.float64), np.dtype(np.complex128)):
        raise Untypable("the cmath module on other scalars than float64 and complex128")
    if not is_scalar and value.type not in (COMPLEX, FLOAT, INT, BOOL):
        raise Untypable(f"the cmath module on {value.type}")
    return b.op(kind, value)


def _op(name: str, parameters: str, definition: Any, *, starts_anew: bool = False) -> Op:
    names = parameters.split(", ")
    kind = "prim::complex" if len(names) == 1 else "prim::float"

    def rule(b: Builder, call: Call) -> Value:
        if starts_anew and not b.is_native:
            raise Untypable("numbers that the cmath module has rules of its own for")
        return b.define(definition, *(_converted(b, call.value(one), kind) for one in names))

    known: Rule = rule
    f = getattr(cmath, name)
    doc = (f.__doc__ or name).strip().split("\n")[0]
    return Op(f"cmath::{name}", f, known, parameters, functions=(f,), doc=doc)


OPS: tuple[Op, ...] = (
    _op("phase", "z", _phase, starts_anew=True),
    _op("polar", "z", _polar, starts_anew=True),
    _op("rect", "r, phi", _rect, starts_anew=True),
    _op("exp", "z", _exponential, starts_anew=True),
    _op("sqrt", "z", _root, starts_anew=True),
    _op("isnan", "z", _is_nan),
    _op("isinf", "z", _is_infinite),
    _op("isfinite", "z", _is_finite),
)
