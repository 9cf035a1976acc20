"""The parts of functions of complex numbers, with C99's values at infinity (annex G.6.3)."""

from __future__ import annotations

from jitcore.codegen.scalar.vocabulary import Scalar, inf, select
from jitcore.codegen.vecmath.exponential import exp
from jitcore.codegen.vecmath.trigonometry import cos, sin

__all__ = ["complex_exp_im", "complex_exp_re"]

# From here on e**x is computed as the square of e**(x/2), since the cosine may undo an overflow.
LARGE = 88


def complex_exp_re(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The real part of e**(x + yi)."""
    is_large = x > LARGE
    factor = exp(select(is_large, x * 0.5, x), dtype)
    value = factor * cos(y, dtype) * select(is_large, factor, 1)
    is_limit = (abs(x) == inf) & ((y != y) | (abs(y) == inf))
    return select(is_limit, select(x > 0, inf, 0), value)


def complex_exp_im(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The imaginary part of e**(x + yi)."""
    is_large = x > LARGE
    factor = exp(select(is_large, x * 0.5, x), dtype)
    value = factor * sin(y, dtype) * select(is_large, factor, 1)
    is_limit = (x == -inf) & ((y != y) | (abs(y) == inf))
    return select(y == 0, y, select(is_limit, 0, value))
