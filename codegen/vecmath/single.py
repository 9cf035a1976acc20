"""Functions of float32 without a float64, for ``scalar.function`` to compile.

On processors these functions are faster by way of float64 (`trigonometry`, `power`).  Most devices
have few units for that: a 32nd or a 64th of those for float32.
"""

from __future__ import annotations

from typing import Final

from jitcore.codegen.scalar.vocabulary import (
    Scalar,
    bits,
    cast,
    fma,
    inf,
    nan,
    polynomial,
    select,
)
from jitcore.codegen.vecmath.coefficients import EXP, TWO_OVER_PI
from jitcore.codegen.vecmath.complex import imaginary_part, real_part
from jitcore.codegen.vecmath.exponential import clamp, scale
from jitcore.codegen.vecmath.formats import FORMATS
from jitcore.codegen.vecmath.power import finite_exponent, log_accurate, power_from
from jitcore.codegen.vecmath.trigonometry import (
    LOW_32_BITS,
    accurate_quarters_float32,
    cosine_of,
    quarters_float32,
    sine_of,
    tangent_of,
)

__all__ = [
    "complex_exp_im_single",
    "complex_exp_re_single",
    "cos_single",
    "pow_single",
    "sin_single",
    "tan_single",
]

# The bits of 2 / pi that matter for float32, after the word before the point, which is zero.
WORDS: Final = (
    0,
    *(word >> shift & LOW_32_BITS for word in TWO_OVER_PI[:4] for shift in (32, 0)),
)[:8]


# Sine, cosine and tangent -----------------------------------------------------------------


def window(position: Scalar) -> Scalar:
    """The 96 bits of ``WORDS`` from a bit position below 160 on, in three words."""
    index = position >> 5
    is_4, is_2, is_1 = index >= 4, index & 2 != 0, index & 1 != 0
    by_2 = [select(is_2, cast("uint32", WORDS[k + 2]), WORDS[k]) for k in range(5)]
    by_1 = [select(is_1, by_2[k + 1], by_2[k]) for k in range(4)]
    words = [select(is_4, cast("uint32", WORDS[k + 4]), by_1[k]) for k in range(4)]
    shift = position & 31
    rest = 31 ^ shift
    shifted = [(words[k] << shift) | ((words[k + 1] >> 1) >> rest) for k in range(3)]
    return shifted


def fixed_point(word: Scalar) -> Scalar:
    """The fraction ``word / 2**64`` in [-1/2, 1/2) as an unevaluated sum of two float32."""
    upper = cast("int32", word >> 32)
    first = cast("float32", upper >> 8) * 2.0**-24
    second_bits = ((upper & 0xFF) << 16) | cast("int32", word >> 16 & 0xFFFF)
    second = cast("float32", second_bits) * 2.0**-48
    third = cast("float32", cast("int32", word & 0xFFFF)) * 2.0**-64
    total = first + second
    return total, (second - (total - first)) + third


def reduce_far(x: Scalar) -> Scalar:
    """r as an unevaluated sum and q in the low bits of an integer with |x| = q pi / 2 + r.

    For |x| of at least `MODERATE`, by the method of Payne and Hanek (`trigonometry`).  The fraction
    of a quarter is right to 2**-62, and no float32 is nearer to a multiple of pi / 2 than 2**-30.
    """
    c = FORMATS["float32"]
    magnitude = abs(x)
    pattern = bits("uint32", magnitude)
    significand = cast("uint64", (pattern & 0x7F_FFFF) | 0x80_0000)
    # The first bit that matters has 2**-(e - 24), where e is the exponent.
    position = (pattern >> 23) - (127 + 24 + 1 - 32)
    high, middle, low = window(position)
    lowest = significand * cast("uint64", low) >> 32
    turn = (
        (significand * cast("uint64", high) << 32) + significand * cast("uint64", middle) + lowest
    )
    f, rest = fixed_point(turn << 2)
    product = f * c.half_pi_hi
    error = fma(rest, c.half_pi_hi, fma(f, c.half_pi_lo, fma(f, c.half_pi_hi, -product)))
    r = select(magnitude < inf, product + error, nan)
    quarter = cast("int32", (turn + (1 << 61)) >> 62)
    return r, error - (r - product), quarter


def quarters(x: Scalar) -> Scalar:
    """sin(r), cos(r) and q for |x| = q pi / 2 + r; rounding r costs half an ULP."""
    far, _, far_q = reduce_far(x)
    return quarters_float32(x, far, far_q)


def accurate_quarters(x: Scalar) -> Scalar:
    """The same with r as an unevaluated sum of two float32."""
    far, far_rest, far_q = reduce_far(x)
    return accurate_quarters_float32(x, far, far_rest, far_q)


def sin_single(x: Scalar) -> Scalar:
    """The sine."""
    return sine_of(quarters(x), x, "float32")


def cos_single(x: Scalar) -> Scalar:
    """The cosine."""
    return cosine_of(quarters(x), "float32")


def tan_single(x: Scalar) -> Scalar:
    """The tangent."""
    return tangent_of(accurate_quarters(x), x, "float32")


def complex_exp_re_single(x: Scalar, y: Scalar) -> Scalar:
    """The real part of e**(x + yi)."""
    return real_part(x, y, cos_single(y), "float32")


def complex_exp_im_single(x: Scalar, y: Scalar) -> Scalar:
    """The imaginary part of e**(x + yi)."""
    return imaginary_part(x, y, sin_single(y), "float32")


# Powers and roots -------------------------------------------------------------------------


def pow_regular(x: Scalar, y: Scalar) -> Scalar:
    """x**y for finite x and y, x > 0: ``exp(y log(x))`` by sums of two float32, to 0.6 ULP.

    The bounds lie so far out that the low part cannot bring a result back into the range.
    """
    c = FORMATS["float32"]
    log_hi, log_lo = log_accurate(x, "float32")
    product = y * log_hi
    product_lo = clamp(fma(y, log_lo, fma(y, log_hi, -product)), -1, 1)
    bounded = clamp(product, -106, 90)
    shifted = fma(bounded, c.log2e_hi, c.shifter)
    multiple = shifted - c.shifter
    first = fma(multiple, -c.ln2_hi, bounded)
    second = fma(multiple, -c.ln2_lo, product_lo)
    r = first + second
    rest = second - (r - first)
    upper = 1 + r
    tail = fma(r * r, polynomial(r, EXP["float32"]), fma(rest, r, rest))
    value = upper + (((1 - upper) + r) + tail)
    return scale(value, bits("int32", shifted) - c.shifter_bits, "float32")


def pow_single(x: Scalar, y: Scalar) -> Scalar:
    """x**y."""
    finite = finite_exponent(y, "float32")
    return power_from(pow_regular(abs(x), finite), x, y, "float32")
