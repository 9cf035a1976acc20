"""NumPy's integer functions that are no primitives.

Division by zero gives 0, and the least integer divided by -1 wraps around, as in NumPy.  Constants
divide by a product and a shift, which vectors have (`scalar.constant_divisors`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from jitcore.codegen import loops
from jitcore.codegen.scalar import expression
from jitcore.codegen.scalar.vocabulary import (
    Scalar,
    bits,
    cast,
    floor,
    quot,
    select,
    trunc,
)

__all__ = [
    "LOOPS",
    "floor_divide",
    "floor_divide_by_constant",
    "floor_divide_unsigned",
    "fmod",
    "fmod_by_constant",
    "quotient_by_constant",
    "remainder",
    "remainder_by_constant",
    "remainder_by_constant_unsigned",
    "sign",
    "sign_unsigned",
]

# The float dtype in which a quotient of two such integers is right after truncation: with p bits
# of precision, |x| < 2**p suffices, because x / y is at least 1 / |y| below the next integer.
QUOTIENT_DTYPE: Final = {
    "int8": "float32",
    "uint8": "float32",
    "int16": "float32",
    "uint16": "float32",
    "int32": "float64",
    "uint32": "float64",
    "int64": "",
    "uint64": "",
}
UNSIGNED: Final = {f"int{size}": f"uint{size}" for size in (8, 16, 32, 64)}
SIZE: Final = {f"uint{size}": size for size in (8, 16, 32, 64)}
TWICE_AS_WIDE: Final = {"uint8": "uint16", "uint16": "uint32", "uint32": "uint64", "uint64": ""}
LOW_HALF: Final = 2**32 - 1
MINIMUM: Final = {dtype: int(np.iinfo(dtype).min) for dtype in QUOTIENT_DTYPE}


def quotient(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """x / y toward zero for y != 0; floats divide as vectors, integers do not."""
    wide = QUOTIENT_DTYPE[dtype]
    return cast(dtype, trunc(cast(wide, x) / cast(wide, y))) if wide else quot(x, y)


def safe_divisor(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """y, or 1 where y is 0 or the quotient would overflow."""
    least = MINIMUM[dtype]
    is_unsafe = (y == 0) | ((x == least) & (y == -1)) if least else y == 0
    return select(is_unsafe, 1, y)


def floor_divide(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The quotient rounded down."""
    divisor = safe_divisor(x, y, dtype)
    return select(y == 0, 0, quotient_below(x, divisor, dtype))


def quotient_below(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """x / y rounded down for y != 0; a float's quotient is as far from the integer above it."""
    wide = QUOTIENT_DTYPE[dtype]
    return cast(dtype, floor(cast(wide, x) / cast(wide, y))) if wide else corrected(x, y)


def corrected(x: Scalar, y: Scalar) -> Scalar:
    """x / y rounded down for y != 0, from the quotient toward zero."""
    toward_zero = quot(x, y)
    rest = x - toward_zero * y
    is_above = (rest != 0) & ((rest < 0) ^ (y < 0))
    return select(is_above, toward_zero - 1, toward_zero)


def floor_divide_unsigned(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The quotient, which needs no rounding down."""
    divisor = safe_divisor(x, y, dtype)
    return select(y == 0, 0, quotient(x, divisor, dtype))


def remainder(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The remainder with the sign of y."""
    divisor = safe_divisor(x, y, dtype)
    rest = x - quotient(x, divisor, dtype) * divisor
    is_above = (rest != 0) & ((rest < 0) ^ (divisor < 0))
    return select(y == 0, 0, select(is_above, rest + divisor, rest))


def fmod(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The remainder with the sign of x."""
    divisor = safe_divisor(x, y, dtype)
    return select(y == 0, 0, x - quotient(x, divisor, dtype) * divisor)


def high_product(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The upper half of a product of unsigned integers; that of 64 bits is made of four parts."""
    wide = TWICE_AS_WIDE[dtype]
    return cast(dtype, (cast(wide, x) * cast(wide, y)) >> SIZE[dtype]) if wide else long_high(x, y)


def long_high(x: Scalar, y: Scalar) -> Scalar:
    """The upper half of a product of uint64 (Knuth, TAOCP 2, 4.3.1, algorithm M)."""
    x_low, x_high = x & LOW_HALF, x >> 32
    y_low, y_high = y & LOW_HALF, y >> 32
    first = x_high * y_low + ((x_low * y_low) >> 32)
    second = x_low * y_high + (first & LOW_HALF)
    return x_high * y_high + (first >> 32) + (second >> 32)


def quotient_by_constant(
    x: Scalar, y: Scalar, multiplier: Scalar, shift: Scalar, dtype: str
) -> Scalar:
    """The quotient of unsigned integers.

    The multiplier has one bit more than the numbers, which is added here without overflow.
    """
    high = high_product(x, multiplier, dtype)
    return (high + ((x - high) >> 1)) >> shift


def remainder_by_constant_unsigned(
    x: Scalar, y: Scalar, multiplier: Scalar, shift: Scalar, dtype: str
) -> Scalar:
    """The remainder of unsigned integers."""
    return x - quotient_by_constant(x, y, multiplier, shift, dtype) * y


def floor_divide_by_constant(
    x: Scalar, y: Scalar, multiplier: Scalar, shift: Scalar, dtype: str
) -> Scalar:
    """The quotient rounded down.

    A negative x has the quotient ``-1 - q`` where ``-1 - x`` has q.  By a negative number, x above
    0 has the quotient ``-1 - q`` where ``x - 1`` has q by its magnitude, and others that of -x.
    """
    unsigned = UNSIGNED[dtype]
    mask = select(x < select(y > 0, cast(dtype, 0), 1), cast(dtype, -1), 0)
    size = bits(unsigned, select(y > 0, x, x - 1) ^ mask)
    high = high_product(size, bits(unsigned, multiplier), unsigned)
    below = bits(dtype, high >> bits(unsigned, shift))
    return below ^ select(y > 0, mask, -1 - mask)


def remainder_by_constant(
    x: Scalar, y: Scalar, multiplier: Scalar, shift: Scalar, dtype: str
) -> Scalar:
    """The remainder with the sign of y."""
    return x - floor_divide_by_constant(x, y, multiplier, shift, dtype) * y


def fmod_by_constant(x: Scalar, y: Scalar, multiplier: Scalar, shift: Scalar, dtype: str) -> Scalar:
    """The remainder with the sign of x."""
    unsigned = UNSIGNED[dtype]
    mask = select(x < 0, cast(dtype, -1), 0)
    size = bits(unsigned, (x ^ mask) - mask)
    divisor = bits(unsigned, select(y > 0, y, -y))
    high = high_product(size, bits(unsigned, multiplier), unsigned)
    rest = size - (high >> bits(unsigned, shift)) * divisor
    return (bits(dtype, rest) ^ mask) - mask


def sign(x: Scalar) -> Scalar:
    """-1, 0 or 1."""
    return select(x > 0, 1, select(x == 0, 0, -1))


def sign_unsigned(x: Scalar) -> Scalar:
    """0 or 1."""
    return select(x > 0, 1, 0)


def _assign(text: str, target: loops.Var, operands: dict[str, loops.Expr]) -> loops.Assign:
    return loops.Assign(target, expression(text, operands, target.dtype))


def pow_loop(dtype: str) -> loops.Function:
    """x**y for y >= 0 by repeated squaring, modulo the dtype's range."""
    x, y = loops.Var("x", dtype), loops.Var("y", dtype)
    names = ("result", "base", "exponent")
    result, base, exponent = (loops.Var(name, dtype) for name in names)
    scope: dict[str, loops.Expr] = {"result": result, "base": base, "exponent": exponent}
    body: list[loops.Stmt] = [
        loops.Let(result, loops.Const(1, dtype), mutable=True),
        loops.Let(base, x, mutable=True),
        loops.Let(exponent, y, mutable=True),
        loops.While(
            [],
            expression("exponent > 0", scope, dtype),
            [
                _assign("select(exponent & 1 != 0, result * base, result)", result, scope),
                _assign("base * base", base, scope),
                _assign("exponent >> 1", exponent, scope),
            ],
        ),
        loops.Return(result),
    ]
    return loops.Function(f"pow_{dtype}", [x, y], body, dtype, pow_loop.__doc__ or "")


def _euclid(dtype: str) -> tuple[loops.Function, dict[str, loops.Expr]]:
    """Euclid's algorithm without its Return, and the names of what it has found.

    The magnitudes ``a`` and ``b`` are unsigned, so that the least integer has one.
    """
    unsigned = dtype if dtype.startswith("u") else f"u{dtype}"
    names = ("a", "b", "divisor", "rest", "following")
    a, b, divisor, rest, following = (loops.Var(name, unsigned) for name in names)
    params = [loops.Var("x", dtype), loops.Var("y", dtype)]
    scope: dict[str, loops.Expr] = {"x": params[0], "y": params[1]}
    scope |= {"a": a, "b": b, "divisor": divisor, "rest": rest}
    body: list[loops.Stmt] = [
        loops.Let(a, expression(f"bits('{unsigned}', abs(x))", scope, unsigned)),
        loops.Let(b, expression(f"bits('{unsigned}', abs(y))", scope, unsigned)),
        loops.Let(divisor, a, mutable=True),
        loops.Let(rest, b, mutable=True),
        loops.While(
            [],
            expression("rest != 0", scope, unsigned),
            [
                loops.Let(following, expression("rem(divisor, rest)", scope, unsigned)),
                loops.Assign(divisor, rest),
                loops.Assign(rest, following),
            ],
        ),
    ]
    return loops.Function("", params, body, dtype), scope


def _euclidean(name: str, text: str, dtype: str, doc: str) -> loops.Function:
    function, scope = _euclid(dtype)
    function.name = f"{name}_{dtype}"
    function.doc = doc
    function.body.append(loops.Return(expression(text, scope, dtype)))
    return function


def gcd_loop(dtype: str) -> loops.Function:
    """The greatest common divisor."""
    return _euclidean("gcd", "bits(dtype, divisor)", dtype, gcd_loop.__doc__ or "")


def lcm_loop(dtype: str) -> loops.Function:
    """The least common multiple, 0 where one of the two is 0."""
    text = "bits(dtype, quot(a, select(divisor == 0, 1, divisor)) * b)"
    return _euclidean("lcm", text, dtype, lcm_loop.__doc__ or "")


LOOPS: Final[dict[str, Callable[[str], loops.Function]]] = {
    "pow": pow_loop,
    "gcd": gcd_loop,
    "lcm": lcm_loop,
}
"""The functions that need a loop, built by hand."""
