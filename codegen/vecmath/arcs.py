"""Inverse trigonometric functions, for ``scalar.function`` to compile.

Arguments are reduced to a short interval by the classical identities (fdlibm's e_asin.c and
s_atan.c, Sun Microsystems 1993; Cephes' atan.c, S. Moshier), where an odd polynomial does the rest.
The multiples of pi are unevaluated sums, and are added last.
"""

from __future__ import annotations

import math
from typing import Final

from jitcore.codegen.scalar.vocabulary import (
    Scalar,
    bits,
    copysign,
    fma,
    inf,
    polynomial,
    select,
    sqrt,
)
from jitcore.codegen.vecmath.coefficients import ARCSIN, ARCTAN
from jitcore.codegen.vecmath.formats import FORMATS

__all__ = ["arccos", "arcsin", "arctan", "arctan2"]

TAN_PI_8: Final = math.sqrt(2) - 1


def arcsin_reduced(x: Scalar, dtype: str) -> Scalar:
    """s and p such that s + p is arcsin(|x|) up to 1/2, arcsin(sqrt((1 - |x|) / 2)) beyond."""
    magnitude = abs(x)
    is_large = magnitude > 0.5
    z = select(is_large, fma(-0.5, magnitude, 0.5), magnitude * magnitude)
    s = select(is_large, sqrt(z), magnitude)
    return s, s * z * polynomial(z, ARCSIN[dtype])


def arcsin(x: Scalar, dtype: str) -> Scalar:
    """``pi / 2 - 2 arcsin(sqrt((1 - |x|) / 2))`` beyond 1/2."""
    c = FORMATS[dtype]
    s, p = arcsin_reduced(x, dtype)
    large = fma(-2, s, c.half_pi_hi) - fma(2, p, -c.half_pi_lo)
    return copysign(select(abs(x) > 0.5, large, s + p), x)


def arccos(x: Scalar, dtype: str) -> Scalar:
    """``2 arcsin(sqrt((1 - |x|) / 2))`` or pi less that beyond 1/2, else ``pi / 2 - arcsin(x)``."""
    c = FORMATS[dtype]
    s, p = arcsin_reduced(x, dtype)
    signed = copysign(1, x)
    small = c.half_pi_hi - fma(signed, s, fma(signed, p, -c.half_pi_lo))
    negative = fma(-2, s, 2 * c.half_pi_hi) - fma(2, p, -2 * c.half_pi_lo)
    large = select(x < 0, negative, 2 * (s + p))
    return select(abs(x) > 0.5, large, small)


def arctan_tail(t: Scalar, dtype: str) -> Scalar:
    """arctan(t) - t for |t| <= tan(pi / 8)."""
    z = t * t
    return t * z * polynomial(z, ARCTAN[dtype])


def arctan(x: Scalar, dtype: str) -> Scalar:
    """arctan of |x|, ``(|x| - 1) / (|x| + 1)`` or ``-1 / |x|``, plus 0, pi / 4 or pi / 2."""
    c = FORMATS[dtype]
    magnitude = abs(x)
    is_small = magnitude < TAN_PI_8
    is_large = magnitude > 1 / TAN_PI_8
    numerator = select(is_small, magnitude, select(is_large, -1, magnitude - 1))
    denominator = select(is_small, 1, select(is_large, magnitude, magnitude + 1))
    t = numerator / denominator
    eighths = select(is_small, 0, select(is_large, 2, 1))
    tail = fma(eighths, c.half_pi_lo / 2, arctan_tail(t, dtype))
    return copysign(fma(eighths, c.half_pi_hi / 2, t + tail), x)


def arctan2(y: Scalar, x: Scalar, dtype: str) -> Scalar:
    """The angle of the point (x, y).

    The quotient of the smaller coordinate by the larger one is at most 1; above tan(pi / 8) it is
    reduced as in ``arctan``, on halved coordinates, whose sum cannot overflow.
    """
    c = FORMATS[dtype]
    across, up = abs(x), abs(y)
    is_steep = up > across
    small, large = select(is_steep, across, up), select(is_steep, up, across)
    is_middle = small > TAN_PI_8 * large
    factor = select(large > 1, 0.5, 1)
    both_infinite = small == inf
    numerator = select(is_middle, factor * small - factor * large, small)
    denominator = select(is_middle, factor * small + factor * large, large)
    safe_numerator = select(both_infinite, 0, numerator)
    t = safe_numerator / select((denominator == 0) | both_infinite, 1, denominator)
    eighths = select(is_middle | both_infinite, 1, 0)
    is_backward = bits(c.integer, x) < 0
    first = select(is_steep, 2 - eighths, eighths)
    multiple = select(is_backward, 4 - first, first)
    sign = select(is_steep ^ is_backward, -1, 1)
    high = multiple * (c.half_pi_hi / 2)
    low = fma(multiple, c.half_pi_hi / 2, -high) + multiple * (c.half_pi_lo / 2)
    angle = high + fma(sign, t, fma(sign, arctan_tail(t, dtype), low))
    return select((x == x) & (y == y), copysign(angle, y), x + y)
