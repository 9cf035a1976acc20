"""Quotients and remainders of floats, for ``scalar.function`` to compile.

These give NumPy's own results to the last bit.  ``frem`` is C's ``fmod``, which subtracts one bit
of the quotient after the other.  Where the quotient is below `MODERATE`, the division rounds it to
an integer that is right or one too large, since rounding keeps the order of numbers; and what the
product with that leaves of x is a multiple of the last place of y that is at most y, so it needs
no rounding (Sterbenz, Floating-Point Computation, 1974, section 4.3, on such differences).
"""

from __future__ import annotations

from typing import Final

from jitcore.codegen.scalar.vocabulary import Scalar, copysign, floor, fma, frem, select, trunc

__all__ = [
    "MODERATE",
    "divide",
    "floor_divide",
    "floor_divide_moderate",
    "fmod",
    "fmod_moderate",
    "remainder",
    "remainder_by_constant",
    "remainder_by_constant_moderate",
    "remainder_moderate",
]

MODERATE: Final = {"float32": 2.0**22, "float64": 2.0**51}
"""Integers below it and the next ones are floats."""


def divide(x: Scalar, y: Scalar, inverse: Scalar) -> Scalar:
    """The quotient by a number whose inverse is given: `printers.vector_branches` needs that."""
    return x / y


def fmod(x: Scalar, y: Scalar) -> Scalar:
    """The remainder of the quotient that is cut off, with the sign of x."""
    return frem(x, y)


def fmod_moderate(x: Scalar, y: Scalar) -> Scalar:
    """The same for a quotient that is `MODERATE`."""
    magnitude, divisor = abs(x), abs(y)
    quotient = trunc(magnitude / divisor)
    rest = fma(-quotient, divisor, magnitude)
    # An infinite divisor leaves x, but has no product with 0.
    kept = select(quotient == 0, magnitude, select(rest < 0, rest + divisor, rest))
    return copysign(kept, x)


def remainder(x: Scalar, y: Scalar) -> Scalar:
    """The remainder of Python's divmod, which has the sign of y."""
    return remainder_by_fmod(frem(x, y), y)


def remainder_moderate(x: Scalar, y: Scalar) -> Scalar:
    """The same for a quotient that is `MODERATE`.

    What the product leaves is rounded once, as NumPy's sum of `fmod` and y is.  Where the quotient
    is one too large, that needs no rounding, as in `fmod_moderate`.
    """
    quotient = floor(x / y)
    rest = fma(-quotient, y, x)
    # An infinite divisor leaves x, but has no product with 0.
    return remainder_by_rest(select(quotient == 0, x, rest), y)


def remainder_by_constant(x: Scalar, y: Scalar, inverse: Scalar) -> Scalar:
    """The remainder of a division by a normal number, whose inverse is given, rounded."""
    return remainder(x, y)


def remainder_by_constant_moderate(x: Scalar, y: Scalar, inverse: Scalar) -> Scalar:
    """The same for a quotient that is `MODERATE`, without a division.

    The product with the inverse is less than 1 beside the quotient, so the integer below may be one
    too small, too.  Then what it leaves is not below y, rounded or not.
    """
    estimate = floor(x * inverse)
    rest = fma(-estimate, y, x)
    quotient = select(abs(rest) >= abs(y), estimate + 1, estimate)
    return remainder_by_rest(fma(-quotient, y, x), y)


def remainder_by_rest(rest: Scalar, y: Scalar) -> Scalar:
    """The remainder by what a quotient leaves that is right or one too large."""
    nonzero = select((y < 0) ^ (rest < 0), rest + y, rest)
    return select(rest != 0, nonzero, copysign(0, y))


def remainder_by_fmod(mod: Scalar, y: Scalar) -> Scalar:
    """The remainder of Python's divmod by that of the quotient that is cut off."""
    is_other_sign = (y < 0) ^ (mod < 0)
    nonzero = select(is_other_sign, mod + y, mod)
    return select(y == 0, mod, select(mod != 0, nonzero, copysign(0, y)))


def floor_divide(x: Scalar, y: Scalar) -> Scalar:
    """The quotient of Python's divmod, as NumPy's npy_divmod finds it: near floor(x / y)."""
    return quotient_by_fmod(frem(x, y), x, y)


def floor_divide_moderate(x: Scalar, y: Scalar) -> Scalar:
    """The same for a quotient that is `MODERATE`."""
    return quotient_by_fmod(fmod_moderate(x, y), x, y)


def quotient_by_fmod(mod: Scalar, x: Scalar, y: Scalar) -> Scalar:
    """The quotient of Python's divmod by the remainder of the quotient that is cut off."""
    is_other_sign = (mod != 0) & ((y < 0) ^ (mod < 0))
    exact = (x - mod) / y
    quotient = select(is_other_sign, exact - 1, exact)
    below = floor(quotient)
    nearest = select(quotient - below > 0.5, below + 1, below)
    snapped = select(quotient != 0, nearest, copysign(0, x / y))
    return select(y == 0, x / y, snapped)
