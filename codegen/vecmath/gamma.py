"""The gamma function and the logarithm of its absolute value, for ``scalar.function`` to compile.

Three ways lead to a positive argument (Abramowitz and Stegun, Handbook of Mathematical Functions,
section 6.1): below 3/4 the recurrence takes it up once, up to 17/2 it takes it down to [3/2, 5/2),
where ``1 / gamma(1 + u) = 1 + u (u - 1) M(u)`` keeps all bits near the two arguments whose gamma is
1, and beyond stands Stirling's series.  Negative arguments are reflected.  For float32 all is
computed in float64, but the gamma function on devices, most of which have few units for that; the
logarithm has zeros left of 0, near which float32 would leave few bits.
"""

from __future__ import annotations

import math
from typing import Final

from jitcore.codegen.scalar.vocabulary import (
    Scalar,
    cast,
    copysign,
    floor,
    fma,
    inf,
    nan,
    polynomial,
    rint,
    select,
)
from jitcore.codegen.vecmath.coefficients import GAMMA_INVERSE, GAMMA_STIRLING, SIN_PI
from jitcore.codegen.vecmath.exponential import exp_reduced, reduce_exp, scale
from jitcore.codegen.vecmath.logarithm import log, log1p
from jitcore.codegen.vecmath.pairs import quotient, times
from jitcore.codegen.vecmath.power import log_accurate

__all__ = ["gamma", "gamma_single", "gammaln"]

LOG_SQRT_2PI_HI: Final = {"float32": 0.9189385175704956, "float64": 0.9189385332046728}
LOG_SQRT_2PI_LO: Final = {"float32": 1.5634177259311896e-08, "float64": -3.8782941580672414e-17}
STIRLING: Final = 8.5
UP: Final = 0.75
# Beyond, gamma overflows, and its inverse is zero.
LARGEST: Final = {"float32": 48.0, "float64": 200.0}
# What is not above has an infinite inverse; SciPy gives infinity there.
SMALLEST: Final = math.ldexp(1.0, -1024)


def reduced(x: Scalar, dtype: str) -> Scalar:
    """P, a sum of two floats, and the w with ``gamma(x) = P / (1 + w)`` for 3/4 <= x < 17/2.

    Below 3/4 it is ``1 / (x (1 + w))``.  All differences but those below 3/4 are exact.
    """
    hi, lo = times(select(x >= 2.5, x - 1, 1), 0, select(x >= 3.5, x - 2, 1))
    hi, lo = times(hi, lo, select(x >= 4.5, x - 3, 1))
    hi, lo = times(hi, lo, select(x >= 5.5, x - 4, 1))
    hi, lo = times(hi, lo, select(x >= 6.5, x - 5, 1))
    hi, lo = times(hi, lo, select(x >= 7.5, x - 6, 1))
    steps = select(x >= 2.5, floor(x - 1.5), 0)
    u = select(x < UP, x, x - steps - 1)
    return hi, lo, u * (u - 1) * polynomial(u - 0.625, GAMMA_INVERSE[dtype])


def stirling_sum(x: Scalar, dtype: str) -> Scalar:
    """What Stirling's formula for log(gamma(x)) lacks, for x >= 17/2."""
    inverse = 1 / x
    return inverse * polynomial(inverse * inverse, GAMMA_STIRLING[dtype])


def stirling(x: Scalar, dtype: str) -> Scalar:
    """m near 1 and the integer n of ``gamma(x) = m 2**n``, for 17/2 <= x."""
    log_hi, log_lo = log_accurate(x, dtype)
    power = x - 0.5
    product = power * log_hi
    product_lo = fma(power, log_lo, fma(power, log_hi, -product))
    less = product - x
    total = less + LOG_SQRT_2PI_HI[dtype]
    less_lo = (product - less) - x
    total_lo = LOG_SQRT_2PI_HI[dtype] - (total - less)
    r, n = reduce_exp(total, dtype)
    rest = ((product_lo + LOG_SQRT_2PI_LO[dtype]) + (less_lo + total_lo)) + stirling_sum(x, dtype)
    return exp_reduced(r + rest, dtype), n


def sin_pi(x: Scalar, dtype: str) -> Scalar:
    """sin(pi x) / pi for x >= 0, but for its sign; x less its nearest integer is exact."""
    r = x - rint(x)
    z = r * r
    return fma(r * z, polynomial(z, SIN_PI[dtype]), r)


def gamma_of(x: Scalar, dtype: str) -> Scalar:
    """The gamma function: NaN at the negative integers, where it has poles of both signs."""
    magnitude = abs(x)
    bounded = select(magnitude > LARGEST[dtype], LARGEST[dtype], magnitude)
    is_large, is_up = bounded >= STIRLING, bounded < UP
    product, product_lo, w = reduced(select(is_large, 1, bounded), dtype)
    m, n = stirling(select(is_large, bounded, STIRLING), dtype)
    above = select(is_large, m, product)
    above_lo = select(is_large, 0, product_lo)
    below = select(is_large, 1, 1 + w)
    below_lo = select(is_large, 0, (1 - below) + w)
    sine = sin_pi(magnitude, dtype)
    half = 0.5 * rint(magnitude)
    # sin(pi x) has the sign of the remainder where the nearest integer is even.
    turned = select(rint(half) != half, sine, -sine)
    pole, pole_lo = times(above, above_lo, turned)
    pole, pole_lo = times(pole, pole_lo, select(is_up, 1, bounded))
    direct, direct_lo = times(below, below_lo, select(is_up, bounded, 1))
    is_negative = x < 0
    value = quotient(
        select(is_negative, below, above),
        select(is_negative, below_lo, above_lo),
        select(is_negative, pole, direct),
        select(is_negative, pole_lo, direct_lo),
    )
    scaled = scale(value, select(is_large, select(is_negative, -n, n), 0), dtype)
    finite = select(is_negative & (rint(x) == x), nan, scaled)
    return select(magnitude == 0, copysign(inf, x), select(x == inf, inf, finite))


def gammaln_float64(x: Scalar) -> Scalar:
    """log(abs(gamma(x)))."""
    magnitude = abs(x)
    is_large, is_up = magnitude >= STIRLING, magnitude < UP
    product, _, w = reduced(select(is_large, 1, magnitude), "float64")
    logarithm = log(select(is_large | is_up, magnitude, product), "float64")
    tail = log1p(w, "float64")
    large = (magnitude - 0.5) * (logarithm - 1) + (
        LOG_SQRT_2PI_HI["float64"]
        - 0.5
        + stirling_sum(select(is_large, magnitude, STIRLING), "float64")
    )
    direct = select(is_large, large, select(is_up, -logarithm, logarithm) - tail)
    sine = abs(sin_pi(magnitude, "float64")) * select(is_up, 1, magnitude)
    reflected = select(is_up, tail, -direct) - log(sine, "float64")
    value = select(x < 0, select(sine > 0, reflected, inf), direct)
    finite = select(magnitude > SMALLEST, value, inf)
    return select(magnitude == inf, x, select(x == x, finite, x))


def gamma(x: Scalar, dtype: str) -> Scalar:
    """The gamma function."""
    return (
        cast("float32", gamma_of(cast("float64", x), "float64"))
        if dtype == "float32"
        else gamma_of(x, dtype)
    )


def gammaln(x: Scalar, dtype: str) -> Scalar:
    """The logarithm of the absolute value of the gamma function.

    Left of 0 it has a zero beside most integers; near those its error is one of larger terms.
    """
    return (
        cast("float32", gammaln_float64(cast("float64", x)))
        if dtype == "float32"
        else gammaln_float64(x)
    )


def gamma_single(x: Scalar) -> Scalar:
    """The gamma function of a float32, without a float64."""
    return gamma_of(x, "float32")
