"""Square roots from an estimate, for ``scalar.function`` to compile.

A processor computes the roots of a vector of float32 in 12 cycles and those of float64 in 25, and
cannot divide meanwhile.  It has an instruction that estimates the inverse of a root, too, and an
iteration of products from there takes 8 and 10 cycles, of other units.  It has the same bits.

The iteration is Goldschmidt's for g, the root, and h, half of its inverse (Markstein, Software
Division and Square Root Using Goldschmidt's Algorithms, RNC 6, 2004, section 4).  A step makes a
relative error e one of 1.5 e**2: after the estimate's 2**-14 there are 1.5 * 2**-28, and then
3.4 * 2**-56.  With their rounding g and h are less than a unit in the last place from what they
stand for, so that what g**2 leaves of x needs no rounding.

Its product with h puts g right.  Let p be the precision and s, the root, between 2**(p - 1) and
2**p, so that x is a multiple of 2**(p - 1), or of 2**p where s is above 2**(p - 1/2).  For s to be
rounded to the wrong side of m, in the middle between two integers, h needs a relative error of
1 / (2 s) where x is m**2 - 1/4, and of three times as much otherwise.  It has one of at most
s / 2**(2 p) + 0.42 / 2**p, which is less where s is at 2**(p - 1), and that much otherwise.  Then
x = m**2 - 1/4, the product of two integers that follow one another, is a multiple of 2**p only
where the second one is 2**p: the largest number below a power of four.  `printers.vector_branches`
leaves that to the instruction.
"""

from __future__ import annotations

from jitcore.codegen.loops import Function
from jitcore.codegen.scalar import function
from jitcore.codegen.scalar.vocabulary import Scalar, fma, inverse_root_estimate, select, sqrt

__all__ = ["LEAST", "root", "root_moderate"]

LEAST = {"float32": 2.0**-63, "float64": 2.0**-511}
"""The least radicand but zero that has a short way, and by twice as much the inverse of the first
that has none: what roots leave of them is a normal number."""


def root(x: Scalar) -> Scalar:
    """The square root."""
    return sqrt(x)


def root_moderate(dtype: str) -> Function:
    """The same for moderate numbers, in vectors only."""
    steps = {"float32": root_float32, "float64": root_float64}
    return function(steps[dtype], dtype)


def root_float32(x: Scalar, dtype: str) -> Scalar:
    """Those of float32, after one step."""
    g, h = estimated(x, dtype)
    g, h = improved(g, h)
    return fma(fma(-g, g, x), h, g)


def root_float64(x: Scalar, dtype: str) -> Scalar:
    """Those of float64, after two."""
    g, h = estimated(x, dtype)
    g, h = improved(g, h)
    g, h = improved(g, h)
    return fma(fma(-g, g, x), h, g)


def estimated(x: Scalar, dtype: str) -> Scalar:
    """The root of a number, and half of its inverse; that of zero is finite, too."""
    inverse = inverse_root_estimate(select(x > LEAST[dtype], x, LEAST[dtype]))
    return x * inverse, 0.5 * inverse


def improved(g: Scalar, h: Scalar) -> Scalar:
    """Both with about twice as many right digits."""
    error = fma(-g, h, 0.5)
    return fma(g, error, g), fma(h, error, h)
