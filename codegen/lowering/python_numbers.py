"""Python's arithmetic on ``int``, ``float``, ``bool`` and ``complex``, with its exceptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitcore.codegen.loops import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
    While,
)
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    ZERO,
    both,
    cast,
    compare,
    constant,
    either,
    expression_dtype,
    integer,
    maximum,
    negate,
    not_,
    select,
    subtract,
)
from jitcore.codegen.lowering.elements import store, uncollapsed
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Element,
    NotNative,
    Operand,
    Pair,
    Static,
)
from jitcore.codegen.lowering.python_floats import (
    COMPLEX_RULES,
    FLOAT_RULES,
    INFINITY,
    float_expression,
    is_finite,
)
from jitcore.codegen.lowering.ranges import Linear
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node, Value
from jitcore.ir.types import BOOL, COMPLEX, FLOAT, INT, TensorType

__all__ = ["RULES", "as_float", "as_int"]

MAX_CONSTANT = 256
"""Elements of an array that is written out as literals."""

TOO_LARGE = (
    "an int does not fit into the 64 bits of compiled code, and Python cannot begin the call anew, "
    "because it has written to its arguments by now; compute the int before the first write, or as "
    "a float or an integer of NumPy"
)
"""What the error says where Python cannot take the call, which has ints of any size."""

LEAST = integer(-(2**63))
FLOAT_ZERO = constant(0.0, "float64")


# Operands ---------------------------------------------------------------------------------


def as_int(lowering: Lowering, value: Value) -> Expr:
    """An ``int`` or a ``bool`` as int64."""
    return lowering.emitter.let(value.name, cast(lowering.scalar(value), "int64"))


def as_float(lowering: Lowering, value: Value) -> Expr:
    """A Python number that is not complex as float64, rounded as Python rounds."""
    return lowering.emitter.let(value.name, cast(lowering.scalar(value), "float64"))


def as_complex(lowering: Lowering, value: Value) -> Pair:
    """Any Python number as a pair of float64."""
    operand = lowering.operand(value)
    return operand if isinstance(operand, Pair) else Pair(as_float(lowering, value), FLOAT_ZERO)


def _named(lowering: Lowering, node: Node, value: Element) -> Element:
    """Bind a result under the name the user gave it."""
    name = node.output.name
    if isinstance(value, Pair):
        let = lowering.emitter.let
        return Pair(let(f"{name}_re", value.re), let(f"{name}_im", value.im))
    return lowering.emitter.let(name, value)


# Integers ---------------------------------------------------------------------------------

IntRule = Callable[[Lowering, Expr, Expr], Expr]


def _checked(op: str) -> IntRule:
    def rule(lowering: Lowering, x: Expr, y: Expr) -> Expr:
        ranges = lowering.ranges
        form = linear_form(lowering, op, x, y)
        if form is not None and not form.terms and ranges.fits(form):
            return integer(form.constant)
        if form is None or not ranges.fits(form):
            lowering.fail(Binary(f"{op}_overflows", x, y, "bool"), OverflowError, TOO_LARGE)
        return Binary(op, x, y, "int64")

    return rule


def linear_form(lowering: Lowering, op: str, x: Expr, y: Expr) -> Linear | None:
    """A sum, a difference or a product of two int64 as a linear form, where it is one."""
    if op not in ("add", "sub", "mul"):
        return None
    left, right = lowering.ranges.form(x), lowering.ranges.form(y)
    if op == "mul":
        if not left.terms:
            return right.times(left.constant)
        return left.times(right.constant) if not right.terms else None
    return left.plus(right, 1 if op == "add" else -1)


def _floordiv(lowering: Lowering, x: Expr, y: Expr) -> Expr:
    lowering.fail(compare("eq", y, ZERO), ZeroDivisionError, "integer division or modulo by zero")
    if y != ONE and not (isinstance(y, Const) and y.value > 0):
        overflows = both(compare("eq", x, LEAST), compare("eq", y, integer(-1)))
        lowering.fail(overflows, OverflowError, TOO_LARGE)
    quotient, remainder = _truncated(lowering, x, y)
    return subtract(quotient, select(_is_rounded_up(remainder, y), ONE, ZERO))


def _mod(lowering: Lowering, x: Expr, y: Expr) -> Expr:
    lowering.fail(compare("eq", y, ZERO), ZeroDivisionError, "integer modulo by zero")
    remainder = lowering.emitter.let("remainder", Binary("rem", x, y, "int64"))
    adjusted = Binary("add", remainder, y, "int64")
    return select(_is_rounded_up(remainder, y), adjusted, remainder)


def _truncated(lowering: Lowering, x: Expr, y: Expr) -> tuple[Expr, Expr]:
    quotient = lowering.emitter.let("quotient", Binary("quot", x, y, "int64"))
    return quotient, lowering.emitter.let("remainder", Binary("rem", x, y, "int64"))


def _is_rounded_up(remainder: Expr, y: Expr) -> Expr:
    """Whether C's quotient, toward zero, is above Python's floor."""
    signs_differ = compare("lt", Binary("xor", remainder, y, "int64"), ZERO)
    return both(compare("ne", remainder, ZERO), signs_differ)


def _pow(lowering: Lowering, base: Expr, exponent: Expr) -> Expr:
    """Square and multiply; the exponent is not negative."""
    lowering.fail(compare("lt", exponent, ZERO), None, "an int to a negative power")
    if isinstance(exponent, Const) and exponent.value <= 4:
        result: Expr = ONE
        for _ in range(exponent.value):
            product = _checked("mul")(lowering, result, base)
            result = base if result == ONE else lowering.emitter.let("power", product)
        return result
    emitter = lowering.emitter
    result_var = emitter.mutable("power", ONE)
    base_var = emitter.mutable("base", base)
    left = emitter.mutable("exponent", exponent)
    body: list[Any] = []
    with emitter.inside(body):
        is_odd = compare("ne", Binary("and", left, ONE, "int64"), ZERO)
        with emitter.branch(is_odd):
            lowering.fail(
                Binary("mul_overflows", result_var, base_var, "bool"), OverflowError, TOO_LARGE
            )
            emitter.assign(result_var, Binary("mul", result_var, base_var, "int64"))
        emitter.assign(left, Binary("shr", left, ONE, "int64"))
        with emitter.branch(compare("gt", left, ZERO)):
            lowering.fail(
                Binary("mul_overflows", base_var, base_var, "bool"), OverflowError, TOO_LARGE
            )
            emitter.assign(base_var, Binary("mul", base_var, base_var, "int64"))
    emitter.emit(While([], compare("gt", left, ZERO), body))
    return emitter.copy("power", result_var)


def _lshift(lowering: Lowering, x: Expr, count: Expr) -> Expr:
    lowering.fail(compare("lt", count, ZERO), ValueError, "negative shift count")
    small = lowering.emitter.let("count", Binary("min", count, integer(63), "int64"))
    shifted = lowering.emitter.let("shifted", Binary("shl", x, small, "int64"))
    back = Binary("shr", shifted, small, "int64")
    lost = both(
        compare("ne", x, ZERO), either(compare("ne", back, x), compare("gt", count, integer(63)))
    )
    lowering.fail(lost, OverflowError, TOO_LARGE)
    return shifted


def _rshift(lowering: Lowering, x: Expr, count: Expr) -> Expr:
    lowering.fail(compare("lt", count, ZERO), ValueError, "negative shift count")
    return Binary("shr", x, Binary("min", count, integer(63), "int64"), "int64")


def _bitwise(op: str) -> IntRule:
    return lambda lowering, x, y: Binary(op, x, y, x.dtype)


_INTEGER_RULES: dict[str, IntRule] = {
    "add": _checked("add"),
    "sub": _checked("sub"),
    "mul": _checked("mul"),
    "floordiv": _floordiv,
    "mod": _mod,
    "pow": _pow,
    "lshift": _lshift,
    "rshift": _rshift,
    "and_": _bitwise("and"),
    "or_": _bitwise("or"),
    "xor": _bitwise("xor"),
}


# Operators --------------------------------------------------------------------------------


def _operator(name: str) -> Rule:
    def rule(lowering: Lowering, node: Node) -> Operand:
        x, y = node.inputs
        type_ = node.output.type
        if type_ == COMPLEX and name in COMPLEX_RULES:
            pair = COMPLEX_RULES[name](lowering, as_complex(lowering, x), as_complex(lowering, y))
            return _named(lowering, node, pair)
        if type_ == FLOAT and name == "truediv" and x.type != FLOAT and y.type != FLOAT:
            return _named(lowering, node, _integer_truediv(lowering, x, y))
        if type_ == FLOAT and name in FLOAT_RULES:
            left, right = as_float(lowering, x), as_float(lowering, y)
            return _named(lowering, node, FLOAT_RULES[name](lowering, left, right))
        if type_ == BOOL and name in ("and_", "or_", "xor"):
            flags = lowering.scalar(x), lowering.scalar(y)
            return _named(lowering, node, _INTEGER_RULES[name](lowering, *flags))
        if type_ == INT and name in _INTEGER_RULES:
            left, right = as_int(lowering, x), as_int(lowering, y)
            result = _named(lowering, node, _INTEGER_RULES[name](lowering, left, right))
            form = linear_form(lowering, name, left, right)
            if form is not None:
                lowering.ranges.define(result, form)
            return result
        raise NotNative(f"{node.kind} of {x.type} and {y.type}")

    return rule


def _integer_truediv(lowering: Lowering, x: Value, y: Value) -> Expr:
    """``int / int``: right where both are exact as floats; host code does the others."""
    left, right = as_int(lowering, x), as_int(lowering, y)
    lowering.fail(compare("eq", right, ZERO), ZeroDivisionError, "division by zero")
    limit = integer(2**53)
    inexact: Expr = FALSE
    for one in (left, right):
        above = either(compare("gt", one, limit), compare("lt", one, integer(-(2**53))))
        inexact = either(inexact, above)
    lowering.fail(inexact, None, "a quotient of ints beyond 2**53")
    return float_expression("div", cast(left, "float64"), cast(right, "float64"))


def _comparison(op: str) -> Rule:
    def rule(lowering: Lowering, node: Node) -> Operand:
        x, y = node.inputs
        if COMPLEX in (x.type, y.type):
            left, right = as_complex(lowering, x), as_complex(lowering, y)
            same = both(compare("eq", left.re, right.re), compare("eq", left.im, right.im))
            return _named(lowering, node, same if op == "eq" else not_(same))
        if x.type == y.type == FLOAT:
            return _named(lowering, node, compare(op, lowering.scalar(x), lowering.scalar(y)))
        if FLOAT in (x.type, y.type):
            return _named(lowering, node, _mixed(lowering, op, x, y))
        one, two = as_int(lowering, x), as_int(lowering, y)
        flag = lowering.emitter.let(node.output.name, compare(op, one, two))
        lowering.ranges.condition(flag, op, one, two)
        return flag

    return rule


_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def _mixed(lowering: Lowering, op: str, x: Value, y: Value) -> Expr:
    """An int against a float, exactly: CPython does not round the int."""
    if x.type == FLOAT:
        return _mixed(lowering, _MIRRORED[op], y, x)
    let = lowering.emitter.let
    number, other = let("n", as_int(lowering, x)), lowering.scalar(y)
    rounded = let("rounded", cast(number, "float64"))
    # Where the rounded int equals the float, both are integers and the float tells exactly,
    # except for 2.0**63, which is above every int64.
    is_tie = compare("eq", rounded, other)
    is_top = compare("eq", other, constant(2.0**63, "float64"))
    exact = compare(op, number, Cast(other, "int64"))
    at_top = Const(op in ("lt", "le", "ne"), "bool")
    return Select(
        is_tie, Select(is_top, at_top, exact, "bool"), compare(op, rounded, other), "bool"
    )


# One operand ------------------------------------------------------------------------------


def _neg(lowering: Lowering, node: Node) -> Operand:
    (x,) = node.inputs
    if x.type == COMPLEX:
        pair = as_complex(lowering, x)
        parts = (Unary("neg", part, "float64") for part in (pair.re, pair.im))
        return _named(lowering, node, Pair(*parts))
    if x.type == FLOAT:
        return _named(lowering, node, Unary("neg", lowering.scalar(x), "float64"))
    return _named(lowering, node, _checked("sub")(lowering, ZERO, as_int(lowering, x)))


def _pos(lowering: Lowering, node: Node) -> Operand:
    (x,) = node.inputs
    if x.type == BOOL:
        return _named(lowering, node, as_int(lowering, x))
    return lowering.operand(x)


def _invert(lowering: Lowering, node: Node) -> Operand:
    return _named(lowering, node, Unary("not", as_int(lowering, node.inputs[0]), "int64"))


def _not(lowering: Lowering, node: Node) -> Operand:
    flag = _truth(lowering, node.inputs[0])
    return _named(lowering, node, not_(flag))


def _truth(lowering: Lowering, value: Value) -> Expr:
    operand = lowering.operand(value)
    if isinstance(operand, Pair):
        return either(cast(operand.re, "bool"), cast(operand.im, "bool"))
    return cast(lowering.scalar(value), "bool")


def _bool(lowering: Lowering, node: Node) -> Operand:
    return _named(lowering, node, _truth(lowering, node.inputs[0]))


def _abs(lowering: Lowering, node: Node) -> Operand:
    (x,) = node.inputs
    if x.type == COMPLEX:
        pair = as_complex(lowering, x)
        size = lowering.emitter.let(
            "size", Call("hypot", (pair.re, pair.im), "float64", external=True)
        )
        overflows = both(both(is_finite(pair.re), is_finite(pair.im)), not_(is_finite(size)))
        lowering.fail(overflows, OverflowError, "absolute value too large")
        return _named(lowering, node, size)
    if x.type == FLOAT:
        return _named(lowering, node, Unary("fabs", lowering.scalar(x), "float64"))
    number = as_int(lowering, x)
    lowering.fail(compare("eq", number, LEAST), OverflowError, TOO_LARGE)
    return _named(lowering, node, maximum(number, subtract(ZERO, number)))


def _float(lowering: Lowering, node: Node) -> Operand:
    return _named(lowering, node, cast(lowering.scalar(node.inputs[0]), "float64"))


def _int(lowering: Lowering, node: Node) -> Operand:
    number = lowering.scalar(node.inputs[0])
    if number.dtype not in ("float32", "float64", "float16"):
        if number.dtype == "uint64":
            wrapped = lowering.emitter.let("number", cast(number, "int64"))
            lowering.fail(compare("lt", wrapped, ZERO), OverflowError, TOO_LARGE)
            return wrapped
        return _named(lowering, node, cast(number, "int64"))
    wide = lowering.emitter.let("number", cast(number, "float64"))
    return _named(lowering, node, float_to_int(lowering, wide))


def float_to_int(lowering: Lowering, x: Expr) -> Expr:
    """``int()`` of a float64 that is a whole number or is to be truncated."""
    lowering.fail(compare("ne", x, x), ValueError, "cannot convert float NaN to integer")
    is_infinite = compare("eq", Unary("fabs", x, "float64"), INFINITY)
    lowering.fail(is_infinite, OverflowError, "cannot convert float infinity to integer")
    limit = constant(2.0**63, "float64")
    below = compare("lt", x, constant(-(2.0**63), "float64"))
    lowering.fail(either(compare("ge", x, limit), below), OverflowError, TOO_LARGE)
    return cast(x, "int64")


def _round(lowering: Lowering, node: Node) -> Operand:
    x = as_float(lowering, node.inputs[0])
    return _named(lowering, node, float_to_int(lowering, Unary("rint", x, "float64")))


def _complex(lowering: Lowering, node: Node) -> Operand:
    re, im = (as_float(lowering, value) for value in node.inputs)
    return _named(lowering, node, Pair(re, im))


def _extremum(name: str) -> Rule:
    def rule(lowering: Lowering, node: Node) -> Operand:
        x, y = (lowering.scalar(value) for value in node.inputs)
        # Python keeps the first unless the second is strictly better.
        is_better = compare("lt" if name == "min" else "gt", y, x)
        result = _named(lowering, node, select(is_better, y, x))
        if name == "min" and node.output.type == INT:
            lowering.ranges.minimum(result, x, y)
        return result

    return rule


def _range_length(lowering: Lowering, node: Node) -> Operand:
    start, stop, step = (as_int(lowering, value) for value in node.inputs)
    is_up = compare("gt", step, ZERO)
    low, high = select(is_up, start, stop), select(is_up, stop, start)
    size = abs(step.value) if isinstance(step, Const) else None
    if size is None:
        low, high = lowering.emitter.let("low", low), lowering.emitter.let("high", high)
    ranges = lowering.ranges
    form = ranges.form(high).plus(ranges.form(low), -1)
    if not ranges.fits(form):
        lowering.fail(
            both(compare("gt", high, low), Binary("sub_overflows", high, low, "bool")),
            OverflowError,
            TOO_LARGE,
        )
    span = maximum(subtract(high, low), ZERO)
    if size != 1:
        # Nobody looks at the length where the step is 0, but a processor would stop.
        divisor = select(compare("eq", step, ZERO), ONE, select(is_up, step, negate(step)))
        # The number of whole steps in span - 1, plus one, cannot overflow.
        whole = Binary("quot", subtract(span, ONE), divisor, "int64")
        span = select(compare("gt", high, low), Binary("add", whole, ONE, "int64"), ZERO)
    length = _named(lowering, node, span)
    assert not isinstance(length, Pair)
    ranges.at_least(length, 0)
    if size is not None:
        ranges.length(length, form, size)
    return length


def _constant(lowering: Lowering, node: Node) -> Operand:
    value, type_ = node.attributes["value"], node.output.type
    if isinstance(type_, TensorType) and type_.dtype is not None:
        return _array_constant(lowering, node, np.asarray(value, type_.dtype), type_)
    if type_ == INT:
        if not -(2**63) <= value < 2**63:
            raise NotNative("an int of more than 64 bits")
        return integer(value)
    if type_ in (FLOAT, BOOL):
        return constant(value, "float64" if type_ == FLOAT else "bool")
    if type_ == COMPLEX:
        return Pair(constant(value.real, "float64"), constant(value.imag, "float64"))
    if issubclass(type(value), tuple):
        return tuple(Static(one) for one in value) if not value else Static(value)
    return Static(value)


def _array_constant(
    lowering: Lowering, node: Node, value: np.ndarray[Any, Any], type_: TensorType
) -> Operand:
    if not type_.scalar:
        return _constant_array(lowering, node, value)
    return _element(value[()])


def _constant_array(lowering: Lowering, node: Node, value: np.ndarray[Any, Any]) -> ArrayRef:
    """A small array, written element by element."""
    if value.size > MAX_CONSTANT or lowering.escapes(node.output):
        raise NotNative("a large constant array, or one that leaves the function")
    dims = [integer(extent) for extent in value.shape]
    target = lowering.allocate("constant", dims, value.dtype, escapes=False)
    for place in np.ndindex(*value.shape):
        index = uncollapsed([integer(number) for number in place])
        store(lowering, target, index, _element(value[place]))
    return target


def _element(value: Any) -> Element:
    part = expression_dtype(value.dtype)
    if value.dtype.kind == "c":
        return Pair(constant(value.real, part), constant(value.imag, part))
    return constant(value, part)


def _uninitialized(lowering: Lowering, node: Node) -> Operand:
    return Static(None)


_BINARY_NAMES = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lshift",
    "rshift",
    "and_",
    "or_",
    "xor",
]

RULES: dict[str, Rule] = {
    **{f"prim::{name}": _operator(name) for name in _BINARY_NAMES},
    **{f"prim::{name}": _comparison(name) for name in _MIRRORED},
    "prim::neg": _neg,
    "prim::pos": _pos,
    "prim::invert": _invert,
    "prim::not_": _not,
    "prim::bool": _bool,
    "prim::abs": _abs,
    "prim::float": _float,
    "prim::int": _int,
    "prim::round": _round,
    "prim::complex": _complex,
    "prim::min": _extremum("min"),
    "prim::max": _extremum("max"),
    "prim::range_length": _range_length,
    "prim::Constant": _constant,
    "prim::Uninitialized": _uninitialized,
}
