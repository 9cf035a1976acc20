"""Sine, cosine and tangent, for ``scalar.function`` to compile.

Any argument is ``x = (q + f) pi / 2`` with an integer q, of which two bits matter, and
``|f| <= 1/2``.  Both come from the product of x with those bits of 2 / pi that neither vanish
modulo 4 nor are too small to matter (Payne and Hanek, "Radian reduction for trigonometric
functions", SIGNUM Newsletter 18, 1983; Muller, Elementary Functions, 3rd ed., section 11.4), which
is right for huge arguments too.  A float32 does that in float64, a float64 in 64-bit integers.

That is most of the work, and arguments below `MODERATE` do without: there q is a small float, and
``q pi / 2`` in three parts leaves enough of the difference (Cody and Waite, Software Manual for the
Elementary Functions, 1980, chapter 8).
"""

from __future__ import annotations

from typing import Final

from jitcore.codegen.scalar.vocabulary import Scalar, bits, cast, fma, inf, nan, polynomial, select
from jitcore.codegen.vecmath.coefficients import COS, SIN, TWO_OVER_PI
from jitcore.codegen.vecmath.formats import FORMATS
from jitcore.codegen.vecmath.logarithm import integer_as_float

__all__ = [
    "MODERATE",
    "TURNS",
    "cos",
    "cos_moderate",
    "sin",
    "sin_moderate",
    "tan",
    "tan_moderate",
    "turned_sine",
    "turned_sine_moderate",
]

MODERATE: Final = {"float32": 2.0**16, "float64": 2.0**31}
"""Below it the error of q keeps r near pi / 4: within a 300th, or a billionth in float64."""

TURNS: Final = {"sin": 0, "cos": 1}
"""How many quarters of a turn later the functions are the sine; see `turned_sine`."""

HALF_PI_HI: Final = FORMATS["float64"].half_pi_hi
HALF_PI_LO: Final = FORMATS["float64"].half_pi_lo
HALF_PI_LOWEST: Final = {"float32": -1.7151245100058819e-15, "float64": -1.4973849048591833e-33}
INVERSE_HALF_PI: Final = {"float32": 0.6366197466850281, "float64": 0.6366197723675814}
LOW_32_BITS: Final = 0xFFFFFFFF

# From the word before the point on, which is zero.
WORDS: Final = (0, *TWO_OVER_PI)


def two_over_pi_below(exponent: int) -> tuple[float, float]:
    """The bits of 2 / pi below 2**exponent, as an unevaluated sum of two float64."""
    bits_after_point = 64 * len(TWO_OVER_PI)
    value = sum(word << 64 * k for k, word in enumerate(reversed(TWO_OVER_PI)))
    unit = 1 << bits_after_point
    part = value % (1 << (bits_after_point + exponent))
    # Python divides whole numbers of any size with one rounding.
    high = part / unit
    numerator, denominator = high.as_integer_ratio()
    return high, (part * denominator - numerator * unit) / (unit * denominator)


# A float32 of at least 2**k is a multiple of 2**(k - 23): bits of 2 / pi from 2**(25 - k) on give
# multiples of 4.  106 bits of the rest leave 58 after the point, up to 2**(k + 22).
SEGMENTS: Final = (
    two_over_pi_below(0),
    *[two_over_pi_below(25 - k) for k in (40, 62, 84, 106)],
)


def sin_cos(r: Scalar, rest: Scalar, dtype: str) -> Scalar:
    """sin and cos of ``r + rest`` for |r| <= pi / 4, where rest is below an ULP of r."""
    z = r * r
    half = 0.5 * z
    upper = 1 - half
    sine = r + fma(r * z, polynomial(z, SIN[dtype]), fma(-half, rest, rest))
    tail = fma(z * z, polynomial(z, COS[dtype]), -(r * rest))
    return sine, upper + (((1 - upper) - half) + tail)


def sin_cos_float32(r: Scalar) -> Scalar:
    """sin and cos of r for |r| <= pi / 4; r is rounded, which costs half an ULP."""
    z = r * r
    sine = fma(r * z, polynomial(z, SIN["float32"]), r)
    return sine, fma(z * z, polynomial(z, COS["float32"]), fma(-0.5, z, 1))


def segment_float32(x: Scalar, k: int) -> Scalar:
    """The higher (k = 0) or lower (k = 1) part of the bits of 2 / pi that matter for x."""
    first = select(x < 2.0**40, cast("float64", SEGMENTS[0][k]), SEGMENTS[1][k])
    second = select(x < 2.0**84, cast("float64", SEGMENTS[2][k]), SEGMENTS[3][k])
    return select(x < 2.0**62, first, select(x < 2.0**106, second, SEGMENTS[4][k]))


def reduce_float32(x: Scalar) -> Scalar:
    """r in float64 and q in int32 with |x| = q pi / 2 + r."""
    c = FORMATS["float64"]
    wide = abs(cast("float64", x))
    factors = [segment_float32(wide, k) for k in range(2)]
    product = wide * factors[0]
    error = fma(wide, factors[1], fma(wide, factors[0], -product))
    shifted = product + c.shifter
    f = (product - (shifted - c.shifter)) + error
    return f * HALF_PI_HI, cast("int32", bits("int64", shifted))


def window(position: Scalar) -> Scalar:
    """The 192 bits of ``WORDS`` from a bit position on, in three words."""
    index = position >> 6
    is_8, is_4, is_2, is_1 = index & 8 != 0, index & 4 != 0, index & 2 != 0, index & 1 != 0
    is_16 = index >= 16
    by_8 = [select(is_8, cast("uint64", WORDS[k + 8]), WORDS[k]) for k in range(11)]
    by_4 = [select(is_4, by_8[k + 4], by_8[k]) for k in range(7)]
    by_2 = [select(is_2, by_4[k + 2], by_4[k]) for k in range(5)]
    by_1 = [select(is_1, by_2[k + 1], by_2[k]) for k in range(4)]
    words = [select(is_16, cast("uint64", WORDS[k + 16]), by_1[k]) for k in range(4)]
    shift = position & 63
    rest = 63 ^ shift
    shifted = [(words[k] << shift) | ((words[k + 1] >> 1) >> rest) for k in range(3)]
    return shifted


def times_window(m: Scalar, w: Scalar) -> Scalar:
    """The upper 128 of the lower 192 bits of m times the window, but for a few of the last units.

    Schoolbook multiplication in 32-bit digits; m has 53 bits.
    """
    low, high = m & LOW_32_BITS, m >> 32
    digits = [(w[2 - k // 2] >> 32 * (k % 2)) & LOW_32_BITS for k in range(6)]
    partial = [low * digits[k] for k in range(5)]
    carry_1 = (partial[1] >> 32) + (high * digits[0] >> 32)
    column_2 = (partial[2] & LOW_32_BITS) + high * digits[1] + carry_1
    carry_2 = (column_2 >> 32) + (partial[2] >> 32)
    column_3 = (partial[3] & LOW_32_BITS) + high * digits[2] + carry_2
    carry_3 = (column_3 >> 32) + (partial[3] >> 32)
    column_4 = (partial[4] & LOW_32_BITS) + high * digits[3] + carry_3
    carry_4 = (column_4 >> 32) + (partial[4] >> 32)
    column_5 = low * digits[5] + high * digits[4] + carry_4
    upper = (column_5 << 32) + (column_4 & LOW_32_BITS)
    return upper, (column_3 << 32) + (column_2 & LOW_32_BITS)


def fixed_point(upper: Scalar, lower: Scalar) -> Scalar:
    """The fraction ``upper:lower / 2**128`` in [-1/2, 1/2) as an unevaluated sum of two floats."""
    first = integer_as_float(bits("int64", upper) >> 32, "float64") * 2.0**-32
    second_bits = ((upper << 19) & 0x7FFFF_FFFF_FFFF) | (lower >> 45)
    second = integer_as_float(bits("int64", second_bits), "float64") * 2.0**-83
    third = integer_as_float(bits("int64", lower & 0x1FFF_FFFF_FFFF), "float64") * 2.0**-128
    total = first + second
    return total, (second - (total - first)) + third


def nearest_quarter(magnitude: Scalar, shifter: Scalar, dtype: str) -> Scalar:
    """q as a float and in the low bits of an integer, and ``magnitude`` less the first part of q.

    That difference is exact: it is below 1 and a multiple of the last place of numbers from 1/2 on,
    or the magnitude itself.  The integer is larger by what ``shifter`` is more than the format's.
    """
    c = FORMATS[dtype]
    shifted = fma(magnitude, INVERSE_HALF_PI[dtype], shifter)
    q = shifted - shifter
    return q, bits(c.integer, shifted), fma(-q, c.half_pi_hi, magnitude)


def reduce_moderate(x: Scalar, shifter: Scalar, dtype: str) -> Scalar:
    """r as an unevaluated sum and q in the low bits of an integer, where |x| is `MODERATE`.

    |x| is q pi / 2 + r.  The second difference is a sum of two numbers (Knuth's TwoSum), since
    little of it may be left.
    """
    c = FORMATS[dtype]
    q, quarter, first = nearest_quarter(abs(x), shifter, dtype)
    product = -q * c.half_pi_lo
    error = fma(-q, c.half_pi_lo, -product)
    second = first + product
    part = second - first
    low = (first - (second - part)) + (product - part)
    rest = fma(-q, HALF_PI_LOWEST[dtype], low + error)
    r = second + rest
    return r, rest - (r - second), quarter


def reduce_moderate_float32(x: Scalar, shifter: Scalar) -> Scalar:
    """The same with r as one float32, which costs half an ULP twice."""
    c = FORMATS["float32"]
    q, quarter, first = nearest_quarter(abs(x), shifter, "float32")
    r = fma(-q, HALF_PI_LOWEST["float32"], fma(-q, c.half_pi_lo, first))
    return r, quarter


def reduce_float64(x: Scalar) -> Scalar:
    """The same for any x, and for one that is `MODERATE` the same numbers."""
    magnitude = abs(x)
    pattern = bits("uint64", magnitude)
    significand = (pattern & 0xF_FFFF_FFFF_FFFF) | 0x10_0000_0000_0000
    # The first bit that matters has 2**-(e - 53), where e is the exponent.
    position = (pattern >> 52) - (1023 + 53 + 1 - 64)
    upper, lower = times_window(significand, window(position))
    f, rest = fixed_point((upper << 2) | (lower >> 62), lower << 2)
    product = f * HALF_PI_HI
    error = fma(rest, HALF_PI_HI, fma(f, HALF_PI_LO, fma(f, HALF_PI_HI, -product)))
    sum_ = product + error
    is_moderate = magnitude < MODERATE["float64"]
    c = FORMATS["float64"]
    moderate, moderate_rest, moderate_quarter = reduce_moderate(x, c.shifter, "float64")
    r = select(is_moderate, moderate, select(magnitude < inf, sum_, nan))
    tail = select(is_moderate, moderate_rest, error - (sum_ - product))
    quarter = bits("int64", (upper + (1 << 61)) >> 62)
    return r, tail, select(is_moderate, moderate_quarter, quarter)


def quarters_float32(x: Scalar, far: Scalar, far_q: Scalar) -> Scalar:
    """sin(r), cos(r) and q for |x| = q pi / 2 + r; rounding r costs half an ULP.

    Where x is not `MODERATE`, r and q are the given ones.
    """
    moderate, moderate_q = reduce_moderate_float32(x, FORMATS["float32"].shifter)
    is_moderate = abs(x) < MODERATE["float32"]
    sine, cosine = sin_cos_float32(select(is_moderate, moderate, far))
    return sine, cosine, select(is_moderate, moderate_q, far_q)


def moderate_float32(x: Scalar) -> Scalar:
    """The same for float32 that are `MODERATE`."""
    return turned_moderate_float32(x, FORMATS["float32"].shifter)


def turned_moderate_float32(x: Scalar, shifter: Scalar) -> Scalar:
    """The same with a q that is larger by some quarters; see `nearest_quarter`."""
    r, q = reduce_moderate_float32(x, shifter)
    sine, cosine = sin_cos_float32(r)
    return sine, cosine, q


def accurate_quarters_float32(x: Scalar, far: Scalar, far_rest: Scalar, far_q: Scalar) -> Scalar:
    """The same with r as an unevaluated sum of two float32."""
    c = FORMATS["float32"]
    moderate, rest, moderate_q = reduce_moderate(x, c.shifter, "float32")
    is_moderate = abs(x) < MODERATE["float32"]
    r, tail = select(is_moderate, moderate, far), select(is_moderate, rest, far_rest)
    sine, cosine = sin_cos(r, tail, "float32")
    return sine, cosine, select(is_moderate, moderate_q, far_q)


def accurately_moderate_float32(x: Scalar) -> Scalar:
    """And for those that are `MODERATE`."""
    c = FORMATS["float32"]
    r, rest, q = reduce_moderate(x, c.shifter, "float32")
    sine, cosine = sin_cos(r, rest, "float32")
    return sine, cosine, q


def wide_quarters(x: Scalar) -> Scalar:
    """The same with those of float64."""
    far, far_q = reduce_float32(x)
    return quarters_float32(x, cast("float32", far), far_q)


def accurate_wide_quarters(x: Scalar) -> Scalar:
    """And with their r as an unevaluated sum of two float32."""
    wide, far_q = reduce_float32(x)
    far = cast("float32", wide)
    rest = cast("float32", wide - cast("float64", far))
    return accurate_quarters_float32(x, far, rest, far_q)


def quarters_float64(x: Scalar) -> Scalar:
    """sin(r), cos(r) and q for |x| = q pi / 2 + r."""
    r, tail, q = reduce_float64(x)
    sine, cosine = sin_cos(r, tail, "float64")
    return sine, cosine, q


def moderate_float64(x: Scalar) -> Scalar:
    """The same for float64 that are `MODERATE`."""
    return turned_moderate_float64(x, FORMATS["float64"].shifter)


def turned_moderate_float64(x: Scalar, shifter: Scalar) -> Scalar:
    """The same with a q that is larger by some quarters; see `nearest_quarter`."""
    r, tail, q = reduce_moderate(x, shifter, "float64")
    sine, cosine = sin_cos(r, tail, "float64")
    return sine, cosine, q


def turned_sine(x: Scalar, shifter: Scalar, dtype: str) -> Scalar:
    """The sine of |x| and some quarters of a turn, with the sign of x; see `nearest_quarter`."""
    c = FORMATS[dtype]
    sine, cosine, q = wide_quarters(x) if dtype == "float32" else quarters_float64(x)
    turn = bits(c.integer, shifter) - c.shifter_bits
    return sine_of((sine, cosine, q + turn), x, dtype)


def turned_sine_moderate(x: Scalar, shifter: Scalar, dtype: str) -> Scalar:
    """The same for a number that is `MODERATE`."""
    quarters = (
        turned_moderate_float32(x, shifter)
        if dtype == "float32"
        else turned_moderate_float64(x, shifter)
    )
    return sine_of(quarters, x, dtype)


def negate_where(value: Scalar, sign: Scalar, dtype: str) -> Scalar:
    """The value with its sign changed where the sign bit of ``sign`` is set."""
    c = FORMATS[dtype]
    return bits(dtype, bits(c.integer, value) ^ (sign & c.sign_mask))


def sin(x: Scalar, dtype: str) -> Scalar:
    """The sine."""
    quarters = wide_quarters(x) if dtype == "float32" else quarters_float64(x)
    return sine_of(quarters, x, dtype)


def sin_moderate(x: Scalar, dtype: str) -> Scalar:
    """The sine of a number that is `MODERATE`."""
    quarters = moderate_float32(x) if dtype == "float32" else moderate_float64(x)
    return sine_of(quarters, x, dtype)


def sine_of(quarters: Scalar, x: Scalar, dtype: str) -> Scalar:
    """The sine of x by ``sin(r), cos(r), q``."""
    c = FORMATS[dtype]
    sine, cosine, q = quarters
    sign = (q << c.sign_shift) ^ bits(c.integer, x)
    return negate_where(select(q & 1 != 0, cosine, sine), sign, dtype)


def cos(x: Scalar, dtype: str) -> Scalar:
    """The cosine."""
    quarters = wide_quarters(x) if dtype == "float32" else quarters_float64(x)
    return cosine_of(quarters, dtype)


def cos_moderate(x: Scalar, dtype: str) -> Scalar:
    """The cosine of a number that is `MODERATE`."""
    quarters = moderate_float32(x) if dtype == "float32" else moderate_float64(x)
    return cosine_of(quarters, dtype)


def cosine_of(quarters: Scalar, dtype: str) -> Scalar:
    """The cosine, which is the sine a quarter of a turn later, by ``sin(r), cos(r), q``."""
    sine, cosine, q = quarters
    return negate_where(
        select(q & 1 != 0, sine, cosine), (q + 1) << FORMATS[dtype].sign_shift, dtype
    )


def tan(x: Scalar, dtype: str) -> Scalar:
    """The tangent."""
    quarters = accurate_wide_quarters(x) if dtype == "float32" else quarters_float64(x)
    return tangent_of(quarters, x, dtype)


def tan_moderate(x: Scalar, dtype: str) -> Scalar:
    """The tangent of a number that is `MODERATE`."""
    quarters = accurately_moderate_float32(x) if dtype == "float32" else moderate_float64(x)
    return tangent_of(quarters, x, dtype)


def tangent_of(quarters: Scalar, x: Scalar, dtype: str) -> Scalar:
    """sin / cos, or -cos / sin in odd quarters, by ``sin(r), cos(r), q``."""
    c = FORMATS[dtype]
    sine, cosine, q = quarters
    is_odd = q & 1 != 0
    quotient = select(is_odd, cosine, sine) / select(is_odd, sine, cosine)
    return negate_where(quotient, (q << (c.sign_shift + 1)) ^ bits(c.integer, x), dtype)
