"""Powers and roots, for ``scalar.function`` to compile."""

from __future__ import annotations

from typing import Final

from jitcore.codegen.scalar.vocabulary import (
    Scalar,
    bits,
    cast,
    copysign,
    extern,
    fma,
    inf,
    nan,
    polynomial,
    rint,
    select,
    sqrt,
)
from jitcore.codegen.vecmath.coefficients import (
    CBRT,
    POW_EXP2_FLOAT32,
    POW_LOG,
    POW_LOG2_FLOAT32,
)
from jitcore.codegen.vecmath.exponential import (
    clamp,
    exp_reduced,
    power_of_two,
    reduce_exp,
    scale,
)
from jitcore.codegen.vecmath.formats import FORMATS
from jitcore.codegen.vecmath.logarithm import integer_as_float, split, split_normal

__all__ = ["LARGEST", "LEAST", "cbrt", "hypot", "pow"]

LEAST, LARGEST = 2.0**-126, 2.0**127
"""Numbers of float32 whose powers with finite exponents are of no special kind."""

TWO_THIRDS_HI: Final = {"float32": 0.6666666865348816, "float64": 2 / 3}
TWO_THIRDS_LO: Final = {"float32": -1.9868215517249155e-08, "float64": 3.700743415417188e-17}
CBRT_2: Final = 2 ** (1 / 3)
CBRT_4: Final = 4 ** (1 / 3)


def log_accurate(x: Scalar, dtype: str) -> Scalar:
    """log(x) for positive x as an unevaluated sum, to about 2**-64, or 2**-35 in float32.

    ``k log(2) + 2 s + 2/3 s**3 + s**5 Q(s**2)`` with s = f / (2 + f), where all but the last term
    are sums of two floats (Dekker, Numerische Mathematik 18, 1971).
    """
    c = FORMATS[dtype]
    exponent, f = split(x, dtype)
    k = integer_as_float(exponent, dtype)
    divisor = 2 + f
    inverse = 1 / divisor
    s = f * inverse
    s_lo = inverse * fma(-s, f - (divisor - 2), fma(-s, divisor, f))
    double = 2 * s
    z = s * s
    z_lo = fma(double, s_lo, fma(s, s, -z))
    cube = z * s
    cube_lo = fma(z, s, -cube) + fma(z, s_lo, z_lo * s)
    two_thirds = TWO_THIRDS_HI[dtype]
    third = two_thirds * cube
    third_lo = fma(two_thirds, cube, -third) + fma(two_thirds, cube_lo, TWO_THIRDS_LO[dtype] * cube)
    whole = k * c.ln2_hi
    whole_lo = fma(k, c.ln2_lo, fma(k, c.ln2_hi, -whole))
    first = whole + double
    second = first + third
    rest = fma(cube * z, polynomial(z, POW_LOG[dtype]), fma(2, s_lo, third_lo + whole_lo))
    low = ((third - (second - first)) + (double - (first - whole))) + rest
    high = second + low
    return high, low - (high - second)


def pow_regular_float64(x: Scalar, y: Scalar) -> Scalar:
    """x**y for finite x and y, x > 0: ``exp(y log(x))`` with an exponent good to 2**-10 ULP.

    The bounds lie so far out that the low part cannot bring a result back into the range.
    """
    log_hi, log_lo = log_accurate(x, "float64")
    product = y * log_hi
    product_lo = fma(y, log_lo, fma(y, log_hi, -product))
    r, n = reduce_exp(clamp(product, -760, 712), "float64")
    return scale(exp_reduced(r + clamp(product_lo, -1, 1), "float64"), n, "float64")


def pow_regular_float32(x: Scalar, y: Scalar) -> Scalar:
    """x**y for finite x and y, x > 0."""
    c = FORMATS["float32"]
    is_subnormal = x < c.min_normal
    k, f = split_normal(select(is_subnormal, x * c.two_mantissa, x), "float32")
    return power_of_parts(select(is_subnormal, k - c.mantissa, k), f, y)


def pow_moderate(x: Scalar, y: Scalar) -> Scalar:
    """x**y for normal x > 0 and finite y."""
    exponent, f = split_normal(x, "float32")
    return power_of_parts(exponent, f, y)


def power_of_parts(exponent: Scalar, f: Scalar, y: Scalar) -> Scalar:
    """x**y of float32 by ``2**(y log2(x))`` in float64, to about 2**-30.

    The inverse for ``s = f / (2 + f)`` is that of float32, which a step of Newton's method makes
    good to 2**-46: a division in float64 takes three times as long.
    """
    c = FORMATS["float64"]
    inverse = cast("float64", 1 / (2 + f))
    wide = cast("float64", f)
    estimate = wide * inverse
    s = fma(estimate, fma(-(2 + wide), inverse, 1), estimate)
    log2 = fma(s, polynomial(s * s, POW_LOG2_FLOAT32["float64"]), cast("float64", exponent))
    bounded = clamp(cast("float64", y) * log2, -160, 130)
    shifted = bounded + c.shifter
    r = bounded - (shifted - c.shifter)
    fraction = fma(r, polynomial(r, POW_EXP2_FLOAT32["float64"]), 1)
    # The shift leaves the integer that the low bits of the shifted number are.
    exponent_bits = bits("int64", shifted) << c.mantissa
    return cast("float32", bits("float64", bits("int64", fraction) + exponent_bits))


def power_in_arrays(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """What NumPy's own loop gives, to the last bit."""
    return pow(x, y, dtype) if dtype == "float32" else extern("jc_power_float64", x, y)


def pow(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """x**y."""
    finite = finite_exponent(y, dtype)
    regular = (
        pow_regular_float32(abs(x), finite)
        if dtype == "float32"
        else pow_regular_float64(abs(x), finite)
    )
    return power_from(regular, x, y, dtype)


def finite_exponent(y: Scalar, dtype: str) -> Scalar:
    """An infinite y acts as a large one, so that 1**y stays 1."""
    c = FORMATS[dtype]
    return clamp(y, -c.large * c.large, c.large * c.large)


def power_from(regular: Scalar, x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """x**y from |x|**y, with the special values of IEEE 754-2019, section 9.2.1."""
    c = FORMATS[dtype]
    magnitude = abs(x)
    extreme = select((magnitude == 0) ^ (y < 0), 0, cast(dtype, inf))
    value = select((magnitude > 0) & (magnitude < inf), regular, extreme)
    half = 0.5 * y
    is_integer = rint(y) == y
    is_odd = is_integer & (rint(half) != half)
    sign = select(is_odd, bits(c.integer, x) & c.sign_mask, cast(c.integer, 0))
    signed = bits(dtype, bits(c.integer, value) ^ sign)
    is_undefined = (x < 0) & (x > -inf) & (rint(y) != y)
    result = select(is_undefined | (x != x) | (y != y), nan, signed)
    return select((y == 0) | (x == 1), 1, result)


def cbrt(x: Scalar, dtype: str) -> Scalar:
    """The cube root of ``m 2**(3 q + r)`` is ``cbrt(m 2**r) 2**q``, r in 0, 1, 2.

    A polynomial estimates z = m**(-1/3); y = m z**2 is then nearly the root, and one step of
    Newton's method with the residual ``y**3 - m`` to twice the precision makes it so.
    """
    c = FORMATS[dtype]
    magnitude = abs(x)
    is_subnormal = magnitude < c.min_normal
    pattern = bits(c.integer, select(is_subnormal, magnitude * c.two_mantissa, magnitude))
    raw = pattern >> c.mantissa
    exponent = select(is_subnormal, raw - c.mantissa, raw) + c.cbrt_offset
    # One third of a number below 2**12, exactly.
    third = (exponent * 43691) >> 17
    part = exponent - 3 * third
    m = bits(dtype, (pattern & c.mantissa_mask) + (c.bias << c.mantissa))
    scaled = m * select(part == 0, 1, select(part == 1, cast(dtype, 2), 4))
    estimate = polynomial(m, CBRT["float32"])
    shrink = select(part == 0, 1, select(part == 1, cast(dtype, 1 / CBRT_2), 1 / CBRT_4))
    z = refined_inverse_cbrt(scaled, estimate * shrink, dtype)
    y = scaled * z * z
    square = y * y
    residual = fma(square, y, -scaled) + y * fma(y, y, -square)
    root = fma(residual * z, z * (-1 / 3), y)
    result = root * power_of_two(third - c.cbrt_third, dtype)
    return select((magnitude > 0) & (magnitude < inf), copysign(result, x), x)


def refined_inverse_cbrt(m: Scalar, z: Scalar, dtype: str) -> Scalar:
    """One step of Newton's method for m**(-1/3), which float32 does without."""
    return z if dtype == "float32" else fma(z * (1 / 3), fma(-m * z, z * z, 1), z)


def hypot(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """sqrt(x**2 + y**2), infinite where one of them is, whatever the other.

    A power of 2 brings both to where squares stay in the range: one for each quarter of the
    exponents, whose number is in the first two bits of the exponent of the larger one.
    """
    c = FORMATS[dtype]
    a, b = abs(x), abs(y)
    length = (c.bias + 1) // 2
    lowest = c.bias - length * 5 // 8  # of what numbers from the range's end are brought to
    quarter = bits(c.integer, select(a > b, a, b)) & (3 * length << c.mantissa)
    down = bits(dtype, (c.bias + lowest << c.mantissa) - quarter)
    back = bits(dtype, (c.bias - lowest << c.mantissa) + quarter)
    p, q = a * down, b * down
    return infinite_where_one_is(sqrt(fma(p, p, q * q)) * back, x, y)


def hypot_of_scalars(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """C's own, which the scalars of NumPy and Python call, to the last bit."""
    return hypot_float32(x, y) if dtype == "float32" else extern("hypot", x, y)


def hypot_float32(x: Scalar, y: Scalar) -> Scalar:
    """In float64, where nothing overflows, as glibc does it."""
    a, b = cast("float64", x), cast("float64", y)
    return infinite_where_one_is(cast("float32", sqrt(fma(a, a, b * b))), x, y)


def infinite_where_one_is(value: Scalar, x: Scalar, y: Scalar) -> Scalar:
    """What C's standard asks of ``hypot``, even where the other one is not a number."""
    return select((abs(x) == inf) | (abs(y) == inf), inf, value)
