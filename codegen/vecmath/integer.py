"""NumPy's integer functions that are no primitives.

Division by zero gives 0, and the least integer divided by -1 wraps around, as in NumPy.
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
    rem,
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


def floor_divide_by_constant(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The quotient rounded down, for a constant y that is neither 0 nor -1.

    LLVM divides whole vectors by constants: with products and shifts.  Unsigned integers are least
    work, and a negative x has the quotient ``-1 - q`` where ``-1 - x`` has q.
    """
    mask = select(x < 0, cast(dtype, -1), 0)
    size = bits(UNSIGNED[dtype], x ^ mask)
    divisor = bits(UNSIGNED[dtype], select(y > 0, y, 1))
    below = bits(dtype, quot(size, divisor)) ^ mask
    return select(y > 0, below, corrected(x, y))


def remainder_by_constant(x: Scalar, y: Scalar, dtype: str) -> Scalar:
    """The remainder with the sign of y, a constant that is neither 0 nor -1."""
    return x - floor_divide_by_constant(x, y, dtype) * y


def fmod_by_constant(x: Scalar, y: Scalar) -> Scalar:
    """The remainder with the sign of x, for a constant that is neither 0 nor -1."""
    return rem(x, y)


def quotient_by_constant(x: Scalar, y: Scalar) -> Scalar:
    """The quotient of unsigned integers, for a constant that is not 0."""
    return quot(x, y)


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
