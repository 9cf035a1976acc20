"""The ``math`` module."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor
from jitcore.ir.ops.operators import is_tensor
from jitcore.ir.reference import require
from jitcore.ir.types import (
    BOOL,
    FLOAT,
    INT,
    Type,
)

__all__ = ["OPS"]


_MATH_DOMAIN = (
    "sqrt",
    "exp",
    "log2",
    "log10",
    "log1p",
    "expm1",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "fabs",
    "erf",
    "erfc",
    "gamma",
    "lgamma",
    "degrees",
    "radians",
    "cbrt",
    "exp2",
)


def _as_float(b: Builder, value: Value) -> Value:
    if value.type == FLOAT:
        return value
    if value.type in (INT, BOOL) or (is_tensor(value) and tensor(value).dims == ()):
        return b.op("prim::float", value)
    raise Untypable(f"the math module on {value.type}")


def _math_rule(name: str, arguments: tuple[str, ...], result: Type) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        values = [_as_float(b, call.value(argument)) for argument in arguments]
        return b.emit(f"math::{name}", values, {}, result)

    return rule


def _math_integer_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        if x.type == INT:
            return x
        if name == "trunc" and is_tensor(x) and tensor(x).dtype != np.dtype(np.float64):
            raise Untypable("of NumPy's scalars only float64 has a __trunc__")
        return b.emit(f"math::{name}", [_as_float(b, x)], {}, INT)

    return rule


def _math_host_rule(b: Builder, call: Call) -> Value:
    raise Untypable("runs in the host program")


# What the module computes with Python's own numbers ---------------------------------------


def _logarithm(x: Any, base: Any) -> Any:
    return math.log(x) / math.log(base)


def _greatest_divisor(x: Any, y: Any) -> Any:
    x, y = abs(x), abs(y)
    while y != 0:
        x, y = y, x % y
    return x


def _least_multiple(x: Any, y: Any) -> Any:
    if x == 0 or y == 0:
        return 0
    return abs(x // math.gcd(x, y) * y)


def _factorial(n: Any) -> Any:
    require(n >= 0, "ValueError", "factorial() not defined for negative values")
    result = 1
    for factor in range(2, n + 1):
        result *= factor
    return result


def _arrangements(n: Any, k: Any) -> Any:
    require(n >= 0, "ValueError", "n must be a non-negative integer")
    require(k >= 0, "ValueError", "k must be a non-negative integer")
    result = 1
    for number in range(k if k <= n else 0):
        result *= n - number
    return result if k <= n else 0


def _choices(n: Any, k: Any) -> Any:
    require(n >= 0, "ValueError", "n must be a non-negative integer")
    require(k >= 0, "ValueError", "k must be a non-negative integer")
    result = 1
    for number in range(min(k, n - k)):
        result = result * (n - number) // (number + 1)
    return result if k <= n else 0


def _whole_root(n: Any) -> Any:
    """``math.isqrt``, also where Python runs this, of ints of any size.

    Newton's iteration from above (Cohen, A Course in Computational Algebraic Number Theory,
    algorithm 1.7.1), but for ints whose neighbours a float's root is right to one of.
    """
    require(n >= 0, "ValueError", "isqrt() argument must be nonnegative")
    if n < _ROOTS_OF_FLOATS:
        root = int(math.sqrt(n))
        return root - 1 if root * root > n else root
    root = 2**32
    rest = n // root // root
    while rest > 0:
        root *= 2
        rest //= 4
    lower = (root + n // root) // 2
    while lower < root:
        root = lower
        lower = (root + n // root) // 2
    return root


_ROOTS_OF_FLOATS = 2**62
"""Below this the root of the nearest float, 2**31 at most, is at most one too large."""


def _parts(x: Any) -> Any:
    if math.isinf(x):
        return math.copysign(0.0, x), x
    whole = float(np.trunc(x))
    return math.copysign(x - whole, x), whole


def _are_close(x: Any, y: Any, relative: Any, absolute: Any) -> Any:
    require(relative >= 0 and absolute >= 0, "ValueError", "tolerances must be non-negative")
    if x == y:
        return True
    if math.isinf(x) or math.isinf(y):
        return False
    apart = math.fabs(y - x)
    near = apart <= math.fabs(relative * y) or apart <= math.fabs(relative * x)
    return near or apart <= absolute


def _neighbour(x: Any, y: Any) -> Any:
    return float(np.nextafter(x, y))


def _last_place(x: Any) -> Any:
    size = math.fabs(x)
    if size != size or math.isinf(size):
        return size
    above = math.nextafter(size, math.inf)
    if math.isinf(above):
        return size - math.nextafter(size, -math.inf)
    return above - size


def _defined_rule(definition: Any, names: tuple[str, ...], *, integers: bool) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        values = [call.bound[name] if name in call.bound else call.static(name) for name in names]
        operands = [one if isinstance(one, Value) else b.constant(one) for one in values]
        if not integers:
            operands = [_as_float(b, one) for one in operands]
        elif any(one.type != INT for one in operands):
            raise Untypable("the math module on something else than ints")
        return b.define(definition, *operands)

    return rule


def _log_rule(b: Builder, call: Call) -> Value:
    x, base = _as_float(b, call.value("x")), call.bound.get("base")
    if isinstance(base, Value):
        return b.define(_logarithm, x, _as_float(b, base))
    return b.emit("math::log", [x], {}, FLOAT)


def _hypot_rule(b: Builder, call: Call) -> Value:
    values = [_as_float(b, one) for one in call.bound["values"]]
    if len(values) != 2:
        raise Untypable("math.hypot of other than two numbers")
    return b.emit("math::hypot", values, {}, FLOAT)


def _product_rule(b: Builder, call: Call) -> Value:
    start = call.bound.get("start", 1)
    result = start if isinstance(start, Value) else b.constant(start)
    for one in b.elements(call.value("iterable")):
        result = b.op("prim::mul", result, one)
    return result


def _math_op(name: str, parameters: str, rule: Rule) -> Op:
    f = getattr(math, name)
    doc = (f.__doc__ or name).strip().split("\n")[0]
    return Op(f"math::{name}", f, rule, parameters, functions=(f,), doc=doc)


OPS: tuple[Op, ...] = (
    *(_math_op(name, "x", _math_rule(name, ("x",), FLOAT)) for name in _MATH_DOMAIN),
    *(
        _math_op(name, "x, y", _math_rule(name, ("x", "y"), FLOAT))
        for name in ("pow", "atan2", "copysign", "fmod", "remainder")
    ),
    *(
        _math_op(name, "x", _math_rule(name, ("x",), BOOL))
        for name in ("isnan", "isinf", "isfinite")
    ),
    *(_math_op(name, "x", _math_integer_rule(name)) for name in ("floor", "ceil", "trunc")),
    _math_op("log", "x, base=None", _log_rule),
    _math_op("hypot", "*values", _hypot_rule),
    _math_op("prod", "iterable, *, start=1", _product_rule),
    *(
        _math_op(name, ", ".join(names), _defined_rule(definition, names, integers=True))
        for name, names, definition in (
            ("gcd", ("x", "y"), _greatest_divisor),
            ("lcm", ("x", "y"), _least_multiple),
            ("factorial", ("n",), _factorial),
            ("perm", ("n", "k"), _arrangements),
            ("comb", ("n", "k"), _choices),
            ("isqrt", ("n",), _whole_root),
        )
    ),
    _math_op("modf", "x", _defined_rule(_parts, ("x",), integers=False)),
    _math_op("nextafter", "x, y", _defined_rule(_neighbour, ("x", "y"), integers=False)),
    _math_op("ulp", "x", _defined_rule(_last_place, ("x",), integers=False)),
    _math_op(
        "isclose",
        "a, b, *, rel_tol=1e-09, abs_tol=0.0",
        _defined_rule(_are_close, ("a", "b", "rel_tol", "abs_tol"), integers=False),
    ),
    *(_math_op(name, "*values", _math_host_rule) for name in ("ldexp", "frexp", "fsum", "dist")),
)
