"""Functions of float32 that devices compute by NVIDIA's library for them, libdevice.

It uses what only devices have: instructions that estimate ``2**x``, ``log2(x)``, ``1 / x`` and
``1 / sqrt(x)``.  With them an exponential takes 8 instructions and a hyperbolic tangent 15, where
our own, which are made of fused multiply-adds, take 21 and 36: too many to keep pace with the
memory of the fastest devices.  Errors are at most 3 units in the last place (CUDA C++ Programming
Guide, "Mathematical Functions", the table of maximum errors of the standard functions).  Functions
of the library with larger errors, or with more instructions than ours, are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jitcore.codegen.scalar.vocabulary import Scalar, extern, select

__all__ = ["FUNCTIONS"]


def arccos(x: Scalar) -> Scalar:
    """The inverse of the cosine."""
    return extern("acosf", x)


def arcsin(x: Scalar) -> Scalar:
    """The inverse of the sine."""
    return extern("asinf", x)


def arctan(x: Scalar) -> Scalar:
    """The inverse of the tangent."""
    return extern("atanf", x)


def cbrt(x: Scalar) -> Scalar:
    """The cubic root."""
    return extern("cbrtf", x)


def cosh(x: Scalar) -> Scalar:
    """The hyperbolic cosine."""
    return extern("coshf", x)


def erf(x: Scalar) -> Scalar:
    """The error function."""
    return extern("erff", x)


def exp(x: Scalar) -> Scalar:
    """e**x."""
    return extern("expf", x)


def exp2(x: Scalar) -> Scalar:
    """2**x."""
    return extern("exp2f", x)


def log(x: Scalar) -> Scalar:
    """The natural logarithm."""
    return extern("logf", x)


def log10(x: Scalar) -> Scalar:
    """The logarithm to base 10."""
    return extern("log10f", x)


def log2(x: Scalar) -> Scalar:
    """The logarithm to base 2."""
    return extern("log2f", x)


def sigmoid(x: Scalar) -> Scalar:
    """1 / (1 + e**-x), by the exponential that cannot overflow."""
    e = exp(-abs(x))
    return select(x < 0, e, 1) / (1 + e)


def sinh(x: Scalar) -> Scalar:
    """The hyperbolic sine."""
    return extern("sinhf", x)


def tanh(x: Scalar) -> Scalar:
    """The hyperbolic tangent."""
    return extern("tanhf", x)


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    one.__name__: one
    for one in (
        *(arccos, arcsin, arctan, cbrt, cosh, erf, exp, exp2),
        *(log, log10, log2, sigmoid, sinh, tanh),
    )
}
