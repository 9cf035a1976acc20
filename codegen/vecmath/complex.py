"""The parts of functions of complex numbers, with C99's values at infinity (annex G.6.3)."""

from __future__ import annotations

from jitcore.codegen.scalar.vocabulary import Scalar, inf, select
from jitcore.codegen.vecmath.exponential import exp
from jitcore.codegen.vecmath.trigonometry import cos, sin

__all__ = ["complex_exp_im", "complex_exp_re", "imaginary_part", "real_part"]

# From here on e**x is computed as the square of e**(x/2), since the factor may undo an overflow.
LARGE = 88


def complex_exp_re(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The real part of e**(x + yi)."""
    return real_part(x, y, cos(y, dtype), dtype)


def complex_exp_im(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The imaginary part of e**(x + yi)."""
    return imaginary_part(x, y, sin(y, dtype), dtype)


def real_part(x: Scalar, y: Scalar, cosine: Scalar, dtype: str) -> Scalar:
    """The real part of e**(x + yi) by the cosine of y."""
    value = exp_times(x, cosine, dtype)
    is_limit = (abs(x) == inf) & ((y != y) | (abs(y) == inf))
    return select(is_limit, select(x > 0, inf, 0), value)


def imaginary_part(x: Scalar, y: Scalar, sine: Scalar, dtype: str) -> Scalar:
    """The imaginary part of e**(x + yi) by the sine of y."""
    value = exp_times(x, sine, dtype)
    is_limit = (x == -inf) & ((y != y) | (abs(y) == inf))
    return select(y == 0, y, select(is_limit, 0, value))


def exp_times(x: Scalar, factor: Scalar, dtype: str) -> Scalar:
    """``e**x factor``, where the factor may undo an overflow."""
    is_large = x > LARGE
    root = exp(select(is_large, x * 0.5, x), dtype)
    return root * factor * select(is_large, root, 1)
