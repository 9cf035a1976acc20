"""Divisions of integers by constants: products and shifts, which vectors have, in their place.

For numbers below ``2**bits`` and a divisor d > 1, with ``d <= 2**s`` as closely as possible and
``m = ceil(2**(bits + s) / d)``, the quotient is ``floor(x m / 2**(bits + s))``: m is less than
``2**s / d`` too large beside ``2**(bits + s) / d``, which x does not make a whole (Granlund and
Montgomery, Division by Invariant Integers using Multiplication, PLDI 1994, theorem 4.2).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from jitcore.codegen import loops

__all__ = ["DIVISIONS", "constant_divisor", "divided_by_constant", "inverse_of"]

DIVISIONS: Final = frozenset({"floor_divide", "remainder", "fmod"})


def divided_by_constant(name: str, x: loops.Expr, divisor: loops.Const) -> loops.Expr:
    """A division of an integer by a constant of its dtype.

    Parameters
    ----------
    name : str
        One of `DIVISIONS`.
    x : Expr
    divisor : Const
    """
    value, dtype = int(divisor.value), x.dtype
    is_quotient = name == "floor_divide"
    if value in (-1, 0, 1):
        return _trivial(x, value) if is_quotient else loops.Const(0, dtype)
    is_power = value > 0 and value & (value - 1) == 0
    if is_power and is_quotient:
        return loops.Binary("shr", x, loops.Const(value.bit_length() - 1, dtype), dtype)
    if is_power and (name == "remainder" or dtype.startswith("u")):
        return loops.Binary("and", x, loops.Const(value - 1, dtype), dtype)
    numbers = (loops.Const(number, dtype) for number in constant_divisor(value, dtype))
    return loops.Call(f"{name}_by_constant", (x, divisor, *numbers), dtype)


def inverse_of(divisor: loops.Const) -> loops.Const | None:
    """The inverse of a float, rounded, where that and the float itself are normal numbers."""
    if divisor.dtype not in ("float32", "float64"):
        return None
    limits = np.finfo(divisor.dtype)
    value = limits.dtype.type(divisor.value)
    if not limits.tiny <= abs(value) <= 1 / limits.tiny:
        return None
    return loops.Const(float(1 / value), divisor.dtype)


def _trivial(x: loops.Expr, divisor: int) -> loops.Expr:
    """The quotient by -1, 0 or 1; NumPy gives 0 for the second."""
    if divisor == 0:
        return loops.Const(0, x.dtype)
    return x if divisor == 1 else loops.Unary("neg", x, x.dtype)


def constant_divisor(value: int, dtype: str) -> tuple[int, int]:
    """The multiplier of a divisor that is neither 0 nor 1 nor -1, and how far to shift the product.

    The product's upper half is shifted.  Magnitudes of signed integers, up to the least one's, have
    one bit less than their dtype, and a multiplier then has as many bits as that.  The multipliers
    of unsigned integers have one bit more, the highest, which is left out.

    Returns
    -------
    multiplier : int
        Less ``2**bits`` of the dtype, which gives the same bits.
    shift : int
    """
    size = 8 * np.dtype(dtype).itemsize
    magnitude = abs(value)
    scale = (magnitude - 1).bit_length()
    bits = size if dtype.startswith("u") else size - 1
    return -(-(2 ** (bits + scale)) // magnitude) - 2**size, scale - 1
