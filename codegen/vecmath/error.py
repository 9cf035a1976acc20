"""The error function and the normal distribution, for ``scalar.function`` to compile.

Up to 1/2, ``erf(x) / x`` is a polynomial.  Beyond, ``erfc(x) = g(q) exp(-x**2) / (1 + 2 x)`` with
``q = (x - k) / (x + k)``, where g is nearly constant and one polynomial on the whole half line
(Shepherd and Laframboise, Mathematics of Computation 36, 1981).  In float32, erf takes it as
``2**-p(x)``, with a polynomial p.
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
)
from jitcore.codegen.vecmath.coefficients import ERF, ERFC, ERFC_LOG2, EXP2
from jitcore.codegen.vecmath.exponential import (
    clamp,
    expm1_reduced,
    reduce_exp,
    scale,
    scale_quietly,
)
from jitcore.codegen.vecmath.formats import FORMATS
from jitcore.codegen.vecmath.logarithm import log, log1p
from jitcore.codegen.vecmath.pairs import quotient

__all__ = ["erf", "erfc", "erfcx", "log_ndtr", "ndtr"]

SQRT_HALF: Final = math.sqrt(0.5)
ERF_IS_1: Final = 3.9375
"""From here on erf(x) is 1 in float32."""
SQRT_2: Final = math.sqrt(2)
ONE_OVER_SQRT_PI: Final = 1 / math.sqrt(math.pi)
# (-1)**k (2 k - 1)!! (Abramowitz and Stegun, 7.1.23)
ASYMPTOTIC: Final = (1, -1, 3, -15, 105, -945, 10395, -135135)


def erf_small(x: Scalar, dtype: str) -> Scalar:
    """erf(x) for |x| <= 1/2."""
    return fma(x, polynomial(x * x, ERF[dtype]), x)


def erfc_numerator(x: Scalar, dtype: str) -> Scalar:
    """g, which is ``exp(x**2) erfc(x) (1 + 2 x)``, for x >= 1/2 where erfc(x) is not zero."""
    c = FORMATS[dtype]
    return polynomial((x - c.erfc_pole) / (x + c.erfc_pole), ERFC[dtype])


def erfc_positive(x: Scalar, dtype: str) -> Scalar:
    """erfc(x) for x >= 1/2; the rounding error of x**2 goes into the reduced argument of exp."""
    c = FORMATS[dtype]
    bounded = select(x > c.erfc_max, c.erfc_max, x)
    square = bounded * bounded
    r, n = reduce_exp(-square, dtype)
    e = expm1_reduced(r - fma(bounded, bounded, -square), dtype)
    g = erfc_numerator(bounded, dtype)
    return scale_quietly(fma(g, e, g) / fma(2, bounded, 1), n, dtype)


def erfc_rough_float32(x: Scalar) -> Scalar:
    """erfc(x) for x >= 1/2 with an error below 2**-26, which is nothing beside 1.

    As a power of 2 it needs no division; NaN is left to the caller.
    """
    c = FORMATS["float32"]
    power = polynomial(select(x > ERF_IS_1, ERF_IS_1, x), ERFC_LOG2["float32"])
    shifted = c.shifter - power
    r = (c.shifter - shifted) - power
    fraction = fma(r, polynomial(r, EXP2["float32"]), 1)
    # The shift leaves the integer that the low bits of the shifted number are.
    exponent_bits = bits("int32", shifted) << c.mantissa
    return bits("float32", bits("int32", fraction) + exponent_bits)


def erf(x: Scalar, dtype: str) -> Scalar:
    """The error function."""
    magnitude = abs(x)
    is_float32 = dtype == "float32"
    tail = erfc_rough_float32(magnitude) if is_float32 else erfc_positive(magnitude, dtype)
    return select(magnitude > 0.5, copysign(1 - tail, x), erf_small(x, dtype))


def erfc(x: Scalar, dtype: str) -> Scalar:
    """1 - erf(x), without the cancellation."""
    magnitude = abs(x)
    tail = erfc_positive(magnitude, dtype)
    large = select(x < 0, 2 - tail, tail)
    return select(magnitude > 0.5, large, 1 - erf_small(x, dtype))


def exp_of_square(x: Scalar, dtype: str) -> Scalar:
    """exp(x**2), with the rounding error of x**2."""
    c = FORMATS[dtype]
    bounded = clamp(x, -c.erfc_max, c.erfc_max)
    square = bounded * bounded
    r, n = reduce_exp(square, dtype)
    return scale(1 + expm1_reduced(r + fma(bounded, bounded, -square), dtype), n, dtype)


def erfc_far(x: Scalar, dtype: str) -> Scalar:
    """``exp(x**2) erfc(x) x`` where erfc(x) is zero: the asymptotic series in 1 / (2 x**2)."""
    inverse = 1 / x
    return ONE_OVER_SQRT_PI * polynomial(0.5 * inverse * inverse, ASYMPTOTIC)


def erfcx(x: Scalar, dtype: str) -> Scalar:
    """exp(x**2) erfc(x)."""
    c = FORMATS[dtype]
    magnitude = abs(x)
    g, divisor = erfc_numerator(magnitude, dtype), fma(2, magnitude, 1)
    is_far = magnitude > c.erfc_max
    far = erfc_far(select(is_far, magnitude, c.erfc_max), dtype)
    tail = select(is_far, far, g) / select(is_far, magnitude, divisor)
    power = exp_of_square(x, dtype)
    large = select(x < 0, 2 * power - tail, tail)
    return select(magnitude > 0.5, large, power * (1 - erf_small(x, dtype)))


def normal_tail(x: Scalar, dtype: str) -> Scalar:
    """``erfc(x / sqrt(2)) / 2`` for x >= sqrt(1/2), with the rounding error of x**2."""
    c = FORMATS[dtype]
    bounded = select(x > c.erfc_max * SQRT_2, c.erfc_max * SQRT_2, x)
    square = bounded * bounded
    r, n = reduce_exp(-0.5 * square, dtype)
    e = expm1_reduced(r - 0.5 * fma(bounded, bounded, -square), dtype)
    g = erfc_numerator(bounded * SQRT_HALF, dtype)
    above, below = fma(g, e, g), fma(SQRT_2, bounded, 1)
    value = quotient(above, fma(g, e, g - above), below, fma(SQRT_2, bounded, 1 - below))
    return scale_quietly(value, n - 1, dtype)


def ndtr(x: Scalar, dtype: str) -> Scalar:
    """The distribution function of the normal distribution."""
    magnitude = abs(x)
    tail = normal_tail(magnitude, dtype)
    large = select(x < 0, tail, 1 - tail)
    return select(magnitude > SQRT_HALF, large, fma(0.5, erf_small(x * SQRT_HALF, dtype), 0.5))


def log_ndtr(x: Scalar, dtype: str) -> Scalar:
    """log(ndtr(x)): left of 0 the exponential in it and its logarithm cancel."""
    c = FORMATS[dtype]
    magnitude = abs(x)
    z = magnitude * SQRT_HALF
    half = 0.5 * magnitude
    square = half * magnitude
    rest = select(square < inf, fma(half, magnitude, -square), 0)
    is_far = z > c.erfc_max
    far = erfc_far(select(is_far, z, c.erfc_max), dtype)
    scaled = select(is_far, far, erfc_numerator(z, dtype)) / select(is_far, z, fma(2, z, 1))
    middle = fma(0.5, erf_small(-z, dtype), 0.5)
    is_tail = magnitude > SQRT_HALF
    factor = log(select(is_tail, 0.5 * scaled, middle), dtype)
    left = factor - select(is_tail, rest + square, 0)
    right = log1p(-select(is_tail, normal_tail(magnitude, dtype), middle), dtype)
    return select(x > 0, right, select(x == -inf, x, left))
