"""Numbers that are unevaluated sums of two, for ``scalar.function`` to compile.

The products and quotients of Dekker (Numerische Mathematik 18, 1971), with fused multiply-adds.
"""

from __future__ import annotations

from jitcore.codegen.scalar.vocabulary import Scalar, fma, inf, select

__all__ = ["quotient", "times"]


def times(hi: Scalar, lo: Scalar, factor: Scalar) -> Scalar:
    """``(hi + lo) factor`` as such a sum."""
    product = hi * factor
    return product, fma(lo, factor, fma(hi, factor, -product))


def quotient(hi: Scalar, lo: Scalar, divisor_hi: Scalar, divisor_lo: Scalar) -> Scalar:
    """(hi + lo) / (divisor_hi + divisor_lo), rounded nearly once."""
    inverse = 1 / divisor_hi
    rough = hi * inverse
    residual = fma(-rough, divisor_hi, hi) + fma(-rough, divisor_lo, lo)
    return select(abs(inverse) < inf, fma(residual, inverse, rough), rough)
