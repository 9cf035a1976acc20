"""NumPy's elementary float functions that are no primitives, for ``scalar.function`` to compile.

These give NumPy's own results to the last bit, except for ``logaddexp`` and ``logaddexp2``.
"""

from __future__ import annotations

from typing import Final

from jitcore.codegen.scalar.vocabulary import (
    Scalar,
    bits,
    cast,
    copysign,
    inf,
    nan,
    select,
)
from jitcore.codegen.vecmath.exponential import exp, exp2, scale
from jitcore.codegen.vecmath.formats import FORMATS
from jitcore.codegen.vecmath.logarithm import log1p

__all__ = [
    "fmax",
    "fmin",
    "heaviside",
    "ldexp",
    "logaddexp",
    "logaddexp2",
    "nextafter",
    "sign",
    "spacing",
    "spacing_float16",
]


SAME_SIZE: Final = {"float16": "int16", "float32": "int32", "float64": "int64"}


def sign(x: Scalar) -> Scalar:
    """-1, 0, 1 or NaN."""
    return select(x > 0, 1, select(x < 0, -1, select(x == 0, 0, x)))


def fmax(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The larger number; NaN only where both are NaN.

    Of two zeros it is the second, which NumPy's vector loops take (its scalar ones the first).  For
    float16 NumPy has only a scalar one.
    """
    is_first = x >= y if dtype == "float16" else x > y
    return select(is_first | (y != y), x, y)


def fmin(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The smaller number; NaN only where both are NaN; of two zeros the one that `fmax` takes."""
    is_first = x <= y if dtype == "float16" else x < y
    return select(is_first | (y != y), x, y)


def heaviside(x: Scalar, at_zero: Scalar) -> Scalar:
    """0 below zero, 1 above it."""
    return select(x != x, x, select(x == 0, at_zero, select(x < 0, 0, 1)))


def nextafter(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The next number from x towards y; numbers of one sign are ordered as their bits are.

    Of two zeros it is y, in float16 x.
    """
    pattern = bits(SAME_SIZE[dtype], x)
    is_away = (x < y) ^ (x < 0)
    moved = bits(dtype, select(is_away, pattern + 1, pattern - 1))
    least = copysign(bits(dtype, cast(SAME_SIZE[dtype], 1)), y)
    distinct = select(x == 0, least, moved)
    equal = x if dtype == "float16" else y
    return select((x == x) & (y == y), select(x == y, equal, distinct), x + y)


def spacing(x: Scalar, dtype: str) -> Scalar:
    """The distance to the next number away from zero, with the sign of x; positive at 0."""
    following = bits(dtype, bits(SAME_SIZE[dtype], x) + 1)
    distance = select(x == 0, bits(dtype, cast(SAME_SIZE[dtype], 1)), following - x)
    return select(abs(x) < inf, distance, nan)


def spacing_float16(x: Scalar) -> Scalar:
    """The distance to the next number above, which is what NumPy has for float16."""
    pattern = bits("int16", x)
    following = bits("float16", select(x < 0, pattern - 1, pattern + 1))
    distance = select(x == 0, bits("float16", cast("int16", 1)), following - x)
    return select(abs(x) < inf, distance, nan)


def ldexp(x: Scalar, n: Scalar, dtype: str) -> Scalar:
    """x * 2**n with one rounding; n is int64."""
    c = FORMATS[dtype]
    magnitude = abs(x)
    is_subnormal = magnitude < c.min_normal
    pattern = bits(c.integer, select(is_subnormal, magnitude * c.two_mantissa, magnitude))
    raw = pattern >> c.mantissa
    exponent = select(is_subnormal, raw - c.mantissa, raw) - c.bias
    significand = bits(dtype, (pattern & c.mantissa_mask) + (c.bias << c.mantissa))
    high, low = 4 * c.bias, -4 * c.bias
    bounded = cast(c.integer, select(n > high, high, select(n < low, low, n)))
    total = exponent + bounded
    first, last = -c.bias - c.mantissa - 2, c.bias + 2
    power = select(total > last, last, select(total < first, first, total))
    result = copysign(scale(significand, power, dtype), x)
    return select((magnitude > 0) & (magnitude < inf), result, x)


def logaddexp(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """log(exp(x) + exp(y)), from the larger one and the difference."""
    c = FORMATS[dtype]
    larger = select(x > y, x, y)
    return select(x == y, x + c.ln2_hi, larger + log1p(exp(-abs(x - y), dtype), dtype))


def logaddexp2(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """log2(2**x + 2**y), from the larger one and the difference."""
    c = FORMATS[dtype]
    larger = select(x > y, x, y)
    rest = log1p(exp2(-abs(x - y), dtype), dtype) * c.log2e_hi
    return select(x == y, x + 1, larger + rest)
