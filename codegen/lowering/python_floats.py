"""Python's arithmetic on ``float`` and ``complex``, with its exceptions."""

from __future__ import annotations

import sys
from collections.abc import Callable

from jitcore.codegen.loops import Binary, Call, Expr, Unary
from jitcore.codegen.lowering.arithmetic import both, compare, constant, not_, select
from jitcore.codegen.lowering.operands import Pair
from jitcore.codegen.lowering.state import Lowering

__all__ = ["COMPLEX_RULES", "FLOAT_RULES", "INFINITY", "float_expression", "is_finite"]

FLOAT_ZERO = constant(0.0, "float64")
FLOAT_ONE = constant(1.0, "float64")
INFINITY = constant(float("inf"), "float64")

FloatRule = Callable[[Lowering, Expr, Expr], Expr]


def float_expression(op: str, x: Expr, y: Expr) -> Expr:
    """A binary primitive on two float64."""
    return Binary(op, x, y, "float64")


def is_finite(x: Expr) -> Expr:
    """Whether a float64 is neither infinite nor NaN."""
    return compare("lt", Unary("fabs", x, "float64"), INFINITY)


_BY_ZERO = "float modulo by zero" if sys.version_info >= (3, 13) else "float modulo"

# Floats -----------------------------------------------------------------------------------


def _float_truediv(lowering: Lowering, x: Expr, y: Expr) -> Expr:
    lowering.fail(compare("eq", y, FLOAT_ZERO), ZeroDivisionError, "float division by zero")
    return float_expression("div", x, y)


def _float_mod(lowering: Lowering, x: Expr, y: Expr) -> Expr:
    lowering.fail(compare("eq", y, FLOAT_ZERO), ZeroDivisionError, _BY_ZERO)
    return _divmod(lowering, x, y)[1]


def _float_floordiv(lowering: Lowering, x: Expr, y: Expr) -> Expr:
    lowering.fail(compare("eq", y, FLOAT_ZERO), ZeroDivisionError, "float floor division by zero")
    return _divmod(lowering, x, y)[0]


def _divmod(lowering: Lowering, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """CPython's ``float_divmod`` (Objects/floatobject.c)."""
    let = lowering.emitter.let
    remainder = let("remainder", Call("fmod", (x, y), "float64"))
    quotient = float_expression("div", float_expression("sub", x, remainder), y)
    differs = not_(
        Binary(
            "eq",
            compare("lt", y, FLOAT_ZERO),
            compare("lt", remainder, FLOAT_ZERO),
            "bool",
        )
    )
    is_zero = compare("eq", remainder, FLOAT_ZERO)
    adjusts = let("adjusts", both(not_(is_zero), differs))
    zero = float_expression("copysign", FLOAT_ZERO, y)
    modulo = select(
        is_zero, zero, select(adjusts, float_expression("add", remainder, y), remainder)
    )
    quotient = let(
        "quotient", select(adjusts, float_expression("sub", quotient, FLOAT_ONE), quotient)
    )
    floor = let("floor", Unary("floor", quotient, "float64"))
    half = constant(0.5, "float64")
    is_above = compare("gt", float_expression("sub", quotient, floor), half)
    rounded = select(is_above, float_expression("add", floor, FLOAT_ONE), floor)
    empty = float_expression("copysign", FLOAT_ZERO, float_expression("div", x, y))
    return select(compare("ne", quotient, FLOAT_ZERO), rounded, empty), modulo


def _float_pow(lowering: Lowering, x: Expr, y: Expr) -> Expr:
    """CPython's ``float_pow``; complex results continue in host code."""
    emitter = lowering.emitter
    zero_base = both(compare("eq", x, FLOAT_ZERO), compare("lt", y, FLOAT_ZERO))
    message = "0.0 cannot be raised to a negative power"
    lowering.fail(zero_base, ZeroDivisionError, message)
    fraction = compare("ne", Unary("floor", y, "float64"), y)
    is_complex = both(
        both(is_finite(x), is_finite(y)), both(compare("lt", x, FLOAT_ZERO), fraction)
    )
    lowering.fail(is_complex, None, "a power with a complex result")
    result = emitter.let("power", Call("pow", (x, y), "float64", external=True))
    overflows = both(both(is_finite(x), is_finite(y)), not_(is_finite(result)))
    lowering.fail(overflows, OverflowError, "(34, 'Numerical result out of range')")
    return result


def _float_plain(op: str) -> FloatRule:
    return lambda lowering, x, y: float_expression(op, x, y)


FLOAT_RULES: dict[str, FloatRule] = {
    "add": _float_plain("add"),
    "sub": _float_plain("sub"),
    "mul": _float_plain("mul"),
    "truediv": _float_truediv,
    "floordiv": _float_floordiv,
    "mod": _float_mod,
    "pow": _float_pow,
}


# Complex numbers --------------------------------------------------------------------------


def _complex_sum(op: str) -> Callable[[Lowering, Pair, Pair], Pair]:
    def rule(lowering: Lowering, x: Pair, y: Pair) -> Pair:
        return Pair(float_expression(op, x.re, y.re), float_expression(op, x.im, y.im))

    return rule


def _complex_mul(lowering: Lowering, x: Pair, y: Pair) -> Pair:
    def times(a: Expr, b: Expr) -> Expr:
        return float_expression("mul", a, b)

    re = float_expression("sub", times(x.re, y.re), times(x.im, y.im))
    im = float_expression("add", times(x.re, y.im), times(x.im, y.re))
    return Pair(re, im)


def _complex_truediv(lowering: Lowering, x: Pair, y: Pair) -> Pair:
    """CPython's ``_Py_c_quot`` (Objects/complexobject.c), which is Smith's algorithm."""
    let = lowering.emitter.let
    is_zero = both(compare("eq", y.re, FLOAT_ZERO), compare("eq", y.im, FLOAT_ZERO))
    lowering.fail(is_zero, ZeroDivisionError, "complex division by zero")

    def times(a: Expr, b: Expr) -> Expr:
        return float_expression("mul", a, b)

    def plus(a: Expr, b: Expr) -> Expr:
        return float_expression("add", a, b)

    def minus(a: Expr, b: Expr) -> Expr:
        return float_expression("sub", a, b)

    size_re, size_im = Unary("fabs", y.re, "float64"), Unary("fabs", y.im, "float64")
    by_re = let("by_re", compare("ge", size_re, size_im))
    big = let("big", select(by_re, y.re, y.im))
    small = let("small", select(by_re, y.im, y.re))
    ratio = let("ratio", float_expression("div", small, big))
    denominator = let("denominator", plus(big, times(small, ratio)))
    re = select(by_re, plus(x.re, times(x.im, ratio)), plus(times(x.re, ratio), x.im))
    im = select(by_re, minus(x.im, times(x.re, ratio)), minus(times(x.im, ratio), x.re))
    return Pair(float_expression("div", re, denominator), float_expression("div", im, denominator))


COMPLEX_RULES: dict[str, Callable[[Lowering, Pair, Pair], Pair]] = {
    "add": _complex_sum("add"),
    "sub": _complex_sum("sub"),
    "mul": _complex_mul,
    "truediv": _complex_truediv,
}
