"""The parts of complex operations, and shifts: what elementwise ops need beside the functions of
real numbers."""

from __future__ import annotations

from typing import Final

import numpy as np

from jitcore.codegen.scalar.vocabulary import Scalar, fma, inf, nan, select, sqrt

__all__ = [
    "complex_absolute",
    "complex_divide_im",
    "complex_divide_re",
    "shift_left",
    "shift_right",
]

WIDTH: Final = {
    dtype: np.dtype(dtype).itemsize * 8
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}


def complex_absolute(x: Scalar, y: Scalar) -> Scalar:
    """The absolute value of x + yi, with the roundings of NumPy's loops over arrays."""
    a, b = abs(x), abs(y)
    large, small = select(a > b, a, b), select(a > b, b, a)
    ratio = small / select(large > 0, large, 1)
    value = sqrt(fma(ratio, ratio, 1)) * large
    finite = select((a != a) | (b != b), nan, value)
    return select((a == inf) | (b == inf), inf, finite)


def complex_divide_re(a: Scalar, b: Scalar, c: Scalar, d: Scalar) -> Scalar:
    """The real part of (a + bi) / (c + di), by R. L. Smith's algorithm (CACM 5, 1962, p. 435)."""
    first = abs(c) >= abs(d)
    is_zero = (c == 0) & (d == 0)
    large = select(first, select(is_zero, 1, c), d)
    small = select(first, d, c)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    part = select(first, a + b * ratio, a * ratio + b)
    return select(is_zero, a / abs(c), part * scale)


def complex_divide_im(a: Scalar, b: Scalar, c: Scalar, d: Scalar) -> Scalar:
    """The imaginary part of (a + bi) / (c + di)."""
    first = abs(c) >= abs(d)
    is_zero = (c == 0) & (d == 0)
    large = select(first, select(is_zero, 1, c), d)
    small = select(first, d, c)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    part = select(first, b - a * ratio, b * ratio - a)
    return select(is_zero, b / abs(c), part * scale)


def shift_left(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """x << y, and 0 for counts that are negative or not below the width."""
    is_valid = (y >= 0) & (y < WIDTH[dtype])
    return select(is_valid, x << select(is_valid, y, 0), 0)


def shift_right(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """x >> y, and 0 or -1 for counts that are negative or not below the width."""
    is_valid = (y >= 0) & (y < WIDTH[dtype])
    return select(is_valid, x >> select(is_valid, y, 0), select(x < 0, -1, 0))


def shift_right_unsigned(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """x >> y, and 0 for counts that are not below the width."""
    is_valid = y < WIDTH[dtype]
    return select(is_valid, x >> select(is_valid, y, 0), 0)
