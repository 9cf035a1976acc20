"""The error function and its complement, for ``scalar.function`` to compile.

Up to 1/2, ``erf(x) / x`` is a polynomial.  Beyond, ``erfc(x) = g(q) exp(-x**2) / (1 + 2 x)`` with
``q = (x - k) / (x + k)``, where g is nearly constant and one polynomial on the whole half line
(Shepherd and Laframboise, Mathematics of Computation 36, 1981).
"""

from __future__ import annotations

from jitcore.codegen.scalar_vocabulary import Scalar, copysign, fma, polynomial, select
from jitcore.codegen.vecmath_coefficients import ERF, ERFC
from jitcore.codegen.vecmath_exponential import expm1_reduced, reduce_exp, scale
from jitcore.codegen.vecmath_formats import FORMATS

__all__ = ["erf", "erfc"]


def erf_small(x: Scalar, dtype: str) -> Scalar:
    """erf(x) for |x| <= 1/2."""
    return fma(x, polynomial(x * x, ERF[dtype]), x)


def erfc_positive(x: Scalar, dtype: str) -> Scalar:
    """erfc(x) for x >= 1/2; the rounding error of x**2 goes into the reduced argument of exp."""
    c = FORMATS[dtype]
    bounded = select(x > c.erfc_max, c.erfc_max, x)
    square = bounded * bounded
    r, n = reduce_exp(-square, dtype)
    e = expm1_reduced(r - fma(bounded, bounded, -square), dtype)
    q = (bounded - c.erfc_pole) / (bounded + c.erfc_pole)
    g = polynomial(q, ERFC[dtype])
    return scale(fma(g, e, g) / fma(2, bounded, 1), n, dtype)


def erf(x: Scalar, dtype: str) -> Scalar:
    """The error function."""
    magnitude = abs(x)
    large = copysign(1 - erfc_positive(magnitude, dtype), x)
    return select(magnitude > 0.5, large, erf_small(x, dtype))


def erfc(x: Scalar, dtype: str) -> Scalar:
    """1 - erf(x), without the cancellation."""
    magnitude = abs(x)
    tail = erfc_positive(magnitude, dtype)
    large = select(x < 0, 2 - tail, tail)
    return select(magnitude > 0.5, large, 1 - erf_small(x, dtype))
