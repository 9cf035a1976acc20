"""Logarithms and inverse hyperbolic functions, for ``scalar.function`` to compile.

A positive x is ``2**k (1 + f)`` with ``sqrt(1/2) <= 1 + f < sqrt(2)``, and every logarithm is put
together from ``log(1 + f) = f - tail(f)`` with an exact f (the scheme of fdlibm's e_log.c, Sun
Microsystems 1993): float64 takes the tail from the series of ``2 atanh(f / (2 + f))``, float32
directly from a polynomial, which saves the division.
"""

from __future__ import annotations

from jitcore.codegen.scalar.vocabulary import (
    Scalar,
    bits,
    cast,
    copysign,
    fma,
    inf,
    nan,
    polynomial,
    select,
    sqrt,
)
from jitcore.codegen.vecmath.coefficients import LOG_ATANH, LOG_TAIL
from jitcore.codegen.vecmath.exponential import power_of_two
from jitcore.codegen.vecmath.formats import FORMATS

__all__ = [
    "arccosh",
    "arcsinh",
    "arctanh",
    "integer_as_float",
    "log",
    "log1p",
    "log2",
    "log10",
    "logit",
    "rel_entr",
    "split",
]


def integer_as_float(k: Scalar, dtype: str) -> Scalar:
    """A small integer of the format's integer dtype as a float, without a conversion."""
    c = FORMATS[dtype]
    return bits(dtype, k + c.shifter_bits) - c.shifter


def split_normal(x: Scalar, dtype: str) -> Scalar:
    """k and f with x = 2**k (1 + f), for a positive normal x."""
    c = FORMATS[dtype]
    offset = bits(c.integer, x) - c.sqrt_half_bits
    significand = bits(dtype, (offset & c.mantissa_mask) + c.sqrt_half_bits)
    return offset >> c.mantissa, significand - 1


def split(x: Scalar, dtype: str) -> Scalar:
    """k and f with x = 2**k (1 + f), for a positive x, also a subnormal one."""
    c = FORMATS[dtype]
    is_subnormal = x < c.min_normal
    k, f = split_normal(select(is_subnormal, x * c.two_mantissa, x), dtype)
    return select(is_subnormal, k - c.mantissa, k), f


def log1p_tail(f: Scalar, dtype: str) -> Scalar:
    """f - log(1 + f)."""
    return log1p_tail_float32(f) if dtype == "float32" else log1p_tail_float64(f)


def log1p_tail_float32(f: Scalar) -> Scalar:
    """``f**2 (1/2 - f P(f))``."""
    return f * f * fma(-f, polynomial(f, LOG_TAIL["float32"]), 0.5)


def log1p_tail_float64(f: Scalar) -> Scalar:
    """``f**2 / 2 - s (f**2 / 2 + R(s**2))`` with s = f / (2 + f)."""
    s = f / (2 + f)
    z = s * s
    half_square = 0.5 * f * f
    return fma(-s, fma(z, polynomial(z, LOG_ATANH["float64"]), half_square), half_square)


def at_positive(x: Scalar, value: Scalar) -> Scalar:
    """``value`` for positive finite x, and a logarithm's special values elsewhere."""
    return select(x > 0, select(x < inf, value, inf), select(x == 0, -inf, nan))


def log(x: Scalar, dtype: str) -> Scalar:
    """The natural logarithm."""
    c = FORMATS[dtype]
    exponent, f = split(x, dtype)
    k = integer_as_float(exponent, dtype)
    rest = f - fma(-k, c.ln2_lo, log1p_tail(f, dtype))
    return at_positive(x, fma(k, c.ln2_hi, rest))


def log2(x: Scalar, dtype: str) -> Scalar:
    """The logarithm to base 2, exact for powers of 2."""
    c = FORMATS[dtype]
    exponent, f = split(x, dtype)
    k = integer_as_float(exponent, dtype)
    rest = fma(f, c.log2e_lo, -(log1p_tail(f, dtype) * c.log2e_hi))
    return at_positive(x, k + fma(f, c.log2e_hi, rest))


def log10(x: Scalar, dtype: str) -> Scalar:
    """The logarithm to base 10; the error outside the last sum is below 1/16 ULP beyond 1."""
    c = FORMATS[dtype]
    exponent, f = split(x, dtype)
    k = integer_as_float(exponent, dtype)
    rest = fma(f, c.log10e_lo, fma(-log1p_tail(f, dtype), c.log10e_hi, k * c.log10_2_lo))
    return at_positive(x, fma(k, c.log10_2_hi, fma(f, c.log10e_hi, rest)))


def log1p_scaled(x: Scalar, doublings: Scalar, dtype: str) -> Scalar:
    """log(1 + x) + doublings log(2) for x > -1.

    With 1 + x = 2**k (1 + f), a fused multiply-add gives ``f = 2**-k x + (2**-k - 1)`` with one
    rounding, however much of x the sum 1 + x has lost.
    """
    c = FORMATS[dtype]
    exponent, rough = split_normal(1 + x, dtype)
    inverse = power_of_two(-exponent, dtype)
    f = select(x > c.large, rough, fma(inverse, x, inverse - 1))
    k = integer_as_float(exponent, dtype) + doublings
    rest = f - fma(-k, c.ln2_lo, log1p_tail(f, dtype))
    return fma(k, c.ln2_hi, rest)


def log1p(x: Scalar, dtype: str) -> Scalar:
    """log(1 + x)."""
    value = copysign(log1p_scaled(x, 0, dtype), x)
    return select(x > -1, select(x < inf, value, inf), select(x == -1, -inf, nan))


def arcsinh(x: Scalar, dtype: str) -> Scalar:
    """log1p(a + a**2 / (1 + sqrt(1 + a**2))) with a = |x|; log(2a) where a**2 could overflow."""
    c = FORMATS[dtype]
    a = abs(x)
    is_large = a >= c.large
    square = a * a
    argument = select(is_large, a, a + square / (1 + sqrt(1 + square)))
    value = log1p_scaled(argument, select(is_large, 1, 0), dtype)
    return copysign(select(a < inf, value, a), x)


def arccosh(x: Scalar, dtype: str) -> Scalar:
    """log1p(t + sqrt(2t + t**2)) with t = x - 1; log(2x) where t**2 could overflow."""
    c = FORMATS[dtype]
    is_large = x >= c.large
    t = x - 1
    argument = select(is_large, x, t + sqrt(fma(t, t, 2 * t)))
    value = log1p_scaled(argument, select(is_large, 1, 0), dtype)
    return select(x >= 1, select(x < inf, value, inf), nan)


def arctanh(x: Scalar, dtype: str) -> Scalar:
    """log1p(2a / (1 - a)) / 2 with a = |x|."""
    a = abs(x)
    return copysign(0.5 * log1p(2 * a / (1 - a), dtype), x)


def logit(x: Scalar, dtype: str) -> Scalar:
    """log(x / (1 - x)): around 1/2 by 2 atanh(2 x - 1), whose argument is exact there."""
    t = 2 * (x - 0.5)
    a = abs(t)
    near = copysign(log1p(2 * a / (1 - a), dtype), t)
    return select(a <= 0.5, near, log(x / (1 - x), dtype))


def rel_entr(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """x log(x / y), and 0 for x = 0: a difference of near numbers is exact, their ratio is not."""
    c = FORMATS[dtype]
    ratio = x / y
    is_near = (ratio > 0.5) & (ratio < 2)
    near = log1p((x - y) / y, dtype)
    is_regular = (ratio >= c.min_normal) & (ratio < inf)
    logarithm = select(is_near, near, log(select(is_regular, ratio, x), dtype))
    value = x * select(is_regular, logarithm, logarithm - log(y, dtype))
    at_border = select((x == 0) & (y >= 0), cast(dtype, 0), inf)
    outside = select((x != x) | (y != y), nan, at_border)
    return select((x > 0) & (y > 0), value, outside)
