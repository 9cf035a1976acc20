"""Exponentials and hyperbolic functions, for ``scalar.function`` to compile.

All go back to one reduction: ``x = n log(2) + r`` with an integer n and ``|r| <= log(2) / 2``, so
that ``exp(x) = 2**n exp(r)`` (Cody and Waite, Software Manual for the Elementary Functions, 1980,
chapter 6).  With a fused multiply-add the first step of ``x - n log(2)`` is exact.
"""

from __future__ import annotations

from jitcore.codegen.scalar.vocabulary import (
    Scalar,
    bits,
    copysign,
    fma,
    inf,
    polynomial,
    select,
)
from jitcore.codegen.vecmath.coefficients import EXP, EXP2, SINH
from jitcore.codegen.vecmath.formats import FORMATS

__all__ = [
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "power_of_two",
    "reduce_exp",
    "scale",
    "scale_quietly",
    "sigmoid",
    "sinh",
    "tanh",
]


def power_of_two(n: Scalar, dtype: str) -> Scalar:
    """2**n for an integer n in the range of normal numbers."""
    c = FORMATS[dtype]
    return bits(dtype, (n + c.bias) << c.mantissa)


def scale(x: Scalar, n: Scalar, dtype: str) -> Scalar:
    """x * 2**n for x near 1; only the last of the two products rounds, overflows or underflows."""
    half = n >> 1
    return x * power_of_two(half, dtype) * power_of_two(n - half, dtype)


def scale_quietly(x: Scalar, n: Scalar, dtype: str) -> Scalar:
    """x * 2**n for x > 0 near 1 and n from ``-bias - mantissa - 2`` on, where it does not overflow.

    Processors of Intel take 150 cycles for a product that is subnormal or zero, and as long for a
    whole vector of which one is: a softmax of masked scores took ten times as long.  So integers
    are added to the exponent instead.  What is below normal numbers first counts the least one of
    them, as a normal number, which rounds where a sum with ``2**mantissa`` does, and whose integer
    is then in the low bits of that.
    """
    c = FORMATS[dtype]
    pattern = bits(c.integer, x) + (n << c.mantissa)
    count = bits(dtype, pattern + ((c.bias + c.mantissa - 1) << c.mantissa))
    subnormal = bits(c.integer, count + c.two_mantissa) - c.two_mantissa_bits
    return bits(dtype, select(pattern < 1 << c.mantissa, subnormal, pattern))


def clamp(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """x between two bounds; NaN stays."""
    bounded = select(x > high, high, x)
    return select(x < low, low, bounded)


def reduce_exp(x: Scalar, dtype: str) -> Scalar:
    """r and the integer n of ``x = n log(2) + r``."""
    c = FORMATS[dtype]
    shifted = fma(x, c.log2e_hi, c.shifter)
    multiple = shifted - c.shifter
    r = fma(multiple, -c.ln2_lo, fma(multiple, -c.ln2_hi, x))
    return r, bits(c.integer, shifted) - c.shifter_bits


def expm1_reduced(r: Scalar, dtype: str) -> Scalar:
    """exp(r) - 1 for |r| <= log(2) / 2."""
    return fma(r * r, polynomial(r, EXP[dtype]), r)


def exp_reduced(r: Scalar, dtype: str) -> Scalar:
    """exp(r) for |r| <= log(2) / 2."""
    return fma(r, fma(r, polynomial(r, EXP[dtype]), 1), 1)


def exp(x: Scalar, dtype: str) -> Scalar:
    """e**x."""
    c = FORMATS[dtype]
    r, n = reduce_exp(select(x < c.exp_min, c.exp_min, x), dtype)
    return select(x <= c.exp_finite, scale_quietly(exp_reduced(r, dtype), n, dtype), x + inf)


def exp2(x: Scalar, dtype: str) -> Scalar:
    """2**x; x less its nearest integer is exact."""
    c = FORMATS[dtype]
    least = -c.bias - c.mantissa - 2
    bounded = select(x < least, least, x)
    shifted = bounded + c.shifter
    r = bounded - (shifted - c.shifter)
    n = bits(c.integer, shifted) - c.shifter_bits
    value = scale_quietly(fma(r, polynomial(r, EXP2[dtype]), 1), n, dtype)
    return select(x < c.bias + 1, value, x + inf)


def expm1_bounded(x: Scalar, dtype: str) -> Scalar:
    """expm1(x) for x in the range where 2**n is normal: ``2**n (exp(r) - 1) + (2**n - 1)``.

    Computed halved, so that 2**n may be the first power that overflows; halves of subnormal numbers
    are not exact, but there n is 0.
    """
    r, n = reduce_exp(x, dtype)
    reduced = expm1_reduced(r, dtype)
    half = power_of_two(n - 1, dtype)
    return select(n == 0, reduced, 2 * fma(half, reduced, half - 0.5))


def expm1(x: Scalar, dtype: str) -> Scalar:
    """e**x - 1."""
    c = FORMATS[dtype]
    return copysign(expm1_bounded(clamp(x, c.expm1_min, c.expm1_max), dtype), x)


def sigmoid(x: Scalar, dtype: str) -> Scalar:
    """1 / (1 + e**-x), by the exponential that cannot overflow."""
    e = exp(-abs(x), dtype)
    return select(x < 0, e, 1) / (1 + e)


def tanh(x: Scalar, dtype: str) -> Scalar:
    """``t / (t + 2)`` with t = e**2|x| - 1 keeps the error of t small everywhere."""
    c = FORMATS[dtype]
    magnitude = abs(x)
    bounded = select(magnitude > c.tanh_max, c.tanh_max, magnitude)
    t = expm1_bounded(2 * bounded, dtype)
    return copysign(t / (t + 2), x)


def half_exp(x: Scalar, dtype: str) -> Scalar:
    """e**x / 2 for x >= 0, which overflows as late as sinh and cosh do."""
    c = FORMATS[dtype]
    r, n = reduce_exp(select(x > c.exp_max + 1, c.exp_max + 1, x), dtype)
    return scale(exp_reduced(r, dtype), n - 1, dtype)


def sinh(x: Scalar, dtype: str) -> Scalar:
    """An odd polynomial up to 1, ``(e**x - e**-x) / 2`` beyond."""
    magnitude = abs(x)
    square = x * x
    small = fma(magnitude * square, polynomial(square, SINH[dtype]), magnitude)
    half = half_exp(magnitude, dtype)
    return copysign(select(magnitude < 1, small, half - 0.25 / half), x)


def cosh(x: Scalar, dtype: str) -> Scalar:
    """``(e**x + e**-x) / 2``."""
    half = half_exp(abs(x), dtype)
    return half + 0.25 / half
