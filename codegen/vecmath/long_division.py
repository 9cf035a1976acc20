"""Divisions of integers of 64 bits by float64, for vectors; processors divide one pair at a time.

Division by zero gives 0, and the least integer divided by -1 wraps around, as in NumPy.
"""

from __future__ import annotations

from typing import Final

from jitcore.codegen.scalar.vocabulary import Scalar, cast, floor, select, trunc
from jitcore.codegen.vecmath.exponential import clamp
from jitcore.codegen.vecmath.integer import safe_divisor

__all__ = [
    "MODERATE",
    "floor_divide",
    "floor_divide_moderate",
    "floor_divide_unsigned",
    "fmod",
    "fmod_moderate",
    "remainder",
    "remainder_moderate",
    "remainder_unsigned",
]

MODERATE: Final = 2**53
"""float64 holds all integers below it, and rounds no quotient of two to the next integer."""


def floor_divide_moderate(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The quotient rounded down, of integers that float64 holds."""
    below = cast(dtype, floor(cast("float64", x) / cast("float64", select(y == 0, 1, y))))
    return select(y == 0, 0, below)


def remainder_moderate(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The remainder with the sign of y, of integers that float64 holds."""
    return select(y == 0, 0, x - floor_divide_moderate(x, y, dtype) * y)


def fmod_moderate(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The remainder with the sign of x, of integers that float64 holds."""
    below = cast(dtype, trunc(cast("float64", x) / cast("float64", select(y == 0, 1, y))))
    return select(y == 0, 0, x - below * y)


def floor_and_rest(x: Scalar, y: Scalar) -> Scalar:
    """x / y rounded down, and what remains of x, for int64 whose quotient is one.

    The first quotient is good to 2**-51, so that at most y and 2**12 remain.  Those divide exactly
    where y is below 2**52.  Otherwise the second quotient is near -1, 0 or 1; as rounding keeps the
    order of numbers, it is then one too large or right.
    """
    divisor = cast("float64", y)
    estimate = cast("float64", x) / divisor
    first = cast("int64", clamp(estimate, -(2.0**63), 2.0**63 - 1024))
    rest = x - first * y
    second = cast("int64", floor(cast("float64", rest) / divisor))
    last = rest - second * y
    is_above = (last != 0) & ((last < 0) ^ (y < 0))
    below = first + second
    return select(is_above, below - 1, below), select(is_above, last + y, last)


def floor_and_rest_unsigned(x: Scalar, y: Scalar) -> Scalar:
    """The same for uint64, where the first quotient must not be too large."""
    divisor = cast("float64", y)
    estimate = cast("float64", x) / divisor
    first = cast("uint64", estimate * (1 - 2.0**-50))
    rest = x - first * y
    second = cast("uint64", floor(cast("float64", rest) / divisor))
    product = second * y
    is_above = rest < product
    below, last = first + second, rest - product
    return select(is_above, below - 1, below), select(is_above, last + y, last)


def floor_divide(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The quotient of int64 rounded down."""
    below, _ = floor_and_rest(x, safe_divisor(x, y, dtype))
    return select(y == 0, 0, below)


def remainder(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The remainder of int64 with the sign of y."""
    _, rest = floor_and_rest(x, safe_divisor(x, y, dtype))
    return select(y == 0, 0, rest)


def fmod(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The remainder of int64 with the sign of x."""
    divisor = safe_divisor(x, y, dtype)
    _, rest = floor_and_rest(x, divisor)
    is_other = (rest != 0) & ((rest < 0) ^ (x < 0))
    return select(y == 0, 0, select(is_other, rest - divisor, rest))


def floor_divide_unsigned(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The quotient of uint64."""
    below, _ = floor_and_rest_unsigned(x, safe_divisor(x, y, dtype))
    return select(y == 0, 0, below)


def remainder_unsigned(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The remainder of uint64."""
    _, rest = floor_and_rest_unsigned(x, safe_divisor(x, y, dtype))
    return select(y == 0, 0, rest)
