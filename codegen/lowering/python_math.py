"""The ``math`` module: libm, with the exceptions of CPython's ``mathmodule.c``."""

from __future__ import annotations

import math
from collections.abc import Callable

from jitcore.codegen.loops import Binary, Call, Expr, Select, Unary
from jitcore.codegen.lowering.arithmetic import FALSE, both, compare, constant, either, not_
from jitcore.codegen.lowering.operands import Operand
from jitcore.codegen.lowering.python_floats import INFINITY, is_finite
from jitcore.codegen.lowering.python_numbers import as_float, float_to_int
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node

__all__ = ["RULES"]

DOMAIN = "math domain error"
RANGE = "math range error"
ZERO = constant(0.0, "float64")
TINY = 1e-300

_OVERFLOWING = ("exp", "exp2", "expm1", "cosh", "sinh")
_BOUNDED = (
    "sqrt",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "fabs",
    "erf",
    "erfc",
    "cbrt",
)
_LOGARITHMS = ("log", "log2", "log10")
_PRIMITIVES = {"sqrt": "sqrt", "fabs": "fabs"}


def is_nan(x: Expr) -> Expr:
    """Whether a float64 is NaN."""
    return compare("ne", x, x)


def _is_infinite(x: Expr) -> Expr:
    return compare("eq", Unary("fabs", x, "float64"), INFINITY)


def _named(lowering: Lowering, node: Node, value: Expr) -> Expr:
    return lowering.emitter.let(node.output.name, value)


def _function(name: str, *, overflows: bool) -> Rule:
    """A function of one number (``math_1`` in CPython)."""

    def rule(lowering: Lowering, node: Node) -> Operand:
        x = as_float(lowering, node.inputs[0])
        if name in _PRIMITIVES:
            value: Expr = Unary(_PRIMITIVES[name], x, "float64")
        else:
            value = Call(name, (x,), "float64", external=True)
        result = _named(lowering, node, value)
        is_wrong = both(is_nan(result), not_(is_nan(x)))
        is_pole = both(_is_infinite(result), is_finite(x))
        if overflows:
            lowering.fail(is_pole, OverflowError, RANGE)
        else:
            is_wrong = either(is_wrong, is_pole)
        lowering.fail(is_wrong, ValueError, DOMAIN)
        return result

    return rule


def _logarithm(name: str) -> Rule:
    def rule(lowering: Lowering, node: Node) -> Operand:
        x = as_float(lowering, node.inputs[0])
        lowering.fail(compare("le", x, ZERO), ValueError, DOMAIN)
        return _named(lowering, node, Call(name, (x,), "float64", external=True))

    return rule


def _scaled(factor: float) -> Rule:
    def rule(lowering: Lowering, node: Node) -> Operand:
        x = as_float(lowering, node.inputs[0])
        return _named(lowering, node, Binary("mul", x, constant(factor, "float64"), "float64"))

    return rule


def _rounded(op: str) -> Rule:
    def rule(lowering: Lowering, node: Node) -> Operand:
        x = as_float(lowering, node.inputs[0])
        whole = lowering.emitter.let("whole", Unary(op, x, "float64"))
        return _named(lowering, node, float_to_int(lowering, whole))

    return rule


def _test(test: Callable[[Expr], Expr]) -> Rule:
    def rule(lowering: Lowering, node: Node) -> Operand:
        return _named(lowering, node, test(as_float(lowering, node.inputs[0])))

    return rule


def _pow(lowering: Lowering, node: Node) -> Operand:
    x, y = (as_float(lowering, value) for value in node.inputs)
    result = _named(lowering, node, Call("pow", (x, y), "float64", external=True))
    finite = both(is_finite(x), is_finite(y))
    is_pole = both(finite, _is_infinite(result))
    at_zero = both(is_pole, compare("eq", x, ZERO))
    is_wrong = either(both(finite, is_nan(result)), at_zero)
    lowering.fail(is_wrong, ValueError, DOMAIN)
    lowering.fail(is_pole, OverflowError, RANGE)
    return result


def _gamma(lowering: Lowering, node: Node) -> Operand:
    x = as_float(lowering, node.inputs[0])
    result = _named(lowering, node, Call("gamma", (x,), "float64"))
    at_zero = compare("eq", x, ZERO)
    lowering.fail(either(both(is_nan(result), not_(is_nan(x))), at_zero), ValueError, DOMAIN)
    lowering.fail(both(_is_infinite(result), is_finite(x)), OverflowError, RANGE)
    return result


def _lgamma(lowering: Lowering, node: Node) -> Operand:
    """SciPy's ``gammaln`` is infinite at numbers whose inverse is, and -inf at -inf."""
    x = as_float(lowering, node.inputs[0])
    size = lowering.emitter.let("size", Unary("fabs", x, "float64"))
    tiny = compare("lt", size, constant(TINY, "float64"))
    value = Call("gammaln", (x,), "float64")
    near_zero = Unary("neg", Call("log", (size,), "float64"), "float64")
    finite = Select(tiny, near_zero, value, "float64")
    result = _named(lowering, node, Select(compare("eq", size, INFINITY), size, finite, "float64"))
    is_pole = both(_is_infinite(result), is_finite(x))
    lowering.fail(both(is_pole, compare("le", x, ZERO)), ValueError, DOMAIN)
    lowering.fail(is_pole, OverflowError, RANGE)
    return result


def _pair(name: str, *, checked: bool) -> Rule:
    """A function of two numbers."""

    def rule(lowering: Lowering, node: Node) -> Operand:
        x, y = (as_float(lowering, value) for value in node.inputs)
        result = _named(lowering, node, Call(name, (x, y), "float64", external=True))
        given = both(not_(is_nan(x)), not_(is_nan(y)))
        is_wrong = both(is_nan(result), given) if checked else FALSE
        lowering.fail(is_wrong, ValueError, DOMAIN)
        return result

    return rule


def _copysign(lowering: Lowering, node: Node) -> Operand:
    x, y = (as_float(lowering, value) for value in node.inputs)
    return _named(lowering, node, Binary("copysign", x, y, "float64"))


RULES: dict[str, Rule] = {
    **{f"math::{name}": _function(name, overflows=True) for name in _OVERFLOWING},
    **{f"math::{name}": _function(name, overflows=False) for name in _BOUNDED},
    **{f"math::{name}": _logarithm(name) for name in _LOGARITHMS},
    **{f"math::{name}": _rounded(name) for name in ("floor", "ceil", "trunc")},
    "math::degrees": _scaled(180.0 / math.pi),
    "math::radians": _scaled(math.pi / 180.0),
    "math::isnan": _test(is_nan),
    "math::isinf": _test(_is_infinite),
    "math::isfinite": _test(is_finite),
    "math::gamma": _gamma,
    "math::lgamma": _lgamma,
    "math::pow": _pow,
    "math::atan2": _pair("atan2", checked=False),
    "math::hypot": _pair("hypot", checked=False),
    "math::fmod": _pair("fmod", checked=True),
    "math::remainder": _pair("remainder", checked=True),
    "math::copysign": _copysign,
}
